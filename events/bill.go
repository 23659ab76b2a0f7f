package events

import (
	"strings"

	"stint/events/tres"
)

// Bill is what amounts of resources come to in a partition (slurm.conf(5), TRESBillingWeights): with PriorityFlags=MAX_TRES only
// the dearest of those of nodes counts. A partition without weights, or none at all, counts CPUs.
func (c *Config) Bill(p *PartitionDef, l tres.List) int64 {
	if p.GetBillingWeights() == "" {
		return l.Get("cpu")
	}
	w, _ := tres.ParseWeights(p.GetBillingWeights())
	most := false
	for _, s := range c.GetSettings() {
		if strings.EqualFold(s.GetKey(), "PriorityFlags") {
			most = strings.Contains(strings.ToUpper(s.GetValue()), "MAX_TRES")
		}
	}
	return w.Billing(l, most)
}

// PartitionNamed is a partition of the configuration; nil: there is none of that name.
func (c *Config) PartitionNamed(name string) *PartitionDef {
	for _, p := range c.GetPartitions() {
		if p.GetName() == name {
			return p
		}
	}
	return nil
}
