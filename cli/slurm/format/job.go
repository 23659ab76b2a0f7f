package format

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"stint/cli/slurm"
	"stint/events"
	"stint/events/hostlist"
	"stint/events/idset"
	"stint/events/tres"
	"stint/projections"
)

// Context is what the rows of one answer have in common.
type Context struct {
	Clock     Clock
	Release   slurm.Release
	Cluster   string
	BitstrLen int  // SLURM_BITSTR_LEN: how much of a list of array tasks is shown, 0: all
	ShortIDs  bool // it is not set, and ids with such a list are cut
	NoConvert bool
	Preempts  bool // jobs make room for others (PreemptType)
	Limits    bool // jobs are held to limits (AccountingStorageEnforce)
	WCKeys    bool // jobs have wckeys (TrackWCKey)
	config    *events.Config
	most      map[string]int // of a partition, the most CPUs a node of it has
}

// Under sets what rows show of a cluster's configuration.
func (c *Context) Under(cfg *events.Config) {
	c.config, c.most = cfg, map[string]int{}
	for _, s := range cfg.GetSettings() {
		switch value := strings.ToLower(s.GetValue()); strings.ToLower(s.GetKey()) {
		case "trackwckey":
			c.WCKeys = value == "yes" || value == "1" || value == "true"
		case "preempttype":
			c.Preempts = value != "" && value != "preempt/none"
		case "accountingstorageenforce":
			c.Limits = strings.Contains(value, "limits") || strings.Contains(value, "safe") || value == "all"
		}
	}
}

// shortID is how much of an id with a list of array tasks releases before 23.02 show, unless SLURM_BITSTR_LEN is set.
const shortID = 31

// DefaultBitstrLen is how much of a list of array tasks is shown when SLURM_BITSTR_LEN says nothing.
const DefaultBitstrLen = 64

// mostCPUs is how many CPUs the largest node of a partition has, 0 if that is not known.
func (c *Context) mostCPUs(partition string) int {
	if c.config == nil {
		return 0
	}
	if n, known := c.most[partition]; known {
		return n
	}
	in := map[string]bool{}
	for _, p := range c.config.GetPartitions() {
		if p.GetName() == partition {
			names, _ := hostlist.Expand(p.GetNodes(), hostlist.MaxHosts)
			for _, n := range names {
				in[n] = true
			}
		}
	}
	most := 0
	for _, d := range c.config.GetNodes() {
		if int(d.GetCpus()) <= most {
			continue
		}
		names, _ := hostlist.Expand(d.GetNames(), hostlist.MaxHosts)
		if in["ALL"] || slices.ContainsFunc(names, func(n string) bool { return in[n] }) {
			most = int(d.GetCpus())
		}
	}
	c.most[partition] = most
	return most
}

// Job is a row about a job: of squeue, and a record of scontrol show job.
type Job struct {
	*projections.Job
	Outcome     *projections.Outcome
	Array       *projections.Array // the whole it is of
	Context     *Context
	Task        int      // a pending task of the array alone (squeue -r), -1: none
	arrays      []uint32 // of the jobs it depends on: those that are arrays
	Association uint32   // number of the association it belongs to, 0: none
	In          string   // the partition it waits in, one of several (squeue -P); empty: the job's own
	with        *merged  // what waits of its array in records of their own, where these are shown with it
	own         *own     // nil: the job's record has it
}

// own is what jobs of one kind do not have in common: their record is one, and has none of it.
type own struct {
	id, priority             uint32
	submit, eligible, accrue int64 // µs
}

// GetId is the job's number.
func (j Job) GetId() uint32 {
	if j.own != nil {
		return j.own.id
	}
	return j.Job.GetId()
}

// GetPriority is the job's priority; 0: it is held.
func (j Job) GetPriority() uint32 {
	if j.own != nil {
		return j.own.priority
	}
	return j.Job.GetPriority()
}

// GetSubmitUs is when it was submitted, in microseconds.
func (j Job) GetSubmitUs() int64 {
	if j.own != nil {
		return j.own.submit
	}
	return j.Job.GetSubmitUs()
}

// GetEligibleUs is from when on it may start, in microseconds; 0: not known.
func (j Job) GetEligibleUs() int64 {
	if j.own != nil {
		return j.own.eligible
	}
	return j.Job.GetEligibleUs()
}

// GetAccrueUs is since when it gains by waiting, in microseconds; 0: it does not.
func (j Job) GetAccrueUs() int64 {
	if j.own != nil {
		return j.own.accrue
	}
	return j.Job.GetAccrueUs()
}

