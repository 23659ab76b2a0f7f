package admit

import (
	"fmt"
	"slices"
	"strings"

	"stint/events"
	"stint/projections"
)

// MaxActs is how many acts one intent may hold.
const MaxActs = 1000

// administer judges acts on accounts, users, QoS and limits: who may, and whether the policy takes them. All happen, or none.
func (d *Desk) administer(m *events.Policy) []*events.Fact {
	if d.r.ConfigSeq() == 0 {
		return d.refused(refuse(events.Code_INVALID_CONFIG, "this cluster has no configuration yet; an administrator has to start it with one"))
	}
	if len(m.Acts) == 0 || len(m.Acts) > MaxActs {
		return d.refused(refuse(events.Code_MALFORMED, "the request holds %d acts; it may hold 1 to %d", len(m.Acts), MaxActs))
	}
	cluster := d.r.Config().GetCluster()
	p := d.r.Policy()
	for _, a := range m.Acts {
		if a == nil {
			return d.refused(refuse(events.Code_MALFORMED, "the request holds an empty act"))
		}
		if r := d.actTexts(a); r != nil {
			return d.refused(r)
		}
		if r := d.mayAct(p, a); r != nil {
			return d.refused(r)
		}
		if r := d.unused(p, a); r != nil {
			return d.refused(r)
		}
	}
	if _, err := p.After(m, cluster, d.who.User, d.now, 0); err != nil {
		return d.refused(refuse(events.Code_POLICY_REFUSED, "%s", err))
	}
	return []*events.Fact{{Kind: &events.Fact_Administered{Administered: &events.Administered{
		Intent: d.ref(), Policy: m, ByUid: d.who.Uid, By: d.who.User,
	}}}}
}

func (d *Desk) actTexts(a *events.PolicyAct) *refusal {
	s := a.Set
	pairs := []string{"the description", s.GetDescription(), "the organization", s.GetOrganization(), "the comment", s.GetComment(),
		"the new name", s.GetNewName(), "the preemption mode", s.GetPreemptMode()}
	for _, list := range [][]string{a.Names, a.Accounts, a.Partitions, a.Clusters, a.Wckeys} {
		for _, name := range list {
			if len(name) > 256 {
				return refuse(events.Code_MALFORMED, "a name is %d bytes long, at most 256 are taken", len(name))
			}
		}
	}
	return texts(MaxText, pairs...)
}

// level is what the author may do: the configuration's administrators may all.
func (d *Desk) level() events.AdminLevel {
	if d.admin() {
		return events.AdminLevel_ADMIN_ADMINISTRATOR
	}
	return d.r.Policy().Level(d.who.User)
}

