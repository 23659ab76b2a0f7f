package projections

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"stint/events"
)

// chance writes histories at random: mostly what a healthy cluster says, often enough what it must never say.
type chance struct {
	*history
	r     *rand.Rand
	boots map[string]int
	execs map[string]int
}

func newChance(h *history, seed uint64) *chance {
	return &chance{history: h, r: rand.New(rand.NewPCG(seed, 7)), boots: map[string]int{}, execs: map[string]int{}}
}

func (h *chance) one(n int) bool { return h.r.IntN(n) == 0 }

func fact(kind any) *events.Fact {
	switch k := kind.(type) {
	case *events.Admitted:
		return &events.Fact{Kind: &events.Fact_Admitted{Admitted: k}}
	case *events.Judged:
		return &events.Fact{Kind: &events.Fact_Judged{Judged: k}}
	case *events.Placed:
		return &events.Fact{Kind: &events.Fact_Placed{Placed: k}}
	case *events.Stopping:
		return &events.Fact{Kind: &events.Fact_Stopping{Stopping: k}}
	case *events.Ended:
		return &events.Fact{Kind: &events.Fact_Ended{Ended: k}}
	case *events.Held:
		return &events.Fact{Kind: &events.Fact_Held{Held: k}}
	case *events.Released:
		return &events.Fact{Kind: &events.Fact_Released{Released: k}}
	case *events.Updated:
		return &events.Fact{Kind: &events.Fact_Updated{Updated: k}}
	case *events.Requeued:
		return &events.Fact{Kind: &events.Fact_Requeued{Requeued: k}}
	case *events.NodeChanged:
		return &events.Fact{Kind: &events.Fact_NodeChanged{NodeChanged: k}}
	case *events.Configured:
		return &events.Fact{Kind: &events.Fact_Configured{Configured: k}}
	case *events.Signalled:
		return &events.Fact{Kind: &events.Fact_Signalled{Signalled: k}}
	case *events.NodeLost:
		return &events.Fact{Kind: &events.Fact_NodeLost{NodeLost: k}}
	case *events.Suspended:
		return &events.Fact{Kind: &events.Fact_Suspended{Suspended: k}}
	case *events.Resumed:
		return &events.Fact{Kind: &events.Fact_Resumed{Resumed: k}}
	case *events.NodeReturned:
		return &events.Fact{Kind: &events.Fact_NodeReturned{NodeReturned: k}}
	case *events.StepLimited:
		return &events.Fact{Kind: &events.Fact_StepLimited{StepLimited: k}}
	}
	panic(fmt.Sprintf("no fact is a %T", kind))
}

func nodeFact(kind any) *events.NodeFact {
	switch k := kind.(type) {
	case *events.NodeUp:
		return &events.NodeFact{Kind: &events.NodeFact_Up{Up: k}}
	case *events.StepStarted:
		return &events.NodeFact{Kind: &events.NodeFact_Started{Started: k}}
	case *events.StepExited:
		return &events.NodeFact{Kind: &events.NodeFact_Exited{Exited: k}}
	case *events.DeviceAiling:
		return &events.NodeFact{Kind: &events.NodeFact_Ailing{Ailing: k}}
	}
	panic(fmt.Sprintf("no node fact is a %T", kind))
}

func (h *chance) config() *events.Config {
	c := testConfig()
	c.MinJobAgeS = uint32(5 + h.r.IntN(60))
	c.ReturnToServiceN = uint32(h.r.IntN(3))
	c.Nodes[0].Names = []string{"n[1-4]", "n[1-3]", "n[2-4],m1", "n[1-4]"}[h.r.IntN(4)]
	c.Nodes[0].Gres[0].Count = uint64(2 + h.r.IntN(3))
	return c
}

