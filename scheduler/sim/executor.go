package sim

import (
	"fmt"
	"slices"

	"stint/events"
	"stint/projections"
)

// executor is a node: its machine with what runs there, its supervisor, and the executor process between that and the log. What
// the process does is what stint/executor does: it asks what should run, makes it so, and says what happened, each fact
// until an answer shows that the log has it.
type executor struct {
	process
	mind *mind // what the process knows; gone with it

	name  string
	boots int
	procs int
	off   bool   // the machine is off
	skew  int64  // its clock is so far ahead
	unfit string // why it can start nothing; empty: it can
	ticks bool

	super process   // the supervisor
	runs  []*simRun // its journal, in order of their start; ended ones are kept as tombstones
}

// mind is what an executor process knows.
type mind struct {
	client bool // it has heard all that the supervisor knows

	// Its word in the log (executor/report.go).
	nonce         []byte
	n             uint64
	after         uint64 // its subject's last message
	spoken        bool
	sending       bool
	up            *entry
	open          bool
	queue         []*entry
	upSeq         uint64
	doneN, doneAt uint64

	asking, again bool
	poked         bool
	least, seen   uint64
	changed       bool
	config        *events.Config
	said          map[runKey]*said
}

type entry struct {
	fact *events.NodeFact
	told func(seq uint64)
}

type runKey struct{ job, run, step uint32 }

// said is what of a run's step was told.
type said struct {
	key                     runKey
	r                       *simRun // nil: nothing of it is here
	launching               bool
	own                     *simRun // its end is the executor's word
	startQueued, exitQueued bool
	startSeq, exitSeq       uint64
	stopping                bool
	void                    bool
}

func newExecutor(w *World, name string) *executor {
	x := &executor{process: process{w: w, kind: "executor"}, name: name, boots: 1}
	x.super = process{w: w, kind: "supervisor"}
	x.died = func() {
		x.mind = nil
		if w.rough != nil {
			w.tell("the executor of %s is gone", name)
			w.after(Second+w.rng.Int64N(90*Second), x.start)
		}
	}
	x.super.died = func() {
		w.tell("the supervisor of %s is gone", name)
		if m := x.mind; m != nil {
			m.client = false
		}
		w.after(Second+w.rng.Int64N(20*Second), x.supervise)
	}
	return x
}

func (x *executor) boot() string { return fmt.Sprintf("%s-boot-%d", x.name, x.boots) }

// start starts the executor process, which says that the node is up.
func (x *executor) start() {
	if x.alive || x.off {
		return
	}
	x.supervise()
	x.alive = true
	x.procs++
	x.mind = &mind{said: map[runKey]*said{}, after: x.w.last[events.SubjectNode(x.name)]}
	for _, r := range x.runs {
		if !r.acknowledged && x.w.flaw != flawForgets {
			x.saidOf(r.key()).r = r
		}
	}
	x.mind.client = true
	x.look()
	if !x.ticks {
		x.ticks = true
		x.tick()
	}
}

const beat = 10 * Second

// tick is the executor's beat: it is heard, and it looks.
func (x *executor) tick() {
	if x.alive && !x.cut && x.w.now >= x.pause {
		for _, c := range x.w.controllers {
			x.w.wire(func() { c.heard[x.name] = x.w.now })
		}
		x.look()
	}
	x.w.after(beat, x.tick)
}

// ───── its word ─────

func (x *executor) clock() int64 { return x.w.wall(x.w.now) + x.skew }

// tellFact puts a fact in line.
func (x *executor) tellFact(f *events.NodeFact, told func(uint64)) {
	if x.mind != nil {
		x.mind.queue = append(x.mind.queue, &entry{f, told})
	}
}

