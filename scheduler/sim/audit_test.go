package sim

import (
	"fmt"
	"strings"

	"stint/events"
	"stint/projections"
	"stint/scheduler/cycle"
)

// auditor watches a world and fails it when something happens that must not. What it knows it has seen itself: processes
// that begin and end on nodes, and what becomes of jobs; it shares no code with the fold or the passes.
type auditor struct {
	w       *World
	live    map[string][]*simRun // by node
	started map[string]bool      // node, job, run
	excused map[[2]uint32]bool   // runs that lost a node: they may overlap with the next run
	jobs    map[uint32]*seenJob
	first   map[uint32]int64      // when an id was first seen
	natural map[[2]uint32]*simRun // runs whose batch script ended by itself
	arrays  map[uint32]*seenArray
	trouble map[string]bool // nodes that were cut off, killed or crashed
	voids   int
	placed  int

	truth   map[runKeyOn]*simRun   // steps that have ended by themselves, as they were then
	told    map[runKeyOn]bool      // ends that the log has taken in
	used    map[uint32]uint64      // CPU time that nodes told, by job
	wishes  map[string]uint32      // first id, by the nonce of each intent in the log
	ids     map[uint32]string      // who took an id
	promise map[string]bool        // nonces of intents whose authors were told that they are kept
	answers map[string]uint32      // first id that an author was told
	hashes  map[uint64][32]byte    // of the state at some sequences
	feed    []projections.JobEvent // what is due in JOBS
	ledger  *ledgerd
}

// runKeyOn is a step of a run on a node.
type runKeyOn struct {
	node string
	runKey
}

type seenJob struct {
	job      *projections.Job
	began    bool // once
	ended    bool // once
	ok       bool // ended well, once
	bad      bool // ended otherwise, once
	run      uint32
	waitsFor int64 // when its dependencies were last given
	gone     int64 // when it left hot state; 0: it has not
}

type seenArray struct {
	tasks map[uint32]*seenJob
	total int
	live  map[uint32]bool
}

func newAuditor(w *World) *auditor {
	a := &auditor{w: w, live: map[string][]*simRun{}, started: map[string]bool{}, excused: map[[2]uint32]bool{}, jobs: map[uint32]*seenJob{}, first: map[uint32]int64{},
		truth: map[runKeyOn]*simRun{}, told: map[runKeyOn]bool{}, used: map[uint32]uint64{}, wishes: map[string]uint32{}, ids: map[uint32]string{},
		promise: map[string]bool{}, answers: map[string]uint32{}, hashes: map[uint64][32]byte{},
		natural: map[[2]uint32]*simRun{}, arrays: map[uint32]*seenArray{}, trouble: map[string]bool{}}
	w.watch = a
	return a
}

func (a *auditor) began(x *executor, r *simRun) {
	if r.presence {
		return // there are no processes
	}
	key := fmt.Sprintf("%s %d %d %d", x.name, r.job, r.run, r.step)
	if a.started[key] && !r.presence {
		a.w.fail("run %d of job %d started twice on %s", r.run, r.job, x.name)
	}
	a.started[key] = true
	memory := r.share.MemoryMib
	counted := map[[2]uint32]bool{}
	for _, o := range a.live[x.name] {
		if o.job == r.job && o.run == r.run {
			continue
		}
		if counted[[2]uint32{o.job, o.run}] {
			continue
		}
		counted[[2]uint32{o.job, o.run}] = true
		lent := false // one that was suspended has lent its CPUs
		for _, j := range []*projections.Job{a.w.Fold.Job(o.job), a.w.Fold.Job(r.job)} {
			lent = lent || j.GetSuspendedUs() != 0 || j.GetSuspendedTotalUs() != 0
		}
		if both := events.Words(o.share.Cpus).And(r.share.Cpus); !both.Empty() && !lent {
			a.w.fail("CPUs %s of %s run jobs %d and %d at once", both, x.name, o.job, r.job)
		}
		for _, g := range o.share.Gres {
			for _, h := range r.share.Gres {
				if g.Name == h.Name && g.Type == h.Type && events.Words(g.Ids).Intersects(h.Ids) {
					a.w.fail("%s:%s %s of %s serves jobs %d and %d at once", g.Name, g.Type, events.Words(g.Ids).And(h.Ids), x.name, o.job, r.job)
				}
			}
		}
		memory += o.share.MemoryMib
	}
	if most := a.w.Fold.Node(x.name).GetDef().GetMemoryMib(); memory > most {
		a.w.fail("jobs on %s have %d MiB of its %d", x.name, memory, most)
	}
	for node, runs := range a.live {
		for _, o := range runs {
			if o.job == r.job && o.run != r.run && !a.excused[[2]uint32{o.job, min(o.run, r.run)}] {
				a.w.fail("runs %d (on %s) and %d (on %s) of job %d at once", o.run, node, r.run, x.name, r.job)
			}
		}
	}
	a.live[x.name] = append(a.live[x.name], r)
}

