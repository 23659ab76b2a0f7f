package projections

import (
	"strings"

	"stint/events"
)

// What facts do to jobs in the queue: admitted, held, released, updated.

// admitted: a submission became a job. Of a heterogeneous job each component is admitted by itself, under the ids that its
// intent took, and the intent has its verdict with the last of them.
func (c *Cluster) admitted(f *events.Admitted) string {
	item := c.waits(f.GetIntent())
	verb := item.GetIntent().GetVerb()
	switch {
	case item == nil || verb != events.Verb_SUBMIT && verb != events.Verb_CRONTAB:
		return voidNoIntent
	case f.GetJob() < item.FirstId || f.GetJob() >= item.FirstId+item.Intent.GetIds():
		return voidNotThatID
	case c.jobs.get(f.GetJob()) != nil || c.arrays.get(f.GetJob()) != nil:
		return voidIDInUse
	case f.GetSpec() == nil || f.GetOwner() == nil:
		return voidNoSpec
	}
	spec := c.shared.spec(f.GetSpec())
	j := &Job{
		Id: f.GetJob(), Spec: spec, Owner: c.shared.owner(f.GetOwner()), Priority: f.GetPriority(), Hold: f.GetHold(),
		SubmitUs: item.AtUs, BeginUs: spec.GetBeginUs(), LimitS: spec.GetTimeLimitS(), Partition: firstOf(spec.GetPartition()),
		SubmittedSeq: item.Seq, Reason: holdReason(f.GetHold()),
	}
	j.Recurs = spec.GetCron() != nil
	if item.Intent.GetIds() > 1 && verb == events.Verb_SUBMIT {
		j.HetId, j.HetOffset, j.HetSize = item.FirstId, f.GetComponent(), item.Intent.GetIds()
	}
	if tasks := events.Words(spec.GetArray().GetTasks()); !tasks.Empty() {
		j.ArrayId, j.Pending, j.ArrayMaxRunning = j.Id, tasks.Clone(), spec.GetArray().GetMaxRunning()
		c.arrays.set(c.epoch, j.Id, &array{rec: &Array{Id: j.Id, Total: uint32(tasks.Count()), MaxRunning: j.ArrayMaxRunning}}, 0)
	}
	c.depend(j, spec.GetDependencies())
	c.reckon(j, j.SubmitUs)
	c.putJob(nil, j)
	c.watch(j)
	if f.GetJob() == item.FirstId+item.Intent.GetIds()-1 && verb == events.Verb_SUBMIT { // a crontab is set by a fact of its own
		c.settle(item, &IntentVerdict{Job: item.FirstId, Touched: item.Intent.GetIds()})
	}
	return ""
}

func firstOf(list string) string {
	name, _, _ := strings.Cut(list, ",")
	return name
}

func holdReason(kind events.HoldKind) events.Reason {
	switch kind {
	case events.HoldKind_HELD_USER:
		return events.Reason_JOB_HELD_USER
	case events.HoldKind_HELD_ADMIN:
		return events.Reason_JOB_HELD_ADMIN
	}
	return events.Reason_NONE
}

// reckon sets from when on a waiting job may start, as far as that follows from the job itself. from is the earliest it can
// be: when it was submitted, released, requeued.
func (c *Cluster) reckon(j *Job, from int64) {
	met, since := j.dependenciesMet()
	if !j.Waits() || j.Hold != events.HoldKind_NOT_HELD || met != Fulfilment_FULFILLED {
		if j.Waits() {
			j.EligibleUs = 0
		}
		return
	}
	j.EligibleUs = max(1, from, j.BeginUs, since)
	if j.AccrueUs == 0 {
		j.AccrueUs = j.EligibleUs
	}
}

// held: a job may not start until it is released. Tasks that are named become records of their own. One that runs goes on, and
// is held when it comes back into the queue.
func (c *Cluster) held(f *events.Held) string {
	if f.GetKind() == events.HoldKind_NOT_HELD {
		return voidState
	}
	if j := c.jobs.get(f.GetJob()); j.Live() && !f.GetHasTasks() {
		next := j.copy()
		next.Hold, next.Priority, next.Reason = f.GetKind(), 0, holdReason(f.GetKind())
		c.putJob(j, next)
		return ""
	}
	return c.waiters(f.GetJob(), f.GetTasks(), f.GetHasTasks(), func(j *Job) {
		j.Hold, j.Priority, j.Reason, j.ReasonText = f.GetKind(), 0, f.GetReason(), f.GetText()
		if j.Reason == events.Reason_NONE {
			j.Reason = holdReason(f.GetKind())
		}
		c.reckon(j, c.now)
	})
}

