package mem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"stint/events/bus"
	"stint/events/bus/internal/fenced"
)

type eventLog struct{ c *Client }

func (l eventLog) Append(ctx context.Context, subject string, after uint64, data []byte) (uint64, error) {
	if err := bus.Exact(subject, bus.EventsSubjects); err != nil {
		return 0, err
	}
	done, err := l.c.turns.Begin(subject)
	if err != nil {
		return 0, err
	}
	defer done()
	return fenced.Append(ctx, store(l), subject, after, data)
}

func (l eventLog) Publish(ctx context.Context, subject, id string, data []byte) (uint64, error) {
	return l.c.publish(ctx, l.c.hub.events, subject, id, data)
}

func (l eventLog) Follow(ctx context.Context, from uint64, fn func(bus.Batch) error) error {
	return l.c.follow(ctx, l.c.hub.events, func(string) bool { return true }, from, true, true, fn)
}

func (l eventLog) FollowSubject(ctx context.Context, subject string, from uint64, fn func(bus.Batch) error) error {
	if err := bus.Exact(subject, bus.EventsSubjects); err != nil {
		return err
	}
	return l.c.follow(ctx, l.c.hub.events, func(s string) bool { return s == subject }, from, false, true, fn)
}

func (l eventLog) Get(ctx context.Context, seq uint64) (bus.Message, error) {
	if err := l.c.enter(ctx); err != nil {
		return bus.Message{}, err
	}
	l.c.hub.mu.Lock()
	defer l.c.hub.mu.Unlock()
	return l.c.hub.events.get(seq)
}

func (l eventLog) Last(ctx context.Context, subject string) (bus.Message, error) {
	return l.c.last(ctx, l.c.hub.events, subject)
}

func (l eventLog) FirstAfter(ctx context.Context, subject string, after uint64) (bus.Message, error) {
	if err := bus.Exact(subject, bus.EventsSubjects); err != nil {
		return bus.Message{}, err
	}
	if err := l.c.enter(ctx); err != nil {
		return bus.Message{}, err
	}
	l.c.hub.mu.Lock()
	defer l.c.hub.mu.Unlock()
	return l.c.hub.events.firstAfter(subject, after)
}

func (l eventLog) Bounds(ctx context.Context) (first, last uint64, err error) {
	if err := l.c.enter(ctx); err != nil {
		return 0, 0, err
	}
	l.c.hub.mu.Lock()
	defer l.c.hub.mu.Unlock()
	return l.c.hub.events.first, l.c.hub.events.last(), nil
}

func (l eventLog) Trim(ctx context.Context, before uint64) error {
	if err := l.c.enter(ctx); err != nil {
		return err
	}
	l.c.hub.mu.Lock()
	defer l.c.hub.mu.Unlock()
	l.c.hub.events.trim(before)
	return nil
}

func (c *Client) last(ctx context.Context, s *stream, subject string) (bus.Message, error) {
	if err := bus.Exact(subject, s.pattern); err != nil {
		return bus.Message{}, err
	}
	if err := c.enter(ctx); err != nil {
		return bus.Message{}, err
	}
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	seq := s.lastOf(subject)
	if seq == 0 {
		return bus.Message{}, fmt.Errorf("reading the last of %s: %w", subject, bus.ErrNotFound)
	}
	return s.get(seq)
}

type feed struct{ c *Client }

func (f feed) Last(ctx context.Context) (bus.Message, error) {
	if err := f.c.enter(ctx); err != nil {
		return bus.Message{}, err
	}
	f.c.hub.mu.Lock()
	defer f.c.hub.mu.Unlock()
	return f.c.hub.jobs.get(f.c.hub.jobs.last())
}

func (f feed) Get(ctx context.Context, seq uint64) (bus.Message, error) {
	if err := f.c.enter(ctx); err != nil {
		return bus.Message{}, err
	}
	f.c.hub.mu.Lock()
	defer f.c.hub.mu.Unlock()
	return f.c.hub.jobs.get(seq)
}

