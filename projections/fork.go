package projections

import (
	"maps"
	"slices"

	"stint/events"
)

// Fork is a second state that begins as this one is now, for trying out what decisions would do: who decides folds each
// fact into a fork by Try, through the same code that will fold it when it has become an event, and so sees the effects of
// earlier decisions of one pass. Taking a fork costs nothing to speak of; a fork must not be used any more once the
// cluster it came from has folded on, it forgets nothing and purges nothing, and it is not for Apply.
func (c *Cluster) Fork() *Cluster {
	c.epoch++
	c.voidsOwn = false
	f := &Cluster{
		state: c.state, epoch: c.epoch, parent: c,
		waiting: map[intentKey]*InboxItem{}, dependents: map[uint32]map[uint32]struct{}{}, names: map[nameKey]nameSet{},
		over: c.over[:len(c.over):len(c.over)], judged: c.judged[:len(c.judged):len(c.judged)],
	}
	return f
}

// Try folds one fact of the leader, said at now (microseconds), into a fork. The answer is why it would be void; empty if
// it counts.
func (c *Cluster) Try(now int64, f *events.Fact) (void string) {
	c.verdict = Verdict{}
	c.changes = c.changes[:0]
	c.index, c.fact, c.now = 0, f, now
	if why := c.schedFact(f); why != "" {
		return why
	}
	if len(c.verdict.Void) > 0 {
		v := c.verdict.Void[0]
		if v.More != "" {
			return v.Why + ": " + v.More
		}
		return v.Why
	}
	return ""
}

// dependentsOf is the set of those that wait for a job, the fork's own if this is a fork.
func (c *Cluster) dependentsOf(target uint32) map[uint32]struct{} {
	set, known := c.dependents[target]
	if !known && c.parent != nil {
		if theirs := c.parent.dependents[target]; theirs != nil {
			set = maps.Clone(theirs)
			c.dependents[target] = set
		}
	}
	return set
}

func (c *Cluster) forgetDependents(target uint32) {
	if c.parent != nil {
		c.dependents[target] = nil
		return
	}
	delete(c.dependents, target)
}

// nameSetOf is the live families of an owner and name, the fork's own if this is a fork.
func (c *Cluster) nameSetOf(key nameKey) nameSet {
	set, known := c.names[key]
	if !known && c.parent != nil {
		set = c.parent.names[key]
		if set.many != nil {
			set.many = &nameMany{live: maps.Clone(set.many.live), order: slices.Clone(set.many.order)}
		}
		c.names[key] = set
	}
	return set
}
