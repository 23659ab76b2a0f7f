package place

import (
	"slices"

	"stint/events"
)

// eligible is the nodes of a partition that a request may have, whatever is free on them.
type eligible struct {
	// alternatives holds a list of nodes, in the order of the configuration, for each alternative of the constraint.
	alternatives [][]int32
	alive        [][]int32 // the same, less nodes that were found full: within a pass no room comes back
	bounds       []bound   // of alive, as it was when it was last gone through: more than that there never is again
	required     []int32   // the nodes the job names
	unavailable  []string  // nodes it names that cannot be used now
}

// bound is the most CPUs and memory that are free on any one node of a list, and the CPUs of all of them.
type bound struct {
	cpus, sum int
	mem       int64
}

// eligibleNodes works out, once for each kind of request, which usable nodes of a partition come into question.
func (b *Board) eligibleNodes(q *Request, p *partition) *eligible {
	key := p.def.Name + "\x00" + q.eligibleKey
	if e := b.eligible[key]; e != nil {
		return e
	}
	e := &eligible{}
	excluded := make(map[int32]bool, len(q.Exclude))
	for _, name := range q.Exclude {
		if n, ok := b.byName[name]; ok {
			excluded[n] = true
		}
	}
	for _, name := range q.NodeList {
		n, ok := b.byName[name]
		if !ok || excluded[n] || !b.nodes[n].usable || !q.suits(&b.nodes[n]) || !slices.Contains(p.nodes, n) {
			e.unavailable = append(e.unavailable, name)
			continue
		}
		e.required = append(e.required, n)
	}
	alternatives := q.Constraint.Alternatives
	if len(alternatives) == 0 {
		alternatives = []*Expr{nil}
	}
	for _, expr := range alternatives {
		list := make([]int32, 0, len(p.nodes))
		for _, n := range p.nodes {
			nd := &b.nodes[n]
			if nd.usable && !excluded[n] && q.suits(nd) && (expr == nil || expr.Holds(nd.features)) {
				list = append(list, n)
			}
		}
		e.alternatives = append(e.alternatives, list)
		e.alive = append(e.alive, list)
		e.bounds = append(e.bounds, bound{cpus: MaxCount, sum: MaxCount, mem: Forever})
	}
	b.eligible[key] = e
	return e
}

// candidate is a node that has room for at least one task.
type candidate struct {
	node  int32
	tasks int
	pool  int
}

// Place finds room for a request on the nodes of a partition, for a job that runs in the window, and returns it without
// taking it; nil if there is none. The nodes are those that Slurm's default would take: the lowest weight first, and of
// the runs of consecutive free nodes the smallest that is enough.
func (b *Board) Place(q *Request, part string, w Window) *events.Allocation {
	return b.place(q, part, w, nil)
}

func (b *Board) place(q *Request, part string, w Window, prefer *Board) *events.Allocation {
	p := b.parts[part]
	if p == nil {
		return nil
	}
	return b.placeWithin(p.most, q, p, w, prefer)
}

// placeWithin is place with a limit on the number of nodes.
func (b *Board) placeWithin(limit int, q *Request, p *partition, w Window, prefer *Board) *events.Allocation {
	e := b.eligibleNodes(q, p)
	if len(e.unavailable) > 0 {
		return nil
	}
	most := min(q.MaxNodes, limit)
	if most < q.MinNodes {
		return nil
	}
	for i, list := range e.alternatives {
		alive, most1 := &list, &bound{cpus: MaxCount, sum: MaxCount, mem: Forever}
		if !w.Planned {
			alive, most1 = &e.alive[i], &e.bounds[i]
		}
		if len(*alive) < q.MinNodes || q.leastCPUs > most1.cpus || q.leastSum > most1.sum || b.memory && q.Memory == MemoryPerNode && q.MemoryMiB > most1.mem {
			continue
		}
		if a := b.placeOn(alive, most1, e.required, q, p, most, w, prefer); a != nil {
			return a
		}
	}
	return nil
}

