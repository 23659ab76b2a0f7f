package projections

import (
	"stint/events"
	"stint/events/hostlist"
)

// PerNode writes a count of each node in the order of the allocation, equal neighbours together: "3,1(x2)".
func PerNode(a *events.Allocation, count func(*events.NodeShare) int) string {
	var counts []int
	a.Each(func(_ int, _ string, s *events.NodeShare) bool {
		counts = append(counts, count(s))
		return true
	})
	return hostlist.Runs(counts)
}

// TasksPerNode is how many tasks are laid out on each node: as many as its CPUs hold, or those that were asked for dealt out
// one after the other to the nodes that have CPUs for another, and to all in turn when none has.
func (j *Job) TasksPerNode() []int {
	spec := j.GetSpec()
	each := max(1, int(spec.GetCpusPerTask()))
	var fit []int
	j.GetAllocation().Each(func(_ int, _ string, s *events.NodeShare) bool {
		fit = append(fit, max(1, s.UsableCPUs()/each))
		return true
	})
	left := max(int(spec.GetTasks()), int(spec.GetTasksPerNode())*len(fit))
	if left == 0 || len(fit) == 0 {
		return fit
	}
	out := make([]int, len(fit))
	for open := false; left > 0; {
		any := false
		for i := range out {
			if left > 0 && (open || out[i] < fit[i]) {
				out[i]++
				left--
				any = true
			}
		}
		open = open || !any
	}
	return out
}
