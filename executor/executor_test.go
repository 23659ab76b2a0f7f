package executor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"stint/events"
	"stint/executor/supervisor"
)

func TestOneJob(t *testing.T) {
	c := newCluster(t, "n1")
	id := c.submit("echo hello from $SLURM_JOB_ID on $SLURMD_NODENAME; echo \"$MULTI\"; exit 3")
	j := c.ended(id)
	if j.State != events.JobState_FAILED || j.ExitCode != 3 || j.Nodes[0].StartedUs == 0 || os.Geteuid() == 0 && j.Usage.GetMaxRssKib() == 0 || j.Usage.GetMaxRssKib() > 8<<10 {
		t.Errorf("%v", j)
	}
	if out := c.output(fmt.Sprintf("slurm-%d.out", id)); out != fmt.Sprintf("hello from %d on n1\na\nb\n", id) {
		t.Errorf("%q", out)
	}
	// What was acknowledged is not told again.
	c.await("the supervisor has nothing left to tell", func() bool { return len(c.list("n1").GetExited()) == 0 })
	if v := c.voids(); v != "" {
		t.Errorf("void: %s", v)
	}
}

func (c *cluster) list(name string) *supervisor.Listed {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := supervisor.Dial(ctx, supervisor.SocketPath(c.nodes[name].state))
	if err != nil {
		return nil
	}
	defer s.Close()
	l, err := s.List(ctx)
	if err != nil {
		return nil
	}
	return l
}

func TestManyJobs(t *testing.T) {
	c := newCluster(t, "n1", "n2")
	var ids []uint32
	for i := range 60 {
		ids = append(ids, c.submit(fmt.Sprintf("echo $SLURM_JOB_ID >> ran; exit %d", i%7)))
	}
	for i, id := range ids {
		if j := c.ended(id); j.ExitCode != uint32(i%7) {
			t.Errorf("job %d ended with %d, want %d", id, j.ExitCode, i%7)
		}
	}
	if n := strings.Count(c.output("ran"), "\n"); n != len(ids) {
		t.Errorf("%d ran", n)
	}
	if v := c.voids(); v != "" {
		t.Errorf("void: %s", v)
	}
}