// placeOn tries the nodes of a list, and takes from it those that are full, unless it is for a later time.
func (b *Board) placeOn(alive *[]int32, seen *bound, required []int32, q *Request, p *partition, most int, w Window, prefer *Board) *events.Allocation {
	whole := q.Exclusive || p.idle || b.linear
	r := &b.room
	cands := b.cands[:0]
	defer func() { b.cands = cands[:0] }()
	needPool := 0
	if g := q.pooled(); g != nil {
		needPool = g.PerJob
	}
	tasks, pool, full := 0, 0, 0
	*seen = bound{}
	for _, i := range *alive {
		n := &b.nodes[i]
		if n.units == 0 {
			full++
			continue
		}
		seen.cpus = max(seen.cpus, int(n.freeCPUs))
		seen.sum += int(n.freeCPUs)
		seen.mem = max(seen.mem, n.memFree)
		if int(n.freeCPUs) < q.leastCPUs || whole && n.jobs > 0 || n.sealed && !w.Planned || b.owned && n.keptFrom(w.User, q.OneUser || p.def.ExclusiveUser) {
			b.steps++
			continue
		}
		b.look(n, w, r)
		if t, c := b.capacity(n, q, whole, p, r); t > 0 {
			cands = append(cands, candidate{i, t, c})
			tasks = min(tasks+t, MaxCount)
			pool = min(pool+c, MaxCount)
		}
	}
	if !w.Planned && full > len(*alive)/4 {
		left := make([]int32, 0, len(*alive)-full)
		for _, i := range *alive {
			if b.nodes[i].units > 0 {
				left = append(left, i)
			}
		}
		*alive = left
	}
	if len(cands) < q.MinNodes || tasks < q.Tasks || pool < needPool {
		return nil
	}
	s := selection{b: b, q: q, need: q.MinNodes, most: most, tasks: q.Tasks, pool: needPool}
	chosen := s.choose(cands, required, p.def.Lln)
	if chosen == nil {
		return nil
	}
	return b.layOut(chosen, required, q, whole, w, prefer)
}

// selection picks nodes among candidates until there are enough nodes, tasks and devices, and not too many nodes.
type selection struct {
	b           *Board
	q           *Request
	need, most  int // nodes
	tasks, pool int // still needed are these less what chosen has

	chosen   []candidate
	haveT    int
	haveP    int
	selected map[int32]bool
}

func (s *selection) enough() bool {
	return len(s.chosen) >= s.need && s.haveT >= s.tasks && s.haveP >= s.pool
}

// wanting says whether one more node should be taken.
func (s *selection) wanting() bool {
	if len(s.chosen) >= s.most {
		return false
	}
	return !s.enough() || s.q.Spread || s.tasks == 0 && s.pool == 0 && s.most < unlimitedNodes && !s.q.Fewest
}

func (s *selection) add(c candidate) {
	s.chosen = append(s.chosen, c)
	s.haveT = min(s.haveT+c.tasks, MaxCount)
	s.haveP = min(s.haveP+c.pool, MaxCount)
}

func (s *selection) choose(cands []candidate, required []int32, leastLoaded bool) []candidate {
	if s.q.Contiguous {
		return s.contiguous(cands, required)
	}
	rest := cands
	if len(required) > 0 {
		named := make(map[int32]bool, len(required))
		for _, n := range required {
			named[n] = true
		}
		rest = nil
		for _, c := range cands {
			if named[c.node] {
				s.add(c)
			} else {
				rest = append(rest, c)
			}
		}
		if len(s.chosen) < len(required) {
			return nil
		}
	}
	for _, f := range s.q.Constraint.Counts {
		if rest = s.counted(f, rest); rest == nil {
			return nil
		}
	}
	base := selection{chosen: slices.Clone(s.chosen), haveT: s.haveT, haveP: s.haveP}
	if leastLoaded {
		s.leastLoaded(rest)
	} else {
		for _, class := range s.byWeight(rest) {
			if !s.wanting() {
				break
			}
			s.fromRuns(class)
		}
	}
	if !s.enough() {
		// The order of taking used up the nodes on small ones. The largest ones are the last resort: if they do not do,
		// nothing does.
		s.chosen, s.haveT, s.haveP = base.chosen, base.haveT, base.haveP
		largest := slices.Clone(rest)
		slices.SortStableFunc(largest, func(x, y candidate) int {
			if s.pool > 0 && x.pool != y.pool {
				return y.pool - x.pool
			}
			return y.tasks - x.tasks
		})
		for _, c := range largest {
			if !s.wanting() {
				break
			}
			s.add(c)
		}
		if !s.enough() {
			return nil
		}
	}
	slices.SortFunc(s.chosen, func(x, y candidate) int { return int(x.node) - int(y.node) })
	return s.chosen
}

