package ledger

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"stint/events"
	"stint/ledger/rows"
	"stint/projections"
)

// busy writes the log of a cluster that ran jobs of one CPU, packed as a busy leader packs: intents, admissions, placements
// and ends hundreds to a message, node reports by the dozen. It returns the messages and the number of events in them.
func busy(b testing.TB, jobs int) (log []message, facts int) {
	const nodes, cpus, wave = 64, 32, 1000
	h := &history{t: b, c: projections.New(), now: t0, nodeN: map[string]uint64{}, term: []byte("term-1")}
	config := &events.Config{
		Cluster: "test", Nodes: []*events.NodeDef{{Names: fmt.Sprintf("n[1-%d]", nodes), Cpus: cpus, Sockets: 1, CoresPerSocket: cpus, ThreadsPerCore: 1, MemoryMib: 256000, Virtual: true}},
		Partitions: []*events.PartitionDef{{Name: "main", Nodes: "ALL", Default: true, MaxTimeS: events.Unlimited, MaxNodes: events.Unlimited}},
		MinJobAgeS: 60, FirstJobId: 1,
	}
	body, _ := config.MarshalVT()
	h.sched(&events.SchedMessage{Kind: &events.SchedMessage_Term{Term: &events.Term{Nonce: h.term, Rules: 1, Decider: 1, NowUs: h.now}}})
	h.cycle(&events.Fact{Kind: &events.Fact_Configured{Configured: &events.Configured{Intent: h.intent(&events.Intent{Verb: events.Verb_CONFIGURE, Author: author("root", 0), Body: body}), Config: config}}})
	for i := range nodes {
		h.node(fmt.Sprintf("n%d", i+1), &events.NodeFact{Kind: &events.NodeFact_Up{Up: &events.NodeUp{Inventory: &events.Inventory{Cpus: cpus, MemoryMib: 256000}}}})
	}
	users := make([]*events.Author, 20)
	for i := range users {
		users[i] = author(fmt.Sprintf("user%d", i), uint32(2000+i))
	}
	for first := 0; first < jobs; first += wave {
		n := min(wave, jobs-first)
		base := h.c.NextID()
		specs := make([]*events.JobSpec, n)
		var refs []*events.IntentRef
		for i := 0; i < n; {
			var batch []*events.Intent
			for ; i < n && len(batch) < 100; i++ {
				spec := &events.JobSpec{Name: "job" + strconv.Itoa(i%50), Account: "acct" + strconv.Itoa(i%7), Partition: "main", Qos: "normal", WorkDir: "/home/user/project/run",
					StdOut: "slurm-%j.out", SubmitLine: "sbatch --cpus-per-task=1 job.sh", Command: "/home/user/project/job.sh", CpusPerTask: 1, MemPerNodeMib: 100, TimeLimitS: 3600}
				specs[i] = spec
				body, _ := (&events.Submit{Components: []*events.JobSpec{spec}}).MarshalVT()
				batch = append(batch, &events.Intent{Verb: events.Verb_SUBMIT, Ids: 1, Author: users[(first+i)%20], Body: body})
			}
			ref := h.intent(batch...)
			for k := range batch {
				refs = append(refs, &events.IntentRef{Seq: ref.Seq, Index: uint32(k)})
			}
		}
		inCycles := func(f func(i int) *events.Fact) {
			for i := 0; i < n; i += 250 {
				var list []*events.Fact
				for k := i; k < min(i+250, n); k++ {
					list = append(list, f(k))
				}
				h.cycle(list...)
			}
		}
		onNodes := func(f func(i int) *events.NodeFact) {
			by := make([][]*events.NodeFact, nodes)
			for i := range n {
				by[i%nodes] = append(by[i%nodes], f(i))
			}
			for k, list := range by {
				if len(list) > 0 {
					h.node(fmt.Sprintf("n%d", k+1), list...)
				}
			}
		}
		inCycles(func(i int) *events.Fact {
			a := users[(first+i)%20]
			return &events.Fact{Kind: &events.Fact_Admitted{Admitted: &events.Admitted{Intent: refs[i], Job: base + uint32(i), Spec: specs[i], Priority: 100, Owner: &events.Owner{Uid: a.Uid, Gid: a.Gid, User: a.User, Group: a.Group}}}}
		})
		inCycles(func(i int) *events.Fact {
			return &events.Fact{Kind: &events.Fact_Placed{Placed: &events.Placed{Job: base + uint32(i), Run: 1, LimitS: 3600, Partition: "main", Allocation: &events.Allocation{Shares: []*events.NodeShare{{
				Nodes: []string{fmt.Sprintf("n%d", i%nodes+1)}, Cpus: []uint64{1 << uint(i/nodes)}, MemoryMib: 100, Tasks: 1}}}}}}
		})
		onNodes(func(i int) *events.NodeFact { return started(h.c.Job(base+uint32(i)), events.StepBatch, h.now) })
		h.now += 30e6
		onNodes(func(i int) *events.NodeFact {
			return exited(h.c.Job(base+uint32(i)), events.StepBatch, h.now-30e6, h.now, 0, 0, &events.Usage{UserUs: 28e6, SystemUs: 1e6, MaxRssKib: 20424, Samples: 2, SumRssKib: 40000})
		})
		inCycles(func(i int) *events.Fact {
			return &events.Fact{Kind: &events.Fact_Ended{Ended: &events.Ended{Job: base + uint32(i), Run: 1, State: events.JobState_COMPLETED}}}
		})
		facts += 6 * n
	}
	if len(h.c.Voids()) != 0 {
		b.Fatalf("voids: %v", h.c.Voids())
	}
	return h.log, facts
}

