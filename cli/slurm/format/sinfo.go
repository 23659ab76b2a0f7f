package format

import (
	"cmp"
	"fmt"
	"sort"
	"strings"
	"time"

	"stint/cli/slurm"
	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
)

// Group is a row of sinfo: nodes of a partition that look alike in all columns shown. Without a column about partitions,
// Partition is nil.
type Group struct {
	Partition *events.PartitionDef
	place     int // of the partition in the configuration
	shared    int // another partition that has nodes in it, the last one so far; 0: none
	Nodes     []Nodes
	Context   *NodeContext
}

// NodeContext is what the rows of one answer about nodes have in common.
type NodeContext struct {
	Context
	UserName func(uid uint32) string           // nil: numbers are shown
	Sees     func(p *events.PartitionDef) bool // whether the caller is shown a partition; nil: those that are not hidden
	Config   *events.Config                    // of the cluster; nil: Slurm's defaults
	Now      map[string]*projections.NodeNow   // by node: what it said of the moment
	Named    bool                              // the cluster was asked for by name
}

// setting is a key of the cluster's configuration as its file has it, or otherwise.
func (c *NodeContext) setting(key, otherwise string) string {
	if c.Config != nil {
		for _, s := range c.Config.GetSettings() {
			if strings.EqualFold(s.GetKey(), key) && s.GetValue() != "" {
				return s.GetValue()
			}
		}
	}
	return otherwise
}

// preemptMode is how jobs of a partition are preempted: as it says itself, else as the cluster does.
func (c *NodeContext) preemptMode(p *events.PartitionDef) string {
	if p.GetPreemptMode() != "" {
		return p.GetPreemptMode()
	}
	return strings.ToUpper(c.setting("PreemptMode", "OFF"))
}

// load is a node's load of the last minute, and free its free memory in MiB; N/A where it said nothing.
func (c *NodeContext) load(n *projections.Node) string {
	if now := c.Now[n.GetName()]; now != nil {
		return fmt.Sprintf("%.2f", float64(now.LoadHundredths)/100)
	}
	return "N/A"
}

func (c *NodeContext) free(n *projections.Node) string {
	if now := c.Now[n.GetName()]; now != nil {
		return fmt.Sprint(now.FreeMemoryMib)
	}
	return "N/A"
}

// momentSpan makes a field of a figure of the moment: of several nodes the least and the most.
func momentSpan(value func(*projections.NodeNow) float64, text func(*NodeContext, *projections.Node) string) func(Group) string {
	return func(g Group) string {
		var least, most *projections.Node
		for _, some := range g.Nodes {
			n := some.Node
			now := g.Context.Now[n.GetName()]
			if now == nil {
				continue
			}
			if least == nil || value(now) < value(g.Context.Now[least.GetName()]) {
				least = n
			}
			if most == nil || value(now) > value(g.Context.Now[most.GetName()]) {
				most = n
			}
		}
		if least == nil {
			return "N/A"
		}
		lo, hi := text(g.Context, least), text(g.Context, most)
		if lo == hi {
			return lo
		}
		return lo + "-" + hi
	}
}

// port is where a node's daemon listens.
func port(n *projections.Node) uint32 {
	if p := n.GetDef().GetPort(); p != 0 {
		return p
	}
	return slurmdPort
}

// slurmdPort is the port of Slurm's node daemon where nothing is said.
const slurmdPort = 6818

func (c *NodeContext) sees(p *events.PartitionDef) bool {
	if c.Sees != nil {
		return c.Sees(p)
	}
	return !p.GetHidden()
}

func (c *NodeContext) user(uid uint32) string {
	if c.UserName != nil {
		if name := c.UserName(uid); name != "" {
			return name
		}
	}
	return u32(uid)
}

