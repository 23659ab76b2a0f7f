package integration

import (
	"bufio"
	"bytes"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSlowBus: while the bus takes nothing, no command is mute. What it says is on stderr only, so what machines read is the
// same as ever once the bus goes on.
func TestSlowBus(t *testing.T) {
	c := start(t, "--split", "--nodes", "n1", "--cpus", "2", "--memory", "1000")
	held := c.submit("-H", "-o", "/dev/null", "--wrap", "true")
	bus := c.processes()["bus"]
	if err := syscall.Kill(bus, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(bus, syscall.SIGCONT)

	type running struct {
		name   string
		says   string // on stderr, while it waits
		out    string // pattern of all of stdout
		cmd    *exec.Cmd
		stdout bytes.Buffer
		stderr *bufio.Reader
	}
	commands := []*running{
		{name: "sbatch --parsable -o /dev/null --wrap true", says: "sbatch: the submission is on its way and waits for the cluster's log", out: `^\d+\n$`},
		{name: "scancel " + held, says: "scancel: the request is on its way and waits for the cluster's log", out: `^$`},
		{name: "scontrol hold " + held, says: "scontrol: the request is on its way and waits for the cluster's log", out: `^$`},
		{name: "squeue -h -o %i", says: "squeue: there is no answer yet", out: `^(\d+\n)*$`},
		{name: "sacct -n -P -o jobid", says: "sacct: there is no answer yet", out: `^(\d+(\.batch)?\n)*$`},
	}
	for _, r := range commands {
		words := strings.Fields(r.name)
		r.cmd = exec.Command(filepath.Join(bin, "stint-cli"), words...)
		r.cmd.Dir, r.cmd.Env, r.cmd.Stdout = c.work, c.env, &r.stdout
		pipe, err := r.cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		r.stderr = bufio.NewReader(pipe)
		if err := r.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer r.cmd.Process.Kill()
	}
	begun := time.Now()
	for _, r := range commands {
		line, err := r.stderr.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, r.says) {
			t.Errorf("%s says %q, %v", r.name, line, err)
		}
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %s until all of them said that they wait", took)
	}
	if err := syscall.Kill(bus, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for _, r := range commands {
		rest, _ := io.ReadAll(r.stderr)
		err := r.cmd.Wait()
		if !regexp.MustCompile(r.out).MatchString(r.stdout.String()) {
			t.Errorf("%s: %v, stdout %q, then stderr %q", r.name, err, &r.stdout, rest)
		}
	}
	// Whichever came first, the cancelled job cannot be held after its end; the others succeed.
	if code := commands[0].cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("sbatch ended with %d", code)
	}
	c.await(strings.TrimSpace(commands[0].stdout.String()), "COMPLETED")
	c.await(held, "CANCELLED")
}
