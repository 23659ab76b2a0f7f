package place

import (
	"stint/events"
)

// Window is the time a job would run: From its start to To its end, microseconds. Reservations that overlap it are kept
// clear of.
type Window struct {
	From, To int64
	// Planned says that From lies ahead, on a board that is as it will be then. Otherwise From is now.
	Planned bool
	// User is who the job belongs to.
	User uint32
	// Alone says that its nodes are for this user's jobs alone as long as it runs.
	Alone bool
}

// Forever is an end that no plan reaches.
const Forever = int64(1) << 62

// room is what a node has for a job in a window.
type room struct {
	cpus  events.Words
	count int32
	units int32
	whole bool // everything of the node is free
	mem   int64
	gfree []int32
	gres  []events.Words
}

// look fills r with the free room of a node, less what reservations claim in the window.
func (b *Board) look(n *node, w Window, r *room) {
	b.steps++
	r.cpus, r.count, r.units, r.mem = n.free, n.freeCPUs, n.units, n.memFree
	r.whole = n.jobs == 0 && n.freeCPUs == n.cpus
	r.gfree, r.gres = r.gfree[:0], r.gres[:0]
	for k := range n.gres {
		r.gfree = append(r.gfree, n.gres[k].nfree)
		r.gres = append(r.gres, n.gres[k].free)
	}
	claimed := false
	for _, c := range n.reserved {
		if !c.res.overlaps(w) {
			continue
		}
		claimed, r.whole = true, false
		r.cpus = r.cpus.AndNot(c.share.Cpus)
		if w.Planned {
			r.mem -= int64(c.share.MemoryMib)
		} else {
			r.mem = min(r.mem, c.slack)
		}
		for _, s := range c.share.Gres {
			for k := range n.gres {
				if n.gres[k].name == s.Name && n.gres[k].typ == s.Type && !n.gres[k].shared {
					r.gres[k] = r.gres[k].AndNot(s.Ids)
					r.gfree[k] = int32(r.gres[k].Count())
				}
			}
		}
	}
	if claimed {
		r.count = int32(r.cpus.Count())
		r.units = countUnits(r.cpus, n.cpus, n.unit)
	}
	r.mem = b.memoryOf(r.mem)
}

// geometry is how a request counts the CPUs of a node: in units that are given whole, of which a job may use each CPU or
// one thread of each core.
type geometry struct {
	unit   int32 // CPUs that go together
	usable int32 // CPUs of a unit that tasks count
	cores  int32 // in a unit, at least 1
}

func (q *Request) geometry(n *node) geometry {
	g := geometry{unit: n.unit}
	if q.ThreadsPerCore > 0 && int32(q.ThreadsPerCore) < n.threads || q.TasksPerCore > 0 {
		g.unit = max(g.unit, n.threads)
	}
	g.cores = max(g.unit/n.threads, 1)
	g.usable = g.unit
	if q.ThreadsPerCore > 0 && int32(q.ThreadsPerCore) < n.threads {
		g.usable = g.cores * int32(q.ThreadsPerCore)
	}
	return g
}

// perCore is how CPUs of tasks come to units where a core holds so many tasks at most: so many tasks in a unit, or so many
// units for a task that is larger than one. Both are 0 where only the number of CPUs counts.
func (q *Request) perCore(g geometry) (tasks, units int) {
	if q.TasksPerCore == 0 || g.cores > 1 {
		return 0, 0
	}
	if n := int(g.usable) / q.CPUsPerTask; n > 0 {
		return min(n, q.TasksPerCore), 0
	}
	return 0, (q.CPUsPerTask + int(g.usable) - 1) / int(g.usable)
}

// unitsFor is how many units so many tasks take.
func (q *Request) unitsFor(tasks int, g geometry) int {
	units := 0
	if !q.Overcommit {
		units = (tasks*q.CPUsPerTask + int(g.usable) - 1) / int(g.usable)
	}
	if inUnit, units1 := q.perCore(g); units1 > 0 {
		units = max(units, tasks*units1)
	} else if inUnit > 0 {
		units = max(units, (tasks+inUnit-1)/inUnit)
	} else if q.TasksPerCore > 0 {
		perUnit := q.TasksPerCore * int(g.cores)
		units = max(units, (tasks+perUnit-1)/perUnit)
	}
	return units
}

// suits says whether a node could ever serve the request as far as its build is concerned.
func (q *Request) suits(n *node) bool {
	if q.Memory == MemoryPerNode && n.mem > 0 && q.MemoryMiB > n.mem {
		return false
	}
	if int(n.cpus) < q.Built && !q.Overcommit || int(n.sockets) < q.Sockets || int(n.cores) < q.Cores || int(n.threads) < q.MinThreads || n.tmp < q.TmpMiB {
		return false
	}
	for i := range q.Gres {
		have := int32(0)
		for k := range n.gres {
			if q.Gres[i].matches(&n.gres[k]) {
				have += n.gres[k].count
			}
		}
		if have == 0 || int(have) < q.Gres[i].least() {
			return false
		}
	}
	return true
}

