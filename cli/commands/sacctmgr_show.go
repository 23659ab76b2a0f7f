package commands

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/projections"
)

// query is what `show` was told.
type query struct {
	format                                                     string
	names, accounts, users, clusters, partitions, qos, parents []string
	wckeys, defaults, levels, ids, organizations, descriptions []string
	withAssoc, withCoord, deleted, tree, sub, onlyDefaults     bool
	withoutParentInfo, withoutParentLimits, raw                bool
	types, defaultQos, nodes, states, kinds                    []string
	start, end                                                 string
	all                                                        bool // of all time
}

// conditionKeys are what rows can be chosen by, with how many letters are enough.
var conditionKeys = []struct {
	key   string
	least int
	field func(*query) *[]string
}{
	{"accounts", 2, func(q *query) *[]string { return &q.accounts }},
	{"acct", 4, func(q *query) *[]string { return &q.accounts }},
	{"adminlevel", 2, func(q *query) *[]string { return &q.levels }},
	{"associations", 3, func(q *query) *[]string { return &q.ids }},
	{"clusters", 1, func(q *query) *[]string { return &q.clusters }},
	{"defaultaccounts", 8, func(q *query) *[]string { return &q.defaults }},
	{"defaultqos", 8, func(q *query) *[]string { return &q.defaultQos }},
	{"descriptions", 3, func(q *query) *[]string { return &q.descriptions }},
	{"ids", 1, func(q *query) *[]string { return &q.ids }},
	{"names", 1, func(q *query) *[]string { return &q.names }},
	{"organizations", 1, func(q *query) *[]string { return &q.organizations }},
	{"parents", 4, func(q *query) *[]string { return &q.parents }},
	{"partitions", 4, func(q *query) *[]string { return &q.partitions }},
	{"qoslevel", 1, func(q *query) *[]string { return &q.qos }},
	{"users", 1, func(q *query) *[]string { return &q.users }},
	{"wckeys", 1, func(q *query) *[]string { return &q.wckeys }},
}

var conditionFlags = []struct {
	key   string
	least int
	field func(*query) *bool
}{
	{"tree", 4, func(q *query) *bool { return &q.tree }},
	{"onlydefaults", 4, func(q *query) *bool { return &q.onlyDefaults }},
	{"withassoc", 5, func(q *query) *bool { return &q.withAssoc }},
	{"withcoordinators", 5, func(q *query) *bool { return &q.withCoord }},
	{"withdeleted", 5, func(q *query) *bool { return &q.deleted }},
	{"withrawqoslevel", 5, func(q *query) *bool { return &q.raw }},
	{"withsubaccounts", 5, func(q *query) *bool { return &q.sub }},
	{"wopinfo", 4, func(q *query) *bool { return &q.withoutParentInfo }},
	{"woplimits", 4, func(q *query) *bool { return &q.withoutParentLimits }},
}

// flag sets the flag that a word names.
func (q *query) flag(word string) bool {
	for _, f := range conditionFlags {
		if slurm.Keyed(word, f.key, f.least) {
			*f.field(q) = true
			return true
		}
	}
	return false
}

// condition reads key=value.
func (q *query) condition(t slurm.Term) bool {
	for _, c := range conditionKeys {
		if slurm.Keyed(t.Key, c.key, c.least) {
			to := c.field(q)
			*to = append(*to, slurm.SplitNames(t.Value, false)...)
			return true
		}
	}
	return false
}

// readQuery reads what follows the entity. names are words alone.
func readQuery(words []string, entity string) (*query, error) {
	q := &query{}
	for _, t := range slurm.ParseTerms(words) {
		switch {
		case t.Set:
			return nil, fmt.Errorf("show changes nothing: `set` belongs to modify")
		case t.Key == "" && q.flag(t.Value):
		case t.Key == "" && entity == "event" && (slurm.Keyed(t.Value, "all_clusters", 5) || slurm.Keyed(t.Value, "all_time", 5)):
			q.all = q.all || slurm.Keyed(t.Value, "all_time", 5)
		case t.Key == "":
			q.names = append(q.names, slurm.SplitNames(t.Value, entity == "cluster")...)
		case slurm.Keyed(t.Key, "format", 1):
			q.format = strings.Trim(q.format+","+t.Value, ",")
		case (entity == "event" || entity == "transaction") && q.ofTime(t), entity == "tres" && slurm.Keyed(t.Key, "type", 1):
			if entity == "tres" {
				q.types = append(q.types, slurm.SplitNames(t.Value, false)...)
			}
		case q.condition(t):
		default:
			return nil, fmt.Errorf("Unknown condition: %s=%s", t.Key, t.Value)
		}
	}
	return q, nil
}

