package place

import (
	"errors"
	"fmt"
	"strings"

	"stint/events"
	"stint/events/hostlist"
)

// MemoryKind says what an amount of memory is counted by.
type MemoryKind uint8

// The ways to ask for memory.
const (
	MemoryNone    MemoryKind = iota // not consumed
	MemoryPerNode                   // MiB on each node
	MemoryPerCPU                    // MiB for each CPU given
	MemoryPerGPU                    // MiB for each GPU given
	MemoryAll                       // all of each node
)

// unlimitedNodes stands for a job that names no upper bound.
const unlimitedNodes = 1 << 30

// Request is what a job asks of the machine, with the meaning of absent options filled in. Requests of equal shape are
// one: those that a Shapes made are compared by pointer, so that what is learned of one holds for all.
type Request struct {
	ID int // dense number in its Shapes

	MinNodes, MaxNodes int
	Tasks              int // 0: as many as the nodes make (TasksPerNode each, or 1)
	CPUsPerTask        int
	TasksPerNode       int // 0: no bound
	TasksPerCore       int // 0: no bound
	TasksPerSocket     int // 0: no bound
	MinCPUs            int // that a node has to have free, and gives unless more tasks than CPUs may be on it
	Built              int // CPUs that a node must have, free or not: the tasks per node that were asked for, even if there are fewer tasks
	ThreadsPerCore     int // use at most these of each core; 0: all
	Sockets, Cores     int // a node has at least these sockets, cores in a socket
	MinThreads         int

	Memory    MemoryKind
	MemoryMiB int64
	TmpMiB    int64

	Gres       []GresRequest
	CPUsPerGPU int

	Exclusive  bool
	Contiguous bool
	CoresInRow bool // cores of a node one after the other, not from each socket in turn
	Overcommit bool
	Spread     bool // a range of nodes was given: as many as there are of it
	Fewest     bool // of a range of nodes, the fewest that do
	Even       bool // tasks are spread evenly over the nodes
	OneUser    bool // other jobs on the nodes have to be of the same user

	Constraint     Constraint
	Batch          *Expr // features of the node that the script runs on; nil: any
	constraintText string
	NodeList       []string // in the order written, each once
	Exclude        []string
	listText       string
	excludeText    string
	eligibleKey    string
	leastCPUs      int // a node with fewer free ones need not be looked at
	leastSum       int // nor nodes that together have fewer
}

// GresRequest asks for a generic resource. Exactly one of the counts is set.
type GresRequest struct {
	Name, Type string
	PerNode    int
	PerTask    int
	PerJob     int
	PerSocket  int // on each socket with CPUs of the job
	TasksPer   int // one of it for each so many tasks
}

// Problem is why a request cannot be read: a code for tools and a sentence for people.
type Problem struct {
	Code events.Code
	Text string
}

// Error is the sentence.
func (p *Problem) Error() string { return p.Text }

func problem(code events.Code, format string, args ...any) *Problem {
	return &Problem{Code: code, Text: fmt.Sprintf(format, args...)}
}

// MaxCount bounds every count a job may ask for (tasks, CPUs, nodes, devices): far above any cluster, far from overflow.
const MaxCount = 1 << 22

// Shapes gives equal requests one identity. It is a cache: losing it changes nothing.
type Shapes struct {
	byKey map[string]*Request
	all   []*Request
}

// NewShapes returns an empty table of requests.
func NewShapes() *Shapes { return &Shapes{byKey: map[string]*Request{}} }

// Len is the number of shapes seen.
func (s *Shapes) Len() int { return len(s.all) }

// Of returns the request of an admitted specification, the same pointer for equal shapes. It fails where RequestOf fails.
func (s *Shapes) Of(spec *events.JobSpec) (*Request, *Problem) {
	key := shapeKey(spec)
	if q, ok := s.byKey[key]; ok {
		return q, nil
	}
	q, err := RequestOf(spec)
	if err != nil {
		return nil, err
	}
	q.ID = len(s.all)
	s.all = append(s.all, q)
	s.byKey[key] = q
	return q, nil
}

