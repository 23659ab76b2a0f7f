package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"stint/events"
	"stint/ledger/rows"
)

// told is an answer in short: labels with state, steps behind them.
func told(a *rows.Answer) string {
	var out []string
	for _, r := range a.Records {
		state := r.Job.State.Word()
		if r.Job.Requeued {
			state = "REQUEUED"
		}
		line := rows.Label(r.Job) + " " + state
		if r.StepsOnly {
			line = "(" + line + ")"
		}
		for _, s := range r.Steps {
			line += fmt.Sprintf(" .%s:%s", events.StepName(s.Step), s.State.Word())
		}
		out = append(out, line)
	}
	return strings.Join(out, "; ")
}

const minute = int64(60e6)

// story of the test: hours after t0
//
//	1  alice  completes           0:10 to 0:20 on one node
//	2  bob    fails with step 0   0:10 to 1:30
//	3  alice  array 1,2,5         task 1 completes, task 2 cancelled while it waits, task 5 waits
//	4  carol  requeued once, runs
//	5  bob    waits
func sample(t *testing.T) *history {
	h := newHistory(t, 4)
	h.now = t0 + 10*minute
	one := h.submit("alice", 2001, &events.JobSpec{Name: "train", Account: "ml", Qos: "normal", CpusPerTask: 2, MemPerNodeMib: 100})
	two := h.submit("bob", 2002, &events.JobSpec{Name: "bench", Account: "bio", Qos: "high", CpusPerTask: 1, MinNodes: 2, MemPerNodeMib: 100, Gres: []*events.Gres{{Name: "gpu", Count: 2}}})
	h.start(one)
	h.start(two)
	h.now = t0 + 20*minute
	h.finish(one, 0, 0, events.JobState_COMPLETED, 0)
	j := h.c.Job(two)
	h.node("n2", started(j, 0, h.now))
	h.node("n2", exited(j, 0, h.now-5, h.now, 12, 0, &events.Usage{UserUs: 1000, MaxRssKib: 500, Samples: 1, SumRssKib: 450}))
	h.now = t0 + 90*minute
	h.finish(two, 4, 0, events.JobState_FAILED, 0)
	three := h.submit("alice", 2001, &events.JobSpec{Name: "sweep", Account: "ml", CpusPerTask: 1, MemPerNodeMib: 50, Array: &events.ArraySpec{Tasks: events.WordsOf(1, 2, 5), MaxRunning: 2}})
	task := h.start(three)
	h.cycle(&events.Fact{Kind: &events.Fact_Ended{Ended: &events.Ended{Job: three, State: events.JobState_CANCELLED, ByUid: 2001, Tasks: events.WordsOf(2), HasTasks: true}}})
	h.now = t0 + 100*minute
	h.finish(task, 0, 0, events.JobState_COMPLETED, 0)
	four := h.submit("carol", 2003, &events.JobSpec{Name: "train", Account: "ml", CpusPerTask: 1, MemPerNodeMib: 50})
	h.start(four)
	h.stop(four, events.StopCause_STOP_REQUEUE, 2003)
	j = h.c.Job(four)
	h.node(j.Allocation.FirstNode(), exited(j, events.StepBatch, j.StartUs, h.now, 0, 15, nil))
	h.cycle(&events.Fact{Kind: &events.Fact_Requeued{Requeued: &events.Requeued{Job: four, Run: 1, Priority: 5}}})
	h.now = t0 + 110*minute
	h.start(four)
	h.submit("bob", 2002, &events.JobSpec{Name: "later", Account: "bio", CpusPerTask: 1})
	return h
}