func in(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }

func (m *manager) show(words []string) int {
	i := managerEntity(words)
	if i < 0 || managerEntities[i].show == nil {
		return m.wants("show", func(i int) bool { return managerEntities[i].show != nil })
	}
	entity, f := managerEntities[i].name, managerEntities[i].show
	q, err := readQuery(words[1:], entity)
	if err != nil {
		return m.fail("%s", err)
	}
	if entity == "event" && len(q.names) > 0 {
		return m.fail("Unknown condition: %s", q.names[0])
	}
	if m.s.JSON && !managerEntities[i].json {
		return m.fail("sacctmgr show %s --json is not supported by Stint yet", entity)
	}
	q.withAssoc = q.withAssoc || m.s.WithAssoc
	if err := m.look(true); err != nil {
		return m.fail("%s", err)
	}
	return f(m, q)
}

// columns are the query's, or the usual ones.
func (m *manager) columns(q *query, usual string) ([]format.ManagerColumn, bool) {
	cols, err := format.ManagerColumns(cmp.Or(q.format, usual))
	if err != nil {
		m.fail("%s", err)
		return nil, false
	}
	return cols, true
}

// associations are those that a query means, in the order of the tree's lists.
func (m *manager) associations(q *query) []*projections.Association {
	var out []*projections.Association
	under := func(a *projections.Association) bool {
		if len(q.accounts) == 0 || slices.Contains(q.accounts, a.Account) {
			return true
		}
		for up := m.p.AssociationID(a.Parent); q.sub && up != nil; up = m.p.AssociationID(up.Parent) {
			if slices.Contains(q.accounts, up.Account) {
				return true
			}
		}
		return false
	}
	keep := func(a *projections.Association) bool {
		if !under(a) || !in(q.clusters, a.Cluster) || !in(q.ids, strconv.Itoa(int(a.Id))) {
			return false
		}
		if len(q.users) > 0 && !slices.Contains(q.users, a.User) || len(q.partitions) > 0 && !slices.Contains(q.partitions, a.Partition) {
			return false
		}
		if len(q.parents) > 0 && (a.User != "" || !slices.Contains(q.parents, m.p.AssociationID(a.Parent).GetAccount())) {
			return false
		}
		if len(q.qos) > 0 && !slices.ContainsFunc(m.p.AllowedQos(a), func(n string) bool { return slices.Contains(q.qos, n) }) {
			return false
		}
		if len(q.defaultQos) > 0 && !slices.Contains(q.defaultQos, a.DefaultQos) {
			return false
		}
		return !q.onlyDefaults || a.User != "" && m.p.Default(a.User, a.Cluster).GetAccount() == a.Account
	}
	m.p.EachAssociation(func(a *projections.Association) bool {
		if keep(a) {
			out = append(out, a)
		}
		return true
	})
	if q.deleted {
		for _, a := range m.p.Deleted().Associations {
			if keep(a) {
				out = append(out, a)
			}
		}
	}
	return out
}

func (m *manager) showAssociations(q *query) int {
	q.ids = append(q.ids, q.names...)
	cols, ok := m.columns(q, format.ManagerAssoc)
	if !ok {
		return 1
	}
	list, depth := format.AssocTree(m.associations(q))
	if q.tree {
		for i := range cols {
			if cols[i].Head == "Account" && cols[i].Width == 10 {
				cols[i].Width = -20
			}
		}
	}
	var nested map[uint32][2]int
	if slices.ContainsFunc(cols, func(c format.ManagerColumn) bool { return c.Head == "LFT" || c.Head == "RGT" }) {
		nested = m.p.Nested()
	}
	row := func(i int) format.ManagerRow {
		indent := 0
		if q.tree {
			indent = depth[i]
		}
		if q.withoutParentLimits {
			return format.AssocRow(m.p, alone(list[i]), indent)
		}
		r := format.AssocRow(m.p, list[i], indent)
		if nested != nil {
			r = nestedRow(r, nested[list[i].Id])
		}
		if !q.withoutParentInfo {
			return r
		}
		return func(f *format.ManagerField) string {
			if f.Head == "ParentName" || f.Head == "Par ID" {
				return ""
			}
			return r(f)
		}
	}
	if m.s.JSON {
		return m.json("associations", cols, len(list), row)
	}
	m.print(cols, len(list), row)
	return 0
}

