package projections

import (
	"fmt"
	"slices"

	"stint/events"
)

// What facts do to runs: placed, stopping, signalled, suspended, resumed, ended, requeued.

// maxSignals is how many orders to signal one run are kept; a node that comes back later than that many has missed some.
const maxSignals = 64

// placed: the job runs, if the state does not refuse it. Of an array the task gets an id of its own, unless it is the last.
func (c *Cluster) placed(p *events.Placed) string {
	if r := c.Refuse(p); r != nil {
		c.voidMore(c.index, voidNotFeasible, r.Text)
		return ""
	}
	return c.start(p)
}

// start is what a placement that is feasible does.
func (c *Cluster) start(p *events.Placed) string {
	before := c.jobs.get(p.GetJob())
	var j *Job
	switch {
	case before.Remainder() && events.Words(before.Pending).Count() > 1:
		if j = c.split(before.Id, p.GetTask()); j == nil {
			return voidNoIDs
		}
		before = nil
	case before.Remainder():
		j = asTask(before, p.GetTask())
	default:
		j = before.copy()
	}
	j.State, j.Run, j.Completing = events.JobState_RUNNING, p.GetRun(), false
	j.StartUs, j.PlacedUs, j.PlacedSeq, j.EndUs = c.now, c.now, c.seq, 0
	j.LimitS, j.Partition, j.Backfilled, j.Allocation = p.GetLimitS(), p.GetPartition(), p.GetBackfilled(), p.GetAllocation()
	j.LicensesAlloc = p.GetLicenses()
	j.Reason, j.ReasonText, j.Stop, j.Signals, j.Usage, j.Steps = events.Reason_NONE, "", nil, nil, nil, nil
	j.NextStep = 0
	j.ExitCode, j.ExitSignal, j.EndCause, j.SuspendedUs, j.SuspendedTotalUs = 0, 0, 0, 0, 0
	j.LeaptUs = 0
	j.WasCancelled, j.CancelledBy, j.ResizedUs, j.Stopped = false, 0, 0, false
	nodes := make([]RunNode, p.GetAllocation().NodeCount())
	j.Nodes = make([]*RunNode, len(nodes))
	p.GetAllocation().Each(func(i int, name string, share *events.NodeShare) bool {
		nodes[i].Node = name
		j.Nodes[i] = &nodes[i]
		c.occupy(name, share, j.Id)
		return true
	})
	c.unwatch(j)
	c.putJob(before, j)
	c.began(j)
	return ""
}

// runOf is the job whose current, live run a fact speaks of, or why there is none.
func (c *Cluster) runOf(id, run uint32) (*Job, string) {
	j := c.jobs.get(id)
	switch {
	case j == nil:
		return nil, voidNoJob
	case run != j.Run || run == 0:
		return nil, voidRun
	case !j.Live():
		return nil, voidState
	}
	return j, ""
}

// stopping: the run is told to end. Cancelling overrides a stop for another cause, which would have brought the job back to
// the queue or named another culprit; the time at which KILL follows TERM stays that of the first order.
func (c *Cluster) stopping(f *events.Stopping) string {
	j, void := c.runOf(f.GetJob(), f.GetRun())
	if void != "" {
		return void
	}
	at := c.now
	if j.Stop != nil {
		if f.GetCause() != events.StopCause_STOP_CANCEL || j.Stop.Cause == events.StopCause_STOP_CANCEL {
			return voidStopping
		}
		at = j.Stop.AtUs
	}
	next := j.copy()
	next.Completing = true
	next.Stop = &Stop{Cause: f.GetCause(), ByUid: f.GetByUid(), AtUs: at, KillAfterS: f.GetKillAfterS(), HoldAfter: f.GetHoldAfter(), SpecialAfter: f.GetSpecialAfter(), Text: f.GetText(),
		ExitCode: f.GetExitCode(), ExitSignal: f.GetExitSignal()}
	if f.GetCause() == events.StopCause_STOP_CANCEL {
		next.WasCancelled, next.CancelledBy = true, f.GetByUid()
		if next.Recurs {
			c.disable(next)
		}
	}
	c.putJob(j, next)
	return ""
}

