package projections

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stint/events"
)

// MaxAssociations is how many associations there may be: what a cluster's memory and snapshots have room for.
const MaxAssociations = 1_000_000

// Began is the policy of which a cluster is a part: as it is, if it knows the cluster; else with all that every cluster has
// from its beginning (the account and the user root, the QoS normal).
func (p *Policy) Began(cluster string, at int64) *Policy {
	if cluster == "" || p.Cluster(cluster) != nil {
		return p
	}
	n := p.following()
	n.begin(cluster, at)
	return n
}

func (p *Policy) begin(cluster string, at int64) {
	if p.QosNamed(NormalQos) == nil {
		p.putQos(&Qos{Id: p.nextQos, Name: NormalQos, Description: "Normal QOS default", CreatedUs: at, ChangedUs: at})
		p.nextQos++
	}
	if p.Account(RootAccount) == nil {
		p.putAccount(&Account{Id: p.next, Name: RootAccount, Description: "default root account", Organization: "root", CreatedUs: at})
		p.next++
	}
	root := p.nextAssoc
	p.nextAssoc++
	p.putAssociation(&Association{Id: root, Cluster: cluster, Account: RootAccount, HasQos: true, Qos: []string{NormalQos}, CreatedUs: at, ChangedUs: at})
	p.putCluster(&ClusterName{Id: p.next, Name: cluster, Root: root, CreatedUs: at})
	p.next++
	p.putAssociation(&Association{Id: p.nextAssoc, Cluster: cluster, Account: RootAccount, User: RootUser, Parent: root, CreatedUs: at, ChangedUs: at})
	p.nextAssoc++
	u := p.User(RootUser)
	if u == nil {
		u = &User{Id: p.next, Name: RootUser, AdminLevel: events.AdminLevel_ADMIN_ADMINISTRATOR, CreatedUs: at}
		p.next++
	} else {
		u = u.CloneVT()
	}
	u.Defaults = append(u.Defaults, &UserDefault{Cluster: cluster, Account: RootAccount})
	p.putUser(u)
}

// After is the policy after some acts, said by an actor at a time (microseconds) of a cluster. An error, a sentence, says why
// they cannot be: then none of them happened. It is the definition of what can be: asked when an act is judged, and again
// when it is folded.
func (p *Policy) After(acts *events.Policy, cluster, actor string, at int64, seq uint64) (*Policy, error) {
	c := &change{Policy: p.following(), cluster: cluster, actor: actor, at: at, seq: seq}
	if len(acts.GetActs()) == 0 {
		return nil, fmt.Errorf("there is nothing to do")
	}
	for _, act := range acts.GetActs() {
		if err := c.act(act); err != nil {
			return nil, err
		}
	}
	return c.Policy, nil
}

// change is a policy while acts are done to it.
type change struct {
	*Policy
	cluster, actor string
	at             int64
	seq            uint64
}

func (c *change) act(a *events.PolicyAct) error {
	switch a.Deed {
	case events.PolicyDeed_POLICY_ADD:
		switch a.Kind {
		case events.PolicyKind_POLICY_CLUSTER:
			return c.addClusters(a)
		case events.PolicyKind_POLICY_ACCOUNT:
			return c.addAccounts(a)
		case events.PolicyKind_POLICY_USER:
			return c.addUsers(a)
		case events.PolicyKind_POLICY_ASSOCIATION:
			return c.addAssociations(a)
		case events.PolicyKind_POLICY_QOS:
			return c.addQos(a)
		case events.PolicyKind_POLICY_COORDINATOR:
			return c.coordinators(a, true)
		case events.PolicyKind_POLICY_WCKEY:
			return c.addWckeys(a)
		}
	case events.PolicyDeed_POLICY_MODIFY:
		switch a.Kind {
		case events.PolicyKind_POLICY_ACCOUNT:
			return c.modifyAccounts(a)
		case events.PolicyKind_POLICY_USER:
			return c.modifyUsers(a)
		case events.PolicyKind_POLICY_ASSOCIATION, events.PolicyKind_POLICY_CLUSTER:
			return c.modifyAssociations(a)
		case events.PolicyKind_POLICY_QOS:
			return c.modifyQos(a)
		}
	case events.PolicyDeed_POLICY_DELETE:
		switch a.Kind {
		case events.PolicyKind_POLICY_CLUSTER:
			return c.deleteClusters(a)
		case events.PolicyKind_POLICY_ACCOUNT:
			return c.deleteAccounts(a)
		case events.PolicyKind_POLICY_USER:
			return c.deleteUsers(a)
		case events.PolicyKind_POLICY_ASSOCIATION:
			return c.deleteAssociations(a)
		case events.PolicyKind_POLICY_QOS:
			return c.deleteQos(a)
		case events.PolicyKind_POLICY_COORDINATOR:
			return c.coordinators(a, false)
		case events.PolicyKind_POLICY_WCKEY:
			return c.deleteWckeys(a)
		}
	}
	return fmt.Errorf("this version knows no act %s %s", a.Deed, a.Kind)
}