func TestQuestions(t *testing.T) {
	h := sample(t)
	l := open(t, vfs.NewMem(), Options{})
	defer l.Close()
	feed(t, l, h, uint64(len(h.log)), 3)
	all := "1 COMPLETED; 2 FAILED; 3_1 COMPLETED; 3_2 CANCELLED; 3_5 PENDING; 6 RUNNING; 7 PENDING"
	tests := []struct {
		name string
		ask  *rows.AskJobs
		want string
	}{
		{"all", &rows.AskJobs{Allocations: true}, all},
		{"with steps", &rows.AskJobs{Users: []string{"bob"}}, "2 FAILED .batch:FAILED .0:FAILED; 7 PENDING"},
		{"duplicates", &rows.AskJobs{Users: []string{"carol"}, Duplicates: true}, "6 REQUEUED .batch:CANCELLED; 6 RUNNING .batch:RUNNING"},
		{"a job", &rows.AskJobs{Jobs: []*rows.Selection{{Job: 1}}}, "1 COMPLETED .batch:COMPLETED"},
		{"a job that is not there", &rows.AskJobs{Jobs: []*rows.Selection{{Job: 99}}}, ""},
		{"an array", &rows.AskJobs{Jobs: []*rows.Selection{{Job: 3}}, Allocations: true}, "3_1 COMPLETED; 3_2 CANCELLED; 3_5 PENDING"},
		{"a task", &rows.AskJobs{Jobs: []*rows.Selection{{Job: 3, Tasks: events.WordsOf(1), HasTasks: true}}}, "3_1 COMPLETED .batch:COMPLETED"},
		{"tasks", &rows.AskJobs{Jobs: []*rows.Selection{{Job: 3, Tasks: events.WordsOf(2, 3, 4, 5), HasTasks: true}}}, "3_2 CANCELLED; 3_5 PENDING"},
		{"a task by its raw id", &rows.AskJobs{Jobs: []*rows.Selection{{Job: 4}}, Allocations: true}, "3_1 COMPLETED"},
		{"a step", &rows.AskJobs{Jobs: []*rows.Selection{{Job: 2, Step: 0, HasStep: true}}}, "(2 FAILED) .0:FAILED"},
		{"a batch step and a job", &rows.AskJobs{Jobs: []*rows.Selection{{Job: 2, Step: events.StepBatch, HasStep: true}, {Job: 1}}}, "1 COMPLETED .batch:COMPLETED; (2 FAILED) .batch:FAILED"},
		{"users", &rows.AskJobs{Users: []string{"alice", "carol"}, Allocations: true}, "1 COMPLETED; 3_1 COMPLETED; 3_2 CANCELLED; 3_5 PENDING; 6 RUNNING"},
		{"uids", &rows.AskJobs{Uids: []uint32{2003}, Allocations: true}, "6 RUNNING"},
		{"names", &rows.AskJobs{Names: []string{"train"}, Allocations: true}, "1 COMPLETED; 6 RUNNING"},
		{"accounts", &rows.AskJobs{Accounts: []string{"bio"}, Allocations: true}, "2 FAILED; 7 PENDING"},
		{"qos", &rows.AskJobs{Qos: []string{"high"}, Allocations: true}, "2 FAILED"},
		{"partitions", &rows.AskJobs{Partitions: []string{"other"}}, ""},
		{"groups", &rows.AskJobs{Groups: []string{"bob"}, Allocations: true}, "2 FAILED; 7 PENDING"},
		{"nodes", &rows.AskJobs{Nodes: "n[2,4]", Allocations: true}, "2 FAILED"},
		{"nodes of a range", &rows.AskJobs{Nodes: "n1", Allocations: true, Users: []string{"alice"}}, "1 COMPLETED; 3_1 COMPLETED"},
		{"finished states", &rows.AskJobs{States: []events.JobState{events.JobState_FAILED, events.JobState_CANCELLED}, Allocations: true}, "2 FAILED; 3_2 CANCELLED"},
		{"requeued", &rows.AskJobs{Requeued: true, Allocations: true}, "6 REQUEUED"},
		{"running now", &rows.AskJobs{States: []events.JobState{events.JobState_RUNNING}, Allocations: true}, "6 RUNNING"},
		{"pending now", &rows.AskJobs{States: []events.JobState{events.JobState_PENDING}, Allocations: true}, "7 PENDING"}, // what is left of an array was not found able to start yet
		{"running in a window", &rows.AskJobs{States: []events.JobState{events.JobState_RUNNING}, StartUs: t0 + 15*minute, EndUs: t0 + 30*minute, Allocations: true}, "1 COMPLETED; 2 FAILED"},
		{"running in a later window", &rows.AskJobs{States: []events.JobState{events.JobState_RUNNING}, StartUs: t0 + 30*minute, EndUs: t0 + 40*minute, Allocations: true}, "2 FAILED"},
		{"ended in a window", &rows.AskJobs{States: []events.JobState{events.JobState_COMPLETED, events.JobState_FAILED}, StartUs: t0 + 30*minute, EndUs: t0 + 95*minute, Allocations: true}, "2 FAILED"},
		{"a window before everything", &rows.AskJobs{StartUs: t0 - 100*minute, EndUs: t0, Allocations: true}, ""},
		{"a window over the end of one", &rows.AskJobs{StartUs: t0 + 30*minute, EndUs: t0 + 40*minute, Allocations: true}, "2 FAILED"},
		{"from on", &rows.AskJobs{StartUs: t0 + 95*minute, Allocations: true}, "3_1 COMPLETED; 6 RUNNING; 7 PENDING"},
		{"a named job that could not have started yet, in a window", &rows.AskJobs{Jobs: []*rows.Selection{{Job: 3}}, StartUs: t0 + 95*minute, EndUs: t0 + 200*minute, Allocations: true}, "3_1 COMPLETED; 3_5 PENDING"},
		{"named jobs that once ran", &rows.AskJobs{Jobs: []*rows.Selection{{Job: 1}, {Job: 7}}, States: []events.JobState{events.JobState_RUNNING}, Allocations: true}, "1 COMPLETED"},
		{"named jobs that once waited", &rows.AskJobs{Jobs: []*rows.Selection{{Job: 1}, {Job: 7}}, States: []events.JobState{events.JobState_PENDING}, Allocations: true}, "1 COMPLETED; 7 PENDING"},
		{"user and window", &rows.AskJobs{StartUs: t0 + 30*minute, Users: []string{"bob"}, Allocations: true}, "2 FAILED; 7 PENDING"},
		{"completed only", &rows.AskJobs{CompletedOnly: true, Users: []string{"bob"}, Allocations: true}, "2 FAILED"},
		{"nodes by number", &rows.AskJobs{MinNodes: 2, MaxNodes: 3, Allocations: true}, "2 FAILED"},
		{"reasons are those that jobs waited for", &rows.AskJobs{Reasons: []events.Reason{events.Reason_NON_ZERO_EXIT_CODE}, Allocations: true}, ""},
		{"names in any case", &rows.AskJobs{Names: []string{"TRAIN"}, Accounts: []string{"Ml"}, Allocations: true}, "1 COMPLETED; 6 RUNNING"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := told(ask(t, l, &rows.Ask{What: &rows.Ask_Jobs{Jobs: tt.ask}}))
			if got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
			for _, limit := range []uint32{1, 2} {
				if got := told(ask(t, l, &rows.Ask{Limit: limit, What: &rows.Ask_Jobs{Jobs: tt.ask}})); got != tt.want {
					t.Errorf("%d at a time:\n got %s\nwant %s", limit, got, tt.want)
				}
			}
		})
	}
	t.Run("mistakes", func(t *testing.T) {
		for _, q := range []*rows.Ask{{}, {What: &rows.Ask_Jobs{Jobs: &rows.AskJobs{Nodes: "n[1"}}}, {After: []byte("x"), What: &rows.Ask_Jobs{Jobs: &rows.AskJobs{}}}} {
			if a := l.Answer(context.Background(), q); a.Error == "" {
				t.Errorf("%v was answered", q)
			}
		}
	})
}

