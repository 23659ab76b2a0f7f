package projections

import "stint/events"

// clockSet: clocks were set forward. What runs has as much time left as before, and what is suspended was so for no longer.
func (c *Cluster) clockSet(f *events.ClockSet) string {
	by := f.GetByUs()
	if by <= 0 {
		return voidNothingWanted
	}
	var runs []*Job
	c.EachRunning(func(j *Job) bool {
		runs = append(runs, j)
		return true
	})
	for _, j := range runs {
		next := j.copy()
		next.LeaptUs += by
		if j.SuspendedUs != 0 {
			next.SuspendedUs += by
		}
		c.putJob(j, next)
	}
	c.term = c.term.copy() // in a fork it is still the other's
	c.term.ClockSetUs += by
	c.verdict.Changed = true
	return ""
}
