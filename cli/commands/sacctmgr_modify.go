package commands

import (
	"fmt"
	"slices"
	"strings"

	"stint/cli/slurm"
	"stint/events"
	"stint/projections"
)

// readChange reads `[where] conditions set settings`.
func (m *manager) readChange(words []string, kind string) (*query, *settings, error) {
	q := &query{}
	to := &settings{assoc: &events.PolicySettings{}, own: &events.PolicySettings{}}
	for _, t := range slurm.ParseTerms(words) {
		switch {
		case t.Set && t.Key == "":
			return nil, nil, fmt.Errorf("Unknown option: %s\n Use keyword 'where' to modify condition", t.Value)
		case t.Set:
			known, err := m.setting(to, kind, t)
			if err != nil {
				return nil, nil, err
			}
			if !known {
				return nil, nil, fmt.Errorf("Unknown option: %s%s%s\n Use keyword 'where' to modify condition", t.Key, t.Op, t.Value)
			}
		case t.Key == "":
			q.names = append(q.names, slurm.SplitNames(t.Value, kind == "cluster")...)
		case q.condition(t):
		default:
			return nil, nil, fmt.Errorf("Unknown condition: %s%s%s\n Use keyword 'set' to modify value", t.Key, t.Op, t.Value)
		}
	}
	return q, to, nil
}

func (m *manager) modify(words []string) int {
	i := managerEntity(words)
	if i < 0 || managerEntities[i].modify == nil {
		return m.wants("modify", func(i int) bool { return managerEntities[i].modify != nil })
	}
	kind, f := managerEntities[i].name, managerEntities[i].modify
	if err := m.look(false); err != nil {
		return m.fail("%s", err)
	}
	q, to, err := m.readChange(words[1:], kind)
	if err == errTold {
		return 1
	}
	if err != nil {
		return m.fail("%s", err)
	}
	if !to.any && !to.anyOf {
		return m.fail("Nothing to modify: what is to be is named after `set`")
	}
	return f(m, q, to)
}

func (m *manager) modifyQos(q *query, to *settings) int {
	if m.level() < events.AdminLevel_ADMIN_ADMINISTRATOR {
		return m.fail("Problem with modify request: Access/permission denied\nQoS are changed by administrators")
	}
	var names []string
	m.p.EachQos(func(rec *projections.Qos) bool {
		if in(q.names, rec.Name) && in(q.descriptions, rec.Description) && in(q.ids, fmt.Sprint(rec.Id)) {
			names = append(names, rec.Name)
		}
		return true
	})
	if len(names) == 0 {
		m.printf(" Nothing modified\n")
		return 1
	}
	m.printf(" Modified qos...\n")
	for _, n := range names {
		m.printf("  %s\n", n)
	}
	return m.commit([]*events.PolicyAct{policyAct(deedModify, events.PolicyKind_POLICY_QOS, names, to.assoc)})
}

func (m *manager) modifyClusters(q *query, to *settings) int {
	names := slices.Concat(q.names, q.clusters)
	if m.level() < events.AdminLevel_ADMIN_ADMINISTRATOR {
		return m.fail("Problem with modify request: Access/permission denied\nclusters are changed by administrators")
	}
	m.printf(" Setting\n  Default Limits:\n")
	m.shown(to.assoc, false)
	var found []string
	m.p.EachCluster(func(c *projections.ClusterName) bool {
		if in(names, c.Name) {
			found = append(found, c.Name)
		}
		return true
	})
	if len(found) == 0 {
		m.printf(" Nothing modified\n")
		return 1
	}
	m.printf(" Modified cluster defaults for associations...\n")
	for _, n := range found {
		m.printf("  C = %-10s A = root\n", n)
	}
	return m.commit([]*events.PolicyAct{policyAct(deedModify, events.PolicyKind_POLICY_CLUSTER, found, to.assoc)})
}

// below lists the users' associations below one that inherit what changes, in the order of the tree's lists.
func (m *manager) below(a *projections.Association, set *events.PolicySettings, to func(*projections.Association)) {
	for _, id := range slices.Backward(m.p.Below(a.Id)) {
		b := m.p.AssociationID(id)
		if !inherits(b, set) {
			continue
		}
		if b.User != "" {
			to(b)
		}
		m.below(b, set, to)
	}
}

// inherits says whether an association takes any of what changes from the one above.
func inherits(a *projections.Association, set *events.PolicySettings) bool {
	for _, l := range set.Limits {
		if !projections.Inherits(l.Limit) {
			continue
		}
		own := projections.LimitOf(a.Limits, l.Limit)
		if own == nil {
			return true
		}
		for _, t := range l.Tres {
			if !slices.ContainsFunc(own.Tres, func(o *events.TresCount) bool { return o.Tres == t.Tres }) {
				return true
			}
		}
	}
	return set.Qos != nil && !a.HasQos || set.DefaultQos != nil && a.DefaultQos == ""
}

