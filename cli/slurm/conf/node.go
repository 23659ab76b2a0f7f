package conf

import (
	"fmt"
	"strings"

	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/hostlist"
	"stint/events/idset"
	"stint/events/tres"
)

// node is the nodes of one NodeName line that are alike.
type node struct {
	names []string
	addrs []string // as many as names, or none
	hosts []string
	def   *events.NodeDef
	at    line
}

// clone copies a node for some of its names.
func (n *node) clone(names []string) *node {
	def := n.def.CloneVT()
	return &node{names: names, def: def, at: n.at}
}

// maxNodes bounds the nodes of a cluster.
const maxNodes = hostlist.MaxHosts

var nodeKeys = once.Value[[]string]{Make: func() []string {
	return strings.Fields(`NodeName NodeHostname NodeAddr Port CPUs Procs Boards Sockets SocketsPerBoard CoresPerSocket ThreadsPerCore RealMemory
	TmpDisk Feature Features Gres Weight State Reason MemSpecLimit CoreSpecCount CpuSpecList CpuBind BcastAddr Parameters RestrictedCoresPerGPU Topology
	SuspendTime TopologyLevel`)

}}

func (b *builder) nodeLine(r record) error {
	if strings.EqualFold(r.name, "DEFAULT") {
		b.nodeBase = append(b.nodeBase, r.pairs...)
		_, err := b.nodeDef(record{"DEFAULT", b.nodeBase, r.at}, []string{"DEFAULT"})
		return err
	}
	names, err := hostlist.Expand(r.name, maxNodes-len(b.nodeOf))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("NodeName names no node")
	}
	r.pairs = append(append([]pair(nil), b.nodeBase...), r.pairs...)
	n, err := b.nodeDef(r, names)
	if err != nil {
		return fmt.Errorf("NodeName=%s: %w", clip(r.name), err)
	}
	for _, name := range names {
		if other, twice := b.nodeOf[name]; twice {
			return fmt.Errorf("the node %s is defined twice, here and at %s", name, other.at.where())
		}
		b.nodeOf[name] = n
	}
	b.nodes = append(b.nodes, n)
	return nil
}

func (b *builder) nodeDef(r record, names []string) (*node, error) {
	def := &events.NodeDef{}
	n := &node{names: names, def: def, at: r.at}
	var socketsPerBoard uint32
	kept := "" // CpuSpecList
	count := func(v string, to *uint32) error {
		x, err := whole(v, 1, 1<<20)
		*to = uint32(x)
		return err
	}
	perHost := func(v string, to *[]string) error {
		hosts, err := hostlist.Expand(v, maxNodes)
		if err == nil && len(hosts) != 1 && len(hosts) != len(names) && names[0] != "DEFAULT" {
			err = fmt.Errorf("%d names for %d nodes", len(hosts), len(names))
		}
		*to = hosts
		return err
	}
	for _, p := range r.pairs {
		var err error
		switch strings.ToLower(p.key) {
		case "nodehostname":
			err = perHost(p.value, &n.hosts)
		case "nodeaddr":
			err = perHost(p.value, &n.addrs)
		case "port":
			// A list gives every node a port of its own; the nodes of one machine are told apart by name here.
			if strings.ContainsAny(p.value, "[,-") {
				if def.Ports, err = ports(p.value, len(names)); err == nil {
					b.Notes = append(b.Notes, Note{"Port", p.value, r.at.where(), Mapped, "nodes are found through the bus"})
				}
				break
			}
			var x uint64
			x, err = whole(p.value, 1, 65535)
			def.Port = uint32(x)
		case "cpus", "procs":
			err = count(p.value, &def.Cpus)
		case "boards":
			err = count(p.value, &def.Boards)
		case "sockets":
			err = count(p.value, &def.Sockets)
		case "socketsperboard":
			err = count(p.value, &socketsPerBoard)
		case "corespersocket":
			err = count(p.value, &def.CoresPerSocket)
		case "threadspercore":
			err = count(p.value, &def.ThreadsPerCore)
		case "realmemory":
			def.MemoryMib, err = mebibytes(p.value)
		case "tmpdisk":
			def.TmpDiskMib, err = mebibytes(p.value)
		case "memspeclimit":
			def.MemSpecMib, err = mebibytes(p.value)
		case "cpuspeclist":
			kept = p.value
		case "corespeccount":
			var x uint64
			x, err = whole(p.value, 0, 1<<16)
			def.CoreSpec = uint32(x)
		case "weight":
			var x uint64
			x, err = whole(p.value, 0, 1<<32-2)
			def.Weight = uint32(x)
		case "feature", "features":
			def.Features = list(p.value)
		case "gres":
			def.Gres, err = nodeGres(p.value)
			for _, g := range def.Gres {
				if g.Name == "mps" || g.Name == "shard" {
					b.Notes = append(b.Notes, Note{p.key, g.Name, r.at.where(), Harmless, "a GPU is not shared among jobs yet: requests for it are refused"})
				}
			}
		case "state":
			def.State, err = nodeState(p.value)
		case "reason":
			def.Reason = p.value
		case "cpubind", "bcastaddr", "parameters", "restrictedcorespergpu", "topology", "suspendtime", "topologylevel":
			b.Notes = append(b.Notes, Note{p.key, p.value, r.at.where(), Harmless, "it has no effect yet"})
		default:
			err = fmt.Errorf("unrecognized key%s", nearOf(p.key, nodeKeys.Get()))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.key, err)
		}
	}
	if socketsPerBoard > 0 && def.Sockets == 0 {
		def.Sockets = socketsPerBoard * max(def.Boards, 1)
	}
	if err := b.shape(n); err != nil || kept == "" || strings.EqualFold(r.name, "DEFAULT") {
		return n, err
	}
	return n, keep(def, kept)
}

