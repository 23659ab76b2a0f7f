package commands

import (
	"fmt"
	"slices"
	"strings"

	"stint/cli/slurm"
	"stint/events"
	"stint/projections"
)

func (m *manager) delete(words []string) int {
	i := managerEntity(words)
	if i < 0 || managerEntities[i].remove == nil {
		return m.wants("delete", func(i int) bool { return managerEntities[i].remove != nil })
	}
	kind, f := managerEntities[i].name, managerEntities[i].remove
	if err := m.look(false); err != nil {
		return m.fail("%s", err)
	}
	q := &query{}
	for _, t := range slurm.ParseTerms(words[1:]) {
		switch {
		case t.Key == "":
			q.names = append(q.names, slurm.SplitNames(t.Value, kind == "cluster")...)
		case q.condition(t):
		default:
			return m.fail("Unknown condition: %s%s%s", t.Key, t.Op, t.Value)
		}
	}
	if len(slices.Concat(q.names, q.accounts, q.users, q.clusters, q.partitions, q.descriptions, q.organizations, q.ids, q.wckeys, q.defaults, q.parents, q.levels, q.qos)) == 0 {
		return m.fail("No conditions given to remove, not executing: name what is to go")
	}
	return f(m, q)
}

func (m *manager) nothing() int {
	m.printf(" Nothing deleted\n")
	return 1
}

// barred says that the caller may not, before anything is shown.
func (m *manager) barred(least events.AdminLevel) bool {
	if m.level() >= least || least == events.AdminLevel_ADMIN_OPERATOR && m.coordinates() {
		return false
	}
	m.fail("Problem with request: Access/permission denied\nit takes an operator, an administrator or the account's coordinator")
	return true
}

func (m *manager) deleteAccounts(q *query) int {
	if m.barred(events.AdminLevel_ADMIN_OPERATOR) {
		return 1
	}
	names := slices.Concat(q.names, q.accounts)
	var found []string
	for _, a := range m.raw.Accounts {
		if in(names, a.Name) && in(q.organizations, a.Organization) && in(q.descriptions, a.Description) && a.Name != projections.RootAccount {
			found = append(found, a.Name)
		}
	}
	if len(found) == 0 {
		return m.nothing()
	}
	slices.Sort(found)
	m.printf(" Deleting accounts...\n")
	for _, n := range found {
		m.printf("  %s\n", n)
	}
	return m.commit([]*events.PolicyAct{policyAct(deedDelete, events.PolicyKind_POLICY_ACCOUNT, found, nil)})
}

func (m *manager) deleteUsers(q *query) int {
	if m.barred(events.AdminLevel_ADMIN_OPERATOR) {
		return 1
	}
	names := slices.Concat(q.names, q.users)
	if len(q.accounts)+len(q.partitions)+len(q.clusters) > 0 {
		q.names, q.users = nil, names
		var ids []uint32
		var lines strings.Builder
		for _, a := range m.associations(q) {
			if a.User == "" {
				continue
			}
			ids = append(ids, a.Id)
			fmt.Fprintf(&lines, "  C = %-10s A = %-10s U = %-9s", a.Cluster, a.Account, a.User)
			if a.Partition != "" {
				fmt.Fprintf(&lines, " P = %-10s", a.Partition)
			}
			lines.WriteByte('\n')
		}
		if len(ids) == 0 {
			return m.nothing()
		}
		m.printf(" Deleting user associations...\n%s", lines.String())
		acts := []*events.PolicyAct{{Deed: deedDelete, Kind: events.PolicyKind_POLICY_ASSOCIATION, Associations: ids}}
		if bare := m.bare(ids); len(bare) > 0 {
			m.printf(" Deleting users (No Associations)...\n")
			for _, n := range bare {
				m.printf("  %s\n", n)
			}
			acts = append(acts, policyAct(deedDelete, events.PolicyKind_POLICY_USER, bare, nil))
		}
		return m.commit(acts)
	}
	var found []string
	for _, u := range m.raw.Users {
		if in(names, u.Name) && u.Name != projections.RootUser {
			found = append(found, u.Name)
		}
	}
	if len(found) == 0 {
		return m.nothing()
	}
	slices.Sort(found)
	m.printf(" Deleting users...\n")
	for _, n := range found {
		m.printf("  %s\n", n)
	}
	return m.commit([]*events.PolicyAct{policyAct(deedDelete, events.PolicyKind_POLICY_USER, found, nil)})
}

