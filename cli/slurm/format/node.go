package format

import (
	"fmt"
	"strconv"
	"strings"

	"stint/events"
	"stint/events/hostlist"
	"stint/events/idset"
	"stint/events/tres"
	"stint/projections"
)

// NodeState is the state of a node as the commands show it.
type NodeState struct {
	Compact  string // drain, mix, idle*
	Long     string // drained, mixed, idle*
	Complete string // idle+drain
	Upper    string // IDLE+DRAIN, as scontrol has it
	names    map[string]bool
	order    int64
}

// Is says whether sinfo -t with this word (of slurm.NodeStateNames) shows the node.
func (s NodeState) Is(word string) bool { return s.names[word] }

// StateOf reads the state of a node.
func StateOf(n *projections.Node) NodeState {
	used, total := events.Words(n.GetCpusUsed()).Count(), nodeCPUs(n)
	busy := used > 0 // a node whose jobs are all suspended is idle
	var base, compact, long string
	var order int64
	switch {
	case n.GetFuture():
		base, compact, long, order = "FUTURE", "futr", "future", 10
	case n.GetDown():
		base, compact, long, order = "DOWN", "down", "down", 1
	case n.GetNeverUp() && !n.GetUp():
		base, compact, long, order = "UNKNOWN", "unk", "unknown", 0
	case busy && used >= total:
		base, compact, long, order = "ALLOCATED", "alloc", "allocated", 3
	case busy:
		base, compact, long, order = "MIXED", "mix", "mixed", 6
	default:
		base, compact, long, order = "IDLE", "idle", "idle", 2
	}
	s := NodeState{names: map[string]bool{base: true}}
	upper := base
	switch {
	case n.GetDrain() && busy && !n.GetDown():
		compact, long = "drng", "draining"
		s.names["DRAINING"] = true
	case n.GetDrain():
		compact, long = "drain", "drained"
		s.names["DRAINED"] = true
	case n.GetFail() && busy && !n.GetDown():
		compact, long = "failg", "failing"
		s.names["FAILING"] = true
	case n.GetFail():
		compact, long = "fail", "fail"
		s.names["FAIL"] = true
	}
	if n.GetDrain() {
		upper += "+DRAIN"
		s.names["DRAIN"] = true
		order += 1 << 9
	}
	if n.GetFail() {
		upper += "+FAIL"
		s.names["FAIL"] = true
		order += 1 << 13
	}
	if n.GetInvalid() {
		compact, long = "inval", "inval"
		upper += "+INVALID_REG"
		s.names["INVAL"] = true
		order += 1 << 14
	}
	if !n.GetUp() {
		compact, long = compact+"*", long+"*"
		upper += "+NOT_RESPONDING"
		s.names["NO_RESPOND"] = true
		order += 1 << 12
	}
	s.Compact, s.Long, s.Upper, s.Complete, s.order = compact, long, upper, strings.ToLower(upper), order
	return s
}

func nodeCPUs(n *projections.Node) int {
	if c := n.GetDef().GetCpus(); c > 0 {
		return int(c)
	}
	return int(n.GetInventory().GetCpus())
}

// keptCPUs are how many CPUs of a node are kept for the system, its last ones.
func keptCPUs(n *projections.Node) int {
	return min(int(n.GetDef().GetCoreSpec()*max(n.GetDef().GetThreadsPerCore(), 1)), nodeCPUs(n))
}

// effectiveCPUs are how many CPUs of a node jobs may have.
func effectiveCPUs(n *projections.Node) int { return nodeCPUs(n) - keptCPUs(n) }

// keptForSystem is what of a node is kept for the system, as scontrol show node has it; empty: nothing.
func keptForSystem(n *projections.Node) string {
	var words []string
	if k, all := keptCPUs(n), nodeCPUs(n); k > 0 {
		ids := strconv.Itoa(all - k)
		if k > 1 {
			ids += "-" + strconv.Itoa(all-1)
		}
		words = append(words, "CoreSpecCount="+u32(n.GetDef().GetCoreSpec()), "CPUSpecList="+ids)
	}
	if m := n.GetDef().GetMemSpecMib(); m > 0 {
		words = append(words, fmt.Sprintf("MemSpecLimit=%d", m))
	}
	return strings.Join(words, " ")
}

func nodeMemory(n *projections.Node) uint64 {
	if m := n.GetDef().GetMemoryMib(); m > 0 {
		return m
	}
	return n.GetInventory().GetMemoryMib()
}

func nodeDisk(n *projections.Node) uint64 {
	if m := n.GetDef().GetTmpDiskMib(); m > 0 {
		return m
	}
	return n.GetInventory().GetTmpDiskMib()
}

