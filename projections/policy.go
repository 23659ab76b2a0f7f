package projections

import (
	"cmp"
	"hash/fnv"
	"slices"

	"stint/events"
)

// Policy is who may run, and how much: clusters, accounts, users, QoS, associations and their limits, as the acts of
// administrators on the log made them. A Policy that was handed out never changes: an act makes the next one, which shares
// with it what it does not touch. Finding a name costs the same however many there are.
type Policy struct {
	epoch uint64

	clusters     table[ClusterName]
	accounts     table[Account]
	users        table[User]
	associations table[Association]
	qos          table[Qos]
	wckeys       table[Wckey]

	names   shards[[]uint32] // by hash of kind and name: ids, those of other names with that hash among them
	members shards[[]uint32] // by association id: those below it, in the order in which they came

	gone         Removed
	transactions []*Transaction
	next         uint32 // id of the next account, user, wckey, cluster
	nextAssoc    uint32
	nextQos      uint32
}

// Removed are the latest that were deleted, oldest first.
type Removed struct {
	Clusters     []*ClusterName
	Accounts     []*Account
	Users        []*User
	Associations []*Association
	Qos          []*Qos
	Wckeys       []*Wckey
}

// How much of the past is kept: what was deleted (of each kind), and what was done.
const (
	keepRemoved      = 1000
	keepTransactions = 1000
)

// What every cluster has from the beginning.
const (
	RootAccount  = "root"
	RootUser     = "root"
	NormalQos    = "normal"
	ParentShares = 0x7fffffff // the value of SHARES that means: those of the account above
)

func newPolicy() *Policy { return &Policy{next: 1, nextAssoc: 1, nextQos: 1} }

// following is a policy that begins as this one is, and may be changed.
func (p *Policy) following() *Policy {
	n := *p
	n.epoch++
	return &n
}

// The kinds of names in the index.
const (
	nameCluster = 'c'
	nameAccount = 'a'
	nameUser    = 'u'
	nameQos     = 'q'
	nameWckey   = 'w'
	nameAssoc   = 's'
	nameHeld    = 'h' // a user's associations
)

