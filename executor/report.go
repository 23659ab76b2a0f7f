package executor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"stint/events"
	"stint/events/bus"
)

// report writes the node's facts into the log: one message outstanding, each conditional on the last, many facts in one.
// While the bus is away they wait in line. An executor that finds the word of another one behind its own is over.
type report struct {
	log     bus.Log
	subject string
	node    string
	boot    string
	logger  *slog.Logger
	kick    chan struct{}

	mu             sync.Mutex
	up             *entry // the fact that opens the next message, and begins a new count
	open           bool   // an up has been said, or is about to be: other facts may follow
	queue          []*entry
	nonce          []byte
	n              uint64
	doneN, doneSeq uint64 // of the last message that is in the log
	upSeq          uint64 // where the last up is in the log; 0: it is on its way, or none was said
}

// entry is one fact that waits to be told.
type entry struct {
	fact *events.NodeFact
	told func(seq uint64)
}

const (
	maxFacts     = 2000
	maxFactBytes = 256 << 10
)

func newReport(log bus.Log, node, boot string, logger *slog.Logger) *report {
	return &report{log: log, subject: events.SubjectNode(node), node: node, boot: boot, logger: logger, kick: make(chan struct{}, 1)}
}

func (r *report) poke() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// say puts a fact in line; told is called when it is in the log.
func (r *report) say(f *events.NodeFact, told func(seq uint64)) {
	r.mu.Lock()
	r.queue = append(r.queue, &entry{f, told})
	r.mu.Unlock()
	r.poke()
}

// comeUp makes the next message an up, under a new name of this executor.
func (r *report) comeUp(up *events.NodeUp, told func(seq uint64)) {
	r.mu.Lock()
	r.up = &entry{&events.NodeFact{Kind: &events.NodeFact_Up{Up: up}}, func(seq uint64) {
		r.mu.Lock()
		r.upSeq = seq
		r.mu.Unlock()
		told(seq)
	}}
	r.open, r.upSeq = true, 0
	r.mu.Unlock()
	r.poke()
}

// folded tells whether a state of that sequence has taken in the last up.
func (r *report) folded(seq uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.upSeq != 0 && r.upSeq <= seq
}

// unheard tells whether an up has been said that a state of that sequence cannot know yet.
func (r *report) unheard(seq uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open && (r.upSeq == 0 || r.upSeq > seq)
}

// name is under which nonce this executor speaks (nil: it has not yet), and the number and the sequence of its last
// message in the log.
func (r *report) name() (nonce []byte, n, seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nonce, r.doneN, r.doneSeq
}

// next takes what goes into one message; nil: nothing may be said yet.
func (r *report) next() (m *events.NodeMessage, told []func(uint64)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open || r.up == nil && len(r.queue) == 0 {
		return nil, nil
	}
	m = &events.NodeMessage{Boot: r.boot, NowUs: time.Now().UnixMicro()}
	bytes := 0
	take := func(e *entry) {
		m.Facts = append(m.Facts, e.fact)
		told = append(told, e.told)
		bytes += e.fact.SizeVT() + 4
	}
	if r.up != nil {
		r.nonce, r.n = make([]byte, 16), 0
		rand.Read(r.nonce)
		take(r.up)
		r.up = nil
	}
	i := 0
	for i < len(r.queue) && len(m.Facts) < maxFacts && bytes < maxFactBytes {
		take(r.queue[i])
		i++
	}
	r.queue = r.queue[i:]
	r.n++
	m.Executor, m.N = r.nonce, r.n
	return m, told
}

// run writes until ctx is done, or another executor writes for this node (an error).
func (r *report) run(ctx context.Context) error {
	after, err := r.last(ctx)
	if err != nil {
		return nil // ctx is done
	}
	spoken := false // a message of this process is in the log
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.kick:
		}
		for {
			m, told := r.next()
			if m == nil {
				break
			}
			data, err := m.MarshalVT()
			if err != nil {
				return fmt.Errorf("encoding facts: %w", err)
			}
			for {
				seq, err := r.log.Append(ctx, r.subject, after, data)
				if err == nil {
					after, spoken = seq, true
					r.mu.Lock()
					r.doneN, r.doneSeq = m.N, seq
					r.mu.Unlock()
					for _, f := range told {
						if f != nil {
							f(seq)
						}
					}
					break
				}
				if ctx.Err() != nil {
					return nil
				}
				switch {
				case errors.Is(err, bus.ErrDeposed) && spoken:
					return fmt.Errorf("another executor has come up for this node, this one ends: %w", err)
				case errors.Is(err, bus.ErrDeposed):
					// The last word of the executor before this one arrived late.
					if after, err = r.last(ctx); err != nil {
						return nil
					}
				default:
					r.logger.Warn("facts of this node wait to be told", "facts", len(m.Facts), "error", err)
					select {
					case <-ctx.Done():
						return nil
					case <-time.After(200 * time.Millisecond):
					}
				}
			}
		}
	}
}

// last is the sequence of the last message on the node's subject; 0: there is none. It fails only when ctx is done.
func (r *report) last(ctx context.Context) (uint64, error) {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		m, err := r.log.Last(ctx, r.subject)
		switch {
		case err == nil:
			return m.Seq, nil
		case errors.Is(err, bus.ErrNotFound):
			return 0, nil
		case ctx.Err() != nil:
			return 0, ctx.Err()
		}
		r.logger.Debug("the last word of this node cannot be read", "error", err)
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(pause):
		}
	}
}
