package projections

import (
	"slices"
	"strings"

	"stint/events"
	"stint/events/hostlist"
)

// Triggers: programs that are run when something happens. The fold notes with each what happened that it waits for (its
// hits); a pass decides that it is pulled; whoever leads then runs the program, this once.

// maxHits is how many nodes are told to one trigger at once.
const maxHits = 10_000

// Pulled is a trigger that the message folded last pulled, as it was, and what its program is told.
type Pulled struct {
	Trigger  *events.Trigger
	Argument string
}

// Pulled are the triggers that the last Apply pulled. The slice is good until the next Apply.
func (c *Cluster) Pulled() []Pulled { return c.pulled }

// Triggers are those that are set, ascending by id.
func (s *state) Triggers() []*Trigger { return s.triggers }

// NextTrigger is the id that the next trigger takes.
func (s *state) NextTrigger() uint32 { return s.nextTrigger + 1 }

func (t *Trigger) copy() *Trigger {
	return &Trigger{
		Trigger:  t.Trigger,
		Hits:     t.Hits,
		HitUs:    t.HitUs,
		PulledUs: t.PulledUs,
	}
}

// Wants says whether a trigger is for any of these.
func (t *Trigger) Wants(kinds ...events.TriggerKind) bool {
	return slices.ContainsFunc(t.GetTrigger().GetKinds(), func(k events.TriggerKind) bool { return slices.Contains(kinds, k) })
}

// Over says whether a trigger is for a node.
func (t *Trigger) Over(node string) bool {
	if t.GetTrigger().GetNodes() == "*" {
		return true
	}
	names, err := hostlist.Expand(t.GetTrigger().GetNodes(), hostlist.MaxHosts)
	return err == nil && slices.Contains(names, node)
}

func (c *Cluster) triggerSet(f *events.TriggerSet) string {
	item := c.waits(f.GetIntent())
	switch {
	case item == nil || item.GetIntent().GetVerb() != events.Verb_SET_TRIGGER:
		return voidNoIntent
	case f.GetTrigger().GetId() != c.NextTrigger():
		return voidNotThatID
	}
	c.nextTrigger = f.GetTrigger().GetId()
	c.triggers = append(c.triggers[:len(c.triggers):len(c.triggers)], &Trigger{Trigger: f.GetTrigger()})
	c.settle(item, &IntentVerdict{Touched: 1})
	c.verdict.Changed = true
	return ""
}

// triggersCleared: by somebody's word, or since there is nothing more that they could wait for.
func (c *Cluster) triggersCleared(f *events.TriggersCleared) string {
	if f.GetIntent().GetSeq() != 0 {
		item := c.waits(f.GetIntent())
		if item == nil || item.GetIntent().GetVerb() != events.Verb_CLEAR_TRIGGERS {
			return voidNoIntent
		}
		c.settle(item, &IntentVerdict{Touched: uint32(len(f.GetIds()))})
	}
	c.triggers = slices.DeleteFunc(slices.Clone(c.triggers), func(t *Trigger) bool { return slices.Contains(f.GetIds(), t.GetTrigger().GetId()) })
	c.verdict.Changed = true
	return ""
}

// triggerPulled: its program is run. One that is not permanent is gone.
func (c *Cluster) triggerPulled(f *events.TriggerPulled) string {
	i := slices.IndexFunc(c.triggers, func(t *Trigger) bool { return t.GetTrigger().GetId() == f.GetId() })
	if i < 0 {
		return voidNoTrigger
	}
	t := c.triggers[i]
	c.pulled = append(c.pulled, Pulled{t.Trigger, f.GetArgument()})
	if !t.GetTrigger().GetPermanent() {
		c.triggers = slices.Delete(slices.Clone(c.triggers), i, i+1)
		c.verdict.Changed = true
		return ""
	}
	next := t.copy()
	next.Hits, next.HitUs, next.PulledUs = nil, 0, c.now
	c.putTrigger(i, next)
	return ""
}

