package cli

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"stint/cli/commands"
	"stint/events"
	"stint/projections"
)

// TestMain lets this program be the child of TestChild.
func TestMain(m *testing.M) {
	if file := os.Getenv("STINT_TEST_CHILD"); file != "" {
		f, _ := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		f.WriteString(strconv.Itoa(os.Getpid()) + "\n")
		f.Close()
		ctx := context.Background()
		if len(os.Args) > 1 && os.Args[len(os.Args)-1] == "--lifeline" {
			ctx = heed(ctx)
		}
		<-ctx.Done()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A daemon is started again when it is killed, and ends with us unless it is to outlive us.
func TestChild(t *testing.T) {
	for _, outlives := range []bool{false, true} {
		t.Run("outlives "+strconv.FormatBool(outlives), func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "pids")
			t.Setenv("STINT_TEST_CHILD", file)
			c := &child{name: "x", args: []string{"word"}, log: filepath.Join(dir, "log"), outlives: outlives}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() { c.run(ctx, slog.New(slog.DiscardHandler), func() {}); close(done) }()
			pids := func(n int) []int {
				var out []int
				for deadline := time.Now().Add(20 * time.Second); len(out) < n; time.Sleep(5 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("%d starts, want %d", len(out), n)
					}
					data, _ := os.ReadFile(file)
					out = nil
					for _, f := range strings.Fields(string(data)) {
						p, _ := strconv.Atoi(f)
						out = append(out, p)
					}
				}
				return out
			}
			first := pids(1)[0]
			syscall.Kill(first, syscall.SIGKILL)
			second := pids(2)[1]
			cancel()
			<-done
			alive := syscall.Kill(second, 0) == nil
			if alive != outlives {
				t.Errorf("after our end it is alive: %v, should be %v", alive, outlives)
			}
			if alive {
				syscall.Kill(second, syscall.SIGKILL)
			}
		})
	}
}

// Links are made once, point to this program, and replace no file.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		if err := link(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range commands.Names() {
		if to, err := os.Readlink(filepath.Join(dir, name)); err != nil || !filepath.IsAbs(to) {
			t.Errorf("%s points to %q, %v", name, to, err)
		}
	}
	file := filepath.Join(dir, "squeue")
	os.Remove(file)
	os.WriteFile(file, nil, 0o644)
	if err := link(dir); err == nil || !strings.Contains(err.Error(), "is not a link") {
		t.Errorf("a file in the way: %v", err)
	}
}

// A shell reads back what was quoted for it.
func TestQuote(t *testing.T) {
	for _, s := range []string{"", "/var/lib/stint", "a b", "it's", "$HOME `x` \"y\"", "a\nb", "*", "~"} {
		out, err := exec.Command("sh", "-c", "printf %s "+quote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("%q was read back as %q, %v", s, out, err)
		}
	}
}

// Every command has help with an example, and every option a sentence.
func TestHelp(t *testing.T) {
	var walk func(list []*cli.Command)
	walk = func(list []*cli.Command) {
		for _, c := range list {
			if c.Hidden || commands.Has(c.Name) || c.Name == "help" {
				continue
			}
			if c.Usage == "" || !strings.Contains(c.Description, "xample") {
				t.Errorf("stint %s: usage %q, description %q", c.Name, c.Usage, c.Description)
			}
			for _, f := range c.Flags {
				d, ok := f.(cli.DocGenerationFlag)
				if !ok || d.GetUsage() == "" {
					t.Errorf("stint %s: the option %s has no sentence", c.Name, f.Names()[0])
				}
			}
			walk(c.Subcommands)
		}
	}
	a := app()
	walk(a.Commands)
	if len(a.Commands) < 20 {
		t.Errorf("only %d commands", len(a.Commands))
	}
}

// Why a job waits is said with numbers.
func TestMisuse(t *testing.T) {
	for line, want := range map[string]string{
		"up --cpus -3":              "--cpus does not take \"-3\" (`stint up --help` tells its options)",
		"up --memory 5x --cpus 2":   "--memory does not take \"5x\" (`stint up --help` tells its options)",
		"up --detahc":               "there is no option \"--detahc\"; did you mean --detach? (`stint up --help` tells its options)",
		"events --config x":         "there is no option \"--config\" (`stint events --help` tells its options)",
		"up --nodes":                "--nodes needs a value (`stint up --help` tells its options)",
		"up -Z":                     "there is no option \"-Z\" (`stint up --help` tells its options)",
		"--wrong":                   "there is no option \"--wrong\" (`stint --help` tells its options)",
		"down --kill=maybe":         "--kill does not take \"maybe\" (`stint down --help` tells its options)",
		"up --dir %s --cpus 0":      "--cpus 0: a node has at least one; leave --cpus out for as many as the machine has",
		"up --dir %s --memory 0":    "--memory 0: a node has at least 1 MiB; leave --memory out for as much as the machine has",
		"up --wait 5 --dir /x":      "--wait does not take \"5\" (`stint up --help` tells its options)",
		"completion --shell=x bash": "there is no option \"--shell\"; did you mean --help? (`stint completion --help` tells its options)",
	} {
		a := app()
		var out strings.Builder
		a.Writer, a.ErrWriter = &out, &out
		args := flagsFirst(a.Commands, strings.Fields("stint "+strings.Replace(line, "%s", t.TempDir(), 1)))
		if got := text(a.RunContext(context.Background(), args)); got != want || out.Len() > 0 {
			t.Errorf("stint %s: %q, want %q\n%s", line, got, want, &out)
		}
	}
}