func (a *auditor) ended(x *executor, r *simRun) {
	runs := a.live[x.name]
	for i, o := range runs {
		if o == r {
			a.live[x.name] = append(runs[:i:i], runs[i+1:]...)
		}
	}
	if !r.presence && !r.told && r.cause != events.EndCause_RUN_VOID && !x.off {
		was := *r
		a.truth[runKeyOn{x.name, r.key()}] = &was
		if r.first {
			a.natural[[2]uint32{r.job, r.run}] = &was
		}
	}
	if !r.main() {
		return
	}
	j := a.w.Fold.Job(r.job)
	if j == nil || a.trouble[x.name] || j.Run != r.run || j.SuspendedTotalUs > 0 || j.SuspendedUs > 0 {
		return
	}
	cfg := a.w.Fold.Config()
	most := int64(j.LimitS+cfg.GetKillWaitS()+cfg.GetOverTimeLimitS())*Second + 10*Minute
	if j.LimitS != events.Unlimited && a.w.now-r.began > most {
		a.w.fail("job %d ran %d s on %s, its limit is %d s", r.job, (a.w.now-r.began)/Second, x.name, j.LimitS)
	}
}

// restored: a controller that started from a snapshot, or from nothing, has folded the rest.
func (a *auditor) restored(c *controller) { a.follows(c) }

// follows: every follower has the same state at the same sequence.
func (a *auditor) follows(c *controller) {
	if want, known := a.hashes[c.fold.Seq()]; known && c.fold.Hash() != want {
		a.w.fail("%s has another state than the log at %d", c.name, c.fold.Seq())
	}
}

// kept: the author of an intent has the word that it is kept.
func (a *auditor) kept(i *events.Intent) { a.promise[string(i.Nonce)] = true }

// answered: the author of an intent was told what became of it.
func (a *auditor) answered(i *events.Intent, v *projections.IntentVerdict) {
	if i.Ids == 0 {
		return
	}
	nonce := string(i.Nonce)
	if before, told := a.answers[nonce]; told && before != v.FirstId || v.FirstId != a.wishes[nonce] {
		a.w.fail("a submission took the id %d, and its author was told %d and %d", a.wishes[nonce], before, v.FirstId)
	}
	a.answers[nonce] = v.FirstId
}

// intents: each takes ids of its own, once, however often it comes.
func (a *auditor) intents(e *events.Event, void map[int]bool) {
	for k, i := range e.Intents.GetIntents() {
		nonce := string(i.Nonce)
		_, again := a.wishes[nonce]
		switch {
		case void[k]:
			continue
		case again:
			a.w.fail("an intent counts twice")
		}
		first := uint32(0)
		if i.Ids > 0 {
			v, at := uint32(0), a.w.Fold
			for _, item := range at.Inbox() {
				if item.Seq == e.Seq && item.Index == uint32(k) {
					v = item.FirstId
				}
			}
			first = v
			for id := first; id < first+i.Ids; id++ {
				if a.ids[id] != "" || a.jobs[id] != nil {
					a.w.fail("the id %d is given twice", id)
				}
				a.ids[id] = nonce
			}
		}
		a.wishes[nonce] = first
	}
}

