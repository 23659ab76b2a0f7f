package executor

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"stint/events"
	"stint/events/hostlist"
	"stint/executor/gpu"
	"stint/projections"
)

// setting is what a job's environment is made of besides the job itself.
type setting struct {
	node   string
	host   string // what the node's programs see as its host name
	config *events.Config
	array  *projections.Array
	parts  []*projections.Job // components of a heterogeneous job
	gpus   []gpu.GPU          // granted on this node, in the order of their indices
	hidden bool               // the job cannot open the others
	conf   string             // path of slurm.conf, if there is one
}

// environment is the complete environment of a batch script: what was submitted, with the variables of the job in place
// of any of the same name. Those that Slurm sets after the process exists are not in it (SLURM_TASK_PID).
func environment(submitted []string, job *projections.Job, c setting) []string {
	set := variables(job, c)
	ours := make(map[string]bool, len(set))
	for _, v := range set {
		name, _, _ := strings.Cut(v, "=")
		ours[name] = true
	}
	out := make([]string, 0, len(submitted)+len(set))
	given := map[string]bool{}
	for _, v := range submitted {
		name, _, _ := strings.Cut(v, "=")
		given[name] = true
		if !ours[name] {
			out = append(out, v)
		}
	}
	if s := job.GetSpec(); s.GetTasksPerNode() > 0 && s.GetMinNodes() < s.GetMaxNodes() && !given["SLURM_NTASKS"] { // the number of nodes was left open
		tasks := int(s.GetTasksPerNode()) * job.GetAllocation().NodeCount()
		set = append(set, fmt.Sprintf("SLURM_NTASKS=%d", tasks), fmt.Sprintf("SLURM_NPROCS=%d", tasks))
	}
	if !given["TMPDIR"] {
		set = append(set, "TMPDIR=/tmp")
	}
	return append(out, set...)
}

