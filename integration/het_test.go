package integration

import (
	"strings"
	"testing"
)

// A heterogeneous job: its components start together on nodes apart, the script of the first knows of all of them, and with it
// they end.
func TestHeterogeneousJob(t *testing.T) {
	c := start(t, "--nodes", "n[1-2]", "--cpus", "4", "--memory", "4000")
	c.script("het.sh", `#!/bin/sh
#SBATCH -n1 -J first -t5
#SBATCH hetjob
#SBATCH -n2 -J second --mem=200
echo $SLURM_HET_SIZE $SLURM_JOB_ID $SLURM_JOB_ID_HET_GROUP_0 $SLURM_JOB_ID_HET_GROUP_1
echo $SLURM_JOB_NODELIST_HET_GROUP_0 $SLURM_JOB_NODELIST_HET_GROUP_1 $SLURM_NTASKS_HET_GROUP_1 $SLURM_MEM_PER_NODE_HET_GROUP_1 $SLURM_JOB_NAME_HET_GROUP_1
until [ -e go ]; do sleep 0.1; done
exit 3
`)
	if got := c.do("sbatch", "het.sh"); got != "Submitted batch job 1\n" {
		t.Fatalf("sbatch printed %q", got)
	}
	c.await("1+1", "RUNNING")
	if got, want := c.do("squeue", "-h", "-j", "1", "-S", "i", "-o", "%i %A %j %t %N"), "1+0 1 first R n1\n1+1 2 second R n2\n"; got != want {
		t.Errorf("squeue: %q, want %q", got, want)
	}
	c.eventually("the script has written", func() bool { return strings.Count(c.shell("cat slurm-1.out 2>/dev/null || true")+"\n", "\n") == 2 })
	if got, want := c.read("slurm-1.out"), "2 1 1 2\nn1 n2 2 200 second\n"; got != want {
		t.Errorf("the script says %q, want %q", got, want)
	}
	// One that needs a node for each of three components never starts; a waiting component is not cancelled alone.
	if got := c.submit("-n1", ":", "-n1", ":", "-n1", "--wrap", "true"); got != "3" {
		t.Fatalf("the second job is %s", got)
	}
	if r := c.try("scancel", "3+1"); r.code != 60 || !strings.Contains(r.err, "job id 3+1: Operation not permitted on individual component of heterogeneous job") {
		t.Errorf("scancel of a waiting component: exit %d, %s", r.code, r.err)
	}
	c.do("scancel", "3")
	if got := c.do("squeue", "-h", "-j", "3"); got != "" {
		t.Errorf("after scancel: %s", got)
	}
	c.script("go", "")
	c.eventually("all of it has ended", func() bool {
		return c.do("sacct", "-n", "-P", "-j", "1", "-o", "jobid,state,exitcode") == "1+0|FAILED|3:0\n1+0.batch|FAILED|3:0\n1+1|FAILED|3:0\n"
	})
	if got, want := c.do("sacct", "-n", "-X", "-P", "-j", "2", "-o", "jobid,jobidraw"), "1+1|2\n"; got != want {
		t.Errorf("sacct of a component: %q, want %q", got, want)
	}
	if got, want := c.do("sacct", "-n", "-X", "-P", "-j", "2", "--whole-hetjob=yes", "-o", "jobid"), "1+0\n1+1\n"; got != want {
		t.Errorf("sacct of the whole of a component: %q, want %q", got, want)
	}
}
