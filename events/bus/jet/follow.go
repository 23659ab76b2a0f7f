package jet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"stint/events/bus"
	"stint/events/bus/internal/fenced"
)

const (
	pullMessages = 10_000   // asked for at a time: twice as fast as the library's 500
	pullBytes    = 16 << 20 // asked for at a time
	heldMessages = 20_000   // most messages held for fn; more wait with the server
	heldBytes    = 32 << 20
	lookAgain    = 200 * time.Millisecond
	lookAgains   = 10 // how often a log must seem shorter than what was folded before that is believed
)

// follower reads one stream. It keeps its place itself and uses the server's consumers as throw-aways: whatever
// happens to one (its server dies, the connection drops, heartbeats stay away, a number is skipped), the next
// one begins at the sequence behind the last message taken.
type follower struct {
	b        *Bus
	stream   string
	filter   string    // "" for all
	next     uint64    // where to go on; 0: at since
	since    time.Time // where to begin while next is 0
	complete bool      // every sequence must come
	strict   bool      // a place beyond the end is an error

	goal  uint64 // the last sequence when it began, if complete: no end before that
	told  bool   // the end was reported
	lived bool   // the last session had a consumer
	hole  uint64 // a sequence that was skipped, and how often
	seen  int
}

func (f *follower) run(ctx context.Context, fn func(bus.Batch) error) error {
	what := "following " + f.stream + " " + f.filter
	st := f.b.store(what)
	for pauseFor := fenced.Shortest; ; pauseFor = min(2*pauseFor, time.Second) {
		began := f.next
		handed, err := f.session(ctx, fn)
		switch {
		case handed != nil:
			return handed
		case ctx.Err() != nil:
			return ctx.Err()
		}
		select {
		case <-f.b.closed:
			return bus.ErrClosed
		default:
		}
		if fenced.Hopeless(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
		if f.next != began || f.lived {
			pauseFor, st = fenced.Shortest, f.b.store(what)
		}
		f.b.log.Debug("a follower begins again", "what", what, "from", f.next, "error", err)
		if err := st.Wait(ctx, pauseFor, err); err != nil {
			return err
		}
	}
}

// session follows with one consumer until something happens to it. final is an error to return from Follow;
// err says why to begin again.
func (f *follower) session(ctx context.Context, fn func(bus.Batch) error) (final, err error) {
	dropped := f.b.dropped()
	f.lived = false
	if final, err = f.place(ctx); final != nil || err != nil {
		return final, err
	}
	cfg := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: f.next}
	switch {
	case f.next == 0 && f.since.IsZero():
		cfg = jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}
	case f.next == 0:
		cfg = jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &f.since}
	}
	c, err := f.b.consumer(ctx, f.stream, f.filter, cfg)
	if err != nil {
		return nil, err
	}
	defer f.b.dropConsumer(f.stream, c.CachedInfo().Name)
	f.lived = true
	if !f.told && c.CachedInfo().NumPending == 0 && f.reached() {
		f.told = true
		if err := fn(bus.Batch{Tip: true}); err != nil {
			return err, nil
		}
	}

	q := newQueue()
	expected := f.next // the lowest sequence to take; while complete, the very next
	var delivered uint64
	heartbeat := 2 * time.Second
	if f.b.role.Narrow() {
		heartbeat = 5 * time.Second // there may be thousands
	}
	pull, err := c.Consume(func(m jetstream.Msg) {
		got, meta, err := message(m)
		switch {
		case err != nil:
			q.end(err)
			return
		case meta.Sequence.Consumer != delivered+1:
			q.end(fmt.Errorf("the consumer skipped from its message %d to %d", delivered, meta.Sequence.Consumer))
			return
		case f.complete && got.Seq != expected:
			q.end(&skipped{at: expected, to: got.Seq})
			return
		}
		delivered++
		if got.Seq < expected {
			return // taken before, lost by the server, and derived again
		}
		expected = got.Seq + 1
		q.put(got, meta.NumPending == 0)
	},
		jetstream.PullMaxMessagesWithBytesLimit(pullMessages, pullBytes),
		jetstream.PullHeartbeat(heartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { q.end(err) }),
	)
	if err != nil {
		return nil, err
	}
	defer pull.Stop()
	defer q.end(errors.New("the follower left"))

	for {
		batch, ended := q.take()
		if len(batch.Messages) > 0 {
			f.next = batch.Messages[len(batch.Messages)-1].Seq + 1
			batch.Tip = batch.Tip && f.reached()
			f.told = f.told || batch.Tip
			if err := fn(batch); err != nil {
				return err, nil
			}
			if ctx.Err() != nil {
				return ctx.Err(), nil
			}
			continue
		}
		if ended != nil {
			return f.skip(ended), ended
		}
		select {
		case <-ctx.Done():
			return ctx.Err(), nil
		case <-f.b.closed:
			return bus.ErrClosed, nil
		case <-dropped:
			q.end(errDropped)
		case <-q.ready:
		}
	}
}

