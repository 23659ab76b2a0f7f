package supervisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestExitStatus(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		script string
		want   string
	}{
		{"exit 0", "EXITED 0:0"},
		{"exit 7", "EXITED 7:0"},
		{"exit 255", "EXITED 255:0"},
		{"kill -TERM $$", "SIGNALED 0:15"},
		{"kill -KILL $$", "SIGNALED 0:9"},
		{"kill -USR1 $$; exit 3", "SIGNALED 0:10"},
		{"trap '' TERM; kill -TERM $$; exit 4", "EXITED 4:0"},
		{"sleep 100 & kill -9 $!; wait $!; exit $?", "EXITED 137:0"},
		{"ulimit -c 0; kill -SEGV $$", "SIGNALED 0:11"},
	} {
		x, _ := r.run(r.script(c.script))
		got := fmt.Sprintf("%s %d:%d", x.End, x.Code, x.Signal)
		if got != c.want {
			t.Errorf("%q: %s, want %s (%s)", c.script, got, c.want, x.Detail)
		}
		if x.StartedUnixNs == 0 || x.EndedUnixNs < x.StartedUnixNs || x.ElapsedNs <= 0 {
			t.Errorf("%q: times %d to %d, %d", c.script, x.StartedUnixNs, x.EndedUnixNs, x.ElapsedNs)
		}
	}
}

func TestCoreFlag(t *testing.T) {
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil || strings.HasPrefix(string(pattern), "|") {
		t.Skipf("core files go to a program here (%s)", pattern)
	}
	r := newRig(t)
	x, _ := r.run(r.script("ulimit -c unlimited; kill -SEGV $$", func(l *Launch) {
		l.Rlimits = []*Rlimit{{Resource: unix.RLIMIT_CORE, Soft: NoLimit, Hard: NoLimit}}
	}))
	if x.Signal != 11 || !x.Core {
		t.Errorf("signal %d, core %v, want 11 with a core", x.Signal, x.Core)
	}
}

// The environment is the submitter's to the byte and in order: functions that bash exports, several lines, odd names.
func TestEnvironmentRoundTrip(t *testing.T) {
	r := newRig(t)
	env := []string{
		"PATH=/usr/bin:/bin",
		"BASH_FUNC_module%%=() {  echo \"module $*\"\n}",
		"LINES_OF=one\ntwo\n\nfour",
		"EMPTY=",
		"BYTES=\xff\xfe\x01",
		"not-a-name=1",
		"TWICE=a",
		"SPACES= a  b ",
	}
	l := r.script("module load gcc\ncat /proc/$$/environ > env\n", func(l *Launch) {
		l.Env = nil
		for _, v := range env {
			l.Env = append(l.Env, []byte(v))
		}
	})
	x, out := r.run(l)
	if x.Code != 0 || out != "module load gcc\n" {
		t.Errorf("code %d, output %q", x.Code, out)
	}
	got, err := os.ReadFile(filepath.Join(r.dir, "env"))
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join(env, "\x00") + "\x00"; string(got) != want {
		t.Errorf("environment\n%q\nwant\n%q", got, want)
	}
}

// The kernel follows #!, whatever the interpreter, and the script is called slurm_script.
func TestInterpreter(t *testing.T) {
	r := newRig(t)
	l := r.script("")
	l.Script = []byte("#!/usr/bin/awk -f\nBEGIN { print \"awk\", ARGV[1], ARGV[2] }\n")
	l.Argv = [][]byte{[]byte("a b"), []byte("c")}
	if x, out := r.run(l); x.Code != 0 || out != "awk a b c\n" {
		t.Errorf("code %d, output %q", x.Code, out)
	}
	if _, out := r.run(r.script("echo ${0##*/}")); out != "slurm_script\n" {
		t.Errorf("the script is called %q", out)
	}
	r.await("the spool is empty again", func() bool {
		left, err := filepath.Glob(filepath.Join(r.conf.StateDir, "spool", "*", "*"))
		return err == nil && len(left) == 0
	})
}

