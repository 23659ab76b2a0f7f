package place

import (
	"fmt"
	"strings"

	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
)

type fitKey struct {
	q    *Request
	part *partition
}

// Fits says whether the request fits on a partition of an idle board, that is: whether it could ever run.
func (b *Board) Fits(q *Request, part string) bool {
	p := b.parts[part]
	if p == nil {
		return false
	}
	key := fitKey{q, p}
	fits, known := b.fits[key]
	if !known {
		fits = b.Place(q, part, Window{To: Forever}) != nil
		if b.fits == nil {
			b.fits = map[fitKey]bool{}
		}
		b.fits[key] = fits
	}
	return fits
}

// FitsLimit is Fits within the partition's own limit of nodes.
func (b *Board) FitsLimit(q *Request, part string) bool {
	p := b.parts[part]
	if p == nil || !b.Fits(q, part) {
		return false
	}
	return p.limit >= len(p.nodes) || b.placeWithin(p.limit, q, p, Window{To: Forever}, nil) != nil
}

// NodeLimit is how many nodes of a partition one job can have: all of them, or as many as its limit says.
func (b *Board) NodeLimit(part string) int {
	p := b.parts[part]
	if p == nil {
		return 0
	}
	return min(p.limit, len(p.nodes))
}

// Beyond says which limit of a partition as a whole a request goes beyond: PARTITION_CONFIG for more CPUs than all its nodes
// have, PARTITION_NODE_LIMIT for more nodes than a job can have there, or fewer than it has to, MEM_PER_LIMIT for more memory of
// a node; NONE if it is within all.
func (b *Board) Beyond(q *Request, part string) events.Reason {
	p := b.parts[part]
	switch {
	case p == nil:
		return events.Reason_NONE
	case q.LeastCPUs() > p.cpus:
		return events.Reason_PARTITION_CONFIG
	case q.MinNodes > b.NodeLimit(part), q.MaxNodes < int(p.def.GetMinNodes()):
		return events.Reason_PARTITION_NODE_LIMIT
	case p.maxMem > 0 && q.leastMemory(p) > p.maxMem:
		return events.Reason_MEM_PER_LIMIT
	}
	return events.Reason_NONE
}

// MemoryLimit is the most memory of one node that a partition lets a job have, in MiB; 0: no limit.
func (b *Board) MemoryLimit(part string) int64 {
	if p := b.parts[part]; p != nil {
		return p.maxMem
	}
	return 0
}

// leastMemory is how much memory of a node a request takes at least, in MiB.
func (q *Request) leastMemory(p *partition) int64 {
	switch q.Memory {
	case MemoryPerNode:
		return q.MemoryMiB
	case MemoryPerCPU:
		tasks := max(q.TasksPerNode, 1)
		if q.MaxNodes == 1 {
			tasks = max(tasks, q.Tasks)
		}
		cpus := max(tasks*q.CPUsPerTask, q.MinCPUs)
		if q.Overcommit {
			cpus = max(q.CPUsPerTask, q.MinCPUs)
		}
		if q.Exclusive {
			cpus = max(cpus, p.fewest)
		}
		return q.MemoryMiB * int64(min(cpus, MaxCount))
	case MemoryAll:
		return p.leanest
	}
	return 0
}

// LeastCPUs is how many CPUs a request takes at least, on all its nodes together.
func (q *Request) LeastCPUs() int {
	if q.Overcommit {
		return q.MinNodes
	}
	return max(q.MinNodes, min(q.Tasks*q.CPUsPerTask, MaxCount))
}

// most is the largest that any single node of a list has.
type most struct {
	cpus  int
	mem   int64
	tmp   int64
	tasks int
}

