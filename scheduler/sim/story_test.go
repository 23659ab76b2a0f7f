package sim

import (
	"fmt"
	"os"
	"testing"

	"stint/events"
	"stint/scheduler/cycle"
)

// TestStory tells one history, every message of the log and every fault: go test ./scheduler/sim -run Story -seed 8.
func TestStory(t *testing.T) {
	if *seed == 0 {
		t.Skip("names no seed")
	}
	_, err := play(*seed, *crashAt, flaw(*flawed), func(line string) { fmt.Fprintln(os.Stdout, line) })
	if err != nil {
		t.Error(err)
	}
}

// telling writes down in a story what a message says.
func (a *auditor) telling(m *Message, e *events.Event, void map[int]bool) {
	w := a.w
	if w.story == nil {
		return
	}
	say := func(i int, format string, args ...any) {
		mark := ""
		if void[i] || void[-1] {
			mark = " (void)"
		}
		w.tell("%d %s%s", m.Seq, fmt.Sprintf(format, args...), mark)
	}
	for i, f := range e.Sched.GetCycle().GetFacts() {
		if text := cycle.Describe(f, Epoch); text != "" {
			say(i, "%s: %s", e.Sched.GetCycle().Term, text)
		}
	}
	if t := e.Sched.GetTerm(); t != nil {
		say(-2, "term %s", t.Nonce)
	}
	for i, f := range e.Node.GetFacts() {
		say(i, "%s: %v", e.Name, f)
	}
	for i, one := range e.Intents.GetIntents() {
		say(i, "%s wishes to %s %s", one.Author.GetUser(), one.Verb, one.Nonce)
	}
}
