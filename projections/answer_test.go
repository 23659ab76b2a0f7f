package projections

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"stint/events"
	"stint/events/schema"
)

// queue is a state with a bit of everything, made by a script.
func queue(t *testing.T) *script {
	s := &script{history: newHistory(t), start: 1000000000, exec: map[string][2]string{}}
	s.run(`term a
config
up n1
up n2
submit user=alice name=one
submit user=bob name=two part=small prio=50
submit user=alice name=arr array=0-3%2
submit user=carol name=late after=afterok:1 prio=5
submit user=bob name=held hold=user
place 1 n[1-2]:0
place 3 task=2 n1:1
+5
exited n1 6 code=4
end 6 FAILED code=4
submit user=alice name=gone
place 7 n1:2
exited n1 7
end 7 COMPLETED
stop 1
exited n1 1
----
`)
	return s
}

func TestAskJobs(t *testing.T) {
	s := queue(t)
	for _, test := range []struct {
		what string
		ask  *AskJobs
		want string
	}{
		{"what is in the queue", &AskJobs{}, "1 2 3 4 5"},
		{"all", &AskJobs{AllStates: true}, "1 2 3 4 5 6 7"},
		{"by state", &AskJobs{States: []events.JobState{events.JobState_FAILED, events.JobState_RUNNING}}, "1 6"},
		{"pending", &AskJobs{States: []events.JobState{events.JobState_PENDING}}, "2 3 4 5"},
		{"by user", &AskJobs{Users: []string{"bob"}}, "2 5"},
		{"by uid", &AskJobs{Users: []string{fmt.Sprint(uidOf("carol"))}}, "4"},
		{"by partition", &AskJobs{Partitions: []string{"small", "none"}}, "2"},
		{"by name", &AskJobs{Names: []string{"one", "held"}}, "1 5"},
		{"by account", &AskJobs{Accounts: []string{"physics"}}, ""},
		{"on nodes", &AskJobs{Nodes: "n[2-4]", AllStates: true}, "1"},
		{"one", &AskJobs{Ids: []uint32{2}}, "2"},
		{"an array", &AskJobs{Ids: []uint32{3}, AllStates: true}, "3 6"},
		{"an array, what is not over", &AskJobs{Ids: []uint32{3}}, "3"},
		{"a task by its own id", &AskJobs{Ids: []uint32{6, 6}, AllStates: true}, "6"},
		{"unknown", &AskJobs{Ids: []uint32{99, 2}}, "2 unknown"},
	} {
		a := Reply(s.c.View(), nil, &Ask{What: &Ask_Jobs{test.ask}})
		var got []string
		for _, v := range a.GetJobs().GetJobs() {
			got = append(got, fmt.Sprint(v.Job.Id))
		}
		if a.GetJobs().GetUnknownId() {
			got = append(got, "unknown")
		}
		if text := strings.Join(got, " "); text != test.want || a.Error != "" || a.Seq != s.seq {
			t.Errorf("%s: jobs %s (error %q at %d), not %s", test.what, text, a.Error, a.Seq, test.want)
		}
	}
	if a := Reply(s.c, nil, &Ask{What: &Ask_Jobs{&AskJobs{Nodes: "n["}}}); !strings.Contains(a.Error, "nodes to show jobs of") {
		t.Errorf("a bad host list: %q", a.Error)
	}
	slimmed := Reply(s.c, heard{3: {Job: 3, Reason: events.Reason_RESOURCES}}, &Ask{What: &Ask_Jobs{&AskJobs{Slim: true, Ids: []uint32{3, 1}}}}).GetJobs().GetJobs()
	if v := slimmed[1]; v.Job.Spec.Array != nil || v.Job.Spec.Name != "arr" || len(v.Job.Pending) == 0 || v.Array.GetFailed() != 1 || v.Outcome.GetReason() != events.Reason_RESOURCES {
		t.Errorf("slim: %v", v)
	}
	if s.c.Job(3).Spec.Array == nil || slimmed[0].Outcome != nil {
		t.Error("the state was slimmed, or a running job waits for something")
	}
}

// What columns and records do not show is left out of a job, and nothing else: a job with everything in it loses these fields.
func TestSlim(t *testing.T) {
	full := &events.JobSpec{}
	everything(schema.Of(full))
	thin := slim(&Job{Spec: full, Owner: &events.Owner{Uid: 1, Groups: []uint32{2}}})
	gone := []string{}
	schema.Of(full).Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if !schema.Of(thin.Spec).Has(f) {
			gone = append(gone, string(f.Name()))
		}
		return true
	})
	slices.Sort(gone)
	want := "acctg_freq append array default_time_limit dependencies dependency_text distribution environment export extra get_user_env has_priority hold " +
		"no_kill priority rlimits script submit_line truncate umask use_min_nodes wait_all_nodes warn"
	if got := strings.Join(gone, " "); got != want {
		t.Errorf("left out:\n%s\nnot\n%s", got, want)
	}
	if thin.Owner.Uid != 1 || len(thin.Owner.Groups) != 0 {
		t.Errorf("owner: %v", thin.Owner)
	}
}

