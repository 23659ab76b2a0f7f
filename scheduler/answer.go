package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stint/events"
	"stint/events/bus"
	"stint/projections"
	"stint/scheduler/cycle"
)

// views are the kinds of questions a controller answers; see projections.Ask.
var views = []string{"jobs", "nodes", "config", "verdicts", "status", "why", "wait", "policy", "test", "stats", "crontab", "triggers"}

// Subjects of what is said between controllers about outcomes: core messages, never truth.
const (
	subjectOutcomes = "ask.outcomes"

	// Of one controller, by its name: what it as the leader thinks of all pending jobs.
	subjectAllOutcomes = "ask.outcomes."
)

// answerQueue spreads the questions over all controllers.
const answerQueue = "controllers"

// answer begins to answer questions. stop ends it.
func (c *Controller) answer() (stop func(), err error) {
	w := c.cfg.Bus.Wire()
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	keep := func(s func(), e error) {
		if e != nil {
			err = e
			return
		}
		stops = append(stops, s)
	}
	for _, view := range views {
		keep(w.Answer(events.SubjectAsk(view), answerQueue, c.reply))
	}
	keep(w.Answer(events.SubjectAsk("node")+".*", answerQueue, c.reply))
	keep(w.Answer(subjectStats+events.Token(c.cfg.Name), "", c.hearStats))
	keep(w.Listen(subjectOutcomes, "", c.hearOutcomes))
	keep(w.Answer(subjectAllOutcomes+events.Token(c.cfg.Name), "", func(context.Context, bus.Nudge) ([]byte, error) {
		if t := c.outcomes.all(); c.busyLeading() {
			return t.MarshalVT()
		}
		return nil, errors.New("this controller does not lead")
	}))
	if err != nil {
		stop()
		return nil, fmt.Errorf("beginning to answer questions: %w", err)
	}
	go c.learnOutcomes()
	return stop, nil
}

// reply answers one question from the newest view, once that has reached the sequence asked for.
func (c *Controller) reply(ctx context.Context, q bus.Nudge) ([]byte, error) {
	ask := new(projections.Ask)
	if err := ask.UnmarshalVT(q.Data); err != nil {
		return nil, fmt.Errorf("the question could not be read: %w", err)
	}
	data, err := c.encoded(ctx, ask)
	if lag := c.standings.lag(projections.SeqOf(data)); lag > 0 && err == nil {
		data = projections.Stale(data, lag)
	}
	return data, err
}

// encoded is the answer to a question, encoded.
func (c *Controller) encoded(ctx context.Context, ask *projections.Ask) ([]byte, error) {
	if ask.GetJobs() != nil {
		return c.answerJobs(ctx, ask)
	}
	if n := ask.GetNodes(); n.GetAlike() && n.GetNames() == "" {
		return c.answerAlike(ctx, ask)
	}
	return c.Answer(ctx, ask).MarshalVT()
}

// answerJobs is Answer for lists of jobs, which may be long: encoded as they are gone through.
func (c *Controller) answerJobs(ctx context.Context, ask *projections.Ask) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience(ask))
	defer cancel()
	s, a := c.reached(ctx, ask.LeastSeq)
	if s == nil {
		return a.MarshalVT()
	}
	return projections.Encode(s.view, c.outcomes, ask)
}

// answerAlike is Answer for all nodes, where those that look alike may be told together.
func (c *Controller) answerAlike(ctx context.Context, ask *projections.Ask) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience(ask))
	defer cancel()
	s, a := c.reached(ctx, ask.LeastSeq)
	if s == nil {
		return a.MarshalVT()
	}
	return c.alike.Encode(s.view, ask)
}

// reached waits for the state to have come to a sequence, at most until ctx ends; without it, the answer says why.
func (c *Controller) reached(ctx context.Context, least uint64) (*shown, *projections.Answer) {
	for {
		s := c.shown.Load()
		if s == nil {
			return nil, &projections.Answer{Error: "this controller is still reading the log"}
		}
		if s.view.Seq() >= least {
			return s, nil
		}
		select {
		case <-s.next:
		case <-ctx.Done():
			return nil, &projections.Answer{Seq: s.view.Seq(), Error: fmt.Sprintf("this controller has read the log up to %d, and %d was asked for", s.view.Seq(), least)}
		}
	}
}

