package mem

import (
	"context"
	"errors"
	"sync"
	"time"

	"stint/events/bus"
	"stint/events/bus/internal/fenced"
)

// Client is one process's connection to a Hub.
type Client struct {
	hub   *Hub
	name  string
	turns fenced.Turns

	mu       sync.Mutex
	closed   chan struct{}
	isClosed bool
	cut      bool
	statuses []*statusFn
}

type statusFn struct{ fn func(bus.Status) }

var _ bus.Bus = (*Client)(nil)

func (c *Client) Events() bus.Log    { return eventLog{c} }
func (c *Client) Jobs() bus.Feed     { return feed{c} }
func (c *Client) Usage() bus.Samples { return samples{c} }
func (c *Client) Blobs() bus.Blobs   { return blobs{c} }
func (c *Client) Leases() bus.Leases { return leases{c} }
func (c *Client) Wire() bus.Wire     { return wire{c} }

// Cut takes this connection off the bus, or puts it back: a node behind a broken link. Its tries are lost,
// its reads fail, and it hears nothing.
func (c *Client) Cut(off bool) {
	c.mu.Lock()
	changed := c.cut != off && !c.isClosed
	c.cut = off
	c.mu.Unlock()
	if changed {
		c.tell()
	}
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	for _, s := range []*stream{c.hub.events, c.hub.jobs, c.hub.usage} {
		s.notify()
	}
}

// OnStatus implements bus.Bus.
func (c *Client) OnStatus(fn func(bus.Status)) (stop func()) {
	entry := &statusFn{fn}
	c.mu.Lock()
	c.statuses = append(c.statuses, entry)
	now := c.status()
	c.mu.Unlock()
	fn(now)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, e := range c.statuses {
			if e == entry {
				c.statuses = append(c.statuses[:i:i], c.statuses[i+1:]...)
				return
			}
		}
	}
}

func (c *Client) status() bus.Status {
	switch {
	case c.isClosed:
		return bus.Status{State: bus.Closed, Err: bus.ErrClosed}
	case c.cut:
		return bus.Status{State: bus.Down, Err: errCut}
	default:
		return bus.Status{State: bus.Up, Server: "memory"}
	}
}

func (c *Client) tell() {
	c.mu.Lock()
	now := c.status()
	fns := append([]*statusFn(nil), c.statuses...)
	c.mu.Unlock()
	for _, e := range fns {
		e.fn(now)
	}
}

// Close implements bus.Bus.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.isClosed {
		c.mu.Unlock()
		return nil
	}
	c.isClosed = true
	close(c.closed)
	c.mu.Unlock()
	c.hub.forget(c)
	c.tell()
	return nil
}

var (
	errCut  = errors.New("cut off from the bus")
	errLost = errors.New("no answer from the bus")
)

// enter waits out a stall and reports whether the bus can be used.
func (c *Client) enter(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.mu.Lock()
		closed, cut := c.isClosed, c.cut
		c.mu.Unlock()
		if closed {
			return bus.ErrClosed
		}
		if cut {
			return errCut
		}
		c.hub.mu.Lock()
		stalled := c.hub.stalled
		if stalled != nil {
			c.hub.waiting++
		}
		c.hub.mu.Unlock()
		if stalled == nil {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-stalled:
		case <-c.closed:
		}
		c.hub.mu.Lock()
		c.hub.waiting--
		c.hub.mu.Unlock()
	}
}

// try runs one try to store something, with the fault that befalls it. arrive stores or refuses and runs with
// the hub locked.
func (c *Client) try(ctx context.Context, op Op, arrive func(twice bool) (uint64, error)) (uint64, error) {
	if err := bus.Fits(op.Data); err != nil {
		return 0, err
	}
	if err := c.enter(ctx); err != nil {
		return 0, err
	}
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deliver()
	var f Fault
	if h.opts.Faults != nil {
		op.Client = c.name
		f = h.opts.Faults(op)
	}
	if f.Intrude != nil {
		h.streamOf(op.Stream).store(h.opts.Now(), op.Subject, f.Intrude)
	}
	switch {
	case f.LoseRequest:
		return 0, errLost
	case f.Delay:
		h.delayed = append(h.delayed, func() { _, _ = arrive(f.Twice) })
		return 0, errLost
	}
	seq, err := arrive(f.Twice)
	if f.LoseAck {
		return 0, errLost
	}
	return seq, err
}

