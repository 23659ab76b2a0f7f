package story

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"stint/events"
	"stint/events/schema"
	"stint/projections"
)

type people struct{}

func (people) Label(job uint32) string {
	if job == 9 {
		return "7_2"
	}
	return fmt.Sprint(job)
}

func (people) User(uid uint32) string { return map[uint32]string{0: "root", 2001: "alice"}[uid] }

func body(t *testing.T, m interface{ MarshalVT() ([]byte, error) }) []byte {
	t.Helper()
	b, err := m.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// messages are one of each thing that a log can say.
func messages(t *testing.T) []*events.Event {
	alice := &events.Author{Uid: 2001, User: "alice", Host: "login1"}
	intent := func(v events.Verb, m interface{ MarshalVT() ([]byte, error) }) *events.Intent {
		return &events.Intent{Verb: v, Author: alice, Nonce: []byte("0123456789abcdef"), Body: body(t, m)}
	}
	name, limit := "other", uint32(7200)
	target := []*events.Target{{Job: 7}}
	policy := &events.Policy{Acts: []*events.PolicyAct{
		{Deed: events.PolicyDeed_POLICY_ADD, Kind: events.PolicyKind_POLICY_ASSOCIATION, Names: []string{"bob"}, Accounts: []string{"physics"}, Set: &events.PolicySettings{
			Limits: []*events.LimitChange{{Limit: events.Limit_SHARES, Value: 5}, {Limit: events.Limit_GRP_TRES, Tres: []*events.TresCount{{Tres: "cpu", Count: 4}, {Tres: "node", Clear: true}}}, {Limit: events.Limit_MAX_JOBS, Clear: true}},
			Qos:    &events.ListChange{Add: []string{"high"}}, DefaultQos: &name}},
		{Deed: events.PolicyDeed_POLICY_DELETE, Kind: events.PolicyKind_POLICY_QOS, Names: []string{"low"}},
		{},
	}}
	batch := &events.IntentBatch{Intents: []*events.Intent{
		intent(events.Verb_SUBMIT, &events.Submit{Components: []*events.JobSpec{{Name: "train\nme", Partition: "gpu", MinNodes: 2, Tasks: 4, CpusPerTask: 2, MemPerCpuMib: 512, TimeLimitS: 90061,
			Gres: []*events.Gres{{Name: "gpu", Type: "a100", Count: 2}}, Array: &events.ArraySpec{Tasks: events.WordsOf(1, 2, 3), MaxRunning: 2}, DependencyText: "afterok:3"}}}),
		intent(events.Verb_CANCEL, &events.Cancel{Targets: []*events.Target{{Job: 7, Tasks: events.WordsOf(2), HasTasks: true}, {Job: 8, Step: events.StepBatch, HasStep: true}}}),
		intent(events.Verb_CANCEL, &events.Cancel{Signal: 10, Filter: &events.Filter{Users: []string{"alice"}, States: []events.JobState{events.JobState_PENDING}, Nodes: "n[1-2]"}}),
		intent(events.Verb_HOLD, &events.Select{Targets: target}),
		intent(events.Verb_RELEASE, &events.Select{Targets: target}),
		intent(events.Verb_REQUEUE, &events.Requeue{Targets: target, Hold: true}),
		intent(events.Verb_UPDATE_JOB, &events.UpdateJob{Targets: target, Name: &name, TimeLimitS: &limit}),
		intent(events.Verb_UPDATE_NODE, &events.UpdateNode{Nodes: "n1", Order: events.NodeOrder_NODE_DRAIN, Reason: &name}),
		intent(events.Verb_CONFIGURE, &events.Config{}),
		intent(events.Verb_ADMINISTER, policy),
		intent(events.Verb_CRONTAB, &events.Crontab{Text: "@daily secret\n", Entries: []*events.JobSpec{{Name: "secret"}}}),
		intent(events.Verb_CRONTAB, &events.Crontab{Remove: true, Owner: &events.Author{Uid: 7, User: "bob"}}),
		intent(events.Verb_SET_TRIGGER, &events.Trigger{Program: "/bin/true a"}),
		intent(events.Verb_CLEAR_TRIGGERS, &events.ClearTriggers{Id: 3}),
		{Verb: events.Verb_SUBMIT, Author: alice, Body: []byte{0xff}},
		{Verb: 99, Author: &events.Author{Uid: 0}},
	}}
	ref := &events.IntentRef{Seq: 5}
	allocation := &events.Allocation{Shares: []*events.NodeShare{{Nodes: []string{"n1", "n2"}, Cpus: []uint64{0xf}, MemoryMib: 2048, Gres: []*events.GresShare{{Name: "gpu", Type: "a100", Ids: []uint64{3}}}}}}
	facts := []*events.Fact{
		{Kind: &events.Fact_Admitted{Admitted: &events.Admitted{Intent: ref, Job: 7, Spec: &events.JobSpec{Partition: "gpu", Array: &events.ArraySpec{Tasks: events.WordsOf(1, 2, 3)}}, Owner: &events.Owner{User: "alice"}, Priority: 12, Hold: events.HoldKind_HELD_USER}}},
		{Kind: &events.Fact_Judged{Judged: &events.Judged{Intent: ref, Code: events.Code_INVALID_PARTITION, Text: "there is no partition gpux"}}},
		{Kind: &events.Fact_Judged{Judged: &events.Judged{Intent: ref, Touched: 1, Verdicts: []*events.Verdict{{Job: 9, Code: events.Code_ACCESS_DENIED, Text: "not yours"}, {Name: "n9", Code: events.Code_INVALID_NODE}}}}},
		{Kind: &events.Fact_Judged{Judged: &events.Judged{Intent: ref, Code: events.Code_ACCESS_DENIED, Verdicts: []*events.Verdict{{Job: 9, Code: events.Code_ACCESS_DENIED, Text: "only an administrator may suspend and resume jobs"}}}}},
		{Kind: &events.Fact_PlacedTogether{PlacedTogether: &events.PlacedTogether{Parts: []*events.Placed{
			{Job: 7, Run: 1, Allocation: allocation, LimitS: 60, Partition: "gpu"}, {Job: 8, Run: 1, Allocation: allocation, LimitS: 60, Partition: "cpu"},
		}}}},
		{Kind: &events.Fact_Placed{Placed: &events.Placed{Job: 7, Task: 2, HasTask: true, Run: 1, Allocation: allocation, LimitS: events.Unlimited, Backfilled: true, Partition: "gpu"}}},
		{Kind: &events.Fact_Stopping{Stopping: &events.Stopping{Job: 9, Run: 1, Cause: events.StopCause_STOP_CANCEL, ByUid: 2001, KillAfterS: 30}}},
		{Kind: &events.Fact_Stopping{Stopping: &events.Stopping{Job: 9, Run: 1, Cause: events.StopCause_STOP_TIME_LIMIT, KillAfterS: 30, Text: "limit of 60 s"}}},
		{Kind: &events.Fact_Ended{Ended: &events.Ended{Job: 9, Run: 1, State: events.JobState_FAILED, ExitCode: 2, Reason: events.Reason_NON_ZERO_EXIT_CODE}}},
		{Kind: &events.Fact_Ended{Ended: &events.Ended{Job: 7, State: events.JobState_CANCELLED, ByUid: 2001, Tasks: events.WordsOf(1, 3), HasTasks: true}}},
		{Kind: &events.Fact_Held{Held: &events.Held{Job: 7, Kind: events.HoldKind_HELD_ADMIN}}},
		{Kind: &events.Fact_Released{Released: &events.Released{Job: 7, Priority: 5}}},
		{Kind: &events.Fact_Updated{Updated: &events.Updated{Job: 7, ByUid: 2001, Change: &events.UpdateJob{Name: &name}}}},
		{Kind: &events.Fact_Requeued{Requeued: &events.Requeued{Job: 9, Run: 1, BeginUs: 1796000121000000, Reason: events.Reason_BEGIN_TIME}}},
		{Kind: &events.Fact_Requeued{Requeued: &events.Requeued{Job: 9, Run: 2, Hold: events.HoldKind_HELD_ADMIN, Reason: events.Reason_JOB_HOLD_MAX_REQUEUE}}},
		{Kind: &events.Fact_Held{Held: &events.Held{Job: 7, Kind: events.HoldKind_HELD_ADMIN, Reason: events.Reason_SYSTEM_FAILURE, Text: "the scheduler failed on it: no priority"}}},
		{Kind: &events.Fact_Signalled{Signalled: &events.Signalled{Job: 9, Run: 1, Signal: 10, ByUid: 2001}}},
		{Kind: &events.Fact_Suspended{Suspended: &events.Suspended{Job: 9, Run: 1}}},
		{Kind: &events.Fact_Resumed{Resumed: &events.Resumed{Job: 9, Run: 1}}},
		{Kind: &events.Fact_NodeChanged{NodeChanged: &events.NodeChanged{Node: "n1", Order: events.NodeOrder_NODE_DRAIN, Reason: "disk", ByUid: 0}}},
		{Kind: &events.Fact_NodeChanged{NodeChanged: &events.NodeChanged{Node: "n1", Order: events.NodeOrder_NODE_DRAIN, Reason: "spool: no space left on device", Own: true}}},
		{Kind: &events.Fact_NodeLost{NodeLost: &events.NodeLost{Node: "n1", Reason: "silent for 300 s"}}},
		{Kind: &events.Fact_NodeReturned{NodeReturned: &events.NodeReturned{Node: "n1"}}},
		{Kind: &events.Fact_Administered{Administered: &events.Administered{Intent: ref, Policy: policy, By: "root"}}},
		{Kind: &events.Fact_PartitionChanged{PartitionChanged: &events.PartitionChanged{Act: events.PartitionAct_PARTITION_CHANGE, Partition: &events.PartitionDef{Name: "debug"}}}},
		{Kind: &events.Fact_Notified{Notified: &events.Notified{Job: 7, Run: 1, Text: "soon"}}},
		{Kind: &events.Fact_StepLimited{StepLimited: &events.StepLimited{Job: 9, Run: 1, Step: 0, LimitS: 300}}},
		{Kind: &events.Fact_ConfigSet{ConfigSet: &events.ConfigSet{Settings: []*events.Setting{{Key: "SlurmctldDebug", Value: "debug"}}}}},
		{Kind: &events.Fact_Configured{Configured: &events.Configured{Config: &events.Config{Cluster: "hpc", Nodes: []*events.NodeDef{{}}, Partitions: []*events.PartitionDef{{}, {}}}}}},
		{Kind: &events.Fact_CrontabSet{CrontabSet: &events.CrontabSet{Intent: ref, Uid: 2001, User: "alice", Text: "@daily secret\n", Jobs: []uint32{11, 12}, ByUid: 2001}}},
		{Kind: &events.Fact_CrontabSet{CrontabSet: &events.CrontabSet{Intent: ref, Uid: 2001, User: "alice", Removed: true}}},
		{Kind: &events.Fact_ZoneSet{ZoneSet: &events.ZoneSet{Zone: &events.Zone{OffsetS: 3600, Shifts: []*events.ZoneShift{{}}}}}},
		{Kind: &events.Fact_TriggerSet{TriggerSet: &events.TriggerSet{Intent: ref, Trigger: &events.Trigger{Id: 3, Program: "/bin/true a", Owner: &events.Owner{User: "alice"}}}}},
		{Kind: &events.Fact_TriggersCleared{TriggersCleared: &events.TriggersCleared{Intent: ref, Ids: []uint32{3}, ByUid: 2001}}},
		{Kind: &events.Fact_TriggersCleared{TriggersCleared: &events.TriggersCleared{Ids: []uint32{3, 4}}}},
		{Kind: &events.Fact_TriggerPulled{TriggerPulled: &events.TriggerPulled{Id: 3, Argument: "n[1-2]"}}},
		{Kind: &events.Fact_ClockSet{ClockSet: &events.ClockSet{ByUs: 3_600_000_000}}},
		{},
	}
	node := []*events.NodeFact{
		{Kind: &events.NodeFact_Up{Up: &events.NodeUp{Inventory: &events.Inventory{Cpus: 8, MemoryMib: 16000, Devices: []*events.Device{{}, {}}}, Runs: []*events.RunRef{{}}}}},
		{Kind: &events.NodeFact_Started{Started: &events.StepStarted{Job: 9, Run: 1, Step: events.StepBatch, AtUs: 1796000005000000}}},
		{Kind: &events.NodeFact_Exited{Exited: &events.StepExited{Job: 9, Run: 1, Step: 0, AtUs: 1796000009000000, StartedUs: 1796000005000000, ElapsedUs: 4000000, ExitSignal: 9, Cause: events.EndCause_OOM_KILLED,
			Usage: &events.Usage{UserUs: 1500000, SystemUs: 500000, MaxRssKib: 20424}}}},
		{Kind: &events.NodeFact_Exited{Exited: &events.StepExited{Job: 9, Run: 1, Step: events.StepBatch, Cause: events.EndCause_LAUNCH_FAILED, Text: "chdir /nowhere: no such file"}}},
		{Kind: &events.NodeFact_Exited{Exited: &events.StepExited{Job: 9, Run: 2, Step: events.StepBatch, Cause: events.EndCause_NODE_UNFIT, Text: "spool: no space left on device"}}},
		{Kind: &events.NodeFact_Ailing{Ailing: &events.DeviceAiling{Device: "gpu0", Text: "Xid 79", Fatal: true}}},
		{},
	}
	sched := func(m *events.SchedMessage) []byte { return body(t, m) }
	var out []*events.Event
	for i, m := range []struct {
		subject string
		data    []byte
	}{
		{events.SubjectIntentHost("login1"), body(t, batch)},
		{events.SubjectSched, sched(&events.SchedMessage{Kind: &events.SchedMessage_Term{Term: &events.Term{Nonce: []byte("x"), Controller: "c1", Build: "0.1.0", Rules: 1, Decider: 1, NowUs: 1796000001000000}}})},
		{events.SubjectSched, sched(&events.SchedMessage{Kind: &events.SchedMessage_Cycle{Cycle: &events.Cycle{NowUs: 1796000002000000, Facts: facts}}})},
		{events.SubjectNode("n1"), body(t, &events.NodeMessage{Boot: "b1", NowUs: 1796000010000000, Facts: node})},
		{events.SubjectShare, body(t, &events.ShareMessage{AsOf: 4, Factors: []*events.ShareFactor{{}}})},
		{events.SubjectSched, []byte{0xff}},
		{"ev.nothing", nil},
	} {
		e := events.Decode(uint64(i+10), 1796000000000000, m.subject, m.data)
		out = append(out, &e)
	}
	return out
}

// The words of everything that can happen are in testdata/story.txt; REWRITE=1 writes it again.
func TestStory(t *testing.T) {
	var b strings.Builder
	for _, e := range messages(t) {
		for _, l := range Tell(e, people{}) {
			text := Text(l)
			if strings.ContainsAny(text, "\n\x1b") {
				t.Errorf("more than a line: %q", text)
			}
			fmt.Fprintln(&b, text)
			l.Raw = Raw(e, l, projections.Sight{}.Spec)
			var got map[string]any
			if err := json.Unmarshal(JSON(l), &got); err != nil || got["kind"] != l.Kind || got["what"] != l.What {
				t.Errorf("JSON of %q: %v, %s", text, err, JSON(l))
			}
			if e.Void == "" && l.Kind != "unknown" && got["fact"] == nil {
				t.Errorf("no fact behind %q", text)
			}
		}
	}
	const file = "testdata/story.txt"
	if os.Getenv("REWRITE") != "" {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, lines := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
	for i := 0; i < max(len(got), len(lines)); i++ {
		var g, w string
		if i < len(got) {
			g = got[i]
		}
		if i < len(lines) {
			w = lines[i]
		}
		if g != w {
			t.Errorf("line %d\n got %s\nwant %s", i+1, g, w)
		}
	}
}

// Every kind of fact has words: a kind that is added to the schema and not here fails.
func TestEveryKindIsTold(t *testing.T) {
	told := map[string]bool{}
	for _, e := range messages(t) {
		for _, f := range e.Sched.GetCycle().GetFacts() {
			told[fmt.Sprintf("%T", f.Kind)] = true
		}
		for _, f := range e.Node.GetFacts() {
			told[fmt.Sprintf("%T", f.Kind)] = true
		}
	}
	for _, m := range []schema.Message{&events.Fact{}, &events.NodeFact{}} {
		fields := schema.Of(m).Descriptor().Oneofs().Get(0).Fields()
		for i := range fields.Len() {
			c := schema.Of(m).New()
			c.Set(fields.Get(i), c.NewField(fields.Get(i)))
			var kind string
			var e events.Event
			switch f := schema.Plain(c).(type) {
			case *events.Fact:
				kind = fmt.Sprintf("%T", f.Kind)
				e.Sched = &events.SchedMessage{Kind: &events.SchedMessage_Cycle{Cycle: &events.Cycle{Facts: []*events.Fact{f}}}}
			case *events.NodeFact:
				kind = fmt.Sprintf("%T", f.Kind)
				e.Node = &events.NodeMessage{Facts: []*events.NodeFact{f}}
			}
			if !told[kind] {
				t.Errorf("%s is not in the test", kind)
			}
			lines := Tell(&e, Numbers{}) // an empty one must not fail either
			if len(lines) == 0 || lines[0].Kind == "unknown" {
				t.Errorf("%s is not told", kind)
			}
		}
	}
}

// Whatever bytes stand in a log, they are told in lines.
func FuzzTell(f *testing.F) {
	for i, subject := range []string{events.SubjectSched, events.SubjectNode("n"), events.SubjectIntentUser("u"), events.SubjectShare, "x"} {
		f.Add(subject, []byte{byte(i), 1, 2})
	}
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		e := events.Decode(1, 1, subject, data)
		for _, l := range Tell(&e, Numbers{}) {
			if strings.ContainsAny(Text(l), "\n\r\x1b") {
				t.Errorf("%q", Text(l))
			}
			l.Raw = Raw(&e, l, projections.Sight{}.Spec)
			if !json.Valid(JSON(l)) {
				t.Errorf("%s", JSON(l))
			}
		}
	})
}