// Answer answers a question; an error is in the answer. It waits for the least sequence, for verdicts and for the end of
// jobs as the question says, at most until ctx ends.
func (c *Controller) Answer(ctx context.Context, ask *projections.Ask) *projections.Answer {
	ctx, cancel := context.WithTimeout(ctx, patience(ask))
	defer cancel()
	if ask.GetStatus().GetWantHash() {
		return c.answerHash(ctx, ask)
	}
	if w := ask.GetWhy(); w.GetThorough() {
		return c.answerThoroughly(ctx, ask)
	}
	if ask.GetStats() != nil {
		return c.answerStats(ctx, ask)
	}
	if t := ask.GetTest(); t != nil {
		return c.answerTest(ctx, ask)
	}
	for {
		s := c.shown.Load()
		if s == nil {
			return &projections.Answer{Error: "this controller is still reading the log"}
		}
		if s.view.Seq() >= ask.LeastSeq {
			a := projections.Reply(s.view, c.outcomes, ask)
			if decided(a) || ctx.Err() != nil {
				c.complete(a)
				return a
			}
		}
		select {
		case <-s.next:
		case <-ctx.Done():
			if s.view.Seq() < ask.LeastSeq {
				return &projections.Answer{Seq: s.view.Seq(), Error: fmt.Sprintf("this controller has read the log up to %d, and %d was asked for", s.view.Seq(), ask.LeastSeq)}
			}
		}
	}
}

// hashed is the hash of the state at a sequence.
type hashed struct {
	seq  uint64
	hash [32]byte
}

// answerHash answers a question about the status with the hash of the state. The loop makes it, between two messages: so
// the answer is current to exactly the sequence that the hash is of.
func (c *Controller) answerHash(ctx context.Context, ask *projections.Ask) *projections.Answer {
	got := make(chan hashed, 1)
	select {
	case c.hashes <- got:
	case <-ctx.Done():
		return &projections.Answer{Error: "this controller had no time to hash its state"}
	}
	h := <-got
	plain := &projections.Ask{LeastSeq: ask.LeastSeq, What: &projections.Ask_Status{Status: &projections.AskStatus{}}}
	a := c.Answer(ctx, plain)
	if s := a.GetStatus(); s != nil {
		a.Seq, s.Hash = h.seq, fmt.Sprintf("%x", h.hash)
	}
	return a
}

// answerThoroughly answers why a job waits, with what the passes say that would be made of it. They are made on a copy of the
// state, beside the loop, one question at a time: nobody who asks keeps the leader from deciding.
func (c *Controller) answerThoroughly(ctx context.Context, ask *projections.Ask) *projections.Answer {
	plain := &projections.Ask{LeastSeq: ask.LeastSeq, Uid: ask.Uid, What: &projections.Ask_Why{Why: ask.GetWhy().CloneVT()}}
	plain.GetWhy().Thorough = false
	a := c.Answer(ctx, plain)
	j := a.GetWhy().GetJob().GetJob()
	if a.Error != "" || !j.Waits() {
		return a
	}
	c.explain.Lock()
	defer c.explain.Unlock()
	state := c.copied(ctx)
	if state == nil {
		return a // the plain answer is better than none
	}
	a.GetWhy().Explanation = cycle.Explain(state, j.Id, c.cfg.Clock().UnixMicro())
	return a
}

// answerTest answers what would become of a submission, on a copy of the state.
func (c *Controller) answerTest(ctx context.Context, ask *projections.Ask) *projections.Answer {
	a := c.Answer(ctx, &projections.Ask{LeastSeq: ask.LeastSeq, What: &projections.Ask_Status{Status: &projections.AskStatus{}}})
	if a.Error != "" {
		return a
	}
	c.explain.Lock()
	defer c.explain.Unlock()
	state := c.copied(ctx)
	if state == nil {
		return &projections.Answer{Error: "this controller had no time to copy its state"}
	}
	t := ask.GetTest()
	a.What = &projections.Answer_Test{Test: cycle.Test(state, t.GetAuthor(), t.GetSpec(), c.cfg.Clock().UnixMicro())}
	return a
}

