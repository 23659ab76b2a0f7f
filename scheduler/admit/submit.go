package admit

import (
	"slices"
	"strings"

	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
	"stint/scheduler/place"
	"stint/scheduler/rank"
)

// latestUs is the last time that may be given: the end of the year 9999.
const latestUs = int64(253_402_300_799_000_000)

// What the configuration leaves out.
const (
	defaultMaxArraySize = 1001
	defaultMaxJobCount  = 10_000
)

// submit judges a submission: the specification with every default applied becomes a job, or it is refused.
func (d *Desk) submit(m *events.Submit) []*events.Fact {
	if len(m.Components) == 0 {
		return d.refused(refuse(events.Code_MALFORMED, "the submission holds no job"))
	}
	if int(d.item.Intent.Ids) != len(m.Components) {
		return d.refused(refuse(events.Code_MALFORMED, "the submission of %d components takes %d ids", len(m.Components), d.item.Intent.Ids))
	}
	specs := make([]*events.JobSpec, len(m.Components))
	for i := range specs {
		specs[i] = m.Components[i].CloneVT()
	}
	if r := d.apart(specs); r != nil {
		return d.refused(r)
	}
	var facts []*events.Fact
	for i, spec := range specs {
		id := d.item.FirstId + uint32(i)
		if d.r.Job(id) != nil {
			continue // a leader before this one was deposed in the midst of it
		}
		if spec.Cron != nil {
			return d.refused(refuse(events.Code_MALFORMED, "a job that recurs is of a crontab; write it with scrontab"))
		}
		if r := d.complete(spec, len(specs)); r != nil {
			return d.refused(r)
		}
		facts = append(facts, d.admitted(id, spec, uint32(i)))
	}
	return facts
}

// admitted is the fact that a job of whoever asks is taken: held, or with its priority. component counts within a heterogeneous job, from 0.
func (d *Desk) admitted(id uint32, spec *events.JobSpec, component uint32) *events.Fact {
	a := &events.Admitted{
		Intent: d.ref(), Job: id, Spec: spec, Component: component,
		Owner: &events.Owner{Uid: d.who.Uid, Gid: d.who.Gid, User: d.who.User, Group: d.who.Group, Groups: d.who.Groups},
	}
	switch {
	case spec.Hold:
		a.Hold = events.HoldKind_HELD_USER
	case spec.HasPriority && spec.Priority == 0:
		a.Hold = events.HoldKind_HELD_ADMIN
	default:
		a.Priority = priorityOf(id, spec)
	}
	return &events.Fact{Kind: &events.Fact_Admitted{Admitted: a}}
}

// apart prepares the components of a heterogeneous job: none is an array, and none gets a node that another names.
func (d *Desk) apart(specs []*events.JobSpec) *refusal {
	if len(specs) == 1 {
		return nil
	}
	named := make([][]string, len(specs))
	for i, s := range specs {
		if s.Array != nil {
			return refuse(events.Code_INVALID_ARRAY, "component %d is an array; a heterogeneous job is none, and has none", i)
		}
		if r := d.sizes(s); r != nil {
			return r
		}
		var err error
		if named[i], err = hostlist.Expand(s.NodeList, hostlist.MaxHosts); err != nil {
			return refuse(events.Code_INVALID_NODE, "the nodes of component %d: %s", i, err)
		}
	}
	for i, s := range specs {
		exclude, err := hostlist.Expand(s.Exclude, hostlist.MaxHosts)
		if err != nil {
			return refuse(events.Code_INVALID_NODE, "the nodes that component %d excludes: %s", i, err)
		}
		before := len(exclude)
		for k := range specs {
			for _, name := range named[k] {
				if k != i && slices.Contains(named[i], name) {
					return refuse(events.Code_NODE_CONFIG_UNAVAILABLE, "components %d and %d both name node %s, and components have nodes of their own", min(i, k), max(i, k), name)
				}
				if k != i && !slices.Contains(exclude, name) {
					exclude = append(exclude, name)
				}
			}
		}
		if len(exclude) > before {
			s.Exclude = hostlist.Compress(exclude)
		}
	}
	return nil
}

