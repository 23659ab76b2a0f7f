// Package layout lays steps out on an allocation: which nodes, which of their CPUs, which ranks where. It is pure: what it says
// follows from the allocation, from what the step wants, and from what other steps have.
package layout

import (
	"fmt"
	"slices"

	"stint/events"
	"stint/executor/tasks"
)

// Refused is why a step cannot be laid out.
type Refused struct {
	Refusal tasks.Refusal
	Text    string
}

func (r *Refused) Error() string { return r.Text }

func refuse(kind tasks.Refusal, format string, args ...any) *Refused {
	return &Refused{kind, fmt.Sprintf(format, args...)}
}

// node is one of the allocation's, and what of it is left to a step.
type node struct {
	name   string
	share  *events.NodeShare
	cpus   events.Words // free
	all    events.Words
	per    int // CPUs for each that tasks count on: two where tasks use one thread of each core
	memory uint64
	gres   []*events.GresShare // free
	room   int                 // tasks
	tasks  int
	ranks  []uint32
}

// Lay lays a step out, in the order of the allocation's nodes. live are the steps that there are. If only they are in the way the
// refusal is BUSY.
func Lay(alloc *events.Allocation, want *tasks.Want, live []*tasks.Live) ([]*tasks.Part, *Refused) {
	parts, no := lay(alloc, want, live)
	if no == nil || len(live) == 0 {
		return parts, no
	}
	if _, never := lay(alloc, want, nil); never != nil {
		return nil, never
	}
	return nil, refuse(tasks.Refusal_BUSY, "Requested nodes are busy")
}

// Everywhere is one process on each node of an allocation that is wanted, beside all steps.
func Everywhere(alloc *events.Allocation, want *tasks.Want) (out []*tasks.Part, no *Refused) {
	for _, name := range want.Nodes {
		if share, _ := alloc.ForNode(name); share == nil {
			return nil, refuse(tasks.Refusal_BAD_NODE, "node %s is not in this allocation", name)
		}
	}
	alloc.Each(func(_ int, name string, share *events.NodeShare) bool {
		if len(want.Nodes) == 0 || slices.Contains(want.Nodes, name) {
			out = append(out, &tasks.Part{Node: name, Tasks: []uint32{uint32(len(out))}, Cpus: share.GetCpus()})
		}
		return true
	})
	return out, nil
}

func lay(alloc *events.Allocation, want *tasks.Want, live []*tasks.Live) ([]*tasks.Part, *Refused) {
	nodes, no := candidates(alloc, want, live)
	if no != nil {
		return nil, no
	}
	for _, n := range nodes {
		n.room = n.holds(want)
	}
	if want.Spread == tasks.Spread_ARBITRARY {
		if nodes, no = arbitrary(nodes, want); no != nil {
			return nil, no
		}
		return finish(nodes, want)
	}
	count := int(want.Tasks)
	nodes, no = choose(nodes, want, alloc.NodeCount())
	if no != nil {
		return nil, no
	}
	if count == 0 {
		if count = len(nodes); want.TasksPerNode > 0 {
			count *= int(want.TasksPerNode)
		}
	}
	room := 0
	for _, n := range nodes {
		room += n.room
	}
	if room < count && !want.Overcommit {
		return nil, refuse(tasks.Refusal_TOO_MANY, "More processors requested than permitted")
	}
	spread(nodes, want, count)
	return finish(nodes, want)
}

