package integration

import (
	"regexp"
	"syscall"
	"testing"
	"time"
)

// TestPausedLeader: a leader that sleeps for ten seconds, in the midst of work, is followed by another controller, and when it
// wakes it does no harm: it has no more to say, and does not ask for the lead that it believes to have.
func TestPausedLeader(t *testing.T) {
	c := start(t, "--split", "--nodes", "n[1-2]", "--cpus", "2", "--memory", "1000")
	c.second()
	c.await(c.submit("-o", "/dev/null", "--wrap", "true"), "COMPLETED")

	first := c.processes()["controller"]
	ids := c.busy(8) // two for each CPU: it has more to decide
	if err := syscall.Kill(first, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	asleep := time.Now()
	defer syscall.Kill(first, syscall.SIGCONT)
	ids = append(ids, c.busy(4)...)
	c.ranOnce(ids)
	ids = c.busy(8)
	time.Sleep(time.Until(asleep.Add(10 * time.Second)))
	if err := syscall.Kill(first, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	ids = append(ids, c.busy(4)...)
	c.ranOnce(ids)
	out := c.do("stint", "replay", "--verify")
	if terms := regexp.MustCompile(`: (\d+) terms`).FindStringSubmatch(out); terms == nil || terms[1] != "2" {
		t.Errorf("the lead went to and fro:\n%s", out)
	}
}