// told by a node: each end counts once, and says what the processes did.
func (a *auditor) tells(e *events.Event, void map[int]bool) {
	for i, f := range e.Node.GetFacts() {
		x := f.GetExited()
		if x == nil || void[i] {
			continue
		}
		k := runKeyOn{e.Name, runKey{x.Job, x.Run, x.Step}}
		if a.told[k] && !events.IsMainStep(x.Step) {
			continue // an executor that is new does not know what the one before it has told
		}
		if a.told[k] {
			a.w.fail("the end of step %d of run %d of job %d on %s counts twice", x.Step, x.Run, x.Job, e.Name)
		}
		a.told[k] = true
		a.used[x.Job] += x.Usage.GetUserUs()
		r := a.truth[k]
		if x.Cause != events.EndCause_EXITED && x.Cause != events.EndCause_OOM_KILLED || !events.IsMainStep(x.Step) || a.w.Fold.Job(x.Job).GetAllocation().FirstNode() != e.Name || a.w.Fold.Job(x.Job).Scriptless() {
			continue
		}
		if r == nil || r.code != x.ExitCode || r.cause != x.Cause {
			a.w.fail("%s says that run %d of job %d ended with %d (%s), which is not what happened there", e.Name, x.Run, x.Job, x.ExitCode, x.Cause)
		}
	}
}

func (a *auditor) folded(m *Message, e *events.Event, v projections.Verdict, changes []projections.Change) {
	a.voids += len(v.Void)
	void := map[int]bool{}
	for _, one := range v.Void {
		void[one.Index] = true
	}
	a.telling(m, e, void)
	if !void[-1] {
		a.intents(e, void)
		a.tells(e, void)
	}
	a.feed = append(a.feed, projections.JobEvents(a.w.Fold.Config().GetCluster(), changes)...)
	if m.Seq%16 == 0 {
		a.hashes[m.Seq] = a.w.Fold.Hash()
	}
	if c := e.Sched.GetCycle(); c != nil && string(c.Term) == string(a.w.Fold.Term().Nonce) {
		alone := true // nothing came between what it knew and what it decided
		for seq := c.Basis + 1; seq < m.Seq; seq++ {
			alone = alone && a.w.log[seq-1].Subject == events.SubjectSched
		}
		for _, void := range v.Void {
			what := "the message"
			if void.Index >= 0 {
				what = cycle.Describe(c.Facts[void.Index], Epoch)
			}
			if alone {
				a.w.fail("the leader decided what is void: %s: %s %s", what, void.Why, void.More)
			}
		}
		for _, f := range c.Facts {
			if l := f.GetNodeLost(); l != nil {
				for _, r := range a.live[l.Node] {
					a.excused[[2]uint32{r.job, r.run}] = true
				}
				a.trouble[l.Node] = true
			}
		}
	}
	for _, c := range changes {
		switch {
		case c.After != nil:
			a.changed(&c)
		case c.Before != nil:
			a.left(c.Before)
		}
	}
	for _, c := range changes {
		if c.After != nil && c.Fact.GetPlaced() != nil && c.After.HetId != 0 && c.After.Live() {
			a.together(c.After)
		}
	}
	for _, c := range changes {
		if j := c.After; j != nil && c.Fact.GetPlaced() != nil && j.Live() && j.Spec.GetLicenses() != "" {
			a.licences(takes(j))
		}
	}
}