func (c *Cluster) signalled(f *events.Signalled) string {
	if void := c.ordered(f.GetJob(), f.GetRun(), &SignalOrder{
		Signal: f.GetSignal(), BatchOnly: f.GetBatchOnly(), Full: f.GetFull(), Step: f.GetStep(), HasStep: f.GetHasStep(),
	}); void != "" {
		return void
	}
	if f.GetHasStep() || f.GetBatchOnly() {
		return "" // the rest of the job goes on
	}
	j := c.jobs.get(f.GetJob())
	stopped := j.Stopped
	switch f.GetSignal() {
	case signalStop:
		stopped = true
	case signalContinue:
		stopped = false
	}
	if stopped != j.Stopped {
		next := j.copy()
		next.Stopped = stopped
		c.putJob(j, next)
	}
	return ""
}

// The signals after which the processes of a job stand still, and go on.
const (
	signalStop     = 19
	signalContinue = 18
)

// notified: the run is told something, in the same line of orders as signals.
func (c *Cluster) notified(f *events.Notified) string {
	if f.GetText() == "" {
		return voidNothingWanted
	}
	return c.ordered(f.GetJob(), f.GetRun(), &SignalOrder{BatchOnly: true, Text: f.GetText()})
}

// ordered puts an order at the end of those that a live run is to be given, each once.
func (c *Cluster) ordered(job, run uint32, o *SignalOrder) string {
	j, void := c.runOf(job, run)
	if void != "" {
		return void
	}
	o.Number = 1
	if n := len(j.Signals); n > 0 {
		o.Number = j.Signals[n-1].Number + 1
	}
	next := j.copy()
	next.Signals = append(slices.Clone(j.Signals[max(0, len(j.Signals)-maxSignals+1):]), o)
	c.putJob(j, next)
	return ""
}

func (c *Cluster) suspended(f *events.Suspended) string {
	j, void := c.runOf(f.GetJob(), f.GetRun())
	switch {
	case void != "":
		return void
	case j.State != events.JobState_RUNNING || j.Completing:
		return voidState
	}
	next := j.copy()
	next.State, next.SuspendedUs, next.Lent = events.JobState_SUSPENDED, c.now, true
	c.putJob(j, next)
	for _, name := range j.Unreported() {
		c.lend(name)
	}
	return ""
}

func (c *Cluster) resumed(f *events.Resumed) string {
	j, void := c.runOf(f.GetJob(), f.GetRun())
	switch {
	case void != "":
		return void
	case j.State != events.JobState_SUSPENDED:
		return voidState
	}
	next := j.copy()
	next.State, next.SuspendedUs, next.Lent, next.Stopped = events.JobState_RUNNING, 0, false, false
	next.SuspendedTotalUs += max(0, c.now-j.SuspendedUs)
	c.putJob(j, next)
	for _, name := range j.Unreported() {
		c.takeBack(name, next)
	}
	return ""
}

// ended: the job has its final state: a run that is over, a job that leaves the queue, or some tasks of an array that do.
// Nodes that have not reported keep what the run holds of them until they do; the job stays completing so long.
func (c *Cluster) ended(f *events.Ended) string {
	j := c.jobs.get(f.GetJob())
	switch {
	case j == nil:
		return voidNoJob
	case !f.GetState().Final():
		return voidEndState
	case j.Over():
		return voidState
	case f.GetRun() != j.Run && !(j.Waits() && f.GetRun() == 0):
		return voidRun
	case f.GetHasTasks():
		return c.endTasks(j, f)
	}
	c.endWhole(j, f)
	return ""
}

// endWhole ends all that a record stands for. Of an array's remainder that may be many tasks; a single one becomes itself.
func (c *Cluster) endWhole(j *Job, f *events.Ended) {
	next := j.copy()
	if task, _ := events.Words(j.Pending).First(); j.Remainder() && events.Words(j.Pending).Count() == 1 {
		next = asTask(j, task)
	}
	c.end(next, f)
	c.putJob(j, next)
	c.finished(next)
}

