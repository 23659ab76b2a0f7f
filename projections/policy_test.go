package projections

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"stint/events"
)

// policyHistory makes random acts, most of which can be.
type policyHistory struct {
	*rand.Rand
}

func (h policyHistory) name(kind string, n int) string { return fmt.Sprintf("%s%d", kind, h.IntN(n)) }

func (h policyHistory) limits(qos bool) []*events.LimitChange {
	all := []events.Limit{events.Limit_GRP_JOBS, events.Limit_GRP_TRES, events.Limit_MAX_WALL, events.Limit_MAX_TRES_PER_JOB, events.Limit_PRIORITY_VALUE}
	if qos {
		all = append(all, events.Limit_MAX_JOBS_PER_USER, events.Limit_USAGE_FACTOR)
	} else {
		all = append(all, events.Limit_SHARES, events.Limit_MAX_JOBS)
	}
	var out []*events.LimitChange
	for range h.IntN(4) {
		l := &events.LimitChange{Limit: all[h.IntN(len(all))], Clear: h.IntN(4) == 0}
		if VectorLimit(l.Limit) {
			if !l.Clear {
				l.Tres = []*events.TresCount{{Tres: []string{"cpu", "mem", "gres/gpu"}[h.IntN(3)], Count: h.Uint64N(100), Clear: h.IntN(4) == 0}}
			}
		} else if !l.Clear {
			l.Value = h.Uint64N(1000)
		}
		out = append(out, l)
	}
	return out
}

func (h policyHistory) act(p *Policy) *events.PolicyAct {
	deed := events.PolicyDeed(1 + h.IntN(3))
	if h.IntN(3) > 0 {
		deed = events.PolicyDeed_POLICY_ADD
	}
	a := &events.PolicyAct{Deed: deed, Kind: events.PolicyKind(1 + h.IntN(7)), Set: &events.PolicySettings{}}
	var ids []uint32
	p.EachAssociation(func(as *Association) bool { ids = append(ids, as.Id); return true })
	text := h.name("x", 9)
	switch a.Kind {
	case events.PolicyKind_POLICY_CLUSTER:
		a.Names = []string{h.name("cluster", 3)}
	case events.PolicyKind_POLICY_ACCOUNT:
		a.Names = []string{h.name("acct", 8)}
		a.Set.Description = &text
	case events.PolicyKind_POLICY_USER:
		a.Names = []string{h.name("user", 6)}
		if deed == events.PolicyDeed_POLICY_MODIFY && h.IntN(2) == 0 {
			def := h.name("acct", 8)
			a.Set.DefaultAccount = &def
		} else if deed == events.PolicyDeed_POLICY_MODIFY && h.IntN(3) == 0 {
			to := h.name("user", 6)
			a.Set.NewName = &to
		}
	case events.PolicyKind_POLICY_ASSOCIATION:
		a.Accounts = []string{h.name("acct", 8)}
		if h.IntN(2) == 0 {
			a.Names = []string{h.name("user", 6)}
		}
		if h.IntN(2) == 0 {
			parent := h.name("acct", 8)
			a.Set.Parent = &parent
		}
		if h.IntN(3) == 0 {
			a.Set.Qos = &events.ListChange{Replace: h.IntN(2) == 0, Names: []string{h.name("qos", 4)}, Add: []string{h.name("qos", 4)}, Remove: []string{h.name("qos", 4)}}
		}
		a.Associations = []uint32{ids[h.IntN(len(ids))]}
		a.Set.Limits = h.limits(false)
	case events.PolicyKind_POLICY_QOS:
		a.Names = []string{h.name("qos", 4)}
		a.Set.Limits = h.limits(true)
		if h.IntN(2) == 0 {
			a.Set.Preempt = &events.ListChange{Replace: true, Names: []string{h.name("qos", 4)}}
		}
	case events.PolicyKind_POLICY_COORDINATOR:
		a.Names, a.Accounts = []string{h.name("user", 6)}, []string{h.name("acct", 8)}
	case events.PolicyKind_POLICY_WCKEY:
		a.Names, a.Wckeys = []string{h.name("user", 6)}, []string{h.name("key", 3)}
	}
	return a
}

