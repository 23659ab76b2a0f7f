package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"stint/events"
	"stint/projections"
)

// message is one message of a log made in a test.
type message struct {
	subject string
	at      int64
	data    []byte
}

// history writes a log as a cluster would: it folds what it writes, and decides from the state.
type history struct {
	t     testing.TB
	c     *projections.Cluster
	log   []message
	now   int64
	n     uint64 // of cycles
	nonce uint64
	nodeN map[string]uint64
	term  []byte
}

const t0 = int64(1796000400) * 1e6 // 2026-11-30T01:00:00Z

func newHistory(t testing.TB, nodes int) *history {
	h := &history{t: t, c: projections.New(), now: t0, nodeN: map[string]uint64{}, term: []byte("term-1")}
	config := &events.Config{
		Cluster:    "test",
		Nodes:      []*events.NodeDef{{Names: fmt.Sprintf("n[1-%d]", nodes), Sockets: 1, CoresPerSocket: 8, ThreadsPerCore: 1, Cpus: 8, MemoryMib: 16000, Virtual: true, Gres: []*events.GresDef{{Name: "gpu", Type: "a100", Count: 4}}}},
		Partitions: []*events.PartitionDef{{Name: "main", Nodes: "ALL", Default: true, MaxTimeS: events.Unlimited, MaxNodes: events.Unlimited}},
		MinJobAgeS: 60, SelectCore: true, SelectMemory: true, FirstJobId: 1, AdminUids: []uint32{0},
	}
	body, err := config.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	h.sched(&events.SchedMessage{Kind: &events.SchedMessage_Term{Term: &events.Term{Nonce: h.term, Controller: "c1", Rules: 1, Decider: 1, NowUs: h.now}}})
	ref := h.intent(&events.Intent{Verb: events.Verb_CONFIGURE, Author: author("root", 0), Body: body})
	h.cycle(&events.Fact{Kind: &events.Fact_Configured{Configured: &events.Configured{Intent: ref, Config: config}}})
	for i := range nodes {
		h.node(fmt.Sprintf("n%d", i+1), &events.NodeFact{Kind: &events.NodeFact_Up{Up: &events.NodeUp{Inventory: &events.Inventory{Cpus: 8, MemoryMib: 16000}}}})
	}
	if got := len(h.c.Voids()); got != 0 {
		t.Fatalf("the beginning of the history is void: %v", h.c.Voids())
	}
	return h
}

func author(user string, uid uint32) *events.Author {
	return &events.Author{Uid: uid, Gid: uid, User: user, Group: user, Host: "login1"}
}

func (h *history) append(subject string, data []byte, err error) uint64 {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
	h.now += 1000
	h.log = append(h.log, message{subject, h.now, data})
	seq := uint64(len(h.log))
	h.c.Apply(h.event(seq))
	return seq
}

func (h *history) event(seq uint64) events.Event {
	m := h.log[seq-1]
	return events.Decode(seq, m.at, m.subject, m.data)
}

func (h *history) sched(m *events.SchedMessage) uint64 {
	h.t.Helper()
	data, err := m.MarshalVT()
	return h.append(events.SubjectSched, data, err)
}

func (h *history) cycle(facts ...*events.Fact) uint64 {
	h.t.Helper()
	h.n++
	return h.sched(&events.SchedMessage{Kind: &events.SchedMessage_Cycle{Cycle: &events.Cycle{
		Term: h.term, N: h.n, Cycle: h.n, Part: 1, Parts: 1, Basis: h.c.Seq(), NowUs: h.now + 500, Decider: 1, Facts: facts,
	}}})
}

func (h *history) intent(list ...*events.Intent) *events.IntentRef {
	h.t.Helper()
	for _, i := range list {
		h.nonce++
		i.Nonce = []byte(fmt.Sprintf("%016d", h.nonce))
	}
	data, err := (&events.IntentBatch{Intents: list}).MarshalVT()
	return &events.IntentRef{Seq: h.append(events.SubjectIntentHost("login1"), data, err)}
}

