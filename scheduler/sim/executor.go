package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stint/events"
	"stint/projections"
)

// executor is a node: its machine, its supervisor with the runs, and the executor process between them and the log.
type executor struct {
	w      *World
	name   string
	boots  int
	procs  int
	alive  bool // the executor process
	cut    bool // nothing goes in or out
	off    bool // the machine is off
	n      uint64
	last   uint64 // its last message in the log
	unsaid []*events.NodeFact
	runs   []*simRun // the supervisor's journal, in order of their start; ended ones are kept as tombstones
	ticks  bool
	memory int64
	unfit  string // why it can start nothing; empty: it can
}

// simRun is a job's run on this node.
type simRun struct {
	job, run uint32
	step     uint32 // the main one: of the batch script, or of an allocation without one
	share    *events.NodeShare
	first    bool // the node of the batch script
	began    int64
	over     bool
	told     bool  // to end
	ends     int64 // when the process ends by itself; 0: when it is told to
	cause    events.EndCause
	code     uint32
	signal   uint32
	text     string
	program  program
}

// program is how a job behaves, written in its arguments.
type program struct {
	run   int64 // microseconds; 0: until told to end
	code  uint32
	trap  int64 // takes this long to end after TERM
	oom   bool
	fails bool // cannot be started
}

func programOf(spec *events.JobSpec) program {
	p := program{run: 10 * Second}
	for _, a := range spec.GetArgs() {
		key, value, _ := strings.Cut(string(a), "=")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch key {
		case "run":
			p.run = n * Second
		case "exit":
			p.code = uint32(n)
		case "trap":
			p.trap = n * Second
		case "oom":
			p.oom = true
		case "unstartable":
			p.fails = true
		}
	}
	return p
}

func newExecutor(w *World, name string) *executor { return &executor{w: w, name: name, boots: 1} }

func (x *executor) boot() string { return fmt.Sprintf("%s-boot-%d", x.name, x.boots) }

// start starts the executor process, which says that the node is up.
func (x *executor) start() {
	if x.alive || x.off {
		return
	}
	x.alive = true
	x.procs++
	x.n = 0
	n := x.w.Fold.Node(x.name)
	inv := &events.Inventory{Cpus: n.CPUs(), MemoryMib: n.GetDef().GetMemoryMib(), Sockets: n.GetDef().GetSockets(), CoresPerSocket: n.GetDef().GetCoresPerSocket(), ThreadsPerCore: n.GetDef().GetThreadsPerCore()}
	up := &events.NodeUp{Inventory: inv}
	for _, r := range x.runs {
		if !r.over {
			up.Runs = append(up.Runs, &events.RunRef{Job: r.job, Run: r.run, Step: r.step})
		}
	}
	x.unsaid = append([]*events.NodeFact{{Kind: &events.NodeFact_Up{Up: up}}}, x.unsaid...)
	x.say()
	x.look()
	if !x.ticks {
		x.ticks = true
		x.tick()
	}
}

const beat = 10 * Second

// tick is the executor's beat: it is heard, and it looks.
func (x *executor) tick() {
	if x.alive && !x.cut {
		for _, c := range x.w.controllers {
			c.heard[x.name] = x.w.now
		}
		x.say()
		x.look()
	}
	x.w.after(beat, x.tick)
}

// say appends what is to be said, once it can be.
func (x *executor) say() {
	if !x.alive || x.cut || len(x.unsaid) == 0 {
		return
	}
	if first := x.unsaid[0].GetUp(); x.n == 0 && first == nil {
		return
	}
	facts := x.unsaid
	x.unsaid = nil
	x.n++
	m := &events.NodeMessage{Boot: x.boot(), Executor: fmt.Appendf(nil, "%s-%d", x.name, x.procs), N: x.n, NowUs: x.w.now, Facts: facts}
	seq, ok := x.w.append(events.SubjectNode(x.name), x.last, encode(m))
	if !ok {
		x.w.fail("node %s lost its own subject", x.name)
		return
	}
	x.last = seq
}

// look compares what should run with what runs.
func (x *executor) look() {
	if !x.alive || x.cut {
		return
	}
	x.say() // first what is known already, or the answer would be of before
	n := x.w.Fold.Node(x.name)
	if n == nil {
		return
	}
	wanted := map[[2]uint32]bool{}
	var start []*projections.Job
	for _, id := range n.Jobs {
		j := x.w.Fold.Job(id)
		rn := j.RunNode(x.name)
		if rn == nil || rn.ExitedUs != 0 {
			continue
		}
		wanted[[2]uint32{j.Id, j.Run}] = true
		r := x.find(j.Id, j.Run)
		ending := j.Stop != nil || j.Completing || j.Over()
		switch {
		case r == nil && ending:
			x.unsaid = append(x.unsaid, x.exited(&simRun{job: j.Id, run: j.Run, step: mainStep(j), cause: events.EndCause_STOPPED}))
			x.runs = append(x.runs, &simRun{job: j.Id, run: j.Run, step: mainStep(j), over: true, cause: events.EndCause_STOPPED})
		case r == nil:
			start = append(start, j)
		case r.over:
			// It has been said, or is among what is still unsaid.
		case ending:
			x.term(r, int64(j.Stop.GetKillAfterS())*Second)
		}
	}
	for _, r := range x.runs {
		if !r.over && !wanted[[2]uint32{r.job, r.run}] {
			r.cause = events.EndCause_RUN_VOID
			x.end(r, false)
		}
	}
	for _, j := range start {
		x.begin(j)
	}
	x.say()
	x.runs = slices.DeleteFunc(x.runs, func(r *simRun) bool { return r.over && r.began < x.w.now-Hour })
}