// job is any job, mostly a hot one that meets the wish.
func (h *chance) job(want func(*Job) bool) *Job {
	var list []*Job
	h.c.EachJob(func(j *Job) bool {
		if want(j) || h.one(40) {
			list = append(list, j)
		}
		return true
	})
	if len(list) == 0 {
		return &Job{Id: uint32(h.r.IntN(20)), Run: uint32(h.r.IntN(2))}
	}
	return list[h.r.IntN(len(list))]
}

func (h *chance) words(max int) events.Words {
	var w events.Words
	for range 1 + h.r.IntN(3) {
		w.Set(uint32(h.r.IntN(max)))
	}
	return w
}

func (h *chance) deps() []*events.Dependency {
	var list []*events.Dependency
	for range h.r.IntN(3) {
		d := &events.Dependency{Kind: events.DependencyKind(1 + h.r.IntN(6)), Job: h.job(func(j *Job) bool { return true }).Family(), DelayMin: uint32(h.r.IntN(2))}
		if h.one(4) {
			d.Task, d.HasTask = uint32(h.r.IntN(6)), true
		}
		list = append(list, d)
	}
	return list
}

func (h *chance) spec() *events.JobSpec {
	s := &events.JobSpec{Name: "job" + strconv.Itoa(h.r.IntN(4)), Partition: []string{"main", "small", "main,small"}[h.r.IntN(3)], TimeLimitS: 60}
	if h.one(3) {
		s.Array = &events.ArraySpec{Tasks: h.words(70), MaxRunning: uint32(h.r.IntN(3))}
	}
	if h.one(2) {
		s.Dependencies, s.DependencyAny = h.deps(), h.one(2)
	}
	if h.one(5) {
		s.BeginUs = h.at + 30*1000000
	}
	if h.one(9) {
		s.Exclusive = events.Exclusive_EXCLUSIVE_NODE
	}
	return s
}

func (h *chance) allocation(j *Job) *events.Allocation {
	a := &events.Allocation{}
	for _, n := range h.c.Nodes() {
		if !n.Usable() && !h.one(20) || h.one(2) {
			continue
		}
		share := &events.NodeShare{Nodes: []string{n.Name}, MemoryMib: uint64(h.r.IntN(5000)), Tasks: 1}
		var cpus events.Words
		for cpu := range uint32(8) {
			if !events.Words(n.CpusUsed).Has(cpu) && h.one(3) {
				cpus.Set(cpu)
			}
		}
		share.Cpus = cpus
		for _, g := range n.Gres {
			var ids events.Words
			for id := range uint32(g.Count) {
				if !events.Words(g.Used).Has(id) && h.one(3) {
					ids.Set(id)
				}
			}
			if !ids.Empty() {
				share.Gres = append(share.Gres, &events.GresShare{Name: g.Name, Type: g.Type, Ids: ids})
			}
		}
		if len(cpus) > 0 || h.one(20) {
			a.Shares = append(a.Shares, share)
		}
	}
	if h.one(60) && len(a.Shares) > 0 {
		a.Shares = append(a.Shares, a.Shares[0])
	}
	return a
}

