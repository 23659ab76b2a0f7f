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
	"time"
)

// campaign is what has been done to one cluster.
type campaign struct {
	*cluster
	bus   *servers          // nil: the bus is one of the daemons
	how   []string          // it is started
	ids   map[string]string // id → tag, which is also the job's name
	kills []death           // of supervisors
	hid   int               // ends that nobody saw
	score score             // of the present round
	back  []func()          // wait until servers of the bus that were struck are there again
}

type death struct {
	node string
	at   time.Time
}

// draw makes up a submission.
func draw(r *rand.Rand, tag string) *doomed {
	j := &doomed{tag: tag, tasks: 1}
	nap := strconv.FormatFloat(r.Float64()*1.5, 'f', 2, 64)
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
		nap = strconv.FormatFloat(r.Float64()*0.6, 'f', 2, 64)
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

// targetsOfThree are those on a bus of three servers.
var targetsOfThree = [][]string{
	{"bus leader"}, {"supervisor:", "bus follower"}, {"bus sleep"}, {"everything"}, {"bus all"}, {"executor:", "bus leader"}, {"agent"}, {"bus two"}, {"controller"}, {"up", "bus leader"},
	{"ledger"}, {"bus follower"}, {"controller", "bus sleep"}, {"all but supervisors"},
}

// round submits jobs while daemons are killed, and then holds what there is to what the scripts did.
func (k *campaign) round(seed uint64) {
	begun := time.Now()
	r := rand.New(rand.NewPCG(seed, 0))
	targets := targets
	if k.bus != nil {
		targets = targetsOfThree
	}
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
		for i := range 6 + chance.IntN(4) {
			// One that is not acknowledged may be there all the same, so what comes in its place is another job.
			for try := range 5 {
				time.Sleep(time.Duration(chance.IntN(150)) * time.Millisecond)
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
	for _, back := range k.back {
		back()
	}
	k.back = nil
	struck := time.Since(begun)
	submitting.Wait()
	k.settle(all)
	settled := time.Since(begun)
	for _, j := range all {
		if j.id != "" {
			k.score.acked++
		}
	}
	k.score.asked = len(all)
	if k.score.acked == 0 {
		k.t.Errorf("no submission was acknowledged")
	}
	k.compare(all, begun)
	k.verify()
	k.t.Logf("seed %d: %v; struck after %.1f s, settled after %.1f s, looked into after %.1f s", seed, strikes, struck.Seconds(), settled.Seconds(), time.Since(begun).Seconds())
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
	for _, w := range what {
		word, isBus := strings.CutPrefix(w, "bus ")
		if w == "everything" {
			word, isBus = "all", true
		}
		if isBus && k.bus != nil {
			n, back := k.bus.strike(r, word)
			k.score.strikes["bus "+word] += n
			k.t.Cleanup(back)
			k.back = append(k.back, back)
		}
	}
	for _, name := range doomed {
		pid := alive[name]
		if pid == 0 || !k.ours(pid) {
			continue // it is just being started again
		}
		if node, ok := strings.CutPrefix(name, "supervisor:"); ok {
			k.kills = append(k.kills, death{node, time.Now()})
		}
		kind, _, _ := strings.Cut(name, ":")
		k.score.strikes[kind]++
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