// keep sets the cores aside for the system that a CpuSpecList names: any CPU of a core means all of it. They have to be the last
// ones of the node, as those of a CoreSpecCount are.
func keep(d *events.NodeDef, list string) error {
	threads := max(d.ThreadsPerCore, 1)
	cpus := d.Cpus
	if cpus == 0 {
		cpus = max(d.Sockets, 1) * max(d.CoresPerSocket, 1) * threads
	}
	ids, err := idset.Parse(list, int(max(cpus, 1))-1)
	if err != nil {
		return fmt.Errorf("CpuSpecList: %w", err)
	}
	cores := map[uint32]bool{}
	for _, id := range events.Words(ids.Words()).List() {
		cores[id/threads] = true
	}
	n := uint32(len(cores))
	for c := range cores {
		if c < cpus/threads-n {
			return fmt.Errorf("CpuSpecList=%s is not supported yet: the cores kept for the system are the last ones of a node; CpuSpecList=%d-%d keeps as many", clip(list), cpus-n*threads, cpus-1)
		}
	}
	d.CoreSpec = n
	return nil
}

// ports reads a list of ports, one for each of n nodes: [17001-17004].
func ports(v string, n int) ([]uint32, error) {
	list, err := hostlist.Expand("p"+v, maxNodes)
	if err != nil {
		return nil, err
	}
	if len(list) != n {
		return nil, fmt.Errorf("%d ports for %d nodes", len(list), n)
	}
	numbers := make([]uint32, n)
	for i, word := range list {
		x, err := whole(word[1:], 1, 65535)
		if err != nil {
			return nil, err
		}
		numbers[i] = uint32(x)
	}
	return numbers, nil
}

// shape completes the counts of sockets, cores, threads and CPUs from those that are given; none given leaves all to what
// the executor finds.
func (b *builder) shape(n *node) error {
	d := n.def
	if d.Cpus == 0 && d.Sockets == 0 && d.CoresPerSocket == 0 && d.ThreadsPerCore == 0 {
		return nil
	}
	d.Boards, d.CoresPerSocket, d.ThreadsPerCore = max(d.Boards, 1), max(d.CoresPerSocket, 1), max(d.ThreadsPerCore, 1)
	perSocket := uint64(d.CoresPerSocket) * uint64(d.ThreadsPerCore)
	if d.Sockets == 0 {
		d.Sockets = max(1, uint32(uint64(d.Cpus)/perSocket))
	}
	total := uint64(d.Sockets) * perSocket
	switch {
	case total > 1<<16:
		return fmt.Errorf("%d CPUs are more than the %d a node can have", total, 1<<16)
	case d.Cpus == 0:
		d.Cpus = uint32(total)
	case uint64(d.Cpus) > total:
		return fmt.Errorf("CPUs=%d is more than %d sockets of %d cores with %d threads have", d.Cpus, d.Sockets, d.CoresPerSocket, d.ThreadsPerCore)
	case uint64(d.Cpus) < total && uint64(d.Cpus) != total/uint64(d.ThreadsPerCore):
		return fmt.Errorf("CPUs=%d is neither the %d threads nor the %d cores of the node", d.Cpus, total, total/uint64(d.ThreadsPerCore))
	}
	if uint64(d.Cpus) < total { // CPUs= counts cores: threads beyond the first are not used
		d.ThreadsPerCore = 1
	}
	return nil
}