// nestedRow adds an association's place in the tree as nested sets.
func nestedRow(r format.ManagerRow, at [2]int) format.ManagerRow {
	return func(f *format.ManagerField) string {
		switch f.Head {
		case "LFT":
			return strconv.Itoa(at[0])
		case "RGT":
			return strconv.Itoa(at[1])
		}
		return r(f)
	}
}

// alone is an association with what it sets itself, and nothing inherited.
func alone(a *projections.Association) *projections.Association {
	own := a.CloneVT()
	own.Parent, own.HasQos = 0, true
	return own
}

func (m *manager) showAccounts(q *query) int {
	usual := format.ManagerAccounts
	if q.withCoord {
		usual += ",Coord"
	}
	if q.withAssoc {
		usual += format.ManagerAccountAssoc
	}
	cols, ok := m.columns(q, usual)
	if !ok {
		return 1
	}
	names := slices.Concat(q.names, q.accounts)
	var list []*projections.Account
	for _, a := range m.raw.Accounts {
		if (!a.Deleted || q.deleted) && in(names, a.Name) && in(q.organizations, a.Organization) && in(q.descriptions, a.Description) {
			list = append(list, a)
		}
	}
	slices.SortStableFunc(list, func(a, b *projections.Account) int { return cmp.Compare(a.Name, b.Name) })
	var rows []format.ManagerRow
	q.accounts = nil
	places := byAccount(q, m)
	for _, a := range list {
		if !q.withAssoc || len(places[a.Name]) == 0 {
			if q.withAssoc && len(q.users)+len(q.clusters)+len(q.partitions) > 0 {
				continue
			}
			rows = append(rows, format.AccountRow(m.p, a, nil))
			continue
		}
		for _, place := range places[a.Name] {
			rows = append(rows, format.AccountRow(m.p, a, place))
		}
	}
	at := func(i int) format.ManagerRow { return rows[i] }
	if m.s.JSON {
		return m.json("accounts", cols, len(rows), at)
	}
	m.print(cols, len(rows), at)
	return 0
}

func byAccount(q *query, m *manager) map[string][]*projections.Association {
	out := map[string][]*projections.Association{}
	if q.withAssoc {
		for _, a := range m.associations(q) {
			out[a.Account] = append(out[a.Account], a)
		}
	}
	return out
}

func (m *manager) showUsers(q *query) int {
	usual := format.ManagerUsers
	if m.cfg.GetTrackWckey() {
		usual = format.ManagerUsersKeys
	}
	if q.withCoord {
		usual += ",Coord"
	}
	if q.withAssoc {
		usual += format.ManagerUserAssoc
	}
	cols, ok := m.columns(q, usual)
	if !ok {
		return 1
	}
	names := slices.Concat(q.names, q.users)
	cluster := m.cfg.GetCluster()
	var list []*projections.User
	for _, u := range m.raw.Users {
		if (!u.Deleted || q.deleted) && in(names, u.Name) && (len(q.levels) == 0 || slices.ContainsFunc(q.levels, func(l string) bool {
			return slurm.Keyed(l, format.AdminText(u.AdminLevel), 1)
		})) && (len(q.defaults) == 0 || slices.Contains(q.defaults, m.p.Default(u.Name, cluster).GetAccount())) {
			list = append(list, u)
		}
	}
	slices.SortStableFunc(list, func(a, b *projections.User) int { return cmp.Compare(a.Name, b.Name) })
	var rows []format.ManagerRow
	held := map[string][]*projections.Association{}
	chosen := q.withAssoc || len(q.accounts)+len(q.partitions) > 0
	if chosen {
		q.users = nil
		for _, a := range m.associations(q) {
			if a.User != "" {
				held[a.User] = append(held[a.User], a)
			}
		}
	}
	for _, u := range list {
		switch {
		case chosen && len(q.accounts)+len(q.partitions) > 0 && len(held[u.Name]) == 0:
		case !q.withAssoc || len(held[u.Name]) == 0:
			rows = append(rows, format.UserRow(m.p, cluster, u, nil))
		default:
			for _, a := range held[u.Name] {
				rows = append(rows, format.UserRow(m.p, cluster, u, a))
			}
		}
	}
	at := func(i int) format.ManagerRow { return rows[i] }
	if m.s.JSON {
		return m.json("users", cols, len(rows), at)
	}
	m.print(cols, len(rows), at)
	return 0
}

