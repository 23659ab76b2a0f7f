package cycle

import (
	"fmt"
	"testing"

	"stint/events"
	"stint/projections"
	"stint/scheduler/rank"
)

// world is a log and its fold, written by hand: what agents, executors and a leader append.
type world struct {
	t     testing.TB
	c     *projections.Cluster
	seq   uint64
	now   int64
	n     uint64
	nonce uint64
	nodeN map[string]uint64
	mem   *Memory
	order rank.Function
	last  struct {
		facts    []*events.Fact
		outcomes []*projections.Outcome
		next     int64
	}
}

const hour = 3600 * second

func newWorld(t testing.TB, cfg *events.Config) *world {
	w := &world{t: t, c: projections.New(), now: 1_700_000_000 * second, nodeN: map[string]uint64{}}
	w.apply(events.SubjectSched, &events.SchedMessage{Kind: &events.SchedMessage_Term{Term: &events.Term{Nonce: []byte("term"), Rules: Rules, Decider: Decider}}})
	w.intent(0, events.Verb_CONFIGURE, cfg)
	w.pass()
	for _, n := range w.c.Nodes() {
		w.up(n.Name)
	}
	return w
}

type message interface{ MarshalVT() ([]byte, error) }

func (w *world) apply(subject string, m message) projections.Verdict {
	w.t.Helper()
	data, err := m.MarshalVT()
	if err != nil {
		w.t.Fatal(err)
	}
	w.seq++
	return w.c.Apply(events.Decode(w.seq, w.now, subject, data))
}

// intent appends a wish of a user, and returns the id it took.
func (w *world) intent(uid uint32, verb events.Verb, body message) uint32 {
	w.t.Helper()
	data, err := body.MarshalVT()
	if err != nil {
		w.t.Fatal(err)
	}
	w.nonce++
	user := fmt.Sprintf("u%d", uid)
	if uid == 0 {
		user = "root"
	}
	i := &events.Intent{Verb: verb, Nonce: fmt.Appendf(nil, "%016d", w.nonce), Body: data, Author: &events.Author{Uid: uid, Gid: uid, User: user, Group: user}}
	if verb == events.Verb_SUBMIT {
		i.Ids = 1
	}
	id := w.c.NextID()
	if v := w.apply("ev.intent.@login", &events.IntentBatch{Intents: []*events.Intent{i}}); len(v.Void) > 0 {
		w.t.Fatalf("intent: %v", v.Void)
	}
	return id
}

func (w *world) submit(uid uint32, spec *events.JobSpec) uint32 {
	w.t.Helper()
	if spec.Script == nil {
		spec.Script = &events.BlobRef{Subject: "blob.0.x"}
	}
	return w.intent(uid, events.Verb_SUBMIT, &events.Submit{Components: []*events.JobSpec{spec}})
}

func (w *world) node(name string, facts ...*events.NodeFact) {
	w.t.Helper()
	w.nodeN[name]++
	v := w.apply(events.SubjectNode(name), &events.NodeMessage{Boot: "boot", Executor: []byte("e" + name), N: w.nodeN[name], NowUs: w.now, Facts: facts})
	if len(v.Void) > 0 {
		w.t.Fatalf("node %s: %v", name, v.Void)
	}
}

func (w *world) up(name string) {
	n := w.c.Node(name)
	w.node(name, &events.NodeFact{Kind: &events.NodeFact_Up{Up: &events.NodeUp{Inventory: &events.Inventory{Cpus: n.CPUs(), MemoryMib: n.GetDef().GetMemoryMib()}}}})
}

// exit reports the end of a run on one of its nodes.
func (w *world) exit(name string, id uint32, code, signal uint32, cause events.EndCause) {
	w.t.Helper()
	j := w.c.Job(id)
	w.node(name, &events.NodeFact{Kind: &events.NodeFact_Exited{Exited: &events.StepExited{Job: id, Run: j.Run, Step: events.StepBatch, AtUs: w.now, ExitCode: code, ExitSignal: signal, Cause: cause}}})
}

// exitAll reports the end of a run on all of its nodes.
func (w *world) exitAll(id uint32, code uint32) {
	w.t.Helper()
	for _, name := range w.c.Job(id).Unreported() {
		w.exit(name, id, code, 0, events.EndCause_EXITED)
	}
}

// pass decides, appends what was decided and folds it; nothing of it may be void, and deciding must not change the state.
func (w *world) pass() {
	w.t.Helper()
	w.passWith(nil)
}

func (w *world) passWith(o *events.Observed) {
	w.t.Helper()
	before := w.c.Hash()
	facts, outcomes, next := Run(w.c, Input{Now: w.now, Observed: o, Memory: w.mem, Priority: w.order})
	if w.c.Hash() != before {
		w.t.Fatal("deciding changed the state")
	}
	w.last.facts, w.last.outcomes, w.last.next = facts, outcomes, next
	parts := Pack(facts)
	for i, part := range parts {
		w.n++
		v := w.apply(events.SubjectSched, &events.SchedMessage{Kind: &events.SchedMessage_Cycle{Cycle: &events.Cycle{
			Term: []byte("term"), N: w.n, Cycle: w.n, Part: uint32(i + 1), Parts: uint32(len(parts)), Basis: w.c.Seq(), NowUs: w.now, Decider: Decider, Observed: o, Facts: part,
		}}})
		if len(v.Void) > 0 {
			w.t.Fatalf("decided what is void: %v (%v)", v.Void, part[max(v.Void[0].Index, 0)])
		}
	}
}

func (w *world) reason(id uint32) events.Reason {
	for _, o := range w.last.outcomes {
		if o.Job == id {
			return o.Reason
		}
	}
	return -1
}

func (w *world) state(id uint32) string {
	j := w.c.Job(id)
	if j == nil {
		return "gone"
	}
	return j.State.Word()
}

func (w *world) want(id uint32, state string) {
	w.t.Helper()
	if got := w.state(id); got != state {
		w.t.Fatalf("job %d is %s, want %s (reason %s)", id, got, state, w.reason(id).Word())
	}
}

func (w *world) wantReason(id uint32, reason events.Reason) {
	w.t.Helper()
	if got := w.reason(id); got != reason {
		w.t.Fatalf("job %d waits for %v, want %v", id, got, reason)
	}
}

// four is a cluster of four nodes of 8 CPUs, 16000 MiB and 4 GPUs, in one partition.
func four() *events.Config {
	return &events.Config{
		Cluster: "test", KillWaitS: 30, SelectCore: true, SelectMemory: true, DefMemPerCpuMib: 100, Backfill: true, JobRequeue: true,
		Nodes:      []*events.NodeDef{{Names: "n[1-4]", Cpus: 8, Sockets: 1, CoresPerSocket: 8, ThreadsPerCore: 1, MemoryMib: 16000, Weight: 1, Gres: []*events.GresDef{{Name: "gpu", Type: "a100", Count: 4}}}},
		Partitions: []*events.PartitionDef{{Name: "batch", Nodes: "ALL", Default: true, MaxTimeS: 24 * 3600, DefaultTimeS: 3600, MaxNodes: events.Unlimited, PriorityTier: 1}},
	}
}