func (c *Cluster) putTrigger(i int, t *Trigger) {
	c.triggers = slices.Clone(c.triggers)
	c.triggers[i] = t
	c.verdict.Changed = true
}

// note writes down that what a trigger waits for has happened.
func (c *Cluster) note(i int, what string) {
	t := c.triggers[i]
	if len(t.Hits) >= maxHits || slices.Contains(t.Hits, what) {
		return
	}
	next := t.copy()
	next.Hits = append(slices.Clone(t.Hits), what)
	if next.HitUs == 0 {
		next.HitUs = c.now
	}
	c.putTrigger(i, next)
}

// hit notes with all triggers of a kind what happened.
func (c *Cluster) hit(kind events.TriggerKind, what string) {
	for i, t := range c.triggers {
		if t.Wants(kind) {
			c.note(i, what)
		}
	}
}

// nodeHits notes what a change of a node is to triggers: to those for the node, and those for a job that has it.
func (c *Cluster) nodeHits(before, after *Node) {
	if len(c.triggers) == 0 || before == nil || before.Name != after.Name {
		return
	}
	kinds := c.nodeKinds(before, after)
	if len(kinds) == 0 {
		return
	}
	for i, t := range c.triggers {
		if !t.Wants(kinds...) {
			continue
		}
		switch t.GetTrigger().GetOf() {
		case events.TriggerOf_TRIGGER_NODE:
			if t.Over(after.Name) {
				c.note(i, after.Name)
			}
		case events.TriggerOf_TRIGGER_JOB:
			if j := c.jobs.get(t.GetTrigger().GetJob()); j != nil && j.Live() && j.nodeAt(after.Name) >= 0 {
				c.note(i, after.Name)
			}
		}
	}
}

// nodeKinds is what a change of a node is called.
func (c *Cluster) nodeKinds(before, after *Node) []events.TriggerKind {
	var kinds []events.TriggerKind
	drained := func(n *Node) bool { return n.Drain && len(n.Jobs) == 0 }
	order := c.fact.GetNodeChanged().GetOrder()
	for _, k := range []struct {
		kind events.TriggerKind
		is   bool
	}{
		{events.TriggerKind_TRIGGER_DOWN, !before.Down && after.Down},
		{events.TriggerKind_TRIGGER_UP, before.Down && !after.Down},
		{events.TriggerKind_TRIGGER_FAIL, !before.Fail && after.Fail},
		{events.TriggerKind_TRIGGER_DRAINED, !drained(before) && drained(after)},
		{events.TriggerKind_TRIGGER_DRAINING, !before.Drain && after.Drain && len(after.Jobs) > 0},
		{events.TriggerKind_TRIGGER_RESUME, order == events.NodeOrder_NODE_RESUME},
	} {
		if k.is {
			kinds = append(kinds, k.kind)
		}
	}
	return kinds
}

// controllerChanged notes what a new term is to triggers. The controller named first in the configuration is the one that Slurm
// calls primary; where none is named, whoever led is.
func (c *Cluster) controllerChanged(before, after string) {
	if before == "" || len(c.triggers) == 0 {
		return
	}
	if hostOf(before) == hostOf(after) {
		c.hit(events.TriggerKind_TRIGGER_CONTROLLER_RESUMED, "primary_slurmctld_resumed_operation")
		return
	}
	c.hit(events.TriggerKind_TRIGGER_CONTROLLER_FAILED, "primary_slurmctld_failure")
	if list := c.config.GetControllers(); len(list) > 0 && list[0] == hostOf(after) {
		c.hit(events.TriggerKind_TRIGGER_CONTROL_RESUMED, "primary_slurmctld_resumed_control")
		return
	}
	c.hit(events.TriggerKind_TRIGGER_CONTROL_ASSUMED, "backup_slurmctld_assumed_control")
}

// hostOf is the host of a controller, whose name has the number of its process behind that.
func hostOf(controller string) string {
	if i := strings.LastIndexByte(controller, '-'); i > 0 && strings.Trim(controller[i+1:], "0123456789") == "" {
		return controller[:i]
	}
	return controller
}
