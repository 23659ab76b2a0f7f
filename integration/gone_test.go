package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestBusGone: the bus is away for twenty seconds while jobs run and end. They do not notice; when it is back each is reported
// once, with the end that it had when it had it, what it wrote and what it used.
func TestBusGone(t *testing.T) {
	k := newCampaign(t, 1, 1)
	begun := time.Now()
	var all []*doomed
	add := func(nap, how, what, state, code string, options ...string) {
		j := &doomed{tag: fmt.Sprintf("g%d", len(all)), tasks: 1, state: state, code: code}
		j.args = append(options, "--parsable", "-J", j.tag, "-o", "out/"+j.tag, "job.sh", j.tag, nap, how, what)
		j.id = strings.TrimSpace(k.do("sbatch", j.args...))
		all = append(all, j)
	}
	add("4", "exit", "0", "COMPLETED", "0:0")
	add("6", "exit", "3", "FAILED", "3:0", "-N2")
	add("8", "kill", "15", "FAILED", "0:15")
	add("12", "exit", "255", "FAILED", "255:0", "--gres=gpu:1")
	add("14", "kill", "9", "FAILED", "0:9")
	add("35", "exit", "7", "FAILED", "7:0")                                // ends when the bus is there again
	add("0", "exit", "0", "COMPLETED", "0:0", "-d", "afterany:"+all[0].id) // can only begin then
	for _, j := range all[:6] {
		k.await(j.id, "RUNNING")
		k.eventually(j.tag+" has begun", func() bool { begins, _, _, _, _, _ := k.ran(j.tag); return begins == 1 })
	}

	// Whoever would start another bus sleeps, and the bus is killed.
	p := k.daemons()
	syscall.Kill(p["up"], syscall.SIGSTOP)
	defer syscall.Kill(p["up"], syscall.SIGCONT)
	syscall.Kill(p["bus"], syscall.SIGKILL)
	gone := time.Now()
	for _, j := range all[:5] {
		k.eventually(j.tag+" has come to its end without a bus", func() bool { _, ends, _, _, _, _ := k.ran(j.tag); return ends == 1 })
	}
	if away := 20*time.Second - time.Since(gone); away > 0 {
		time.Sleep(away)
	}
	syscall.Kill(p["up"], syscall.SIGCONT)
	back := time.Now()
	if _, ends, _, _, _, _ := k.ran(all[5].tag); ends != 0 {
		t.Logf("the machine is slow: all jobs ended while the bus was away")
	}
	k.settle(all)
	k.compare(all, begun)
	jobs, batch := k.rows("now-1day")
	states := map[string]string{}
	for _, r := range jobs {
		states[r.id] = r.state
		for _, j := range all[:5] {
			if j.id == r.id && !batch[r.id].end.Before(back.Truncate(time.Second)) {
				t.Errorf("%s ended while the bus was away, and accounting has that it ended when it was back: %+v", j.tag, batch[r.id])
			}
		}
		story := k.do("stint", "events", r.id)
		nodes := 1 + strings.Count(r.nodes, "[")
		if strings.Count(story, " of run 1 started") > nodes || strings.Count(story, " of run 1 exited") != nodes {
			t.Errorf("job %s is not reported once:\n%s", r.id, story)
		}
	}
	k.compareFeed(states)
	k.verify()
}

