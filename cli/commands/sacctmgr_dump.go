package commands

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/events"
	"stint/projections"
)

// dumpHead is the explanation at the top of a file.
const dumpHead = `# To edit this file start with a cluster line for the new cluster
# Cluster - 'cluster_name':MaxTRESPerJob=node=50
# Followed by Accounts you want in this fashion (root is created by default)...
# Parent - 'root'
# Account - 'cs':MaxTRESPerJob=node=5:MaxJobs=4:MaxTRESMinsPerJob=cpu=20:FairShare=399:MaxWallDurationPerJob=40:Description='Computer Science':Organization='LC'
# Any of the options after a ':' can be left out and they can be in any order.
# If you want to add any sub accounts just list the Parent THAT HAS ALREADY
# BEEN CREATED before the account line in this fashion...
# Parent - 'cs'
# Account - 'test':MaxTRESPerJob=node=1:MaxJobs=1:MaxTRESMinsPerJob=cpu=1:FairShare=1:MaxWallDurationPerJob=1:Description='Test Account':Organization='Test'
# To add users to a account add a line like this after a Parent - 'line'
# User - 'lipari':MaxTRESPerJob=node=2:MaxJobs=3:MaxTRESMinsPerJob=cpu=4:FairShare=1:MaxWallDurationPerJob=1
`

// dumpLimits are the limits of a line, in the order of the file, by the names that it has them under.
var dumpLimits = []struct {
	name  string
	limit events.Limit
}{
	{"GrpTRESMins", events.Limit_GRP_TRES_MINS}, {"GrpTRESRunMins", events.Limit_GRP_TRES_RUN_MINS}, {"GrpTRES", events.Limit_GRP_TRES},
	{"GrpJobs", events.Limit_GRP_JOBS}, {"GrpJobsAccrue", events.Limit_GRP_JOBS_ACCRUE}, {"GrpSubmitJobs", events.Limit_GRP_SUBMIT}, {"GrpWall", events.Limit_GRP_WALL},
	{"MaxTRESMinsPerJob", events.Limit_MAX_TRES_MINS_PER_JOB}, {"MaxTRESRunMins", events.Limit_MAX_TRES_RUN_MINS}, {"MaxTRESPerJob", events.Limit_MAX_TRES_PER_JOB},
	{"MaxTRESPerNode", events.Limit_MAX_TRES_PER_NODE}, {"MaxJobs", events.Limit_MAX_JOBS}, {"MaxJobsAccrue", events.Limit_MAX_JOBS_ACCRUE},
	{"MaxSubmitJobs", events.Limit_MAX_SUBMIT}, {"MaxWallDurationPerJob", events.Limit_MAX_WALL}, {"MinPrioThresh", events.Limit_MIN_PRIO_THRESHOLD},
	{"Priority", events.Limit_PRIORITY_VALUE},
}

// dump writes the tree of a cluster into a file that load reads.
func (m *manager) dump(words []string) int {
	cluster, file := "", ""
	for _, t := range slurm.ParseTerms(words) {
		switch {
		case t.Key == "":
			cluster = t.Value
		case slurm.Keyed(t.Key, "cluster", 1):
			cluster = t.Value
		case slurm.Keyed(t.Key, "file", 1):
			file = t.Value
		default:
			return m.fail("Unknown option: %s=%s", t.Key, t.Value)
		}
	}
	if err := m.look(false); err != nil {
		return m.fail("%s", err)
	}
	if cluster == "" {
		return m.fail("dump needs the name of a cluster")
	}
	rec := m.p.Cluster(cluster)
	if rec == nil {
		return m.fail("there is no cluster %s", cluster)
	}
	var b strings.Builder
	b.WriteString(dumpHead)
	root := m.p.AssociationID(rec.Root)
	fmt.Fprintf(&b, "Cluster - '%s'%s\n", cluster, m.dumpSettings(root))
	m.dumpBelow(&b, root)
	path := cmp.Or(file, "./"+cluster+".cfg")
	if !filepath.IsAbs(path) {
		path = filepath.Join(m.w.Dir, path)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		return m.fail("writing the accounts of %s: %s", cluster, plain(err))
	}
	fmt.Fprintf(m.w.Stderr, "sacctmgr: %s is written\n", path)
	return 0
}

