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
	p := f.GetPart()
	at, found := j.stepAt(f.GetStep())
	switch {
	case p == nil || !j.Live() || j.Nodes[i].ExitedUs != 0:
		return ""
	case found && events.Words(j.Steps[at].Nodes).Has(uint32(i)):
		return "" // said twice
	case !found && len(j.Steps) >= MaxSteps:
		return ""
	}
	s := &LiveStep{Step: f.GetStep(), StartUs: c.plausible(f.GetAtUs(), j.StartUs), LimitS: p.GetLimitS()}
	if found {
		s = j.Steps[at].copy()
		s.StartUs = min(s.StartUs, c.plausible(f.GetAtUs(), j.StartUs))
	} else {
		s.Name, s.Part = p.GetName(), p
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
	next := j.copy()
	if next.Steps = slices.Clone(j.Steps); found {
		next.Steps[at] = s
	} else {
		next.Steps = slices.Insert(next.Steps, at, s)
	}
	c.putJob(j, next)
	return ""
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
	_, found := j.stepAt(f.GetStep())
	if !found && f.GetUsage() == nil {
		return ""
	}
	next := j.copy()
	if f.GetUsage() != nil {
		next.Usage = addUsage(j.Usage, f.GetUsage())
	}
	next.Steps = closedOn(j.Steps, i, f.GetStep())
	c.putJob(j, next)
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
