package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"stint/events"
	"stint/events/hostlist"
	"stint/events/schema"
	"stint/projections"
)

// label is a job as people write it.
func label(c *projections.Cluster, j *projections.Job) string {
	switch {
	case j.HasTask:
		return fmt.Sprintf("%d_%d", j.ArrayId, j.ArrayTask)
	case len(j.Pending) > 0:
		return fmt.Sprintf("%d_[%s]", j.ArrayId, events.Words(j.Pending))
	}
	return fmt.Sprint(j.Id)
}

// settings compares the keys of the two files. A key that is set several times is compared as the list of its values.
func settings(old, next *events.Config) []Change {
	a, b := values(old), values(next)
	var out []Change
	for key, was := range a {
		is, still := b[key]
		switch {
		case !still:
			out = append(out, Change{Name: key, Kind: Removed, Fields: []Field{{Old: was}}, Note: "it falls back to its default"})
		case is != was:
			out = append(out, Change{Name: key, Kind: Changed, Fields: []Field{{Old: was, New: is}}})
		}
	}
	for key, is := range b {
		if _, before := a[key]; !before {
			out = append(out, Change{Name: key, Kind: Added, Fields: []Field{{New: is}}})
		}
	}
	byName(out)
	return out
}

func byName(c []Change) {
	slices.SortFunc(c, func(a, b Change) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind)) })
}

func values(c *events.Config) map[string]string {
	m := map[string]string{}
	for _, s := range c.Settings {
		if before, twice := m[s.Key]; twice {
			m[s.Key] = before + "," + s.Value
			continue
		}
		m[s.Key] = s.Value
	}
	return m
}

// nodes compares node by node; those that change alike are told together.
func nodes(c *projections.Cluster, old, next *events.Config) ([]Change, error) {
	a, err := each(old)
	if err != nil {
		return nil, err
	}
	b, err := each(next)
	if err != nil {
		return nil, err
	}
	type group struct {
		Change
		names []string
	}
	groups := map[string]*group{}
	add := func(name string, ch Change) {
		key := fmt.Sprint(ch)
		if groups[key] == nil {
			groups[key] = &group{Change: ch}
		}
		groups[key].names = append(groups[key].names, name)
	}
	for name, was := range a {
		is, still := b[name]
		if !still {
			note := ""
			if n := c.Node(name); n != nil && len(n.Jobs) > 0 {
				note = "jobs run there: it stays until they have ended, and takes no others"
			}
			add(name, Change{Kind: Removed, Note: note})
		} else if fields := differ(was, is, nodeNames); len(fields) > 0 {
			add(name, Change{Kind: Changed, Fields: fields})
		}
	}
	for name, is := range b {
		if _, before := a[name]; !before {
			add(name, Change{Kind: Added, Fields: differ(&events.NodeDef{}, is, nodeNames)})
		}
	}
	var out []Change
	for _, g := range groups {
		slices.Sort(g.names)
		g.Name = hostlist.Compress(g.names)
		out = append(out, g.Change)
	}
	byName(out)
	return out, nil
}

// each is the definition of every node, by name.
func each(c *events.Config) (map[string]*events.NodeDef, error) {
	m := map[string]*events.NodeDef{}
	for _, def := range c.Nodes {
		names, err := hostlist.Expand(def.Names, hostlist.MaxHosts)
		if err != nil {
			return nil, fmt.Errorf("nodes %s: %w", def.Names, err)
		}
		for _, name := range names {
			m[name] = def
		}
	}
	return m, nil
}

// partitions compares the partitions, and counts who uses those that go.
func partitions(c *projections.Cluster, old, next *events.Config) []Change {
	var out []Change
	for _, was := range old.Partitions {
		i := slices.IndexFunc(next.Partitions, func(p *events.PartitionDef) bool { return p.Name == was.Name })
		if i < 0 {
			out = append(out, Change{Name: was.Name, Kind: Removed, Note: users(c, was.Name)})
		} else if fields := differ(was, next.Partitions[i], partitionNames); len(fields) > 0 {
			out = append(out, Change{Name: was.Name, Kind: Changed, Fields: fields})
		}
	}
	for _, is := range next.Partitions {
		if !slices.ContainsFunc(old.Partitions, func(p *events.PartitionDef) bool { return p.Name == is.Name }) {
			out = append(out, Change{Name: is.Name, Kind: Added, Fields: differ(&events.PartitionDef{}, is, partitionNames)})
		}
	}
	byName(out)
	return out
}

