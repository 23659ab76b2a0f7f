package cli

import (
	"strings"
	"testing"

	"stint/events"
	"stint/projections"
)

func TestDoctorNamesWhatHasNoEffect(t *testing.T) {
	p := &projections.PolicyState{
		Associations: []*projections.Association{{Limits: []*events.LimitValue{{Limit: events.Limit_SHARES}, {Limit: events.Limit_GRP_TRES}}}, {Limits: []*events.LimitValue{{Limit: events.Limit_SHARES}}}},
		Qos:          []*projections.Qos{{Preempt: []string{"low"}, Flags: []string{"NoDecay"}}, {}},
	}
	if got := strings.Join(withoutEffect(p), "; "); got != "grp_tres; preempt; shares; the flag NoDecay" {
		t.Errorf("it names %s", got)
	}
	if got := withoutEffect(&projections.PolicyState{Qos: []*projections.Qos{{}}}); len(got) > 0 {
		t.Errorf("of a policy without limits it names %v", got)
	}
}

// Who may use a partition is a name somebody has: a group of the host, an account, a QoS.
func TestDoctorNamesWhomNobodyIs(t *testing.T) {
	partitions := []*events.PartitionDef{
		{Name: "open"}, {Name: "typo", AllowGroups: []string{"chemstry"}}, {Name: "half", AllowGroups: []string{"physics", "chemstry"}},
		{Name: "acct", AllowAccounts: []string{"gone", "Lab"}}, {Name: "qos", AllowQos: []string{"gold"}},
	}
	p := &projections.PolicyState{Accounts: []*projections.Account{{Name: "lab"}, {Name: "gone", Deleted: true}}, Qos: []*projections.Qos{{Name: "normal"}}}
	there := func(name string) bool { return name == "physics" }
	groups := []string{
		"warning | partitions | AllowGroups=chemstry of partition typo: there is no such group on this host: nobody gets in by it | correct it in slurm.conf, or make it: groupadd NAME",
		"warning | partitions | AllowGroups=chemstry of partition half: there is no such group on this host | correct it in slurm.conf, or make it: groupadd NAME",
	}
	finds(t, func(r *report) { judgeAccess(r, partitions, p, &events.Config{}, there) }, groups...)
	finds(t, func(r *report) {
		judgeAccess(r, partitions, p, &events.Config{AccountingEnforce: []string{"associations"}}, there)
	}, append(groups,
		"warning | partitions | AllowAccounts=gone of partition acct: there is no such account | correct it in slurm.conf, or make it: sacctmgr add account NAME",
		"warning | partitions | AllowQos=gold of partition qos: there is no such QoS: nobody gets in by it | correct it in slurm.conf, or make it: sacctmgr add qos NAME")...)
}
