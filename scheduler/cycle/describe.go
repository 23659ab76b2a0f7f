package cycle

import (
	"fmt"
	"strings"

	"stint/events"
	"stint/events/hostlist"
)

// Describe writes a decision in one line, with all that tells it from another; empty for verdicts that all is well. Times are
// seconds since zero (microseconds).
func Describe(f *events.Fact, zero int64) string {
	switch k := f.GetKind().(type) {
	case *events.Fact_Admitted:
		return fmt.Sprintf("admitted %d %s priority %d", k.Admitted.Job, k.Admitted.Spec.GetName(), k.Admitted.Priority)
	case *events.Fact_Judged:
		if k.Judged.Code == events.Code_OK {
			return ""
		}
		return fmt.Sprintf("judged %s", k.Judged.Code)
	case *events.Fact_PlacedTogether:
		parts := make([]string, 0, len(k.PlacedTogether.GetParts()))
		for _, p := range k.PlacedTogether.GetParts() {
			parts = append(parts, strings.TrimPrefix(Describe(&events.Fact{Kind: &events.Fact_Placed{Placed: p}}, zero), "placed "))
		}
		return "placed together " + strings.Join(parts, ", ")
	case *events.Fact_Placed:
		p := k.Placed
		id := fmt.Sprint(p.Job)
		if p.HasTask {
			id = fmt.Sprintf("%d_%d", p.Job, p.Task)
		}
		how := ""
		if p.Backfilled {
			how = " by backfill"
		}
		return fmt.Sprintf("placed %s run %d on %s%s", id, p.Run, DescribeAllocation(p.Allocation), how)
	case *events.Fact_Stopping:
		return fmt.Sprintf("stopping %d run %d for %s, killed after %d s", k.Stopping.Job, k.Stopping.Run, k.Stopping.Cause, k.Stopping.KillAfterS)
	case *events.Fact_Ended:
		e := k.Ended
		id := fmt.Sprint(e.Job)
		if e.HasTasks {
			id = fmt.Sprintf("%d_[%s]", e.Job, events.Words(e.Tasks))
		}
		text := fmt.Sprintf("ended %s %s %d:%d", id, e.State.Word(), e.ExitCode, e.ExitSignal)
		if e.Reason != events.Reason_NONE {
			text += " " + e.Reason.Word()
		}
		return text
	case *events.Fact_Held:
		text := fmt.Sprintf("held %d %s", k.Held.Job, k.Held.Kind)
		if k.Held.Reason != events.Reason_NONE {
			text += fmt.Sprintf(" %s (%s)", k.Held.Reason.Word(), k.Held.Text)
		}
		return text
	case *events.Fact_Released:
		return fmt.Sprintf("released %d", k.Released.Job)
	case *events.Fact_Updated:
		return fmt.Sprintf("updated %d", k.Updated.Job)
	case *events.Fact_Requeued:
		r, begins := k.Requeued, "at once"
		if r.BeginUs != 0 {
			begins = fmt.Sprintf("%+d", (max(r.BeginUs, zero)-zero)/second)
		}
		text := fmt.Sprintf("requeued %d run %d begins %s", r.Job, r.Run, begins)
		if r.Hold != events.HoldKind_NOT_HELD {
			text = fmt.Sprintf("requeued %d run %d %s %s", r.Job, r.Run, r.Hold, r.Reason.Word())
		}
		return text
	case *events.Fact_NodeChanged:
		text := fmt.Sprintf("node %s %s", k.NodeChanged.Node, k.NodeChanged.Order)
		if k.NodeChanged.Reason != "" {
			text += " (" + k.NodeChanged.Reason + ")"
		}
		return text
	case *events.Fact_Configured:
		return "configured"
	case *events.Fact_Administered:
		return fmt.Sprintf("administered %d by %s", len(k.Administered.GetPolicy().GetActs()), k.Administered.By)
	case *events.Fact_Signalled:
		return fmt.Sprintf("signalled %d with %d", k.Signalled.Job, k.Signalled.Signal)
	case *events.Fact_NodeLost:
		return "lost " + k.NodeLost.Node
	case *events.Fact_NodeReturned:
		return "returned " + k.NodeReturned.Node
	case *events.Fact_Suspended:
		return fmt.Sprintf("suspended %d", k.Suspended.Job)
	case *events.Fact_Resumed:
		return fmt.Sprintf("resumed %d", k.Resumed.Job)
	case *events.Fact_PartitionChanged:
		deed := map[events.PartitionAct]string{events.PartitionAct_PARTITION_CREATE: "made", events.PartitionAct_PARTITION_CHANGE: "changed", events.PartitionAct_PARTITION_DELETE: "removed"}[k.PartitionChanged.Act]
		return fmt.Sprintf("partition %s %s", k.PartitionChanged.GetPartition().GetName(), deed)
	case *events.Fact_Notified:
		return fmt.Sprintf("notified %d run %d: %s", k.Notified.Job, k.Notified.Run, k.Notified.Text)
	case *events.Fact_StepLimited:
		return fmt.Sprintf("limited %d.%s run %d to %d", k.StepLimited.Job, events.StepName(k.StepLimited.Step), k.StepLimited.Run, k.StepLimited.LimitS)
	case *events.Fact_CrontabSet:
		if k.CrontabSet.Removed {
			return "crontab of " + k.CrontabSet.User + " removed"
		}
		return fmt.Sprintf("crontab of %s: %v", k.CrontabSet.User, k.CrontabSet.Jobs)
	case *events.Fact_ClockSet:
		return fmt.Sprintf("the clock was set forward by %d s", k.ClockSet.GetByUs()/second)
	case *events.Fact_ZoneSet:
		return fmt.Sprintf("zone %+d and %d shifts", k.ZoneSet.GetZone().GetOffsetS(), len(k.ZoneSet.GetZone().GetShifts()))
	case *events.Fact_TriggerSet:
		return fmt.Sprintf("trigger %d set", k.TriggerSet.GetTrigger().GetId())
	case *events.Fact_TriggersCleared:
		return fmt.Sprintf("triggers %v cleared", k.TriggersCleared.Ids)
	case *events.Fact_TriggerPulled:
		return fmt.Sprintf("trigger %d pulled: %s", k.TriggerPulled.Id, k.TriggerPulled.Argument)
	case *events.Fact_ConfigSet:
		text := "set"
		for _, s := range k.ConfigSet.GetSettings() {
			text += " " + s.GetKey() + "=" + s.GetValue()
		}
		return text
	}
	return "a fact of an unknown kind"
}

// DescribeAllocation writes who got what, node group by node group.
func DescribeAllocation(a *events.Allocation) string {
	var parts []string
	for _, sh := range a.GetShares() {
		text := fmt.Sprintf("%s[cpus %s", hostlist.Compress(sh.Nodes), events.Words(sh.Cpus))
		if sh.MemoryMib > 0 {
			text += fmt.Sprintf(" mem %d", sh.MemoryMib)
		}
		for _, g := range sh.Gres {
			text += fmt.Sprintf(" %s:%s %s", g.Name, g.Type, events.Words(g.Ids))
		}
		parts = append(parts, fmt.Sprintf("%s tasks %d]", text, sh.Tasks))
	}
	return strings.Join(parts, " ")
}