func TestFigures(t *testing.T) {
	h := sample(t)
	l := open(t, vfs.NewMem(), Options{})
	defer l.Close()
	feed(t, l, h, uint64(len(h.log)), 3)
	a := ask(t, l, &rows.Ask{What: &rows.Ask_Jobs{Jobs: &rows.AskJobs{Jobs: []*rows.Selection{{Job: 2}}, WithAllocation: true}}})
	r := a.Records[0]
	j, batch, step := r.Job, r.Steps[0], r.Steps[1]
	check := func(what string, got, want any) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("nodes", j.Nodes, "n[1-2]")
	check("CPUs", j.Alloc.Cpus, 2)
	check("memory", j.Alloc.MemMib, 200)
	check("GPUs", fmt.Sprintf("%d %s:%s:%d", len(j.Alloc.Gres), j.Alloc.Gres[0].Name, j.Alloc.Gres[0].Type, j.Alloc.Gres[0].Count), "1 gpu:a100:4")
	check("GPUs asked", fmt.Sprintf("%s:%d", j.Req.Gres[0].Name, j.Req.Gres[0].Count), "gpu:4")
	check("exit", fmt.Sprint(j.ExitCode, j.ExitSignal), "4 0")
	check("derived exit", j.DerivedCode, 12)
	check("batch nodes", batch.Nodes, "n1")
	check("batch CPUs", batch.Alloc.Cpus, 1)
	check("batch peak", fmt.Sprint(batch.MaxRssKib.Value, batch.MaxRssKib.Node), "20524n2")
	check("batch CPU time", batch.UserUs, 30001)
	check("step node", step.Nodes, "n2")
	check("step task of the peak", step.MaxRssKib.Task, 1)
	check("job CPU time", j.UserUs, 31001)
	check("nodes of the allocation", r.Allocation.NodeNames(), "[n1 n2]")
	check("eligible", j.EligibleUs, j.SubmitUs)
	usage := l.Answer(context.Background(), &rows.Ask{What: &rows.Ask_Usage{Usage: &rows.AskUsage{Users: []string{"bob"}}}}).Usage
	check("hours of use", len(usage), 2)
	check("use", usage[0].CpuUs+usage[1].CpuUs, 2*uint64(j.EndUs-j.StartUs))
	check("use in the first hour", usage[0].CpuUs, 2*uint64(t0+60*minute-j.StartUs))
	check("GPU use", usage[0].GresUs[0].Count, 2*usage[0].CpuUs)
	trunc := ask(t, l, &rows.Ask{What: &rows.Ask_Jobs{Jobs: &rows.AskJobs{StartUs: t0 + 30*minute, EndUs: t0 + 40*minute, Truncate: true}}}).Records[0].Job
	check("truncated", trunc.EndUs-trunc.StartUs, 10*minute)
}

