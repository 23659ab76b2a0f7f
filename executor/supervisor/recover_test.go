package supervisor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pipe makes a pipe that a step waits on, and returns what lets it go on.
func (r *rig) gate(name string) func() {
	r.t.Helper()
	p := filepath.Join(r.dir, name)
	if err := unix.Mkfifo(p, 0o666); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Chmod(p, 0o666); err != nil {
		r.t.Fatal(err)
	}
	return func() {
		if err := os.WriteFile(p, []byte("\n"), 0); err != nil {
			r.t.Fatal(err)
		}
	}
}

// A client that is killed disturbs nothing, and one that comes later learns what it missed.
func TestExitsWaitForTheClient(t *testing.T) {
	r := newRig(t)
	open := r.gate("go")
	l := r.script("read x < go; exit 6")
	r.launch(l)
	r.client.Close()
	open()
	r.connect()
	if x := r.exit(l.Key); x.Code != 6 {
		t.Fatalf("%v", x)
	}
	r.client.Close()
	r.connect()
	if x := r.exit(l.Key); x.Code != 6 {
		t.Fatalf("told again: %v", x)
	}
	if err := r.client.Acknowledge(context.Background(), l.Key); err != nil {
		t.Fatal(err)
	}
	r.client.Close()
	r.connect()
	r.next("end of the backlog without it", func(e Event) bool {
		if e.Exited != nil {
			t.Errorf("told after it was acknowledged: %v", e.Exited)
		}
		return e.Caught
	})
}

// The supervisor becomes a new program under running steps; their exit codes still arrive exactly.
func TestUpgradeInPlace(t *testing.T) {
	r := newRig(t)
	ctx := context.Background()
	open := r.gate("go")
	var keys []*Key
	for code := range 20 {
		l := r.script(fmt.Sprintf("read x < go%d; exit %d", code, code+1))
		open := r.gate(fmt.Sprintf("go%d", code))
		r.launch(l)
		keys = append(keys, l.Key)
		defer func() { _ = open }()
	}
	limited := r.script("echo before; read x < go; echo after; sleep 1000", func(l *Launch) { l.TimeLimitMs, l.KillWaitMs = 2000, 60_000 })
	r.launch(limited)
	before, err := r.client.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// The new program, by its configuration, is the same one; that it is new is seen by the lost connection.
	for range 3 {
		if err := r.client.Upgrade(ctx, ""); err != nil {
			t.Fatal(err)
		}
		select {
		case <-r.client.Lost():
		case <-time.After(20 * time.Second):
			t.Fatal("the connection was not lost")
		}
		r.connect()
	}
	after, err := r.client.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if after.Pid != before.Pid || len(after.Running) != 21 {
		t.Errorf("process %d became %d, with %d steps", before.Pid, after.Pid, len(after.Running))
	}
	for _, x := range after.Running {
		if x.Adopted {
			t.Errorf("%v is not our child any more", x)
		}
	}
	for code, k := range keys {
		if err := os.WriteFile(filepath.Join(r.dir, fmt.Sprintf("go%d", code)), []byte("\n"), 0); err != nil {
			t.Fatal(err)
		}
		if x := r.exit(k); x.End != End_EXITED || int(x.Code) != code+1 {
			t.Errorf("step %d ended as %v", code, x)
		}
	}
	open()
	x := r.exit(limited.Key)
	if x.Cause != Cause_TIME_LIMIT || x.ElapsedNs < 2e9 {
		t.Errorf("the time limit did not come along: %v", x)
	}
	if out := r.output(limited); len(out) < len("before\nafter\n")+20 || out[:13] != "before\nafter\n" {
		t.Errorf("the notice does not follow the output: %q", out)
	}
	if l := r.script("exit 4"); true {
		if x, _ := r.run(l); x.Code != 4 {
			t.Errorf("launched after the upgrade: %v", x)
		}
	}
}

