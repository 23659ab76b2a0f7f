package projections

import (
	"math/rand/v2"
	"testing"

	"stint/events"
	"stint/events/hostlist"
)

// Nodes told together are those that are told one by one, whatever was folded between the questions; and equal ones are few words.
func TestAlike(t *testing.T) {
	const seed = 3
	rng := rand.New(rand.NewPCG(seed, 0))
	l := newLife(t, 700, 300)
	uid := uint32(1000)
	ask := &Ask{Uid: &uid, What: &Ask_Nodes{Nodes: &AskNodes{Alike: true}}}
	var remembers Alike
	check := func(what string) (bytes int) {
		t.Helper()
		v := l.c.View()
		data, err := remembers.Encode(v, ask)
		if err != nil {
			t.Fatal(err)
		}
		got := new(Answer)
		if err := got.UnmarshalVT(data); err != nil {
			t.Fatal(err)
		}
		a, plain := got.GetNodes(), Reply(v, nil, ask).GetNodes()
		if got.Seq != v.Seq() || got.NowUs != v.At() || SeqOf(data) != v.Seq() || !a.Config.EqualVT(plain.Config) || len(a.Partitions) != len(plain.Partitions) {
			t.Fatalf("seed %d, %s: the answer is current to %d, the state to %d", seed, what, got.Seq, v.Seq())
		}
		at := 0
		for _, s := range a.Alike {
			names, err := hostlist.Expand(s.Names, hostlist.MaxHosts)
			if err != nil || len(names) != int(s.Count) {
				t.Fatalf("seed %d, %s: %d nodes are %s: %v", seed, what, s.Count, s.Names, err)
			}
			for i, name := range names {
				n := plain.Nodes[at]
				var want Node
				alike(&want, new(events.NodeDef), new(events.Inventory), n)
				if name != n.Name || int(s.Index)+i != int(n.Index) || !a.Kinds[s.Kind].EqualVT(&want) {
					t.Fatalf("seed %d, %s: the node at %d is %s, and is told as %s: %v", seed, what, at, n.Name, name, a.Kinds[s.Kind])
				}
				at++
			}
		}
		if at != len(plain.Nodes) {
			t.Fatalf("seed %d, %s: %d of %d nodes are told", seed, what, at, len(plain.Nodes))
		}
		return len(data)
	}
	if n := check("at first"); n > 2000 {
		t.Errorf("an answer about 700 equal nodes has %d bytes", n)
	}
	for range 40 {
		name := l.name(rng.IntN(700))
		switch rng.IntN(5) {
		case 0:
			l.facts(fact(&events.NodeChanged{Node: name, Order: events.NodeOrder_NODE_DRAIN, Reason: "disk"}))
			check(name + " drained")
		case 1:
			l.run(l.submit())
			check("jobs ran")
		case 2:
			l.node(name, "b2", "y", nodeFact(&events.NodeUp{Inventory: &events.Inventory{Cpus: 64, Address: "10.0.0.1"}}))
			check(name + " came up again")
		case 3:
			config := l.c.Config().CloneVT()
			config.Nodes[0].Features = []string{string(rune('a' + rng.IntN(26)))}
			l.facts(fact(&events.Configured{Config: config}))
			check("configured")
		case 4:
			check("nothing more")
		}
	}
	private := l.c.Config().CloneVT()
	private.PrivateData = []events.Private{events.Private_PRIVATE_NODES}
	l.facts(fact(&events.Configured{Config: private}))
	data, err := remembers.Encode(l.c.View(), ask)
	got := new(Answer)
	if err == nil {
		err = got.UnmarshalVT(data)
	}
	if a := got.GetNodes(); err != nil || !a.GetNodesPrivate() || len(a.GetAlike()) != 0 || len(a.GetNodes()) != 700 {
		t.Errorf("whoever may not see the state of nodes is told %v, %v", a, err)
	}
}