// shapeKey is the encoding of the fields a request is made of, and of nothing else.
func shapeKey(spec *events.JobSpec) string {
	only := events.JobSpec{
		MinNodes: spec.MinNodes, MaxNodes: spec.MaxNodes, Tasks: spec.Tasks, CpusPerTask: spec.CpusPerTask,
		TasksPerNode: spec.TasksPerNode, TasksPerCore: spec.TasksPerCore, MinCpusPerNode: spec.MinCpusPerNode,
		MemPerNodeMib: spec.MemPerNodeMib, MemPerCpuMib: spec.MemPerCpuMib, MemAll: spec.MemAll, MemPerGpuMib: spec.MemPerGpuMib,
		TmpDiskMib: spec.TmpDiskMib, Gres: spec.Gres, CpusPerGpu: spec.CpusPerGpu, Constraint: spec.Constraint,
		NodeList: spec.NodeList, Exclude: spec.Exclude, Exclusive: spec.Exclusive, Overcommit: spec.Overcommit,
		Contiguous: spec.Contiguous, SocketsPerNode: spec.SocketsPerNode, CoresPerSocket: spec.CoresPerSocket,
		ThreadsPerCore: spec.ThreadsPerCore, TasksPerGpu: spec.TasksPerGpu, Nomultithread: spec.Nomultithread,
		TasksPerSocket: spec.TasksPerSocket, SpreadJob: spec.SpreadJob, UseMinNodes: spec.UseMinNodes, MinCpus: spec.MinCpus,
		BatchFeatures: spec.BatchFeatures,
	}
	if inRow(spec.Distribution) {
		only.Distribution = "block:block"
	}
	b, err := only.MarshalVT()
	if err != nil {
		// The generated codec of plain fields does not fail; a distinct key only costs a shared memo.
		return fmt.Sprintf("%p", spec)
	}
	return string(b)
}

// RequestOf reads what a specification asks for. Errors are sentences for the submitter: counts out of bounds, malformed
// constraint or node lists, combinations that cannot be met on any machine.
func RequestOf(spec *events.JobSpec) (*Request, *Problem) {
	q := &Request{
		MinNodes: int(spec.MinNodes), MaxNodes: int(spec.MaxNodes), Tasks: int(spec.Tasks),
		CPUsPerTask: int(spec.CpusPerTask), TasksPerNode: int(spec.TasksPerNode), TasksPerCore: int(spec.TasksPerCore),
		MinCPUs: int(spec.MinCpusPerNode), ThreadsPerCore: int(spec.ThreadsPerCore), MinThreads: int(spec.ThreadsPerCore),
		Sockets: int(spec.SocketsPerNode), Cores: int(spec.CoresPerSocket), TmpMiB: int64(spec.TmpDiskMib),
		CPUsPerGPU: int(spec.CpusPerGpu), Exclusive: spec.Exclusive == events.Exclusive_EXCLUSIVE_NODE,
		OneUser: spec.Exclusive == events.Exclusive_EXCLUSIVE_USER, Even: spec.SpreadJob, Fewest: spec.UseMinNodes, TasksPerSocket: int(spec.TasksPerSocket),
		Contiguous: spec.Contiguous, Overcommit: spec.Overcommit, CoresInRow: inRow(spec.Distribution),
		constraintText: spec.Constraint, listText: spec.NodeList, excludeText: spec.Exclude,
	}
	if spec.Nomultithread {
		q.ThreadsPerCore = 1
		q.MinThreads = 0
	}
	if spec.TasksPerGpu > 0 { // they say already how tasks come to cores
		q.TasksPerCore = 0
	}
	for _, c := range []struct {
		what string
		n    int
	}{{"nodes", q.MinNodes}, {"nodes", q.MaxNodes}, {"tasks", q.Tasks}, {"CPUs per task", q.CPUsPerTask},
		{"tasks per node", q.TasksPerNode}, {"tasks per socket", q.TasksPerSocket}, {"tasks per core", q.TasksPerCore}, {"CPUs per node", q.MinCPUs},
		{"CPUs per GPU", q.CPUsPerGPU}, {"tasks per GPU", int(spec.TasksPerGpu)}, {"sockets", q.Sockets}, {"cores per socket", q.Cores}, {"threads per core", q.MinThreads}} {
		if c.n > MaxCount {
			return nil, problem(events.Code_TOO_MANY_CPUS, "%d %s are more than any cluster has (%d)", c.n, c.what, MaxCount)
		}
	}
	gres, err1 := q.agree(spec.Gres)
	if err1 != nil {
		return nil, err1
	}
	var err error
	if q.Constraint, err = ParseConstraint(spec.Constraint); err != nil {
		if errors.Is(err, ErrUnsupported) {
			return nil, problem(events.Code_UNSUPPORTED, "%s", err)
		}
		return nil, problem(events.Code_INVALID_FEATURE, "%s", err)
	}
	if q.Batch, err1 = batchNode(spec.BatchFeatures, q.Constraint); err1 != nil {
		return nil, err1
	}
	if q.Contiguous && len(q.Constraint.Counts) > 0 {
		return nil, problem(events.Code_UNSUPPORTED, "not supported: consecutive nodes with a count of nodes per feature")
	}
	if err := q.readNodes(spec); err != nil {
		return nil, err
	}
	if most := int(min(spec.MinCpus, MaxCount)); most > max(q.Tasks, q.MinNodes)*q.CPUsPerTask {
		q.MinCPUs = max(q.MinCPUs, (most+q.MinNodes-1)/q.MinNodes) // evenly over as few nodes as it may have
	}
	if err := q.readGres(spec, gres); err != nil {
		return nil, err
	}
	if err := q.readMemory(spec); err != nil {
		return nil, err
	}
	// A node has to have the CPUs for all the tasks that may be on it, and gives them: as Slurm has it, however few there are.
	q.MinCPUs = max(q.MinCPUs, q.TasksPerNode*q.CPUsPerTask)
	q.Built = max(q.MinCPUs, int(spec.TasksPerNode)*q.CPUsPerTask)
	if q.MinCPUs > MaxCount {
		return nil, problem(events.Code_TOO_MANY_CPUS, "%d CPUs on a node are more than any has", q.MinCPUs)
	}
	q.eligibleKey = q.makeEligibleKey()
	q.leastCPUs = max(q.MinCPUs, 1)
	if !q.Overcommit {
		q.leastCPUs = max(q.leastCPUs, q.CPUsPerTask)
		if q.Tasks == 0 {
			q.leastCPUs = max(q.leastCPUs, q.CPUsPerTask*q.TasksPerNode)
		}
		q.leastSum = q.Tasks * q.CPUsPerTask
	}
	q.leastSum = max(q.leastSum, q.MinNodes*q.leastCPUs)
	return q, nil
}

