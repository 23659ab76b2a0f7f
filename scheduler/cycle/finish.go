package cycle

import (
	"slices"

	"stint/events"
	"stint/projections"
	"stint/scheduler/admit"
)

// finish ends the runs that all their nodes have reported on.
func (p *pass) finish() {
	var over []*projections.Job
	p.c.EachCompleting(func(j *projections.Job) bool {
		if j.Live() && len(j.Unreported()) == 0 {
			over = append(over, j)
		}
		return true
	})
	for _, j := range over {
		if j.Stop == nil && lostNode(j) == "" && j.UnfitNode() != nil && j.GetSpec().GetRequeue() == events.Choice_CHOICE_YES {
			r := p.startAgain(j)
			p.say(&events.Fact{Kind: &events.Fact_Requeued{Requeued: r}})
			p.restOf(j, r)
			continue
		}
		if hold, back := p.requeues(j); back {
			at := j.EndUs
			if j.Stop != nil {
				at = j.Stop.AtUs
			}
			r := admit.Requeued(j, at, hold, p.now)
			r.Special, r.ByUid = j.Stop.GetSpecialAfter(), j.Stop.GetByUid()
			p.byExit(j, r, hold)
			if next := p.nextOf(j); next != 0 && !hold {
				r.BeginUs, r.Reason = next, events.Reason_BEGIN_TIME
			}
			p.say(&events.Fact{Kind: &events.Fact_Requeued{Requeued: r}})
			p.restOf(j, r)
			continue
		}
		p.say(&events.Fact{Kind: &events.Fact_Ended{Ended: EndOf(j)}})
	}
}

// requeues says whether a run that is over sends its job back into the queue, and whether it is held there.
func (p *pass) requeues(j *projections.Job) (hold, back bool) {
	if leader := p.leaderOf(j); j.HetOffset > 0 && leader != nil && leader.Waits() && leader.Run >= j.Run {
		return leader.Hold != events.HoldKind_NOT_HELD, true // the first went back before this one, for whatever reason, was over
	}
	switch {
	case j.Stop != nil && j.Stop.Cause == events.StopCause_STOP_REQUEUE:
		return j.Stop.HoldAfter, true
	case j.Stop != nil && j.Stop.Cause != events.StopCause_STOP_NODE_LOST:
		return false, false
	case j.Stop != nil || lostNode(j) != "":
		return false, p.leaderOf(j).GetSpec().GetRequeue() == events.Choice_CHOICE_YES
	}
	switch e := EndOf(j); {
	case e.State != events.JobState_COMPLETED && e.Reason != events.Reason_NON_ZERO_EXIT_CODE, j.Spec.GetInteractive(), j.HetOffset > 0, j.Recurs:
		return false, false // what recurs goes back anyway
	case slices.Contains(p.c.Config().GetRequeueExit(), e.ExitCode):
		return false, true
	default:
		hold = slices.Contains(p.c.Config().GetRequeueExitHold(), e.ExitCode)
		return hold, hold
	}
}

// byExit completes r where the exit code of the run of j is what puts it back: the code stays to be seen, and who is held
// is held as a special exit, by its user. A component goes back as the first one of its job did.
func (p *pass) byExit(j *projections.Job, r *events.Requeued, hold bool) {
	if leader := p.leaderOf(j); j.HetOffset > 0 && leader != nil && leader.Waits() {
		r.Special = r.Special || leader.SpecialExit
		if hold && leader.Reason == events.Reason_JOB_HELD_USER {
			r.Reason = events.Reason_NONE // that of the hold
		}
		return
	}
	if j.Stop != nil || lostNode(j) != "" {
		return
	}
	r.ExitCode = EndOf(j).ExitCode
	if hold {
		r.Special, r.Reason = true, events.Reason_NONE // that of the hold
	}
}