func TestLaunchFailures(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		name   string
		change func(*Launch)
		want   Failure
		says   string
	}{
		{"no interpreter", func(l *Launch) { l.Script = []byte("#!/no/such/thing\n") }, Failure_EXEC, "/no/such/thing does not exist"},
		{"interpreter not executable", func(l *Launch) { l.Script = []byte("#!/etc/passwd\n") }, Failure_EXEC, "may not be executed"},
		{"no format", func(l *Launch) { l.Script = []byte("echo hi\n") }, Failure_EXEC, "format"},
		{"no such program", func(l *Launch) { l.Script, l.Argv = nil, [][]byte{[]byte("no-such-program")} }, Failure_EXEC, "PATH"},
		{"output folder missing", func(l *Launch) { l.Stdout.Path = []byte("no/such/out") }, Failure_OUTPUT, "no/such/out"},
		{"error folder missing", func(l *Launch) { l.Stderr = &Stream{Path: []byte("no/such/err")} }, Failure_OUTPUT, "no/such/err"},
		{"input missing", func(l *Launch) { l.Stdin = &Stream{Path: []byte("nothing")} }, Failure_INPUT, "nothing"},
		{"environment too long", func(l *Launch) {
			l.Env = append(l.Env, make([]byte, 0))
			l.Env[0] = []byte("X=" + strings.Repeat("x", 200<<10))
		}, Failure_EXEC, "too long"},
		{"zero byte", func(l *Launch) { l.Env = append(l.Env, []byte("A=\x00")) }, Failure_INVALID, "zero byte"},
		{"nothing to do", func(l *Launch) { l.Script = nil }, Failure_INVALID, "nothing to execute"},
		{"nice", func(l *Launch) { l.Nice = 99 }, Failure_INVALID, "nice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := r.script("exit 0", c.change)
			a := r.try(l)
			if a.Failure != c.want || !strings.Contains(a.Detail, c.says) {
				t.Fatalf("%v %q, want %v with %q", a.Failure, a.Detail, c.want, c.says)
			}
			if c.want == Failure_INVALID {
				return
			}
			if x := r.exit(l.Key); x.End != End_NOT_LAUNCHED || x.Failure != c.want || x.StartedUnixNs != 0 {
				t.Errorf("reported as %v", x)
			}
		})
	}
}

