package scheduler

import (
	"testing"
	"time"

	"stint/events"
)

// What a node sends as its sign of life reaches whoever counts its silence.
func TestBeatsAreHeard(t *testing.T) {
	hub := patientHub()
	b := newBeats(time.Now)
	stop, err := b.listen(hub.Connect("controller").Wire())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	node := hub.Connect("node")
	for _, name := range []string{"n1", "gpu.2", "*"} {
		eventually(t, name+" is heard", func() bool {
			if err := node.Wire().Nudge(events.SubjectBeat(name), nil); err != nil {
				t.Fatal(err)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			return !b.last[name].IsZero()
		})
	}
	// How wrong the node's clock is, is known from what it says.
	beat, err := (&events.Beat{Known: true, AtUs: time.Now().Add(time.Hour).UnixMicro()}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the clock is told", func() bool {
		if err := node.Wire().Nudge(events.SubjectBeat("n1"), beat); err != nil {
			t.Fatal(err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		ahead := time.Duration(b.said["n1"].GetAheadUs()) * time.Microsecond
		return ahead > 50*time.Minute && ahead <= time.Hour
	})
}
