package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCrontab: a job that recurs runs at its minutes, one run after the other under the same id, also over a restart of the
// cluster, until it is cancelled or the crontab is removed; and the log alone says why at which times.
func TestCrontab(t *testing.T) {
	t.Setenv("TZ", "Asia/Kathmandu") // as far from UTC as hours and 45 minutes: what is decided is the site's time
	file := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(file, []byte("ClusterName=site\nSlurmctldHost=head\nScronParameters=enable,explicit_scancel\nNodeName=n1 CPUs=2 RealMemory=2000\nPartitionName=main Nodes=ALL Default=YES\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := start(t, "--config", file, "--virtual")
	if r := c.try("scrontab", "-l"); r.code != 1 || !strings.HasPrefix(r.out, "no crontab for ") {
		t.Errorf("without a crontab: %+v", r)
	}
	text := "OUT=" + c.work + "/runs\n" +
		"#SCRON --time=1 --job-name=tick --output=" + c.work + "/tick.out --open-mode=append\n" +
		"* * * * * echo $SLURM_JOB_ID $SLURM_JOB_NAME >> $OUT\n" +
		"30 3 1 1 * echo never\n"
	c.script("tab", text)
	c.do("scrontab", "tab")
	if got := c.do("scrontab", "-l"); got != text {
		t.Errorf("the crontab is\n%s", got)
	}
	ids := strings.Fields(c.do("squeue", "-h", "-o", "%i"))
	slices.Sort(ids)
	if len(ids) != 2 {
		t.Fatalf("two entries are the jobs %v", ids)
	}
	if got := c.do("scontrol", "show", "job", ids[1]); !strings.Contains(got, `CronJob=Yes CrontabSpec="30 3 1 1 *"`) || !strings.Contains(got, "-01-01T03:30:00 EndTime") {
		t.Errorf("the other job is\n%s", got)
	}
	runs := func() int {
		data, _ := os.ReadFile(filepath.Join(c.work, "runs"))
		return strings.Count(string(data), ids[0]+" tick\n")
	}
	c.within(2*time.Minute, "the job runs at its minute", func() bool { return runs() > 0 })
	c.await(ids[0], "PENDING")
	c.do("stint", "down", "--keep")
	c.up()
	before := runs()
	c.do("scontrol", "requeue", ids[0])
	c.eventually("asked to, it runs at once", func() bool { return runs() > before })
	c.await(ids[0], "PENDING")
	if got := c.do("squeue", "-h", "-j", ids[0], "-o", "%r"); got != "BeginTime\n" {
		t.Errorf("it waits for %s", got)
	}
	c.eventually("accounting has each run", func() bool {
		return strings.Count(c.do("sacct", "-n", "-X", "-D", "-j", ids[0], "-o", "state"), "COMPLETED") >= 2
	})
	if r := c.try("scancel", ids[0]); r.code == 0 || !strings.Contains(r.err, "Cannot cancel scrontab jobs without --cron flag.") {
		t.Errorf("cancelled without a word of crontabs: %+v", r)
	}
	c.do("scancel", "--cron", ids[0])
	lines := strings.SplitAfter(text, "\n")
	if got, want := c.do("scrontab", "-l"), lines[0]+"#DISABLED: "+lines[1]+"#DISABLED: "+lines[2]+lines[3]; got != want {
		t.Errorf("with an entry disabled the crontab is\n%swant\n%s", got, want)
	}
	c.do("scrontab", "-r")
	if got := c.do("squeue", "-h"); got != "" {
		t.Errorf("removed, it leaves\n%s", got)
	}
	if got := c.do("stint", "events"); strings.Count(got, "local time is +20700 s from UTC") != 1 {
		t.Errorf("the site's time is not told once:\n%s", got)
	}
	if out := c.do("stint", "replay", "--verify"); !strings.Contains(out, "the live state is the same") {
		t.Errorf("replayed: %s", out)
	}
}

// TestTriggers: programs are run when something happens to nodes, jobs and controllers, once each, with what it is about.
func TestTriggers(t *testing.T) {
	c := start(t, "--nodes", "n[1-4]", "--cpus", "2", "--memory", "1000")
	program := filepath.Join(c.work, "program")
	c.script("program", "#!/bin/sh\necho \"$@\" >> "+c.work+"/pulled\n")
	pulled := func() []string {
		data, _ := os.ReadFile(filepath.Join(c.work, "pulled"))
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		slices.Sort(lines)
		return lines
	}
	c.do("strigger", "--set", "--node", "--down", "--flags=perm", "-p", program+" down")
	c.do("strigger", "--set", "--drained", "-nn1", "-p", program+" drained")
	c.do("strigger", "--set", "-A", "-p", program+" back")
	job := c.submit("-w", "n4", "-o", "/dev/null", "--wrap", "sleep 2")
	c.do("strigger", "--set", "--jobid="+job, "--fini", "-p", program+" fini")
	if got := strings.Count(c.do("strigger", "--get"), "\n"); got != 5 {
		t.Errorf("four triggers are %d lines", got)
	}
	c.do("scontrol", "update", "nodename=n1", "state=drain", "reason=fan")
	c.do("scontrol", "update", "nodename=n[2-3]", "state=down", "reason=fan")
	c.eventually("what happened to nodes and the job is told", func() bool { return len(pulled()) >= 3 })
	c.do("scontrol", "update", "nodename=n[1-3]", "state=resume") // a cluster is up when its nodes are
	c.do("stint", "down", "--keep")
	c.up()
	want := []string{"back primary_slurmctld_resumed_operation", "down n[2-3]", "drained n1", "fini " + job}
	c.eventually("all programs were run", func() bool { return len(pulled()) >= len(want) })
	if got := pulled(); !slices.Equal(got, want) {
		t.Errorf("pulled were\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := c.do("strigger", "--get", "-N"); strings.Count(got, "\n") != 1 || !strings.Contains(got, " PERM ") {
		t.Errorf("left are\n%s", got)
	}
	c.do("strigger", "--clear", "--id=1")
	if out := c.do("stint", "replay", "--verify"); !strings.Contains(out, "the live state is the same") {
		t.Errorf("replayed: %s", out)
	}
	if got := pulled(); len(got) != len(want) {
		t.Errorf("a program was run twice: %q", got)
	}
}
