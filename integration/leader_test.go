package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
)

// TestPausedLeader: a leader that sleeps is followed by another controller, and when it wakes it does no harm: it has no more
// to say, and does not ask for the lead that it believes to have.
func TestPausedLeader(t *testing.T) {
	c := start(t, "--split", "--nodes", "n[1-2]", "--cpus", "2", "--memory", "1000")
	logs, err := os.Create(filepath.Join(c.dir, "log", "second.log"))
	if err != nil {
		t.Fatal(err)
	}
	second := exec.Command(filepath.Join(bin, "stint"), "controller", "--dir", c.dir)
	second.Env, second.Stderr = c.env, logs
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		second.Process.Signal(syscall.SIGTERM)
		second.Wait()
	}()
	c.eventually("the second controller answers", func() bool {
		data, _ := os.ReadFile(logs.Name())
		return regexp.MustCompile(`msg=answering`).Match(data)
	})
	c.await(c.submit("-o", "/dev/null", "--wrap", "true"), "COMPLETED")

	first := c.processes()["controller"]
	if err := syscall.Kill(first, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(first, syscall.SIGCONT)
	c.await(c.submit("-o", "/dev/null", "--wrap", "true"), "COMPLETED")
	if err := syscall.Kill(first, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		c.await(c.submit("-o", "/dev/null", "--wrap", "true"), "COMPLETED")
	}
	out := c.do("stint", "replay", "--verify")
	if terms := regexp.MustCompile(`: (\d+) terms`).FindStringSubmatch(out); terms == nil || terms[1] != "2" {
		t.Errorf("the lead went to and fro:\n%s", out)
	}
}
