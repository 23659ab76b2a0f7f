package ledger

import (
	"sort"

	"stint/events"
	"stint/events/hostlist"
	"stint/ledger/rows"
	"stint/projections"
)

// describe fills a record from its job: what was asked for. It is done once per record and again when the job is
// updated.
func describe(r *rows.JobRow, j *projections.Job) {
	s := j.Spec
	if s == nil {
		s = &events.JobSpec{}
	}
	r.Name, r.Account, r.Qos, r.Wckey = s.Name, s.Account, s.Qos, s.Wckey
	if o := j.Owner; o != nil {
		r.User, r.Group, r.Uid, r.Gid = o.User, o.Group, o.Uid, o.Gid
	}
	r.Job = j.Id
	r.ArrayId, r.ArrayTask, r.HasTask = j.ArrayId, j.ArrayTask, j.HasTask
	r.HetId, r.HetOffset = j.HetId, j.HetOffset
	r.Req = asked(s)
	r.MemPerCpuMib, r.MemPerNodeMib, r.MemAll = s.MemPerCpuMib, s.MemPerNodeMib, s.MemAll
	r.TasksAsked = s.Tasks
	r.WorkDir, r.SubmitLine = s.WorkDir, s.SubmitLine
	r.StdIn, r.StdOut, r.StdErr = s.StdIn, s.StdOut, s.StdErr
	r.Comment, r.AdminComment, r.Extra = s.Comment, s.AdminComment, s.Extra
	r.Constraint, r.Licenses, r.Reservation = s.Constraint, s.Licenses, s.Reservation
	r.Exclusive, r.Oversubscribe, r.Interactive = s.Exclusive, s.Oversubscribe, s.Interactive
	r.ReqNodes = s.NodeList
	r.Script = s.Script
	r.SubmittedSeq = j.SubmittedSeq
}

// follow fills in what changes in the course of a record. Times and ends of an earlier instance, which the job may
// still carry while it waits again, are not this record's.
func follow(r *rows.JobRow, j *projections.Job, seq uint64) {
	r.State, r.Completing = j.State, j.Completing
	r.Partition, r.LimitS = j.Partition, j.LimitS
	if list := j.Spec.GetPartition(); r.Run == 0 && list != "" {
		r.Partition = list // it may yet start in any of them
	}
	r.Priority = j.Priority
	r.Reason, r.ReasonText = j.Reason, j.ReasonText
	if j.ArrayId != 0 && !j.HasTask && len(j.Pending) > 0 {
		r.Tasks, r.ArrayMaxRunning = j.Pending, j.ArrayMaxRunning
	}
	r.EligibleUs, r.Rest = j.EligibleUs, rest(j)
	if r.Rest || j.Priority == 0 || r.Run == 0 && j.State.Final() && j.Delayed(j.EndUs) { // also a job that is held while it runs
		r.EligibleUs = 0
	}
	r.ChangedSeq = seq
	r.WasCancelled, r.CancelledBy = false, 0
	if j.State == events.JobState_CANCELLED && j.WasCancelled {
		r.WasCancelled, r.CancelledBy = true, j.CancelledBy
	}
	if j.Waits() {
		r.WaitReason = j.Reason
	}
	if r.Run != 0 {
		r.StartUs, r.Backfilled = max(j.StartUs, j.ResizedUs), j.Backfilled
		r.SuspendedUs, r.SuspendedSinceUs = j.SuspendedTotalUs, j.SuspendedUs
		r.LeaptUs = 0
		if j.EndUs == 0 && j.ResizedUs == 0 {
			r.LeaptUs = j.LeaptUs
		}
	}
	if j.State.Final() {
		r.EndUs = j.EndUs
		r.ExitCode, r.ExitSignal = j.ExitCode, j.ExitSignal
		if r.FailedNode == "" && j.State == events.JobState_NODE_FAIL {
			r.FailedNode = lostNode(j)
		}
	} else {
		r.EndUs, r.ExitCode, r.ExitSignal = 0, 0, 0
	}
}

