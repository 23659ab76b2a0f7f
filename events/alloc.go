package events

// Each calls f with every node of the allocation in its order, until it returns false. The share is that of one node and is
// shared by all nodes of its entry.
func (a *Allocation) Each(f func(i int, node string, share *NodeShare) bool) {
	i := 0
	for _, share := range a.GetShares() {
		for _, node := range share.GetNodes() {
			if !f(i, node, share) {
				return
			}
			i++
		}
	}
}

// NodeNames are the nodes in the order of the allocation.
func (a *Allocation) NodeNames() []string {
	names := make([]string, 0, a.NodeCount())
	for _, share := range a.GetShares() {
		names = append(names, share.GetNodes()...)
	}
	return names
}

// NodeCount is the number of nodes.
func (a *Allocation) NodeCount() int {
	n := 0
	for _, share := range a.GetShares() {
		n += len(share.GetNodes())
	}
	return n
}

// FirstNode is the node that runs the batch script, the first but where --batch says otherwise; empty without an allocation.
func (a *Allocation) FirstNode() string {
	if host := a.GetBatchHost(); host != "" {
		return host
	}
	for _, share := range a.GetShares() {
		if len(share.GetNodes()) > 0 {
			return share.GetNodes()[0]
		}
	}
	return ""
}

// ForNode is the share of one node and the node's place in the allocation; nil and -1 if it has none.
func (a *Allocation) ForNode(name string) (*NodeShare, int) {
	i := 0
	for _, share := range a.GetShares() {
		for _, node := range share.GetNodes() {
			if node == name {
				return share, i
			}
			i++
		}
	}
	return nil, -1
}

// CPUs is the number of CPUs over all nodes.
func (a *Allocation) CPUs() int {
	n := 0
	for _, share := range a.GetShares() {
		n += len(share.GetNodes()) * share.CountedCPUs()
	}
	return n
}

// MemoryMiB is the memory over all nodes.
func (a *Allocation) MemoryMiB() uint64 {
	var n uint64
	for _, share := range a.GetShares() {
		n += uint64(len(share.GetNodes())) * share.GetMemoryMib()
	}
	return n
}

// Tasks is the number of tasks laid out over all nodes.
func (a *Allocation) Tasks() int {
	n := 0
	for _, share := range a.GetShares() {
		n += len(share.GetNodes()) * int(share.GetTasks())
	}
	return n
}

// GresTotal is how many of one generic resource and type an allocation holds over all nodes.
type GresTotal struct {
	Name, Type string
	Count      uint64
}

// Gres sums the generic resources by name and type, in the order of their first appearance.
func (a *Allocation) Gres() []GresTotal {
	var totals []GresTotal
	for _, share := range a.GetShares() {
	gres:
		for _, g := range share.GetGres() {
			n := uint64(len(share.GetNodes())) * uint64(Words(g.GetIds()).Count())
			for i := range totals {
				if totals[i].Name == g.GetName() && totals[i].Type == g.GetType() {
					totals[i].Count += n
					continue gres
				}
			}
			totals = append(totals, GresTotal{g.GetName(), g.GetType(), n})
		}
	}
	return totals
}

// CountedCPUs is how many CPUs of each of the share's nodes count as the job's. The cores that it holds may have more.
func (s *NodeShare) CountedCPUs() int {
	if n := int(s.GetCounted()); n > 0 {
		return n
	}
	return Words(s.GetCpus()).Count()
}

// UsableCPUs is how many CPUs of each of the share's nodes tasks count on: all it has, or one of each core where the job uses
// one thread of each core only.
func (s *NodeShare) UsableCPUs() int {
	if n := int(s.GetUsable()); n > 0 {
		return n
	}
	return s.CountedCPUs()
}
