package mem

import (
	"bytes"
	"context"
	"sync"

	"stint/events/bus"
)

type wire struct{ c *Client }

// listener hands its nudges to fn one at a time, on the goroutine of whoever nudges: a nudge from within fn
// is queued and handed over when fn returns.
type listener struct {
	c              *Client
	pattern, queue string
	fn             func(bus.Nudge)

	mu      sync.Mutex
	waiting []bus.Nudge
	running bool
}

func (l *listener) hand(n bus.Nudge) {
	l.mu.Lock()
	l.waiting = append(l.waiting, n)
	if l.running {
		l.mu.Unlock()
		return
	}
	l.running = true
	for len(l.waiting) > 0 {
		next := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.mu.Unlock()
		l.fn(next)
		l.mu.Lock()
	}
	l.running = false
	l.mu.Unlock()
}

type answerer struct {
	c              *Client
	pattern, queue string
	fn             func(context.Context, bus.Nudge) ([]byte, error)
	ctx            context.Context // ends when it stops answering
	stop           func()
}

// Nudge implements bus.Wire.
func (w wire) Nudge(subject string, data []byte) error {
	if err := bus.Exact(subject, ">"); err != nil {
		return err
	}
	if err := w.c.usable(); err != nil {
		return err
	}
	if err := bus.Fits(data); err != nil {
		return err
	}
	h := w.c.hub
	h.mu.Lock()
	if h.stalled != nil {
		h.mu.Unlock()
		return nil
	}
	queues := map[string][]*listener{}
	var chosen []*listener
	var names []string
	for _, l := range h.subs {
		switch {
		case !bus.Matches(l.pattern, subject) || l.c.usable() != nil:
		case l.queue == "":
			chosen = append(chosen, l)
		default:
			if queues[l.queue] == nil {
				names = append(names, l.queue)
			}
			queues[l.queue] = append(queues[l.queue], l)
		}
	}
	for _, name := range names {
		h.turn++
		chosen = append(chosen, queues[name][h.turn%len(queues[name])])
	}
	h.mu.Unlock()
	for _, l := range chosen {
		l.hand(bus.Nudge{Subject: subject, Data: bytes.Clone(data)})
	}
	return nil
}

// Listen implements bus.Wire.
func (w wire) Listen(subject, queue string, fn func(bus.Nudge)) (func(), error) {
	if err := w.c.usable(); err != nil {
		return nil, err
	}
	l := &listener{c: w.c, pattern: subject, queue: queue, fn: fn}
	h := w.c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subs = append(h.subs, l)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.subs = without(h.subs, func(x *listener) bool { return x == l })
	}, nil
}

// Ask implements bus.Wire. The answer is worked out on the goroutine of the one who asks.
func (w wire) Ask(ctx context.Context, subject string, question []byte) ([]byte, error) {
	if err := bus.Exact(subject, ">"); err != nil {
		return nil, err
	}
	if err := bus.Fits(question); err != nil {
		return nil, err
	}
	for {
		if err := w.c.enter(ctx); err != nil {
			return nil, err
		}
		chosen := w.c.hub.answererOf(subject)
		if chosen == nil {
			return nil, bus.ErrNobody
		}
		inner, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(chosen.ctx, cancel)
		answer, err := chosen.fn(inner, bus.Nudge{Subject: subject, Data: bytes.Clone(question)})
		stop()
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil:
			return bytes.Clone(answer), nil
		case chosen.ctx.Err() == nil:
			return nil, &bus.AnswerError{Text: err.Error()}
		}
	}
}

// answererOf returns one of those who answer the subject, in turn, or nil.
func (h *Hub) answererOf(subject string) *answerer {
	h.mu.Lock()
	defer h.mu.Unlock()
	var able []*answerer
	for _, a := range h.answers {
		if bus.Matches(a.pattern, subject) && a.c.usable() == nil {
			able = append(able, a)
		}
	}
	if len(able) == 0 {
		return nil
	}
	h.turn++
	return able[h.turn%len(able)]
}

// Answer implements bus.Wire.
func (w wire) Answer(subject, queue string, fn func(context.Context, bus.Nudge) ([]byte, error)) (func(), error) {
	if err := w.c.usable(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &answerer{c: w.c, pattern: subject, queue: queue, fn: fn, ctx: ctx, stop: cancel}
	h := w.c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers = append(h.answers, a)
	return func() {
		cancel()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.answers = without(h.answers, func(x *answerer) bool { return x == a })
	}, nil
}

func (c *Client) usable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.isClosed:
		return bus.ErrClosed
	case c.cut:
		return errCut
	}
	return nil
}

// forget drops all that a closed connection listened to.
func (h *Hub) forget(c *Client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subs = without(h.subs, func(x *listener) bool { return x.c == c })
	h.answers = without(h.answers, func(x *answerer) bool {
		if x.c == c {
			x.stop()
		}
		return x.c == c
	})
}

func without[T any](list []T, gone func(T) bool) []T {
	var kept []T
	for _, x := range list {
		if !gone(x) {
			kept = append(kept, x)
		}
	}
	return kept
}