func TestExplain(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	spec := &events.JobSpec{Name: "big"}
	owner := &events.Owner{User: "alice"}
	array := &projections.Job{Id: 8, ArrayId: 8, Pending: events.WordsOf(1, 2, 3), Spec: spec, Owner: owner}
	for _, test := range []struct {
		a    *projections.AnswerWhy
		q    *projections.AskWhy
		want []string
	}{
		{&projections.AnswerWhy{Job: &projections.JobView{Job: array}}, &projections.AskWhy{Job: 8, Task: 2, HasTask: true},
			[]string{"Job 8_[1-3] (big of alice; of its tasks, 2 has not begun and waits with the others) is PENDING"}},
		{&projections.AnswerWhy{Job: &projections.JobView{Job: &projections.Job{Id: 9, ArrayId: 8, ArrayTask: 2, HasTask: true, Spec: spec, Owner: owner, State: events.JobState_RUNNING}}},
			&projections.AskWhy{Job: 8, Task: 2, HasTask: true}, []string{"Job 8_2 (big of alice) is RUNNING"}},
		{&projections.AnswerWhy{Job: &projections.JobView{
			Job: &projections.Job{Id: 7, Spec: spec, Owner: owner},
			Outcome: &projections.Outcome{Reason: events.Reason_RESOURCES, StartUs: now.Add(90 * time.Second).UnixMicro(), Nodes: "n1",
				Blockers: []*projections.Blocker{{Reason: events.Reason_RESOURCES, Text: "free CPUs", Have: 2, Need: 8}}},
		}, Ahead: []*projections.JobView{{Job: &projections.Job{Id: 5, Spec: spec, Owner: owner, Priority: 10}}}},
			nil, []string{"Job 7 (big of alice) is PENDING: Resources.", "free CPUs (2 of 8)", "(in 1m30s) on n1", "5 big of alice, priority 10"}},
		{&projections.AnswerWhy{AheadCount: 9, Job: &projections.JobView{Job: &projections.Job{Id: 7, Spec: spec, Owner: owner, Priority: 4}}, Ahead: []*projections.JobView{{Job: &projections.Job{Id: 5, Spec: spec, Owner: owner, Priority: 10}}},
			Explanation: &projections.Explanation{
				Partitions: []*projections.PartitionStanding{{Partition: "p", Nodes: []*projections.NodeStanding{{What: "out of service", Count: 1, Names: "n4"}, {What: "with too few CPUs free", Count: 2, Names: "n[1-2]", Text: "it needs 8"}}}},
				Remedies:   []*projections.Remedy{{Change: "scontrol update jobid=7 timelimit=0:10:00", Nodes: "n1"}},
			}},
			nil, []string{"Of the 3 nodes of partition p:\n  1 out of service: n4\n  2 with too few CPUs free (it needs 8): n[1-2]\n", "priority 10, which is 6 more\n  and 8 more\n",
				"Any of these would start it now:\n  scontrol update jobid=7 timelimit=0:10:00    (on n1)\n"}},
		{&projections.AnswerWhy{Job: &projections.JobView{Job: &projections.Job{Id: 7, Spec: spec, Owner: owner}}, Explanation: &projections.Explanation{StartsNow: "n2"}}, nil, []string{"The next pass starts it on n2."}},
		{&projections.AnswerWhy{Job: &projections.JobView{Job: &projections.Job{Id: 7, Spec: spec, Owner: owner}}, Explanation: &projections.Explanation{}}, nil, []string{"No one change of the job alone would start it now."}},
		{&projections.AnswerWhy{Job: &projections.JobView{Job: &projections.Job{Id: 7, Spec: spec, Owner: owner}}}, nil, []string{"No pass has looked at it yet."}},
		{&projections.AnswerWhy{Job: &projections.JobView{Job: &projections.Job{Id: 7, Spec: spec, Owner: owner, Reason: events.Reason_BEGIN_TIME, EligibleUs: now.Add(2 * time.Hour).UnixMicro()}}},
			nil, []string{"is PENDING: BeginTime.\nIt may not begin before " + now.Add(2*time.Hour).Format("2006-01-02T15:04:05") + " (in 2h0m0s).\n"}},
		{&projections.AnswerWhy{Job: &projections.JobView{Job: &projections.Job{Id: 7, Spec: spec, Owner: owner, State: events.JobState_FAILED, ExitCode: 3, Reason: events.Reason_NON_ZERO_EXIT_CODE}}},
			nil, []string{"is FAILED: NonZeroExitCode, exit code 3:0."}},
		{&projections.AnswerWhy{Job: &projections.JobView{Job: &projections.Job{Id: 7, Spec: spec, Owner: owner, State: events.JobState_FAILED, ExitSignal: 53,
			Reason: events.Reason_JOB_LAUNCH_FAILURE, Nodes: []*projections.RunNode{{Node: "n1"}, {Node: "n2", Text: "standard output: open /root/out: permission denied"}}}}},
			nil, []string{"is FAILED: JobLaunchFailure, exit code 0:53.", "  n2: standard output: open /root/out: permission denied"}},
	} {
		got := explain(test.a, test.q, now)
		for _, w := range test.want {
			if !strings.Contains(got, w) {
				t.Errorf("%q does not say %q", got, w)
			}
		}
	}
}
