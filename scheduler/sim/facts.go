package sim

import (
	"fmt"

	"stint/events"
)

// facts writes what leaders decided since it was last asked.
func (s *Script) facts() {
	for ; s.told < len(s.World.log); s.told++ {
		m := &s.World.log[s.told]
		e := events.Decode(m.Seq, m.At, m.Subject, m.Data)
		for _, f := range e.Sched.GetCycle().GetFacts() {
			if text := FactText(f); text != "" {
				s.print("%s %s", since(e.Sched.GetCycle().NowUs), text)
			}
		}
	}
}

// FactText writes a decision of the leader in one line; empty for verdicts without content.
func FactText(f *events.Fact) string {
	switch k := f.GetKind().(type) {
	case *events.Fact_Admitted:
		return fmt.Sprintf("admitted %d %s priority %d", k.Admitted.Job, k.Admitted.Spec.GetName(), k.Admitted.Priority)
	case *events.Fact_Judged:
		if k.Judged.Code == events.Code_OK {
			return ""
		}
		return fmt.Sprintf("judged %s", k.Judged.Code)
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
		return fmt.Sprintf("placed %s run %d on %s%s", id, p.Run, allocation(p.Allocation), how)
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
		return fmt.Sprintf("held %d %s", k.Held.Job, k.Held.Kind)
	case *events.Fact_Released:
		return fmt.Sprintf("released %d", k.Released.Job)
	case *events.Fact_Updated:
		return fmt.Sprintf("updated %d", k.Updated.Job)
	case *events.Fact_Requeued:
		return fmt.Sprintf("requeued %d run %d begins %s", k.Requeued.Job, k.Requeued.Run, since(max(k.Requeued.BeginUs, Epoch)))
	case *events.Fact_NodeChanged:
		return fmt.Sprintf("node %s %s", k.NodeChanged.Node, k.NodeChanged.Order)
	case *events.Fact_Configured:
		return "configured"
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
	}
	return "a fact of an unknown kind"
}