// say appends what is in line: one message outstanding, many facts in one.
func (x *executor) say() {
	m := x.mind
	if m == nil || m.sending || !m.open || m.up == nil && len(m.queue) == 0 || x.cut {
		return
	}
	msg := &events.NodeMessage{Boot: x.boot(), NowUs: x.clock()}
	var told []func(uint64)
	take := func(e *entry) {
		msg.Facts = append(msg.Facts, e.fact)
		told = append(told, e.told)
	}
	if m.up != nil {
		m.nonce, m.n = fmt.Appendf(nil, "%s-%d-%d", x.name, x.procs, x.w.order), 0
		take(m.up)
		m.up = nil
	}
	for _, e := range m.queue {
		take(e)
	}
	m.queue = nil
	m.n++
	msg.Executor, msg.N = m.nonce, m.n
	m.sending = true
	if x.passes("put facts into a message") {
		x.send(encode(msg), msg.N, told)
	}
}

func (x *executor) send(data []byte, n uint64, told []func(uint64)) {
	m := x.mind
	x.append(events.SubjectNode(x.name), m.after, data, func(seq uint64, deposed bool) {
		switch {
		case x.mind != m || !x.passes("heard of its append"):
		case deposed && m.spoken:
			x.w.fail("node %s lost its own subject", x.name)
		case deposed: // the last word of the executor before this one arrived late
			m.after = x.w.last[events.SubjectNode(x.name)]
			x.send(data, n, told)
		default:
			m.after, m.spoken, m.sending = seq, true, false
			m.doneN, m.doneAt = n, seq
			for _, f := range told {
				if f != nil {
					f(seq)
				}
			}
			x.say()
		}
	})
}

func (x *executor) sayStarted(st *said, r *simRun) {
	st.startQueued = true
	f := &events.StepStarted{Job: r.job, Run: r.run, Step: r.step, AtUs: x.w.wall(r.began) + x.skew, Part: r.part}
	x.tellFact(&events.NodeFact{Kind: &events.NodeFact_Started{Started: f}}, func(seq uint64) {
		st.startQueued, st.startSeq = false, seq
		x.mind.least = max(x.mind.least, seq)
	})
}

func (x *executor) sayExited(st *said, r *simRun) {
	st.exitQueued = true
	f := x.exited(r)
	if x.w.flaw == flawCode {
		f.ExitCode ^= 1
	}
	if st.void {
		f.Cause = events.EndCause_RUN_VOID
	}
	if !st.startQueued && st.startSeq == 0 {
		f.Part = r.part
	}
	x.tellFact(&events.NodeFact{Kind: &events.NodeFact_Exited{Exited: f}}, func(seq uint64) {
		st.exitQueued, st.exitSeq = false, seq
		x.mind.least = max(x.mind.least, seq)
		x.poke()
	})
}

func (x *executor) exited(r *simRun) *events.StepExited {
	f := &events.StepExited{Job: r.job, Run: r.run, Step: r.step, AtUs: x.w.wall(r.ended) + x.skew, ExitCode: r.code, ExitSignal: r.signal, Cause: r.cause, Text: r.text, StartedUs: x.w.wall(r.began) + x.skew, ElapsedUs: r.ended - r.began}
	if r.began == 0 {
		f.StartedUs, f.ElapsedUs = 0, 0
	}
	f.Usage = r.usage
	return f
}

// tellNow says what has just happened to a run. What a supervisor tells of the past is left to the comparison with an answer.
func (x *executor) tellNow(st *said) {
	m := x.mind
	if m.upSeq == 0 || m.upSeq > m.seen || !m.client && st.own == nil {
		return
	}
	r := st.r
	if st.own != nil {
		r = st.own
	}
	switch {
	case r.over:
		if !st.exitQueued && st.exitSeq == 0 && (!r.main() || len(x.others(st.key)) == 0) {
			x.sayExited(st, r)
		}
	case !st.startQueued && st.startSeq == 0:
		x.sayStarted(st, r)
	}
	x.say()
}

// ───── what should run ─────

// poke makes it ask again soon.
func (x *executor) poke() {
	m := x.mind
	if m == nil || m.poked {
		return
	}
	m.poked = true
	x.later(x.w.delay(), func() { m.poked = false; x.look() })
}

