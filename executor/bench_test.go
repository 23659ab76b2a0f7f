package executor

import (
	"testing"
)

// BenchmarkCluster runs empty scripts on four nodes, from submission to the end in the log: the pass, the supervisors, their
// control groups and the facts.
func BenchmarkCluster(b *testing.B) {
	c := newCluster(b, "n1", "n2", "n3", "n4")
	b.ResetTimer()
	ids := make([]uint32, b.N)
	for i := range ids {
		ids[i] = c.submit("exit 0")
	}
	for _, id := range ids {
		c.ended(id)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
