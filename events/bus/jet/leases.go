package jet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"stint/events/bus"
)

// A lease is a key of a NATS key-value bucket, written as plain messages of the bucket's stream: the library's
// own update forgets the time to live, and a lease renewed with it would never end. The value is the holder and,
// on a second line, a nonce and a number, so that a write whose acknowledgement was lost is known again.
const (
	leaseStream = "KV_" + bus.LeaseBucket
	leasePrefix = "$KV." + bus.LeaseBucket + "."
)

type leases struct{ b *Bus }

// state is what a lease's key holds. holder is "" if nobody has it; seq is what a write must be conditional on.
type state struct {
	holder, value string
	seq           uint64
}

func (l leases) read(ctx context.Context, name string) (state, error) {
	m, err := l.b.leaderGet(ctx, leaseStream, leaderQuery{LastOf: leasePrefix + name})
	if errors.Is(err, bus.ErrNotFound) {
		return state{}, nil
	}
	if err != nil {
		return state{}, err
	}
	if m.header.Get("KV-Operation") != "" || m.header.Get("Nats-Marker-Reason") != "" {
		return state{seq: m.Seq}, nil // released, or expired
	}
	holder, _, _ := strings.Cut(string(m.Data), "\n")
	return state{holder, string(m.Data), m.Seq}, nil
}

func (l leases) Holder(ctx context.Context, name string) (string, error) {
	now, err := l.read(ctx, name)
	if err != nil {
		return "", fmt.Errorf("reading the lease %s: %w", name, err)
	}
	return now.holder, nil
}

func (l leases) Take(ctx context.Context, name, holder string, ttl time.Duration) (bus.Lease, error) {
	switch {
	case bus.Exact("l."+name, "l.*") != nil:
		return nil, fmt.Errorf("lease %q: %w: its name is one token", name, bus.ErrSubject)
	case holder == "" || strings.Contains(holder, "\n"):
		return nil, fmt.Errorf("lease %s: the name of its holder must be one line", name)
	case ttl < time.Second || ttl%time.Second != 0:
		return nil, fmt.Errorf("lease %s for %s: give whole seconds, at least one", name, ttl)
	}
	now, err := l.read(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("taking the lease %s: %w", name, err)
	}
	if now.holder != "" {
		return nil, &bus.HeldError{Name: name, Holder: now.holder}
	}
	mine := &lease{l: l, name: name, holder: holder, ttl: ttl, nonce: nuid.Next(), seq: now.seq}
	if err := mine.write(ctx); err != nil {
		if errors.Is(err, bus.ErrLeaseLost) {
			if now, readErr := l.read(ctx, name); readErr == nil && now.holder != "" {
				return nil, &bus.HeldError{Name: name, Holder: now.holder}
			}
		}
		return nil, fmt.Errorf("taking the lease %s: %w", name, err)
	}
	return mine, nil
}

type lease struct {
	l            leases
	name, holder string
	nonce        string
	ttl          time.Duration

	mu  sync.Mutex
	n   int
	seq uint64 // of the last write that is known to stand
}

// write stores the lease for its whole ttl if its key still has the last write of this lease.
func (s *lease) write(ctx context.Context) error {
	s.n++
	value := s.holder + "\n" + s.nonce + " " + strconv.Itoa(s.n)
	m := nats.NewMsg(leasePrefix + s.name)
	seq, failed := s.l.b.publish(ctx, leaseStream, m, []byte(value),
		jetstream.WithMsgTTL(s.ttl), jetstream.WithExpectLastSequencePerSubject(s.seq))
	if failed == nil {
		s.seq = seq
		return nil
	}
	now, err := s.l.read(ctx, s.name)
	switch {
	case err != nil:
		return failed
	case now.value == value || strings.HasPrefix(now.value, s.holder+"\n"+s.nonce+" "):
		s.seq = now.seq // an earlier write of this lease, or this one: its acknowledgement was lost
		if now.value == value {
			return nil
		}
		return failed
	case now.seq == s.seq:
		return failed
	}
	return bus.ErrLeaseLost
}

func (s *lease) Renew(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seq == 0 {
		return fmt.Errorf("renewing the lease %s: %w", s.name, bus.ErrLeaseLost)
	}
	if err := s.write(ctx); err != nil {
		return fmt.Errorf("renewing the lease %s: %w", s.name, err)
	}
	return nil
}

func (s *lease) Release(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := nats.NewMsg(leasePrefix + s.name)
	m.Header.Set("KV-Operation", "DEL")
	_, failed := s.l.b.publish(ctx, leaseStream, m, nil, jetstream.WithExpectLastSequencePerSubject(s.seq))
	if failed == nil {
		s.seq = 0
		return nil
	}
	now, err := s.l.read(ctx, s.name)
	if err == nil && now.seq != s.seq {
		s.seq = 0
		return nil
	}
	return fmt.Errorf("releasing the lease %s: %w", s.name, failed)
}
