package sim

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"stint/events"
	"stint/projections"
	"stint/scheduler/cycle"
	"stint/scheduler/feed"
)

// controller is a process with a fold that can lead. What it believes about leading may be stale: the log's condition on
// its appends is what keeps it honest.
type controller struct {
	process
	name   string
	starts int
	disk   []*saved // its snapshots, the newest last

	fold *projections.Cluster
	upto uint64 // messages up to here have reached it
	slow int64  // until then messages reach it late
	deaf bool   // nothing reaches it
	tip  bool   // the backlog was folded once
	feed *feed.Feed

	held    bool // the lease, as far as it knows
	nonce   []byte
	time    cycle.Clock // while it leads
	led     bool        // the fold has shown its term
	terms   int
	out     *outstanding // the message on its way
	pending [][]byte
	n       uint64
	cycles  uint64
	memory  *cycle.Memory
	saved   uint64 // sequence of its last snapshot

	heard    map[string]int64 // last beat of each node
	forgiven int64            // silence counts from here
	stirred  bool
	alarm    int64

	outcomes []*projections.Outcome
}

type outstanding struct{ seq uint64 } // 0: not acknowledged yet

// saved is a snapshot on disk, with the job states that were not known to be in the feed. A torn one cannot be read.
type saved struct {
	seq     uint64
	data    []byte
	waiting []projections.JobEvent
	torn    bool
}

// lease is the hint that says who may try to lead.
type lease struct {
	holder *controller
	until  int64
}

const leaseTime = 10 * Second

func newController(w *World, name string) *controller {
	c := &controller{process: process{w: w, kind: "controller", alive: true}, name: name, heard: map[string]int64{}, forgiven: w.now}
	c.died = c.lost
	c.fold, c.memory, c.tip = projections.New(), cycle.NewMemory(), true
	return c
}

func (c *controller) roughen() {
	c.feed = feed.New(c.w.jobs, c.w.jobs, slog.New(slog.DiscardHandler))
	c.feed.Begin(context.Background(), nil)
	c.feed.Lead(c.led)
	c.campaign()
}

// ───── following ─────

// deliver takes a message of the log on its way to it.
func (c *controller) deliver(seq uint64) {
	if c.w.rough == nil {
		if c.alive && !c.deaf {
			c.upto = seq
			c.follow()
			c.stir()
		}
		return
	}
	late := int64(0)
	if c.w.now < c.slow {
		late = c.slow - c.w.now
	}
	c.later(late+c.w.transit(), func() {
		if seq > c.upto {
			c.upto = seq
			c.follow()
			if c.passes("folded what came") {
				c.step()
			}
		}
	})
}

// follow folds what has reached it, and does what follows from it.
func (c *controller) follow() {
	for c.fold.Seq() < c.upto {
		m := &c.w.log[c.fold.Seq()]
		e := c.w.read(m)
		if !c.led && c.w.has(flawSkips, 100) {
			e = events.Event{Seq: m.Seq, At: m.At}
		}
		c.fold.Apply(e)
		changes := c.fold.Changes()
		if c.w.rough != nil {
			c.feed.Add(projections.JobEvents(c.fold.Config().GetCluster(), changes))
		}
		if c.led && c.leading() {
			for _, name := range cycle.Concerned(changes) {
				c.tell(name)
			}
		}
		if e.Author == events.AuthorNode {
			c.heard[e.Name] = c.w.now
		}
		if c.w.faulty && c.w.rng.IntN(50) == 0 {
			c.fold.Apply(e) // delivered twice
		}
		if c.w.watch != nil {
			c.w.watch.follows(c)
		}
	}
	c.snapshot()
	if c.w.rough != nil {
		c.move()
	}
}

// move moves job states into the feed, some at a time.
func (c *controller) move() {
	if c.feed.Backlog() == 0 {
		return
	}
	c.later(c.w.transit(), func() {
		if more := c.feed.Part(context.Background()); c.passes("moved job states") && more {
			c.move()
		}
	})
}

// ───── its disk ─────