func (m *manager) dumpBelow(b *strings.Builder, a *projections.Association) {
	ids := m.p.Below(a.Id)
	if len(ids) == 0 {
		return
	}
	list := make([]*projections.Association, 0, len(ids))
	for _, id := range slices.Backward(ids) {
		list = append(list, m.p.AssociationID(id))
	}
	list, _ = format.AssocTree(list)
	fmt.Fprintf(b, "Parent - '%s'\n", a.Account)
	for _, c := range list {
		if c.User == "" {
			acct := m.p.Account(c.Account)
			fmt.Fprintf(b, "Account - '%s':Description='%s':Organization='%s'%s\n", c.Account, acct.GetDescription(), acct.GetOrganization(), m.dumpSettings(c))
			continue
		}
		u := m.p.User(c.User)
		fmt.Fprintf(b, "User - '%s'", c.User)
		if c.Partition != "" {
			fmt.Fprintf(b, ":Partition='%s'", c.Partition)
		}
		fmt.Fprintf(b, ":DefaultAccount='%s'", cmp.Or(m.p.Default(c.User, c.Cluster).GetAccount(), "(null)"))
		if k := m.p.Default(c.User, c.Cluster).GetWckey(); k != "" {
			fmt.Fprintf(b, ":DefaultWCKey='%s'", k)
		}
		if u.GetAdminLevel() != events.AdminLevel_ADMIN_NONE {
			fmt.Fprintf(b, ":AdminLevel='%s'", format.AdminText(u.GetAdminLevel()))
		}
		var coordinates []string
		for _, acct := range m.raw.Accounts {
			if slices.Contains(acct.Coordinators, c.User) {
				coordinates = append(coordinates, acct.Name)
			}
		}
		if len(coordinates) > 0 {
			fmt.Fprintf(b, ":Coordinator='%s'", strings.Join(coordinates, ","))
		}
		b.WriteString(m.dumpSettings(c) + "\n")
	}
	for _, c := range list {
		if c.User == "" {
			m.dumpBelow(b, c)
		}
	}
}

// dumpSettings are an association's own settings.
func (m *manager) dumpSettings(a *projections.Association) string {
	var b strings.Builder
	if a.DefaultQos != "" {
		fmt.Fprintf(&b, ":DefaultQOS='%s'", a.DefaultQos)
	}
	shares := "1"
	if v := projections.LimitOf(a.Limits, events.Limit_SHARES); v != nil {
		shares = format.LimitText(events.Limit_SHARES, v, "")
	}
	fmt.Fprintf(&b, ":Fairshare=%s", shares)
	for _, l := range dumpLimits {
		if v := projections.LimitOf(a.Limits, l.limit); v != nil {
			text := strconv.FormatUint(v.Value, 10)
			if projections.VectorLimit(l.limit) {
				text = format.TresText(v.Tres)
			}
			fmt.Fprintf(&b, ":%s=%s", l.name, text)
		}
	}
	switch {
	case a.HasQos:
		fmt.Fprintf(&b, ":QOS='%s'", strings.Join(a.Qos, ","))
	case len(a.QosAdd)+len(a.QosRemove) > 0:
		var list []string
		for _, q := range a.QosAdd {
			list = append(list, "+"+q)
		}
		for _, q := range a.QosRemove {
			list = append(list, "-"+q)
		}
		fmt.Fprintf(&b, ":QOS='%s'", strings.Join(list, ","))
	}
	return b.String()
}

// load reads a file as dump writes it, and adds and changes what is not as it says. It removes nothing.
func (m *manager) load(words []string) int {
	file, cluster := "", ""
	for _, t := range slurm.ParseTerms(words) {
		switch {
		case t.Key == "" && slurm.Keyed(t.Value, "clean", 3):
			return m.fail("load clean is not supported by Stint: what jobs refer to would be gone; delete what is to go by name")
		case t.Key == "", slurm.Keyed(t.Key, "file", 1):
			file = t.Value
		case slurm.Keyed(t.Key, "cluster", 1):
			cluster = t.Value
		default:
			return m.fail("Unknown option: %s=%s", t.Key, t.Value)
		}
	}
	if file == "" {
		return m.fail("load needs file=NAME")
	}
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(m.w.Dir, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return m.fail("reading %s: %s", file, plain(err))
	}
	lines, err := slurm.ReadFile(string(data))
	if err != nil {
		return m.fail("%s: %s", file, err)
	}
	if err := m.look(false); err != nil {
		return m.fail("%s", err)
	}
	acts, err := m.loaded(lines, cluster)
	if err != nil {
		return m.fail("%s: %s", file, err)
	}
	if len(acts) == 0 {
		m.printf(" Nothing new added.\n")
		return 0
	}
	m.printf(" %d changes are needed for the accounts to be as %s says\n", len(acts), file)
	return m.commit(acts)
}