// shape is sockets, cores and threads of a node.
func shape(n *projections.Node) (sockets, cores, threads uint32) {
	d, i := n.GetDef(), n.GetInventory()
	pick := func(a, b uint32) uint32 {
		if a > 0 {
			return a
		}
		return max(b, 1)
	}
	return pick(d.GetSockets(), i.GetSockets()), pick(d.GetCoresPerSocket(), i.GetCoresPerSocket()), pick(d.GetThreadsPerCore(), i.GetThreadsPerCore())
}

// usable says whether what is free on the node can be had.
func usable(n *projections.Node) bool {
	return n.GetUp() && !n.GetDown() && !n.GetDrain() && !n.GetFail() && !n.GetInvalid()
}

// nodeGres is what a node has: `gpu:a100:4`.
func nodeGres(n *projections.Node) string {
	var terms []string
	for _, g := range mergedGres(n) {
		t := g.name
		if g.kind != "" {
			t += ":" + g.kind
		}
		terms = append(terms, fmt.Sprintf("%s:%d", t, g.count))
	}
	return null(strings.Join(terms, ","))
}

// nodeGresUsed is what of it is in use: `gpu:a100:2(IDX:0-1)`.
func nodeGresUsed(n *projections.Node) string {
	var terms []string
	for _, g := range mergedGres(n) {
		t := g.name
		if g.kind != "" {
			t += ":" + g.kind
		}
		index := g.used.String()
		if index == "" {
			index = "N/A"
		}
		terms = append(terms, fmt.Sprintf("%s:%d(IDX:%s)", t, g.used.Len(), index))
	}
	if terms == nil {
		return "gpu:0"
	}
	return strings.Join(terms, ",")
}

type gresSum struct {
	name, kind string
	count      uint64
	used       idset.Set
}

func mergedGres(n *projections.Node) []gresSum {
	var sums []gresSum
	find := func(name, kind string) *gresSum {
		for i := range sums {
			if sums[i].name == name && sums[i].kind == kind {
				return &sums[i]
			}
		}
		sums = append(sums, gresSum{name: name, kind: kind})
		return &sums[len(sums)-1]
	}
	if len(n.GetGres()) > 0 {
		for _, g := range n.GetGres() {
			s := find(g.GetName(), g.GetType())
			s.count += g.GetCount()
			s.used = s.used.Union(idset.FromWords(g.GetUsed()))
		}
		return sums
	}
	for _, g := range n.GetDef().GetGres() {
		find(g.GetName(), g.GetType()).count += g.GetCount()
	}
	return sums
}

// nodeTres is all a node has, or what of it is allocated.
func nodeTres(n *projections.Node, allocated bool) tres.List {
	var l tres.List
	if allocated {
		cpus := events.Words(n.GetCpusUsed()).Count()
		if cpus > 0 {
			l.Set("cpu", int64(cpus))
		}
		if m := n.GetMemoryUsedMib(); m > 0 {
			l.Set("mem", int64(m))
		}
	} else {
		l.Set("cpu", int64(effectiveCPUs(n)))
		l.Set("mem", int64(nodeMemory(n)))
		l.Set("billing", int64(effectiveCPUs(n)))
	}
	for _, g := range mergedGres(n) {
		c := int64(g.count)
		if allocated {
			c = int64(g.used.Len())
		}
		if c > 0 {
			addGres(&l, g.name, g.kind, c)
		}
	}
	return l
}

func nodeFeatures(n *projections.Node) string {
	return null(strings.Join(n.GetDef().GetFeatures(), ","))
}

func activeFeatures(n *projections.Node) string { return null(strings.Join(n.Features(), ",")) }

func nodeHost(n *projections.Node) string {
	if h := n.GetDef().GetHostNames(); h != "" {
		return h
	}
	return n.GetName()
}

func nodeAddr(n *projections.Node) string {
	if a := n.GetDef().GetAddresses(); a != "" {
		return a
	}
	if a := n.GetInventory().GetAddress(); a != "" {
		return a
	}
	return n.GetName()
}

// members are the nodes of a partition, in the order of the configuration.
func members(p *events.PartitionDef, nodes []*projections.Node) []*projections.Node {
	var out []*projections.Node
	if p.GetNodes() == "ALL" {
		for _, n := range nodes {
			if !n.GetRemoved() {
				out = append(out, n)
			}
		}
		return out
	}
	names, err := hostlist.Expand(p.GetNodes(), hostlist.MaxHosts)
	if err != nil {
		return nil
	}
	in := make(map[string]bool, len(names))
	for _, name := range names {
		in[name] = true
	}
	for _, n := range nodes {
		if in[n.GetName()] {
			out = append(out, n)
		}
	}
	return out
}