// reached reports whether all has been taken that the stream held when the follower began.
func (f *follower) reached() bool { return !f.complete || f.next > f.goal }

// skipped says that a sequence did not come.
type skipped struct{ at, to uint64 }

func (s *skipped) Error() string { return fmt.Sprintf("sequence %d was followed by %d", s.at-1, s.to) }

// skip makes a sequence that is skipped again and again an error to return: the stream has a hole.
func (f *follower) skip(ended error) error {
	var s *skipped
	if !errors.As(ended, &s) {
		return nil
	}
	if f.hole != s.at {
		f.hole, f.seen = s.at, 0
	}
	if f.seen++; f.seen < 3 {
		return nil
	}
	return fmt.Errorf("following %s: its messages from %d to %d are missing", f.stream, s.at, s.to-1)
}

// place checks that the stream holds the place to go on from.
func (f *follower) place(ctx context.Context) (final, err error) {
	if !f.complete && !f.strict {
		return nil, nil
	}
	for n := 1; ; n++ {
		first, last, err := f.b.bounds(ctx, f.stream)
		switch {
		case err != nil:
			return nil, err
		case f.complete && f.next < first:
			return &bus.TrimmedError{From: f.next, First: first}, nil
		case !f.strict || f.next <= last+1:
			if f.complete {
				// The consumer's server may be behind the leader, and then its end is not the end.
				f.goal = max(f.goal, last)
			}
			return nil, nil
		case n == lookAgains:
			return &bus.AheadError{From: f.next, Last: last}, nil
		}
		// A leader just elected may not yet have all that its cluster acknowledged.
		if err := pause(ctx, lookAgain); err != nil {
			return err, nil
		}
	}
}

// queue hands messages from the consumer's goroutine to the follower's, as many at once as there are.
type queue struct {
	ready chan struct{} // holds one token while there is something to take

	mu    sync.Mutex
	room  sync.Cond
	msgs  []bus.Message
	bytes int
	tip   bool
	ended error
}

func newQueue() *queue {
	q := &queue{ready: make(chan struct{}, 1)}
	q.room.L = &q.mu
	return q
}

func (q *queue) put(m bus.Message, tip bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.ended == nil && (len(q.msgs) >= heldMessages || q.bytes >= heldBytes) {
		q.room.Wait()
	}
	if q.ended != nil {
		return
	}
	q.msgs = append(q.msgs, m)
	q.bytes += len(m.Data)
	q.tip = tip
	q.signal()
}

// end closes the queue; what it holds can still be taken. The first reason stays.
func (q *queue) end(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended == nil {
		q.ended = why
	}
	q.room.Broadcast()
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take returns all that is there, and why the queue ended if it did.
func (q *queue) take() (bus.Batch, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := bus.Batch{Messages: q.msgs, Tip: q.tip && len(q.msgs) > 0}
	q.msgs, q.bytes, q.tip = nil, 0, false
	q.room.Broadcast()
	return batch, q.ended
}