// snapshot begins to write one if enough was folded since the last.
func (c *controller) snapshot() {
	if c.w.rough == nil || !c.tip || c.fold.Seq() < c.saved+40 {
		return
	}
	c.saved = c.fold.Seq()
	state := c.fold.Snapshot()
	if c.w.flaw == flawSnapshot {
		state.Nonces = nil
	}
	s := &saved{c.fold.Seq(), encode(state), c.feed.Rest().Waiting, true}
	c.disk = append(c.disk, s)
	c.later(c.w.transit(), func() {
		if !c.passes("written half of a snapshot") {
			return
		}
		s.torn = false
		if len(c.disk) > 2 {
			c.disk = c.disk[len(c.disk)-2:]
		}
		c.passes("written a snapshot")
	})
}

// lost is the end of the process: it starts again before long, and maybe its disk is gone by then.
func (c *controller) lost() {
	c.w.tell("%s is gone", c.name)
	c.fold, c.feed, c.led, c.held, c.tip, c.nonce = projections.New(), nil, false, false, false, nil
	c.out, c.pending, c.heard = nil, nil, map[string]int64{}
	if c.w.rng.IntN(20) == 0 {
		c.disk = nil
	}
	c.w.after(Second+c.w.rng.Int64N(90*Second), c.revive)
}

// revive starts it again: it loads the newest snapshot that is whole, or begins from nothing, and folds up to the end.
func (c *controller) revive() {
	if c.alive {
		return
	}
	c.alive, c.stirred, c.alarm, c.forgiven = true, false, 0, c.w.now
	c.starts++
	c.fold, c.memory, c.saved = projections.New(), cycle.NewMemory(), 0
	var waiting []projections.JobEvent
	for i := len(c.disk) - 1; i >= 0; i-- {
		if c.disk[i].torn {
			continue
		}
		s := new(projections.Snapshot)
		err := s.UnmarshalVT(c.disk[i].data)
		if err == nil {
			c.fold, err = projections.Load(s)
		}
		if err != nil {
			c.w.fail("starting %s from a snapshot: %v", c.name, err)
			return
		}
		waiting, c.saved = c.disk[i].waiting, c.fold.Seq()
		break
	}
	c.w.tell("%s starts from %d of %d", c.name, c.fold.Seq(), len(c.w.log))
	c.upto = c.fold.Seq()
	if c.w.rough == nil {
		c.tip, c.upto = true, uint64(len(c.w.log))
		c.follow()
		return
	}
	c.feed = feed.New(c.w.jobs, c.w.jobs, slog.New(slog.DiscardHandler))
	c.feed.Begin(context.Background(), waiting)
	if !c.passes("loaded a snapshot") {
		return
	}
	c.later(c.w.transit(), func() {
		c.upto = max(c.upto, uint64(len(c.w.log)))
		c.follow()
		if !c.passes("folded the backlog") {
			return
		}
		c.tip = true
		if c.w.watch != nil {
			c.w.watch.restored(c)
		}
		c.campaign()
	})
}

// ───── leading ─────

// campaign keeps asking for the lease and keeps it while it has it.
func (c *controller) campaign() {
	w := c.w
	if l := &w.lease; l.holder == c || w.now > l.until {
		if l.holder != c {
			w.tell("%s takes the lease", c.name)
		}
		*l = lease{c, w.now + leaseTime}
		c.held = true
		c.step()
	} else if c.held && w.rng.IntN(3) == 0 { // it hears of that late
		c.held = false
	}
	c.later(2*Second+w.rng.Int64N(2*Second), c.campaign)
}

func (c *controller) leading() bool {
	return c.nonce != nil && bytes.Equal(c.fold.Term().Nonce, c.nonce)
}

// takeOver makes it the leader, as soon as its term is in the log.
func (c *controller) takeOver() {
	if c.w.rough == nil {
		c.upto = uint64(len(c.w.log))
		c.follow()
		c.deposed() // a new term in any case
		c.claim()
		c.step()
		return
	}
	c.w.lease = lease{c, c.w.now + leaseTime}
	c.held = true
	c.step()
}

// step does the next thing there is to do for whoever leads or wants to, as scheduler.Controller does.
func (c *controller) step() {
	if !c.alive {
		return
	}
	if c.out != nil {
		if c.out.seq == 0 || c.fold.Seq() < c.out.seq {
			return // on its way, or not yet folded: decide nothing
		}
		c.out = nil
	}
	if c.led && !c.leading() {
		c.deposed()
	}
	switch {
	case !c.tip:
		return
	case !c.leading() && c.held:
		c.claim()
		return
	case !c.leading():
		return
	case !c.led:
		c.took()
	}
	if len(c.pending) > 0 {
		data := c.pending[0]
		c.pending = c.pending[1:]
		c.send(data)
		return
	}
	c.stir()
}

