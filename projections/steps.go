package projections

import (
	"slices"

	"stint/events"
)

// What facts do to the numbered steps of a run. The state holds those that live, so that questions about them need no node; what
// they were is the ledger's.

// MaxSteps is how many living steps of one run the state holds. Of more it knows nothing until some are over.
const MaxSteps = 4096

// stepAt is where a step is, or belongs, among those of a job.
func (j *Job) stepAt(step uint32) (int, bool) {
	return slices.BinarySearchFunc(j.GetSteps(), step, func(s *LiveStep, n uint32) int {
		switch {
		case s.Step < n:
			return -1
		case s.Step > n:
			return 1
		}
		return 0
	})
}

// LiveStep is a numbered step of the job that lives; nil: there is none.
func (j *Job) LiveStep(step uint32) *LiveStep {
	if at, found := j.stepAt(step); found {
		return j.Steps[at]
	}
	return nil
}

// stepStarted: a numbered step runs on the i-th node of its run. What says nothing of itself, as in old logs, is not shown.
func (c *Cluster) stepStarted(j *Job, i int, f *events.StepStarted) string {
	next, p := j.copy(), f.GetPart()
	changed := next.countStep(f.GetStep(), p)
	if p != nil && j.Live() && j.Nodes[i].ExitedUs == 0 {
		changed = c.listStep(next, i, f) || changed
	}
	if changed {
		c.putJob(j, next)
	}
	return ""
}

// listStep adds to the steps of a copy of a job what its i-th node says of one. It returns false if that changes nothing.
func (c *Cluster) listStep(j *Job, i int, f *events.StepStarted) bool {
	at, found := j.stepAt(f.GetStep())
	switch {
	case found && events.Words(j.Steps[at].Nodes).Has(uint32(i)): // said twice
		return false
	case !found && len(j.Steps) >= MaxSteps:
		return false
	}
	p, start := f.GetPart(), c.plausible(f.GetAtUs(), j.StartUs)
	s := &LiveStep{Step: f.GetStep(), StartUs: start, LimitS: p.GetLimitS(), Name: p.GetName(), Part: p}
	j.Steps = slices.Clone(j.Steps)
	if found {
		s = j.Steps[at].copy()
		s.StartUs = min(s.StartUs, start)
		j.Steps[at] = s
	} else {
		j.Steps = slices.Insert(j.Steps, at, s)
	}
	s.Tasks += p.GetTasks()
	s.Cpus += uint32(events.Words(p.GetCpus()).Count())
	if s.MemoryMib += p.GetMemoryMib(); p.GetMemoryMib() == 0 {
		share, _ := j.Allocation.ForNode(j.Nodes[i].Node)
		s.MemoryMib += share.GetMemoryMib()
	}
	s.Gres = withGres(s.Gres, p.GetGres())
	here := events.WordsOf(uint32(i))
	s.Nodes, s.Open = events.Words(s.Nodes).Or(here), events.Words(s.Open).Or(here)
	return true
}

// countStep takes note in a copy of a job of the number of a step, so that a node that is to give out numbers from now on gives out
// others.
func (j *Job) countStep(step uint32, p *events.StepPart) bool {
	if p == nil || step < j.NextStep || step >= events.StepInteractive {
		return false
	}
	j.NextStep = step + 1
	return true
}

// withGres adds what a node gives to a step to what it has.
func withGres(have []*NodeGres, given []*events.GresShare) []*NodeGres {
	if len(given) == 0 {
		return have
	}
	next := slices.Clone(have)
	for _, g := range given {
		n := uint64(events.Words(g.GetIds()).Count())
		at := slices.IndexFunc(next, func(h *NodeGres) bool { return h.Name == g.GetName() && h.Type == g.GetType() })
		if at < 0 {
			next = append(next, &NodeGres{Name: g.GetName(), Type: g.GetType(), Count: n})
			continue
		}
		next[at] = next[at].copy()
		next[at].Count += n
	}
	return next
}

// stepExited: a numbered step is over on the i-th node of its run. What it used counts for the job.
func (c *Cluster) stepExited(j *Job, i int, f *events.StepExited) string {
	next := j.copy()
	changed := next.countStep(f.GetStep(), f.GetPart())
	if f.GetUsage() != nil {
		next.Usage, changed = addUsage(j.Usage, f.GetUsage()), true
	}
	if _, found := j.stepAt(f.GetStep()); found {
		next.Steps, changed = closedOn(j.Steps, i, f.GetStep()), true
	}
	if changed {
		c.putJob(j, next)
	}
	return ""
}

// closedOn are steps without those that are over by the end of one (or of all: anyStep) on the i-th node.
func closedOn(steps []*LiveStep, i int, step uint32) []*LiveStep {
	here := events.WordsOf(uint32(i))
	if !slices.ContainsFunc(steps, func(s *LiveStep) bool {
		return (s.Step == step || step == anyStep) && events.Words(s.Open).Intersects(here)
	}) {
		return steps
	}
	var out []*LiveStep
	for _, s := range steps {
		if s.Step == step || step == anyStep {
			open := events.Words(s.Open).AndNot(here)
			if open.Count() == 0 {
				continue
			}
			s = s.copy()
			s.Open = open
		}
		out = append(out, s)
	}
	return out
}

// anyStep stands for all steps.
const anyStep = events.StepBatch

// stepLimited: a numbered step has another time limit from here on.
func (c *Cluster) stepLimited(f *events.StepLimited) string {
	j, void := c.runOf(f.GetJob(), f.GetRun())
	if void != "" {
		return void
	}
	at, found := j.stepAt(f.GetStep())
	if !found {
		return voidState
	}
	next := j.copy()
	next.Steps = slices.Clone(j.Steps)
	next.Steps[at] = next.Steps[at].copy()
	next.Steps[at].LimitS = f.GetLimitS()
	c.putJob(j, next)
	return ""
}

// lessPlace are steps of an allocation that has lost its i-th node.
func lessPlace(steps []*LiveStep, i int) []*LiveStep {
	var out []*LiveStep
	for _, s := range closedOn(steps, i, anyStep) {
		s = s.copy()
		s.Nodes, s.Open = movedUp(s.Nodes, i), movedUp(s.Open, i)
		out = append(out, s)
	}
	return out
}

// movedUp are places when the i-th is gone and those behind it have moved up.
func movedUp(places events.Words, i int) (out events.Words) {
	places.Each(func(n uint32) bool {
		switch {
		case int(n) < i:
			out.Set(n)
		case int(n) > i:
			out.Set(n - 1)
		}
		return true
	})
	return out
}
