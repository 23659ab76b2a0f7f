package sim

import (
	"fmt"
	"os"
	"testing"

	"stint/events"
	"stint/scheduler/cycle"
)

// TestStory prints the decisions of one history: go test ./scheduler/sim -run Story -seed 8.
func TestStory(t *testing.T) {
	if *seed == 0 {
		t.Skip("names no seed")
	}
	a, err := history(*seed)
	for i := range a.w.log {
		m := &a.w.log[i]
		e := events.Decode(m.Seq, m.At, m.Subject, m.Data)
		for _, f := range e.Sched.GetCycle().GetFacts() {
			fmt.Fprintf(os.Stdout, "%d %s %s\n", m.Seq, a.w.clock(e.Sched.GetCycle().NowUs), cycle.Describe(f, Epoch))
		}
		if e.Sched.GetTerm() != nil {
			fmt.Fprintf(os.Stdout, "%d term %s\n", m.Seq, e.Sched.GetTerm().Nonce)
		}
		for _, f := range e.Node.GetFacts() {
			fmt.Fprintf(os.Stdout, "%d %s %s %v\n", m.Seq, a.w.clock(m.At), e.Name, f)
		}
	}
	t.Log(err)
}