// candidates are the nodes that the step may have, with what is free on them.
func candidates(alloc *events.Allocation, want *tasks.Want, live []*tasks.Live) (out []*node, no *Refused) {
	known := map[string]bool{}
	alloc.Each(func(i int, name string, share *events.NodeShare) bool {
		known[name] = true
		if slices.Contains(want.Exclude, name) || want.HasRelative && i < int(want.Relative) {
			return true
		}
		n := &node{name: name, share: share, all: share.GetCpus(), cpus: events.Words(share.GetCpus()).Clone(), memory: share.GetMemoryMib(), per: 1}
		if u := share.UsableCPUs(); u > 0 {
			n.per = max(1, n.all.Count()/u)
		}
		for _, g := range share.GetGres() {
			n.gres = append(n.gres, g.CloneVT())
		}
		out = append(out, n)
		return true
	})
	for _, name := range append(slices.Clone(want.Nodes), want.Exclude...) {
		if !known[name] && !slices.Contains(want.Exclude, name) {
			return nil, refuse(tasks.Refusal_BAD_NODE, "node %s is not in this allocation", name)
		}
	}
	if want.HasRelative && int(want.Relative) >= alloc.NodeCount() {
		return nil, refuse(tasks.Refusal_TOO_MANY_NODES, "--relative=%d: the allocation has %d nodes", want.Relative, alloc.NodeCount())
	}
	for _, name := range want.Nodes {
		if slices.Contains(want.Exclude, name) {
			return nil, refuse(tasks.Refusal_BAD_NODE, "node %s is both wanted and excluded", name)
		}
		if want.HasRelative && !slices.ContainsFunc(out, func(n *node) bool { return n.name == name }) {
			return nil, refuse(tasks.Refusal_BAD_NODE, "node %s lies before --relative=%d", name, want.Relative)
		}
	}
	for _, l := range live {
		for _, p := range l.Parts {
			if i := slices.IndexFunc(out, func(n *node) bool { return n.name == p.Node }); i >= 0 && slices.Contains(l.Open, p.Node) {
				out[i].without(p, l.Overlap || want.Overlap)
			}
		}
	}
	return out, nil
}

// without takes away what another step has.
func (n *node) without(p *tasks.Part, shared bool) {
	if !shared {
		n.cpus = n.cpus.AndNot(p.Cpus)
		if p.GresCounts {
			for _, g := range n.gres {
				for _, taken := range p.Gres {
					if g.Name == taken.Name && g.Type == taken.Type {
						g.Ids = events.Words(g.Ids).AndNot(taken.Ids)
					}
				}
			}
		}
	}
	if p.MemoryCounts {
		n.memory -= min(n.memory, p.MemoryMib)
	}
}

func cpusPerTask(want *tasks.Want) int { return int(max(1, want.CpusPerTask)) }

// holds is how many tasks of the step a node has room for.
func (n *node) holds(want *tasks.Want) int {
	if !want.Exact && !n.all.Within(n.cpus) {
		return 0
	}
	cpus := n.cpus.Count() / n.per
	room := cpus / cpusPerTask(want)
	if want.Overcommit && cpus > 0 {
		room = max(room, cpus)
	}
	if m := want.MemPerNodeMib; m > n.memory {
		return 0
	}
	if m := want.MemPerCpuMib; m > 0 && n.share.GetMemoryMib() > 0 {
		room = min(room, int(n.memory/(m*uint64(cpusPerTask(want)))))
	}
	for _, g := range want.Gres {
		have := n.count(g)
		switch {
		case g.Scope == events.Scope_PER_TASK && g.Count > 0:
			room = min(room, int(have/g.Count))
		case g.Scope == events.Scope_PER_NODE && have < g.Count:
			return 0
		}
	}
	if want.TasksPerNode > 0 {
		room = min(room, int(want.TasksPerNode))
	}
	return room
}

// count is how many of a generic resource are free on the node.
func (n *node) count(g *events.Gres) (have uint64) {
	for _, s := range n.gres {
		if s.Name == g.Name && (g.Type == "" || g.Type == s.Type) {
			have += uint64(events.Words(s.Ids).Count())
		}
	}
	return have
}