// released: a held job may start again, one that runs also after it came back into the queue.
func (c *Cluster) released(f *events.Released) string {
	if j := c.jobs.get(f.GetJob()); j.Live() && j.Hold != events.HoldKind_NOT_HELD && !f.GetHasTasks() {
		next := j.copy()
		next.Hold, next.Priority, next.Reason = events.HoldKind_NOT_HELD, f.GetPriority(), events.Reason_NONE
		c.putJob(j, next)
		return ""
	}
	return c.waiters(f.GetJob(), f.GetTasks(), f.GetHasTasks(), func(j *Job) {
		j.Hold, j.Priority, j.Reason, j.ReasonText, j.SpecialExit = events.HoldKind_NOT_HELD, f.GetPriority(), events.Reason_NONE, "", false
		j.UnfitRuns = 0
		c.reckon(j, c.now)
	})
}

// waiters changes a job in the queue, or the named tasks of an array's remainder, which get records of their own unless
// they are all of it.
func (c *Cluster) waiters(id uint32, tasks events.Words, hasTasks bool, change func(*Job)) string {
	j := c.jobs.get(id)
	switch {
	case j == nil:
		return voidNoJob
	case !j.Waits():
		return voidState
	case hasTasks && !c.someTasks(j, tasks):
		return voidTasks
	}
	if hasTasks && j.Remainder() && !events.Words(j.Pending).Within(tasks) {
		void := ""
		events.Words(tasks).And(j.Pending).Each(func(task uint32) bool {
			own := c.split(id, task)
			if own == nil {
				void = voidNoIDs
				return false
			}
			change(own)
			c.putJob(nil, own)
			c.watch(own)
			return true
		})
		return void
	}
	next := j.copy()
	change(next)
	c.putJob(j, next)
	return ""
}

// someTasks says whether tasks names something that the record stands for.
func (c *Cluster) someTasks(j *Job, tasks events.Words) bool {
	if j.Remainder() {
		return tasks.Intersects(j.Pending)
	}
	return j.HasTask && tasks.Has(j.ArrayTask)
}

// updated: the job is asked for otherwise from here on. A running job takes what can still matter to it.
func (c *Cluster) updated(f *events.Updated) string {
	u := f.GetChange()
	j, a := c.jobs.get(f.GetJob()), c.arrays.get(f.GetJob())
	switch {
	case u == nil:
		return voidNothingWanted
	case j == nil && a == nil:
		return voidNoJob
	}
	if u.ArrayThrottle != nil && j.GetArrayId() != 0 {
		a = c.arrays.get(j.ArrayId)
	}
	if u.ArrayThrottle != nil && a != nil {
		next := a.rec.copy()
		next.MaxRunning = *u.ArrayThrottle
		c.putArray(a, next)
	}
	switch {
	case j == nil && u.ArrayThrottle == nil:
		return voidNoJob
	case j == nil:
		return ""
	case j.Over():
		return voidState
	}
	if tasks, named := namedTasks(u, j); named && j.Remainder() && !events.Words(j.Pending).Within(tasks) {
		return c.waiters(j.Id, tasks, true, func(own *Job) { c.change(own, u) })
	}
	next := j.copy()
	c.change(next, u)
	c.putJob(j, next)
	c.watch(next)
	return ""
}

// namedTasks are the tasks that an update names of this very record.
func namedTasks(u *events.UpdateJob, j *Job) (events.Words, bool) {
	for _, t := range u.GetTargets() {
		if t.GetJob() == j.Id && t.GetHasTasks() {
			return t.GetTasks(), true
		}
	}
	return nil, false
}

