package format

import (
	"testing"

	"stint/cli/slurm"
	"stint/projections"
)

// rowsOf is n rows such as a long queue has.
func rowsOf(n int) []Job {
	var views []*projections.JobView
	for len(views) < n {
		views = append(views, testQueue()...)
	}
	return Jobs(views[:n], testContext(slurm.Release2205), false)
}

func BenchmarkQueue(b *testing.B) {
	rows := rowsOf(1000)
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			JSON(rows[i%len(rows)].JSON(), 2)
		}
	})
	b.Run("record", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			rows[i%len(rows)].Record(false, 0)
		}
	})
	b.Run("row", func(b *testing.B) {
		b.ReportAllocs()
		l, _ := SqueueFields.Get().ByLetter(SqueueFormat)
		for i := range b.N {
			l.Row(rows[i%len(rows)])
		}
	})
	b.Run("sort", func(b *testing.B) {
		b.ReportAllocs()
		s, _, _ := SqueueFields.Get().Sort(SqueueSort, JobSort(slurm.Release2605))
		for range b.N {
			AsLoaded(rows, false)
			s.Rows(rows)
		}
	})
}