func (c *Cluster) endTasks(j *Job, f *events.Ended) string {
	tasks := events.Words(f.GetTasks())
	switch {
	case !j.Waits() || !c.someTasks(j, tasks):
		return voidTasks
	case !j.Remainder() || events.Words(j.Pending).Within(tasks):
		c.endWhole(j, f)
		return ""
	}
	void := ""
	tasks.And(j.Pending).Each(func(task uint32) bool {
		own := c.split(j.Id, task)
		if own == nil {
			void = voidNoIDs
			return false
		}
		c.end(own, f)
		c.putJob(nil, own)
		c.finished(own)
		return true
	})
	return void
}

// end writes an end into a copy of a job.
func (c *Cluster) end(j *Job, f *events.Ended) {
	waited := j.Waits()
	j.State, j.ExitCode, j.ExitSignal = f.GetState(), f.GetExitCode(), f.GetExitSignal()
	j.Reason, j.ReasonText, j.Stopped = f.GetReason(), "", false
	j.Completing = len(j.Unreported()) > 0
	if j.SuspendedUs != 0 {
		j.SuspendedTotalUs += max(0, c.now-j.SuspendedUs)
		j.SuspendedUs = 0
	}
	if waited {
		j.StartUs, j.EndUs = 0, 0
	}
	if j.Recurs && (waited || f.GetState() == events.JobState_CANCELLED) {
		c.disable(j)
	}
	if j.EndUs == 0 || j.Completing {
		j.EndUs = max(c.now-j.LeaptUs, j.StartUs)
	}
	if f.GetState() == events.JobState_CANCELLED {
		j.WasCancelled, j.CancelledBy = true, f.GetByUid()
	}
	if !j.Completing {
		j.FinishedUs = c.at
	}
}

// finished is what follows from a job having its final state.
func (c *Cluster) finished(j *Job) {
	c.unwatch(j)
	if !j.Completing {
		c.retire(j)
	}
	c.endedFor(j)
}

// requeued: back to the queue under the same id, after a run or after an end. Nothing of the run may be held any more.
func (c *Cluster) requeued(f *events.Requeued) string {
	j := c.jobs.get(f.GetJob())
	switch {
	case j == nil:
		return voidNoJob
	case f.GetRun() != j.Run:
		return voidRun
	case j.Waits() || j.Remainder():
		return voidState
	case len(j.Unreported()) > 0:
		return voidUnreported
	}
	next := j.copy()
	next.State, next.Completing, next.Restarts = events.JobState_PENDING, false, j.Restarts+1
	next.BeginUs, next.Hold, next.Priority, next.SpecialExit = f.GetBeginUs(), f.GetHold(), f.GetPriority(), f.GetSpecial()
	next.Reason, next.ReasonText, next.UnfitRuns = f.GetReason(), "", 0
	if n := j.UnfitNode(); n != nil {
		next.UnfitRuns = j.UnfitRuns + 1
		if f.GetReason() == events.Reason_JOB_HOLD_MAX_REQUEUE {
			next.ReasonText = fmt.Sprintf("%d launches in a row failed, the last on %s: %s", next.UnfitRuns, n.Node, n.Text)
		}
	}
	if next.Reason == events.Reason_NONE {
		next.Reason = holdReason(f.GetHold())
	}
	next.Allocation, next.Nodes, next.Stop, next.Signals, next.Steps, next.Backfilled, next.Lent = nil, nil, nil, nil, nil, false, false
	next.StartUs, next.EndUs, next.FinishedUs, next.EligibleUs = 0, 0, 0, 0
	next.ExitCode, next.ExitSignal, next.EndCause = f.GetExitCode(), 0, 0
	next.SuspendedUs, next.SuspendedTotalUs, next.WasCancelled, next.CancelledBy = 0, 0, false, 0
	next.ResizedUs, next.Stopped, next.LeaptUs = 0, false, 0
	next.Partition = firstOf(next.Spec.GetPartition())
	next.LimitS = next.Spec.GetTimeLimitS()
	if j.FinishedUs != 0 {
		c.leaving--
	}
	c.reweigh(next) // while it was over nobody told it
	c.reckon(next, c.now)
	c.putJob(j, next)
	c.watch(next)
	return ""
}
