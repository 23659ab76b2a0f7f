package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// row is one line of sacct. Those of steps have no nodes of their own.
type row struct {
	id, name, state, code, nodes string
	start, end                   time.Time // to the second
	cpu                          time.Duration
	rss                          string
}

// rows are what accounting has of jobs that were there after since, with the batch step of each where it ran.
func (k *campaign) rows(since string) (jobs []row, batch map[string]row) {
	res := k.try("sacct", "-a", "-n", "-P", "-S", since, "--format=JobID,JobName,State,ExitCode,NodeList,Start,End,TotalCPU,MaxRSS")
	if res.code != 0 {
		return nil, nil
	}
	batch = map[string]row{}
	for line := range strings.Lines(res.out) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 9 {
			k.t.Fatalf("sacct printed %q", line)
		}
		f[2], _, _ = strings.Cut(f[2], " ") // CANCELLED by 0
		r := row{f[0], f[1], f[2], f[3], f[4], k.clock(f[5]), k.clock(f[6]), k.span(f[7]), f[8]}
		if job, step, is := strings.Cut(r.id, "."); !is {
			jobs = append(jobs, r)
		} else if step == "batch" {
			batch[job] = r
		}
	}
	return jobs, batch
}

// clock reads a time as sacct writes it; zero: Unknown, or None.
func (k *campaign) clock(s string) time.Time {
	at, err := time.ParseInLocation("2006-01-02T15:04:05", s, time.Local)
	if err != nil && s != "Unknown" && s != "None" {
		k.t.Errorf("sacct has a time %q", s)
	}
	return at
}

// span reads CPU time as sacct writes it: minutes, seconds and thousandths, or with hours and no thousandths.
func (k *campaign) span(s string) time.Duration {
	var a, b int
	var c float64
	if _, err := fmt.Sscanf(s, "%d:%d:%f", &a, &b, &c); err == nil {
		return time.Duration(a)*time.Hour + time.Duration(b)*time.Minute + time.Duration(c*1e9)
	}
	if _, err := fmt.Sscanf(s, "%d:%f", &a, &c); err != nil && s != "" {
		k.t.Errorf("sacct has a CPU time %q", s)
	}
	return time.Duration(a)*time.Minute + time.Duration(c*1e9)
}

func final(state string) bool {
	switch state {
	case "PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED":
		return false
	}
	return true
}

// settle waits until all jobs of a round are over and accounting has read all of it. What is to be cancelled and has no end yet
// is cancelled here, also what was not acknowledged and is there all the same.
func (k *campaign) settle(all []*doomed) {
	k.t.Helper()
	mine := map[string]*doomed{}
	for _, j := range all {
		mine[j.tag] = j
	}
	// What was not acknowledged may be on its way yet: only when nothing is in the queue and nothing is unread twice in a row is it over.
	calm, open := 0, ""
	for deadline := time.Now().Add(3 * patience); calm < 2; time.Sleep(200 * time.Millisecond) {
		queue := k.try("squeue", "-h", "-o", "%i %j %T")
		open = queue.out
		for line := range strings.Lines(queue.out) {
			f := strings.Fields(line)
			if j := mine[f[1]]; j != nil && j.cancel {
				k.try("scancel", f[0])
			}
		}
		if queue.code == 0 && queue.out == "" && k.quiet() {
			calm++
		} else {
			calm = 0
		}
		if time.Now().After(deadline) {
			k.t.Fatalf("these jobs do not end: %v\n%s\n%s", open, k.try("squeue", "-t", "all").out, k.try("stint", "status").out)
		}
	}
}

// quiet says whether nothing waits to be judged and accounting has read all that the controller has.
func (k *campaign) quiet() bool {
	var s struct {
		Healthy    bool
		Controller struct{ Seq, Inbox uint64 }
		Ledger     struct{ Seq uint64 }
	}
	err := json.Unmarshal([]byte(k.try("stint", "status", "--json").out), &s)
	return err == nil && s.Healthy && s.Controller.Inbox == 0 && s.Ledger.Seq >= s.Controller.Seq
}

