package cycle

import (
	"slices"

	"stint/events"
	"stint/projections"
)

// Heard is when a leader heard a node last.
type Heard struct {
	AgoUs int64 // by a clock that nobody sets
	AtUs  int64 // the time of day then, microseconds since 1970
}

// Silence finds the nodes that are up in the state and were not heard for timeoutUs, and those that are lost in the state, or set
// down where that does not last, and were heard since. heard is asked by name, and says whether a node was heard at all.
// forgivenUs is how long ago a silence begins at the earliest: at a takeover, or when the bus was back. Names ascend. waited is
// called with the name of each node whose next word changes the answer.
func Silence(c *projections.Cluster, heard func(node string) (Heard, bool), forgivenUs, timeoutUs int64, waited func(node string)) (silent, returned []string) {
	for _, n := range c.Nodes() {
		h, ever := heard(n.Name)
		switch {
		case n.Rises(c.Config()) && ever && h.AtUs > n.ReasonUs:
			returned = append(returned, n.Name)
		case n.Up:
			if n.Rises(c.Config()) {
				waited(n.Name)
			}
			if !ever || h.AgoUs > forgivenUs {
				h.AgoUs = forgivenUs
			}
			if h.AgoUs > timeoutUs {
				silent = append(silent, n.Name)
			}
		case n.Boot != "":
			// Lost once, whatever an administrator has said of it since. Half the time-out, so that one word does not do for both.
			waited(n.Name)
			if ever && h.AgoUs < timeoutUs/2 && h.AgoUs < forgivenUs {
				returned = append(returned, n.Name)
			}
		}
	}
	slices.Sort(silent)
	slices.Sort(returned)
	return silent, returned
}

// Observe is what a leader saw that is not in the log; nil: nothing.
func Observe(silent, returned []string) *events.Observed {
	if len(silent)+len(returned) == 0 {
		return nil
	}
	return &events.Observed{SilentNodes: silent, ReturnedNodes: returned}
}
