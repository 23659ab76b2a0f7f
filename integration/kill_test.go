package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Daemons are killed with SIGKILL while jobs are submitted, start and end: each of them and all at once, the agent, the bus,
// `stint up` and the supervisors not spared. What the scripts wrote themselves says what really happened, and everything that
// Stint says must agree with it:
//
//   - a submission that was acknowledged is not lost, its id is nobody else's, and it is in accounting under it;
//   - no script ran twice, and none ran that accounting does not know;
//   - each exit code and signal is what the script ended with. Only the death of a node's supervisor may hide one, of a job
//     that was alive there at that moment, and it is then an end of its own, never success;
//   - what jobs wrote is complete;
//   - each job's states are in the feed for services once, and end with the one that accounting has;
//   - the log folds to the live state, and its decisions come out the same.
//
// Twenty seeds are twenty rounds, on clusters that live through five of them each. STINT_SOAK=1 goes on with others;
// STINT_SEED=N is one round alone.
func TestKill(t *testing.T) {
	const perCluster = 5
	var seeds []uint64
	for s := uint64(1); s <= 20; s++ {
		seeds = append(seeds, s)
	}
	if testing.Short() {
		seeds = seeds[:perCluster]
	}
	if os.Getenv("STINT_SOAK") != "" {
		first := uint64(time.Now().Unix())
		for i := range uint64(480) {
			seeds = append(seeds, first+i)
		}
	}
	if v := os.Getenv("STINT_SEED"); v != "" {
		s, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{s}
	}
	for part := range slices.Chunk(seeds, perCluster) {
		t.Run(fmt.Sprintf("seeds %d-%d", part[0], part[len(part)-1]), func(t *testing.T) {
			// Every fourth cluster has bus, controller, agent and ledger in one process, which die together then.
			how := []string{"--split"}
			if part[0]/perCluster%4 == 3 {
				how = nil
			}
			c := start(t, append(how, "--nodes", "n[1-3]", "--cpus", "3", "--memory", "4000", "--gres", "gpu:a100:2")...)
			k := &campaign{cluster: c, how: how, ids: map[string]string{}}
			for _, sub := range []string{"ran", "out"} {
				if err := os.Mkdir(filepath.Join(c.work, sub), 0o777); err != nil {
					t.Fatal(err)
				}
			}
			c.script("job.sh", doomedScript)
			for _, seed := range part {
				k.round(seed)
				if t.Failed() {
					t.Fatalf("STINT_SEED=%d", seed)
				}
			}
			k.conclude()
		})
	}
}

// doomedScript says what it does where nobody but the script writes: when it begins, and when it is about to end.
const doomedScript = `#!/bin/sh
[ -z "$SLURM_ARRAY_TASK_ID" ] || set -- "$1.$SLURM_ARRAY_TASK_ID" "$2" "$3" "$SLURM_ARRAY_TASK_ID"
echo "begin $SLURM_JOB_ID $(date +%s.%N)" >> "ran/$1"
echo "first of $1"
sleep "$2"
i=0; while [ $i -lt 100 ]; do echo "line $i of $1"; i=$((i+1)); done
echo "last of $1"
echo "end $SLURM_JOB_ID $(date +%s.%N)" >> "ran/$1"
case $3 in
exit) exit "$4" ;;
kill) kill -"$4" $$ ;;
esac
`

func doomedOutput(tag string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "first of %s\n", tag)
	for i := range 100 {
		fmt.Fprintf(&b, "line %d of %s\n", i, tag)
	}
	fmt.Fprintf(&b, "last of %s\n", tag)
	return b.String()
}

// doomed is one submission.
type doomed struct {
	tag    string
	id     string // as acknowledged; empty: it was not
	args   []string
	tasks  int
	cancel bool
	state  string // what must come of it
	code   string
}

// campaign is what has been done to one cluster.
type campaign struct {
	*cluster
	how   []string          // it is started
	ids   map[string]string // id → tag, which is also the job's name
	kills []death           // of supervisors
	hid   int               // ends that nobody saw
}

type death struct {
	node string
	at   time.Time
}

