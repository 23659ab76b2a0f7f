package conf

import (
	"fmt"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/once"
	"stint/events"
)

// partitionFields are the numbers of the fields of events.PartitionDef that each key of a partition sets.
var partitionFields = once.Value[map[string][]uint32]{Make: func() map[string][]uint32 {
	return map[string][]uint32{
		"nodes": {2}, "default": {3}, "maxtime": {4}, "defaulttime": {5}, "prioritytier": {6}, "priorityjobfactor": {7}, "priority": {6, 7}, "maxnodes": {8},
		"minnodes": {9}, "allowgroups": {10}, "allowaccounts": {11}, "denyaccounts": {12}, "allowqos": {13}, "denyqos": {14}, "state": {15}, "hidden": {16},
		"rootonly": {17}, "oversubscribe": {18}, "shared": {18}, "defmempercpu": {19, 20}, "defmempernode": {19, 20}, "maxmempercpu": {21, 22},
		"maxmempernode": {21, 22}, "maxcpuspernode": {23}, "disablerootjobs": {24}, "overtimelimit": {25, 32}, "gracetime": {26}, "lln": {27}, "qos": {28},
		"reqresv": {29}, "exclusiveuser": {30}, "exclusive": {30}, "preemptmode": {31}, "jobdefaults": {33, 34},
		"allocnodes": {35}, "alternate": {36}, "tresbillingweights": {37},
	}

}}

// PartitionChange makes of keys and values, as scontrol create and update have them, what is asked of a partition. Keys that
// have no effect here are refused by name. Of Nodes, + and - before the value (or Nodes+=, Nodes-=) add and take away.
func PartitionChange(act events.PartitionAct, name string, changes []slurm.Change) (*events.UpdatePartition, error) {
	m := &events.UpdatePartition{Act: act, Name: name, Values: &events.PartitionDef{Name: name}}
	if act == events.PartitionAct_PARTITION_CREATE {
		m.Values.MaxTimeS, m.Values.PriorityTier, m.Values.PriorityJobFactor, m.Values.MaxNodes, m.Values.Oversubscribe = slurm.Unlimited, 1, 1, slurm.Unlimited, "NO"
		m.Values.MinNodes = 1
	}
	b := &builder{}
	for _, c := range changes {
		key := strings.ToLower(c.Key)
		fields, ok := partitionFields.Get()[key]
		if !ok {
			if key == "defcpupergpu" || key == "defmempergpu" {
				return nil, fmt.Errorf("Update of this parameter is not supported: %s; JobDefaults=%[1]s=%s is", c.Key, clip(c.Value))
			}
			for _, k := range partitionKeys.Get() {
				if strings.EqualFold(k, key) {
					return nil, fmt.Errorf("%s of a partition has no effect here, so it is not taken", k)
				}
			}
			return nil, fmt.Errorf("Update of this parameter is not supported: %s%s", clip(c.Key), nearOf(c.Key, partitionKeys.Get()))
		}
		op, value := c.Op, c.Value
		if key == "nodes" && op == '=' && value != "" && (value[0] == '+' || value[0] == '-') {
			op, value = value[0], value[1:]
		}
		switch {
		case op == '=':
		case key != "nodes" || act == events.PartitionAct_PARTITION_CREATE:
			return nil, fmt.Errorf("%s takes = only, not %c=", c.Key, op)
		case op == '+':
			m.AddNodes = value
			continue
		default:
			m.RemoveNodes = value
			continue
		}
		if err := b.partitionPair(m.Values, pair{c.Key, value}, line{}); err != nil {
			return nil, fmt.Errorf("Invalid input %s=%s: %w", c.Key, clip(value), err)
		}
		m.Fields = append(m.Fields, fields...)
	}
	return m, nil
}
