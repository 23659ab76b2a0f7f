package projections

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stint/events"
	"stint/events/hostlist"
	"stint/events/idset"
)

// OutcomeSource is what a follower has heard of why pending jobs wait. It is not state.
type OutcomeSource interface {
	Outcome(job uint32) *Outcome // nil: nothing heard
}

// maxAhead is how many of the jobs before a waiting one are named to who asks why it waits.
const maxAhead = 20

// Reply answers a question from the state alone, as it is now: a question that may have to wait (verdicts, the end of jobs)
// says "undecided", and its asker's daemon asks again when the state has moved. What the state cannot know (who leads, host
// names) is left for the daemon to add. outcomes may be nil. What whoever asks may not see is not in it; see Sight.
func Reply(r Reader, outcomes OutcomeSource, ask *Ask) *Answer {
	answer := &Answer{Seq: r.Seq(), NowUs: r.At()}
	sight := SightOf(r.Config(), ask.Uid)
	switch q := ask.GetWhat().(type) {
	case *Ask_Jobs:
		a, err := replyJobs(r, outcomes, q.Jobs, sight)
		if err != nil {
			answer.Error = err.Error()
		}
		answer.What = &Answer_Jobs{a}
	case *Ask_Nodes:
		a, err := replyNodes(r, q.Nodes, sight)
		if err != nil {
			answer.Error = err.Error()
		}
		answer.What = &Answer_Nodes{a}
	case *Ask_Config:
		a := &AnswerConfig{Config: r.Config(), Seq: r.ConfigSeq(), BootUs: r.Term().BegunUs, Controller: r.Term().Controller, NextId: r.NextID()}
		if r.Given() != r.Config() {
			a.Given = r.Given()
		}
		for _, l := range r.Config().GetLicenses() {
			if n := r.LicensesUsed(l.GetName()); n > 0 {
				a.Licenses = append(a.Licenses, &LicenseUse{Name: l.GetName(), Used: n})
			}
		}
		answer.What = &Answer_Config{a}
	case *Ask_Verdicts:
		a, err := replyVerdicts(r, q.Verdicts)
		if err != nil {
			answer.Error = err.Error()
		}
		answer.What = &Answer_Verdicts{a}
	case *Ask_Node:
		answer.What = &Answer_Node{replyNode(r, q.Node)}
	case *Ask_Status:
		answer.What = &Answer_Status{replyStatus(r, q.Status)}
	case *Ask_Why:
		a, err := replyWhy(r, outcomes, q.Why, sight)
		if err != nil {
			answer.Error = err.Error()
		}
		answer.What = &Answer_Why{a}
	case *Ask_Wait:
		answer.What = &Answer_Wait{replyWait(r, q.Wait, sight)}
	case *Ask_Policy:
		answer.What = &Answer_Policy{replyPolicy(r, q.Policy, sight)}
	case *Ask_Crontab:
		answer.What = &Answer_Crontab{replyCrontab(r, q.Crontab, sight)}
	case *Ask_Triggers:
		answer.What = &Answer_Triggers{&AnswerTriggers{Triggers: r.Triggers()}}
	default:
		answer.Error = "a question of a kind that this version does not know"
	}
	return answer
}

func viewOf(r Reader, outcomes OutcomeSource, j *Job) *JobView {
	v := &JobView{Job: j}
	see(v, r, outcomes, j)
	return v
}

// see adds to a view what is not of the job itself.
func see(v *JobView, r Reader, outcomes OutcomeSource, j *Job) {
	if outcomes != nil && j.Waits() {
		v.Outcome = outcomes.Outcome(j.Id)
	}
	if j.ArrayId != 0 {
		v.Array = r.Array(j.ArrayId)
	}
	for _, d := range j.Dependencies {
		if id := d.GetDependency().GetJob(); id != 0 && r.Array(id) != nil {
			v.Arrays = append(v.Arrays, id)
		}
	}
}

// associationOf is the number of the association that a job belongs to; 0: there is none.
func associationOf(r Reader, j *Job) uint32 {
	return r.Policy().Place(r.Config().GetCluster(), j.GetSpec().GetAccount(), j.GetOwner().GetUser(), j.Partition).GetId()
}

