package cycle

import (
	"testing"

	"stint/events"
)

func TestOneJobFromSubmissionToEnd(t *testing.T) {
	w := newWorld(t, four())
	id := w.submit(1000, &events.JobSpec{Name: "a", CpusPerTask: 2})
	w.pass()
	w.want(id, "RUNNING")
	j := w.c.Job(id)
	share := j.Allocation.Shares[0]
	if got := events.Words(share.Cpus).String(); share.Nodes[0] != "n1" || got != "0-1" || share.MemoryMib != 200 || j.LimitS != 3600 {
		t.Fatalf("placed on %v cpus %s memory %d limit %d", share.Nodes, got, share.MemoryMib, j.LimitS)
	}
	if w.last.next != w.now+hour {
		t.Fatalf("next pass in %d s, want at the time limit", (w.last.next-w.now)/second)
	}
	w.now += 10 * second
	w.exitAll(id, 3)
	w.pass()
	w.want(id, "FAILED")
	if j := w.c.Job(id); j.ExitCode != 3 || j.Reason != events.Reason_NON_ZERO_EXIT_CODE {
		t.Fatalf("ended with %d, %s", j.ExitCode, j.Reason)
	}
	w.pass()
	if len(w.last.facts) != 0 {
		t.Fatalf("a pass with nothing to do decided %v", w.last.facts)
	}
}

func TestJobOnTwoNodesIsLaidOutUnevenly(t *testing.T) {
	w := newWorld(t, four())
	id := w.submit(1000, &events.JobSpec{Name: "a", MinNodes: 2, MaxNodes: 2, Tasks: 4, CpusPerTask: 2})
	w.pass()
	w.want(id, "RUNNING")
	a := w.c.Job(id).Allocation
	if len(a.Shares) != 2 || a.Shares[0].Tasks != 3 || a.Shares[1].Tasks != 1 || events.Words(a.Shares[0].Cpus).Count() != 6 {
		t.Fatalf("laid out as %v", a)
	}
}

func TestControlOfAJobSubmittedInTheSamePass(t *testing.T) {
	w := newWorld(t, four())
	held := w.submit(1000, &events.JobSpec{Name: "held"})
	w.intent(1000, events.Verb_HOLD, &events.Select{Targets: []*events.Target{{Job: held}}})
	gone := w.submit(1000, &events.JobSpec{Name: "gone"})
	w.intent(1000, events.Verb_CANCEL, &events.Cancel{Targets: []*events.Target{{Job: gone}}})
	w.pass()
	w.want(held, "PENDING")
	w.wantReason(held, events.Reason_JOB_HELD_USER)
	w.want(gone, "CANCELLED")
	w.intent(1000, events.Verb_RELEASE, &events.Select{Targets: []*events.Target{{Job: held}}})
	w.pass()
	w.want(held, "RUNNING")
}

func TestTimeLimitEndsAJob(t *testing.T) {
	w := newWorld(t, four())
	id := w.submit(1000, &events.JobSpec{Name: "a", TimeLimitS: 60})
	w.pass()
	w.now = w.last.next
	w.pass()
	j := w.c.Job(id)
	if j.Stop.GetCause() != events.StopCause_STOP_TIME_LIMIT || j.Stop.GetKillAfterS() != 30 {
		t.Fatalf("at its limit: stop %v", j.Stop)
	}
	w.exit("n1", id, 0, 15, events.EndCause_STOPPED)
	w.pass()
	w.want(id, "TIMEOUT")
	if j := w.c.Job(id); j.ExitSignal != 0 || j.ExitCode != 0 {
		t.Fatalf("a job that timed out has exit %d:%d", j.ExitCode, j.ExitSignal)
	}
}

func TestLostNodeSendsItsJobsBack(t *testing.T) {
	w := newWorld(t, four())
	id := w.submit(1000, &events.JobSpec{Name: "a", MinNodes: 2, MaxNodes: 2})
	never := w.submit(1000, &events.JobSpec{Name: "b", Requeue: events.Choice_CHOICE_NO})
	w.pass()
	w.passWith(&events.Observed{SilentNodes: []string{"n1"}})
	w.want(never, "NODE_FAIL")
	w.want(id, "RUNNING")
	w.exit("n2", id, 0, 15, events.EndCause_STOPPED)
	w.pass()
	w.want(id, "PENDING")
	w.wantReason(id, events.Reason_BEGIN_TIME)
	w.now = w.last.next
	w.pass()
	w.want(id, "RUNNING")
	if j := w.c.Job(id); j.Run != 2 || j.Restarts != 1 || j.Allocation.FirstNode() != "n2" {
		t.Fatalf("run %d restarts %d on %s", j.Run, j.Restarts, j.Allocation.FirstNode())
	}
}