func (x *executor) nudged(seq uint64) {
	if x.alive && !x.cut && x.w.now >= x.pause {
		x.mind.least = max(x.mind.least, seq)
		x.look()
	}
}

// look asks one of the controllers what should run here, and makes the answer come true.
func (x *executor) look() {
	m := x.mind
	if m == nil || x.cut || x.w.now < x.pause {
		return
	}
	x.say() // first what is known already, or the answer would be of before
	if m.asking {
		m.again = true
		return
	}
	q := &projections.Ask{What: &projections.Ask_Node{Node: &projections.AskNode{Name: x.name}}}
	if x.w.rough == nil {
		x.reconcile(x.w.Fold.Seq(), projections.Reply(x.w.Fold, nil, q).GetNode())
		return
	}
	m.asking, m.again = true, false
	least := max(m.least, m.seen)
	settled := false
	done := func() {
		settled, m.asking = true, false
		if m.again {
			x.poke()
		}
	}
	c := x.w.controllers[x.w.rng.IntN(len(x.w.controllers))]
	x.w.request(&x.process, func() {
		if !c.alive || !c.tip || x.w.now < c.pause || c.fold.Seq() < least {
			return // nobody answers, or the answer would be too old
		}
		a := projections.Reply(c.fold, nil, q)
		x.w.answer(&x.process, func() {
			if settled || x.mind != m {
				return
			}
			done()
			if x.passes("heard what should run") {
				x.reconcile(a.Seq, a.GetNode())
			}
		})
	})
	x.later(patience, func() {
		if !settled && x.mind == m {
			m.again = true
			done()
		}
	})
}

func (x *executor) saidOf(k runKey) *said {
	st := x.mind.said[k]
	if st == nil {
		st = &said{key: k}
		x.mind.said[k] = st
	}
	return st
}

// reconcile makes the node follow an answer of the cluster as of a sequence.
func (x *executor) reconcile(seq uint64, a *projections.AnswerNode) {
	m := x.mind
	m.seen = max(m.seen, seq)
	if a.Config != nil {
		m.config = a.Config
	}
	n := a.GetNode()
	if n == nil {
		return
	}
	x.comeUp(seq, n)
	up := m.upSeq != 0 && m.upSeq <= seq
	listed := map[[2]uint32]bool{}
	for _, r := range a.Runs {
		job := r.Job
		if rn := job.RunNode(x.name); rn == nil || rn.ExitedUs != 0 {
			continue
		}
		listed[[2]uint32{job.Id, job.Run}] = true
	}
	if up {
		for _, st := range x.sorted() {
			if !listed[[2]uint32{st.key.job, st.key.run}] && x.mind == m {
				x.unlisted(seq, st)
			}
		}
		for _, r := range a.Runs {
			if job := r.Job; listed[[2]uint32{job.Id, job.Run}] && x.mind == m {
				x.follow(seq, job, job.RunNode(x.name))
				x.sayAgain(job)
			}
		}
	}
	if x.mind == m {
		x.acknowledge(seq, listed)
		x.say()
	}
	x.runs = slices.DeleteFunc(x.runs, func(r *simRun) bool { return r.over && r.acknowledged && r.ended < x.w.now-Hour })
}

// sorted are the steps that are known, in the order of their numbers.
func (x *executor) sorted() []*said {
	var list []*said
	for _, st := range x.mind.said {
		list = append(list, st)
	}
	slices.SortFunc(list, func(a, b *said) int { return a.key.compare(b.key) })
	return list
}