// Whatever is asked, the indexes give what looking at every record gives.
func TestQuestionsAgainstAScan(t *testing.T) {
	r := rand.New(rand.NewPCG(seedOf(t), 4))
	h := newHistory(t, 4)
	h.wander(r, 1200)
	l := open(t, vfs.NewMem(), Options{})
	defer l.Close()
	feed(t, l, h, uint64(len(h.log)), 20)
	whole := ask(t, l, &rows.Ask{What: &rows.Ask_Jobs{Jobs: &rows.AskJobs{Duplicates: true}}})
	if len(whole.Records) < 200 {
		t.Fatalf("only %d records", len(whole.Records))
	}
	states := []events.JobState{events.JobState_PENDING, events.JobState_RUNNING, events.JobState_COMPLETED, events.JobState_FAILED, events.JobState_CANCELLED, events.JobState_PREEMPTED}
	found := 0
	for range 300 {
		a := &rows.AskJobs{Duplicates: true}
		if r.IntN(2) == 0 {
			a.StartUs = t0 + r.Int64N(h.now-t0)
			if r.IntN(2) == 0 {
				a.EndUs = a.StartUs + r.Int64N(h.now-a.StartUs+1)
			}
		}
		if r.IntN(3) == 0 {
			a.Users = []string{"alice", "carol"}[:1+r.IntN(2)]
		}
		if r.IntN(3) == 0 {
			a.Names = []string{fmt.Sprintf("job%d", r.IntN(5)), "new name"}
		}
		for r.IntN(2) == 0 {
			a.States = append(a.States, states[r.IntN(len(states))])
		}
		a.Requeued = r.IntN(4) == 0
		if r.IntN(4) == 0 {
			a.Accounts = []string{"ml"}
		}
		if r.IntN(5) == 0 {
			a.Nodes = "n2"
		}
		q, err := newQuery(a)
		if err != nil {
			t.Fatal(err)
		}
		var want []*rows.Record
		for _, rec := range whole.Records {
			if q.matches(keyOfRow(rec.Job), rec.Job) {
				want = append(want, rec)
			}
		}
		found += len(want)
		if got, want := told(ask(t, l, &rows.Ask{Limit: 50, What: &rows.Ask_Jobs{Jobs: a}})), told(&rows.Answer{Records: want}); got != want {
			t.Fatalf("asked %v\n got %s\nwant %s", a, got, want)
		}
	}
	if found == 0 {
		t.Fatal("nothing was ever found")
	}
	for range 100 { // told as kinds and rows, records are what they are one by one, but for what few columns show
		a := &rows.AskJobs{Allocations: true, Duplicates: r.IntN(2) == 0, Truncate: r.IntN(2) == 0}
		if r.IntN(2) == 0 {
			a.StartUs = t0 + r.Int64N(h.now-t0)
			a.EndUs = a.StartUs + r.Int64N(h.now-a.StartUs+1)
		}
		if r.IntN(3) == 0 {
			a.Users = []string{"alice", "carol"}[:1+r.IntN(2)]
		}
		want := ask(t, l, &rows.Ask{Limit: 50, What: &rows.Ask_Jobs{Jobs: a}}).Records
		kinds := a.CloneVT()
		kinds.Kinds = true
		at := 0
		err := l.Each(t.Context(), &rows.Ask{Limit: uint32(1 + r.IntN(20)), What: &rows.Ask_Jobs{Jobs: kinds}}, func(part *rows.Answer) error {
			if len(part.Records) > 0 {
				t.Fatalf("asked %v: %d records are told one by one", kinds, len(part.Records))
			}
			part.EachRow(func(got *rows.JobRow) {
				w := want[at].Job.CloneVT()
				w.Priority, w.WorkDir, w.SubmitLine, w.StdIn, w.StdOut, w.StdErr, w.UserUs, w.SystemUs, w.SubmittedSeq, w.ChangedSeq = 0, "", "", "", "", "", 0, 0, 0, 0
				w.Script, w.Steps = nil, 0
				if !got.EqualVT(w) {
					t.Fatalf("asked %v: record %d is\n%v\nas a row\n%v", kinds, at, w, got)
				}
				at++
			})
			return nil
		})
		if err != nil || at != len(want) {
			t.Fatalf("asked %v: %d of %d records, %v", kinds, at, len(want), err)
		}
	}
}

