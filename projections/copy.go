package projections

// Shallow copies of records: a change copies the record, changes the copy and stores it; what hangs below (spec, allocation,
// lists) is shared until it is itself replaced. A test holds the lists of fields here to the schema.

func (j *Job) copy() *Job {
	next := new(Job)
	j.copyTo(next)
	return next
}

func (j *Job) copyTo(to *Job) {
	*to = Job{
		Id:               j.Id,
		Spec:             j.Spec,
		Owner:            j.Owner,
		State:            j.State,
		Completing:       j.Completing,
		Run:              j.Run,
		Restarts:         j.Restarts,
		Priority:         j.Priority,
		Hold:             j.Hold,
		Reason:           j.Reason,
		ReasonText:       j.ReasonText,
		ArrayId:          j.ArrayId,
		ArrayTask:        j.ArrayTask,
		HasTask:          j.HasTask,
		Pending:          j.Pending,
		ArrayMaxRunning:  j.ArrayMaxRunning,
		SubmitUs:         j.SubmitUs,
		EligibleUs:       j.EligibleUs,
		BeginUs:          j.BeginUs,
		StartUs:          j.StartUs,
		EndUs:            j.EndUs,
		LimitS:           j.LimitS,
		LicensesAlloc:    j.LicensesAlloc,
		Allocation:       j.Allocation,
		Partition:        j.Partition,
		Nodes:            j.Nodes,
		Stop:             j.Stop,
		ExitCode:         j.ExitCode,
		ExitSignal:       j.ExitSignal,
		Dependencies:     j.Dependencies,
		Signals:          j.Signals,
		Usage:            j.Usage,
		SubmittedSeq:     j.SubmittedSeq,
		ChangedSeq:       j.ChangedSeq,
		Backfilled:       j.Backfilled,
		HetId:            j.HetId,
		HetOffset:        j.HetOffset,
		SuspendedUs:      j.SuspendedUs,
		SuspendedTotalUs: j.SuspendedTotalUs,
		LeaptUs:          j.LeaptUs,
		CancelledBy:      j.CancelledBy,
		WasCancelled:     j.WasCancelled,
		AccrueUs:         j.AccrueUs,
		EndCause:         j.EndCause,
		PlacedUs:         j.PlacedUs,
		PlacedSeq:        j.PlacedSeq,
		FinishedUs:       j.FinishedUs,
		UnfitRuns:        j.UnfitRuns,
		SpecialExit:      j.SpecialExit,
		HetSize:          j.HetSize,
		ResizedUs:        j.ResizedUs,
		Resizes:          j.Resizes,
		Lent:             j.Lent,
		Stopped:          j.Stopped,
		Steps:            j.Steps,
		NextStep:         j.NextStep,
		Recurs:           j.Recurs,
	}
}

func (s *LiveStep) copy() *LiveStep {
	return &LiveStep{
		Step:      s.Step,
		StartUs:   s.StartUs,
		Name:      s.Name,
		Tasks:     s.Tasks,
		Cpus:      s.Cpus,
		MemoryMib: s.MemoryMib,
		Gres:      s.Gres,
		Nodes:     s.Nodes,
		Open:      s.Open,
		Part:      s.Part,
		LimitS:    s.LimitS,
	}
}

func (j *Node) copy() *Node {
	return &Node{
		Name:            j.Name,
		Index:           j.Index,
		Def:             j.Def,
		Up:              j.Up,
		Boot:            j.Boot,
		Executor:        j.Executor,
		ExecutorN:       j.ExecutorN,
		Inventory:       j.Inventory,
		Drain:           j.Drain,
		Down:            j.Down,
		Lost:            j.Lost,
		Fail:            j.Fail,
		Reason:          j.Reason,
		ReasonUid:       j.ReasonUid,
		ReasonUs:        j.ReasonUs,
		CpusUsed:        j.CpusUsed,
		MemoryUsedMib:   j.MemoryUsedMib,
		Gres:            j.Gres,
		Jobs:            j.Jobs,
		BootUs:          j.BootUs,
		ExecutorStartUs: j.ExecutorStartUs,
		BusyUs:          j.BusyUs,
		Version:         j.Version,
		LastSeq:         j.LastSeq,
		Removed:         j.Removed,
		Partitions:      j.Partitions,
		Invalid:         j.Invalid,
		NeverUp:         j.NeverUp,
		Comment:         j.Comment,
		Ailing:          j.Ailing,
		Unfit:           j.Unfit,
		Future:          j.Future,
		Extra:           j.Extra,
		ActiveFeatures:  j.ActiveFeatures,
		HasActive:       j.HasActive,
		InstanceId:      j.InstanceId,
		InstanceType:    j.InstanceType,
		Doubled:         j.Doubled,
	}
}

func (j *Array) copy() *Array {
	return &Array{
		Id:            j.Id,
		Total:         j.Total,
		Running:       j.Running,
		Completed:     j.Completed,
		Failed:        j.Failed,
		Started:       j.Started,
		MaxRunning:    j.MaxRunning,
		MaxExitCode:   j.MaxExitCode,
		MaxExitSignal: j.MaxExitSignal,
	}
}

func (j *TermState) copy() *TermState {
	return &TermState{
		Nonce:        j.Nonce,
		Controller:   j.Controller,
		Rules:        j.Rules,
		Decider:      j.Decider,
		Derivation:   j.Derivation,
		Seq:          j.Seq,
		N:            j.N,
		Cycle:        j.Cycle,
		Build:        j.Build,
		NowUs:        j.NowUs,
		ClockSetUs:   j.ClockSetUs,
		LastSchedSeq: j.LastSchedSeq,
		BegunUs:      j.BegunUs,
	}
}

func (j *RunNode) copy() *RunNode {
	return &RunNode{
		Node:       j.Node,
		StartedUs:  j.StartedUs,
		ExitedUs:   j.ExitedUs,
		ExitCode:   j.ExitCode,
		ExitSignal: j.ExitSignal,
		Cause:      j.Cause,
		Text:       j.Text,
	}
}

func (j *DependencyState) copy() *DependencyState {
	return &DependencyState{
		Dependency: j.Dependency,
		State:      j.State,
		SinceUs:    j.SinceUs,
		Ready:      j.Ready,
		Never:      j.Never,
	}
}

func (j *NodeGres) copy() *NodeGres {
	return &NodeGres{
		Name:  j.Name,
		Type:  j.Type,
		Count: j.Count,
		Used:  j.Used,
	}
}
