package supervisor

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
)

func (r *rig) pid(file string) int {
	r.t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(r.lineOf(file)))
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// Nothing of a step outlives it: not what runs in the background, nor what has left the session or its parents.
func TestNothingOutlivesAStep(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"background", "sleep 1000 & echo $! > pid"},
		{"nohup", "nohup sleep 1000 > /dev/null 2>&1 & echo $! > pid"},
		{"new session", "setsid sh -c 'echo $$ > pid; exec sleep 1000' & while [ ! -s pid ]; do sleep 0.01; done"},
		{"double fork", "(setsid sh -c 'sh -c \"echo \\$\\$ > pid; exec sleep 1000\" &' &); while [ ! -s pid ]; do sleep 0.01; done"},
		{"ignores signals", "(trap '' TERM HUP INT; echo $BASHPID > pid; while :; do sleep 1000; done) & while [ ! -s pid ]; do sleep 0.01; done"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			x, _ := r.run(r.script(c.script + "; exit 3"))
			if x.Code != 3 || x.LeftOver != 0 {
				t.Errorf("ended as %v", x)
			}
			if pid := r.pid("pid"); lives(pid) {
				t.Errorf("process %d is still there", pid)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}
}

func TestTimeLimit(t *testing.T) {
	r := newRig(t)
	l := r.script("sleep 1000", func(l *Launch) { l.TimeLimitMs, l.KillWaitMs = 200, 60_000 })
	begin := time.Now()
	x, out := r.run(l)
	if x.Cause != Cause_TIME_LIMIT || x.Signal != int32(syscall.SIGTERM) || time.Since(begin) < 200*time.Millisecond {
		t.Errorf("ended after %s as %v", time.Since(begin), x)
	}
	if !strings.Contains(out, "*** JOB "+strconv.FormatUint(l.Key.Job, 10)+" ON n1 CANCELLED AT ") || !strings.Contains(out, "DUE TO TIME LIMIT ***\n") {
		t.Errorf("the user was told %q", out)
	}

	// One that will not hear is killed when the kill wait is over.
	l = r.script("trap '' TERM; while :; do sleep 0.01; done", func(l *Launch) { l.TimeLimitMs, l.KillWaitMs = 100, 300 })
	begin = time.Now()
	if x, _ = r.run(l); x.Cause != Cause_TIME_LIMIT || x.Signal != int32(syscall.SIGKILL) || time.Since(begin) < 400*time.Millisecond {
		t.Errorf("ended after %s as %v", time.Since(begin), x)
	}

	// One that cleans up has its own exit code, and the cause is known all the same.
	l = r.script("trap 'echo bye; exit 9' TERM; while :; do sleep 0.01; done", func(l *Launch) { l.TimeLimitMs, l.KillWaitMs = 100, 60_000 })
	if x, out = r.run(l); x.Cause != Cause_TIME_LIMIT || x.Code != 9 || !strings.HasSuffix(out, "bye\n") {
		t.Errorf("ended as %v with %q", x, out)
	}

	// One that is over in time is not blamed.
	if x, _ = r.run(r.script("exit 0", func(l *Launch) { l.TimeLimitMs = 60_000 })); x.Cause != Cause_NOBODY {
		t.Errorf("ended as %v", x)
	}
}

