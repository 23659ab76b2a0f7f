package cli

import (
	"errors"
	"os/exec"
	"os/user"
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
	if a.nodes != nil && !a.nodes.GetPartitionsPrivate() {
		r.on("looking up the groups that partitions are for (getent group)")
		judgeAccess(r, a.nodes.GetPartitions(), got.GetPolicy().GetPolicy(), a.config.GetConfig(), groupThere)
	}
}

// judgeAccess names what partitions are for and is not there: groups of the host, accounts and QoS. there tells whether a group is.
func judgeAccess(r *report, partitions []*events.PartitionDef, p *projections.PolicyState, c *events.Config, there func(string) bool) {
	account := func(name string) bool {
		return slices.ContainsFunc(p.GetAccounts(), func(a *projections.Account) bool { return !a.GetDeleted() && strings.EqualFold(a.GetName(), name) })
	}
	qos := func(name string) bool {
		return slices.ContainsFunc(p.GetQos(), func(q *projections.Qos) bool { return !q.GetDeleted() && strings.EqualFold(q.GetName(), name) })
	}
	enforced := slices.Contains(c.GetAccountingEnforce(), "associations") // without, accounts and QoS need not be known
	for _, d := range partitions {
		for _, k := range []struct {
			key, what, make string
			names           []string
			judged          bool
			there           func(string) bool
		}{
			{"AllowGroups", "group on this host", "groupadd NAME", d.GetAllowGroups(), true, there},
			{"AllowAccounts", "account", "sacctmgr add account NAME", d.GetAllowAccounts(), enforced, account},
			{"AllowQos", "QoS", "sacctmgr add qos NAME", d.GetAllowQos(), enforced, qos},
		} {
			if !k.judged {
				continue
			}
			var gone []string
			for _, name := range k.names {
				if !k.there(name) {
					gone = append(gone, name)
				}
			}
			if len(gone) == 0 {
				continue
			}
			then := ""
			if len(gone) == len(k.names) {
				then = ": nobody gets in by it"
			}
			r.add(warning, "partitions", "correct it in slurm.conf, or make it: "+k.make, "%s=%s of partition %s: there is no such %s%s", k.key, few(gone), d.GetName(), k.what, then)
		}
	}
}

// groupThere tells whether the host knows a group. The files are read first; a static program sees no directory (LDAP), getent does.
func groupThere(name string) bool {
	if _, err := user.LookupGroup(name); err == nil {
		return true
	}
	var exit *exec.ExitError
	if err := exec.Command("getent", "group", "--", name).Run(); errors.As(err, &exit) {
		return exit.ExitCode() != 2 // 2: not found; any other end proves nothing
	}
	return true
}

func judgePolicy(r *report, p *projections.PolicyState, c *events.Config) {
	r.add(well, "accounts", "", "%s, %s, %s, %d QoS", count(len(p.GetAccounts()), "account"), count(len(p.GetUsers()), "user"), count(len(p.GetAssociations()), "association"), len(p.GetQos()))
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
