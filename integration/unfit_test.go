package integration

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A node whose disk is full must not eat the queue: it would be idle, and be given job after job. Its jobs run elsewhere, and it
// is out of service, with its reason, until an administrator has made room.
func TestFullNode(t *testing.T) {
	needRoot(t)
	c := start(t, "--nodes", "n[1-2]", "--cpus", "4", "--memory", "4000")
	spool := filepath.Join(c.dir, "spool", "n1")
	if err := unix.Mount("tmpfs", spool, "tmpfs", 0, "size=64k,mode=755"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(spool, unix.MNT_DETACH) })
	filler := filepath.Join(spool, "filler")
	fill(t, filler)

	c.script("job.sh", "#!/bin/sh\necho $SLURMD_NODENAME $SLURM_RESTART_COUNT\n")
	var jobs []string
	for range 20 {
		jobs = append(jobs, c.submit("job.sh"))
	}
	again := 0
	for _, id := range jobs {
		c.await(id, "COMPLETED")
		got := strings.Fields(c.read("slurm-" + id + ".out"))
		if len(got) == 0 || got[0] != "n2" {
			t.Errorf("job %s ran on %v", id, got)
		}
		if len(got) == 2 && got[1] != "0" {
			again++
		}
	}
	if again == 0 {
		t.Error("no job was ever sent to the node that cannot start it: the test has tested nothing")
	}
	const reason = "spool: no space left on device"
	if got := c.do("sinfo", "-h", "-R", "-o", "%E|%n"); !strings.HasPrefix(got, reason) || !strings.HasSuffix(strings.TrimSpace(got), "|n1") {
		t.Errorf("sinfo -R: %q", got)
	}
	if got := c.do("sinfo", "-h", "-N", "-o", "%N %T"); got != "n1 drained\nn2 idle\n" {
		t.Errorf("sinfo: %q", got)
	}

	// What needs the node waits, and says for what.
	c.script("pair.sh", "#!/bin/sh\necho $SLURM_JOB_NODELIST\n")
	pair := c.submit("-N2", "pair.sh")
	c.eventually("the job on two nodes waits for the drained one", func() bool {
		return strings.Contains(c.do("squeue", "-h", "-j", pair, "-o", "%r"), "DRAINED")
	})

	// Brought back while the disk is still full, it is drained again, and the job on two nodes goes back into the queue.
	c.do("scontrol", "update", "nodename=n1", "state=resume")
	c.eventually("the job was sent back", func() bool {
		return strings.Contains(c.do("scontrol", "show", "job", pair), "Restarts=1")
	})
	c.eventually("the node is drained again", func() bool { return c.do("sinfo", "-h", "-n", "n1", "-o", "%T") == "drained\n" })
	if story := c.do("stint", "events", pair); !strings.Contains(story, "the node could not start it") || !strings.Contains(story, reason) {
		t.Errorf("the story says:\n%s", story)
	}

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	c.do("scontrol", "update", "nodename=n1", "state=resume")
	c.await(pair, "COMPLETED")
	if got := c.read("slurm-" + pair + ".out"); got != "n[1-2]\n" {
		t.Errorf("the job on two nodes ran on %q", got)
	}
	if got := c.do("sinfo", "-h", "-R", "-o", "%E"); strings.TrimSpace(got) != "" && strings.TrimSpace(got) != "none" {
		t.Errorf("sinfo -R after the repair: %q", got)
	}
	one := c.submit("-w", "n1", "job.sh")
	c.await(one, "COMPLETED")

	// A job that must not be requeued ends by the node's fault.
	fill(t, filler)
	once := c.submit("--no-requeue", "-w", "n1", "job.sh")
	c.await(once, "NODE_FAIL")
	// As in Slurm, the reason in accounting is of the time before the start.
	told := ""
	c.eventually("the ledger knows", func() bool {
		told = c.do("sacct", "-n", "-P", "-X", "-j", once, "-o", "state,reason,exitcode,failednode")
		return strings.HasPrefix(told, "NODE_FAIL|")
	})
	if told != "NODE_FAIL|None|0:0|n1\n" {
		t.Errorf("sacct: %q", told)
	}
	c.do("stint", "replay", "--verify")
}

// fill writes a file until its file system takes no more.
func fill(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling a small file system: %v", err)
	}
}

// What is the job's own fault ends the job, and the node goes on; each command tells of it as Slurm's does.
func TestJobThatCannotStart(t *testing.T) {
	c := start(t, "--nodes", "n1", "--cpus", "2", "--memory", "2000")
	c.script("job.sh", "#!/bin/sh\necho it ran\n")
	c.script("odd.sh", "#!/no/such/interpreter\n")
	for name, id := range map[string]string{
		"an output that cannot be opened": c.submit("-o", "/no/such/folder/out", "job.sh"),
		"an input that is not there":      c.submit("-i", "/no/such/input", "job.sh"),
		"a folder that is not there":      c.submit("-D", "/no/such/folder", "job.sh"),
	} {
		c.await(id, "FAILED")
		if got := c.do("squeue", "-h", "-t", "all", "-j", id, "-o", "%T|%r|%R|%N"); got != "FAILED|JobLaunchFailure|(JobLaunchFailure)|n1\n" {
			t.Errorf("%s: squeue tells %q", name, got)
		}
		if got := c.do("scontrol", "show", "job", id); !strings.Contains(got, "JobState=FAILED Reason=JobLaunchFailure ") || !strings.Contains(got, " Restarts=0 ") || !strings.Contains(got, " ExitCode=0:53") {
			t.Errorf("%s: scontrol tells\n%s", name, got)
		}
		// In accounting the reason is of the time before the start.
		want := id + "|FAILED|None|0:53|0:0\n" + id + ".batch|CANCELLED||0:53|\n"
		c.eventually("the ledger knows of "+name, func() bool {
			return c.do("sacct", "-n", "-P", "-j", id, "-o", "jobid,state,reason,exitcode,derivedexitcode") == want
		})
	}
	id := c.submit("odd.sh") // the step began, so it ends as if the script had, with the kernel's number
	c.await(id, "FAILED")
	if got := c.read("slurm-" + id + ".out"); !strings.Contains(got, "slurmstepd: error: execve(): ") || !strings.Contains(got, "/no/such/interpreter does not exist on this node") {
		t.Errorf("the output of a script without its interpreter is %q", got)
	}
	c.eventually("the ledger knows of it", func() bool {
		return c.do("sacct", "-n", "-P", "-j", id, "-o", "jobid,state,exitcode") == id+"|FAILED|2:0\n"+id+".batch|FAILED|2:0\n"
	})
	if got := c.do("sinfo", "-h", "-N", "-o", "%N %T"); got != "n1 idle\n" {
		t.Errorf("sinfo: %q", got)
	}
	c.await(c.submit("job.sh"), "COMPLETED")
}