// choose takes the nodes of the step: those that it must have, then from the front as many as it asks for or needs.
func choose(all []*node, want *tasks.Want, allocated int) ([]*node, *Refused) {
	least, most := int(want.MinNodes), int(want.MaxNodes)
	count := int(want.Tasks)
	if least > allocated {
		return nil, refuse(tasks.Refusal_TOO_MANY_NODES, "the allocation has %d nodes, and %d are asked for", allocated, least)
	}
	if least == 0 {
		least = max(1, len(want.Nodes))
		if count == 0 && len(want.Nodes) == 0 && want.MaxNodes == 0 {
			least = len(all)
		}
	}
	least = max(least, len(want.Nodes))
	if count > 0 {
		least = max(1, min(least, count))
	}
	if most == 0 {
		most = len(all)
	}
	chosen := map[string]bool{}
	room, n := 0, 0
	take := func(x *node) {
		if !chosen[x.name] {
			chosen[x.name], room, n = true, room+x.room, n+1
		}
	}
	for _, name := range want.Nodes {
		for _, x := range all {
			if x.name == name {
				if x.room == 0 {
					return nil, never(x, want)
				}
				take(x)
			}
		}
	}
	for _, x := range all {
		if x.room > 0 && n < least {
			take(x)
		}
	}
	for _, x := range all { // more, if the tasks need them
		if x.room > 0 && room < count && n < max(most, least) && !want.Overcommit {
			take(x)
		}
	}
	if n < least {
		for _, x := range all {
			if x.room == 0 {
				return nil, never(x, want)
			}
		}
		return nil, refuse(tasks.Refusal_NODE_CONFIG, "Requested node configuration is not available")
	}
	if room < count && !want.Overcommit && n < len(all) { // the roomiest of them
		sorted := slices.Clone(all)
		slices.SortStableFunc(sorted, func(a, b *node) int { return b.room - a.room })
		chosen, room, n = map[string]bool{}, 0, 0
		for _, name := range want.Nodes {
			for _, x := range all {
				if x.name == name {
					take(x)
				}
			}
		}
		for _, x := range sorted {
			if n < max(least, min(most, len(all))) && room < count {
				take(x)
			}
		}
	}
	var out []*node
	for _, x := range all {
		if chosen[x.name] {
			out = append(out, x)
		}
	}
	return out, nil
}

// never is why a node has no room for a task.
func never(n *node, want *tasks.Want) *Refused {
	if want.MemPerNodeMib > n.memory || want.MemPerCpuMib*uint64(cpusPerTask(want)) > n.memory && n.share.GetMemoryMib() > 0 {
		return refuse(tasks.Refusal_TOO_MUCH_MEMORY, "Memory required by task is not available")
	}
	for _, g := range want.Gres {
		if n.count(g) < g.Count && g.Scope != events.Scope_PER_JOB {
			return refuse(tasks.Refusal_BAD_GRES, "Invalid generic resource (gres) specification")
		}
	}
	return refuse(tasks.Refusal_TOO_MANY, "More processors requested than permitted")
}

// spread deals ranks out.
func spread(nodes []*node, want *tasks.Want, count int) {
	next := uint32(0)
	give := func(n *node, many int) {
		for ; many > 0 && int(next) < count; many-- {
			n.ranks = append(n.ranks, next)
			n.tasks++
			next++
		}
	}
	rounds := func(plane int) {
		for before := -1; int(next) < count && int(next) != before; {
			before = int(next)
			for _, n := range nodes {
				give(n, min(plane, n.room-n.tasks))
			}
		}
		for int(next) < count { // more tasks than CPUs
			for _, n := range nodes {
				give(n, plane)
			}
		}
	}
	switch want.Spread {
	case tasks.Spread_CYCLIC:
		rounds(1)
		return
	case tasks.Spread_PLANE:
		rounds(int(max(1, want.Plane)))
		return
	}
	// How many on each node first: in turn as long as there is room, or where they are packed each filled before the next, and in the
	// end what is too much in turn. Ranks follow one another.
	many := make([]int, len(nodes))
	left := count
	for before := -1; left > 0 && left != before; {
		before = left
		for i, n := range nodes {
			more := min(left, max(0, n.room-many[i]))
			if !want.Packed {
				more = min(more, 1)
			}
			many[i] += more
			left -= more
		}
	}
	for left > 0 {
		for i := range nodes {
			if left > 0 {
				many[i]++
				left--
			}
		}
	}
	for i, n := range nodes {
		give(n, many[i])
	}
}