// merged are the tasks that a row about an array shows besides its own, and why these wait, where that is for another reason.
type merged struct {
	tasks   events.Words // its own too
	reasons string       // ",None,JobHeldUser"
}

// Jobs makes rows of an answer. perPartition makes each partition a pending job waits in a row of its own.
func Jobs(views []*projections.JobView, c *Context, perPartition bool) []Job {
	rows := make([]Job, 0, len(views))
	for _, v := range views {
		rows = inEach(rows, rowOf(v, c), perPartition)
	}
	return rows
}

// Queue makes rows of an answer of either form. shown says of a job, which may lack what jobs of one kind do not have in common, whether it
// is wanted.
func Queue(a *projections.AnswerJobs, c *Context, perPartition bool, shown func(*projections.Job) bool) []Job {
	if a.GetRows() == nil {
		return Jobs(slices.DeleteFunc(a.GetJobs(), func(v *projections.JobView) bool { return !shown(v.GetJob()) }), c, perPartition)
	}
	kinds := make([]Job, len(a.GetKinds()))
	wanted := make([]bool, len(kinds))
	for i, v := range a.GetKinds() {
		kinds[i], wanted[i] = rowOf(v, c), shown(v.GetJob())
	}
	n := len(a.GetRows().GetIds())
	rows, each := make([]Job, 0, n), make([]own, 0, n)
	a.GetRows().Each(func(r projections.JobRow) {
		if r.Kind >= len(kinds) || !wanted[r.Kind] {
			return
		}
		each = append(each, own{r.Id, r.Priority, r.SubmitUs, r.EligibleUs, r.AccrueUs})
		j := kinds[r.Kind]
		j.own = &each[len(each)-1]
		rows = inEach(rows, j, perPartition)
	})
	return rows
}

// rowOf makes a row of a view.
func rowOf(v *projections.JobView, c *Context) Job {
	return Job{Job: v.GetJob(), Outcome: v.GetOutcome(), Array: v.GetArray(), Association: v.GetAssociation(), arrays: v.GetArrays(), Context: c, Task: -1}
}

// inEach adds a row, or one for each partition that the job waits in.
func inEach(rows []Job, j Job, perPartition bool) []Job {
	if perPartition && j.GetState() == events.JobState_PENDING && strings.Contains(j.GetSpec().GetPartition(), ",") {
		for _, p := range strings.Split(j.GetSpec().GetPartition(), ",") {
			j.In = p
			rows = append(rows, j)
		}
		return rows
	}
	return append(rows, j)
}

// Expanded makes each pending task of an array a row of its own, in the place of the array.
func Expanded(rows []Job) []Job {
	out := make([]Job, 0, len(rows))
	for _, j := range rows {
		if !j.remainder() || j.Task >= 0 {
			out = append(out, j)
			continue
		}
		events.Words(j.GetPending()).Each(func(n uint32) bool {
			t := j
			t.Task = int(n)
			out = append(out, t)
			return true
		})
	}
	return out
}

// Merged shows what waits of an array in one row, as squeue does without -r: tasks that were changed, held or released by
// themselves with the rest of their array, as long as more than one is left of that, in the same partition and of the same name.
func Merged(rows []Job) []Job {
	heads := map[uint32]int{}
	for i, j := range rows {
		if _, single := j.single(); j.remainder() && !single && j.pending() && j.Task < 0 && j.In == "" {
			heads[j.GetArrayId()] = i
		}
	}
	if len(heads) == 0 {
		return rows
	}
	out := make([]Job, 0, len(rows))
	gone := make([]bool, len(rows))
	for i, j := range rows {
		at, ok := heads[j.GetArrayId()]
		if !ok || at == i || !j.pending() || !j.GetHasTask() || j.GetArrayId() == 0 {
			continue
		}
		head := &rows[at]
		if head.GetSpec().GetName() != j.GetSpec().GetName() || head.GetSpec().GetPartition() != j.GetSpec().GetPartition() {
			continue
		}
		gone[i] = true
		if head.with == nil {
			head.with = &merged{tasks: events.Words(head.GetPending()).Clone()}
		}
		head.with.tasks = head.with.tasks.Or(events.WordsOf(j.GetArrayTask()))
		_, shown := head.reason()
		if _, text := j.reason(); !strings.Contains(strings.ToLower(shown), strings.ToLower(text)) {
			head.with.reasons += "," + text
		}
	}
	for i, j := range rows {
		if !gone[i] {
			out = append(out, j)
		}
	}
	return out
}

