package cli

import (
	"slices"
	"strings"

	"stint/events"
	"stint/projections"
)

// checkPolicy names the limits and weights of accounts and QoS that are kept, and as yet have no effect on jobs, and users who can
// submit nothing.
func checkPolicy(r *report, s *scene) {
	a := s.answers()
	if a.status == nil {
		return
	}
	r.on("asking for accounts and users")
	conn, err := impatient(s.dir)
	if err != nil {
		return // checkCluster says so
	}
	defer conn.Close()
	got, err := conn.Ask(&projections.Ask{What: &projections.Ask_Policy{Policy: &projections.AskPolicy{}}})
	if err != nil {
		r.add(warning, "accounts", "", "who may submit could not be asked: %v", err)
		return
	}
	judgePolicy(r, got.GetPolicy().GetPolicy(), a.config.GetConfig())
}

func judgePolicy(r *report, p *projections.PolicyState, c *events.Config) {
	r.add(well, "accounts", "", "%s, %s, %s, %d QoS", plain(len(p.GetAccounts()), "account"), plain(len(p.GetUsers()), "user"), plain(len(p.GetAssociations()), "association"), len(p.GetQos()))
	if set := withoutEffect(p); len(set) > 0 {
		r.add(note, "accounts", "", "these are stored and shown, and have no effect on jobs yet: %s", strings.Join(set, ", "))
	}
	if !slices.Contains(c.GetAccountingEnforce(), "associations") {
		return
	}
	may := map[string]bool{}
	for _, as := range p.GetAssociations() {
		if as.GetUser() != "" && !as.GetDeleted() {
			may[as.GetUser()] = true
		}
	}
	if len(may) <= 1 {
		r.add(warning, "accounts", "sacctmgr add user NAME account=ACCOUNT", "AccountingStorageEnforce lets only those submit who have an association, and %s", is(len(may), "user has one", "users have one"))
	}
	var without []string
	for _, u := range p.GetUsers() {
		if !u.GetDeleted() && !may[u.GetName()] {
			without = append(without, u.GetName())
		}
	}
	if len(without) > 0 {
		slices.Sort(without)
		r.add(warning, "accounts", "sacctmgr add user NAME account=ACCOUNT", "these users have no association, and so can submit nothing: %s", few(without))
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