func (f feed) Append(ctx context.Context, after uint64, entries []bus.Entry) (uint64, error) {
	done, err := f.c.turns.Begin(bus.JobsSubjects)
	if err != nil {
		return 0, err
	}
	defer done()
	js := f.c.hub.jobs
	for i, e := range entries {
		if err := bus.Exact(e.Subject, js.pattern); err != nil {
			return 0, err
		}
		want := after + uint64(i)
		op := Op{Stream: js.name, Subject: e.Subject, Conditional: true, After: want, Data: e.Data}
		for settled := false; !settled; {
			_, failed := f.c.try(ctx, op, func(bool) (uint64, error) {
				if js.last() != want {
					return 0, errRefused
				}
				return js.store(f.c.hub.opts.Now(), e.Subject, e.Data), nil
			})
			if settled = failed == nil; settled {
				break
			}
			if fenced.Hopeless(failed) {
				return 0, fmt.Errorf("appending on %s: %w", e.Subject, failed)
			}
			if settled, err = f.settle(ctx, want, e); err != nil {
				return 0, err
			}
			if !settled {
				if err := (store{f.c}).Wait(ctx, fenced.Shortest, failed); err != nil {
					return 0, fmt.Errorf("appending on %s: %w: %w (the last try: %w)", e.Subject, bus.ErrUnsettled, err, failed)
				}
			}
		}
	}
	return after + uint64(len(entries)), nil
}

// settle reports whether the entry is stored right behind after; an error says that something else is.
func (f feed) settle(ctx context.Context, after uint64, e bus.Entry) (bool, error) {
	if err := f.c.enter(ctx); err != nil {
		return false, nil
	}
	f.c.hub.mu.Lock()
	defer f.c.hub.mu.Unlock()
	js := f.c.hub.jobs
	m, err := js.get(after + 1)
	switch {
	case err == nil && m.Subject == e.Subject && bytes.Equal(m.Data, e.Data):
		return true, nil
	case err == nil, js.last() > after:
		return false, &bus.DeposedError{After: after, Found: after + 1}
	case js.last() < after:
		return false, &bus.DeposedError{After: after, Found: js.last()}
	}
	return false, nil
}

func (f feed) Follow(ctx context.Context, filter string, from uint64, fn func(bus.Batch) error) error {
	match := func(subject string) bool { return bus.Matches(filter, subject) }
	return f.c.follow(ctx, f.c.hub.jobs, match, from, false, false, fn)
}

type samples struct{ c *Client }

func (s samples) Publish(ctx context.Context, subject, id string, data []byte) error {
	_, err := s.c.publish(ctx, s.c.hub.usage, subject, id, data)
	return err
}

func (s samples) Last(ctx context.Context, subject string) (bus.Message, error) {
	return s.c.last(ctx, s.c.hub.usage, subject)
}

func (s samples) Follow(ctx context.Context, filter string, since time.Time, fn func(bus.Batch) error) error {
	h := s.c.hub
	h.mu.Lock()
	from := h.usage.first
	for _, m := range h.usage.msgs {
		if !m.Time.Before(since) {
			break
		}
		from = m.Seq + 1
	}
	h.mu.Unlock()
	match := func(subject string) bool { return bus.Matches(filter, subject) }
	return s.c.follow(ctx, h.usage, match, from, false, false, fn)
}

type blobs struct{ c *Client }

func (b blobs) Put(ctx context.Context, subject string, data []byte) (bus.BlobRef, error) {
	if err := bus.Exact(subject, bus.BlobsSubjects); err != nil {
		return bus.BlobRef{}, err
	}
	if len(data) > bus.MaxBlob {
		return bus.BlobRef{}, fmt.Errorf("storing %s: %w: %d bytes, at most %d in one blob", subject, bus.ErrTooLarge, len(data), bus.MaxBlob)
	}
	op := Op{Stream: bus.BlobsStream, Subject: subject}
	_, err := fenced.Publish(ctx, store(b), subject, func(ctx context.Context) (uint64, error) {
		return b.c.try(ctx, op, func(bool) (uint64, error) {
			b.c.hub.blobs[subject] = bytes.Clone(data)
			return 0, nil
		})
	})
	if err != nil {
		return bus.BlobRef{}, err
	}
	return bus.RefTo(subject, 0, data), nil
}