// variables are those that the node sets, in a fixed order.
func variables(job *projections.Job, c setting) []string {
	spec, alloc := job.GetSpec(), job.GetAllocation()
	old := c.config.GetCompat() == "22.05"
	var out []string
	set := func(name string, value any) { out = append(out, fmt.Sprintf("%s=%v", name, value)) }
	setIf := func(is bool, name string, value any) {
		if is {
			set(name, value)
		}
	}
	nodes := alloc.NodeNames()
	list := hostlist.Compress(nodes)
	share, place := alloc.ForNode(c.node)

	set("ENVIRONMENT", "BATCH")
	set("HOSTNAME", c.host)
	set("SLURMD_NODENAME", c.node)
	set("SLURM_CLUSTER_NAME", c.config.GetCluster())
	setIf(c.conf != "", "SLURM_CONF", c.conf)
	set("SLURM_CPUS_ON_NODE", share.UsableCPUs())
	set("SLURM_GTIDS", 0)
	set("SLURM_JOBID", job.GetId())
	setIf(spec.GetAccount() != "", "SLURM_JOB_ACCOUNT", spec.GetAccount())
	set("SLURM_JOB_CPUS_PER_NODE", projections.PerNode(alloc, (*events.NodeShare).UsableCPUs))
	setIf(spec.GetDependencyText() != "", "SLURM_JOB_DEPENDENCY", spec.GetDependencyText())
	set("SLURM_JOB_GID", job.GetOwner().GetGid())
	set("SLURM_JOB_ID", job.GetId())
	set("SLURM_JOB_NAME", spec.GetName())
	set("SLURM_JOB_NODELIST", list)
	set("SLURM_JOB_NUM_NODES", len(nodes))
	set("SLURM_JOB_PARTITION", job.GetPartition())
	set("SLURM_JOB_QOS", orElse(spec.GetQos(), "normal"))
	setIf(spec.GetReservation() != "", "SLURM_JOB_RESERVATION", spec.GetReservation())
	setIf(!old && spec.GetLicenses() != "", "SLURM_JOB_LICENSES", spec.GetLicenses())
	set("SLURM_JOB_UID", job.GetOwner().GetUid())
	set("SLURM_JOB_USER", job.GetOwner().GetUser())
	if !old {
		set("SLURM_OOM_KILL_STEP", 0)
		start := job.GetStartUs() / 1e6
		set("SLURM_JOB_START_TIME", start)
		set("SLURM_JOB_END_TIME", start+lasts(job.GetLimitS()))
	}
	set("SLURM_LOCALID", 0)
	switch {
	case spec.GetMemAll():
	case spec.GetMemPerNodeMib() > 0:
		set("SLURM_MEM_PER_NODE", spec.GetMemPerNodeMib())
	case spec.GetMemPerCpuMib() > 0:
		set("SLURM_MEM_PER_CPU", spec.GetMemPerCpuMib())
	}
	set("SLURM_NNODES", len(nodes))
	set("SLURM_NODEID", place)
	set("SLURM_NODELIST", list)
	setIf(old, "SLURM_NODE_ALIASES", "(null)")
	set("SLURM_PROCID", 0)
	setIf(job.GetRestarts() > 0, "SLURM_RESTART_COUNT", job.GetRestarts())
	set("SLURM_SUBMIT_HOST", spec.GetSubmitHost())
	set("SLURM_TASKS_PER_NODE", hostlist.Runs(job.TasksPerNode()))
	set("SLURM_TOPOLOGY_ADDR", c.node)
	set("SLURM_TOPOLOGY_ADDR_PATTERN", "node")
	setIf(old, "SLURM_WORKING_CLUSTER", workingCluster(c.config))
	out = append(out, arrayVariables(job, c.array)...)
	out = append(out, hetVariables(c.parts, old)...)
	out = append(out, gpuVariables(c)...)
	return out
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// lasts is a time limit in seconds for the purposes of telling when a job ends; without one, a year.
func lasts(limit uint32) int64 {
	if limit == events.Unlimited {
		return 365 * 24 * 3600
	}
	return int64(limit)
}

// workingCluster is name:host:port:protocol:plugin of the controller, for tools that take it apart: the port of slurmctld,
// the protocol of the release that is spoken, and cons_tres.
func workingCluster(c *events.Config) string {
	host := "localhost"
	if len(c.GetControllers()) > 0 {
		host = c.GetControllers()[0]
	}
	for _, s := range c.GetSettings() { // the address that goes with the first name: `vm(127.0.0.1)`
		if s.GetKey() == "SlurmctldHost" {
			if _, address, given := strings.Cut(strings.TrimSuffix(s.GetValue(), ")"), "("); given {
				host = address
			}
			break
		}
	}
	protocol := 45 << 8
	if c.GetCompat() == "22.05" {
		protocol = 38 << 8
	}
	return fmt.Sprintf("%s:%s:6817:%d:109", c.GetCluster(), host, protocol)
}

func arrayVariables(job *projections.Job, array *projections.Array) []string {
	if !job.GetHasTask() {
		return nil
	}
	tasks := events.Words(job.GetSpec().GetArray().GetTasks())
	count := uint64(tasks.Count())
	if count == 0 {
		count = uint64(array.GetTotal())
	}
	first, _ := tasks.First()
	last, _ := tasks.Last()
	out := []string{
		fmt.Sprintf("SLURM_ARRAY_JOB_ID=%d", job.GetArrayId()),
		fmt.Sprintf("SLURM_ARRAY_TASK_COUNT=%d", count),
		fmt.Sprintf("SLURM_ARRAY_TASK_ID=%d", job.GetArrayTask()),
		fmt.Sprintf("SLURM_ARRAY_TASK_MAX=%d", last),
		fmt.Sprintf("SLURM_ARRAY_TASK_MIN=%d", first),
		fmt.Sprintf("SLURM_ARRAY_TASK_STEP=%d", arrayStep(job.GetSpec().GetArray().GetText())),
	}
	return out
}

// arrayStep is the step of an array expression: that of its only range with one, or 1.
func arrayStep(text string) int {
	text, _, _ = strings.Cut(text, "%")
	_, step, ok := strings.Cut(text, ":")
	if n, err := strconv.Atoi(step); ok && err == nil && n > 0 {
		return n
	}
	return 1
}

func gpuVariables(c setting) []string {
	var out []string
	if len(c.gpus) == 0 {
		return out
	}
	indices := make([]string, len(c.gpus))
	for i, g := range c.gpus {
		indices[i] = strconv.Itoa(g.Index)
	}
	out = append(out, "SLURM_GPUS_ON_NODE="+strconv.Itoa(len(c.gpus)), "SLURM_JOB_GPUS="+strings.Join(indices, ","))
	return append(out, gpu.Environment(c.gpus, 0, c.hidden)...)
}

// splitEnvironment takes a stored environment apart: each variable has a NUL behind it.
func splitEnvironment(b []byte) []string {
	var out []string
	for v := range bytes.SplitSeq(b, []byte{0}) {
		if len(v) > 0 {
			out = append(out, string(v))
		}
	}
	return out
}