func users(c *projections.Cluster, partition string) string {
	waiting, running := 0, 0
	c.EachPending(func(j *projections.Job) bool {
		if slices.Contains(strings.Split(j.Spec.GetPartition(), ","), partition) {
			waiting++
		}
		return true
	})
	c.EachRunning(func(j *projections.Job) bool {
		if j.Partition == partition {
			running++
		}
		return true
	})
	if waiting+running == 0 {
		return ""
	}
	return fmt.Sprintf("%d jobs wait for it and %d run in it", waiting, running)
}

// How fields of definitions are called in slurm.conf, where that is not their name here. A name of "-" is not compared:
// it tells definitions apart, or follows from others.
var (
	nodeNames = map[string]string{
		"names": "-", "addresses": "NodeAddr", "host_names": "NodeHostName", "memory_mib": "RealMemory", "tmp_disk_mib": "TmpDisk", "cpus": "CPUs",
		"core_spec": "CoreSpecCount", "mem_spec_mib": "MemSpecLimit",
	}
	partitionNames = map[string]string{
		"name": "-", "max_time_s": "MaxTime", "default_time_s": "DefaultTime", "oversubscribe": "OverSubscribe", "def_mem_per_cpu_mib": "DefMemPerCPU",
		"def_mem_per_node_mib": "DefMemPerNode", "max_mem_per_cpu_mib": "MaxMemPerCPU", "max_mem_per_node_mib": "MaxMemPerNode",
		"over_time_limit_s": "OverTimeLimit", "grace_s": "GraceTime", "lln": "LLN", "qos": "QOS", "allow_qos": "AllowQos", "deny_qos": "DenyQos",
		"require_reservation": "ReqResv", "has_over_time_limit": "-", "max_cpus_per_node": "MaxCPUsPerNode",
	}
)

// differ lists the fields in which two definitions differ, in the order of the schema. Every field counts, so that one that
// is added to the schema is compared without a word here.
func differ(a, b schema.Message, names map[string]string) []Field {
	x, y := schema.Of(a), schema.Of(b)
	var out []Field
	fields := x.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if names[string(f.Name())] == "-" {
			continue
		}
		was, is := text(f, x), text(f, y)
		if was != is {
			out = append(out, Field{title(string(f.Name()), names), was, is})
		}
	}
	return out
}

func title(field string, names map[string]string) string {
	if n := names[field]; n != "" {
		return n
	}
	var b strings.Builder
	for part := range strings.SplitSeq(field, "_") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// text writes the value of a field; empty if it is not set.
func text(f protoreflect.FieldDescriptor, m protoreflect.Message) string {
	if !m.Has(f) {
		return ""
	}
	v := m.Get(f)
	if !f.IsList() {
		return one(f, v)
	}
	var parts []string
	for i := range v.List().Len() {
		parts = append(parts, one(f, v.List().Get(i)))
	}
	return strings.Join(parts, ",")
}

func one(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch f.Kind() {
	case protoreflect.EnumKind:
		if e := f.Enum().Values().ByNumber(v.Enum()); e != nil {
			return string(e.Name())
		}
	case protoreflect.MessageKind:
		m := schema.Plain(v.Message())
		if g, ok := m.(*events.GresDef); ok {
			return gres(g)
		}
		return fmt.Sprint(m)
	case protoreflect.BoolKind:
		if v.Bool() {
			return "YES"
		}
		return "NO"
	case protoreflect.Uint32Kind:
		switch {
		case v.Uint() == uint64(events.Unlimited):
			return "UNLIMITED"
		case strings.HasSuffix(string(f.Name()), "_s"):
			return seconds(v.Uint())
		}
	}
	return v.String()
}

// seconds is a duration as slurm.conf has limits: [D-]HH:MM:SS.
func seconds(n uint64) string {
	text := fmt.Sprintf("%02d:%02d:%02d", n/3600%24, n/60%60, n%60)
	if days := n / 86400; days > 0 {
		return fmt.Sprintf("%d-%s", days, text)
	}
	return text
}

func gres(g *events.GresDef) string {
	s := g.Name
	if g.Type != "" {
		s += ":" + g.Type
	}
	s += fmt.Sprintf(":%d", g.Count)
	if g.Files != "" {
		s += " (" + g.Files + ")"
	}
	return s
}

// Differences says in a line each how two configurations differ: settings, nodes and partitions, in this order.
func Differences(old, next *events.Config) ([]string, error) {
	none := projections.New()
	changed, err := nodes(none, old, next)
	if err != nil {
		return nil, err
	}
	var out []string
	add := func(what string, changes []Change) {
		for _, c := range changes {
			out = append(out, what+c.Name+" "+c.Kind+c.said())
		}
	}
	add("", settings(old, next))
	add("node ", changed)
	add("partition ", partitions(none, old, next))
	return out, nil
}