// comeUp says that the node is here, unless the state at seq already knows it by the word of this executor.
func (x *executor) comeUp(seq uint64, n *projections.Node) {
	m := x.mind
	switch {
	case m.open && (m.upSeq == 0 || m.upSeq > seq):
		return // it has been said, and this answer is too old to know
	case m.nonce == nil, m.changed, string(n.Executor) != string(m.nonce), n.Boot != x.boot(), seq >= m.doneAt && n.ExecutorN < m.doneN:
	default:
		return
	}
	if !m.client && m.nonce == nil {
		return
	}
	m.changed = false
	inv := &events.Inventory{Cpus: n.CPUs(), MemoryMib: n.GetDef().GetMemoryMib(), Sockets: n.GetDef().GetSockets(), CoresPerSocket: n.GetDef().GetCoresPerSocket(), ThreadsPerCore: n.GetDef().GetThreadsPerCore()}
	up := &events.NodeUp{Inventory: inv}
	for _, st := range x.sorted() {
		if r := st.r; r != nil && r.began != 0 && !r.over {
			up.Runs = append(up.Runs, &events.RunRef{Job: r.job, Run: r.run, Step: r.step})
		}
		// Whatever was said under another name may not have been heard.
		if !st.exitQueued {
			st.exitSeq = 0
		}
		if !st.startQueued {
			st.startSeq = 0
		}
	}
	m.up = &entry{&events.NodeFact{Kind: &events.NodeFact_Up{Up: up}}, func(seq uint64) {
		m.upSeq = seq
		m.least = max(m.least, seq)
		x.poke()
	}}
	m.open, m.upSeq = true, 0
	x.say()
	if x.w.rough == nil {
		m.seen = max(m.seen, m.upSeq)
	}
}

// follow makes one run that should be here be so.
func (x *executor) follow(seq uint64, job *projections.Job, rn *projections.RunNode) {
	m := x.mind
	if m == nil {
		return
	}
	st := x.saidOf(runKey{job.Id, job.Run, mainStep(job)})
	if job.Scriptless() || job.GetAllocation().FirstNode() != x.name {
		x.followOthers(seq, job, rn, st)
		return
	}
	r := st.r
	if st.own != nil {
		r = st.own
	}
	switch {
	case r != nil && r.over:
		if others := x.others(st.key); len(others) > 0 && st.exitSeq == 0 { // the node is not free before they are gone
			for _, o := range others {
				x.terminate(o, events.EndCause_STOPPED, int64(job.Stop.GetKillAfterS())*Second)
			}
			return
		}
		if !st.exitQueued && (st.exitSeq == 0 || st.exitSeq <= seq) {
			x.sayExited(st, r) // not said yet, or it was not heard
		}
	case r != nil && r.began != 0:
		if rn.GetStartedUs() == 0 && !st.startQueued && (st.startSeq == 0 || st.startSeq <= seq) {
			x.sayStarted(st, r)
		}
		if job.Stop != nil {
			x.terminate(r, events.EndCause_STOPPED, int64(job.Stop.GetKillAfterS())*Second)
		}
	case st.launching || r != nil || !m.client:
	case job.Stop != nil:
		x.synthesize(st, events.EndCause_STOPPED, "")
	case job.State != events.JobState_RUNNING, x.occupied():
	default:
		st.launching = true
		x.launch(st, job)
		if x.w.flaw == flawBegun {
			x.launch(st, job)
		}
	}
}

// occupied says whether something lives here that the log has given up.
func (x *executor) occupied() bool {
	for _, st := range x.mind.said {
		if x.w.flaw != flawOccupied && st.void && st.r != nil && st.r.began != 0 && !st.r.over {
			return true
		}
	}
	return false
}

// followOthers is follow on a node where the run has no batch script: it is there as long as the first node's part is, or, if no
// node has one, until it is told to end.
func (x *executor) followOthers(seq uint64, job *projections.Job, rn *projections.RunNode, st *said) {
	r := st.r
	if r == nil {
		share, _ := job.Allocation.ForNode(x.name)
		r = &simRun{job: job.Id, run: job.Run, step: st.key.step, share: share, presence: true, began: x.w.now}
		st.r = r
		x.runs = append(x.runs, r)
		x.begins(r)
	}
	if rn.GetStartedUs() == 0 && !st.startQueued && !r.over && (st.startSeq == 0 || st.startSeq <= seq) {
		x.sayStarted(st, r)
	}
	first := job.GetAllocation().FirstNode() == x.name
	if job.Stop == nil && (first || job.FirstRun().GetExitedUs() == 0) {
		return
	}
	if others := x.others(st.key); len(others) > 0 {
		for _, o := range others {
			x.terminate(o, events.EndCause_STOPPED, int64(job.Stop.GetKillAfterS())*Second)
		}
		return
	}
	if !r.over {
		if r.cause = events.EndCause_EXITED; job.Stop != nil {
			r.cause = events.EndCause_STOPPED
		}
		x.ends(r)
	}
	if !st.exitQueued && (st.exitSeq == 0 || st.exitSeq <= seq) {
		x.sayExited(st, r)
	}
}