// batchNode reads --batch, whose features all have to be among those of the constraint.
func batchNode(text string, all Constraint) (*Expr, *Problem) {
	if text == "" {
		return nil, nil
	}
	c, err := ParseConstraint(text)
	if err != nil || len(c.Alternatives) != 1 || len(c.Counts) > 0 {
		return nil, problem(events.Code_MALFORMED, "--batch=%.60s is not features of one node, joined by & or |", text)
	}
	known := map[string]bool{}
	all.Features(func(name string) { known[name] = true })
	var other *Problem
	c.Features(func(name string) {
		if !known[name] {
			other = problem(events.Code_MALFORMED, "--batch names %.60s, which is not among the features of --constraint", name)
		}
	})
	return c.Alternatives[0], other
}

// makeEligibleKey writes what decides which nodes are looked at, whatever is free on them.
func (q *Request) makeEligibleKey() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q %d %d %d %d %d", q.constraintText, q.listText, q.excludeText, q.Built, q.Sockets, q.Cores, q.MinThreads, q.TmpMiB)
	for i := range q.Gres {
		fmt.Fprintf(&b, " %q %q %d", q.Gres[i].Name, q.Gres[i].Type, q.Gres[i].least())
	}
	return b.String()
}

// pooled is the resource that is counted for the whole job, if there is one.
func (q *Request) pooled() *GresRequest {
	for i := range q.Gres {
		if q.Gres[i].PerJob > 0 {
			return &q.Gres[i]
		}
	}
	return nil
}