// rest says whether a job is what is left of an array after tasks of it have started: a new record, which has not been found
// able to start yet.
func rest(j *projections.Job) bool {
	return j.ArrayId != 0 && !j.HasTask && events.Words(j.Pending).Count() < events.Words(j.Spec.GetArray().GetTasks()).Count()
}

// place records where a run was put.
func place(r *rows.JobRow, j *projections.Job) {
	r.Run = j.Run
	r.Nodes, r.Alloc = allocated(j.Allocation)
	r.Allocation = nil
	if len(j.Allocation.GetShares()) <= 2 && j.Allocation.NodeCount() <= 4 {
		r.Allocation = j.Allocation
	}
}

// lostNode is the node whose loss ended the run: the first that did not report its end, or could not start it.
func lostNode(j *projections.Job) string {
	for _, n := range j.Nodes {
		if n.Cause == events.EndCause_NODE_REBOOTED || n.Cause == events.EndCause_NODE_WAS_LOST || n.Cause == events.EndCause_STATUS_UNSEEN || n.Cause == events.EndCause_NODE_UNFIT || n.ExitedUs == 0 {
			return n.Node
		}
	}
	return ""
}

// asked adds up a request: the least it can be met with.
func asked(s *events.JobSpec) *rows.Tres {
	nodes := uint64(max(s.MinNodes, 1))
	tasks := uint64(s.Tasks)
	if tasks == 0 {
		tasks = nodes * uint64(max(s.TasksPerNode, 1))
	}
	cpus := tasks * uint64(max(s.CpusPerTask, 1))
	if s.Overcommit {
		cpus = nodes
	}
	cpus = max(cpus, nodes*uint64(max(s.MinCpusPerNode, 1)))
	t := &rows.Tres{Nodes: uint32(nodes)}
	gpus := uint64(0)
	for _, g := range s.Gres {
		count := g.Count
		switch g.Scope {
		case events.Scope_PER_NODE:
			count *= nodes
		case events.Scope_PER_TASK:
			count *= tasks
		case events.Scope_PER_SOCKET:
			count *= nodes * uint64(max(s.SocketsPerNode, 1))
		}
		if g.Name == "gpu" {
			gpus += count
		}
		t.Gres = addGres(t.Gres, g.Name, g.Type, count)
	}
	cpus = max(cpus, gpus*uint64(s.CpusPerGpu))
	switch {
	case s.MemPerCpuMib != 0:
		t.MemMib = s.MemPerCpuMib * cpus
	case s.MemPerGpuMib != 0:
		t.MemMib = s.MemPerGpuMib * gpus
	default:
		t.MemMib = s.MemPerNodeMib * nodes
	}
	t.Cpus, t.Billing = cpus, cpus
	return t
}

// allocated adds up an allocation and names its nodes.
func allocated(a *events.Allocation) (nodes string, t *rows.Tres) {
	if a == nil {
		return "", nil
	}
	t = &rows.Tres{}
	var names []string
	for _, s := range a.Shares {
		addShare(t, s, uint64(len(s.Nodes)))
		names = append(names, s.Nodes...)
	}
	t.Billing = t.Cpus
	if len(names) == 1 {
		return names[0], t
	}
	return hostlist.Compress(names), t
}

func addShare(t *rows.Tres, s *events.NodeShare, nodes uint64) {
	t.Nodes += uint32(nodes)
	t.Cpus += nodes * uint64(s.CountedCPUs())
	t.MemMib += nodes * s.MemoryMib
	for _, g := range s.Gres {
		t.Gres = addGres(t.Gres, g.Name, g.Type, nodes*uint64(events.Words(g.Ids).Count()))
	}
}

// addGres adds a count to a list that is kept in order of name and type.
func addGres(list []*rows.GresCount, name, kind string, count uint64) []*rows.GresCount {
	i := sort.Search(len(list), func(i int) bool {
		g := list[i]
		return g.Name > name || g.Name == name && g.Type >= kind
	})
	if i < len(list) && list[i].Name == name && list[i].Type == kind {
		list[i].Count += count
		return list
	}
	list = append(list, nil)
	copy(list[i+1:], list[i:])
	list[i] = &rows.GresCount{Name: name, Type: kind, Count: count}
	return list
}
