package projections

import (
	"bytes"
	"slices"
	"strings"

	"stint/events"
)

// maxAiling is how many devices of one node are remembered to be ailing.
const maxAiling = 64

// nodeMessage folds one message of an executor. Only the node's latest executor is heard: one that was replaced, and one
// that speaks of another boot than it came up with, is void as a whole.
func (c *Cluster) nodeMessage(e *events.Event) {
	n := c.Node(e.Name)
	if n == nil {
		if e.Void != "" {
			c.void(-1, e.Void)
		} else {
			c.void(-1, voidNoNode)
		}
		return
	}
	m := e.Node
	if now := m.GetNowUs(); now > 0 {
		c.now = min(now, c.at) // a node's clock may be ahead of the log's, its word cannot
	}
	next := n.copy()
	next.LastSeq = c.seq // void or not: the stream counts it
	why := e.Void
	if why == "" {
		why = notHeard(n, m)
	}
	if why != "" {
		c.nodes.set(c.epoch, n.Index, next, 0)
		c.void(-1, why)
		return
	}
	next.Executor, next.ExecutorN = m.GetExecutor(), m.GetN()
	c.nodes.set(c.epoch, n.Index, next, 0)
	c.verdict.Changed = true
	for i, f := range m.GetFacts() {
		c.index, c.nodeFact = i, f
		if why := c.nodeFactOf(e.Name, m, f); why != "" {
			c.void(i, why)
		}
	}
}

func notHeard(n *Node, m *events.NodeMessage) string {
	comesUp := len(m.GetFacts()) > 0 && m.GetFacts()[0].GetUp() != nil
	same := bytes.Equal(m.GetExecutor(), n.Executor)
	switch {
	case len(m.GetFacts()) == 0:
		return voidEmpty
	case len(m.GetExecutor()) == 0, !same && !comesUp:
		return voidZombie
	case same && m.GetN() <= n.ExecutorN:
		return voidNodeNumber // a gap is let pass: what is missing was void, and what follows is still true
	case m.GetBoot() == "", !comesUp && m.GetBoot() != n.Boot:
		return voidBoot
	}
	return ""
}

func (c *Cluster) nodeFactOf(name string, m *events.NodeMessage, f *events.NodeFact) (void string) {
	switch k := f.GetKind().(type) {
	case *events.NodeFact_Up:
		return c.nodeUp(name, m, k.Up)
	case *events.NodeFact_Started:
		return c.started(name, k.Started)
	case *events.NodeFact_Exited:
		return c.exited(name, k.Exited)
	case *events.NodeFact_Ailing:
		return c.ailing(name, k.Ailing)
	}
	return voidKind
}

// nodeUp: an executor has come up on the node. Another boot id means that nothing of before lives.
func (c *Cluster) nodeUp(name string, m *events.NodeMessage, f *events.NodeUp) string {
	n := c.Node(name)
	if n.Boot != "" && n.Boot != m.GetBoot() {
		c.endAll(n, events.EndCause_NODE_REBOOTED, "the node was rebooted")
		if n = c.Node(name); n == nil {
			return "" // a node no longer configured, and this was its last job
		}
	}
	next := n.copy()
	next.Up, next.NeverUp, next.Boot, next.Ailing = true, false, m.GetBoot(), nil
	next.Inventory, next.Version = f.GetInventory(), f.GetVersion()
	next.BootUs, next.ExecutorStartUs = f.GetInventory().GetBootUs(), f.GetExecutorStartUs()
	short := shortOf(next)
	if next.Invalid = short != ""; next.Invalid {
		next.Reason, next.ReasonUid, next.ReasonUs = short, 0, c.now
	} else if n.Invalid && !next.Drain && !next.Down && !next.Fail {
		next.Reason, next.ReasonUid, next.ReasonUs = "", 0, 0
	}
	c.back(next)
	c.putNode(n, next)
	return ""
}

// serviceAgain is what of the nodes that are down serves again when it is heard: 0 nothing, 1 what was lost, 2 what anybody
// has set down as well (slurm.conf, ReturnToService).
func serviceAgain(c *events.Config) uint32 {
	if c.GetReturnToService() {
		return max(c.GetReturnToServiceN(), 1)
	}
	return c.GetReturnToServiceN()
}

// Rises says that a node is down by somebody's word alone, and serves again as soon as it is heard after that.
func (n *Node) Rises(c *events.Config) bool {
	return n.GetUp() && n.GetDown() && !n.GetLost() && serviceAgain(c) >= 2
}

// back: the node is heard again. Whether one that was down serves again is ReturnToService's word.
func (c *Cluster) back(n *Node) {
	service := serviceAgain(c.config)
	if n.Down && (n.Lost && service >= 1 || service >= 2) {
		n.Down = false
		if !n.Drain && !n.Fail && !n.Invalid {
			n.Reason, n.ReasonUid, n.ReasonUs = "", 0, 0
		}
	}
	n.Lost = false
}

