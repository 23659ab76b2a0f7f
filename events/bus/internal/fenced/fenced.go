// Package fenced is the one algorithm of appending behind a known sequence and finding out what became of it.
// Memory and JetStream both run it, so a simulation meets the same doubts as a cluster.
package fenced

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"stint/events/bus"
)

// Store is what the algorithm stands on. None of its methods retries.
type Store interface {
	// PublishAfter sends data once, conditional on the subject's last sequence. Only a nil error means anything.
	PublishAfter(ctx context.Context, subject string, after uint64, data []byte) (seq uint64, err error)
	// FirstAfter returns the first message of the subject behind after, or bus.ErrNotFound.
	FirstAfter(ctx context.Context, subject string, after uint64) (bus.Message, error)
	// Bounds returns the first sequence kept and the last given out.
	Bounds(ctx context.Context) (first, last uint64, err error)
	// Wait pauses for d or until ctx ends. why is what the last try ended with.
	Wait(ctx context.Context, d time.Duration, why error) error
}

// Pauses between two tries.
const (
	Shortest = 5 * time.Millisecond
	Longest  = 50 * time.Millisecond
)

// Append implements bus.Log.Append on a store.
//
// Why a refusal proves nothing: it may be about one's own earlier try, whose acknowledgement was lost or whose
// request lay in a queue when this one came by; servers also refuse when they cannot decide. The
// log itself is the only witness: the first message behind after is the one that was accepted with that
// condition, and there can be one such message only.
func Append(ctx context.Context, s Store, subject string, after uint64, data []byte) (uint64, error) {
	condition := after
	for pause := Shortest; ; pause = min(2*pause, Longest) {
		seq, failed := s.PublishAfter(ctx, subject, condition, data)
		if failed == nil {
			return seq, nil
		}
		if Hopeless(failed) {
			return 0, fmt.Errorf("appending on %s behind %d: %w", subject, after, failed)
		}
		m, err := s.FirstAfter(ctx, subject, after)
		switch {
		case err == nil && bytes.Equal(m.Data, data):
			return m.Seq, nil
		case err == nil:
			return 0, &bus.DeposedError{Subject: subject, After: after, Found: m.Seq}
		case errors.Is(err, bus.ErrNotFound) && condition != 0:
			// Nothing behind after. If after itself was trimmed away the subject is empty and the server
			// compares with 0; who may write then is judged by the fold, by term or boot id.
			if first, _, err := s.Bounds(ctx); err == nil && condition < first {
				condition = 0
			}
		}
		if err := s.Wait(ctx, pause, failed); err != nil {
			return 0, fmt.Errorf("appending on %s behind %d: %w: %w (the last try: %w)", subject, after, bus.ErrUnsettled, err, failed)
		}
	}
}

// Publish implements bus.Log.Publish: send repeats one message, same bytes and same id, until it is acknowledged.
func Publish(ctx context.Context, s Store, subject string, send func(ctx context.Context) (uint64, error)) (uint64, error) {
	for pause := Shortest; ; pause = min(2*pause, Longest) {
		seq, failed := send(ctx)
		if failed == nil {
			return seq, nil
		}
		if Hopeless(failed) {
			return 0, fmt.Errorf("publishing on %s: %w", subject, failed)
		}
		if err := s.Wait(ctx, pause, failed); err != nil {
			return 0, fmt.Errorf("publishing on %s: %w: %w (the last try: %w)", subject, bus.ErrUnsettled, err, failed)
		}
	}
}

// Hopeless reports whether an error is certain, so that trying again is of no use.
func Hopeless(err error) bool {
	for _, certain := range []error{bus.ErrTooLarge, bus.ErrDenied, bus.ErrClosed, bus.ErrSubject} {
		if errors.Is(err, certain) {
			return true
		}
	}
	return false
}

// Turns holds the subjects on which an append is outstanding.
type Turns struct {
	mu   sync.Mutex
	busy map[string]bool
}

// Begin claims the subject until done is called, or fails with bus.ErrOutstanding.
func (t *Turns) Begin(subject string) (done func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy[subject] {
		return nil, fmt.Errorf("appending on %s: %w", subject, bus.ErrOutstanding)
	}
	if t.busy == nil {
		t.busy = map[string]bool{}
	}
	t.busy[subject] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.busy, subject)
	}, nil
}
