package executor

import (
	"context"
	"slices"

	"stint/events"
	"stint/executor/machine"
	"stint/executor/supervisor"
	"stint/executor/tasks"
)

// What agents ask of steps that live: where their srun listens, and what they use.

// findStep says where a step of a run lives whose first node this is, and where its srun listens.
func (e *executor) findStep(ctx context.Context, uid uint32, f *tasks.Find) *tasks.Reply {
	job := e.runOf(ctx, f.Job, 0).GetJob()
	switch {
	case job == nil || job.GetAllocation().FirstNode() != e.conf.Node:
		return refusal(tasks.Refusal_OVER, "Job/step already completing or completed")
	case uid != 0 && uid != job.GetOwner().GetUid():
		return refusal(tasks.Refusal_NOT_YOURS, "Access/permission denied")
	}
	b := e.boardOf(ctx, job)
	if b == nil {
		return refusal(tasks.Refusal_BUSY, "the node's supervisor is away")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.IndexFunc(b.live, func(l *tasks.Live) bool { return l.Step == f.Step })
	if at < 0 {
		return refusal(tasks.Refusal_OVER, "Invalid job id specified")
	}
	r := e.created(job, b.live[at])
	r.Launcher = b.live[at].Launcher
	return r
}

// lookAt says what steps of a run use here at this moment.
func (e *executor) lookAt(ctx context.Context, uid uint32, l *tasks.Look) *tasks.Reply {
	job := e.runOf(ctx, l.Job, 0).GetJob()
	e.mu.Lock()
	c := e.client
	e.mu.Unlock()
	switch {
	case job == nil:
		return refusal(tasks.Refusal_OVER, "Invalid job id specified")
	case uid != 0 && uid != job.GetOwner().GetUid():
		return refusal(tasks.Refusal_NOT_YOURS, "Access/permission denied")
	case c == nil:
		return refusal(tasks.Refusal_FAILED, "its supervisor is away")
	}
	looked, err := c.Look(ctx, &supervisor.Look{Job: uint64(l.Job), Run: job.GetRun(), Steps: l.Steps})
	if err != nil {
		return refusal(tasks.Refusal_FAILED, "%v", err)
	}
	r := &tasks.Reply{}
	khz := machine.KHz("/")
	for _, u := range looked.GetUses() {
		s := &tasks.Seen{Step: u.GetKey().GetStep(), Node: e.conf.Node, Khz: khz}
		for _, pid := range u.GetPids() {
			s.Pids = append(s.Pids, uint32(pid))
		}
		if events.IsMainStep(s.Step) {
			s.Tasks = []*tasks.TaskUse{taskUse(0, u.GetUsage())}
		}
		for _, t := range u.GetUsage().GetTasks() {
			s.Tasks = append(s.Tasks, taskUse(t.GetRank(), t.GetUsage()))
		}
		r.Seen = append(r.Seen, s)
	}
	return r
}

func taskUse(rank uint32, u *supervisor.Usage) *tasks.TaskUse {
	return &tasks.TaskUse{Rank: rank, CpuUs: (u.GetUserNs() + u.GetSystemNs()) / 1e3, RssKib: u.GetRssPeakBytes() >> 10, VmKib: u.GetVmPeakBytes() >> 10,
		Pages: u.GetMajorFaults(), ReadBytes: u.GetReadBytes(), WriteBytes: u.GetWriteBytes()}
}

// taskPeaks are the tasks that had most, or least, of something. The peaks of a usage become those of one task each.
func taskPeaks(out *events.Usage, list []*supervisor.TaskUsage) {
	if len(list) == 0 {
		return
	}
	p := &events.TaskPeaks{}
	out.MaxRssKib, out.MaxVmKib, out.MaxPages, out.MinCpuUs = 0, 0, 0, 0
	most := func(to *uint64, task *uint32, value uint64, rank uint32, first bool) {
		if first || value > *to {
			*to, *task = value, rank
		}
	}
	for i, t := range list {
		u, first := taskUse(t.GetRank(), t.GetUsage()), i == 0
		most(&out.MaxRssKib, &p.RssTask, u.RssKib, u.Rank, first)
		most(&out.MaxVmKib, &p.VmTask, u.VmKib, u.Rank, first)
		most(&out.MaxPages, &p.PagesTask, u.Pages, u.Rank, first)
		most(&p.MaxReadBytes, &p.ReadTask, u.ReadBytes, u.Rank, first)
		most(&p.MaxWriteBytes, &p.WriteTask, u.WriteBytes, u.Rank, first)
		if first || u.CpuUs < out.MinCpuUs {
			out.MinCpuUs, p.CpuTask = u.CpuUs, u.Rank
		}
		p.SumRssKib += u.RssKib
		p.SumVmKib += u.VmKib
		p.SumPages += u.Pages
	}
	out.Tasks = p
}