func TestLimitMoves(t *testing.T) {
	r := newRig(t)
	ctx := context.Background()
	l := r.script("sleep 0.5; exit 2", func(l *Launch) { l.TimeLimitMs = 300 })
	r.launch(l)
	if n, err := r.client.SetLimit(ctx, &SetLimit{Job: l.Key.Job, LeftMs: 60_000}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if x := r.exit(l.Key); x.Code != 2 || x.Cause != Cause_NOBODY {
		t.Errorf("later: %v", x)
	}
	l = r.script("sleep 1000", func(l *Launch) { l.TimeLimitMs = 3600_000 })
	r.launch(l)
	if n, err := r.client.SetLimit(ctx, &SetLimit{Job: l.Key.Job, LeftMs: -1}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if x := r.exit(l.Key); x.Cause != Cause_TIME_LIMIT {
		t.Errorf("now: %v", x)
	}
}

// --signal=B:USR1@… goes to the batch shell alone, once, ahead of the limit.
func TestWarnSignal(t *testing.T) {
	r := newRig(t)
	l := r.script("trap 'echo warned' USR1; trap 'exit 8' TERM; while :; do sleep 0.01; done", func(l *Launch) {
		l.TimeLimitMs, l.KillWaitMs = 600, 60_000
		l.Warn = &Warn{Signal: int32(syscall.SIGUSR1), BeforeMs: 400, Which: Which_BATCH_SHELL}
	})
	x, out := r.run(l)
	if x.Code != 8 || strings.Count(out, "warned\n") != 1 {
		t.Errorf("%v, %q", x, out)
	}
}

func TestTerminateReachesAStoppedTree(t *testing.T) {
	r := newRig(t)
	l := r.script("sleep 1000 & echo $! > child; kill -STOP $$; wait")
	s := r.launch(l)
	r.lineOf("child")
	r.await("the shell is stopped", func() bool { p, err := readStat(int(s.Pid)); return err == nil && p.state == 'T' })
	if n, err := r.client.Terminate(context.Background(), &Terminate{Job: l.Key.Job, Cause: Cause_CANCELLED, KillWaitMs: 60_000}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	x := r.exit(l.Key)
	if x.Cause != Cause_CANCELLED || x.Signal != int32(syscall.SIGTERM) {
		t.Errorf("%v", x)
	}
	if out := r.output(l); !strings.Contains(out, " CANCELLED AT ") || strings.Contains(out, "DUE TO") {
		t.Errorf("the user was told %q", out)
	}
	if lives(r.pid("child")) {
		t.Error("its child is still there")
	}
}

func TestSignalWhich(t *testing.T) {
	r := newRig(t)
	ctx := context.Background()
	// The shell notes each signal it gets; so does its child.
	body := func(name string) string {
		return "trap 'echo shell >> " + name + "' USR1; (trap 'echo child >> " + name + "' USR1; echo r > " + name + ".c; while :; do sleep 0.01; done) & echo r > " + name + ".s; while :; do sleep 0.01; done"
	}
	batch := r.script(body("b"))
	one := r.script(body("s"), func(l *Launch) { l.Key = &Key{Job: batch.Key.Job, Step: 0}; l.Stdout.Path = []byte("step-out") })
	r.launch(batch)
	r.launch(one)
	for _, f := range []string{"b.c", "b.s", "s.c", "s.s"} {
		r.lineOf(f)
	}
	count := func(name, who string) int {
		b, _ := os.ReadFile(filepath.Join(r.dir, name))
		return strings.Count(string(b), who)
	}
	state := func() [4]int {
		return [4]int{count("b", "shell"), count("b", "child"), count("s", "shell"), count("s", "child")}
	}
	want := [4]int{}
	for _, c := range []struct {
		which Which
		hits  [4]int
	}{
		{Which_BATCH_SHELL, [4]int{1, 0, 0, 0}},
		{Which_STEPS_ONLY, [4]int{0, 0, 1, 1}},
		{Which_ALL_PROCESSES, [4]int{1, 1, 1, 1}},
	} {
		if _, err := r.client.Signal(ctx, &Signal{Job: batch.Key.Job, Signal: int32(syscall.SIGUSR1), Which: c.which}); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			want[i] += c.hits[i]
		}
		r.await(c.which.String()+" reached whom it should, and no others", func() bool { return state() == want })
	}
	if _, err := r.client.Terminate(ctx, &Terminate{Job: batch.Key.Job, Cause: Cause_CANCELLED}); err != nil {
		t.Fatal(err)
	}
	r.exit(batch.Key)
}

// A numbered order to signal is carried out once, whoever repeats it, and after a kill too.
func TestNumberedSignals(t *testing.T) {
	r := newRig(t)
	ctx := context.Background()
	l := r.script("trap 'echo hit >> hits' USR1; echo r > ready; while :; do sleep 0.01; done")
	r.launch(l)
	r.lineOf("ready")
	send := func(number uint32) int {
		n, err := r.client.Signal(ctx, &Signal{Job: l.Key.Job, Signal: int32(syscall.SIGUSR1), Which: Which_BATCH_SHELL, Number: number})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, c := range []struct {
		number uint32
		want   int
	}{{1, 1}, {1, 0}, {2, 1}, {1, 0}} {
		if n := send(c.number); n != c.want {
			t.Errorf("order %d reached %d, want %d", c.number, n, c.want)
		}
	}
	r.kill()
	r.start()
	if n := send(2); n != 0 {
		t.Errorf("order 2 was carried out again after a kill")
	}
	if n := send(3); n != 1 {
		t.Errorf("order 3 was not carried out")
	}
}

func TestSuspendStopsTheClock(t *testing.T) {
	r := newRig(t)
	ctx := context.Background()
	l := r.script("while :; do echo x >> beat; sleep 0.01; done", func(l *Launch) { l.TimeLimitMs = 500 })
	s := r.launch(l)
	r.lineOf("beat")
	if n, err := r.client.Suspend(ctx, &Suspend{Job: l.Key.Job}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	r.await("it is stopped", func() bool { p, err := readStat(int(s.Pid)); return err == nil && p.state == 'T' })
	time.Sleep(700 * time.Millisecond) // what is tested is that nothing happens meanwhile
	list, err := r.client.List(ctx)
	if err != nil || len(list.Running) != 1 || !list.Running[0].Suspended || list.Running[0].LimitLeftMs <= 0 {
		t.Fatalf("%v %v", list, err)
	}
	if n, err := r.client.Suspend(ctx, &Suspend{Job: l.Key.Job, Resume: true}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if x := r.exit(l.Key); x.Cause != Cause_TIME_LIMIT || x.ElapsedNs < int64(1100*time.Millisecond) {
		t.Errorf("%v", x)
	}
}

func TestUsage(t *testing.T) {
	r := newRig(t, func(r *rig) { r.conf.SampleEvery = 20 * time.Millisecond })
	l := r.script("awk 'BEGIN { s = sprintf(\"%30000000s\", \"x\"); for (i = 0; i < 3000000; i++) n += length(s) > 5; while (getline < \"go\" <= 0) system(\"sleep 0.02\") }'")
	r.launch(l)
	r.next("a sample with memory", func(e Event) bool {
		return e.Sample != nil && e.Sample.Usage.RssBytes > 30e6 && e.Sample.Usage.ProcessesPeak >= 2
	})
	if err := os.WriteFile(filepath.Join(r.dir, "go"), []byte("\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	x := r.exit(l.Key)
	u := x.Usage
	if x.Code != 0 || u.RssPeakBytes < 30e6 || u.UserNs < 20e6 || u.VmPeakBytes < u.RssPeakBytes || u.Samples == 0 || u.RssBytes == 0 {
		t.Errorf("%v", x)
	}
}

// A step that is seen to have more memory than it may is ended, and its user reads why in words that tools look for (slurm.conf(5),
// OverMemoryKill). Of a numbered step the main process, which keeps the tasks, is spared.
func TestTooMuchMemory(t *testing.T) {
	r := newRig(t, func(r *rig) { r.conf.SampleEvery = 20 * time.Millisecond })
	l := r.script("awk 'BEGIN { s = sprintf(\"%60000000s\", \"x\"); system(\"sleep 1000\") }'")
	l.Watching = &Watching{MemoryBytes: 20 << 20}
	r.launch(l)
	x := r.exit(l.Key)
	if x.Cause != Cause_MEMORY || x.Signal != 9 || x.Usage.RssPeakBytes <= 20<<20 {
		t.Errorf("%v", x)
	}
	text, err := os.ReadFile(filepath.Join(r.dir, string(l.Stdout.Path)))
	for _, want := range []string{fmt.Sprintf("StepId=%d.batch exceeded memory limit (", l.Key.Job), " > 20971520), being killed\n", ": error: Exceeded job memory limit\n", "CANCELLED AT"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in %q, %v", want, text, err)
		}
	}
	keeper := r.script("awk 'BEGIN { s = sprintf(\"%60000000s\", \"x\"); system(\"sleep 1000\") }' & wait $!; echo its task ended with $?; exit 7")
	keeper.Key.Step, keeper.Watching, keeper.KillWaitMs = 0, &Watching{MemoryBytes: 20 << 20}, 10_000
	r.launch(keeper)
	if x := r.exit(keeper.Key); x.Cause != Cause_MEMORY || x.Code != 7 {
		t.Errorf("%v", x)
	}
	// What it is to say to the user it hears by a pipe that it has made of its standard error.
	hears := r.script("mkfifo " + filepath.Join(r.dir, "ear") + "; exec 2<>" + filepath.Join(r.dir, "ear") + "; awk 'BEGIN { s = sprintf(\"%60000000s\", \"x\"); system(\"sleep 1000\") }' & wait $!; while read -r a <&2; do echo \"$a\"; case $a in *CANCELLED*) exit 7; esac; done")
	hears.Key.Step, hears.Keeper, hears.Watching, hears.KillWaitMs = 0, true, &Watching{MemoryBytes: 20 << 20}, 10_000
	r.launch(hears)
	if x := r.exit(hears.Key); x.Cause != Cause_MEMORY || x.Code != 7 {
		t.Errorf("%v", x)
	}
	if out := r.output(hears); !strings.Contains(out, fmt.Sprintf("StepId=%d.0 exceeded memory limit (", hears.Key.Job)) || !strings.Contains(out, fmt.Sprintf("*** STEP %d.0 ON n1 CANCELLED AT ", hears.Key.Job)) {
		t.Errorf("it hears %q", out)
	}
	never := r.script("sleep 0.3")
	never.Watching = &Watching{EveryMs: -1}
	r.launch(never)
	if x := r.exit(never.Key); x.Usage.Samples != 0 {
		t.Errorf("it was looked at: %v", x)
	}
}

// A step's memory is its own: the supervisor's, which the kernel counts to a child that has not come to its exec, is not in it.
func TestMemoryIsTheStepsOwn(t *testing.T) {
	r := newRig(t)
	x, _ := r.run(r.script("exit 0"))
	if x.Usage.RssPeakBytes > 8<<20 {
		t.Errorf("an empty script had %d bytes", x.Usage.RssPeakBytes)
	}
	x, _ = r.run(r.script("awk 'BEGIN { s = sprintf(\"%200000000s\", \"x\") }'"))
	if x.Usage.RssPeakBytes < 190e6 {
		t.Errorf("a script of 200 MB had %d bytes", x.Usage.RssPeakBytes)
	}
}

func TestStop(t *testing.T) {
	r := newRig(t)
	ctx := context.Background()
	l := r.script("sleep 1000")
	s := r.launch(l)
	if err := r.client.Stop(ctx, StopMode_REFUSE_IF_BUSY); err == nil || !strings.Contains(err.Error(), "1 steps run on node n1") {
		t.Errorf("%v", err)
	}
	if err := r.client.Stop(ctx, StopMode_KEEP_STEPS); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if !lives(int(s.Pid)) {
		t.Fatal("the step did not go on")
	}
	r.start()
	if err := r.client.Stop(ctx, StopMode_KILL_STEPS); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if lives(int(s.Pid)) {
		t.Error("the step went on")
	}
	r.start()
	if x := r.exit(l.Key); x.Cause != Cause_DOWN {
		t.Errorf("%v", x)
	}
}

// An orderly stop loses no status, however many steps end just then.
func TestStopLosesNoStatus(t *testing.T) {
	r := newRig(t)
	ctx := context.Background()
	for range 3 {
		var all []*Launch
		pids := map[*Launch]int{}
		for range 20 {
			l := r.script("while [ ! -e go ]; do sleep 0.01; done; exit 7")
			pids[l] = int(r.launch(l).Pid)
			all = append(all, l)
		}
		if err := os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		r.exit(all[0].Key) // about now
		if err := r.client.Stop(ctx, StopMode_KEEP_STEPS); err != nil {
			t.Fatal(err)
		}
		overBefore := map[*Launch]bool{}
		for l, pid := range pids {
			overBefore[l] = !lives(pid)
		}
		if err := r.cmd.Wait(); err != nil {
			t.Error(err)
		}
		r.start()
		lost := 0
		for _, l := range all {
			if x := r.exit(l.Key); x.End == End_LOST_STATUS && !overBefore[l] {
				lost++ // it ended while nobody was there
			} else if x.End != End_EXITED || x.Code != 7 {
				t.Errorf("%v", x)
			}
			if err := r.client.Acknowledge(ctx, l.Key); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%d ended while nobody was there", lost)
		if err := os.Remove(filepath.Join(r.dir, "go")); err != nil {
			t.Fatal(err)
		}
	}
}
