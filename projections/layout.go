package projections

import (
	"slices"
	"strings"

	"stint/events"
	"stint/events/hostlist"
)

// layout is what follows from the configuration alone (and from the nodes that it dropped and that still have jobs).
// It is replaced as a whole, never changed.
type layout struct {
	configured int // nodes 0 … configured-1 are in the configuration, the rest are removed ones
	index      map[string]uint32
	byName     map[string]*partition
	owned      int // partitions with ExclusiveUser
}

type partition struct {
	def   *events.PartitionDef
	nodes []uint32 // ascending
}

// definitions are the nodes of a configuration one by one, each with its own values. A name that comes twice counts once,
// as first written.
func definitions(config *events.Config) ([]*events.NodeDef, error) {
	var defs []*events.NodeDef
	seen := map[string]bool{}
	for _, d := range config.GetNodes() {
		names, err := hostlist.Expand(d.GetNames(), hostlist.MaxHosts)
		if err != nil {
			return nil, err
		}
		addresses, err := parallel(d.GetAddresses(), len(names))
		if err != nil {
			return nil, err
		}
		hosts, err := parallel(d.GetHostNames(), len(names))
		if err != nil {
			return nil, err
		}
		for i, name := range names {
			if name == "" || seen[name] {
				continue
			}
			seen[name] = true
			own := d.CloneVT()
			own.Names, own.Addresses, own.HostNames, own.Ports = name, addresses[i], hosts[i], nil
			if i < len(d.GetPorts()) {
				own.Port = d.Ports[i]
			}
			defs = append(defs, own)
		}
	}
	return defs, nil
}

// parallel expands a list that goes along with n names: as many, or one for all (or none).
func parallel(expr string, n int) ([]string, error) {
	list, err := hostlist.Expand(expr, hostlist.MaxHosts)
	if err != nil {
		return nil, err
	}
	all := make([]string, n)
	switch {
	case len(list) == n:
		return list, nil
	case len(list) > 0:
		for i := range all {
			all[i] = list[min(i, len(list)-1)]
		}
	}
	return all, nil
}

// newLayout is that of a configuration. names are those of its nodes, and behind them of those that it dropped, "" where one of these
// has gone since.
func newLayout(config *events.Config, names []string, configured int) (*layout, error) {
	l := &layout{configured: configured, index: make(map[string]uint32, len(names)), byName: map[string]*partition{}}
	for i, name := range names {
		if name != "" {
			l.index[name] = uint32(i)
		}
	}
	for _, def := range config.GetPartitions() {
		if _, twice := l.byName[def.GetName()]; twice {
			continue
		}
		p := &partition{def: def}
		if strings.EqualFold(def.GetNodes(), "ALL") {
			for i := range configured {
				p.nodes = append(p.nodes, uint32(i))
			}
		} else {
			members, err := hostlist.Expand(def.GetNodes(), hostlist.MaxHosts)
			if err != nil {
				return nil, err
			}
			for _, name := range members {
				if i, ok := l.index[name]; ok && int(i) < configured {
					p.nodes = append(p.nodes, i)
				}
			}
			slices.Sort(p.nodes)
			p.nodes = slices.Compact(p.nodes)
		}
		l.byName[def.GetName()] = p
		if def.GetExclusiveUser() {
			l.owned++
		}
	}
	return l, nil
}

// names are those of all nodes by index; "" where a removed one has gone and left its place empty.
func (l *layout) names() []string {
	var names []string
	for name, i := range l.index {
		if more := int(i) + 1 - len(names); more > 0 {
			names = append(names, make([]string, more)...)
		}
		names[i] = name
	}
	return names
}

// membership is, by node index, the names of the partitions it is in, in their order of configuration.
func (l *layout) membership(config *events.Config) [][]string {
	in := make([][]string, len(l.index))
	done := map[string]bool{}
	for _, def := range config.GetPartitions() {
		if done[def.GetName()] {
			continue
		}
		done[def.GetName()] = true
		for _, i := range l.byName[def.GetName()].nodes {
			in[i] = append(in[i], def.GetName())
		}
	}
	return in
}

// without is the layout with one removed node forgotten.
func (l *layout) without(name string) *layout {
	next := *l
	next.index = make(map[string]uint32, len(l.index))
	for k, v := range l.index {
		if k != name {
			next.index[k] = v
		}
	}
	return &next
}
