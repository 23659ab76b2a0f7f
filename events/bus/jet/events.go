package jet

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"stint/events/bus"
	"stint/events/bus/internal/fenced"
)

// store makes the connection what the algorithm of fenced appends stands on, for one call.
type store struct {
	b     *Bus
	what  string // is waited for
	began time.Time
	told  time.Duration // how long it had waited when the operator was told last
}

func (b *Bus) store(what string) *store { return &store{b: b, what: what, began: time.Now()} }

// tellAfter is how long an author waits before the operator hears of it; then at twice the time, and so on.
const tellAfter = 10 * time.Second

func (s *store) PublishAfter(ctx context.Context, subject string, after uint64, data []byte) (uint64, error) {
	return s.b.publish(ctx, bus.EventsStream, nats.NewMsg(subject), data, jetstream.WithExpectLastSequencePerSubject(after))
}

func (s *store) FirstAfter(ctx context.Context, subject string, after uint64) (bus.Message, error) {
	return s.b.firstAfter(ctx, bus.EventsStream, subject, after)
}

func (s *store) Bounds(ctx context.Context) (first, last uint64, err error) {
	return s.b.bounds(ctx, bus.EventsStream)
}

func (s *store) Wait(ctx context.Context, d time.Duration, why error) error {
	if waited := time.Since(s.began); waited > max(tellAfter, 2*s.told) {
		s.told = waited
		s.b.log.Warn("waiting for the bus; trying on", "what", s.what, "for", waited.Round(time.Second), "error", why)
	}
	select {
	case <-s.b.closed:
		return bus.ErrClosed
	default:
		return pause(ctx, d)
	}
}

// publish sends one message once and returns its sequence.
func (b *Bus) publish(ctx context.Context, stream string, m *nats.Msg, data []byte, opts ...jetstream.PublishOpt) (seq uint64, err error) {
	if err := bus.Fits(data); err != nil {
		return 0, err
	}
	m.Data = data
	opts = append(opts, jetstream.WithExpectStream(stream), jetstream.WithRetryAttempts(0))
	err = b.try(ctx, m.Subject, func(ctx context.Context) error {
		ack, err := b.js.PublishMsg(ctx, m, opts...)
		if err != nil {
			return err
		}
		seq = ack.Sequence
		return nil
	})
	return seq, err
}

// publishOnce sends a message with an id until it is acknowledged.
func (b *Bus) publishOnce(ctx context.Context, stream, pattern, subject, id string, data []byte) (uint64, error) {
	if err := bus.Exact(subject, pattern); err != nil {
		return 0, err
	}
	return fenced.Publish(ctx, b.store(subject), subject, func(ctx context.Context) (uint64, error) {
		return b.publish(ctx, stream, nats.NewMsg(subject), data, jetstream.WithMsgID(id))
	})
}

type eventLog struct{ b *Bus }

func (l eventLog) Append(ctx context.Context, subject string, after uint64, data []byte) (uint64, error) {
	if err := bus.Exact(subject, bus.EventsSubjects); err != nil {
		return 0, err
	}
	done, err := l.b.turns.Begin(subject)
	if err != nil {
		return 0, err
	}
	defer done()
	return fenced.Append(ctx, l.b.store(subject), subject, after, data)
}

func (l eventLog) Publish(ctx context.Context, subject, id string, data []byte) (uint64, error) {
	return l.b.publishOnce(ctx, bus.EventsStream, bus.EventsSubjects, subject, id, data)
}

func (l eventLog) Follow(ctx context.Context, from uint64, fn func(bus.Batch) error) error {
	f := follower{b: l.b, stream: bus.EventsStream, next: max(from, 1), complete: true, strict: true}
	return f.run(ctx, fn)
}

func (l eventLog) FollowSubject(ctx context.Context, subject string, from uint64, fn func(bus.Batch) error) error {
	if err := bus.Exact(subject, bus.EventsSubjects); err != nil {
		return err
	}
	f := follower{b: l.b, stream: bus.EventsStream, filter: subject, next: max(from, 1), strict: true}
	return f.run(ctx, fn)
}

func (l eventLog) Get(ctx context.Context, seq uint64) (bus.Message, error) {
	m, err := l.b.leaderGet(ctx, bus.EventsStream, leaderQuery{Seq: seq})
	if err != nil {
		return bus.Message{}, fmt.Errorf("reading %s at %d: %w", bus.EventsStream, seq, err)
	}
	return m.Message, nil
}

func (l eventLog) Last(ctx context.Context, subject string) (bus.Message, error) {
	if err := bus.Exact(subject, bus.EventsSubjects); err != nil {
		return bus.Message{}, err
	}
	m, err := l.b.last(ctx, bus.EventsStream, subject)
	if err != nil {
		return bus.Message{}, fmt.Errorf("reading the last of %s: %w", subject, err)
	}
	return m.Message, nil
}

func (l eventLog) FirstAfter(ctx context.Context, subject string, after uint64) (bus.Message, error) {
	if err := bus.Exact(subject, bus.EventsSubjects); err != nil {
		return bus.Message{}, err
	}
	m, err := l.b.firstAfter(ctx, bus.EventsStream, subject, after)
	if err != nil {
		return bus.Message{}, fmt.Errorf("reading %s behind %d: %w", subject, after, err)
	}
	return m, nil
}

func (l eventLog) Bounds(ctx context.Context) (first, last uint64, err error) {
	first, last, err = l.b.bounds(ctx, bus.EventsStream)
	if err != nil {
		return 0, 0, fmt.Errorf("reading the bounds of %s: %w", bus.EventsStream, err)
	}
	return first, last, nil
}

func (l eventLog) Trim(ctx context.Context, before uint64) error {
	return l.b.purge(ctx, bus.EventsStream, jetstream.WithPurgeSequence(before))
}

// purge removes messages, trying until it is done or ctx ends; doing it twice does no harm.
func (b *Bus) purge(ctx context.Context, stream string, opts ...jetstream.StreamPurgeOpt) error {
	_, err := fenced.Publish(ctx, b.store(stream), stream, func(ctx context.Context) (uint64, error) {
		s, err := b.stream(ctx, stream)
		if err != nil {
			return 0, err
		}
		return 0, b.try(ctx, "$JS.API.STREAM.PURGE."+stream, func(ctx context.Context) error { return s.Purge(ctx, opts...) })
	})
	if err != nil {
		return fmt.Errorf("removing messages: %w", err)
	}
	return nil
}
