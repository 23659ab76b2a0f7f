package integration

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// srun by itself: what its tasks print, how it ends, what it says of them.
func TestSrun(t *testing.T) {
	c := start(t, "--nodes", "n[1-2]", "--cpus", "4", "--memory", "8000")
	os.WriteFile(filepath.Join(c.work, "prog.conf"), []byte("0 echo zero %t of args\n1-2 echo task %t offset %o\n* sh -c 'echo rest $0' %t\n"), 0o644)
	os.WriteFile(filepath.Join(c.work, "nx"), []byte("#!/bin/sh\n"), 0o644)
	os.WriteFile(filepath.Join(c.work, "pro"), []byte("#!/bin/sh\necho export COLOUR=blue\necho print hello\n"), 0o755)
	os.Chmod(filepath.Join(c.work, "pro"), 0o755)
	for _, x := range []struct {
		args   string // words; the last may be sh -c with a script behind |
		code   int
		sorted string   // the lines of stdout, sorted
		says   []string // in stderr
	}{
		{"-n1 echo hi", 0, "hi", nil},
		{"-n3 -l echo hi", 0, "0: hi|1: hi|2: hi", nil},
		{"-N2 -n4 -l sh -c>echo $SLURMD_NODENAME $SLURM_NODEID $SLURM_LOCALID", 0, "0: n1 0 0|1: n1 0 1|2: n1 0 2|3: n2 1 0", nil},
		{"-N2 -n2 -m cyclic -l sh -c>echo $SLURMD_NODENAME", 0, "0: n1|1: n2", nil},
		{"-N2 --ntasks-per-node=2 sh -c>echo $SLURMD_NODENAME $SLURM_STEP_NODELIST $SLURM_STEP_TASKS_PER_NODE $SLURM_NTASKS", 0, "n1 n[1-2] 2(x2) 4|n1 n[1-2] 2(x2) 4|n2 n[1-2] 2(x2) 4|n2 n[1-2] 2(x2) 4", nil},
		{"sh -c>test $SLURM_TASK_PID = $$ && echo $SLURM_STEP_ID $SLURM_STEPID", 0, "0 0", nil},
		{"-w n1 sh -c>exit 3", 3, "", []string{"srun: error: n1: task 0: Exited with exit code 3\n"}},
		{"-N1 -n3 -w n1 sh -c>exit $SLURM_PROCID", 2, "", []string{"srun: error: n1: task 1: Exited with exit code 1\n", "srun: error: n1: task 2: Exited with exit code 2\n"}},
		{"-N1 -n2 -w n1 sh -c>exit 7", 7, "", []string{"srun: error: n1: tasks 0-1: Exited with exit code 7\n"}},
		{"-w n1 sh -c>kill -9 $$", 137, "", []string{"srun: error: n1: task 0: Killed\n"}},
		{"/nosuch/program", 2, "", []string{"execve(): /nosuch/program: No such file or directory\n", "task 0: Exited with exit code 2\n"}},
		{"./nx", 13, "", []string{"execve(): ./nx: Permission denied\n"}},
		{"-n1 --mem=50 sh -c>awk 'BEGIN { s = \"x\"; while (1) s = s s }'; exit 0", 1, "", []string{"slurmstepd: error: Detected 1 oom_kill event in StepId=", "srun: error: n1: task 0: Out Of Memory\n"}},
		{"-N2 -n2 -t1 --signal=USR1@58 sh -c>trap 'echo warned; exit 4' USR1; while :; do sleep 0.1; done", 4, "warned|warned", nil}, // on each of its nodes
		{"-n3 -K sh -c>test $SLURM_PROCID = 1 && exit 5; exec sleep 60", 143, "", []string{"Exited with exit code 5\n", "Terminating StepId="}},
		{"-n4 --multi-prog prog.conf", 0, "rest 3|task 1 offset 0|task 2 offset 1|zero 0 of args", nil},
		{"-n2 --multi-prog nosuch", 1, "", []string{"Unable to read the program configuration"}},
		{"-n2 -o none echo x", 0, "", nil},
		{"-n3 -o 1 sh -c>echo $SLURM_PROCID", 0, "1", nil},
		{"-D /nosuch pwd", 0, "/tmp", []string{"going to /tmp instead"}},
		{"--task-prolog=./pro sh -c>echo $COLOUR", 0, "blue|hello", nil},
		{"--het-group=x true", 1, "", nil}, // see het_test.go
		{"-p nosuch true", 1, "", []string{"srun: error: Unable to allocate resources: Invalid partition name specified"}},
		{"--jobid=99999 true", 1, "", []string{"Unable to confirm allocation for job 99999"}},
		{"", 1, "", []string{"No command given to execute"}},
	} {
		words, script, has := strings.Cut(x.args, ">")
		args := strings.Fields(words)
		if has {
			args = append(args, script)
		}
		r := c.try("srun", args...)
		if got := sortedLines(r.out); r.code != x.code || got != x.sorted {
			t.Errorf("srun %s: exit %d, want %d; prints %q, want %q; stderr %q", x.args, r.code, x.code, got, x.sorted, r.err)
		}
		for _, want := range x.says {
			if !strings.Contains(r.err, want) {
				t.Errorf("srun %s says %q, which lacks %q", x.args, r.err, want)
			}
		}
	}
}

