package ledger

import (
	"stint/events"
	"stint/events/hostlist"
	"stint/ledger/rows"
)

// elsewhere says that a node holds resources for a batch script that runs on the first node: it has no part in the
// step's times and status, only in what it used.
func elsewhere(s *rows.StepRow, a *events.Allocation, node string) bool {
	return events.IsMainStep(s.Step) && node != a.FirstNode()
}

// stepStarted opens a step, or adds a node to it.
func stepStarted(s *rows.StepRow, a *events.Allocation, node string, f *events.StepStarted) {
	if elsewhere(s, a, node) {
		return
	}
	n := stepNode(s, a, node, f.Part)
	if n.StartUs == 0 {
		n.StartUs = f.AtUs
	}
	begin(s, f.AtUs)
	if n.EndUs == 0 && s.EndUs != 0 { // it was over on all nodes that had spoken of it before
		s.EndUs, s.State = 0, events.JobState_RUNNING
	}
}

// stepExited adds to a step what one node says about its end. The step is over when all nodes that spoke of it are. It returns
// false if the node has told that before: an executor that is new does not know what the one before it has told.
func stepExited(s *rows.StepRow, a *events.Allocation, node string, f *events.StepExited) bool {
	if elsewhere(s, a, node) {
		measure(s, node, 0, f.Usage)
		return true
	}
	n := stepNode(s, a, node, f.Part)
	if n.EndUs != 0 {
		return false
	}
	if f.StartedUs != 0 {
		if n.StartUs == 0 {
			n.StartUs = f.StartedUs
		}
		begin(s, f.StartedUs)
	}
	n.EndUs = f.Over(n.StartUs, f.AtUs)
	if s.Text == "" {
		s.Text = f.Text
	}
	worse(s, f)
	measure(s, node, n.FirstTask, f.Usage)
	end := int64(0)
	for _, n := range s.ByNode {
		if n.EndUs == 0 {
			return true
		}
		end = max(end, n.EndUs)
	}
	s.EndUs = end
	s.State = stepState(s)
	return true
}

func begin(s *rows.StepRow, at int64) {
	if s.StartUs == 0 || at < s.StartUs {
		s.StartUs, s.SubmitUs = at, at
	}
}

// worse keeps the worst end of all nodes: a signal counts more than a code, a higher one more than a lower one.
func worse(s *rows.StepRow, f *events.StepExited) {
	switch f.Cause {
	case events.EndCause_OOM_KILLED:
		s.OomKills = max(s.OomKills, 1)
	case events.EndCause_MEMORY_PASSED:
		s.WasCancelled, s.CancelledBy = true, 0 // by root, whom Slurm's daemon on the node runs as
	case events.EndCause_STATUS_UNSEEN, events.EndCause_NODE_REBOOTED:
		s.Unseen = true
	case events.EndCause_LAUNCH_FAILED, events.EndCause_NODE_UNFIT:
		s.NotLaunched = true
	}
	if f.ExitSignal > s.ExitSignal || f.ExitSignal == s.ExitSignal && f.ExitCode > s.ExitCode {
		s.ExitCode, s.ExitSignal = f.ExitCode, f.ExitSignal
	}
}

// stepState is how a step ended: what a signal killed was cancelled, as Slurm has it.
func stepState(s *rows.StepRow) events.JobState {
	switch {
	case s.OomKills > 0: // also if the script itself went on and ended well, as Slurm has it
		s.ExitCode, s.ExitSignal = 0, events.SignalOOM
		return events.JobState_OUT_OF_MEMORY
	case s.Unseen, s.ExitSignal != 0:
		return events.JobState_CANCELLED
	case s.ExitCode != 0, s.NotLaunched:
		return events.JobState_FAILED
	}
	return events.JobState_COMPLETED
}

// abandon closes a step whose run is over and whose end no node ever told.
func abandon(s *rows.StepRow, end int64) {
	s.EndUs = max(end, s.StartUs)
	s.State = events.JobState_CANCELLED
	s.Unseen = true
}