// mayAct asks whether the author may do an act: administrators all, operators all but clusters, QoS and higher levels than
// their own, coordinators what concerns their accounts and those below, everybody a default of their own.
func (d *Desk) mayAct(p *projections.Policy, a *events.PolicyAct) *refusal {
	level := d.level()
	if level == events.AdminLevel_ADMIN_ADMINISTRATOR {
		return nil
	}
	no := func(text string, args ...any) *refusal {
		return refuse(events.Code_ACCESS_DENIED, "%s may not do this: %s", d.who.User, fmt.Sprintf(text, args...))
	}
	switch a.Kind {
	case events.PolicyKind_POLICY_QOS, events.PolicyKind_POLICY_CLUSTER:
		return no("it takes an administrator (AdminLevel=Administrator, root or SlurmUser)")
	}
	if a.Set.GetAdminLevel() > level {
		return no("a level above one's own cannot be given")
	}
	if level == events.AdminLevel_ADMIN_OPERATOR {
		return nil
	}
	if a.Set != nil && a.Set.AdminLevel != nil {
		return no("an AdminLevel is given by operators and administrators")
	}
	if d.ownDefault(p, a) {
		return nil
	}
	const who = "it takes an operator, or a coordinator of the account"
	cluster := d.r.Config().GetCluster()
	mine := func(account string) bool { return p.Coordinates(d.who.User, cluster, account) }
	switch a.Kind {
	case events.PolicyKind_POLICY_ACCOUNT:
		if a.Deed == events.PolicyDeed_POLICY_ADD {
			if a.Set.GetParent() != "" && mine(a.Set.GetParent()) {
				return nil
			}
			return no(who)
		}
		if len(a.Names) > 0 && !slices.ContainsFunc(a.Names, func(n string) bool { return !mine(n) }) {
			return nil
		}
	case events.PolicyKind_POLICY_USER:
		if a.Deed == events.PolicyDeed_POLICY_ADD && d.coordinatesAny(p) {
			return nil // a name alone gives no right; the place that follows is looked at for itself
		}
	case events.PolicyKind_POLICY_ASSOCIATION:
		accounts := slices.Clone(a.Accounts)
		if len(a.Names) == 0 && a.Deed == events.PolicyDeed_POLICY_ADD {
			accounts = []string{a.Set.GetParent()}
		}
		for _, id := range a.Associations {
			accounts = append(accounts, p.AssociationID(id).GetAccount())
		}
		if a.Deed == events.PolicyDeed_POLICY_MODIFY && a.Set != nil && a.Set.Parent != nil {
			accounts = append(accounts, a.Set.GetParent())
		}
		if len(accounts) > 0 && !slices.ContainsFunc(accounts, func(n string) bool { return !mine(n) }) {
			return nil
		}
	case events.PolicyKind_POLICY_COORDINATOR:
		if len(a.Accounts) > 0 && !slices.ContainsFunc(a.Accounts, func(n string) bool { return !mine(n) }) {
			return nil
		}
	}
	return no(who)
}

func (d *Desk) coordinatesAny(p *projections.Policy) bool {
	any := false
	p.EachAccount(func(a *projections.Account) bool {
		any = slices.Contains(a.Coordinators, d.who.User)
		return !any
	})
	return any
}

// ownDefault says whether an act only chooses a default of the author's own.
func (d *Desk) ownDefault(p *projections.Policy, a *events.PolicyAct) bool {
	s := a.Set
	if a.Deed != events.PolicyDeed_POLICY_MODIFY || s == nil {
		return false
	}
	switch a.Kind {
	case events.PolicyKind_POLICY_USER:
		only := &events.PolicySettings{DefaultAccount: s.DefaultAccount, DefaultWckey: s.DefaultWckey}
		return len(a.Names) == 1 && a.Names[0] == d.who.User && s.EqualVT(only)
	case events.PolicyKind_POLICY_ASSOCIATION:
		only := &events.PolicySettings{DefaultQos: s.DefaultQos}
		return len(a.Associations) > 0 && s.EqualVT(only) && !slices.ContainsFunc(a.Associations, func(id uint32) bool {
			return p.AssociationID(id).GetUser() != d.who.User
		})
	}
	return false
}

// maxNamedJobs is how many jobs are named to who would remove what they use.
const maxNamedJobs = 10

// unused refuses to remove an account, a user or an association that jobs in the queue use.
func (d *Desk) unused(p *projections.Policy, a *events.PolicyAct) *refusal {
	if a.Deed != events.PolicyDeed_POLICY_DELETE {
		return nil
	}
	cluster := d.r.Config().GetCluster()
	var uses func(account, user, partition string) bool
	switch a.Kind {
	case events.PolicyKind_POLICY_ACCOUNT:
		uses = func(account, _, _ string) bool { return d.within(p, cluster, account, a.Names) }
	case events.PolicyKind_POLICY_USER:
		uses = func(account, user, _ string) bool {
			return slices.Contains(a.Names, user) && p.Association(cluster, account, user, "") != nil
		}
	case events.PolicyKind_POLICY_ASSOCIATION:
		ids := map[uint32]bool{}
		for _, id := range a.Associations {
			ids[id] = true
		}
		uses = func(account, user, partition string) bool {
			place := p.Place(cluster, account, user, partition)
			for ; place != nil; place = p.AssociationID(place.Parent) {
				if ids[place.Id] {
					return true
				}
			}
			return false
		}
	default:
		return nil
	}
	var jobs []string
	look := func(j *projections.Job) bool {
		if account := j.GetSpec().GetAccount(); account != "" && uses(account, j.GetOwner().GetUser(), firstOf(j.GetSpec().GetPartition())) {
			jobs = append(jobs, fmt.Sprintf("JobID = %-10d C = %-10s A = %-10s U = %-9s", j.Id, cluster, account, j.GetOwner().GetUser()))
		}
		return len(jobs) < maxNamedJobs
	}
	d.r.EachRunning(look)
	d.r.EachPending(look)
	if len(jobs) == 0 {
		return nil
	}
	return refuse(events.Code_JOBS_ACTIVE, "%s", strings.Join(jobs, "\n"))
}

