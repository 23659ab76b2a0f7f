package projections

import "stint/events"

// What becomes of runs that asked to go on when they lose a node (--no-kill).

// GoesOnWithout says whether the run goes on when the node is lost: it asked for that, nobody has told it to end, its script is
// not on that node (an allocation without a script has none on any), and another node is left.
func (j *Job) GoesOnWithout(node string) bool {
	if !j.GetSpec().GetNoKill() || !j.Live() || j.Completing || j.Stop != nil || len(j.Nodes) < 2 {
		return false
	}
	i := j.nodeAt(node)
	return i > 0 || i == 0 && j.Scriptless()
}

// giveUp takes a lost node away from a run that goes on without it. What may still live there is no longer of the run: should
// the node be heard of again, it is to end it.
func (c *Cluster) giveUp(n *Node, j *Job) {
	i := j.nodeAt(n.Name)
	share, _ := j.Allocation.ForNode(n.Name)
	next := j.copy()
	next.Nodes = append(append(make([]*RunNode, 0, len(j.Nodes)-1), j.Nodes[:i]...), j.Nodes[i+1:]...)
	next.Allocation = lessNode(j.Allocation, n.Name)
	next.Steps = lessPlace(j.Steps, i)
	next.ResizedUs, next.Resizes = max(c.now, j.StartUs), j.Resizes+1
	c.vacate(n.Name, share, j.Id)
	c.putJob(j, next)
}

// giveUpAll takes a lost node away from all runs that go on without it.
func (c *Cluster) giveUpAll(n *Node) {
	for _, id := range append([]uint32(nil), n.Jobs...) {
		if j := c.jobs.get(id); j.GoesOnWithout(n.Name) {
			c.giveUp(n, j)
		}
	}
}

// lessNode is an allocation less a node.
func lessNode(a *events.Allocation, node string) *events.Allocation {
	rest := &events.Allocation{BatchHost: a.GetBatchHost()}
	for _, s := range a.GetShares() {
		kept := make([]string, 0, len(s.Nodes))
		for _, name := range s.Nodes {
			if name != node {
				kept = append(kept, name)
			}
		}
		switch {
		case len(kept) == len(s.Nodes):
			rest.Shares = append(rest.Shares, s)
		case len(kept) > 0:
			less := s.CloneVT()
			less.Nodes = kept
			rest.Shares = append(rest.Shares, less)
		}
	}
	return rest
}