// SinfoFormat is the layout of sinfo without -o and -O.
func SinfoFormat(q *slurm.Sinfo, r slurm.Release) string {
	switch {
	case q.Summarize:
		return "%#9P %.5a %.10l %.16F %N"
	case q.PerNode && q.Long:
		return "%#9N %.6D %.#9P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
	case q.PerNode:
		return "%#9N %.6D %.#9P %6t"
	case q.Reasons && q.Long:
		return "%20E %12U %19H %6t %N"
	case q.Reasons:
		return "%20E %9u %19H %N"
	case q.Long && r >= 2405:
		return "%#9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %.11i %N"
	case q.Long:
		return "%#9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
	}
	return "%#9P %.5a %.10l %.6D %.6t %N"
}

// DateLine is the line before long listings.
func DateLine(now time.Time) string { return now.Format("Mon Jan 02 15:04:05 2006") + "\n" }

// partition makes a field of one of partitions.
func partitionField(get func(*events.PartitionDef) string) func(Group) string {
	return func(g Group) string {
		if g.Partition == nil {
			return "n/a"
		}
		return get(g.Partition)
	}
}

// first makes a field of what all nodes of a group share.
func firstNode(get func(*projections.Node) string) func(Group) string {
	return func(g Group) string {
		if len(g.Nodes) == 0 {
			return ""
		}
		return get(g.Nodes[0].Node)
	}
}

// least makes a field of a number: the least of the nodes, with a plus if others have more.
func least(get func(*projections.Node) uint64) func(Group) string {
	return func(g Group) string {
		if len(g.Nodes) == 0 {
			return "0"
		}
		lo, hi := get(g.Nodes[0].Node), get(g.Nodes[0].Node)
		for _, n := range g.Nodes {
			lo, hi = min(lo, get(n.Node)), max(hi, get(n.Node))
		}
		if hi > lo {
			return fmt.Sprintf("%d+", lo)
		}
		return fmt.Sprint(lo)
	}
}

func leastOrder(get func(*projections.Node) uint64) func(Group) int64 {
	return func(g Group) int64 {
		if len(g.Nodes) == 0 {
			return 0
		}
		lo := get(g.Nodes[0].Node)
		for _, n := range g.Nodes {
			lo = min(lo, get(n.Node))
		}
		return int64(lo)
	}
}

// count is how many nodes it has.
func (g Group) count() (n int) {
	for _, some := range g.Nodes {
		n += some.count
	}
	return n
}

func (g Group) state(get func(NodeState) string) string {
	if len(g.Nodes) == 0 {
		return "n/a"
	}
	return get(StateOf(g.Nodes[0].Node))
}

func (g Group) list() string {
	lists := make([]string, len(g.Nodes))
	for i, n := range g.Nodes {
		lists[i] = n.names
	}
	return hostlist.JoinSorted(lists)
}

// nodeCounts are how many nodes are allocated, idle, neither, and all.
func (g Group) nodeCounts() (alloc, idle, other, total int) {
	for _, n := range g.Nodes {
		switch busy := !events.Words(n.GetCpusUsed()).Empty(); {
		case busy && !n.GetDown():
			alloc += n.count
		case usable(n.Node):
			idle += n.count
		default:
			other += n.count
		}
	}
	return alloc, idle, other, g.count()
}

func (g Group) cpuCounts() (alloc, idle, other, total int) {
	for _, n := range g.Nodes {
		all, used := n.count*nodeCPUs(n.Node), n.count*events.Words(n.GetCpusUsed()).Count()
		alloc, total = alloc+used, total+all
		if usable(n.Node) {
			idle += all - used
		} else {
			other += all - used
		}
	}
	return alloc, idle, other, total
}

func slashes(n ...int) string {
	words := make([]string, len(n))
	for i, x := range n {
		words[i] = fmt.Sprint(x)
	}
	return strings.Join(words, "/")
}

// reasonOf is why a node is not in order, `none` if it is.
func reasonOf(n *projections.Node) string {
	if n.GetReason() == "" {
		return "none"
	}
	return n.GetReason()
}