func (c *controller) claim() {
	c.terms++
	c.nonce = fmt.Appendf(nil, "%s-%d-term-%d", c.name, c.starts, c.terms)
	c.n, c.cycles, c.led, c.pending = 0, 0, false, nil
	now := max(c.w.wall(c.w.now), c.fold.At(), c.fold.Term().NowUs)
	c.time.Begin(now, c.w.now)
	term := &events.Term{Nonce: c.nonce, Controller: c.name, Rules: cycle.Rules, Decider: cycle.Decider, NowUs: now}
	c.send(encode(&events.SchedMessage{Kind: &events.SchedMessage_Term{Term: term}}))
}

func (c *controller) took() {
	c.led, c.forgiven = true, c.w.now
	c.w.tell("%s leads", c.name)
	if c.feed != nil {
		c.feed.Lead(true)
		c.move()
		for _, n := range c.fold.Nodes() {
			c.tell(n.Name)
		}
	}
}

func (c *controller) deposed() {
	if c.led {
		c.w.tell("%s is deposed", c.name)
	}
	c.led, c.nonce, c.pending, c.held = false, nil, nil, false
	if c.feed != nil {
		c.feed.Lead(false)
	}
}

// send appends one message behind the last one folded.
func (c *controller) send(data []byte) {
	if !c.passes("made up its mind") {
		return
	}
	c.out = &outstanding{}
	c.process.append(events.SubjectSched, c.fold.Term().LastSchedSeq, data, func(seq uint64, deposed bool) {
		if !c.passes("heard of its append") {
			return
		}
		c.out.seq = seq
		if deposed {
			c.pending = nil
			if !c.led {
				c.nonce, c.held = nil, false
			}
		}
		c.step()
	})
}

// stir asks for a pass soon.
func (c *controller) stir() {
	if c.stirred || !c.leading() {
		return
	}
	c.stirred = true
	c.later(c.w.delay(), func() {
		c.stirred = false
		if c.out == nil && len(c.pending) == 0 {
			c.pass()
		}
	})
}

func (c *controller) wakeAt(t int64) {
	if t == 0 || c.alarm != 0 && c.alarm <= t && c.alarm > c.clock() {
		return
	}
	c.alarm = t
	c.later(t-c.clock(), func() {
		if c.alarm == t {
			c.alarm = 0
		}
		if c.out == nil && len(c.pending) == 0 {
			c.pass()
		}
	})
}

// patrol is the leader's round: nodes that fell silent make no event by themselves.
func (c *controller) patrol() {
	if c.alive && c.leading() && c.w.now >= c.pause {
		if o := c.observe(); o != nil && (o.ClockSetUs != 0 || len(o.SilentNodes)+len(o.ReturnedNodes) > 0) {
			c.stir()
		}
	}
	c.w.after(5*Second, c.patrol)
}

// timeout is how long a node may be silent, microseconds.
func (c *controller) timeout() int64 {
	if s := c.fold.Config().GetNodeTimeoutS(); s > 0 {
		return int64(s) * Second
	}
	return 300 * Second
}

// clock is the time by which it decides.
func (c *controller) clock() int64 { return c.time.Now(c.w.wall(c.w.now), c.fold.At(), c.w.now) }

func (c *controller) observe() *events.Observed {
	now := c.clock()
	heard := func(node string) (cycle.Heard, bool) {
		at, ever := c.heard[node]
		return cycle.Heard{AgoUs: c.w.now - at, AtUs: now - (c.w.now - at)}, ever
	}
	o := cycle.Observe(cycle.Silence(c.fold, heard, c.w.now-c.forgiven, c.timeout(), func(string) {}))
	o = cycle.ObserveClock(o, c.time.Unrecorded(c.fold.Term().ClockSetUs))
	if z := c.w.zone; z != nil && !z.EqualVT(c.fold.Zone()) {
		if o == nil {
			o = &events.Observed{}
		}
		o.Zone = z
	}
	return o
}