func replyJobs(r Reader, outcomes OutcomeSource, q *AskJobs, sight Sight) (*AnswerJobs, error) {
	jobs, unknown, err := jobsFor(r, q, sight)
	a := &AnswerJobs{UnknownId: unknown}
	for _, j := range jobs {
		v := viewOf(r, outcomes, j)
		if q.GetSlim() {
			v.Job = slim(j)
		} else {
			v.Job = sight.Job(j)
		}
		if q.GetAssociations() {
			v.Association = associationOf(r, j)
		}
		a.Jobs = append(a.Jobs, v)
	}
	return a, err
}

// jobsFor are the jobs that a question is about, ascending by id. unknown: an id was named that nobody knows.
func jobsFor(r Reader, q *AskJobs, sight Sight) (jobs []*Job, unknown bool, err error) {
	match, err := jobFilter(q)
	if err != nil {
		return nil, false, err
	}
	add := func(j *Job) bool {
		if match(j) && sight.SeesJob(j.GetOwner().GetUid()) {
			jobs = append(jobs, j)
		}
		return true
	}
	switch {
	case len(q.GetIds()) > 0:
		seen := map[uint32]bool{}
		for _, id := range q.GetIds() {
			if !eachOf(r, id, sight, func(j *Job) {
				if !seen[j.Id] {
					seen[j.Id] = true
					add(j)
				}
			}) {
				unknown = true
			}
		}
	case q.GetAllStates() || slices.ContainsFunc(q.GetStates(), events.JobState.Final):
		r.EachJob(add)
	case len(q.GetUsers()) > 0:
		r.EachOf(q.GetUsers(), add)
	default:
		// What is over and not completing is the bulk of hot state on a busy day; the indexes leave it out.
		r.EachPending(add)
		r.EachRunning(add)
		r.EachCompleting(func(j *Job) bool { return j.Live() || add(j) })
	}
	byID := func(x, y *Job) int { return cmp.Compare(x.Id, y.Id) }
	if !slices.IsSortedFunc(jobs, byID) {
		slices.SortFunc(jobs, byID)
	}
	return jobs, unknown, nil
}

// eachOf calls f with the job of an id, or with every hot job of the array or the heterogeneous job of that id. A job that is not shown is not there.
func eachOf(r Reader, id uint32, sight Sight, f func(*Job)) bool {
	if r.Array(id) == nil {
		j := r.Job(id)
		if j == nil || !sight.SeesJob(j.GetOwner().GetUid()) {
			return false
		}
		if !j.Leads() {
			f(j)
			return true
		}
		for _, part := range Components(r, j.HetId, j.HetSize) {
			f(part)
		}
		return true
	}
	sees := true // all of an array is one user's
	one := func(j *Job) bool {
		if sees = sight.SeesJob(j.GetOwner().GetUid()); sees {
			f(j)
		}
		return sees
	}
	if j := r.Job(id); j != nil && !one(j) {
		return false
	}
	r.EachArrayTask(id, func(t *TaskJob) bool {
		j := r.Job(t.Job)
		return j == nil || t.Job == id || one(j)
	})
	return sees
}

func jobFilter(q *AskJobs) (func(*Job) bool, error) {
	var nodes map[string]bool
	if q.GetNodes() != "" {
		names, err := hostlist.Expand(q.GetNodes(), hostlist.MaxHosts)
		if err != nil {
			return nil, fmt.Errorf("nodes to show jobs of: %w", err)
		}
		nodes = make(map[string]bool, len(names))
		for _, name := range names {
			nodes[name] = true
		}
	}
	has := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	return func(j *Job) bool {
		switch {
		case len(q.GetStates()) > 0:
			if !slices.Contains(q.GetStates(), j.State) {
				return false
			}
		case !q.GetAllStates() && j.Over() && !j.Completing:
			return false
		}
		if len(q.GetUsers()) > 0 && !slices.Contains(q.GetUsers(), j.GetOwner().GetUser()) &&
			!slices.Contains(q.GetUsers(), strconv.FormatUint(uint64(j.GetOwner().GetUid()), 10)) {
			return false
		}
		if len(q.GetPartitions()) > 0 && !slices.ContainsFunc(q.GetPartitions(), func(p string) bool {
			return p == j.Partition || j.Waits() && asked(j, p)
		}) {
			return false
		}
		if nodes != nil {
			on := false
			j.Allocation.Each(func(_ int, name string, _ *events.NodeShare) bool { on = nodes[name]; return !on })
			if !on {
				return false
			}
		}
		return has(q.GetAccounts(), j.GetSpec().GetAccount()) && has(q.GetNames(), j.GetSpec().GetName()) && has(q.GetQos(), j.GetSpec().GetQos())
	}, nil
}