// decision is one fact of the leader.
func (h *chance) decision() *events.Fact {
	waits := func(j *Job) bool { return j.Waits() }
	live := func(j *Job) bool { return j.Live() }
	run := func(j *Job) uint32 {
		if h.one(12) {
			return j.Run + 1
		}
		return j.Run
	}
	switch h.r.IntN(22) {
	case 0, 1, 2, 3, 4:
		inbox := h.c.Inbox()
		if len(inbox) == 0 {
			return fact(&events.Judged{Intent: &events.IntentRef{Seq: uint64(h.r.IntN(9))}})
		}
		item := inbox[h.r.IntN(len(inbox))]
		ref := &events.IntentRef{Seq: item.Seq, Index: item.Index}
		if item.Intent.Verb != events.Verb_SUBMIT || h.one(8) {
			return fact(&events.Judged{Intent: ref, Code: events.Code(h.r.IntN(5)), Text: "so it is"})
		}
		user := item.Intent.Author
		a := &events.Admitted{Intent: ref, Job: item.FirstId + uint32(h.r.IntN(int(item.Intent.Ids))), Spec: h.spec(), Owner: &events.Owner{Uid: user.Uid, User: user.User}, Priority: uint32(1 + h.r.IntN(50))}
		if h.one(6) {
			a.Hold, a.Priority = events.HoldKind(1+h.r.IntN(2)), 0
		}
		if h.one(30) {
			a.Job += 3
		}
		return fact(a)
	case 5, 6, 7, 8, 9:
		j := h.job(func(j *Job) bool { return j.Eligible(h.at) })
		p := &events.Placed{Job: j.Id, Run: j.Run + 1, Partition: "main", LimitS: 60, Allocation: h.allocation(j)}
		if h.one(3) {
			p.Partition = "small"
		}
		if j.Remainder() {
			p.HasTask = true
			if list := j.ReadyTasks().List(); len(list) > 0 {
				p.Task = list[h.r.IntN(len(list))]
			}
		} else if j.HasTask && h.one(2) {
			p.Task, p.HasTask = j.ArrayTask, true
		}
		if h.one(30) {
			p.Run++
		}
		return fact(p)
	case 10:
		j := h.job(live)
		return fact(&events.Stopping{Job: j.Id, Run: run(j), Cause: events.StopCause(h.r.IntN(7)), ByUid: 5, KillAfterS: 30})
	case 11, 12:
		j := h.job(func(j *Job) bool { return j.Completing || h.one(5) })
		e := &events.Ended{Job: j.Id, Run: run(j), State: events.JobState(h.r.IntN(12)), ExitCode: uint32(h.r.IntN(3))}
		if h.one(2) {
			e.State = events.JobState_COMPLETED
		}
		if j.Waits() && j.ArrayId != 0 && h.one(2) {
			e.HasTasks, e.Tasks = true, h.words(70)
			if first, ok := events.Words(j.Pending).First(); ok {
				e.Tasks = events.Words(e.Tasks).Or(events.WordsOf(first))
			}
		}
		return fact(e)
	case 13:
		j := h.job(waits)
		f := &events.Held{Job: j.Id, Kind: events.HoldKind(h.r.IntN(3))}
		if first, ok := events.Words(j.Pending).First(); ok && h.one(2) {
			f.HasTasks, f.Tasks = true, events.WordsOf(first)
		}
		return fact(f)
	case 14:
		j := h.job(func(j *Job) bool { return j.Hold != 0 })
		return fact(&events.Released{Job: j.Id, Priority: 7})
	case 15:
		j := h.job(func(j *Job) bool { return !j.Over() })
		u := &events.UpdateJob{}
		if h.one(2) {
			name := "job" + strconv.Itoa(h.r.IntN(4))
			u.Name = &name
		}
		if h.one(3) {
			u.SetDependencies, u.Dependencies, u.DependencyAny = true, h.deps(), h.one(2)
		}
		if h.one(3) {
			limit := uint32(h.r.IntN(4))
			u.ArrayThrottle = &limit
		}
		if first, ok := events.Words(j.Pending).First(); ok && h.one(3) {
			u.Targets = []*events.Target{{Job: j.Id, HasTasks: true, Tasks: events.WordsOf(first)}}
		}
		return fact(&events.Updated{Job: j.Id, Change: u})
	case 16:
		j := h.job(func(j *Job) bool { return j.Run > 0 && len(j.Unreported()) == 0 })
		return fact(&events.Requeued{Job: j.Id, Run: run(j), Priority: 3, Hold: events.HoldKind(h.r.IntN(4) / 3)})
	case 17:
		j := h.job(live)
		return fact(&events.Signalled{Job: j.Id, Run: run(j), Signal: 10})
	case 18:
		j := h.job(live)
		if j.State == events.JobState_SUSPENDED {
			return fact(&events.Resumed{Job: j.Id, Run: run(j)})
		}
		return fact(&events.Suspended{Job: j.Id, Run: run(j)})
	case 19:
		return fact(&events.NodeChanged{Node: h.nodeName(), Order: events.NodeOrder(h.r.IntN(8)), Reason: "because", ByUid: 1})
	case 20:
		if h.one(3) {
			return fact(&events.NodeLost{Node: h.nodeName()})
		}
		return fact(&events.NodeReturned{Node: h.nodeName()})
	}
	if h.one(10) {
		return fact(&events.Configured{Config: h.config()})
	}
	return fact(&events.NodeChanged{Node: h.nodeName(), Order: events.NodeOrder_NODE_RESUME})
}