// said notes an act for those who ask what was done.
func (c *change) said(action, where, info string) {
	const most = 512
	if len(where) > most {
		where = where[:most]
	}
	if len(info) > most {
		info = info[:most]
	}
	list := c.transactions
	if len(list) >= keepTransactions {
		list = slices.Clone(list[len(list)-keepTransactions+1:])
	}
	c.transactions = append(list[:len(list):len(list)], &Transaction{AtUs: c.at, Action: action, Actor: c.actor, Where: where, Info: info, Seq: c.seq})
}

func (c *change) clustersOf(a *events.PolicyAct) ([]string, error) {
	if len(a.Clusters) == 0 {
		return []string{c.cluster}, nil
	}
	for _, name := range a.Clusters {
		if c.Cluster(name) == nil {
			return nil, fmt.Errorf("there is no cluster %s", name)
		}
	}
	return a.Clusters, nil
}

func named(a *events.PolicyAct, what string) error {
	if len(a.Names) == 0 {
		return fmt.Errorf("no %s is named", what)
	}
	for _, n := range a.Names {
		if n == "" || len(n) > 256 || strings.ContainsAny(n, ",'\"\n\x00 \t|") {
			return fmt.Errorf("%.100q is no name for a %s", n, what)
		}
	}
	return nil
}

func (c *change) addClusters(a *events.PolicyAct) error {
	if err := named(a, "cluster"); err != nil {
		return err
	}
	for _, name := range a.Names {
		if c.Cluster(name) != nil {
			return fmt.Errorf("cluster %s exists already", name)
		}
		c.begin(name, c.at)
		root := c.associations.get(c.Cluster(name).Root).CloneVT()
		if err := c.apply(root, a.Set); err != nil {
			return err
		}
		c.putAssociation(root)
		c.said("Add Clusters", name, a.Set.Describe())
	}
	return nil
}

func (c *change) deleteClusters(a *events.PolicyAct) error {
	if err := named(a, "cluster"); err != nil {
		return err
	}
	for _, name := range a.Names {
		rec := c.Cluster(name)
		switch {
		case rec == nil:
			return fmt.Errorf("there is no cluster %s", name)
		case name == c.cluster:
			return fmt.Errorf("%s is the cluster that this is asked of; it cannot be removed", name)
		}
		c.dropAssociation(c.associations.get(rec.Root))
		var keys []*Wckey
		c.EachWckey(func(w *Wckey) bool {
			if w.Cluster == name {
				keys = append(keys, w)
			}
			return true
		})
		for _, w := range keys {
			c.dropWckey(w)
		}
		c.dropCluster(rec)
		c.said("Remove Clusters", "name="+name, "")
	}
	return nil
}

func (c *change) addAccounts(a *events.PolicyAct) error {
	if err := named(a, "account"); err != nil {
		return err
	}
	for _, name := range a.Names {
		if c.Account(name) != nil {
			return fmt.Errorf("account %s exists already", name)
		}
		rec := &Account{Id: c.next, Name: name, Description: name, Organization: name, CreatedUs: c.at}
		c.next++
		if a.Set.GetParent() != "" && a.Set.GetParent() != RootAccount {
			rec.Organization = a.Set.GetParent()
		}
		if a.Set != nil && a.Set.Description != nil {
			rec.Description = a.Set.GetDescription()
		}
		if a.Set != nil && a.Set.Organization != nil {
			rec.Organization = a.Set.GetOrganization()
		}
		c.putAccount(rec)
		c.said("Add Accounts", name, fmt.Sprintf("description='%s', organization='%s'", rec.Description, rec.Organization))
	}
	return nil
}

