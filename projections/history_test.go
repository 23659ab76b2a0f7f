package projections

import (
	"fmt"
	"slices"
	"testing"

	"stint/events"
)

// history writes a log and folds it: the state, and beside it a second state that is loaded anew from a snapshot before
// each message. After each message the two must be the same, and the state must pass the audit.
type history struct {
	t     testing.TB
	c     *Cluster
	other *Cluster // nil: no shadow
	seq   uint64
	at    int64
	n     uint64
	term  []byte
	nodeN map[string]uint64
	log   []logged
	nonce uint64
}

type logged struct {
	seq     uint64
	at      int64
	subject string
	data    []byte
}

func newHistory(t testing.TB) *history {
	return &history{t: t, c: New(), other: New(), at: 1000000000, nodeN: map[string]uint64{}}
}

type message interface{ MarshalVT() ([]byte, error) }

func (h *history) append(subject string, m message) Verdict {
	h.t.Helper()
	data, err := m.MarshalVT()
	if err != nil {
		h.t.Fatalf("encode a message for %s: %v", subject, err)
	}
	return h.bytes(subject, data)
}

func (h *history) bytes(subject string, data []byte) Verdict {
	h.t.Helper()
	h.seq++
	h.log = append(h.log, logged{h.seq, h.at, subject, data})
	v := h.c.Apply(events.Decode(h.seq, h.at, subject, data))
	if h.other != nil {
		h.check(subject, data)
	}
	return v
}

func (h *history) check(subject string, data []byte) {
	h.t.Helper()
	before, err := h.other.Snapshot().MarshalVT()
	if err != nil {
		h.t.Fatal(err)
	}
	snap := new(Snapshot)
	if err := snap.UnmarshalVT(before); err != nil {
		h.t.Fatalf("decode the snapshot before %d: %v", h.seq, err)
	}
	if h.other, err = Load(snap); err != nil {
		h.t.Fatal(err)
	}
	if again, _ := h.other.Snapshot().MarshalVT(); !slices.Equal(before, again) {
		h.t.Fatalf("the snapshot before %d is another after loading it", h.seq)
	}
	h.other.Apply(events.Decode(h.seq, h.at, subject, data))
	if a, b := h.c.Snapshot(), h.other.Snapshot(); !a.EqualVT(b) {
		h.t.Fatalf("after message %d on %s the state differs from that of a snapshot and its tail:\n%s\n%s", h.seq, subject, a, b)
	}
	if err := audit(h.c); err != nil {
		h.t.Fatalf("after message %d on %s: %v", h.seq, subject, err)
	}
}

