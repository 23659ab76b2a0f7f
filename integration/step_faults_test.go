package integration

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What cannot run says so, by node and task, with the exit code that a real Slurm (22.05) has for it; and nothing is left of it.
func TestStepFaults(t *testing.T) {
	c := start(t, "--nodes", "n[1-2]", "--cpus", "2", "--memory", "4000")
	c.env = append(c.env, "PATH="+filepath.Join(c.dir, "bin")+":/usr/bin:/bin")
	elf := make([]byte, 64)
	copy(elf, "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint16(elf[16:], 2)
	binary.LittleEndian.PutUint16(elf[18:], 0x2b) // SPARC
	binary.LittleEndian.PutUint32(elf[20:], 1)
	os.WriteFile(filepath.Join(c.work, "other"), elf, 0o755)
	os.WriteFile(filepath.Join(c.work, "plain"), []byte("no program\n"), 0o644)
	for _, x := range []struct {
		says string
		args string // of salloc and srun: `-N1 : -n5 true`
		code int
		err  []string
	}{
		{"more tasks than the allocation has CPUs", "-N1 -n1 / -n5 true", 1, []string{"srun: error: Unable to create step for job", "More processors requested than permitted"}},
		{"more nodes than the allocation has", "-N1 / -N2 true", 1, []string{"srun: error: "}},
		{"a node that the allocation has not", "-N1 -w n1 / -w n2 true", 1, []string{"n2"}},
		{"a node that nobody knows", "-N1 / -w nosuch true", 1, []string{"nosuch"}},
		{"a program that is not there", "-N2 / ./nosuch", 2, []string{"slurmstepd-n1: error: execve(): ./nosuch: No such file or directory", "slurmstepd-n2: error: ", "srun: error: n1: task 0: Exited with exit code 2", "srun: error: n2: task 1: Exited with exit code 2"}},
		{"a program that is none", "-N1 / ./plain", 13, []string{"slurmstepd-n1: error: execve(): ./plain: Permission denied", "srun: error: n1: task 0: Exited with exit code 13"}},
		{"a program for another machine", "-N1 / ./other", 8, []string{"slurmstepd-n1: error: execve(): ./other: Exec format error", "srun: error: n1: task 0: Exited with exit code 8"}},
	} {
		first, second, _ := strings.Cut(x.args, " / ")
		args := append(strings.Fields(first), "srun")
		r := c.try("salloc", append(args, strings.Fields(second)...)...)
		if r.code != x.code {
			t.Errorf("%s: exit %d, not %d: %s", x.says, r.code, x.code, r.err)
		}
		for _, e := range x.err {
			if !strings.Contains(r.err, e) {
				t.Errorf("%s: it says %q, not %q", x.says, r.err, e)
			}
		}
	}
	t.Run("a task that never reads", func(t *testing.T) {
		cmd := exec.Command(filepath.Join(bin, "stint-cli"), "srun", "-N2", "true")
		cmd.Env, cmd.Dir, cmd.Stdin = c.env, c.work, bytes.NewReader(make([]byte, 8<<20))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("the launcher is killed", func(t *testing.T) {
		cmd := exec.Command(filepath.Join(bin, "stint-cli"), "srun", "-N2", "sh", "-c", "echo runs; exec sleep 4711")
		cmd.Env, cmd.Dir = c.env, c.work
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		out.Read(make([]byte, 4))
		cmd.Process.Signal(syscall.SIGKILL)
		cmd.Wait()
		c.eventually("its tasks are gone", func() bool { return exec.Command("pgrep", "-f", "^sleep 4711$").Run() != nil })
		c.eventually("its step is gone", func() bool { return c.do("squeue", "-h", "-s") == "" })
	})
	t.Run("its terminal goes", func(t *testing.T) {
		cmd := exec.Command(filepath.Join(bin, "stint-cli"), "srun", "-N2", "sh", "-c", "echo runs; exec sleep 4712")
		cmd.Env, cmd.Dir = c.env, c.work
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		out.Read(make([]byte, 4))
		cmd.Process.Signal(syscall.SIGHUP)
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatal("srun is still there")
		}
		if code := cmd.ProcessState.ExitCode(); code != 137 || !strings.Contains(errs.String(), "srun: forcing job termination") {
			t.Errorf("exit %d: %s", code, errs.String())
		}
		c.eventually("its tasks are gone", func() bool { return exec.Command("pgrep", "-f", "^sleep 4712$").Run() != nil })
	})
}
