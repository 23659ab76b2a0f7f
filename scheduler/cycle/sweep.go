package cycle

import (
	"strings"

	"stint/events"
	"stint/projections"
	"stint/scheduler/place"
)

// sweep goes through the queue once: it ends what can never start, notes why others cannot start for reasons of their own,
// and puts the rest into the queue of their partitions.
func (p *pass) sweep() {
	killAll := killsInvalid(p.c.Config())
	var over []*events.Fact
	p.mem.requests.begin()
	p.c.EachPending(func(j *projections.Job) bool {
		if f := p.neverStarts(j, killAll); f != nil {
			over = append(over, f)
			if !f.GetEnded().GetHasTasks() {
				return true
			}
		}
		if !j.Eligible(p.now) {
			p.wait(j, p.ownReason(j), "")
			return true
		}
		q, problem := p.mem.requests.of(j, p.mem.shapes)
		if problem != nil {
			p.wait(j, events.Reason_BAD_CONSTRAINTS, problem.Text)
			return true
		}
		p.queueUp(j, q)
		return true
	})
	p.mem.requests.end()
	for _, f := range over {
		p.say(f)
	}
}

func (p *pass) queueUp(j *projections.Job, q *place.Request) {
	tag := uint32(len(p.requests))
	p.requests = append(p.requests, q)
	if !p.queue.Add(p.c, j, p.in.Priority(j, p.now), tag) {
		p.wait(j, events.Reason_PARTITION_CONFIG, "no partition "+j.GetSpec().GetPartition())
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
	if d := spec.GetDeadlineUs(); d != 0 {
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

// wait notes why a job stays in the queue. Of a job that stands in several partitions the first word counts, unless a
// later one says more.
func (p *pass) wait(j *projections.Job, reason events.Reason, text string) *projections.Outcome {
	o := &projections.Outcome{Job: j.Id, Reason: reason, Text: text, Basis: p.basis}
	p.outcomes = append(p.outcomes, o)
	return o
}
