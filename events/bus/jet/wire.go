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
)

// Headers of questions and answers.
const (
	withinHeader = "Stint-Within" // question: milliseconds the asker will wait
	errorHeader  = "Stint-Error"  // answer: why there is none
	busyHeader   = "Stint-Busy"   // answer: too many questions are open
	goneHeader   = "Stint-Gone"   // answer: the one asked is about to leave
	moreHeader   = "Stint-More"   // answer: the bytes of the whole; this is its first part, the rest is fetched from the reply subject
)

// openQuestions is how many questions one Answer works on at once.
const openQuestions = 1024

// moreFor is how long the rest of a big answer waits to be fetched.
const moreFor = 30 * time.Second

type wire struct{ b *Bus }

func (w wire) Nudge(subject string, data []byte) error {
	if err := bus.Exact(subject, ">"); err != nil {
		return err
	}
	if err := bus.Fits(data); err != nil {
		return err
	}
	if err := w.b.nc.Publish(subject, data); err != nil {
		return fmt.Errorf("nudging %s: %w", subject, w.b.meaning(err))
	}
	return nil
}

func (w wire) Listen(subject, queue string, fn func(bus.Nudge)) (func(), error) {
	sub, err := w.subscribe(subject, queue, func(m *nats.Msg) { fn(bus.Nudge{Subject: m.Subject, Data: m.Data}) })
	if err != nil {
		return nil, err
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// subscribe subscribes, waits for the server's word that it is so, and then calls fn for each message in turn.
func (w wire) subscribe(subject, queue string, fn func(*nats.Msg)) (*nats.Subscription, error) {
	sub, err := w.b.nc.QueueSubscribeSync(subject, queue)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", subject, w.b.meaning(err))
	}
	// A refusal has come before the answer to the flush, if there is one: while the connection is down the
	// library subscribes when it is back.
	_ = w.b.nc.FlushTimeout(tryTime)
	first, err := sub.NextMsg(time.Nanosecond)
	if errors.Is(err, nats.ErrPermissionViolation) {
		_ = sub.Unsubscribe()
		return nil, fmt.Errorf("listening on %s: %w to %s", subject, bus.ErrDenied, w.b.role)
	}
	go func() {
		ctx := context.Background() // NextMsg returns when the subscription or the connection ends
		if first != nil {
			fn(first)
		}
		for {
			m, err := sub.NextMsgWithContext(ctx)
			switch {
			case err == nil:
				fn(m)
			case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrBadSubscription):
				return
			case errors.Is(err, nats.ErrSlowConsumer):
				w.b.log.Warn("nudges came faster than they were heard; some are lost", "subject", subject)
			default: // refused after a reconnection, until the next one
				_ = pause(ctx, time.Second)
			}
		}
	}()
	return sub, nil
}

func (w wire) Ask(ctx context.Context, subject string, question []byte) ([]byte, error) {
	if err := bus.Exact(subject, ">"); err != nil {
		return nil, err
	}
	if err := bus.Fits(question); err != nil {
		return nil, err
	}
	m := nats.NewMsg(subject)
	m.Data = question
	if until, ok := ctx.Deadline(); ok {
		m.Header.Set(withinHeader, strconv.FormatInt(max(1, time.Until(until).Milliseconds()), 10))
	}
	answer, err := w.request(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", subject, err)
	}
	if answer.Header.Get(goneHeader) != "" {
		return nil, fmt.Errorf("asking %s: %w", subject, bus.ErrNobody)
	}
	if answer.Header.Get(busyHeader) != "" {
		return nil, fmt.Errorf("asking %s: %w", subject, bus.ErrBusy)
	}
	if text := answer.Header.Get(errorHeader); text != "" {
		return nil, &bus.AnswerError{Text: text}
	}
	whole := answer.Header.Get(moreHeader)
	if whole == "" {
		return answer.Data, nil
	}
	size, err := strconv.Atoi(whole)
	if err != nil {
		return nil, fmt.Errorf("asking %s: the size of the answer: %w", subject, err)
	}
	data := make([]byte, 0, size)
	data = append(data, answer.Data...)
	for len(data) < size {
		next := nats.NewMsg(answer.Reply)
		next.Data = strconv.AppendInt(nil, int64(len(data)), 10)
		rest, err := w.request(ctx, next)
		if err != nil {
			return nil, fmt.Errorf("asking %s: the answer broke off at %d of %d bytes: %w", subject, len(data), size, err)
		}
		if len(rest.Data) == 0 || len(rest.Data) > size-len(data) {
			return nil, fmt.Errorf("asking %s: the answer broke off at %d of %d bytes", subject, len(data), size)
		}
		data = append(data, rest.Data...)
	}
	return data, nil
}

