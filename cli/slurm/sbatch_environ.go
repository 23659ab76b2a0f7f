package slurm

import (
	"strconv"
	"strings"

	"stint/cli/slurm/once"
	"stint/events"
)

// told is a variable that a job's environment holds because of the options that were given, whatever is allocated. What
// depends on the allocation is set on the node (executor).
type told struct {
	name         string
	since, until Release
	value        func(q *request) string // empty: not set
}

// toldVariables are in the order in which they are set. They replace variables of the same name that come from the submitter, and pass
// --export=NONE as every SLURM_ variable does.
var toldVariables = once.Value[[]told]{Make: func() []told {
	return []told{
		{"SLURM_PRIO_PROCESS", 0, 0, func(q *request) string { return strconv.Itoa(q.in.Nice) }},
		{"SLURM_SUBMIT_DIR", 0, 0, func(q *request) string { return q.in.Dir }},
		{"SLURM_NPROCS", 0, 0, (*request).tasksTold},
		{"SLURM_NTASKS", 0, 0, (*request).tasksTold},
		{"SLURM_NTASKS_PER_CORE", 0, 0, specCount((*events.JobSpec).GetTasksPerCore)},
		{"SLURM_NTASKS_PER_CORE", 0, Release2205, func(q *request) string { // as many as a core has threads, as that release wrote it
			if q.hinted == "multithread" {
				return "65535"
			}
			return ""
		}},
		{"SLURM_NTASKS_PER_GPU", 0, 0, specCount((*events.JobSpec).GetTasksPerGpu)},
		{"SLURM_NTASKS_PER_NODE", 0, 0, specCount((*events.JobSpec).GetTasksPerNode)},
		{"SLURM_NTASKS_PER_SOCKET", 0, 0, specCount((*events.JobSpec).GetTasksPerSocket)},
		{"SLURM_CPUS_PER_TASK", 0, 0, (*request).cpusPerTaskTold},
		{"SLURM_CPUS_PER_GPU", 0, 0, specCount((*events.JobSpec).GetCpusPerGpu)},
		{"SLURM_MEM_PER_GPU", 0, 0, func(q *request) string {
			if n := q.Spec.MemPerGpuMib; n > 0 {
				return strconv.FormatUint(n, 10)
			}
			return ""
		}},
		{"SLURM_GPUS", 0, 0, gpusTold("gpus")},
		{"SLURM_GPUS_PER_NODE", 0, 0, gpusTold("gpus-per-node")},
		{"SLURM_GPUS_PER_SOCKET", 0, 0, gpusTold("gpus-per-socket")},
		{"SLURM_GPUS_PER_TASK", 0, 0, gpusTold("gpus-per-task")},
		{"SLURM_GPU_BIND", 0, 0, func(q *request) string { return q.gpuBound }},
		{"SLURM_GPU_FREQ", 0, 0, func(q *request) string { return q.gpuClock }},
		{"SLURM_TRES_PER_TASK", 2311, 0, (*request).tresPerTaskTold},
		{"SLURM_DISTRIBUTION", 0, 0, func(q *request) string { return distributionTold(q.Spec.Distribution) }},
		{"SLURM_DIST_PLANESIZE", 0, 0, func(q *request) string {
			size, _ := planeSize(q.Spec.Distribution)
			return size
		}},
		{"SLURM_HINT", 0, 0, func(q *request) string { return q.hinted }},
		{"SLURM_THREADS_PER_CORE", 0, 0, func(q *request) string {
			if n := q.Spec.ThreadsPerCore; n > 0 {
				return strconv.FormatUint(uint64(n), 10)
			}
			if q.Spec.Nomultithread {
				return "1"
			}
			return ""
		}},
		{"SLURM_OVERCOMMIT", 0, 0, func(q *request) string { return one(q.Spec.Overcommit) }},
		{"SLURM_CPU_FREQ_REQ", 0, 0, func(q *request) string { return q.Spec.CpuFreq }},
		{"SLURM_PROFILE", 0, 0, func(q *request) string { return q.Spec.Profile }},
		{"SLURM_MEM_BIND_SORT", 0, 0, func(q *request) string { return q.memBound.sort() }},
		{"SLURM_MEM_BIND", 0, 0, func(q *request) string { return q.memBound.told() }},
		{"SLURM_MEM_BIND_VERBOSE", 0, 0, func(q *request) string { return q.memBound.loud() }},
		{"SLURM_JOB_SEGMENT_SIZE", 2505, 0, specCount((*events.JobSpec).GetSegmentSize)},
		{"SLURM_NETWORK", 2505, 0, specText((*events.JobSpec).GetNetwork)},
		{"SLURM_EXPORT_ENV", 0, 0, func(q *request) string { return q.Spec.Export }},
		{"SLURM_GET_USER_ENV", 0, 0, func(q *request) string { return one(q.exported || q.Spec.GetUserEnv) }},
	}

}}

