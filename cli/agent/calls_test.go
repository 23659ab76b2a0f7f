package agent

import (
	"fmt"
	"testing"
	"time"

	"stint/cli/wire"
	"stint/events"
	"stint/projections"
)

// Requests are counted by kind and by user, what was refused too, and from nothing after a reset.
func TestCalls(t *testing.T) {
	one := &wire.Request{What: &wire.Request_Ask{Ask: &projections.Ask{What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{Ids: []uint32{1}}}}}}
	all := &wire.Request{What: &wire.Request_Ask{Ask: &projections.Ask{What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{}}}}}
	cancel := &wire.Request{What: &wire.Request_Control{Control: &wire.Control{Verb: events.Verb_CANCEL}}}
	c := newCalls()
	c.count(kindOf(all), 7, 5*time.Microsecond, false)
	c.count(kindOf(all), 8, 7*time.Microsecond, true)
	c.count(kindOf(one), 8, 0, false)
	c.count(kindOf(cancel), 8, time.Second, false)
	text := ""
	kinds, users, _ := c.list()
	for _, n := range append(kinds, users...) {
		text += fmt.Sprintf("%s(%d) %d %d %d\n", n.Name, n.Number, n.Count, n.TotalUs, n.Refused)
	}
	if want := "REQUEST_JOB_INFO(2003) 2 12 1\nREQUEST_JOB_INFO_SINGLE(2021) 1 1 0\nREQUEST_KILL_JOB(5032) 1 1000000 0\n(8) 3 1000008 1\n(7) 1 5 0\n"; text != want {
		t.Errorf("got\n%s", text)
	}
	c.reset()
	if kinds, users, _ := c.list(); len(kinds)+len(users) != 0 {
		t.Errorf("after a reset: %v %v", kinds, users)
	}
	for v := events.Verb_CANCEL; v <= events.Verb_RESUME; v++ {
		if k := kindOf(&wire.Request{What: &wire.Request_Control{Control: &wire.Control{Verb: v}}}); k.number == 0 {
			t.Errorf("%s is of no kind that Slurm has", v)
		}
	}
}