func (g *GresRequest) matches(x *gres) bool {
	return x.name == g.Name && (g.Type == "" || g.Type == x.typ)
}

// least is how many of it a node with one task needs.
func (g *GresRequest) least() int { return max(g.PerNode, g.PerTask, g.PerSocket, 1) }

// on is how many of it a node needs for so many tasks; pool is the node's part of a count for the whole job.
func (g *GresRequest) on(tasks, pool int) int {
	switch {
	case g.PerNode > 0:
		return g.PerNode
	case g.PerTask > 0:
		return g.PerTask * tasks
	case g.TasksPer > 0:
		return (tasks + g.TasksPer - 1) / g.TasksPer
	}
	return pool
}

// capacity is how many tasks of the request a node can take now (0: none), and how many devices of a count for the whole
// job (pool) it could give along.
func (b *Board) capacity(n *node, q *Request, whole bool, p *partition, r *room) (tasks, pool int) {
	g := q.geometry(n)
	units := int(r.units)
	if g.unit != n.unit {
		units = int(countUnits(r.cpus, n.cpus, g.unit))
	}
	if whole && !r.whole {
		return 0, 0
	}
	if q.TasksPerSocket > 0 {
		units = inSockets(r.cpus, n, g.unit, q.ofSocket(g))
	}
	if p != nil && p.maxCPUs > 0 && !whole {
		units = min(units, p.maxCPUs/int(g.unit))
	}
	switch q.Memory {
	case MemoryPerNode:
		if r.mem < q.MemoryMiB {
			return 0, 0
		}
	case MemoryAll:
		if b.memory && (r.mem < n.mem || n.mem == 0) {
			return 0, 0
		}
	case MemoryPerCPU:
		if b.memory && q.MemoryMiB > 0 {
			fit := int(min(r.mem/(q.MemoryMiB*int64(g.usable)), MaxCount))
			if n.counted && !whole {
				fit = int(min((r.mem/q.MemoryMiB+int64(g.usable)-1)/int64(g.usable), MaxCount))
			}
			if whole && fit*int(g.unit) < int(n.cpus) {
				return 0, 0 // each CPU of the node comes with its memory
			}
			units = min(units, fit)
		}
	}
	if units < 1 {
		return 0, 0
	}
	cpus := units * int(g.usable)
	if n.counted && b.memory && q.Memory == MemoryPerCPU && q.MemoryMiB > 0 {
		cpus = int(min(int64(cpus), r.mem/q.MemoryMiB))
	}
	if cpus < q.MinCPUs {
		return 0, 0
	}
	tasks = MaxCount
	if !q.Overcommit {
		tasks = cpus / q.CPUsPerTask
	} else if cpus < q.CPUsPerTask {
		return 0, 0
	}
	if inUnit, units1 := q.perCore(g); units1 > 0 {
		tasks = min(tasks, units/units1)
	} else if inUnit > 0 {
		tasks = min(tasks, units*inUnit)
	} else if q.TasksPerCore > 0 {
		tasks = min(tasks, units*int(g.cores)*q.TasksPerCore)
	}
	if q.TasksPerNode > 0 {
		tasks = min(tasks, q.TasksPerNode)
	}
	pool = MaxCount
	for i := range q.Gres {
		t, c := gresCapacity(&q.Gres[i], n, r)
		if q.CPUsPerGPU > 0 && q.Gres[i].Name == "gpu" {
			fit := cpus / q.CPUsPerGPU
			switch x := &q.Gres[i]; {
			case x.PerNode > 0 && fit < x.PerNode:
				return 0, 0
			case x.PerTask > 0:
				t = min(t, fit/x.PerTask)
			case x.TasksPer > 0:
				t = min(t, fit*x.TasksPer)
			case x.PerJob > 0:
				c = min(c, fit)
			}
		}
		if q.Memory == MemoryPerGPU && b.memory && q.Gres[i].Name == "gpu" && q.MemoryMiB > 0 {
			fit := int(min(r.mem/q.MemoryMiB, MaxCount))
			switch x := &q.Gres[i]; {
			case x.PerNode > 0 && fit < x.PerNode:
				return 0, 0
			case x.PerTask > 0:
				t = min(t, fit/x.PerTask)
			case x.TasksPer > 0:
				t = min(t, fit*x.TasksPer)
			case x.PerJob > 0:
				c = min(c, fit)
			}
		}
		tasks = min(tasks, t)
		pool = min(pool, c)
	}
	if tasks < 1 || pool < 1 || tasks < q.TasksPerNode {
		return 0, 0
	}
	return tasks, pool
}