// slim is a job without what no column and no record shows: limits, groups, environment, how it was submitted.
func slim(j *Job) *Job {
	thin := j.copy()
	thin.Usage, thin.Signals = nil, nil
	if len(j.Owner.GetGroups()) > 0 {
		thin.Owner = slimOwner(j.Owner)
	}
	thin.Spec = new(events.JobSpec)
	slimSpec(thin.Spec, j.Spec)
	return thin
}

func slimOwner(o *events.Owner) *events.Owner {
	return &events.Owner{Uid: o.GetUid(), Gid: o.GetGid(), User: o.GetUser(), Group: o.GetGroup()}
}

func slimSpec(to, s *events.JobSpec) {
	*to = events.JobSpec{
		Name: s.GetName(), Account: s.GetAccount(), Partition: s.GetPartition(), Qos: s.GetQos(), WorkDir: s.GetWorkDir(), Command: s.GetCommand(),
		StdIn: s.GetStdIn(), StdOut: s.GetStdOut(), StdErr: s.GetStdErr(), MinNodes: s.GetMinNodes(), MaxNodes: s.GetMaxNodes(), Tasks: s.GetTasks(),
		CpusPerTask: s.GetCpusPerTask(), Overcommit: s.GetOvercommit(), TasksPerNode: s.GetTasksPerNode(), MinCpusPerNode: s.GetMinCpusPerNode(), MinCpus: s.GetMinCpus(), Prefer: s.GetPrefer(), MemPerNodeMib: s.GetMemPerNodeMib(),
		MemPerCpuMib: s.GetMemPerCpuMib(), MemPerGpuMib: s.GetMemPerGpuMib(), MemAll: s.GetMemAll(), TmpDiskMib: s.GetTmpDiskMib(), Gres: s.GetGres(),
		CpusPerGpu: s.GetCpusPerGpu(), Constraint: s.GetConstraint(), NodeList: s.GetNodeList(), Exclude: s.GetExclude(), Exclusive: s.GetExclusive(),
		Contiguous: s.GetContiguous(), Licenses: s.GetLicenses(), Reservation: s.GetReservation(), Oversubscribe: s.GetOversubscribe(),
		TimeLimitS: s.GetTimeLimitS(), TimeMinS: s.GetTimeMinS(), BeginUs: s.GetBeginUs(), DeadlineUs: s.GetDeadlineUs(),
		DependencyAny: s.GetDependencyAny(), Nice: s.GetNice(), Comment: s.GetComment(), Wckey: s.GetWckey(), Requeue: s.GetRequeue(),
		Interactive: s.GetInteractive(), TasksPerGpu: s.GetTasksPerGpu(), SocketsPerNode: s.GetSocketsPerNode(), CoresPerSocket: s.GetCoresPerSocket(),
		ThreadsPerCore: s.GetThreadsPerCore(), TresPerTask: s.GetTresPerTask(), Switches: s.GetSwitches(), HetOffset: s.GetHetOffset(),
		AdminComment: s.GetAdminComment(), Args: s.GetArgs(), BindGres: s.GetBindGres(), MailTypes: s.GetMailTypes(), MailUser: s.GetMailUser(),
		Nomultithread: s.GetNomultithread(), Reboot: s.GetReboot(), SpreadJob: s.GetSpreadJob(), SubmitHost: s.GetSubmitHost(), SubmitSid: s.GetSubmitSid(),
		TasksPerCore: s.GetTasksPerCore(), TasksPerSocket: s.GetTasksPerSocket(), BatchFeatures: s.GetBatchFeatures(), BurstBuffer: s.GetBurstBuffer(),
		DelayBootS: s.GetDelayBootS(), McsLabel: s.GetMcsLabel(), Power: s.GetPower(), Network: s.GetNetwork(), CpuFreq: s.GetCpuFreq(), TresFreq: s.GetTresFreq(),
		TresBind: s.GetTresBind(), ClusterFeatures: s.GetClusterFeatures(), SegmentSize: s.GetSegmentSize(), Profile: s.GetProfile(),
		DefaultCpusPerGpu: s.GetDefaultCpusPerGpu(), DefaultMemPerGpu: s.GetDefaultMemPerGpu(),
		KillOnInvalidDependency: s.GetKillOnInvalidDependency(), KeepOnInvalidDependency: s.GetKeepOnInvalidDependency(),
		Cron: s.GetCron(),
	}
}

