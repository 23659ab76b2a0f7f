// Package place finds room: which nodes, CPUs, memory and devices a job can have, now or at a later time.
//
// A Board is the cluster as placement sees it: per node what exists and what is free. It is made from the folded state
// and changed only by Take and Give, so that a pass sees its own placements. A Request is what a job asks for. Place
// answers with a concrete allocation or says what is missing; Shadow answers when a job could start at the latest,
// given the time limits of those that run, and reserves that room on the board.
//
// Everything is a function of its arguments: nodes are tried in the order of the configuration, ties go to the lower
// index, maps are never iterated.
package place

import (
	"math"
	"math/bits"
	"strings"

	"stint/events"
	"stint/projections"
)

// Source is the part of the folded state that a board is made of.
type Source interface {
	Config() *events.Config
	Nodes() []*projections.Node
	Partitions() []*events.PartitionDef
	Partition(name string) *events.PartitionDef
	PartitionNodes(name string) []*projections.Node
	EachRunning(f func(*projections.Job) bool)
	UserExclusive() int
}

// Board is what exists and what is free on every node.
type Board struct {
	nodes  []node
	byName map[string]int32
	parts  map[string]*partition
	linear bool // whole nodes only
	memory bool // memory is consumed
	single bool // CPUs are counted one by one, not by cores or sockets

	owned bool // jobs that share nodes with their own user's alone are about: holders are known

	reservations []*Reservation
	eligible     map[string]*eligible
	steps        uint64 // nodes looked at so far
	fits         map[fitKey]bool
	room         room        // scratch
	cands        []candidate // scratch
}

type partition struct {
	def     *events.PartitionDef
	index   int
	nodes   []int32 // in the order of the configuration
	idle    bool    // EXCLUSIVE: jobs get whole nodes
	maxCPUs int     // of a job on one node
	most    int     // nodes of a job, as placing has it
	limit   int     // the partition's own limit of that
	cpus    int     // of all its nodes
	maxMem  int64   // of a job on one node, MiB; 0: no limit
	leanest int64   // memory of the smallest of its nodes, MiB
	fewest  int     // CPUs of the one with the fewest
}

type node struct {
	name     string
	record   *projections.Node
	usable   bool
	sealed   bool  // kept for a job that waits
	cpus     int32 // that jobs may have
	unit     int32 // CPUs that are given together: a core, a socket, all
	counted  bool  // of the CPUs of a core that are given only those count that were asked for
	threads  int32 // in a core
	sockets  int32
	cores    int32 // in a socket
	free     events.Words
	freeCPUs int32
	units    int32 // wholly free ones
	mem      int64
	memFree  int64
	tmp      int64
	weight   uint32
	features []string
	gres     []gres
	jobs     int32 // with a share here
	user     uint32
	held     bool // user is known
	mixed    bool // the jobs here are of several users
	kept     bool // one of them shares with its own user alone
	reserved []*claim
}

type gres struct {
	name, typ string
	count     int32
	shared    bool // not consumed
	free      events.Words
	nfree     int32
}

// NewBoard reads the present state: a node is usable if it is up, not drained and as configured, and free of what the
// shares of its jobs hold.
func NewBoard(s Source) *Board { return newBoard(s, false) }

// NewIdleBoard reads the configuration alone: every configured node, usable and free, and no limit of a partition on the
// number of nodes. It tells what a job could ever get.
func NewIdleBoard(s Source) *Board { return newBoard(s, true) }