// together: all components of a heterogeneous job begin at once, on nodes apart.
func (a *auditor) together(j *projections.Job) {
	on := map[string]uint32{}
	for id := j.HetId; id < j.HetId+j.HetSize; id++ {
		s := a.jobs[id]
		switch {
		case s == nil:
			a.w.fail("component %d of job %d started, and nobody saw component %d", j.HetOffset, j.HetId, id-j.HetId)
			continue
		case !s.job.Live() || s.job.StartUs != j.StartUs:
			a.w.fail("component %d of job %d started without component %d", j.HetOffset, j.HetId, s.job.HetOffset)
		}
		for _, node := range s.job.Allocation.NodeNames() {
			if other, taken := on[node]; taken {
				a.w.fail("components %d and %d of job %d are both on %s", other, s.job.HetOffset, j.HetId, node)
			}
			on[node] = s.job.HetOffset
		}
	}
}

// takes are the licences that a job with a run has: of those it had the choice of, what it was given.
func takes(j *projections.Job) string {
	if j.LicensesAlloc != "" {
		return j.LicensesAlloc
	}
	return j.Spec.GetLicenses()
}

// licences: of no licence that a job has just taken more are held than there are.
func (a *auditor) licences(taken string) {
	held, who := map[string]int{}, ""
	for _, s := range a.jobs {
		j := s.job
		if s.gone != 0 || !j.Live() && !j.Completing || j.Spec.GetLicenses() == "" || j.Allocation.NodeCount() == 0 {
			continue
		}
		for _, term := range strings.Split(takes(j), ",") {
			name, count, counted := strings.Cut(term, ":")
			n := 1
			if counted {
				fmt.Sscan(count, &n)
			}
			held[name] += n
			who += fmt.Sprintf(" %d:%s", j.Id, term)
		}
	}
	for _, l := range a.w.Fold.Config().GetLicenses() {
		if strings.Contains(taken, l.Name) && held[l.Name] > int(l.Count) {
			a.w.fail("%d of licence %s are held, and there are %d:%s; just taken: %s", held[l.Name], l.Name, l.Count, who, taken)
		}
	}
}

func (a *auditor) left(j *projections.Job) {
	if !j.Over() || j.Completing {
		a.w.fail("job %d left hot state as %s", j.Id, j.State.Word())
	}
	a.jobs[j.Id].gone = a.w.now
}

func (a *auditor) changed(c *projections.Change) {
	j := c.After
	s := a.jobs[j.Id]
	if s == nil {
		s = &seenJob{}
		a.jobs[j.Id] = s
		a.first[j.Id] = a.w.now
	}
	was := s.job
	s.job = j
	if c.Fact.GetAdmitted() != nil || c.Fact.GetUpdated().GetChange().GetSetDependencies() {
		s.waitsFor = a.w.now
	}
	if j.ArrayId != 0 {
		t := a.array(j, s)
		t.waitsFor = max(t.waitsFor, s.waitsFor)
		s = t
		a.jobs[j.Id] = s
	}
	if p := c.Fact.GetPlaced(); p != nil && j.Live() && (was == nil || was.Run != j.Run) {
		a.placement(j, was, s)
	}
	if j.Over() && (was == nil || !was.Over()) {
		a.end(j, s)
	}
}

// array keeps what is known of an array's tasks, and counts those that run.
func (a *auditor) array(j *projections.Job, s *seenJob) *seenJob {
	r := a.arrays[j.ArrayId]
	if r == nil {
		r = &seenArray{tasks: map[uint32]*seenJob{}, live: map[uint32]bool{}, total: events.Words(j.Spec.GetArray().GetTasks()).Count()}
		a.arrays[j.ArrayId] = r
	}
	if !j.HasTask {
		if j.Over() {
			events.Words(j.Pending).Each(func(task uint32) bool {
				r.tasks[task] = &seenJob{job: j, began: true, ended: true, bad: true}
				return true
			})
		}
		return s
	}
	t := r.tasks[j.ArrayTask]
	if t == nil {
		t = &seenJob{}
		r.tasks[j.ArrayTask] = t
	}
	t.job = j
	delete(r.live, j.ArrayTask)
	if j.Live() {
		r.live[j.ArrayTask] = true
	}
	return t
}

