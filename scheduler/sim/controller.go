package sim

import (
	"fmt"

	"stint/events"
	"stint/projections"
	"stint/scheduler/cycle"
)

// controller is a process with a fold that can lead. What it believes about leading may be stale: the log's condition on
// its appends is what keeps it honest.
type controller struct {
	w       *World
	name    string
	fold    *projections.Cluster
	read    int // messages of the log folded
	lag     int // messages it is behind, for as long as it is made to lag
	dead    bool
	leading bool
	nonce   []byte
	terms   int
	f       uint64 // its last message on ev.sched, folded
	n       uint64
	cycles  uint64
	memory  *cycle.Memory
	heard   map[string]int64 // last beat of each node
	stirred bool
	alarm   int64

	outcomes []*projections.Outcome
}

func newController(w *World, name string) *controller {
	return &controller{w: w, name: name, fold: projections.New(), memory: cycle.NewMemory(), heard: map[string]int64{}}
}

// follow folds what the log has, but for the messages it lags behind.
func (c *controller) follow() {
	for c.read < len(c.w.log)-c.lag {
		m := &c.w.log[c.read]
		c.read++
		c.fold.Apply(events.Decode(m.Seq, m.At, m.Subject, m.Data))
		if c.w.chaos != nil && c.w.rng.IntN(50) == 0 {
			c.fold.Apply(events.Decode(m.Seq, m.At, m.Subject, m.Data)) // delivered twice
		}
	}
	if c.leading && string(c.fold.Term().Nonce) != string(c.nonce) {
		c.leading = false
	}
}

// takeOver makes it the leader: it folds to the end, appends a term, folds that, and waits a full timeout before it
// declares a node lost.
func (c *controller) takeOver() {
	c.lag = 0
	c.follow()
	c.terms++
	c.nonce = fmt.Appendf(nil, "%s-term-%d", c.name, c.terms)
	term := &events.Term{Nonce: c.nonce, Controller: c.name, Rules: cycle.Rules, Decider: cycle.Decider, NowUs: c.w.now}
	c.n, c.cycles = 0, 0
	seq, ok := c.w.append(events.SubjectSched, c.fold.Term().LastSchedSeq, encode(&events.SchedMessage{Kind: &events.SchedMessage_Term{Term: term}}))
	if !ok {
		return
	}
	c.f = seq
	c.heard = map[string]int64{}
	for _, x := range c.w.executors {
		c.heard[x.name] = c.w.now
	}
	c.follow()
	c.leading = true
	c.stir()
}

// stir asks for a pass soon.
func (c *controller) stir() {
	if c.dead || !c.leading || c.stirred {
		return
	}
	c.stirred = true
	c.w.after(c.w.delay(), func() { c.stirred = false; c.pass() })
}

func (c *controller) wakeAt(t int64) {
	if t == 0 || c.alarm != 0 && c.alarm <= t && c.alarm > c.w.now {
		return
	}
	c.alarm = t
	c.w.at(t, func() {
		if c.alarm == t {
			c.alarm = 0
		}
		c.pass()
	})
}

