package admit

import (
	"testing"

	"stint/events"
	"stint/projections"
)

// Acts of administrators on partitions and nodes, and of users on their own queue: what comes of each, and who may.
func TestActs(t *testing.T) {
	o := newOffice(t, config())
	ask := func(uid uint32, verb events.Verb, m interface{ MarshalVT() ([]byte, error) }, want events.Code) {
		t.Helper()
		facts := o.ask(uid, verb, encode(t, m))
		if got := facts[len(facts)-1].GetJudged(); got.GetCode() != want {
			t.Errorf("%s by %d: %s (%s), want %s", verb, uid, got.GetCode(), got.GetText(), want)
		}
	}
	part := func(act events.PartitionAct, name string, p *events.PartitionDef, fields ...uint32) *events.UpdatePartition {
		return &events.UpdatePartition{Act: act, Name: name, Values: p, Fields: fields}
	}
	const create, change, remove = events.PartitionAct_PARTITION_CREATE, events.PartitionAct_PARTITION_CHANGE, events.PartitionAct_PARTITION_DELETE
	ask(1000, events.Verb_UPDATE_PARTITION, part(create, "new", nil), events.Code_ACCESS_DENIED)
	ask(0, events.Verb_UPDATE_PARTITION, part(create, "batch", nil), events.Code_PARTITION_EXISTS)
	ask(0, events.Verb_UPDATE_PARTITION, part(create, "new", &events.PartitionDef{Nodes: "n9"}), events.Code_INVALID_NODE)
	ask(0, events.Verb_UPDATE_PARTITION, part(change, "nope", nil), events.Code_INVALID_PARTITION)
	ask(0, events.Verb_UPDATE_PARTITION, part(create, "new", &events.PartitionDef{Nodes: "n1", MaxTimeS: 600}), events.Code_OK)
	ask(0, events.Verb_UPDATE_PARTITION, part(change, "new", &events.PartitionDef{Default: true, MaxTimeS: 60}, 3), events.Code_OK)
	ask(0, events.Verb_UPDATE_PARTITION, &events.UpdatePartition{Act: change, Name: "new", AddNodes: "n[3-4]", RemoveNodes: "n1"}, events.Code_OK)
	p := o.c.Partition("new")
	if p.GetMaxTimeS() != 600 || !p.GetDefault() || p.GetNodes() != "n[3-4]" || o.c.DefaultPartition() != p || o.c.Partition("batch").GetDefault() {
		t.Errorf("the partition is %v", p)
	}
	if n := o.c.PartitionNodes("new"); len(n) != 2 || n[0].Name != "n3" || len(o.c.Node("n1").Partitions) == len(o.c.Node("n3").Partitions) {
		t.Errorf("its nodes are %v", n)
	}
	first := o.submit(1000, &events.JobSpec{Name: "a"}).GetAdmitted()
	second := o.submit(1000, &events.JobSpec{Name: "b"}).GetAdmitted()
	ask(0, events.Verb_UPDATE_PARTITION, part(remove, "new", nil), events.Code_PARTITION_IN_USE)

	// The priorities of a user's jobs change hands; nobody else's are touched. Users may if they are let.
	jobs := &events.Select{Targets: []*events.Target{{Job: second.GetJob()}}}
	ask(1000, events.Verb_TOP, jobs, events.Code_ACCESS_DENIED)
	ask(0, events.Verb_TOP, jobs, events.Code_OK)
	if a, b := o.c.Job(first.GetJob()), o.c.Job(second.GetJob()); a.Priority != second.GetPriority() || b.Priority != first.GetPriority() {
		t.Errorf("the priorities are %d and %d", a.Priority, b.Priority)
	}
	ask(1000, events.Verb_NOTIFY, &events.Notify{Targets: jobs.Targets, Text: "x"}, events.Code_BAD_STATE)
	ask(1000, events.Verb_NOTIFY, &events.Notify{Targets: jobs.Targets}, events.Code_MALFORMED)
	zero := uint32(0)
	ask(1000, events.Verb_UPDATE_JOB, &events.UpdateJob{Targets: jobs.Targets, Priority: &zero}, events.Code_OK)
	if j := o.c.Job(second.GetJob()); j.Hold != events.HoldKind_HELD_USER || j.Priority != 0 {
		t.Errorf("with a priority of 0 it is held as %s", j.Hold)
	}
	ask(0, events.Verb_HOLD, &events.Select{Targets: jobs.Targets, Admin: true}, events.Code_OK)
	ask(1000, events.Verb_RELEASE, jobs, events.Code_ACCESS_DENIED)
	for _, id := range []uint32{first.GetJob(), second.GetJob()} {
		ask(1000, events.Verb_CANCEL, &events.Cancel{Targets: []*events.Target{{Job: id}}}, events.Code_OK)
	}
	ask(0, events.Verb_UPDATE_PARTITION, part(remove, "new", nil), events.Code_OK)
	if o.c.Partition("new") != nil || len(o.c.Node("n3").Partitions) != len(o.c.Node("n1").Partitions) {
		t.Errorf("the partition is still there")
	}

	str := func(s string) *string { return &s }
	node := func(order events.NodeOrder) *events.UpdateNode { return &events.UpdateNode{Nodes: "n1", Order: order} }
	ask(0, events.Verb_UPDATE_NODE, node(events.NodeOrder_NODE_RESUME), events.Code_INVALID_NODE_STATE)
	ask(0, events.Verb_UPDATE_NODE, node(events.NodeOrder_NODE_IDLE), events.Code_OK)
	ask(0, events.Verb_UPDATE_NODE, node(events.NodeOrder_NODE_FUTURE), events.Code_OK)
	if n := o.c.Node("n1"); !n.Future || n.Usable() {
		t.Errorf("set aside it is %v", n)
	}
	ask(0, events.Verb_UPDATE_NODE, node(events.NodeOrder_NODE_RESUME), events.Code_OK)
	ask(0, events.Verb_UPDATE_NODE, &events.UpdateNode{Nodes: "n1", Features: str("a,b")}, events.Code_INVALID_FEATURE) // fast is active
	ask(0, events.Verb_UPDATE_NODE, &events.UpdateNode{Nodes: "n1", Features: str("fast,b"), ActiveFeatures: str("b")}, events.Code_OK)
	ask(0, events.Verb_UPDATE_NODE, &events.UpdateNode{Nodes: "n1", Reason: str("only"), Extra: str("x")}, events.Code_OK)
	if n := o.c.Node("n1"); n.Reason != "" || n.Extra != "x" || len(n.Features()) != 1 || n.Features()[0] != "b" {
		t.Errorf("described, it is %v", n)
	}

	set := func(key string) string {
		for _, s := range o.c.Config().GetSettings() {
			if s.Key == key {
				return s.Value
			}
		}
		return "unset"
	}
	ask(1000, events.Verb_SET_CONFIG, &events.SetConfig{Debug: "debug"}, events.Code_ACCESS_DENIED)
	ask(0, events.Verb_SET_CONFIG, &events.SetConfig{}, events.Code_INVALID_CONFIG)
	ask(0, events.Verb_SET_CONFIG, &events.SetConfig{FlagsOn: []string{"a b"}}, events.Code_INVALID_CONFIG)
	ask(0, events.Verb_SET_CONFIG, &events.SetConfig{Debug: "debug", FlagsOn: []string{"Gres", "Backfill"}}, events.Code_OK)
	ask(0, events.Verb_SET_CONFIG, &events.SetConfig{FlagsOn: []string{"gres"}, FlagsOff: []string{"BACKFILL"}}, events.Code_OK)
	if got := set("SlurmctldDebug") + " " + set("DebugFlags"); got != "debug Gres" {
		t.Errorf("the settings are %s", got)
	}
	ask(0, events.Verb_SET_CONFIG, &events.SetConfig{FlagsOff: []string{"Gres"}}, events.Code_OK)
	if got := set("DebugFlags"); got != "(null)" {
		t.Errorf("without flags, DebugFlags is %s", got)
	}
	if len(o.c.Given().GetSettings()) != 0 || o.c.Given().GetPartitions()[0].GetName() != "batch" {
		t.Errorf("what was last taken over is %v", o.c.Given())
	}
	again, err := projections.Load(o.c.Snapshot())
	if err != nil || !again.Given().EqualVT(o.c.Given()) || again.Given() == again.Config() {
		t.Errorf("read from a snapshot it is %v, %v", again.Given(), err)
	}
}
