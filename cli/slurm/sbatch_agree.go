package slurm

import (
	"fmt"
	"strconv"

	"stint/events"
	"stint/events/hostlist"
)

// agree checks what the numbers of nodes, tasks, CPUs and devices mean together, and fills in those that follow from the
// others: the nodes that are named, tasks from what is counted for each node or device.
func (q *request) agree() error {
	s := q.Spec
	gpus, perNode, perTask, perSocket := total(q.gres["gpus"]), total(q.gres["gpus-per-node"]), total(q.gres["gpus-per-task"]), total(q.gres["gpus-per-socket"])
	if perNode == 0 {
		for _, g := range q.gres["gres"] {
			if g.Name == "gpu" {
				perNode += g.Count
			}
		}
	}
	switch {
	case s.CpusPerGpu > 0 && s.CpusPerTask > 0:
		return refusal("--cpus-per-gpu and --cpus-per-task exclude each other; give one of them")
	case perTask > 0 && s.TasksPerGpu > 0:
		return refusal("--gpus-per-task and --ntasks-per-gpu exclude each other; give one of them")
	case perSocket > 0 && s.TasksPerGpu > 0:
		return refusal("--gpus-per-socket and --ntasks-per-gpu exclude each other; give one of them")
	case perSocket > 0 && s.SocketsPerNode == 0:
		return refusal("--gpus-per-socket needs --sockets-per-node beside it")
	}
	q.hints()
	counted := s.MinNodes > 0
	if s.NodeList != "" {
		n, err := hostlist.Count(s.NodeList, hostlist.MaxHosts)
		if err != nil {
			return refusal("--nodelist: %v", err)
		}
		if s.MaxNodes > 0 && uint32(n) > s.MaxNodes {
			return refusal("--nodelist names %d nodes, and --nodes allows %d at most", n, s.MaxNodes)
		}
		s.MinNodes = max(s.MinNodes, uint32(n))
	}
	q.tasksOfShape(counted)
	if s.Tasks != 0 && s.MinNodes > s.Tasks {
		q.Notes = append(q.Notes, fmt.Sprintf("%d tasks can not use %d nodes; asking for %d", s.Tasks, s.MinNodes, s.Tasks))
		s.MinNodes, s.MaxNodes = s.Tasks, s.Tasks
	}
	if gpus > 0 && uint64(s.MinNodes) > gpus {
		return refusal("--gpus=%d can not be spread over %d nodes; each needs one", gpus, s.MinNodes)
	}
	if perTask > 0 {
		if err := q.tasksOfGPUs(gpus, perTask); err != nil {
			return err
		}
	}
	nodes := uint64(max(s.MinNodes, 1))
	switch {
	case s.Tasks != 0:
	case s.TasksPerNode != 0:
		q.open = s.MinNodes < s.MaxNodes
		return q.setTasks(nodes * uint64(s.TasksPerNode))
	case s.TasksPerGpu > 0 && gpus > 0:
		return q.setTasks(gpus * uint64(s.TasksPerGpu))
	case s.TasksPerGpu > 0 && perNode > 0:
		return q.setTasks(nodes * perNode * uint64(s.TasksPerGpu))
	}
	return q.planes()
}

// tasksOfShape is the number of tasks where a fixed number of nodes, or their shape, is given without one: a task for each thread of each
// core of each socket of each node, as far as these are told.
func (q *request) tasksOfShape(counted bool) {
	s := q.Spec
	if s.Tasks != 0 || s.TasksPerNode != 0 || !counted && !q.shaped || s.MaxNodes != 0 && s.MaxNodes != s.MinNodes {
		return
	}
	threads := s.ThreadsPerCore
	if threads == 0 && s.Nomultithread {
		threads = 1
	}
	tasks, told := uint64(max(s.MinNodes, 1)), false
	for _, n := range []uint32{s.SocketsPerNode, s.CoresPerSocket, threads} {
		if n > 0 {
			tasks, told = min(tasks*uint64(n), 1<<31-1), true
		}
	}
	if told {
		s.Tasks = uint32(tasks)
	}
}

// hints turns --hint into what it stands for. It gives way to options that say how cores are used.
func (q *request) hints() {
	s := q.Spec
	if q.shaped || s.TasksPerCore > 0 || s.ThreadsPerCore > 0 {
		q.hinted = ""
	}
	switch q.hinted {
	case "nomultithread", "compute_bound":
		s.Nomultithread = true
	case "memory_bound":
		s.Nomultithread = true
		s.CoresPerSocket = 1
	}
}

// cpusOfGPUs is the CPUs of a task that has so many GPUs with so many CPUs each. Nothing is told to the job of it.
func (q *request) cpusOfGPUs(perTask uint64) {
	if s := q.Spec; perTask > 0 && s.CpusPerGpu > 0 && perTask*uint64(s.CpusPerGpu) < 1<<31 {
		s.CpusPerTask = uint32(perTask) * s.CpusPerGpu
	}
}

// tasksOfGPUs is the number of tasks that GPUs for each task go with: so many as the GPUs of the job make, or one on each node
// of a fixed number.
func (q *request) tasksOfGPUs(gpus, perTask uint64) error {
	s := q.Spec
	switch {
	case gpus > 0:
		if gpus%perTask != 0 || s.Tasks > 0 && uint64(s.Tasks) != gpus/perTask {
			return refusal("--gpus=%d and --gpus-per-task=%d make %d tasks, and --ntasks asks for %d", gpus, perTask, gpus/perTask, s.Tasks)
		}
		return q.setTasks(gpus / perTask)
	case s.Tasks > 0, s.TasksPerNode > 0 && s.MinNodes == s.MaxNodes:
	case s.MinNodes > 0 && s.MinNodes == s.MaxNodes:
		return q.setTasks(uint64(s.MinNodes))
	default:
		return refusal("--gpus-per-task needs a number of tasks: give --ntasks, --gpus or --nodes=N beside it")
	}
	return nil
}

func (q *request) setTasks(n uint64) error {
	if n > 1<<31-1 {
		return refusal("%d tasks are more than can be counted", n)
	}
	q.Spec.Tasks = uint32(n)
	return q.planes()
}

// planes asks whether there are tasks for a plane on each node.
func (q *request) planes() error {
	size, plane := planeSize(q.Spec.Distribution)
	if !plane {
		return nil
	}
	n, err := strconv.ParseUint(size, 10, 31)
	nodes, tasks := uint64(max(q.Spec.MinNodes, 1)), uint64(q.Spec.Tasks)
	if tasks == 0 {
		tasks = nodes
	}
	if err == nil && nodes > 1 && (nodes-1)*n >= tasks {
		return refusal("--distribution=plane=%d needs more than %d tasks for %d nodes; there are %d", n, (nodes-1)*n, nodes, tasks)
	}
	return nil
}

func total(list []*events.Gres) (n uint64) {
	for _, g := range list {
		n += g.Count
	}
	return n
}