// More questions at once than are remembered: each answer is whole all the same.
func TestManyOpenQuestions(t *testing.T) {
	h := newHistory(t, 4)
	h.wander(rand.New(rand.NewPCG(seedOf(t), 5)), 400)
	l := open(t, vfs.NewMem(), Options{})
	defer l.Close()
	feed(t, l, h, uint64(len(h.log)), 20)
	want := told(ask(t, l, &rows.Ask{What: &rows.Ask_Jobs{Jobs: &rows.AskJobs{Duplicates: true}}}))
	asks := make([]*rows.Ask, 3*maxOpen)
	whole := make([]*rows.Answer, len(asks))
	for i := range asks {
		asks[i] = &rows.Ask{Limit: uint32(3 + i), What: &rows.Ask_Jobs{Jobs: &rows.AskJobs{Duplicates: true}}}
		whole[i] = &rows.Answer{}
	}
	for left := len(asks); left > 0; {
		for i, q := range asks {
			if q == nil {
				continue
			}
			a := l.Answer(context.Background(), q)
			if a.Error != "" {
				t.Fatal(a.Error)
			}
			whole[i].Records = append(whole[i].Records, a.Records...)
			if q.After = a.More; len(a.More) == 0 {
				asks[i] = nil
				left--
			}
		}
	}
	for i := range whole {
		if got := told(whole[i]); got != want {
			t.Fatalf("question %d\n got %s\nwant %s", i, got, want)
		}
	}
}
