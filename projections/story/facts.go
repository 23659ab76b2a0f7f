package story

import (
	"fmt"
	"strings"

	"stint/events"
)

func (t *teller) fact(i int, f *events.Fact) {
	switch f := f.GetKind().(type) {
	case *events.Fact_Admitted:
		a := f.Admitted
		l := t.job(i, a.Job, "admitted", leader, "", holdText(a.Hold))
		if tasks := a.GetSpec().GetArray().GetTasks(); len(tasks) > 0 {
			l.Label = tasksLabel(a.Job, tasks) // as it was: tasks may have started since
		}
		l.What = fmt.Sprintf("job %s is in the queue of %s for %s, priority %d", l.Label, a.GetSpec().GetPartition(), a.GetOwner().GetUser(), a.Priority)
	case *events.Fact_Judged:
		t.judged(i, f.Judged)
	case *events.Fact_PlacedTogether:
		parts := f.PlacedTogether.GetParts()
		if len(parts) == 0 {
			parts = []*events.Placed{{}}
		}
		for _, p := range parts {
			t.fact(i, &events.Fact{Kind: &events.Fact_Placed{Placed: p}})
		}
	case *events.Fact_Placed:
		p := f.Placed
		what := fmt.Sprintf("run %d gets %s", p.Run, share(p.Allocation))
		if p.Partition != "" {
			what += " in " + p.Partition
		}
		why := "its turn"
		if p.Backfilled {
			why = "backfilled: it delays nobody ahead of it"
		}
		l := t.job(i, p.Job, "placed", leader, what+", limit "+limit(p.LimitS), why)
		if p.HasTask {
			l.Label = fmt.Sprintf("%d_%d", p.Job, p.Task)
		}
	case *events.Fact_Stopping:
		s := f.Stopping
		what := fmt.Sprintf("run %d is told to end, killed after %d s", s.Run, s.KillAfterS)
		t.job(i, s.Job, "stopping", leader, what, t.stopText(s))
	case *events.Fact_Ended:
		t.ended(i, f.Ended)
	case *events.Fact_Held:
		t.ofTasks(i, f.Held.Job, f.Held.HasTasks, f.Held.Tasks, "held", "held", join(heldText(f.Held.Kind, f.Held.Reason), f.Held.Text))
	case *events.Fact_Released:
		t.ofTasks(i, f.Released.Job, f.Released.HasTasks, f.Released.Tasks, "released", fmt.Sprintf("released with priority %d", f.Released.Priority), "")
	case *events.Fact_Updated:
		t.job(i, f.Updated.Job, "updated", leader, "changed: "+updateText(f.Updated.Change), "by "+t.names.User(f.Updated.ByUid))
	case *events.Fact_Requeued:
		r := f.Requeued
		what := fmt.Sprintf("run %d is over, back to the queue", r.Run)
		if r.BeginUs != 0 {
			what += ", not before " + clock(r.BeginUs)
		}
		t.job(i, r.Job, "requeued", leader, what, heldText(r.Hold, r.Reason))
	case *events.Fact_Signalled:
		s := f.Signalled
		what := fmt.Sprintf("signal %d to run %d", s.Signal, s.Run)
		if s.HasStep {
			what = fmt.Sprintf("signal %d to step %s of run %d", s.Signal, events.StepName(s.Step), s.Run)
		}
		t.job(i, s.Job, "signalled", leader, what, "by "+t.names.User(s.ByUid))
	case *events.Fact_Suspended:
		t.job(i, f.Suspended.Job, "suspended", leader, fmt.Sprintf("run %d stands still", f.Suspended.Run), "by "+t.names.User(f.Suspended.ByUid))
	case *events.Fact_Resumed:
		t.job(i, f.Resumed.Job, "resumed", leader, fmt.Sprintf("run %d goes on", f.Resumed.Run), "by "+t.names.User(f.Resumed.ByUid))
	case *events.Fact_NodeChanged:
		n := f.NodeChanged
		by := "by " + t.names.User(n.ByUid)
		if n.Own {
			by = ""
		}
		t.node(i, n.Node, "node-changed", leader, nodeOrder(n.Order)+" "+n.Node, join(n.Reason, by))
	case *events.Fact_NodeLost:
		t.node(i, f.NodeLost.Node, "node-lost", leader, f.NodeLost.Node+" is lost", f.NodeLost.Reason)
	case *events.Fact_NodeReturned:
		t.node(i, f.NodeReturned.Node, "node-returned", leader, f.NodeReturned.Node+" is back", "")
	case *events.Fact_Administered:
		if len(f.Administered.GetPolicy().GetActs()) == 0 {
			t.line(i, "administered", leader, "did nothing to accounts and limits", "by "+f.Administered.GetBy())
		}
		for _, act := range f.Administered.GetPolicy().GetActs() {
			t.line(i, "administered", leader, policyText(act), "by "+f.Administered.GetBy())
		}
	case *events.Fact_Configured:
		c := f.Configured.Config
		t.line(i, "configured", leader, fmt.Sprintf("configuration of cluster %s taken over: %s, %s", c.GetCluster(),
			plural(uint64(len(c.GetNodes())), "node entry", "node entries"), plural(uint64(len(c.GetPartitions())), "partition")), "")
	case *events.Fact_PartitionChanged:
		p := f.PartitionChanged
		verb := [...]string{"made", "changed", "removed"}[min(uint32(p.Act), 2)]
		t.line(i, "partition-changed", leader, fmt.Sprintf("partition %s is %s", p.GetPartition().GetName(), verb), "by "+t.names.User(p.ByUid))
	case *events.Fact_Notified:
		n := f.Notified
		t.job(i, n.Job, "notified", leader, fmt.Sprintf("run %d is told %q", n.Run, n.Text), "by "+t.names.User(n.ByUid))
	case *events.Fact_StepLimited:
		s := f.StepLimited
		limit := "no time limit of its own"
		if s.LimitS > 0 {
			limit = fmt.Sprintf("a time limit of %ds", s.LimitS)
		}
		t.job(i, s.Job, "step-limited", leader, fmt.Sprintf("step %s of run %d has %s", events.StepName(s.Step), s.Run, limit), "by "+t.names.User(s.ByUid))
	case *events.Fact_CrontabSet:
		s := f.CrontabSet
		what := fmt.Sprintf("%s has a crontab of %s", s.User, plural(uint64(len(s.Jobs)), "entry", "entries"))
		if s.Removed {
			what = s.User + " has no crontab any more"
		}
		t.line(i, "crontab-set", leader, what, "by "+t.names.User(s.ByUid))
	case *events.Fact_ClockSet:
		t.line(i, "clock-set", leader, fmt.Sprintf("clocks were set forward by %d s; what runs has as much time left as before", f.ClockSet.GetByUs()/1e6), "")
	case *events.Fact_ZoneSet:
		t.line(i, "zone-set", leader, fmt.Sprintf("local time is %+d s from UTC, and changes %s in the years to come",
			f.ZoneSet.GetZone().GetOffsetS(), plural(uint64(len(f.ZoneSet.GetZone().GetShifts())), "time")), "")
	case *events.Fact_TriggerSet:
		s := f.TriggerSet.GetTrigger()
		t.line(i, "trigger-set", leader, fmt.Sprintf("trigger %d runs %s", s.GetId(), s.GetProgram()), "by "+s.GetOwner().GetUser())
	case *events.Fact_TriggersCleared:
		why := "there is nothing more that they could wait for"
		if f.TriggersCleared.GetIntent() != nil {
			why = "by " + t.names.User(f.TriggersCleared.ByUid)
		}
		t.line(i, "triggers-cleared", leader, fmt.Sprintf("triggers cleared: %v", f.TriggersCleared.Ids), why)
	case *events.Fact_TriggerPulled:
		t.line(i, "trigger-pulled", leader, fmt.Sprintf("trigger %d is pulled, about %s", f.TriggerPulled.Id, f.TriggerPulled.Argument), "")
	case *events.Fact_ConfigSet:
		var set []string
		for _, s := range f.ConfigSet.Settings {
			set = append(set, s.Key+"="+s.Value)
		}
		t.line(i, "config-set", leader, "settings changed: "+strings.Join(set, " "), "by "+t.names.User(f.ConfigSet.ByUid))
	default:
		t.line(i, "unknown", leader, "decided something this version cannot read", "")
	}
}