// sound says what of a policy is not as it must be; empty: nothing.
func sound(p *Policy) string {
	s := p.State()
	seen := map[uint32]bool{}
	live := 0
	for _, a := range s.Associations {
		if a.Deleted {
			continue
		}
		live++
		switch {
		case a.Parent != 0 && !seen[a.Parent]:
			return fmt.Sprintf("association %d comes before its parent", a.Id)
		case p.Association(a.Cluster, a.Account, a.User, a.Partition) != a:
			return fmt.Sprintf("association %d is not found by its name", a.Id)
		case p.Account(a.Account) == nil:
			return fmt.Sprintf("association %d is of an account that is gone", a.Id)
		case a.User != "" && p.User(a.User) == nil:
			return fmt.Sprintf("association %d is of a user who is gone", a.Id)
		case a.User != "" && len(p.Below(a.Id)) > 0:
			return fmt.Sprintf("something is below user association %d", a.Id)
		}
		for _, q := range slices.Concat(a.Qos, a.QosAdd, a.QosRemove) {
			if p.QosNamed(q) == nil {
				return fmt.Sprintf("association %d names the QoS %s, which is gone", a.Id, q)
			}
		}
		if !slices.IsSortedFunc(a.Limits, func(x, y *events.LimitValue) int { return int(x.Limit) - int(y.Limit) }) {
			return fmt.Sprintf("the limits of association %d are out of order", a.Id)
		}
		seen[a.Id] = true
	}
	if live != p.associations.n {
		return fmt.Sprintf("%d associations hang in the tree, there are %d", live, p.associations.n)
	}
	for _, u := range s.Users {
		for _, d := range u.Defaults {
			if !u.Deleted && d.Account != "" && !p.hasPlace(d.Cluster, d.Account, u.Name) {
				return fmt.Sprintf("user %s has the default account %s without a place in it", u.Name, d.Account)
			}
		}
	}
	for _, q := range s.Qos {
		for _, name := range q.Preempt {
			if !q.Deleted && p.QosNamed(name) == nil {
				return fmt.Sprintf("QoS %s preempts %s, which is gone", q.Name, name)
			}
		}
	}
	return ""
}

// Whatever is done: the tree is sound; a policy that was handed out stays as it was; what cannot be changes nothing; loading
// the state gives the policy again; and two that do the same are the same.
func TestPolicyProperties(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		h := policyHistory{rand.New(rand.NewPCG(seed, 7))}
		p := New().Policy().Began("main", 1)
		twin := p
		done, refused := 0, 0
		for i := range 300 {
			acts := &events.Policy{}
			for range 1 + h.IntN(3) {
				acts.Acts = append(acts.Acts, h.act(p))
			}
			before := p.State()
			next, err := p.After(acts, "main", "root", int64(i), uint64(i))
			if now := p.State(); !now.EqualVT(before) {
				t.Fatalf("seed %d, act %d: a policy changed after it was handed out", seed, i)
			}
			again, err2 := twin.After(acts.CloneVT(), "main", "root", int64(i), uint64(i))
			if (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
				t.Fatalf("seed %d, act %d: %v, and %v for the twin", seed, i, err, err2)
			}
			if err != nil {
				refused++
				continue
			}
			done++
			p = next
			if twin = again; i%50 == 0 {
				if twin, err = LoadPolicy(again.State().CloneVT()); err != nil {
					t.Fatalf("seed %d, act %d: %v", seed, i, err)
				}
			}
			if what := sound(p); what != "" {
				t.Fatalf("seed %d, act %d: %s", seed, i, what)
			}
			if !p.State().EqualVT(twin.State()) {
				t.Fatalf("seed %d, act %d: a loaded policy goes another way", seed, i)
			}
		}
		if done < 20 || refused < 20 {
			t.Fatalf("seed %d: %d acts were done and %d refused: the test tries too little", seed, done, refused)
		}
		if n := len(p.Transactions()); n > keepTransactions {
			t.Fatalf("%d transactions are kept", n)
		}
	}
}

// What is kept of the past is bounded, however long it was.
func TestPolicyForgets(t *testing.T) {
	p := New().Policy().Began("main", 1)
	size := 0
	for i := range 5000 {
		name := fmt.Sprintf("a%d", i)
		for _, act := range []*events.PolicyAct{
			{Deed: events.PolicyDeed_POLICY_ADD, Kind: events.PolicyKind_POLICY_ACCOUNT, Names: []string{name}},
			{Deed: events.PolicyDeed_POLICY_ADD, Kind: events.PolicyKind_POLICY_ASSOCIATION, Accounts: []string{name}},
			{Deed: events.PolicyDeed_POLICY_DELETE, Kind: events.PolicyKind_POLICY_ACCOUNT, Names: []string{name}},
		} {
			next, err := p.After(&events.Policy{Acts: []*events.PolicyAct{act}}, "main", "root", int64(i), 1)
			if err != nil {
				t.Fatal(err)
			}
			p = next
		}
		if i == 2500 {
			size = p.State().SizeVT()
		}
	}
	if last := p.State().SizeVT(); last > size+size/20 {
		t.Errorf("after 2,500 accounts that came and went the policy takes %d bytes, after 5,000 it takes %d", size, last)
	}
}