// bare are the users who have no association without these, in alphabetical order. Slurm removes them too.
func (m *manager) bare(gone []uint32) (users []string) {
	for _, id := range gone {
		name := m.p.AssociationID(id).GetUser()
		left := name == projections.RootUser
		m.p.Held(name, func(a *projections.Association) bool {
			left = left || !slices.Contains(gone, a.Id)
			return !left
		})
		if !left && !slices.Contains(users, name) {
			users = append(users, name)
		}
	}
	slices.Sort(users)
	return users
}

func (m *manager) deleteQos(q *query) int {
	if m.barred(events.AdminLevel_ADMIN_ADMINISTRATOR) {
		return 1
	}
	var found []string
	m.p.EachQos(func(rec *projections.Qos) bool {
		if in(q.names, rec.Name) && in(q.descriptions, rec.Description) && in(q.ids, fmt.Sprint(rec.Id)) {
			found = append(found, rec.Name)
		}
		return true
	})
	if len(found) == 0 {
		return m.nothing()
	}
	var used strings.Builder
	m.p.EachAssociation(func(a *projections.Association) bool {
		if slices.Contains(found, a.DefaultQos) {
			fmt.Fprintf(&used, "  DefQOS = %-10s C = %-10s A = %-20s", a.DefaultQos, a.Cluster, a.Account)
			if a.User != "" {
				fmt.Fprintf(&used, " U = %-9s", a.User)
			}
			used.WriteByte('\n')
		}
		return true
	})
	if used.Len() > 0 {
		m.printf(" Associations listed below have these as their Default QOS.\n%s", used.String())
		m.flush()
		return m.fail("give these associations another default first")
	}
	m.printf(" Deleting QOS(s)...\n")
	for _, n := range found {
		m.printf("  %s\n", n)
	}
	return m.commit([]*events.PolicyAct{policyAct(deedDelete, events.PolicyKind_POLICY_QOS, found, nil)})
}

func (m *manager) deleteClusters(q *query) int {
	if m.barred(events.AdminLevel_ADMIN_ADMINISTRATOR) {
		return 1
	}
	names := slices.Concat(q.names, q.clusters)
	var found []string
	m.p.EachCluster(func(c *projections.ClusterName) bool {
		if in(names, c.Name) {
			found = append(found, c.Name)
		}
		return true
	})
	if len(found) == 0 {
		return m.nothing()
	}
	m.printf(" Deleting clusters...\n")
	for _, n := range found {
		m.printf("  %s\n", n)
	}
	return m.commit([]*events.PolicyAct{policyAct(deedDelete, events.PolicyKind_POLICY_CLUSTER, found, nil)})
}

func (m *manager) deleteCoordinators(q *query) int {
	users := slices.Concat(q.names, q.users)
	if len(users) > 0 {
		m.printf(" Removing Coordinators with user name\n")
		for _, n := range users {
			m.printf("  %s\n", n)
		}
	} else {
		m.printf(" Removing all users from Accounts\n")
	}
	switch {
	case len(q.accounts) == 0:
		m.printf(" From all accounts\n")
	case len(users) > 0:
		m.printf(" From Account(s)\n")
	}
	for _, n := range q.accounts {
		m.printf("  %s\n", n)
	}
	var lines strings.Builder
	var acts []*events.PolicyAct
	for _, a := range m.raw.Accounts {
		if !in(q.accounts, a.Name) {
			continue
		}
		var gone []string
		for _, u := range a.Coordinators {
			if in(users, u) {
				gone = append(gone, u)
				fmt.Fprintf(&lines, "  U = %-9s A = %-10s\n", u, a.Name)
			}
		}
		if len(gone) > 0 {
			acts = append(acts, &events.PolicyAct{Deed: deedDelete, Kind: events.PolicyKind_POLICY_COORDINATOR, Names: gone, Accounts: []string{a.Name}})
		}
	}
	if len(acts) == 0 {
		m.printf(" Nothing removed\n")
		return 1
	}
	m.printf(" Removed Coordinators (sub accounts not listed)...\n%s", lines.String())
	return m.commit(acts)
}

func (m *manager) deleteWckeys(q *query) int {
	a := policyAct(deedDelete, events.PolicyKind_POLICY_WCKEY, q.users, nil)
	a.Wckeys, a.Clusters = slices.Concat(q.names, q.wckeys), q.clusters
	found := false
	m.p.EachWckey(func(k *projections.Wckey) bool {
		if slices.Contains(a.Wckeys, k.Name) && in(q.users, k.User) && in(q.clusters, k.Cluster) {
			if !found {
				m.printf(" Deleting wckeys...\n")
			}
			found = true
			m.printf("  U = %-9s W = %-10s C = %-10s\n", k.User, k.Name, k.Cluster)
		}
		return true
	})
	if !found {
		return m.nothing()
	}
	return m.commit([]*events.PolicyAct{a})
}