// compare holds accounting to what the scripts did.
func (k *campaign) compare(all []*doomed, since time.Time) {
	k.t.Helper()
	byTag := map[string][]row{}
	jobs, batch := k.rows(since.Add(-2 * time.Second).Format("2006-01-02T15:04:05"))
	for _, r := range jobs {
		byTag[r.name] = append(byTag[r.name], r)
	}
	k.score.jobs = len(jobs)
	for _, j := range all {
		rows := byTag[j.tag]
		if len(rows) == 0 {
			if j.id != "" {
				k.score.lost++
				k.t.Errorf("job %s (%s) was acknowledged and is lost", j.id, j.tag)
			}
			if left, _ := filepath.Glob(filepath.Join(k.work, "ran", j.tag+"*")); len(left) > 0 && (left[0] == filepath.Join(k.work, "ran", j.tag) || j.tasks > 1) {
				k.t.Errorf("%s ran, and accounting does not know it", j.tag)
			}
			continue
		}
		if len(rows) != j.tasks {
			k.t.Errorf("%s is in accounting %d times, and should be %d times: %v", j.tag, len(rows), j.tasks, rows)
			continue
		}
		for _, r := range rows {
			base, task, isTask := strings.Cut(r.id, "_")
			if j.id != "" && base != j.id {
				k.t.Errorf("%s was acknowledged as %s, and is %s in accounting", j.tag, j.id, r.id)
			}
			tag, code, state := j.tag, j.code, j.state
			if isTask != (j.tasks > 1) {
				k.t.Errorf("%s is %s in accounting", j.tag, r.id)
				continue
			}
			if isTask {
				tag += "." + task
				code, state = task+":0", "FAILED"
				if task == "0" {
					state = "COMPLETED"
				}
			}
			k.compareOne(j, r, batch[r.id], tag, state, code)
		}
	}
}

func (k *campaign) compareOne(j *doomed, r, batch row, tag, state, code string) {
	k.t.Helper()
	begins, ends, from, to, ids, cpu := k.ran(tag)
	wrong := func(format string, args ...any) {
		k.t.Helper()
		k.score.wrong++
		k.t.Errorf("job %s (%s): %s\n  accounting: %+v\n  the script began %d times and came to its end %d times\n%s", r.id, tag, fmt.Sprintf(format, args...), r, begins, ends,
			k.try("stint", "events", r.id).out)
	}
	if begins > 1 || ends > 1 {
		k.score.twice++
		wrong("its script ran twice")
	}
	if len(ids) > 1 {
		wrong("its script had the ids %v", ids)
	}
	if ends > 0 {
		if data, _ := os.ReadFile(filepath.Join(k.work, "out", tag)); string(data) != doomedOutput(tag) {
			wrong("its output is not complete: %d bytes", len(data))
		}
	}
	unseen, launched := false, false
	if r.state == "FAILED" && r.code == "0:0" {
		unseen, launched = k.unseen(r.id, r.nodes)
	}
	switch {
	case unseen:
		k.hid++
		k.score.unseen++
		if begins > 0 && !k.deathBetween(r.nodes, from, to) || begins == 0 && !k.deathBetween(r.nodes, time.Time{}, time.Time{}) {
			wrong("nobody saw how it ended, and no supervisor of %s died while it lived (%s to %s): %v", r.nodes, from, to, k.kills)
		}
		if ends == 0 && launched {
			wrong("its supervisor had launched it, and it did not live on to its own end when that was killed")
		}
	case j.cancel:
		if r.state != state || ends > 0 {
			wrong("it was cancelled")
		}
	case r.state != state || r.code != code:
		wrong("it should be %s with %s", state, code)
	case begins != 1 || ends != 1:
		wrong("it has an end, and its script did not come to it")
	}
	if ends == 0 {
		return
	}
	// What it used is measured outside of the script, which can only say what its shell had before it ended.
	const more = 3 * time.Second // of what it ran, and of being started
	if batch.cpu < cpu-time.Millisecond || batch.cpu > cpu+more {
		wrong("its shell had %s of CPU time, and accounting has %+v", cpu, batch)
	}
	if strings.TrimRight(batch.rss, "0K") == "" {
		wrong("it used no memory: %+v", batch)
	}
	// It ended when it ended, not when somebody could tell.
	if late := batch.end.Sub(to); late < -time.Second || late > 5*time.Second && !unseen {
		wrong("its script came to its end at %s, and accounting has %+v", to, batch)
	}
	if unseen && !launched {
		return // its supervisor was killed before it could write down that it had begun
	}
	if early := batch.start.Sub(from); early > time.Second || r.start.After(batch.start) || r.end.Before(batch.end) && r.state != "CANCELLED" {
		wrong("its script began at %s, and accounting has %+v", from, batch)
	}
}

