package admit

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"stint/events"
	"stint/events/hostlist"
	"stint/events/schema"
	"stint/projections"
)

// updatePartition makes, changes or removes a partition. Administrators only. One that jobs run or wait in stays.
func (d *Desk) updatePartition(m *events.UpdatePartition) []*events.Fact {
	if !d.admin() {
		return d.refused(refuse(events.Code_ACCESS_DENIED, "only an administrator may change partitions"))
	}
	if r := texts(MaxText, "the name of the partition", m.Name); r != nil {
		return d.refused(r)
	}
	before := d.r.Partition(m.Name)
	var def *events.PartitionDef
	switch {
	case m.Act == events.PartitionAct_PARTITION_CREATE && before != nil:
		return d.refused(refuse(events.Code_PARTITION_EXISTS, "there is a partition %s already", m.Name))
	case m.Act != events.PartitionAct_PARTITION_CREATE && before == nil:
		return d.refused(refuse(events.Code_INVALID_PARTITION, "there is no partition %.100q", m.Name))
	case m.Act == events.PartitionAct_PARTITION_DELETE:
		if j := d.usedBy(m.Name); j != nil {
			return d.refused(refuse(events.Code_PARTITION_IN_USE, "job %d is in partition %s; set it to DRAIN and wait, or move its jobs", j.Id, m.Name))
		}
		def = before
	case m.Act == events.PartitionAct_PARTITION_CREATE:
		def = m.GetValues().CloneVT()
		if def == nil {
			def = &events.PartitionDef{}
		}
	case m.Act == events.PartitionAct_PARTITION_CHANGE:
		def = before.CloneVT()
		merge(def, m.GetValues(), m.Fields)
		if r := d.moveNodes(def, m); r != nil {
			return d.refused(r)
		}
	default:
		return d.refused(refuse(events.Code_UNSUPPORTED, "this controller does not know the act %d on a partition", m.Act))
	}
	if m.Act != events.PartitionAct_PARTITION_DELETE {
		def.Name = m.Name
		if r := d.checkPartition(def); r != nil {
			return d.refused(r)
		}
	}
	a := &act{d: d, touched: 1}
	a.did(&events.Fact{Kind: &events.Fact_PartitionChanged{PartitionChanged: &events.PartitionChanged{Act: m.Act, Partition: def, ByUid: d.who.Uid}}})
	return a.done()
}

// merge copies the fields of the given numbers from one definition into another; numbers that it does not have are passed over.
func merge(to, from *events.PartitionDef, fields []uint32) {
	if from == nil {
		from = &events.PartitionDef{}
	}
	t, f := schema.Of(to), schema.Of(from)
	known := t.Descriptor().Fields()
	for _, n := range fields {
		fd := known.ByNumber(protoreflect.FieldNumber(n))
		switch {
		case fd == nil || fd.Name() == "name":
		case f.Has(fd):
			t.Set(fd, f.Get(fd))
		default:
			t.Clear(fd)
		}
	}
}

// moveNodes adds nodes to a partition, and takes others out.
func (d *Desk) moveNodes(def *events.PartitionDef, m *events.UpdatePartition) *refusal {
	if m.AddNodes == "" && m.RemoveNodes == "" {
		return nil
	}
	var names []string
	for _, n := range d.r.PartitionNodes(m.Name) {
		names = append(names, n.Name)
	}
	more, r := expand(m.AddNodes)
	if r != nil {
		return r
	}
	less, r := expand(m.RemoveNodes)
	if r != nil {
		return r
	}
	for _, n := range more {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(less, n) })
	def.Nodes = hostlist.Compress(names)
	return nil
}

// checkPartition holds a definition to what a configuration would be held to.
func (d *Desk) checkPartition(def *events.PartitionDef) *refusal {
	if def.Name == "" || strings.ContainsAny(def.Name, ", \t\n/*") || len(def.Name) > 64 {
		return refuse(events.Code_INVALID_PARTITION, "%.100q is no name for a partition", def.Name)
	}
	nodes := map[string]bool{}
	for _, n := range d.r.Nodes() {
		nodes[n.Name] = true
	}
	if p := d.r.Policy(); def.Qos != "" && slices.Contains(d.r.Config().AccountingEnforce, "associations") && p.QosNamed(def.Qos) == nil {
		return refuse(events.Code_INVALID_QOS, "partition %s: there is no QOS %.100q", def.Name, def.Qos)
	}
	if text := checkPartition(def, nodes); text != "" {
		if strings.HasPrefix(text, "there is no node") || strings.HasPrefix(text, "nodes ") {
			return refuse(events.Code_INVALID_NODE, "partition %s: %s", def.Name, text)
		}
		return refuse(events.Code_INVALID_CONFIG, "partition %s: %s", def.Name, text)
	}
	return nil
}

// usedBy is a job that runs or waits in a partition; nil if there is none.
func (d *Desk) usedBy(name string) *projections.Job {
	var by *projections.Job
	d.r.EachJob(func(j *projections.Job) bool {
		switch {
		case j.Over() && !j.Completing:
		case j.Waits() && slices.Contains(strings.Split(j.GetSpec().GetPartition(), ","), name), !j.Waits() && j.Partition == name:
			by = j
		}
		return by == nil
	})
	return by
}
