package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestLedger: accounting is a function of the log. It says the same after its process was killed, and after its directory was
// deleted; and a job's story can still be told.
func TestLedger(t *testing.T) {
	c := start(t, "--nodes", "n[1-2]", "--cpus", "4", "--memory", "4000", "--split")
	c.script("exit.sh", "#!/bin/sh\nexit $1\n")
	ok := c.submit("exit.sh", "0")
	bad := c.submit("exit.sh", "3")
	array := c.submit("--array=1-3%2", "--wrap", "exit $SLURM_ARRAY_TASK_ID")
	long := c.submit("--wrap", "sleep 300")
	c.await(long, "RUNNING")
	again := c.submit("--wrap", "sleep 300")
	c.await(again, "RUNNING")
	c.do("scontrol", "requeue", again)
	c.await(again, "PENDING")
	c.do("scancel", long, again)
	never := c.submit("-H", "--wrap", "true")
	c.do("scancel", never)
	c.eventually("all jobs have ended", func() bool {
		states := c.try("sacct", "-a", "-X", "-n", "-P", "-S", "now-1day", "-o", "State").out
		return strings.Count(states, "\n") == 7 && // all but the one that never could have started
			!strings.Contains(states, "PENDING") && !strings.Contains(states, "RUNNING")
	})
	all := func() string {
		return c.do("sacct", "-a", "-D", "-P", "-S", "now-1day", "-o", "ALL")
	}
	before := all()
	if n := strings.Count(before, "\n"); n < 15 {
		t.Fatalf("only %d lines:\n%s", n, before)
	}
	if got := c.do("sacct", "-X", "-D", "-n", "-P", "-j", again, "-o", "State"); !strings.HasPrefix(got, "REQUEUED\nCANCELLED by ") {
		t.Errorf("the job that was requeued: %q", got)
	}
	if got := c.do("sacct", "-n", "-P", "-j", bad, "-o", "JobID,State,ExitCode"); got != bad+"|FAILED|3:0\n"+bad+".batch|FAILED|3:0\n" {
		t.Errorf("the job that failed: %q", got)
	}
	same := func(what string) {
		t.Helper()
		var after string
		c.eventually("accounting answers "+what, func() bool {
			r := c.try("sacct", "-a", "-D", "-P", "-S", "now-1day", "-o", "ALL")
			after = r.out
			return r.code == 0
		})
		if after != before {
			t.Errorf("%s:\n%s\nit was\n%s", what, after, before)
		}
		for _, id := range []string{ok, array + "_2"} {
			if story := c.do("stint", "events", id); !strings.Contains(story, "placed") || !strings.Contains(story, "ended") {
				t.Errorf("%s, the story of %s:\n%s", what, id, story)
			}
		}
	}
	pid := c.processes()["ledger"]
	if pid == 0 {
		t.Fatal("the ledger is no process of its own")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.eventually("the ledger is started again", func() bool { p := c.processes()["ledger"]; return p != 0 && p != pid })
	same("after its process was killed")

	c.do("stint", "down")
	if err := os.RemoveAll(filepath.Join(c.dir, "ledger")); err != nil {
		t.Fatal(err)
	}
	c.up("--nodes", "n[1-2]", "--cpus", "4", "--memory", "4000", "--split")
	same("made anew from the log")
}