// EndOf is the end of a run that all its nodes have reported on. Why it was told to stop counts before how it ended; the
// first node speaks for the job, another one only if something went wrong there.
func EndOf(j *projections.Job) *events.Ended {
	e := &events.Ended{Job: j.Id, Run: j.Run, ByUid: j.GetStop().GetByUid()}
	first := j.FirstRun()
	if first == nil {
		first = &projections.RunNode{}
	}
	e.ExitCode, e.ExitSignal = first.ExitCode, first.ExitSignal
	if j.Stop != nil {
		switch j.Stop.Cause {
		case events.StopCause_STOP_TIME_LIMIT:
			timeout(e)
		case events.StopCause_STOP_COMPLETE:
			e.ExitCode, e.ExitSignal = j.Stop.ExitCode, j.Stop.ExitSignal
			if byStatus(e); e.ExitSignal == events.SignalOOM && j.GetSpec().GetInteractive() { // as who holds it was told of its tasks
				e.State, e.Reason, e.ExitCode = events.JobState_OUT_OF_MEMORY, events.Reason_OUT_OF_MEMORY_REASON, 0
			}
		case events.StopCause_STOP_NODE_LOST:
			e.State, e.Reason = events.JobState_NODE_FAIL, events.Reason_NODE_DOWN_REASON
		case events.StopCause_STOP_PREEMPT:
			e.State = events.JobState_PREEMPTED
		case events.StopCause_STOP_DEADLINE:
			e.State, e.Reason = events.JobState_DEADLINE, events.Reason_DEADLINE_REASON
		default:
			e.State = events.JobState_CANCELLED
		}
		return e
	}
	cause, node := first.Cause, first
	if cause == events.EndCause_EXITED || cause == events.EndCause_STOPPED {
		for _, n := range j.Nodes[min(1, len(j.Nodes)):] {
			switch n.Cause {
			case events.EndCause_OOM_KILLED, events.EndCause_LAUNCH_FAILED, events.EndCause_NODE_REBOOTED, events.EndCause_NODE_WAS_LOST,
				events.EndCause_NODE_UNFIT, events.EndCause_STATUS_UNSEEN, events.EndCause_LIMIT_PASSED:
				cause, node = n.Cause, n
			}
			if node == n {
				break
			}
		}
	}
	switch cause {
	case events.EndCause_LAUNCH_FAILED:
		e.State, e.Reason, e.ExitCode, e.ExitSignal = events.JobState_FAILED, events.Reason_JOB_LAUNCH_FAILURE, node.ExitCode, node.ExitSignal
	case events.EndCause_NODE_UNFIT:
		e.State, e.Reason, e.ExitCode, e.ExitSignal = events.JobState_NODE_FAIL, events.Reason_JOB_LAUNCH_FAILURE, node.ExitCode, node.ExitSignal
	case events.EndCause_OOM_KILLED:
		e.State, e.Reason, e.ExitCode, e.ExitSignal = events.JobState_OUT_OF_MEMORY, events.Reason_OUT_OF_MEMORY_REASON, 0, events.SignalOOM
	case events.EndCause_LIMIT_PASSED:
		timeout(e)
	case events.EndCause_STATUS_UNSEEN:
		e.State, e.Reason = events.JobState_FAILED, events.Reason_STATUS_LOST
	case events.EndCause_NODE_REBOOTED, events.EndCause_NODE_WAS_LOST:
		e.State, e.Reason = events.JobState_NODE_FAIL, events.Reason_NODE_DOWN_REASON
	default:
		byStatus(e)
	}
	return e
}

// byStatus is the state of a job that ended by itself with the status of e.
func byStatus(e *events.Ended) {
	switch {
	case e.ExitSignal != 0:
		e.State, e.Reason = events.JobState_FAILED, events.Reason_RAISED_SIGNAL
	case e.ExitCode != 0:
		e.State, e.Reason = events.JobState_FAILED, events.Reason_NON_ZERO_EXIT_CODE
	default:
		e.State = events.JobState_COMPLETED
	}
}

// timeout is the end of a job that ran into its time limit: its own exit status is that of nothing in particular.
func timeout(e *events.Ended) {
	e.State, e.Reason, e.ExitCode, e.ExitSignal = events.JobState_TIMEOUT, events.Reason_TIME_LIMIT, 0, 0
}
