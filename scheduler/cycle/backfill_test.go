package cycle

import (
	"math/rand/v2"
	"slices"
	"testing"

	"stint/events"
	"stint/projections"
)

// judge says when a job could start at the earliest if the runs on the cluster (but for those to be ignored) go on until
// their time limits: it tries every time at which a run ends and every set of nodes, with nothing but counts. It is slow,
// and knows nothing of boards, reservations and memos.
func judge(c *projections.Cluster, j *projections.Job, now int64, ignore func(*projections.Job) bool) int64 {
	var runs []*projections.Job
	times := []int64{now}
	c.EachRunning(func(r *projections.Job) bool {
		if !ignore(r) {
			runs = append(runs, r)
			times = append(times, r.StartUs+int64(r.LimitS)*second)
		}
		return true
	})
	slices.Sort(times)
	for _, t := range times {
		if t >= now && fitsAt(c, j, runs, t) {
			return t
		}
	}
	return -1
}

func fitsAt(c *projections.Cluster, j *projections.Job, runs []*projections.Job, t int64) bool {
	nodes := c.Nodes()
	tasks := make([]int, len(nodes)) // that each node could take
	spec := j.Spec
	for i, n := range nodes {
		cpus, mem, gpus, busy := int(n.CPUs()), n.MemoryMiB(), n.Gres[0].Count, false
		for _, r := range runs {
			if share, _ := r.Allocation.ForNode(n.Name); share != nil && r.StartUs+int64(r.LimitS)*second > t {
				cpus -= events.Words(share.Cpus).Count()
				mem -= share.MemoryMib
				for _, g := range share.Gres {
					gpus -= uint64(events.Words(g.Ids).Count())
				}
				busy = true
			}
		}
		if !n.Usable() || busy && spec.Exclusive != 0 {
			continue
		}
		most := cpus / int(max(spec.CpusPerTask, 1))
		if spec.MemPerCpuMib > 0 {
			most = min(most, int(mem/spec.MemPerCpuMib)/int(max(spec.CpusPerTask, 1)))
		}
		if spec.MemPerNodeMib > mem {
			most = 0
		}
		if len(spec.Gres) > 0 && spec.Gres[0].Count > gpus {
			most = 0
		}
		tasks[i] = most
	}
	least, limit, want := max(int(spec.MinNodes), 1), int(spec.MaxNodes), max(int(spec.Tasks), int(spec.MinNodes), 1)
	if limit == 0 {
		limit = max(least, int(spec.Tasks))
	}
	for set := range 1 << len(nodes) {
		count, sum := 0, 0
		for i := range nodes {
			if set>>i&1 == 1 {
				if tasks[i] == 0 {
					count = len(nodes) + 1
				}
				count, sum = count+1, sum+tasks[i]
			}
		}
		if count >= least && count <= limit && sum >= want {
			return true
		}
	}
	return false
}

// TestBackfillNeverDelaysTheHead runs random queues and looks, after every pass, at the first job that waits for resources:
// the jobs that were backfilled must not have made its earliest start later, and the start that was planned for it must be
// the earliest one.
func TestBackfillNeverDelaysTheHead(t *testing.T) {
	worlds := uint64(150)
	if testing.Short() {
		worlds = 40
	}
	heads, backfilled := 0, 0
	for seed := range worlds {
		r := rand.New(rand.NewPCG(seed, 2))
		cfg := four()
		cfg.SelectMemory = r.IntN(2) == 0
		w := newWorld(t, cfg)
		w.mem = NewMemory()
		for range 25 {
			for range r.IntN(4) {
				w.submit(1000, randomJob(r))
			}
			w.pass()
			h, b := w.checkHead(seed)
			heads, backfilled = heads+h, backfilled+b
			w.now += int64(1+r.IntN(600)) * second
			// Some runs end before their limit, those past it in any case.
			w.c.EachRunning(func(j *projections.Job) bool {
				if r.IntN(6) == 0 || j.StartUs+int64(j.LimitS)*second <= w.now {
					for _, name := range j.Unreported() {
						w.exit(name, j.Id, 0, 0, events.EndCause_EXITED)
					}
				}
				return true
			})
		}
	}
	t.Logf("%d heads, %d backfilled jobs", heads, backfilled)
	if heads < int(worlds) || backfilled < int(worlds) {
		t.Fatalf("%d heads and %d backfilled jobs in %d worlds: nothing is tested", heads, backfilled, worlds)
	}
}

func randomJob(r *rand.Rand) *events.JobSpec {
	s := &events.JobSpec{Name: "j", TimeLimitS: uint32(60 * (1 + r.IntN(60)))}
	switch r.IntN(4) {
	case 0:
		s.MinNodes = uint32(1 + r.IntN(4))
		s.MaxNodes = s.MinNodes
	case 1:
		s.Tasks, s.CpusPerTask = uint32(1+r.IntN(20)), uint32(1+r.IntN(3))
	case 2:
		s.MinNodes = uint32(1 + r.IntN(2))
		s.MaxNodes, s.Tasks = s.MinNodes, s.MinNodes+uint32(r.IntN(8))
	case 3:
		s.Gres = []*events.Gres{{Name: "gpu", Count: uint64(1 + r.IntN(4))}}
	}
	switch r.IntN(4) {
	case 0:
		s.MemPerNodeMib = uint64(1000 * (1 + r.IntN(14)))
	case 1:
		s.Exclusive = events.Exclusive_EXCLUSIVE_NODE
	}
	return s
}

func (w *world) checkHead(seed uint64) (heads, backfilled int) {
	w.t.Helper()
	for _, o := range w.last.outcomes {
		if o.Reason != events.Reason_RESOURCES {
			continue
		}
		j := w.c.Job(o.Job)
		overtook := func(r *projections.Job) bool { return r.Backfilled && r.StartUs == w.now && r.Id > j.Id }
		without := judge(w.c, j, w.now, overtook)
		with := judge(w.c, j, w.now, func(*projections.Job) bool { return false })
		w.c.EachRunning(func(r *projections.Job) bool {
			if overtook(r) {
				backfilled++
			}
			return true
		})
		if with > without || with < 0 {
			w.t.Fatalf("seed %d: job %d could start at +%d s, with the jobs backfilled at +%d s", seed, j.Id, (without-w.now)/second, (with-w.now)/second)
		}
		if o.StartUs != without {
			w.t.Fatalf("seed %d: job %d is planned for +%d s, it could start at +%d s", seed, j.Id, (o.StartUs-w.now)/second, (without-w.now)/second)
		}
		heads++
	}
	return heads, backfilled
}