// loaded are the acts that make the policy as a file says. Each is tried at once, so that later lines see earlier ones.
func (m *manager) loaded(lines []slurm.FileLine, cluster string) ([]*events.PolicyAct, error) {
	var acts []*events.PolicyAct
	parent := projections.RootAccount
	do := func(number int, more ...*events.PolicyAct) error {
		next, err := m.p.After(&events.Policy{Acts: more}, m.cfg.GetCluster(), m.w.user(), 0, 0)
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		m.p = next
		acts = append(acts, more...)
		return nil
	}
	for _, l := range lines {
		to := &settings{assoc: &events.PolicySettings{}, own: &events.PolicySettings{}}
		partition := ""
		var coordinates []string
		for _, t := range l.Terms {
			kind := l.Kind
			if slurm.Keyed(t.Key, "defaultaccount", 8) && t.Value == "(null)" {
				continue
			}
			switch {
			case l.Kind == "user" && slurm.Keyed(t.Key, "partition", 4):
				partition = t.Value
				continue
			case l.Kind == "user" && slurm.Keyed(t.Key, "coordinator", 2):
				coordinates = slurm.SplitNames(t.Value, false)
				continue
			case slurm.Keyed(t.Key, "classification", 2):
				continue // Slurm has dropped what it was for
			}
			known, err := m.setting(to, kind, t)
			switch {
			case err != nil:
				return nil, fmt.Errorf("line %d: %w", l.Number, err)
			case !known:
				return nil, fmt.Errorf("line %d: a %s has no %s", l.Number, l.Kind, t.Key)
			}
		}
		here := cmp.Or(cluster, m.cfg.GetCluster())
		where := []string{here}
		place := func(account, user, part string) error {
			a := m.p.Association(here, account, user, part)
			if a == nil {
				set := to.assoc.CloneVT()
				act := &events.PolicyAct{Deed: deedAdd, Kind: events.PolicyKind_POLICY_ASSOCIATION, Accounts: []string{account}, Clusters: where, Set: set}
				if user == "" {
					set.Parent = clonedString(parent)
				} else {
					act.Names, set.DefaultAccount = []string{user}, to.own.DefaultAccount
				}
				if part != "" {
					act.Partitions = []string{part}
				}
				return do(l.Number, act)
			}
			act := &events.PolicyAct{Deed: deedModify, Kind: events.PolicyKind_POLICY_ASSOCIATION, Associations: []uint32{a.Id}, Set: to.assoc}
			if next, err := m.p.After(&events.Policy{Acts: []*events.PolicyAct{act}}, here, "", a.ChangedUs, 0); err == nil && sameAssociation(next.AssociationID(a.Id), a) {
				return nil
			}
			return do(l.Number, act)
		}
		switch l.Kind {
		case "cluster":
			rec := m.p.Cluster(l.Name)
			if rec == nil {
				return nil, fmt.Errorf("line %d: there is no cluster %s here; cluster=%s loads it into this one", l.Number, l.Name, m.cfg.GetCluster())
			}
			if cluster == "" {
				cluster = l.Name
			}
			here, where = cluster, []string{cluster}
			if to.any {
				if err := place(projections.RootAccount, "", ""); err != nil {
					return nil, err
				}
			}
		case "parent":
			if m.p.Association(here, l.Name, "", "") == nil {
				return nil, fmt.Errorf("line %d: there is no account %s yet to be the parent", l.Number, l.Name)
			}
			parent = l.Name
		case "account":
			if m.p.Account(l.Name) == nil {
				own := to.own.CloneVT()
				own.Parent = clonedString(parent)
				if err := do(l.Number, policyAct(deedAdd, events.PolicyKind_POLICY_ACCOUNT, []string{l.Name}, own)); err != nil {
					return nil, err
				}
			}
			if err := place(l.Name, "", ""); err != nil {
				return nil, err
			}
		case "user":
			if m.p.User(l.Name) == nil {
				set := &events.PolicySettings{AdminLevel: to.own.AdminLevel}
				if err := do(l.Number, policyAct(deedAdd, events.PolicyKind_POLICY_USER, []string{l.Name}, set)); err != nil {
					return nil, err
				}
			}
			if err := place(parent, l.Name, partition); err != nil {
				return nil, err
			}
			for _, acct := range coordinates {
				if m.p.Account(acct) == nil {
					return nil, fmt.Errorf("line %d: there is no account %s to coordinate", l.Number, acct)
				}
				if !slices.Contains(m.p.Account(acct).GetCoordinators(), l.Name) {
					a := policyAct(deedAdd, events.PolicyKind_POLICY_COORDINATOR, []string{l.Name}, nil)
					a.Accounts = []string{acct}
					if err := do(l.Number, a); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return acts, nil
}

// sameAssociation says whether two states of an association differ in nothing but when they came about.
func sameAssociation(a, b *projections.Association) bool {
	x, y := a.CloneVT(), b.CloneVT()
	x.ChangedUs, y.ChangedUs = 0, 0
	return x.EqualVT(y)
}

func clonedString(s string) *string { return &s }