func nameHash(kind byte, parts ...string) uint64 {
	h := fnv.New64a()
	h.Write([]byte{kind})
	for _, s := range parts {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	return h.Sum64()
}

func (p *Policy) index(id uint32, kind byte, parts ...string) {
	key := nameHash(kind, parts...)
	list, _ := p.names.get(key)
	p.names.set(p.epoch, key, append(list[:len(list):len(list)], id))
}

func (p *Policy) unindex(id uint32, kind byte, parts ...string) {
	key := nameHash(kind, parts...)
	list, _ := p.names.get(key)
	left := make([]uint32, 0, len(list))
	for _, other := range list {
		if other != id {
			left = append(left, other)
		}
	}
	if len(left) == 0 {
		p.names.del(p.epoch, key)
		return
	}
	p.names.set(p.epoch, key, left)
}

// Cluster, Account, User, QosNamed and Wckey find by name; nil: there is none.
func (p *Policy) Cluster(name string) *ClusterName {
	ids, _ := p.names.get(nameHash(nameCluster, name))
	for _, id := range ids {
		if c := p.clusters.get(id); c.GetName() == name {
			return c
		}
	}
	return nil
}

func (p *Policy) Account(name string) *Account {
	ids, _ := p.names.get(nameHash(nameAccount, name))
	for _, id := range ids {
		if a := p.accounts.get(id); a.GetName() == name {
			return a
		}
	}
	return nil
}

func (p *Policy) User(name string) *User {
	ids, _ := p.names.get(nameHash(nameUser, name))
	for _, id := range ids {
		if u := p.users.get(id); u.GetName() == name {
			return u
		}
	}
	return nil
}

func (p *Policy) QosNamed(name string) *Qos {
	ids, _ := p.names.get(nameHash(nameQos, name))
	for _, id := range ids {
		if q := p.qos.get(id); q.GetName() == name {
			return q
		}
	}
	return nil
}

func (p *Policy) Wckey(cluster, user, name string) *Wckey {
	ids, _ := p.names.get(nameHash(nameWckey, cluster, user, name))
	for _, id := range ids {
		if w := p.wckeys.get(id); w.GetName() == name && w.GetUser() == user && w.GetCluster() == cluster {
			return w
		}
	}
	return nil
}

// Association finds a place in a cluster's tree: of an account (user empty), or of a user in it, for one partition or (empty)
// for all. nil: there is none.
func (p *Policy) Association(cluster, account, user, partition string) *Association {
	ids, _ := p.names.get(nameHash(nameAssoc, cluster, account, user, partition))
	for _, id := range ids {
		a := p.associations.get(id)
		if a.GetCluster() == cluster && a.GetAccount() == account && a.GetUser() == user && a.GetPartition() == partition {
			return a
		}
	}
	return nil
}

// Place is the association that a user's job with an account in a partition belongs to: the one for the partition if there is
// one, else the one for all. nil: there is none.
func (p *Policy) Place(cluster, account, user, partition string) *Association {
	if account == "" || user == "" {
		return nil
	}
	if partition != "" {
		if a := p.Association(cluster, account, user, partition); a != nil {
			return a
		}
	}
	return p.Association(cluster, account, user, "")
}

// AssociationID finds an association by its number; nil: there is none.
func (p *Policy) AssociationID(id uint32) *Association { return p.associations.get(id) }

// Held calls f with the associations of a user, in the order in which they came, until it returns false.
func (p *Policy) Held(user string, f func(*Association) bool) {
	ids, _ := p.names.get(nameHash(nameHeld, user))
	for _, id := range ids {
		if a := p.associations.get(id); a.GetUser() == user && !f(a) {
			return
		}
	}
}

// Below are the associations right below one, in the order in which they came.
func (p *Policy) Below(id uint32) []uint32 {
	ids, _ := p.members.get(uint64(id))
	return ids
}

// EachCluster and its kin call f with every record, ascending by id, until it returns false. What was deleted is not among
// them.
func (p *Policy) EachCluster(f func(*ClusterName) bool) {
	p.clusters.each(func(_ uint32, c *ClusterName) bool { return f(c) })
}
func (p *Policy) EachAccount(f func(*Account) bool) {
	p.accounts.each(func(_ uint32, a *Account) bool { return f(a) })
}
func (p *Policy) EachUser(f func(*User) bool) {
	p.users.each(func(_ uint32, u *User) bool { return f(u) })
}
func (p *Policy) EachQos(f func(*Qos) bool) {
	p.qos.each(func(_ uint32, q *Qos) bool { return f(q) })
}
func (p *Policy) EachWckey(f func(*Wckey) bool) {
	p.wckeys.each(func(_ uint32, w *Wckey) bool { return f(w) })
}

// EachAssociation calls f with every association: cluster by cluster, depth first, the latest child first (the order in which
// slurmdbd lists them).
func (p *Policy) EachAssociation(f func(*Association) bool) {
	p.EachCluster(func(c *ClusterName) bool { return p.walk(c.Root, f) })
}

// walk goes through the tree below an association, itself first. A tree has no loops: acts that would make one are refused.
func (p *Policy) walk(id uint32, f func(*Association) bool) bool {
	a := p.associations.get(id)
	if a == nil {
		return true
	}
	if !f(a) {
		return false
	}
	for _, below := range slices.Backward(p.Below(id)) {
		if !p.walk(below, f) {
			return false
		}
	}
	return true
}

// Nested numbers the tree as nested sets, as slurmdbd does: of each association, by id, a number on the way in and one on the way out.
func (p *Policy) Nested() map[uint32][2]int {
	out, n := map[uint32][2]int{}, 0
	var walk func(id uint32)
	walk = func(id uint32) {
		n++
		in := n
		for _, below := range slices.Backward(p.Below(id)) {
			walk(below)
		}
		n++
		out[id] = [2]int{in, n}
	}
	p.EachCluster(func(c *ClusterName) bool { walk(c.Root); return true })
	return out
}

// Deleted are those that were removed, as far as they are remembered.
func (p *Policy) Deleted() *Removed { return &p.gone }

// Transactions are the latest acts, oldest first.
func (p *Policy) Transactions() []*Transaction { return p.transactions }

// Level is what an administrator's level a user has.
func (p *Policy) Level(user string) events.AdminLevel { return p.User(user).GetAdminLevel() }

// Coordinates says whether a user coordinates an account, or one above it in a cluster.
func (p *Policy) Coordinates(user, cluster, account string) bool {
	if user == "" {
		return false
	}
	for a := p.Association(cluster, account, "", ""); a != nil; a = p.associations.get(a.Parent) {
		if slices.Contains(p.Account(a.Account).GetCoordinators(), user) {
			return true
		}
	}
	return slices.Contains(p.Account(account).GetCoordinators(), user)
}

// Default is a user's default account on a cluster; empty: none.
func (p *Policy) Default(user, cluster string) *UserDefault {
	for _, d := range p.User(user).GetDefaults() {
		if d.Cluster == cluster {
			return d
		}
	}
	return nil
}

// Inherits says whether an association that sets no such limit has its parent's.
func Inherits(l events.Limit) bool {
	switch l {
	case events.Limit_SHARES, events.Limit_GRP_JOBS, events.Limit_GRP_JOBS_ACCRUE, events.Limit_GRP_SUBMIT, events.Limit_GRP_WALL,
		events.Limit_GRP_TRES, events.Limit_GRP_TRES_MINS, events.Limit_GRP_TRES_RUN_MINS:
		return false
	}
	return true
}

// LimitOf finds a limit in a list of a record's own.
func LimitOf(list []*events.LimitValue, l events.Limit) *events.LimitValue {
	i, ok := slices.BinarySearchFunc(list, l, func(v *events.LimitValue, l events.Limit) int { return cmp.Compare(v.Limit, l) })
	if !ok {
		return nil
	}
	return list[i]
}

// Limit is a limit as it counts for an association: its own, or what it inherits; of a vector each resource from the nearest
// that names it. nil: not limited.
func (p *Policy) Limit(a *Association, l events.Limit) *events.LimitValue {
	own := LimitOf(a.GetLimits(), l)
	if own != nil && len(own.Tres) == 0 || a == nil || a.Parent == 0 || !Inherits(l) {
		return own
	}
	above := p.Limit(p.associations.get(a.Parent), l)
	if own == nil || above == nil {
		return cmp.Or(own, above)
	}
	both := &events.LimitValue{Limit: l, Tres: slices.Clone(own.Tres)}
	for _, t := range above.Tres {
		if !slices.ContainsFunc(own.Tres, func(o *events.TresCount) bool { return o.Tres == t.Tres }) {
			both.Tres = append(both.Tres, t)
		}
	}
	sortTres(both.Tres)
	return both
}

// AllowedQos are the names of the QoS that an association may use, in alphabetical order.
func (p *Policy) AllowedQos(a *Association) []string {
	if a == nil {
		return nil
	}
	list := a.Qos
	if !a.HasQos {
		list = p.AllowedQos(p.associations.get(a.Parent))
	}
	if len(a.QosAdd) == 0 && len(a.QosRemove) == 0 {
		return list
	}
	var out []string
	for _, q := range list {
		if !slices.Contains(a.QosRemove, q) {
			out = append(out, q)
		}
	}
	return union(out, a.QosAdd)
}

// DefaultQos is the QoS of jobs of an association that name none; empty: none is set.
func (p *Policy) DefaultQos(a *Association) string {
	for ; a != nil; a = p.associations.get(a.Parent) {
		if a.DefaultQos != "" {
			return a.DefaultQos
		}
	}
	return ""
}

func union(list, more []string) []string {
	out := slices.Concat(list, more)
	slices.Sort(out)
	return slices.Compact(out)
}