func newBoard(s Source, idle bool) *Board {
	cfg := s.Config()
	records := s.Nodes()
	b := &Board{
		nodes: make([]node, 0, len(records)), byName: make(map[string]int32, len(records)),
		parts: make(map[string]*partition), memory: cfg.GetSelectMemory(), linear: cfg.GetSelectLinear(),
		single:   !cfg.GetSelectLinear() && !cfg.GetSelectSocket() && !cfg.GetSelectCore(),
		eligible: make(map[string]*eligible),
	}
	for _, r := range records {
		if r.Removed && idle {
			continue
		}
		b.byName[r.Name] = int32(len(b.nodes))
		b.nodes = append(b.nodes, readNode(cfg, r, idle))
	}
	if b.owned = s.UserExclusive() > 0; b.owned && !idle {
		s.EachRunning(func(j *projections.Job) bool {
			part := s.Partition(j.Partition)
			for _, name := range j.GetAllocation().NodeNames() {
				if i, ok := b.byName[name]; ok {
					b.nodes[i].hold(j.GetOwner().GetUid(), projections.OneUser(j, part))
				}
			}
			return true
		})
	}
	for i, def := range s.Partitions() {
		p := &partition{def: def, index: i, idle: exclusivePartition(def), most: unlimitedNodes, limit: unlimitedNodes}
		if n := def.MaxNodes; n > 0 && n != events.Unlimited {
			p.limit = int(n)
		}
		if !idle {
			p.most = p.limit
		}
		if p.maxMem = int64(def.MaxMemPerNodeMib); p.maxMem == 0 {
			p.maxMem = int64(cfg.GetMaxMemPerNodeMib())
		}
		if n := def.MaxCpusPerNode; n > 0 && n != events.Unlimited {
			p.maxCPUs = int(n)
		}
		for _, r := range s.PartitionNodes(def.Name) {
			if n, ok := b.byName[r.Name]; ok {
				p.nodes = append(p.nodes, n)
				p.cpus += int(b.nodes[n].cpus)
				if m := b.nodes[n].mem; p.leanest == 0 || m < p.leanest {
					p.leanest = m
				}
				if c := int(b.nodes[n].cpus); p.fewest == 0 || c < p.fewest {
					p.fewest = c
				}
			}
		}
		b.parts[def.Name] = p
	}
	return b
}

// exclusivePartition says whether a partition's jobs get whole nodes.
func exclusivePartition(def *events.PartitionDef) bool {
	return strings.EqualFold(def.GetOversubscribe(), "EXCLUSIVE")
}

func readNode(cfg *events.Config, r *projections.Node, idle bool) node {
	def := r.Def
	n := node{
		name: r.Name, record: r, weight: def.GetWeight(), features: r.Features(),
		cpus: int32(r.CPUs()), threads: int32(max(def.GetThreadsPerCore(), 1)), sockets: int32(max(def.GetSockets(), 1)), cores: int32(def.GetCoresPerSocket()),
		tmp: int64(def.GetTmpDiskMib()), mem: int64(r.MemoryMiB()), usable: idle || r.Usable(),
	}
	if n.cores == 0 {
		n.cores = max(int32(def.GetCpus())/(n.sockets*n.threads), 1)
	}
	switch {
	case cfg.GetSelectLinear():
		n.unit = max(n.cpus, 1)
	case cfg.GetSelectSocket():
		n.unit = max(n.cores*n.threads, 1)
	case cfg.GetSelectCore():
		n.unit = n.threads
	default:
		n.unit, n.counted = n.threads, n.threads > 1
	}
	if n.cpus > 0 {
		n.free.AddRange(0, uint32(n.cpus-1))
	}
	n.memFree = n.mem
	if !idle {
		n.free = n.free.AndNot(r.CpusUsed)
		n.memFree -= int64(r.MemoryUsedMib)
		n.jobs = int32(len(r.Jobs))
	}
	n.countCPUs()
	n.gres = readGres(r, idle)
	return n
}

func readGres(r *projections.Node, idle bool) []gres {
	out := make([]gres, 0, len(r.Gres))
	for _, g := range r.Gres {
		x := gres{name: g.Name, typ: g.Type, count: int32(min(g.Count, MaxCount))}
		for _, d := range r.Def.GetGres() {
			if d.Name == g.Name && d.Type == g.Type {
				x.shared = d.NoConsume
			}
		}
		if x.count > 0 {
			x.free.AddRange(0, uint32(x.count-1))
		}
		if !idle {
			x.free = x.free.AndNot(g.Used)
		}
		x.nfree = int32(x.free.Count())
		out = append(out, x)
	}
	return out
}

func (n *node) countCPUs() {
	n.freeCPUs = int32(n.free.Count())
	n.units = countUnits(n.free, n.cpus, n.unit)
}