func (h *chance) nodeName() string { return []string{"n1", "n2", "n3", "n4", "m1"}[h.r.IntN(5)] }

// report is one message of a node.
func (h *chance) report() {
	name := h.nodeName()
	n := h.c.Node(name)
	if n == nil || !n.Up || h.one(30) {
		if h.one(3) {
			h.boots[name]++
		}
		h.execs[name]++
		h.node(name, fmt.Sprintf("b%d", h.boots[name]), fmt.Sprintf("x%d", h.execs[name]), nodeFact(&events.NodeUp{Inventory: &events.Inventory{Cpus: 8, MemoryMib: 16000}}))
		return
	}
	boot, exec := fmt.Sprintf("b%d", h.boots[name]), fmt.Sprintf("x%d", h.execs[name])
	if h.one(40) {
		boot = "another"
	}
	if h.one(40) {
		exec = "x0"
	}
	var facts []*events.NodeFact
	for range 1 + h.r.IntN(3) {
		if len(n.Jobs) == 0 || h.one(10) {
			facts = append(facts, nodeFact(&events.DeviceAiling{Device: strconv.Itoa(h.r.IntN(3)), Text: "hot"}))
			continue
		}
		j := h.c.Job(n.Jobs[h.r.IntN(len(n.Jobs))])
		step := events.StepBatch
		if h.one(5) {
			step = uint32(h.r.IntN(3))
		}
		run := j.Run
		if h.one(20) {
			run--
		}
		if h.one(2) {
			f := &events.StepStarted{Job: j.Id, Run: run, Step: step, AtUs: h.at}
			if step != events.StepBatch && h.one(2) {
				f.Part = &events.StepPart{Name: "a", Tasks: 1, Cpus: events.WordsOf(uint32(h.r.IntN(4))), LimitS: uint32(h.r.IntN(60))}
			}
			facts = append(facts, nodeFact(f))
		} else {
			facts = append(facts, nodeFact(&events.StepExited{Job: j.Id, Run: run, Step: step, AtUs: h.at - int64(h.r.IntN(3000000)), ExitCode: uint32(h.r.IntN(3)), Usage: &events.Usage{UserUs: 5, MaxRssKib: uint64(h.r.IntN(50)), Node: name}}))
		}
	}
	h.node(name, boot, exec, facts...)
}

func (h *chance) step() {
	if h.one(2) {
		h.at += int64(h.r.IntN(8000000))
	}
	switch h.r.IntN(20) {
	case 0, 1, 2:
		verb, ids := events.Verb_SUBMIT, uint32(1)
		if h.one(8) {
			ids = uint32(h.r.IntN(4))
		}
		if h.one(8) {
			verb, ids = events.Verb(h.r.IntN(12)), 0
		}
		h.intent([]string{"alice", "bob"}[h.r.IntN(2)], verb, ids)
		if h.one(10) {
			h.nonce--
		}
	case 3, 4, 5, 6, 7:
		h.report()
	case 8:
		if h.one(10) {
			h.begin(fmt.Sprintf("t%d", h.r.IntN(50)))
		} else if h.one(10) {
			h.n += uint64(h.r.IntN(3)) // a number is left out, or comes again
			h.facts(h.decision())
			h.n = h.c.Term().N
		}
	case 9:
		if h.one(5) {
			h.append(events.SubjectShare, &events.ShareMessage{Factors: []*events.ShareFactor{{Account: "a", User: strconv.Itoa(h.r.IntN(5)), Ppm: uint64(h.r.IntN(9))}, {Account: "b", Ppm: 3}}})
		}
	default:
		var facts []*events.Fact
		for range 1 + h.r.IntN(4) {
			facts = append(facts, h.decision())
		}
		h.decide(facts)
	}
}

