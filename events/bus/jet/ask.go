package jet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"stint/events/bus"
	"stint/events/bus/internal/fenced"
)

// A question is one message, and so is its answer if it is small and comes soon. Else the first reply names a subject,
// more.<secret>, where the asker fetches the rest: "wait" there is answered within a second by the answer or by
// word that it is still being worked on, an offset by the bytes from there on. So a big answer fills no buffer on its way, one
// who answers and dies is noticed within seconds, and so is an asker who left.
const (
	withinHeader  = "Stint-Within"  // question: milliseconds the asker will wait
	errorHeader   = "Stint-Error"   // answer: why there is none
	busyHeader    = "Stint-Busy"    // answer: too many questions are open
	goneHeader    = "Stint-Gone"    // answer: the one asked is about to leave
	workingHeader = "Stint-Working" // answer: not yet; wait at the reply subject
	moreHeader    = "Stint-More"    // answer: how many bytes it has; this is the first part, the rest is at the reply subject
)

const (
	openQuestions = 1024                   // how many questions one Answer works on at once
	wordWithin    = time.Second            // how soon an asker hears something
	silence       = 3 * time.Second        // without a word for so long, the one asked is taken for dead
	forgetAfter   = 15 * time.Second       // an answer that nobody fetches is dropped, and work on it ends
	askAgain      = 100 * time.Millisecond // between two askings of one question
)

func (w wire) Ask(ctx context.Context, subject string, question []byte) ([]byte, error) {
	if err := bus.Exact(subject, ">"); err != nil {
		return nil, err
	}
	if err := bus.Fits(question); err != nil {
		return nil, err
	}
	for {
		m := nats.NewMsg(subject)
		m.Data = question
		if until, ok := ctx.Deadline(); ok {
			m.Header.Set(withinHeader, strconv.FormatInt(max(1, time.Until(until).Milliseconds()), 10))
		}
		data, err := w.askOnce(ctx, m)
		var fault *bus.AnswerError
		switch {
		case err == nil, errors.As(err, &fault):
			return data, err
		case errors.Is(err, bus.ErrNobody), errors.Is(err, bus.ErrBusy), fenced.Hopeless(err), ctx.Err() != nil:
			return nil, fmt.Errorf("asking %s: %w", subject, err)
		}
		// The connection dropped, or the one asked fell silent: ask whoever is there now.
		w.b.log.Debug("a question is asked again", "subject", subject, "error", err)
		if pauseErr := pause(ctx, askAgain); pauseErr != nil {
			return nil, fmt.Errorf("asking %s: %w (the last try: %w)", subject, pauseErr, err)
		}
	}
}

// askOnce asks and stays with the one who answers. Errors that Ask does not know mean that one is lost.
func (w wire) askOnce(ctx context.Context, m *nats.Msg) ([]byte, error) {
	answer, err := w.request(ctx, m)
	if err != nil {
		return nil, err
	}
	fetch := func(what string) (*nats.Msg, error) {
		next := nats.NewMsg(answer.Reply)
		next.Data = []byte(what)
		got, err := w.request(ctx, next)
		if errors.Is(err, bus.ErrNobody) {
			err = errors.New("the one asked is gone")
		}
		return got, err
	}
	for answer.Header.Get(workingHeader) != "" {
		if answer, err = fetch("wait"); err != nil {
			return nil, err
		}
	}
	switch {
	case answer.Header.Get(goneHeader) != "":
		return nil, bus.ErrNobody
	case answer.Header.Get(busyHeader) != "":
		return nil, bus.ErrBusy
	case answer.Header.Get(errorHeader) != "":
		return nil, &bus.AnswerError{Text: answer.Header.Get(errorHeader)}
	case answer.Header.Get(moreHeader) == "":
		return answer.Data, nil
	}
	size, err := strconv.Atoi(answer.Header.Get(moreHeader))
	if err != nil {
		return nil, fmt.Errorf("the size of the answer: %w", err)
	}
	data := make([]byte, 0, size)
	data = append(data, answer.Data...)
	for len(data) < size {
		rest, err := fetch(strconv.Itoa(len(data)))
		if err != nil {
			return nil, err
		}
		if len(rest.Data) == 0 || len(rest.Data) > size-len(data) {
			return nil, fmt.Errorf("the answer broke off at %d of %d bytes", len(data), size)
		}
		data = append(data, rest.Data...)
	}
	return data, nil
}

// request sends one message and waits for a word in return.
func (w wire) request(ctx context.Context, m *nats.Msg) (answer *nats.Msg, err error) {
	err = w.b.tryFor(ctx, silence, m.Subject, func(ctx context.Context) error {
		answer, err = w.b.nc.RequestMsgWithContext(ctx, m)
		if errors.Is(err, nats.ErrNoResponders) {
			err = bus.ErrNobody
		}
		return err
	})
	return answer, err
}

func (w wire) Answer(subject, queue string, fn func(context.Context, bus.Nudge) ([]byte, error)) (func(), error) {
	if err := w.b.answers.listen(w); err != nil {
		return nil, err
	}
	all, stop := context.WithCancel(w.b.alive)
	open := make(chan struct{}, openQuestions)
	sub, err := w.subscribe(subject, queue, func(m *nats.Msg) {
		if all.Err() != nil {
			w.send(m, &answer{header: goneHeader, value: "1"})
			return
		}
		select {
		case open <- struct{}{}:
		default:
			w.send(m, &answer{header: busyHeader, value: "1"})
			return
		}
		go func() {
			defer func() { <-open }()
			w.work(all, m, fn)
		}()
	})
	if err != nil {
		stop()
		return nil, err
	}
	return func() {
		stop()
		_ = sub.Drain() // what is on its way here is told so
	}, nil
}

