package admit

import (
	"testing"

	"stint/events"
)

func text(s string) *string { return &s }

// acts has acts done by a user (uN), and returns what it came to.
func (o *office) acts(uid uint32, acts ...*events.PolicyAct) (events.Code, string) {
	facts := o.ask(uid, events.Verb_ADMINISTER, encode(o.t, &events.Policy{Acts: acts}))
	last := facts[len(facts)-1]
	if last.GetAdministered() != nil {
		return events.Code_OK, ""
	}
	return last.GetJudged().GetCode(), last.GetJudged().GetText()
}

func policyAct(deed events.PolicyDeed, kind events.PolicyKind, set *events.PolicySettings, names ...string) *events.PolicyAct {
	return &events.PolicyAct{Deed: deed, Kind: kind, Names: names, Set: set}
}

func placeOf(set *events.PolicySettings, account string, users ...string) *events.PolicyAct {
	return &events.PolicyAct{Deed: events.PolicyDeed_POLICY_ADD, Kind: events.PolicyKind_POLICY_ASSOCIATION, Accounts: []string{account}, Names: users, Set: set}
}

const (
	add, modify, remove           = events.PolicyDeed_POLICY_ADD, events.PolicyDeed_POLICY_MODIFY, events.PolicyDeed_POLICY_DELETE
	ofAccount, ofUser, ofQos      = events.PolicyKind_POLICY_ACCOUNT, events.PolicyKind_POLICY_USER, events.PolicyKind_POLICY_QOS
	ofPlace, ofCluster, ofCoordin = events.PolicyKind_POLICY_ASSOCIATION, events.PolicyKind_POLICY_CLUSTER, events.PolicyKind_POLICY_COORDINATOR
)

// site is an office with accounts phys (u1000, u1001 who coordinates it), bio, and an operator u1002.
func site(t *testing.T, enforce ...string) *office {
	cfg := config()
	cfg.AccountingEnforce = enforce
	o := newOffice(t, cfg)
	operator := events.AdminLevel_ADMIN_OPERATOR
	phys := policyAct(add, events.PolicyKind_POLICY_COORDINATOR, nil, "u1001")
	phys.Accounts = []string{"phys"}
	if code, why := o.acts(7, policyAct(add, ofQos, nil, "high", "low"), policyAct(add, ofAccount, nil, "phys", "bio"), placeOf(nil, "phys"), placeOf(nil, "bio"),
		policyAct(add, ofUser, nil, "u1000", "u1001"), policyAct(add, ofUser, &events.PolicySettings{AdminLevel: &operator}, "u1002"),
		placeOf(&events.PolicySettings{Qos: &events.ListChange{Replace: true, Names: []string{"normal", "high"}}, DefaultQos: text("high")}, "phys", "u1000"), placeOf(nil, "phys", "u1001"), phys); code != events.Code_OK {
		t.Fatalf("%s: %s", code, why)
	}
	return o
}

// Who may do what to accounts, users, QoS and limits.
func TestWhoMayAdminister(t *testing.T) {
	limit := &events.PolicySettings{Limits: []*events.LimitChange{{Limit: events.Limit_MAX_JOBS, Value: 3}}}
	admin, operator := events.AdminLevel_ADMIN_ADMINISTRATOR, events.AdminLevel_ADMIN_OPERATOR
	placed := func(o *office, account, user string) *events.PolicyAct {
		return &events.PolicyAct{Deed: modify, Kind: ofPlace, Associations: []uint32{o.c.Policy().Association("test", account, user, "").GetId()}}
	}
	with := func(a *events.PolicyAct, set *events.PolicySettings) *events.PolicyAct { a.Set = set; return a }
	coordinator := func(account string) *events.PolicyAct {
		a := policyAct(add, ofCoordin, nil, "u1000")
		a.Accounts = []string{account}
		return a
	}
	for _, c := range []struct {
		what string
		act  func(*office) *events.PolicyAct
		may  map[uint32]bool // by uid; those not named may not
	}{
		{"add a QoS", func(*office) *events.PolicyAct { return policyAct(add, ofQos, nil, "q") }, map[uint32]bool{7: true}},
		{"change a QoS", func(*office) *events.PolicyAct { return policyAct(modify, ofQos, nil, "high") }, map[uint32]bool{7: true}},
		{"add a cluster", func(*office) *events.PolicyAct { return policyAct(add, ofCluster, nil, "c") }, map[uint32]bool{7: true}},
		{"add an account", func(*office) *events.PolicyAct { return policyAct(add, ofAccount, nil, "new") }, map[uint32]bool{7: true, 1002: true}},
		{"add an account below one's own", func(*office) *events.PolicyAct {
			return policyAct(add, ofAccount, &events.PolicySettings{Parent: text("phys")}, "new")
		}, map[uint32]bool{7: true, 1002: true, 1001: true}},
		{"limit a user of phys", func(o *office) *events.PolicyAct { return with(placed(o, "phys", "u1000"), limit) }, map[uint32]bool{7: true, 1002: true, 1001: true}},
		{"limit the account bio", func(o *office) *events.PolicyAct { return with(placed(o, "bio", ""), limit) }, map[uint32]bool{7: true, 1002: true}},
		{"choose the own default QoS", func(o *office) *events.PolicyAct {
			return with(placed(o, "phys", "u1000"), &events.PolicySettings{DefaultQos: text("normal")})
		}, map[uint32]bool{7: true, 1002: true, 1001: true, 1000: true}},
		{"choose the own default account", func(*office) *events.PolicyAct {
			return policyAct(modify, ofUser, &events.PolicySettings{DefaultAccount: text("phys")}, "u1000")
		}, map[uint32]bool{7: true, 1002: true, 1000: true}},
		{"make an administrator", func(*office) *events.PolicyAct {
			return policyAct(modify, ofUser, &events.PolicySettings{AdminLevel: &admin}, "u1000")
		}, map[uint32]bool{7: true}},
		{"make an operator", func(*office) *events.PolicyAct {
			return policyAct(modify, ofUser, &events.PolicySettings{AdminLevel: &operator}, "u1000")
		}, map[uint32]bool{7: true, 1002: true}},
		{"make a coordinator of phys", func(*office) *events.PolicyAct { return coordinator("phys") }, map[uint32]bool{7: true, 1002: true, 1001: true}},
		{"make a coordinator of bio", func(*office) *events.PolicyAct { return coordinator("bio") }, map[uint32]bool{7: true, 1002: true}},
		{"remove a user", func(*office) *events.PolicyAct { return policyAct(remove, ofUser, nil, "u1000") }, map[uint32]bool{7: true, 1002: true}},
	} {
		for _, uid := range []uint32{7, 1000, 1001, 1002, 1003} {
			o := site(t)
			code, why := o.acts(uid, c.act(o))
			if (code == events.Code_OK) != c.may[uid] || !c.may[uid] && code != events.Code_ACCESS_DENIED {
				t.Errorf("u%d may %s: %s %s", uid, c.what, code, why)
			}
		}
	}
}

