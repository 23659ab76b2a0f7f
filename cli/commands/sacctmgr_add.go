package commands

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stint/cli/slurm"
	"stint/events"
)

// order is what add was told.
type order struct {
	names, accounts, users, clusters, partitions, wckeys []string
	set                                                  settings
}

// readOrder reads what follows `add ENTITY`.
func (m *manager) readOrder(words []string, kind string) (*order, error) {
	o := &order{set: settings{assoc: &events.PolicySettings{}, own: &events.PolicySettings{}}}
	for _, t := range slurm.ParseTerms(words) {
		list := slurm.SplitNames(t.Value, kind == "cluster")
		key := func(name string, least int) bool { return slurm.Keyed(t.Key, name, least) }
		switch {
		case t.Key == "", key("names", 1):
			o.names = append(o.names, list...)
			continue
		case kind == "account" && (key("accounts", 3) || key("acct", 4)):
			o.names = append(o.names, list...)
			continue
		case kind == "user" && key("users", 1):
			o.names = append(o.names, list...)
			continue
		case kind == "coordinator" && key("users", 1):
			o.names = append(o.names, list...)
			continue
		case key("accounts", 2) || key("acct", 4):
			o.accounts = append(o.accounts, list...)
			continue
		case key("clusters", 1):
			o.clusters = append(o.clusters, list...)
			continue
		case kind == "user" && key("partitions", 4):
			o.partitions = append(o.partitions, list...)
			continue
		case kind == "user" && key("wckeys", 1):
			o.wckeys = append(o.wckeys, list...)
			continue
		}
		if kind == "user" && key("newname", 1) {
			return nil, fmt.Errorf("newname renames a user there is: modify user where name=OLD set newname=NEW")
		}
		known, err := m.setting(&o.set, kind, t)
		if err != nil {
			return nil, err
		}
		if !known {
			return nil, fmt.Errorf("Unknown option: %s%s%s", t.Key, t.Op, t.Value)
		}
	}
	for _, n := range o.clusters {
		if m.p.Cluster(n) == nil {
			return nil, fmt.Errorf("there is no cluster %s", n)
		}
	}
	if len(o.clusters) == 0 && kind != "cluster" {
		for _, c := range m.raw.Clusters {
			o.clusters = append(o.clusters, c.Name)
		}
	}
	return o, nil
}

func (m *manager) add(words []string) int {
	i := managerEntity(words)
	if i >= 0 && (managerEntities[i].name == "federation" || managerEntities[i].name == "resource") {
		return m.fail("sacctmgr add %s is not supported by Stint: there is one cluster, and licences are those of slurm.conf", managerEntities[i].name)
	}
	if i < 0 || managerEntities[i].add == nil {
		return m.wants("add", func(i int) bool { return managerEntities[i].add != nil })
	}
	kind, f := managerEntities[i].name, managerEntities[i].add
	if err := m.look(false); err != nil {
		return m.fail("%s", err)
	}
	o, err := m.readOrder(words[1:], kind)
	if err == errTold {
		return 1
	}
	if err != nil {
		return m.fail("%s", err)
	}
	if len(o.names) == 0 {
		return m.fail("add %s needs a name", kind)
	}
	return f(m, o)
}

func policyAct(deed events.PolicyDeed, kind events.PolicyKind, names []string, set *events.PolicySettings) *events.PolicyAct {
	return &events.PolicyAct{Deed: deed, Kind: kind, Names: names, Set: set}
}

const (
	deedAdd    = events.PolicyDeed_POLICY_ADD
	deedModify = events.PolicyDeed_POLICY_MODIFY
	deedDelete = events.PolicyDeed_POLICY_DELETE
)