func (x *executor) find(job, run uint32) *simRun {
	for _, r := range x.runs {
		if r.job == job && r.run == run {
			return r
		}
	}
	return nil
}

func (x *executor) begin(j *projections.Job) {
	share, _ := j.Allocation.ForNode(x.name)
	r := &simRun{job: j.Id, run: j.Run, step: mainStep(j), share: share, first: j.Allocation.FirstNode() == x.name, began: x.w.now, program: programOf(j.Spec)}
	if j.Scriptless() { // it has no program of its own: it is there until it is told to end
		r.first, r.program = false, program{}
	}
	x.runs = append(x.runs, r)
	if r.first && r.program.fails {
		r.over, r.cause, r.code = true, events.EndCause_LAUNCH_FAILED, 1
		x.unsaid = append(x.unsaid, x.exited(r))
		return
	}
	if r.first && x.unfit != "" {
		r.over, r.cause, r.signal, r.text = true, events.EndCause_NODE_UNFIT, 53, x.unfit
		x.unsaid = append(x.unsaid, x.exited(r))
		return
	}
	if x.w.watch != nil {
		x.w.watch.began(x, r)
	}
	x.unsaid = append(x.unsaid, &events.NodeFact{Kind: &events.NodeFact_Started{Started: &events.StepStarted{Job: j.Id, Run: j.Run, Step: r.step, AtUs: x.w.now}}})
	if r.first && r.program.run > 0 {
		r.ends = x.w.now + r.program.run
		x.w.at(r.ends, func() {
			if !r.over && !r.told {
				r.code = r.program.code
				if r.program.oom {
					r.cause, r.signal, r.code = events.EndCause_OOM_KILLED, 9, 0
				}
				x.end(r, true)
			}
		})
	}
}

// mainStep is the step by which a node has a part in a run: the batch script's, or that of an allocation without one.
func mainStep(j *projections.Job) uint32 {
	if j.Scriptless() {
		return events.StepInteractive
	}
	return events.StepBatch
}

// term tells a run to end: it does so after its trap, or when it is killed.
func (x *executor) term(r *simRun, kill int64) {
	if r.told {
		return
	}
	r.told = true
	wait := min(r.program.trap, kill)
	x.w.after(wait, func() {
		if r.over {
			return
		}
		r.cause = events.EndCause_STOPPED
		switch {
		case r.program.trap > kill:
			r.signal = 9
		case r.program.trap == 0 && r.first:
			r.signal = 15
		}
		x.end(r, true)
	})
}

// end is the end of a run's processes here.
func (x *executor) end(r *simRun, tell bool) {
	if x.off {
		return
	}
	r.over = true
	if x.w.watch != nil && r.share != nil {
		x.w.watch.ended(x, r)
	}
	if tell {
		x.unsaid = append(x.unsaid, x.exited(r))
		x.w.after(x.w.delay(), x.say)
	}
}

func (x *executor) exited(r *simRun) *events.NodeFact {
	return &events.NodeFact{Kind: &events.NodeFact_Exited{Exited: &events.StepExited{
		Job: r.job, Run: r.run, Step: r.step, AtUs: x.w.now, ExitCode: r.code, ExitSignal: r.signal, Cause: r.cause, Text: r.text, StartedUs: r.began, ElapsedUs: x.w.now - r.began,
	}}}
}

// ───── faults ─────

// Kill ends the executor process; the supervisor and the runs live on. Restart starts it again.
func (w *World) Kill(node string) {
	if x := w.byName[node]; x != nil {
		x.alive = false
	}
}

// Restart starts an executor process that was killed, or a machine that is off.
func (w *World) Restart(node string) {
	if x := w.byName[node]; x != nil {
		x.off = false
		x.start()
	}
}

// Crash is the machine going off: all runs are gone, and what was not said is never said.
func (w *World) Crash(node string) {
	x := w.byName[node]
	if x == nil || x.off {
		return
	}
	x.alive, x.off = false, true
	x.unsaid = nil
	for _, r := range x.runs {
		if !r.over {
			r.over = true
			if w.watch != nil && r.share != nil {
				w.watch.ended(x, r)
			}
		}
	}
	x.runs = nil
	x.boots++
}

// Cut separates a node from everybody; Heal undoes it.
func (w *World) Cut(node string) {
	if x := w.byName[node]; x != nil {
		x.cut = true
	}
}

// Heal undoes Cut.
func (w *World) Heal(node string) {
	if x := w.byName[node]; x != nil {
		x.cut = false
		w.after(w.delay(), func() { x.say(); x.look() })
	}
}

// Spoil makes a node unable to start anything, Mend able again.
func (w *World) Spoil(node string) {
	if x := w.byName[node]; x != nil {
		x.unfit = "spool: no space left on device"
	}
}

// Mend undoes Spoil.
func (w *World) Mend(node string) {
	if x := w.byName[node]; x != nil {
		x.unfit = ""
	}
}

// Depose lets another controller take over while the leader, not knowing it, goes on with a fold that lags behind.
func (w *World) Depose() {
	old := w.leader()
	for i, c := range w.controllers {
		if c == old {
			next := w.controllers[(i+1)%len(w.controllers)]
			if next == c {
				next.takeOver()
				return
			}
			c.lag = 1 + w.rng.IntN(3)
			next.dead = false
			next.takeOver()
			w.after(w.delay(), func() { c.pass() })
			return
		}
	}
	w.controllers[w.rng.IntN(len(w.controllers))].takeOver()
}
