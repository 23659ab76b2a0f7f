package scheduler

import (
	"testing"
	"time"

	"stint/projections"
)

// Who follows the log is shown with how far it has got and for how long it has lacked what it lacks; who has fallen silent for long is
// forgotten; executors are told of in one line, of the one that knows least.
func TestStandings(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	clock := func() time.Time { return now }
	s, b := newStandings("h-1", clock), newBeats(clock)
	say := func(kind, name string, seq, log uint64) {
		data, err := (&projections.Standing{Kind: kind, Name: name, Seq: seq}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		s.hear(data, log)
	}
	say("ledger", "h", 100, 100)
	now = now.Add(10 * time.Second)
	say("controller", "h-1", 100, 150) // of itself it knows better
	say("agent", "a", 20, 150)
	now = now.Add(30 * time.Second)
	say("ledger", "h", 100, 160)
	b.last["n1"], b.knows["n1"] = now, 160
	b.last["n2"], b.knows["n2"] = now, 140
	b.last["n3"], b.knows["n3"] = now.Add(-time.Hour), 1
	b.last["n4"], b.knows["n4"] = now, 0
	type row struct {
		kind, name  string
		seq, behind uint64
		for_, quiet time.Duration
		count       uint32
	}
	check := func(want ...row) {
		t.Helper()
		list := s.list(160, b)
		for i, f := range list {
			got := row{f.Kind, f.Name, f.Seq, f.Behind, time.Duration(f.BehindUs) * time.Microsecond, time.Duration(f.SilentUs) * time.Microsecond, f.Count}
			if i >= len(want) || got != want[i] {
				t.Errorf("%d: %+v", i, got)
			}
		}
		if len(list) != len(want) {
			t.Errorf("%d followers, want %d", len(list), len(want))
		}
	}
	check(row{"controller", "h-1", 160, 0, 0, 0, 0}, row{"ledger", "h", 100, 60, 30 * time.Second, 0, 0}, row{"agent", "a", 20, 0, 0, 30 * time.Second, 0}, row{"executor", "n2", 140, 20, 30 * time.Second, 0, 2})
	now = now.Add(11 * time.Minute)
	say("ledger", "h", 160, 160)
	check(row{"ledger", "h", 160, 0, 0, 0, 0})
	for range standingsMost + 10 { // nobody fills the memory with names
		say("agent", string(rune('A'+len(s.heard))), 1, 160)
	}
	if len(s.heard) > standingsMost {
		t.Errorf("%d are remembered", len(s.heard))
	}
}
