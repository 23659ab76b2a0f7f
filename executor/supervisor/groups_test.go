package supervisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stint/executor/cgroup"
)

// caged gives a supervisor control groups, below a directory of the test's own.
func caged(t testing.TB) func(*rig) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes control groups")
	}
	under := fmt.Sprintf("stint-test-sup-%d-%d", os.Getpid(), jobs.Add(1))
	tree, err := cgroup.Open(cgroup.Config{Under: under})
	if err != nil {
		t.Fatal(err)
	}
	if !tree.Active() {
		t.Skipf("control groups cannot be used here: %v", tree.Gaps())
	}
	t.Cleanup(func() {
		if list, err := tree.List(); err != nil || len(list) > 0 {
			t.Errorf("groups left: %v, %v", list, err)
		}
		dirs := tree.Dirs()
		if err := tree.Close(); err != nil {
			t.Errorf("closing the tree: %v", err)
		}
		for _, d := range dirs {
			os.Remove(d)
			os.Remove(filepath.Dir(d))
		}
	})
	return func(r *rig) { r.conf.Under = under }
}

func TestCagedStep(t *testing.T) {
	r := newRig(t, caged(t))
	l := r.script("cat /proc/self/cgroup; grep Cpus_allowed_list /proc/self/status; (setsid env -i sleep 1000 &); exit 5", func(l *Launch) {
		l.Cage = &Cage{Cpus: []uint32{0}, MemoryBytes: 64 << 20, Pids: 50}
	})
	x, out := r.run(l)
	if x.Code != 5 || x.LeftOver != 0 {
		t.Errorf("%v", x)
	}
	if !strings.Contains(out, fmt.Sprintf("/job_%d/step_batch\n", l.Key.Job)) || !strings.Contains(out, "Cpus_allowed_list:\t0\n") {
		t.Errorf("%s", out)
	}
	// What is launched next, on the same threads, is not in that group.
	if _, out := r.run(r.script("cat /proc/self/cgroup")); strings.Contains(out, fmt.Sprint(l.Key.Job)) {
		t.Errorf("%s", out)
	}
}

// The first step of a job on a node is not what the job has there.
func TestCagedStepsSideBySide(t *testing.T) {
	r := newRig(t, caged(t))
	whole := &Cage{Cpus: []uint32{0, 1}, MemoryBytes: 256 << 20}
	small := r.script("sleep 1000", func(l *Launch) {
		l.Key.Step, l.JobCage, l.Cage = 0, whole, &Cage{Cpus: []uint32{1}, MemoryBytes: 64 << 20}
	})
	r.launch(small)
	x, out := r.run(r.script("grep Cpus_allowed_list /proc/self/status", func(l *Launch) {
		l.Key.Job, l.Key.Run, l.Key.Step, l.JobCage, l.Cage = small.Key.Job, small.Key.Run, 1, whole, whole
	}))
	if x.Code != 0 || !strings.Contains(out, "Cpus_allowed_list:\t0-1\n") {
		t.Errorf("%v, %s", x, out)
	}
}

func TestCagedOutOfMemory(t *testing.T) {
	r := newRig(t, caged(t))
	x, _ := r.run(r.script("awk 'BEGIN { s = \"x\"; while (1) s = s s }'; exit 1", func(l *Launch) {
		no := uint64(0)
		l.Cage = &Cage{MemoryBytes: 16 << 20, LimitSwap: true, SwapBytes: no}
	}))
	if !x.Oom || x.Code != 1 {
		t.Errorf("%v", x)
	}
	if x, _ := r.run(r.script("exit 0", func(l *Launch) { l.Cage = &Cage{MemoryBytes: 64 << 20} })); x.Oom {
		t.Errorf("the next one: %v", x)
	}
}

func TestCagedUsageAndSuspend(t *testing.T) {
	r := newRig(t, caged(t))
	ctx := context.Background()
	l := r.script("for i in 1 2 3; do (i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done); done; echo r > ready; while :; do echo x >> beat; sleep 0.01; done")
	r.launch(l)
	r.lineOf("ready")
	if n, err := r.client.Suspend(ctx, &Suspend{Job: l.Key.Job}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	size := func() int64 {
		st, err := os.Stat(filepath.Join(r.dir, "beat"))
		if err != nil {
			return 0
		}
		return st.Size()
	}
	at := size()
	time.Sleep(100 * time.Millisecond) // what is tested is that nothing happens meanwhile
	if now := size(); now != at {
		t.Errorf("it went on from %d to %d", at, now)
	}
	if n, err := r.client.Suspend(ctx, &Suspend{Job: l.Key.Job, Resume: true}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	r.await("it goes on", func() bool { return size() > at })
	if n, err := r.client.Suspend(ctx, &Suspend{Job: l.Key.Job}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	// A frozen step can be ended.
	if _, err := r.client.Terminate(ctx, &Terminate{Job: l.Key.Job, Cause: Cause_CANCELLED, KillWaitMs: 20_000}); err != nil {
		t.Fatal(err)
	}
	x := r.exit(l.Key)
	if x.Cause != Cause_CANCELLED || x.Signal != int32(syscall.SIGTERM) || x.Usage.UserNs+x.Usage.SystemNs < 10e6 {
		t.Errorf("%v", x)
	}
}

// What runs in the node's groups and is in no journal is ended when a supervisor starts.
func TestCagedStraysAreEnded(t *testing.T) {
	r := newRig(t, caged(t))
	l := r.script("sleep 1000 & echo $! > pid; wait")
	stays := r.script("echo $$ > stays; sleep 1000")
	s := r.launch(l)
	other := r.launch(stays)
	child := r.pid("pid")
	r.lineOf("stays")
	reap := r.orphans()
	r.kill()
	// The journal forgets one of them.
	var records []*Record
	j, _, err := openJournal(r.conf.StateDir, func(v *Record) {
		if b := v.GetBirth(); b != nil && b.Key.Job == l.Key.Job || v.GetLaunching().GetKey().GetJob() == l.Key.Job {
			return
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
	go reap(int(s.Pid))
	go reap(child)
	r.start()
	r.gone(reap, int(s.Pid))
	r.gone(reap, child)
	if !lives(int(other.Pid)) {
		t.Error("the step that is known was ended too")
	}
	if _, err := r.client.Terminate(context.Background(), &Terminate{Job: stays.Key.Job, Cause: Cause_CANCELLED}); err != nil {
		t.Fatal(err)
	}
	go reap(int(other.Pid))
	r.exit(stays.Key)
}

func TestCagedSurvivesKillAndUpgrade(t *testing.T) {
	r := newRig(t, caged(t))
	reap := r.orphans()
	open := r.gate("go")
	l := r.script("(setsid env -i sh -c 'echo $$ > pid; exec sleep 1000' &); echo $$ > main; read x < go; exit 4")
	s := r.launch(l)
	left := r.pid("pid")
	r.lineOf("main")
	if err := r.client.Upgrade(context.Background(), ""); err != nil {
		t.Fatal(err)
	}
	<-r.client.Lost()
	r.connect()
	r.kill()
	open()
	reap(int(s.Pid))
	go reap(left)
	r.start()
	if x := r.exit(l.Key); x.End != End_LOST_STATUS || x.LeftOver != 0 {
		t.Errorf("%v", x)
	}
	r.gone(reap, left)
}
