package cycle

import (
	"strings"
	"testing"

	"stint/events"
	"stint/projections"
)

// broken is a world whose placement fails on all jobs of 3 CPUs a task: the memory of what they ask for is spoilt behind the
// back of the pass, each time it has been made, so that the arithmetic of placing divides by zero.
func broken(t *testing.T) *world {
	w := newWorld(t, four())
	w.mem = NewMemory()
	w.order = func(j *projections.Job, _ int64) uint32 {
		if j.Spec.GetCpusPerTask() == 3 {
			q, _ := w.mem.shapes.Of(j.Spec)
			q.CPUsPerTask = 0
		}
		return j.Priority
	}
	return w
}

func TestAJobThatPlacingFailsOnIsHeldAndTheOthersStart(t *testing.T) {
	w := broken(t)
	first := w.submit(1000, &events.JobSpec{Name: "first"})
	bad := w.submit(1000, &events.JobSpec{Name: "bad", CpusPerTask: 3})
	same := w.submit(1001, &events.JobSpec{Name: "same", CpusPerTask: 3})
	array := w.submit(1000, &events.JobSpec{Name: "array", CpusPerTask: 3, Array: &events.ArraySpec{Tasks: []uint64{6}}})
	last := w.submit(1000, &events.JobSpec{Name: "last", CpusPerTask: 2})
	w.pass()
	w.want(first, "RUNNING")
	w.want(last, "RUNNING")
	for _, id := range []uint32{bad, same, array} {
		w.want(id, "PENDING")
		w.wantReason(id, events.Reason_SYSTEM_FAILURE)
		if j := w.c.Job(id); j.Hold != events.HoldKind_HELD_ADMIN || !strings.Contains(j.ReasonText, "the scheduler failed on it: runtime error: integer divide by zero") {
			t.Errorf("job %d: held %v, %q", id, j.Hold, j.ReasonText)
		}
	}
	w.pass()
	if len(w.last.facts) != 0 {
		t.Errorf("a pass with nothing to do decided %v", w.last.facts)
	}
	w.wantReason(bad, events.Reason_SYSTEM_FAILURE)

	// Its owner cannot let it loose again, an administrator can; as long as nothing is mended it is held again.
	w.intent(1000, events.Verb_RELEASE, &events.Select{Targets: []*events.Target{{Job: bad}}})
	w.pass()
	w.wantReason(bad, events.Reason_SYSTEM_FAILURE)
	w.intent(0, events.Verb_RELEASE, &events.Select{Targets: []*events.Target{{Job: bad}}})
	w.pass()
	w.wantReason(bad, events.Reason_SYSTEM_FAILURE)
	w.order = nil
	w.mem = nil
	w.intent(0, events.Verb_RELEASE, &events.Select{Targets: []*events.Target{{Job: bad}, {Job: array}}})
	w.pass()
	w.want(bad, "RUNNING")
	w.wantReason(same, events.Reason_SYSTEM_FAILURE)
}

// What fails for the memory's sake alone is made again with a new one, and nobody is held.
func TestAPassThatAnOldMemorySpoilsIsMadeAgain(t *testing.T) {
	w := newWorld(t, four())
	w.mem = NewMemory()
	spec := &events.JobSpec{Name: "a", CpusPerTask: 3}
	blocker := w.submit(1000, &events.JobSpec{Name: "all", MinNodes: 4, MaxNodes: 4, Exclusive: events.Exclusive_EXCLUSIVE_NODE})
	id := w.submit(1000, spec)
	w.pass()
	q, _ := w.mem.shapes.Of(w.c.Job(id).Spec)
	q.CPUsPerTask = 0
	w.exitAll(blocker, 0)
	w.pass()
	w.want(id, "RUNNING")
}

// Before a job can be placed its place in the queue is found: that may fail too.
func TestAJobThatRankingFailsOnIsHeld(t *testing.T) {
	w := newWorld(t, four())
	w.order = func(j *projections.Job, _ int64) uint32 {
		if j.Spec.GetName() == "bad" {
			panic("no\n  priority")
		}
		return j.Priority
	}
	bad := w.submit(1000, &events.JobSpec{Name: "bad"})
	good := w.submit(1000, &events.JobSpec{Name: "good"})
	told := 0
	facts, _, _ := Run(w.c, Input{Now: w.now, Priority: w.order, Failed: func(job uint32, panicked any) {
		told++
		if job != bad || panicked != "no\n  priority" {
			t.Errorf("told of job %d: %v", job, panicked)
		}
	}})
	if told == 0 || len(facts) == 0 {
		t.Errorf("told %d times, %d facts", told, len(facts))
	}
	w.pass()
	w.want(good, "RUNNING") // of the same shape, which is not to blame
	w.wantReason(bad, events.Reason_SYSTEM_FAILURE)
	if text := w.c.Job(bad).ReasonText; text != "the scheduler failed on it: no priority" {
		t.Errorf("%q", text)
	}
}

// When everything fails it is not the jobs: the pass does, and nobody is held.
func TestAPassThatFailsOnEveryRequestFails(t *testing.T) {
	w := newWorld(t, four())
	w.order = func(*projections.Job, int64) uint32 { panic("nothing works") }
	for range maxBroken + 1 {
		w.submit(1000, &events.JobSpec{Name: "a"})
	}
	defer func() {
		if recover() == nil {
			t.Error("the pass went well")
		}
	}()
	w.pass()
}
