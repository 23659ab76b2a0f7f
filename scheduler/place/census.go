package place

import (
	"fmt"
	"slices"
)

// Standing is what keeps a node from serving a request now, by the first test it fails in this order.
type Standing uint8

const (
	Fits           Standing = iota // it has room for a task at least
	OutOfService                   // down, drained, not registered, or not as configured
	Excluded                       // the job wants it not
	LacksFeatures                  // its features are not those asked for
	BuiltOtherwise                 // it never has what is asked of one node: sockets, cores, threads, disk, devices
	NotIdle                        // the job takes whole nodes, and this one is in use
	ShortCPUs                      // too few CPUs free
	ShortMemory                    // too little memory free
	ShortDevices                   // too few devices free
	Kept                           // free, but kept for a job that comes first
	standings
)

// String is what people read of nodes of this standing, after "nodes" or "node".
func (s Standing) String() string {
	return [...]string{"with room for it", "out of service", "excluded by it", "without the features it wants", "built otherwise than it asks",
		"in use, and it takes whole nodes", "with too few CPUs free", "with too little memory free", "with too few of its devices free",
		"free, but kept for a job before it"}[s]
}

// Group is the nodes of a partition of one standing.
type Group struct {
	Standing Standing
	Nodes    []string // in the order of the configuration
	Text     string   // what is asked of one node and what the best of them has free; empty where that says nothing
}

// Census sorts the nodes of a partition by what keeps each from serving a request in a window. Groups come in the order of
// the standings; empty ones are left out.
func (b *Board) Census(q *Request, part string, w Window) []Group {
	p := b.parts[part]
	if p == nil {
		return nil
	}
	var names [standings][]string
	var best [standings]int64
	for _, i := range p.nodes {
		n := &b.nodes[i]
		s, has := b.standing(q, p, n, w)
		names[s] = append(names[s], n.name)
		best[s] = max(best[s], has)
	}
	var out []Group
	for s, list := range names {
		if len(list) == 0 {
			continue
		}
		g := Group{Standing: Standing(s), Nodes: list}
		switch g.Standing {
		case ShortCPUs:
			g.Text = fmt.Sprintf("it needs %d on a node, at most %d are free", q.cpusOfOne(), best[s])
		case ShortMemory:
			if need := q.memoryOfOne(); need > 0 {
				g.Text = fmt.Sprintf("it needs %d MiB on a node, at most %d are free", need, best[s])
			}
		case ShortDevices:
			g.Text = "it needs " + q.gresText()
		case LacksFeatures:
			g.Text = q.constraintText
		}
		out = append(out, g)
	}
	return out
}

// standing is the first thing that keeps a node from serving a request, and how much it has free of what is short.
func (b *Board) standing(q *Request, p *partition, n *node, w Window) (Standing, int64) {
	switch {
	case !n.usable:
		return OutOfService, 0
	case slices.Contains(q.Exclude, n.name):
		return Excluded, 0
	case !q.featured(n):
		return LacksFeatures, 0
	case !q.suits(n):
		return BuiltOtherwise, 0
	}
	whole := q.Exclusive || p.idle || b.linear
	var r room
	fits := func(q *Request, w Window) bool {
		b.look(n, w, &r)
		tasks, _ := b.capacity(n, q, whole, p, &r)
		return tasks > 0
	}
	if fits(q, w) && !n.sealed {
		return Fits, 0
	}
	free := *n
	free.reserved = nil
	b.look(&free, w, &r)
	if tasks, _ := b.capacity(&free, q, whole, p, &r); tasks > 0 {
		return Kept, 0
	}
	if whole && !r.whole {
		return NotIdle, 0
	}
	cpus, mem := int64(r.count), r.mem
	without := *q
	without.Memory = MemoryNone
	if tasks, _ := b.capacity(&free, &without, whole, p, &r); tasks > 0 {
		return ShortMemory, mem
	}
	without.Gres = nil
	if tasks, _ := b.capacity(&free, &without, whole, p, &r); tasks > 0 {
		return ShortDevices, 0
	}
	return ShortCPUs, cpus
}

func (q *Request) featured(n *node) bool {
	if len(q.Constraint.Alternatives) == 0 {
		return true
	}
	return slices.ContainsFunc(q.Constraint.Alternatives, func(e *Expr) bool { return e.Holds(n.features) })
}

// cpusOfOne is how many CPUs a node must have free to take part at all.
func (q *Request) cpusOfOne() int {
	need := max(q.CPUsPerTask, q.MinCPUs, 1)
	if q.MaxNodes > 0 && q.Tasks > 0 && !q.Overcommit { // the tasks spread over no more nodes than it may have
		need = max(need, (q.Tasks+q.MaxNodes-1)/q.MaxNodes*max(q.CPUsPerTask, 1))
	}
	return need
}

// memoryOfOne is how much memory in MiB a node must have free to take part; 0: it depends on the node.
func (q *Request) memoryOfOne() int64 {
	switch q.Memory {
	case MemoryPerNode:
		return q.MemoryMiB
	case MemoryPerCPU:
		return q.MemoryMiB * int64(max(q.CPUsPerTask, q.MinCPUs, 1))
	}
	return 0
}
