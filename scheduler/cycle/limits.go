package cycle

import (
	"stint/events"
	"stint/projections"
	"stint/scheduler/place"
)

// run is a job that holds resources, and when it gives them back at the latest.
type run struct {
	job *projections.Job
	end int64
}

// limits tells runs past their time limit or deadline to end, and notes when the others will be.
func (p *pass) limits() {
	var late []*projections.Job
	var causes []events.StopCause
	p.c.EachRunning(func(j *projections.Job) bool {
		end, cause := p.endOf(j)
		if j.Stop == nil && !j.Completing && j.State == events.JobState_RUNNING {
			if end <= p.now {
				late, causes = append(late, j), append(causes, cause)
				end = p.now + int64(p.c.Config().GetKillWaitS())*second
			}
			p.wake(end)
		}
		p.runs = append(p.runs, run{j, end})
		return true
	})
	for i, j := range late {
		text := "time limit"
		if causes[i] == events.StopCause_STOP_DEADLINE {
			text = "deadline"
		}
		p.stop(j, causes[i], text)
	}
}

// endOf is when a run ends at the latest, by its time limit and what may be added to it or its deadline, or by the order to
// stop that it has; place.Forever if nothing ends it.
func (p *pass) endOf(j *projections.Job) (int64, events.StopCause) {
	if j.Stop != nil {
		return j.Stop.AtUs + int64(j.Stop.KillAfterS)*second, j.Stop.Cause
	}
	end, cause := int64(place.Forever), events.StopCause_STOP_TIME_LIMIT
	if j.LimitS != events.Unlimited {
		if over := p.overTimeOf(p.c.Partition(j.Partition)); over >= 0 {
			end = j.StartUs + j.IdleUs() + int64(j.LimitS)*second + over
			if j.SuspendedUs != 0 {
				end += max(0, p.now-j.SuspendedUs)
			}
		}
	}
	if d := j.GetSpec().GetDeadlineUs(); d != 0 && d < end {
		end, cause = d, events.StopCause_STOP_DEADLINE
	}
	return end, cause
}

// overTimeOf is how long a job of a partition may go on after its time limit, microseconds; -1: for ever.
func (p *pass) overTimeOf(def *events.PartitionDef) int64 {
	over := p.c.Config().GetOverTimeLimitS()
	if def.GetHasOverTimeLimit() {
		over = def.GetOverTimeLimitS()
	}
	if over == events.Unlimited {
		return -1
	}
	return int64(over) * second
}
