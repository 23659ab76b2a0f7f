package projections

import "stint/events"

// A suspended job keeps its memory and devices, and lends its CPUs: whoever suspends a job wants to run another. Resumed, it
// has them again, whoever has them by then: the two share them until one of them is over.

// cpusHeld is which CPUs of a node its jobs hold, except for one of them and those that lend theirs, and whether two hold the same.
func (c *Cluster) cpusHeld(n *Node, except uint32) (cpus events.Words, doubled bool) {
	for _, id := range n.Jobs {
		j := c.jobs.get(id)
		if id == except || j.GetLent() {
			continue
		}
		share, _ := j.GetAllocation().ForNode(n.Name)
		doubled = doubled || cpus.Intersects(share.GetCpus())
		cpus = cpus.Or(share.GetCpus())
	}
	return cpus, doubled
}

// lend frees the CPUs of those jobs on a node that lend them.
func (c *Cluster) lend(name string) {
	n := c.Node(name)
	if n == nil {
		return
	}
	next := n.copy()
	next.CpusUsed, next.Doubled = c.cpusHeld(n, 0)
	next.BusyUs = c.now
	c.putNode(n, next)
}

// takeBack gives a job its CPUs of a node again.
func (c *Cluster) takeBack(name string, j *Job) {
	n := c.Node(name)
	if n == nil {
		return
	}
	share, _ := j.Allocation.ForNode(name)
	next := n.copy()
	next.Doubled = n.Doubled || events.Words(n.CpusUsed).Intersects(share.GetCpus())
	next.CpusUsed = events.Words(n.CpusUsed).Or(share.GetCpus())
	next.BusyUs = c.now
	c.putNode(n, next)
}
