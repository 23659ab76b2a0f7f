package scheduler

import (
	"context"
	"errors"
	"testing"

	"stint/events"
	"stint/events/bus"
)

// Somebody writes in the name of a leader's term: what the leader has numbered the same is void then, and it decides it again, whatever
// the other wrote and even if nothing else happens.
func TestForgedDecisions(t *testing.T) {
	for _, c := range []struct {
		title string
		ahead uint64 // of the number that is the next one
		junk  bool
	}{
		{title: "as the leader itself would number it"},
		{title: "out of its numbers", ahead: 1000},
		{title: "that cannot be read", junk: true},
	} {
		t.Run(c.title, func(t *testing.T) {
			hub := patientHub()
			r := run(t, hub, "a", "")
			eventually(t, "it leads", r.busyLeading)
			forger := hub.Connect("forger")
			w := &wishes{t: t, bus: forger}
			for range 3 {
				term := status(r).Term
				data, err := (&events.SchedMessage{Kind: &events.SchedMessage_Cycle{Cycle: &events.Cycle{
					Term: term.GetNonce(), N: term.GetN() + 1 + c.ahead, Cycle: term.GetCycle() + 1, Part: 1, Parts: 1, NowUs: -1,
				}}}).MarshalVT()
				if err != nil {
					t.Fatal(err)
				}
				if c.junk {
					data = []byte{10, 255}
				}
				for after := term.GetLastSchedSeq(); ; {
					seq, err := forger.Events().Append(context.Background(), events.SubjectSched, after, data)
					var refused *bus.DeposedError
					if errors.As(err, &refused) { // the leader has just written something
						after = refused.Found
						continue
					}
					if err != nil {
						t.Fatal(err)
					}
					after = seq
					break
				}
				seq := w.say(events.Verb_CONFIGURE, 0, smallSite())
				eventually(t, "the wish is decided on", func() bool {
					s := r.shown.Load()
					return s != nil && s.view.Seq() > seq && len(s.view.Inbox()) == 0
				})
			}
		})
	}
}