func (t *teller) node(i int, node, kind, who, what, why string) {
	t.line(i, kind, who, what, why).Node = node
}

// ofTasks is a fact about a job, or about the tasks of an array that it names.
func (t *teller) ofTasks(i int, job uint32, has bool, tasks events.Words, kind, what, why string) {
	l := t.job(i, job, kind, leader, what, why)
	if has {
		l.Label = tasksLabel(job, tasks)
	}
}

func (t *teller) judged(i int, j *events.Judged) {
	switch {
	case j.Code != events.Code_OK && len(j.Verdicts) > 0: // told of each
	case j.Code != events.Code_OK:
		t.line(i, "refused", leader, fmt.Sprintf("refused what was asked in message %d", j.GetIntent().GetSeq()), join(codeText(j.Code), j.Text))
	default:
		t.line(i, "done", leader, fmt.Sprintf("did what was asked in message %d to %s", j.GetIntent().GetSeq(), plural(uint64(j.Touched), "job or node", "jobs or nodes")), j.Text)
	}
	for _, v := range j.Verdicts {
		what := "not done to " + v.Name
		if v.Job != 0 {
			what = "not done to job " + t.names.Label(v.Job)
		}
		l := t.line(i, "refused", leader, what, join(codeText(v.Code), v.Text))
		if v.Job != 0 {
			l.Job, l.Label = v.Job, t.names.Label(v.Job)
		}
	}
}