// everything gives every field of a message a value.
func everything(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); {
		case f.IsList():
			list := m.Mutable(f).List()
			list.Append(list.NewElement())
		case f.Message() != nil:
			m.Mutable(f)
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString("x"))
		case f.Kind() == protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		case f.Kind() == protoreflect.EnumKind:
			m.Set(f, protoreflect.ValueOfEnum(1))
		case f.Kind() == protoreflect.Uint32Kind:
			m.Set(f, protoreflect.ValueOfUint32(7))
		case f.Kind() == protoreflect.Uint64Kind:
			m.Set(f, protoreflect.ValueOfUint64(7))
		case f.Kind() == protoreflect.Int32Kind:
			m.Set(f, protoreflect.ValueOfInt32(7))
		case f.Kind() == protoreflect.Int64Kind:
			m.Set(f, protoreflect.ValueOfInt64(7))
		}
	}
}

type heard map[uint32]*Outcome

func (h heard) Outcome(job uint32) *Outcome { return h[job] }

func TestAskNode(t *testing.T) {
	s := queue(t)
	show := func(name string, known uint64) string {
		a := Reply(s.c, nil, &Ask{What: &Ask_Node{&AskNode{Name: name, ConfigSeq: known}}}).GetNode()
		text := fmt.Sprintf("unknown %v, config %v:", a.Unknown, a.Config != nil)
		for _, r := range a.Runs {
			text += fmt.Sprintf(" job %d run %d stop %v signals %d;", r.Job.Id, r.Job.Run, r.Job.Stop.GetCause(), len(r.Job.Signals))
		}
		return text
	}
	s.command("signal 1 sig=12")
	for _, test := range [][2]string{
		{show("n1", 0), "unknown false, config true:"}, // it has reported
		{show("n2", s.c.ConfigSeq()), "unknown false, config false: job 1 run 1 stop STOP_CANCEL signals 1;"},
		{show("n9", 0), "unknown true, config true:"},
	} {
		if test[0] != test[1] {
			t.Errorf("%s, not %s", test[0], test[1])
		}
	}
	// Ended by the leader's word: it should be there no more.
	s.command("end 1 CANCELLED")
	if got := show("n2", 0); got != "unknown false, config true:" {
		t.Error(got)
	}
}

func TestAskVerdicts(t *testing.T) {
	s := queue(t)
	ask := func(seq uint64, count uint32) string {
		a := Reply(s.c, nil, &Ask{What: &Ask_Verdicts{&AskVerdicts{Seq: seq, Count: count}}})
		v := a.GetVerdicts()
		return fmt.Sprintf("%d verdicts, undecided %v, ids %v, %s", len(v.Verdicts), v.Undecided, v.Ids, a.Error)
	}
	submitted := s.c.Job(2).SubmittedSeq
	if got := ask(submitted, 1); got != "1 verdicts, undecided false, ids [2], " {
		t.Error(got)
	}
	s.command("intent ids=2")
	if got, want := ask(s.seq, 1), fmt.Sprintf("0 verdicts, undecided true, ids [%d], ", s.c.NextID()-2); got != want {
		t.Error(got)
	}
	if got := ask(s.seq+1, 1); got != "0 verdicts, undecided true, ids [], " {
		t.Error(got)
	}
	if got := ask(1, 1); !strings.Contains(got, "intent 0 of message 1 is not known") {
		t.Error(got)
	}
	if got := ask(submitted, 1<<31); !strings.Contains(got, "is not known") {
		t.Error(got)
	}
}

