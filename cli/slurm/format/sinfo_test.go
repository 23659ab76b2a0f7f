package format

import (
	"strings"
	"testing"

	"stint/cli/slurm"
	"stint/events"
	"stint/projections"
)

func testNodes() *projections.AnswerNodes {
	node := func(name string, index uint32, features string, weight uint32, change func(*projections.Node)) *projections.Node {
		n := &projections.Node{Name: name, Index: index, Up: true, Def: &events.NodeDef{Names: name, Boards: 1, Sockets: 1, CoresPerSocket: 8, ThreadsPerCore: 1, Cpus: 8,
			MemoryMib: 16000, TmpDiskMib: 10000, Features: strings.Split(features, ","), Weight: weight, Addresses: "127.0.0.1", Port: 17000 + index + 1}}
		change(n)
		return n
	}
	gpus := func(used ...uint32) []*projections.NodeGres {
		return []*projections.NodeGres{{Name: "gpu", Type: "a100", Count: 4, Used: events.WordsOf(used...)}}
	}
	def := func(name, nodes string, change func(*events.PartitionDef)) *events.PartitionDef {
		p := &events.PartitionDef{Name: name, Nodes: nodes, MaxTimeS: events.Unlimited, MaxNodes: events.Unlimited, PriorityTier: 1, PriorityJobFactor: 1, Oversubscribe: "NO", PreemptMode: "REQUEUE"}
		if change != nil {
			change(p)
		}
		return p
	}
	return &projections.AnswerNodes{
		Nodes: []*projections.Node{
			node("n1", 0, "intel,avx2", 10, func(n *projections.Node) {
				n.CpusUsed, n.MemoryUsedMib, n.Jobs = events.WordsOf(0, 1, 2, 3, 4, 5, 6, 7), 800, []uint32{4, 5}
			}),
			node("n2", 1, "intel,avx2", 10, func(n *projections.Node) {
				n.CpusUsed, n.MemoryUsedMib, n.Jobs = events.WordsOf(0, 1, 2, 3, 4, 5), 700, []uint32{2, 4}
			}),
			node("n3", 2, "amd,gpu,a100", 20, func(n *projections.Node) {
				n.CpusUsed, n.MemoryUsedMib, n.Jobs, n.Gres = events.WordsOf(0), 100, []uint32{3}, gpus(0, 1)
			}),
			node("n4", 3, "amd,gpu,a100", 20, func(n *projections.Node) {
				n.Drain, n.Reason, n.ReasonUs, n.Gres = true, "disk failure", us("2026-11-30T13:53:47"), gpus()
			}),
		},
		Partitions: []*events.PartitionDef{
			def("compute", "n[1-4]", func(p *events.PartitionDef) {
				p.Default, p.MaxTimeS, p.DefaultTimeS, p.PriorityJobFactor = true, 86400, 3600, 100
			}),
			def("gpu", "n[3-4]", func(p *events.PartitionDef) { p.MaxTimeS, p.DefaultTimeS, p.PriorityJobFactor = 43200, 1800, 200 }),
			def("debug", "n[1-4]", func(p *events.PartitionDef) {
				p.MaxTimeS, p.MaxNodes, p.PriorityTier, p.PriorityJobFactor = 1800, 2, 10, 500
			}),
			def("long", "n[1-2]", nil),
			def("inactive", "ALL", func(p *events.PartitionDef) { p.State, p.Hidden = events.PartitionState_PARTITION_INACTIVE_STATE, true }),
		},
	}
}

func sinfo(t *testing.T, args ...string) string {
	q, err := slurm.ReadSinfo(slurm.Input{Args: args, Release: slurm.Release2205, Now: at("2026-11-30T13:54:15")})
	if err != nil {
		t.Fatal(err)
	}
	c := &NodeContext{Context: *testContext(slurm.Release2205), UserName: func(uint32) string { return "root" }}
	var l Layout[Group]
	switch {
	case q.Fields != "":
		l, _ = SinfoFields.Get().ByName(q.Fields)
	case q.Format != "":
		l, _ = SinfoFields.Get().ByLetter(q.Format)
	default:
		l, _ = SinfoFields.Get().ByLetter(SinfoFormat(q, slurm.Release2205))
	}
	groups := Groups(q, l, testNodes(), c)
	if err := SortGroups(q, groups); err != nil {
		t.Fatal(err)
	}
	l.Fit(groups)
	var b strings.Builder
	if !q.NoHeader {
		b.WriteString(l.Head() + "\n")
	}
	for _, g := range groups {
		b.WriteString(l.Row(g) + "\n")
	}
	return b.String()
}

