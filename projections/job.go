package projections

import (
	"math"
	"strings"

	"stint/events"
)

// Over says that the job has its final state. Some node may not have reported yet, see Completing.
func (j *Job) Over() bool { return j.GetState().Final() }

// Live says that the job has a run that has not ended.
func (j *Job) Live() bool {
	return j.GetState() == events.JobState_RUNNING || j.GetState() == events.JobState_SUSPENDED
}

// IdleUs is how much of the time since the run began is none that it had, as far as that is over: it was suspended, or clocks were set forward.
func (j *Job) IdleUs() int64 { return j.GetSuspendedTotalUs() + j.GetLeaptUs() }

// Waits says that the job is in the queue.
func (j *Job) Waits() bool { return j.GetState() == events.JobState_PENDING }

// Remainder says that the record stands for the tasks of an array that have not started (Pending holds their indices).
func (j *Job) Remainder() bool {
	return j.GetArrayId() != 0 && j.GetArrayId() == j.GetId() && !j.GetHasTask()
}

// Family is the id under which all tasks of an array go, and a job's own id otherwise.
func (j *Job) Family() uint32 {
	if j.GetArrayId() != 0 {
		return j.GetArrayId()
	}
	return j.GetId()
}

// whole is the id under which all that was submitted at once goes: the tasks of an array, the components of a heterogeneous job.
func (j *Job) whole() uint32 {
	if j.GetHetId() != 0 {
		return j.GetHetId()
	}
	return j.Family()
}

// Eligible says whether the job may start at now (microseconds) as far as the job itself goes: not held, its begin time
// reached, its dependencies fulfilled (of an array's remainder: for some task, see ReadyTasks).
func (j *Job) Eligible(now int64) bool {
	return j.Waits() && j.GetHold() == events.HoldKind_NOT_HELD && j.GetEligibleUs() != 0 && j.GetEligibleUs() <= now
}

// PendingReason is why a job cannot start at now for reasons of its own, in the order in which they count: held, a
// dependency that can never be fulfilled, a dependency, its begin time. NONE: what it waits for lies outside of it.
func (j *Job) PendingReason(now int64) events.Reason {
	switch {
	case !j.Waits():
		return events.Reason_NONE
	case j.GetHold() != events.HoldKind_NOT_HELD && j.GetReason() != events.Reason_NONE:
		return j.GetReason()
	case j.GetHold() == events.HoldKind_HELD_ADMIN:
		return events.Reason_JOB_HELD_ADMIN
	case j.GetHold() == events.HoldKind_HELD_USER:
		return events.Reason_JOB_HELD_USER
	}
	state, since := j.dependenciesMet()
	switch {
	case state == Fulfilment_NEVER:
		return events.Reason_DEPENDENCY_NEVER_SATISFIED
	case state == Fulfilment_UNFULFILLED, since > now:
		return events.Reason_DEPENDENCY
	case j.GetEligibleUs() > now:
		return events.Reason_BEGIN_TIME
	}
	return events.Reason_NONE
}

// Delayed says whether at now (microseconds) the job waits only for the time that is to pass after what it depends on has begun
// (after:JOB+MINUTES): until then it has no time from which on it may start, as Slurm has it.
func (j *Job) Delayed(now int64) bool {
	state, since := j.dependenciesMet()
	return state == Fulfilment_FULFILLED && since > now
}

// dependenciesMet joins the dependencies by "and", or by "or" if the job said so, and says from when on they are fulfilled.
// A remainder counts as fulfilled when some task of it is.
func (j *Job) dependenciesMet() (Fulfilment, int64) {
	list := j.GetDependencies()
	if len(list) == 0 {
		return Fulfilment_FULFILLED, 0
	}
	anyOf := j.GetSpec().GetDependencyAny()
	perTask := j.Remainder() && j.hasCorr()
	if perTask && !j.ReadyTasks().Empty() {
		// Some task may go. Its time is that of the latest word on any dependency: since is moved on with each.
		return Fulfilment_FULFILLED, sinceOf(list, anyOf)
	}
	if perTask && j.NeverTasks().Equal(j.GetPending()) {
		return Fulfilment_NEVER, 0
	}
	never, waiting := 0, 0
	for _, d := range list {
		switch d.GetState() {
		case Fulfilment_NEVER:
			never++
		case Fulfilment_UNFULFILLED:
			waiting++
		}
	}
	switch {
	case anyOf && never+waiting < len(list):
		return Fulfilment_FULFILLED, sinceOf(list, true)
	case anyOf && never == len(list), !anyOf && never > 0:
		return Fulfilment_NEVER, 0
	case anyOf || waiting > 0:
		return Fulfilment_UNFULFILLED, 0
	}
	return Fulfilment_FULFILLED, sinceOf(list, false)
}

