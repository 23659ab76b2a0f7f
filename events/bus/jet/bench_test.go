package jet_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"stint/events/bus"
	"stint/events/bus/jet"
	"stint/events/bus/mem"
	"stint/events/bus/server"
)

// buses runs a benchmark on each kind of bus.
func buses(b *testing.B, run func(b *testing.B, l bus.Bus)) {
	b.Run("memory", func(b *testing.B) { run(b, mem.New(mem.Options{}).Connect("bench")) })
	for _, unsynced := range []bool{true, false} {
		name := "one server, synced"
		if unsynced {
			name = "one server, unsynced"
		}
		b.Run(name, func(b *testing.B) {
			s := one(b, server.Options{Unsynced: unsynced})
			seed, err := s.Admit(role("admin"))
			if err != nil {
				b.Fatal(err)
			}
			l, err := jet.Connect(within(b), jet.Options{Server: s, Role: role("admin"), Seed: seed, Log: quiet})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			run(b, l)
		})
	}
	if testing.Short() {
		return
	}
	b.Run("three servers, synced", func(b *testing.B) {
		c := startCluster(b, 3)
		c.leader(b, true)
		run(b, c.connect(b))
	})
}

// BenchmarkAppend appends one message after another, each behind the one before: what a leader or an executor can do.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{300, 16 << 10, 256 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			buses(b, func(b *testing.B, l bus.Bus) {
				data := make([]byte, size)
				b.SetBytes(int64(size))
				var after uint64
				var err error
				for b.Loop() {
					if after, err = l.Events().Append(context.Background(), "ev.sched", after, data); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkFollow reads a backlog of 256-byte messages from the beginning to the end.
func BenchmarkFollow(b *testing.B) {
	const backlog = 100_000
	buses(b, func(b *testing.B, l bus.Bus) {
		// The feed takes many at once, so it is quicker to fill; both are followed by the same code.
		list := make([]bus.Entry, backlog)
		for i := range list {
			list[i] = bus.Entry{Subject: fmt.Sprintf("job.DONE.p.u%d.x", i%100), Data: make([]byte, 256)}
		}
		if _, err := l.Jobs().Append(context.Background(), 0, list); err != nil {
			b.Fatal(err)
		}
		end := errors.New("end")
		for b.Loop() {
			n := 0
			err := l.Jobs().Follow(context.Background(), bus.JobsSubjects, 1, func(batch bus.Batch) error {
				if n += len(batch.Messages); n == backlog {
					return end
				}
				return nil
			})
			if !errors.Is(err, end) {
				b.Fatal(err)
			}
		}
		b.ReportMetric(backlog*float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	})
}

// BenchmarkAsk asks a question that is answered at once.
func BenchmarkAsk(b *testing.B) {
	buses(b, func(b *testing.B, l bus.Bus) {
		stop, err := l.Wire().Answer("ask.bench", "views", func(context.Context, bus.Nudge) ([]byte, error) { return []byte("answer"), nil })
		if err != nil {
			b.Fatal(err)
		}
		defer stop()
		for b.Loop() {
			if _, err := l.Wire().Ask(context.Background(), "ask.bench", nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
