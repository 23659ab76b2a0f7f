package scheduler

import (
	"context"
	"testing"
	"time"

	"stint/events/bus"
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

// An answer of a controller that lags for more than a few seconds says for how long others have known more than what it tells, of whatever it
// is asked; one that is level with the log, or as good as, says nothing.
func TestAnAnswerSaysThatItIsOld(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	clock := func() time.Time { return now }
	c := &Controller{standings: newStandings("h-1", clock), beats: newBeats(clock), outcomes: newOutcomes()}
	c.shown.Store(&shown{view: projections.New().View(), next: make(chan struct{})})
	const level = 0
	hear := func(seq uint64) {
		data, err := (&projections.Standing{Kind: "agent", Name: "a", Seq: seq}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		c.standings.hear(data, level)
	}
	expect := func(want time.Duration) {
		t.Helper()
		for _, ask := range []*projections.Ask{
			{What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{Shared: true, Slim: true}}}, {What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{}}},
			{What: &projections.Ask_Nodes{Nodes: &projections.AskNodes{Alike: true}}}, {What: &projections.Ask_Nodes{Nodes: &projections.AskNodes{}}}, {What: &projections.Ask_Config{Config: &projections.AskConfig{}}},
		} {
			q, err := ask.MarshalVT()
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // what is remembered of an answer is not changed
				data, err := c.reply(context.Background(), bus.Nudge{Data: q})
				a := new(projections.Answer)
				if err != nil || a.UnmarshalVT(data) != nil || a.Error != "" || a.Seq != level || time.Duration(a.StaleUs)*time.Microsecond != want {
					t.Errorf("%T: %v, error %q, at %d, old by %s, want %s", ask.What, err, a.GetError(), a.GetSeq(), time.Duration(a.GetStaleUs())*time.Microsecond, want)
				}
			}
		}
	}
	hear(level)
	now = now.Add(time.Minute)
	expect(0)
	hear(level + 3)
	now = now.Add(4 * time.Second)
	expect(0)
	hear(level + 9)
	now = now.Add(4 * time.Second)
	expect(8 * time.Second)
	c.standings.told = nil
	hear(level)
	expect(0)
}