// A pipe without a reader as output must not hold the launch up.
func TestOutputToDeadPipe(t *testing.T) {
	r := newRig(t)
	if err := unix.Mkfifo(filepath.Join(r.dir, "pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	a := r.try(r.script("echo", func(l *Launch) { l.Stdout.Path = []byte("pipe") }))
	if a.Failure != Failure_OUTPUT {
		t.Errorf("%v %s", a.Failure, a.Detail)
	}
}

func TestOpenModes(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(r.dir, "f")
	write := func(mode func(*Launch)) string {
		if err := os.WriteFile(file, []byte("old\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		r.run(r.script("echo out; echo err >&2; echo out2", mode))
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := write(func(l *Launch) { l.Stdout = &Stream{Path: []byte("f")} }); got != "out\nerr\nout2\n" {
		t.Errorf("truncate: %q", got)
	}
	if got := write(func(l *Launch) { l.Stdout = &Stream{Path: []byte("f"), Append: true} }); got != "old\nout\nerr\nout2\n" {
		t.Errorf("append: %q", got)
	}
	if got := write(func(l *Launch) {
		l.Stdout, l.Stderr = &Stream{Path: []byte("f")}, &Stream{Path: []byte("f")}
	}); got != "out\nerr\nout2\n" {
		t.Errorf("the same file twice: %q", got)
	}
	if got := write(func(l *Launch) { l.Stdout, l.Stderr = &Stream{}, &Stream{Path: []byte("f")} }); got != "err\n" {
		t.Errorf("stderr alone: %q", got)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "in"), []byte("from here"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, out := r.run(r.script("cat", func(l *Launch) { l.Stdin = &Stream{Path: []byte("in")} })); out != "from here" {
		t.Errorf("stdin: %q", out)
	}
}

func TestWorkingDirectoryFallsBack(t *testing.T) {
	r := newRig(t)
	l := r.script("pwd", func(l *Launch) {
		l.Cwd = []byte("/no/such/dir")
		l.Stdout.Path = []byte(filepath.Join(r.dir, "o"))
	})
	x, out := r.run(l)
	if x.Code != 0 || !strings.HasSuffix(out, "\n/tmp\n") || !strings.Contains(out, "/no/such/dir cannot be entered") {
		t.Errorf("code %d, %q", x.Code, out)
	}
}

func TestStepSeesItsSettings(t *testing.T) {
	r := newRig(t)
	l := r.script("umask; ulimit -Sn; ulimit -Hn; nice; ps -o sid= -p $$ | tr -d ' '; echo $$; grep SigIgn /proc/self/status; ls /proc/$$/fd > fds; echo $(cat fds)", func(l *Launch) {
		l.Umask = 0o027
		l.Nice = 5
		l.Rlimits = []*Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: 321, Hard: 4321}}
	})
	x, out := r.run(l)
	lines := strings.Split(out, "\n")
	if x.Code != 0 || len(lines) != 9 {
		t.Fatalf("code %d, %q", x.Code, out)
	}
	if got := strings.Join(lines[:4], " "); got != "0027 321 4321 5" {
		t.Errorf("umask, files soft and hard, nice: %s", got)
	}
	if lines[4] != lines[5] {
		t.Errorf("session %s of process %s", lines[4], lines[5])
	}
	if !strings.HasSuffix(lines[6], "\t0000000000000000") {
		t.Errorf("ignored signals: %s", lines[6])
	}
	if lines[7] != "0 1 2 255" { // 255 is bash's own
		t.Errorf("open files: %s", lines[7])
	}
	if st, err := os.Stat(filepath.Join(r.dir, string(l.Stdout.Path))); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("output file mode %v, %v", st.Mode(), err)
	}
}

// A supervisor that was started with signals ignored does not pass that on.
func TestIgnoredSignalsAreNotInherited(t *testing.T) {
	r := newRig(t, func(r *rig) { r.env = []string{ignoreVariable + "=1"} })
	if _, out := r.run(r.script("grep SigIgn /proc/self/status")); !strings.HasSuffix(out, "\t0000000000000000\n") {
		t.Errorf("%q", out)
	}
}

// What cannot be raised is set as near as can be, and the user is told.
func TestHardLimitThatCannotBeRaised(t *testing.T) {
	needRoot(t)
	r := newRig(t, asNobody)
	var have unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &have); err != nil {
		t.Fatal(err)
	}
	l := r.script("ulimit -Sn; ulimit -Hn", func(l *Launch) {
		l.Rlimits = []*Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: have.Max + 1000, Hard: have.Max + 2000}}
	})
	s := r.launch(l)
	x := r.exit(l.Key)
	out := r.output(l)
	if x.Code != 0 || !strings.HasSuffix(out, fmt.Sprintf("\n%d\n%d\n", have.Max, have.Max)) || !strings.Contains(out, "RLIMIT_NOFILE cannot be set to") {
		t.Errorf("code %d, %q", x.Code, out)
	}
	if len(s.Warnings) != 1 {
		t.Errorf("warnings %q", s.Warnings)
	}
	l = r.script("ulimit -Sn; ulimit -Hn", func(l *Launch) {
		l.Rlimits = []*Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: 100, Hard: have.Max + 2000}}
	})
	s = r.launch(l)
	r.exit(l.Key)
	if out := r.output(l); out != fmt.Sprintf("100\n%d\n", have.Max) {
		t.Errorf("%q", out)
	}
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "hard limit RLIMIT_NOFILE cannot be raised") {
		t.Errorf("warnings %q", s.Warnings)
	}
}

