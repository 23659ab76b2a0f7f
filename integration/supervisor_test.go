package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// waiters starts jobs on node n1 that say when they begin and wait until the file `go` is there; job i exits with i+1.
func waiters(c *cluster, n int) (ids []string) {
	c.t.Helper()
	c.script("waiter.sh", "#!/bin/sh\necho $1 >> began\nuntil [ -e go ]; do sleep 0.1; done\necho $1 >> ended\nexit $1\n")
	for i := range n {
		ids = append(ids, c.submit("-o", "/dev/null", "waiter.sh", fmt.Sprint(i+1)))
	}
	c.eventually("all have begun", func() bool {
		data, _ := os.ReadFile(filepath.Join(c.work, "began"))
		return strings.Count(string(data), "\n") == n
	})
	for _, id := range ids {
		c.await(id, "RUNNING")
	}
	return ids
}

// letGo lets the waiters end, and holds each to having run once.
func letGo(c *cluster, ids []string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.work, "go"), nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	for i, id := range ids {
		c.await(id, "FAILED")
		if story := c.do("stint", "events", id); strings.Count(story, " of run 1 started") != 1 || strings.Count(story, " of run 1 exited") != 1 {
			c.t.Errorf("job %s:\n%s", id, story)
		}
		for _, file := range []string{"began", "ended"} {
			if n := strings.Count("\n"+c.read(file), fmt.Sprintf("\n%d\n", i+1)); n != 1 {
				c.t.Errorf("job %s is %d times in %s", id, n, file)
			}
		}
	}
}

// exitCode is a job's, by accounting.
func exitCode(c *cluster, id string) string {
	c.t.Helper()
	out := ""
	c.within(3*patience, "the end of job "+id+" is in accounting", func() bool {
		out = strings.TrimSpace(c.try("sacct", "-X", "-n", "-P", "-j", id, "-o", "State,ExitCode").out)
		state, _, _ := strings.Cut(out, "|")
		return out != "" && final(state)
	})
	return out
}

// A supervisor that is killed leaves its steps alive, and the next one finds them. What they exited with, if nobody could see
// it, is an end of its own name and never success; nothing is started twice.
func TestKilledSupervisor(t *testing.T) {
	c := start(t, "--nodes", "n1", "--cpus", "4", "--memory", "4000")
	ids := waiters(c, 4)
	before := c.processes()["supervisor:n1"]
	syscall.Kill(before, syscall.SIGKILL)
	c.eventually("there is another supervisor", func() bool {
		now := c.processes()["supervisor:n1"]
		return now != 0 && now != before
	})
	letGo(c, ids)
	for i, id := range ids {
		got := exitCode(c, id)
		unseen := strings.Contains(c.do("stint", "events", id), "nobody saw how it ended")
		if want := fmt.Sprintf("FAILED|%d:0", i+1); got != want && !(unseen && got == "FAILED|0:0") {
			t.Errorf("job %s is %s in accounting, want %s", id, got, want)
		}
	}
}
