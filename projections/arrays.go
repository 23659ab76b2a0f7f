package projections

import "stint/events"

// Arrays: one record stands for all tasks that have not started, and keeps the array's id. A task that starts, or that is
// treated by itself (held, cancelled), gets a record and an id of its own; the last one keeps the array's.

// split takes one task out of a remainder and gives it a record of its own, which is not stored yet. It returns nil when
// there are no ids left. The remainder must have other tasks.
func (c *Cluster) split(id, task uint32) *Job {
	if c.nextID >= lastID {
		return nil
	}
	j := c.jobs.get(id)
	own := j.copy()
	own.Id, own.ArrayTask, own.HasTask, own.Pending = c.nextID, task, true, nil
	c.nextID++
	own.Dependencies = forTask(j.Dependencies, task)
	if own.Waits() {
		c.reckon(own, j.EligibleUs)
	}
	rest := j.copy()
	rest.Pending = without(j.Pending, task)
	if rest.hasCorr() {
		c.reckon(rest, j.EligibleUs)
	}
	c.putJob(j, rest)
	return own
}

func without(w events.Words, n uint32) []uint64 {
	w = w.Clone()
	w.Clear(n)
	return w
}

// asTask turns a remainder of one task into that task's record (a copy).
func asTask(j *Job, task uint32) *Job {
	own := j.copy()
	own.ArrayTask, own.HasTask, own.Pending = task, true, nil
	own.Dependencies = forTask(j.Dependencies, task)
	return own
}

// forTask is what the dependencies of a remainder come to for one of its tasks.
func forTask(list []*DependencyState, task uint32) []*DependencyState {
	var own []*DependencyState
	for i, d := range list {
		if d.GetDependency().GetKind() != events.DependencyKind_AFTER_CORR || len(d.Ready)+len(d.Never) == 0 {
			continue
		}
		if own == nil {
			own = append([]*DependencyState(nil), list...)
		}
		one := d.copy()
		one.Ready, one.Never = nil, nil
		switch {
		case events.Words(d.Ready).Has(task):
			one.State = Fulfilment_FULFILLED
		case events.Words(d.Never).Has(task):
			one.State = Fulfilment_NEVER
		default:
			one.State = Fulfilment_UNFULFILLED
		}
		own[i] = one
	}
	if own == nil {
		return list
	}
	return own
}

func (c *Cluster) putArray(a *array, rec *Array) {
	next := *a
	next.rec = rec
	c.arrays.set(c.epoch, rec.Id, &next, 0)
	c.verdict.Changed = true
}

// tally keeps an array's counters and its tasks in step with a change of one of its records.
func (c *Cluster) tally(before, after *Job) {
	j := after
	if j == nil {
		j = before
	}
	if j.ArrayId == 0 {
		return
	}
	a := c.arrays.get(j.ArrayId)
	if a == nil {
		return
	}
	next := *a
	switch {
	case after == nil:
		// What it came to stays counted, as long as any of the array is hot.
		if next.hot--; next.hot == 0 {
			c.arrays.set(c.epoch, j.ArrayId, nil, 0)
			return
		}
	default:
		if before == nil {
			next.hot++
		}
		rec := a.rec.copy()
		r0, c0, f0 := standing(before)
		r1, c1, f1 := standing(after)
		rec.Running, rec.Completed, rec.Failed = rec.Running+r1-r0, rec.Completed+c1-c0, rec.Failed+f1-f0
		if after.Over() && !before.Over() {
			rec.MaxExitCode, rec.MaxExitSignal = max(rec.MaxExitCode, after.ExitCode), max(rec.MaxExitSignal, after.ExitSignal)
		}
		next.rec = rec
		c.noteTasks(&next, after)
	}
	c.arrays.set(c.epoch, j.ArrayId, &next, 0)
}

// standing is what a record adds to its array's counters.
func standing(j *Job) (running, completed, failed uint32) {
	n := uint32(1)
	if j != nil && j.Remainder() {
		n = uint32(events.Words(j.Pending).Count())
	}
	switch {
	case j == nil || j.Waits():
	case j.Live():
		running = n
	case j.State == events.JobState_COMPLETED:
		completed = n
	default:
		failed = n
	}
	return running, completed, failed
}

func (c *Cluster) noteTasks(a *array, j *Job) {
	note := func(task uint32) bool {
		old := a.tasks.get(task)
		if old == nil || old.Job != j.Id || old.State != j.State || old.Ended != j.Over() {
			a.tasks.set(c.epoch, task, &TaskJob{Task: task, Job: j.Id, State: j.State, Ended: j.Over()}, 0)
		}
		return true
	}
	switch {
	case j.HasTask:
		note(j.ArrayTask)
	case j.Over():
		events.Words(j.Pending).Each(note)
	}
}