// work answers one question.
func (w wire) work(all context.Context, m *nats.Msg, fn func(context.Context, bus.Nudge) ([]byte, error)) {
	ctx, cancel := context.WithCancel(all)
	defer cancel()
	if ms, err := strconv.ParseInt(m.Header.Get(withinHeader), 10, 64); err == nil {
		defer time.AfterFunc(time.Duration(ms)*time.Millisecond, cancel).Stop()
	}
	a := &answer{done: make(chan struct{}), cancel: cancel}
	slow := time.AfterFunc(wordWithin, func() { w.sendWorking(m, a) })
	data, err := fn(ctx, bus.Nudge{Subject: m.Subject, Data: m.Data})
	switch {
	case err != nil && all.Err() != nil:
		a.header, a.value = goneHeader, "1"
	case err != nil:
		a.header, a.value = errorHeader, oneLine(err.Error())
	default:
		a.data = data
	}
	late := err != nil && ctx.Err() != nil && all.Err() == nil // the asker's time is over, and it says so itself
	close(a.done)
	if slow.Stop() && !late {
		w.send(m, a)
	}
}

// send replies to m with an answer that is done, or with the first part of it.
func (w wire) send(m *nats.Msg, a *answer) {
	reply := nats.NewMsg(m.Reply)
	reply.Data = a.data
	switch {
	case a.header != "":
		reply.Header.Set(a.header, a.value)
	case len(a.data) > partSize:
		reply.Header.Set(moreHeader, strconv.Itoa(len(a.data)))
		reply.Reply = w.b.answers.hold(a)
		reply.Data = a.data[:partSize]
	}
	w.publish(reply)
}

func (w wire) sendWorking(m *nats.Msg, a *answer) {
	reply := nats.NewMsg(m.Reply)
	reply.Header.Set(workingHeader, "1")
	reply.Reply = w.b.answers.hold(a)
	w.publish(reply)
}

func (w wire) publish(reply *nats.Msg) {
	if reply.Subject == "" {
		return
	}
	if err := w.b.nc.PublishMsg(reply); err != nil {
		w.b.log.Debug("an answer could not be sent", "error", err)
	}
}

// oneLine makes a text fit for a header.
func oneLine(s string) string {
	out := []byte(s)
	for i, c := range out {
		if c == '\n' || c == '\r' {
			out[i] = ' '
		}
	}
	if len(out) == 0 {
		return "no reason given"
	}
	return string(out[:min(len(out), 64<<10)])
}

// answer is a question that is worked on, or whose answer is being fetched. header, value and data are set when done is closed.
type answer struct {
	done          chan struct{}
	cancel        func()
	header, value string
	data          []byte

	subject string // where it is fetched; "" if it is not held. Guarded by answers.mu, as expire.
	expire  *time.Timer
}

// answers holds what is fetched by and by, each under its secret subject.
type answers struct {
	mu        sync.Mutex
	listening bool
	held      map[string]*answer
}

// hold makes the answer one that can be fetched, and returns where.
func (h *answers) hold(a *answer) (subject string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.subject == "" {
		a.subject = bus.MoreSubject + "." + nuid.Next()
		if h.held == nil {
			h.held = map[string]*answer{}
		}
		h.held[a.subject] = a
		a.expire = time.AfterFunc(forgetAfter, func() { h.drop(a) })
	}
	return a.subject
}

// find returns the answer that is held there, and holds it for longer.
func (h *answers) find(subject string) *answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.held[subject]
	if a != nil {
		a.expire.Reset(forgetAfter)
	}
	return a
}

func (h *answers) drop(a *answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a.expire.Stop()
	delete(h.held, a.subject)
	if a.cancel != nil {
		a.cancel()
	}
}

// listen subscribes, once, to where answers are fetched. Of several processes that answer only the one which knows
// the secret replies.
func (h *answers) listen(w wire) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listening {
		return nil
	}
	_, err := w.subscribe(bus.MoreSubject+".*", "", func(m *nats.Msg) {
		if a := h.find(m.Subject); a != nil {
			go h.fetch(w, m, a)
		}
	})
	h.listening = err == nil
	return err
}

// fetch answers "wait" or an offset.
func (h *answers) fetch(w wire, m *nats.Msg, a *answer) {
	if string(m.Data) == "wait" {
		word := time.NewTimer(wordWithin)
		defer word.Stop()
		select {
		case <-word.C:
			w.sendWorking(m, a)
		case <-a.done:
			w.send(m, a)
			if len(a.data) <= partSize {
				h.drop(a)
			}
		}
		return
	}
	select {
	case <-a.done:
	default:
		return
	}
	from, err := strconv.Atoi(string(m.Data))
	if err != nil || from < 0 || from >= len(a.data) {
		return
	}
	upTo := min(from+partSize, len(a.data))
	reply := nats.NewMsg(m.Reply)
	reply.Data = a.data[from:upTo]
	w.publish(reply)
	if upTo == len(a.data) {
		h.drop(a)
	}
}
