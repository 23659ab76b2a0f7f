package cycle

import (
	"strings"

	"stint/events"
	"stint/projections"
)

// sweep goes through the queue once: it ends what can never start, notes why others cannot start for reasons of their own,
// and puts the rest into the queue of their partitions.
func (p *pass) sweep() {
	killAll := killsInvalid(p.c.Config())
	var over []*events.Fact
	var g *ensemble // the heterogeneous job whose components are gone through
	cache := &p.mem.queue
	cache.begin(p.c.Config())
	basic := p.in.Priority == nil
	n := p.c.Counts().Pending
	p.queue.Grow(n)
	p.queued = make([]*waiting, 0, n)
	p.outcomes = make([]*projections.Outcome, 0, n)
	p.c.EachPending(func(j *projections.Job) bool {
		w := cache.of(p.c, j)
		p.turn = j.Id
		if j.HetId != 0 {
			if g != nil && g.id != j.HetId {
				over = append(over, p.gather(g)...)
				g = nil
			}
			if g == nil {
				g = &ensemble{id: j.HetId, size: j.HetSize}
			}
			if f := p.component(g, w, killAll); f != nil {
				over = append(over, f)
			}
			return true
		}
		switch b := p.breakdownOf(j.Id, nil); {
		case b != nil:
			over = append(over, p.setAside(w, b))
			return true
		case j.Hold != events.HoldKind_NOT_HELD && j.Reason == events.Reason_SYSTEM_FAILURE:
			p.wait(w, j.Reason, j.ReasonText)
			return true
		}
		if !w.plain {
			if f := p.neverStarts(j, killAll); f != nil {
				over = append(over, f)
				if !f.GetEnded().GetHasTasks() {
					return true
				}
			}
			if !j.Eligible(p.now) {
				p.wait(w, p.ownReason(j), "")
				return true
			}
		} else if w.eligible > p.now {
			p.wake(w.eligible)
			p.wait(w, events.Reason_BEGIN_TIME, "")
			return true
		}
		if w.q == nil && w.problem == nil {
			w.q, w.problem = p.mem.shapes.Of(j.Spec)
			if preferred := j.GetSpec().GetPrefer(); preferred != "" && w.problem == nil {
				spec := j.Spec.CloneVT()
				spec.Constraint = preferred
				w.prefer, _ = p.mem.shapes.Of(spec)
			}
		}
		if b := p.breakdownOf(j.Id, w.q); b != nil {
			over = append(over, p.setAside(w, b))
			return true
		}
		switch {
		case w.problem != nil:
			p.wait(w, events.Reason_BAD_CONSTRAINTS, w.problem.Text)
			return true
		case len(w.parts) == 0:
			p.wait(w, events.Reason_PARTITION_CONFIG, "no partition "+j.GetSpec().GetPartition())
			return true
		}
		priority := w.priority
		if !basic {
			priority = p.in.Priority(j, p.now)
		}
		tag := uint32(len(p.queued))
		p.queued = append(p.queued, w)
		for _, part := range w.parts {
			p.queue.Add(j.Id, part, priority, tag)
		}
		return true
	})
	if g != nil {
		over = append(over, p.gather(g)...)
	}
	p.turn = 0
	cache.end()
	for _, f := range over {
		p.say(f)
	}
}

// ownReason is why a job that is not eligible waits, and asks for a pass at the time when that may be over.
func (p *pass) ownReason(j *projections.Job) events.Reason {
	reason := j.PendingReason(p.now)
	p.wake(j.EligibleUs)
	return reason
}

// neverStarts is the end of a waiting job whose deadline cannot be met any more, or whose dependencies can never be
// fulfilled and that is not to wait for ever.
func (p *pass) neverStarts(j *projections.Job, killAll bool) *events.Fact {
	spec := j.GetSpec()
	if d := spec.GetDeadlineUs(); d != 0 && j.Hold == events.HoldKind_NOT_HELD { // of one that is held nobody looks at the clock
		latest := d
		if j.LimitS != events.Unlimited {
			latest = d - int64(j.LimitS)*second
		}
		if latest < p.now {
			return &events.Fact{Kind: &events.Fact_Ended{Ended: &events.Ended{Job: j.Id, State: events.JobState_DEADLINE, Reason: events.Reason_DEADLINE_REASON}}}
		}
		p.wake(latest + 1)
	}
	if len(j.Dependencies) == 0 || !spec.GetKillOnInvalidDependency() && (!killAll || spec.GetKeepOnInvalidDependency()) {
		return nil
	}
	e := &events.Ended{Job: j.Id, State: events.JobState_CANCELLED, Reason: events.Reason_DEPENDENCY_NEVER_SATISFIED}
	if j.Remainder() {
		never := j.NeverTasks()
		if never.Empty() {
			return nil
		}
		if !events.Words(j.Pending).Within(never) {
			e.Tasks, e.HasTasks = never, true
		}
		return &events.Fact{Kind: &events.Fact_Ended{Ended: e}}
	}
	held := j.Hold
	if held != events.HoldKind_NOT_HELD || j.PendingReason(p.now) != events.Reason_DEPENDENCY_NEVER_SATISFIED {
		return nil
	}
	return &events.Fact{Kind: &events.Fact_Ended{Ended: e}}
}

// killsInvalid says whether the configuration ends jobs whose dependencies can never be fulfilled.
func killsInvalid(c *events.Config) bool {
	for _, s := range c.GetSettings() {
		if strings.EqualFold(s.GetKey(), "DependencyParameters") {
			for option := range strings.SplitSeq(s.GetValue(), ",") {
				if strings.EqualFold(strings.TrimSpace(option), "kill_invalid_depend") {
					return true
				}
			}
		}
	}
	return false
}
