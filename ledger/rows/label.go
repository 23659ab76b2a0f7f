// Package rows is the form of the ledger's rows and questions, for those who ask and for those who print.
package rows

import (
	"strconv"

	"stint/events"
	"stint/events/idset"
)

// View is the view that a ledger answers: questions are asked on events.SubjectAsk(View).
const View = "account"

// Label is a record as people name its job: 17, 81_5, 81_[6-9%2], 100+1.
func Label(r *JobRow) string { return LabelCut(r, 0) }

// LabelCut is Label with the list of tasks cut to at most limit bytes (0: whole).
func LabelCut(r *JobRow, limit int) string {
	switch {
	case r.ArrayId != 0 && r.HasTask:
		return number(r.ArrayId) + "_" + number(r.ArrayTask)
	case r.ArrayId != 0:
		tasks := events.Words(r.Tasks)
		if first, ok := tasks.First(); ok && r.Rest && tasks.Count() == 1 {
			return number(r.ArrayId) + "_" + number(first)
		}
		var set idset.Set
		tasks.Range(func(from, to uint32) bool {
			set.AddRange(int(from), int(to), 1)
			return true
		})
		return number(r.ArrayId) + "_[" + idset.FormatArray(set, int(r.ArrayMaxRunning), limit) + "]"
	case r.HetId != 0:
		return number(r.HetId) + "+" + number(r.HetOffset)
	}
	return number(r.Job)
}

// Waited is why a job waits, or did, as accounting tells it: that it was held is kept only as long as it is.
func Waited(r *JobRow) events.Reason {
	if r.GetState() == events.JobState_PENDING {
		return r.GetWaitReason()
	}
	switch r.GetWaitReason() {
	case events.Reason_JOB_HELD_USER, events.Reason_JOB_HELD_ADMIN, events.Reason_JOB_REQUEUED_HELD:
		return events.Reason_NONE
	}
	return r.GetWaitReason()
}

// RawLabel is a record's raw job id.
func RawLabel(r *JobRow) string { return number(r.Job) }

func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