// gresCapacity is how many tasks the free devices allow, and how many devices there are for the pool of the job.
func gresCapacity(g *GresRequest, n *node, r *room) (tasks, pool int) {
	free := 0
	for k := range n.gres {
		if g.matches(&n.gres[k]) {
			free += int(r.gfree[k])
		}
	}
	switch {
	case g.PerNode > 0:
		if free < g.PerNode {
			return 0, 0
		}
		return MaxCount, MaxCount
	case g.PerSocket > 0:
		if free < g.PerSocket {
			return 0, 0
		}
		return MaxCount, MaxCount
	case g.PerTask > 0:
		return free / g.PerTask, MaxCount
	case g.TasksPer > 0:
		return free * g.TasksPer, MaxCount
	}
	return MaxCount, free
}

// share makes a node's part of the allocation for so many tasks; nil if the node has not got it after all (two requests
// may compete for the same devices). It has least CPUs at least. prefer is CPUs to take first, for plans that leave free what is free now.
func (b *Board) share(n *node, q *Request, whole bool, r *room, tasks, pool, least int, prefer *node) *events.NodeShare {
	g := q.geometry(n)
	s := &events.NodeShare{Tasks: uint32(tasks)}
	gpus := 0
	taken := make([]events.Words, len(n.gres))
	take := func(g *GresRequest, want int) bool {
		if g.Name == "gpu" {
			gpus += want
		}
		return takeDevices(g, n, r, taken, want)
	}
	perSocket := false
	for i := range q.Gres {
		if q.Gres[i].PerSocket > 0 {
			perSocket = true
			continue
		}
		if !take(&q.Gres[i], q.Gres[i].on(tasks, pool)) {
			return nil
		}
	}
	usable := int(n.cpus) / int(g.unit) * int(g.usable)
	if whole {
		for k := range n.gres {
			if !n.gres[k].shared {
				taken[k] = n.gres[k].free
			}
		}
		s.Cpus = n.free.Clone()
	} else {
		cpus, given := q.CPUsPerTask, 0
		if !q.Overcommit {
			given = q.MinCPUs
			cpus = max(tasks*q.CPUsPerTask, given/q.CPUsPerTask*q.CPUsPerTask, gpus*q.CPUsPerGPU, least, 1)
		}
		units := max((cpus+int(g.usable)-1)/int(g.usable), q.unitsFor(max(tasks, given/q.CPUsPerTask), g))
		perCPU := int64(0)
		if b.memory && q.Memory == MemoryPerCPU {
			perCPU = q.MemoryMiB
		}
		var ok bool
		if s.Cpus, units, ok = takeSockets(r, n, g, cpus, tasks, units, q, prefer, perCPU); !ok {
			return nil
		}
		usable = units * int(g.usable)
		if n.counted && cpus < units*int(g.unit) {
			s.Counted, usable = uint32(cpus), cpus
		}
	}
	if perSocket {
		sockets := socketsOf(s.Cpus, n)
		for i := range q.Gres {
			if k := q.Gres[i].PerSocket; k > 0 && !whole && !take(&q.Gres[i], k*sockets) {
				return nil
			}
		}
	}
	if g.usable < g.unit && s.Counted == 0 {
		s.Usable = uint32(usable)
	}
	for k, ids := range taken {
		x := &n.gres[k]
		if ids.Empty() || x.shared {
			continue
		}
		s.Gres = append(s.Gres, &events.GresShare{Name: x.name, Type: x.typ, Ids: ids})
	}
	if b.memory {
		switch q.Memory {
		case MemoryPerNode:
			s.MemoryMib = uint64(q.MemoryMiB)
		case MemoryPerCPU:
			s.MemoryMib = uint64(q.MemoryMiB) * uint64(min(usable, events.Words(s.Cpus).Count()))
		case MemoryPerGPU:
			s.MemoryMib = uint64(q.MemoryMiB) * uint64(max(gpus, 1))
		case MemoryAll:
			s.MemoryMib = uint64(n.mem)
		}
		if int64(s.MemoryMib) > r.mem {
			return nil
		}
	}
	return s
}

// takeDevices picks the lowest free devices, all of one type if one has enough.
func takeDevices(g *GresRequest, n *node, r *room, taken []events.Words, want int) bool {
	left := func(k int) events.Words { return r.gres[k].AndNot(taken[k]) }
	for k := range n.gres {
		if g.matches(&n.gres[k]) && left(k).Count() >= want {
			taken[k] = taken[k].Or(lowest(left(k), want))
			return true
		}
	}
	for k := range n.gres {
		if want > 0 && g.matches(&n.gres[k]) {
			ids := lowest(left(k), want)
			taken[k] = taken[k].Or(ids)
			want -= ids.Count()
		}
	}
	return want == 0
}

func lowest(set events.Words, n int) events.Words {
	var out events.Words
	if n <= 0 {
		return out
	}
	set.Each(func(id uint32) bool {
		out.Set(id)
		n--
		return n > 0
	})
	return out
}
