package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Users that every Debian has, by number: daemon and bin.
const (
	daemonUID = 1
	binUID    = 2
)

// One cluster serves every user of the host. Who they are the kernel says: jobs run under their own user, files are
// theirs, and nobody ends or reads another's.
func TestUsers(t *testing.T) {
	needRoot(t)
	c := start(t, "--nodes", "n1", "--cpus", "4", "--memory", "4000")
	c.script("who.sh", "#!/bin/sh\nid -un; id -gn; umask; echo $SLURM_JOB_USER $SLURM_JOB_UID\nsleep ${1:-0}\n")
	for uid, name := range map[int]string{daemonUID: "daemon", binUID: "bin"} {
		r := c.tryAs(uid, "sbatch", "--parsable", "who.sh")
		if r.code != 0 {
			t.Fatalf("sbatch by %s: %d %s", name, r.code, r.err)
		}
		id := strings.TrimSpace(r.out)
		c.await(id, "COMPLETED")
		file := "slurm-" + id + ".out"
		if got, want := c.read(file), fmt.Sprintf("%[1]s\n%[1]s\n0022\n%[1]s %[2]d\n", name, uid); got != want {
			t.Errorf("a job of %s wrote %q, want %q", name, got, want)
		}
		info, err := os.Stat(filepath.Join(c.work, file))
		if err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(uid) {
			t.Errorf("the output of %s belongs to %v, %v", name, info.Sys().(*syscall.Stat_t).Uid, err)
		}
		if got := c.tryAs(uid, "sacct", "-X", "-n", "-P", "-o", "User,JobID").out; got != name+"|"+id+"\n" {
			t.Errorf("sacct shows %s: %q", name, got)
		}
	}

	id := strings.TrimSpace(c.tryAs(daemonUID, "sbatch", "--parsable", "-o", "/dev/null", "who.sh", "60").out)
	c.await(id, "RUNNING")
	if r := c.tryAs(binUID, "scancel", id); r.code == 0 || !strings.Contains(r.err, "Access/permission denied") {
		t.Errorf("bin ends a job of daemon: %d %q", r.code, r.err)
	}
	if r := c.tryAs(binUID, "scontrol", "update", "jobid="+id, "timelimit=1"); r.code == 0 {
		t.Errorf("bin changes a job of daemon: %q", r.out)
	}
	if r := c.tryAs(binUID, "scontrol", "update", "nodename=n1", "state=drain", "reason=no"); r.code == 0 {
		t.Error("bin drains a node")
	}
	if got := strings.TrimSpace(c.tryAs(binUID, "squeue", "-h", "-o", "%i %u").out); got != id+" daemon" {
		t.Errorf("bin sees the queue as %q", got)
	}
	if r := c.tryAs(daemonUID, "scancel", id); r.code != 0 {
		t.Errorf("daemon ends its own job: %d %q", r.code, r.err)
	}
	c.await(id, "CANCELLED")

	// What is secret lies where only its owner and the cluster's get at it.
	for _, dir := range []string{"bus", "keys", "ledger", "controller", "node", "log"} {
		info, err := os.Stat(filepath.Join(c.dir, dir))
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", dir, info.Mode(), err)
		}
	}
	keys, _ := filepath.Glob(filepath.Join(c.dir, "keys", "*"))
	if len(keys) < 5 {
		t.Errorf("only %d keys", len(keys))
	}
	for _, k := range keys {
		if info, err := os.Stat(k); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", k, info.Mode(), err)
		}
	}
}

// An ordinary user has a cluster of their own, which serves nobody else.
func TestOrdinaryUser(t *testing.T) {
	needRoot(t)
	base := t.TempDir()
	for d := base; d != "/tmp" && d != "/"; d = filepath.Dir(d) {
		os.Chmod(d, 0o755)
	}
	home := filepath.Join(base, "home")
	os.Mkdir(home, 0o700)
	os.Chown(home, daemonUID, daemonUID)
	c := &cluster{t: t, dir: filepath.Join(home, "c"), work: home}
	c.env = clean(append(os.Environ(), "HOME="+home, "STINT_DIR="+c.dir))
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := filepath.Glob(filepath.Join(c.dir, "log", "*"))
			for _, l := range logs {
				data, _ := os.ReadFile(l)
				t.Logf("%s:\n%s", l, data)
			}
		}
		c.tryAs(daemonUID, "stint", "down", "--kill")
	})
	up := c.tryAs(daemonUID, "stint", "up", "--detach", "--nodes", "n1", "--cpus", "2", "--memory", "500")
	if up.code != 0 || strings.Count(up.out, "are not held to their CPUs") != 1 {
		t.Fatalf("up: exit %d, and it should say once that nothing is enforced\n%s%s", up.code, up.out, up.err)
	}
	r := c.tryAs(daemonUID, "sbatch", "--parsable", "--wrap", "id -un")
	if r.code != 0 {
		t.Fatalf("sbatch: %s", r.err)
	}
	id := strings.TrimSpace(r.out)
	c.eventually("the job is over", func() bool {
		return strings.TrimSpace(c.tryAs(daemonUID, "squeue", "-h", "-t", "all", "-o", "%T").out) == "COMPLETED"
	})
	if got := c.read("slurm-" + id + ".out"); got != "daemon\n" {
		t.Errorf("the job wrote %q", got)
	}
	os.Chmod(home, 0o755)
	os.Chmod(c.dir, 0o755)
	if r := c.tryAs(binUID, "sbatch", "--wrap", "true"); r.code == 0 {
		t.Error("another user got in")
	}
}