// shortOf says in words what a node registered less of than is configured.
func shortOf(n *Node) string {
	def, inv := n.Def, n.Inventory
	if def.GetVirtual() || def.GetAsConfigured() || inv == nil {
		return ""
	}
	switch {
	case inv.GetCpus() < n.CPUs():
		return "Low CPUs"
	case inv.GetMemoryMib() < def.GetMemoryMib():
		return "Low RealMemory"
	case inv.GetTmpDiskMib() < def.GetTmpDiskMib():
		return "Low TmpDisk"
	}
	for _, g := range n.Gres {
		found := uint64(0)
		for _, d := range inv.GetDevices() {
			if d.GetName() == g.Name && (g.Type == "" || d.GetType() == g.Type) {
				found++
			}
		}
		// A resource without device files is a plain count that nobody can look for.
		if found < g.Count && hasFiles(def, g) {
			return "gres/" + g.Name + " count reported lower than configured"
		}
	}
	return ""
}

func hasFiles(def *events.NodeDef, g *NodeGres) bool {
	for _, d := range def.GetGres() {
		if d.GetName() == g.Name && d.GetType() == g.Type && d.GetFiles() != "" {
			return true
		}
	}
	return false
}

// started: a step runs. The run's main step on the node moves the state of the job, another one is listed.
func (c *Cluster) started(name string, f *events.StepStarted) string {
	j, i, why := c.runOn(name, f.GetJob(), f.GetRun())
	switch {
	case why != "":
		return why
	case !events.IsMainStep(f.GetStep()):
		return c.stepStarted(j, i, f)
	case j.Nodes[i].ExitedUs != 0:
		return voidReported
	case j.Nodes[i].StartedUs != 0:
		return voidState
	}
	next := j.copy()
	next.Nodes = slices.Clone(j.Nodes)
	next.Nodes[i] = j.Nodes[i].copy()
	next.Nodes[i].StartedUs = c.plausible(f.GetAtUs(), j.StartUs)
	c.putJob(j, next)
	return ""
}

// exited: a step is over. The end of the main step frees what the run holds of the node; of any other step only the usage
// counts.
func (c *Cluster) exited(name string, f *events.StepExited) string {
	j, i, why := c.runOn(name, f.GetJob(), f.GetRun())
	switch {
	case why != "":
		return why
	case !events.IsMainStep(f.GetStep()):
		return c.stepExited(j, i, f)
	case j.Nodes[i].ExitedUs != 0:
		return voidReported
	}
	end := j.Nodes[i].copy()
	end.ExitedUs = c.plausible(f.GetAtUs(), j.StartUs)
	if end.StartedUs == 0 && f.GetStartedUs() != 0 {
		end.StartedUs = c.plausible(f.GetStartedUs(), j.StartUs)
	}
	end.ExitedUs = f.Over(end.StartedUs, end.ExitedUs)
	end.ExitCode, end.ExitSignal, end.Cause, end.Text = f.GetExitCode(), f.GetExitSignal(), f.GetCause(), f.GetText()
	c.endOn(j, i, end, f.GetUsage())
	if n := c.Node(name); n != nil && f.GetCause() == events.EndCause_NODE_UNFIT {
		next := n.copy()
		if next.Unfit = f.GetText(); next.Unfit == "" {
			next.Unfit = "it cannot start anything"
		}
		c.putNode(n, next)
	}
	return ""
}

// runOn is the job, and the node's place in it, that a fact of a node speaks of.
func (c *Cluster) runOn(name string, id, run uint32) (*Job, int, string) {
	j := c.jobs.get(id)
	switch {
	case j == nil:
		return nil, 0, voidNoJob
	case run != j.Run || run == 0:
		return nil, 0, voidRun
	}
	i := j.nodeAt(name)
	if i < 0 {
		return nil, 0, voidNotThere
	}
	return j, i, ""
}

// plausible is a node's time if it lies between the start of the run and now, or the nearest that does.
func (c *Cluster) plausible(at, start int64) int64 { return max(1, start, min(at, c.at)) }

// endOn: the run is over on its i-th node, which is free again.
func (c *Cluster) endOn(j *Job, i int, end *RunNode, usage *events.Usage) {
	next := j.copy()
	next.Nodes = slices.Clone(j.Nodes)
	next.Nodes[i] = end
	next.Steps = closedOn(j.Steps, i, anyStep)
	if usage != nil {
		next.Usage = addUsage(j.Usage, usage)
	}
	// The first node speaks for the run; another one only if something went wrong there and nowhere before.
	if i == 0 || next.EndCause == events.EndCause_EXITED && end.Cause != events.EndCause_STOPPED {
		next.EndCause = end.Cause
	}
	open := false
	last := int64(0)
	for _, n := range next.Nodes {
		open = open || n.ExitedUs == 0
		last = max(last, n.ExitedUs)
	}
	if j.Live() {
		next.Completing = true
		if !open {
			next.EndUs = last
		}
	} else if !open {
		next.Completing = false
		next.FinishedUs = c.at
	}
	share, _ := j.Allocation.ForNode(end.Node)
	c.vacate(end.Node, share, j.Id)
	c.putJob(j, next)
	if next.FinishedUs != 0 {
		c.retire(next)
	}
}

