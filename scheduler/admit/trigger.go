package admit

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
)

// MaxTriggerOffsetS is the most seconds that a trigger is pulled before or after what it waits for.
const MaxTriggerOffsetS = 32_000

// kindsOf are the kinds of triggers there are for nodes, for jobs and for controllers.
var kindsOf = map[events.TriggerOf][]events.TriggerKind{
	events.TriggerOf_TRIGGER_NODE: {events.TriggerKind_TRIGGER_UP, events.TriggerKind_TRIGGER_DOWN, events.TriggerKind_TRIGGER_FAIL, events.TriggerKind_TRIGGER_RECONFIG,
		events.TriggerKind_TRIGGER_IDLE, events.TriggerKind_TRIGGER_DRAINED, events.TriggerKind_TRIGGER_DRAINING, events.TriggerKind_TRIGGER_RESUME},
	events.TriggerOf_TRIGGER_JOB: {events.TriggerKind_TRIGGER_UP, events.TriggerKind_TRIGGER_DOWN, events.TriggerKind_TRIGGER_FAIL, events.TriggerKind_TRIGGER_TIME,
		events.TriggerKind_TRIGGER_FINI, events.TriggerKind_TRIGGER_DRAINED, events.TriggerKind_TRIGGER_DRAINING, events.TriggerKind_TRIGGER_RESUME},
	events.TriggerOf_TRIGGER_CONTROLLER: {events.TriggerKind_TRIGGER_CONTROLLER_FAILED, events.TriggerKind_TRIGGER_CONTROLLER_RESUMED,
		events.TriggerKind_TRIGGER_CONTROL_RESUMED, events.TriggerKind_TRIGGER_CONTROL_ASSUMED},
}

// setTrigger has a program run when something happens. As in Slurm, only SlurmUser may, unless that is root: then everybody may,
// since the program runs as whoever set it.
func (d *Desk) setTrigger(m *events.Trigger) []*events.Fact {
	if r := d.triggerRefusal(m); r != nil {
		return d.refused(r)
	}
	t := m.CloneVT()
	t.Id = d.r.NextTrigger()
	t.Owner = &events.Owner{Uid: d.who.Uid, Gid: d.who.Gid, User: d.who.User, Group: d.who.Group, Groups: d.who.Groups}
	for _, old := range d.r.Triggers() {
		if same := old.Trigger.CloneVT(); same.GetOwner().GetUid() == d.who.Uid {
			same.Id, same.Owner = t.Id, t.Owner
			if same.EqualVT(t) {
				return d.refused(refuse(events.Code_DUPLICATE_TRIGGER, "trigger %d of yours is the same", old.Trigger.Id))
			}
		}
	}
	return []*events.Fact{{Kind: &events.Fact_TriggerSet{TriggerSet: &events.TriggerSet{Intent: d.ref(), Trigger: t}}}}
}

func (d *Desk) triggerRefusal(m *events.Trigger) *refusal {
	if user := slurmUser(d.r.Config()); user != "" && user != d.who.User && user != strconv.FormatUint(uint64(d.who.Uid), 10) {
		return refuse(events.Code_ACCESS_DENIED, "only SlurmUser sets triggers, and that is %s", user)
	}
	if most := cmp.Or(int(d.r.Config().GetMaxJobCount()), defaultMaxJobCount); len(d.r.Triggers()) >= most && d.who.Uid != 0 {
		return refuse(events.Code_QUEUE_FULL, "%d triggers are set, and no more are taken", len(d.r.Triggers()))
	}
	if r := texts(MaxText, "the program", m.Program); r != nil {
		return r
	}
	if r := texts(MaxList, "the nodes", m.Nodes); r != nil {
		return r
	}
	switch {
	case len(m.Kinds) == 0 || len(m.Kinds) > 16:
		return refuse(events.Code_MALFORMED, "a trigger waits for something")
	case !strings.HasPrefix(m.Program, "/"):
		return refuse(events.Code_MALFORMED, "the program of a trigger is named by its whole path, not %.60q", m.Program)
	case m.OffsetS < -MaxTriggerOffsetS || m.OffsetS > MaxTriggerOffsetS:
		return refuse(events.Code_MALFORMED, "an offset of %d seconds is not between -%d and %d", m.OffsetS, MaxTriggerOffsetS, MaxTriggerOffsetS)
	}
	for _, k := range m.Kinds {
		if !slices.Contains(kindsOf[m.Of], k) {
			return refuse(events.Code_MALFORMED, "there is no trigger of that kind (%d) for that", k)
		}
	}
	switch m.Of {
	case events.TriggerOf_TRIGGER_JOB:
		switch j := d.r.Job(m.Job); {
		case j == nil:
			return refuse(events.Code_UNKNOWN_JOB, "there is no job %d", m.Job)
		case j.Over():
			return refuse(events.Code_ALREADY_DONE, "job %d is over (%s)", m.Job, j.State.Word())
		}
	case events.TriggerOf_TRIGGER_NODE:
		if m.Nodes == "*" {
			return nil
		}
		names, err := hostlist.Expand(m.Nodes, hostlist.MaxHosts)
		if err != nil || len(names) == 0 {
			return refuse(events.Code_INVALID_NODE, "%.100q names no nodes", m.Nodes)
		}
		for _, name := range names {
			if d.r.Node(name) == nil {
				return refuse(events.Code_INVALID_NODE, "there is no node %.100q", name)
			}
		}
	}
	return nil
}

// slurmUser is who alone may set triggers; empty: everybody may.
func slurmUser(c *events.Config) string {
	for _, s := range c.GetSettings() {
		if strings.EqualFold(s.GetKey(), "SlurmUser") {
			name, _, _ := strings.Cut(s.GetValue(), "(")
			if name = strings.TrimSpace(name); name != "root" && name != "0" {
				return name
			}
		}
	}
	return ""
}

// clearTriggers removes triggers: one's own, or anybody's for root.
func (d *Desk) clearTriggers(m *events.ClearTriggers) []*events.Fact {
	if m.Id == 0 && m.Job == 0 && m.Uid == nil {
		return d.refused(refuse(events.Code_MALFORMED, "the request says neither which triggers nor whose"))
	}
	cleared := &events.TriggersCleared{Intent: d.ref(), ByUid: d.who.Uid}
	var denied *projections.Trigger
	for _, t := range d.r.Triggers() {
		switch uid := t.GetTrigger().GetOwner().GetUid(); {
		case m.Id != 0 && t.Trigger.Id != m.Id, m.Job != 0 && t.Trigger.Job != m.Job, m.Uid != nil && uid != *m.Uid:
		case uid != d.who.Uid && d.who.Uid != 0:
			denied = t
		default:
			cleared.Ids = append(cleared.Ids, t.Trigger.Id)
		}
	}
	switch {
	case len(cleared.Ids) > 0:
		return []*events.Fact{{Kind: &events.Fact_TriggersCleared{TriggersCleared: cleared}}}
	case denied != nil:
		return d.refused(refuse(events.Code_ACCESS_DENIED, "trigger %d belongs to %s", denied.Trigger.Id, denied.Trigger.GetOwner().GetUser()))
	}
	return d.refused(refuse(events.Code_NO_TRIGGER, "there is no such trigger"))
}