// Tables as the real sinfo printed them for the same nodes.
func TestSinfo(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", `PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
compute*     up 1-00:00:00      1  drain n4
compute*     up 1-00:00:00      2    mix n[2-3]
compute*     up 1-00:00:00      1  alloc n1
gpu          up   12:00:00      1  drain n4
gpu          up   12:00:00      1    mix n3
debug        up      30:00      1  drain n4
debug        up      30:00      2    mix n[2-3]
debug        up      30:00      1  alloc n1
long         up   infinite      1    mix n2
long         up   infinite      1  alloc n1
`},
		{"-s", `PARTITION AVAIL  TIMELIMIT   NODES(A/I/O/T) NODELIST
compute*     up 1-00:00:00          3/0/1/4 n[1-4]
gpu          up   12:00:00          1/0/1/2 n[3-4]
debug        up      30:00          3/0/1/4 n[1-4]
long         up   infinite          2/0/0/2 n[1-2]
`},
		{"-N -p compute,long", `NODELIST   NODES PARTITION STATE 
n1             1  compute* alloc 
n1             1      long alloc 
n2             1  compute* mix   
n2             1      long mix   
n3             1  compute* mix   
n4             1  compute* drain 
`},
		{"-N -l -n n1 -p compute", `NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON              
n1             1  compute*   allocated 8       1:8:1  16000    10000     10 intel,av none                
`},
		{"-l -p debug", `PARTITION AVAIL  TIMELIMIT   JOB_SIZE ROOT OVERSUBS     GROUPS  NODES       STATE NODELIST
debug        up      30:00        1-2   no       NO        all      1     drained n4
debug        up      30:00        1-2   no       NO        all      2       mixed n[2-3]
debug        up      30:00        1-2   no       NO        all      1   allocated n1
`},
		{"-R", `REASON               USER      TIMESTAMP           NODELIST
disk failure         root      2026-11-30T13:53:47 n4
`},
		{"-R -l", `REASON               USER         TIMESTAMP           STATE  NODELIST
disk failure         root(0)      2026-11-30T13:53:47 drain  n4
`},
		{"-d -p gpu", `PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
gpu          up   12:00:00      0    n/a 
`},
		{"-n n1 -p gpu,debug", `PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
gpu          up   12:00:00      0    n/a 
debug        up      30:00      1  alloc n1
`},
		{"-t drain -p gpu,long", `PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
gpu          up   12:00:00      1  drain n4
long         up   infinite      0    n/a 
`},
		{"-p nosuch", "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"},
		{"-h -o %C", "15/9/8/32\n"},
		{"-h -o %D,%T", "1,drained\n2,mixed\n1,allocated\n"},
		{"-o %N|%T", "NODELIST|STATE\nn4|drained\nn[2-3]|mixed\nn1|allocated\n"},
		{"-h -p compute,long -o %P|%R|%a|%A|%b|%B|%c|%C|%d|%D", "compute*|compute|up|1/0|amd,gpu,a100|UNLIMITED|8|1/7/8/16|10000|2\ncompute*|compute|up|2/0|intel,avx2|UNLIMITED|8|14/2/0/16|10000|2\nlong|long|up|2/0|intel,avx2|UNLIMITED|8|14/2/0/16|10000|2\n"},
		{"-h -p compute -o %G|%h|%H|%I|%l|%L|%m|%M|%w|%z|%u|%U|%E", "gpu:a100:4|NO|2026-11-30T13:53:47|100|1-00:00:00|1:00:00|16000|REQUEUE|20|1:8:1|root|root(0)|disk failure\n" +
			"gpu:a100:4|NO|Unknown|100|1-00:00:00|1:00:00|16000|REQUEUE|20|1:8:1|Unknown|Unknown|none\n(null)|NO|Unknown|100|1-00:00:00|1:00:00|16000|REQUEUE|10|1:8:1|Unknown|Unknown|none\n"},
		{"-h -p compute -o %w|%v|%V|%s|%S|%r|%p|%g", "10+|22.05.8|N/A|1-infinite|all|no|1|all\n"},
		{"-h -S -P -o %P", "long\ngpu\ndebug\ncompute*\n"},
		{"-h -p inactive -o %P|%a|%F", "inactive|inactive|3/0/1/4\n"},
		{"-h -N -n n3 -p compute -O NodeList:10,AllocMem:10,Memory:8,CPUsState:16,StateLong:12,GresUsed:30", "n3        100       16000   1/7/0/8         mixed       gpu:a100:2(IDX:0-1)           \n"},
		{"-h -p gpu -O Partition:8,StateComplete:20", "gpu     idle+drain          \ngpu     mixed               \n"},
		{"-h -p gpu -o p=%P%%", "p=gpu\n"},
	} {
		if got := sinfo(t, strings.Fields(c.args)...); got != c.want {
			t.Errorf("sinfo %s:\n%s\nwant\n%s", c.args, got, c.want)
		}
	}
}

func TestNodeStates(t *testing.T) {
	def := &events.NodeDef{Cpus: 4}
	for _, c := range []struct {
		node *projections.Node
		want string
	}{
		{&projections.Node{Def: def, Up: true}, "idle idle IDLE"},
		{&projections.Node{Def: def}, "idle* idle* IDLE+NOT_RESPONDING"},
		{&projections.Node{Def: def, NeverUp: true}, "unk* unknown* UNKNOWN+NOT_RESPONDING"},
		{&projections.Node{Def: def, Down: true, Lost: true}, "down* down* DOWN+NOT_RESPONDING"},
		{&projections.Node{Def: def, Up: true, Drain: true, Jobs: []uint32{1}, CpusUsed: events.WordsOf(0)}, "drng draining MIXED+DRAIN"},
		{&projections.Node{Def: def, Up: true, Down: true, Drain: true}, "drain drained DOWN+DRAIN"},
		{&projections.Node{Def: def, Up: true, Fail: true}, "fail fail IDLE+FAIL"},
		{&projections.Node{Def: def, Up: true, Invalid: true, Drain: true}, "inval inval IDLE+DRAIN+INVALID_REG"},
	} {
		s := StateOf(c.node)
		if got := s.Compact + " " + s.Long + " " + s.Upper; got != c.want {
			t.Errorf("%v: %s, want %s", c.node, got, c.want)
		}
	}
}
