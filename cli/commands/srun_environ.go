package commands

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"stint/cli/slurm"
	"stint/events"
	"stint/events/hostlist"
	"stint/executor/tasks"
	"stint/projections"
)

// What tasks are told: their environment and their programs.

// programs reads the file of --multi-prog.
func (l *launcher) programs(c *component) (code int, ok bool) {
	path := c.s.Command[0]
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.w.Dir, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return l.fail("Unable to read the program configuration %s: %v", c.s.Command[0], plain(err)), false
	}
	list, err := slurm.MultiProg(string(text), c.count)
	if err != nil {
		return l.w.complain("srun", err), false
	}
	for r, argv := range list {
		p := &tasks.Program{Tasks: events.WordsOf(uint32(r + c.first))}
		for _, a := range append(argv, c.s.Command[1:]...) {
			p.Argv = append(p.Argv, []byte(a))
		}
		c.begin.Programs = append(c.begin.Programs, p)
	}
	return 0, true
}

// environ is the environment of the tasks of a component, without what differs between nodes and tasks.
func (l *launcher) environ(c *component) [][]byte {
	s, created := c.s, c.created
	var set []string
	put := func(name string, value any) { set = append(set, fmt.Sprintf("%s=%v", name, value)) }
	nodes := slices.Clone(l.nodes)
	if len(l.parts) > 1 {
		slices.SortStableFunc(nodes, func(a, b *nodeEnd) int { return hostlist.Compare(a.name, b.name) })
	}
	names := make([]string, len(nodes))
	counts := make([]int, len(nodes))
	for i, n := range nodes {
		names[i], counts[i] = n.name, len(n.tasks)
	}
	switch {
	case c.allocation == nil:
	case c.allocation.GetHetId() != 0:
		set = l.hetEnviron(c, names)
	case s.Job != 0:
		set = l.joined(c, c.allocation.GetAllocation().NodeNames())
		name := "SLURM_JOB_CPUS_PER_NODE"
		if s.Old {
			name += "_PACK_GROUP_0"
		}
		put(name, projections.PerNode(c.allocation.GetAllocation(), (*events.NodeShare).UsableCPUs))
	default:
		for _, nv := range allocationEnviron(c.allocation, &s.Allocation, l.config, l.w) {
			if !strings.HasPrefix(nv, "SLURM_NODE_ALIASES=") {
				set = append(set, nv)
			}
		}
	}
	if c.allocation != nil {
	} else if cpus, ok := slurm.Lookup(s.Environ)("SLURM_JOB_CPUS_PER_NODE"); ok && s.Old {
		put("SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0", cpus)
	}
	list, perNode := hostlist.Compress(names), hostlist.Runs(counts)
	port := c.listener.Addr().(*net.TCPAddr).Port
	ip := addresses()
	if len(ip) > 1 {
		ip = ip[1:]
	}
	put("SLURM_JOB_ID", l.job)
	put("SLURM_JOBID", l.job)
	put("SLURM_STEP_ID", created.Step)
	put("SLURM_STEPID", created.Step)
	put("SLURM_STEP_NODELIST", list)
	put("SLURM_STEP_NUM_NODES", len(names))
	put("SLURM_STEP_NUM_TASKS", l.count)
	put("SLURM_STEP_TASKS_PER_NODE", perNode)
	put("SLURM_STEP_LAUNCHER_PORT", port)
	put("SLURM_SRUN_COMM_HOST", ip[0])
	put("SLURM_SRUN_COMM_PORT", port)
	put("SLURM_LAUNCH_NODE_IPADDR", ip[0])
	if !s.PreserveEnv {
		put("SLURM_NTASKS", l.count)
		put("SLURM_NPROCS", l.count)
		put("SLURM_NNODES", len(names))
	}
	put("SLURM_TASKS_PER_NODE", perNode)
	distribution := s.Distribution
	if distribution == "" {
		distribution = "block"
		if c.count <= len(created.Parts) {
			distribution = "cyclic"
		}
	}
	if s.Job != 0 || c.allocation.GetHetId() != 0 || s.Distribution != "" {
		put("SLURM_DISTRIBUTION", distribution)
	}
	if s.Label {
		put("SLURM_LABELIO", 1)
	}
	if n := s.Want.CpusPerTask; n > 0 {
		put("SLURM_CPUS_PER_TASK", n)
	}
	if s.Want.Overcommit {
		put("SLURM_OVERCOMMIT", 1)
	}
	if m := s.Memory; m.GetKind() != "" {
		put("SLURM_MEM_BIND_LIST", s.MemoryList)
		put("SLURM_MEM_BIND_TYPE", m.Kind)
	}
	set = append(set, l.bound(c)...)
	put("SLURM_PRIO_PROCESS", l.w.Nice)
	put("SLURM_UMASK", fmt.Sprintf("%04o", s.Want.Umask))
	put("SRUN_DEBUG", 3+s.Verbose)
	if c.allocation == nil {
		put("SLURM_JOB_NAME", s.Spec.Name)
		if !slices.Contains(l.w.called[1:], "-J") && !slices.ContainsFunc(l.w.called[1:], func(a string) bool { return strings.HasPrefix(a, "--job-name") || strings.HasPrefix(a, "-J") }) {
			set = set[:len(set)-1] // that of the job stays
		}
	}
	if s.MPI != "" {
		put("SLURM_MPI_TYPE", s.MPI)
	}
	if s.Pty {
		if size, ok := l.size(); ok {
			put("SLURM_PTY_WIN_ROW", size[0])
			put("SLURM_PTY_WIN_COL", size[1])
		}
	}
	ours := map[string]bool{}
	for _, nv := range set {
		name, _, _ := strings.Cut(nv, "=")
		ours[name] = true
	}
	var out [][]byte
	for _, nv := range s.Environ {
		name, _, _ := strings.Cut(nv, "=")
		if !ours[name] {
			out = append(out, []byte(nv))
		}
	}
	for _, nv := range set {
		out = append(out, []byte(nv))
	}
	return out
}

