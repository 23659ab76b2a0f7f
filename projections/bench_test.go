package projections

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"stint/events"
)

// life writes the log of many short jobs on many nodes, packed as a busy leader and its executors pack it: waves of jobs
// that are submitted, admitted, placed, started, over and ended.
type life struct {
	*history
	nodes, wave int
	next        uint32
	facts_      int // facts and intents written
	dependent   bool
}

func newLife(t testing.TB, nodes, wave int) *life {
	l := &life{history: newHistory(t), nodes: nodes, wave: wave, next: 1}
	l.other = nil
	l.begin("t0")
	config := testConfig()
	config.Nodes[0] = &events.NodeDef{Names: fmt.Sprintf("n[1-%d]", nodes), Cpus: 64, Sockets: 1, CoresPerSocket: 64, ThreadsPerCore: 1, MemoryMib: 256000, Virtual: true}
	config.Partitions = config.Partitions[:1]
	l.history.facts(fact(&events.Configured{Config: config}))
	for i := range nodes {
		l.node(l.name(i), "b", "x", nodeFact(&events.NodeUp{}))
	}
	return l
}

func (l *life) name(i int) string { return fmt.Sprintf("n%d", i%l.nodes+1) }

func (l *life) pack(facts []*events.Fact) {
	for len(facts) > 0 {
		n := min(len(facts), 100)
		l.facts(facts[:n]...)
		l.facts_ += n
		facts = facts[n:]
	}
}

// submit puts a wave of jobs into the queue.
func (l *life) submit() (first uint32) {
	first = l.next
	batch := &events.IntentBatch{}
	for range l.wave {
		l.nonce++
		batch.Intents = append(batch.Intents, &events.Intent{
			Verb: events.Verb_SUBMIT, Nonce: []byte(fmt.Sprintf("%016d", l.nonce)), Ids: 1, Body: []byte("spec"),
			Author: &events.Author{Uid: 1000, User: "alice", Gid: 1000, Group: "users"},
		})
	}
	l.append(events.SubjectIntentHost("login"), batch)
	l.facts_ += l.wave
	seq := l.seq
	var facts []*events.Fact
	for i := range l.wave {
		facts = append(facts, fact(&events.Admitted{
			Intent: &events.IntentRef{Seq: seq, Index: uint32(i)}, Job: l.next, Priority: 100,
			Owner: &events.Owner{Uid: 1000, Gid: 1000, User: "alice", Group: "users"},
			Spec: &events.JobSpec{
				Name: "job", Partition: "main", WorkDir: "/home/alice", StdOut: "slurm-%j.out", TimeLimitS: 3600, MinNodes: 1, Tasks: 1, CpusPerTask: 1,
				Script: &events.BlobRef{Subject: "blob.1000.x", Length: 100, Sha256: make([]byte, 32)}, Environment: &events.BlobRef{Subject: "blob.1000.x", Offset: 100, Length: 2000},
				Command: "/home/alice/job.sh", SubmitLine: "sbatch job.sh",
			},
		}))
		l.next++
	}
	l.pack(facts)
	return first
}

// run takes a wave from the queue to its end.
func (l *life) run(first uint32) {
	var placed, ended []*events.Fact
	started, exited := make([][]*events.NodeFact, l.nodes), make([][]*events.NodeFact, l.nodes)
	for i := range l.wave {
		id, n := first+uint32(i), i%l.nodes
		cpu := events.WordsOf(uint32(i/l.nodes) % 64)
		placed = append(placed, fact(&events.Placed{Job: id, Run: 1, Partition: "main", LimitS: 3600, Allocation: &events.Allocation{
			Shares: []*events.NodeShare{{Nodes: []string{l.name(i)}, Cpus: cpu, MemoryMib: 100, Tasks: 1}}}}))
		started[n] = append(started[n], nodeFact(&events.StepStarted{Job: id, Run: 1, Step: events.StepBatch, AtUs: l.at}))
		exited[n] = append(exited[n], nodeFact(&events.StepExited{Job: id, Run: 1, Step: events.StepBatch, AtUs: l.at + 1, Usage: &events.Usage{UserUs: 5, MaxRssKib: 9, Samples: 1, Node: l.name(i)}}))
		ended = append(ended, fact(&events.Ended{Job: id, Run: 1, State: events.JobState_COMPLETED}))
	}
	l.pack(placed)
	for _, list := range [][][]*events.NodeFact{started, exited} {
		l.at += 1000000
		for n, facts := range list {
			if len(facts) > 0 {
				l.node(l.name(n), "b", "x", facts...)
				l.facts_ += len(facts)
			}
		}
	}
	l.pack(ended)
}