// remainder says whether the row is what is pending of an array.
func (j Job) remainder() bool { return j.GetArrayId() != 0 && !j.GetHasTask() }

// single is the one task that is left waiting of an array whose others have records of their own: it is shown as they are.
func (j Job) single() (task uint32, ok bool) {
	pending := events.Words(j.GetPending())
	if !j.remainder() || j.Array.GetTotal() < 2 || pending.Count() != 1 {
		return 0, false
	}
	return pending.First()
}

// split says whether tasks of its array have started.
func (j Job) split() bool {
	return j.Array.GetRunning()+j.Array.GetCompleted()+j.Array.GetFailed() > 0
}

// Label is the job as people name it: `9`, `8_3`, `8_[0-9%2]`.
func (j Job) Label() string {
	switch {
	case j.GetArrayId() == 0:
		if j.GetHetId() != 0 {
			return fmt.Sprintf("%d+%d", j.GetHetId(), j.GetHetOffset())
		}
		return u32(j.GetId())
	case j.GetHasTask():
		return fmt.Sprintf("%d_%d", j.GetArrayId(), j.GetArrayTask())
	case j.Task >= 0:
		return fmt.Sprintf("%d_%d", j.GetArrayId(), j.Task)
	}
	if task, ok := j.single(); ok {
		return fmt.Sprintf("%d_%d", j.GetArrayId(), task)
	}
	return fmt.Sprintf("%d_[%s]", j.GetArrayId(), j.tasks())
}

// listed is the label as squeue has it.
func (j Job) listed() string {
	label := j.Label()
	if j.Context.ShortIDs && j.Context.Release < 2302 && len(label) > shortID && j.remainder() {
		return label[:shortID]
	}
	return label
}

// tasks are the pending indices of an array with its throttle.
func (j Job) tasks() string {
	if j.with != nil { // without the throttle, and without a mark where it is cut
		text := idset.FormatArray(idset.FromWords(j.with.tasks), 0, 0)
		if n := j.Context.BitstrLen; n > 0 && len(text) >= n {
			text = text[:n-1]
		}
		return text
	}
	return idset.FormatArray(idset.FromWords(j.GetPending()), int(j.GetArrayMaxRunning()), j.Context.BitstrLen)
}

func (j Job) taskID() string {
	switch {
	case j.GetArrayId() == 0:
		return "N/A"
	case j.GetHasTask():
		return u32(j.GetArrayTask())
	case j.Task >= 0:
		return strconv.Itoa(j.Task)
	}
	if task, ok := j.single(); ok {
		return u32(task)
	}
	return j.tasks()
}

// State is the word for the job's state, and its short form.
func (j Job) stateWords() (long, short string) {
	if j.GetCompleting() {
		return "COMPLETING", "CG"
	}
	if j.GetSpecialExit() && j.pending() {
		return "SPECIAL_EXIT", "SE"
	}
	if j.stopped() {
		return "STOPPED", "ST"
	}
	return j.GetState().Word(), j.GetState().Compact()
}

// stopped says whether a signal told its processes to stand still.
func (j Job) stopped() bool {
	return j.GetStopped() && j.GetState() == events.JobState_RUNNING && !j.GetCompleting()
}

// priority is what is shown of it: a job that stands still has none.
func (j Job) priority() uint32 {
	if j.GetState() == events.JobState_SUSPENDED {
		return 0
	}
	return j.GetPriority()
}

func (j Job) pending() bool { return j.GetState() == events.JobState_PENDING }

// running says whether time passes for the job.
func (j Job) running() bool {
	return j.GetEndUs() == 0 && (j.GetState() == events.JobState_RUNNING || j.GetState() == events.JobState_SUSPENDED)
}

// elapsed is how long the run has taken, time suspended left out, in seconds.
func (j Job) elapsed() int64 {
	if j.GetStartUs() == 0 || j.pending() {
		return 0
	}
	end := j.GetEndUs()
	if end == 0 {
		end = j.Context.Clock.Now.UnixMicro()
	}
	us := end - j.GetStartUs() - j.IdleUs()
	if j.GetSuspendedUs() != 0 && j.GetState() == events.JobState_SUSPENDED {
		us -= end - j.GetSuspendedUs()
	}
	return max(us, 0) / int64(time.Second/time.Microsecond)
}

func (j Job) limit() uint32 {
	if n := j.GetLimitS(); n != 0 {
		return n
	}
	return j.GetSpec().GetTimeLimitS()
}

