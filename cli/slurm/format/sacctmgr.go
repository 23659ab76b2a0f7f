package format

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stint/cli/slurm"
	"stint/events"
	"stint/events/tres"
	"stint/projections"
)

// The formats of sacctmgr's tables, by what is shown.
const (
	ManagerAccounts     = "Account,Descr,Org"
	ManagerAccountAssoc = ",Cluster,ParentN,User,Share,Priority,GrpJobs,GrpNodes,GrpCPUs,GrpMem,GrpSubmit,GrpWall,GrpCPUMins,MaxJobs,MaxNodes,MaxCPUs,MaxSubmit,MaxWall,MaxCPUMins,QOS,DefaultQOS"
	ManagerUsers        = "User,DefaultAccount,Admin"
	ManagerUsersKeys    = "User,DefaultAccount,DefaultWCKey,Admin"
	ManagerUserAssoc    = ",Cluster,Account,Partition,Share,Priority,MaxJobs,MaxNodes,MaxCPUs,MaxSubmit,MaxWall,MaxCPUMins,QOS,DefaultQOS"
	ManagerAssoc        = "Cluster,Account,User,Partition,Share,Priority,GrpJobs,GrpTRES,GrpSubmit,GrpWall,GrpTRESMins,MaxJobs,MaxTRES,MaxTRESPerNode,MaxSubmit,MaxWall,MaxTRESMins,QOS,DefaultQOS,GrpTRESRunMins"
	ManagerClusters     = "Cluster,ControlHost,ControlPort,RPC,Share,GrpJobs,GrpTRES,GrpSubmit,MaxJobs,MaxTRES,MaxSubmit,MaxWall,QOS,DefaultQOS"
	ManagerQos          = "Name,Priority,GraceTime,Preempt,PreemptExemptTime,PreemptMode,Flags%40,UsageThreshold,UsageFactor,GrpTRES,GrpTRESMins,GrpTRESRunMins,GrpJobs,GrpSubmit,GrpWall,MaxTRES,MaxTRESPerNode,MaxTRESMins,MaxWall,MaxTRESPU,MaxJobsPU,MaxSubmitPU,MaxTRESPA,MaxJobsPA,MaxSubmitPA,MinTRES"
	ManagerTres         = "Type,Name%15,ID"
	ManagerWckeys       = "WCKey,Cluster,User"
	ManagerTxns         = "Time,Action,Actor,Where,Info"
	ManagerEvents       = "Cluster,NodeName,TimeStart,TimeEnd,State,Reason,User"
	ManagerProblems     = "Cluster,Account,User,Problem"
	ManagerResources    = "Name,Server,Type,Count,Allocated,ServerType"
	ManagerFederations  = "Federation,Cluster,ID%2,Features,FedState"
	ManagerReservations = "Cluster,Name%15,TRES%30,TimeStart,TimeEnd,UnusedWall"
)

// TresText writes a vector of resources as sacctmgr does: in alphabetical order, memory with its unit.
func TresText(list []*events.TresCount) string {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b *events.TresCount) int { return cmp.Compare(a.Tres, b.Tres) })
	var b strings.Builder
	for i, t := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(t.Tres + "=")
		if t.Tres == "mem" || t.Tres == "vmem" {
			b.WriteString(tres.Memory(int64(t.Count), tres.Auto))
			continue
		}
		b.WriteString(strconv.FormatUint(t.Count, 10))
	}
	return b.String()
}

// LimitText writes a limit as a table shows it; nil and what is not limited are empty.
func LimitText(l events.Limit, v *events.LimitValue, resource string) string {
	if v == nil {
		return ""
	}
	switch {
	case resource != "":
		for _, t := range v.Tres {
			if t.Tres == resource {
				if resource == "mem" {
					return tres.Memory(int64(t.Count), tres.Auto)
				}
				return strconv.FormatUint(t.Count, 10)
			}
		}
		return ""
	case len(v.Tres) > 0:
		return TresText(v.Tres)
	}
	switch l {
	case events.Limit_SHARES:
		if v.Value == projections.ParentShares {
			return "parent"
		}
	case events.Limit_GRP_WALL, events.Limit_MAX_WALL:
		return Long(int64(v.Value) * 60)
	case events.Limit_GRACE_TIME, events.Limit_PREEMPT_EXEMPT_TIME:
		return Long(int64(v.Value))
	case events.Limit_USAGE_FACTOR, events.Limit_USAGE_THRESHOLD, events.Limit_LIMIT_FACTOR:
		return fmt.Sprintf("%d.%06d", v.Value/1e6, v.Value%1e6)
	}
	return strconv.FormatUint(v.Value, 10)
}