func (b blobs) Get(ctx context.Context, ref bus.BlobRef) ([]byte, error) {
	if err := bus.Exact(ref.Subject, bus.BlobsSubjects); err != nil {
		return nil, err
	}
	if err := b.c.enter(ctx); err != nil {
		return nil, err
	}
	b.c.hub.mu.Lock()
	whole, ok := b.c.hub.blobs[ref.Subject]
	b.c.hub.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("reading %s: %w", ref, bus.ErrNotFound)
	}
	if ref.Offset > uint64(len(whole)) || ref.Length > uint64(len(whole))-ref.Offset {
		return nil, fmt.Errorf("reading %s of %d bytes: %w", ref, len(whole), bus.ErrCorrupt)
	}
	part := bytes.Clone(whole[ref.Offset : ref.Offset+ref.Length])
	return part, ref.Check(part)
}

func (b blobs) Erase(ctx context.Context, subject string) error {
	if err := bus.Exact(subject, bus.BlobsSubjects); err != nil {
		return err
	}
	if err := b.c.enter(ctx); err != nil {
		return err
	}
	b.c.hub.mu.Lock()
	defer b.c.hub.mu.Unlock()
	delete(b.c.hub.blobs, subject)
	return nil
}

// hold is a lease as the hub keeps it.
type hold struct {
	holder string
	grant  uint64
	until  time.Time
}

type leases struct{ c *Client }

func (l leases) Take(ctx context.Context, name, holder string, ttl time.Duration) (bus.Lease, error) {
	if err := checkLease(name, holder, ttl); err != nil {
		return nil, err
	}
	if err := l.c.enter(ctx); err != nil {
		return nil, err
	}
	h := l.c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.opts.Now()
	if held, ok := h.leases[name]; ok && now.Before(held.until) {
		return nil, &bus.HeldError{Name: name, Holder: held.holder}
	}
	h.grant++
	h.leases[name] = hold{holder, h.grant, now.Add(ttl)}
	return &lease{l.c, name, h.grant, ttl}, nil
}

func checkLease(name, holder string, ttl time.Duration) error {
	switch {
	case bus.Exact("l."+name, "l.*") != nil:
		return fmt.Errorf("lease %q: %w: its name is one token", name, bus.ErrSubject)
	case holder == "":
		return errors.New("a lease needs the name of its holder")
	case ttl < time.Second || ttl%time.Second != 0:
		return fmt.Errorf("lease %s for %s: give whole seconds, at least one", name, ttl)
	}
	return nil
}

func (l leases) Holder(ctx context.Context, name string) (string, error) {
	if err := l.c.enter(ctx); err != nil {
		return "", err
	}
	h := l.c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if held, ok := h.leases[name]; ok && h.opts.Now().Before(held.until) {
		return held.holder, nil
	}
	return "", nil
}

type lease struct {
	c     *Client
	name  string
	grant uint64
	ttl   time.Duration
}

func (l *lease) Renew(ctx context.Context) error {
	if err := l.c.enter(ctx); err != nil {
		return err
	}
	h := l.c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	held, ok := h.leases[l.name]
	if !ok || held.grant != l.grant || !h.opts.Now().Before(held.until) {
		return fmt.Errorf("renewing the lease %s: %w", l.name, bus.ErrLeaseLost)
	}
	held.until = h.opts.Now().Add(l.ttl)
	h.leases[l.name] = held
	return nil
}

func (l *lease) Release(ctx context.Context) error {
	if err := l.c.enter(ctx); err != nil {
		return err
	}
	h := l.c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leases[l.name].grant == l.grant {
		delete(h.leases, l.name)
	}
	return nil
}
