package executor

import (
	"stint/events"
	"stint/events/filename"
	"stint/projections"
)

// FileName expands the pattern of a batch job's file. A batch script has one file, on the job's first node.
func FileName(pattern string, job *projections.Job, node, compat string) string {
	n := filename.Names{Job: job.GetId(), Step: events.StepName(events.StepBatch), Node: node, User: job.GetOwner().GetUser(), JobName: job.GetSpec().GetName(), NoModulo: compat == "22.05"}
	if job.GetHasTask() {
		n.Array, n.Task = job.GetArrayId(), job.GetArrayTask()
	}
	return filename.Expand(pattern, n)
}

// outputName is the pattern of a job's standard output.
func outputName(job *projections.Job) string {
	if p := job.GetSpec().GetStdOut(); p != "" {
		return p
	}
	if job.GetHasTask() {
		return "slurm-%A_%a.out"
	}
	return "slurm-%j.out"
}
