package cycle

import (
	"strconv"

	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
)

// gatherS is for how many seconds what happens to nodes is gathered, so that a program is told of all of it at once: up to the
// next moment that divides by it.
const gatherS = 15

// pull pulls the triggers whose time has come, and clears those of jobs that there is nothing more to wait for.
func (p *pass) pull() {
	if len(p.c.Triggers()) == 0 {
		return
	}
	done := &events.TriggersCleared{}
	var pulled []*events.TriggerPulled
	for _, t := range p.c.Triggers() {
		argument, over := p.isPulled(t)
		switch {
		case argument != "":
			pulled = append(pulled, &events.TriggerPulled{Id: t.Trigger.Id, Argument: argument})
		case over:
			done.Ids = append(done.Ids, t.Trigger.Id)
		}
	}
	for _, f := range pulled {
		p.say(&events.Fact{Kind: &events.Fact_TriggerPulled{TriggerPulled: f}})
	}
	if len(done.Ids) > 0 {
		p.say(&events.Fact{Kind: &events.Fact_TriggersCleared{TriggersCleared: done}})
	}
}

// due says whether a time has come, and asks for a pass when it will have.
func (p *pass) due(at int64) bool {
	p.wake(at)
	return at <= p.now
}

// isPulled is what the program of a trigger is told, if it is to run now; over: it never will.
func (p *pass) isPulled(t *projections.Trigger) (argument string, over bool) {
	offset := int64(t.Trigger.OffsetS) * second
	switch t.Trigger.Of {
	case events.TriggerOf_TRIGGER_JOB:
		return p.jobPulls(t, offset)
	case events.TriggerOf_TRIGGER_NODE:
		if nodes := p.idleSince(t, offset); nodes != "" {
			return nodes, false
		}
	}
	if len(t.Hits) == 0 || !p.due((t.HitUs/second/gatherS+1)*gatherS*second+max(offset, 0)) {
		return "", false
	}
	if t.Trigger.Of == events.TriggerOf_TRIGGER_NODE && p.c.Node(t.Hits[0]) != nil {
		return hostlist.Compress(t.Hits), false
	}
	return t.Hits[len(t.Hits)-1], false
}

// jobPulls is what the program of a trigger of a job is told: the job's id.
func (p *pass) jobPulls(t *projections.Trigger, offset int64) (argument string, over bool) {
	j := p.c.Job(t.Trigger.Job)
	id := strconv.FormatUint(uint64(t.Trigger.Job), 10)
	ended := j == nil || j.Over() && !j.Completing
	fini := t.Wants(events.TriggerKind_TRIGGER_FINI)
	switch {
	case len(t.Hits) > 0 && p.due(t.HitUs+max(offset, 0)):
		return id, false
	case len(t.Hits) > 0:
		return "", false
	case j == nil && fini && t.PulledUs == 0:
		return id, false
	case ended && j != nil && fini && t.PulledUs < j.EndUs:
		if p.due(j.EndUs + max(offset, 0)) {
			return id, false
		}
		return "", false
	case j == nil, ended && !fini && !j.Recurs:
		return "", true
	case j.State == events.JobState_RUNNING && j.LimitS != events.Unlimited && t.Wants(events.TriggerKind_TRIGGER_TIME):
		at := j.StartUs + j.IdleUs() + int64(j.LimitS)*second + offset
		if t.PulledUs < j.StartUs && p.due(at) {
			return id, false
		}
	}
	return "", false
}

// idleSince are the nodes that have been idle for as long as a trigger asks, and were not told to it before.
func (p *pass) idleSince(t *projections.Trigger, offset int64) string {
	if !t.Wants(events.TriggerKind_TRIGGER_IDLE) {
		return ""
	}
	var names []string
	for _, n := range p.c.Nodes() {
		if !n.Up || n.Down || n.Drain || n.Fail || n.Future || n.Removed || len(n.Jobs) > 0 || !t.Over(n.Name) {
			continue
		}
		if at := max(n.BusyUs, n.ExecutorStartUs) + max(offset, 0); at > t.PulledUs && p.due(at) {
			names = append(names, n.Name)
		}
	}
	return hostlist.Compress(names)
}
