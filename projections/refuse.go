package projections

import (
	"fmt"
	"slices"
	"strings"

	"stint/events"
)

// Refusal is why a placement is not feasible. A nil *Refusal says that it is.
type Refusal struct {
	Reason events.Reason // NONE: the placement itself is malformed or about something that is not there to be placed
	Text   string        // for people, with names and numbers
}

// OK says that nothing is refused.
func (r *Refusal) OK() bool { return r == nil }

// Error is the refusal in words.
func (r *Refusal) Error() string {
	if r == nil {
		return "feasible"
	}
	return r.Text
}

func refuse(reason events.Reason, format string, args ...any) *Refusal {
	return &Refusal{reason, fmt.Sprintf(format, args...)}
}

// Refuse is THE definition of feasible: asked by who places, and again by the fold when the placement arrives. It looks at
// state only, never at time or at who deserves what: the job waits, is not held, its dependencies are fulfilled, the run
// number is the next, the partition starts jobs and is one the job asked for, and every node is usable, in the partition,
// and has what is given away.
func (s *state) Refuse(p *events.Placed) *Refusal {
	j := s.jobs.get(p.GetJob())
	if j == nil {
		return refuse(0, "job %d is not in the queue", p.GetJob())
	}
	if r := s.refuseJob(j, p); r != nil {
		return r
	}
	part := s.layout.byName[p.GetPartition()]
	switch {
	case part == nil:
		return refuse(events.Reason_PARTITION_CONFIG, "there is no partition %q", p.GetPartition())
	case !asked(j, p.GetPartition()):
		return refuse(events.Reason_PARTITION_CONFIG, "job %d did not ask for partition %s", j.Id, p.GetPartition())
	case part.def.GetState() == events.PartitionState_PARTITION_DOWN_STATE:
		return refuse(events.Reason_PARTITION_DOWN_REASON, "partition %s is down", p.GetPartition())
	case part.def.GetState() == events.PartitionState_PARTITION_INACTIVE_STATE:
		return refuse(events.Reason_PARTITION_INACTIVE, "partition %s is inactive", p.GetPartition())
	}
	if r := s.refuseLicenses(j, p); r != nil {
		return r
	}
	var seen map[string]bool
	count := p.GetAllocation().NodeCount()
	switch {
	case count == 0:
		return refuse(0, "the placement of job %d names no node", j.Id)
	case count > 1:
		seen = make(map[string]bool, count)
	}
	var refusal *Refusal
	p.GetAllocation().Each(func(_ int, name string, share *events.NodeShare) bool {
		if seen[name] {
			refusal = refuse(0, "node %s is given twice", name)
			return false
		}
		if seen != nil {
			seen[name] = true
		}
		refusal = s.refuseNode(j, part, name, share)
		return refusal == nil
	})
	return refusal
}

func (s *state) refuseJob(j *Job, p *events.Placed) *Refusal {
	switch {
	case !j.Waits() || j.Completing:
		return refuse(0, "job %d is %s", j.Id, j.State.Word())
	case p.GetRun() != j.Run+1:
		return refuse(0, "the next run of job %d is %d, not %d", j.Id, j.Run+1, p.GetRun())
	case j.Hold != events.HoldKind_NOT_HELD:
		return refuse(j.PendingReason(0), "job %d is held", j.Id)
	case j.EligibleUs == 0:
		return refuse(events.Reason_DEPENDENCY, "job %d waits for other jobs", j.Id)
	case j.Remainder() != p.GetHasTask() && !(j.HasTask && p.GetHasTask() && p.GetTask() == j.ArrayTask):
		return refuse(0, "placing job %d takes %s", j.Id, map[bool]string{true: "a task", false: "no task"}[j.Remainder()])
	case j.Remainder() && !events.Words(j.Pending).Has(p.GetTask()):
		return refuse(0, "task %d of array %d is not pending", p.GetTask(), j.Id)
	case j.Remainder() && len(j.Dependencies) > 0 && !j.ReadyTasks().Has(p.GetTask()):
		return refuse(events.Reason_DEPENDENCY, "task %d of array %d waits for other jobs", p.GetTask(), j.Id)
	}
	if a := s.Array(j.ArrayId); a != nil && a.MaxRunning > 0 && a.Running >= a.MaxRunning {
		return refuse(events.Reason_JOB_ARRAY_TASK_LIMIT, "array %d runs %d tasks already, of at most %d", a.Id, a.Running, a.MaxRunning)
	}
	return nil
}