// copied is a copy of the state as it is now, nil if there was no time for it.
func (c *Controller) copied(ctx context.Context) *projections.Cluster {
	got := make(chan *projections.Snapshot, 1)
	select {
	case c.copies <- got:
	case <-ctx.Done():
		return nil
	}
	state, err := projections.Load(<-got)
	if err != nil {
		c.log.Error("copying the state", "error", err)
		return nil
	}
	return state
}

// patience is how long a question may wait.
func patience(ask *projections.Ask) time.Duration {
	switch w := ask.What.(type) {
	case *projections.Ask_Verdicts:
		return time.Duration(w.Verdicts.WaitMs) * time.Millisecond
	case *projections.Ask_Wait:
		return time.Duration(w.Wait.WaitMs) * time.Millisecond
	}
	return 10 * time.Second
}

// decided reports whether an answer says all that was asked for.
func decided(a *projections.Answer) bool {
	switch w := a.What.(type) {
	case *projections.Answer_Verdicts:
		return !w.Verdicts.Undecided
	case *projections.Answer_Wait:
		return !w.Wait.Undecided
	}
	return true
}

// complete adds what is not in the view.
func (c *Controller) complete(a *projections.Answer) {
	if n := a.GetNodes(); n != nil && !n.NodesPrivate {
		n.Now = c.beats.now(n.GetNodes())
	}
	s := a.GetStatus()
	if s == nil {
		return
	}
	s.Host = c.cfg.Name
	r := c.report.Load()
	if r == nil {
		return
	}
	s.Leader, s.Cycles, s.LastCycleUs, s.Complaint = r.leads, r.cycles, r.lastCycle, c.watch.complaint()
	s.FeedBacklog = uint64(c.feed.Backlog())
}

// report is what the loop lets others see of leading.
type report struct {
	leads     bool
	cycles    uint64
	lastCycle int64
}

func (c *Controller) busyLeading() bool {
	r := c.report.Load()
	return r != nil && r.leads
}

// publish tells the other controllers what a cycle thought of the pending jobs, in parts.
func (c *Controller) publish(o *projections.Outcomes) {
	const part = 2000
	for first := true; first && len(o.Changed)+len(o.Gone) > 0 || len(o.Changed) > 0; first = false {
		n := min(part, len(o.Changed))
		m := &projections.Outcomes{Basis: o.Basis, Term: o.Term, Changed: o.Changed[:n]}
		if first {
			m.Gone = o.Gone
		}
		o.Changed = o.Changed[n:]
		data, err := m.MarshalVT()
		if err == nil {
			err = c.cfg.Bus.Wire().Nudge(subjectOutcomes, data)
		}
		if err != nil {
			c.log.Debug("telling outcomes", "error", err)
		}
	}
}

// hearOutcomes merges what another leader tells.
func (c *Controller) hearOutcomes(n bus.Nudge) {
	if c.busyLeading() {
		return
	}
	m := new(projections.Outcomes)
	if c.shown.Load() == nil || m.UnmarshalVT(n.Data) != nil || c.outcomes.hear(m) {
		return
	}
	go c.learnOutcomes() // of a term that was not heard of before
}

// learnOutcomes asks the leader what it thinks of all pending jobs: when a controller begins to answer, and when it hears of
// another term than the one it knows.
func (c *Controller) learnOutcomes() {
	leader := c.shown.Load().view.Term().Controller
	if leader == "" || leader == c.cfg.Name {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	data, err := c.cfg.Bus.Wire().Ask(ctx, subjectAllOutcomes+events.Token(leader), nil)
	if all := new(projections.Outcomes); err == nil && all.UnmarshalVT(data) == nil && !c.busyLeading() {
		c.outcomes.hear(all)
	}
}