// nodeStates are what State= of a NodeName or DownNodes line may say.
var nodeStates = once.Value[[]string]{Make: func() []string {
	return strings.Fields("UNKNOWN CLOUD DOWN DRAIN FAIL FAILING FUTURE IDLE DYNAMIC")

}}

func nodeState(v string) (string, error) {
	up := strings.ToUpper(v)
	for _, s := range nodeStates.Get() {
		if s == up {
			switch s {
			case "CLOUD", "FUTURE", "DYNAMIC", "FAIL", "FAILING":
				return "", fmt.Errorf("nodes of state %s are not supported yet", s)
			case "IDLE":
				s = "UNKNOWN"
			}
			return s, nil
		}
	}
	return "", fmt.Errorf("%q is not a state: known are %s%s", clip(v), strings.Join(nodeStates.Get(), ", "), nearOf(up, nodeStates.Get()))
}

func mebibytes(v string) (uint64, error) {
	if strings.EqualFold(v, "UNLIMITED") || strings.EqualFold(v, "INFINITE") {
		return 0, nil
	}
	n, err := tres.ParseMemory(v)
	return uint64(n), err
}

// applyDown lets DownNodes lines set state and reason.
func (b *builder) applyDown() error {
	for _, r := range b.down {
		names, err := hostlist.Expand(r.name, maxNodes)
		if err != nil {
			return fmt.Errorf("%s: DownNodes: %w", r.at.where(), err)
		}
		state, reason := "DOWN", ""
		for _, p := range r.pairs {
			switch strings.ToLower(p.key) {
			case "state":
				if state, err = nodeState(p.value); err != nil {
					return fmt.Errorf("%s: DownNodes: %w", r.at.where(), err)
				}
			case "reason":
				reason = p.value
			default:
				return fmt.Errorf("%s: DownNodes: unrecognized key %s: known are State and Reason", r.at.where(), p.key)
			}
		}
		all := len(names) == 1 && strings.EqualFold(names[0], "ALL")
		chosen := map[string]bool{}
		for _, name := range names {
			if b.nodeOf[name] == nil && !all {
				return fmt.Errorf("%s: DownNodes: there is no node %s", r.at.where(), name)
			}
			chosen[name] = true
		}
		b.split(func(name string) string {
			if all || chosen[name] {
				return "down"
			}
			return ""
		}, func(n *node, key string) error {
			if key != "" {
				n.def.State, n.def.Reason = state, reason
			}
			return nil
		})
	}
	return nil
}

// split cuts every node group into runs of names with equal keys, and lets change alter each run.
func (b *builder) split(keyOf func(name string) string, change func(n *node, key string) error) error {
	var out []*node
	for _, n := range b.nodes {
		for i := 0; i < len(n.names); {
			j, key := i+1, keyOf(n.names[i])
			for j < len(n.names) && keyOf(n.names[j]) == key {
				j++
			}
			part := n
			if i > 0 || j < len(n.names) {
				part = n.clone(n.names[i:j])
				part.addrs, part.hosts = cutList(n.addrs, i, j), cutList(n.hosts, i, j)
				if len(n.def.Ports) > 0 {
					part.def.Ports = n.def.Ports[i:j]
				}
			}
			if err := change(part, key); err != nil {
				return fmt.Errorf("%s: %w", n.at.where(), err)
			}
			out = append(out, part)
			i = j
		}
	}
	b.nodes = out
	for _, n := range out {
		for _, name := range n.names {
			b.nodeOf[name] = n
		}
	}
	return nil
}

func cutList(l []string, i, j int) []string {
	if len(l) <= 1 {
		return l
	}
	return l[i:j]
}

func (b *builder) finishNodes() error {
	if err := b.joinGres(); err != nil {
		return err
	}
	types := map[string]bool{}
	for _, t := range b.Config.GresTypes {
		types[t] = true
	}
	for _, n := range b.nodes {
		d := n.def
		d.Names = hostlist.Compress(n.names)
		d.Addresses, d.HostNames = hostlist.Compress(n.addrs), hostlist.Compress(n.hosts)
		// Several nodes behind one address share its machine.
		d.AsConfigured = b.overrides
		d.Virtual = len(n.names) > 1 && len(n.addrs) == 1 || sameAddress(n.addrs)
		if d.Weight == 0 {
			d.Weight = 1
		}
		for _, g := range d.Gres {
			if !types[g.Name] {
				return fmt.Errorf("%s: the nodes %s have %s, which GresTypes does not name", n.at.where(), d.Names, g.Name)
			}
		}
		b.Config.Nodes = append(b.Config.Nodes, d)
	}
	return nil
}

func sameAddress(addrs []string) bool {
	for _, a := range addrs {
		if a != addrs[0] {
			return false
		}
	}
	return len(addrs) > 1
}