func sinceOf(list []*DependencyState, first bool) int64 {
	since := int64(0)
	if first {
		since = math.MaxInt64
	}
	for _, d := range list {
		switch {
		case !first:
			since = max(since, d.GetSinceUs())
		case d.GetSinceUs() != 0:
			since = min(since, d.GetSinceUs())
		}
	}
	if since == math.MaxInt64 {
		return 0
	}
	return since
}

func (j *Job) hasCorr() bool {
	for _, d := range j.GetDependencies() {
		if d.GetDependency().GetKind() == events.DependencyKind_AFTER_CORR {
			return true
		}
	}
	return false
}

// ReadyTasks are the indices of a remainder whose dependencies are fulfilled (all pending ones without dependencies); of
// any other job nothing.
func (j *Job) ReadyTasks() events.Words { return j.tasksBy(false) }

// NeverTasks are the indices of a remainder whose dependencies can never be fulfilled.
func (j *Job) NeverTasks() events.Words { return j.tasksBy(true) }

func (j *Job) tasksBy(never bool) events.Words {
	pending := events.Words(j.GetPending())
	list := j.GetDependencies()
	if !j.Remainder() {
		return nil
	}
	if len(list) == 0 {
		if never {
			return nil
		}
		return pending
	}
	// One dependency suffices for "ready" under "or", and for "never" under "and"; otherwise it takes all of them.
	one := j.GetSpec().GetDependencyAny() != never
	result := pending
	if one {
		result = nil
	}
	for _, d := range list {
		var part events.Words
		switch {
		case d.GetDependency().GetKind() == events.DependencyKind_AFTER_CORR && never && (len(d.Ready) > 0 || len(d.Never) > 0):
			part = events.Words(d.GetNever()).And(pending)
		case d.GetDependency().GetKind() == events.DependencyKind_AFTER_CORR && (len(d.Ready) > 0 || len(d.Never) > 0):
			part = events.Words(d.GetReady()).And(pending)
		case never && d.GetState() == Fulfilment_NEVER, !never && d.GetState() == Fulfilment_FULFILLED:
			part = pending
		}
		if one {
			result = result.Or(part)
		} else {
			result = result.And(part)
		}
	}
	return result
}

// Unreported are the nodes of the current run that still hold its resources, in the order of the allocation.
func (j *Job) Unreported() []string {
	var names []string
	for _, n := range j.GetNodes() {
		if n.GetExitedUs() == 0 {
			names = append(names, n.GetNode())
		}
	}
	return names
}

// UnfitNode is the first node of the run that could not start it by the node's own fault; nil if there is none.
func (j *Job) UnfitNode() *RunNode {
	for _, n := range j.GetNodes() {
		if n.GetCause() == events.EndCause_NODE_UNFIT {
			return n
		}
	}
	return nil
}

// RunNode is the progress of the run on a node; nil if it has no part in it.
func (j *Job) RunNode(name string) *RunNode {
	if i := j.nodeAt(name); i >= 0 {
		return j.Nodes[i]
	}
	return nil
}

func (j *Job) nodeAt(name string) int {
	for i, n := range j.GetNodes() {
		if n.GetNode() == name {
			return i
		}
	}
	return -1
}

func (j *Job) marks() uint8 {
	var m uint8
	switch {
	case j.Waits():
		m = markPending
	case j.Live():
		m = markRunning
	}
	if j.GetCompleting() {
		m |= markCompleting
	}
	return m
}

// Features are the features of the node that count now: those that are active, if an administrator chose among them.
func (n *Node) Features() []string {
	if n.GetHasActive() {
		return strings.FieldsFunc(n.GetActiveFeatures(), func(r rune) bool { return r == ',' })
	}
	return n.GetDef().GetFeatures()
}

// Usable says whether a node may be given to jobs: up, and nothing against it.
func (n *Node) Usable() bool {
	return n.GetUp() && !n.GetFuture() && !n.GetDown() && !n.GetDrain() && !n.GetFail() && !n.GetInvalid() && !n.GetRemoved()
}

// CPUs is how many CPUs of the node jobs may have, numbered from 0: as configured, less the cores kept for the system, which
// are the last ones.
func (n *Node) CPUs() uint32 {
	cpus := n.GetDef().GetCpus()
	if cpus == 0 {
		cpus = max(n.GetDef().GetSockets(), 1) * max(n.GetDef().GetCoresPerSocket(), 1) * max(n.GetDef().GetThreadsPerCore(), 1)
	}
	kept := n.GetDef().GetCoreSpec() * max(n.GetDef().GetThreadsPerCore(), 1)
	return cpus - min(cpus, kept)
}

// MemoryMiB is how much memory of the node jobs may have: as configured, less what is kept for the system.
func (n *Node) MemoryMiB() uint64 {
	if n.GetDef().GetMemSpecMib() >= n.GetDef().GetMemoryMib() {
		return 0
	}
	return n.GetDef().GetMemoryMib() - n.GetDef().GetMemSpecMib()
}