// patrol is the leader's round: nodes that fell silent make no event by themselves.
func (c *controller) patrol() {
	if !c.dead && c.leading {
		if o := c.observe(); len(o.SilentNodes)+len(o.ReturnedNodes) > 0 {
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

func (c *controller) observe() *events.Observed {
	o := &events.Observed{}
	if z := c.w.zone; z != nil && !z.EqualVT(c.fold.Zone()) {
		o.Zone = z
	}
	for _, n := range c.fold.Nodes() {
		heard, known := c.heard[n.Name]
		silent := known && c.w.now-heard > c.timeout()
		switch {
		case n.Rises(c.fold.Config()) && known && heard > n.ReasonUs:
			o.ReturnedNodes = append(o.ReturnedNodes, n.Name)
		case n.Up && silent:
			o.SilentNodes = append(o.SilentNodes, n.Name)
		case !n.Up && n.Boot != "" && known && c.w.now-heard < 30*Second:
			o.ReturnedNodes = append(o.ReturnedNodes, n.Name)
		}
	}
	return o
}

// pass runs one pass and appends what it decided, message by message, each folded before the next.
func (c *controller) pass() {
	if c.dead || !c.leading {
		return
	}
	c.follow()
	if c.fold.Seq() < c.f {
		return // it has not folded its own last word yet
	}
	o := c.observe()
	basis := c.fold.Seq()
	facts, outcomes, next := cycle.Run(c.fold, cycle.Input{Now: c.w.now, Observed: o, Memory: c.memory})
	if c.w.watch != nil && c.cycles%8 == 0 {
		c.forgetful(o, facts, outcomes, next)
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
		m := &events.Cycle{Term: c.nonce, N: c.n, Cycle: c.cycles, Part: uint32(i + 1), Parts: uint32(len(parts)), Basis: basis, NowUs: c.w.now, Decider: cycle.Decider, Observed: o, Facts: part}
		seq, ok := c.w.append(events.SubjectSched, c.f, encode(&events.SchedMessage{Kind: &events.SchedMessage_Cycle{Cycle: m}}))
		if !ok {
			c.leading = false // deposed: it acts on nothing
			return
		}
		c.f = seq
		c.lag = 0
		c.follow()
	}
	c.nudge(facts)
	c.stir()
}

// forgetful decides once more without memory: nothing may depend on it.
func (c *controller) forgetful(o *events.Observed, facts []*events.Fact, outcomes []*projections.Outcome, next int64) {
	again, why, when := cycle.Run(c.fold, cycle.Input{Now: c.w.now, Observed: o})
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

// nudge tells the nodes of a cycle's facts to look what should run there. Some nudges get lost: beats do the rest.
func (c *controller) nudge(facts []*events.Fact) {
	told := map[string]bool{}
	tell := func(a *events.Allocation) {
		for _, name := range a.NodeNames() {
			if told[name] {
				continue
			}
			told[name] = true
			c.tell(name)
		}
	}
	for _, f := range facts {
		switch {
		case f.GetPlaced() != nil, f.GetPlacedTogether() != nil:
			for _, p := range events.Placements(f) {
				tell(p.Allocation)
			}
		case f.GetStopping() != nil:
			tell(c.fold.Job(f.GetStopping().Job).GetAllocation())
		case f.GetSignalled() != nil:
			tell(c.fold.Job(f.GetSignalled().Job).GetAllocation())
		case f.GetEnded() != nil:
			tell(c.fold.Job(f.GetEnded().Job).GetAllocation())
		}
	}
}

func (c *controller) tell(name string) {
	if x := c.w.byName[name]; x != nil && !(c.w.opts.MaxDelay > c.w.opts.MinDelay && c.w.rng.IntN(20) == 0) {
		c.w.after(c.w.delay(), x.look)
	}
}

// Halt ends the leading controller; another one takes over when its lease has run out. Revive starts it again.
func (w *World) Halt() {
	c := w.leader()
	if c == nil || len(w.controllers) == 1 {
		return
	}
	c.dead, c.leading = true, false
	w.after(10*Second, func() {
		if w.leader() == nil {
			for _, other := range w.controllers {
				if !other.dead {
					other.takeOver()
					return
				}
			}
		}
	})
	w.after(Minute, c.revive)
}

// revive starts the process again, from a snapshot if there is one, and else from nothing.
func (c *controller) revive() {
	c.fold, c.read, c.lag, c.memory = projections.New(), 0, 0, cycle.NewMemory()
	if c.w.snapshot != nil {
		s := new(projections.Snapshot)
		err := s.UnmarshalVT(c.w.snapshot)
		if err == nil {
			c.fold, err = projections.Load(s)
		}
		if err != nil {
			c.w.fail("starting %s from a snapshot: %v", c.name, err)
			return
		}
		c.read = int(s.Seq)
	}
	c.dead, c.stirred = false, false
}

// Snapshot keeps the state as it is, for controllers that start later.
func (w *World) Snapshot() { w.snapshot = encode(w.Fold.Snapshot()) }

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
		if !c.dead && c.leading && string(c.nonce) == string(w.Fold.Term().Nonce) {
			return c
		}
	}
	return nil
}
