package admit

import (
	"math"
	"slices"
	"strings"

	"stint/events"
	"stint/projections"
)

// updateJob changes jobs. What a user may change is what makes the job more modest or says more about it; the rest is an
// administrator's.
func (d *Desk) updateJob(m *events.UpdateJob) []*events.Fact {
	if r := checkTargets(m.Targets); r != nil {
		return d.refused(r)
	}
	if r := d.updateSizes(m); r != nil {
		return d.refused(r)
	}
	a := &act{d: d}
	if m.ArrayThrottle != nil {
		// The throttle is the array's, not its tasks': one change, whatever of the array is named.
		a.throttle(m)
		m.ArrayThrottle = nil
		if m.SizeVT() == (&events.UpdateJob{Targets: m.Targets}).SizeVT() {
			return a.done()
		}
	}
	a.each(m.Targets, false, func(p part) {
		if m.Priority != nil && *m.Priority == 0 && p.job.Waits() {
			a.holdBy(p)
			rest := m.CloneVT()
			rest.Priority = nil
			if rest.SizeVT() == (&events.UpdateJob{Targets: m.Targets}).SizeVT() {
				return
			}
			a.update(p, rest)
			return
		}
		a.update(p, m)
	})
	return a.done()
}

// holdBy holds a job by its priority of 0: an administrator's word, or its owner's.
func (a *act) holdBy(p part) {
	kind := events.HoldKind_HELD_USER
	if a.d.admin() {
		kind = events.HoldKind_HELD_ADMIN
	}
	a.did(&events.Fact{Kind: &events.Fact_Held{Held: &events.Held{Job: p.job.Id, Tasks: p.tasks, HasTasks: p.hasTasks, Kind: kind, ByUid: a.d.who.Uid}}})
	a.touched++
}

func (a *act) update(p part, m *events.UpdateJob) {
	change, r := a.d.change(p, m)
	if r != nil {
		a.fail(p.job.Id, r)
		return
	}
	a.did(&events.Fact{Kind: &events.Fact_Updated{Updated: &events.Updated{Job: p.job.Id, Change: change, ByUid: a.d.who.Uid}}})
	a.touched++
}

// throttle changes how many tasks of arrays may run at once.
func (a *act) throttle(m *events.UpdateJob) {
	done := map[uint32]bool{}
	a.each(m.Targets, false, func(p part) {
		id := p.job.ArrayId
		switch {
		case id == 0:
			a.fail(p.job.Id, refuse(events.Code_INVALID_ARRAY, "job %d is no array, so it has no limit of running tasks", p.job.Id))
		case !done[id]:
			done[id] = true
			a.did(&events.Fact{Kind: &events.Fact_Updated{Updated: &events.Updated{Job: id, Change: &events.UpdateJob{ArrayThrottle: m.ArrayThrottle}, ByUid: a.d.who.Uid}}})
			a.touched++
		}
	})
}