// decide appends a cycle. What a fork said of its facts beforehand must be what the fold says.
func (h *chance) decide(facts []*events.Fact) {
	h.t.Helper()
	if h.c.At() != h.at {
		h.facts(facts...)
		return
	}
	before := ""
	if h.one(10) {
		before = seen(h.c)
	}
	fork := h.c.Fork()
	var void []int
	for i, f := range facts {
		if fork.Try(h.at, f) != "" {
			void = append(void, i)
		}
	}
	if before != "" && seen(h.c) != before {
		h.t.Fatalf("trying facts in a fork changed the state at %d", h.c.Seq())
	}
	got := h.facts(facts...)
	var folded []int
	for _, v := range got.Void {
		if v.Index < 0 {
			return // the cycle was void as a whole
		}
		folded = append(folded, v.Index)
	}
	if h.other == nil {
		return
	}
	if !slices.Equal(void, slices.Compact(folded)) {
		h.t.Fatalf("a fork at %d found facts %v void, the fold %v", h.seq, void, got.Void)
	}
	purged := false
	for _, ch := range h.c.Changes() {
		purged = purged || ch.Before != nil && ch.After == nil
	}
	if !purged && h.one(3) && jobsOf(fork) != jobsOf(h.c) {
		h.t.Fatalf("a fork at %d came to\n%s\nand the fold to\n%s", h.seq, jobsOf(fork), jobsOf(h.c))
	}
}

// jobsOf is what is in a state, but for the sequences, which a fork does not have.
func jobsOf(c *Cluster) string {
	var b strings.Builder
	c.EachJob(func(j *Job) bool {
		j = j.copy()
		j.ChangedSeq, j.PlacedSeq = 0, 0
		fmt.Fprintln(&b, j)
		return true
	})
	c.nodes.each(func(_ uint32, n *Node) bool { fmt.Fprintln(&b, n); return true })
	return b.String()
}

func (h *chance) open() {
	h.begin("t0")
	h.facts(fact(&events.Configured{Config: testConfig()}))
	for _, n := range []string{"n1", "n2", "n3", "n4"} {
		h.node(n, "b0", "x0", nodeFact(&events.NodeUp{Inventory: &events.Inventory{Cpus: 8, MemoryMib: 16000}}))
	}
}

func seeds(t *testing.T, n int) []uint64 {
	if s := os.Getenv("STINT_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{seed}
	}
	list := make([]uint64, n)
	for i := range list {
		list[i] = uint64(i + 1)
	}
	return append(list, rand.Uint64())
}

// After any history the state passes the audit, and is the same whether all was folded or a snapshot and its tail.
func TestRandomHistories(t *testing.T) {
	count, steps := 25, 200
	if testing.Short() {
		count = 10
	}
	for _, seed := range seeds(t, count) {
		t.Run(fmt.Sprintf("STINT_SEED=%d", seed), func(t *testing.T) {
			h := newChance(newHistory(t), seed)
			h.open()
			states := map[events.JobState]int{}
			for range steps {
				h.step()
				for _, ch := range h.c.Changes() {
					if ch.After != nil {
						states[ch.After.State]++
					}
				}
			}
			again := New()
			for _, m := range h.log {
				again.Apply(events.Decode(m.seq, m.at, m.subject, m.data))
			}
			if again.Hash() != h.c.Hash() {
				t.Fatal("the same log folded twice gives two states")
			}
			if states[events.JobState_RUNNING] < 5 || states[events.JobState_COMPLETED] < 2 {
				t.Logf("a dull history: %v", states)
			}
		})
	}
}
