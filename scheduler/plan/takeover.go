package plan

import (
	"bytes"
	"fmt"

	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
	"stint/scheduler/cycle"
)

// takeover runs the pass that judges the configuration at seq. It returns what the pass decides up to and with the verdict,
// or why the configuration is refused.
func takeover(c *projections.Cluster, seq uint64, now int64) (facts []*events.Fact, refused string) {
	all, _, _ := cycle.Run(c, cycle.Input{Now: now})
	for i, f := range all {
		if f.GetConfigured().GetIntent().GetSeq() == seq {
			return all[:i+1], ""
		}
		if j := f.GetJudged(); j.GetIntent().GetSeq() == seq {
			return nil, j.GetText()
		}
	}
	return nil, "the controller would not take it over"
}

// takenOver folds what the takeover decided, as the leader would append it, and has the nodes that are new or built otherwise
// register as they are defined: a plan asks what the machine will do when it is as the file says.
func takenOver(c *projections.Cluster, facts []*events.Fact, changed []Change, now int64) error {
	t := c.Term()
	if err := fold(c, events.SubjectSched, now, &events.SchedMessage{Kind: &events.SchedMessage_Cycle{Cycle: &events.Cycle{
		Term: bytes.Clone(t.GetNonce()), N: t.GetN() + 1, Cycle: t.GetN() + 1, Part: 1, Parts: 1, Basis: c.Seq(), NowUs: now, Decider: cycle.Decider, Facts: facts,
	}}}); err != nil {
		return err
	}
	for _, ch := range changed {
		if ch.Kind == Removed {
			continue
		}
		names, err := hostlist.Expand(ch.Name, hostlist.MaxHosts)
		if err != nil {
			return fmt.Errorf("nodes %s: %w", ch.Name, err)
		}
		for _, name := range names {
			n := c.Node(name)
			if n == nil || ch.Kind == Changed && !n.Up {
				continue // a node that is away stays away
			}
			boot := n.Boot
			if boot == "" {
				boot = "planned"
			}
			if err := fold(c, events.SubjectNode(name), now, &events.NodeMessage{
				Boot: boot, Executor: []byte("plan"), N: 1, NowUs: now,
				Facts: []*events.NodeFact{{Kind: &events.NodeFact_Up{Up: &events.NodeUp{Inventory: inventory(n.Def, n.Inventory), Runs: lives(c, n)}}}},
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

func fold(c *projections.Cluster, subject string, now int64, m interface{ MarshalVT() ([]byte, error) }) error {
	data, err := m.MarshalVT()
	if err != nil {
		return fmt.Errorf("packing a message of the plan: %w", err)
	}
	c.Apply(events.Decode(c.Seq()+1, now, subject, data))
	return nil
}

// inventory is a machine that has what the definition says, and for the rest is as it was.
func inventory(def *events.NodeDef, was *events.Inventory) *events.Inventory {
	inv := was.CloneVT()
	if inv == nil {
		inv = &events.Inventory{Enforced: true}
	}
	inv.Boards, inv.Sockets, inv.CoresPerSocket, inv.ThreadsPerCore = def.Boards, def.Sockets, def.CoresPerSocket, def.ThreadsPerCore
	inv.Cpus = def.Cpus
	if product := max(def.Sockets, 1) * max(def.CoresPerSocket, 1) * max(def.ThreadsPerCore, 1); inv.Cpus == 0 {
		inv.Cpus = product
	}
	inv.MemoryMib, inv.TmpDiskMib, inv.Devices = def.MemoryMib, def.TmpDiskMib, nil
	for _, g := range def.Gres {
		for range min(g.Count, 1024) {
			inv.Devices = append(inv.Devices, &events.Device{Name: g.Name, Type: g.Type})
		}
	}
	return inv
}

// lives is what runs on a node: a node that registers without its runs has lost them.
func lives(c *projections.Cluster, n *projections.Node) []*events.RunRef {
	var refs []*events.RunRef
	for _, id := range n.Jobs {
		if j := c.Job(id); j != nil {
			refs = append(refs, &events.RunRef{Job: id, Run: j.Run, Step: events.StepBatch})
		}
	}
	return refs
}