// AdminText is a level's word.
func AdminText(l events.AdminLevel) string {
	switch l {
	case events.AdminLevel_ADMIN_OPERATOR:
		return "Operator"
	case events.AdminLevel_ADMIN_ADMINISTRATOR:
		return "Administrator"
	}
	return "None"
}

// AssocRow is an association's row. p is what it hangs in: limits are shown as they count. indent is put before the account.
func AssocRow(p *projections.Policy, a *projections.Association, indent int) ManagerRow {
	return func(f *ManagerField) string {
		switch f.Head {
		case "Share":
			if v := projections.LimitOf(a.Limits, events.Limit_SHARES); v != nil {
				return LimitText(events.Limit_SHARES, v, "")
			}
			return "1"
		case "Account":
			return strings.Repeat(" ", indent) + a.Account
		case "Cluster":
			return a.Cluster
		case "User":
			return a.User
		case "Partition":
			return a.Partition
		case "ParentName":
			if a.User != "" {
				return ""
			}
			return p.AssociationID(a.Parent).GetAccount()
		case "Par ID":
			return plainNumber(a.Parent)
		case "ID":
			return plainNumber(a.Id)
		case "QOS":
			return strings.Join(p.AllowedQos(a), ",")
		case "QOS_RAW":
			var ids []string
			for _, q := range p.AllowedQos(a) {
				ids = append(ids, plainNumber(p.QosNamed(q).GetId()))
			}
			return strings.Join(ids, ",")
		case "Def QOS":
			return p.DefaultQos(a)
		case "Comment":
			return a.Comment
		}
		if f.Limit != events.Limit_LIMIT_NONE {
			return LimitText(f.Limit, p.Limit(a, f.Limit), f.Tres)
		}
		return ""
	}
}