func (q *Request) readNodes(spec *events.JobSpec) *Problem {
	var err error
	if q.NodeList, err = distinctHosts(spec.NodeList); err != nil {
		return problem(events.Code_INVALID_NODE, "node list: %s", err)
	}
	if !strings.HasPrefix(spec.Distribution, "arbitrary") {
		hostlist.Sort(q.NodeList) // where fewer than all are taken, it is the first by name
	}
	if q.Exclude, err = distinctHosts(spec.Exclude); err != nil {
		return problem(events.Code_INVALID_NODE, "excluded nodes: %s", err)
	}
	if q.Tasks > 0 && q.MaxNodes == q.Tasks && q.Tasks < len(q.NodeList) {
		q.NodeList = q.NodeList[:q.Tasks] // each node runs a task: of those it names, a job has as many as it has tasks
	}
	q.MinNodes = max(q.MinNodes, len(q.NodeList), q.Constraint.Nodes(), 1)
	q.Spread = q.MaxNodes > q.MinNodes && !spec.UseMinNodes || spec.SpreadJob
	if q.MaxNodes == 0 {
		q.MaxNodes = unlimitedNodes
	}
	if q.MaxNodes < q.MinNodes {
		return problem(events.Code_INVALID_NODE_COUNT, "at least %d nodes are needed, at most %d allowed", q.MinNodes, q.MaxNodes)
	}
	q.CPUsPerTask = max(q.CPUsPerTask, 1)
	if q.TasksPerNode > 0 && q.Tasks > 0 {
		// The nodes that many tasks need at so many a node; each of them gets so many, the last one too.
		q.TasksPerNode = min(q.TasksPerNode, q.Tasks)
		q.MinNodes = max(q.MinNodes, (q.Tasks+q.TasksPerNode-1)/q.TasksPerNode)
		if q.MaxNodes < q.MinNodes {
			return problem(events.Code_INVALID_NODE_COUNT, "%d tasks at %d per node need %d nodes, at most %d are allowed", q.Tasks, q.TasksPerNode, q.MinNodes, q.MaxNodes)
		}
	}
	if q.Tasks > 0 && q.Tasks < q.MinNodes {
		// Each node runs a task: of the nodes it names, a job has as many as it has tasks.
		q.MinNodes = max(q.Tasks, q.Constraint.Nodes())
		q.Tasks = q.MinNodes
		q.NodeList = q.NodeList[:min(len(q.NodeList), q.Tasks)]
	}
	if q.Tasks == 0 && spec.MaxNodes == 0 && spec.TasksPerGpu == 0 && !pools(spec.Gres) {
		q.MaxNodes = q.MinNodes // without tasks or a range there is nothing that would spread
	}
	if q.Tasks > 0 {
		q.MaxNodes = min(q.MaxNodes, q.Tasks)
		q.MaxNodes = max(q.MaxNodes, q.MinNodes)
	}
	return nil
}

// pools says whether something is counted for the whole job: on as many nodes as it takes.
func pools(list []*events.Gres) bool {
	for _, g := range list {
		if g.Scope == events.Scope_PER_JOB && g.Count > 0 {
			return true
		}
	}
	return false
}

// agree takes several counts of one resource as one wish: so many for the job and so many on a node make a number of nodes,
// for the job and for a task a number of tasks, on a node and for a task a number of tasks on a node.
func (q *Request) agree(list []*events.Gres) ([]*events.Gres, *Problem) {
	find := func(like *events.Gres, scope events.Scope) *events.Gres {
		for _, g := range list {
			if g.Name == like.Name && g.Type == like.Type && g.Scope == scope && g.Count > 0 {
				return g
			}
		}
		return nil
	}
	var out []*events.Gres
	for _, g := range list {
		if g.Count > MaxCount {
			return nil, problem(events.Code_INVALID_GRES, "%d of %s are more than %d", g.Count, g.Name, MaxCount)
		}
		node, task := find(g, events.Scope_PER_NODE), find(g, events.Scope_PER_TASK)
		switch {
		case g.Scope == events.Scope_PER_JOB && node != nil:
			nodes := int(g.Count / node.Count)
			if g.Count%node.Count != 0 || q.MaxNodes > 0 && q.MaxNodes < nodes || q.MinNodes > nodes {
				return nil, problem(events.Code_INVALID_GRES, "%d %s for the job do not go with %d on each node", g.Count, g.Name, node.Count)
			}
			q.MinNodes, q.MaxNodes = nodes, nodes
		case g.Scope == events.Scope_PER_JOB && task != nil:
			tasks := int(g.Count / task.Count)
			if g.Count%task.Count != 0 || q.Tasks > 0 && q.Tasks != tasks {
				return nil, problem(events.Code_INVALID_GRES, "%d %s for the job do not go with %d for each task", g.Count, g.Name, task.Count)
			}
			q.Tasks = tasks
		case g.Scope == events.Scope_PER_TASK && node != nil:
			tasks := int(node.Count / g.Count)
			if tasks == 0 || q.TasksPerNode > tasks {
				return nil, problem(events.Code_INVALID_GRES, "%d %s on each node do not go with %d for each task", node.Count, g.Name, g.Count)
			}
			if q.TasksPerNode == 0 {
				q.TasksPerNode = tasks
			}
		default:
			out = append(out, g)
		}
	}
	return out, nil
}