// priorityOf is the priority of a job that is not held.
func priorityOf(id uint32, spec *events.JobSpec) uint32 {
	if spec.GetHasPriority() && spec.GetPriority() > 0 {
		return spec.GetPriority()
	}
	return rank.Initial(id, spec.GetNice())
}

// complete checks a submitted specification, of so many that become jobs or do not together, and fills in what it leaves out.
func (d *Desk) complete(spec *events.JobSpec, together int) *refusal {
	cfg := d.r.Config()
	if d.r.ConfigSeq() == 0 {
		return refuse(events.Code_INVALID_CONFIG, "this cluster has no configuration yet; an administrator has to start it with one")
	}
	most := int(cfg.MaxJobCount)
	if most == 0 {
		most = defaultMaxJobCount
	}
	if n := d.r.Counts().Jobs; n+together > most {
		return refuse(events.Code_QUEUE_FULL, "the cluster keeps %d jobs, as many as MaxJobCount allows; submit again when some have ended", n)
	}
	for _, check := range []func(*events.JobSpec) *refusal{
		d.sizes, d.unsupported, d.rights, d.partitions, d.array, d.times, d.memory, d.choices, d.licenses, d.sampling, d.enforced, d.feasible,
	} {
		if r := check(spec); r != nil {
			return r
		}
	}
	return d.dependencies(d.item.FirstId, uint32(together), spec.Dependencies)
}

// sizes holds every field a user can make long to its limit.
func (d *Desk) sizes(s *events.JobSpec) *refusal {
	if r := texts(MaxText, "the job name", s.Name, "the account", s.Account, "the partition", s.Partition, "the QOS", s.Qos,
		"the working directory", s.WorkDir, "the input file name", s.StdIn, "the output file name", s.StdOut,
		"the error file name", s.StdErr, "the command", s.Command, "the submitting host", s.SubmitHost,
		"the constraint", s.Constraint, "the comment", s.Comment, "the wckey", s.Wckey, "the mail user", s.MailUser,
		"the administrator's comment", s.AdminComment, "the extra text", s.Extra, "the distribution", s.Distribution,
		"the licences", s.Licenses, "the burst buffer", s.BurstBuffer, "the security label", s.McsLabel, "the network", s.Network, "the features of the cluster", s.ClusterFeatures,
		"the features of the first node", s.BatchFeatures, "the frequency", s.CpuFreq, "the frequency of GPUs", s.TresFreq, "the binding of GPUs", s.TresBind, "the profile", s.Profile, "the reservation", s.Reservation, "the dependencies", s.DependencyText, "the array", s.Array.GetText()); r != nil {
		return r
	}
	if r := texts(MaxList, "the node list", s.NodeList, "the list of excluded nodes", s.Exclude, "the submit line", s.SubmitLine, "the exported environment", s.Export); r != nil {
		return r
	}
	if len(s.Args) > MaxArgs {
		return refuse(events.Code_MALFORMED, "the script has %d arguments, at most %d are taken", len(s.Args), MaxArgs)
	}
	bytes := 0
	for _, a := range s.Args {
		bytes += len(a)
	}
	switch {
	case bytes > MaxArgBytes:
		return refuse(events.Code_MALFORMED, "the arguments of the script have %d bytes, at most %d are taken", bytes, MaxArgBytes)
	case len(s.Gres) > MaxGres:
		return refuse(events.Code_INVALID_GRES, "the job asks for %d kinds of resources, at most %d are taken", len(s.Gres), MaxGres)
	case len(s.Rlimits) > MaxRlimits:
		return refuse(events.Code_MALFORMED, "the job carries %d resource limits, at most %d are taken", len(s.Rlimits), MaxRlimits)
	case !s.Interactive && s.Script == nil:
		return refuse(events.Code_MALFORMED, "the job has no script")
	case s.Interactive && s.Array != nil:
		return refuse(events.Code_INVALID_ARRAY, "an interactive allocation cannot be an array")
	}
	return nil
}

