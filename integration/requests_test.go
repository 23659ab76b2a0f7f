package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A site limits what one user may ask (rl_enable): who asks more is told so and waits, every question is answered in the end, another
// user and administrators notice nothing, and sdiag counts what was sent back.
func TestRequestsOfOneUser(t *testing.T) {
	alice, bob, _ := people(t)
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	os.WriteFile(conf, []byte("ClusterName=site\nSlurmctldHost=h\nSlurmctldParameters=rl_enable,rl_bucket_size=5,rl_refill_rate=10\nNodeName=n1 CPUs=4 RealMemory=1000\nPartitionName=main Nodes=ALL Default=YES\n"), 0o644)
	c := start(t, "--config", conf, "--virtual")
	c.do("sinfo") // the agent learns what the site says
	c.env = append(c.env, "PATH="+filepath.Join(c.dir, "bin")+":"+os.Getenv("PATH"))
	c.eventually("the site's limit holds", func() bool {
		r := c.as(bob, "/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do squeue -h & done; wait")
		return r.code == 0 && dropped(t, c) > 0
	})
	told := make(chan result, 1)
	begun := time.Now()
	go func() {
		told <- c.as(bob, "/bin/sh", "-c", "for i in $(seq 30); do (squeue -h -o %i || echo failed) & done; wait")
	}()
	var slowest time.Duration
	var r result
	for done := false; !done; {
		select {
		case r = <-told:
			done = true
		case <-time.After(time.Second): // alice herself stays within her ten a second
			now := time.Now()
			if r := c.as(alice, "squeue"); r.code != 0 || r.err != "" {
				t.Errorf("another user is told %d %q", r.code, r.err)
			}
			slowest = max(slowest, time.Since(now))
		}
		c.do("squeue")
	}
	if took := time.Since(begun); took < 4*time.Second {
		t.Errorf("thirty questions of one user, two requests each, took %s; five at once and ten a second take more", took)
	}
	if r.code != 0 || r.out != "" {
		t.Errorf("questions failed: %d %q %q", r.code, r.out, r.err)
	}
	if want := "you ask more than the cluster answers one user, 5 requests at once and 10 a second after that"; !strings.Contains(r.err, want) {
		t.Errorf("who waits is told %q, want %q", r.err, want)
	}
	counts := regexp.MustCompile(`(?m)^\t(\S+) +\( *\d+\) count:(\d+) `)
	asked := map[string]string{}
	for _, m := range counts.FindAllStringSubmatch(c.do("sdiag"), -1) {
		asked[m[1]] = m[2]
	}
	if number(t, asked[bob.name]) < 60 || number(t, asked[alice.name]) == 0 || number(t, asked["REQUEST_JOB_INFO"]) < 30 {
		t.Errorf("sdiag counts %v", asked)
	}
	t.Logf("meanwhile another user's question took at most %s", slowest.Round(time.Millisecond))

	job := strings.TrimSpace(c.as(bob, "sbatch", "--parsable", "-H", "--wrap", "true").out)
	if r := c.as(bob, "/bin/sh", "-c", "for i in $(seq 8); do scontrol update jobid="+job+" comment=$i & done; wait; sbatch --parsable -H --wrap true"); r.code != 0 {
		t.Errorf("what submits and changes does not wait: %d %q", r.code, r.err)
	}
}

// dropped is how many requests sdiag says were sent back.
func dropped(t *testing.T, c *cluster) (n int) {
	t.Helper()
	var d struct {
		Statistics struct {
			Kinds []struct {
				Dropped int `json:"dropped"`
			} `json:"rpcs_by_message_type"`
		} `json:"statistics"`
	}
	if err := json.Unmarshal([]byte(c.do("sdiag", "--json")), &d); err != nil {
		t.Fatal(err)
	}
	for _, k := range d.Statistics.Kinds {
		n += k.Dropped
	}
	return n
}