func (q *Request) readGres(spec *events.JobSpec, gres []*events.Gres) *Problem {
	for _, g := range gres {
		if g.Count == 0 {
			continue
		}
		r := GresRequest{Name: g.Name, Type: g.Type}
		switch g.Scope {
		case events.Scope_PER_NODE:
			r.PerNode = int(g.Count)
		case events.Scope_PER_TASK:
			r.PerTask = int(g.Count)
		case events.Scope_PER_JOB:
			r.PerJob = int(g.Count)
			if q.pooled() != nil {
				return problem(events.Code_UNSUPPORTED, "%s is a second resource counted for the whole job; count one of them per node", g.Name)
			}
			if q.MinNodes > r.PerJob {
				return problem(events.Code_INVALID_GRES, "%d %s cannot be spread over %d nodes", r.PerJob, g.Name, q.MinNodes)
			}
			q.MaxNodes = max(min(q.MaxNodes, r.PerJob), q.MinNodes)
		case events.Scope_PER_SOCKET:
			r.PerSocket = int(g.Count)
		}
		q.Gres = append(q.Gres, r)
	}
	gpus := -1
	for i := range q.Gres {
		if q.Gres[i].Name == "gpu" {
			gpus = i
		}
	}
	if n := int(spec.TasksPerGpu); n > 0 {
		switch {
		case gpus >= 0 && q.Gres[gpus].PerJob > 0 && (q.Tasks == 0 || q.Tasks == q.Gres[gpus].PerJob*n):
			q.Tasks = q.Gres[gpus].PerJob * n
			q.Gres[gpus] = GresRequest{Name: "gpu", Type: q.Gres[gpus].Type, TasksPer: n}
		case gpus >= 0 && q.Gres[gpus].PerNode > 0 && q.Tasks%(q.Gres[gpus].PerNode*n) == 0 && (q.TasksPerNode == 0 || q.TasksPerNode == q.Gres[gpus].PerNode*n):
			q.TasksPerNode = q.Gres[gpus].PerNode * n
		case gpus < 0 && q.Tasks > 0:
			q.Gres = append(q.Gres, GresRequest{Name: "gpu", TasksPer: n})
			gpus = len(q.Gres) - 1
		default:
			return problem(events.Code_INVALID_GRES, "tasks per GPU goes with either a number of GPUs or a number of tasks")
		}
	}
	if gpus < 0 {
		q.CPUsPerGPU = 0 // of no GPU: nothing
	}
	return nil
}

func (q *Request) readMemory(spec *events.JobSpec) *Problem {
	given := 0
	set := func(kind MemoryKind, mib uint64) {
		q.Memory, q.MemoryMiB = kind, int64(mib)
		given++
	}
	const most = 1 << 50
	for _, mib := range []uint64{spec.MemPerNodeMib, spec.MemPerCpuMib, spec.MemPerGpuMib, spec.TmpDiskMib} {
		if mib > most {
			return problem(events.Code_INVALID_MEMORY, "%d MiB are more than any machine has", mib)
		}
	}
	if spec.MemPerNodeMib > 0 {
		set(MemoryPerNode, spec.MemPerNodeMib)
	}
	if spec.MemPerCpuMib > 0 {
		set(MemoryPerCPU, spec.MemPerCpuMib)
	}
	if spec.MemPerGpuMib > 0 {
		set(MemoryPerGPU, spec.MemPerGpuMib)
	}
	if spec.MemAll {
		set(MemoryAll, 0)
	}
	if given > 1 {
		return problem(events.Code_INVALID_MEMORY, "memory is given in %d ways; give it per node, per CPU or per GPU", given)
	}
	if q.Memory == MemoryPerGPU {
		for _, g := range q.Gres {
			if g.Name == "gpu" {
				return nil
			}
		}
		return problem(events.Code_INVALID_MEMORY, "memory per GPU is given, but no GPUs")
	}
	return nil
}

// inRow says whether a distribution wants the cores of a node one after the other: `block` for the sockets, or a plane.
func inRow(distribution string) bool {
	head, _, _ := strings.Cut(distribution, ",")
	levels := strings.Split(head, ":")
	return len(levels) > 1 && levels[1] == "block" || strings.HasPrefix(head, "plane=")
}

func distinctHosts(text string) ([]string, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	hosts, err := hostlist.Expand(text, hostlist.MaxHosts)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(hosts))
	out := hosts[:0]
	for _, h := range hosts {
		if !seen[h] {
			seen[h] = true
			out = append(out, h)
		}
	}
	return out, nil
}
