package format

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stint/events"
	"stint/events/tres"
	"stint/projections"
)

// AssocUse is what the queue holds of a limit's subject.
type AssocUse struct {
	Running, Submitted int
	Tres               tres.List // of what runs
}

// AssocMgr is what scontrol show assoc_mgr prints from. Usage over time is the ledger's and no part of it: what is shown of it
// is zero.
type AssocMgr struct {
	Policy  *projections.Policy
	Config  *events.Config
	Jobs    []*projections.JobView
	Uid     func(user string) string // the number of a user's name
	Users   bool
	Assocs  bool
	Qos     bool
	Named   []string // of these users; empty: all
	Account []string
	QosName []string
	OneLine bool
}

// Print writes the records.
func (m *AssocMgr) Print() string {
	var b strings.Builder
	b.WriteString("Current Association Manager state\n")
	if m.Users {
		m.users(&b)
	}
	if m.Assocs {
		m.associations(&b)
	}
	if m.Qos {
		m.qos(&b)
	}
	return b.String()
}

func (m *AssocMgr) users(b *strings.Builder) {
	b.WriteString("\nUser Records\n\n")
	m.Policy.EachUser(func(u *projections.User) bool {
		if len(m.Named) > 0 && !slices.Contains(m.Named, u.Name) {
			return true
		}
		d := m.Policy.Default(u.Name, m.Config.GetCluster())
		level := AdminText(u.AdminLevel)
		if u.AdminLevel == events.AdminLevel_ADMIN_NONE {
			level = "Not Set"
		}
		fmt.Fprintf(b, "UserName=%s(%s) DefAccount=%s DefWckey=%s AdminLevel=%s\n", u.Name, m.Uid(u.Name), cmp.Or(d.GetAccount(), "(null)"), cmp.Or(d.GetWckey(), "(null)"), level)
		return true
	})
}

// shown says whether an association is one of those asked for, or above one.
func (m *AssocMgr) shown() map[uint32]bool {
	if len(m.Named) == 0 && len(m.Account) == 0 && len(m.QosName) == 0 {
		return nil
	}
	in := map[uint32]bool{}
	m.Policy.EachAssociation(func(a *projections.Association) bool {
		if len(m.Named) > 0 && !slices.Contains(m.Named, a.User) || len(m.Account) > 0 && !slices.Contains(m.Account, a.Account) {
			return true
		}
		if len(m.QosName) > 0 && !slices.ContainsFunc(m.Policy.AllowedQos(a), func(q string) bool { return slices.Contains(m.QosName, q) }) {
			return true
		}
		for up := a; up != nil && !in[up.Id]; up = m.Policy.AssociationID(up.Parent) {
			in[up.Id] = true
		}
		return true
	})
	return in
}

// uses sums up the queue by association, those above included.
func (m *AssocMgr) uses() map[uint32]*AssocUse {
	out := map[uint32]*AssocUse{}
	for _, v := range m.Jobs {
		j := v.GetJob()
		part, _, _ := strings.Cut(j.GetSpec().GetPartition(), ",")
		for a := m.Policy.Place(m.Config.GetCluster(), j.GetSpec().GetAccount(), j.GetOwner().GetUser(), part); a != nil; a = m.Policy.AssociationID(a.Parent) {
			out[a.Id] = using(out[a.Id], j)
		}
	}
	return out
}

func using(u *AssocUse, j *projections.Job) *AssocUse {
	if u == nil {
		u = &AssocUse{}
	}
	u.Submitted++
	if j.GetState() == events.JobState_RUNNING || j.GetState() == events.JobState_SUSPENDED {
		u.Running++
		nodes := len(j.GetAllocation().NodeNames())
		cpus, mem := int64(0), int64(0)
		j.GetAllocation().Each(func(_ int, _ string, s *events.NodeShare) bool {
			cpus += int64(events.Words(s.GetCpus()).Count())
			mem += int64(s.GetMemoryMib())
			for _, g := range s.GetGres() {
				n := int64(events.Words(g.GetIds()).Count())
				u.Tres = u.Tres.Plus(tres.List{{Name: "gres/" + g.GetName(), Count: n}})
				if g.GetType() != "" {
					u.Tres = u.Tres.Plus(tres.List{{Name: "gres/" + g.GetName() + ":" + g.GetType(), Count: n}})
				}
			}
			return true
		})
		for _, it := range []tres.Item{{Name: "cpu", Count: cpus}, {Name: "mem", Count: mem}, {Name: "node", Count: int64(nodes)}, {Name: "billing", Count: cpus}} {
			u.Tres = u.Tres.Plus(tres.List{it})
		}
	}
	return u
}

// pairs writes every resource that the cluster counts with its limit and its use: cpu=8(2),mem=N(100).
func (m *AssocMgr) pairs(v *events.LimitValue, use tres.List) string {
	var out []string
	for _, name := range TresNames(m.Config) {
		limit := "N"
		for _, t := range v.GetTres() {
			if t.Tres == name {
				limit = fmt.Sprint(t.Count)
			}
		}
		out = append(out, fmt.Sprintf("%s=%s(%d)", name, limit, use.Get(name)))
	}
	return strings.Join(out, ",")
}