// measure adds a node's usage to the sums and peaks.
func measure(s *rows.StepRow, node string, task uint32, u *events.Usage) {
	if u == nil {
		return
	}
	s.UserUs += u.UserUs
	s.SystemUs += u.SystemUs
	s.ReadBytes += u.ReadBytes
	s.WriteBytes += u.WriteBytes
	s.SumRssKib += u.SumRssKib
	s.Samples += uint64(u.Samples)
	p := u.Tasks
	if p == nil { // all of the node as one
		p = &events.TaskPeaks{RssTask: task, VmTask: task, PagesTask: task, CpuTask: task, ReadTask: task, WriteTask: task, MaxReadBytes: u.ReadBytes, MaxWriteBytes: u.WriteBytes,
			SumRssKib: u.MaxRssKib, SumVmKib: u.MaxVmKib, SumPages: u.MaxPages}
	}
	s.SumPeakRssKib += p.SumRssKib
	s.SumPeakVmKib += p.SumVmKib
	s.SumPages += p.SumPages
	s.OomKills += u.OomKills
	if u.Samples == 0 && u.MaxRssKib == 0 {
		return // nothing was measured while it ran
	}
	cpu := u.MinCpuUs
	if cpu == 0 {
		cpu = u.UserUs + u.SystemUs
	}
	if s.MaxRssKib == nil { // the first word on it: every peak is here, be it 0
		var first [6]rows.Peak
		for i := range first {
			first[i].Node, first[i].Task = node, task
		}
		s.MaxRssKib, s.MaxVmKib, s.MaxPages, s.MaxRead, s.MaxWrite, s.MinCpuUs = &first[0], &first[1], &first[2], &first[3], &first[4], &first[5]
		s.MinCpuUs.Value = cpu
	}
	higher(s.MaxRssKib, u.MaxRssKib, node, p.RssTask)
	higher(s.MaxVmKib, u.MaxVmKib, node, p.VmTask)
	higher(s.MaxPages, u.MaxPages, node, p.PagesTask)
	higher(s.MaxRead, p.MaxReadBytes, node, p.ReadTask)
	higher(s.MaxWrite, p.MaxWriteBytes, node, p.WriteTask)
	if m := s.MinCpuUs; cpu < m.Value {
		m.Value, m.Node, m.Task = cpu, node, p.CpuTask
	}
}

func higher(p *rows.Peak, value uint64, node string, task uint32) {
	if value > p.Value {
		p.Value, p.Node, p.Task = value, node, task
	}
}

// stepNode is a node's part in a step. A node that speaks of it for the first time adds what the step has there: what the node says
// of a numbered step, or else its share of the run.
func stepNode(s *rows.StepRow, a *events.Allocation, node string, part *events.StepPart) *rows.StepNode {
	for _, n := range s.ByNode {
		if n.Node == node {
			return n
		}
	}
	n := &rows.StepNode{Node: node}
	s.ByNode = append(s.ByNode, n)
	s.NodeCount++
	if s.Alloc == nil {
		s.Alloc = &rows.Tres{}
	}
	share, _ := a.ForNode(node)
	if part != nil {
		s.Name, s.Layout, s.SubmitLine = part.Name, part.Layout, part.SubmitLine
		n.FirstTask = part.FirstTask
		s.Tasks += part.Tasks
		memory := part.MemoryMib
		if memory == 0 {
			memory = share.GetMemoryMib()
		}
		addShare(s.Alloc, &events.NodeShare{Cpus: part.Cpus, MemoryMib: memory, Gres: part.Gres}, 1)
		return n
	}
	if share != nil {
		addShare(s.Alloc, share, 1)
	}
	if s.Step >= events.StepInteractive {
		s.Tasks++
		return n
	}
	s.Tasks += max(share.GetTasks(), 1)
	a.Each(func(_ int, before string, share *events.NodeShare) bool {
		if before != node {
			n.FirstTask += max(share.Tasks, 1)
		}
		return before != node
	})
	return n
}

// stepNodes names the nodes of a step as a hostlist.
func stepNodes(s *rows.StepRow) string {
	if len(s.ByNode) == 1 {
		return s.ByNode[0].Node
	}
	names := make([]string, len(s.ByNode))
	for i, n := range s.ByNode {
		names[i] = n.Node
	}
	return hostlist.CompressSorted(names)
}
