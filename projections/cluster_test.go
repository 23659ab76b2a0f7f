package projections

import (
	"fmt"
	"testing"

	"stint/events"
)

func testConfig() *events.Config {
	return &events.Config{
		Cluster: "test", MinJobAgeS: 300, SelectMemory: true, ReturnToServiceN: 1,
		Nodes: []*events.NodeDef{{Names: "n[1-4]", Cpus: 8, Sockets: 1, CoresPerSocket: 8, ThreadsPerCore: 1, MemoryMib: 16000, Virtual: true,
			Gres: []*events.GresDef{{Name: "gpu", Type: "a100", Count: 4}}}},
		Partitions: []*events.PartitionDef{{Name: "main", Nodes: "ALL", Default: true}, {Name: "small", Nodes: "n[1-2]"}},
	}
}

// One job from submission until it leaves.
func TestOneJob(t *testing.T) {
	h := newHistory(t)
	h.begin("t1")
	h.facts(&events.Fact{Kind: &events.Fact_Configured{Configured: &events.Configured{Config: testConfig()}}})
	h.node("n1", "b1", "x1", &events.NodeFact{Kind: &events.NodeFact_Up{Up: &events.NodeUp{}}})
	h.intent("alice", events.Verb_SUBMIT, 1)
	if id := h.c.Inbox()[0].FirstId; id != 1 {
		t.Fatalf("the first job is %d", id)
	}
	h.facts(&events.Fact{Kind: &events.Fact_Admitted{Admitted: &events.Admitted{
		Intent: &events.IntentRef{Seq: h.seq}, Job: 1, Priority: 10, Owner: &events.Owner{Uid: 5, User: "alice"},
		Spec: &events.JobSpec{Name: "job", Partition: "main", TimeLimitS: 60},
	}}})
	if j := h.c.Job(1); !j.Eligible(h.at) || len(h.c.Inbox()) != 0 || h.c.VerdictOf(h.seq-1, 0).GetJob() != 1 {
		t.Fatalf("admitted: %v, inbox %v", j, h.c.Inbox())
	}
	view := h.c.View()
	h.facts(&events.Fact{Kind: &events.Fact_Placed{Placed: &events.Placed{
		Job: 1, Run: 1, Partition: "main", LimitS: 60, Allocation: &events.Allocation{Shares: []*events.NodeShare{{Nodes: []string{"n1"}, Cpus: []uint64{3}, MemoryMib: 100}}},
	}}})
	h.node("n1", "b1", "x1", &events.NodeFact{Kind: &events.NodeFact_Started{Started: &events.StepStarted{Job: 1, Run: 1, Step: events.StepBatch, AtUs: h.at}}})
	if j := h.c.Job(1); j.State != events.JobState_RUNNING || h.c.Node("n1").MemoryUsedMib != 100 {
		t.Fatalf("running: %v on %v", j, h.c.Node("n1"))
	}
	h.at += 5000000
	h.node("n1", "b1", "x1", &events.NodeFact{Kind: &events.NodeFact_Exited{Exited: &events.StepExited{Job: 1, Run: 1, Step: events.StepBatch, AtUs: h.at, ExitCode: 3}}})
	if j := h.c.Job(1); !j.Completing || h.c.Node("n1").MemoryUsedMib != 0 {
		t.Fatalf("completing: %v on %v", j, h.c.Node("n1"))
	}
	h.facts(&events.Fact{Kind: &events.Fact_Ended{Ended: &events.Ended{Job: 1, Run: 1, State: events.JobState_FAILED, ExitCode: 3}}})
	if j := h.c.Job(1); j.State != events.JobState_FAILED || j.Completing || j.EndUs != h.at {
		t.Fatalf("ended: %v", j)
	}
	if j := view.Job(1); j.State != events.JobState_PENDING || view.Node("n1").MemoryUsedMib != 0 || view.Counts().Pending != 1 {
		t.Fatalf("the view moved: %v", j)
	}
	h.at += 301 * 1000000
	h.intent("alice", events.Verb_HOLD, 0)
	if j := h.c.Job(1); j != nil {
		t.Fatalf("still hot: %v", j)
	}
	if v := h.c.Voids(); len(v) != 0 {
		t.Fatalf("void: %v", v)
	}
}

// Nobody becomes another, or root, by what they write about themselves on a subject of their own.
func TestTheSecondDoorVouchesForNobody(t *testing.T) {
	h := newHistory(t)
	h.begin("t1")
	tell := func(subject, user string, uid uint32) *IntentVerdict {
		h.nonce++
		h.append(subject, &events.IntentBatch{Intents: []*events.Intent{{
			Verb: events.Verb_SUBMIT, Nonce: []byte(fmt.Sprintf("%016d", h.nonce)), Ids: 1, Author: &events.Author{User: user, Uid: uid},
		}}})
		return h.c.VerdictOf(h.seq, 0)
	}
	for _, test := range []struct {
		user string
		uid  uint32
	}{{"web", 0}, {"web", 1000}, {"root", 0}} {
		if v := tell(events.SubjectIntentUser("web"), test.user, test.uid); v.GetCode() != events.Code_ACCESS_DENIED {
			t.Errorf("web speaks as %s with uid %d: %v", test.user, test.uid, v)
		}
	}
	if v := tell(events.SubjectIntentHost("web"), "alice", 1000); v != nil || len(h.c.Inbox()) != 1 || h.c.NextID() != 2 {
		t.Errorf("a host's word for alice: %v, %d intents wait, the next id is %d", v, len(h.c.Inbox()), h.c.NextID())
	}
}
