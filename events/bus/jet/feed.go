package jet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"stint/events/bus"
	"stint/events/bus/internal/fenced"
)

// feedWindow is how many entries are in flight at once.
const feedWindow = 256

type feed struct{ b *Bus }

func (f feed) Last(ctx context.Context) (bus.Message, error) {
	for {
		_, last, err := f.b.bounds(ctx, bus.JobsStream)
		if err == nil && last == 0 {
			err = bus.ErrNotFound
		}
		if err != nil {
			return bus.Message{}, fmt.Errorf("reading the end of %s: %w", bus.JobsStream, err)
		}
		m, err := f.b.leaderGet(ctx, bus.JobsStream, leaderQuery{Seq: last})
		if errors.Is(err, bus.ErrNotFound) {
			if first, now, err := f.b.bounds(ctx, bus.JobsStream); err == nil && now > last && first > last {
				continue // so much was appended meanwhile that this one is not kept any more
			}
		}
		if err != nil {
			return bus.Message{}, fmt.Errorf("reading %s at %d: %w", bus.JobsStream, last, err)
		}
		return m.Message, nil
	}
}

func (f feed) Get(ctx context.Context, seq uint64) (bus.Message, error) {
	m, err := f.b.leaderGet(ctx, bus.JobsStream, leaderQuery{Seq: seq})
	if err != nil {
		return bus.Message{}, fmt.Errorf("reading %s at %d: %w", bus.JobsStream, seq, err)
	}
	return m.Message, nil
}

// Append sends windows of entries, each conditional on the stream's last sequence, predicted: harmless here, since
// an entry lands at its own place or nowhere, and whoever writes a place writes the same bytes.
func (f feed) Append(ctx context.Context, after uint64, entries []bus.Entry) (uint64, error) {
	for _, e := range entries {
		if err := bus.Exact(e.Subject, bus.JobsSubjects); err != nil {
			return 0, err
		}
		if err := bus.Fits(e.Data); err != nil {
			return 0, fmt.Errorf("appending on %s: %w", e.Subject, err)
		}
	}
	done, err := f.b.turns.Begin(bus.JobsSubjects)
	if err != nil {
		return 0, err
	}
	defer done()
	stored, st := 0, f.b.store(bus.JobsStream)
	for pauseFor := fenced.Shortest; stored < len(entries); {
		window := entries[stored:min(stored+feedWindow, len(entries))]
		at := after + uint64(stored)
		acked, failed := f.send(ctx, at, window)
		if failed == nil {
			stored += len(window)
			pauseFor, st = fenced.Shortest, f.b.store(bus.JobsStream)
			continue
		}
		if fenced.Hopeless(failed) {
			return 0, fmt.Errorf("appending to %s behind %d: %w", bus.JobsStream, at, failed)
		}
		n, err := f.settle(ctx, at, window, acked)
		if errors.Is(err, bus.ErrDeposed) {
			return 0, err
		}
		stored += n
		if n > 0 {
			pauseFor = fenced.Shortest
		}
		if err := st.Wait(ctx, pauseFor, failed); err != nil {
			return 0, fmt.Errorf("appending to %s behind %d: %w: %w (the last try: %w)", bus.JobsStream, at, bus.ErrUnsettled, err, failed)
		}
		pauseFor = min(2*pauseFor, fenced.Longest)
	}
	return after + uint64(len(entries)), nil
}

// send publishes a window and returns which of it were acknowledged at their places, and the first failure.
func (f feed) send(ctx context.Context, after uint64, window []bus.Entry) (acked []bool, failed error) {
	acked = make([]bool, len(window))
	futures := make([]jetstream.PubAckFuture, 0, len(window))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for i, e := range window {
		defer f.b.waits.watch(e.Subject, &cancel)()
		m := nats.NewMsg(e.Subject)
		m.Data = e.Data
		future, err := f.b.js.PublishMsgAsync(m,
			jetstream.WithExpectLastSequence(after+uint64(i)), jetstream.WithExpectStream(bus.JobsStream),
			jetstream.WithRetryAttempts(0), jetstream.WithStallWait(30*time.Second))
		if err != nil {
			failed = f.b.meaning(err)
			break
		}
		futures = append(futures, future)
	}
	for i, future := range futures {
		var err error
		select {
		case ack := <-future.Ok():
			if acked[i] = ack.Sequence == after+uint64(i)+1; !acked[i] {
				err = fmt.Errorf("acknowledged at %d", ack.Sequence)
			}
		case err = <-future.Err():
		case <-ctx.Done():
			if err = context.Cause(ctx); errors.Is(err, bus.ErrDenied) {
				err = fmt.Errorf("%s: %w to %s", window[i].Subject, bus.ErrDenied, f.b.role)
			}
		case <-f.b.closed:
			err = bus.ErrClosed
		}
		if err != nil && failed == nil {
			failed = f.b.meaning(err)
		}
	}
	return acked, failed
}

// settle returns how many entries of a window are stored behind after; ErrDeposed if something else is.
func (f feed) settle(ctx context.Context, after uint64, window []bus.Entry, acked []bool) (int, error) {
	_, last, err := f.b.bounds(ctx, bus.JobsStream)
	if err != nil {
		return 0, err
	}
	if last < after {
		return 0, &bus.DeposedError{After: after, Found: last}
	}
	for i, e := range window {
		seq := after + uint64(i) + 1
		if seq > last {
			return i, nil
		}
		if acked[i] {
			continue
		}
		m, err := f.b.leaderGet(ctx, bus.JobsStream, leaderQuery{Seq: seq})
		if err != nil && !errors.Is(err, bus.ErrNotFound) {
			return i, err
		}
		if err != nil || m.Subject != e.Subject || !bytes.Equal(m.Data, e.Data) {
			return i, &bus.DeposedError{After: seq - 1, Found: seq}
		}
	}
	return len(window), nil
}

func (f feed) Follow(ctx context.Context, filter string, from uint64, fn func(bus.Batch) error) error {
	if filter == bus.JobsSubjects {
		filter = ""
	}
	w := follower{b: f.b, stream: bus.JobsStream, filter: filter, next: max(from, 1)}
	return w.run(ctx, fn)
}