// arbitrary gives each task the node that is named for it.
func arbitrary(all []*node, want *tasks.Want) ([]*node, *Refused) {
	var out []*node
	for i, name := range want.Nodes {
		if want.Tasks > 0 && i >= int(want.Tasks) {
			break
		}
		at := slices.IndexFunc(all, func(n *node) bool { return n.name == name })
		if at < 0 {
			return nil, refuse(tasks.Refusal_BAD_NODE, "node %s is not in this allocation", name)
		}
		n := all[at]
		if n.tasks == 0 {
			out = append(out, n)
		}
		n.ranks = append(n.ranks, uint32(i))
		n.tasks++
		if n.tasks > n.room && !want.Overcommit {
			return nil, refuse(tasks.Refusal_TOO_MANY, "More processors requested than permitted")
		}
	}
	if len(out) == 0 || int(want.Tasks) > len(want.Nodes) {
		return nil, refuse(tasks.Refusal_NODE_CONFIG, "--distribution=arbitrary names %d nodes for %d tasks; name one for each", len(want.Nodes), want.Tasks)
	}
	slices.SortStableFunc(out, func(a, b *node) int { return slices.Index(all, a) - slices.Index(all, b) })
	return out, nil
}

// finish makes the parts of those nodes that have tasks.
func finish(nodes []*node, want *tasks.Want) ([]*tasks.Part, *Refused) {
	total := 0
	for _, n := range nodes {
		total += n.tasks
	}
	var out []*tasks.Part
	first := true
	for _, n := range nodes {
		if n.tasks == 0 {
			continue
		}
		p := &tasks.Part{Node: n.name, Tasks: n.ranks, Cpus: n.all, CpusPerTask: want.CpusPerTask}
		need := n.tasks * cpusPerTask(want) * n.per
		if want.Exact {
			free := n.cpus.List()
			p.Cpus = events.WordsOf(free[:min(need, len(free))]...)
		}
		if m := want.MemPerNodeMib; m > 0 {
			p.MemoryMib, p.MemoryCounts = m, true
		} else if m := want.MemPerCpuMib; m > 0 {
			p.MemoryMib, p.MemoryCounts = m*uint64(need/n.per), true
		}
		if no := n.giveGres(p, want, total, first); no != nil {
			return nil, no
		}
		first = false
		out = append(out, p)
	}
	return out, nil
}

// giveGres gives a part its generic resources: those that are asked for, to no other step meanwhile, or else all that the job has.
func (n *node) giveGres(p *tasks.Part, want *tasks.Want, total int, first bool) *Refused {
	switch {
	case want.NoGres:
		return nil
	case len(want.Gres) == 0:
		for _, g := range n.share.GetGres() {
			p.Gres = append(p.Gres, g.CloneVT())
		}
		return nil
	}
	p.GresCounts = true
	for _, g := range want.Gres {
		count := g.Count
		switch g.Scope {
		case events.Scope_PER_TASK:
			count *= uint64(n.tasks)
			if g.Name == "gpu" {
				p.GpusPerTask = uint32(g.Count)
			}
		case events.Scope_PER_JOB: // as evenly as the tasks are, what is left over on the first node
			share := g.Count * uint64(n.tasks) / uint64(total)
			if first {
				share = g.Count - (g.Count*uint64(total-n.tasks))/uint64(total)
			}
			count = share
		}
		for _, s := range n.gres {
			if s.Name != g.Name || g.Type != "" && s.Type != g.Type || count == 0 {
				continue
			}
			ids := events.Words(s.Ids).List()
			ids = ids[:min(uint64(len(ids)), count)]
			count -= uint64(len(ids))
			if len(ids) > 0 {
				taken := events.WordsOf(ids...)
				s.Ids = events.Words(s.Ids).AndNot(taken)
				p.Gres = append(p.Gres, &events.GresShare{Name: s.Name, Type: s.Type, Ids: taken})
			}
		}
		if count > 0 {
			return refuse(tasks.Refusal_BAD_GRES, "Invalid generic resource (gres) specification")
		}
	}
	return nil
}
