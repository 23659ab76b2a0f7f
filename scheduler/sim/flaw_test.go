package sim

import (
	"regexp"
	"testing"

	"stint/events"
	"stint/projections"
)

// TestTheAuditorSees has worlds do one thing wrong each, and wants the auditor to say what: one that never complains proves nothing.
func TestTheAuditorSees(t *testing.T) {
	const most = 20 // histories
	for seed := uint64(1); seed <= most; seed++ {
		if _, err := play(seed, 0, flawNone, nil); err != nil {
			t.Errorf("nothing is wrong in history %d (go test ./scheduler/sim -run Story -seed %d -flaw '%s'): %v", seed, seed, flawNone, err)
		}
	}
	for _, one := range []struct {
		flaw      flaw
		complaint string
	}{
		{flawFence, `decided what is void|lost its own subject`},
		{flawLostAck, `told that it is kept is not in the log`},
		{flawNonce, `an intent counts twice`},
		{flawEarly, `told that it is kept is not in the log`},
		{flawAnswer, `its author was told`},
		{flawBegun, `started twice`},
		{flawForgets, `lives on|at once`},
		{flawCode, `which is not what happened there`},
		{flawEnd, `do not end`},
		{flawOccupied, `CPUs .* run jobs|serves jobs|jobs on .* have`},
		{flawOff, `CPUs .* run jobs|serves jobs|runs .* of job .* at once|jobs on .* have`},
		{flawSkips, `another state`},
		{flawSnapshot, `another state`},
		{flawTwice, `decided what is void`},
		{flawMemory, `without memory decides otherwise`},
		{flawFeed, `JOBS`},
		{flawFeedLost, `JOBS`},
		{flawRows, `other rows`},
		{flawUsage, `of CPU time as its nodes told`},
	} {
		t.Run(string(one.flaw), func(t *testing.T) {
			for seed := uint64(1); seed <= most; seed++ {
				_, err := play(seed, 0, one.flaw, nil)
				switch {
				case err == nil:
				case !regexp.MustCompile(one.complaint).MatchString(err.Error()):
					t.Fatalf("history %d: %v", seed, err)
				default:
					t.Logf("history %d: %.200v", seed, err)
					return
				}
			}
			t.Fatalf("%d histories, and no complaint", most)
		})
	}
}

// TestTheAuditorCountsWhatWasTaken: a job that had the choice of licences holds what it was given, not all that it named.
func TestTheAuditorCountsWhatWasTaken(t *testing.T) {
	job := &projections.Job{Spec: &events.JobSpec{Licenses: "matlab:2|ansys:1"}, LicensesAlloc: "ansys:1"}
	if got := takes(job); got != "ansys:1" {
		t.Errorf("it took %s", got)
	}
	a := newAuditor(New(Options{Seed: 1, MinDelay: Millisecond}))
	a.w.Intent(author(0), events.Verb_CONFIGURE, &events.Config{Cluster: "c", Nodes: []*events.NodeDef{{Names: "n1", Sockets: 1, CoresPerSocket: 1, ThreadsPerCore: 1, MemoryMib: 100}}, Partitions: []*events.PartitionDef{{Name: "p", Nodes: "ALL", Default: true}}, Licenses: []*events.LicenseDef{{Name: "matlab", Count: 1}, {Name: "ansys", Count: 1}}})
	a.w.Advance(Second)
	job.State = events.JobState_RUNNING
	job.Allocation = &events.Allocation{Shares: []*events.NodeShare{{Nodes: []string{"n1"}}}}
	before := &projections.Job{Id: 1, State: events.JobState_RUNNING, Spec: &events.JobSpec{Licenses: "matlab:2"}, Allocation: job.Allocation} // it ran as there were more
	a.jobs[1], a.jobs[2] = &seenJob{job: before}, &seenJob{job: job}
	if a.licences(takes(job)); a.w.err != nil {
		t.Error(a.w.err)
	}
	if a.licences(takes(before)); a.w.err == nil {
		t.Error("nobody minds a licence that is taken twice")
	}
}