// unsupported refuses what is asked for and not built, so that nothing is accepted and then ignored.
func (d *Desk) unsupported(s *events.JobSpec) *refusal {
	for _, u := range []struct {
		asked bool
		what  string
	}{
		{s.Reboot && d.admin() && setting(d.r.Config(), "RebootProgram") != "", "rebooting nodes before a job (RebootProgram)"},
		{s.BindGres == events.Choice_CHOICE_YES && d.bound(), "GPUs taken together with the cores next to them; leave --gres-flags out"},
		{strings.HasPrefix(s.Distribution, "arbitrary"), "an arbitrary distribution of tasks"},
	} {
		if u.asked {
			return refuse(events.Code_UNSUPPORTED, "not supported: %s", u.what)
		}
	}
	if topology(d.r.Config()) {
		switch {
		case s.Switches != "":
			return refuse(events.Code_UNSUPPORTED, "not supported: a number of switches where there are several (TopologyPlugin)")
		case s.SegmentSize > 0:
			return refuse(events.Code_UNSUPPORTED, "not supported: segments of blocks (TopologyPlugin)")
		}
	}
	if s.Reservation != "" {
		return refuse(events.Code_INVALID_RESERVATION, "there is no reservation %q", s.Reservation)
	}
	return nil
}

// setting is the value of a key of the configuration, empty if it is not there or none.
func setting(c *events.Config, key string) string {
	for _, set := range c.GetSettings() {
		if v := set.GetValue(); strings.EqualFold(set.GetKey(), key) && v != "(null)" {
			return v
		}
	}
	return ""
}

// topology says whether the site describes switches; otherwise all nodes hang on one, and any number of switches will do.
func topology(c *events.Config) bool {
	v := strings.ToLower(setting(c, "TopologyPlugin"))
	return strings.Contains(v, "tree") || strings.Contains(v, "block")
}

// bound says whether the configuration names cores that are next to devices.
func (d *Desk) bound() bool {
	return slices.ContainsFunc(d.r.Nodes(), func(n *projections.Node) bool {
		return slices.ContainsFunc(n.GetDef().GetGres(), func(g *events.GresDef) bool { return g.Cores != "" })
	})
}

// rights refuses what only an administrator may ask for.
func (d *Desk) rights(s *events.JobSpec) *refusal {
	cfg := d.r.Config()
	switch {
	case d.who.Uid == 0 && cfg.DisableRootJobs:
		return refuse(events.Code_ROOT_DENIED, "this cluster takes no jobs of root (DisableRootJobs)")
	case d.admin():
		return nil
	case s.Reboot:
		return refuse(events.Code_ACCESS_DENIED, "rebooting of nodes is only allowed for admins")
	case s.Nice < 0:
		return refuse(events.Code_ACCESS_DENIED, "only an administrator may use a negative nice value (%d)", s.Nice)
	case s.AdminComment != "":
		return refuse(events.Code_ACCESS_DENIED, "only an administrator may set the administrator's comment")
	}
	if s.HasPriority {
		// 0 is the user's way to hold. Another number is an administrator's to give: as in Slurm the job is taken all the same,
		// with the priority that it would have had.
		s.Hold, s.HasPriority, s.Priority = s.Hold || s.Priority == 0, false, 0
	}
	return nil
}