// change applies an update to a copy of a job.
func (c *Cluster) change(j *Job, u *events.UpdateJob) {
	spec := j.Spec.CloneVT()
	j.Spec = spec
	set(&j.LimitS, u.TimeLimitS)
	if u.TimeLimitAddS != nil && j.LimitS != events.Unlimited {
		j.LimitS = uint32(min(max(int64(j.LimitS)+int64(*u.TimeLimitAddS), 0), int64(events.Unlimited)-1))
	}
	spec.TimeLimitS, spec.DefaultTimeLimit = j.LimitS, spec.DefaultTimeLimit && u.TimeLimitS == nil
	set(&spec.Name, u.Name)
	set(&spec.Comment, u.Comment)
	set(&spec.AdminComment, u.AdminComment)
	set(&spec.Nice, u.Nice)
	set(&spec.Wckey, u.Wckey)
	set(&spec.MailUser, u.MailUser)
	set(&spec.MailTypes, u.MailTypes)
	set(&spec.Extra, u.Extra)
	set(&spec.DeadlineUs, u.DeadlineUs)
	if u.Requeue != nil {
		spec.Requeue = events.Choice_CHOICE_NO
		if *u.Requeue {
			spec.Requeue = events.Choice_CHOICE_YES
		}
	}
	if u.ArrayThrottle != nil {
		j.ArrayMaxRunning = *u.ArrayThrottle
		if spec.Array != nil {
			spec.Array.MaxRunning = *u.ArrayThrottle
		}
	}
	if !j.Waits() {
		return
	}
	if u.Partition != nil {
		spec.Partition, j.Partition = *u.Partition, firstOf(*u.Partition)
	}
	if u.Priority != nil && j.Hold == events.HoldKind_NOT_HELD {
		j.Priority, spec.Priority, spec.HasPriority = *u.Priority, *u.Priority, true
	}
	set(&spec.Account, u.Account)
	set(&spec.Qos, u.Qos)
	set(&spec.Constraint, u.Features)
	set(&spec.NodeList, u.NodeList)
	set(&spec.Exclude, u.Exclude)
	set(&spec.MinNodes, u.MinNodes)
	set(&spec.MaxNodes, u.MaxNodes)
	set(&spec.Tasks, u.Tasks)
	set(&spec.MinCpus, u.Cpus)
	set(&spec.Prefer, u.Prefer)
	for _, f := range []struct{ to, from *uint32 }{
		{&spec.CpusPerTask, u.CpusPerTask}, {&spec.MinCpusPerNode, u.MinCpusPerNode}, {&spec.TasksPerNode, u.TasksPerNode}, {&spec.TimeMinS, u.TimeMinS},
		{&spec.SocketsPerNode, u.SocketsPerNode}, {&spec.CoresPerSocket, u.CoresPerSocket}, {&spec.ThreadsPerCore, u.ThreadsPerCore},
	} {
		set(f.to, f.from)
	}
	if u.GetSetGres() {
		spec.Gres = u.GetGres()
	}
	set(&spec.TmpDiskMib, u.TmpDiskMib)
	set(&spec.Licenses, u.Licenses)
	set(&spec.Reservation, u.Reservation)
	set(&spec.Contiguous, u.Contiguous)
	set(&spec.Exclusive, u.Exclusive)
	set(&spec.WorkDir, u.WorkDir)
	set(&spec.Switches, u.Switches)
	if u.GetResetAccrue() {
		j.AccrueUs = c.now
	}
	set(&spec.StdIn, u.StdIn)
	set(&spec.StdOut, u.StdOut)
	set(&spec.StdErr, u.StdErr)
	if u.MemPerNodeMib != nil {
		spec.MemPerNodeMib, spec.MemPerCpuMib, spec.MemAll = *u.MemPerNodeMib, 0, *u.MemPerNodeMib == 0
	}
	if u.MemPerCpuMib != nil {
		spec.MemPerCpuMib, spec.MemPerNodeMib, spec.MemAll = *u.MemPerCpuMib, 0, false
	}
	if u.BeginUs != nil {
		spec.BeginUs, j.BeginUs = *u.BeginUs, *u.BeginUs
	}
	if u.GetSetDependencies() {
		c.unwatch(j)
		spec.Dependencies, spec.DependencyAny, spec.DependencyText = u.GetDependencies(), u.GetDependencyAny(), ""
		j.Dependencies = nil
		c.depend(j, u.GetDependencies())
	}
	if u.BeginUs != nil || u.GetSetDependencies() {
		c.reckon(j, j.SubmitUs)
	}
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}
