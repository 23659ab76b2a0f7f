package cycle

import (
	"stint/events"
	"stint/projections"
	"stint/scheduler/admit"
)

// recur sends the jobs of crontabs that are over back into the queue, each for its next time. The run before is as any other
// that ended; so a job never runs twice at once, and a time that passes while it runs is passed over.
func (p *pass) recur() {
	var over []*projections.Job
	for _, t := range p.c.Crontabs() {
		for _, id := range t.GetJobs() {
			if j := p.c.Job(id); j.GetRecurs() && j.Over() && len(j.Unreported()) == 0 {
				over = append(over, j)
			}
		}
	}
	for _, j := range over {
		if next := p.nextOf(j); next != 0 {
			p.say(&events.Fact{Kind: &events.Fact_Requeued{Requeued: admit.Recurred(j, next)}})
		}
	}
}

// nextOf is the next time of a job that recurs; 0: it does not.
func (p *pass) nextOf(j *projections.Job) int64 {
	if !j.GetRecurs() {
		return 0
	}
	return j.GetSpec().GetCron().Next(p.now, p.c.Zone())
}