// alone is the first node of a run that has room for all of a job that asks for no number of nodes, or for one: such a job is
// not spread over what others left, as long as one node will do.
func (s *selection) alone(run []candidate) (candidate, bool) {
	if len(s.chosen) > 0 || s.need > 1 || s.q.Spread {
		return candidate{}, false
	}
	for _, c := range run {
		if c.tasks >= s.tasks && c.pool >= s.pool {
			return c, true
		}
	}
	return candidate{}, false
}

// counted takes so many nodes with a feature, the lightest first, and returns what is left; nil if there are not so many.
// Named nodes count.
func (s *selection) counted(f FeatureCount, cands []candidate) []candidate {
	has := func(c candidate) bool { return slices.Contains(s.b.nodes[c.node].features, f.Feature) }
	need := f.Nodes
	for _, c := range s.chosen {
		if has(c) && need > 0 {
			need--
		}
	}
	taken := make(map[int32]bool, need)
	for _, class := range s.byWeight(cands) {
		for _, c := range class {
			if need > 0 && has(c) {
				s.add(c)
				taken[c.node] = true
				need--
			}
		}
	}
	if need > 0 || len(s.chosen) > s.most {
		return nil
	}
	rest := make([]candidate, 0, len(cands))
	for _, c := range cands {
		if !taken[c.node] {
			rest = append(rest, c)
		}
	}
	return rest
}