func TestAskWaitWhyStatus(t *testing.T) {
	s := queue(t)
	wait := func(ids ...uint32) string {
		a := Reply(s.c, nil, &Ask{What: &Ask_Wait{&AskWait{Ids: ids}}}).GetWait()
		var ended []uint32
		for _, j := range a.Ended {
			ended = append(ended, j.Id)
		}
		return fmt.Sprintf("ended %v undecided %v gone %v arrays %d", ended, a.Undecided, a.Gone, len(a.Arrays))
	}
	for _, test := range [][2]string{
		{wait(7, 99), "ended [7] undecided false gone [99] arrays 0"},
		{wait(1), "ended [] undecided true gone [] arrays 0"},
		{wait(3), "ended [6] undecided true gone [] arrays 1"},
	} {
		if test[0] != test[1] {
			t.Errorf("%s, not %s", test[0], test[1])
		}
	}
	for task, want := range map[uint32]uint32{2: 6, 1: 3, 3: 3, 4: 0} { // one with a record of its own, two of the remainder, none
		a := Reply(s.c, nil, &Ask{What: &Ask_Why{&AskWhy{Job: 3, Task: task, HasTask: true}}})
		if got := a.GetWhy().GetJob().GetJob().GetId(); got != want || (a.Error == "") != (want != 0) {
			t.Errorf("why of task %d of array 3 is of job %d (%s), want %d", task, got, a.Error, want)
		}
	}
	s.command("end 3 CANCELLED")
	if got := wait(3); got != "ended [3 6] undecided false gone [] arrays 1" {
		t.Error(got)
	}
	if a := s.c.Array(3); a.MaxExitCode != 4 || a.Failed != 4 {
		t.Errorf("array: %v", a)
	}
	why := Reply(s.c, nil, &Ask{What: &Ask_Why{&AskWhy{Job: 4}}}).GetWhy()
	if why.Job.Job.Id != 4 || len(why.Ahead) != 0 {
		t.Errorf("why: %v", why)
	}
	s.command("submit prio=7")
	s.command("submit prio=8 part=main,small")
	ahead := func() (ids []uint32) {
		for _, v := range Reply(s.c, nil, &Ask{What: &Ask_Why{&AskWhy{Job: 8}}}).GetWhy().Ahead {
			ids = append(ids, v.Job.Id)
		}
		return ids
	}
	if got := ahead(); !slices.Equal(got, []uint32{9}) {
		t.Errorf("ahead of 8 are %v", got)
	}
	if a := Reply(s.c, nil, &Ask{What: &Ask_Why{&AskWhy{Job: 99}}}); a.Error == "" {
		t.Error("why of an unknown job is no error")
	}
	status := Reply(s.c, nil, &Ask{What: &Ask_Status{&AskStatus{WantHash: true}}}).GetStatus()
	if status.JobsPending != 5 || status.JobsRunning != 1 || status.NodesUp != 2 || status.NodesDown != 0 || status.Nodes != 4 || status.Hash != fmt.Sprintf("%x", s.c.Hash()) || string(status.Term.Nonce) != "a" {
		t.Errorf("status: %v", status)
	}
	s.command("node n1 down")
	if status := Reply(s.c, nil, &Ask{What: &Ask_Status{&AskStatus{}}}).GetStatus(); status.NodesUp != 1 || status.NodesDown != 1 {
		t.Errorf("status with a node set down: %v", status)
	}
	nodes := Reply(s.c, nil, &Ask{What: &Ask_Nodes{&AskNodes{Names: "n[1-2],x"}}})
	if len(nodes.GetNodes().Nodes) != 2 || nodes.Error != "no node is called x" {
		t.Errorf("nodes: %v", nodes)
	}
	config := Reply(s.c, nil, &Ask{What: &Ask_Config{}}).GetConfig()
	if config.Config.Cluster != "test" || config.NextId != 10 {
		t.Errorf("config: %v", config)
	}
	if a := Reply(s.c, nil, &Ask{}); a.Error == "" {
		t.Error("no question is no error")
	}
}

func TestJobEvents(t *testing.T) {
	s := &script{history: newHistory(t), start: 1000000000, exec: map[string][2]string{}}
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(`
term a
config
up n1
up n2
submit user=a.b array=0-2
place 1 task=1 n1:0
hold 1 tasks=2
place 1 task=0 n1:1
suspend 2
resume 2
stop 2
exited n1 2
end 2 CANCELLED
requeue 2
end 3 CANCELLED tasks=2
exited n1 1 code=3
end 1 FAILED code=3
+400
intent verb=HOLD`), "\n") {
		before := s.seq
		s.command(line)
		if s.seq == before {
			continue
		}
		for i, e := range JobEvents("test", s.c.Changes()) {
			if e.Index != i || e.Seq != s.seq {
				t.Fatalf("event %d of message %d says %d of %d", i, s.seq, e.Index, e.Seq)
			}
			got = append(got, e.Subject)
			if s.seq == 9 {
				want := `{"cluster":"test","job":1,"array_job":1,"array_task":0,"name":"job","user":"a.b","uid":1`
				if !strings.HasPrefix(string(e.Data), want) || !strings.Contains(string(e.Data), `"state":"RUNNING","nodes":"n1","cpus":1,"run":1,"time":"1970-01-01T00:16:40.000000Z","seq":9,"index":0}`) {
					t.Errorf("event: %s", e.Data)
				}
			}
		}
	}
	want := []string{
		"job.PENDING.main.a%2Eb.1", "job.RUNNING.main.a%2Eb.2", "job.RUNNING.main.a%2Eb.1", "job.SUSPENDED.main.a%2Eb.2", "job.RUNNING.main.a%2Eb.2",
		"job.COMPLETING.main.a%2Eb.2", "job.CANCELLED.main.a%2Eb.2", "job.REQUEUED.main.a%2Eb.2", "job.CANCELLED.main.a%2Eb.3",
		"job.COMPLETING.main.a%2Eb.1", "job.FAILED.main.a%2Eb.1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("events are\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
