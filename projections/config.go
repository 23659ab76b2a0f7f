package projections

import (
	"slices"
	"strings"

	"stint/events"
)

// configured: the cluster is as this configuration says from here on. What a node is doing survives; a node that is no
// longer named goes, once it has no jobs. Runs and records that name a partition that is gone keep naming it.
func (c *Cluster) configured(f *events.Configured) string {
	var item *InboxItem
	if f.GetIntent().GetSeq() != 0 {
		if item = c.waits(f.GetIntent()); item == nil || item.GetIntent().GetVerb() != events.Verb_CONFIGURE {
			return voidNoIntent
		}
	}
	config := f.GetConfig()
	if config == nil {
		return voidNothingWanted
	}
	defs, err := definitions(config)
	if err != nil {
		return voidConfig
	}
	names := make([]string, 0, len(defs))
	for _, d := range defs {
		names = append(names, d.GetNames())
	}
	var stay []*Node
	named := make(map[string]bool, len(names))
	for _, name := range names {
		named[name] = true
	}
	c.nodes.each(func(_ uint32, n *Node) bool {
		if !named[n.Name] && len(n.Jobs) > 0 {
			stay = append(stay, n)
			names = append(names, n.Name)
		}
		return true
	})
	next, err := newLayout(config, names, len(defs))
	if err != nil {
		return voidConfig
	}
	member := next.membership(config)
	c.policy = c.policy.Began(config.GetCluster(), c.now)
	old, oldLayout := c.nodes, c.layout
	c.config, c.given, c.configSeq, c.layout, c.nodes = config, config, c.seq, next, table[Node]{}
	for i, def := range defs {
		var before *Node
		if at, known := oldLayout.index[def.GetNames()]; known {
			before = old.get(at)
		}
		n := configureNode(before, def, c.now)
		n.Index, n.Partitions = uint32(i), member[i]
		c.putNode(before, n)
	}
	for i, before := range stay {
		n := before.copy()
		n.Index, n.Partitions, n.Removed = uint32(len(defs)+i), nil, true
		c.putNode(before, n)
	}
	old.each(func(_ uint32, n *Node) bool {
		if !named[n.Name] && len(n.Jobs) == 0 {
			c.changes = append(c.changes, Change{NodeBefore: n, Fact: c.fact, At: c.now, Seq: c.seq, Index: c.index})
		}
		return true
	})
	c.hit(events.TriggerKind_TRIGGER_RECONFIG, "reconfig")
	c.nextID = max(c.nextID, min(config.GetFirstJobId(), lastID))
	if item != nil {
		c.settle(item, &IntentVerdict{Touched: uint32(len(defs))})
	}
	c.verdict.Changed = true
	return ""
}

// configureNode is a node under its definition, new or as it was.
func configureNode(before *Node, def *events.NodeDef, now int64) *Node {
	n := &Node{Name: def.GetNames(), Def: def, NeverUp: true}
	if before != nil {
		n = before.copy()
		n.Def, n.Removed = def, false
		n.ActiveFeatures, n.HasActive = "", false // chosen among what the old definition had
	} else {
		switch strings.ToUpper(def.GetState()) {
		case "DOWN":
			n.Down = true
		case "DRAIN", "DRAINED", "DRAINING":
			n.Drain = true
		case "FAIL", "FAILING":
			n.Fail = true
		}
		if n.Down || n.Drain || n.Fail {
			n.Reason, n.ReasonUs = def.GetReason(), now
		}
	}
	n.Gres = nil
	for _, g := range def.GetGres() {
		if i := slices.IndexFunc(n.Gres, func(h *NodeGres) bool { return h.Name == g.GetName() && h.Type == g.GetType() }); i >= 0 {
			n.Gres[i].Count += g.GetCount() // several lines of one kind are one pool, numbered through
			continue
		}
		have := &NodeGres{Name: g.GetName(), Type: g.GetType(), Count: g.GetCount()}
		if before != nil {
			if was := before.gres(g.GetName(), g.GetType()); was != nil {
				have.Used = was.Used
			}
		}
		n.Gres = append(n.Gres, have)
	}
	if before != nil {
		// A kind that is configured no more stays as long as a job has some of it.
		for _, was := range before.Gres {
			if !events.Words(was.Used).Empty() && n.gres(was.Name, was.Type) == nil {
				kept := was.copy()
				kept.Count = 0
				n.Gres = append(n.Gres, kept)
			}
		}
		if short := shortOf(n); n.Inventory != nil {
			n.Invalid = short != ""
			if n.Invalid {
				n.Reason, n.ReasonUid, n.ReasonUs = short, 0, now
			}
		}
	}
	return n
}
