package sim

import (
	"cmp"
	"strconv"
	"strings"

	"stint/events"
	"stint/projections"
)

// simRun is a step of a job's run on a node: the processes, and what the supervisor's journal has of them.
type simRun struct {
	job, run uint32
	step     uint32 // the main one: of the batch script, or of an allocation without one; or a numbered one
	share    *events.NodeShare
	first    bool  // the batch script
	presence bool  // a part in a run without processes of its own
	began    int64 // 0: never
	gone     bool  // its processes have ended
	over     bool  // and the journal knows
	ended    int64
	told     bool // to end

	acknowledged bool // the log has its end: a tombstone

	cause   events.EndCause
	code    uint32
	signal  uint32
	text    string
	usage   *events.Usage
	part    *events.StepPart
	program program
}

func (r *simRun) key() runKey { return runKey{r.job, r.run, r.step} }
func (r *simRun) main() bool  { return events.IsMainStep(r.step) }

func (k runKey) compare(o runKey) int {
	return cmp.Or(cmp.Compare(k.job, o.job), cmp.Compare(k.run, o.run), cmp.Compare(k.step, o.step))
}

// program is how a job behaves, written in its arguments.
type program struct {
	run   int64 // microseconds; 0: until told to end
	code  uint32
	trap  int64 // takes this long to end after TERM
	oom   bool
	fails bool  // cannot be started
	steps int64 // numbered steps that it makes
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
		case "steps":
			p.steps = n
		}
	}
	return p
}

// mainStep is the step by which a node has a part in a run: the batch script's, or that of an allocation without one.
func mainStep(j *projections.Job) uint32 {
	if j.Scriptless() {
		return events.StepInteractive
	}
	return events.StepBatch
}

func (x *executor) find(k runKey) *simRun {
	for _, r := range x.runs {
		if r.key() == k {
			return r
		}
	}
	return nil
}

// others are the live numbered steps of a run.
func (x *executor) others(k runKey) (list []*simRun) {
	for _, r := range x.runs {
		if r.job == k.job && r.run == k.run && !r.main() && !r.over {
			list = append(list, r)
		}
	}
	return list
}

// supervise starts the supervisor. It finds by its journal what lives and what does not; of an end that it did not see it
// can say that much.
func (x *executor) supervise() {
	if x.super.alive || x.off {
		return
	}
	x.super.alive = true
	for _, r := range x.runs {
		r.told = r.told && r.gone // whoever was to kill it is gone
		if r.over || r.presence {
			continue
		}
		switch {
		case r.began == 0:
			r.over, r.ended, r.cause, r.text = true, x.w.now, events.EndCause_STATUS_UNSEEN, "it was being launched as the supervisor ended"
		case r.gone:
			r.over, r.ended, r.cause, r.code, r.signal, r.usage, r.text = true, x.w.now, events.EndCause_STATUS_UNSEEN, 0, 0, nil, "nobody saw its end"
		}
	}
	if m := x.mind; m != nil {
		m.client = true
		for _, r := range x.runs {
			if r.acknowledged {
				continue
			}
			st := x.saidOf(r.key())
			st.r, st.launching = r, false
		}
		for _, st := range x.sorted() {
			st.launching, st.stopping = false, false
		}
		x.poke()
	}
}

// launch has the supervisor start a job's script.
func (x *executor) launch(st *said, job *projections.Job) {
	m := x.mind
	again := func(string) {
		if x.mind == m {
			st.launching = false
			x.later(200*Millisecond, x.poke)
		}
	}
	if !x.passes("asked for a launch") {
		return
	}
	if !x.super.alive {
		again("the supervisor is away")
		return
	}
	if old := x.find(st.key); old != nil && x.w.flaw != flawBegun { // it was launched before
		st.launching = false
		if st.r = old; old.acknowledged {
			x.synthesize(st, events.EndCause_STATUS_UNSEEN, "it ran here, and its end was told before")
		}
		return
	}
	share, _ := job.Allocation.ForNode(x.name)
	r := &simRun{job: job.Id, run: job.Run, step: st.key.step, share: share, first: true, program: programOf(job.Spec)}
	x.runs = append(x.runs, r)
	if !x.super.passes("written a launch into its journal") {
		again("")
		return
	}
	switch {
	case r.program.fails:
		r.began, r.over, r.gone, r.ended, r.cause, r.code = x.w.now, true, true, x.w.now, events.EndCause_LAUNCH_FAILED, 1
	case x.unfit != "":
		r.began, r.over, r.gone, r.ended, r.cause, r.signal, r.text = x.w.now, true, true, x.w.now, events.EndCause_NODE_UNFIT, 53, x.unfit
	default:
		r.began = x.w.now
		x.begins(r)
		if r.program.run > 0 {
			x.w.after(r.program.run, func() { x.exits(r) })
		}
		for n := range r.program.steps {
			x.w.after(r.program.run*(n+1)/(r.program.steps+2), func() { x.makeStep(r, uint32(n), job.Allocation) })
		}
	}
	if !x.super.passes("started a script") {
		return
	}
	x.notice(r)
}