// sayAgain says what the log may not have heard of a run's numbered steps.
func (x *executor) sayAgain(job *projections.Job) {
	if x.mind == nil {
		return
	}
	for _, st := range x.sorted() {
		if st.key.job != job.Id || st.key.run != job.Run || events.IsMainStep(st.key.step) || st.r == nil {
			continue
		}
		switch {
		case st.r.over && !st.exitQueued && st.exitSeq == 0:
			x.sayExited(st, st.r)
		case !st.r.over && !st.startQueued && st.startSeq == 0:
			x.sayStarted(st, st.r)
		}
	}
}

// unlisted deals with a step whose run the cluster does not want here, or that is over here.
func (x *executor) unlisted(seq uint64, st *said) {
	r := st.r
	if st.own != nil {
		r = st.own
	}
	switch {
	case r == nil:
		if !st.launching {
			delete(x.mind.said, st.key)
		}
	case r.over:
		switch {
		case st.exitQueued || st.exitSeq != 0:
		case st.void || !events.IsMainStep(st.key.step):
			x.sayExited(st, r) // that it was here, against the log, is on record
		default:
			st.exitSeq = seq // the log has its end already, or never wanted to know
		}
	case r.presence:
		r.cause = events.EndCause_RUN_VOID
		x.ends(r)
		r.acknowledged = true
		delete(x.mind.said, st.key)
	case r.began != 0:
		st.void = true
		x.terminate(r, events.EndCause_RUN_VOID, int64(x.mind.config.GetKillWaitS())*Second)
	}
}

// acknowledge lets the supervisor forget the ends that the log has taken in; tombstones stay.
func (x *executor) acknowledge(seq uint64, listed map[[2]uint32]bool) {
	for _, st := range x.sorted() {
		r := st.r
		if st.own != nil {
			r = st.own
		}
		if r == nil || !r.over || st.exitSeq == 0 || st.exitSeq > seq {
			continue
		}
		if events.IsMainStep(st.key.step) && listed[[2]uint32{st.key.job, st.key.run}] {
			continue // the state does not have it: follow says it again
		}
		if st.own == nil && !x.super.alive {
			continue
		}
		if st.r != nil {
			st.r.acknowledged = true
		}
		delete(x.mind.said, st.key)
	}
}

// synthesize gives a step an end that the supervisor knows nothing of.
func (x *executor) synthesize(st *said, cause events.EndCause, text string) {
	st.launching = false
	st.own = &simRun{job: st.key.job, run: st.key.run, step: st.key.step, over: true, ended: x.w.now, cause: cause, text: text}
	if st.r != nil {
		st.own.began = st.r.began
	}
	x.tellNow(st)
}

// ───── faults ─────

// Kill ends the executor process; the supervisor and the runs live on. Restart starts it again.
func (w *World) Kill(node string) {
	if x := w.byName[node]; x != nil {
		x.kill()
	}
}

// Restart starts an executor process that was killed, or a machine that is off.
func (w *World) Restart(node string) {
	if x := w.byName[node]; x != nil {
		x.off = false
		x.start()
	}
}

// Cut separates a node from everybody; Heal undoes it.
func (w *World) Cut(node string) {
	if x := w.byName[node]; x != nil {
		x.cut = true
	}
}

// Heal undoes Cut.
func (w *World) Heal(node string) {
	if x := w.byName[node]; x != nil && x.cut {
		x.cut = false
		w.after(w.delay(), x.look)
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