// What a submission runs as, and what is refused, by what AccountingStorageEnforce says.
func TestAccountsOfSubmissions(t *testing.T) {
	for _, c := range []struct {
		enforce            []string
		uid                uint32
		account, qos       string
		code               events.Code
		gotAccount, gotQos string
	}{
		{nil, 1000, "", "", events.Code_OK, "phys", "high"},
		{nil, 1000, "PHYS", "normal", events.Code_OK, "phys", "normal"},
		{nil, 1000, "nosuch", "nosuch", events.Code_OK, "nosuch", "nosuch"},
		{nil, 1005, "", "", events.Code_OK, "", ""},
		{nil, 1001, "", "", events.Code_OK, "phys", "normal"},
		{[]string{"associations"}, 1000, "", "", events.Code_OK, "phys", "high"},
		{[]string{"associations"}, 1000, "bio", "", events.Code_INVALID_ACCOUNT, "", ""},
		{[]string{"associations"}, 1000, "nosuch", "", events.Code_INVALID_ACCOUNT, "", ""},
		{[]string{"associations"}, 1005, "", "", events.Code_INVALID_ACCOUNT, "", ""},
		{[]string{"associations"}, 1000, "", "nosuch", events.Code_INVALID_QOS, "", ""},
		{[]string{"associations"}, 1000, "", "low", events.Code_OK, "phys", "low"},
		{[]string{"associations", "qos"}, 1000, "", "low", events.Code_INVALID_QOS, "", ""},
		{[]string{"associations", "qos"}, 1000, "", "normal", events.Code_OK, "phys", "normal"},
		{[]string{"associations", "wckeys"}, 1000, "", "", events.Code_INVALID_WCKEY, "", ""},
	} {
		o := site(t, c.enforce...)
		f := o.submit(c.uid, &events.JobSpec{Name: "a", Account: c.account, Qos: c.qos})
		s := f.GetAdmitted().GetSpec()
		if f.GetJudged().GetCode() != c.code || s.GetAccount() != c.gotAccount || s.GetQos() != c.gotQos {
			t.Errorf("%v, u%d, account %q, QoS %q: %s, %q and %q (%s)", c.enforce, c.uid, c.account, c.qos, f.GetJudged().GetCode(), s.GetAccount(), s.GetQos(), f.GetJudged().GetText())
		}
	}
}

// What jobs use is not removed.
func TestJobsKeepTheirAccount(t *testing.T) {
	o := site(t)
	o.submit(1000, &events.JobSpec{Name: "a"})
	place := o.c.Policy().Association("test", "phys", "u1000", "").GetId()
	for _, a := range []*events.PolicyAct{policyAct(remove, ofAccount, nil, "phys"), policyAct(remove, ofUser, nil, "u1000"), {Deed: remove, Kind: ofPlace, Associations: []uint32{place}}} {
		if code, why := o.acts(7, a); code != events.Code_JOBS_ACTIVE {
			t.Errorf("%v: %s %s", a, code, why)
		}
	}
	if code, why := o.acts(7, policyAct(remove, ofAccount, nil, "bio"), policyAct(remove, ofUser, nil, "u1002")); code != events.Code_OK {
		t.Errorf("what no job uses stays: %s %s", code, why)
	}
}

// Of several acts all happen, or none.
func TestAllActsOrNone(t *testing.T) {
	o := site(t)
	before := o.c.Policy().State()
	if code, _ := o.acts(7, policyAct(add, ofAccount, nil, "new"), policyAct(remove, ofUser, nil, "nosuch")); code != events.Code_POLICY_REFUSED {
		t.Errorf("the code is %s", code)
	}
	if !o.c.Policy().State().EqualVT(before) {
		t.Error("a refused request changed something")
	}
}
