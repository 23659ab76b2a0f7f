package commands

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/events"
	"stint/projections"
)

// manyJobs is a queue as the agent hands it out: every tenth job runs, the others wait.
func manyJobs(n int) []*projections.JobView {
	owner := &events.Owner{Uid: 1000, Gid: 1000, User: "u1000", Group: "u1000"}
	views := make([]*projections.JobView, n)
	for i := range views {
		j := &projections.Job{Id: uint32(i + 1), Owner: owner, Priority: uint32(i % 977), SubmitUs: 1e15, LimitS: 3600, Partition: "batch",
			Spec: &events.JobSpec{Name: fmt.Sprintf("job%d", i), Partition: "batch", Tasks: 1, WorkDir: "/home/u1000", TimeLimitS: 3600}}
		v := &projections.JobView{Job: j, Outcome: &projections.Outcome{Reason: events.Reason_PRIORITY}}
		if i%10 == 0 {
			j.State, j.StartUs, v.Outcome = events.JobState_RUNNING, 1e15, nil
			j.Allocation = &events.Allocation{Shares: []*events.NodeShare{{Nodes: []string{fmt.Sprintf("n%d", i%500)}, Cpus: events.WordsOf(0), MemoryMib: 100}}}
		}
		views[i] = v
	}
	return views
}

// BenchmarkSqueue prints a queue of 50,000 jobs, from the answer's bytes on.
func BenchmarkSqueue(b *testing.B) {
	answer := &projections.Answer{What: &projections.Answer_Jobs{Jobs: &projections.AnswerJobs{Jobs: manyJobs(50_000)}}}
	data, err := answer.MarshalVT()
	if err != nil {
		b.Fatal(err)
	}
	w := &World{Stdout: io.Discard, Stderr: io.Discard, Now: time.Unix(1e9+100, 0)}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		a := new(projections.Answer)
		if err := a.UnmarshalVT(data); err != nil {
			b.Fatal(err)
		}
		c := w.context("big", false)
		if code := squeueJobs(&slurm.Squeue{}, w, format.Jobs(a.GetJobs().GetJobs(), &c, false), asTheyAre); code != 0 {
			b.Fatal(code)
		}
	}
}

// A reader that goes away (`squeue | head`) ends the printing, and the exit code says so.
func TestPrintingToNobody(t *testing.T) {
	r, pw := io.Pipe()
	w := &World{Stdout: pw, Stderr: io.Discard, Now: time.Unix(1e9, 0)}
	code := make(chan int, 1)
	go func() {
		c := w.context("big", false)
		code <- squeueJobs(&slurm.Squeue{}, w, format.Jobs(manyJobs(5000), &c, false), asTheyAre)
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil || !strings.Contains(line, "JOBID") {
		t.Fatalf("first line %q, %v", line, err)
	}
	r.Close()
	if got := <-code; got != 1 {
		t.Errorf("exit code %d when nobody reads, want 1", got)
	}
}

func asTheyAre(rows []format.Job) []format.Job { return rows }