// limitAndUse writes a number's limit and its use: 3(1), N(1).
func limitAndUse(v *events.LimitValue, use int) string {
	if v == nil {
		return fmt.Sprintf("N(%d)", use)
	}
	return fmt.Sprintf("%d(%d)", v.Value, use)
}

// ownAndUse writes a limit with its use if it is set, else nothing.
func ownAndUse(v *events.LimitValue, use int) string {
	if v == nil {
		return ""
	}
	return limitAndUse(v, use)
}

func bare(v *events.LimitValue) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v.Value)
}

func (m *AssocMgr) associations(b *strings.Builder) {
	b.WriteString("\nAssociation Records\n\n")
	in, uses, p := m.shown(), m.uses(), m.Policy
	lft, n := map[uint32]int{}, 0
	var number func(id uint32)
	number = func(id uint32) {
		n++
		lft[id] = n
		for _, below := range slices.Backward(p.Below(id)) {
			number(below)
		}
		n++
	}
	p.EachCluster(func(c *projections.ClusterName) bool { number(c.Root); return true })
	var all []*projections.Association
	p.EachAssociation(func(a *projections.Association) bool {
		if in == nil || in[a.Id] {
			all = append(all, a)
		}
		return true
	})
	list, _ := AssocTree(all)
	shares := func(a *projections.Association) uint64 {
		if v := projections.LimitOf(a.Limits, events.Limit_SHARES); v != nil {
			return v.Value
		}
		return 1
	}
	for _, a := range list {
		use := uses[a.Id]
		if use == nil {
			use = &AssocUse{}
		}
		user, def, parent := "", "No", ""
		if a.User != "" {
			user = fmt.Sprintf("%s(%s)", a.User, m.Uid(a.User))
			if p.Default(a.User, a.Cluster).GetAccount() == a.Account {
				def = "Yes"
			}
		} else if up := p.AssociationID(a.Parent); up != nil {
			parent = fmt.Sprintf("%s(%d)", up.Account, up.Id)
		}
		level, norm := shares(a), 0.0
		if a.Parent != 0 {
			level = 0
			for _, id := range p.Below(a.Parent) {
				if s := shares(p.AssociationID(id)); s != projections.ParentShares {
					level += s
				}
			}
			if level > 0 && shares(a) != projections.ParentShares {
				norm = float64(shares(a)) / float64(level)
			}
		}
		sep := "\n    "
		if m.OneLine {
			sep = " "
		}
		limit := func(l events.Limit) *events.LimitValue { return p.Limit(a, l) }
		lines := []string{
			fmt.Sprintf("ClusterName=%s Account=%s UserName=%s Partition=%s Priority=%s ID=%d", a.Cluster, a.Account, user, a.Partition, cmp.Or(bare(limit(events.Limit_PRIORITY_VALUE)), "0"), a.Id),
			fmt.Sprintf("SharesRaw/Norm/Level/Factor=%d/%.2f/%d/0.00", shares(a), norm, level),
			"UsageRaw/Norm/Efctv=0.00/0.00/0.00",
			fmt.Sprintf("ParentAccount=%s Lft=%d DefAssoc=%s", parent, lft[a.Id], def),
			fmt.Sprintf("GrpJobs=%s GrpJobsAccrue=%s", limitAndUse(limit(events.Limit_GRP_JOBS), use.Running), limitAndUse(limit(events.Limit_GRP_JOBS_ACCRUE), use.Submitted-use.Running)),
			fmt.Sprintf("GrpSubmitJobs=%s GrpWall=%s(0.00)", limitAndUse(limit(events.Limit_GRP_SUBMIT), use.Submitted), cmp.Or(bare(limit(events.Limit_GRP_WALL)), "N")),
			"GrpTRES=" + m.pairs(limit(events.Limit_GRP_TRES), use.Tres),
			"GrpTRESMins=" + m.pairs(limit(events.Limit_GRP_TRES_MINS), nil),
			"GrpTRESRunMins=" + m.pairs(limit(events.Limit_GRP_TRES_RUN_MINS), nil),
			fmt.Sprintf("MaxJobs=%s MaxJobsAccrue=%s MaxSubmitJobs=%s MaxWallPJ=%s", ownAndUse(limit(events.Limit_MAX_JOBS), use.Running), ownAndUse(limit(events.Limit_MAX_JOBS_ACCRUE), use.Submitted-use.Running),
				ownAndUse(limit(events.Limit_MAX_SUBMIT), use.Submitted), bare(limit(events.Limit_MAX_WALL))),
			"MaxTRESPJ=" + TresText(limit(events.Limit_MAX_TRES_PER_JOB).GetTres()),
			"MaxTRESPN=" + TresText(limit(events.Limit_MAX_TRES_PER_NODE).GetTres()),
			"MaxTRESMinsPJ=" + TresText(limit(events.Limit_MAX_TRES_MINS_PER_JOB).GetTres()),
			"MinPrioThresh=" + bare(limit(events.Limit_MIN_PRIO_THRESHOLD)),
		}
		b.WriteString(strings.Join(lines, sep) + "\n")
	}
}