// joined is what tasks learn of an allocation that srun has joined by its id, and the environment says nothing of; or the environment is
// about another component.
func (l *launcher) joined(c *component, nodes []string) (set []string) {
	put := func(name string, value any) { set = append(set, fmt.Sprintf("%s=%v", name, value)) }
	if _, known := slurm.Lookup(c.s.Environ)("SLURM_JOB_NAME"); !known {
		name := c.s.Spec.Name
		if of, ok := slurm.Lookup(c.s.Environ)(fmt.Sprintf("SLURM_JOB_NAME_HET_GROUP_%d", c.s.Group)); ok {
			name = of
		}
		put("SLURM_JOB_NAME", name)
	}
	put("SLURM_JOB_PARTITION", c.allocation.GetPartition())
	if file := l.w.confFile(); file != "" {
		put("SLURM_CONF", file)
	}
	list := hostlist.Compress(nodes)
	put("SLURM_JOB_NODELIST", list)
	put("SLURM_NODELIST", list)
	return set
}

// hetEnviron is what the allocation adds to the environment of tasks in a heterogeneous job: of several components the nodes of the step
// in all of them, sorted by their names; of one its own.
func (l *launcher) hetEnviron(c *component, nodes []string) (set []string) {
	put := func(name string, value any) { set = append(set, fmt.Sprintf("%s=%v", name, value)) }
	type have struct {
		node string
		cpus int
	}
	var all []have
	for _, p := range l.parts {
		p.allocation.GetAllocation().Each(func(_ int, name string, share *events.NodeShare) bool {
			all = append(all, have{name, share.UsableCPUs()})
			return true
		})
	}
	if len(l.parts) > 1 {
		slices.SortStableFunc(all, func(a, b have) int { return hostlist.Compare(a.node, b.node) })
	} else {
		nodes = c.allocation.GetAllocation().NodeNames()
	}
	cpus := make([]int, len(all))
	for i, h := range all {
		cpus[i] = h.cpus
	}
	if c.s.Job == 0 { // granted to this srun: the environment says nothing of it yet
		for _, nv := range allocationEnviron(l.parts[0].allocation, &l.parts[0].s.Allocation, l.config, l.w) {
			if !strings.HasPrefix(nv, "SLURM_NODE_ALIASES=") {
				set = append(set, nv)
			}
		}
		put("SLURM_HET_SIZE", len(l.parts))
		group := "HET"
		if l.w.Release() == slurm.Release2205 {
			group = "PACK"
			put("SLURM_PACK_SIZE", len(l.parts))
		}
		for k, p := range l.parts {
			of := func(name string, value any) {
				if value != "" {
					put(fmt.Sprintf("SLURM_%s_%s_GROUP_%d", name, group, k), value)
				}
			}
			a := p.allocation
			of("JOB_ACCOUNT", a.GetSpec().GetAccount())
			of("JOB_CPUS_PER_NODE", projections.PerNode(a.GetAllocation(), (*events.NodeShare).UsableCPUs))
			of("JOB_ID", a.GetId())
			of("JOB_NODELIST", hostlist.Compress(a.GetAllocation().NodeNames()))
			of("JOB_PARTITION", a.GetPartition())
			of("JOB_QOS", a.GetSpec().GetQos())
		}
	}
	set = append(set, l.joined(c, nodes)...)
	put("SLURM_JOB_CPUS_PER_NODE", hostlist.Runs(cpus))
	put("SLURM_JOB_NUM_NODES", len(nodes))
	return set
}
