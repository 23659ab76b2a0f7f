package cycle

import (
	"fmt"
	"testing"

	"stint/events"
)

// queueOf is a cluster with n nodes of 32 CPUs and a queue of jobs of some dozens of shapes that mostly cannot start.
func queueOf(b *testing.B, nodes, jobs int) *world {
	b.Helper()
	cfg := four()
	cfg.Nodes[0].Names = fmt.Sprintf("n[1-%d]", nodes)
	cfg.Nodes[0].Cpus, cfg.Nodes[0].CoresPerSocket, cfg.Nodes[0].MemoryMib = 32, 32, 128000
	cfg.MaxJobCount = uint32(jobs) * 2
	w := newWorld(b, cfg)
	w.mem = NewMemory()
	for i := range jobs {
		w.submit(1000+uint32(i%50), &events.JobSpec{
			Name: "job", Tasks: uint32(1 + i%16), CpusPerTask: uint32(1 + i%3), TimeLimitS: uint32(600 * (1 + i%20)),
		})
	}
	return w
}

func (w *world) bench(b *testing.B) {
	b.ResetTimer()
	for b.Loop() {
		Run(w.c, Input{Now: w.now, Memory: w.mem})
	}
	b.StopTimer()
	counts := w.c.Counts()
	b.ReportMetric(float64(counts.Pending), "pending")
	b.ReportMetric(float64(counts.Running), "running")
}

func BenchmarkPassOver50kPending(b *testing.B) {
	for _, nodes := range []int{4, 1000} {
		b.Run(fmt.Sprintf("%d-nodes", nodes), func(b *testing.B) {
			w := queueOf(b, nodes, 50_000)
			w.pass()
			w.bench(b)
		})
	}
}

// BenchmarkPassOver50kDifferent is a queue in which no two jobs ask for the same, so that no memo of shapes helps.
func BenchmarkPassOver50kDifferent(b *testing.B) {
	w := queueOf(b, 1000, 0)
	w.c.Config().MaxJobCount = 100_000
	for i := range 50_000 {
		w.submit(1000, &events.JobSpec{Name: "job", Tasks: uint32(1 + i%64), CpusPerTask: uint32(1 + i%3), MemPerCpuMib: uint64(100 + i), TimeLimitS: uint32(600 + i)})
	}
	w.pass()
	w.bench(b)
}

// BenchmarkPlacing is a pass that fills an idle cluster of 1000 nodes from a queue.
func BenchmarkPlacing(b *testing.B) {
	w := queueOf(b, 1000, 5_000)
	var placed int
	for b.Loop() {
		facts, _, _ := Run(w.c, Input{Now: w.now, Memory: w.mem})
		placed = 0
		for _, f := range facts {
			if f.GetPlaced() != nil {
				placed++
			}
		}
	}
	b.ReportMetric(float64(placed), "placed/op")
}

// BenchmarkAdmission is submissions judged and folded in one pass, 1000 of them, none of which can start.
func BenchmarkAdmission(b *testing.B) {
	w := queueOf(b, 4, 0)
	w.submit(1000, &events.JobSpec{Name: "all", Exclusive: events.Exclusive_EXCLUSIVE_NODE, MinNodes: 4, MaxNodes: 4})
	w.pass()
	for i := range 1000 {
		w.submit(1000, &events.JobSpec{Name: "job", Tasks: uint32(1 + i%16), Partition: "batch", WorkDir: "/home/u", SubmitLine: "sbatch job.sh"})
	}
	w.bench(b)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/job")
}