// countUnits counts the units whose CPUs are all in the set. A last unit that is cut short by the number of CPUs counts.
func countUnits(set events.Words, cpus, unit int32) int32 {
	switch {
	case unit <= 1:
		return int32(set.Count())
	case unit == 2 && cpus%2 == 0:
		n := 0
		for _, w := range set {
			n += bits.OnesCount64(w & (w >> 1) & 0x5555555555555555)
		}
		return int32(n)
	}
	n := int32(0)
	for from := int32(0); from < cpus; from += unit {
		if unitFree(set, from, min(from+unit, cpus)) {
			n++
		}
	}
	return n
}

func unitFree(set events.Words, from, to int32) bool {
	for c := from; c < to; c++ {
		if !set.Has(uint32(c)) {
			return false
		}
	}
	return true
}

// Steps is how many nodes the board has looked at: the measure of a pass's budget.
func (b *Board) Steps() uint64 { return b.steps }

// Take marks an allocation as used. Nodes that are not on the board are passed over.
func (b *Board) Take(a *events.Allocation) {
	a.Each(func(_ int, name string, share *events.NodeShare) bool {
		if i, ok := b.byName[name]; ok {
			b.nodes[i].take(share)
		}
		return true
	})
}

func (n *node) take(share *events.NodeShare) {
	n.free = n.free.AndNot(share.Cpus)
	n.memFree -= int64(share.MemoryMib)
	n.jobs++
	n.countCPUs()
	for _, s := range share.Gres {
		for k := range n.gres {
			if g := &n.gres[k]; g.name == s.Name && g.typ == s.Type && !g.shared {
				g.free = g.free.AndNot(s.Ids)
				g.nfree = int32(g.free.Count())
			}
		}
	}
}

// give is the opposite of take, for what a node has.
func (n *node) give(share *events.NodeShare) {
	var all events.Words
	if n.cpus > 0 {
		all.AddRange(0, uint32(n.cpus-1))
	}
	n.free = n.free.Or(share.Cpus).And(all)
	n.memFree += int64(share.MemoryMib)
	n.jobs--
	n.countCPUs()
	for _, s := range share.Gres {
		for k := range n.gres {
			if g := &n.gres[k]; g.name == s.Name && g.typ == s.Type && !g.shared {
				g.free = g.free.Or(s.Ids)
				g.nfree = int32(g.free.Count())
			}
		}
	}
}

// clone is a board with free room of its own; what is never changed is shared.
func (b *Board) clone() *Board {
	c := &Board{byName: b.byName, parts: b.parts, linear: b.linear, memory: b.memory,
		owned: b.owned, reservations: b.reservations, eligible: b.eligible, nodes: make([]node, len(b.nodes))}
	copy(c.nodes, b.nodes)
	for i := range c.nodes {
		// take and give replace the words of a node, they never write into them; only the slice of devices is written.
		c.nodes[i].gres = append([]gres(nil), c.nodes[i].gres...)
	}
	return c
}

// hold notes whose job is on the node.
func (n *node) hold(user uint32, alone bool) {
	if n.user != user && n.held {
		n.mixed = true
	}
	n.user, n.held, n.kept = user, true, n.kept || alone
}

// keptFrom says whether a node is not for a user's job because of other users': one of them shares with its own alone, or this
// job does.
func (n *node) keptFrom(user uint32, alone bool) bool {
	return n.held && n.jobs > 0 && (n.kept || alone) && (n.mixed || n.user != user)
}

// memoryOf is the memory that is free on a node for a job; all there is where memory is not consumed.
func (b *Board) memoryOf(free int64) int64 {
	if !b.memory {
		return math.MaxInt64 / 4
	}
	return free
}

// HasPartition says whether the board knows a partition.
func (b *Board) HasPartition(name string) bool { return b.parts[name] != nil }

// PartitionSize is the number of nodes of a partition.
func (b *Board) PartitionSize(name string) int {
	if p := b.parts[name]; p != nil {
		return len(p.nodes)
	}
	return 0
}

// Seal keeps every node of a partition from being given to anybody from now on: without backfill nobody may overtake a job
// that waits for resources there.
func (b *Board) Seal(part string) {
	if p := b.parts[part]; p != nil {
		for _, i := range p.nodes {
			b.nodes[i].sealed = true
		}
	}
}
