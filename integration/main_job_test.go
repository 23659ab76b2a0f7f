package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The main job: a script goes in at the shell and runs on a node with what it asked for; its output is where Slurm would
// have put it, and each thing that happened is told.
func TestMainJob(t *testing.T) {
	c := start(t, "--nodes", "n[1-2]", "--cpus", "4", "--memory", "4000", "--gres", "gpu:a100:2")
	c.script("job.sh", `#!/bin/sh
#SBATCH --job-name=main --gres=gpu:1
#SBATCH -t 5
echo "$SLURM_JOB_ID $SLURM_JOB_NAME $(hostname) gpu=$CUDA_VISIBLE_DEVICES $1"
exit 7
`)
	if got, want := c.do("sbatch", "job.sh", "word"), "Submitted batch job 1\n"; got != want {
		t.Fatalf("sbatch printed %q, want %q", got, want)
	}
	if got := c.do("squeue", "-h", "-t", "all", "-o", "%i %j"); got != "1 main\n" {
		t.Errorf("squeue at once: %q", got)
	}
	c.await("1", "FAILED")
	if got, want := c.read("slurm-1.out"), "1 main "+hostOf(t, "n1")+" gpu=0 word\n"; got != want {
		t.Errorf("the output is %q, want %q", got, want)
	}
	if got := c.do("squeue"); strings.Count(got, "\n") != 1 {
		t.Errorf("squeue still shows: %q", got)
	}
	story := c.do("stint", "events", "1")
	if order := regexp.MustCompile(`(?s)submit.*admitted.*placed.*gpu:a100 0.*started.*exited.*7:0.*ended.*FAILED`); !order.MatchString(story) {
		t.Errorf("the story of the job:\n%s", story)
	}
}

// Jobs outlive the cluster: they run on under their supervisor, and the next one learns how they ended.
func TestJobsOutliveTheCluster(t *testing.T) {
	c := start(t, "--nodes", "n1", "--cpus", "2", "--memory", "2000")
	c.script("job.sh", "#!/bin/sh\ntouch started\nuntil [ -e go ]; do sleep 0.1; done\necho went\nexit 5\n")
	id := c.submit("job.sh")
	c.await(id, "RUNNING") // placed, that is; its step is started a moment later
	c.eventually("the step has started", func() bool { return len(glob(filepath.Join(c.work, "started"))) == 1 })
	if r := c.try("stint", "down"); r.code == 0 || !strings.Contains(r.err, "--kill") {
		t.Errorf("down with a job that runs: exit %d, %q", r.code, r.err)
	}
	before := c.processes()["supervisor:n1"]
	c.do("stint", "down", "--keep")
	if err := os.WriteFile(filepath.Join(c.work, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.eventually("the job ends without a cluster", func() bool {
		data, _ := os.ReadFile(filepath.Join(c.work, "slurm-"+id+".out"))
		return string(data) == "went\n"
	})
	c.up()
	c.eventually("the supervisor is the same process", func() bool { return c.processes()["supervisor:n1"] == before })
	c.await(id, "FAILED")
	if got := c.do("scontrol", "ping"); !strings.Contains(got, "is UP") {
		t.Errorf("ping: %q", got)
	}
	if story := c.do("stint", "events", id); !strings.Contains(story, "5:0") {
		t.Errorf("the exit code was lost:\n%s", story)
	}
	c.do("stint", "down")
}

// A configuration that cannot be taken over is an end with a sentence, and one that is changed holds from then on.
func TestConfiguration(t *testing.T) {
	c := start(t, "--nodes", "n1", "--cpus", "2", "--memory", "2000")
	c.do("stint", "down")
	conf := filepath.Join(c.work, "slurm.conf")
	write := func(more string) {
		text := "ClusterName=site\nSlurmctldHost=h\nEnforcePartLimits=ALL\nNodeName=n[1-2] CPUs=2 RealMemory=1000\nPartitionName=main Nodes=ALL Default=YES MaxTime=60 " + more + "\n"
		if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("OverSubscribe=EXCLUSIVE TRESBillingWeights=CPU=much")
	r := c.try("stint", "up", "--detach", "--config", conf, "--virtual")
	if r.code == 0 || !strings.Contains(r.err, "TRESBillingWeights") {
		t.Errorf("a configuration that cannot be: exit %d, %q", r.code, r.err)
	}
	write("")
	c.up("--config", conf, "--virtual")
	if got := c.do("sinfo", "-h", "-o", "%P %D %l"); got != "main* 2 1:00:00\n" {
		t.Errorf("sinfo by the site's file: %q", got)
	}
	if r := c.try("sbatch", "-t", "61", "--wrap", "true"); r.code != 1 || !strings.Contains(r.err, "Requested time limit is invalid (missing or exceeds some limit)") {
		t.Errorf("longer than the partition allows: exit %d, %q", r.code, r.err)
	}
	c.await(c.submit("-t", "60", "--wrap", "true"), "COMPLETED")
	c.do("stint", "down")
}
