package format

import (
	"slices"
	"strings"

	"stint/cli/slurm"
	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
)

// Nodes are one node, or several that follow one another in the configuration and look alike: then the node is what they have in
// common, and has no name.
type Nodes struct {
	*projections.Node
	names string // hostlist
	index int    // of the first, in the configuration
	count int
}

// Alike says whether what a call of sinfo shows, sorts and filters by can be said of nodes told together (projections.AskNodes): it is
// neither of single nodes, nor of the moment, nor is it what they seldom have in common.
func Alike(q *slurm.Sinfo, l Layout[Group]) bool {
	const own = "noOeHuU"
	return !q.JSON && !q.Reasons && !l.Has(own) && !strings.ContainsAny(q.Sort, own) && !l.HasName("Port", "AllocMem", "GresUsed")
}

// nodeList is the nodes of an answer in their order of configuration.
type nodeList struct {
	list   []Nodes
	told   bool // they came together, and say what partitions they are in
	answer *projections.AnswerNodes
}

// nodesOf reads an answer. single: each node by itself.
func nodesOf(a *projections.AnswerNodes, single bool) *nodeList {
	if len(a.GetAlike()) == 0 {
		return &nodeList{answer: a}
	}
	l := &nodeList{told: true, list: make([]Nodes, 0, len(a.GetAlike()))}
	for _, s := range a.GetAlike() {
		if int(s.GetKind()) >= len(a.GetKinds()) {
			continue
		}
		kind, index := a.GetKinds()[s.GetKind()], int(s.GetIndex())
		if !single || s.GetCount() == 1 {
			l.list = append(l.list, Nodes{kind, s.GetNames(), index, int(s.GetCount())})
			continue
		}
		names, _ := hostlist.Expand(s.GetNames(), hostlist.MaxHosts)
		for i, name := range names {
			l.list = append(l.list, Nodes{kind, name, index + i, 1})
		}
	}
	return l
}

// of are those of a partition.
func (l *nodeList) of(p *events.PartitionDef) (list []Nodes) {
	if !l.told {
		for _, n := range members(p, l.answer.GetNodes()) {
			list = append(list, Nodes{n, n.GetName(), int(n.GetIndex()), 1})
		}
		return list
	}
	for _, n := range l.list {
		if slices.Contains(n.GetPartitions(), p.GetName()) {
			list = append(list, n)
		}
	}
	return list
}