// start is when it started, or is expected to, 0 if that is not known.
func (j Job) start() int64 {
	if !j.pending() {
		if j.GetStartUs() == 0 { // it ended before it started
			return j.GetEndUs()
		}
		return j.GetStartUs()
	}
	if n := j.Outcome.GetStartUs(); n != 0 {
		return n
	}
	if n := j.GetBeginUs(); n > j.Context.Clock.Now.UnixMicro() {
		return n
	}
	return 0
}

// end is when it ended, or will at the latest, 0 if that is not known.
func (j Job) end() int64 {
	if n := j.GetEndUs(); n != 0 && !j.pending() {
		return n
	}
	if s := j.start(); s != 0 && j.limit() != 0 && j.limit() != events.Unlimited && !j.GetState().Final() {
		return s + int64(j.limit())*1e6
	}
	return 0
}

func (j Job) nodes() string {
	if j.pending() {
		return ""
	}
	return hostlist.Compress(j.GetAllocation().NodeNames())
}

func (j Job) nodeCount() uint32 {
	if n := j.GetAllocation().NodeCount(); n > 0 && !j.pending() {
		return uint32(n)
	}
	return max(j.GetSpec().GetMinNodes(), 1)
}

// nodesWanted is on how many nodes a job that waits will run at least, by its tasks and the largest node of its partition.
func (j Job) nodesWanted() uint32 {
	n, s := j.nodeCount(), j.GetSpec()
	if !j.pending() {
		return n
	}
	tasks := s.GetTasks()
	partition, _, _ := strings.Cut(s.GetPartition(), ",")
	if each := uint32(j.Context.mostCPUs(partition)) / max(s.GetCpusPerTask(), 1); each > 0 && tasks > 0 {
		n = max(n, (tasks+each-1)/each)
	}
	if each := s.GetTasksPerNode(); each > 0 && tasks > 0 {
		n = max(n, tasks/each)
	}
	return n
}

func (j Job) cpus() uint64 {
	if n := j.GetAllocation().CPUs(); n > 0 && !j.pending() {
		return uint64(n)
	}
	return RequestedCPUs(j.GetSpec())
}

// RequestedCPUs is how many CPUs a request comes to before it is placed.
func RequestedCPUs(s *events.JobSpec) uint64 {
	if s.GetTasks() == 0 && s.GetTasksPerNode() == 0 && s.GetMaxNodes() > s.GetMinNodes() { // on how many nodes is open
		return uint64(max(s.GetCpusPerTask(), s.GetMinCpusPerNode(), 1))
	}
	tasks := uint64(numTasks(s, 0))
	cpus := tasks * uint64(max(s.GetCpusPerTask(), 1))
	if s.GetOvercommit() {
		cpus = uint64(max(s.GetMinNodes(), 1))
	}
	return max(cpus, uint64(max(s.GetMinNodes(), 1))*uint64(max(s.GetMinCpusPerNode(), 1)), uint64(s.GetMinCpus()))
}

// numTasks is the number of tasks: as it was asked for, one of each node where it was not, and so many on each node where
// these were given.
func numTasks(s *events.JobSpec, nodes uint32) uint32 {
	waits := nodes == 0
	if waits {
		nodes = max(s.GetMinNodes(), 1)
	}
	switch {
	case waits && s.GetTasks() > 0:
		return s.GetTasks()
	case s.GetTasksPerNode() > 0:
		return max(s.GetTasks(), nodes*s.GetTasksPerNode())
	case s.GetTasks() > 0:
		return s.GetTasks()
	}
	return nodes
}

// allocated is the number of nodes the job has; 0 while it waits.
func (j Job) allocated() uint32 {
	if j.pending() {
		return 0
	}
	return uint32(j.GetAllocation().NodeCount())
}

// tres is what was allocated, or asked for while it waits.
func (j Job) tres() tres.List {
	var l tres.List
	s := j.GetSpec()
	cpus, nodes := j.cpus(), uint64(j.nodeCount())
	l.Set("cpu", int64(cpus))
	var mem uint64
	a := j.GetAllocation()
	if a.NodeCount() > 0 && !j.pending() {
		mem = a.MemoryMiB()
		for _, g := range a.Gres() {
			addGres(&l, g.Name, g.Type, int64(g.Count))
		}
	} else {
		switch {
		case s.GetMemPerNodeMib() > 0:
			mem = s.GetMemPerNodeMib() * nodes
		case s.GetMemPerCpuMib() > 0:
			mem = s.GetMemPerCpuMib() * cpus
		}
		for _, g := range s.GetGres() {
			n := g.GetCount()
			switch g.GetScope() {
			case events.Scope_PER_NODE, events.Scope_PER_SOCKET:
				n *= nodes
			case events.Scope_PER_TASK:
				n *= uint64(numTasks(s, 0))
			}
			addGres(&l, g.GetName(), g.GetType(), int64(n))
			if g.GetName() == "gpu" {
				mem += s.GetMemPerGpuMib() * n
			}
		}
	}
	if mem > 0 {
		l.Set("mem", int64(mem))
	}
	l.Set("node", int64(nodes))
	l.Set("billing", j.Context.config.Bill(j.partitionDef(), l))
	return l
}