func TestUpgradeRefusesWhatIsNoProgram(t *testing.T) {
	r := newRig(t)
	text := filepath.Join(r.dir, "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := r.client.Upgrade(context.Background(), text); err == nil {
		t.Error("a script was taken for a program")
	}
	if x, _ := r.run(r.script("exit 4")); x.Code != 4 {
		t.Errorf("%v", x)
	}
}

// orphans makes this process the parent of those who lose theirs, so that a test decides when they are reaped. The
// function it returns reaps one, when it is over.
func (r *rig) orphans() (reap func(pid int)) {
	r.t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
	return func(pid int) {
		var ws syscall.WaitStatus
		for {
			if _, err := syscall.Wait4(pid, &ws, 0, nil); err != syscall.EINTR {
				return
			}
		}
	}
}

// gone waits for the end of an orphan.
func (r *rig) gone(reap func(pid int), pid int) {
	r.t.Helper()
	over := make(chan struct{})
	go func() { reap(pid); close(over) }()
	select {
	case <-over:
	case <-time.After(patience):
		r.t.Errorf("process %d is still there", pid)
	}
}

// After a kill, steps that still run are found, watched, limited and ended; kernels from 6.15 on even tell how they
// ended.
func TestKilledSupervisorFindsItsSteps(t *testing.T) {
	r := newRig(t)
	reap := r.orphans()
	ctx := context.Background()
	open := r.gate("go")
	runs := r.script("read x < go; exit 7")
	ends := r.script("echo $$ > ends; read x < go2; exit 8")
	dead := r.script("echo $$ > dead; read x < go3; exit 9")
	hangs := r.script("trap '' TERM; echo r > hangs; while :; do sleep 0.01; done", func(l *Launch) { l.TimeLimitMs, l.KillWaitMs = 1500, 200 })
	stays := r.script("echo r > stays; sleep 1000")
	open2, open3 := r.gate("go2"), r.gate("go3")
	var started []*Started
	for _, l := range []*Launch{runs, ends, hangs, stays, dead} {
		started = append(started, r.launch(l))
	}
	for _, f := range []string{"ends", "hangs", "stays", "dead"} {
		r.lineOf(f)
	}
	r.kill()
	open2()
	open3()
	reap(int(started[1].Pid))
	r.await("a step ends and is not reaped", func() bool { return !lives(int(started[4].Pid)) })
	r.start()

	x := r.exit(ends.Key)
	if x.End != End_LOST_STATUS || x.Detail == "" {
		t.Errorf("a status that nobody saw: %v", x)
	}
	if x = r.exit(dead.Key); x.End != End_EXITED || x.Code != 9 {
		t.Errorf("a status that nobody had taken: %v", x)
	}
	list, err := r.client.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list.Running {
		if !v.Adopted {
			t.Errorf("%v should be adopted", v)
		}
	}
	go reap(int(started[0].Pid))
	open()
	x = r.exit(runs.Key)
	if x.End == End_EXITED && x.Code != 7 || x.End != End_EXITED && (x.End != End_LOST_STATUS || kernelTellsExits(t)) {
		t.Errorf("ended as %v", x)
	}
	x = r.exit(hangs.Key)
	if x.Cause != Cause_TIME_LIMIT || x.End == End_EXITED {
		t.Errorf("the limit did not hold: %v", x)
	}
	if out := r.output(hangs); out == "" {
		t.Error("the user was told nothing")
	}
	if _, err := r.client.Terminate(ctx, &Terminate{Job: stays.Key.Job, Cause: Cause_CANCELLED, KillWaitMs: 10_000}); err != nil {
		t.Fatal(err)
	}
	x = r.exit(stays.Key)
	if x.Cause != Cause_CANCELLED || x.End == End_EXITED {
		t.Errorf("%v", x)
	}
	for _, s := range started {
		r.gone(reap, int(s.Pid))
	}
}

