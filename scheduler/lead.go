package scheduler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"stint/events"
	"stint/events/bus"
	"stint/projections"
	"stint/scheduler/cycle"
)

// leadership is what the loop knows of leading. Whether it leads is not among it: see Controller.leading.
type leadership struct {
	tip   bool // the backlog was folded once
	held  bool // the lease, as far as the campaign knows
	cause bool // something changed since the last cycle was begun

	nonce   []byte // of the term appended last by this process
	since   time.Time
	led     bool // the fold has shown that term
	pending []*events.SchedMessage
	out     *outstanding // the message on its way
	voids   []uint64     // messages of leaders that were void, folded while one was on its way
	n       uint64       // of the message sent last in this term
	cycle   uint64
	quiet   bool // the last cycle decided nothing: go by cause and next

	clock cycle.Clock
	next  int64 // when to run a cycle at the latest, µs of that clock; 0: when something changes

	cycles    uint64
	lastCycle int64
	rest      time.Time // no cycle before
}

type outstanding struct {
	seq   uint64 // 0: not acknowledged yet
	cause string
}

type appendResult struct {
	seq uint64
	err error
}

type leaseHint struct{ held bool }

// rulesInForce are the versions a term of this build records.
const derivation = 1

// campaign keeps asking for the lease and keeps it while it has it. The lease is a hint: it decides who tries.
func (c *Controller) campaign(ctx context.Context) {
	tell := func(held bool) {
		select {
		case c.hints <- leaseHint{held}:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		lease, err := bus.AwaitLease(ctx, c.cfg.Bus.Leases(), bus.LeaderLease, c.cfg.Name, c.cfg.Lease)
		if err != nil {
			if ctx.Err() == nil {
				c.log.Error("asking for the lease", "error", err)
				sleep(ctx, time.Second)
			}
			continue
		}
		tell(true)
		err = bus.KeepLease(ctx, lease, c.cfg.Lease, func() { tell(true) })
		tell(false)
		if ctx.Err() != nil {
			release, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			lease.Release(release)
			cancel()
			return
		}
		c.log.Warn("the lease is lost", "error", err)
	}
}

// leading reports whether the term in the fold is this process's.
func (c *Controller) leading() bool {
	return c.lead.nonce != nil && bytes.Equal(c.state.Term().Nonce, c.lead.nonce)
}

// step does the next thing there is to do for whoever leads or wants to, and says when to look again at the latest.
func (c *Controller) step(ctx context.Context) time.Duration {
	const idle = time.Second
	l := &c.lead
	if l.out != nil {
		if l.out.seq == 0 || c.state.Seq() < l.out.seq {
			return idle // on its way, or not yet folded: decide nothing
		}
		if slices.Contains(l.voids, l.out.seq) && c.leading() {
			c.log.Warn("what was decided had no effect: somebody else writes in the name of this term; it is decided again", "seq", l.out.seq, "term", fmt.Sprintf("%x", l.nonce[:4]))
			l.pending, l.cause = nil, true
		}
		l.out, l.voids = nil, nil
	}
	if l.led && !c.leading() {
		c.deposed()
	}
	if !l.tip || !c.busUp.Load() {
		return idle
	}
	switch {
	case !c.leading() && l.held:
		c.claim(ctx)
		return idle
	case !c.leading():
		return idle
	case !l.led:
		c.took()
	}
	if len(l.pending) > 0 {
		m := l.pending[0]
		l.pending = l.pending[1:]
		c.append(ctx, m, "cycle")
		return idle
	}
	return c.decide(ctx)
}

// claim appends a term behind the last message folded on ev.sched.
func (c *Controller) claim(ctx context.Context) {
	l := &c.lead
	l.nonce, l.n, l.cycle, l.led, l.pending = newNonce(), 0, 0, false, nil
	l.clock.Begin(max(c.cfg.Clock().UnixMicro(), c.state.At(), c.lastNow()), c.mono())
	c.append(ctx, &events.SchedMessage{Kind: &events.SchedMessage_Term{Term: &events.Term{
		Nonce: l.nonce, Controller: c.cfg.Name, Build: c.cfg.Build,
		Rules: cycle.Rules, Decider: cycle.Decider, Derivation: derivation, NowUs: c.now(),
	}}}, "term")
}

// lastNow is the last time a leader wrote into the log.
func (c *Controller) lastNow() int64 { return c.state.Term().NowUs }

// now is the time by which it decides. Of the loop only.
func (c *Controller) now() int64 {
	return c.lead.clock.Now(c.cfg.Clock().UnixMicro(), c.state.At(), c.mono())
}

// mono is how long the controller has been there by a clock that nobody sets, microseconds.
func (c *Controller) mono() int64 { return time.Since(c.begun).Microseconds() }

// took begins to lead: nodes are nudged first, and their silence counts from here.
func (c *Controller) took() {
	l := &c.lead
	l.led, l.cause, l.quiet, l.next, l.since = true, true, false, 0, time.Now()
	c.beats.forgive()
	c.outcomes.reset(l.nonce)
	c.feed.Lead(true)
	c.mail.lead(true)
	for _, n := range c.state.Nodes() {
		c.nudge(n.Name)
	}
	c.log.Info("leading", "seq", c.state.Seq(), "term", fmt.Sprintf("%x", l.nonce[:4]))
}

// deposed stops deciding: another's term is in the log. Whoever slept while another took the lease still believes to hold it
// as it wakes; it is believed again only when it was renewed after this.
func (c *Controller) deposed() {
	l := &c.lead
	l.led, l.nonce, l.pending, l.held = false, nil, nil, false
	c.feed.Lead(false)
	c.mail.lead(false)
	c.log.Warn("deposed", "seq", c.state.Seq(), "by", c.state.Term().Controller)
}

// append sends one message, conditional on the last one folded, from a goroutine of its own; the loop goes on folding.
func (c *Controller) append(ctx context.Context, m *events.SchedMessage, cause string) {
	data, err := m.MarshalVT()
	if err != nil {
		c.log.Error("encoding a decision", "error", err)
		return
	}
	after := c.state.Term().LastSchedSeq
	c.lead.out = &outstanding{cause: cause}
	go func() {
		seq, err := c.cfg.Bus.Events().Append(ctx, events.SubjectSched, after, data)
		select {
		case c.appended <- appendResult{seq, err}:
		case <-ctx.Done():
		}
	}()
}

// settled takes the word of the bus on the append. A refusal says that another leads: its term is folded soon, and until
// then nothing is decided, since the sequence that refused us lies ahead of the fold.
func (c *Controller) settled(r appendResult) {
	l := &c.lead
	var deposed *bus.DeposedError
	switch {
	case r.err == nil:
		l.out.seq = r.seq
	case errors.As(r.err, &deposed):
		c.log.Warn("an append was refused", "what", l.out.cause, "found", deposed.Found)
		l.pending, l.cause = nil, true
		l.out.seq = deposed.Found
		if !l.led {
			l.nonce, l.held = nil, false // the term was not begun
		}
	default:
		c.log.Error("appending", "what", l.out.cause, "error", r.err)
		l.out, l.pending, l.nonce = nil, nil, nil
	}
}

// decide runs a cycle if there is cause, and sends its first message.
func (c *Controller) decide(ctx context.Context) time.Duration {
	l := &c.lead
	now := c.now()
	timeout := c.nodeTimeout()
	observed := c.zoned(c.beats.observe(c.state, timeout, now))
	observed = cycle.ObserveClock(observed, l.clock.Unrecorded(c.state.Term().ClockSetUs))
	due := l.next != 0 && now >= l.next
	if !l.cause && !due && observed == nil {
		wait := time.Second
		if l.next != 0 {
			wait = min(wait, time.Duration(l.next-now)*time.Microsecond)
		}
		return max(wait, time.Millisecond)
	}
	if rest := time.Until(l.rest); rest > 0 {
		return rest
	}
	l.cause = false
	c.watch.begin("cycle")
	facts, outcomes, next, err := c.pass(cycle.Input{Now: now, Budget: c.cfg.Budget, Observed: observed, Memory: c.memory, Failed: c.failedOn})
	took := c.watch.end()
	if err != nil {
		c.log.Error("a pass failed; nothing is decided for a while", "basis", c.state.Seq(), "error", err)
		c.watch.fail(err)
		l.cause, l.rest, c.memory = true, time.Now().Add(restAfter), cycle.NewMemory()
		return restAfter
	}
	c.watch.fail(nil)
	l.cycles++
	l.lastCycle = now
	c.stats.passed(now, took, c.memory.Seen, facts)
	l.next = next
	basis := c.state.Seq()
	c.publish(c.outcomes.merge(basis, outcomes, c.state))
	if len(facts) == 0 {
		if next != 0 {
			return max(min(time.Second, time.Duration(next-c.now())*time.Microsecond), time.Millisecond)
		}
		return time.Second
	}
	// The log numbers what was taken; what was sent and refused, or was void, is not among it.
	l.n, l.cycle = c.state.Term().N, max(l.cycle, c.state.Term().Cycle)+1
	packs := cycle.Pack(facts)
	for i, pack := range packs {
		l.n++
		m := &events.Cycle{
			Term: l.nonce, N: l.n, Cycle: l.cycle, Part: uint32(i + 1), Parts: uint32(len(packs)),
			Basis: basis, NowUs: now, Budget: c.cfg.Budget, Decider: cycle.Decider, Facts: pack,
		}
		if i == 0 {
			m.Observed = observed
		}
		l.pending = append(l.pending, &events.SchedMessage{Kind: &events.SchedMessage_Cycle{Cycle: m}})
	}
	c.log.Debug("decided", "facts", len(facts), "basis", basis, "took", took)
	m := l.pending[0]
	l.pending = l.pending[1:]
	c.append(ctx, m, "cycle")
	return time.Second
}

// failedOn writes down that a pass failed on a job, with the stack, which is what it can be mended by. The pass is made again; if it
// fails on the job for good, the job is held.
func (c *Controller) failedOn(job uint32, panicked any) {
	c.log.Error("a pass failed on a job, and is made again", "job", job, "basis", c.state.Seq(), "error", panicked, "stack", string(debug.Stack()))
}

// restAfter is how long nothing is decided after a pass that failed: the same state would fail again, and answering goes on.
const restAfter = 5 * time.Second

// pass runs a cycle. One that panics has decided nothing.
func (c *Controller) pass(in cycle.Input) (facts []*events.Fact, outcomes []*projections.Outcome, next int64, err error) {
	defer func() {
		if r := recover(); r != nil {
			facts, outcomes, next, err = nil, nil, 0, fmt.Errorf("%v\n%s", r, debug.Stack())
		}
	}()
	facts, outcomes, next = c.run(c.state, in)
	return facts, outcomes, next, nil
}

func (c *Controller) nodeTimeout() time.Duration {
	if s := c.state.Config().NodeTimeoutS; s > 0 {
		return time.Duration(s) * time.Second
	}
	return 300 * time.Second
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
