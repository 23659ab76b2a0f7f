package cycle

import (
	"strings"
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

// A big pass is cut into messages that each stand for themselves: when a leader dies behind the second, the next one goes
// on from there.
func TestABigPassIsCutAndAPrefixStands(t *testing.T) {
	w := newWorld(t, four())
	var ids []uint32
	for range 500 {
		ids = append(ids, w.submit(1000, &events.JobSpec{Name: "big", Comment: strings.Repeat("x", 4000)}))
	}
	facts, _, _ := Run(w.c, Input{Now: w.now})
	parts := Pack(facts)
	if len(parts) < 3 {
		t.Fatalf("%d facts in %d parts", len(facts), len(parts))
	}
	n := 0
	for i, part := range parts {
		size := 0
		for _, f := range part {
			size += f.SizeVT() + 8
		}
		if size > MaxMessage {
			t.Errorf("part %d has %d bytes", i, size)
		}
		n += len(part)
	}
	if n != len(facts) {
		t.Fatalf("%d facts in parts, %d decided", n, len(facts))
	}
	for i, part := range parts[:2] {
		w.n++
		w.apply(events.SubjectSched, &events.SchedMessage{Kind: &events.SchedMessage_Cycle{Cycle: &events.Cycle{Term: []byte("term"), N: w.n, Cycle: 9, Part: uint32(i + 1), Parts: uint32(len(parts)), NowUs: w.now, Facts: part}}})
	}
	if waiting := len(w.c.Inbox()); waiting == 0 || waiting >= 500 {
		t.Fatalf("%d intents wait behind two parts", waiting)
	}
	w.pass()
	if len(w.c.Inbox()) != 0 {
		t.Fatalf("%d intents wait behind the next pass", len(w.c.Inbox()))
	}
	w.want(ids[0], "RUNNING")
	w.want(ids[499], "PENDING")
}

// The reasons have an order: what comes first here hides what comes later.
func TestReasonsHaveAnOrder(t *testing.T) {
	cfg := four()
	cfg.Partitions = append(cfg.Partitions, &events.PartitionDef{Name: "down", Nodes: "ALL", MaxTimeS: 60, MaxNodes: 1, PriorityTier: 1, State: events.PartitionState_PARTITION_DOWN_STATE},
		&events.PartitionDef{Name: "short", Nodes: "ALL", MaxTimeS: 60, MaxNodes: 1, PriorityTier: 1},
		&events.PartitionDef{Name: "lean", Nodes: "ALL", PriorityTier: 1, MaxMemPerNodeMib: 500})
	w := newWorld(t, cfg)
	blocker := w.submit(1000, &events.JobSpec{Name: "all", MinNodes: 4, MaxNodes: 4, Exclusive: events.Exclusive_EXCLUSIVE_NODE})
	bad := w.submit(1000, &events.JobSpec{Name: "bad", Hold: true})
	w.pass()
	w.intent(1000, events.Verb_CANCEL, &events.Cancel{Targets: []*events.Target{{Job: bad}}})
	w.pass()
	later := w.now + hour
	dependency := []*events.Dependency{{Kind: events.DependencyKind_AFTER_OK, Job: blocker}}
	never := []*events.Dependency{{Kind: events.DependencyKind_AFTER_OK, Job: bad}, {Kind: events.DependencyKind_AFTER_OK, Job: blocker}}
	array := &events.ArraySpec{Tasks: []uint64{6}, MaxRunning: 1}
	var ids []uint32
	specs := []struct {
		spec *events.JobSpec
		want events.Reason
	}{
		{&events.JobSpec{Hold: true, BeginUs: later, Dependencies: never, Partition: "down", TimeLimitS: 600, MinNodes: 2}, events.Reason_JOB_HELD_USER},
		{&events.JobSpec{BeginUs: later, Dependencies: never, Partition: "down", TimeLimitS: 600, MinNodes: 2}, events.Reason_DEPENDENCY_NEVER_SATISFIED},
		{&events.JobSpec{BeginUs: later, Dependencies: dependency, Partition: "down", TimeLimitS: 600, MinNodes: 2}, events.Reason_DEPENDENCY},
		{&events.JobSpec{BeginUs: later, Partition: "down", TimeLimitS: 600, MinNodes: 2}, events.Reason_BEGIN_TIME},
		{&events.JobSpec{Partition: "down", TimeLimitS: 600, MinNodes: 2}, events.Reason_PARTITION_DOWN_REASON},
		{&events.JobSpec{Partition: "short", TimeLimitS: 600, MinNodes: 2}, events.Reason_PARTITION_NODE_LIMIT},
		{&events.JobSpec{Partition: "short", TimeLimitS: 600}, events.Reason_PARTITION_TIME_LIMIT},
		{&events.JobSpec{Partition: "short", TimeLimitS: 60, MinNodes: 2}, events.Reason_PARTITION_NODE_LIMIT},
		{&events.JobSpec{Partition: "lean", MemPerNodeMib: 501}, events.Reason_MEM_PER_LIMIT},
		{&events.JobSpec{Partition: "lean", MemAll: true}, events.Reason_MEM_PER_LIMIT},
		{&events.JobSpec{Partition: "lean", MemPerCpuMib: 200, Tasks: 3, MinNodes: 1, MaxNodes: 1}, events.Reason_MEM_PER_LIMIT},
		{&events.JobSpec{Partition: "lean", MemPerCpuMib: 300, CpusPerTask: 2}, events.Reason_MEM_PER_LIMIT},
		{&events.JobSpec{Tasks: 1}, events.Reason_RESOURCES},
		{&events.JobSpec{Tasks: 1, Array: array}, events.Reason_PRIORITY},
	}
	for _, s := range specs {
		s.spec.Name = "j"
		ids = append(ids, w.submit(1000, s.spec))
	}
	w.pass()
	for i, s := range specs {
		if got := w.reason(ids[i]); got != s.want {
			t.Errorf("job %d waits for %s, want %s", i, got.Word(), s.want.Word())
		}
	}
	// With room, the array's throttle is what its rest waits for.
	w.exitAll(blocker, 0)
	w.pass()
	if got := w.reason(ids[len(ids)-1]); got != events.Reason_JOB_ARRAY_TASK_LIMIT {
		t.Errorf("the rest of the array waits for %s", got.Word())
	}
}

func TestTheNextPassIsNeverFarAway(t *testing.T) {
	w := newWorld(t, four())
	w.c.Config().Partitions[0].MaxTimeS = events.Unlimited
	w.submit(1000, &events.JobSpec{Name: "endless", TimeLimitS: events.Unlimited})
	w.pass()
	if w.last.next != 0 {
		t.Errorf("with a job that nothing ends the next pass is in %d s", (w.last.next-w.now)/second)
	}
	w.submit(1000, &events.JobSpec{Name: "someday", BeginUs: w.now + 10_000*hour})
	w.pass()
	if w.last.next != w.now+24*hour {
		t.Errorf("with a job that begins in a year the next pass is in %d s", (w.last.next-w.now)/second)
	}
}

// A job keeps a QOS that is no longer one of its association's, and waits until it is again or the job gets another.
func TestJobWithAQosThatIsNotItsAccountsWaits(t *testing.T) {
	text := func(s string) *string { return &s }
	qos := func(names ...string) *events.PolicySettings {
		return &events.PolicySettings{Qos: &events.ListChange{Replace: true, Names: names}}
	}
	cfg := four()
	cfg.AccountingEnforce = []string{"associations", "qos"}
	w := newWorld(t, cfg)
	add, account := events.PolicyDeed_POLICY_ADD, events.PolicyKind_POLICY_ASSOCIATION
	w.intent(0, events.Verb_ADMINISTER, &events.Policy{Acts: []*events.PolicyAct{
		{Deed: add, Kind: events.PolicyKind_POLICY_QOS, Names: []string{"high"}},
		{Deed: add, Kind: events.PolicyKind_POLICY_ACCOUNT, Names: []string{"phys", "bio"}},
		{Deed: add, Kind: account, Accounts: []string{"phys"}},
		{Deed: add, Kind: account, Accounts: []string{"bio"}},
		{Deed: add, Kind: events.PolicyKind_POLICY_USER, Names: []string{"u1000"}},
		{Deed: add, Kind: account, Accounts: []string{"phys"}, Names: []string{"u1000"}, Set: qos("normal", "high")},
		{Deed: add, Kind: account, Accounts: []string{"bio"}, Names: []string{"u1000"}, Set: qos("normal")},
	}})
	held := func() uint32 {
		id := w.submit(1000, &events.JobSpec{Name: "a", Account: "phys", Qos: "high"})
		w.intent(1000, events.Verb_HOLD, &events.Select{Targets: []*events.Target{{Job: id}}})
		w.pass()
		w.wantReason(id, events.Reason_JOB_HELD_USER)
		return id
	}
	change := func(id uint32, u *events.UpdateJob) {
		u.Targets = []*events.Target{{Job: id}}
		w.intent(1000, events.Verb_UPDATE_JOB, u)
	}
	for what, mend := range map[string]*events.UpdateJob{"another QOS": {Qos: text("normal")}, "the account again": {Account: text("phys")}} {
		id := held()
		change(id, &events.UpdateJob{Account: text("bio")})
		w.intent(1000, events.Verb_RELEASE, &events.Select{Targets: []*events.Target{{Job: id}}})
		w.pass()
		w.want(id, "PENDING")
		w.wantReason(id, events.Reason_INVALID_QOS_REASON)
		other := w.submit(1000, &events.JobSpec{Name: "b", Account: "bio"})
		w.pass()
		w.want(other, "RUNNING") // it hinders nobody
		change(id, mend)
		w.pass()
		if w.want(id, "RUNNING"); t.Failed() {
			t.Fatal(what)
		}
	}
	// The QOS is taken from the association under a job that waits.
	id := held()
	place := w.c.Policy().Association(cfg.Cluster, "phys", "u1000", "")
	w.intent(0, events.Verb_ADMINISTER, &events.Policy{Acts: []*events.PolicyAct{{Deed: events.PolicyDeed_POLICY_MODIFY, Kind: account, Associations: []uint32{place.GetId()}, Set: qos("normal")}}})
	w.intent(1000, events.Verb_RELEASE, &events.Select{Targets: []*events.Target{{Job: id}}})
	w.pass()
	w.wantReason(id, events.Reason_INVALID_QOS_REASON)
}
