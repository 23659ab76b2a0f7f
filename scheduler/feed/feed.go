// Package feed carries job states from the fold to the stream JOBS, each exactly once.
package feed

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"stint/events/bus"
	"stint/projections"
)

// Feed is one controller's part in that: the stream's last message says how far it is, and the next are appended on the
// condition that it still is the last. Every controller derives; only the leader appends, and the others forget what they
// see to be there. Add takes what was derived, Run, or Part call by call, moves it.
type Feed struct {
	jobs   bus.Feed
	events Bounded
	log    *slog.Logger

	mu    sync.Mutex
	queue []projections.JobEvent // derived and, as far as is known, not in the stream; ascending by sequence and index
	done  place                  // of the stream's last message
	last  uint64                 // its sequence there
	leads bool
	fresh bool      // last is what the stream said since this controller leads
	gone  []erasure // blobs to erase

	recent []projections.JobEvent // the last that this controller has put into the stream, which the bus may lose with its life
	again  int                    // entries at the front of queue that are put there once more: they have been told of
	doubt  bool                   // the bus was away: look how far the stream is

	Told func([]projections.JobEvent) // hears what this controller has put into the stream; may be nil
	wake chan struct{}
}

type erasure struct {
	blobs   bus.Blobs
	subject string
}

// place is where in the log a job state comes from.
type place struct {
	Seq   uint64 `json:"seq"`
	Index int    `json:"index"`
}

func (p place) before(e *projections.JobEvent) bool {
	return p.Seq < e.Seq || p.Seq == e.Seq && p.Index < e.Index
}

const (
	partMost = 2000   // entries appended at once
	keepMost = 50_000 // entries a follower keeps before it looks how far the stream is
	lostMost = 4096   // entries put into the stream last that are kept, should the bus lose them
	passMost = 1000   // entries passed over, at most, that say no place in the log
)

// Bounded is the log, of which only the end is looked at.
type Bounded interface {
	Bounds(ctx context.Context) (first, last uint64, err error)
}

// New is a feed that knows nothing yet, see Begin.
func New(jobs bus.Feed, events Bounded, log *slog.Logger) *Feed {
	return &Feed{jobs: jobs, events: events, log: log, wake: make(chan struct{}, 1)}
}

// Begin reads how far the stream is. waiting are entries a snapshot had not seen in the stream.
func (f *Feed) Begin(ctx context.Context, waiting []projections.JobEvent) error {
	for {
		err := f.look(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil || errors.Is(err, bus.ErrDenied) || errors.Is(err, bus.ErrClosed) {
			return err
		}
		sleep(ctx, 200*time.Millisecond)
	}
	f.Add(waiting)
	return nil
}

// look reads how far the stream is and drops what it shows to be there.
func (f *Feed) look(ctx context.Context) error {
	attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	last, at, err := f.end(attempt)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done, f.last, f.doubt = at, last, false
	f.recall()
	f.drop()
	return nil
}

// end returns the stream's last sequence, and the place of the last message that says one. What somebody else has put there may
// say none, or one that the log does not have: nobody is muted by that, nor kept from starting.
func (f *Feed) end(ctx context.Context) (last uint64, at place, err error) {
	m, err := f.jobs.Last(ctx)
	if errors.Is(err, bus.ErrNotFound) {
		return 0, place{}, nil
	}
	if err != nil {
		return 0, place{}, err
	}
	last = m.Seq
	_, head, err := f.events.Bounds(ctx) // read after the feed: nothing there is from behind it
	for odd := 0; err == nil; odd++ {
		at = place{}
		if json.Unmarshal(m.Data, &at) == nil && at.Seq > 0 && at.Seq <= head {
			return last, at, nil
		}
		if odd == passMost || m.Seq == 1 {
			return last, place{}, nil
		}
		f.log.Warn("a message among the job states is nobody's and is passed over", "stream", bus.JobsStream, "message", m.Seq, "subject", m.Subject)
		m, err = f.jobs.Get(ctx, m.Seq-1)
		if errors.Is(err, bus.ErrNotFound) {
			return last, place{}, nil
		}
	}
	return 0, place{}, err
}

// recall takes back what was in the stream and is not any more: a server acknowledges job states before it has written them, and
// may be killed in between. With the lock held.
func (f *Feed) recall() {
	n := len(f.recent)
	for n > 0 && f.done.before(&f.recent[n-1]) {
		n--
	}
	lost := f.recent[n:]
	f.recent = f.recent[:n:n]
	if len(lost) > 0 {
		f.log.Warn("the bus has lost job states, which are told again", "stream", bus.JobsStream, "states", len(lost))
		f.queue = append(append([]projections.JobEvent(nil), lost...), f.queue...)
		f.again += len(lost)
	}
}

// Back says that the bus was away and is there again.
func (f *Feed) Back() {
	f.mu.Lock()
	f.doubt = true
	f.mu.Unlock()
	f.nudge()
}

// drop forgets entries that are in the stream. With the lock held.
func (f *Feed) drop() {
	n := 0
	for n < len(f.queue) && !f.done.before(&f.queue[n]) {
		n++
	}
	f.queue, f.again = f.queue[n:], max(0, f.again-n)
	if len(f.queue) == 0 {
		f.queue = nil
	}
}

// Add takes what was derived.
func (f *Feed) Add(entries []projections.JobEvent) {
	if len(entries) == 0 {
		return
	}
	f.mu.Lock()
	for i := range entries {
		if f.done.before(&entries[i]) {
			f.queue = append(f.queue, entries[i])
		}
	}
	wake := f.leads || len(f.queue) > keepMost
	f.mu.Unlock()
	if wake {
		f.nudge()
	}
}

// Erase has a blob erased, in its own time.
func (f *Feed) Erase(blobs bus.Blobs, subject string) {
	f.mu.Lock()
	f.gone = append(f.gone, erasure{blobs, subject})
	f.mu.Unlock()
	f.nudge()
}

func (f *Feed) nudge() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Lead says whether this controller appends.
func (f *Feed) Lead(leads bool) {
	f.mu.Lock()
	f.leads, f.fresh = leads, false
	f.mu.Unlock()
	f.nudge()
}

// Rest is how far the stream is known to be, and what was derived behind that.
type Rest struct {
	Seq     uint64 // of the message of the log that the stream's last entry comes from; 0: it has none
	Index   int    // of that entry among those that come from the message
	Waiting []projections.JobEvent
}

// Rest returns both as of one moment.
func (f *Feed) Rest() Rest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Rest{f.done.Seq, f.done.Index, append([]projections.JobEvent(nil), f.queue...)}
}