// TestLaggingFollower: a controller that gets hardly any time lags behind the log, and is asked all the same. What it answers is
// never older than what was acknowledged to whoever asks, and it says how far it is when it is asked for more.
func TestLaggingFollower(t *testing.T) {
	c := start(t, "--split", "--nodes", "n1", "--cpus", "4", "--memory", "4000")
	second := c.second()
	pid := second.Process.Pid
	stop := make(chan struct{})
	rested := make(chan struct{})
	go func() {
		defer close(rested)
		for {
			syscall.Kill(pid, syscall.SIGSTOP)
			select {
			case <-stop:
				syscall.Kill(pid, syscall.SIGCONT)
				return
			case <-time.After(250 * time.Millisecond):
			}
			syscall.Kill(pid, syscall.SIGCONT)
			time.Sleep(30 * time.Millisecond)
		}
	}()
	for range 12 {
		id := c.submit("-H", "-o", "/dev/null", "--wrap", "true")
		if got := c.try("squeue", "-h", "-j", id, "-o", "%i %T %r"); got.out != id+" PENDING JobHeldUser\n" {
			t.Errorf("after job %s was acknowledged squeue says %q %q", id, got.out, got.err)
		}
		c.do("scancel", id)
		if got := strings.TrimSpace(c.try("squeue", "-h", "-t", "all", "-j", id, "-o", "%T").out); got != "CANCELLED" {
			t.Errorf("after scancel of %s it is %q", id, got)
		}
	}
	close(stop)
	<-rested

	// One that stands still for longer is named, with how much it lacks and for how long, by the leader and by the doctor; nobody waits for it.
	syscall.Kill(pid, syscall.SIGSTOP)
	for range 3 {
		c.do("scancel", c.submit("-H", "-o", "/dev/null", "--wrap", "true"))
	}
	name := fmt.Sprintf(`\S+-%d`, pid)
	lags := regexp.MustCompile(`(?m)^\tcontroller +` + name + ` +at \d+, [1-9]\d* behind for \d+\.\d s`)
	c.eventually("sdiag says that a controller lags", func() bool { return lags.MatchString(c.do("sdiag")) })
	warns := regexp.MustCompile(`(?m)^warning +followers +the controller ` + name + ` is [1-9]\d* messages behind the log, for \d+s`)
	c.eventually("the doctor says that a controller lags", func() bool { return warns.MatchString(c.try("stint", "doctor", "--quiet").out) })
	syscall.Kill(pid, syscall.SIGCONT)
	level := regexp.MustCompile(`(?m)^\tcontroller +` + name + ` +at \d+, 0 behind$`)
	c.eventually("it has caught up", func() bool { return level.MatchString(c.do("sdiag")) })

	// Accounting that sleeps: who asks is told that it waits, and for whom; what it says then is not of the past.
	ledger := c.processes()["ledger"]
	syscall.Kill(ledger, syscall.SIGSTOP)
	defer syscall.Kill(ledger, syscall.SIGCONT)
	id := c.submit("-o", "/dev/null", "--wrap", "true")
	c.await(id, "COMPLETED")
	var s struct {
		Healthy bool
		Trouble []string
	}
	if err := json.Unmarshal([]byte(c.try("stint", "status", "--json").out), &s); err != nil || s.Healthy || !strings.Contains(strings.Join(s.Trouble, "; "), "ledger") {
		t.Errorf("while the ledger sleeps stint status says %+v, %v", s, err)
	}
	time.AfterFunc(time.Second, func() { syscall.Kill(ledger, syscall.SIGCONT) })
	if got := strings.TrimSpace(c.do("sacct", "-X", "-n", "-P", "-j", id, "-o", "State")); got != "COMPLETED" {
		t.Errorf("when the ledger is awake sacct says %q of job %s, which is COMPLETED", got, id)
	}
}

// TestDeposedLeader: what a deposed leader still sends is refused by the log, and what comes past that is void: counted, listed,
// and without effect.
func TestDeposedLeader(t *testing.T) {
	c := start(t, "--split", "--nodes", "n1", "--cpus", "4", "--memory", "4000")
	c.await(c.submit("-o", "/dev/null", "--wrap", "true"), "COMPLETED")
	held := c.submit("-H", "-o", "/dev/null", "--wrap", "true")
	old := c.messages("ev.sched")
	syscall.Kill(c.processes()["controller"], syscall.SIGKILL)
	c.eventually("another leader has the lead", func() bool {
		return strings.Count(c.try("stint", "replay").out, ": 2 terms") == 1
	})
	c.await(c.submit("-o", "/dev/null", "--wrap", "true"), "COMPLETED")

	last := old[len(old)-1]
	err := c.publish("controller", "ev.sched", last.data, last.seq)
	if err == nil || !strings.Contains(err.Error(), "wrong last sequence") {
		t.Errorf("the log took a message of a deposed leader: %v", err)
	}
	// Without the condition nothing but the term tells it from the leader's.
	for _, m := range old[len(old)-3:] {
		if err := c.publish("controller", "ev.sched", m.data, 0); err != nil {
			t.Fatal(err)
		}
	}
	c.await(c.submit("-o", "/dev/null", "--wrap", "true"), "COMPLETED")
	if got := c.state(held); got != "PENDING" {
		t.Errorf("the held job is %s", got)
	}
	c.eventually("three messages are void", func() bool {
		seqs := map[string]bool{}
		for line := range strings.Lines(c.try("stint", "events", "--void").out) {
			if strings.Contains(line, "cycle of a term that is not the latest") {
				seqs[strings.Fields(line)[0]] = true
			}
		}
		return len(seqs) == 3
	})
	var s struct {
		Controller struct{ Voids map[string]int }
	}
	if err := json.Unmarshal([]byte(c.do("stint", "status", "--json")), &s); err != nil || s.Controller.Voids["cycle of a term that is not the latest"] != 3 {
		t.Errorf("stint status counts %v, %v", s, err)
	}
	c.do("stint", "replay", "--verify")
}

// busy submits jobs that note that they ran.
func (c *cluster) busy(n int) (ids []string) {
	for range n {
		ids = append(ids, c.submit("-o", "/dev/null", "--wrap", "echo x >> $PWD/ran.$SLURM_JOB_ID; sleep 0.2"))
	}
	return ids
}

// ranOnce holds each job to having run once.
func (c *cluster) ranOnce(ids []string) {
	c.t.Helper()
	for _, id := range ids {
		c.await(id, "COMPLETED")
		if data, _ := os.ReadFile(filepath.Join(c.work, "ran."+id)); string(data) != "x\n" {
			c.t.Errorf("job %s wrote %q when it ran", id, data)
		}
	}
}