func TestPolicyInherits(t *testing.T) {
	p := New().Policy().Began("main", 1)
	str := func(s string) *string { return &s }
	do := func(acts ...*events.PolicyAct) error {
		next, err := p.After(&events.Policy{Acts: acts}, "main", "root", 1, 1)
		if err == nil {
			p = next
		}
		return err
	}
	add := events.PolicyDeed_POLICY_ADD
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(do(&events.PolicyAct{Deed: add, Kind: events.PolicyKind_POLICY_QOS, Names: []string{"high", "low"}},
		&events.PolicyAct{Deed: add, Kind: events.PolicyKind_POLICY_ACCOUNT, Names: []string{"top", "sub"}},
		&events.PolicyAct{Deed: add, Kind: events.PolicyKind_POLICY_ASSOCIATION, Accounts: []string{"top"}, Set: &events.PolicySettings{
			Limits: []*events.LimitChange{{Limit: events.Limit_MAX_WALL, Value: 60}, {Limit: events.Limit_GRP_JOBS, Value: 5},
				{Limit: events.Limit_MAX_TRES_PER_JOB, Tres: []*events.TresCount{{Tres: "node", Count: 2}, {Tres: "cpu", Count: 4}}}},
			Qos: &events.ListChange{Add: []string{"high"}}, DefaultQos: str("high")}},
		&events.PolicyAct{Deed: add, Kind: events.PolicyKind_POLICY_ASSOCIATION, Accounts: []string{"sub"}, Set: &events.PolicySettings{Parent: str("top"),
			Limits: []*events.LimitChange{{Limit: events.Limit_MAX_TRES_PER_JOB, Tres: []*events.TresCount{{Tres: "cpu", Count: 1}}}},
			Qos:    &events.ListChange{Add: []string{"low"}, Remove: []string{"normal"}}}},
		&events.PolicyAct{Deed: add, Kind: events.PolicyKind_POLICY_USER, Names: []string{"ann"}},
		&events.PolicyAct{Deed: add, Kind: events.PolicyKind_POLICY_ASSOCIATION, Names: []string{"ann"}, Accounts: []string{"sub"}}))
	ann := p.Place("main", "sub", "ann", "batch")
	if got := strings.Join(p.AllowedQos(ann), ","); got != "high,low" {
		t.Errorf("ann may use %s", got)
	}
	if got := p.DefaultQos(ann); got != "high" {
		t.Errorf("ann's default is %s", got)
	}
	if w := p.Limit(ann, events.Limit_MAX_WALL); w.GetValue() != 60 {
		t.Errorf("MaxWall is %v", w)
	}
	if g := p.Limit(ann, events.Limit_GRP_JOBS); g != nil {
		t.Errorf("a limit of a group is inherited: %v", g)
	}
	if l := p.Limit(ann, events.Limit_MAX_TRES_PER_JOB); len(l.GetTres()) != 2 || l.Tres[0].Count != 1 || l.Tres[1].Count != 2 {
		t.Errorf("MaxTRESPerJob is %v", l)
	}
	if p.Default("ann", "main").GetAccount() != "sub" {
		t.Errorf("ann's default account is %q", p.Default("ann", "main").GetAccount())
	}
	one := []*events.LimitChange{{Limit: events.Limit_SHARES, Value: 1}}
	must(do(&events.PolicyAct{Deed: events.PolicyDeed_POLICY_MODIFY, Kind: events.PolicyKind_POLICY_ASSOCIATION, Associations: []uint32{ann.Id}, Set: &events.PolicySettings{Limits: one}}))
	if l := p.AssociationID(ann.Id).Limits; len(l) > 0 {
		t.Errorf("one share, which is what everybody has, is kept as %v", l)
	}
	for _, bad := range []struct {
		why string
		act *events.PolicyAct
	}{
		{"below", &events.PolicyAct{Deed: events.PolicyDeed_POLICY_MODIFY, Kind: events.PolicyKind_POLICY_ASSOCIATION, Associations: []uint32{p.Association("main", "top", "", "").Id}, Set: &events.PolicySettings{Parent: str("sub")}}},
		{"exists already", &events.PolicyAct{Deed: add, Kind: events.PolicyKind_POLICY_USER, Names: []string{"ann"}}},
		{"may not use", &events.PolicyAct{Deed: events.PolicyDeed_POLICY_MODIFY, Kind: events.PolicyKind_POLICY_ASSOCIATION, Associations: []uint32{ann.Id}, Set: &events.PolicySettings{DefaultQos: str("normal")}}},
		{"cannot preempt itself", &events.PolicyAct{Deed: events.PolicyDeed_POLICY_MODIFY, Kind: events.PolicyKind_POLICY_QOS, Names: []string{"low"}, Set: &events.PolicySettings{Preempt: &events.ListChange{Replace: true, Names: []string{"low"}}}}},
		{"root account cannot", &events.PolicyAct{Deed: events.PolicyDeed_POLICY_DELETE, Kind: events.PolicyKind_POLICY_ACCOUNT, Names: []string{"root"}}},
		{"no name", &events.PolicyAct{Deed: add, Kind: events.PolicyKind_POLICY_ACCOUNT, Names: []string{"a b"}}},
	} {
		if err := do(bad.act); err == nil || !strings.Contains(err.Error(), bad.why) {
			t.Errorf("%s: %v", bad.why, err)
		}
	}
	must(do(&events.PolicyAct{Deed: events.PolicyDeed_POLICY_DELETE, Kind: events.PolicyKind_POLICY_ACCOUNT, Names: []string{"sub"}}))
	if p.Default("ann", "main").GetAccount() != "" || p.Place("main", "sub", "ann", "") != nil {
		t.Error("ann still is in an account that is gone")
	}
}