func firstOf(list string) string {
	first, _, _ := strings.Cut(list, ",")
	return first
}

// within says whether an account is one of these, or below one.
func (d *Desk) within(p *projections.Policy, cluster, account string, these []string) bool {
	for a := p.Association(cluster, account, "", ""); a != nil; a = p.AssociationID(a.Parent) {
		if slices.Contains(these, a.Account) {
			return true
		}
	}
	return slices.Contains(these, account)
}

// belongs resolves what a user's job runs as: account and QoS, by default or as given, and holds them to what the policy
// allows as far as AccountingStorageEnforce says.
func (d *Desk) belongs(s *events.JobSpec, user string) *refusal {
	cfg := d.r.Config()
	enforce := func(what string) bool { return slices.Contains(cfg.AccountingEnforce, what) }
	p := d.r.Policy()
	def := p.Default(user, cfg.Cluster)
	if s.Account == "" {
		s.Account = def.GetAccount()
	} else {
		s.Account = strings.ToLower(s.Account)
	}
	place := p.Place(cfg.Cluster, s.Account, user, firstOf(s.Partition))
	if place == nil && enforce("associations") {
		if s.Account == "" {
			return refuse(events.Code_INVALID_ACCOUNT, "user %s has no association on this cluster, so there is no account for the job", user)
		}
		return refuse(events.Code_INVALID_ACCOUNT, "user %s has no association with account %.100q for partition %.100s", user, s.Account, s.Partition)
	}
	if s.Qos == "" && place != nil {
		if s.Qos = p.DefaultQos(place); s.Qos == "" {
			if allowed := p.AllowedQos(place); len(allowed) == 1 {
				s.Qos = allowed[0]
			} else if slices.Contains(allowed, projections.NormalQos) {
				s.Qos = projections.NormalQos
			}
		}
	}
	if s.Qos != "" {
		switch {
		case p.QosNamed(s.Qos) == nil:
			if enforce("associations") || enforce("qos") {
				return refuse(events.Code_INVALID_QOS, "there is no QOS %.100q", s.Qos)
			}
		case enforce("qos") && place != nil && !slices.Contains(p.AllowedQos(place), s.Qos):
			return refuse(events.Code_INVALID_QOS, "user %s may not use the QOS %.100q with account %s", user, s.Qos, s.Account)
		}
	}
	return nil
}

// wckey resolves the key that a job's use is booked under: a default is marked with a star.
func (d *Desk) wckey(s *events.JobSpec, user string) *refusal {
	cfg := d.r.Config()
	enforced := slices.Contains(cfg.AccountingEnforce, "wckeys")
	s.Wckey = strings.ToLower(s.Wckey)
	if !cfg.TrackWckey && !enforced {
		return nil
	}
	p := d.r.Policy()
	if s.Wckey == "" {
		key := p.Default(user, cfg.Cluster).GetWckey()
		s.Wckey = "*" + key
		if key == "" && enforced {
			return refuse(events.Code_INVALID_WCKEY, "user %s has no default wckey", user)
		}
		return nil
	}
	if enforced && p.Wckey(cfg.Cluster, user, s.Wckey) == nil {
		return refuse(events.Code_INVALID_WCKEY, "user %s has no wckey %.100q", user, s.Wckey)
	}
	return nil
}
