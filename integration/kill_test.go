package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// doomed is a job that says when it starts, waits, and ends as it was told.
type doomed struct {
	name string
	id   string // "": sbatch did not tell; it may run once or never
	exit int
}

const doomedScript = `#!/bin/sh
echo "$1" >> started
sleep $2
echo "$1" >> ended
exit $3
`

// Any daemon may be killed at any moment: the bus, the controller, the ledger, the agent, the executors, all of `stint up`,
// in the middle of submissions, starts and ends. Every job that was acknowledged runs once and ends with its own exit code,
// and accounting says so. (Supervisors: see TestKilledSupervisors.)
func TestKills(t *testing.T) {
	seeds := 20
	if testing.Short() {
		seeds = 3
	}
	c := start(t, "--split", "--nodes", "n[1-2]", "--cpus", "4", "--memory", "4000")
	c.script("doomed.sh", doomedScript)
	for seed := range seeds {
		if !t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			c.t = t
			killing(c, uint64(seed), []string{"bus", "controller", "ledger", "agent", "executor:n1", "executor:n2", "up"})
		}) {
			break
		}
	}
	c.t = t
	if out := c.do("stint", "replay", "--verify"); !strings.Contains(out, "the live state is the same") {
		t.Errorf("the log does not hold after all that:\n%s", out)
	}
}

// killing submits jobs while daemons are killed, and compares what came of them.
func killing(c *cluster, seed uint64, victims []string) {
	c.t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	jobs := make([]*doomed, 12)
	for i := range jobs {
		jobs[i] = &doomed{name: fmt.Sprintf("s%dj%d", seed, i), exit: rng.IntN(3) * (1 + rng.IntN(100))}
	}
	sleeps := make([]float64, len(jobs))
	for i := range sleeps {
		sleeps[i] = rng.Float64() * 1.5
	}
	kills := make([]struct {
		after time.Duration
		who   string
	}, 3+rng.IntN(4))
	for i := range kills {
		kills[i].after, kills[i].who = time.Duration(rng.IntN(500))*time.Millisecond, victims[rng.IntN(len(victims))]
	}
	var both sync.WaitGroup
	both.Go(func() {
		for i, j := range jobs {
			for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
				r := c.try("sbatch", "--parsable", "-J", j.name, "-o", "/dev/null", "-t", "5", "doomed.sh", j.name, fmt.Sprintf("%.2f", sleeps[i]), fmt.Sprint(j.exit))
				if r.code == 0 {
					j.id = strings.TrimSpace(r.out)
				}
				if !strings.Contains(r.err, "no agent answers") { // then nothing was sent, and it is safe to try again
					break
				}
			}
		}
	})
	for _, k := range kills {
		time.Sleep(k.after) // the moment of the kill is what the test is about
		pid := pidOf(c, k.who)
		if pid == 0 {
			continue
		}
		syscall.Kill(pid, syscall.SIGKILL)
		if k.who == "up" {
			c.eventually("the directory is free", func() bool { return !running(c, pid) })
			c.up("--split")
		}
	}
	both.Wait()

	told := 0
	for _, j := range jobs {
		if j.id == "" {
			continue
		}
		told++
		c.eventually("job "+j.name+" is over", func() bool {
			s := c.try("sacct", "-X", "-n", "-P", "-j", j.id, "-o", "JobName,State,ExitCode").out
			return strings.HasPrefix(s, j.name+"|COMPLETED|") || strings.HasPrefix(s, j.name+"|FAILED|")
		})
		want := fmt.Sprintf("%s|COMPLETED|0:0\n", j.name)
		if j.exit != 0 {
			want = fmt.Sprintf("%s|FAILED|%d:0\n", j.name, j.exit)
		}
		if got := c.do("sacct", "-X", "-n", "-P", "-j", j.id, "-o", "JobName,State,ExitCode"); got != want {
			c.t.Errorf("job %s: accounting says %q, want %q\n%s", j.id, got, want, c.try("stint", "events", j.id).out)
		}
	}
	c.eventually("all is over", func() bool { r := c.try("squeue", "-h"); return r.code == 0 && r.out == "" })
	for _, file := range []string{"started", "ended"} {
		data, _ := os.ReadFile(filepath.Join(c.work, file))
		for _, j := range jobs {
			n := strings.Count("\n"+string(data), "\n"+j.name+"\n")
			if j.id != "" && n != 1 || n > 1 {
				c.t.Errorf("%s (id %q) %s %d times", j.name, j.id, file, n)
			}
		}
	}
	if told == 0 {
		c.t.Error("no job was acknowledged at all")
	}
}

// pidOf is the process of a daemon now, 0 if it does not run at this moment. It reads what `stint up` writes down, since
// asking would need daemons that may be dead.
func pidOf(c *cluster, daemon string) int {
	var p struct {
		Pid      int            `json:"pid"`
		Children map[string]int `json:"children"`
	}
	data, err := os.ReadFile(filepath.Join(c.dir, "up.json"))
	if err != nil || json.Unmarshal(data, &p) != nil {
		return 0
	}
	if daemon == "up" {
		return p.Pid
	}
	return p.Children[daemon]
}

// running says whether a process is there and no zombie.
func running(c *cluster, pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	return fields[0] != "Z" && fields[0] != "X"
}

// Supervisors too: steps live on and are found again. What they exited with, if nobody saw it, is an end of its own name
// and never success; nothing is started twice.
func TestKilledSupervisors(t *testing.T) {
	c := start(t, "--nodes", "n1", "--cpus", "4", "--memory", "4000")
	c.script("doomed.sh", doomedScript)
	var ids []string
	for i := range 4 {
		ids = append(ids, c.submit("-o", "/dev/null", "-J", fmt.Sprint("j", i), "doomed.sh", fmt.Sprint("j", i), "2", "4"))
	}
	for _, id := range ids {
		c.await(id, "RUNNING")
	}
	c.eventually("all have started", func() bool {
		data, _ := os.ReadFile(filepath.Join(c.work, "started"))
		return strings.Count(string(data), "\n") == len(ids)
	})
	syscall.Kill(pidOf(c, "supervisor:n1"), syscall.SIGKILL)
	for i, id := range ids {
		c.await(id, "FAILED")
		if story := c.do("stint", "events", id); strings.Count(story, " started ") != 1 {
			t.Errorf("job %s:\n%s", id, story)
		}
		for _, file := range []string{"started", "ended"} {
			if n := strings.Count("\n"+c.read(file), fmt.Sprintf("\nj%d\n", i)); n != 1 {
				t.Errorf("job %s %s %d times", id, file, n)
			}
		}
	}
}