// kernelTellsExits says whether the kernel remembers the exit status of a process for those who are not its parent.
func kernelTellsExits(t *testing.T) bool {
	t.Helper()
	fd := -1
	pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{PidFD: &fd}})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil {
		t.Fatal(err)
	}
	_, ok := exitOf(fd)
	return ok
}

// What a step left behind is found after a kill, also when its main process is gone.
func TestKilledSupervisorEndsWhatIsLeft(t *testing.T) {
	r := newRig(t)
	reap := r.orphans()
	l := r.script("setsid sh -c 'echo $$ > pid; exec sleep 1000' & sleep 1000 & echo $! > pid2; read x < go")
	open := r.gate("go")
	s := r.launch(l)
	a, b := r.pid("pid"), r.pid("pid2")
	r.kill()
	open()
	reap(int(s.Pid))
	if !lives(a) || !lives(b) {
		t.Fatal("there is nothing left to be found")
	}
	r.start()
	if x := r.exit(l.Key); x.End != End_LOST_STATUS {
		t.Errorf("%v", x)
	}
	r.gone(reap, a)
	r.gone(reap, b)
}

// A journal of an earlier boot ends everything in it; nothing is looked for, since the numbers mean others now.
func TestNewBootEndsAll(t *testing.T) {
	r := newRig(t)
	ctx := context.Background()
	l := r.script("sleep 1000")
	s := r.launch(l)
	if err := r.client.Stop(ctx, StopMode_KEEP_STEPS); err != nil {
		t.Fatal(err)
	}
	_ = r.cmd.Wait()
	var records []*Record
	j, _, err := openJournal(r.conf.StateDir, func(v *Record) {
		if h := v.GetHeader(); h != nil {
			h.BootId = "another boot"
		}
		records = append(records, v)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.compact(records, 0); err != nil {
		t.Fatal(err)
	}
	j.close()
	r.start()
	if x := r.exit(l.Key); x.End != End_BOOT_ENDED {
		t.Errorf("%v", x)
	}
	if !lives(int(s.Pid)) {
		t.Error("a process of this boot was taken for one of the last")
	}
	_ = syscall.Kill(-int(s.Pid), syscall.SIGKILL)
	if a := r.try(l); a.Failure != Failure_ALREADY {
		t.Errorf("launched again: %v", a)
	}
}

// Killed at any moment of many launches, a supervisor starts nothing twice and loses nothing: every step that was
// decided is either found or ends under a name of its own, and none runs on unseen.
func TestKilledWhileLaunching(t *testing.T) {
	r := newRig(t)
	const rounds, each = 6, 40
	for round := range rounds {
		asked := map[id]bool{}
		answers := make(chan struct{}, each)
		for range each {
			l := r.script("echo $SLURM_JOB_ID >> ran; exit 3")
			asked[idOf(l.Key)] = true
			go func() {
				_, _ = r.client.Launch(context.Background(), l)
				answers <- struct{}{}
			}()
		}
		for range round * 5 {
			<-answers
		}
		r.kill()
		r.start()
		known := map[id]*Exited{}
		r.await("all that was begun is over", func() bool {
			list, err := r.client.List(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range list.Exited {
				known[idOf(x.Key)] = x
			}
			return len(list.Running)+len(list.Launching) == 0
		})
		b, _ := os.ReadFile(filepath.Join(r.dir, "ran"))
		ran := map[string]int{}
		for _, n := range splitLines(string(b)) {
			if ran[n]++; ran[n] > 1 {
				t.Fatalf("job %s ran twice", n)
			}
		}
		for k := range asked {
			x, was := known[k], ran[fmt.Sprint(k.job)] == 1
			switch {
			case x == nil && was:
				t.Errorf("%s ran, and nobody knows", k)
			case x != nil && x.End == End_EXITED && (x.Code != 3 || !was), x != nil && x.End == End_SIGNALED:
				t.Errorf("%s: ran %v, ended as %v", k, was, x)
			}
			if x != nil {
				if err := r.client.Acknowledge(context.Background(), x.Key); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// A supervisor that is killed while it holds a new process takes that with it. The next one must not take it for a step that
// ran, and was killed: nobody may hear that it started. What was let go, though there was no time to write that down, ended as
// it ended.
func TestKilledWhileHolding(t *testing.T) {
	for _, c := range []struct {
		title    string
		held     bool
		released bool // and the journal has that
		argv     []string
		reaped   bool
		started  bool // somebody hears of its start
		end      End
		code     int32
	}{
		{title: "held, killed with the supervisor", held: true, end: End_LOST_STATUS},
		{title: "held, killed with the supervisor, reaped since", held: true, reaped: true, end: End_LOST_STATUS},
		{title: "let go, and killed by somebody", held: true, released: true, started: true, end: End_SIGNALED},
		{title: "started by a supervisor that did not tell, and killed by somebody", started: true, end: End_SIGNALED},
		{title: "let go unwritten, and over", held: true, argv: []string{"sh", "-c", "exit 7"}, started: true, end: End_EXITED, code: 7},
		{title: "let go unwritten, and goes on", held: true, argv: []string{"sleep", "1000"}, started: true, end: End_SIGNALED},
	} {
		t.Run(c.title, func(t *testing.T) {
			r := newRig(t)
			before := r.script("exit 0")
			r.run(before)
			r.kill()
			argv := c.argv
			if argv == nil {
				argv = []string{"sleep", "1000"}
			}
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pid := cmd.Process.Pid
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			st, err := readStat(pid)
			if err != nil {
				t.Fatal(err)
			}
			if c.argv == nil {
				_ = cmd.Process.Kill()
			}
			if c.argv == nil || c.end == End_EXITED {
				r.await("it is over", func() bool { return !lives(pid) })
			}
			if c.reaped {
				_ = cmd.Wait()
			}
			key := &Key{Job: nextJob(), Step: StepBatch}
			j, _, err := openJournal(r.conf.StateDir, func(*Record) {})
			if err != nil {
				t.Fatal(err)
			}
			records := []*Record{{What: &Record_Launching{&Launching{Key: key, Node: "n1"}}},
				{What: &Record_Birth{&Birth{Key: key, Pid: int32(pid), StartTicks: st.startTicks, StartedUnixNs: unixNow(), StartedMonoNs: monoNow(), Held: c.held}}}}
			if c.released {
				records = append(records, &Record{What: &Record_Released{&Released{Key: key}}})
			}
			if err := j.append(synced, records...); err != nil {
				t.Fatal(err)
			}
			j.close()
			r.start()
			if c.argv != nil && c.end != End_EXITED {
				list, err := r.client.List(context.Background())
				if err != nil || len(list.Running) != 1 {
					t.Fatalf("it should be running: %v, %v", list, err)
				}
				_ = cmd.Process.Kill()
			}
			began := false
			x := r.next("end of it", func(e Event) bool {
				began = began || e.Started != nil && idOf(e.Started.Key) == idOf(key)
				return e.Exited != nil && idOf(e.Exited.Key) == idOf(key)
			}).Exited
			if x.End != c.end || x.Code != c.code || x.End == End_SIGNALED && x.Signal != int32(syscall.SIGKILL) {
				t.Errorf("ended as %v", x)
			}
			if began && !c.started || (x.StartedUnixNs != 0) != c.started {
				t.Errorf("heard of its start: %v; its end has a start: %v", began, x.StartedUnixNs != 0)
			}
		})
	}
}

func splitLines(s string) []string {
	var out []string
	for len(s) > 0 {
		i := 0
		for i < len(s) && s[i] != '\n' {
			i++
		}
		out = append(out, s[:i])
		s = s[min(i+1, len(s)):]
	}
	return out
}

func TestOneSupervisorAtATime(t *testing.T) {
	r := newRig(t)
	err := Main(context.Background(), Config{Node: "n1", StateDir: r.conf.StateDir})
	if err == nil {
		t.Fatal("a second one started")
	}
}