// partitions resolves the partitions and asks whether the author may use them.
func (d *Desk) partitions(s *events.JobSpec) *refusal {
	if s.Partition == "" {
		p := d.r.DefaultPartition()
		if p == nil {
			return refuse(events.Code_INVALID_PARTITION, "no partition is given and none is the default; use --partition")
		}
		s.Partition = p.Name
	}
	names, r := d.partitionList(s.Partition)
	if r != nil {
		return r
	}
	if names, r = d.open(names); r != nil {
		return r
	}
	s.Partition = strings.Join(names, ",")
	if r := d.belongs(s, d.who.User); r != nil {
		return r
	}
	if r := d.wckey(s, d.who.User); r != nil {
		return r
	}
	if names, r = d.mayUseOf(names, s); r != nil {
		return r
	}
	s.Partition = strings.Join(names, ",")
	return nil
}

// open puts the alternate of each partition that takes no jobs now in its place, and leaves out those that have none, unless
// none is left.
func (d *Desk) open(names []string) ([]string, *refusal) {
	var kept []string
	var why *refusal
	for _, name := range names {
		p, r := d.alternate(d.r.Partition(name))
		switch {
		case r == nil && !slices.Contains(kept, p.Name):
			kept = append(kept, p.Name)
		case why == nil:
			why = r
		}
	}
	if why != nil && (len(kept) == 0 || d.r.Config().EnforcePartLimitsAll) {
		return nil, why
	}
	return kept, nil
}

// alternate is where jobs for a partition go: there, or if it takes none, where its alternates lead to.
func (d *Desk) alternate(p *events.PartitionDef) (*events.PartitionDef, *refusal) {
	first := p.Name
	for range d.r.Partitions() {
		if p.State != events.PartitionState_PARTITION_DRAIN && p.State != events.PartitionState_PARTITION_INACTIVE_STATE {
			return p, nil
		}
		if p.Alternate == "" {
			break
		}
		next := d.r.Partition(p.Alternate)
		if next == nil {
			return nil, refuse(events.Code_INVALID_PARTITION, "partition %s takes no new jobs now, and its alternate %.100s is no partition", p.Name, p.Alternate)
		}
		p = next
	}
	if p.Name == first {
		return nil, refuse(events.Code_PARTITION_DOWN, "partition %s takes no new jobs now", first)
	}
	return nil, refuse(events.Code_PARTITION_DOWN, "partition %s takes no new jobs now, and neither do its alternates", first)
}

// mayUseOf are those of some partitions that the author may submit to; where all have to do (EnforcePartLimits=ALL), all or none.
func (d *Desk) mayUseOf(names []string, s *events.JobSpec) ([]string, *refusal) {
	var kept []string
	var why *refusal
	for _, name := range names {
		if r := d.mayUse(d.r.Partition(name), s); r == nil {
			kept = append(kept, name)
		} else if why == nil {
			why = r
		}
	}
	if why != nil && (len(kept) == 0 || d.r.Config().EnforcePartLimitsAll) {
		return nil, why
	}
	return kept, nil
}