func (h *history) node(name string, facts ...*events.NodeFact) uint64 {
	h.t.Helper()
	h.nodeN[name]++
	data, err := (&events.NodeMessage{Boot: "boot-" + name, Executor: []byte("x-" + name), N: h.nodeN[name], NowUs: h.now + 900, Facts: facts}).MarshalVT()
	return h.append(events.SubjectNode(name), data, err)
}

// submit has a job submitted and admitted, and returns its id.
func (h *history) submit(user string, uid uint32, spec *events.JobSpec) uint32 {
	h.t.Helper()
	if spec.Partition == "" {
		spec.Partition = "main"
	}
	if spec.TimeLimitS == 0 {
		spec.TimeLimitS = 3600
	}
	body, err := (&events.Submit{Components: []*events.JobSpec{spec}}).MarshalVT()
	if err != nil {
		h.t.Fatal(err)
	}
	id := h.c.NextID()
	ref := h.intent(&events.Intent{Verb: events.Verb_SUBMIT, Ids: 1, Author: author(user, uid), Body: body})
	a := author(user, uid)
	h.cycle(&events.Fact{Kind: &events.Fact_Admitted{Admitted: &events.Admitted{
		Intent: ref, Job: id, Spec: spec, Owner: &events.Owner{Uid: uid, Gid: uid, User: a.User, Group: a.Group}, Priority: 1000 - id%1000,
	}}})
	return id
}

// fit finds a place for a job: the first free CPUs of enough nodes.
func (h *history) fit(j *projections.Job, task uint32) *events.Placed {
	s := j.Spec
	p := &events.Placed{Job: j.Id, Run: j.Run + 1, LimitS: j.LimitS, Partition: "main", Allocation: &events.Allocation{}}
	if j.Remainder() {
		p.Task, p.HasTask = task, true
	}
	need := max(s.CpusPerTask, 1) * max(s.TasksPerNode, 1)
	left := max(s.MinNodes, 1)
	for _, n := range h.c.Nodes() {
		if left == 0 {
			break
		}
		if !n.Usable() || n.MemoryUsedMib+s.MemPerNodeMib > 16000 {
			continue
		}
		share := &events.NodeShare{Nodes: []string{n.Name}, MemoryMib: s.MemPerNodeMib, Tasks: max(s.TasksPerNode, 1)}
		var cpus events.Words
		for c := uint32(0); c < 8 && uint32(cpus.Count()) < need; c++ {
			if !events.Words(n.CpusUsed).Has(c) {
				cpus.Set(c)
			}
		}
		if uint32(cpus.Count()) < need {
			continue
		}
		share.Cpus = cpus
		ok := true
		for _, g := range s.Gres {
			var ids events.Words
			for _, have := range n.Gres {
				for i := uint32(0); i < uint32(have.Count) && uint64(ids.Count()) < g.Count; i++ {
					if !events.Words(have.Used).Has(i) {
						ids.Set(i)
					}
				}
			}
			ok = ok && uint64(ids.Count()) == g.Count
			share.Gres = append(share.Gres, &events.GresShare{Name: "gpu", Type: "a100", Ids: ids})
		}
		if !ok {
			continue
		}
		p.Allocation.Shares = append(p.Allocation.Shares, share)
		left--
	}
	if left > 0 {
		return nil
	}
	return p
}

// start places a job (or the first task of an array) and has it started; it returns the id of what runs.
func (h *history) start(id uint32) uint32 {
	h.t.Helper()
	j := h.c.Job(id)
	task, _ := events.Words(j.Pending).First()
	p := h.fit(j, task)
	if p == nil {
		h.t.Fatalf("job %d does not fit", id)
	}
	h.place(p)
	if j.Remainder() {
		id = h.c.ArrayTask(j.ArrayId, task).Job
	}
	if h.c.Job(id).State != events.JobState_RUNNING {
		h.t.Fatalf("job %d does not run: %v", id, h.c.Voids())
	}
	for _, n := range h.c.Job(id).Allocation.NodeNames() {
		h.node(n, started(h.c.Job(id), events.StepBatch, h.now))
	}
	return id
}

func (h *history) place(p *events.Placed) {
	h.t.Helper()
	h.cycle(&events.Fact{Kind: &events.Fact_Placed{Placed: p}})
}

