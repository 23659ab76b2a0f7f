package projections

import (
	"slices"
	"strings"

	"stint/events"
)

// What administrators do to partitions and settings without another configuration being taken over. It holds until one is.

// partitionChanged: a partition is made, changed or removed. Jobs that name one that is gone keep naming it.
func (c *Cluster) partitionChanged(f *events.PartitionChanged) string {
	def := f.GetPartition()
	if def.GetName() == "" {
		return voidNothingWanted
	}
	at := slices.IndexFunc(c.config.GetPartitions(), func(p *events.PartitionDef) bool { return p.GetName() == def.GetName() })
	list := slices.Clone(c.config.GetPartitions())
	switch f.GetAct() {
	case events.PartitionAct_PARTITION_CREATE:
		if at >= 0 {
			return voidPartition
		}
		list = append(list, def)
	case events.PartitionAct_PARTITION_CHANGE:
		if at < 0 {
			return voidPartition
		}
		list[at] = def
	case events.PartitionAct_PARTITION_DELETE:
		if at < 0 {
			return voidPartition
		}
		list = slices.Delete(list, at, at+1)
	default:
		return voidKind
	}
	if def.GetDefault() && f.GetAct() != events.PartitionAct_PARTITION_DELETE {
		for i, p := range list {
			if p.GetDefault() && p != def {
				list[i] = p.CloneVT()
				list[i].Default = false
			}
		}
	}
	config := shallow(c.config)
	config.Partitions = list
	next, err := newLayout(config, c.layout.names(), c.layout.configured)
	if err != nil {
		return voidConfig
	}
	c.config, c.configSeq, c.layout = config, c.seq, next
	for i, in := range next.membership(config) {
		if n := c.nodes.get(uint32(i)); n != nil && !slices.Equal(n.Partitions, in) {
			moved := n.copy()
			moved.Partitions = in
			c.putNode(n, moved)
		}
	}
	return ""
}

// configSet: settings that decide nothing are otherwise from here on.
func (c *Cluster) configSet(f *events.ConfigSet) string {
	if len(f.GetSettings()) == 0 {
		return voidNothingWanted
	}
	config := shallow(c.config)
	config.Settings = slices.Clone(config.Settings)
	for _, s := range f.GetSettings() {
		at := slices.IndexFunc(config.Settings, func(o *events.Setting) bool { return strings.EqualFold(o.GetKey(), s.GetKey()) })
		if at < 0 {
			config.Settings = append(config.Settings, s)
		} else {
			config.Settings[at] = s
		}
	}
	c.config, c.configSeq = config, c.seq
	return ""
}

// shallow is a configuration whose lists may be replaced; what they hold is shared.
func shallow(from *events.Config) *events.Config {
	if from == nil {
		return &events.Config{}
	}
	config := *from
	return &config
}