// request sends one question and waits for one answer as long as ctx allows.
func (w wire) request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer w.b.waits.watch(m.Subject, &cancel)()
	answer, err := w.b.nc.RequestMsgWithContext(inner, m)
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(context.Cause(inner), bus.ErrDenied):
		return nil, fmt.Errorf("%w to %s", bus.ErrDenied, w.b.role)
	case errors.Is(context.Cause(inner), errDropped):
		return nil, errDropped
	case errors.Is(err, nats.ErrNoResponders):
		return nil, bus.ErrNobody
	}
	return nil, w.b.meaning(err)
}

func (w wire) Answer(subject, queue string, fn func(context.Context, bus.Nudge) ([]byte, error)) (func(), error) {
	if err := w.b.large.listen(w); err != nil {
		return nil, err
	}
	all, stop := context.WithCancel(context.Background())
	open := make(chan struct{}, openQuestions)
	sub, err := w.subscribe(subject, queue, func(m *nats.Msg) {
		if all.Err() != nil {
			w.reply(m, goneHeader, "1", nil)
			return
		}
		select {
		case open <- struct{}{}:
		default:
			w.reply(m, busyHeader, "1", nil)
			return
		}
		go func() {
			defer func() { <-open }()
			ctx, cancel := all, context.CancelFunc(func() {})
			if ms, err := strconv.ParseInt(m.Header.Get(withinHeader), 10, 64); err == nil {
				ctx, cancel = context.WithTimeout(all, time.Duration(ms)*time.Millisecond)
			}
			defer cancel()
			data, err := fn(ctx, bus.Nudge{Subject: m.Subject, Data: m.Data})
			switch {
			case err != nil && all.Err() != nil:
				w.reply(m, goneHeader, "1", nil)
			case err != nil && ctx.Err() != nil:
				// The asker's time is over, and it says so itself.
			case err != nil:
				w.reply(m, errorHeader, oneLine(err.Error()), nil)
			case len(data) > partSize:
				w.reply(m, moreHeader, strconv.Itoa(len(data)), data)
			default:
				w.reply(m, "", "", data)
			}
		}()
	})
	if err != nil {
		stop()
		return nil, err
	}
	return func() {
		stop()
		_ = sub.Drain() // what is on its way here is told so, and need not wait for nothing
	}, nil
}

// reply answers m; with moreHeader only the first part goes, and the rest waits to be fetched.
func (w wire) reply(m *nats.Msg, header, value string, data []byte) {
	if m.Reply == "" {
		return
	}
	answer := nats.NewMsg(m.Reply)
	answer.Data = data
	if header != "" {
		answer.Header.Set(header, value)
	}
	if header == moreHeader {
		answer.Reply = w.b.large.hold(data)
		answer.Data = data[:partSize]
	}
	if err := w.b.nc.PublishMsg(answer); err != nil {
		w.b.log.Debug("an answer could not be sent", "subject", m.Subject, "error", err)
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

// largeAnswers are answers of more than one part. The asker fetches part after part, so that a big one fills no
// buffer on its way and holds up nobody.
type largeAnswers struct {
	mu        sync.Mutex
	listening bool
	held      map[string]*largeAnswer
}

type largeAnswer struct {
	data   []byte
	expire *time.Timer
}

func (l *largeAnswers) init() { l.held = map[string]*largeAnswer{} }

// listen subscribes once to the subjects where parts are fetched. Each answer's subject holds a secret name; of
// several answering processes only the one that knows the name replies.
func (l *largeAnswers) listen(w wire) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listening {
		return nil
	}
	_, err := w.subscribe(bus.MoreSubject+".*", "", func(m *nats.Msg) {
		l.mu.Lock()
		a := l.held[m.Subject]
		l.mu.Unlock()
		from, err := strconv.Atoi(string(m.Data))
		if a == nil || err != nil || from < 0 || from >= len(a.data) {
			return
		}
		upTo := min(from+partSize, len(a.data))
		if err := m.Respond(a.data[from:upTo]); err != nil {
			w.b.log.Debug("a part of an answer could not be sent", "error", err)
		}
		if a.expire.Reset(moreFor); upTo == len(a.data) {
			l.drop(m.Subject)
		}
	})
	l.listening = err == nil
	return err
}

func (l *largeAnswers) hold(data []byte) (subject string) {
	subject = bus.MoreSubject + "." + nuid.Next()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[subject] = &largeAnswer{data: data, expire: time.AfterFunc(moreFor, func() { l.drop(subject) })}
	return subject
}

func (l *largeAnswers) drop(subject string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.held[subject]; a != nil {
		a.expire.Stop()
		delete(l.held, subject)
	}
}