func started(j *projections.Job, step uint32, at int64) *events.NodeFact {
	return &events.NodeFact{Kind: &events.NodeFact_Started{Started: &events.StepStarted{Job: j.Id, Run: j.Run, Step: step, AtUs: at}}}
}

func exited(j *projections.Job, step uint32, from, at int64, code, signal uint32, u *events.Usage) *events.NodeFact {
	return &events.NodeFact{Kind: &events.NodeFact_Exited{Exited: &events.StepExited{
		Job: j.Id, Run: j.Run, Step: step, AtUs: at, ExitCode: code, ExitSignal: signal, StartedUs: from, ElapsedUs: at - from, Usage: u,
	}}}
}

// finish has all nodes of a run report, the first with the exit code, and the run ended.
func (h *history) finish(id uint32, code, signal uint32, state events.JobState, by uint32) {
	h.t.Helper()
	j := h.c.Job(id)
	for i, n := range j.Allocation.NodeNames() {
		if r := j.RunNode(n); r.ExitedUs != 0 {
			continue
		}
		c, s := code, signal
		if i > 0 {
			c, s = 0, 0
		}
		u := &events.Usage{UserUs: 15000 + uint64(i), SystemUs: 13000, MaxRssKib: 20424 + uint64(i)*100, Samples: 3, SumRssKib: 3 * 20000, Node: n}
		h.node(n, exited(j, events.StepBatch, j.StartUs+500, h.now, c, s, u))
	}
	h.end(id, code, signal, state, by)
}

func (h *history) end(id uint32, code, signal uint32, state events.JobState, by uint32) {
	h.t.Helper()
	j := h.c.Job(id)
	run := j.Run
	if j.Waits() {
		run = 0
	}
	reason := events.Reason_NONE
	if code != 0 {
		reason = events.Reason_NON_ZERO_EXIT_CODE
	}
	h.cycle(&events.Fact{Kind: &events.Fact_Ended{Ended: &events.Ended{Job: id, Run: run, State: state, ExitCode: code, ExitSignal: signal, ByUid: by, Reason: reason}}})
}

func (h *history) stop(id uint32, cause events.StopCause, by uint32) {
	h.t.Helper()
	h.cycle(&events.Fact{Kind: &events.Fact_Stopping{Stopping: &events.Stopping{Job: id, Run: h.c.Job(id).Run, Cause: cause, ByUid: by, KillAfterS: 30}}})
}