func replyNodes(r Reader, q *AskNodes, sight Sight) (*AnswerNodes, error) {
	a := &AnswerNodes{
		Partitions: r.Partitions(), Config: r.Config(),
		NodesPrivate: sight.Private(events.Private_PRIVATE_NODES), PartitionsPrivate: sight.Private(events.Private_PRIVATE_PARTITIONS),
	}
	if a.PartitionsPrivate {
		a.Partitions = nil
		a.Config = a.Config.CloneVT()
		a.Config.Partitions = nil
	}
	if q.GetNames() == "" {
		a.Nodes = r.Nodes()
		if a.NodesPrivate {
			a.Nodes = slices.Clone(a.Nodes)
			for i, n := range a.Nodes {
				a.Nodes[i] = sight.Node(n)
			}
		}
		return a, nil
	}
	names, err := hostlist.Expand(q.GetNames(), hostlist.MaxHosts)
	if err != nil {
		return a, fmt.Errorf("nodes to show: %w", err)
	}
	var unknown []string
	for _, name := range names {
		if n := r.Node(name); n != nil {
			a.Nodes = append(a.Nodes, sight.Node(n))
		} else {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return a, fmt.Errorf("no node is called %s", hostlist.Compress(unknown))
	}
	return a, nil
}

// replyVerdicts: what became of the intents of one message, by index. Without a count it is what the state knows of.
func replyVerdicts(r Reader, q *AskVerdicts) (*AnswerVerdicts, error) {
	a := &AnswerVerdicts{}
	if r.Seq() < q.GetSeq() {
		a.Undecided = true
		return a, nil
	}
	a.Verdicts = r.VerdictsOf(q.GetSeq())
	known := map[uint32]uint32{}
	count := q.GetCount()
	for _, v := range a.Verdicts {
		known[v.Index] = v.FirstId
		count = max(count, v.Index+1)
	}
	inbox := r.Inbox()
	from, _ := slices.BinarySearchFunc(inbox, q.GetSeq(), func(item *InboxItem, seq uint64) int { return cmp.Compare(item.Seq, seq) })
	for _, item := range inbox[from:] {
		if item.Seq != q.GetSeq() {
			break
		}
		known[item.Index] = item.FirstId
		count = max(count, item.Index+1)
		a.Undecided = true
	}
	count = min(count, 1<<16) // more intents than a message can hold
	a.Ids = make([]uint32, count)
	for i := range a.Ids {
		id, ok := known[uint32(i)]
		if !ok {
			return a, fmt.Errorf("intent %d of message %d is not known: its verdict is too old, or it was not there", i, q.GetSeq())
		}
		a.Ids[i] = id
	}
	return a, nil
}

// replyNode: what should run on a node. A run that is not named here should not be there. One that is told to end is named,
// with its Stop, until the node has reported; one whose job is completing is to be ended on the nodes that have not.
func replyNode(r Reader, q *AskNode) *AnswerNode {
	n := r.Node(q.GetName())
	a := &AnswerNode{Node: n, ConfigSeq: r.ConfigSeq(), Unknown: n == nil}
	if q.GetConfigSeq() != r.ConfigSeq() {
		a.Config = r.Config()
	}
	for _, id := range n.GetJobs() {
		if j := r.Job(id); j.Live() {
			run := &NodeRun{Job: j}
			if j.ArrayId != 0 {
				run.Array = r.Array(j.ArrayId)
			}
			if j.Leads() {
				run.Parts = Components(r, j.HetId, j.HetSize)
			} else if j.HetId != 0 {
				run.Lead = r.Job(j.HetId).GetAllocation().FirstNode()
			}
			a.Runs = append(a.Runs, run)
		}
	}
	return a
}

func replyStatus(r Reader, q *AskStatus) *AnswerStatus {
	counts := r.Counts()
	a := &AnswerStatus{
		Term: r.Term(), JobsPending: uint64(counts.Pending), JobsRunning: uint64(counts.Running), FinishedHot: uint64(counts.Finished),
		Inbox: uint64(len(r.Inbox())), Voids: r.Voids(), Cycles: r.Term().Cycle, LastCycleUs: r.Term().NowUs,
	}
	r.EachNode(func(n *Node) bool {
		a.Nodes++
		switch {
		case n.Down && !n.Lost:
			a.NodesDown++
		case n.Up && !n.Down:
			a.NodesUp++
		}
		return true
	})
	if h, ok := r.(interface{ Hash() [32]byte }); ok && q.GetWantHash() {
		a.Hash = fmt.Sprintf("%x", h.Hash())
	}
	return a
}

func replyWhy(r Reader, outcomes OutcomeSource, q *AskWhy, sight Sight) (*AnswerWhy, error) {
	j := meant(r, q)
	if j == nil || !sight.SeesJob(j.GetOwner().GetUid()) {
		name := strconv.FormatUint(uint64(q.GetJob()), 10)
		if q.GetHasTask() {
			name += "_" + strconv.FormatUint(uint64(q.GetTask()), 10)
		}
		return &AnswerWhy{}, fmt.Errorf("job %s is not hot: it never was, or it ended a while ago", name)
	}
	a := &AnswerWhy{Job: viewOf(r, outcomes, j)}
	a.Job.Job = sight.Job(j)
	if !j.Waits() {
		return a, nil
	}
	var before []*Job
	r.EachPending(func(o *Job) bool {
		if o.Id != j.Id && sight.SeesJob(o.GetOwner().GetUid()) && o.Eligible(r.At()) && shares(j, o) && (o.Priority > j.Priority || o.Priority == j.Priority && o.Id < j.Id) {
			before = append(before, o)
		}
		return true
	})
	slices.SortFunc(before, func(x, y *Job) int { return cmp.Or(cmp.Compare(y.Priority, x.Priority), cmp.Compare(x.Id, y.Id)) })
	a.AheadCount = uint32(len(before))
	for _, o := range before[:min(len(before), maxAhead)] {
		v := viewOf(r, outcomes, o)
		v.Job = slim(o)
		a.Ahead = append(a.Ahead, v)
	}
	return a, nil
}

// meant is the job that a question is about, nil if there is none: of an array's task its own record, or, while it has none,
// that of the pending tasks it is one of.
func meant(r Reader, q *AskWhy) *Job {
	if !q.GetHasTask() {
		return r.Job(q.GetJob())
	}
	if t := r.ArrayTask(q.GetJob(), q.GetTask()); t != nil {
		return r.Job(t.Job)
	}
	j := r.Job(q.GetJob())
	if j.GetArrayId() != q.GetJob() || j.GetHasTask() || !idset.FromWords(j.GetPending()).Has(int(q.GetTask())) {
		return nil
	}
	return j
}

// shares says whether two jobs asked for a partition in common.
func shares(j, o *Job) bool {
	for name := range strings.SplitSeq(j.GetSpec().GetPartition(), ",") {
		if asked(o, name) {
			return true
		}
	}
	return false
}

func replyWait(r Reader, q *AskWait, sight Sight) *AnswerWait {
	a := &AnswerWait{}
	for _, id := range q.GetIds() {
		known := eachOf(r, id, sight, func(j *Job) {
			switch {
			case q.GetBegin() && !j.Waits() && !j.Over():
				a.Begun = append(a.Begun, j)
			case !j.Over() || j.Completing && !q.GetBegin():
				a.Undecided = true
			default:
				a.Ended = append(a.Ended, sight.Job(j))
			}
		})
		if !known {
			a.Gone = append(a.Gone, id)
			continue
		}
		if rec := r.Array(id); rec != nil {
			a.Arrays = append(a.Arrays, rec)
			a.Undecided = a.Undecided || rec.Completed+rec.Failed < rec.Total
		}
	}
	return a
}
