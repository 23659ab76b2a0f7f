package mem_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"stint/events/bus"
	"stint/events/bus/bustest"
	"stint/events/bus/mem"
)

func TestContract(t *testing.T) {
	hub := mem.New(mem.Options{})
	bustest.Run(t, func(t testing.TB) bus.Bus {
		c := hub.Connect(t.Name())
		t.Cleanup(func() { c.Close() })
		return c
	})
}

// TestBlows runs the workload that real servers are killed under, with every fault at random.
func TestBlows(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7)) // used with the hub locked
	hub := mem.New(mem.Options{
		Wait: func(ctx context.Context, _ time.Duration) error {
			runtime.Gosched() // what one try left under way is another's to deliver
			return ctx.Err()
		},
		Faults: func(mem.Op) mem.Fault {
			n := r.IntN(20)
			return mem.Fault{LoseRequest: n == 0, LoseAck: n == 1, Delay: n == 2}
		},
	})
	stall := bustest.Blow{Name: "a stall", Strike: func(t testing.TB) {
		hub.Stall()
		defer hub.Resume()
		// It has struck when the authors stand still: all but those that wait for one another at this moment.
		for end := time.Now().Add(time.Minute); hub.Waiting() < 5; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d calls wait for the end of a stall", hub.Waiting())
			}
		}
	}}
	bustest.RunBlows(t, func(t testing.TB) bus.Bus {
		c := hub.Connect(t.Name())
		t.Cleanup(func() { c.Close() })
		return c
	}, stall, stall, stall)
}