// endAll: nothing of any run lives on the node. Runs that go on without it do.
func (c *Cluster) endAll(n *Node, cause events.EndCause, text string) {
	c.giveUpAll(n)
	if n = c.Node(n.Name); n == nil {
		return // no longer configured, and these were its last jobs
	}
	for _, id := range slices.Clone(n.Jobs) {
		j := c.jobs.get(id)
		i := j.nodeAt(n.Name)
		if i < 0 || j.Nodes[i].ExitedUs != 0 {
			continue
		}
		end := j.Nodes[i].copy()
		end.ExitedUs, end.Cause, end.Text = c.plausible(c.now-j.LeaptUs, j.StartUs), cause, text
		c.endOn(j, i, end, nil)
	}
}

func (c *Cluster) ailing(name string, f *events.DeviceAiling) string {
	n := c.Node(name)
	if n == nil {
		return voidNoNode
	}
	next := n.copy()
	next.Ailing = slices.DeleteFunc(slices.Clone(n.Ailing), func(d *events.DeviceAiling) bool { return d.GetDevice() == f.GetDevice() })
	if len(next.Ailing) >= maxAiling {
		next.Ailing = next.Ailing[1:]
	}
	next.Ailing = append(next.Ailing, f)
	c.putNode(n, next)
	return ""
}

// occupy gives a share of a node to a job, vacate takes it back.
func (c *Cluster) occupy(name string, share *events.NodeShare, id uint32) {
	n := c.Node(name)
	next := n.copy()
	next.CpusUsed = events.Words(n.CpusUsed).Or(share.GetCpus())
	next.MemoryUsedMib += share.GetMemoryMib()
	next.BusyUs = c.now
	at, _ := slices.BinarySearch(n.Jobs, id)
	next.Jobs = append(append(append(make([]uint32, 0, len(n.Jobs)+1), n.Jobs[:at]...), id), n.Jobs[at:]...)
	next.Gres = regres(n.Gres, share.GetGres(), events.Words.Or)
	c.putNode(n, next)
}

func (c *Cluster) vacate(name string, share *events.NodeShare, id uint32) {
	n := c.Node(name)
	if n == nil {
		return
	}
	next := n.copy()
	switch j := c.jobs.get(id); {
	case j.GetLent():
	case n.Doubled:
		next.CpusUsed, next.Doubled = c.cpusHeld(n, id)
	default:
		next.CpusUsed = events.Words(n.CpusUsed).AndNot(share.GetCpus())
	}
	next.MemoryUsedMib -= min(n.MemoryUsedMib, share.GetMemoryMib())
	next.BusyUs = c.now
	next.Gres = regres(n.Gres, share.GetGres(), events.Words.AndNot)
	if at, found := slices.BinarySearch(n.Jobs, id); found {
		next.Jobs = append(append(make([]uint32, 0, len(n.Jobs)), n.Jobs[:at]...), n.Jobs[at+1:]...)
	}
	if n.Removed && len(next.Jobs) == 0 {
		c.nodes.set(c.epoch, n.Index, nil, 0)
		c.layout = c.layout.without(name)
		c.changes = append(c.changes, Change{NodeBefore: n, Fact: c.fact, NodeFact: c.nodeFact, At: c.now, Seq: c.seq, Index: c.index})
		return
	}
	c.putNode(n, next)
}

func regres(have []*NodeGres, given []*events.GresShare, join func(events.Words, events.Words) events.Words) []*NodeGres {
	if len(given) == 0 {
		return have
	}
	next := slices.Clone(have)
	for _, g := range given {
		for i, h := range next {
			if h.Name == g.GetName() && h.Type == g.GetType() {
				next[i] = h.copy()
				next[i].Used = join(h.Used, g.GetIds())
			}
		}
	}
	return next
}

