package projections

import (
	"fmt"
	"slices"

	"stint/events"
	"stint/events/tres"
)

// State is the whole policy as a message, in an order that is a function of the policy alone: live records first, ascending
// by id (associations depth first, the oldest child first), then those that were deleted. Its records are shared.
func (p *Policy) State() *PolicyState {
	s := &PolicyState{
		Transactions: p.transactions, NextId: p.next, NextAssociation: p.nextAssoc, NextQos: p.nextQos,
	}
	p.EachCluster(func(c *ClusterName) bool { s.Clusters = append(s.Clusters, c); return true })
	p.EachAccount(func(a *Account) bool { s.Accounts = append(s.Accounts, a); return true })
	p.EachUser(func(u *User) bool { s.Users = append(s.Users, u); return true })
	p.EachQos(func(q *Qos) bool { s.Qos = append(s.Qos, q); return true })
	p.EachWckey(func(w *Wckey) bool { s.Wckeys = append(s.Wckeys, w); return true })
	s.Associations = make([]*Association, 0, p.associations.n+len(p.gone.Associations))
	for _, c := range s.Clusters {
		s.Associations = p.oldestFirst(c.Root, s.Associations)
	}
	s.Clusters = append(s.Clusters, p.gone.Clusters...)
	s.Accounts = append(s.Accounts, p.gone.Accounts...)
	s.Users = append(s.Users, p.gone.Users...)
	s.Qos = append(s.Qos, p.gone.Qos...)
	s.Wckeys = append(s.Wckeys, p.gone.Wckeys...)
	s.Associations = append(s.Associations, p.gone.Associations...)
	return s
}

func (p *Policy) oldestFirst(id uint32, to []*Association) []*Association {
	a := p.associations.get(id)
	if a == nil {
		return to
	}
	to = append(to, a)
	for _, below := range p.Below(id) {
		to = p.oldestFirst(below, to)
	}
	return to
}

// LoadPolicy is the policy that a State came from. An error says that it is not one: a record that is missing or twice.
func LoadPolicy(s *PolicyState) (*Policy, error) {
	p := newPolicy()
	if s == nil {
		return p, nil
	}
	p.transactions = s.Transactions
	p.next, p.nextAssoc, p.nextQos = max(s.NextId, 1), max(s.NextAssociation, 1), max(s.NextQos, 1)
	for _, c := range s.Clusters {
		if c.Deleted {
			p.gone.Clusters = append(p.gone.Clusters, c)
			continue
		}
		if c.Id >= p.next || p.Cluster(c.Name) != nil {
			return nil, fmt.Errorf("cluster %s (%d) is not as a policy has it", c.Name, c.Id)
		}
		p.putCluster(c)
	}
	for _, a := range s.Accounts {
		if a.Deleted {
			p.gone.Accounts = append(p.gone.Accounts, a)
			continue
		}
		if a.Id >= p.next || p.Account(a.Name) != nil {
			return nil, fmt.Errorf("account %s (%d) is not as a policy has it", a.Name, a.Id)
		}
		p.putAccount(a)
	}
	for _, u := range s.Users {
		if u.Deleted {
			p.gone.Users = append(p.gone.Users, u)
			continue
		}
		if u.Id >= p.next || p.User(u.Name) != nil {
			return nil, fmt.Errorf("user %s (%d) is not as a policy has it", u.Name, u.Id)
		}
		p.putUser(u)
	}
	for _, q := range s.Qos {
		if q.Deleted {
			p.gone.Qos = append(p.gone.Qos, q)
			continue
		}
		if q.Id >= p.nextQos || p.QosNamed(q.Name) != nil {
			return nil, fmt.Errorf("QoS %s (%d) is not as a policy has it", q.Name, q.Id)
		}
		p.putQos(q)
	}
	for _, w := range s.Wckeys {
		if w.Deleted {
			p.gone.Wckeys = append(p.gone.Wckeys, w)
			continue
		}
		if w.Id >= p.next || p.Wckey(w.Cluster, w.User, w.Name) != nil {
			return nil, fmt.Errorf("wckey %s (%d) is not as a policy has it", w.Name, w.Id)
		}
		p.putWckey(w)
	}
	for _, a := range s.Associations {
		if a.Deleted {
			p.gone.Associations = append(p.gone.Associations, a)
			continue
		}
		if a.Id >= p.nextAssoc || p.associations.get(a.Id) != nil || a.Parent != 0 && p.associations.get(a.Parent) == nil {
			return nil, fmt.Errorf("association %d (%s) is not as a policy has it", a.Id, a.Account)
		}
		p.putAssociation(a)
	}
	return p, nil
}

// The stores: each keeps the index in step.

func (p *Policy) putCluster(c *ClusterName) {
	if p.clusters.get(c.Id) == nil {
		p.index(c.Id, nameCluster, c.Name)
	}
	p.clusters.set(p.epoch, c.Id, c, 0)
}

func (p *Policy) putAccount(a *Account) {
	if p.accounts.get(a.Id) == nil {
		p.index(a.Id, nameAccount, a.Name)
	}
	p.accounts.set(p.epoch, a.Id, a, 0)
}

func (p *Policy) putUser(u *User) {
	before := p.users.get(u.Id)
	if before != nil && before.Name != u.Name {
		p.unindex(u.Id, nameUser, before.Name)
	}
	if before == nil || before.Name != u.Name {
		p.index(u.Id, nameUser, u.Name)
	}
	p.users.set(p.epoch, u.Id, u, 0)
}