// cpuTime is what this process used: on a machine that others use too, the wall clock says little.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchJobs() int {
	if n, err := strconv.Atoi(os.Getenv("JOBS")); err == nil {
		return n
	}
	return 50_000
}

// rebuild replays a log into a new directory, decoding in one goroutine and folding in another, as Run does.
func rebuild(b testing.TB, dir string, log []message) *Ledger {
	l, err := Open(dir, Options{MinFreeBytes: 1})
	if err != nil {
		b.Fatal(err)
	}
	l.far = uint64(len(log))
	ch := make(chan batch, ahead)
	go func() {
		defer close(ch)
		for i := 0; i < len(log); {
			n := min(i+64, len(log))
			out := batch{tip: n == len(log), events: make([]events.Event, 0, n-i)}
			for ; i < n; i++ {
				out.events = append(out.events, events.Decode(uint64(i+1), log[i].at, log[i].subject, log[i].data))
			}
			ch <- out
		}
	}()
	if err := l.foldAll(context.Background(), ch); err != nil {
		b.Fatal(err)
	}
	return l
}

// JOBS=1000000 go test ./ledger -run xxx -bench Rebuild -benchtime 1x
func BenchmarkRebuild(b *testing.B) {
	jobs := benchJobs()
	log, facts := busy(b, jobs)
	b.ResetTimer()
	cpu := cpuTime()
	for range b.N {
		l := rebuild(b, b.TempDir(), log)
		b.StopTimer()
		l.Close()
		b.StartTimer()
	}
	b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(b.N)/float64(facts), "cpu-ns/event")
	per := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(float64(facts)/per, "events/s")
	b.ReportMetric(float64(jobs)/per, "jobs/s")
	b.ReportMetric(float64(len(log)), "messages")
}

// The fold alone, to compare with.
func BenchmarkFoldAlone(b *testing.B) {
	log, facts := busy(b, benchJobs())
	b.ResetTimer()
	cpu := cpuTime()
	for range b.N {
		c := projections.New()
		for i, m := range log {
			c.Apply(events.Decode(uint64(i+1), m.at, m.subject, m.data))
		}
	}
	b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(b.N)/float64(facts), "cpu-ns/event")
	b.ReportMetric(float64(facts)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkAsk(b *testing.B) {
	jobs := benchJobs()
	log, _ := busy(b, jobs)
	l := rebuild(b, b.TempDir(), log)
	defer l.Close()
	for _, bench := range []struct {
		name string
		ask  *rows.AskJobs
	}{
		{"all-X", &rows.AskJobs{Allocations: true, StartUs: 1}},
		{"all-steps", &rows.AskJobs{StartUs: 1}},
		{"user-X", &rows.AskJobs{Allocations: true, StartUs: 1, Users: []string{"user3"}}},
		{"name-X", &rows.AskJobs{Allocations: true, StartUs: 1, Names: []string{"job3"}, Users: []string{"user3"}}},
		{"one", &rows.AskJobs{Jobs: []*rows.Selection{{Job: uint32(jobs / 2)}}}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			n := 0
			start := time.Now()
			for range b.N {
				n = 0
				err := l.Each(context.Background(), &rows.Ask{What: &rows.Ask_Jobs{Jobs: bench.ask}}, func(a *rows.Answer) error {
					n += len(a.Records)
					_, err := a.MarshalVT()
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n), "rows")
			b.ReportMetric(float64(n)*float64(b.N)/time.Since(start).Seconds(), "rows/s")
		})
	}
}
