package scheduler

import (
	"bytes"
	"sync"

	"stint/events"
	"stint/projections"
)

// outcomes is what the last pass thought of each pending job: a view made anew by every leader, not state. The leader
// fills it from its cycles and tells the others; they merge what they hear.
type outcomes struct {
	mu    sync.RWMutex
	term  []byte
	basis uint64
	of    map[uint32]*projections.Outcome
}

func newOutcomes() *outcomes { return &outcomes{of: map[uint32]*projections.Outcome{}} }

// Outcome returns what the leader last thought of a pending job, or nil.
func (o *outcomes) Outcome(job uint32) *projections.Outcome {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.of[job]
}

// reset forgets all for a new term.
func (o *outcomes) reset(term []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.term, o.basis = term, 0
	clear(o.of)
}

// merge takes the outcomes of a cycle and returns what changed by them, for the others.
func (o *outcomes) merge(basis uint64, all []*projections.Outcome, c *projections.Cluster) *projections.Outcomes {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := &projections.Outcomes{Basis: basis, Term: o.term}
	o.basis = basis
	for _, n := range all {
		old := o.of[n.Job]
		if old != nil && same(old, n) {
			continue
		}
		o.of[n.Job] = n
		out.Changed = append(out.Changed, n)
	}
	if len(o.of) > len(all) {
		for id := range o.of {
			if j := c.Job(id); j == nil || j.State != events.JobState_PENDING {
				delete(o.of, id)
				out.Gone = append(out.Gone, id)
			}
		}
	}
	return out
}

// same reports whether two outcomes say the same; their basis apart.
func same(a, b *projections.Outcome) bool {
	if a.Reason != b.Reason || a.Text != b.Text || a.StartUs != b.StartUs || a.Nodes != b.Nodes || len(a.Blockers) != len(b.Blockers) {
		return false
	}
	for i := range a.Blockers {
		if !a.Blockers[i].EqualVT(b.Blockers[i]) {
			return false
		}
	}
	return true
}

// all returns everything, for one who begins to listen.
func (o *outcomes) all() *projections.Outcomes {
	o.mu.RLock()
	defer o.mu.RUnlock()
	out := &projections.Outcomes{Basis: o.basis, Term: o.term, All: true}
	for _, n := range o.of {
		out.Changed = append(out.Changed, n)
	}
	return out
}

// hear merges what the leader told, and reports whether it continues what is known: if not, all must be asked for.
func (o *outcomes) hear(m *projections.Outcomes) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if m.All {
		o.term = m.Term
		clear(o.of)
	} else if !bytes.Equal(o.term, m.Term) {
		return false
	}
	o.basis = m.Basis
	for _, n := range m.Changed {
		o.of[n.Job] = n
	}
	for _, id := range m.Gone {
		delete(o.of, id)
	}
	return true
}
