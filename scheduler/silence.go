package scheduler

import (
	"strings"
	"sync"
	"time"

	"stint/events"
	"stint/events/bus"
	"stint/projections"
	"stint/scheduler/cycle"
)

// beats is when each node was heard last: its beat, or anything it wrote into the log. It is the one thing a leader
// decides by that is not in the log, so the cycle that uses it records it.
type beats struct {
	clock   func() time.Time
	changed chan struct{} // something that a lost node said

	mu       sync.Mutex
	last     map[string]time.Time
	said     map[string]*projections.NodeNow // what nodes said of the moment with their last beats; not decided by
	knows    map[string]uint64               // what their executors knew of the log then; not decided by
	forgiven time.Time                       // silence counts from here at the earliest
	lost     map[string]bool
}

func newBeats(clock func() time.Time) *beats {
	return &beats{clock: clock, changed: make(chan struct{}, 1), last: map[string]time.Time{}, said: map[string]*projections.NodeNow{}, knows: map[string]uint64{}, lost: map[string]bool{}, forgiven: clock()}
}

func (b *beats) listen(w bus.Wire) (stop func(), err error) {
	return w.Listen(events.SubjectBeats, "", func(n bus.Nudge) {
		token := n.Subject[strings.LastIndexByte(n.Subject, '.')+1:]
		name, err := events.Untoken(token)
		if err != nil {
			return
		}
		b.heard(name)
		if beat := new(events.Beat); beat.UnmarshalVT(n.Data) == nil && beat.Known {
			said := &projections.NodeNow{Name: name, LoadHundredths: beat.LoadHundredths, FreeMemoryMib: beat.FreeMemoryMib}
			if beat.AtUs != 0 {
				said.AheadUs = beat.AtUs - b.clock().UnixMicro()
			}
			b.mu.Lock()
			b.said[name] = said
			b.knows[name] = beat.Seq
			b.mu.Unlock()
		}
	})
}

func (b *beats) heard(node string) {
	b.mu.Lock()
	b.last[node] = b.clock()
	lost := b.lost[node]
	b.mu.Unlock()
	if lost {
		select {
		case b.changed <- struct{}{}:
		default:
		}
	}
}

// now returns what each of the nodes said of itself last, of those that did since the controller began.
func (b *beats) now(nodes []*projections.Node) (said []*projections.NodeNow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range nodes {
		if s := b.said[n.GetName()]; s != nil && n.GetUp() {
			said = append(said, s)
		}
	}
	return said
}

// forgive makes the silence of every node begin now: after a takeover, and after the bus was away.
func (b *beats) forgive() {
	b.mu.Lock()
	b.forgiven = b.clock()
	b.mu.Unlock()
}

// observe is what cycle.Silence finds; nil: nothing.
func (b *beats) observe(c *projections.Cluster, timeout time.Duration, decided int64) *events.Observed {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	heard := func(node string) (cycle.Heard, bool) {
		last, ever := b.last[node]
		ago := now.Sub(last).Microseconds()
		return cycle.Heard{AgoUs: ago, AtUs: decided - ago}, ever // as what is in the state: the wall clock may have been set since
	}
	clear(b.lost)
	silent, returned := cycle.Silence(c, heard, now.Sub(b.forgiven).Microseconds(), timeout.Microseconds(), func(node string) { b.lost[node] = true })
	return cycle.Observe(silent, returned)
}
