package executor

import (
	"fmt"

	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
)

// hetVariables tell the script of a heterogeneous job of each of its components. Until 22.05 they had an older name besides.
func hetVariables(parts []*projections.Job, old bool) []string {
	if len(parts) == 0 {
		return nil
	}
	out := []string{fmt.Sprintf("SLURM_HET_SIZE=%d", len(parts))}
	if old {
		out = append(out, fmt.Sprintf("SLURM_PACK_SIZE=%d", len(parts)))
	}
	for i, j := range parts {
		set := func(is bool, name string, value any) {
			if !is {
				return
			}
			out = append(out, fmt.Sprintf("SLURM_%s_HET_GROUP_%d=%v", name, i, value))
			if old {
				out = append(out, fmt.Sprintf("SLURM_%s_PACK_GROUP_%d=%v", name, i, value))
			}
		}
		s, a := j.GetSpec(), j.GetAllocation()
		nodes := a.NodeNames()
		set(s.GetAccount() != "", "JOB_ACCOUNT", s.GetAccount())
		set(true, "JOB_CPUS_PER_NODE", projections.PerNode(a, (*events.NodeShare).UsableCPUs))
		set(true, "JOB_ID", j.GetId())
		set(true, "JOB_NAME", s.GetName())
		set(true, "JOB_NODELIST", hostlist.Compress(nodes))
		set(true, "JOB_NUM_NODES", len(nodes))
		set(true, "JOB_PARTITION", j.GetPartition())
		set(true, "JOB_QOS", orElse(s.GetQos(), "normal"))
		set(s.GetReservation() != "", "JOB_RESERVATION", s.GetReservation())
		switch {
		case s.GetMemAll():
		case s.GetMemPerNodeMib() > 0:
			set(true, "MEM_PER_NODE", s.GetMemPerNodeMib())
		case s.GetMemPerCpuMib() > 0:
			set(true, "MEM_PER_CPU", s.GetMemPerCpuMib())
		}
		set(s.GetCpusPerTask() > 0, "CPUS_PER_TASK", s.GetCpusPerTask())
		set(s.GetTasks() > 0, "NPROCS", s.GetTasks())
		set(s.GetTasks() > 0, "NTASKS", s.GetTasks())
		set(true, "TASKS_PER_NODE", hostlist.Runs(j.TasksPerNode()))
	}
	return out
}