func addGres(l *tres.List, name, kind string, n int64) {
	name = "gres/" + name
	l.Set(name, l.Get(name)+n)
	if kind != "" {
		l.Set(name+":"+kind, l.Get(name+":"+kind)+n)
	}
}

// tresPer is the generic resources asked for in one scope, `gres:gpu:a100:2` before 23.02 and `gres/gpu:a100:2` since.
func (j Job) tresPer(scope events.Scope) string {
	prefix := "gres/"
	if j.Context.Release < 2302 {
		prefix = "gres:"
	}
	var terms []string
	for _, g := range j.GetSpec().GetGres() {
		if g.GetScope() != scope {
			continue
		}
		t := prefix + g.GetName()
		if g.GetType() != "" {
			t += ":" + g.GetType()
		}
		between := ":"
		if scope == events.Scope_PER_TASK && j.Context.Release >= 2311 {
			between = "="
		}
		terms = append(terms, t+between+strconv.FormatUint(g.GetCount(), 10))
	}
	if scope == events.Scope_PER_TASK {
		terms = append(slices.Clone(j.GetSpec().GetTresPerTask()), terms...)
		if n := j.GetSpec().GetCpusPerTask(); n > 0 && j.Context.Release >= 2311 && !slices.ContainsFunc(terms, func(t string) bool { return strings.HasPrefix(t, "cpu") }) {
			terms = append([]string{fmt.Sprintf("cpu=%d", n)}, terms...) // it says the same
		}
	}
	return strings.Join(terms, ",")
}

// minMemory is what each node or CPU is to have, in MiB, and which of the two.
func (j Job) minMemory() (mib uint64, perCPU bool) {
	s := j.GetSpec()
	if s.GetMemPerCpuMib() > 0 {
		return s.GetMemPerCpuMib(), true
	}
	return s.GetMemPerNodeMib(), false
}

func (j Job) memory(mib uint64) string {
	if j.Context.NoConvert {
		return tres.Memory(int64(mib), tres.Plain)
	}
	return tres.Memory(int64(mib), tres.Auto)
}

// minCPUs is the CPUs each node must have.
func (j Job) minCPUs() uint32 {
	s := j.GetSpec()
	each := max(s.GetTasksPerNode(), 1)
	if n := s.GetTasks(); n > 0 {
		each = min(each, n)
	}
	if s.GetOvercommit() {
		each = 1
	}
	return max(s.GetMinCpusPerNode(), max(s.GetCpusPerTask(), 1)*each)
}

// never says whether the tasks that the row stands for are all among those whose counterparts will not do.
func (j Job) never(tasks events.Words) bool {
	if j.Task >= 0 {
		return tasks.Has(uint32(j.Task))
	}
	pending := events.Words(j.GetPending())
	return pending.Count() > 0 && pending.And(tasks).Count() == pending.Count()
}

// dependencies are what it still waits for, and what can no longer come: `afterok:2(unfulfilled)`.
func (j Job) dependencies() string {
	if !j.pending() && j.GetStartUs() != 0 {
		return "" // it has started, so it waits for nothing: of several any one may have done
	}
	var terms []string
	for _, d := range j.GetDependencies() {
		word := "unfulfilled"
		switch dep := d.GetDependency(); {
		case d.GetState() == projections.Fulfilment_FULFILLED && d.GetSinceUs() <= j.Context.Clock.Now.UnixMicro():
			continue // an hour that it is to wait beyond may still lie ahead
		case d.GetState() == projections.Fulfilment_NEVER, dep.GetKind() == events.DependencyKind_AFTER_CORR && j.never(d.GetNever()):
			word = "failed"
		}
		dep := d.GetDependency()
		t := slurm.DependencyWord(dep.GetKind())
		if dep.GetKind() != events.DependencyKind_SINGLETON {
			t += ":" + u32(dep.GetJob())
		}
		switch {
		case dep.GetHasTask():
			t += "_" + u32(dep.GetTask())
		case slices.Contains(j.arrays, dep.GetJob()):
			t += "_*"
		}
		if dep.GetDelayMin() > 0 {
			t += "+" + u32(dep.GetDelayMin())
		}
		terms = append(terms, t+"("+word+")")
	}
	sep := ","
	if j.GetSpec().GetDependencyAny() {
		sep = "?"
	}
	return strings.Join(terms, sep)
}