func (h *Hub) streamOf(name string) *stream {
	switch name {
	case bus.EventsStream:
		return h.events
	case bus.JobsStream:
		return h.jobs
	default:
		return h.usage
	}
}

// store makes Client a fenced.Store on EVENTS.
type store struct{ c *Client }

func (s store) PublishAfter(ctx context.Context, subject string, after uint64, data []byte) (uint64, error) {
	ev := s.c.hub.events
	op := Op{Stream: ev.name, Subject: subject, Conditional: true, After: after, Data: data}
	return s.c.try(ctx, op, func(bool) (uint64, error) {
		if ev.lastOf(subject) != after {
			return 0, errRefused
		}
		return ev.store(s.c.hub.opts.Now(), subject, data), nil
	})
}

func (s store) FirstAfter(ctx context.Context, subject string, after uint64) (bus.Message, error) {
	return eventLog(s).FirstAfter(ctx, subject, after)
}

func (s store) Bounds(ctx context.Context) (first, last uint64, err error) {
	return eventLog(s).Bounds(ctx)
}

func (s store) Wait(ctx context.Context, d time.Duration, _ error) error {
	if err := s.c.hub.opts.Wait(ctx, d); err != nil {
		return err
	}
	select {
	case <-s.c.closed:
		return bus.ErrClosed
	default:
		return ctx.Err()
	}
}

// publish stores a message without condition on a stream, retrying until it is acknowledged.
func (c *Client) publish(ctx context.Context, s *stream, subject, id string, data []byte) (uint64, error) {
	if err := bus.Exact(subject, s.pattern); err != nil {
		return 0, err
	}
	op := Op{Stream: s.name, Subject: subject, Data: data}
	return fenced.Publish(ctx, store{c}, subject, func(ctx context.Context) (uint64, error) {
		return c.try(ctx, op, func(twice bool) (uint64, error) {
			now := c.hub.opts.Now()
			seq := s.storeOnce(now, subject, id, data)
			if twice {
				s.store(now, subject, data)
			}
			return seq, nil
		})
	})
}

// follow hands the messages of a stream to fn. complete and ahead say what is an error at the start of it
// and later: trimmed messages, and a place beyond the end.
func (c *Client) follow(ctx context.Context, s *stream, match func(string) bool, next uint64, complete, ahead bool, fn func(bus.Batch) error) error {
	const most = 1024
	next = max(next, 1)
	for told := false; ; {
		msgs, tip, changed, err := func() ([]bus.Message, bool, chan struct{}, error) {
			c.hub.mu.Lock()
			changed := s.changed
			c.hub.mu.Unlock()
			if err := c.enter(ctx); err != nil {
				if errors.Is(err, errCut) {
					return nil, false, changed, nil
				}
				return nil, false, nil, err
			}
			c.hub.mu.Lock()
			defer c.hub.mu.Unlock()
			if err := s.holds(next, complete); err != nil {
				if _, isAhead := err.(*bus.AheadError); !isAhead || ahead {
					return nil, false, nil, err
				}
			}
			msgs, after, end := s.read(next, most, match)
			next = max(next, after)
			return msgs, end, s.changed, nil
		}()
		if err != nil {
			return err
		}
		if len(msgs) > 0 || tip && !told {
			told = told || tip
			if err := fn(bus.Batch{Messages: msgs, Tip: tip}); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.closed:
			return bus.ErrClosed
		case <-changed:
		}
	}
}
