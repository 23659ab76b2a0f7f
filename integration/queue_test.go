package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The order in which jobs may run, and what people do to jobs and nodes.
func TestQueue(t *testing.T) {
	c := withConf(t, siteConf)
	c.script("log.sh", "#!/bin/sh\necho begin $1$SLURM_ARRAY_TASK_ID >> log\nsleep ${2:-0}\necho end $1$SLURM_ARRAY_TASK_ID >> log\nexit ${3:-0}\n")
	c.script("wait.sh", "#!/bin/sh\necho \"run $SLURM_JOB_ID ${SLURM_RESTART_COUNT:-0} $(hostname)\" >> runs\nuntil [ -e go.$1 ]; do sleep 0.1; done\n")
	test := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			defer func(outer *testing.T) { c.t = outer }(c.t)
			c.t = t
			os.Remove(filepath.Join(c.work, "log"))
			os.Remove(filepath.Join(c.work, "runs"))
			f(t)
		})
	}
	letGo := func(name string) {
		if err := os.WriteFile(filepath.Join(c.work, "go."+name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	reason := func(id string) string { return strings.TrimSpace(c.try("squeue", "-h", "-j", id, "-o", "%r").out) }
	awaitReason := func(id, want string) {
		c.t.Helper()
		c.eventually("job "+id+" waits for "+want, func() bool { return reason(id) == want })
	}

	test("an array with a limit", func(t *testing.T) {
		id := c.submit("-o", "a.%A.%a", "--array=1-7:2%2", "log.sh", "t", "0.3")
		c.eventually("all tasks are in accounting", func() bool {
			return strings.Count(c.try("sacct", "-X", "-n", "-P", "-j", id, "-o", "State").out, "COMPLETED") == 4
		})
		running, most := 0, 0
		var order []string
		for line := range strings.Lines(c.read("log")) {
			what, task, _ := strings.Cut(strings.TrimSpace(line), " ")
			if what == "begin" {
				running++
				order = append(order, task)
			} else {
				running--
			}
			most = max(most, running)
		}
		slices.Sort(order)
		if got := strings.Join(order, " "); got != "t1 t3 t5 t7" || most != 2 {
			t.Errorf("the tasks %s ran, %d at a time", got, most)
		}
		for _, task := range []string{"1", "3", "5", "7"} {
			c.read("a." + id + "." + task)
		}
	})
	test("a pipeline", func(t *testing.T) {
		first := c.submit("-o", "/dev/null", "log.sh", "a", "0.5")
		second := c.submit("-o", "/dev/null", "-d", "afterok:"+first, "log.sh", "b", "0.3", "3")
		rescue := c.submit("-o", "/dev/null", "-d", "afternotok:"+second, "log.sh", "c")
		always := c.submit("-o", "/dev/null", "-d", "afterany:"+second+",afterok:"+rescue, "log.sh", "d")
		never := c.submit("-o", "/dev/null", "-d", "afterok:"+second, "log.sh", "x")
		if got := reason(never); got != "Dependency" {
			t.Errorf("it waits for %q", got)
		}
		c.ended(second, "FAILED|3:0")
		c.ended(always, "COMPLETED|0:0")
		if got, want := c.read("log"), "begin a\nend a\nbegin b\nend b\nbegin c\nend c\nbegin d\nend d\n"; got != want {
			t.Errorf("they ran so:\n%s", got)
		}
		awaitReason(never, "DependencyNeverSatisfied")
		c.do("scancel", never)
		c.cancelled(never)
	})
	test("one of a name at a time", func(t *testing.T) {
		var ids []string
		for i := range 3 {
			ids = append(ids, c.submit("-o", "/dev/null", "-J", "single", "-d", "singleton", "log.sh", fmt.Sprint(i), "0.2"))
		}
		for _, id := range ids {
			c.ended(id, "COMPLETED|0:0")
		}
		if got, want := c.read("log"), "begin 0\nend 0\nbegin 1\nend 1\nbegin 2\nend 2\n"; got != want {
			t.Errorf("they ran so:\n%s", got)
		}
	})
	test("tasks after their counterparts", func(t *testing.T) {
		first := c.submit("-o", "/dev/null", "--array=0-1", "--wrap", "sleep 0.$SLURM_ARRAY_TASK_ID; echo end a$SLURM_ARRAY_TASK_ID >> log; exit $SLURM_ARRAY_TASK_ID")
		second := c.submit("-o", "/dev/null", "--array=0-1", "-d", "aftercorr:"+first, "log.sh", "b")
		c.ended(second+"_0", "COMPLETED|0:0")
		c.ended(first+"_1", "FAILED|1:0")
		if got := c.read("log"); !regexp.MustCompile(`(?s)end a0.*begin b0`).MatchString(got) || strings.Contains(got, "b1") {
			t.Errorf("they ran so:\n%s", got)
		}
		c.do("scancel", second)
		c.eventually("nothing is left", func() bool { return c.try("squeue", "-h").out == "" })
	})
	test("hold, update, release", func(t *testing.T) {
		id := c.submit("-o", "/dev/null", "-H", "log.sh", "h")
		awaitReason(id, "JobHeldUser")
		c.do("scontrol", "update", "jobid="+id, "timelimit=7", "name=other", "partition=short")
		if got := strings.TrimSpace(c.do("squeue", "-h", "-j", id, "-o", "%l %j %P")); got != "7:00 other short" {
			t.Errorf("after the update it is %q", got)
		}
		c.do("scontrol", "release", id)
		c.ended(id, "COMPLETED|0:0")
		running := c.submit("-o", "/dev/null", "-t", "5", "wait.sh", "hold")
		c.await(running, "RUNNING")
		c.do("scontrol", "update", "jobid="+running, "timelimit=3")
		if got := strings.TrimSpace(c.do("squeue", "-h", "-j", running, "-o", "%l")); got != "3:00" {
			t.Errorf("the limit of one that runs is %q", got)
		}
		letGo("hold")
		c.ended(running, "COMPLETED|0:0")
	})
	test("requeue", func(t *testing.T) {
		id := c.submit("-o", "/dev/null", "wait.sh", "requeue")
		c.eventually("it has begun", func() bool { return strings.Contains(c.maybe("runs"), "run "+id+" 0 ") })
		c.await(id, "RUNNING")
		c.do("scontrol", "requeue", id)
		awaitReason(id, "BeginTime") // in two minutes, as in Slurm
		c.do("scontrol", "update", "jobid="+id, "starttime=now")
		c.eventually("it has begun again", func() bool { return strings.Contains(c.maybe("runs"), "run "+id+" 1 ") })
		letGo("requeue")
		c.ended(id, "COMPLETED|0:0")
		if got := c.read("runs"); strings.Count(got, "\n") != 2 {
			t.Errorf("it ran so:\n%s", got)
		}
	})
	test("nodes that are drained and down", func(t *testing.T) {
		node := func() string { return strings.TrimSpace(c.do("sinfo", "-h", "-n", "n2", "-o", "%T")) }
		runs := c.submit("-o", "/dev/null", "-w", "n2", "wait.sh", "drain")
		c.await(runs, "RUNNING")
		c.do("scontrol", "update", "nodename=n2", "state=drain", "reason=new disk")
		c.eventually("the node drains", func() bool { return node() == "draining" })
		waits := c.submit("-o", "/dev/null", "-w", "n2", "wait.sh", "drain")
		c.eventually("it waits for the node", func() bool { return strings.HasPrefix(reason(waits), "ReqNodeNotAvail") })
		if got := c.do("sinfo", "-R", "-h", "-o", "%E %N"); got != "new disk n2\n" {
			t.Errorf("sinfo -R: %q", got)
		}
		letGo("drain")
		c.ended(runs, "COMPLETED|0:0")
		c.eventually("the node is drained", func() bool { return node() == "drained" })
		c.do("scontrol", "update", "nodename=n2", "state=resume")
		c.ended(waits, "COMPLETED|0:0")

		dies := c.submit("-o", "/dev/null", "--no-requeue", "-w", "n2", "wait.sh", "down")
		c.await(dies, "RUNNING")
		c.do("scontrol", "update", "nodename=n2", "state=down", "reason=smoke")
		if got := exitCode(c, dies); !strings.HasPrefix(got, "NODE_FAIL|") {
			t.Errorf("a job on a node that was set down ended %s", got)
		}
		if got := node(); got != "down" {
			t.Errorf("the node is %q", got)
		}
		c.do("scontrol", "update", "nodename=n2", "state=resume")
		c.ended(c.submit("-o", "/dev/null", "-w", "n2", "--wrap", "true"), "COMPLETED|0:0")
	})
	test("down with and without the jobs", func(t *testing.T) {
		id := c.submit("-o", "/dev/null", "wait.sh", "never")
		c.await(id, "RUNNING")
		if r := c.try("stint", "down"); r.code == 0 || !strings.Contains(r.err, "--kill") || !strings.Contains(r.err, "--keep") {
			t.Errorf("stint down with a job that runs: exit %d, %q", r.code, r.err)
		}
		c.do("stint", "down", "--kill")
		if left := c.left(); len(left) > 0 {
			t.Errorf("these processes are left: %v", left)
		}
		c.up()
		c.cancelled(id)
		c.await(c.submit("-o", "/dev/null", "wait.sh", "never"), "RUNNING")
		c.do("stint", "down", "--keep")
		if out := c.do("stint", "down", "--kill"); !strings.Contains(out, "what an earlier one had left under 1 supervisor was ended") {
			t.Errorf("jobs that were left to go on were ended with: %s", out)
		}
		if left := c.left(); len(left) > 0 {
			t.Errorf("these processes are left: %v", left)
		}
		c.up()
		if out := c.do("stint", "replay", "--verify"); !strings.Contains(out, "the live state is the same") {
			t.Errorf("the log does not hold after all that:\n%s", out)
		}
	})
}

// cancelled waits until accounting has it that this user ended a job, with its signal or none.
func (c *cluster) cancelled(id string) {
	c.t.Helper()
	by := fmt.Sprintf("CANCELLED by %d|0:", os.Geteuid())
	if got := exitCode(c, id); got != by+"0" && got != by+"15" {
		c.t.Errorf("job %s was cancelled and ended %s", id, got)
	}
}

// maybe returns a file of the work directory, nothing if it is not there.
func (c *cluster) maybe(name string) string {
	data, _ := os.ReadFile(filepath.Join(c.work, name))
	return string(data)
}

// left lists the processes that have to do with the cluster.
func (c *cluster) left() (out []string) {
	for _, f := range glob("/proc/[0-9]*/cmdline") {
		data, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(data), filepath.Dir(c.dir)+"/") {
			out = append(out, strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	return out
}