// draw makes up a submission.
func draw(r *rand.Rand, tag string) *doomed {
	j := &doomed{tag: tag, tasks: 1}
	nap := strconv.FormatFloat(r.Float64()*2.5, 'f', 2, 64)
	if r.IntN(3) == 0 {
		nap = "0"
	}
	how, what, out := "exit", strconv.Itoa([]int{0, 0, 1, 3, 77, 255}[r.IntN(6)]), "out/"+tag
	var options []string
	switch r.IntN(8) {
	case 0, 1:
		how, what = "kill", strconv.Itoa([]int{2, 9, 10, 11, 15}[r.IntN(5)])
	case 2:
		j.tasks = 2 + r.IntN(3)
		limit := 1 + r.IntN(3)
		if r.IntN(3) == 0 { // many starts and ends at once
			j.tasks, limit, nap = 30, 20, "0.1"
		}
		options = append(options, fmt.Sprintf("--array=0-%d%%%d", j.tasks-1, limit))
		out += ".%a"
	case 3:
		j.cancel, nap = true, "300"
	case 4:
		options = append(options, "-N2")
	case 5:
		options = append(options, "--gres=gpu:1")
	}
	switch {
	case j.cancel:
		j.state, j.code = "CANCELLED", ""
	case how == "kill":
		j.state, j.code = "FAILED", "0:"+what
	case what == "0":
		j.state, j.code = "COMPLETED", "0:0"
	default:
		j.state, j.code = "FAILED", what+":0"
	}
	j.args = append(options, "--parsable", "-J", tag, "-o", out, "job.sh", tag, nap, how, what)
	return j
}

// targets are what a seed begins with, in turn, so that each daemon has its turn whatever is drawn after.
var targets = [][]string{
	{"bus"}, {"supervisor:"}, {"controller"}, {"up"}, {"executor:"}, {"everything"}, {"agent"}, {"all but supervisors"}, {"ledger"}, {"supervisor:", "executor:"},
	{"bus", "agent"}, {"supervisor:", "supervisor:", "controller"},
}

// round submits jobs while daemons are killed, and then holds what there is to what the scripts did.
func (k *campaign) round(seed uint64) {
	begun := time.Now()
	r := rand.New(rand.NewPCG(seed, 0))
	var strikes [][]string
	for i := range 2 + r.IntN(3) {
		what := targets[(int(seed)+3*i)%len(targets)]
		if i > 0 {
			what = targets[r.IntN(len(targets))]
		}
		strikes = append(strikes, what)
	}
	var all []*doomed
	var submitting sync.WaitGroup
	chance := rand.New(rand.NewPCG(seed, 1))
	submitting.Go(func() {
		for i := range 10 + chance.IntN(6) {
			// One that is not acknowledged may be there all the same, so what comes in its place is another job.
			for try := range 5 {
				time.Sleep(time.Duration(chance.IntN(250)) * time.Millisecond)
				j := draw(chance, fmt.Sprintf("s%d.%d%c", seed, i, 'a'+try))
				res := k.try("sbatch", j.args...)
				all = append(all, j)
				if res.code != 0 {
					continue
				}
				j.id = strings.TrimSpace(res.out)
				if other := k.ids[j.id]; other != "" {
					k.t.Errorf("the id %s was given to %s and to %s", j.id, other, j.tag)
				}
				k.ids[j.id] = j.tag
				if j.cancel && i%2 == 0 {
					k.try("scancel", j.id) // in the midst of it; again when the round settles
				}
				break
			}
		}
	})
	for _, what := range strikes {
		time.Sleep(time.Duration(300+r.IntN(900)) * time.Millisecond)
		k.strike(r, what)
	}
	submitting.Wait()
	k.settle(all)
	acknowledged := 0
	for _, j := range all {
		if j.id != "" {
			acknowledged++
		}
	}
	if acknowledged == 0 {
		k.t.Errorf("no submission was acknowledged")
	}
	k.compare(all)
	k.t.Logf("seed %d: %v; %d of %d submissions acknowledged, %s", seed, strikes, acknowledged, len(all), time.Since(begun).Round(time.Millisecond))
}