// Lacks says in words what a partition of an idle board has not got for a request that does not fit.
func (b *Board) Lacks(q *Request, part string) string {
	p := b.parts[part]
	if p == nil {
		return "there is no partition " + part
	}
	var m most
	features, suited, hosts, tasks := 0, 0, 0, 0
	whole := q.Exclusive || p.idle || b.linear
	for _, i := range p.nodes {
		n := &b.nodes[i]
		m.cpus = max(m.cpus, int(n.cpus))
		m.mem = max(m.mem, n.mem)
		m.tmp = max(m.tmp, n.tmp)
		if len(q.Constraint.Alternatives) > 0 {
			ok := false
			for _, e := range q.Constraint.Alternatives {
				ok = ok || e.Holds(n.features)
			}
			if !ok {
				continue
			}
		}
		features++
		if !q.suits(n) {
			continue
		}
		suited++
		b.look(n, Window{To: Forever}, &b.room)
		if t, _ := b.capacity(n, q, whole, p, &b.room); t > 0 {
			hosts++
			tasks = min(tasks+t, MaxCount)
			m.tasks = max(m.tasks, t)
		}
	}
	e := b.eligibleNodes(q, p)
	switch {
	case features == 0:
		return fmt.Sprintf("no node of partition %s meets the constraint %s", part, q.constraintText)
	case len(e.unavailable) > 0:
		return fmt.Sprintf("%s cannot be used by it in partition %s", hostlist.Compress(e.unavailable), part)
	case q.Memory == MemoryPerNode && q.MemoryMiB > m.mem && m.mem > 0:
		return fmt.Sprintf("it asks for %d MiB on a node, the most in partition %s is %d", q.MemoryMiB, part, m.mem)
	case max(q.CPUsPerTask, q.Built) > m.cpus && !q.Overcommit:
		return fmt.Sprintf("it asks for %d CPUs on one node, the most in partition %s is %d", max(q.CPUsPerTask, q.Built), part, m.cpus)
	case suited == 0 && q.TmpMiB > m.tmp:
		return fmt.Sprintf("it asks for %d MiB of temporary disk on a node, the most in partition %s is %d", q.TmpMiB, part, m.tmp)
	case suited == 0 && len(q.Gres) > 0:
		return fmt.Sprintf("no node of partition %s has %s", part, q.gresText())
	case suited == 0:
		return fmt.Sprintf("no node of partition %s is built as it asks (sockets, cores, threads)", part)
	case hosts == 0 && q.Memory == MemoryPerCPU && b.memory && q.MemoryMiB*int64(max(q.CPUsPerTask, q.MinCPUs)) > m.mem:
		return fmt.Sprintf("it asks for %d MiB for each of %d CPUs on one node, the most in partition %s is %d MiB", q.MemoryMiB, max(q.CPUsPerTask, q.MinCPUs), part, m.mem)
	case hosts == 0 && whole && q.Memory == MemoryPerCPU && b.memory && b.whole(q, p) != "":
		return b.whole(q, p)
	case hosts == 0:
		return fmt.Sprintf("no node of partition %s has all it asks for at once: %s", part, b.closest(q, p))
	case q.MinNodes > p.limit:
		return fmt.Sprintf("it asks for %d nodes, partition %s gives a job %d at most", q.MinNodes, part, p.limit)
	case q.MaxNodes < int(p.def.GetMinNodes()):
		return fmt.Sprintf("it asks for at most %d nodes, a job in partition %s has to take %d", q.MaxNodes, part, p.def.GetMinNodes())
	case hosts < q.MinNodes:
		return fmt.Sprintf("it asks for %d nodes, partition %s has %d that could serve it", q.MinNodes, part, hosts)
	case tasks < q.Tasks:
		return fmt.Sprintf("it asks for %d tasks of %d CPUs, partition %s has room for %d", q.Tasks, q.CPUsPerTask, part, tasks)
	case q.MaxNodes < hosts && m.tasks*q.MaxNodes < q.Tasks:
		return fmt.Sprintf("it asks for %d tasks on at most %d nodes, and a node of partition %s takes %d at most", q.Tasks, q.MaxNodes, part, m.tasks)
	}
	return fmt.Sprintf("the nodes of partition %s do not have it together", part)
}