// partitionList reads a comma separated list of partitions that exist, each once.
func (d *Desk) partitionList(text string) ([]string, *refusal) {
	var names []string
	for name := range strings.SplitSeq(text, ",") {
		if d.r.Partition(name) == nil {
			return nil, refuse(events.Code_INVALID_PARTITION, "invalid partition specified: %.100s", name)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		if len(names) > MaxPartitions {
			return nil, refuse(events.Code_INVALID_PARTITION, "the job names more than %d partitions", MaxPartitions)
		}
	}
	return names, nil
}

// mayUse asks whether the author may submit a job to a partition that takes jobs.
func (d *Desk) mayUse(p *events.PartitionDef, s *events.JobSpec) *refusal {
	account, qos := s.Account, s.Qos
	if s.SubmitHost != "" && p.AllocNodes != "" {
		if hosts, _ := hostlist.Expand(p.AllocNodes, hostlist.MaxHosts); !slices.Contains(hosts, s.SubmitHost) {
			return refuse(events.Code_ACCESS_DENIED, "partition %s takes only jobs submitted on %s (AllocNodes), not on %s", p.Name, p.AllocNodes, s.SubmitHost)
		}
	}
	if cfg := d.r.Config(); cfg.EnforcePartLimitsAll || cfg.EnforcePartLimitsAny {
		switch reason, _ := MayRun(p, account, qos); reason {
		case events.Reason_ACCOUNT_NOT_ALLOWED:
			return refuse(events.Code_INVALID_ACCOUNT, "account %q may not use partition %s", account, p.Name)
		case events.Reason_QOS_NOT_ALLOWED:
			return refuse(events.Code_INVALID_QOS, "QOS %q may not use partition %s", qos, p.Name)
		}
	}
	switch {
	case d.who.Uid == 0 && p.DisableRootJobs:
		return refuse(events.Code_ROOT_DENIED, "partition %s takes no jobs of root (DisableRootJobs)", p.Name)
	case p.RequireReservation:
		return refuse(events.Code_INVALID_RESERVATION, "partition %s takes only jobs with a reservation", p.Name)
	case d.admin():
		return nil
	case p.RootOnly:
		return refuse(events.Code_PARTITION_ACCESS, "partition %s takes only jobs of administrators (RootOnly)", p.Name)
	case len(p.AllowGroups) > 0 && !d.inGroup(p.AllowGroups):
		return refuse(events.Code_PARTITION_ACCESS, "partition %s is for members of %s, and %s is in none of them", p.Name, strings.Join(p.AllowGroups, ", "), d.who.User)
	}
	return nil
}

// MayRun asks whether a partition runs jobs of an account and a QOS; where limits are not enforced at submission, jobs that it
// does not run wait there. It returns NONE, or the reason with its sentence, which is Slurm's.
func MayRun(p *events.PartitionDef, account, qos string) (events.Reason, string) {
	for _, k := range []struct {
		what, name  string
		allow, deny []string
		reason      events.Reason
	}{
		{"account", account, p.GetAllowAccounts(), p.GetDenyAccounts(), events.Reason_ACCOUNT_NOT_ALLOWED},
		{"QOS", qos, p.GetAllowQos(), p.GetDenyQos(), events.Reason_QOS_NOT_ALLOWED},
	} {
		switch {
		case len(k.allow) > 0 && !slices.Contains(k.allow, k.name):
			return k.reason, "Job's " + k.what + " not permitted to use this partition (" + p.GetName() + " allows " + strings.Join(k.allow, ",") + " not " + k.name + ")"
		case len(k.allow) == 0 && len(k.deny) > 0 && slices.Contains(k.deny, k.name):
			return k.reason, "Job's " + k.what + " not permitted to use this partition (" + p.GetName() + " denies " + strings.Join(k.deny, ",") + " including " + k.name + ")"
		}
	}
	return events.Reason_NONE, ""
}

func (d *Desk) inGroup(allowed []string) bool {
	for _, g := range allowed {
		if g == d.who.Group || slices.Contains(d.who.GroupNames, g) {
			return true
		}
	}
	return false
}

// array checks the indices of an array.
func (d *Desk) array(s *events.JobSpec) *refusal {
	if s.Array == nil {
		return nil
	}
	most := d.r.Config().MaxArraySize
	if most == 0 {
		most = defaultMaxArraySize
	}
	last, any := events.Words(s.Array.Tasks).Last()
	switch {
	case !any:
		return refuse(events.Code_INVALID_ARRAY, "the array has no task")
	case last >= most:
		return refuse(events.Code_INVALID_ARRAY, "array index %d is too high: MaxArraySize allows 0 to %d", last, int64(most)-1)
	}
	s.Array.Tasks = s.Array.Tasks[:last/64+1]
	return nil
}

// times fills in the time limit and checks the times that are given.
func (d *Desk) times(s *events.JobSpec) *refusal {
	cfg := d.r.Config()
	names := strings.Split(s.Partition, ",")
	if s.TimeLimitS == 0 {
		s.TimeLimitS, s.DefaultTimeLimit = defaultLimit(cfg, d.r.Partition(names[0])), true
	}
	if s.TimeMinS > s.TimeLimitS {
		return refuse(events.Code_INVALID_TIME_LIMIT, "the least time of %s is longer than the time limit of %s", minutes(s.TimeMinS), minutes(s.TimeLimitS))
	}
	if s.BeginUs < 0 || s.DeadlineUs < 0 || s.BeginUs > latestUs || s.DeadlineUs > latestUs {
		return refuse(events.Code_MALFORMED, "a time before the year 1970 or after the year 9999 is given")
	}
	if s.DeadlineUs != 0 {
		// One that could not end before its deadline is taken, and leaves the queue as DEADLINE.
		if s.DeadlineUs <= d.now {
			return refuse(events.Code_INVALID_TIME_LIMIT, "the deadline has passed")
		}
	}
	return nil
}

// defaultLimit is the time limit of a job that gives none, in seconds.
func defaultLimit(cfg *events.Config, p *events.PartitionDef) uint32 {
	for _, limit := range []uint32{p.GetDefaultTimeS(), cfg.GetDefaultTimeS(), p.GetMaxTimeS()} {
		if limit != 0 {
			return limit
		}
	}
	return events.Unlimited
}

// MaxTime is the longest time limit that a partition lets start, in seconds; events.Unlimited if there is none.
func MaxTime(p *events.PartitionDef) uint32 {
	if p.GetMaxTimeS() == 0 {
		return events.Unlimited
	}
	return p.GetMaxTimeS()
}

// enforced refuses what is beyond the limits of all its partitions, or of any of them, where the configuration says so
// (EnforcePartLimits).
func (d *Desk) enforced(s *events.JobSpec) *refusal {
	cfg := d.r.Config()
	if !cfg.EnforcePartLimitsAll && !cfg.EnforcePartLimitsAny {
		return nil
	}
	names := strings.Split(s.Partition, ",")
	within, first := 0, (*refusal)(nil)
	for _, name := range names {
		r := d.limitsOf(d.r.Partition(name), s)
		if r == nil {
			within++
		} else if first == nil {
			first = r
		}
	}
	if within == 0 || cfg.EnforcePartLimitsAll && within < len(names) {
		return first
	}
	return nil
}

// limitsOf asks whether a job is within a partition's limits, where these are enforced at submission.
func (d *Desk) limitsOf(p *events.PartitionDef, s *events.JobSpec) *refusal {
	board := d.idle()
	q, problem := d.shapes.Of(s)
	if problem != nil {
		return fromProblem(problem)
	}
	switch board.Beyond(q, p.Name) {
	case events.Reason_PARTITION_CONFIG:
		return refuse(events.Code_TOO_MANY_CPUS, "%s", board.Lacks(q, p.Name))
	case events.Reason_MEM_PER_LIMIT:
		return refuse(events.Code_INVALID_MEMORY, "it takes more memory of a node than the %d MiB that MaxMemPerNode allows in partition %s", board.MemoryLimit(p.Name), p.Name)
	case events.Reason_PARTITION_NODE_LIMIT:
		most := board.NodeLimit(p.Name)
		if int64(s.MinNodes) > int64(most) {
			return refuse(events.Code_INVALID_NODE_COUNT, "%d nodes are more than the %d that partition %s gives a job", s.MinNodes, most, p.Name)
		}
		return refuse(events.Code_INVALID_NODE_COUNT, "%d nodes are fewer than the %d that partition %s asks for", s.MaxNodes, p.MinNodes, p.Name)
	}
	if s.TimeLimitS > MaxTime(p) {
		return refuse(events.Code_INVALID_TIME_LIMIT, "the time limit of %s is above the %s that partition %s allows", minutes(s.TimeLimitS), minutes(MaxTime(p)), p.Name)
	}
	return nil
}

// choices resolves what the submitter left to the configuration.
func (d *Desk) choices(s *events.JobSpec) *refusal {
	if s.Requeue == events.Choice_CHOICE_DEFAULT {
		s.Requeue = events.Choice_CHOICE_NO
		if d.r.Config().JobRequeue {
			s.Requeue = events.Choice_CHOICE_YES
		}
	}
	if s.Interactive {
		s.Requeue = events.Choice_CHOICE_NO
	}
	if s.KillOnInvalidDependency && s.KeepOnInvalidDependency {
		return refuse(events.Code_MALFORMED, "the job is to be both ended and kept when a dependency can never be met")
	}
	return nil
}

// licenses asks whether the licences that a job names are configured, in a number that could ever do.
func (d *Desk) licenses(s *events.JobSpec) *refusal {
	list, any, err := events.ParseLicenses(s.Licenses)
	if err != nil {
		return refuse(events.Code_INVALID_LICENSE, "%s", err)
	}
	could := false
	for _, l := range list {
		have, known := d.r.License(l.Name)
		switch {
		case !known:
			return refuse(events.Code_INVALID_LICENSE, "there is no licence %.60s", l.Name)
		case l.Count <= have:
			could = true
		case !any:
			return refuse(events.Code_INVALID_LICENSE, "the job asks for %d of licence %s, and there are %d", l.Count, l.Name, have)
		}
	}
	if any && !could {
		return refuse(events.Code_INVALID_LICENSE, "there are fewer of each of %.60s than the job asks for", s.Licenses)
	}
	return nil
}

// sampling refuses sampling so rare that the site could not hold a job to its memory by it (JobAcctGatherParams=OverMemoryKill).
func (d *Desk) sampling(s *events.JobSpec) *refusal {
	every, _ := events.Sampling(d.r.Config(), "")
	if asked, kills := events.Sampling(d.r.Config(), s.AcctgFreq); kills && every > 0 && (asked == 0 || asked > every) {
		return refuse(events.Code_POLICY, "usage has to be sampled every %d seconds at least, since jobs are held to their memory by it (OverMemoryKill)", every)
	}
	return nil
}

func first(a, b uint64) uint64 {
	if a != 0 {
		return a
	}
	return b
}

// feasible asks whether the cluster as configured could ever run the job, and if not, what it has not got. A job that asks
// for more than a partition as a whole gives (nodes, CPUs, time) may wait for better days, as Slurm has it, where limits are
// not enforced; one that no node could serve is refused. What is held is looked at when it is released. Who waits before a terminal
// (salloc, srun) is told at once what the partition as a whole has not got, as by Slurm, and does not wait for ever.
func (d *Desk) feasible(s *events.JobSpec) *refusal {
	board := d.idle()
	q, problem := d.shapes.Of(s)
	if problem != nil {
		return fromProblem(problem)
	}
	if r := d.namesExist(q); r != nil {
		return r
	}
	if r := d.preferred(s); r != nil {
		return r
	}
	if s.Hold || s.HasPriority && s.Priority == 0 {
		return nil // as in Slurm: it is found out once it is released
	}
	names := strings.Split(s.Partition, ",")
	var why string
	for _, name := range names {
		p := d.r.Partition(name)
		beyond := events.Reason_NONE
		switch {
		case board.PartitionSize(name) == 0:
			why = "partition " + name + " has no nodes"
			continue
		case len(names) == 1 && p.State != events.PartitionState_PARTITION_DOWN_STATE:
			beyond = board.Beyond(q, name)
		}
		if s.Interactive && beyond == events.Reason_PARTITION_CONFIG && !board.FitsLimit(q, name) {
			why = board.Lacks(q, name)
			continue
		}
		if beyond == events.Reason_NONE && s.TimeLimitS > MaxTime(p) {
			beyond = events.Reason_PARTITION_TIME_LIMIT
		}
		if beyond != events.Reason_NONE || board.FitsLimit(q, name) {
			return nil
		}
		if why == "" {
			why = board.Lacks(q, name)
		}
	}
	return refuse(events.Code_NODE_CONFIG_UNAVAILABLE, "no set of nodes could ever run this job: %s", why)
}

// preferred asks whether the features exist that a job would rather have.
func (d *Desk) preferred(s *events.JobSpec) *refusal {
	if s.Prefer == "" {
		return nil
	}
	c, err := place.ParseConstraint(s.Prefer)
	if err != nil {
		return refuse(events.Code_INVALID_FEATURE, "--prefer: %s", err)
	}
	return d.featuresExist(c)
}

// featuresExist asks whether some node has each of the features.
func (d *Desk) featuresExist(c place.Constraint) *refusal {
	var missing string
	c.Features(func(name string) {
		if missing == "" && !slices.ContainsFunc(d.nodes, func(n *projections.Node) bool { return slices.Contains(n.GetDef().GetFeatures(), name) }) {
			missing = name
		}
	})
	if missing != "" {
		return refuse(events.Code_INVALID_FEATURE, "no node has the feature %q", missing)
	}
	return nil
}

// namesExist asks whether the features, resources and nodes that a request names exist at all.
func (d *Desk) namesExist(q *place.Request) *refusal {
	if r := d.featuresExist(q.Constraint); r != nil {
		return r
	}
	for _, g := range q.Gres {
		if !slices.ContainsFunc(d.nodes, func(n *projections.Node) bool {
			return slices.ContainsFunc(n.Gres, func(h *projections.NodeGres) bool { return h.Name == g.Name })
		}) {
			return refuse(events.Code_INVALID_GRES, "no node has a %s", g.Name)
		}
	}
	for _, list := range [][]string{q.NodeList, q.Exclude} {
		for _, name := range list {
			if d.r.Node(name) == nil {
				return refuse(events.Code_INVALID_NODE, "there is no node %.100q", name)
			}
		}
	}
	return nil
}

// dependencies checks what a job waits for, which with the other components of its own has so many ids from the given one on. Jobs that are not known count as over, as Slurm has it.
func (d *Desk) dependencies(id, ids uint32, list []*events.Dependency) *refusal {
	if len(list) > MaxDependencies {
		return refuse(events.Code_INVALID_DEPENDENCY, "the job waits for %d others, at most %d are taken", len(list), MaxDependencies)
	}
	for _, dep := range list {
		switch dep.Kind {
		case events.DependencyKind_SINGLETON:
			continue
		case events.DependencyKind_AFTER, events.DependencyKind_AFTER_OK, events.DependencyKind_AFTER_NOT_OK, events.DependencyKind_AFTER_ANY,
			events.DependencyKind_AFTER_CORR, events.DependencyKind_AFTER_BURST_BUFFER: // without burst buffers nothing is staged out: the end is enough
		default:
			return refuse(events.Code_INVALID_DEPENDENCY, "the kind %d of a dependency is not known", dep.Kind)
		}
		switch {
		case dep.Job == 0:
			return refuse(events.Code_INVALID_DEPENDENCY, "a dependency names no job")
		case dep.Job >= id && dep.Job-id < ids:
			return refuse(events.Code_INVALID_DEPENDENCY, "job %d cannot wait for itself", id)
		case dep.DelayMin > 366*24*60:
			return refuse(events.Code_INVALID_DEPENDENCY, "a delay of %d minutes is more than a year", dep.DelayMin)
		case dep.HasTask && d.r.Array(dep.Job) == nil && d.r.Job(dep.Job) != nil:
			return refuse(events.Code_INVALID_DEPENDENCY, "job %d is no array, so it has no task %d", dep.Job, dep.Task)
		}
	}
	return nil
}