// notice has the supervisor tell the executor, if there is one, what has happened to a step.
func (x *executor) notice(r *simRun) {
	m := x.mind
	if m == nil || !x.super.alive {
		return
	}
	st := x.saidOf(r.key())
	st.r, st.launching = r, false
	if x.passes("heard of a step") {
		x.tellNow(st)
		if r.over {
			x.poke()
		}
	}
}

func (x *executor) begins(r *simRun) {
	if x.w.watch != nil {
		x.w.watch.began(x, r)
	}
}

// exits: the script ends by itself.
func (x *executor) exits(r *simRun) {
	if r.gone || r.told {
		return
	}
	r.code = r.program.code
	if r.program.oom {
		r.cause, r.signal, r.code = events.EndCause_OOM_KILLED, 9, 0
	}
	x.reap(r)
}

// reap: the processes of a step are gone. If its supervisor is there, the end is in its journal before anybody hears of it.
func (x *executor) reap(r *simRun) {
	if r.gone {
		return
	}
	if x.w.rough != nil {
		r.usage = &events.Usage{UserUs: uint64((x.w.now - r.began) / 2), Node: x.name}
	}
	x.vanish(r)
	if !x.super.alive || x.w.has(flawEnd, 8) {
		return
	}
	r.over, r.ended = true, x.w.now
	if !x.super.passes("written an end into its journal") {
		return
	}
	x.notice(r)
}

// vanish: nothing of it lives any more.
func (x *executor) vanish(r *simRun) {
	r.gone = true
	if x.w.watch != nil && r.share != nil {
		x.w.watch.ended(x, r)
	}
}

// ends: a part in a run without processes of its own is over.
func (x *executor) ends(r *simRun) {
	r.over, r.ended = true, x.w.now
	x.vanish(r)
}

// makeStep makes a numbered step of a script that runs, on all nodes of its run that can be reached. Its first node gives the number.
func (x *executor) makeStep(batch *simRun, n uint32, on *events.Allocation) {
	if batch.gone || batch.told || !x.alive || x.cut || x.w.Fold.Job(batch.job).GetSuspendedUs() != 0 { // who stands still makes none
		return
	}
	for _, name := range on.NodeNames() {
		y := x.w.byName[name]
		share, _ := on.ForNode(name)
		if share == nil || y == nil {
			continue
		}
		x.w.wire(func() {
			k := runKey{batch.job, batch.run, n}
			m := y.mind
			if m == nil || y.cut || y.off || !y.super.alive || y.find(k) != nil || batch.gone {
				return
			}
			main := y.find(batch.key())
			if main == nil || main.over || m.said[main.key()] == nil { // it knows nothing of the run
				return
			}
			if y.occupied() { // who asked asks again, or is over by then
				return
			}
			r := &simRun{job: k.job, run: k.run, step: n, share: share, began: x.w.now, program: program{run: batch.program.run / 3},
				part: &events.StepPart{Name: "step", Tasks: 1, Layout: "Block", Host: "login", Pid: 1, Cpus: share.GetCpus()}}
			y.runs = append(y.runs, r)
			if !y.super.passes("written a launch into its journal") {
				return
			}
			y.begins(r)
			x.w.after(1+r.program.run, func() { y.exits(r) })
			y.notice(r)
		})
	}
}

// terminate tells a step to end: it does so after its trap, or when it is killed. The end of a script is that of all steps of its run.
func (x *executor) terminate(r *simRun, cause events.EndCause, kill int64) {
	if r.told || r.over || !x.super.alive {
		return
	}
	r.told = true
	if r.main() {
		for _, o := range x.others(r.key()) {
			x.terminate(o, cause, kill)
		}
	}
	wait := min(r.program.trap, kill)
	x.w.after(wait, func() {
		if r.gone || x.off {
			return
		}
		r.cause = cause
		switch {
		case r.program.trap > kill:
			r.signal = 9
		case r.program.trap == 0 && r.first:
			r.signal = 15
		}
		x.reap(r)
	})
}

// Crash is the machine going off: all runs are gone, and what was not said is never said.
func (w *World) Crash(node string) {
	x := w.byName[node]
	if x == nil || x.off {
		return
	}
	x.off = true
	w.tell("the machine %s is off", node)
	x.alive, x.mind = false, nil
	x.life++
	x.super.alive = false
	x.super.life++
	for _, r := range x.runs {
		if !r.gone && w.flaw != flawOff {
			x.vanish(r)
		}
	}
	x.runs = nil
	x.boots++
}