// whole says that memory for each of all CPUs of a node, which a job has that has the node to itself, is more than any node has;
// "" where some node has so much.
func (b *Board) whole(q *Request, p *partition) string {
	var best *node
	short := int64(0)
	for _, i := range p.nodes {
		n := &b.nodes[i]
		if !q.featured(n) || !q.suits(n) {
			continue
		}
		lacks := q.MemoryMiB*int64(n.cpus) - n.mem
		if lacks <= 0 {
			return ""
		}
		if best == nil || lacks < short {
			best, short = n, lacks
		}
	}
	if best == nil {
		return ""
	}
	return fmt.Sprintf("it takes nodes whole, with %d MiB for each CPU: that is %d MiB for the %d CPUs of %s, which has %d; ask for less memory, or for all of a node with --mem=0",
		q.MemoryMiB, q.MemoryMiB*int64(best.cpus), best.cpus, best.name, best.mem)
}

// closest says what a request needs on a node, and what the node of a partition offers that has most of it.
func (b *Board) closest(q *Request, p *partition) string {
	type figure struct {
		what string
		need int64
		has  func(*node) int64
	}
	figures := []figure{{"CPUs", int64(q.cpusOfOne()), func(n *node) int64 { return int64(n.cpus) }}}
	if need := q.memoryOfOne(); need > 0 && b.memory {
		figures = append(figures, figure{"MiB", need, func(n *node) int64 { return n.mem }})
	}
	for i := range q.Gres {
		g := &q.Gres[i]
		figures = append(figures, figure{g.label(), int64(g.least()), func(n *node) (has int64) {
			for k := range n.gres {
				if g.matches(&n.gres[k]) {
					has += int64(n.gres[k].count)
				}
			}
			return has
		}})
	}
	var best *node
	most := -1
	for _, i := range p.nodes {
		n := &b.nodes[i]
		if !q.featured(n) || !q.suits(n) {
			continue
		}
		met := 0
		for _, f := range figures {
			if f.has(n) >= f.need {
				met++
			}
		}
		if met > most {
			best, most = n, met
		}
	}
	if best == nil {
		return "none is built as it asks"
	}
	var needs, has []string
	for _, f := range figures {
		needs = append(needs, figured(f.need, f.what))
		has = append(has, figured(f.has(best), f.what))
	}
	return fmt.Sprintf("it needs %s on one node, and %s, which comes closest, has %s", listed(needs), best.name, listed(has))
}

// listed joins words as people do.
func listed(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}

// label is a kind of device as it is asked for: gpu, gpu:a100.
func (g *GresRequest) label() string {
	if g.Type != "" {
		return g.Name + ":" + g.Type
	}
	return g.Name
}

func (q *Request) gresText() string {
	text := ""
	for i := range q.Gres {
		if i > 0 {
			text += " and "
		}
		text += fmt.Sprintf("%d %s", q.Gres[i].least(), q.Gres[i].label())
	}
	return text
}

// Trouble says why a request that does not fit now would not fit either if all running jobs were gone: nodes that are out
// of service, the partition's limit of nodes, or nodes that are no longer there. It returns NONE if it would fit: the job
// waits for resources. idle is the idle board of the same state.
func (b *Board) Trouble(q *Request, part string, idle *Board) (events.Reason, string) {
	p := b.parts[part]
	if p == nil {
		return events.Reason_PARTITION_CONFIG, "there is no partition " + part
	}
	if e := b.eligibleNodes(q, p); len(e.unavailable) > 0 {
		return events.Reason_REQ_NODE_NOT_AVAIL, "UnavailableNodes:" + hostlist.Compress(e.unavailable)
	}
	if r := idle.Beyond(q, part); r != events.Reason_NONE {
		return r, idle.Lacks(q, part)
	}
	if idle.fitsUsable(q, part, b) {
		return events.Reason_NONE, ""
	}
	if ip := idle.parts[part]; idle.placeWithin(ip.limit, q, ip, Window{To: Forever}, nil) == nil {
		if idle.Fits(q, part) {
			return events.Reason_PARTITION_NODE_LIMIT, ""
		}
		return events.Reason_BAD_CONSTRAINTS, idle.Lacks(q, part)
	}
	var out []string
	for _, i := range p.nodes {
		if !b.nodes[i].usable {
			out = append(out, b.nodes[i].name)
		}
	}
	return events.Reason_REQ_NODE_NOT_AVAIL, "UnavailableNodes:" + hostlist.Compress(out)
}