// strike kills daemons, and starts `stint up` again if it was one of them.
func (k *campaign) strike(r *rand.Rand, what []string) {
	alive := k.daemons()
	var names []string
	for name := range alive {
		names = append(names, name)
	}
	slices.Sort(names)
	var doomed []string
	for _, w := range what {
		switch {
		case w == "everything":
			doomed = names
		case w == "all but supervisors":
			doomed = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return strings.HasPrefix(n, "supervisor:") })
		case strings.HasSuffix(w, ":"): // of some node
			of := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, w) })
			if len(of) > 0 {
				doomed = append(doomed, of[max(0, r.IntN(len(of)+2)-2)]) // mostly the first, which has the most jobs
			}
		case alive[w] == 0 && len(k.how) == 0: // a part of that process
			doomed = append(doomed, "up")
		default:
			doomed = append(doomed, w)
		}
	}
	slices.Sort(doomed)
	doomed = slices.Compact(doomed)
	for _, name := range doomed {
		pid := alive[name]
		if pid == 0 || !k.ours(pid) {
			continue // it is just being started again
		}
		if node, ok := strings.CutPrefix(name, "supervisor:"); ok {
			k.kills = append(k.kills, death{node, time.Now()})
		}
		syscall.Kill(pid, syscall.SIGKILL)
	}
	if !slices.Contains(doomed, "up") {
		return
	}
	time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
	k.up(k.how...)
	for name, pid := range alive {
		if strings.HasPrefix(name, "supervisor:") && !slices.Contains(doomed, name) && pid != 0 && k.ours(pid) {
			k.eventually(fmt.Sprintf("`stint up` has taken up %s, process %d", name, pid), func() bool { return k.daemons()[name] == pid })
		}
	}
}

// daemons are the processes that `stint up` wrote down last, itself as "up".
func (k *campaign) daemons() map[string]int {
	k.t.Helper()
	data, err := os.ReadFile(filepath.Join(k.dir, "up.json"))
	if err != nil {
		k.t.Fatal(err)
	}
	var p struct {
		Pid      int            `json:"pid"`
		Children map[string]int `json:"children"`
	}
	if err := json.Unmarshal(data, &p); err != nil {
		k.t.Fatal(err)
	}
	p.Children["up"] = p.Pid
	return p.Children
}

// ours says whether a process is one of this cluster's: a number may have gone to somebody else.
func (k *campaign) ours(pid int) bool {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Contains(string(data), "\x00"+k.dir+"\x00")
}

// row is one line of sacct.
type row struct{ id, name, state, code, nodes string }

func (k *campaign) rows() (out []row) {
	res := k.try("sacct", "-a", "-X", "-n", "-P", "-S", "now-1day", "--format=JobID,JobName,State,ExitCode,NodeList")
	if res.code != 0 {
		return nil
	}
	for line := range strings.Lines(res.out) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 5 {
			k.t.Fatalf("sacct printed %q", line)
		}
		f[2], _, _ = strings.Cut(f[2], " ") // CANCELLED by 0
		out = append(out, row{f[0], f[1], f[2], f[3], f[4]})
	}
	return out
}

func final(state string) bool {
	switch state {
	case "PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED":
		return false
	}
	return true
}

// settle waits until all jobs of a round are over. What is to be cancelled and has no end yet is cancelled here, also what
// was not acknowledged and is there all the same.
func (k *campaign) settle(all []*doomed) {
	k.t.Helper()
	mine := map[string]*doomed{}
	for _, j := range all {
		mine[j.tag] = j
	}
	var open []string
	for deadline := time.Now().Add(3 * patience); ; time.Sleep(200 * time.Millisecond) {
		rows := k.rows()
		there := map[string]int{}
		open = nil
		for _, r := range rows {
			j := mine[r.name]
			if j == nil {
				continue
			}
			if final(r.state) {
				there[r.name]++
				continue
			}
			open = append(open, r.id+" "+r.name+" "+r.state)
			if j.cancel {
				k.try("scancel", r.id)
			}
		}
		for _, j := range all {
			if j.id != "" && there[j.tag] < j.tasks {
				open = append(open, j.id+" "+j.tag)
			}
		}
		// What was not acknowledged may be on its way into accounting: nothing may be in the queue, nor anything unread.
		if rows != nil && len(open) == 0 {
			if k.quiet() && slices.Equal(rows, k.rows()) {
				return
			}
		}
		if time.Now().After(deadline) {
			k.t.Fatalf("these jobs do not end: %v\n%s\n%s", open, k.try("squeue", "-t", "all").out, k.try("stint", "status").out)
		}
	}
}