func (m *manager) addAccounts(o *order) int {
	parent := cmp.Or(o.set.assoc.GetParent(), "root")
	for _, c := range o.clusters {
		if m.p.Association(c, parent, "", "") == nil {
			return m.fail("there is no account %s on cluster %s to be the parent: add it first", parent, c)
		}
	}
	var fresh []string
	var acts, places []*events.PolicyAct
	for _, name := range o.names {
		if m.p.Account(name) == nil {
			fresh = append(fresh, name)
		}
	}
	var lines strings.Builder
	for _, name := range o.names {
		var where []string
		for _, c := range o.clusters {
			if m.p.Association(c, name, "", "") == nil {
				where = append(where, c)
				fmt.Fprintf(&lines, "  A = %-10.10s C = %-10.10s\n", name, c)
			}
		}
		if len(where) > 0 {
			places = append(places, &events.PolicyAct{Deed: deedAdd, Kind: events.PolicyKind_POLICY_ASSOCIATION, Accounts: []string{name}, Clusters: where, Set: o.set.assoc})
		}
	}
	if len(fresh) == 0 && len(places) == 0 {
		m.printf(" Nothing new added.\n")
		return 1
	}
	if len(fresh) > 0 {
		m.printf(" Adding Account(s)\n")
		for _, n := range fresh {
			m.printf("  %s\n", n)
		}
		descr, org := "Account Name", "Parent/Account Name"
		if o.set.own.Description != nil {
			descr = o.set.own.GetDescription()
		}
		if o.set.own.Organization != nil {
			org = o.set.own.GetOrganization()
		}
		m.printf(" Settings\n  Description     = %s\n  Organization    = %s\n", descr, org)
		own := o.set.own.CloneVT()
		own.Parent = o.set.assoc.Parent
		acts = append(acts, policyAct(deedAdd, events.PolicyKind_POLICY_ACCOUNT, fresh, own))
	}
	if len(places) > 0 {
		m.printf(" Associations\n%s", lines.String())
		if !empty(o.set.assoc) {
			m.printf(" Settings\n")
			m.shown(o.set.assoc, false)
		}
	}
	return m.commit(append(acts, places...))
}

func (m *manager) addUsers(o *order) int {
	if len(o.accounts) == 0 && o.set.own.DefaultAccount != nil {
		o.accounts = []string{o.set.own.GetDefaultAccount()}
	}
	if d := o.set.own.DefaultAccount; d != nil && m.p.Account(*d) == nil {
		return m.fail("there is no account '%s' to be the default: add it first", *d)
	}
	if len(o.accounts) == 0 && len(o.wckeys) == 0 {
		return m.fail("add user needs an account=, or a defaultaccount= that is one")
	}
	var fresh []string
	for _, n := range o.names {
		if m.p.User(n) == nil {
			fresh = append(fresh, n)
		}
	}
	partitions := o.partitions
	if len(partitions) == 0 {
		partitions = []string{""}
	}
	var lines, keys strings.Builder
	var places []*events.PolicyAct
	code := 0
	set := o.set.assoc.CloneVT()
	set.DefaultAccount = o.set.own.DefaultAccount
	for _, account := range o.accounts {
		if m.p.Account(account) == nil {
			m.fail("there is no account '%s': add it first", account)
			code = 1
			continue
		}
		for _, cluster := range o.clusters {
			if m.p.Association(cluster, account, "", "") == nil {
				m.fail("account '%s' has no place on cluster '%s'", account, cluster)
				code = 1
				continue
			}
			for _, name := range o.names {
				var parts []string
				for _, p := range partitions {
					if m.p.Association(cluster, account, name, p) != nil {
						continue
					}
					parts = append(parts, p)
					fmt.Fprintf(&lines, "  U = %-9.9s A = %-10.10s C = %-10.10s", name, account, cluster)
					if p != "" {
						fmt.Fprintf(&lines, " P = %-10.10s", p)
					}
					lines.WriteByte('\n')
				}
				if len(parts) > 0 {
					if len(o.partitions) == 0 {
						parts = nil
					}
					places = append(places, &events.PolicyAct{Deed: deedAdd, Kind: events.PolicyKind_POLICY_ASSOCIATION, Names: []string{name}, Accounts: []string{account}, Clusters: []string{cluster}, Partitions: parts, Set: set})
				}
			}
		}
	}
	for _, cluster := range o.clusters {
		for _, name := range o.names {
			var more []string
			for _, k := range o.wckeys {
				if m.p.Wckey(cluster, name, k) == nil {
					more = append(more, k)
					fmt.Fprintf(&keys, "  U = %-9.9s W = %-10.10s C = %-10.10s\n", name, k, cluster)
				}
			}
			if len(more) > 0 {
				places = append(places, &events.PolicyAct{Deed: deedAdd, Kind: events.PolicyKind_POLICY_WCKEY, Names: []string{name}, Wckeys: more, Clusters: []string{cluster}})
			}
		}
	}
	if len(places) == 0 {
		m.printf(" Nothing new added.\n")
		return 1
	}
	var acts []*events.PolicyAct
	if len(fresh) > 0 {
		m.printf(" Adding User(s)\n")
		for _, n := range fresh {
			m.printf("  %s\n", n)
		}
		if o.set.own.DefaultAccount != nil || o.set.own.DefaultWckey != nil || o.set.own.AdminLevel != nil {
			m.printf(" Settings =\n")
			if o.set.own.DefaultAccount != nil {
				m.printf("  Default Account = %s\n", o.set.own.GetDefaultAccount())
			}
			if o.set.own.DefaultWckey != nil {
				m.printf("  Default WCKey   = %s\n", o.set.own.GetDefaultWckey())
			}
			if o.set.own.AdminLevel != nil {
				m.printf("  Admin Level     = %s\n", adminWord(o.set.own.GetAdminLevel()))
			}
		}
		acts = append(acts, policyAct(deedAdd, events.PolicyKind_POLICY_USER, fresh, &events.PolicySettings{AdminLevel: o.set.own.AdminLevel}))
	}
	if lines.Len() > 0 {
		m.printf(" Associations =\n%s", lines.String())
	}
	if keys.Len() > 0 {
		m.printf(" WCKeys =\n%s", keys.String())
	}
	m.printf(" Non Default Settings\n")
	m.shown(o.set.assoc, false)
	return max(code, m.commit(append(acts, places...)))
}