// fitsUsable says whether the request fits, within the partition's limits, on those nodes of an idle board that are usable on
// another.
func (b *Board) fitsUsable(q *Request, part string, now *Board) bool {
	p := b.parts[part]
	if p == nil {
		return false
	}
	c := b.clone()
	c.eligible = make(map[string]*eligible)
	for i := range c.nodes {
		k, ok := now.byName[c.nodes[i].name]
		c.nodes[i].usable = ok && now.nodes[k].usable
	}
	return c.placeWithin(p.limit, q, p, Window{To: Forever}, nil) != nil
}

// Blockers are what is short for a request that does not fit now, with numbers: what is free on usable nodes of the
// partition against what is needed.
func (b *Board) Blockers(q *Request, part string) []*projections.Blocker {
	p := b.parts[part]
	if p == nil {
		return nil
	}
	var cpus, idle, usable int
	var mem int64
	devices := make([]int, len(q.Gres))
	e := b.eligibleNodes(q, p)
	seen := map[int32]bool{}
	for _, list := range e.alternatives {
		for _, i := range list {
			if seen[i] {
				continue
			}
			seen[i] = true
			n := &b.nodes[i]
			usable++
			cpus += int(n.freeCPUs)
			mem += n.memFree
			if n.jobs == 0 {
				idle++
			}
			for k := range q.Gres {
				for x := range n.gres {
					if q.Gres[k].matches(&n.gres[x]) {
						devices[k] += int(n.gres[x].nfree)
					}
				}
			}
		}
	}
	tasks := max(q.Tasks, q.MinNodes*max(q.TasksPerNode, 1))
	var out []*projections.Blocker
	short := func(text string, have, need uint64) {
		if have < need {
			out = append(out, &projections.Blocker{Reason: events.Reason_RESOURCES, Text: text, Have: have, Need: need})
		}
	}
	short("nodes in service", uint64(usable), uint64(q.MinNodes))
	if q.Exclusive || p.idle || b.linear {
		short("idle nodes", uint64(idle), uint64(q.MinNodes))
	} else if !q.Overcommit {
		short("free CPUs", uint64(cpus), uint64(max(tasks*q.CPUsPerTask, q.MinNodes*q.MinCPUs)))
	}
	if b.memory {
		need := int64(0)
		switch q.Memory {
		case MemoryPerNode:
			need = q.MemoryMiB * int64(q.MinNodes)
		case MemoryPerCPU:
			need = q.MemoryMiB * int64(tasks*q.CPUsPerTask)
		}
		short("MiB of free memory", uint64(max(mem, 0)), uint64(need))
	}
	for k := range q.Gres {
		g := &q.Gres[k]
		need := g.PerJob
		if need == 0 {
			need = g.on(tasks, 0)
			if g.PerNode > 0 {
				need = g.PerNode * q.MinNodes
			}
		}
		short("free "+g.label(), uint64(devices[k]), uint64(need))
	}
	if len(out) == 0 {
		// Enough in sum, but not together on single nodes.
		hosts, room := 0, 0
		whole := q.Exclusive || p.idle || b.linear
		for _, list := range e.alternatives {
			for _, i := range list {
				n := &b.nodes[i]
				b.look(n, Window{To: Forever}, &b.room)
				if t, _ := b.capacity(n, q, whole, p, &b.room); t > 0 && !n.sealed {
					hosts++
					room = min(room+t, MaxCount)
				}
			}
		}
		short("nodes with room for it", uint64(hosts), uint64(q.MinNodes))
		if len(out) == 0 {
			short("tasks that there is room for", uint64(room), uint64(q.Tasks))
		}
	}
	return out
}

// figured is a number of something; of one CPU in the singular.
func figured(n int64, what string) string {
	if n == 1 {
		what = strings.TrimSuffix(what, "s")
	}
	return fmt.Sprintf("%d %s", n, what)
}