func (m *manager) showQos(q *query) int {
	cols, ok := m.columns(q, format.ManagerQos)
	if !ok {
		return 1
	}
	var list []*projections.Qos
	for _, rec := range m.raw.Qos {
		if (!rec.Deleted || q.deleted) && in(q.names, strings.ToLower(rec.Name)) && in(q.ids, strconv.Itoa(int(rec.Id))) && in(q.descriptions, rec.Description) {
			list = append(list, rec)
		}
	}
	at := func(i int) format.ManagerRow { return format.QosRow(list[i]) }
	if m.s.JSON {
		return m.json("qos", cols, len(list), at)
	}
	m.print(cols, len(list), at)
	return 0
}

func (m *manager) showClusters(q *query) int {
	cols, ok := m.columns(q, format.ManagerClusters)
	if !ok {
		return 1
	}
	host, port := m.who, "6817"
	if list := m.cfg.GetControllers(); len(list) > 0 {
		host = list[0]
	}
	for _, s := range m.cfg.GetSettings() {
		switch strings.ToLower(s.Key) {
		case "slurmctldport":
			port = s.Value
		case "slurmctldhost":
			if _, addr, ok := strings.Cut(s.Value, "("); ok {
				host = strings.TrimSuffix(addr, ")")
			}
		}
	}
	names := slices.Concat(q.names, q.clusters)
	var rows []format.ManagerRow
	m.p.EachCluster(func(c *projections.ClusterName) bool {
		if in(names, c.Name) {
			rows = append(rows, format.ClusterRow(m.p, c, c.Name == m.cfg.GetCluster(), host, port))
		}
		return true
	})
	at := func(i int) format.ManagerRow { return rows[i] }
	if m.s.JSON {
		return m.json("clusters", cols, len(rows), at)
	}
	m.print(cols, len(rows), at)
	return 0
}