func sortedLines(s string) string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i := range lines {
		for j := i; j > 0 && lines[j] < lines[j-1]; j-- {
			lines[j], lines[j-1] = lines[j-1], lines[j]
		}
	}
	return strings.Join(lines, "|")
}

// feedIn runs a command with standard input and returns what it printed.
func (c *cluster) feedIn(in io.Reader, args ...string) ([]byte, error) {
	cmd := exec.Command(filepath.Join(bin, "stint-cli"), args...)
	cmd.Dir, cmd.Env, cmd.Stdin = c.work, c.env, in
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, errs.String())
	}
	return out, err
}

// What goes through a step comes out as it was, to all tasks or one, into files or back.
func TestSrunStdio(t *testing.T) {
	c := start(t, "--nodes", "n[1-2]", "--cpus", "4", "--memory", "8000")
	for _, x := range []struct{ args, in, want string }{
		{"-n2 -l cat", "l1\nl2\n", "0: l1|0: l2|1: l1|1: l2"},
		{"-N2 -n2 -l cat", "l1\n", "0: l1|1: l1"},
		{"-n3 -l --input=2 cat", "l1\n", "2: l1"},
		{"-n2 -l -i none cat", "x\n", ""},
		{"-l printf a\\nb", "", "0: a|0: b"},
		{"-n2 true", strings.Repeat("nobody reads this\n", 200_000), ""},
	} {
		out, err := c.feedIn(strings.NewReader(x.in), append([]string{"srun"}, strings.Fields(x.args)...)...)
		if got := sortedLines(string(out)); err != nil || got != x.want {
			t.Errorf("srun %s prints %q, want %q (%v)", x.args, got, x.want, err)
		}
	}
	big := make([]byte, 10<<20)
	for i := range big {
		big[i] = byte(i*i>>7 ^ i)
	}
	out, err := c.feedIn(bytes.NewReader(big), "srun", "-n1", "cat")
	if err != nil || sha256.Sum256(out) != sha256.Sum256(big) {
		t.Errorf("10 MiB through srun cat: %d bytes come back, the same: %v (%v)", len(out), bytes.Equal(out, big), err)
	}
	if out, err := c.feedIn(bytes.NewReader(big), "srun", "-N2", "-n2", "-o", "copy.%t", "cat"); err != nil || len(out) != 0 {
		t.Fatalf("srun -o copy.%%t: %v, prints %d bytes", err, len(out))
	}
	for _, name := range []string{"copy.0", "copy.1"} {
		if data, err := os.ReadFile(filepath.Join(c.work, name)); err != nil || !bytes.Equal(data, big) {
			t.Errorf("%s has %d bytes, want the %d that went in (%v)", name, len(data), len(big), err)
		}
	}
}

// Steps in a batch script have numbers, rows and CPUs of their own, wait for each other, and end with it.
func TestSteps(t *testing.T) {
	c := start(t, "--nodes", "n[1-2]", "--cpus", "4", "--memory", "8000")
	script := filepath.Join(c.work, "steps.sh")
	os.WriteFile(script, []byte(`#!/bin/bash
#SBATCH -N2 -n4 --ntasks-per-node=2 -o steps.out
srun() { stint-cli srun "$@"; }
srun -l sh -c 'echo $SLURMD_NODENAME' | sort
srun -n1 -w n1 sh -c 'exit 3'; echo code $?
for i in 1 2 3 4 5 6; do srun -N1 -n1 --exact sh -c 'echo one $SLURM_CPUS_ON_NODE' & done; wait
srun -n1 -N1 -w n2 -J named sh -c 'echo $SLURMD_NODENAME $SLURM_JOB_NUM_NODES $SLURM_NNODES'
srun -n9 true; echo too many $?
srun -w n7 true; echo no node $?
srun -n1 -N1 --cpu-bind=q true && echo quiet
srun sleep 300 & sleep 1
`), 0o755)
	c.do("sbatch", "--wait", script)
	data, _ := os.ReadFile(filepath.Join(c.work, "steps.out"))
	var lines []string
	for l := range strings.Lines(string(data)) {
		if !strings.HasPrefix(l, "srun: ") && !strings.HasPrefix(l, "slurmstepd: ") {
			lines = append(lines, strings.TrimSpace(l))
		}
	}
	want := "0: n1|1: n1|2: n2|3: n2|code 3|one 1|one 1|one 1|one 1|one 1|one 1|n2 2 1|too many 1|no node 1|quiet"
	if got := strings.Join(lines, "|"); got != want {
		t.Errorf("the script prints\n%s, want\n%s; all of it: %s", got, want, data)
	}
	rows := c.do("sacct", "-n", "-P", "-j", "1", "-o", "JobID,JobName,NTasks,AllocCPUS,State,ExitCode,NodeList")
	wantRows := "1|steps.sh||4|COMPLETED|0:0|n[1-2]\n1.batch|batch|1|2|COMPLETED|0:0|n1\n1.0|sh|4|4|COMPLETED|0:0|n[1-2]\n1.1|sh|1|2|FAILED|3:0|n1\n"
	if !strings.HasPrefix(rows, wantRows) || !strings.Contains(rows, "|named|1|2|COMPLETED|0:0|n2\n") || !strings.HasSuffix(rows, "|sleep|4|4|CANCELLED|0:15|n[1-2]\n") {
		t.Errorf("sacct prints\n%s, want it to begin\n%s, to have a step named, and to end with a cancelled sleep", rows, wantRows)
	}
}

