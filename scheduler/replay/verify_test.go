package replay

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/events"
	"stint/events/bus/mem"
	"stint/projections"
	"stint/scheduler/cycle"
	"stint/scheduler/sim"
)

// scripted runs a script of the simulation and returns its log.
func scripted(t *testing.T, file string) []sim.Message {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := sim.NewScript(sim.Options{MinDelay: sim.Millisecond, Controllers: 2})
	for _, block := range strings.Split(string(data), "\n\n") {
		commands, _, _ := strings.Cut(block, "\n----")
		s.Run(commands)
	}
	return s.World.Log()
}

func source(log []sim.Message) Source {
	return func(_ context.Context, fn func(Message) error) error {
		for _, m := range log {
			if err := fn(Message(m)); err != nil {
				return err
			}
		}
		return nil
	}
}

func verify(t *testing.T, log []sim.Message, o Options) *Report {
	t.Helper()
	r, err := Verify(t.Context(), source(log), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func live(log []sim.Message) *projections.Cluster {
	c := projections.New()
	for _, m := range log {
		c.Apply(events.Decode(m.Seq, m.At, m.Subject, m.Data))
	}
	return c
}

func TestScriptedLogsHold(t *testing.T) {
	files, _ := filepath.Glob("../sim/testdata/*.txt")
	if len(files) < 5 {
		t.Fatalf("%d scripts found", len(files))
	}
	for _, file := range files {
		log := scripted(t, file)
		o := Options{LiveSeq: uint64(len(log)), LiveHash: live(log).Hash()}
		r := verify(t, log, o)
		if !r.OK(o) || r.Derived != r.Cycles || r.Cycles == 0 || r.Messages != uint64(len(log)) {
			t.Errorf("%s: %+v: %v", file, r, r.First)
		}
	}
}

// alter changes the n-th fact that pick accepts, and returns the changed log and the sequence of the message.
func alter(t *testing.T, log []sim.Message, pick func(*events.Fact) bool, change func(*events.Cycle, int)) ([]sim.Message, uint64) {
	t.Helper()
	out := append([]sim.Message(nil), log...)
	for i, m := range out {
		e := events.Decode(m.Seq, m.At, m.Subject, m.Data)
		for k, f := range e.Sched.GetCycle().GetFacts() {
			if !pick(f) {
				continue
			}
			change(e.Sched.GetCycle(), k)
			out[i].Data, _ = e.Sched.MarshalVT()
			return out, m.Seq
		}
	}
	t.Fatal("no such fact in the log")
	return nil, 0
}

func TestAnAlteredDecisionIsNamed(t *testing.T) {
	log := scripted(t, "../sim/testdata/arrays.txt")
	placed := func(f *events.Fact) bool { return f.GetPlaced() != nil }
	for name, change := range map[string]func(*events.Cycle, int){
		"another CPU":         func(c *events.Cycle, k int) { c.Facts[k].GetPlaced().Allocation.Shares[0].Cpus = []uint64{8} },
		"another node":        func(c *events.Cycle, k int) { c.Facts[k].GetPlaced().Allocation.Shares[0].Nodes = []string{"n2"} },
		"a longer limit":      func(c *events.Cycle, k int) { c.Facts[k].GetPlaced().LimitS++ },
		"left out":            func(c *events.Cycle, k int) { c.Facts = append(c.Facts[:k:k], c.Facts[k+1:]...) },
		"told twice":          func(c *events.Cycle, k int) { c.Facts = append(c.Facts, c.Facts[k]) },
		"decided before that": func(c *events.Cycle, k int) { c.Basis = 1 },
	} {
		altered, seq := alter(t, log, placed, change)
		r := verify(t, altered, Options{})
		if r.First == nil || r.OK(Options{}) {
			t.Errorf("%s: not found", name)
			continue
		}
		if r.First.Seq != seq {
			t.Errorf("%s in message %d: found %v", name, seq, r.First)
		}
		if text := r.First.String(); !strings.Contains(text, fmt.Sprintf("message %d", r.First.Seq)) || !strings.Contains(text, "recorded") {
			t.Errorf("%s: said as %q", name, text)
		}
	}
}

func TestAnotherStateIsSeen(t *testing.T) {
	log := scripted(t, "../sim/testdata/first.txt")
	o := Options{LiveSeq: uint64(len(log)), LiveHash: live(log[:len(log)-1]).Hash()}
	if r := verify(t, log, o); r.OK(o) || !r.Compared || r.Same {
		t.Errorf("another live state: %+v", r)
	}
	o = Options{LiveSeq: uint64(len(log)) + 7, LiveHash: live(log).Hash()}
	if r := verify(t, log, o); r.OK(o) {
		t.Errorf("a live state ahead of the log: %+v", r)
	}
}

// Cycles of another deciding version are not made again; their placements are judged by the state.
func TestOtherVersionsAreCheckedByFeasibility(t *testing.T) {
	log := scripted(t, "../sim/testdata/arrays.txt")
	for i, m := range log {
		e := events.Decode(m.Seq, m.At, m.Subject, m.Data)
		if c := e.Sched.GetCycle(); c != nil {
			c.Decider = cycle.Decider + 1000
			log[i].Data, _ = e.Sched.MarshalVT()
		}
	}
	r := verify(t, log, Options{})
	if !r.OK(Options{}) || r.Derived != 0 || r.Others != r.Cycles || r.Placed == 0 || r.Refused != 0 {
		t.Fatalf("as they are: %+v", r)
	}
	log, _ = alter(t, log, func(f *events.Fact) bool { return f.GetPlaced().GetRun() == 1 && f.GetPlaced().GetTask() == 1 }, func(c *events.Cycle, k int) {
		c.Facts[k].GetPlaced().Allocation.Shares[0].Cpus = []uint64{1} // task 0 has it
	})
	if r := verify(t, log, Options{}); r.Refused == 0 || !r.OK(Options{}) {
		t.Fatalf("with a placement on a busy CPU: %+v", r)
	}
}

// The same through the bus.
func TestFromTheBus(t *testing.T) {
	log := scripted(t, "../sim/testdata/first.txt")
	var now time.Time
	hub := mem.New(mem.Options{Now: func() time.Time { return now }})
	b := hub.Connect("replay")
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i, m := range log {
		now = time.UnixMicro(m.At)
		if _, err := b.Events().Publish(ctx, m.Subject, fmt.Sprint(i), m.Data); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{LiveSeq: uint64(len(log)), LiveHash: live(log).Hash()}
	r, err := Verify(ctx, From(b.Events()), o)
	if err != nil || !r.OK(o) || r.Derived == 0 || r.Messages != uint64(len(log)) {
		t.Fatalf("%+v, %v", r, err)
	}
}
