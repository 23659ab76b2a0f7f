package admit

import (
	"stint/events"
	"stint/projections"
)

// updateStep gives numbered steps that live another time limit, counted from their start.
func (d *Desk) updateStep(m *events.UpdateStep) []*events.Fact {
	if r := checkTargets(m.Targets); r != nil {
		return d.refused(r)
	}
	if m.TimeLimitS == 0 && m.TimeLimitAddS == 0 {
		return d.refused(refuse(events.Code_MALFORMED, "the request says no time limit"))
	}
	a := &act{d: d}
	for _, t := range m.Targets {
		a.each([]*events.Target{t}, false, func(p part) { a.limitSteps(p.job, t, m) })
	}
	return a.done()
}

func (a *act) limitSteps(j *projections.Job, t *events.Target, m *events.UpdateStep) {
	if !j.Live() {
		a.fail(j.Id, refuse(events.Code_UNKNOWN_JOB, "job %d has no steps: it does not run", j.Id))
		return
	}
	found := false
	for _, s := range j.GetSteps() {
		if t.HasStep && s.Step != t.Step {
			continue
		}
		found = true
		limit := m.TimeLimitS
		switch {
		case m.TimeLimitAddS != 0 && s.LimitS == 0:
			continue // without a limit, more or less of it is the same
		case m.TimeLimitAddS != 0:
			limit = uint32(min(max(1, int64(s.LimitS)+int64(m.TimeLimitAddS)), int64(events.Unlimited)-1))
		case limit == events.Unlimited:
			limit = 0
		}
		a.did(&events.Fact{Kind: &events.Fact_StepLimited{StepLimited: &events.StepLimited{Job: j.Id, Run: j.Run, Step: s.Step, LimitS: limit, ByUid: a.d.who.Uid}}})
		a.touched++
	}
	switch {
	case found:
	case t.HasStep && events.IsMainStep(t.Step):
		a.fail(j.Id, refuse(events.Code_UNSUPPORTED, "step %d.%s lasts as long as its job: scontrol update jobid=%d timelimit=… is what moves that", j.Id, events.StepName(t.Step), j.Id))
	case t.HasStep:
		a.fail(j.Id, refuse(events.Code_UNKNOWN_JOB, "job %d has no step %s that runs", j.Id, events.StepName(t.Step)))
	default:
		a.fail(j.Id, refuse(events.Code_UNKNOWN_JOB, "job %d runs no numbered step", j.Id))
	}
}
