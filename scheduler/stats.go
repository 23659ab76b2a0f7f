package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"

	"stint/events"
	"stint/events/bus"
	"stint/projections"
	"stint/scheduler/cycle"
)

// stats counts what this controller saw and, while it leads, did. It is lost with the process: no decision rests on it.
type stats struct {
	mu   sync.Mutex
	a    projections.AnswerStats
	took []uint64 // the last passes, microseconds: a ring
	next int
}

// passesKept is of how many passes the slowest hundredth is known.
const passesKept = 1000

func newStats(now int64) *stats {
	return &stats{a: projections.AnswerStats{SinceUs: now, Passes: &projections.Passes{}, Backfill: &projections.Passes{}}}
}

// reset begins to count anew. What is of the last pass, and what counts since the leader began, stays.
func (s *stats) reset(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took, s.next = nil, 0
	s.a = projections.AnswerStats{
		SinceUs: now, Backfilled: s.a.Backfilled, Held: s.a.Held,
		Passes:   &projections.Passes{Last: s.a.Passes.Last, LastUs: s.a.Passes.LastUs, Queue: s.a.Passes.Queue},
		Backfill: &projections.Passes{LastUs: s.a.Backfill.LastUs},
	}
}

// changed counts what became of jobs.
func (s *stats) changed(changes []projections.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		if c.After == nil {
			continue
		}
		was := events.JobState_PENDING
		switch {
		case c.Before != nil:
			was = c.Before.State
		case c.After.GetHasTask(): // a task of an array gets its own record as it starts, and was counted with the array
		default:
			n := uint64(1)
			if c.After.Remainder() {
				n = uint64(events.Words(c.After.GetPending()).Count())
			}
			s.a.Submitted += n
		}
		if now := c.After.State; now != was {
			s.count(now)
		}
	}
}

func (s *stats) count(state events.JobState) {
	switch state {
	case events.JobState_RUNNING:
		s.a.Started++
	case events.JobState_COMPLETED:
		s.a.Completed++
	case events.JobState_CANCELLED:
		s.a.Canceled++
	case events.JobState_PENDING, events.JobState_SUSPENDED:
	default:
		s.a.Failed++
	}
}

// passed counts a pass: when it began, how long it took, what it saw and what it decided.
func (s *stats) passed(at int64, took time.Duration, seen cycle.Seen, facts []*events.Fact) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add := func(p *projections.Passes, depth int) {
		us := uint64(max(took.Microseconds(), 1))
		p.Count++
		p.LastUs, p.Last, p.Most, p.Sum = at, us, max(p.Most, us), p.Sum+us
		p.Depth, p.DepthSum = uint64(depth), p.DepthSum+uint64(depth)
		p.Queue, p.QueueSum = uint64(seen.Queue), p.QueueSum+uint64(seen.Queue)
	}
	add(s.a.Passes, seen.Tried)
	if len(s.took) < passesKept {
		s.took = append(s.took, s.a.Passes.Last)
	} else {
		s.took[s.next%passesKept] = s.a.Passes.Last
	}
	s.next++
	s.a.Held = uint64(seen.Held)
	if seen.Behind > 0 {
		add(s.a.Backfill, seen.Behind)
	}
	for _, f := range facts {
		for _, p := range events.Placements(f) {
			if p.GetBackfilled() {
				s.a.Backfilled++
				s.a.BackfilledSince++
			}
		}
	}
}

func (s *stats) copy() *projections.AnswerStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.a.CloneVT()
	if n := len(s.took); n > 0 {
		sorted := slices.Sorted(slices.Values(s.took))
		a.Passes.P99 = sorted[min(n-1, n*99/100)]
	}
	return a
}

// subjectStats: the counters of one controller, by its name.
const subjectStats = "ask.stats."

// answerStats answers with the leader's counters: this controller's, or what the leader says when it is asked.
func (c *Controller) answerStats(ctx context.Context, ask *projections.Ask) *projections.Answer {
	ctx, cancel := context.WithTimeout(ctx, statsTime)
	defer cancel()
	for {
		s := c.shown.Load()
		if s == nil {
			return &projections.Answer{Error: "this controller is still reading the log"}
		}
		leader := s.view.Term().GetController()
		if leader == "" || leader == c.cfg.Name {
			return c.ownStats(ctx, ask)
		}
		data, err := ask.MarshalVT()
		if err == nil {
			data, err = c.cfg.Bus.Wire().Ask(ctx, subjectStats+events.Token(leader), data)
		}
		if a := new(projections.Answer); err == nil && a.UnmarshalVT(data) == nil {
			return a
		}
		select { // it may have ended: another takes the term then
		case <-s.next:
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return &projections.Answer{Seq: s.view.Seq(), Error: "the leader, " + leader + ", does not answer: it has ended or is stopped, and no other controller has taken the term; `stint doctor` says more"}
		}
	}
}

// statsTime is how long a leader is waited for: one that died is followed by another within the time of a lease.
const statsTime = 8 * time.Second

// endTime is how long the bus may take to say where the log ends, for those who want to know who is behind.
const endTime = time.Second

// clock is the time that people are told, microseconds.
func (c *Controller) clock() int64 {
	return max(c.cfg.Clock().UnixMicro(), c.shown.Load().view.At())
}

func (c *Controller) ownStats(ctx context.Context, ask *projections.Ask) *projections.Answer {
	if ask.GetStats().GetReset_() {
		c.stats.reset(c.clock())
	}
	view := c.shown.Load().view
	a := c.stats.copy()
	n := view.Counts()
	a.Pending, a.Running, a.Leader = uint64(n.Pending), uint64(n.Running), c.cfg.Name
	a.Seq, a.Term, a.Voids, a.Inbox, a.FeedBacklog = view.Seq(), view.Term(), view.Voids(), uint64(len(view.Inbox())), uint64(c.feed.Backlog())
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if _, last, err := c.cfg.Bus.Events().Bounds(ctx); err == nil {
		a.LogSeq = last
	}
	a.Followers = c.standings.list(view.Seq(), c.beats)
	return &projections.Answer{Seq: view.Seq(), NowUs: c.clock(), What: &projections.Answer_Stats{Stats: a}}
}

// hearStats answers another controller that was asked.
func (c *Controller) hearStats(ctx context.Context, q bus.Nudge) ([]byte, error) {
	ask := new(projections.Ask)
	if err := ask.UnmarshalVT(q.Data); err != nil {
		return nil, err
	}
	return c.ownStats(ctx, ask).MarshalVT()
}