func (j Job) oversubscribe() string {
	switch s := j.GetSpec(); {
	case j.partitionDef().GetExclusiveUser():
		return "USER"
	case s.GetExclusive() == events.Exclusive_EXCLUSIVE_NODE:
		return "NO"
	case s.GetExclusive() == events.Exclusive_EXCLUSIVE_USER:
		return "USER"
	case s.GetExclusive() == events.Exclusive_EXCLUSIVE_MCS:
		return "MCS"
	case s.GetOversubscribe():
		return "YES"
	}
	return "OK"
}

// partitionDef is the partition a job runs in, or the first that it waits for; nil if it is gone.
func (j Job) partitionDef() *events.PartitionDef {
	name, _, _ := strings.Cut(j.partition(), ",")
	return j.Context.config.PartitionNamed(name)
}

func (j Job) partition() string {
	switch {
	case j.In != "":
		return j.In
	case j.pending() && j.GetSpec().GetPartition() != "":
		return j.GetSpec().GetPartition()
	case j.GetPartition() != "":
		return j.GetPartition()
	}
	return j.GetSpec().GetPartition()
}

// stdFile is the path of a standard file with its pattern filled in as far as it can be here, absolute.
func (j Job) stdFile(pattern, other string) string {
	if pattern == "" {
		pattern = other
	}
	names := slurm.Names{AsShown: j.Context.Release <= slurm.Release2205, Job: j.GetId(), Array: j.GetArrayId(), Task: 4294967294, Step: "batch", Node: j.GetAllocation().FirstNode(), User: j.GetOwner().GetUser(), JobName: j.GetSpec().GetName()}
	if j.GetHasTask() {
		names.Task = j.GetArrayTask()
	} else if j.Task >= 0 {
		names.Task = uint32(j.Task)
	}
	return j.inWorkDir(slurm.FileName(pattern, names, j.Context.Release))
}

func (j Job) stdOut() string {
	pattern := "slurm-%j.out"
	if j.GetArrayId() != 0 {
		pattern = "slurm-%A_%a.out"
	}
	return j.stdFile(j.GetSpec().GetStdOut(), pattern)
}

// queueOut and queueErr are these files as squeue shows them: that of 22.05 forgets that tasks of an array write to files of their own where no name
// was given, and fills in no pattern.
func (j Job) queueOut() string {
	switch pattern := j.GetSpec().GetStdOut(); {
	case j.Context.Release > slurm.Release2205:
		return j.stdOut()
	case pattern == "":
		return j.stdFile("slurm-%j.out", "")
	default:
		return j.inWorkDir(pattern)
	}
}

func (j Job) queueErr() string {
	switch pattern := j.GetSpec().GetStdErr(); {
	case pattern == "":
		return j.queueOut()
	case j.Context.Release > slurm.Release2205:
		return j.stdErr()
	default:
		return j.inWorkDir(pattern)
	}
}

// inWorkDir is a path as it is from the job's folder.
func (j Job) inWorkDir(file string) string {
	if !strings.HasPrefix(file, "/") {
		file = strings.TrimSuffix(j.GetSpec().GetWorkDir(), "/") + "/" + file
	}
	return file
}

func (j Job) stdErr() string {
	if j.GetSpec().GetStdErr() == "" {
		return j.stdOut()
	}
	return j.stdFile(j.GetSpec().GetStdErr(), "")
}

func (j Job) stdIn() string { return j.stdFile(j.GetSpec().GetStdIn(), "/dev/null") }

func u32(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// null is s, or Slurm's word for no text.
func null(s string) string {
	if s == "" {
		return "(null)"
	}
	return s
}

func orNA(s string) string {
	if s == "" {
		return "N/A"
	}
	return s
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// limitText is a time limit in the style of the printer given.
func limitText(seconds uint32, print func(int64) string) string {
	switch seconds {
	case 0:
		return "NOT_SET"
	case events.Unlimited:
		return "UNLIMITED"
	}
	return print(int64(seconds))
}