func boolWord(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// shared says whether CPUs of a partition may be shared.
func shared(p *events.PartitionDef) string {
	if p.GetOversubscribe() == "" {
		return "NO"
	}
	return p.GetOversubscribe()
}

func allOr(list []string) string {
	if len(list) == 0 {
		return "all"
	}
	return strings.Join(list, ",")
}

// Letters of fields that are the same for all nodes of a row: of partitions, of nodes, and of numbers that --exact tells apart.
const (
	partitionLetters = "PRalsrhgpILMBS"
	nodeLetters      = "tTfbGEHuUnoviV"
	exactLetters     = "cdmwXYZz"
)

// SinfoFieldsOf is what sinfo of a release can print.
func SinfoFieldsOf(r slurm.Release) Fields[Group] {
	if r > slurm.Release2205 {
		return SinfoFields.Get()
	}
	return SinfoFields.Get().without("Reservation")
}

// SinfoFields is everything sinfo can print.
var SinfoFields = once.Value[Fields[Group]]{Make: func() Fields[Group] {
	return Fields[Group]{
		{'P', "Partition", "PARTITION", partitionField(func(p *events.PartitionDef) string {
			if p.GetDefault() {
				return p.GetName() + "*"
			}
			return p.GetName()
		}), nil},
		{'R', "PartitionName", "PARTITION", partitionField((*events.PartitionDef).GetName), nil},
		{'a', "Available", "AVAIL", partitionField(func(p *events.PartitionDef) string {
			return [...]string{"up", "down", "drain", "inactive"}[min(int(p.GetState()), 3)]
		}), nil},
		{'l', "Time", "TIMELIMIT", partitionField(func(p *events.PartitionDef) string { return limitOr(p.GetMaxTimeS(), "infinite") }), func(g Group) int64 { return int64(g.Partition.GetMaxTimeS()) }},
		{'L', "DefaultTime", "DEFAULTTIME", partitionField(func(p *events.PartitionDef) string {
			if p.GetDefaultTimeS() == 0 {
				return "n/a"
			}
			return limitOr(p.GetDefaultTimeS(), "infinite")
		}), nil},
		{'s', "Size", "JOB_SIZE", partitionField(func(p *events.PartitionDef) string {
			lo, hi := max(p.GetMinNodes(), 1), p.GetMaxNodes()
			switch {
			case hi == events.Unlimited || hi == 0:
				return fmt.Sprintf("%d-infinite", lo)
			case hi == lo:
				return u32(lo)
			}
			return fmt.Sprintf("%d-%d", lo, hi)
		}), nil},
		{'r', "Root", "ROOT", partitionField(func(p *events.PartitionDef) string { return boolWord(p.GetRootOnly()) }), nil},
		{'h', "OverSubscribe", "OVERSUBSCRIBE", partitionField(shared), nil},
		{0, "Share", "OVERSUBSCRIBE", partitionField(shared), nil},
		{'g', "Groups", "GROUPS", partitionField(func(p *events.PartitionDef) string { return allOr(p.GetAllowGroups()) }), nil},
		{'p', "PriorityTier", "PRIO_TIER", partitionField(func(p *events.PartitionDef) string { return u32(p.GetPriorityTier()) }), func(g Group) int64 { return int64(g.Partition.GetPriorityTier()) }},
		{'I', "PriorityJobFactor", "PRIO_JOB_FACTOR", partitionField(func(p *events.PartitionDef) string { return u32(p.GetPriorityJobFactor()) }), func(g Group) int64 { return int64(g.Partition.GetPriorityJobFactor()) }},
		{'M', "PreemptMode", "PREEMPT_MODE", func(g Group) string {
			return partitionField(g.Context.preemptMode)(g)
		}, nil},
		{'B', "MaxCPUsPerNode", "MAX_CPUS_PER_NODE", partitionField(func(p *events.PartitionDef) string {
			if p.GetMaxCpusPerNode() == 0 {
				return "UNLIMITED"
			}
			return u32(p.GetMaxCpusPerNode())
		}), nil},
		{'S', "AllocNodes", "ALLOCNODES", partitionField(func(p *events.PartitionDef) string { return cmp.Or(p.GetAllocNodes(), "all") }), nil},

		{'t', "StateCompact", "STATE", func(g Group) string { return g.state(func(s NodeState) string { return s.Compact }) }, groupState},
		{'T', "StateLong", "STATE", func(g Group) string { return g.state(func(s NodeState) string { return s.Long }) }, groupState},
		{0, "StateComplete", "STATECOMPLETE", func(g Group) string { return g.state(func(s NodeState) string { return s.Complete }) }, groupState},
		{'N', "NodeList", "NODELIST", Group.list, nil},
		{'n', "NodeHost", "HOSTNAMES", firstNode(nodeHost), nil},
		{'o', "NodeAddr", "NODE_ADDR", firstNode(nodeAddr), nil},
		{0, "Port", "PORT", firstNode(func(n *projections.Node) string { return u32(port(n)) }), nil},
		{'D', "Nodes", "NODES", func(g Group) string { return fmt.Sprint(g.count()) }, func(g Group) int64 { return int64(g.count()) }},
		{'A', "NodeAI", "NODES(A/I)", func(g Group) string { a, i, _, _ := g.nodeCounts(); return slashes(a, i) }, nil},
		{'F', "NodeAIOT", "NODES(A/I/O/T)", func(g Group) string { return slashes(four(g.nodeCounts())...) }, nil},
		{'C', "CPUsState", "CPUS(A/I/O/T)", func(g Group) string { return slashes(four(g.cpuCounts())...) }, nil},
		{'c', "CPUs", "CPUS", least(cpusOf), leastOrder(cpusOf)},
		{'d', "Disk", "TMP_DISK", least(nodeDisk), leastOrder(nodeDisk)},
		{'m', "Memory", "MEMORY", least(nodeMemory), leastOrder(nodeMemory)},
		{'w', "Weight", "WEIGHT", least(func(n *projections.Node) uint64 { return uint64(n.GetDef().GetWeight()) }), leastOrder(func(n *projections.Node) uint64 { return uint64(n.GetDef().GetWeight()) })},
		{'X', "Sockets", "SOCKETS", least(socketsOf), nil},
		{'Y', "Cores", "CORES", least(coresOf), nil},
		{'Z', "Threads", "THREADS", least(threadsOf), nil},
		{'z', "SocketCoreThread", "S:C:T", func(g Group) string { return least(socketsOf)(g) + ":" + least(coresOf)(g) + ":" + least(threadsOf)(g) }, nil},
		{0, "AllocMem", "ALLOCMEM", firstNode(func(n *projections.Node) string { return fmt.Sprint(n.GetMemoryUsedMib()) }), nil},
		{'e', "FreeMem", "FREE_MEM", momentSpan(func(n *projections.NodeNow) float64 { return float64(n.FreeMemoryMib) }, (*NodeContext).free), nil},
		{'O', "CPUsLoad", "CPU_LOAD", momentSpan(func(n *projections.NodeNow) float64 { return float64(n.LoadHundredths) }, (*NodeContext).load), nil},
		{'f', "Features", "AVAIL_FEATURES", firstNode(nodeFeatures), nil},
		{'b', "features_act", "ACTIVE_FEATURES", firstNode(activeFeatures), nil},
		{'G', "Gres", "GRES", firstNode(nodeGres), nil},
		{0, "GresUsed", "GRES_USED", firstNode(nodeGresUsed), nil},
		{'E', "Reason", "REASON", firstNode(reasonOf), nil},
		{'H', "TimeStamp", "TIMESTAMP", func(g Group) string {
			return firstNode(func(n *projections.Node) string { return g.Context.Clock.Time(n.GetReasonUs(), "Unknown") })(g)
		}, func(g Group) int64 {
			if len(g.Nodes) == 0 {
				return 0
			}
			return g.Nodes[0].GetReasonUs()
		}},
		{'u', "User", "USER", func(g Group) string { return g.reasonUser(false) }, nil},
		{'U', "UserLong", "USER", func(g Group) string { return g.reasonUser(true) }, nil},
		{'i', "Reservation", "RESERVATION", fixedText[Group](""), nil},
		{'v', "Version", "VERSION", func(g Group) string { return g.Context.Release.Number() }, nil},
		{'V', "Cluster", "CLUSTER", func(g Group) string {
			if !g.Context.Named {
				return "N/A"
			}
			return orNA(g.Context.Cluster)
		}, nil},
		{0, "Comment", "COMMENT", firstNode(func(n *projections.Node) string { return null(n.GetComment()) }), nil},
		{0, "Extra", "EXTRA", fixedText[Group]("(null)"), nil},
	}

}}

func four(a, b, c, d int) []int { return []int{a, b, c, d} }

func socketsOf(n *projections.Node) uint64 { s, _, _ := shape(n); return uint64(s) }
func coresOf(n *projections.Node) uint64   { _, c, _ := shape(n); return uint64(c) }
func threadsOf(n *projections.Node) uint64 { _, _, t := shape(n); return uint64(t) }

func cpusOf(n *projections.Node) uint64 { return uint64(nodeCPUs(n)) }

func groupState(g Group) int64 {
	if len(g.Nodes) == 0 {
		return -1
	}
	return StateOf(g.Nodes[0].Node).order
}

func limitOr(seconds uint32, unlimited string) string {
	if seconds == events.Unlimited || seconds == 0 {
		return unlimited
	}
	return Short(int64(seconds))
}

func (g Group) reasonUser(long bool) string {
	uid := uint32(0) // of no node it is nobody's, and shown as root's
	if len(g.Nodes) > 0 {
		if g.Nodes[0].GetReason() == "" {
			return "Unknown"
		}
		uid = g.Nodes[0].GetReasonUid()
	}
	if long {
		return fmt.Sprintf("%s(%d)", g.Context.user(uid), uid)
	}
	return g.Context.user(uid)
}

// Groups makes the rows of sinfo: for each partition asked for, the nodes asked for, those together that look alike in every
// column of the layout.
func Groups(q *slurm.Sinfo, l Layout[Group], answer *projections.AnswerNodes, c *NodeContext) []Group {
	wanted := nodeFilter(q)
	byPartition := l.Has(partitionLetters) || l.HasName("Available", "DefaultTime", "Root", "Share", "PartitionName", "Partition", "Time", "Size", "OverSubscribe", "Groups", "PriorityTier", "PriorityJobFactor", "PreemptMode", "MaxCPUsPerNode", "AllocNodes")
	key, where := alike(q, l), l.partitionKey(c)
	named := l.Has("PR") || l.HasName("Partition", "PartitionName")
	asked := map[string]bool{}
	for _, p := range q.Partitions {
		asked[p] = true
	}
	all := nodesOf(answer, q.PerNode || q.Nodes != "")
	var groups []Group
	index := map[string]int{}
	seen := map[string]bool{}
	type entry struct {
		group int
		first string
	}
	var more map[entry]bool // what groups of several partitions have
	for place, p := range answer.GetPartitions() {
		if len(asked) > 0 && !asked[p.GetName()] || len(asked) == 0 && !q.All && !c.sees(p) {
			continue
		}
		before := len(groups)
		found := false
		for _, n := range all.of(p) {
			if !wanted(n) {
				continue
			}
			found = true
			k := ""
			switch {
			case q.PerNode:
				k = fmt.Sprint(place, "\x00", n.names)
			case byPartition:
				if k = key(n.Node); !q.Reasons { // reasons are of nodes, whatever partitions these are in
					k = where(p) + k
				}
			case seen[n.names]:
				continue
			default:
				k = key(n.Node)
				seen[n.names] = true
			}
			i, there := index[k]
			if !there {
				i = len(groups)
				index[k] = i
				g := Group{place: place, Context: c}
				if byPartition || q.PerNode {
					g.Partition = p
				}
				groups = append(groups, g)
			}
			if groups[i].place != place { // of several partitions that look alike a node counts once
				if more == nil {
					more = map[entry]bool{}
				}
				if groups[i].shared != place {
					groups[i].shared = place
					for _, have := range groups[i].Nodes {
						more[entry{i, have.names}] = true
					}
				}
				if more[entry{i, n.names}] {
					continue
				}
			}
			groups[i].Nodes = append(groups[i].Nodes, n)
		}
		if !found && named && !q.PerNode && before == len(groups) && (!q.Reasons || len(groups) == 0) {
			groups = append(groups, Group{Partition: p, place: place, Context: c})
		}
	}
	return groups
}

// partitionKey makes the key under which partitions share rows: what the columns show of a partition.
func (l Layout[R]) partitionKey(c *NodeContext) func(*events.PartitionDef) string {
	var shown []*Field[Group]
	for i := range l.columns {
		if f, ok := any(l.columns[i].field).(*Field[Group]); ok && f != nil && (f.Letter != 0 && strings.IndexByte(partitionLetters, f.Letter) >= 0 || f.Name == "Share") {
			shown = append(shown, f)
		}
	}
	return func(p *events.PartitionDef) string {
		var b strings.Builder
		for _, f := range shown {
			if f.Letter == 's' { // nothing said and one are shown alike, and are not
				fmt.Fprint(&b, p.GetMinNodes(), p.GetMaxNodes(), "\x00")
				continue
			}
			b.WriteString(f.Value(Group{Partition: p, Context: c}))
			b.WriteByte(0)
		}
		return b.String()
	}
}

// nodeFilter says which nodes were asked for.
func nodeFilter(q *slurm.Sinfo) func(Nodes) bool {
	names := map[string]bool{}
	if q.Nodes != "" {
		list, _ := hostlist.Expand(q.Nodes, hostlist.MaxHosts)
		for _, n := range list {
			names[n] = true
		}
	}
	return func(n Nodes) bool {
		if n.GetRemoved() || q.Nodes != "" && !names[n.names] || q.Dead && n.GetUp() || q.Responding && !n.GetUp() {
			return false
		}
		if q.Reasons && len(q.States) == 0 && n.GetReason() == "" {
			return false
		}
		if len(q.States) == 0 {
			return true
		}
		s := StateOf(n.Node)
		for _, w := range q.States {
			if s.Is(w) || w == "ALLOCATED" && s.Is("MIXED") {
				return true
			}
		}
		return false
	}
}

// alike makes the key under which nodes share a row: what the columns show of a node alone.
func alike(q *slurm.Sinfo, l Layout[Group]) func(*projections.Node) string {
	letters := nodeLetters
	if q.Exact {
		letters += exactLetters
	}
	var shown []*Field[Group]
	for i := range l.columns {
		f := l.columns[i].field
		if f == nil {
			continue
		}
		if f.Letter == 'C' && q.Exact {
			f = SinfoFields.Get().letter('c')
		}
		byName := false
		switch strings.ToLower(f.Name) {
		case "statecomplete", "allocmem", "gresused", "comment", "extra":
			byName = true
		}
		if byName || f.Letter != 0 && strings.IndexByte(letters, f.Letter) >= 0 {
			shown = append(shown, f)
		}
	}
	return func(n *projections.Node) string {
		g := Group{Nodes: []Nodes{{Node: n, count: 1}}, Context: &NodeContext{}}
		var b strings.Builder
		for _, f := range shown {
			b.WriteString(f.Value(g))
			b.WriteByte(0)
		}
		return b.String()
	}
}

// SortGroups puts the rows of sinfo in order: by -S if it is given, otherwise partitions as they are configured, then the more
// remarkable states first; per node by name.
func SortGroups(q *slurm.Sinfo, groups []Group) error {
	spec := q.Sort
	switch {
	case spec != "":
	case q.PerNode:
		spec = "N"
	case q.Reasons:
		spec = "-H"
	default:
		spec = "-t"
	}
	sorter, _, err := SinfoFields.Get().Sort(strings.ReplaceAll(spec, "#P", ""), SortRules{})
	if err != nil {
		return err
	}
	byPlace := q.Sort == "" && !q.PerNode && !q.Reasons || strings.HasPrefix(q.Sort, "#P")
	sort.SliceStable(groups, func(i, j int) bool {
		a, b := groups[i], groups[j]
		if byPlace && a.place != b.place {
			return a.place < b.place
		}
		if q.PerNode && q.Sort == "" && a.Nodes[0].names != b.Nodes[0].names {
			return a.Nodes[0].index < b.Nodes[0].index
		}
		if d := sorter.Compare(a, b); d != 0 {
			return d < 0
		}
		return a.place < b.place
	})
	return nil
}