// Every step runs as its user, and its files are opened with that user's rights, not root's.
func TestOtherUser(t *testing.T) {
	needRoot(t)
	r := newRig(t)
	asUser := func(l *Launch) { l.Uid, l.Gid, l.Groups = 4242, 4343, []uint32{4444, 4343} }
	l := r.script("id -u; id -g; id -G; stat -c '%u %g %a' $0; touch made; stat -c '%u %g' made", asUser)
	x, out := r.run(l)
	if want := "4242\n4343\n4343 4444\n4242 4343 700\n4242 4343\n"; x.Code != 0 || out != want {
		t.Errorf("code %d, %q, want %q", x.Code, out, want)
	}
	if st, err := os.Stat(filepath.Join(r.dir, string(l.Stdout.Path))); err != nil || st.Sys().(*syscall.Stat_t).Uid != 4242 {
		t.Errorf("the output file is not the user's: %v", err)
	}

	private := filepath.Join(r.dir, "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	a := r.try(r.script("echo", asUser, func(l *Launch) { l.Stdout.Path = []byte(filepath.Join(private, "x")) }))
	if a.Failure != Failure_OUTPUT || !strings.Contains(a.Detail, "permission denied") {
		t.Errorf("output in root's folder: %v %s", a.Failure, a.Detail)
	}
	// By group is enough, if it is a group of the job's.
	if err := os.Chown(private, 0, 4444); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(private, 0o770); err != nil {
		t.Fatal(err)
	}
	if x, _ := r.run(r.script("pwd", asUser, func(l *Launch) {
		l.Stdout.Path = []byte(filepath.Join(private, "x"))
		l.Cwd = []byte(private)
	})); x.Code != 0 || x.End != End_EXITED {
		t.Errorf("output in the group's folder: %v", x)
	}
	// And the supervisor is root again after all this.
	if x, out := r.run(r.script("id -u; id -G")); x.Code != 0 || !strings.HasPrefix(out, "0\n") {
		t.Errorf("%q", out)
	}
}

func TestOrdinaryUserServesItself(t *testing.T) {
	needRoot(t)
	r := newRig(t, asNobody)
	if x, out := r.run(r.script("id -u")); x.Code != 0 || out != "65534\n" {
		t.Errorf("%v %q", x, out)
	}
	a := r.try(r.script("id", func(l *Launch) { l.Uid = 1 }))
	if a.Failure != Failure_NOT_PERMITTED {
		t.Errorf("%v %s", a.Failure, a.Detail)
	}
	if l, err := r.client.List(context.Background()); err != nil || len(l.Running) != 0 {
		t.Errorf("%v %v", l, err)
	}
}

func TestHostName(t *testing.T) {
	needRoot(t)
	r := newRig(t, func(r *rig) { r.conf.HostName = "virtual-7" })
	for range 6 { // on whichever thread
		if _, out := r.run(r.script("hostname; cat /proc/sys/kernel/hostname; readlink /proc/self/ns/uts >> ns")); out != "virtual-7\nvirtual-7\n" {
			t.Errorf("%q", out)
		}
	}
	b, err := os.ReadFile(filepath.Join(r.dir, "ns"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.Readlink("/proc/self/ns/uts")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for l := range strings.FieldsSeq(string(b)) {
		seen[l] = true
	}
	if len(seen) != 1 || seen[own] {
		t.Errorf("namespaces of steps %v, ours %s", seen, own)
	}
}

func TestPidVariable(t *testing.T) {
	r := newRig(t)
	l := r.script("echo $SLURM_TASK_PID $$; /usr/bin/env | grep -c TASK_PID", func(l *Launch) { l.PidVariable = "SLURM_TASK_PID" })
	s := r.launch(l)
	r.exit(l.Key)
	if out := r.output(l); out != fmt.Sprintf("%d %d\n1\n", s.Pid, s.Pid) || len(s.Warnings) > 0 {
		t.Errorf("%q, process %d, %q", out, s.Pid, s.Warnings)
	}
}

func TestLaunchesAtMostOnce(t *testing.T) {
	r := newRig(t)
	l := r.script("echo x >> count; sleep 100")
	r.launch(l)
	r.lineOf("count")
	if a := r.try(l); a.Failure != Failure_ALREADY {
		t.Errorf("while it runs: %v", a)
	}
	if _, err := r.client.Terminate(context.Background(), &Terminate{Job: l.Key.Job, Cause: Cause_CANCELLED}); err != nil {
		t.Fatal(err)
	}
	r.exit(l.Key)
	if a := r.try(l); a.Failure != Failure_ALREADY {
		t.Errorf("when it is over: %v", a)
	}
	if err := r.client.Acknowledge(context.Background(), l.Key); err != nil {
		t.Fatal(err)
	}
	if a := r.try(l); a.Failure != Failure_ALREADY {
		t.Errorf("when that is acknowledged: %v", a)
	}
	r.kill()
	r.start()
	if a := r.try(l); a.Failure != Failure_ALREADY {
		t.Errorf("after a kill: %v", a)
	}
	next := r.script("echo x >> count", func(n *Launch) { n.Key = &Key{Job: l.Key.Job, Run: 1, Step: StepBatch} })
	if x, _ := r.run(next); x.Code != 0 {
		t.Errorf("the next run: %v", x)
	}
	if b, _ := os.ReadFile(filepath.Join(r.dir, "count")); string(b) != "x\nx\n" {
		t.Errorf("ran %q", b)
	}
}
