package integration

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Somebody sets the clock back an hour while jobs run, and then forward two. Jobs begin and end all the same, time limits hold as
// before, no node is lost, and accounting has the time that passed. It is run in a virtual machine (package vm), whose clock is its own.
func TestClock(t *testing.T) {
	if os.Getenv("STINT_TEST_CLOCK") == "" {
		t.Skip("sets the clock of the machine: it is run by stint/integration/vm")
	}
	c := start(t, "--nodes", "n1", "--cpus", "16", "--memory", "2000")
	began := time.Now()
	set := func(by time.Duration) {
		t.Helper()
		ts := unix.NsecToTimespec(time.Now().Add(by).UnixNano())
		if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
			t.Fatal(err)
		}
	}
	c.script("wait.sh", "#!/bin/sh\nuntil [ -e $1 ]; do sleep 0.2; done\nexit 3\n")
	limited := c.submit("-t", "1", "wait.sh", "never")
	lasting := c.submit("-t", "30", "wait.sh", "never")
	across := c.submit("-t", "30", "wait.sh", "back")
	both := c.submit("-t", "30", "wait.sh", "forward")
	for _, id := range []string{limited, lasting, across, both} {
		c.await(id, "RUNNING")
	}
	// ended: a job ends so, and accounting has no more and no less than the time that can have passed.
	ended := func(id, state string) {
		t.Helper()
		c.await(id, state)
		var elapsed, step int
		c.eventually("accounting has job "+id, func() bool {
			got := c.try("sacct", "-n", "-P", "-S", "now-1day", "-E", "now+1day", "-j", id, "-o", "state,elapsedraw").out
			_, err := fmt.Sscanf(strings.ReplaceAll(got, "|", " "), state+" %d\n"+state+" %d\n", &elapsed, &step)
			if err != nil && strings.HasPrefix(got, "TIMEOUT|") {
				_, err = fmt.Sscanf(strings.ReplaceAll(got, "|", " "), state+" %d\nCANCELLED %d\n", &elapsed, &step)
			}
			return err == nil
		})
		most := int(time.Since(began).Seconds()) + 15 // by the monotonic clock
		least := 0
		if id == limited {
			least = 55
		}
		if elapsed < least || elapsed > most || step < max(0, least-5) || step > most {
			t.Errorf("job %s is in accounting with %d s, its step with %d s, and %d s have passed\n%s", id, elapsed, step, most-15, c.try("stint", "events", id).out)
		}
	}
	touch := func(name string) { os.WriteFile(c.work+"/"+name, nil, 0o644) }

	set(-time.Hour)
	c.await(c.submit("wait.sh", "never2"), "RUNNING") // at once, not in an hour
	touch("back")
	ended(across, "FAILED")
	after := c.submit("wait.sh", "back")
	ended(after, "FAILED")
	soon := c.submit("--begin=now+2", "wait.sh", "back")
	ended(soon, "FAILED")
	if got := c.do("sinfo", "-h", "-o", "%T"); got != "mixed\n" {
		t.Errorf("with the clock set back the node is %q", got)
	}

	set(2 * time.Hour)
	c.await(c.submit("wait.sh", "never3"), "RUNNING") // no more is waited for a time that the clock has passed
	ended(c.submit("--begin=now+2", "wait.sh", "back"), "FAILED")
	touch("forward")
	ended(both, "FAILED")
	// The executor that comes after this one learns of the limit as it is.
	syscall.Kill(c.processes()["executor:n1"], syscall.SIGKILL)
	ended(c.submit("wait.sh", "back"), "FAILED")
	ended(limited, "TIMEOUT")
	if got := c.state(lasting); got != "RUNNING" {
		t.Errorf("a job with a limit of half an hour is %s after %s\n%s", got, time.Since(began), c.do("stint", "events", lasting))
	}
	if got := c.do("sinfo", "-h", "-o", "%T"); got != "mixed\n" {
		t.Errorf("after all that the node is %q", got)
	}
	c.do("scancel", lasting)
	c.await(lasting, "CANCELLED")
	c.do("stint", "replay", "--verify")
}