func (c *change) addUsers(a *events.PolicyAct) error {
	if err := named(a, "user"); err != nil {
		return err
	}
	for _, name := range a.Names {
		if c.User(name) != nil {
			return fmt.Errorf("user %s exists already", name)
		}
		c.putUser(&User{Id: c.next, Name: name, AdminLevel: a.Set.GetAdminLevel(), CreatedUs: c.at})
		c.next++
		c.said("Add Users", name, "admin_level="+strconv.Itoa(int(a.Set.GetAdminLevel())+1))
	}
	return nil
}

func (c *change) addAssociations(a *events.PolicyAct) error {
	clusters, err := c.clustersOf(a)
	if err != nil {
		return err
	}
	if len(a.Accounts) == 0 {
		return fmt.Errorf("an association needs an account")
	}
	users, partitions := a.Names, a.Partitions
	if len(users) == 0 {
		users = []string{""}
	}
	if len(partitions) == 0 {
		partitions = []string{""}
	}
	for _, cluster := range clusters {
		for _, account := range a.Accounts {
			if c.Account(account) == nil {
				return fmt.Errorf("there is no account %s", account)
			}
			for _, user := range users {
				for _, partition := range partitions {
					if err := c.addAssociation(a, cluster, account, user, partition); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func (c *change) addAssociation(a *events.PolicyAct, cluster, account, user, partition string) error {
	above := c.Association(cluster, account, "", "")
	rec := &Association{Id: c.nextAssoc, Cluster: cluster, Account: account, User: user, Partition: partition, CreatedUs: c.at}
	set := a.Set
	switch {
	case c.Association(cluster, account, user, partition) != nil:
		return fmt.Errorf("the association of %s on %s exists already", strings.Join(slices.DeleteFunc([]string{account, user, partition}, func(s string) bool { return s == "" }), ", "), cluster)
	case c.associations.n >= MaxAssociations:
		return fmt.Errorf("there are %d associations, as many as are kept", c.associations.n)
	case user == "" && partition != "":
		return fmt.Errorf("an account has no associations for partitions; users have")
	case user != "":
		if above == nil {
			return fmt.Errorf("account %s has no place on cluster %s", account, cluster)
		}
		if c.User(user) == nil {
			return fmt.Errorf("there is no user %s", user)
		}
		rec.Parent = above.Id
	default:
		parent := cmp.Or(set.GetParent(), RootAccount)
		up := c.Association(cluster, parent, "", "")
		if up == nil {
			return fmt.Errorf("there is no account %s on cluster %s to be above %s", parent, cluster, account)
		}
		if c.depth(up) >= maxDepth {
			return fmt.Errorf("the account tree would be more than %d deep", maxDepth)
		}
		rec.Parent = up.Id
	}
	if set != nil && set.Parent != nil {
		set = set.CloneVT()
		set.Parent = nil
	}
	if err := c.apply(rec, set); err != nil {
		return err
	}
	c.nextAssoc++
	c.putAssociation(rec)
	if user != "" {
		u := c.User(user).CloneVT()
		d := defaultOn(u, cluster)
		if d.Account == "" || set.GetDefaultAccount() == account {
			d.Account = account
			c.putUser(u)
		}
	}
	c.said("Add Associations", "id_assoc="+strconv.Itoa(int(rec.Id)), a.Set.Describe())
	return nil
}

const maxDepth = 64

func (c *change) depth(a *Association) int {
	n := 0
	for ; a != nil; a = c.associations.get(a.Parent) {
		n++
	}
	return n
}

// defaultOn is a user's entry for a cluster, made if there is none. The user is a copy.
func defaultOn(u *User, cluster string) *UserDefault {
	for _, d := range u.Defaults {
		if d.Cluster == cluster {
			return d
		}
	}
	d := &UserDefault{Cluster: cluster}
	u.Defaults = append(u.Defaults, d)
	return d
}

func (c *change) addQos(a *events.PolicyAct) error {
	if err := named(a, "QoS"); err != nil {
		return err
	}
	for _, name := range a.Names {
		if c.QosNamed(name) != nil {
			return fmt.Errorf("QoS %s exists already", name)
		}
		rec := &Qos{Id: c.nextQos, Name: name, Description: name, CreatedUs: c.at}
		c.nextQos++
		if err := c.applyQos(rec, a.Set); err != nil {
			return err
		}
		c.putQos(rec)
		c.said("Add QOS", name, a.Set.Describe())
	}
	return nil
}

func (c *change) modifyQos(a *events.PolicyAct) error {
	if err := named(a, "QoS"); err != nil {
		return err
	}
	for _, name := range a.Names {
		rec := c.QosNamed(name)
		if rec == nil {
			return fmt.Errorf("there is no QoS %s", name)
		}
		rec = rec.CloneVT()
		if err := c.applyQos(rec, a.Set); err != nil {
			return err
		}
		c.putQos(rec)
		c.said("Modify QOS", "(name='"+name+"')", a.Set.Describe())
	}
	return nil
}

func (c *change) deleteQos(a *events.PolicyAct) error {
	if err := named(a, "QoS"); err != nil {
		return err
	}
	for _, name := range a.Names {
		rec := c.QosNamed(name)
		if rec == nil {
			return fmt.Errorf("there is no QoS %s", name)
		}
		c.dropQos(rec)
		var changed []*Qos
		c.EachQos(func(q *Qos) bool {
			if slices.Contains(q.Preempt, name) {
				next := q.CloneVT()
				next.Preempt = lacking(next.Preempt, name)
				changed = append(changed, next)
			}
			return true
		})
		for _, q := range changed {
			c.putQos(q)
		}
		var places []*Association
		c.associations.each(func(_ uint32, as *Association) bool {
			if as.DefaultQos == name || slices.Contains(as.Qos, name) || slices.Contains(as.QosAdd, name) || slices.Contains(as.QosRemove, name) {
				next := as.CloneVT()
				next.Qos, next.QosAdd, next.QosRemove = lacking(next.Qos, name), lacking(next.QosAdd, name), lacking(next.QosRemove, name)
				if next.DefaultQos == name {
					next.DefaultQos = ""
				}
				places = append(places, next)
			}
			return true
		})
		for _, as := range places {
			c.putAssociation(as)
		}
		c.said("Remove QOS", "(name='"+name+"')", "")
	}
	return nil
}

func lacking(list []string, name string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == name })
}

// coordinators makes users coordinators of accounts, or no longer. Without names it is all of them, without accounts everywhere.
func (c *change) coordinators(a *events.PolicyAct, add bool) error {
	accounts := a.Accounts
	if len(accounts) == 0 && !add {
		c.EachAccount(func(rec *Account) bool { accounts = append(accounts, rec.Name); return true })
	}
	if len(accounts) == 0 || add && len(a.Names) == 0 {
		return fmt.Errorf("a coordinator is a user, of an account: one of them is missing")
	}
	for _, user := range a.Names {
		if c.User(user) == nil {
			return fmt.Errorf("there is no user %s", user)
		}
	}
	for _, name := range accounts {
		rec := c.Account(name)
		if rec == nil {
			return fmt.Errorf("there is no account %s", name)
		}
		next := rec.CloneVT()
		switch {
		case add:
			next.Coordinators = union(next.Coordinators, a.Names)
		case len(a.Names) == 0:
			next.Coordinators = nil
		default:
			next.Coordinators = slices.DeleteFunc(next.Coordinators, func(u string) bool { return slices.Contains(a.Names, u) })
		}
		c.putAccount(next)
	}
	action := "Remove Account Coordinators"
	if add {
		action = "Add Account Coordinators"
	}
	c.said(action, strings.Join(a.Names, ","), strings.Join(a.Accounts, ","))
	return nil
}

func (c *change) addWckeys(a *events.PolicyAct) error {
	clusters, err := c.clustersOf(a)
	if err != nil {
		return err
	}
	if len(a.Names) == 0 || len(a.Wckeys) == 0 {
		return fmt.Errorf("a wckey needs a name and a user")
	}
	for _, cluster := range clusters {
		for _, user := range a.Names {
			u := c.User(user)
			if u == nil {
				return fmt.Errorf("there is no user %s", user)
			}
			for _, name := range a.Wckeys {
				if c.Wckey(cluster, user, name) != nil {
					return fmt.Errorf("user %s has the wckey %s on %s already", user, name, cluster)
				}
				c.putWckey(&Wckey{Id: c.next, Name: name, Cluster: cluster, User: user, CreatedUs: c.at})
				c.next++
				next := c.User(user).CloneVT()
				if d := defaultOn(next, cluster); d.Wckey == "" {
					d.Wckey = name
					c.putUser(next)
				}
				c.said("Add WCKeys", name, "user='"+user+"'")
			}
		}
	}
	return nil
}

func (c *change) deleteWckeys(a *events.PolicyAct) error {
	var found []*Wckey
	c.EachWckey(func(w *Wckey) bool {
		if slices.Contains(a.Wckeys, w.Name) && (len(a.Names) == 0 || slices.Contains(a.Names, w.User)) && (len(a.Clusters) == 0 || slices.Contains(a.Clusters, w.Cluster)) {
			found = append(found, w)
		}
		return true
	})
	if len(found) == 0 {
		return fmt.Errorf("there is no such wckey")
	}
	for _, w := range found {
		c.dropWckey(w)
		if u := c.User(w.User); u != nil {
			next := u.CloneVT()
			if d := defaultOn(next, w.Cluster); d.Wckey == w.Name {
				d.Wckey = ""
				c.putUser(next)
			}
		}
		c.said("Remove WCKeys", w.Name, "user='"+w.User+"'")
	}
	return nil
}

func (c *change) modifyAccounts(a *events.PolicyAct) error {
	if err := named(a, "account"); err != nil {
		return err
	}
	for _, name := range a.Names {
		rec := c.Account(name)
		if rec == nil {
			return fmt.Errorf("there is no account %s", name)
		}
		next := rec.CloneVT()
		if a.Set != nil && a.Set.Description != nil {
			next.Description = a.Set.GetDescription()
		}
		if a.Set != nil && a.Set.Organization != nil {
			next.Organization = a.Set.GetOrganization()
		}
		c.putAccount(next)
		c.said("Modify Accounts", "(name='"+name+"')", a.Set.Describe())
	}
	return nil
}

func (c *change) modifyUsers(a *events.PolicyAct) error {
	if err := named(a, "user"); err != nil {
		return err
	}
	clusters, err := c.clustersOf(a)
	if err != nil {
		return err
	}
	set := a.Set
	for _, name := range a.Names {
		rec := c.User(name)
		if rec == nil {
			return fmt.Errorf("there is no user %s", name)
		}
		next := rec.CloneVT()
		if set != nil && set.AdminLevel != nil {
			next.AdminLevel = set.GetAdminLevel()
		}
		for _, cluster := range clusters {
			if set != nil && set.DefaultAccount != nil {
				if set.GetDefaultAccount() != "" && !c.hasPlace(cluster, set.GetDefaultAccount(), name) {
					return fmt.Errorf("user %s has no association with account %s on %s", name, set.GetDefaultAccount(), cluster)
				}
				defaultOn(next, cluster).Account = set.GetDefaultAccount()
			}
			if set != nil && set.DefaultWckey != nil {
				if set.GetDefaultWckey() != "" && c.Wckey(cluster, name, set.GetDefaultWckey()) == nil {
					return fmt.Errorf("user %s has no wckey %s on %s", name, set.GetDefaultWckey(), cluster)
				}
				defaultOn(next, cluster).Wckey = set.GetDefaultWckey()
			}
		}
		if to := set.GetNewName(); to != "" {
			if c.User(to) != nil {
				return fmt.Errorf("user %s exists already", to)
			}
			c.rename(name, to)
			next.Name = to
		}
		c.putUser(next)
		c.said("Modify Users", "(name='"+name+"')", set.Describe())
	}
	return nil
}

// hasPlace says whether a user has an association, for whatever partition, with an account.
func (p *Policy) hasPlace(cluster, account, user string) bool {
	found := false
	p.Held(user, func(a *Association) bool {
		found = found || a.Cluster == cluster && a.Account == account
		return !found
	})
	return found
}

// rename gives all that bears a user's name another one.
func (c *change) rename(from, to string) {
	var held []*Association
	c.Held(from, func(a *Association) bool { held = append(held, a); return true })
	for _, a := range held {
		next := a.CloneVT()
		next.User = to
		c.putAssociation(next)
	}
	var keys []*Wckey
	c.EachWckey(func(w *Wckey) bool {
		if w.User == from {
			keys = append(keys, w)
		}
		return true
	})
	for _, w := range keys {
		next := w.CloneVT()
		next.User = to
		c.putWckey(next)
	}
	c.replaceCoordinator(from, to)
}

func (c *change) replaceCoordinator(from, to string) {
	var changed []*Account
	c.EachAccount(func(rec *Account) bool {
		if slices.Contains(rec.Coordinators, from) {
			next := rec.CloneVT()
			next.Coordinators = lacking(next.Coordinators, from)
			if to != "" {
				next.Coordinators = union(next.Coordinators, []string{to})
			}
			changed = append(changed, next)
		}
		return true
	})
	for _, rec := range changed {
		c.putAccount(rec)
	}
}

func (c *change) modifyAssociations(a *events.PolicyAct) error {
	ids := a.Associations
	action := "Modify Associations"
	if a.Kind == events.PolicyKind_POLICY_CLUSTER {
		if err := named(a, "cluster"); err != nil {
			return err
		}
		action, ids = "Modify Clusters", nil
		for _, name := range a.Names {
			rec := c.Cluster(name)
			if rec == nil {
				return fmt.Errorf("there is no cluster %s", name)
			}
			ids = append(ids, rec.Root)
		}
	}
	if len(ids) == 0 {
		return fmt.Errorf("no association is named")
	}
	for _, id := range ids {
		rec := c.associations.get(id)
		if rec == nil {
			return fmt.Errorf("there is no association %d any more", id)
		}
		next := rec.CloneVT()
		if err := c.apply(next, a.Set); err != nil {
			return err
		}
		c.putAssociation(next)
	}
	c.said(action, "id_assoc="+joinIDs(ids), a.Set.Describe())
	return nil
}

func joinIDs(ids []uint32) string {
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(',')
		}
		if b.Len() > 500 {
			b.WriteString("...")
			break
		}
		b.WriteString(strconv.Itoa(int(id)))
	}
	return b.String()
}

func (c *change) deleteAssociations(a *events.PolicyAct) error {
	if len(a.Associations) == 0 {
		return fmt.Errorf("no association is named")
	}
	for _, id := range a.Associations {
		rec := c.associations.get(id)
		switch {
		case rec == nil:
			return fmt.Errorf("there is no association %d any more", id)
		case rec.Parent == 0:
			return fmt.Errorf("the root of cluster %s cannot be removed", rec.Cluster)
		}
		c.dropAssociation(rec)
	}
	c.said("Remove Associations", "id_assoc="+joinIDs(a.Associations), "")
	return nil
}

func (c *change) deleteAccounts(a *events.PolicyAct) error {
	if err := named(a, "account"); err != nil {
		return err
	}
	for _, name := range a.Names {
		rec := c.Account(name)
		switch {
		case rec == nil:
			return fmt.Errorf("there is no account %s", name)
		case name == RootAccount:
			return fmt.Errorf("the root account cannot be removed")
		}
		var places []*Association
		c.EachCluster(func(cl *ClusterName) bool {
			if as := c.Association(cl.Name, name, "", ""); as != nil {
				places = append(places, as)
			}
			return true
		})
		for _, as := range places {
			c.dropAssociation(as)
		}
		c.dropAccount(rec)
		c.said("Remove Accounts", "(name='"+name+"')", "")
	}
	return nil
}

func (c *change) deleteUsers(a *events.PolicyAct) error {
	if err := named(a, "user"); err != nil {
		return err
	}
	for _, name := range a.Names {
		rec := c.User(name)
		switch {
		case rec == nil:
			return fmt.Errorf("there is no user %s", name)
		case name == RootUser:
			return fmt.Errorf("the user root cannot be removed")
		}
		var held []*Association
		c.Held(name, func(as *Association) bool { held = append(held, as); return true })
		for _, as := range held {
			c.dropAssociation(as)
		}
		var keys []*Wckey
		c.EachWckey(func(w *Wckey) bool {
			if w.User == name {
				keys = append(keys, w)
			}
			return true
		})
		for _, w := range keys {
			c.dropWckey(w)
		}
		c.replaceCoordinator(name, "")
		c.dropUser(c.User(name))
		c.said("Remove Users", "(name='"+name+"')", "")
	}
	return nil
}