func adminWord(l events.AdminLevel) string {
	return map[events.AdminLevel]string{events.AdminLevel_ADMIN_OPERATOR: "Operator", events.AdminLevel_ADMIN_ADMINISTRATOR: "Administrator"}[l] + map[bool]string{true: "None"}[l == 0]
}

func (m *manager) addQos(o *order) int {
	var fresh []string
	for _, n := range o.names {
		if m.p.QosNamed(n) == nil {
			fresh = append(fresh, n)
		}
	}
	if len(fresh) == 0 {
		m.printf(" Nothing new added.\n")
		return 1
	}
	m.printf(" Adding QOS(s)\n")
	for _, n := range fresh {
		m.printf("  %s\n", n)
	}
	descr := fresh[len(fresh)-1] // as sacctmgr has it
	if o.set.assoc.Description != nil {
		descr = o.set.assoc.GetDescription()
	}
	m.printf(" Settings\n  Description    = %s\n", descr)
	m.shown(o.set.assoc, true)
	return m.commit([]*events.PolicyAct{policyAct(deedAdd, events.PolicyKind_POLICY_QOS, fresh, o.set.assoc)})
}

func (m *manager) addClusters(o *order) int {
	var fresh []string
	for _, n := range o.names {
		if m.p.Cluster(n) == nil {
			fresh = append(fresh, n)
			continue
		}
		m.printf(" This cluster %s already exists.  Not adding.\n", n)
	}
	if len(fresh) == 0 {
		return 1
	}
	m.printf(" Adding Cluster(s)\n")
	for _, n := range fresh {
		m.printf("  Name           = %s\n", n)
	}
	if !empty(o.set.assoc) {
		m.printf(" Setting\n  Default Limits:\n")
		m.shown(o.set.assoc, false)
	}
	return m.commit([]*events.PolicyAct{policyAct(deedAdd, events.PolicyKind_POLICY_CLUSTER, fresh, o.set.assoc)})
}

func (m *manager) addCoordinators(o *order) int {
	if len(o.accounts) == 0 {
		return m.fail("add coordinator needs account= and names=")
	}
	if i := slices.IndexFunc(o.names, func(n string) bool { return m.p.User(n) == nil }); i >= 0 {
		return m.fail("there is no user %s: add it first", o.names[i])
	}
	if i := slices.IndexFunc(o.accounts, func(n string) bool { return m.p.Account(n) == nil }); i >= 0 {
		return m.fail("there is no account %s: add it first", o.accounts[i])
	}
	m.printf(" Adding Coordinator User(s)\n")
	for _, n := range o.names {
		m.printf("  %s\n", n)
	}
	m.printf(" To Account(s) and all sub-accounts\n")
	for _, n := range o.accounts {
		m.printf("  %s\n", n)
	}
	a := policyAct(deedAdd, events.PolicyKind_POLICY_COORDINATOR, o.names, nil)
	a.Accounts = o.accounts
	return m.commit([]*events.PolicyAct{a})
}