func plainNumber(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// AccountRow is an account's row; with an association, that too.
func AccountRow(p *projections.Policy, rec *projections.Account, a *projections.Association) ManagerRow {
	return func(f *ManagerField) string {
		switch f.Head {
		case "Account":
			return rec.Name
		case "Descr":
			return rec.Description
		case "Org":
			return rec.Organization
		case "Coord Accounts":
			return strings.Join(rec.Coordinators, ",")
		}
		if a != nil {
			return AssocRow(p, a, 0)(f)
		}
		return ""
	}
}

// UserRow is a user's row; with an association, that too.
func UserRow(p *projections.Policy, cluster string, u *projections.User, a *projections.Association) ManagerRow {
	return func(f *ManagerField) string {
		switch f.Head {
		case "User", "Name":
			return u.Name
		case "Def Acct":
			return defaults(u, cluster).GetAccount()
		case "Def WCKey":
			return defaults(u, cluster).GetWckey()
		case "Admin":
			return AdminText(u.AdminLevel)
		case "Coord Accounts":
			var list []string
			p.EachAccount(func(rec *projections.Account) bool {
				if slices.Contains(rec.Coordinators, u.Name) {
					list = append(list, rec.Name)
				}
				return true
			})
			slices.Sort(list)
			return strings.Join(list, ",")
		}
		if a != nil {
			return AssocRow(p, a, 0)(f)
		}
		return ""
	}
}

func defaults(u *projections.User, cluster string) *projections.UserDefault {
	for _, d := range u.GetDefaults() {
		if d.Cluster == cluster {
			return d
		}
	}
	return nil
}

// QosRow is a QoS's row.
func QosRow(q *projections.Qos) ManagerRow {
	return func(f *ManagerField) string {
		switch f.Head {
		case "Name":
			return q.Name
		case "Descr":
			return q.Description
		case "ID":
			return plainNumber(q.Id)
		case "Preempt":
			return strings.Join(q.Preempt, ",")
		case "PreemptMode":
			return cmp.Or(q.PreemptMode, "cluster")
		case "Flags":
			return strings.Join(orderedFlags(q.Flags), ",")
		}
		if f.Limit == events.Limit_LIMIT_NONE {
			return ""
		}
		v := projections.LimitOf(q.Limits, f.Limit)
		if v == nil {
			switch f.Limit {
			case events.Limit_PRIORITY_VALUE:
				return "0"
			case events.Limit_GRACE_TIME:
				return "00:00:00"
			case events.Limit_USAGE_FACTOR:
				return "1.000000"
			}
		}
		return LimitText(f.Limit, v, f.Tres)
	}
}

// orderedFlags are the flags of a QoS in the order of slurm.QosFlags.
func orderedFlags(flags []string) []string {
	var out []string
	for _, known := range slurm.QosFlags {
		if slices.Contains(flags, known) {
			out = append(out, known)
		}
	}
	return out
}

// ClusterRow is a cluster's row, with the limits of its root. host is where its controller is, own the cluster that was asked.
func ClusterRow(p *projections.Policy, c *projections.ClusterName, own bool, host, port string) ManagerRow {
	root := p.AssociationID(c.Root)
	return func(f *ManagerField) string {
		switch f.Head {
		case "Cluster", "Name":
			return c.Name
		case "ControlHost":
			if own {
				return host
			}
			return ""
		case "PluginIDSelect":
			if own {
				return "109" // select/cons_tres, the one there is
			}
			return "0"
		case "Class":
			return ""
		case "ControlPort":
			if own {
				return port
			}
			return "0"
		case "RPC":
			if own {
				return "9728"
			}
			return "0"
		}
		if root != nil {
			return AssocRow(p, root, 0)(f)
		}
		return ""
	}
}

// AssocTree puts associations into the order of their tree: users before accounts, by name; what has no parent among them
// begins a tree of its own. depth is how far each is below its tree's root.
func AssocTree(list []*projections.Association) (sorted []*projections.Association, depth []int) {
	in := make(map[uint32]bool, len(list))
	for _, a := range list {
		in[a.Id] = true
	}
	below := map[uint32][]*projections.Association{}
	var tops []*projections.Association
	for _, a := range list {
		if a.Parent != 0 && in[a.Parent] {
			below[a.Parent] = append(below[a.Parent], a)
			continue
		}
		tops = append(tops, a)
	}
	order := func(x, y *projections.Association) int {
		if (x.User == "") != (y.User == "") {
			if x.User != "" {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(x.Cluster, y.Cluster), cmp.Compare(cmp.Or(x.User, x.Account), cmp.Or(y.User, y.Account)))
	}
	var walk func(level []*projections.Association, d int)
	walk = func(level []*projections.Association, d int) {
		slices.SortStableFunc(level, order)
		for _, a := range level {
			sorted, depth = append(sorted, a), append(depth, d)
			// A user is drawn at the depth of the account.
			walk(below[a.Id], d+1)
		}
	}
	walk(tops, 0)
	return sorted, depth
}

// TresID is one resource that is counted: type, name and number.
type TresID struct {
	Type, Name string
	ID         int
}

// TresIDs are the resources that a cluster counts, with their numbers.
func TresIDs(cfg *events.Config) []TresID {
	var out []TresID
	add := func(full string, id int) {
		kind, name, _ := strings.Cut(full, "/")
		out = append(out, TresID{kind, name, id})
	}
	for i, name := range projections.BaseTres {
		add(name, i+1)
	}
	next := 1001
	for _, name := range cfg.GetAccountingTres() {
		if !slices.Contains(projections.BaseTres, name) {
			add(name, next)
			next++
		}
	}
	return out
}

// TresNames are the names of the resources that a cluster counts.
func TresNames(cfg *events.Config) []string {
	var out []string
	for _, t := range TresIDs(cfg) {
		if t.Name != "" {
			out = append(out, t.Type+"/"+t.Name)
		} else {
			out = append(out, t.Type)
		}
	}
	return out
}