// audit holds a state to what must be so in any state, reckoned anew from the jobs.
func audit(c *Cluster) error {
	type use struct {
		cpus events.Words
		mem  uint64
		gres map[string]events.Words
		jobs []uint32

		doubled bool
	}
	used := map[string]*use{}
	counts := Counts{}
	arrays := map[uint32]*Array{}
	var bad error
	fail := func(format string, args ...any) {
		if bad == nil {
			bad = fmt.Errorf(format, args...)
		}
	}
	live := map[nameKey]map[uint32]bool{}
	c.EachJob(func(j *Job) bool {
		counts.Jobs++
		if j.Waits() {
			counts.Pending++
		}
		if j.Live() {
			counts.Running++
		}
		if j.Completing {
			counts.Completing++
		}
		if j.FinishedUs != 0 {
			counts.Finished++
		}
		if (j.FinishedUs != 0) != (j.Over() && !j.Completing) {
			fail("job %d is %s, completing %v, finished at %d", j.Id, j.State, j.Completing, j.FinishedUs)
		}
		if !j.Over() {
			key := keyOf(j)
			if live[key] == nil {
				live[key] = map[uint32]bool{}
			}
			live[key][j.whole()] = true
		}
		if j.ArrayId != 0 {
			a := arrays[j.ArrayId]
			if a == nil {
				a = &Array{}
				arrays[j.ArrayId] = a
			}
			if j.Live() {
				a.Running++
			}
			if j.HasTask {
				if t := c.ArrayTask(j.ArrayId, j.ArrayTask); t == nil || t.Job != j.Id || t.State != j.State || t.Ended != j.Over() {
					fail("task %d of array %d is job %d in %s, and noted as %v", j.ArrayTask, j.ArrayId, j.Id, j.State, t)
				}
			}
		}
		if len(j.Nodes) != j.Allocation.NodeCount() {
			fail("job %d has %d nodes in its run and %d in its allocation", j.Id, len(j.Nodes), j.Allocation.NodeCount())
		}
		j.Allocation.Each(func(i int, name string, share *events.NodeShare) bool {
			if j.Nodes[i].Node != name {
				fail("job %d: node %d is %s in the run and %s in the allocation", j.Id, i, j.Nodes[i].Node, name)
			}
			if j.Nodes[i].ExitedUs != 0 {
				return true
			}
			u := used[name]
			if u == nil {
				u = &use{gres: map[string]events.Words{}}
				used[name] = u
			}
			if !j.Lent {
				if u.cpus.Intersects(share.Cpus) {
					u.doubled = true
				}
				u.cpus = u.cpus.Or(share.Cpus)
			}
			u.mem += share.MemoryMib
			u.jobs = append(u.jobs, j.Id)
			for _, g := range share.Gres {
				if u.gres[g.Name+":"+g.Type].Intersects(g.Ids) {
					fail("job %d shares %s of %s with another", j.Id, g.Name, name)
				}
				u.gres[g.Name+":"+g.Type] = u.gres[g.Name+":"+g.Type].Or(g.Ids)
			}
			return true
		})
		return true
	})
	if got := c.Counts(); got != counts {
		fail("counts are %+v, not %+v", counts, got)
	}
	c.nodes.each(func(i uint32, n *Node) bool {
		u := used[n.Name]
		if u == nil {
			u = &use{}
		}
		delete(used, n.Name)
		if !u.cpus.Equal(n.CpusUsed) || u.mem != n.MemoryUsedMib || !slices.Equal(u.jobs, n.Jobs) {
			fail("node %s has CPUs %s, %d MiB, jobs %v in use, and says %s, %d, %v", n.Name, u.cpus, u.mem, u.jobs, events.Words(n.CpusUsed), n.MemoryUsedMib, n.Jobs)
		}
		if u.doubled != n.Doubled {
			fail("node %s: two jobs hold the same CPUs: %v, and it says %v", n.Name, u.doubled, n.Doubled)
		}
		for _, g := range n.Gres {
			if !u.gres[g.Name+":"+g.Type].Equal(g.Used) {
				fail("node %s has %s %s in use and says %s", n.Name, g.Name, u.gres[g.Name+":"+g.Type], events.Words(g.Used))
			}
		}
		if n.Removed && len(n.Jobs) == 0 {
			fail("node %s is not configured and has no jobs", n.Name)
		}
		if n.Index != i || c.Node(n.Name) != n {
			fail("node %s is not found under its name", n.Name)
		}
		return true
	})
	for name := range used {
		fail("node %s has jobs and is not there", name)
	}
	c.arrays.each(func(id uint32, a *array) bool {
		mine := arrays[id]
		if mine == nil {
			fail("array %d has no hot job", id)
			return false
		}
		if mine.Running != a.rec.Running {
			fail("array %d runs %d tasks and says %d", id, mine.Running, a.rec.Running)
		}
		var well, ill uint32
		a.tasks.each(func(_ uint32, t *TaskJob) bool {
			if t.Ended && t.State == events.JobState_COMPLETED {
				well++
			} else if t.Ended {
				ill++
			}
			return true
		})
		if well != a.rec.Completed || ill != a.rec.Failed {
			fail("array %d has %d tasks ended well and %d otherwise, and says %d and %d", id, well, ill, a.rec.Completed, a.rec.Failed)
		}
		pending := 0
		if j := c.Job(id); j.Remainder() && j.Waits() {
			pending = events.Words(j.Pending).Count()
		}
		if pending+a.tasks.n != int(a.rec.Total) {
			fail("array %d has %d pending and %d known tasks of %d", id, pending, a.tasks.n, a.rec.Total)
		}
		return true
	})
	for key, families := range live {
		first := uint32(1<<32 - 1)
		for f := range families {
			first = min(first, f)
		}
		if c.names[key].first() != first {
			fail("the first job named %q is %d, and said to be %d", key.name, first, c.names[key].first())
		}
	}
	if len(c.names) != len(live) {
		fail("%d names live, %d are indexed", len(live), len(c.names))
	}
	c.EachPending(func(j *Job) bool {
		for _, d := range j.Dependencies {
			kind := d.Dependency.Kind
			if d.State == Fulfilment_UNFULFILLED && kind != events.DependencyKind_SINGLETON {
				if _, ok := c.dependents[d.Dependency.Job][j.Id]; !ok {
					fail("job %d waits for %d and nobody knows", j.Id, d.Dependency.Job)
				}
				if c.Job(d.Dependency.Job) == nil && c.arrays.get(d.Dependency.Job) == nil {
					fail("job %d waits for %d, which is not hot: %v", j.Id, d.Dependency.Job, j)
				}
			}
			if d.State == Fulfilment_UNFULFILLED && kind == events.DependencyKind_SINGLETON && c.names[keyOf(j)].first() == j.whole() {
				fail("job %d is the first of its name and still waits: %v", j.Id, j)
			}
		}
		return true
	})
	return bad
}

// Messages, as their authors write them.

func (h *history) intent(user string, verb events.Verb, ids uint32) Verdict {
	h.nonce++
	nonce := make([]byte, 16)
	for i := range 8 {
		nonce[i] = byte(h.nonce >> (8 * i))
	}
	return h.append(events.SubjectIntentHost("login"), &events.IntentBatch{Intents: []*events.Intent{{
		Verb: verb, Nonce: nonce, Ids: ids, Author: &events.Author{Uid: uidOf(user), User: user, Host: "login"}, Body: []byte("x"),
	}}})
}

func uidOf(user string) uint32 {
	n := uint32(0)
	for _, c := range []byte(user) {
		n = n*31 + uint32(c)
	}
	return 1000 + n%1000
}

func (h *history) begin(term string) Verdict {
	h.term, h.n = []byte(term), 0
	return h.append(events.SubjectSched, &events.SchedMessage{Kind: &events.SchedMessage_Term{Term: &events.Term{Nonce: h.term, Rules: Rules, Decider: 1, NowUs: h.at}}})
}

func (h *history) facts(facts ...*events.Fact) Verdict {
	h.n++
	return h.append(events.SubjectSched, &events.SchedMessage{Kind: &events.SchedMessage_Cycle{Cycle: &events.Cycle{
		Term: h.term, N: h.n, Cycle: h.n, Part: 1, Parts: 1, Basis: h.seq, NowUs: h.at, Facts: facts,
	}}})
}

func (h *history) node(name, boot, executor string, facts ...*events.NodeFact) Verdict {
	key := name + "/" + executor
	h.nodeN[key]++
	return h.append(events.SubjectNode(name), &events.NodeMessage{Boot: boot, Executor: []byte(executor), N: h.nodeN[key], NowUs: h.at, Facts: facts})
}