// Covers says whether the stream has all that r says it has. One server may forget the last entries when the power goes; they can
// be derived again, from an older state.
func (f *Feed) Covers(r Rest) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return r.Seq < f.done.Seq || r.Seq == f.done.Seq && r.Index <= f.done.Index
}

// Backlog is how many entries wait.
func (f *Feed) Backlog() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.queue)
}

func (f *Feed) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		case <-time.After(10 * time.Second):
			if f.Backlog() > 0 {
				f.look(ctx)
			}
		}
		for ctx.Err() == nil && f.Part(ctx) {
		}
	}
}

// Part moves some entries and erases some blobs, and reports whether there may be more to do at once.
func (f *Feed) Part(ctx context.Context) bool {
	f.mu.Lock()
	gone := f.gone
	f.gone = nil
	n := min(len(f.queue), partMost)
	part := f.queue[:n:n]
	after, leads, fresh, long := f.last, f.leads, f.fresh, len(f.queue) > keepMost
	told, doubt := min(f.again, n), f.doubt
	f.mu.Unlock()

	for _, e := range gone {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		if err := e.blobs.Erase(attempt, e.subject); err != nil && ctx.Err() == nil {
			f.log.Warn("erasing a blob", "subject", e.subject, "error", err)
		}
		cancel()
	}
	if doubt && leads {
		if f.look(ctx) != nil {
			sleep(ctx, 200*time.Millisecond)
		}
		return true
	}
	if !leads {
		if long {
			if f.look(ctx) != nil {
				sleep(ctx, time.Second)
			}
		}
		return false
	}
	if n == 0 {
		return false
	}
	if !fresh {
		// What the leader before put there is not this one's to tell of. (Its append would be taken for one's own: the bytes
		// are the same.)
		if f.look(ctx) != nil {
			sleep(ctx, 200*time.Millisecond)
			return true
		}
		f.mu.Lock()
		f.fresh = f.leads
		f.mu.Unlock()
		return true
	}
	entries := make([]bus.Entry, n)
	for i := range part {
		entries[i] = bus.Entry{Subject: part[i].Subject, Data: part[i].Data}
	}
	attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
	last, err := f.jobs.Append(attempt, after, entries)
	cancel()
	if err != nil {
		if ctx.Err() != nil {
			return false
		}
		if !errors.Is(err, bus.ErrDeposed) && !errors.Is(err, bus.ErrUnsettled) {
			f.log.Warn("appending job states", "error", err)
		}
		for f.look(ctx) != nil && ctx.Err() == nil { // somebody else derived too, or a prefix is there: go on from what is
			sleep(ctx, 200*time.Millisecond)
		}
		return true
	}
	if f.Told != nil && told < n {
		f.Told(part[told:])
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recent = append(f.recent, part...)
	if over := len(f.recent) - lostMost; over > lostMost {
		f.recent = append([]projections.JobEvent(nil), f.recent[over:]...)
	}
	f.last = last
	f.done = place{part[n-1].Seq, part[n-1].Index}
	f.drop()
	return len(f.queue) > 0
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
