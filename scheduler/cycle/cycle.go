// Package cycle is one pass of the leader: from the folded state and what the leader saw to the facts it will append.
//
// A pass is a function of the state, the time, the budget and what was observed; there is no clock, no chance and no order
// of maps in it, so that replay can hold a recorded cycle to it. It works on a fork of the state and folds each fact into
// the fork as it decides it: what comes later in the pass sees what came earlier, through the code that will fold the
// cycle when it has come back from the log. In this order:
//
//  1. nodes that fell silent are lost, those that came back return;
//  2. intents are judged, in the order of the log;
//  3. nodes that could not start what they were given, by their own fault, are drained;
//     what ran on nodes that are lost or taken down is told to end, and the components of a heterogeneous job with it;
//  4. runs that all their nodes have reported on end, or go back into the queue (those that a node could not start at once);
//     jobs of crontabs that are over go back for their next time;
//  5. runs past their time limit or deadline are told to end;
//  6. jobs that can never start leave the queue;
//  7. jobs start (the components of a heterogeneous one all or none), by rank, with EASY backfill: of each partition the first job that cannot start gets a reservation, and
//     those behind it start if they do not delay it;
//  8. triggers are pulled whose time has come.
//
// A job that the code of the last two steps fails on (it panics) is held, and the pass is made again without it: see isolate.
//
// Whoever runs passes runs another whenever the fold has changed, its own facts included, and at the time a pass names.
package cycle

import (
	"stint/events"
	"stint/projections"
	"stint/scheduler/admit"
	"stint/scheduler/place"
	"stint/scheduler/rank"
)

// Decider is the version of the deciding code: it changes whenever equal states may lead to other facts. Rules is the
// version of the fold that it decides for.
//
// 2: submissions get the account and the QoS of their user's association, and are held to it as far as
// AccountingStorageEnforce says. A refusal of what no node has at once says what the closest one has.
// A job that is held does not leave the queue for its deadline. SIGKILL to a job is its cancellation, SIGTERM and all.
const (
	Decider = 2
	Rules   = projections.Rules
)

// Input is what a pass depends on besides the state.
type Input struct {
	Now      int64            // microseconds since 1970
	Budget   uint64           // nodes it may look at to place jobs; 0: as many as it takes
	Observed *events.Observed // nodes that fell silent or came back; may be nil
	Priority rank.Function    // nil: rank.Basic
	Memory   *Memory          // nil: none

	// Failed is told of a job that a pass failed on and what the panic said, while its stack can still be seen; nil: nobody is.
	Failed func(job uint32, panicked any)
}

// Memory is what passes keep for the next one to be quicker. It is a cache: losing it changes nothing but time. One
// goroutine uses it.
type Memory struct {
	desk   *admit.Desk
	shapes *place.Shapes
	queue  queueCache

	// Seen is what the last pass saw of the queue. Nothing is decided by it.
	Seen Seen
}

// Seen are figures of a pass.
type Seen struct {
	Queue  int // entries: a job for each partition it may start in
	Tried  int // of them, those for which room was looked for or a limit was found
	Behind int // of them, those behind one that has to wait
	Held   int // shares of running jobs and plans that were reckoned with
}

// NewMemory returns an empty memory.
func NewMemory() *Memory {
	return &Memory{desk: admit.NewDesk(), shapes: place.NewShapes(), queue: newQueueCache()}
}

// maxShapes is how many different requests are remembered before memory begins anew.
const maxShapes = 200_000

// pass is one run of the seven steps.
type pass struct {
	in    Input
	now   int64
	c     *projections.Cluster // the fork
	mem   *Memory
	facts []*events.Fact
	next  int64

	outcomes []*projections.Outcome
	basis    uint64
	ends     []place.End
	runs     []run
	turn     uint32      // the job whose turn it is in the queue; 0: none's
	placing  bool        // it is being placed: its request could be read
	broken   []breakdown // what earlier tries at this pass failed on
	queue    rank.Queue
	queued   []*waiting // by Tag of the queue's entries
	watch    *watch     // nil: no job is watched
}

// Run decides. It returns the facts to append, in order; why each job that stays in the queue waits, ascending by id (with a Memory, an outcome
// that did not change is the last pass's, the same pointer, with the basis it was first found at); and
// when to run again at the latest though nothing happens (microseconds; 0: not before something does). It does not change c.
func Run(c *projections.Cluster, in Input) (facts []*events.Fact, outcomes []*projections.Outcome, next int64) {
	p := isolate(func() *pass { return newPass(c, in) })
	return p.facts, p.outcomes, p.next
}

func newPass(c *projections.Cluster, in Input) *pass {
	p := &pass{in: in, now: in.Now, c: c.Fork(), mem: in.Memory, basis: c.Seq()}
	if p.mem == nil {
		p.mem = NewMemory()
	}
	if p.mem.shapes.Len() > maxShapes {
		p.mem.shapes, p.mem.queue = place.NewShapes(), newQueueCache()
	}
	return p
}

// decide runs the seven steps.
func (p *pass) decide() {
	p.observe()
	p.admit()
	if p.c.ConfigSeq() != 0 {
		p.drainUnfit()
		p.stopOnLostNodes()
		p.endTogether()
		p.finish()
		p.recur()
		p.limits()
		p.sweep()
		p.place()
		p.pull()
	}
}