// refuseLicenses asks whether the licences of a placement are free, and are those the job asked for.
func (s *state) refuseLicenses(j *Job, p *events.Placed) *Refusal {
	if j.GetSpec().GetLicenses() == "" && p.GetLicenses() == "" {
		return nil
	}
	list, any, err := events.ParseLicenses(j.GetSpec().GetLicenses())
	if err != nil {
		return refuse(events.Reason_LICENSES, "the licences of job %d cannot be read: %s", j.Id, err)
	}
	if any {
		given, _, err := events.ParseLicenses(p.GetLicenses())
		if err != nil || len(given) != 1 || !slices.Contains(list, given[0]) {
			return refuse(0, "job %d is given the licences %q of %s", j.Id, p.GetLicenses(), j.GetSpec().GetLicenses())
		}
		list = given
	} else if p.GetLicenses() != "" {
		return refuse(0, "job %d has no choice of licences", j.Id)
	}
	for _, l := range list {
		have, known := s.License(l.Name)
		if used := s.LicensesUsed(l.Name); !known || uint64(used)+uint64(l.Count) > uint64(have) {
			return refuse(events.Reason_LICENSES, "of licence %s %d are free, not %d", l.Name, max(0, int64(have)-int64(used)), l.Count)
		}
	}
	return nil
}

// asked says whether a job named the partition (a comma separated list), or named none.
func asked(j *Job, partition string) bool {
	list := j.GetSpec().GetPartition()
	if list == "" {
		return j.Partition == "" || j.Partition == partition
	}
	for name := range strings.SplitSeq(list, ",") {
		if name == partition {
			return true
		}
	}
	return false
}

func (s *state) refuseNode(j *Job, part *partition, name string, share *events.NodeShare) *Refusal {
	n := s.Node(name)
	if n == nil {
		return refuse(0, "there is no node %s", name)
	}
	cpus, used := events.Words(share.GetCpus()), events.Words(n.CpusUsed)
	last, any := cpus.Last()
	_, in := slices.BinarySearch(part.nodes, n.Index)
	switch {
	case !n.Usable():
		return refuse(events.Reason_REQ_NODE_NOT_AVAIL, "node %s is %s", name, n.trouble())
	case !in || int(n.Index) >= s.layout.configured:
		return refuse(events.Reason_PARTITION_CONFIG, "node %s is not in partition %s", name, part.def.GetName())
	case !any:
		return refuse(0, "job %d is given no CPU of node %s", j.Id, name)
	case last >= n.CPUs():
		return refuse(events.Reason_RESOURCES, "node %s has CPUs 0-%d, not %d", name, int64(n.CPUs())-1, last)
	case cpus.Intersects(used):
		return refuse(events.Reason_RESOURCES, "CPUs %s of node %s are in use", cpus.And(used), name)
	case s.config.GetSelectMemory() && n.MemoryUsedMib+share.GetMemoryMib() > n.MemoryMiB(),
		n.MemoryUsedMib+share.GetMemoryMib() < n.MemoryUsedMib:
		return refuse(events.Reason_RESOURCES, "node %s has %d MiB free, not %d", name, int64(n.MemoryMiB()-n.MemoryUsedMib), share.GetMemoryMib())
	case j.Spec.GetExclusive() == events.Exclusive_EXCLUSIVE_NODE && len(n.Jobs) > 0:
		return refuse(events.Reason_RESOURCES, "job %d wants node %s for itself, and it has jobs", j.Id, name)
	}
	for _, id := range n.Jobs {
		other := s.jobs.get(id)
		if other.GetSpec().GetExclusive() == events.Exclusive_EXCLUSIVE_NODE {
			return refuse(events.Reason_RESOURCES, "job %d has node %s for itself", id, name)
		}
		if s.UserExclusive() > 0 && other.GetOwner().GetUid() != j.GetOwner().GetUid() && (OneUser(other, s.Partition(other.Partition)) || OneUser(j, part.def)) {
			return refuse(events.Reason_RESOURCES, "node %s has a job of another user, %d, and shares with one user's alone", name, id)
		}
	}
	for i, g := range share.GetGres() {
		ids := events.Words(g.GetIds())
		have := n.gres(g.GetName(), g.GetType())
		last, any := ids.Last()
		switch {
		case have == nil:
			return refuse(events.Reason_RESOURCES, "node %s has no %s:%s", name, g.GetName(), g.GetType())
		case any && uint64(last) >= have.Count:
			return refuse(events.Reason_RESOURCES, "node %s has %d of %s:%s, no number %d", name, have.Count, g.GetName(), g.GetType(), last)
		case ids.Intersects(have.Used):
			return refuse(events.Reason_RESOURCES, "%s:%s %s of node %s are in use", g.GetName(), g.GetType(), ids.And(have.Used), name)
		}
		for _, other := range share.GetGres()[:i] {
			if other.GetName() == g.GetName() && other.GetType() == g.GetType() {
				return refuse(0, "%s:%s of node %s is given in two parts", g.GetName(), g.GetType(), name)
			}
		}
	}
	return nil
}

func (n *Node) gres(name, kind string) *NodeGres {
	for _, g := range n.Gres {
		if g.Name == name && g.Type == kind {
			return g
		}
	}
	return nil
}

// trouble is what is against a node, in one word.
func (n *Node) trouble() string {
	switch {
	case n.Removed:
		return "no longer configured"
	case n.Future:
		return "set aside for the future"
	case n.Lost:
		return "lost"
	case n.Down:
		return "down"
	case n.Drain:
		return "drained"
	case n.Fail:
		return "failing"
	case n.Invalid:
		return "short of what is configured"
	case n.NeverUp:
		return "not up yet"
	}
	return "not up"
}