func (t *teller) ended(i int, e *events.Ended) {
	what := "ended " + e.State.Word()
	if e.Run == 0 {
		what += " without having run"
	} else {
		what += ", exit " + exitText(e.ExitCode, e.ExitSignal)
	}
	why := reasonText(e.Reason)
	if e.State == events.JobState_CANCELLED {
		why = join(why, "by "+t.names.User(e.ByUid))
	}
	t.ofTasks(i, e.Job, e.HasTasks, e.Tasks, "ended", what, why)
}

func (t *teller) stopText(s *events.Stopping) string {
	why := ""
	switch s.Cause {
	case events.StopCause_STOP_CANCEL:
		why = "cancelled by " + t.names.User(s.ByUid)
	case events.StopCause_STOP_TIME_LIMIT:
		why = "its time limit has passed"
	case events.StopCause_STOP_NODE_LOST:
		why = "a node was lost"
	case events.StopCause_STOP_PREEMPT:
		why = "preempted"
	case events.StopCause_STOP_REQUEUE:
		why = "requeued by " + t.names.User(s.ByUid)
		if s.HoldAfter {
			why += ", to be held"
		}
	case events.StopCause_STOP_COMPLETE:
		why = "whoever held it is done"
	case events.StopCause_STOP_DEADLINE:
		why = "its deadline has passed"
	}
	if strings.Contains(why, s.Text) {
		return why // the same again, in fewer words
	}
	return join(why, s.Text)
}

func (t *teller) nodeFact(i int, f *events.NodeFact) {
	node := t.e.Name
	switch f := f.GetKind().(type) {
	case *events.NodeFact_Up:
		inv := f.Up.GetInventory()
		what := fmt.Sprintf("is up: %s, %d MiB", plural(uint64(inv.GetCpus()), "CPU"), inv.GetMemoryMib())
		if n := len(inv.GetDevices()); n > 0 {
			what += ", " + plural(uint64(n), "device")
		}
		if n := len(f.Up.GetRuns()); n > 0 {
			what += fmt.Sprintf("; %s still there", plural(uint64(n), "step is", "steps are"))
		}
		t.node(i, node, "up", node, what, "boot "+t.e.Node.GetBoot())
	case *events.NodeFact_Started:
		s := f.Started
		l := t.job(i, s.Job, "started", node, fmt.Sprintf("step %s of run %d started", events.StepName(s.Step), s.Run), "")
		l.Node, l.AtUs = node, at(s.AtUs, l.AtUs)
	case *events.NodeFact_Exited:
		t.exited(i, node, f.Exited)
	case *events.NodeFact_Ailing:
		a := f.Ailing
		what := a.Device + " ails"
		if a.Fatal {
			what = a.Device + " is out of order"
		}
		t.node(i, node, "ailing", node, what, a.Text)
	default:
		t.node(i, node, "unknown", node, "said something this version cannot read", "")
	}
}

func (t *teller) exited(i int, node string, x *events.StepExited) {
	var b strings.Builder
	fmt.Fprintf(&b, "step %s of run %d ", events.StepName(x.Step), x.Run)
	if x.StartedUs == 0 {
		b.WriteString("never started")
	} else {
		fmt.Fprintf(&b, "exited %s", exitText(x.ExitCode, x.ExitSignal))
		if x.ElapsedUs > 0 {
			b.WriteString(" after " + seconds(x.ElapsedUs))
		}
	}
	if u := x.Usage; u != nil {
		fmt.Fprintf(&b, "; %s of CPU", seconds(int64(u.UserUs+u.SystemUs)))
		if u.MaxRssKib != 0 {
			fmt.Fprintf(&b, ", at most %d MiB", (u.MaxRssKib+1023)>>10)
		}
	}
	l := t.job(i, x.Job, "exited", node, b.String(), join(causeText(x.Cause), x.Text))
	l.Node, l.AtUs = node, at(x.AtUs, l.AtUs)
}

func at(us, otherwise int64) int64 {
	if us != 0 {
		return us
	}
	return otherwise
}