// simple is a row from heads and values.
func simple(pairs ...string) format.ManagerRow {
	return func(f *format.ManagerField) string {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == f.Head {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func (m *manager) showTres(q *query) int {
	cols, ok := m.columns(q, format.ManagerTres)
	if !ok {
		return 1
	}
	var rows []format.ManagerRow
	for _, t := range format.TresIDs(m.cfg) {
		if in(q.ids, strconv.Itoa(t.ID)) && in(q.names, t.Name) && in(q.types, t.Type) {
			rows = append(rows, simple("Type", t.Type, "Name", t.Name, "ID", strconv.Itoa(t.ID)))
		}
	}
	at := func(i int) format.ManagerRow { return rows[i] }
	if m.s.JSON {
		return m.json("tres", cols, len(rows), at)
	}
	m.print(cols, len(rows), at)
	return 0
}

func (m *manager) showWckeys(q *query) int {
	cols, ok := m.columns(q, format.ManagerWckeys)
	if !ok {
		return 1
	}
	var rows []format.ManagerRow
	for _, k := range m.raw.Wckeys {
		if (!k.Deleted || q.deleted) && in(slices.Concat(q.names, q.wckeys), k.Name) && in(q.users, k.User) && in(q.clusters, k.Cluster) {
			name := k.Name
			if m.p.Default(k.User, k.Cluster).GetWckey() == k.Name {
				name = "*" + name
			}
			rows = append(rows, simple("WCKey", name, "Cluster", k.Cluster, "User", k.User, "ID", strconv.Itoa(int(k.Id))))
		}
	}
	at := func(i int) format.ManagerRow { return rows[i] }
	if m.s.JSON {
		return m.json("wckeys", cols, len(rows), at)
	}
	m.print(cols, len(rows), at)
	return 0
}

func (m *manager) showTransactions(q *query) int {
	cols, ok := m.columns(q, format.ManagerTxns)
	if !ok {
		return 1
	}
	from, to, err := q.window(m.w)
	if err != nil {
		return m.fail("%s", err)
	}
	var rows []format.ManagerRow
	for _, t := range m.raw.Transactions {
		if t.AtUs < from || to != 0 && t.AtUs >= to {
			continue
		}
		if in(slices.Concat(q.users, q.names), t.Actor) && (len(q.accounts) == 0 || slices.ContainsFunc(q.accounts, func(a string) bool { return strings.Contains(t.Where+t.Info, a) })) {
			rows = append(rows, simple("Time", m.w.clock().Time(t.AtUs, "Unknown"), "Action", t.Action, "Actor", t.Actor, "Where", t.Where, "Info", t.Info))
		}
	}
	m.print(cols, len(rows), func(i int) format.ManagerRow { return rows[i] })
	return 0
}

// began is when the cluster was first known.
func (m *manager) began() int64 { return m.p.Cluster(m.cfg.GetCluster()).GetCreatedUs() }

// showProblems shows accounts without users and users without accounts.
func (m *manager) showProblems(q *query) int {
	cols, ok := m.columns(q, format.ManagerProblems)
	if !ok {
		return 1
	}
	m.print(cols, 0, nil)
	return 0
}

// nothingOf shows a table of what there is none of here.
func nothingOf(usual string) func(*manager, *query) int {
	return func(m *manager, q *query) int {
		cols, ok := m.columns(q, usual)
		if !ok {
			return 1
		}
		m.print(cols, 0, nil)
		return 0
	}
}

func (m *manager) showRunaway(*query) int {
	fmt.Fprintf(&m.out, "Runaway Jobs: No runaway jobs found on cluster %s\n", m.cfg.GetCluster())
	return 0
}

// showStats: no database is asked here, so there is nothing that could be measured but how long the log has been kept.
func (m *manager) showStats(*query) int {
	line := strings.Repeat("*", 67)
	at, since := m.w.Now, m.began()
	fmt.Fprintf(&m.out, "%s\nsacctmgr show stats output at %s (%d)\nData since                    %s (%d)\nAll statistics are in microseconds\n%s\n",
		line, at.Format("Mon Jan _2 15:04:05 2006"), at.Unix(), m.w.clock().Time(since, "Unknown"), since/1e6, line)
	fmt.Fprintf(&m.out, "\nThere is no slurmdbd: the ledger follows the log. `stint status` says how far it is.\n")
	return 0
}

func (m *manager) showConfiguration(*query) int {
	setting := func(name, none string) string {
		for _, s := range m.cfg.GetSettings() {
			if strings.EqualFold(s.Key, name) && s.Value != "" {
				return s.Value
			}
		}
		return none
	}
	yes := map[bool]string{true: "Yes", false: "No"}
	fmt.Fprintf(&m.out, "Configuration data as of %s\n", m.w.Now.Format("2006-01-02T15:04:05"))
	line := func(name, value string) { fmt.Fprintf(&m.out, "%-22s = %s\n", name, value) }
	loose := func(name, value string) { fmt.Fprintf(&m.out, "%s  = %s\n", name, value) }
	loose("AccountingStorageBackupHost", setting("AccountingStorageBackupHost", "(null)"))
	loose("AccountingStorageHost", setting("AccountingStorageHost", "localhost"))
	fmt.Fprintf(&m.out, "AccountingStorageParameters = %s\n", setting("AccountingStorageParameters", "(null)"))
	loose("AccountingStoragePass", "(null)")
	loose("AccountingStoragePort", setting("AccountingStoragePort", "6819"))
	loose("AccountingStorageType", setting("AccountingStorageType", "accounting_storage/slurmdbd"))
	loose("AccountingStorageUser", setting("AccountingStorageUser", "N/A"))
	line("AuthType", setting("AuthType", "auth/munge"))
	line("PrivateData", setting("PrivateData", "none"))
	line("SlurmUserId", fmt.Sprintf("%s(%s)", setting("SlurmUser", "root"), uidOf(m.w, setting("SlurmUser", "root"))))
	line("SLURM_VERSION", m.w.Release().Number())
	line("TrackWCKey", yes[m.cfg.GetTrackWckey()])
	fmt.Fprintf(&m.out, "\nThere is no slurmdbd and no file of its own: accounts and limits are acts on the log, jobs are kept by the ledger.\n")
	return 0
}

func uidOf(w *World, name string) string {
	if uid, ok := w.Users.Uid(name); ok {
		return strconv.FormatUint(uint64(uid), 10)
	}
	return "?"
}

// json prints rows for programs: the fields that were shown, by name, under the entity's key.
func (m *manager) json(key string, cols []format.ManagerColumn, n int, row func(int) format.ManagerRow) int {
	m.flush()
	return printJSON(m.w, key, m.cfg.GetCluster(), false, n, func(i int) any {
		r, out := row(i), map[string]string{}
		for _, c := range cols {
			out[strings.ToLower(strings.ReplaceAll(c.Head, " ", "_"))] = r(c.ManagerField)
		}
		return out
	})
}
