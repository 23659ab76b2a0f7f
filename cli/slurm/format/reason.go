package format

import (
	"strings"

	"stint/cli/slurm"
	"stint/events"
)

// nodesMissing is what Slurm says of a job that would fit if nodes were not down, drained or kept for others, and that named no nodes.
const nodesMissing = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"

// reason is why the job waits, or ended as it did; text is the whole of it.
func (j Job) reason() (word, text string) {
	word, text = j.ownReason()
	if j.with != nil {
		text += j.with.reasons
	}
	return word, text
}

func (j Job) ownReason() (word, text string) {
	r, more := j.GetReason(), j.GetReasonText()
	switch {
	case r != events.Reason_NONE:
	case j.pending():
		r, more = j.Outcome.GetReason(), j.Outcome.GetText()
	case j.GetStartUs() == 0 && j.GetHold() == events.HoldKind_HELD_USER: // cancelled while it was held
		r = events.Reason_JOB_HELD_USER
	case j.GetStartUs() == 0 && j.GetHold() == events.HoldKind_HELD_ADMIN:
		r = events.Reason_JOB_HELD_ADMIN
	}
	word = r.Word()
	switch {
	case r == events.Reason_RAISED_SIGNAL && j.Context.Release < 2302: // until then no reason of its own
		word = events.Reason_JOB_LAUNCH_FAILURE.Word()
	case r == events.Reason_RAISED_SIGNAL:
		return word, word + ":" + u32(j.GetExitSignal()) + "(" + slurm.SignalText(int32(j.GetExitSignal())) + ")"
	case r == events.Reason_REQ_NODE_NOT_AVAIL && strings.HasPrefix(more, "UnavailableNodes") && j.GetSpec().GetNodeList() == "":
		return events.Reason_RESOURCES.Word(), nodesMissing
	case r == events.Reason_RESOURCES && more == events.KeptForOthers:
		return word, nodesMissing
	case (r == events.Reason_ACCOUNT_NOT_ALLOWED || r == events.Reason_QOS_NOT_ALLOWED) && more != "":
		return word, more
	case r == events.Reason_REQ_NODE_NOT_AVAIL && more != "":
		return word, word + ", " + more
	}
	return word, word
}

// shownReason says whether the reason stands in place of the nodes.
func (j Job) shownReason() bool {
	switch j.GetState() {
	case events.JobState_PENDING, events.JobState_TIMEOUT, events.JobState_OUT_OF_MEMORY, events.JobState_DEADLINE, events.JobState_FAILED:
		return !j.GetCompleting() || j.pending()
	}
	return false
}

// exit is how the job ended. Nothing is known of one whose node failed; that of one that ran into its limit is its batch script's.
func (j Job) exit() (code, signal uint32) {
	switch j.GetState() {
	case events.JobState_NODE_FAIL:
		return 0, 0
	case events.JobState_TIMEOUT:
		if runs := j.GetNodes(); len(runs) > 0 && j.GetExitCode() == 0 && j.GetExitSignal() == 0 {
			return runs[0].GetExitCode(), runs[0].GetExitSignal()
		}
	}
	return j.GetExitCode(), j.GetExitSignal()
}

// accrue is since when it gains by waiting, which is not before it may start. Where nobody is held to limits Slurm notes when it may begin, and forgets it
// with the tasks of an array.
func (j Job) accrue() int64 {
	switch {
	case j.Context.Limits || j.Context.Release > slurm.Release2205:
	case j.GetHasTask(), j.remainder() && j.split(), j.pending() && j.dependencies() != "":
		return 0
	case j.GetBeginUs() != 0:
		return j.GetBeginUs()
	}
	if j.pending() && j.GetBeginUs() > j.Context.Clock.Now.UnixMicro() {
		return 0
	}
	return j.GetAccrueUs()
}

// eligible is since when it may start. Of an array of which tasks have started it is not known: the rest is a new record.
func (j Job) eligible() int64 {
	if j.remainder() && j.split() {
		return 0
	}
	if j.pending() && j.Delayed(j.Context.Clock.Now.UnixMicro()) {
		return 0
	}
	if j.pending() && j.GetEligibleUs() == 0 {
		return j.GetBeginUs() // held, it may not begin before that either
	}
	return j.GetEligibleUs()
}

// evaluated is when it was last looked at: no later than it was placed, and at first when it was submitted.
func (j Job) evaluated() int64 {
	if n := j.GetPlacedUs(); n != 0 {
		return n
	}
	return j.GetSubmitUs()
}