// How many facts a second are folded: decoded and applied, and applied alone.
func BenchmarkFold(b *testing.B) {
	l := newLife(b, 64, 2048)
	for range 20 {
		l.at += 20000000
		l.run(l.submit())
	}
	if v := l.c.Voids(); len(v) > 0 {
		b.Fatalf("void: %v", v)
	}
	// The machine may be shared: CPU time says what a fact costs, the wall clock what was had of it.
	cpu := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	var start time.Duration
	perSecond := func(b *testing.B) {
		b.ReportMetric(float64(l.facts_)*float64(b.N)/b.Elapsed().Seconds(), "facts/s")
		b.ReportMetric(float64((cpu()-start).Nanoseconds())/float64(b.N)/float64(l.facts_), "cpu-ns/fact")
	}
	b.Run("decode+apply", func(b *testing.B) {
		b.ReportAllocs()
		start = cpu()
		for b.Loop() {
			c := New()
			for _, m := range l.log {
				c.Apply(events.Decode(m.seq, m.at, m.subject, m.data))
			}
		}
		perSecond(b)
	})
	decoded := make([]events.Event, len(l.log))
	for i, m := range l.log {
		decoded[i] = events.Decode(m.seq, m.at, m.subject, m.data)
	}
	b.Run("apply", func(b *testing.B) {
		b.ReportAllocs()
		start = cpu()
		for b.Loop() {
			c := New()
			for _, e := range decoded {
				c.Apply(e)
			}
		}
		perSecond(b)
	})
	b.Run("apply with a view a message", func(b *testing.B) {
		b.ReportAllocs()
		start = cpu()
		for b.Loop() {
			c := New()
			for _, e := range decoded {
				c.Apply(e)
				c.View()
			}
		}
		perSecond(b)
	})
}

// What a pending job costs in memory, and what a snapshot and a hash of 50,000 cost.
func BenchmarkPending50k(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l := newLife(b, 64, 2000)
	for range 25 {
		l.submit()
		l.log = nil
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			l.c.Snapshot()
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/50000, "B/job")
	})
	b.Run("hash", func(b *testing.B) {
		for b.Loop() {
			l.c.Hash()
		}
	})
	b.Run("each pending", func(b *testing.B) {
		for b.Loop() {
			n := 0
			l.c.EachPending(func(j *Job) bool { n += int(j.Priority); return true })
		}
	})
}

// A big array: what a task costs from its start to its end when there are 100,000 of them.
func BenchmarkArray100k(b *testing.B) {
	for b.Loop() {
		l := newLife(b, 64, 1)
		l.intent("alice", events.Verb_SUBMIT, 1)
		var tasks events.Words
		tasks.AddRange(0, 99999)
		l.facts(fact(&events.Admitted{Intent: &events.IntentRef{Seq: l.seq}, Job: 1, Priority: 1, Owner: &events.Owner{Uid: 1, User: "alice"},
			Spec: &events.JobSpec{Name: "array", Partition: "main", TimeLimitS: 60, Array: &events.ArraySpec{Tasks: tasks}}}))
		const started = 5000
		for i := range uint32(started) {
			name, cpu := l.name(int(i)), events.WordsOf(i/64%64)
			id := l.c.NextID()
			l.facts(fact(&events.Placed{Job: 1, Task: i, HasTask: true, Run: 1, Partition: "main", LimitS: 60,
				Allocation: &events.Allocation{Shares: []*events.NodeShare{{Nodes: []string{name}, Cpus: cpu}}}}))
			l.node(name, "b", "x", nodeFact(&events.StepExited{Job: id, Run: 1, Step: events.StepBatch, AtUs: l.at}))
			l.facts(fact(&events.Ended{Job: id, Run: 1, State: events.JobState_COMPLETED}))
			l.log = l.log[:0]
		}
		l.facts(fact(&events.Ended{Job: 1, State: events.JobState_CANCELLED}))
		if a := l.c.Array(1); a.Completed != started || a.Failed != 100000-started {
			b.Fatalf("array: %v, void %v", a, l.c.Voids())
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/5000, "µs/task")
}