func (m *AssocMgr) qos(b *strings.Builder) {
	b.WriteString("\nQOS Records\n\n")
	use := map[string]*AssocUse{}
	by := map[string]map[string]*AssocUse{} // by QoS, then "a account" or "u user"
	for _, v := range m.Jobs {
		j := v.GetJob()
		q := j.GetSpec().GetQos()
		use[q] = using(use[q], j)
		if by[q] == nil {
			by[q] = map[string]*AssocUse{}
		}
		for _, key := range []string{"a " + j.GetSpec().GetAccount(), "u " + m.Uid(j.GetOwner().GetUser())} {
			by[q][key] = using(by[q][key], j)
		}
	}
	m.Policy.EachQos(func(q *projections.Qos) bool {
		if len(m.QosName) > 0 && !slices.Contains(m.QosName, q.Name) {
			return true
		}
		u := use[q.Name]
		if u == nil {
			u = &AssocUse{}
		}
		limit := func(l events.Limit) *events.LimitValue { return projections.LimitOf(q.Limits, l) }
		sep := "\n    "
		if m.OneLine {
			sep = " "
		}
		lines := []string{
			fmt.Sprintf("QOS=%s(%d)", q.Name, q.Id), "UsageRaw=0.000000",
			fmt.Sprintf("GrpJobs=%s GrpJobsAccrue=%s GrpSubmitJobs=%s GrpWall=%s(0.00)", limitAndUse(limit(events.Limit_GRP_JOBS), u.Running), limitAndUse(limit(events.Limit_GRP_JOBS_ACCRUE), u.Submitted-u.Running),
				limitAndUse(limit(events.Limit_GRP_SUBMIT), u.Submitted), cmp.Or(bare(limit(events.Limit_GRP_WALL)), "N")),
			"GrpTRES=" + m.pairs(limit(events.Limit_GRP_TRES), u.Tres),
			"GrpTRESMins=" + m.pairs(limit(events.Limit_GRP_TRES_MINS), nil),
			"GrpTRESRunMins=" + m.pairs(limit(events.Limit_GRP_TRES_RUN_MINS), nil),
			"MaxWallPJ=" + bare(limit(events.Limit_MAX_WALL)),
			"MaxTRESPJ=" + TresText(limit(events.Limit_MAX_TRES_PER_JOB).GetTres()),
			"MaxTRESPN=" + TresText(limit(events.Limit_MAX_TRES_PER_NODE).GetTres()),
			"MaxTRESMinsPJ=" + TresText(limit(events.Limit_MAX_TRES_MINS_PER_JOB).GetTres()),
			"MinPrioThresh= " + bare(limit(events.Limit_MIN_PRIO_THRESHOLD)),
			"MinTRESPJ=" + TresText(limit(events.Limit_MIN_TRES_PER_JOB).GetTres()),
			"PreemptMode=" + strings.ToUpper(cmp.Or(q.PreemptMode, "off")),
			"Priority=" + cmp.Or(bare(limit(events.Limit_PRIORITY_VALUE)), "0"),
		}
		b.WriteString(strings.Join(lines, sep) + "\n")
		m.each(b, "Account", "a ", "PA", by[q.Name], limit(events.Limit_MAX_JOBS_PER_ACCOUNT), limit(events.Limit_MAX_JOBS_ACCRUE_PER_ACCOUNT), limit(events.Limit_MAX_SUBMIT_PER_ACCOUNT), limit(events.Limit_MAX_TRES_PER_ACCOUNT))
		m.each(b, "User", "u ", "PU", by[q.Name], limit(events.Limit_MAX_JOBS_PER_USER), limit(events.Limit_MAX_JOBS_ACCRUE_PER_USER), limit(events.Limit_MAX_SUBMIT_PER_USER), limit(events.Limit_MAX_TRES_PER_USER))
		return true
	})
}

// each writes what each account, or user, has of a QoS now.
func (m *AssocMgr) each(b *strings.Builder, what, prefix, short string, by map[string]*AssocUse, jobs, accrue, submit, vector *events.LimitValue) {
	fmt.Fprintf(b, "    %s Limits\n", what)
	var keys []string
	for k := range by {
		if strings.HasPrefix(k, prefix) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		fmt.Fprintf(b, "        No %ss\n", what)
		return
	}
	slices.Sort(keys)
	for _, k := range keys {
		u := by[k]
		fmt.Fprintf(b, "      %s\n        MaxJobs%[2]s=%[3]s MaxJobsAccrue%[2]s=%[4]s MaxSubmitJobs%[2]s=%[5]s\n        MaxTRES%[2]s=%[6]s\n", strings.TrimPrefix(k, prefix), short,
			limitAndUse(jobs, u.Running), limitAndUse(accrue, u.Submitted-u.Running), limitAndUse(submit, u.Submitted), m.pairs(vector, u.Tres))
	}
}