func (p *Policy) putQos(q *Qos) {
	if p.qos.get(q.Id) == nil {
		p.index(q.Id, nameQos, q.Name)
	}
	p.qos.set(p.epoch, q.Id, q, 0)
}

func (p *Policy) putWckey(w *Wckey) {
	before := p.wckeys.get(w.Id)
	if before != nil && before.User != w.User {
		p.unindex(w.Id, nameWckey, before.Cluster, before.User, before.Name)
	}
	if before == nil || before.User != w.User {
		p.index(w.Id, nameWckey, w.Cluster, w.User, w.Name)
	}
	p.wckeys.set(p.epoch, w.Id, w, 0)
}

func (p *Policy) putAssociation(a *Association) {
	before := p.associations.get(a.Id)
	if before != nil && before.User != a.User {
		p.unindex(a.Id, nameAssoc, before.Cluster, before.Account, before.User, before.Partition)
		p.unindex(a.Id, nameHeld, before.User)
	}
	if before == nil || before.User != a.User {
		p.index(a.Id, nameAssoc, a.Cluster, a.Account, a.User, a.Partition)
		if a.User != "" {
			p.index(a.Id, nameHeld, a.User)
		}
	}
	if before != nil && before.Parent != a.Parent {
		p.leave(before)
	}
	if a.Parent != 0 && (before == nil || before.Parent != a.Parent) {
		list := p.Below(a.Parent)
		p.members.set(p.epoch, uint64(a.Parent), append(list[:len(list):len(list)], a.Id))
	}
	p.associations.set(p.epoch, a.Id, a, 0)
}

// leave takes an association out of its parent's list.
func (p *Policy) leave(a *Association) {
	list := p.Below(a.Parent)
	left := make([]uint32, 0, len(list))
	for _, id := range list {
		if id != a.Id {
			left = append(left, id)
		}
	}
	if len(left) == 0 {
		p.members.del(p.epoch, uint64(a.Parent))
		return
	}
	p.members.set(p.epoch, uint64(a.Parent), left)
}

// remember adds to a list of those that were deleted, and forgets the oldest.
func remember[T any](list []*T, rec *T) []*T {
	if len(list) >= keepRemoved {
		list = slices.Clone(list[len(list)-keepRemoved+1:])
	}
	return append(list[:len(list):len(list)], rec)
}

func (p *Policy) dropCluster(c *ClusterName) {
	p.unindex(c.Id, nameCluster, c.Name)
	p.clusters.set(p.epoch, c.Id, nil, 0)
	old := c.CloneVT()
	old.Deleted = true
	p.gone.Clusters = remember(p.gone.Clusters, old)
}

func (p *Policy) dropAccount(a *Account) {
	p.unindex(a.Id, nameAccount, a.Name)
	p.accounts.set(p.epoch, a.Id, nil, 0)
	old := a.CloneVT()
	old.Deleted = true
	p.gone.Accounts = remember(p.gone.Accounts, old)
}

func (p *Policy) dropUser(u *User) {
	p.unindex(u.Id, nameUser, u.Name)
	p.users.set(p.epoch, u.Id, nil, 0)
	old := u.CloneVT()
	old.Deleted = true
	p.gone.Users = remember(p.gone.Users, old)
}

func (p *Policy) dropQos(q *Qos) {
	p.unindex(q.Id, nameQos, q.Name)
	p.qos.set(p.epoch, q.Id, nil, 0)
	old := q.CloneVT()
	old.Deleted = true
	p.gone.Qos = remember(p.gone.Qos, old)
}

func (p *Policy) dropWckey(w *Wckey) {
	p.unindex(w.Id, nameWckey, w.Cluster, w.User, w.Name)
	p.wckeys.set(p.epoch, w.Id, nil, 0)
	old := w.CloneVT()
	old.Deleted = true
	p.gone.Wckeys = remember(p.gone.Wckeys, old)
}

// dropAssociation removes an association and all below it.
func (p *Policy) dropAssociation(a *Association) {
	for _, id := range slices.Clone(p.Below(a.Id)) {
		p.dropAssociation(p.associations.get(id))
	}
	if a.Parent != 0 {
		p.leave(a)
	}
	p.unindex(a.Id, nameAssoc, a.Cluster, a.Account, a.User, a.Partition)
	if a.User != "" {
		p.unindex(a.Id, nameHeld, a.User)
	}
	p.associations.set(p.epoch, a.Id, nil, 0)
	old := a.CloneVT()
	old.Deleted = true
	p.gone.Associations = remember(p.gone.Associations, old)
	if a.User == "" {
		return
	}
	// Who loses the last place in the default account has no default any more.
	u := p.User(a.User)
	for i, d := range u.GetDefaults() {
		if d.Cluster != a.Cluster || d.Account != a.Account {
			continue
		}
		left := false
		p.Held(a.User, func(o *Association) bool {
			left = left || o.Cluster == a.Cluster && o.Account == a.Account
			return !left
		})
		if !left {
			next := u.CloneVT()
			next.Defaults[i].Account = ""
			p.putUser(next)
		}
		return
	}
}

// sortTres puts resources into the order of their numbers.
func sortTres(list []*events.TresCount) {
	slices.SortFunc(list, func(a, b *events.TresCount) int {
		switch {
		case tres.Before(a.Tres, b.Tres):
			return -1
		case tres.Before(b.Tres, a.Tres):
			return 1
		}
		return 0
	})
}

// BaseTres are the resources that every cluster counts, in the order of their numbers (from 1). Those of AccountingStorageTRES
// follow from 1001 on.
var BaseTres = []string{"cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages"}