// pass runs one pass and sends what it decided, message by message, each folded before the next.
func (c *controller) pass() {
	if !c.alive || !c.led || !c.leading() {
		return
	}
	o := c.observe()
	now := c.clock()
	facts, outcomes, next := cycle.Run(c.fold, cycle.Input{Now: now, Observed: o, Memory: c.memory})
	if n := len(facts); n > 0 {
		switch c.w.flaw {
		case flawTwice:
			facts = append(facts, facts[n-1])
		case flawMemory:
			facts = facts[:n-1]
		}
	}
	if c.w.watch != nil && c.w.flaw != flawTwice && c.cycles%8 == 0 {
		c.forgetful(now, o, facts, outcomes, next)
	}
	c.outcomes = outcomes
	c.wakeAt(next)
	if len(facts) == 0 {
		return
	}
	c.cycles++
	parts := cycle.Pack(facts)
	for i, part := range parts {
		c.n++
		m := &events.Cycle{Term: c.nonce, N: c.n, Cycle: c.cycles, Part: uint32(i + 1), Parts: uint32(len(parts)), Basis: c.fold.Seq(), NowUs: now, Decider: cycle.Decider, Facts: part}
		if i == 0 {
			m.Observed = o
		}
		c.pending = append(c.pending, encode(&events.SchedMessage{Kind: &events.SchedMessage_Cycle{Cycle: m}}))
	}
	c.step()
}

// forgetful decides once more without memory: nothing may depend on it.
func (c *controller) forgetful(now int64, o *events.Observed, facts []*events.Fact, outcomes []*projections.Outcome, next int64) {
	again, why, when := cycle.Run(c.fold, cycle.Input{Now: now, Observed: o})
	same := len(again) == len(facts) && len(why) == len(outcomes) && when == next
	for i := 0; same && i < len(facts); i++ {
		same = facts[i].EqualVT(again[i])
	}
	for i := 0; same && i < len(why); i++ {
		a, b := outcomes[i], why[i]
		same = a.Job == b.Job && a.Reason == b.Reason && a.Text == b.Text && a.StartUs == b.StartUs && a.Nodes == b.Nodes
	}
	if !same {
		c.w.fail("a pass without memory decides otherwise: %v %v, with memory %v %v", again, why, facts, outcomes)
	}
}

// tell nudges a node to look what should run there. Some nudges get lost: beats do the rest.
func (c *controller) tell(name string) {
	x, seq := c.w.byName[name], c.fold.Seq()
	if x == nil {
		return
	}
	if c.w.rough == nil {
		c.w.after(c.w.delay(), x.look)
		return
	}
	c.w.wire(func() { x.nudged(seq) })
}

// Halt ends the leading controller; another one takes over when its lease has run out.
func (w *World) Halt() {
	c := w.leader()
	if c == nil || len(w.controllers) == 1 {
		return
	}
	c.kill()
	if w.rough == nil {
		w.after(10*Second, func() {
			if w.leader() == nil {
				for _, other := range w.controllers {
					if other.alive {
						other.takeOver()
						return
					}
				}
			}
		})
	}
}

// Depose lets another controller take over while the leader, not knowing it, goes on with a fold that lags behind.
func (w *World) Depose() {
	old := w.leader()
	if old == nil {
		w.controllers[0].takeOver()
		return
	}
	next := w.controllers[(slices.Index(w.controllers, old)+1)%len(w.controllers)]
	if w.rough != nil {
		old.slow = w.now + w.rng.Int64N(30*Second)
		if next.alive && next.tip {
			next.takeOver()
		}
		return
	}
	old.deaf = next != old
	next.takeOver()
	w.after(w.delay(), func() {
		old.pass()
		old.deaf, old.upto = false, uint64(len(w.log))
		old.follow()
	})
}

// Outcomes are what the leader's last pass thought of waiting jobs.
func (w *World) Outcomes() []*projections.Outcome {
	if c := w.leader(); c != nil {
		return c.outcomes
	}
	return nil
}

// leader is the controller that holds the latest term; nil if it is dead.
func (w *World) leader() *controller {
	for _, c := range w.controllers {
		if c.alive && c.nonce != nil && string(c.nonce) == string(w.Fold.Term().Nonce) {
			return c
		}
	}
	return nil
}