// quiet says whether the queue is empty and accounting has read all that the controller has.
func (k *campaign) quiet() bool {
	if queue := k.try("squeue", "-h"); queue.code != 0 || queue.out != "" {
		return false
	}
	var s struct {
		Healthy    bool
		Controller struct{ Seq, Inbox uint64 }
		Ledger     struct{ Seq uint64 }
	}
	err := json.Unmarshal([]byte(k.try("stint", "status", "--json").out), &s)
	return err == nil && s.Healthy && s.Controller.Inbox == 0 && s.Ledger.Seq >= s.Controller.Seq
}

// compare holds accounting to what the scripts did.
func (k *campaign) compare(all []*doomed) {
	k.t.Helper()
	byTag := map[string][]row{}
	for _, r := range k.rows() {
		byTag[r.name] = append(byTag[r.name], r)
	}
	for _, j := range all {
		rows := byTag[j.tag]
		if len(rows) == 0 {
			if j.id != "" {
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
			k.compareOne(j, r, tag, state, code)
		}
	}
}

func (k *campaign) compareOne(j *doomed, r row, tag, state, code string) {
	k.t.Helper()
	begins, ends, from, to, ids := k.ran(tag)
	wrong := func(format string, args ...any) {
		k.t.Helper()
		k.t.Errorf("job %s (%s): %s\n  accounting: %+v\n  the script began %d times and came to its end %d times\n%s", r.id, tag, fmt.Sprintf(format, args...), r, begins, ends,
			k.try("stint", "events", r.id).out)
	}
	if begins > 1 || ends > 1 {
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
	unseen := r.state == "FAILED" && r.code == "0:0" && k.unseen(r.id)
	switch {
	case unseen:
		k.hid++
		if begins > 0 && !k.deathBetween(r.nodes, from, to) || begins == 0 && !k.deathBetween(r.nodes, time.Time{}, time.Time{}) {
			wrong("nobody saw how it ended, and no supervisor of %s died while it lived (%s to %s): %v", r.nodes, from, to, k.kills)
		}
		if ends == 0 && strings.Contains(k.do("stint", "events", r.id), " of run 1 started") {
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
}

// ran is what a script wrote about itself.
func (k *campaign) ran(tag string) (begins, ends int, from, to time.Time, ids []string) {
	data, err := os.ReadFile(filepath.Join(k.work, "ran", tag))
	if err != nil {
		return 0, 0, from, to, nil
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) != 3 {
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
		}
		if !slices.Contains(ids, f[1]) {
			ids = append(ids, f[1])
		}
	}
	return begins, ends, from, to, ids
}

// unseen says whether the log has it that nobody saw how a job ended.
func (k *campaign) unseen(id string) bool {
	k.t.Helper()
	for line := range strings.Lines(k.do("stint", "events", "--json", id)) {
		var e struct {
			Kind string
			Fact struct {
				Exited struct{ Cause string }
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			k.t.Fatalf("stint events --json printed %q: %v", line, err)
		}
		if e.Kind == "exited" && e.Fact.Exited.Cause == "STATUS_UNSEEN" {
			return true
		}
	}
	return false
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
	for _, r := range k.rows() {
		if seen[r.id] {
			k.t.Errorf("accounting has %s twice", r.id)
		}
		seen[r.id] = true
		states[r.id] = r.state
	}
	k.eventually("the cluster is healthy", func() bool { return k.try("stint", "status").code == 0 })
	k.compareFeed(states)
	res := k.try("stint", "replay", "--verify")
	if res.code != 0 {
		k.t.Errorf("stint replay --verify: exit %d\n%s%s", res.code, res.out, res.err)
	}
	k.t.Logf("%d jobs, %d supervisors killed, %d ends that nobody saw\n%s", len(seen), len(k.kills), k.hid, res.out)
}
