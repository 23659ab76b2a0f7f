package admit

import (
	"testing"

	"stint/events"
)

// What goes beyond a partition as a whole waits where limits are not enforced; what no node could serve is refused, unless it
// is held and so not looked at yet. The rows were asked of Slurm.
func TestPartitionLimits(t *testing.T) {
	gpu := func(kind string, n uint64) []*events.Gres { return []*events.Gres{{Name: "gpu", Type: kind, Count: n}} }
	const (
		ok     = events.Code_OK
		never  = events.Code_NODE_CONFIG_UNAVAILABLE
		nodes  = events.Code_INVALID_NODE_COUNT
		cpus   = events.Code_TOO_MANY_CPUS
		long   = events.Code_INVALID_TIME_LIMIT
		acc    = events.Code_INVALID_ACCOUNT
		qos    = events.Code_INVALID_QOS
		memory = events.Code_INVALID_MEMORY
	)
	for _, c := range []struct {
		name         string
		spec         *events.JobSpec
		no, all, any events.Code
	}{
		{"within", &events.JobSpec{MinNodes: 4}, ok, ok, ok},
		{"nodes of the partition", &events.JobSpec{MinNodes: 5}, ok, nodes, nodes},
		{"nodes and CPUs", &events.JobSpec{MinNodes: 99}, ok, cpus, cpus},
		{"CPUs of the partition", &events.JobSpec{Tasks: 33}, ok, cpus, cpus},
		{"CPUs by task", &events.JobSpec{Tasks: 5, CpusPerTask: 8}, ok, cpus, cpus},
		{"CPUs of one node", &events.JobSpec{CpusPerTask: 9}, never, never, never},
		{"held, CPUs of one node", &events.JobSpec{CpusPerTask: 9, Hold: true}, ok, ok, ok},
		{"MaxMemPerNode", &events.JobSpec{Partition: "lean", MemPerNodeMib: 600}, ok, memory, memory},
		{"MaxMemPerNode, all of it", &events.JobSpec{Partition: "lean", MemAll: true}, ok, memory, memory},
		{"MaxNodes", &events.JobSpec{Partition: "small", MinNodes: 3}, ok, nodes, nodes},
		{"tasks that MaxNodes cannot hold", &events.JobSpec{Partition: "small", Tasks: 20}, never, never, never},
		{"MaxTime", &events.JobSpec{Partition: "small", TimeLimitS: 3600}, ok, long, long},
		{"unlimited", &events.JobSpec{Partition: "small", TimeLimitS: events.Unlimited}, ok, long, long},
		{"nodes before time", &events.JobSpec{Partition: "small", MinNodes: 3, TimeLimitS: 3600}, ok, nodes, nodes},
		{"one of two, by time", &events.JobSpec{Partition: "small,batch", TimeLimitS: 3600}, ok, long, ok},
		{"one of two, by nodes", &events.JobSpec{Partition: "small,batch", MinNodes: 3}, ok, nodes, ok},
		{"neither, by nodes", &events.JobSpec{Partition: "small,batch", MinNodes: 5}, never, nodes, nodes},
		{"neither, by time", &events.JobSpec{Partition: "small,batch", TimeLimitS: 36000}, ok, long, long},
		{"a partition that is down", &events.JobSpec{Partition: "down", MinNodes: 2}, ok, ok, ok},
		{"a partition that is down, nodes", &events.JobSpec{Partition: "down", MinNodes: 5}, never, nodes, nodes},
		{"GPUs of a node", &events.JobSpec{Gres: gpu("", 5)}, never, never, never},
		{"held, GPUs of a node", &events.JobSpec{Gres: gpu("h100", 5), Hold: true}, ok, ok, ok},
		{"memory of a node", &events.JobSpec{MemPerNodeMib: 16001}, never, never, never},
		{"account", &events.JobSpec{Partition: "acc", MinNodes: 1}, ok, acc, acc},
		{"QOS", &events.JobSpec{Partition: "acc", Account: "physics", Qos: "low"}, ok, qos, qos},
	} {
		for mode, want := range []events.Code{c.no, c.all, c.any} {
			cfg := config()
			cfg.Partitions = append(cfg.Partitions,
				&events.PartitionDef{Name: "small", Nodes: "ALL", MaxNodes: 2, MaxTimeS: 1800, DefaultTimeS: 300},
				&events.PartitionDef{Name: "lean", Nodes: "ALL", MaxMemPerNodeMib: 500},
				&events.PartitionDef{Name: "down", Nodes: "ALL", State: events.PartitionState_PARTITION_DOWN_STATE})
			cfg.EnforcePartLimitsAll, cfg.EnforcePartLimitsAny = mode == 1, mode == 2
			f := newOffice(t, cfg).submit(1000, c.spec.CloneVT())
			if got := f.GetJudged().GetCode(); got != want || (f.GetAdmitted() != nil) != (want == events.Code_OK) {
				t.Errorf("%s, %s: %s (%s), want %s", c.name, []string{"NO", "ALL", "ANY"}[mode], got, f.GetJudged().GetText(), want)
			}
		}
	}
}