// addUsage adds what one step used on one node: sums are summed, peaks compared.
func addUsage(sum, u *events.Usage) *events.Usage {
	if sum == nil {
		return u
	}
	total := &events.Usage{
		UserUs: sum.UserUs + u.UserUs, SystemUs: sum.SystemUs + u.SystemUs, ReadBytes: sum.ReadBytes + u.ReadBytes,
		WriteBytes: sum.WriteBytes + u.WriteBytes, SumRssKib: sum.SumRssKib + u.SumRssKib, Samples: sum.Samples + u.Samples,
		OomKills: sum.OomKills + u.OomKills, MaxVmKib: max(sum.MaxVmKib, u.MaxVmKib), MaxPages: max(sum.MaxPages, u.MaxPages),
		MaxPids: max(sum.MaxPids, u.MaxPids), MaxRssKib: sum.MaxRssKib, Node: sum.Node, MinCpuUs: min(sum.MinCpuUs, u.MinCpuUs),
	}
	if u.MaxRssKib > sum.MaxRssKib {
		total.MaxRssKib, total.Node = u.MaxRssKib, u.Node
	}
	return total
}

// nodeLost: the leader gave up waiting for the node. What ran there is over as far as the log goes, and freed; should the
// node come back with it, it is told to end it, since nothing of it should run there.
func (c *Cluster) nodeLost(f *events.NodeLost) string {
	n := c.Node(f.GetNode())
	switch {
	case n == nil:
		return voidNoNode
	case n.Lost || !n.Up:
		return voidNodeState
	}
	next := n.copy()
	next.Up, next.Lost, next.Down = false, true, true
	if !n.Down && !n.Drain {
		next.Reason, next.ReasonUid, next.ReasonUs = f.GetReason(), 0, c.now
		if next.Reason == "" {
			next.Reason = "Not responding"
		}
	}
	c.putNode(n, next)
	c.endAll(next, events.EndCause_NODE_WAS_LOST, "the node was lost")
	return ""
}

// nodeReturned: a node that was lost, or set down, beats, without having come up anew.
func (c *Cluster) nodeReturned(f *events.NodeReturned) string {
	n := c.Node(f.GetNode())
	switch {
	case n == nil:
		return voidNoNode
	case n.Up && !n.Rises(c.config), n.Boot == "":
		return voidNodeState
	}
	next := n.copy()
	next.Up = true
	c.back(next)
	c.putNode(n, next)
	return ""
}

// nodeChanged: an administrator's word on a node.
func (c *Cluster) nodeChanged(f *events.NodeChanged) string {
	n := c.Node(f.GetNode())
	if n == nil {
		return voidNoNode
	}
	next := n.copy()
	reason := f.GetReason()
	if reason == "" {
		reason = f.GetChange().GetReason()
	}
	switch f.GetOrder() {
	case events.NodeOrder_NODE_DRAIN:
		next.Drain = true
	case events.NodeOrder_NODE_DOWN:
		next.Down, next.Lost = true, false
	case events.NodeOrder_NODE_FAIL_ORDER:
		next.Fail = true
	case events.NodeOrder_NODE_UNDRAIN:
		next.Drain = false
	case events.NodeOrder_NODE_RESUME, events.NodeOrder_NODE_IDLE:
		next.Future = false
		next.Drain, next.Down, next.Lost, next.Fail = false, false, false, false
	case events.NodeOrder_NODE_FUTURE:
		next.Future, next.Drain, next.Down, next.Lost, next.Fail = true, false, false, false, false
	case events.NodeOrder_NODE_KEEP:
	default:
		return voidNodeState
	}
	if f.GetOrder() != events.NodeOrder_NODE_KEEP {
		next.Unfit = "" // whoever gave the order answers for the node
	}
	if reason != "" {
		next.Reason, next.ReasonUid, next.ReasonUs = reason, f.GetByUid(), c.now
	} else if !next.Drain && !next.Down && !next.Fail && !next.Invalid {
		next.Reason, next.ReasonUid, next.ReasonUs = "", 0, 0
	}
	if u := f.GetChange(); u != nil {
		next.described(n, u)
	}
	c.putNode(n, next)
	c.hit(events.TriggerKind_TRIGGER_RECONFIG, "reconfig")
	if f.GetOrder() == events.NodeOrder_NODE_DOWN {
		c.giveUpAll(next)
	}
	return ""
}

// described takes over what an administrator says of a node besides its state.
func (n *Node) described(before *Node, u *events.UpdateNode) {
	set(&n.Comment, u.Comment)
	set(&n.Extra, u.Extra)
	set(&n.InstanceId, u.InstanceId)
	set(&n.InstanceType, u.InstanceType)
	if u.ActiveFeatures != nil {
		n.ActiveFeatures, n.HasActive = *u.ActiveFeatures, true
	}
	if u.Features == nil && u.Weight == nil && u.Address == nil && u.HostName == nil {
		return
	}
	n.Def = before.Def.CloneVT()
	set(&n.Def.Weight, u.Weight)
	set(&n.Def.Addresses, u.Address)
	set(&n.Def.HostNames, u.HostName)
	if u.Features != nil {
		n.Def.Features = strings.FieldsFunc(*u.Features, func(r rune) bool { return r == ',' })
	}
}