// say decides a fact: it is folded into the fork and, unless it is void there, kept. The answer is why it would be void.
func (p *pass) say(f *events.Fact) string {
	why := p.c.Try(p.now, f)
	if why == "" {
		p.facts = append(p.facts, f)
	}
	return why
}

// wake asks for another pass at a time that lies ahead, in a day at the latest: who waits for it need not count in years.
func (p *pass) wake(at int64) {
	if at >= place.Forever {
		return
	}
	at = min(at, p.now+24*3600*second)
	if at > p.now && (p.next == 0 || at < p.next) {
		p.next = at
	}
}

const second = 1_000_000

// observe takes over what the leader saw of nodes.
func (p *pass) observe() {
	if by := p.in.Observed.GetClockSetUs(); by > 0 { // first: what follows goes by the time that runs had
		p.say(&events.Fact{Kind: &events.Fact_ClockSet{ClockSet: &events.ClockSet{ByUs: by}}})
	}
	for _, name := range p.in.Observed.GetReturnedNodes() {
		if n := p.c.Node(name); n != nil && (!n.Up || n.Rises(p.c.Config())) && n.Boot != "" {
			p.say(&events.Fact{Kind: &events.Fact_NodeReturned{NodeReturned: &events.NodeReturned{Node: name}}})
		}
	}
	if z := p.in.Observed.GetZone(); z != nil && !z.EqualVT(p.c.Zone()) {
		p.say(&events.Fact{Kind: &events.Fact_ZoneSet{ZoneSet: &events.ZoneSet{Zone: z}}})
	}
	for _, name := range p.in.Observed.GetSilentNodes() {
		if n := p.c.Node(name); n != nil && n.Up && !n.Lost {
			p.lose(n)
		}
	}
}

// lose declares a node lost: every run there is told that this is why it ends, unless it goes on without the node; then the
// node is lost and its share of the runs is over.
func (p *pass) lose(n *projections.Node) {
	for _, id := range n.Jobs {
		if j := p.c.Job(id); j != nil && j.Live() && j.Stop == nil && !j.GoesOnWithout(n.Name) && (!j.Completing || len(j.Unreported()) > 0) {
			p.stop(j, events.StopCause_STOP_NODE_LOST, "node "+n.Name+" is not responding")
		}
	}
	p.say(&events.Fact{Kind: &events.Fact_NodeLost{NodeLost: &events.NodeLost{Node: n.Name, Reason: "Not responding"}}})
}

func (p *pass) stop(j *projections.Job, cause events.StopCause, text string) {
	p.say(&events.Fact{Kind: &events.Fact_Stopping{Stopping: &events.Stopping{
		Job: j.Id, Run: j.Run, Cause: cause, KillAfterS: p.c.Config().GetKillWaitS(), Text: text,
	}}})
}

// admit judges the intents that wait, in the order of the log, each on the state that the ones before left.
func (p *pass) admit() {
	p.mem.desk.Begin()
	for _, item := range p.c.Inbox() {
		for _, f := range p.mem.desk.Admit(p.c, item, p.now) {
			why := p.say(f)
			if why == "" {
				continue
			}
			// A verdict that the state does not take must not leave the intent without one.
			switch f.Kind.(type) {
			case *events.Fact_Admitted, *events.Fact_Configured, *events.Fact_Administered, *events.Fact_CrontabSet, *events.Fact_TriggerSet, *events.Fact_TriggersCleared:
				p.say(&events.Fact{Kind: &events.Fact_Judged{Judged: &events.Judged{
					Intent: &events.IntentRef{Seq: item.Seq, Index: item.Index}, Code: events.Code_INTERNAL, Text: "the state refuses this: " + why,
				}}})
			}
		}
	}
}

// stopOnLostNodes ends what runs on nodes that an administrator took down, and what is left of runs that lost a node.
func (p *pass) stopOnLostNodes() {
	p.c.EachNode(func(n *projections.Node) bool {
		if !n.Down || len(n.Jobs) == 0 {
			return true
		}
		for _, id := range n.Jobs {
			if j := p.c.Job(id); j != nil && j.Live() && j.Stop == nil {
				p.stop(j, events.StopCause_STOP_NODE_LOST, "node "+n.Name+" is down")
			}
		}
		return true
	})
	var torn []*projections.Job
	p.c.EachCompleting(func(j *projections.Job) bool {
		if j.Live() && j.Stop == nil && len(j.Unreported()) > 0 && lostNode(j) != "" {
			torn = append(torn, j)
		}
		return true
	})
	for _, j := range torn {
		p.stop(j, events.StopCause_STOP_NODE_LOST, "node "+lostNode(j)+" was rebooted")
	}
}

// lostNode is a node of the run whose boot ended under it; empty if there is none.
func lostNode(j *projections.Job) string {
	for _, n := range j.Nodes {
		if n.Cause == events.EndCause_NODE_REBOOTED || n.Cause == events.EndCause_NODE_WAS_LOST {
			return n.Node
		}
	}
	return ""
}