func (a *auditor) placement(j, was *projections.Job, s *seenJob) {
	a.placed++
	s.began = true
	if j.Hold != events.HoldKind_NOT_HELD {
		a.w.fail("job %d started though it is held", j.Id)
	}
	if b, latest := j.BeginUs, a.w.latest(); b > latest {
		a.w.fail("job %d started %d s before its begin time", j.Id, (b-latest)/Second)
	}
	if j.Run != s.run+1 {
		a.w.fail("job %d: run %d follows run %d", j.Id, j.Run, s.run)
	}
	s.run = j.Run
	if j.ArrayId != 0 {
		if most := a.w.Fold.Array(j.ArrayId).GetMaxRunning(); most > 0 && len(a.arrays[j.ArrayId].live) > int(most) {
			a.w.fail("array %d runs %d tasks, at most %d may", j.ArrayId, len(a.arrays[j.ArrayId].live), most)
		}
	}
	part := a.w.Fold.Partition(j.Partition)
	if limit := part.GetMaxTimeS(); limit != 0 && j.LimitS > limit {
		a.w.fail("job %d started in %s with a limit of %d s", j.Id, j.Partition, j.LimitS)
	}
	if j.Run == 1 {
		a.dependencies(j)
	}
	if want := j.Spec.GetTasks(); want > 0 && uint32(j.Allocation.Tasks()) != want && j.Spec.GetTasks() >= j.Spec.GetMinNodes() {
		a.w.fail("job %d got %d tasks of %d", j.Id, j.Allocation.Tasks(), want)
	}
	if n := uint32(j.Allocation.NodeCount()); n < j.Spec.GetMinNodes() && j.Spec.GetTasks() >= j.Spec.GetMinNodes() || j.Spec.GetMaxNodes() > 0 && n > j.Spec.GetMaxNodes() {
		a.w.fail("job %d got %d nodes of %d to %d", j.Id, n, j.Spec.GetMinNodes(), j.Spec.GetMaxNodes())
	}
}

// dependencies: what a job waits for has happened, as far as it was ever seen.
func (a *auditor) dependencies(j *projections.Job) {
	list := j.Spec.GetDependencies()
	met := 0
	var missing []string
	for _, d := range list {
		if a.met(j, d) {
			met++
		} else {
			missing = append(missing, fmt.Sprintf("%s:%d", d.Kind, d.Job))
		}
	}
	if len(list) > 0 && (met == 0 || met < len(list) && !j.Spec.GetDependencyAny()) {
		a.w.fail("job %d started without %s", j.Id, strings.Join(missing, ","))
	}
}

func (a *auditor) met(j *projections.Job, d *events.Dependency) bool {
	if d.Kind == events.DependencyKind_SINGLETON {
		for id, o := range a.jobs {
			if o.job.Spec.GetName() == j.Spec.GetName() && o.job.Owner.GetUid() == j.Owner.GetUid() && o.job.Family() < j.Family() && (j.HetId == 0 || o.job.HetId != j.HetId) && !o.job.Over() && id != j.Id && !o.ended {
				return false
			}
		}
		return true
	}
	var of []*seenJob
	asked := a.jobs[j.Family()].waitsFor
	if s := a.jobs[d.Job]; s != nil && s.gone != 0 && s.gone <= asked && (a.arrays[d.Job] == nil || a.w.Fold.Array(d.Job) == nil) {
		return true // it had left when it was named: such a job counts as over and well
	}
	if since, known := a.first[d.Job]; !known || since >= asked && d.Job > j.Family() || d.Job == j.Id {
		return true // there was no such job yet
	}
	if r := a.arrays[d.Job]; r != nil {
		if d.Kind == events.DependencyKind_AFTER_CORR && j.HasTask {
			t := r.tasks[j.ArrayTask]
			pending := false
			if m := a.jobs[d.Job]; m != nil && m.job.Remainder() {
				pending = events.Words(m.job.Pending).Has(j.ArrayTask)
			}
			return t != nil && t.ok || t == nil && !pending
		}
		for _, t := range r.tasks {
			of = append(of, t)
		}
		if len(of) < r.total {
			return false
		}
	} else if s := a.jobs[d.Job]; s != nil {
		of = []*seenJob{s}
	}
	good, bad := 0, 0
	for _, s := range of {
		if d.Kind == events.DependencyKind_AFTER && !s.began && !s.ended || d.Kind != events.DependencyKind_AFTER && !s.ended {
			return false
		}
		// A job that ended twice, requeued in between, may have been both.
		if s.ok {
			good++
		}
		if s.bad {
			bad++
		}
	}
	switch d.Kind {
	case events.DependencyKind_AFTER_OK:
		return good == len(of)
	case events.DependencyKind_AFTER_NOT_OK:
		return len(of) == 0 || bad > 0
	}
	return true
}

