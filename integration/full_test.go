package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// small puts a file system of so many MiB below a folder of a cluster that does not run yet. The files of the cluster that the test
// leaves behind go with it.
func (c *cluster) small(mib int, sub ...string) (dir string) {
	c.t.Helper()
	dir = filepath.Join(append([]string{c.dir}, sub...)...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	os.Chmod(dir, 0o700)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=700", mib)); err != nil {
		c.t.Skipf("no small file system can be mounted here: %v", err)
	}
	c.t.Cleanup(func() {
		c.try("stint", "down", "--kill")
		unix.Unmount(dir, unix.MNT_DETACH)
	})
	return dir
}

// fillUpTo leaves a file system so many KiB, and returns the file to remove.
func fillUpTo(t *testing.T, dir string, left int64) (filler string) {
	t.Helper()
	filler = filepath.Join(dir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	n := int64(fs.Bavail)*fs.Bsize - left<<10
	if err := unix.Fallocate(int(f.Fd()), 0, 0, n); err != nil && !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	return filler
}

// The disk of the log fills up. New jobs are refused in time, with a sentence; what runs goes on and ends; when there is room
// again, the ends are told, once, and all goes on, and nobody had to start anything again.
func TestFullLog(t *testing.T) {
	needRoot(t)
	c := planned(t)
	log := c.small(100, "bus")
	c.up("--nodes", "n1", "--cpus", "8", "--memory", "4000")
	c.script("job.sh", "#!/bin/sh\necho begun >> $SLURM_JOB_ID.ran\nwhile [ ! -e go ]; do sleep 0.1; done\necho over >> $SLURM_JOB_ID.ran\nexit 3\n")
	var jobs []string
	for range 3 {
		jobs = append(jobs, c.submit("job.sh"))
	}
	waits := c.submit("-H", "job.sh")
	for _, id := range jobs {
		c.await(id, "RUNNING")
	}
	before := c.processes()

	// Nearly full: no new jobs, and everything else as ever.
	filler := fillUpTo(t, log, 20<<10)
	blobs := c.do("squeue", "-h", "-o", "%i")
	r := c.try("sbatch", "job.sh")
	if r.code != 1 || r.out != "" || !strings.Contains(r.err, "Batch job submission failed: nothing was submitted: "+log+", where the cluster's log is, has 20 MiB free, and below 32 MiB no new jobs are taken") {
		t.Errorf("a submission with the log's disk nearly full: %d %q %q", r.code, r.out, r.err)
	}
	if got := c.do("squeue", "-h", "-o", "%i"); got != blobs {
		t.Errorf("the queue was %q and is %q", blobs, got)
	}
	c.do("scancel", waits)
	c.await(waits, "CANCELLED")
	os.Remove(filler)

	// Full: nothing is recorded, and who asks for something is told why.
	filler = fillUpTo(t, log, 0)
	c.eventually("an act is refused", func() bool {
		r := c.try("scontrol", "update", "jobid="+jobs[0], "comment=full")
		return r.code != 0 && strings.Contains(r.err, "where the cluster's log is, has 0 MiB free and is full; make room there")
	})
	if r := c.try("sbatch", "job.sh"); r.code != 1 || !strings.Contains(r.err, "nothing was submitted") {
		t.Errorf("a submission with the log's disk full: %d %q", r.code, r.err)
	}
	if got := c.do("squeue", "-h", "-t", "R", "-o", "%i"); strings.Count(got, "\n") != len(jobs) {
		t.Errorf("the queue with a full disk is %q", got)
	}
	os.WriteFile(filepath.Join(c.work, "go"), nil, 0o644)
	for _, id := range jobs {
		c.eventually("the script of job "+id+" ends", func() bool {
			data, _ := os.ReadFile(filepath.Join(c.work, id+".ran"))
			return string(data) == "begun\nover\n"
		})
	}

	os.Remove(filler)
	for _, id := range jobs {
		c.await(id, "FAILED")
	}
	c.eventually("accounting has all of it", func() bool {
		return c.try("sacct", "-X", "-n", "-P", "-j", strings.Join(jobs, ","), "-o", "jobid,state,exitcode").out == fmt.Sprintf("%s|FAILED|3:0\n%s|FAILED|3:0\n%s|FAILED|3:0\n", jobs[0], jobs[1], jobs[2])
	})
	for _, id := range jobs {
		if got := c.read(id + ".ran"); got != "begun\nover\n" {
			t.Errorf("job %s ran %q", id, got)
		}
		if got := c.do("stint", "events", id); strings.Count(got, " exited    ") != 1 {
			t.Errorf("the end of job %s is not told once:\n%s", id, got)
		}
	}
	c.await(c.submit("job.sh"), "FAILED")
	for name, pid := range c.processes() {
		if before[name] != pid {
			t.Errorf("%s was process %d and is %d", name, before[name], pid)
		}
	}
	c.do("stint", "replay", "--verify")
}

// The disk of the ledger fills up. Everything but accounting goes on, and accounting says what it lacks: while its tables are open, and
// when they cannot be opened. When there is room it has caught up by itself.
func TestFullLedger(t *testing.T) {
	needRoot(t)
	c := planned(t)
	disk := c.small(150, "ledger")
	options := []string{"--nodes", "n1", "--cpus", "8", "--memory", "4000"}
	c.up(options...)
	c.script("job.sh", "#!/bin/sh\nexit 3\n")
	first := c.submit("job.sh")
	c.await(first, "FAILED")
	told := func(id string) bool {
		return c.try("sacct", "-X", "-n", "-P", "-j", id, "-o", "jobid,state,exitcode").out == id+"|FAILED|3:0\n"
	}
	c.eventually("accounting has the first", func() bool { return told(first) })

	filler := fillUpTo(t, disk, 20<<10)
	second := c.submit("job.sh")
	c.await(second, "FAILED")
	lacks := disk + " has 20 MiB free, and the ledger wants 64 to go on: free some space, it goes on by itself"
	if r := c.try("sacct", "-X", "-n", "-j", second); r.code == 0 || !strings.Contains(r.err, lacks) {
		t.Errorf("sacct with the ledger's disk full: %d %q %q", r.code, r.out, r.err)
	}
	if r := c.try("stint", "status"); r.code == 0 || !strings.Contains(r.out+r.err, "20 MiB free") {
		t.Errorf("stint status: %d\n%s%s", r.code, r.out, r.err)
	}
	os.Remove(filler)
	c.eventually("accounting has caught up", func() bool { return told(second) })

	// Full to the last byte, and started so.
	filler = fillUpTo(t, disk, 0)
	third := c.submit("job.sh")
	c.await(third, "FAILED")
	c.do("stint", "down")
	r := c.try("stint", "up", "--detach", "--wait", "3s")
	if r.code == 0 || !strings.Contains(r.err, "it goes on trying") {
		t.Errorf("up with the ledger's disk full: %d %q", r.code, r.err)
	}
	c.await(c.submit("job.sh"), "FAILED")
	if r := c.try("sacct", "-X", "-n", "-j", third); r.code == 0 || !strings.Contains(r.err, "accounting is not there: "+disk+" has 0 MiB free") {
		t.Errorf("sacct with tables that cannot be opened: %d %q %q", r.code, r.out, r.err)
	}
	os.Remove(filler)
	c.eventually("accounting has caught up", func() bool { return told(third) && told(second) && told(first) })
	c.do("stint", "replay", "--verify")
}

// The disk of the controller's snapshots is full: it goes on without, keeps the one it has, and says so; a start folds more of the log.
func TestFullSnapshots(t *testing.T) {
	needRoot(t)
	c := planned(t)
	disk := c.small(1, "controller")
	options := []string{"--nodes", "n1", "--cpus", "8", "--memory", "4000"}
	c.up(options...)
	c.script("job.sh", "#!/bin/sh\nexit 3\n")
	c.await(c.submit("job.sh"), "FAILED")
	c.do("stint", "down")
	files := func() string {
		all, _ := filepath.Glob(filepath.Join(disk, "*"))
		for i := range all {
			all[i] = filepath.Base(all[i])
		}
		return strings.Join(all, " ")
	}
	kept := files()
	if !strings.HasPrefix(kept, "snapshot-") {
		t.Fatalf("there is no snapshot to keep: %q", kept)
	}
	c.up(options...)
	filler := fillUpTo(t, disk, 0)
	waits := c.submit("-H", "job.sh")
	c.await(c.submit("job.sh"), "FAILED")
	c.do("stint", "down")
	os.Remove(filler)
	if got := files(); got != kept {
		t.Errorf("the snapshots were %q and are %q", kept, got)
	}
	if data, _ := os.ReadFile(filepath.Join(c.dir, "log", "up.log")); !strings.Contains(string(data), `msg="writing a snapshot"`) || !strings.Contains(string(data), "no space left on device") {
		t.Error("the log has nothing of it")
	}
	c.up(options...)
	if got := c.do("squeue", "-h", "-o", "%i %T"); got != waits+" PENDING\n" {
		t.Errorf("after a start from the older snapshot the queue is %q", got)
	}
	c.do("scontrol", "release", waits)
	c.await(waits, "FAILED")
	c.do("stint", "replay", "--verify")
}

// A job whose own disk is full fails as any program does; nobody else notices.
func TestFullOutput(t *testing.T) {
	needRoot(t)
	c := start(t, "--nodes", "n1", "--cpus", "4", "--memory", "4000")
	c.env = append(c.env, "PATH="+filepath.Join(c.dir, "bin")+":"+os.Getenv("PATH"))
	disk := filepath.Join(c.work, "small")
	os.Mkdir(disk, 0o777)
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m,mode=777"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(disk, unix.MNT_DETACH) })
	c.script("loud.sh", "#!/bin/bash\nhead -c 4000000 /dev/zero || exit 28\n")
	c.script("job.sh", "#!/bin/sh\necho fine\n")
	loud := c.submit("-o", "small/out", "-e", "errors", "loud.sh")
	step := c.submit("-o", "srun.out", "--wrap", "srun -o small/step head -c 4000000 /dev/zero")
	other := c.submit("job.sh")
	c.await(loud, "FAILED")
	c.await(other, "COMPLETED")
	if got := c.read("errors"); !strings.Contains(got, "No space left on device") {
		t.Errorf("the job was told %q", got)
	}
	if got := c.do("scontrol", "show", "job", loud); !strings.Contains(got, "ExitCode=28:0") {
		t.Errorf("the job ended otherwise:\n%s", got)
	}
	c.eventually("the job with the step ends", func() bool { return c.state(step) != "RUNNING" && c.state(step) != "PENDING" })
	t.Logf("a step whose output has no room: %s, %q", c.state(step), c.read("srun.out"))
	if got := c.read("srun.out"); !strings.Contains(strings.ToLower(got), "no space left on device") {
		t.Errorf("srun says %q of an output that has no room", got)
	}
	if got := c.do("sinfo", "-h", "-N", "-o", "%N %T"); got != "n1 idle\n" {
		t.Errorf("sinfo: %q", got)
	}
	c.await(c.submit("job.sh"), "COMPLETED")
}
