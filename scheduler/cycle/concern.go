package cycle

import (
	"stint/events"
	"stint/projections"
)

// Concerned are the nodes that should look again at what should run on them, by what one message changed. Names are in the order of the
// changes, each once.
func Concerned(changes []projections.Change) (nodes []string) {
	var seen map[string]bool
	add := func(name string) {
		if seen == nil {
			seen = map[string]bool{}
		}
		if !seen[name] {
			seen[name] = true
			nodes = append(nodes, name)
		}
	}
	for i := range changes {
		ch := &changes[i]
		switch {
		case ch.NodeFact != nil:
			// The first node of a run has reported: the run is over on the others too.
			if j := ch.After; j != nil && j.Completing && (ch.Before == nil || !ch.Before.Completing) {
				for _, name := range j.Unreported() {
					add(name)
				}
			}
		case ch.Fact == nil:
		case ch.NodeAfter != nil:
			add(ch.NodeAfter.Name)
		case concernsNodes(ch.Fact):
			for _, job := range []*projections.Job{ch.Before, ch.After} {
				for _, name := range job.GetAllocation().NodeNames() {
					add(name)
				}
			}
		}
	}
	return nodes
}

// concernsNodes reports whether the nodes of the job that a fact is about have anything to do with it.
func concernsNodes(f *events.Fact) bool {
	switch f.Kind.(type) {
	case *events.Fact_Admitted, *events.Fact_Judged, *events.Fact_Held, *events.Fact_Released:
		return false
	}
	return true
}