// ran is what a script wrote about itself.
func (k *campaign) ran(tag string) (begins, ends int, from, to time.Time, ids []string, cpu time.Duration) {
	data, err := os.ReadFile(filepath.Join(k.work, "ran", tag))
	if err != nil {
		return 0, 0, from, to, nil, 0
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) != 4 {
			k.t.Errorf("%s wrote %q", tag, line)
			continue
		}
		s, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			k.t.Errorf("%s wrote %q", tag, line)
		}
		at := time.UnixMicro(int64(s * 1e6))
		if f[0] == "begin" {
			begins++
			from = at
		} else {
			ends++
			to = at
			ns, _ := strconv.ParseInt(f[3], 10, 64)
			cpu = time.Duration(ns)
		}
		if !slices.Contains(ids, f[1]) {
			ids = append(ids, f[1])
		}
	}
	return begins, ends, from, to, ids, cpu
}

// unseen says whether the log has it that nobody saw how a job ended, and whether the first of its nodes had launched it.
func (k *campaign) unseen(id, nodes string) (unseen, launched bool) {
	k.t.Helper()
	first := strings.Replace(nodes, "[", "", 1)[:2] // n1, or n[1-2]
	for line := range strings.Lines(k.do("stint", "events", "--json", id)) {
		var e struct {
			Kind, Node string
			Fact       struct {
				Exited struct{ Cause string }
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			k.t.Fatalf("stint events --json printed %q: %v", line, err)
		}
		unseen = unseen || e.Kind == "exited" && e.Fact.Exited.Cause == "STATUS_UNSEEN"
		launched = launched || e.Kind == "started" && e.Node == first
	}
	return unseen, launched
}

// deathBetween says whether a supervisor of one of the nodes was killed while a script lived, or so shortly before its begin
// or after its end that the supervisor was still at it. A script without a known begin or end is held to what is known.
func (k *campaign) deathBetween(nodes string, from, to time.Time) bool {
	const slack = 5 * time.Second
	for _, d := range k.kills {
		on := nodes == d.node || strings.Contains(nodes, "[") // n[1-2]: all that have two of three
		if on && (from.IsZero() || d.at.After(from.Add(-slack))) && (to.IsZero() || d.at.Before(to.Add(slack))) {
			return true
		}
	}
	return false
}

// conclude holds the whole history of a cluster to itself.
func (k *campaign) conclude() {
	k.t.Helper()
	seen := map[string]bool{}
	states := map[string]string{}
	jobs, _ := k.rows("now-1day")
	for _, r := range jobs {
		if seen[r.id] {
			k.t.Errorf("accounting has %s twice", r.id)
		}
		seen[r.id] = true
		states[r.id] = r.state
	}
	k.eventually("the cluster is healthy", func() bool { return k.try("stint", "status").code == 0 })
	k.compareFeed(states)
	k.t.Logf("%d jobs, %d supervisors killed, %d ends that nobody saw", len(seen), len(k.kills), k.hid)
}

// verify folds the log from nothing, makes every decision again, and compares with the live state.
func (k *campaign) verify() {
	k.t.Helper()
	res := k.try("stint", "replay", "--verify")
	if res.code != 0 {
		k.t.Errorf("stint replay --verify: exit %d\n%s%s", res.code, res.out, res.err)
	}
	fmt.Sscanf(res.out, "Folded %d messages", &k.score.messages)
}