// byWeight splits candidates into classes of equal node weight, lightest first, each in the order given.
func (s *selection) byWeight(cands []candidate) [][]candidate {
	same := true
	for i := 1; i < len(cands); i++ {
		if s.b.nodes[cands[i].node].weight != s.b.nodes[cands[0].node].weight {
			same = false
			break
		}
	}
	if same {
		return [][]candidate{cands}
	}
	sorted := slices.Clone(cands)
	slices.SortStableFunc(sorted, func(x, y candidate) int {
		a, b := s.b.nodes[x.node].weight, s.b.nodes[y.node].weight
		switch {
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return 0
	})
	var classes [][]candidate
	for from := 0; from < len(sorted); {
		to := from + 1
		for to < len(sorted) && s.b.nodes[sorted[to].node].weight == s.b.nodes[sorted[from].node].weight {
			to++
		}
		classes = append(classes, sorted[from:to])
		from = to
	}
	return classes
}

// run is candidates with consecutive places in the configuration.
type run struct {
	cands []candidate
	tasks int
	pool  int
	used  bool
}

func runsOf(cands []candidate) []run {
	var runs []run
	for from := 0; from < len(cands); {
		to := from + 1
		r := run{tasks: cands[from].tasks, pool: cands[from].pool}
		for to < len(cands) && cands[to].node == cands[to-1].node+1 {
			r.tasks = min(r.tasks+cands[to].tasks, MaxCount)
			r.pool = min(r.pool+cands[to].pool, MaxCount)
			to++
		}
		r.cands = cands[from:to]
		runs = append(runs, r)
		from = to
	}
	return runs
}

// fromRuns takes nodes of one weight: from the smallest run that is enough for what is still needed, or else from the
// largest, again and again.
func (s *selection) fromRuns(cands []candidate) {
	runs := runsOf(cands)
	for s.wanting() {
		best := -1
		bestEnough := false
		for i := range runs {
			r := &runs[i]
			if r.used {
				continue
			}
			enough := len(s.chosen)+len(r.cands) >= s.need && s.haveT+r.tasks >= s.tasks && s.haveP+r.pool >= s.pool
			switch {
			case best < 0,
				enough && !bestEnough,
				enough && bestEnough && len(r.cands) < len(runs[best].cands),
				!enough && !bestEnough && r.tasks > runs[best].tasks:
				best, bestEnough = i, enough
			}
		}
		if best < 0 {
			return
		}
		runs[best].used = true
		if c, ok := s.alone(runs[best].cands); ok {
			s.add(c)
			return
		}
		for _, c := range runs[best].cands {
			if !s.wanting() {
				return
			}
			s.add(c)
		}
	}
}

// leastLoaded takes the nodes with the most free CPUs first.
func (s *selection) leastLoaded(cands []candidate) {
	sorted := slices.Clone(cands)
	slices.SortStableFunc(sorted, func(x, y candidate) int {
		return int(s.b.nodes[y.node].freeCPUs) - int(s.b.nodes[x.node].freeCPUs)
	})
	for _, c := range sorted {
		if !s.wanting() {
			return
		}
		s.add(c)
	}
}

// contiguous takes consecutive nodes only: the first stretch that is enough and holds all the nodes the job names.
func (s *selection) contiguous(cands []candidate, required []int32) []candidate {
	for _, r := range runsOf(cands) {
		for from := range r.cands {
			s.chosen, s.haveT, s.haveP = s.chosen[:0], 0, 0
			named := 0
			for _, c := range r.cands[from:] {
				if !s.wanting() && named == len(required) || len(s.chosen) >= s.most {
					break
				}
				s.add(c)
				if slices.Contains(required, c.node) {
					named++
				}
			}
			if s.enough() && named == len(required) {
				return s.chosen
			}
		}
	}
	return nil
}

// layOut spreads tasks (and devices counted for the job) over the chosen nodes, each as full as it can be while one is
// left for every node to come, and cuts the shares.
func (b *Board) layOut(chosen []candidate, required []int32, q *Request, whole bool, w Window, prefer *Board) *events.Allocation {
	tasks := q.Tasks
	pool := 0
	if g := q.pooled(); g != nil {
		pool = g.PerJob
	}
	// The nodes that a job names have their tasks first, then the lighter ones.
	order := slices.Clone(chosen)
	slices.SortStableFunc(order, func(x, y candidate) int {
		nx, ny := slices.Contains(required, x.node), slices.Contains(required, y.node)
		switch wx, wy := b.nodes[x.node].weight, b.nodes[y.node].weight; {
		case nx != ny && nx, nx == ny && wx < wy:
			return -1
		case nx != ny, wx > wy:
			return 1
		}
		return 0
	})
	shares := make(map[int32]*events.NodeShare, len(order))
	dealt := q.deal(b, order, whole)
	byCPU := b.single || !slices.ContainsFunc(order, func(c candidate) bool { return b.nodes[c.node].unit > 1 })
	for i, c := range order {
		after, least := len(order)-i-1, 0
		t := max(q.TasksPerNode, 1)
		if q.Tasks > 0 {
			t = q.tasksHere(b, c, order[i+1:], tasks)
			if q.Even {
				later := 0
				for _, d := range order[i+1:] {
					later = min(later+d.tasks, MaxCount)
				}
				t = min(t, max((tasks+after)/(after+1), tasks-later))
			}
			if dealt != nil {
				least = dealt[i] * q.CPUsPerTask
				if byCPU {
					t = dealt[i]
				}
			}
			tasks -= t
		}
		g := 0
		if pool > 0 {
			g = min(c.pool, pool-after)
			pool -= g
		}
		n := &b.nodes[c.node]
		b.look(n, w, &b.room)
		var later *node
		if prefer != nil {
			later = &prefer.nodes[c.node]
		}
		s := b.share(n, q, whole, &b.room, t, g, least, later)
		if s == nil {
			return nil
		}
		shares[c.node] = s
	}
	a := &events.Allocation{}
	for _, c := range chosen {
		add(a, b.nodes[c.node].name, shares[c.node])
	}
	if q.Batch != nil {
		for i, c := range chosen {
			if q.Batch.Holds(b.nodes[c.node].features) {
				if i > 0 {
					a.BatchHost = b.nodes[c.node].name
				}
				break
			}
		}
	}
	return a
}

// tasksHere is how many of the tasks that are left go to a node, with those behind it to be served too: all that they can
// do without, where each of them has at least one, and as many as fit its smallest share if there are enough.
func (q *Request) tasksHere(b *Board, c candidate, behind []candidate, left int) int {
	if q.TasksPerNode > 0 {
		return q.TasksPerNode
	}
	after := len(behind)
	kept := 0
	for _, x := range behind {
		kept += min(q.inUnit(&b.nodes[x.node]), x.tasks)
	}
	return min(c.tasks, max(left-kept, min(q.inUnit(&b.nodes[c.node]), left-after)))
}

// deal is how many tasks of each node, in this order, its CPUs are counted for: nil where they are counted by other rules. A node is
// to have what is still needed, less a core for each further one that there must be; nodes beyond those get one task's. Then each
// node has a task, the cores begun with are filled, and the rest goes to the nodes in turn. How the tasks are laid out in the end is another
// matter where cores are given: then a node may have a core more than its tasks use.
func (q *Request) deal(b *Board, order []candidate, whole bool) []int {
	if whole || q.Overcommit || q.Even || q.Tasks < len(order) || q.TasksPerNode > 0 || q.TasksPerSocket > 0 || len(q.Gres) > 0 || q.MinCPUs > q.CPUsPerTask {
		return nil
	}
	left, need := q.Tasks-len(order), q.Tasks*q.CPUsPerTask
	most, tasks := make([]int, len(order)), make([]int, len(order))
	for i, c := range order {
		g := q.geometry(&b.nodes[c.node])
		if g.cores > 1 || q.TasksPerCore > 0 && q.TasksPerCore*q.CPUsPerTask < int(g.usable) {
			return nil
		}
		most[i] = min(c.tasks, max(need-max(q.MinNodes-i-1, 0)*int(g.usable), q.CPUsPerTask)/q.CPUsPerTask)
		need = max(need-most[i]*q.CPUsPerTask, 0)
		tasks[i] = 1
	}
	for i, c := range order {
		usable := int(q.geometry(&b.nodes[c.node]).usable)
		cores := (q.CPUsPerTask + usable - 1) / usable
		more := min(left, min(most[i], cores*usable/q.CPUsPerTask)-1)
		tasks[i], left = tasks[i]+more, left-more
	}
	for given := true; left > 0 && given; {
		given = false
		for i := range order {
			if left > 0 && tasks[i] < most[i] {
				tasks[i], left, given = tasks[i]+1, left-1, true
			}
		}
	}
	if left > 0 {
		return nil
	}
	return tasks
}

// inUnit is how many tasks the smallest share of a node holds.
func (q *Request) inUnit(n *node) int {
	g := q.geometry(n)
	if inUnit, _ := q.perCore(g); inUnit > 0 {
		return inUnit
	}
	return max(int(g.usable)/q.CPUsPerTask, q.MinCPUs/q.CPUsPerTask, 1)
}

// add appends a node's share, joined to the entry before if that is the same.
func add(a *events.Allocation, name string, s *events.NodeShare) {
	if k := len(a.Shares); k > 0 {
		last := a.Shares[k-1]
		s.Nodes = last.Nodes
		if s.EqualVT(last) {
			last.Nodes = append(last.Nodes, name)
			return
		}
	}
	s.Nodes = []string{name}
	a.Shares = append(a.Shares, s)
}
