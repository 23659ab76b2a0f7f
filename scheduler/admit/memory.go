package admit

import (
	"slices"
	"strings"

	"stint/events"
	"stint/scheduler/place"
)

// memory fills in the memory and the CPUs for GPUs that a job takes without saying so, and holds it to the configured limits.
func (d *Desk) memory(s *events.JobSpec) *refusal {
	cfg := d.r.Config()
	p := d.r.Partition(strings.Split(s.Partition, ",")[0])
	if cfg.OneTaskPerCore && s.TasksPerCore == 0 {
		s.TasksPerCore = 1
	}
	if r := cpusOfGPUs(s); r != nil {
		return r
	}
	asked := s.MemPerNodeMib > 0 || s.MemAll
	gpus := s.TasksPerGpu > 0 || slices.ContainsFunc(s.Gres, func(g *events.Gres) bool { return g.Name == "gpu" && g.Count > 0 })
	if gpus && s.CpusPerGpu == 0 && s.CpusPerTask == 0 {
		s.CpusPerGpu = uint32(first(uint64(p.GetDefCpusPerGpu()), uint64(cfg.DefCpusPerGpu)))
		s.DefaultCpusPerGpu = s.CpusPerGpu > 0
	}
	if s.MemPerNodeMib == 0 && s.MemPerCpuMib == 0 && s.MemPerGpuMib == 0 && !s.MemAll {
		perGPU := first(p.GetDefMemPerGpuMib(), cfg.DefMemPerGpuMib)
		switch {
		case gpus && perGPU > 0:
			s.MemPerGpuMib, s.DefaultMemPerGpu = perGPU, true
		case p.GetDefMemPerCpuMib() > 0:
			s.MemPerCpuMib = p.DefMemPerCpuMib
		case p.GetDefMemPerNodeMib() > 0:
			s.MemPerNodeMib = p.DefMemPerNodeMib
		case cfg.DefMemPerCpuMib > 0:
			s.MemPerCpuMib = cfg.DefMemPerCpuMib
		case cfg.DefMemPerNodeMib > 0:
			s.MemPerNodeMib = cfg.DefMemPerNodeMib
		case cfg.SelectMemory:
			s.MemAll = true
		}
	}
	perCPU := first(p.GetMaxMemPerCpuMib(), cfg.MaxMemPerCpuMib)
	if perCPU > 0 && s.MemPerCpuMib > perCPU {
		// More memory for a CPU than one may have means more CPUs for a task.
		times := (s.MemPerCpuMib + perCPU - 1) / perCPU
		if times > place.MaxCount {
			return refuse(events.Code_INVALID_MEMORY, "%d MiB for each CPU are more than any machine has", s.MemPerCpuMib)
		}
		s.CpusPerTask = max(s.CpusPerTask, 1) * uint32(times)
		s.MemPerCpuMib = (s.MemPerCpuMib + times - 1) / times
	}
	if perCPU > 0 && asked {
		// So many CPUs on each node that none of them has more memory than one may have.
		mib := s.MemPerNodeMib
		if s.MemAll {
			mib = d.leastMemory(s.Partition)
		}
		s.MinCpusPerNode = max(s.MinCpusPerNode, uint32(min((mib+perCPU-1)/perCPU, place.MaxCount)))
	}
	return nil
}

// cpusOfGPUs refuses tasks that need more CPUs than come with a job's GPUs, where so many are asked for with each of a number for the whole
// job. A default does not bound the tasks.
func cpusOfGPUs(s *events.JobSpec) *refusal {
	if s.CpusPerGpu == 0 || s.Overcommit {
		return nil
	}
	for _, g := range s.Gres {
		need, have := uint64(s.Tasks)*uint64(max(s.CpusPerTask, 1)), g.Count*uint64(s.CpusPerGpu)
		if g.Name == "gpu" && g.Scope == events.Scope_PER_JOB && g.Count < place.MaxCount && need > have {
			return refuse(events.Code_NODE_CONFIG_UNAVAILABLE, "%d tasks take %d CPUs, and %d GPUs with %d CPUs each bring %d", s.Tasks, need, g.Count, s.CpusPerGpu, have)
		}
	}
	return nil
}

// leastMemory is the memory of the smallest node of a job's partitions, in MiB.
func (d *Desk) leastMemory(partitions string) uint64 {
	least := uint64(0)
	for name := range strings.SplitSeq(partitions, ",") {
		for _, n := range d.r.PartitionNodes(name) {
			if m := n.MemoryMiB(); least == 0 || m < least {
				least = m
			}
		}
	}
	return least
}