func str(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

func (d *Desk) updateSizes(m *events.UpdateJob) *refusal {
	for _, at := range []*int64{m.BeginUs, m.DeadlineUs} {
		if at != nil && (*at < 0 || *at > latestUs) {
			return refuse(events.Code_MALFORMED, "a time before the year 1970 or after the year 9999 is given")
		}
	}
	if r := texts(MaxText, "the partition", str(m.Partition), "the job name", str(m.Name), "the comment", str(m.Comment), "the account", str(m.Account),
		"the QOS", str(m.Qos), "the administrator's comment", str(m.AdminComment), "the features", str(m.Features), "the wckey", str(m.Wckey),
		"the mail user", str(m.MailUser), "the features it prefers", str(m.Prefer), "the switches", str(m.Switches), "the output file name", str(m.StdOut), "the error file name", str(m.StdErr), "the input file name", str(m.StdIn)); r != nil {
		return r
	}
	return texts(MaxList, "the node list", str(m.NodeList), "the list of excluded nodes", str(m.Exclude))
}

// change is what an update comes to for one job: values in full (no +N), for this record alone.
func (d *Desk) change(p part, m *events.UpdateJob) (*events.UpdateJob, *refusal) {
	j := p.job
	if j.Recurs {
		return nil, refuse(events.Code_CRON_CHANGE, "job %d is of a crontab; change it there, with scrontab -e", j.Id)
	}
	u := m.CloneVT()
	u.Targets = nil
	if p.hasTasks {
		u.Targets = []*events.Target{{Job: j.Id, Tasks: p.tasks, HasTasks: true}}
	}
	for _, check := range []func(*projections.Job, *events.UpdateJob) *refusal{d.changeState, d.changeLimit, d.changeRights, d.changePlace, d.changeDependencies} {
		if r := check(j, u); r != nil {
			return nil, r
		}
	}
	return u, nil
}

// changeState refuses, for a job that has started, what can no longer matter.
func (d *Desk) changeState(j *projections.Job, u *events.UpdateJob) *refusal {
	if j.Waits() {
		return nil
	}
	for _, f := range []struct {
		set  bool
		what string
	}{
		{u.Partition != nil, "the partition"}, {u.Priority != nil, "the priority"}, {u.Nice != nil, "the nice value"},
		{u.BeginUs != nil, "the begin time"}, {u.SetDependencies, "the dependencies"}, {u.Account != nil, "the account"},
		{u.Qos != nil, "the QOS"}, {u.Features != nil, "the features"}, {u.NodeList != nil, "the node list"},
		{u.Exclude != nil, "the excluded nodes"}, {u.MinNodes != nil || u.MaxNodes != nil, "the number of nodes"},
		{u.Tasks != nil, "the number of tasks"}, {u.MemPerNodeMib != nil || u.MemPerCpuMib != nil, "the memory"},
		{u.StdOut != nil || u.StdErr != nil || u.StdIn != nil, "the file names"}, {u.SetGres, "the generic resources"},
		{u.CpusPerTask != nil || u.MinCpusPerNode != nil || u.Cpus != nil || u.TasksPerNode != nil, "the CPUs"}, {u.TmpDiskMib != nil, "the temporary disk"},
		{u.Licenses != nil, "the licences"}, {u.Reservation != nil, "the reservation"}, {u.Contiguous != nil, "whether its nodes are consecutive"},
		{u.Exclusive != nil, "whether its nodes are shared"}, {u.TimeMinS != nil, "the least time"}, {u.WorkDir != nil, "the working directory"},
		{u.Switches != nil, "the switches"}, {u.SocketsPerNode != nil || u.CoresPerSocket != nil || u.ThreadsPerCore != nil, "the build of its nodes"},
		{u.ResetAccrue, "since when it waits"}, {u.Prefer != nil, "the features it prefers"},
	} {
		if f.set {
			return refuse(events.Code_BAD_STATE, "job %d has started; %s can be changed only while it waits", j.Id, f.what)
		}
	}
	return nil
}

// changeLimit makes the time limit absolute and holds it to who may raise it how far.
func (d *Desk) changeLimit(j *projections.Job, u *events.UpdateJob) *refusal {
	if u.TimeLimitAddS != nil {
		if u.TimeLimitS != nil {
			return refuse(events.Code_INVALID_TIME_LIMIT, "a time limit and a change of it are given at once")
		}
		limit := int64(j.LimitS)
		if j.LimitS != events.Unlimited {
			limit += int64(*u.TimeLimitAddS)
		}
		if limit <= 0 || limit > math.MaxUint32 {
			return refuse(events.Code_INVALID_TIME_LIMIT, "changed by %d seconds, the time limit of job %d would be none", *u.TimeLimitAddS, j.Id)
		}
		u.TimeLimitS, u.TimeLimitAddS = new(uint32), nil
		*u.TimeLimitS = uint32(limit)
	}
	if u.EndUs != nil {
		if !j.Live() {
			return refuse(events.Code_BAD_STATE, "job %d does not run, so it has no end time; set its time limit", j.Id)
		}
		left := (*u.EndUs - j.StartUs - j.IdleUs()) / 1_000_000
		if left <= 0 || *u.EndUs <= d.now || left >= int64(events.Unlimited) {
			return refuse(events.Code_INVALID_TIME_LIMIT, "the end time of job %d has passed, or is too far away", j.Id)
		}
		limit := uint32(left)
		u.TimeLimitS, u.EndUs = &limit, nil
	}
	if u.TimeMinS != nil && *u.TimeMinS > j.LimitS && (u.TimeLimitS == nil || *u.TimeMinS > *u.TimeLimitS) {
		return refuse(events.Code_INVALID_TIME_LIMIT, "the least time of %s is longer than the time limit of job %d", minutes(*u.TimeMinS), j.Id)
	}
	if u.TimeLimitS == nil {
		return nil
	}
	if *u.TimeLimitS == 0 {
		*u.TimeLimitS = MaxTime(d.r.Partition(j.Partition))
	}
	switch {
	case *u.TimeLimitS <= j.LimitS, d.admin():
	case !j.Waits():
		return refuse(events.Code_ACCESS_DENIED, "job %d has started: only an administrator may raise its time limit above %s", j.Id, minutes(j.LimitS))
	case *u.TimeLimitS > d.longest(j, u):
		return refuse(events.Code_ACCESS_DENIED, "only an administrator may raise the time limit of job %d above the %s of its partition", j.Id, minutes(d.longest(j, u)))
	}
	return nil
}

// longest is the longest time limit of the partitions that a job will ask for, in seconds.
func (d *Desk) longest(j *projections.Job, u *events.UpdateJob) (most uint32) {
	list := j.Spec.GetPartition()
	if u.Partition != nil {
		list = *u.Partition
	}
	for name := range strings.SplitSeq(list, ",") {
		if p := d.r.Partition(name); p != nil {
			most = max(most, MaxTime(p))
		}
	}
	return most
}

// changeNodes settles how many nodes are asked for: one number is the least, and the most stays what it was.
func (d *Desk) changeNodes(j *projections.Job, u *events.UpdateJob, names []string) *refusal {
	if u.MinNodes == nil {
		return nil
	}
	most := j.Spec.GetMaxNodes()
	if u.MaxNodes != nil {
		most = *u.MaxNodes
	}
	if most != 0 && *u.MinNodes > most {
		return refuse(events.Code_INVALID_NODE_COUNT, "job %d asks for at most %d nodes, so it cannot ask for at least %d; write NumNodes=%d-%d", j.Id, most, *u.MinNodes, *u.MinNodes, *u.MinNodes)
	}
	have := 0
	for _, name := range names {
		have = max(have, len(d.r.PartitionNodes(name)))
	}
	if int(*u.MinNodes) > have {
		return refuse(events.Code_INVALID_NODE_COUNT, "job %d would ask for %d nodes, and partition %s has %d", j.Id, *u.MinNodes, strings.Join(names, ","), have)
	}
	return nil
}

func (d *Desk) changeRights(j *projections.Job, u *events.UpdateJob) *refusal {
	if u.Priority != nil && j.Hold != events.HoldKind_NOT_HELD {
		return refuse(events.Code_BAD_STATE, "job %d is held: release it before its priority is set", j.Id)
	}
	var moved uint32
	if u.Nice != nil && u.Priority == nil && j.Hold == events.HoldKind_NOT_HELD && !j.Spec.GetHasPriority() {
		// Standing further back is what nice is for: the priority moves with it.
		moved = priorityOf(j.Family(), &events.JobSpec{Nice: *u.Nice})
		u.Priority = &moved
	}
	if d.admin() {
		return nil
	}
	switch {
	case u.Nice != nil && *u.Nice < 0:
		return refuse(events.Code_ACCESS_DENIED, "only an administrator may put job %d before others with a nice value below 0", j.Id)
	case u.Priority != nil && *u.Priority > j.Priority && u.Priority != &moved:
		return refuse(events.Code_ACCESS_DENIED, "only an administrator may raise the priority of job %d above its %d", j.Id, j.Priority)
	case u.DeadlineUs != nil:
		return refuse(events.Code_ACCESS_DENIED, "only an administrator may change the deadline of job %d", j.Id)
	case u.AdminComment != nil:
		return refuse(events.Code_ACCESS_DENIED, "only an administrator may set the administrator's comment")
	case u.TasksPerNode != nil:
		return refuse(events.Code_ACCESS_DENIED, "only an administrator may change the tasks of each node of job %d", j.Id)
	case u.Contiguous != nil:
		return refuse(events.Code_ACCESS_DENIED, "only an administrator may change whether the nodes of job %d are consecutive", j.Id)
	case u.Exclusive != nil:
		return refuse(events.Code_ACCESS_DENIED, "only an administrator may change whether job %d shares its nodes", j.Id)
	}
	return nil
}

// changePlace checks what decides where the job may run, as a submission would be checked.
func (d *Desk) changePlace(j *projections.Job, u *events.UpdateJob) *refusal {
	if !u.SetGres && u.Cpus == nil && u.Prefer == nil && u.CpusPerTask == nil && u.MinCpusPerNode == nil && u.TmpDiskMib == nil && u.Licenses == nil && u.Reservation == nil &&
		u.Contiguous == nil && u.Exclusive == nil && u.TasksPerNode == nil && u.SocketsPerNode == nil && u.CoresPerSocket == nil && u.ThreadsPerCore == nil &&
		u.Partition == nil && u.Features == nil && u.NodeList == nil && u.Exclude == nil && u.MinNodes == nil && u.MaxNodes == nil &&
		u.Tasks == nil && u.MemPerNodeMib == nil && u.MemPerCpuMib == nil && u.Account == nil && u.Qos == nil {
		return nil
	}
	spec := j.Spec.CloneVT()
	if u.Account != nil {
		spec.Account = *u.Account
	}
	if u.Qos != nil {
		spec.Qos = *u.Qos
	}
	if u.Partition != nil {
		spec.Partition = *u.Partition
	}
	names, r := d.partitionList(spec.Partition)
	if r != nil {
		return r
	}
	if u.Partition != nil {
		if names, r = d.open(names); r != nil {
			return r
		}
	}
	if r := d.changeNodes(j, u, names); r != nil {
		return r
	}
	if u.Account != nil && *u.Account == "" {
		return refuse(events.Code_INVALID_ACCOUNT, "job %d needs an account", j.Id)
	}
	if u.Account != nil && u.Qos == nil {
		// The QOS stays, even one that is not the account's: then the job waits for it to be changed as well.
		spec.Qos = ""
		if r := d.belongs(spec, j.GetOwner().GetUser()); r != nil {
			return r
		}
		*u.Account, spec.Qos = spec.Account, j.Spec.GetQos()
	} else if u.Account != nil || u.Qos != nil {
		if r := d.belongs(spec, j.GetOwner().GetUser()); r != nil {
			return r
		}
		for _, f := range []struct{ to, is *string }{{u.Account, &spec.Account}, {u.Qos, &spec.Qos}} {
			if f.to != nil {
				*f.to = *f.is
			}
		}
	}
	if u.Partition != nil || u.Account != nil || u.Qos != nil {
		for _, name := range names {
			if r := d.mayUse(d.r.Partition(name), spec); r != nil {
				return r
			}
		}
	}
	spec.Partition = strings.Join(names, ",")
	if u.Partition != nil {
		*u.Partition = spec.Partition
	}
	for _, f := range []struct {
		to   *string
		from *string
	}{{&spec.Constraint, u.Features}, {&spec.NodeList, u.NodeList}, {&spec.Exclude, u.Exclude}, {&spec.Prefer, u.Prefer}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	for _, f := range []struct {
		to   *uint32
		from *uint32
	}{{&spec.MinNodes, u.MinNodes}, {&spec.MaxNodes, u.MaxNodes}, {&spec.Tasks, u.Tasks}, {&spec.MinCpus, u.Cpus}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	for _, f := range []struct {
		to   *uint32
		from *uint32
	}{{&spec.CpusPerTask, u.CpusPerTask}, {&spec.MinCpusPerNode, u.MinCpusPerNode}, {&spec.TasksPerNode, u.TasksPerNode},
		{&spec.SocketsPerNode, u.SocketsPerNode}, {&spec.CoresPerSocket, u.CoresPerSocket}, {&spec.ThreadsPerCore, u.ThreadsPerCore}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	if u.SetGres {
		spec.Gres = u.Gres
	}
	if u.TmpDiskMib != nil {
		spec.TmpDiskMib = *u.TmpDiskMib
	}
	if u.Contiguous != nil {
		spec.Contiguous = *u.Contiguous
	}
	if u.Exclusive != nil {
		spec.Exclusive = *u.Exclusive
	}
	if u.Licenses != nil {
		spec.Licenses = *u.Licenses
		if r := d.licenses(spec); r != nil {
			return r
		}
	}
	if u.Reservation != nil && *u.Reservation != "" {
		return refuse(events.Code_INVALID_RESERVATION, "there is no reservation %q", *u.Reservation)
	}
	if u.MemPerNodeMib != nil && u.MemPerCpuMib != nil {
		return refuse(events.Code_INVALID_MEMORY, "memory is given both per node and per CPU")
	}
	if u.MemPerNodeMib != nil {
		spec.MemPerNodeMib, spec.MemPerCpuMib, spec.MemAll = *u.MemPerNodeMib, 0, *u.MemPerNodeMib == 0
	}
	if u.MemPerCpuMib != nil {
		spec.MemPerCpuMib, spec.MemPerNodeMib, spec.MemAll = *u.MemPerCpuMib, 0, false
	}
	spec.Hold = j.Hold != events.HoldKind_NOT_HELD // then it is looked at when it is released
	return d.feasible(spec)
}

// reachLimit bounds the search for circles among dependencies.
const reachLimit = 10_000

// changeDependencies checks new dependencies: none may lead back to the job, or neither would ever start.
func (d *Desk) changeDependencies(j *projections.Job, u *events.UpdateJob) *refusal {
	if !u.SetDependencies {
		return nil
	}
	id, ids := j.Id, uint32(1)
	if j.HetId != 0 {
		id, ids = j.HetId, j.HetSize
	}
	if r := d.dependencies(id, ids, u.Dependencies); r != nil {
		return r
	}
	family := j.Family()
	seen := map[uint32]bool{}
	var next []uint32
	push := func(list []*events.Dependency) {
		for _, dep := range list {
			if dep.Job != 0 && !seen[dep.Job] {
				seen[dep.Job] = true
				next = append(next, dep.Job)
			}
		}
	}
	push(u.Dependencies)
	for len(next) > 0 {
		id := next[len(next)-1]
		next = next[:len(next)-1]
		if id == j.Id || id == family || j.HetId != 0 && id >= j.HetId && id-j.HetId < j.HetSize {
			return refuse(events.Code_INVALID_DEPENDENCY, "job %d would wait for a job that waits for it", j.Id)
		}
		if len(seen) > reachLimit {
			return refuse(events.Code_INVALID_DEPENDENCY, "more than %d jobs hang together by dependencies", reachLimit)
		}
		if other := d.r.Job(id); other != nil && other.Waits() {
			push(other.Spec.GetDependencies())
		}
	}
	return nil
}

// updateNode takes nodes out of service, puts them back, or describes them otherwise. Administrators only.
func (d *Desk) updateNode(m *events.UpdateNode) []*events.Fact {
	if !d.admin() {
		return d.refused(refuse(events.Code_ACCESS_DENIED, "only an administrator may change nodes"))
	}
	if r := texts(MaxText, "the reason", str(m.Reason), "the features", str(m.Features), "the comment", str(m.Comment), "the extra text", str(m.Extra),
		"the active features", str(m.ActiveFeatures), "the address", str(m.Address), "the host name", str(m.HostName),
		"the instance", str(m.InstanceId), "the type of instance", str(m.InstanceType)); r != nil {
		return d.refused(r)
	}
	names, r := d.nodeNames(m.Nodes)
	if r != nil {
		return d.refused(r)
	}
	switch m.Order {
	case events.NodeOrder_NODE_DRAIN, events.NodeOrder_NODE_DOWN, events.NodeOrder_NODE_FAIL_ORDER:
		if strings.TrimSpace(str(m.Reason)) == "" {
			return d.refused(refuse(events.Code_MALFORMED, "say why: a reason is needed to take a node out of service"))
		}
	case events.NodeOrder_NODE_KEEP, events.NodeOrder_NODE_RESUME, events.NodeOrder_NODE_UNDRAIN, events.NodeOrder_NODE_IDLE, events.NodeOrder_NODE_FUTURE:
	default:
		return d.refused(refuse(events.Code_UNSUPPORTED, "this controller does not know the order %d for a node", m.Order))
	}
	a := &act{d: d}
	for _, name := range names {
		n := d.r.Node(name)
		switch {
		case n == nil:
			r := refuse(events.Code_INVALID_NODE, "there is no node %.100q", name)
			if a.first == nil {
				a.first = r
			}
			if len(a.failed) < MaxVerdicts {
				a.failed = append(a.failed, &events.Verdict{Name: name, Code: r.code, Text: r.text})
			}
			continue
		}
		if r := nodeAllows(n, m); r != nil {
			if a.first == nil {
				a.first = r
			}
			if len(a.failed) < MaxVerdicts {
				a.failed = append(a.failed, &events.Verdict{Name: name, Code: r.code, Text: r.text})
			}
			continue
		}
		change := m.CloneVT()
		change.Nodes, change.Order, change.Reason = "", 0, nil
		if m.Order == events.NodeOrder_NODE_KEEP && !n.Drain && !n.Down && !n.Fail && !n.Invalid {
			m.Reason = nil // a node in service has no reason to be out of it
		}
		a.did(&events.Fact{Kind: &events.Fact_NodeChanged{NodeChanged: &events.NodeChanged{Node: name, Order: m.Order, Reason: str(m.Reason), ByUid: d.who.Uid, Change: change}}})
		a.touched++
	}
	return a.done()
}

// nodeNames expands a list of nodes, each once.
func (d *Desk) nodeNames(text string) ([]string, *refusal) {
	if strings.EqualFold(text, "ALL") {
		var names []string
		for _, n := range d.r.Nodes() {
			names = append(names, n.Name)
		}
		return names, nil
	}
	names, r := expand(text)
	if r != nil {
		return nil, r
	}
	if len(names) == 0 {
		return nil, refuse(events.Code_INVALID_NODE, "no node is named")
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(names, func(n string) bool {
		again := seen[n]
		seen[n] = true
		return again
	}), nil
}

// nodeAllows asks whether a node may be changed so.
func nodeAllows(n *projections.Node, m *events.UpdateNode) *refusal {
	switch {
	case m.Order == events.NodeOrder_NODE_RESUME && !n.Drain && !n.Down && !n.Fail && !n.Lost && !n.Future && !n.Invalid && m.Reason == nil:
		return refuse(events.Code_INVALID_NODE_STATE, "node %s is in service; there is nothing to resume", n.Name)
	case m.Order == events.NodeOrder_NODE_FUTURE && len(n.Jobs) > 0:
		return refuse(events.Code_INVALID_NODE_STATE, "node %s has jobs; drain it first", n.Name)
	}
	available := strings.Join(n.GetDef().GetFeatures(), ",")
	if m.Features != nil {
		available = *m.Features
	}
	active := strings.Join(n.Features(), ",")
	if m.ActiveFeatures != nil {
		active = *m.ActiveFeatures
	}
	if m.Features != nil || m.ActiveFeatures != nil {
		for f := range strings.SplitSeq(active, ",") {
			if f != "" && !slices.Contains(strings.Split(available, ","), f) {
				return refuse(events.Code_INVALID_FEATURE, "feature %q is active on node %s, so it has to be among the available ones", f, n.Name)
			}
		}
	}
	return nil
}
