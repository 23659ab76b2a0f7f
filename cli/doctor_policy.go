package cli

import (
	"slices"
	"strings"

	"stint/cli/site"
	"stint/cli/wire"
	"stint/events"
	"stint/projections"
)

// checkPolicy names the limits and weights of accounts and QoS that are kept, and as yet have no effect on jobs.
func checkPolicy(d *diagnosis, dir site.Dir) {
	conn, err := wire.Dial(string(dir))
	if err != nil {
		return // checkCluster says so
	}
	defer conn.Close()
	a, err := conn.Ask(&projections.Ask{What: &projections.Ask_Policy{Policy: &projections.AskPolicy{}}})
	if err != nil {
		return
	}
	p := a.GetPolicy().GetPolicy()
	set := withoutEffect(p)
	d.add("ok", "accounts", "", "%s, %s, %s, %d QoS", count(len(p.GetAccounts()), "account"), count(len(p.GetUsers()), "user"), count(len(p.GetAssociations()), "association"), len(p.GetQos()))
	if len(set) > 0 {
		d.add("note", "accounts", "", "these are stored and shown, and have no effect on jobs yet: %s", strings.Join(set, ", "))
	}
}

// withoutEffect lists what is set of a policy and decides nothing, in alphabetical order.
func withoutEffect(p *projections.PolicyState) []string {
	var set []string
	add := func(limits []*events.LimitValue) {
		for _, l := range limits {
			set = append(set, strings.ToLower(l.GetLimit().String()))
		}
	}
	for _, as := range p.GetAssociations() {
		add(as.GetLimits())
	}
	for _, q := range p.GetQos() {
		add(q.GetLimits())
		if len(q.GetPreempt()) > 0 || q.GetPreemptMode() != "" {
			set = append(set, "preempt")
		}
		for _, f := range q.GetFlags() {
			set = append(set, "the flag "+f)
		}
	}
	slices.Sort(set)
	return slices.Compact(set)
}