// What ends a step from outside: its launcher killed, a signal to the launcher, scancel of the step.
func TestStepsEnd(t *testing.T) {
	c := start(t, "--nodes", "n[1-2]", "--cpus", "4", "--memory", "8000")
	c.do("salloc", "-N2", "-n4", "--no-shell")
	run := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command(filepath.Join(bin, "stint-cli"), append([]string{"srun", "--jobid=1"}, args...)...)
		cmd.Dir, cmd.Env = c.work, c.env
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		out.Read(make([]byte, 1)) // it has begun
		go io.Copy(io.Discard, out)
		return cmd, &errs
	}
	ends := func(step, state string) {
		t.Helper()
		c.eventually("the end of step "+step, func() bool {
			return strings.HasPrefix(c.do("sacct", "-n", "-P", "-j", "1."+step, "-o", "State"), state)
		})
	}
	cmd, _ := run("sh", "-c", "echo x; sleep 300")
	cmd.Process.Kill()
	cmd.Wait()
	ends("0", "CANCELLED")

	cmd, errs := run("-n1", "sh", "-c", "echo x; exec sleep 300")
	cmd.Process.Signal(syscall.SIGTERM)
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 137 || !strings.Contains(errs.String(), "forcing job termination") {
		t.Errorf("srun ends with %d after SIGTERM, want 143; says %q", cmd.ProcessState.ExitCode(), errs)
	}
	ends("1", "CANCELLED")

	cmd, errs = run("-n1", "sh", "-c", "echo x; exec sleep 300")
	c.do("scancel", "1.2")
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 137 && code != 143 {
		t.Errorf("srun ends with %d after scancel of its step; says %q", code, errs)
	}
	ends("2", "CANCELLED")
	if state := c.do("squeue", "-h", "-j", "1", "-o", "%T"); state != "RUNNING\n" {
		t.Errorf("the job is %q after its steps have ended", state)
	}

	// One that is in the way is waited for, and one that shares is not.
	cmd, _ = run("sh", "-c", "echo x; exec sleep 300")
	if r := c.try("srun", "--jobid=1", "--overlap", "-n1", "echo", "shared"); r.code != 0 || r.out != "shared\n" {
		t.Errorf("srun --overlap: %d, %q %q", r.code, r.out, r.err)
	}
	waiting := exec.Command(filepath.Join(bin, "stint-cli"), "srun", "--jobid=1", "-n1", "echo", "after")
	waiting.Dir, waiting.Env = c.work, c.env
	said, _ := waiting.StderrPipe()
	var out bytes.Buffer
	waiting.Stdout = &out
	waiting.Start()
	buf := make([]byte, 200)
	for got := ""; !strings.Contains(got, "step creation temporarily disabled, retrying (Requested nodes are busy)"); {
		n, err := said.Read(buf)
		if got += string(buf[:n]); err != nil {
			t.Fatalf("a step that has to wait says %q", got)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	rest, _ := io.ReadAll(said)
	if waiting.Wait(); out.String() != "after\n" || !strings.Contains(string(rest), "Step created for StepId=1.") {
		t.Errorf("the step that waited prints %q, says %q", out.String(), rest)
	}
	c.do("scancel", "1")
}

// srun --pty gives task 0 a terminal of the size of srun's own.
func TestSrunTerminal(t *testing.T) {
	c := start(t, "--nodes", "n1", "--cpus", "4", "--memory", "8000")
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip(err)
	}
	master := os.NewFile(uintptr(fd), "ptmx")
	defer master.Close()
	n, _ := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77})
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, "stint-cli"), "srun", "--pty", "sh", "-c", "test -t 0 && test -t 1 && stty size && read x && echo got $x; exit 4")
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.work, c.env, slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	late := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer late.Stop()
	var got strings.Builder
	buf := make([]byte, 4096)
	typed := false
	for {
		n, err := master.Read(buf)
		got.Write(buf[:n])
		if !typed && strings.Contains(got.String(), "33 77") {
			typed = true
			master.WriteString("word\r")
		}
		if err != nil {
			break
		}
	}
	cmd.Wait()
	if !strings.Contains(got.String(), "33 77") || !strings.Contains(got.String(), "got word") || cmd.ProcessState.ExitCode() != 4 {
		t.Errorf("srun --pty ends with %d and shows %q", cmd.ProcessState.ExitCode(), got.String())
	}
}