func placeLine(p *projections.Policy, a *projections.Association) string {
	if a.User == "" {
		if a.Parent == 0 {
			return fmt.Sprintf("  C = %-10s A = %s", a.Cluster, a.Account)
		}
		return fmt.Sprintf("  C = %-10s A = %s of %s", a.Cluster, a.Account, p.AssociationID(a.Parent).GetAccount())
	}
	line := fmt.Sprintf("  C = %-10s A = %-20s U = %-9s", a.Cluster, a.Account, a.User)
	if a.Partition != "" {
		line += " P = " + a.Partition
	}
	return line
}

func (m *manager) modifyAccounts(q *query, to *settings) int {
	names := slices.Concat(q.names, q.accounts)
	var acts []*events.PolicyAct
	if m.level() == events.AdminLevel_ADMIN_NONE && !m.coordinates() {
		m.printf(" Nothing modified\n")
		return m.fail("%s is neither operator nor coordinator", m.w.user())
	}
	if to.anyOf {
		var found []string
		for _, a := range m.raw.Accounts {
			if in(names, a.Name) && in(q.organizations, a.Organization) && in(q.descriptions, a.Description) {
				found = append(found, a.Name)
			}
		}
		slices.Sort(found)
		if len(found) > 0 {
			m.printf(" Modified accounts...\n")
			for _, n := range found {
				m.printf("  %s\n", n)
			}
			acts = append(acts, policyAct(deedModify, events.PolicyKind_POLICY_ACCOUNT, found, to.own))
		}
	}
	if to.any {
		q.names, q.accounts = nil, names
		var ids []uint32
		var lines strings.Builder
		for _, a := range m.associations(q) {
			if a.User != "" {
				continue
			}
			ids = append(ids, a.Id)
			lines.WriteString(placeLine(m.p, a) + "\n")
			m.below(a, to.assoc, func(b *projections.Association) { lines.WriteString(placeLine(m.p, b) + "\n") })
		}
		if len(ids) > 0 {
			m.printf(" Modified account associations...\n%s", lines.String())
			acts = append(acts, &events.PolicyAct{Deed: deedModify, Kind: events.PolicyKind_POLICY_ASSOCIATION, Associations: ids, Set: to.assoc})
		}
	}
	if len(acts) == 0 {
		m.printf(" Nothing modified\n")
		return 1
	}
	return m.commit(acts)
}

func (m *manager) modifyUsers(q *query, to *settings) int {
	names := slices.Concat(q.names, q.users)
	var acts []*events.PolicyAct
	cluster := m.cfg.GetCluster()
	mine := len(names) == 1 && names[0] == m.w.user()
	level := m.level()
	if to.own.AdminLevel != nil && to.own.GetAdminLevel() > level || to.own.AdminLevel != nil && level == events.AdminLevel_ADMIN_NONE {
		return m.fail("Problem with modify request: Access/permission denied\n%s may not give that AdminLevel", m.w.user())
	}
	if to.anyOf {
		var found []string
		for _, u := range m.raw.Users {
			if !in(names, u.Name) || len(q.defaults) > 0 && !slices.Contains(q.defaults, m.p.Default(u.Name, cluster).GetAccount()) {
				continue
			}
			if len(q.accounts) > 0 && !slices.ContainsFunc(q.accounts, func(a string) bool { return m.has(u.Name, a) }) {
				continue
			}
			found = append(found, u.Name)
		}
		slices.Sort(found)
		if want := to.own.GetDefaultAccount(); want != "" {
			var bad []string
			for _, n := range found {
				if !m.has(n, want) {
					bad = append(bad, n)
				}
			}
			if len(bad) > 0 {
				m.printf(" Can't modify because these users aren't associated with new default account '%s'...\n", want)
				for _, n := range bad {
					m.printf("  U = %s C = %s\n", n, cluster)
				}
				return 1
			}
		}
		if len(found) > 0 {
			m.printf(" Modified users...\n")
			for _, n := range found {
				m.printf("  %s\n", n)
			}
			acts = append(acts, policyAct(deedModify, events.PolicyKind_POLICY_USER, found, to.own))
		}
	}
	if to.any {
		if level == events.AdminLevel_ADMIN_NONE && !m.coordinates() && !(mine && to.assoc.EqualVT(&events.PolicySettings{DefaultQos: to.assoc.DefaultQos})) {
			m.printf(" Nothing modified\n")
			return m.fail("%s is neither operator nor coordinator", m.w.user())
		}
		q.names, q.users = nil, names
		var ids []uint32
		var lines strings.Builder
		for _, a := range m.associations(q) {
			if a.User != "" {
				ids = append(ids, a.Id)
				lines.WriteString(placeLine(m.p, a) + "\n")
			}
		}
		if len(ids) > 0 {
			m.printf(" Modified user associations...\n%s", lines.String())
			acts = append(acts, &events.PolicyAct{Deed: deedModify, Kind: events.PolicyKind_POLICY_ASSOCIATION, Associations: ids, Set: to.assoc})
		}
	}
	if len(acts) == 0 {
		m.printf(" Nothing modified\n")
		return 1
	}
	return m.commit(acts)
}

// has says whether a user is in an account of this cluster.
func (m *manager) has(user, account string) bool {
	found := false
	m.p.Held(user, func(a *projections.Association) bool {
		found = found || a.Account == account && a.Cluster == m.cfg.GetCluster()
		return !found
	})
	return found
}