// distributionTold is a distribution with what its stars stand for: block for the nodes, cyclic further on.
func distributionTold(given string) string {
	if given == "" {
		return ""
	}
	if _, plane := planeSize(given); plane {
		return "plane"
	}
	head, pack, packed := strings.Cut(given, ",")
	levels := strings.Split(head, ":")
	for i, l := range levels {
		switch {
		case l == "*" && i == 0:
			levels[i] = "block"
		case l == "*":
			levels[i] = "cyclic"
		}
	}
	told := strings.Join(levels, ":")
	if packed {
		told += "," + pack
	}
	return told
}

// planeSize is the size in `plane=4`.
func planeSize(distribution string) (size string, plane bool) {
	if size, plane = strings.CutPrefix(distribution, "plane="); plane {
		return size, true
	}
	return "", false
}

func one(is bool) string {
	if is {
		return "1"
	}
	return ""
}

func specText(field func(*events.JobSpec) string) func(*request) string {
	return func(q *request) string { return field(q.Spec) }
}

// cpusPerTaskTold is what a job has of it: where nothing was asked, it is set only in place of what an enclosing job had.
func (q *request) cpusPerTaskTold() string {
	if _, enclosed := Lookup(q.in.Environ)("SLURM_CPUS_PER_TASK"); enclosed && q.Spec.CpusPerTask == 0 {
		return "1"
	}
	return specCount((*events.JobSpec).GetCpusPerTask)(q)
}

func specCount(field func(*events.JobSpec) uint32) func(*request) string {
	return func(q *request) string {
		if n := field(q.Spec); n > 0 {
			return strconv.FormatUint(uint64(n), 10)
		}
		return ""
	}
}

// tasksTold is the number of tasks where it was asked for, outright or by so many on each node or for each GPU. Where it takes the number of
// nodes that the job gets, the node tells it.
func (q *request) tasksTold() string {
	if q.Spec.Tasks == 0 || q.open {
		return ""
	}
	return strconv.FormatUint(uint64(q.Spec.Tasks), 10)
}

// gpusTold is the GPUs as one of the options names them: `2`, `a100:2`, several joined by commas.
func gpusTold(effect string) func(*request) string {
	return func(q *request) string { return amounts(q.gres[effect], "") }
}

// amounts writes resources with their type and number, each behind a prefix.
func amounts(list []*events.Gres, prefix string) string {
	var terms []string
	for _, g := range list {
		t := strconv.FormatUint(g.Count, 10)
		if g.Type != "" {
			t = g.Type + ":" + t
		}
		terms = append(terms, prefix+t)
	}
	return strings.Join(terms, ",")
}

// tresPerTaskTold is what each task has: `cpu=2,gres/gpu:a100=1`, from --tres-per-task and what says the same.
func (q *request) tresPerTaskTold() string {
	var terms []string
	names := map[string]bool{}
	for _, t := range q.Spec.TresPerTask {
		if i := strings.LastIndexAny(t, ":="); i > 0 {
			name := t[:i]
			names[name] = true
			terms = append(terms, name+"="+t[i+1:])
		}
	}
	if n := q.Spec.CpusPerTask; n > 0 && !names["cpu"] {
		terms = append([]string{"cpu=" + strconv.FormatUint(uint64(n), 10)}, terms...)
	}
	for _, g := range q.gres["gpus-per-task"] {
		name := "gres/gpu"
		if g.Type != "" {
			name += ":" + g.Type
		}
		if !names[name] {
			terms = append(terms, name+"="+strconv.FormatUint(g.Count, 10))
		}
	}
	return strings.Join(terms, ",")
}

// tell puts the variables into the environment that the job begins with.
func (q *request) tell() {
	set := map[string]string{}
	var order []string
	for _, v := range toldVariables.Get() {
		if (v.since != 0 && q.in.Release < v.since) || (v.until != 0 && q.in.Release > v.until) {
			continue
		}
		if value := v.value(q); value != "" {
			set[v.name] = value
			order = append(order, v.name)
		}
	}
	kept := make([]string, 0, len(q.Environ)+len(order))
	for _, nv := range q.Environ {
		name, _, _ := strings.Cut(nv, "=")
		if _, ours := set[name]; !ours && !(q.open && (name == "SLURM_NTASKS" || name == "SLURM_NPROCS")) {
			kept = append(kept, nv)
		}
	}
	for _, name := range order {
		kept = append(kept, name+"="+set[name])
	}
	q.Environ = kept
}
