package mem_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"stint/events/bus"
	"stint/events/bus/mem"
)

// TestFaults appends and publishes under every fault at random. Whatever the author was told must be so: an
// acknowledged message stands once at its sequence, a refused one nowhere.
func TestFaults(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var intruders int
		hub := mem.New(mem.Options{Faults: func(op mem.Op) mem.Fault {
			switch r.IntN(8) {
			case 0:
				return mem.Fault{LoseRequest: true}
			case 1:
				return mem.Fault{LoseAck: true}
			case 2:
				return mem.Fault{Delay: true}
			case 3:
				if op.Conditional {
					intruders++
					return mem.Fault{Intrude: fmt.Appendf(nil, "intruder %d", intruders), LoseAck: r.IntN(2) == 0, Delay: r.IntN(2) == 0}
				}
			}
			return mem.Fault{}
		}})
		log := hub.Connect("author").Events()
		ctx := context.Background()
		acked, refused := map[uint64]string{}, map[string]bool{}
		var after uint64
		for n := range 40 {
			data := fmt.Sprintf("data %d", n)
			if r.IntN(3) == 0 {
				seq, err := log.Publish(ctx, "ev.intent.x", data, []byte(data))
				if err != nil {
					t.Fatalf("seed %d: publish: %v", seed, err)
				}
				acked[seq] = data
				continue
			}
			seq, err := log.Append(ctx, "ev.sched", after, []byte(data))
			var deposed *bus.DeposedError
			switch {
			case err == nil:
				acked[seq], after = data, seq
			case errors.As(err, &deposed):
				refused[data], after = true, deposed.Found
			default:
				t.Fatalf("seed %d: append: %v", seed, err)
			}
		}
		hub.Deliver()
		msgs, err := hub.Read(1, 1000)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]uint64{}
		for _, m := range msgs {
			data := string(m.Data)
			if before, twice := seen[data]; twice {
				t.Fatalf("seed %d: %q is stored at %d and %d", seed, data, before, m.Seq)
			}
			if refused[data] {
				t.Fatalf("seed %d: %q was refused and is stored at %d", seed, data, m.Seq)
			}
			seen[data] = m.Seq
		}
		for seq, data := range acked {
			if seen[data] != seq {
				t.Fatalf("seed %d: %q was acknowledged at %d and is at %d", seed, data, seq, seen[data])
			}
		}
	}
}

func TestFeedFaults(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		hub := mem.New(mem.Options{Faults: func(mem.Op) mem.Fault {
			return mem.Fault{LoseRequest: r.IntN(4) == 0, LoseAck: r.IntN(4) == 0, Delay: r.IntN(4) == 0}
		}})
		feed := hub.Connect("leader").Jobs()
		var list []bus.Entry
		for i := range 30 {
			list = append(list, bus.Entry{Subject: fmt.Sprintf("job.RUNNING.p.u.%d", i), Data: fmt.Append(nil, i)})
		}
		if last, err := feed.Append(context.Background(), 0, list); err != nil || last != 30 {
			t.Fatalf("seed %d: 30 entries end at %d (%v)", seed, last, err)
		}
		m, err := feed.Last(context.Background())
		if err != nil || m.Seq != 30 || string(m.Data) != "29" {
			t.Fatalf("seed %d: the last is %d %q (%v)", seed, m.Seq, m.Data, err)
		}
	}
}

func TestTwice(t *testing.T) {
	hub := mem.New(mem.Options{Faults: func(mem.Op) mem.Fault { return mem.Fault{Twice: true} }})
	if _, err := hub.Connect("agent").Events().Publish(context.Background(), "ev.intent.x", "1", []byte("submit")); err != nil {
		t.Fatal(err)
	}
	if msgs, _ := hub.Read(0, 10); len(msgs) != 2 {
		t.Fatalf("%d messages, want the intent twice", len(msgs))
	}
}

func TestDedupeEnds(t *testing.T) {
	now := time.Unix(0, 0)
	hub := mem.New(mem.Options{Now: func() time.Time { return now }})
	log := hub.Connect("agent").Events()
	for i, step := range []struct {
		wait time.Duration
		want uint64
	}{{0, 1}, {time.Minute, 1}, {time.Minute + time.Second, 2}, {time.Second, 2}} {
		now = now.Add(step.wait)
		if seq, err := log.Publish(context.Background(), "ev.intent.x", "id", []byte("submit")); err != nil || seq != step.want {
			t.Fatalf("step %d: sequence %d (%v), want %d", i, seq, err, step.want)
		}
	}
}

func TestStallAndCut(t *testing.T) {
	hub := mem.New(mem.Options{})
	c := hub.Connect("executor")
	var states []bus.State
	c.OnStatus(func(s bus.Status) { states = append(states, s.State) })

	hub.Stall()
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Events().Append(short, "ev.node.n1", 0, []byte("up")); !errors.Is(err, bus.ErrUnsettled) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("an append while the bus stalls ended with %v", err)
	}
	done := make(chan error, 1)
	first := make(chan struct{})
	go func() {
		close(first)
		_, err := c.Events().Append(context.Background(), "ev.node.n1", 0, []byte("up"))
		done <- err
	}()
	<-first
	hub.Resume()
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	c.Cut(true)
	if _, _, err := c.Events().Bounds(context.Background()); err == nil {
		t.Fatal("read the log while cut off")
	}
	got := make(chan bus.Message, 10)
	follower, stop := context.WithCancel(context.Background())
	defer stop()
	go c.Events().Follow(follower, 1, func(b bus.Batch) error {
		for _, m := range b.Messages {
			got <- m
		}
		return nil
	})
	if _, err := hub.Connect("leader").Events().Append(context.Background(), "ev.sched", 0, []byte("term")); err != nil {
		t.Fatal(err)
	}
	if len(got) != 0 {
		t.Fatal("a follower that is cut off was handed messages")
	}
	c.Cut(false)
	for want := uint64(1); want <= 2; want++ {
		if m := <-got; m.Seq != want {
			t.Fatalf("handed %d, want %d", m.Seq, want)
		}
	}
	c.Close()
	want := []bus.State{bus.Up, bus.Down, bus.Up, bus.Closed}
	if fmt.Sprint(states) != fmt.Sprint(want) {
		t.Fatalf("told %v, want %v", states, want)
	}
}

// TestOutstanding holds an append up and tries a second one on the same subject.
func TestOutstanding(t *testing.T) {
	var log bus.Log
	var inner error
	hub := mem.New(mem.Options{
		Faults: func(op mem.Op) mem.Fault { return mem.Fault{LoseRequest: op.After == 0 && inner == nil} },
		Wait: func(ctx context.Context, _ time.Duration) error {
			_, inner = log.Append(ctx, "ev.sched", 1, []byte("second"))
			return ctx.Err()
		},
	})
	log = hub.Connect("leader").Events()
	if _, err := log.Append(context.Background(), "ev.sched", 0, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(inner, bus.ErrOutstanding) {
		t.Fatalf("a second append beside the first ended with %v", inner)
	}
}