// wander makes a history of n random acts.
func (h *history) wander(r *rand.Rand, n int) {
	users := []string{"alice", "bob", "carol"}
	accounts := []string{"ml", "bio"}
	pick := func(each func(func(*projections.Job) bool)) *projections.Job {
		var list []*projections.Job
		each(func(j *projections.Job) bool { list = append(list, j); return len(list) < 64 })
		if len(list) == 0 {
			return nil
		}
		return list[r.IntN(len(list))]
	}
	for range n {
		h.now += r.Int64N(20e6)
		switch k := r.IntN(100); {
		case k < 30:
			u := r.IntN(len(users))
			spec := &events.JobSpec{
				Name: fmt.Sprintf("job%d", r.IntN(5)), Account: accounts[r.IntN(2)], Qos: "normal", CpusPerTask: uint32(1 + r.IntN(3)),
				MinNodes: uint32(1 + r.IntN(2)), MemPerNodeMib: uint64(100 * (1 + r.IntN(5))), WorkDir: "/home/" + users[u],
			}
			if r.IntN(4) == 0 {
				spec.Gres = []*events.Gres{{Name: "gpu", Count: uint64(1 + r.IntN(2))}}
			}
			if r.IntN(5) == 0 {
				spec.Array = &events.ArraySpec{Tasks: events.WordsOf(1, 2, 5, uint32(7+r.IntN(80)))}
			}
			h.submit(users[u], 2001+uint32(u), spec)
		case k < 55:
			if j := pick(h.c.EachPending); j != nil && j.Eligible(h.now) {
				task, _ := events.Words(j.Pending).First()
				if p := h.fit(j, task); p != nil {
					h.place(p)
				}
			}
		case k < 70:
			if j := pick(h.c.EachRunning); j != nil {
				n := j.Nodes[r.IntN(len(j.Nodes))]
				if n.StartedUs == 0 && n.ExitedUs == 0 {
					h.node(n.Node, started(j, events.StepBatch, h.now), started(j, 0, h.now+10))
				}
			}
		case k < 75:
			if j := pick(h.c.EachRunning); j != nil && j.Nodes[0].ExitedUs == 0 {
				h.node(j.Nodes[0].Node, exited(j, uint32(r.IntN(2)), j.StartUs, h.now, uint32(r.IntN(2)), 0, &events.Usage{UserUs: 5000, SystemUs: 100}))
			}
		case k < 90:
			if j := pick(h.c.EachRunning); j != nil {
				switch {
				case j.Stop.GetCause() == events.StopCause_STOP_REQUEUE || j.Stop.GetCause() == events.StopCause_STOP_PREEMPT:
					for _, n := range j.Unreported() {
						h.node(n, exited(j, events.StepBatch, j.StartUs, h.now, 0, 15, nil))
					}
					h.cycle(&events.Fact{Kind: &events.Fact_Requeued{Requeued: &events.Requeued{Job: j.Id, Run: j.Run, BeginUs: h.now + 121e6, Reason: events.Reason_BEGIN_TIME, Priority: 7}}})
				case j.Stop != nil:
					h.finish(j.Id, 0, 15, events.JobState_CANCELLED, 2001)
				case r.IntN(4) == 0:
					h.finish(j.Id, uint32(1+r.IntN(9)), 0, events.JobState_FAILED, 0)
				default:
					h.finish(j.Id, 0, 0, events.JobState_COMPLETED, 0)
				}
			}
		case k < 94:
			if j := pick(h.c.EachRunning); j != nil {
				h.stop(j.Id, []events.StopCause{events.StopCause_STOP_CANCEL, events.StopCause_STOP_REQUEUE, events.StopCause_STOP_PREEMPT}[r.IntN(3)], j.Owner.Uid)
			}
		case k < 96:
			if j := pick(h.c.EachPending); j != nil {
				body, _ := (&events.Cancel{Targets: []*events.Target{{Job: j.Id}}}).MarshalVT()
				h.intent(&events.Intent{Verb: events.Verb_CANCEL, Author: author("alice", 2001), Body: body})
				if j.Remainder() && events.Words(j.Pending).Count() > 1 {
					first, _ := events.Words(j.Pending).First()
					h.cycle(&events.Fact{Kind: &events.Fact_Ended{Ended: &events.Ended{Job: j.Id, State: events.JobState_CANCELLED, ByUid: 2001, Tasks: events.WordsOf(first), HasTasks: true}}})
				} else {
					h.end(j.Id, 0, 0, events.JobState_CANCELLED, 2001)
				}
			}
		case k < 98:
			h.cycle(&events.Fact{Kind: &events.Fact_NodeChanged{NodeChanged: &events.NodeChanged{Node: "n1", Order: []events.NodeOrder{events.NodeOrder_NODE_DRAIN, events.NodeOrder_NODE_RESUME}[r.IntN(2)], Reason: "disk"}}})
		default:
			name := "new name"
			if j := pick(h.c.EachPending); j != nil {
				h.cycle(&events.Fact{Kind: &events.Fact_Updated{Updated: &events.Updated{Job: j.Id, ByUid: 0, Change: &events.UpdateJob{Name: &name}}}})
			}
			h.now += 61e6
		}
	}
}

// Message and Messages make a history a Fetcher.
func (h *history) Message(_ context.Context, seq uint64) (events.Event, error) {
	if seq == 0 || seq > uint64(len(h.log)) {
		return events.Event{}, fmt.Errorf("no message %d", seq)
	}
	return h.event(seq), nil
}

func (h *history) Messages(_ context.Context, from uint64, f func(events.Event) bool) error {
	for seq := max(from, 1); seq <= uint64(len(h.log)); seq++ {
		if !f(h.event(seq)) {
			return nil
		}
	}
	return nil
}
