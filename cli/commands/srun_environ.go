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
)

// What tasks are told: their environment and their programs.

// programs reads the file of --multi-prog.
func (l *launcher) programs(begin *tasks.Begin) (code int, ok bool) {
	path := l.s.Command[0]
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.w.Dir, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return l.fail("Unable to read the program configuration %s: %v", l.s.Command[0], plain(err)), false
	}
	list, err := slurm.MultiProg(string(text), l.count)
	if err != nil {
		return l.w.complain("srun", err), false
	}
	for r, argv := range list {
		p := &tasks.Program{Tasks: events.WordsOf(uint32(r))}
		for _, a := range append(argv, l.s.Command[1:]...) {
			p.Argv = append(p.Argv, []byte(a))
		}
		begin.Programs = append(begin.Programs, p)
	}
	return 0, true
}

// environ is the environment of the tasks, without what differs between nodes and tasks.
func (l *launcher) environ() [][]byte {
	s, created := l.s, l.created
	var set []string
	put := func(name string, value any) { set = append(set, fmt.Sprintf("%s=%v", name, value)) }
	names := make([]string, len(l.nodes))
	counts := make([]int, len(l.nodes))
	for i, n := range l.nodes {
		names[i], counts[i] = n.name, len(n.tasks)
	}
	if l.allocation != nil {
		for _, nv := range allocationEnviron(l.allocation, l.asked(), l.config, l.w) {
			if !strings.HasPrefix(nv, "SLURM_NODE_ALIASES=") {
				set = append(set, nv)
			}
		}
	} else if cpus, ok := slurm.Lookup(s.Environ)("SLURM_JOB_CPUS_PER_NODE"); ok && s.Old {
		put("SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0", cpus)
	}
	list, perNode := hostlist.Compress(names), hostlist.Runs(counts)
	port := l.listener.Addr().(*net.TCPAddr).Port
	ip := addresses()
	if len(ip) > 1 {
		ip = ip[1:]
	}
	put("SLURM_JOB_ID", l.job)
	put("SLURM_JOBID", l.job)
	put("SLURM_STEP_ID", events.StepRaw(created.Step))
	put("SLURM_STEPID", events.StepRaw(created.Step))
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
		if l.count <= len(names) {
			distribution = "cyclic"
		}
	}
	if l.allocation == nil || s.Distribution != "" {
		put("SLURM_DISTRIBUTION", distribution)
	}
	if s.Label {
		put("SLURM_LABELIO", 1)
	}
	if n := l.want.CpusPerTask; n > 0 {
		put("SLURM_CPUS_PER_TASK", n)
	}
	if l.want.Overcommit {
		put("SLURM_OVERCOMMIT", 1)
	}
	if m := s.Memory; m.GetKind() != "" {
		put("SLURM_MEM_BIND_LIST", s.MemoryList)
		put("SLURM_MEM_BIND_TYPE", m.Kind)
	}
	set = append(set, l.bound()...)
	put("SLURM_PRIO_PROCESS", l.w.Nice)
	put("SLURM_UMASK", fmt.Sprintf("%04o", l.want.Umask))
	put("SRUN_DEBUG", 3+s.Verbose)
	if l.allocation == nil {
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

// asked is what the allocation was asked for, as far as it is known.
func (l *launcher) asked() *slurm.Allocation {
	if l.s.Job == 0 {
		return &l.s.Allocation
	}
	return &slurm.Allocation{Submission: slurm.Submission{Spec: l.allocation.GetSpec(), Environ: l.s.Environ}}
}