// An executor that is killed at any moment loses no end, starts nothing twice, and says nothing twice.
func TestExecutorKilled(t *testing.T) {
	c := newCluster(t, "n1")
	n := c.nodes["n1"]
	long := c.submit("echo r > ready; while [ ! -e go ]; do sleep 0.02; done; exit 9")
	c.line("ready")
	var ids []uint32
	for i := range 40 {
		ids = append(ids, c.submit(fmt.Sprintf("echo $SLURM_JOB_ID >> ran; exit %d", i%5)))
		if i%5 == 4 {
			n.stopExecutor()
			n.startExecutor()
		}
	}
	for i, id := range ids {
		if j := c.ended(id); j.ExitCode != uint32(i%5) || j.Run != 1 {
			t.Errorf("job %d ended as %v", id, j)
		}
	}
	n.stopExecutor()
	if err := os.WriteFile(filepath.Join(c.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.await("the long job has ended unseen", func() bool { return len(c.list("n1").GetExited()) == 1 })
	n.startExecutor()
	if j := c.ended(long); j.ExitCode != 9 {
		t.Errorf("%v", j)
	}
	ran := map[string]int{}
	for f := range strings.FieldsSeq(c.output("ran")) {
		ran[f]++
	}
	for _, id := range ids {
		if ran[strconv.Itoa(int(id))] != 1 {
			t.Errorf("job %d ran %d times", id, ran[strconv.Itoa(int(id))])
		}
	}
	if v := c.voids(); v != "" {
		t.Errorf("void: %s", v)
	}
}

// While the log is away jobs go on and end; all of it is told, once, when it is back.
func TestLogAway(t *testing.T) {
	c := newCluster(t, "n1")
	id := c.submit("echo r > ready; while [ ! -e go ]; do sleep 0.02; done; exit 4")
	c.line("ready")
	c.running(id)
	c.away.Store(true)
	c.deaf.Store(true)
	if err := os.WriteFile(filepath.Join(c.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.await("it ends meanwhile", func() bool { return len(c.list("n1").GetExited()) == 1 })
	c.away.Store(false)
	c.deaf.Store(false)
	if j := c.ended(id); j.ExitCode != 4 {
		t.Errorf("%v", j)
	}
	if v := c.voids(); v != "" {
		t.Errorf("void: %s", v)
	}
}

func TestSupervisorKilled(t *testing.T) {
	c := newCluster(t, "n1")
	n := c.nodes["n1"]
	id := c.submit("echo $$ > pid; while [ ! -e go ]; do sleep 0.02; done; exit 4")
	c.line("pid")
	c.running(id)
	n.killSupervisor()
	n.startSupervisor()
	next := c.submit("exit 6")
	if j := c.ended(next); j.ExitCode != 6 {
		t.Errorf("%v", j)
	}
	if err := os.WriteFile(filepath.Join(c.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if j := c.ended(id); !(j.ExitCode == 4 && j.State == events.JobState_FAILED || j.Reason == events.Reason_STATUS_LOST) {
		t.Errorf("%v", j)
	}
}

// An executor of a new version makes the supervisor one too, under the steps that run.
func TestSupervisorIsUpgraded(t *testing.T) {
	c := newCluster(t, "n1")
	n := c.nodes["n1"]
	id := c.submit("echo r > ready; while [ ! -e go ]; do sleep 0.02; done; exit 4")
	c.line("ready")
	c.running(id)
	first, err := supervisor.Dial(context.Background(), supervisor.SocketPath(n.state))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	n.stopExecutor()
	n.conf.Version = "new"
	n.startExecutor()
	select {
	case <-first.Lost(): // by the exec
	case <-time.After(20 * time.Second):
		t.Fatal("the supervisor did not become the new program")
	}
	c.await("it is there again, with the step", func() bool {
		l := c.list("n1")
		return l != nil && len(l.Running) == 1 && !l.Running[0].Adopted && int(l.Pid) == n.sup.Process.Pid
	})
	if err := os.WriteFile(filepath.Join(c.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if j := c.ended(id); j.ExitCode != 4 || j.EndCause != events.EndCause_EXITED {
		t.Errorf("%v", j)
	}
}

func TestCancelAndLimits(t *testing.T) {
	c := newCluster(t, "n1")
	uid := uint32(os.Geteuid())
	id := c.submit("echo r > ready; sleep 1000")
	c.line("ready")
	c.wish(uid, events.Verb_CANCEL, &events.Cancel{Targets: []*events.Target{{Job: id}}})
	j := c.ended(id)
	if j.State != events.JobState_CANCELLED || j.Nodes[0].Cause != events.EndCause_STOPPED {
		t.Errorf("%v", j)
	}
	if out := c.output(fmt.Sprintf("slurm-%d.out", id)); !strings.Contains(out, fmt.Sprintf("*** JOB %d ON n1 CANCELLED AT ", id)) {
		t.Errorf("the user was told %q", out)
	}
	// The node holds the limit itself; nobody needs to be there.
	limited := c.submit("echo r > ready2; sleep 1000", func(s *events.JobSpec) { s.TimeLimitS = 1 })
	c.line("ready2")
	if j := c.ended(limited); j.State != events.JobState_TIMEOUT {
		t.Errorf("%v", j)
	}
	if out := c.output(fmt.Sprintf("slurm-%d.out", limited)); !strings.Contains(out, "DUE TO TIME LIMIT") {
		t.Errorf("the user was told %q", out)
	}
}

func TestSignalsAreDeliveredOnce(t *testing.T) {
	c := newCluster(t, "n1")
	n := c.nodes["n1"]
	id := c.submit("trap 'echo hit >> hits' USR1; echo r > ready; while [ ! -e go ]; do sleep 0.02; done")
	c.line("ready")
	c.wish(uint32(os.Geteuid()), events.Verb_CANCEL, &events.Cancel{Targets: []*events.Target{{Job: id}}, Signal: int32(syscall.SIGUSR1), BatchOnly: true})
	c.line("hits")
	n.stopExecutor()
	n.startExecutor()
	if err := os.WriteFile(filepath.Join(c.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.ended(id)
	if got := c.output("hits"); got != "hit\n" {
		t.Errorf("%q", got)
	}
}

// A job on two nodes has its script on the first; the other one is held as long, and let go.
func TestTwoNodes(t *testing.T) {
	c := newCluster(t, "n1", "n2")
	id := c.submit("echo $SLURM_JOB_NODELIST $SLURM_NNODES $SLURM_TASKS_PER_NODE; exit 2", func(s *events.JobSpec) { s.MinNodes, s.MaxNodes = 2, 2 })
	j := c.ended(id)
	if j.ExitCode != 2 || len(j.Nodes) != 2 || j.Nodes[1].StartedUs == 0 || j.Nodes[1].ExitedUs == 0 || j.Nodes[1].ExitCode != 0 {
		t.Errorf("%v", j)
	}
	if out := c.output(fmt.Sprintf("slurm-%d.out", id)); out != "n[1-2] 2 1(x2)\n" {
		t.Errorf("%q", out)
	}
	held := c.submit("sleep 1000", func(s *events.JobSpec) { s.MinNodes, s.MaxNodes = 2, 2 })
	c.await("both nodes have begun", func() bool {
		j := c.state.Job(held)
		return j != nil && len(j.Nodes) == 2 && j.Nodes[0].StartedUs != 0 && j.Nodes[1].StartedUs != 0
	})
	c.nodes["n2"].stopExecutor()
	c.nodes["n2"].startExecutor()
	c.wish(uint32(os.Geteuid()), events.Verb_CANCEL, &events.Cancel{Targets: []*events.Target{{Job: held}}})
	if j := c.ended(held); j.State != events.JobState_CANCELLED {
		t.Errorf("%v", j)
	}
	if v := c.voids(); v != "" {
		t.Errorf("void: %s", v)
	}
}

func TestLaunchFailureIsTheJobsEnd(t *testing.T) {
	c := newCluster(t, "n1")
	for name, change := range map[string]func(*events.JobSpec){
		"output":  func(s *events.JobSpec) { s.StdOut = "no/such/folder/out" },
		"missing": func(s *events.JobSpec) { s.Script.Subject = events.SubjectBlob(0, "gone") },
		"hash":    func(s *events.JobSpec) { s.Script.Sha256 = make([]byte, 32) },
	} {
		j := c.ended(c.submit("exit 0", change))
		if j.State != events.JobState_FAILED || j.Reason != events.Reason_JOB_LAUNCH_FAILURE || j.ExitSignal != 53 || j.Nodes[0].Text == "" {
			t.Errorf("%s: %v", name, j)
		}
	}
}

func TestGPUs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes device files and control groups")
	}
	c := newCluster(t, "n1")
	probe := "for f in " + DevicesDir(c.nodes["n1"].state) + "/0/gpu?; do (: < $f) 2>/dev/null && echo -n \"${f##*/} \"; done"
	id := c.submit("echo $CUDA_VISIBLE_DEVICES $SLURM_JOB_GPUS $SLURM_GPUS_ON_NODE; "+probe, func(s *events.JobSpec) {
		s.Gres = []*events.Gres{{Name: "gpu", Type: "a100", Count: 2}}
	})
	none := c.submit("echo \"<$CUDA_VISIBLE_DEVICES>\"; " + probe)
	if j := c.ended(id); j.ExitCode > 1 {
		t.Errorf("%v", j)
	}
	c.ended(none)
	if out := c.output(fmt.Sprintf("slurm-%d.out", id)); out != "0,1 0,1 2\ngpu0 gpu1 " {
		t.Errorf("%q", out)
	}
	if out := c.output(fmt.Sprintf("slurm-%d.out", none)); out != "<>\n" {
		t.Errorf("%q", out)
	}
}

// Of two executors for one node the one that came up last is heard, and the other one ends.
func TestSecondExecutorTakesOver(t *testing.T) {
	c := newCluster(t, "n1")
	n := c.nodes["n1"]
	ctx, cancel := context.WithCancel(context.Background())
	second := make(chan error, 1)
	go func() { second <- Run(ctx, n.conf) }()
	old := n.done
	c.await("the first one is over", func() bool {
		select {
		case err := <-old:
			if err == nil || !strings.Contains(err.Error(), "another executor") {
				t.Errorf("ended with %v", err)
			}
			return true
		default:
			// It notices when it has something to say.
			go c.submit("exit 0")
			time.Sleep(100 * time.Millisecond)
			return false
		}
	})
	cancel()
	<-second
	n.startExecutor()
}

// A run that the log knows no more is ended.
func TestVoidRunIsEnded(t *testing.T) {
	c := newCluster(t, "n1")
	ctx := context.Background()
	s, err := supervisor.Dial(ctx, supervisor.SocketPath(c.nodes["n1"].state))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := &supervisor.Launch{Key: &supervisor.Key{Job: 77, Run: 1, Step: supervisor.StepBatch}, Node: "n1", Script: []byte("#!/bin/sh\nsleep 1000\n"),
		Env: [][]byte{[]byte("PATH=/bin:/usr/bin")}, Cwd: []byte(c.dir), Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid())}
	a, err := s.Launch(ctx, l)
	if err != nil || a.Failure != supervisor.Failure_NO_FAILURE {
		t.Fatal(a, err)
	}
	c.await("it is ended", func() bool {
		l := c.list("n1")
		return l != nil && len(l.Running) == 0 && len(l.Exited) == 0
	})
}

// What the log has given up may still live on a node that was cut off, and have what the log has given to another job since: that
// one begins when it is gone.
func TestAJobWaitsForWhatTheLogHasGivenUp(t *testing.T) {
	c := newCluster(t, "n1")
	ctx := context.Background()
	s, err := supervisor.Dial(ctx, supervisor.SocketPath(c.nodes["n1"].state))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pid := filepath.Join(c.dir, "pid")
	l := &supervisor.Launch{Key: &supervisor.Key{Job: 77, Run: 1, Step: supervisor.StepBatch}, Node: "n1", Script: fmt.Appendf(nil, "#!/bin/sh\ntrap '' TERM\necho $$ > %s.new; mv %s.new %s\nwhile :; do sleep 0.1; done\n", pid, pid, pid),
		Env: [][]byte{[]byte("PATH=/bin:/usr/bin")}, Cwd: []byte(c.dir), Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid())}
	a, err := s.Launch(ctx, l)
	if err != nil || a.Failure != supervisor.Failure_NO_FAILURE {
		t.Fatal(a, err)
	}
	c.await("it runs", func() bool { _, err := os.Stat(pid); return err == nil })
	j := c.ended(c.submit(fmt.Sprintf("kill -0 $(cat %s) 2>/dev/null && exit 7; exit 0", pid)))
	if j.State != events.JobState_COMPLETED {
		t.Errorf("it began while the other lived: %s %d", j.State.Word(), j.ExitCode)
	}
}

// A node that is cut off ends what may run elsewhere before it is taken for lost, if the site says so, and nothing else.
func TestSelfFence(t *testing.T) {
	c := newCluster(t, "n1")
	c.config.SelfFence, c.config.NodeTimeoutS, c.config.KillWaitS = true, 4, 1
	c.wish(0, events.Verb_CONFIGURE, c.config)
	may := c.submit("echo $$ > may; sleep 1000", func(s *events.JobSpec) { s.Requeue = events.Choice_CHOICE_YES })
	not := c.submit("echo $$ > not; while [ ! -e go ]; do sleep 0.02; done", func(s *events.JobSpec) { s.Requeue = events.Choice_CHOICE_NO })
	c.line("may")
	c.line("not")
	c.running(may)
	c.running(not)
	c.deaf.Store(true)
	since := time.Now()
	c.await("the one that may run elsewhere is ended", func() bool { return len(c.list("n1").GetExited()) == 1 })
	if d := time.Since(since); d < 2*time.Second-200*time.Millisecond {
		t.Errorf("it was ended after %s", d)
	}
	if l := c.list("n1"); len(l.Running) != 1 || l.Running[0].Started.Key.Job != uint64(not) || l.Running[0].Cause != supervisor.Cause_NOBODY {
		t.Errorf("left: %v", l.Running)
	}
	c.deaf.Store(false)
	if err := os.WriteFile(filepath.Join(c.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if j := c.ended(not); j.State != events.JobState_COMPLETED {
		t.Errorf("%v", j)
	}
	c.wish(uint32(os.Geteuid()), events.Verb_CANCEL, &events.Cancel{Targets: []*events.Target{{Job: may}}})
}

func TestUsageIsPublished(t *testing.T) {
	c := newCluster(t, "n1")
	id := c.submit("echo r > ready; while [ ! -e go ]; do sleep 0.02; done")
	c.line("ready")
	c.await("samples of the job are there", func() bool {
		m, err := c.admin.Usage().Last(context.Background(), events.SubjectUsage("n1"))
		if err != nil {
			return false
		}
		s := &events.UsageSample{}
		if err := s.UnmarshalVT(m.Data); err != nil {
			t.Fatal(err)
		}
		return len(s.Steps) == 1 && s.Steps[0].Job == id && s.Steps[0].RssKib > 0
	})
	if err := os.WriteFile(filepath.Join(c.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if j := c.ended(id); j.Usage.GetSamples() == 0 || j.Usage.GetSumRssKib() == 0 {
		t.Errorf("%v", j.Usage)
	}
}