func (a *auditor) end(j *projections.Job, s *seenJob) {
	s.ended = true
	if j.State == events.JobState_COMPLETED {
		s.ok = true
	} else {
		s.bad = true
	}
	r := a.natural[[2]uint32{j.Id, j.Run}]
	if r == nil || j.Stop != nil || len(j.Nodes) != 1 || j.Nodes[0].Cause != r.cause {
		return
	}
	want := events.JobState_COMPLETED
	switch {
	case r.program.oom:
		want = events.JobState_OUT_OF_MEMORY
	case r.program.code != 0:
		want = events.JobState_FAILED
	}
	if j.State != want || want == events.JobState_FAILED && j.ExitCode != r.program.code {
		a.w.fail("job %d ended as %s %d:%d, its script as %d", j.Id, j.State.Word(), j.ExitCode, j.ExitSignal, r.program.code)
	}
}

// close is what must be true at the end, when everything has come to its own.
func (a *auditor) close() error {
	w := a.w
	if n := len(w.Fold.Inbox()); n > 0 {
		return fmt.Errorf("%d intents have no verdict", n)
	}
	for nonce := range a.promise {
		if _, known := a.wishes[nonce]; !known {
			return fmt.Errorf("an intent whose author was told that it is kept is not in the log")
		}
	}
	for nonce, id := range a.answers {
		if id != 0 && a.ids[id] != nonce {
			return fmt.Errorf("the id %d was told to an author whose it is not", id)
		}
	}
	for _, c := range w.controllers {
		if !c.alive || !c.tip || c.fold.Seq() != uint64(len(w.log)) || c.fold.Hash() != w.Fold.Hash() {
			return fmt.Errorf("%s (alive %t) is at %d of %d with another state", c.name, c.alive, c.fold.Seq(), len(w.log))
		}
	}
	for i, e := range a.feed {
		switch {
		case i >= len(w.jobs.list):
			return fmt.Errorf("JOBS has %d messages of %d; %s is not there", len(w.jobs.list), len(a.feed), e.Subject)
		case string(w.jobs.list[i].Data) != string(e.Data):
			return fmt.Errorf("message %d of JOBS is %s, due is %s", i+1, w.jobs.list[i].Data, e.Data)
		}
	}
	if len(w.jobs.list) > len(a.feed) {
		return fmt.Errorf("JOBS has %d messages, %d were due", len(w.jobs.list), len(a.feed))
	}
	for node, runs := range a.live {
		if len(runs) > 0 {
			return fmt.Errorf("job %d lives on %s", runs[0].job, node)
		}
	}
	for _, l := range w.Fold.Config().GetLicenses() {
		if n := w.Fold.LicensesUsed(l.Name); n != 0 {
			return fmt.Errorf("%d of licence %s are held at the end", n, l.Name)
		}
	}
	return nil
}
