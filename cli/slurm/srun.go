package slurm

import (
	"fmt"
	"iter"
	"path"
	"strconv"
	"strings"

	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/hostlist"
	"stint/executor/tasks"
)

// srunEnv are the variables of sbatch's options that srun has too, with SLURM in place of SBATCH.
const srunEnv = ` SLURM_ACCOUNT SLURM_ACCTG_FREQ SLURM_CLUSTERS SLURM_CONSTRAINT SLURM_CORE_SPEC SLURM_CPUS_PER_GPU SLURM_DELAY_BOOT SLURM_DISTRIBUTION
 SLURM_EXCLUSIVE SLURM_GPU_BIND SLURM_GPU_FREQ SLURM_GPUS SLURM_GPUS_PER_NODE SLURM_GPUS_PER_TASK SLURM_GRES SLURM_GRES_FLAGS SLURM_HINT SLURM_MEM_BIND
 SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_MEM_PER_NODE SLURM_NETWORK SLURM_NO_KILL SLURM_OVERCOMMIT SLURM_PARTITION SLURM_POWER SLURM_PROFILE SLURM_QOS
 SLURM_REQ_SWITCH SLURM_RESERVATION SLURM_SIGNAL SLURM_SPREAD_JOB SLURM_THREAD_SPEC SLURM_THREADS_PER_CORE SLURM_TIMELIMIT SLURM_USE_MIN_NODES SLURM_WAIT4SWITCH
 SLURM_WCKEY SLURM_TRES_BIND SLURM_TRES_PER_TASK `

type moreOf struct {
	env          string
	since, until Release
}

// srunMore are variables that options of sbatch's have for srun alone, by their names: with the first and the last release that reads them.
var srunMore = once.Value[map[string][]moreOf]{Make: func() map[string][]moreOf {
	return map[string][]moreOf{
		"nodes":             {{"SLURM_NNODES SLURM_JOB_NUM_NODES", 0, 0}},
		"ntasks":            {{"SLURM_NTASKS SLURM_NPROCS", 0, 0}},
		"ntasks-per-node":   {{"SLURM_NTASKS_PER_NODE", 0, 0}},
		"ntasks-per-core":   {{"SLURM_NTASKS_PER_CORE", 0, 0}},
		"ntasks-per-gpu":    {{"SLURM_NTASKS_PER_GPU", 0, 0}},
		"ntasks-per-socket": {{"SLURM_NTASKS_PER_SOCKET", 0, 0}},
		"cpus-per-task":     {{"SRUN_CPUS_PER_TASK", 0, 2302}, {"SLURM_CPUS_PER_TASK", 2311, 0}},
		"job-name":          {{"SLURM_JOB_NAME", 0, 0}},
		"dependency":        {{"SLURM_DEPENDENCY", 0, 0}},
		"chdir":             {{"SLURM_REMOTE_CWD SLURM_WORKING_DIR", 0, 0}},
		"verbose":           {{"SLURM_DEBUG", 0, 0}},
	}

}}

// SrunTable is the options of srun: those of sbatch that are about resources, and its own. It is made when it is first asked for, as
// every command would wait for it otherwise.
func SrunTable() *Table { return srunTable.Get() }

var srunTable = once.Value[*Table]{Make: func() *Table {
	return &Table{Command: "srun", Usage: "[OPTIONS...] EXECUTABLE [ARGUMENTS...]", Submits: true, Options: append(srunResources(), []Option{
		{"async", 0, None, T3, 2605, 0, "", "", "", "srun waits for its step; let the shell run it in the background"},
		{"bcast", 0, Optional, T2, 0, 0, "SLURM_BCAST", "bcast", "PATH", "copy the program to the nodes first, to this file or into this folder/"},
		{"bcast-exclude", 0, Required, T3, 0, 0, "SLURM_BCAST_EXCLUDE", "step-noted", "PATHS", "no effect here: libraries are not copied, so none is left out"},
		{"compress", 0, Optional, T2, 0, 0, "SLURM_COMPRESS", "bcast-compress", "KIND", "with --bcast: compress what is copied"},
		{"cpu-bind", 0, Required, T1, 0, 0, "SLURM_CPU_BIND", "cpu-bind", "KIND", "which CPUs tasks are bound to: none, sockets, cores, threads, ldoms, rank, map_cpu:LIST, mask_cpu:LIST; verbose tells it"},
		{"disable-status", 'X', None, T2, 0, 0, "SLURM_DISABLE_STATUS", "disable-status", "", "pass the first Ctrl-C on instead of showing the tasks"},
		{"epilog", 0, Required, T2, 0, 0, "SLURM_EPILOG", "epilog", "PROGRAM", "run here after the step; none: not even that of the site"},
		{"error", 'e', Required, T1, 0, 0, "SRUN_ERROR SLURM_STDERRMODE", "step-error", "FILE", "file for standard error, none, or a task's number"},
		{"exact", 0, None, T1, 0, 0, "SLURM_EXACT", "exact", "", "only the CPUs that the tasks need"},
		{"export", 0, Required, T1, 0, 0, "SRUN_EXPORT_ENV SLURM_EXPORT_ENV", "export", "LIST", "environment to pass: ALL, NONE, or names and NAME=VALUE"},
		{"external-launcher", 0, None, T2, 2311, 0, "", "overlap", "", "start a launcher of tasks, which share what the allocation has"},
		{"het-group", 0, Required, T2, 0, 0, "", "het-group", "LIST", "run in these components of a heterogeneous job, counted from 0"},
		{"ignore-signals", 0, Required, T3, 2605, 0, "", "", "", "srun passes the signals it gets on to its tasks"},
		{"immediate", 'I', Optional, T1, 0, 0, "SLURM_IMMEDIATE", "immediate", "SECONDS", "give up if nothing is granted within this time (1)"},
		{"input", 'i', Required, T1, 0, 0, "SRUN_INPUT SLURM_STDINMODE", "step-input", "FILE", "file for standard input, none, all, or a task's number"},
		{"jobid", 0, Required, T1, 0, 0, "SLURM_JOB_ID SLURM_JOBID", "jobid", "ID", "run in the allocation of this job"},
		{"kill-on-bad-exit", 'K', Optional, T1, 0, 0, "SLURM_KILL_BAD_EXIT", "kill-on-bad-exit", "0|1", "end all tasks when one fails"},
		{"label", 'l', None, T1, 0, 0, "SLURM_LABELIO", "label", "", "put each task's number before its lines"},
		{"mpi", 0, Required, T1, 0, 0, "SLURM_MPI_TYPE", "mpi", "TYPE", "how tasks find each other: pmi2, pmix, none; list shows what there is"},
		{"msg-timeout", 0, Required, T2, 0, 0, "", "step-noted", "SECONDS", "no effect here: nothing is waited for by the clock"},
		{"multi-prog", 0, None, T1, 0, 0, "", "multi-prog", "", "the executable is a file that names a program for each task"},
		{"no-allocate", 'Z', None, T2, 0, 0, "", "", "", "steps run in allocations"},
		{"open-mode", 0, Required, T1, 0, 0, "SLURM_OPEN_MODE", "open-mode", "append|truncate", "what to do with output files that exist"},
		{"output", 'o', Required, T1, 0, 0, "SRUN_OUTPUT SLURM_STDOUTMODE", "step-output", "FILE", "file for standard output, none, or a task's number"},
		{"overlap", 0, None, T1, 0, 0, "SLURM_OVERLAP", "overlap", "", "share CPUs, memory and devices with other steps"},
		{"preserve-env", 'E', None, T2, 0, 0, "", "preserve-env", "", "leave SLURM_NNODES and SLURM_NTASKS to the tasks as they are here"},
		{"prolog", 0, Required, T2, 0, 0, "SLURM_PROLOG", "prolog", "PROGRAM", "run here before the step; none: not even that of the site"},
		{"propagate", 0, Optional, T1, 0, 0, "", "propagate", "LIMITS", "resource limits to pass: ALL, NONE, or names such as NOFILE"},
		{"pty", 0, Optional, T1, 0, 0, "", "pty", "", "give task 0 a terminal"},
		{"quit-on-interrupt", 0, None, T2, 0, 0, "", "quit-on-interrupt", "", "end the step at the first Ctrl-C"},
		{"relative", 'r', Required, T2, 0, 0, "", "relative", "N", "begin at this node of the allocation, counted from 0"},
		{"send-libs", 0, Optional, T2, 0, 0, "SLURM_SEND_LIBS", "send-libs", "", "libraries are not copied to nodes; put them where every node sees them"},
		{"slurmd-debug", 0, Required, T3, 0, 0, "SLURMD_DEBUG", "step-noted", "LEVEL", "no effect here: nodes log as they are configured to"},
		{"task-epilog", 0, Required, T2, 0, 0, "SLURM_TASK_EPILOG", "task-epilog", "PROGRAM", "run after each task"},
		{"task-prolog", 0, Required, T2, 0, 0, "SLURM_TASK_PROLOG", "task-prolog", "PROGRAM", "run before each task; its lines `export NAME=VALUE` count"},
		{"test-only", 0, None, T1, 0, 0, "", "test-only", "", "say when and where it would start, and start nothing"},
		{"threads", 'T', Required, T2, 0, 0, "SLURM_THREADS", "step-noted", "N", "no effect here: nodes are spoken to all at once"},
		{"treewidth", 0, Required, T3, 2311, 0, "", "step-noted", "N", "no effect here: nodes are spoken to directly"},
		{"unbuffered", 'u', None, T1, 0, 0, "SLURM_UNBUFFEREDIO", "unbuffered", "", "pass output on as it comes, not in whole lines"},
		{"wait", 'W', Required, T1, 0, 0, "SLURM_WAIT", "wait", "SECONDS", "end the others so long after the first task has ended; 0: never"},
		{"wait-for-children", 0, None, T3, 2505, 0, "", "", "", "a step ends with its tasks"},
		{"x11", 0, Optional, T2, 0, 0, "", "", "", "no displays are forwarded; use ssh -X"},
	}...)}
}}

func srunResources() []Option {
	var out []Option
	for _, o := range resourceOptions(SbatchTable.Options, "SLURM_", srunEnv) {
		more := srunMore.Get()[o.Name]
		for _, m := range more {
			one := o
			one.Env = strings.TrimSpace(o.Env + " " + m.env)
			one.Since, one.Until = max(one.Since, m.since), m.until
			out = append(out, one)
		}
		if more == nil {
			out = append(out, o)
		}
	}
	return out
}

// Step is what a call of srun asks for.
type Step struct {
	Allocation               // if Job is 0; Environ is what the tasks' environment begins with, Command what they run
	Job          uint32      // the allocation it runs in
	Want         *tasks.Want // without umask and limits
	Label        bool
	Unbuffered   bool
	Pty          bool
	MultiProg    bool
	KillOnBad    bool
	Wait         int  // seconds, 0: for ever
	KillGiven    bool // KillOnBad was asked for, or not to
	WaitGiven    bool
	Prolog       string // program to run here before the step; none: not even that of the site
	Epilog       string
	Input        string
	Output       string
	Error        string
	MPI          string // pmi2, pmix, none; empty: nothing was said
	NoStatus     bool
	Quit         bool // at the first Ctrl-C
	PreserveEnv  bool
	Append       bool
	TaskProlog   string
	TaskEpilog   string
	Distribution string // as tasks are told
	Old          bool   // 22.05

	Bind CPUBind

	Bcast         bool   // the program is to be copied to the nodes
	BcastTo       string // to this file, or into this folder/; empty: wherever the site says
	BcastCompress bool

	Group  int     // its place in a heterogeneous job
	Named  bool    // it was asked for by --het-group
	Others []*Step // the further components of a step of several, in the order of their places

	Memory     *tasks.Memory // --mem-bind; nil: nothing was said
	MemoryList string        // as it is told

	overlap, exact, cpus bool
	relative             *uint32
	multiple             string
}

// MPIKind is what a value of --mpi or MpiDefault comes to: pmi2, pmix, none or list; empty: nothing that is known. Of pmix there is
// one version, the installed library's.
func MPIKind(value string) string {
	switch v := strings.ToLower(value); v {
	case "list", "none", "pmi2", "pmix":
		return v
	case "openmpi":
		return "none"
	case "pmix_v2", "pmix_v3", "pmix_v4", "pmix_v5":
		return "pmix"
	}
	return ""
}

// stepEffects are the options of srun that sbatch has not.
var stepEffects = once.Value[map[string]func(*Step, Given) error]{Make: func() map[string]func(*Step, Given) error {
	return map[string]func(*Step, Given) error{
		"cpu-bind":       (*Step).cpuBind,
		"bcast":          func(s *Step, g Given) error { s.Bcast, s.BcastTo = true, g.Value; return nil },
		"bcast-compress": func(s *Step, g Given) (err error) { s.BcastCompress, err = compressing(g.Value); return err },
		"send-libs": func(s *Step, g Given) error {
			switch strings.ToLower(g.Value) {
			case "no", "n", "0", "off":
				return nil
			}
			return refusal("--send-libs is not supported by Stint yet; put the libraries where every node sees them, and leave it out")
		},
		"het-group":         func(*Step, Given) error { return nil }, // read by Srun
		"disable-status":    func(s *Step, _ Given) error { s.NoStatus = true; return nil },
		"step-error":        func(s *Step, g Given) error { s.Error = g.Value; return nil },
		"step-input":        func(s *Step, g Given) error { s.Input = g.Value; return nil },
		"step-output":       func(s *Step, g Given) error { s.Output = g.Value; return nil },
		"exact":             func(s *Step, _ Given) error { s.exact = true; return nil },
		"overlap":           func(s *Step, _ Given) error { s.overlap = true; return nil },
		"label":             func(s *Step, _ Given) error { s.Label = true; return nil },
		"unbuffered":        func(s *Step, _ Given) error { s.Unbuffered = true; return nil },
		"multi-prog":        func(s *Step, _ Given) error { s.MultiProg = true; return nil },
		"preserve-env":      func(s *Step, _ Given) error { s.PreserveEnv = true; return nil },
		"quit-on-interrupt": func(s *Step, _ Given) error { s.Quit = true; return nil },
		"step-noted":        func(*Step, Given) error { return nil },
		"task-prolog":       func(s *Step, g Given) error { s.TaskProlog = g.Value; return nil },
		"task-epilog":       func(s *Step, g Given) error { s.TaskEpilog = g.Value; return nil },
		"jobid": func(s *Step, g Given) error {
			n, err := strconv.ParseUint(g.Value, 10, 32)
			if err != nil || n == 0 {
				return usage("%s: %s is no job id", g.Option.Spelled(), clip(g.Value))
			}
			s.Job = uint32(n)
			return nil
		},
		"immediate": func(s *Step, g Given) error { return allocationEffects.Get()["immediate"](&s.Allocation, g) },
		"kill-on-bad-exit": func(s *Step, g Given) error {
			s.KillGiven = true
			if s.KillOnBad = g.Value != "0"; g.Value != "" && g.Value != "0" && g.Value != "1" {
				return usage("--kill-on-bad-exit: %s is neither 0 nor 1", clip(g.Value))
			}
			return nil
		},
		"mpi": func(s *Step, g Given) error {
			if s.MPI = MPIKind(g.Value); s.MPI == "" {
				return refusal("--mpi=%s is no MPI that is known; --mpi=list shows them", clip(g.Value))
			}
			return nil
		},
		"prolog": func(s *Step, g Given) error { s.Prolog = g.Value; return nil },
		"epilog": func(s *Step, g Given) error { s.Epilog = g.Value; return nil },
		"pty": func(s *Step, g Given) error {
			if g.Value != "" {
				return refusal("--pty=%s: only a terminal for task 0 is supported by Stint yet; leave the value out", clip(g.Value))
			}
			s.Pty = true
			return nil
		},
		"relative": func(s *Step, g Given) error {
			n, err := strconv.ParseUint(g.Value, 10, 31)
			if err != nil {
				return usage("--relative: %s is no number of a node", clip(g.Value))
			}
			r := uint32(n)
			s.relative = &r
			return nil
		},
		"wait": func(s *Step, g Given) error {
			n, err := strconv.ParseUint(g.Value, 10, 31)
			if err != nil {
				return usage("--wait: %s is no number of seconds", clip(g.Value))
			}
			s.Wait, s.WaitGiven = int(n), true
			return nil
		},
	}

}}

// ofTheJob are effects of variables that an allocation leaves in the environment of what runs in it, and that are about the
// allocation: a step has all of it anyway.
const ofTheJob = " mem mem-per-cpu mem-per-gpu gres gpus gpus-per-node gpus-per-socket cpus-per-gpu constraint exclusive partition account qos reservation time no-kill job-name ntasks-per-gpu switches wait4switch dependency signal tres-per-task "

// srunOne reads what is said of one component; of a heterogeneous job (het) it is the one of this place.
func srunOne(in SbatchInput, given []Given, words []string, group int, het bool) (*Step, error) {
	s := &Step{Want: &tasks.Want{SubmitLine: submitLine("srun", in.Args)}, Old: in.Release == Release2205}
	q := &request{in: in, table: SrunTable(), memory: map[string]Source{}, gres: map[string][]*events.Gres{}}
	q.Spec = &events.JobSpec{WorkDir: in.Dir, Interactive: true}
	var err error
	lookup := Lookup(in.Environ)
	if het {
		lookup = Lookup(ofGroup(in.Environ, group))
	}
	fromEnv := SrunTable().FromEnv(lookup, in.Release)
	inside := false
	for _, g := range append(fromEnv, given...) {
		inside = inside || g.Option.Effect == "jobid"
	}
	set := map[string]Source{}
	for _, g := range append(fromEnv, given...) {
		if g.Source == FromEnvironment {
			switch {
			case inside && strings.Contains(ofTheJob, " "+g.Option.Effect+" "):
				continue
			case g.Option.Effect == "job-name":
				continue // of the job that one is in, or was
			case g.Option.Effect == "distribution" && g.Value == "plane":
				size, _ := lookup("SLURM_DIST_PLANESIZE")
				g.Value += "=" + size
			case g.Option.Arg == None && (g.Value == "0" || strings.EqualFold(g.Value, "no")):
				continue
			}
		}
		if inside && g.Source != FromEnvironment {
			s.clear(q, g.Option.Effect)
		}
		set[g.Option.Effect] = g.Source
		if effect, own := stepEffects.Get()[g.Option.Effect]; own {
			err = effect(s, g)
		} else {
			err = q.apply(g)
		}
		if err != nil {
			return nil, err
		}
	}
	if s.MPI == "list" || s.Print != "" {
		return s, nil
	}
	if len(words) == 0 && !q.TestOnly {
		return nil, refusal("fatal: No command given to execute.")
	}
	if len(words) > 0 && q.Spec.Name == "" {
		q.Spec.Name = path.Base(words[0])
	}
	if inside {
		s.fit(q, set)
	}
	if n, ok := set["ntasks"]; ok && n == FromCommandLine && q.Spec.Tasks == 0 {
		return nil, usage("invalid number of tasks (-n 0)")
	}
	hosts, _ := lookup("SLURM_HOSTFILE")
	if strings.HasPrefix(q.Spec.Distribution, "arbitrary") && q.Spec.NodeList == "" && hosts != "" {
		if err := q.apply(Given{Option: &Option{Name: "nodefile", Effect: "nodefile", Arg: Required}, Value: hosts, Has: true, Source: FromCommandLine}); err != nil {
			return nil, err
		}
	}
	order := q.Spec.NodeList // arbitrary: one for each task
	if err := q.finish(); err != nil {
		return nil, err
	}
	if inside {
		env, err := Export(in.Environ, q.export, q.exported)
		if err != nil {
			return nil, err
		}
		q.Environ = env.Environ
	} else {
		q.Environ = withoutBatch(q.Environ)
	}
	s.Submission, s.Command, s.Append = q.Submission, words, q.Spec.Append
	if b := q.memBound; b.Kind != "" {
		s.Memory, s.MemoryList = &tasks.Memory{Kind: b.Kind, List: b.List, Prefer: b.Prefer}, b.ListText()
	}
	return s, s.wants(q, set, order)
}

// clear takes back what the environment has said where the command line says it another way.
func (s *Step) clear(q *request, effect string) {
	switch effect {
	case "gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket":
		q.gres[effect] = nil
		if effect != "gpus-per-task" {
			q.gres["gpus-per-task"] = nil
		}
	}
}

// fit makes what an allocation has left in the environment agree with the command line.
func (s *Step) fit(q *request, set map[string]Source) {
	spec := q.Spec
	if set["nodes"] == FromEnvironment && spec.NodeList != "" && set["nodelist"] == FromCommandLine && !strings.HasPrefix(spec.Distribution, "arbitrary") {
		if n, err := hostlist.Count(spec.NodeList, hostlist.MaxHosts); err == nil {
			spec.MinNodes, spec.MaxNodes = uint32(n), 0
			if set["ntasks"] == FromEnvironment {
				spec.Tasks = 0
			}
		}
	}
	if set["nodes"] == FromEnvironment && strings.HasPrefix(spec.Distribution, "arbitrary") {
		spec.MinNodes, spec.MaxNodes = 0, 0
	}
	if set["nodes"] == FromEnvironment && (s.relative != nil || spec.Exclude != "") {
		spec.MinNodes, spec.MaxNodes = 0, 0
	}
	if spec.Tasks > 0 && spec.MinNodes > spec.Tasks {
		q.Notes = append(q.Notes, fmt.Sprintf("Warning: can't run %d processes on %d nodes, setting nnodes to %d", spec.Tasks, spec.MinNodes, spec.Tasks))
		spec.MinNodes, spec.MaxNodes = spec.Tasks, spec.Tasks
	}
	if set["ntasks-per-node"] == FromEnvironment && set["ntasks"] == FromCommandLine && spec.TasksPerNode > 0 && spec.Tasks > spec.TasksPerNode*max(1, spec.MinNodes) {
		spec.TasksPerNode = 0
	}
	if set["gpus-per-task"] == FromEnvironment && spec.Tasks == 0 && spec.MinNodes == 0 {
		q.gres["gpus-per-task"] = nil
	}
}

// wants makes the request for the step out of what was read.
func (s *Step) wants(q *request, set map[string]Source, order string) error {
	w, spec := s.Want, q.Spec
	w.Name, w.GpuBind = spec.Name, q.gpuBound
	s.binds(q)
	w.Tasks, w.MinNodes, w.MaxNodes = spec.Tasks, spec.MinNodes, spec.MaxNodes
	w.TasksGiven = spec.Tasks > 0
	w.CpusPerTask, w.TasksPerNode = spec.CpusPerTask, spec.TasksPerNode
	w.Overcommit, w.Overlap = spec.Overcommit, s.overlap
	w.LimitS = spec.TimeLimitS
	if spec.TimeLimitS == events.Unlimited || s.Job == 0 {
		w.LimitS = 0
	}
	_, shared := set["exclusive"]
	// -c is a wish for so many CPUs and no more (since 22.05), and so is --exclusive inside an allocation.
	w.Exact = s.exact || set["cpus-per-task"] == FromCommandLine || s.Job != 0 && shared || w.Overlap && spec.CpusPerTask > 0
	if s.Job != 0 {
		if spec.MemPerNodeMib > 0 {
			w.MemPerNodeMib = spec.MemPerNodeMib
		}
		w.MemPerCpuMib = spec.MemPerCpuMib
		for _, g := range spec.Gres {
			if g.Name == "none" {
				w.NoGres = true
				continue
			}
			w.Gres = append(w.Gres, g)
		}
		if s.relative != nil {
			w.Relative, w.HasRelative = *s.relative, true
		}
	} else {
		for _, g := range q.gres["gpus-per-task"] {
			w.Gres = append(w.Gres, g)
		}
	}
	var err error
	if s.Job != 0 || strings.HasPrefix(spec.Distribution, "arbitrary") {
		if w.Nodes, err = expand(order); err != nil {
			return err
		}
	}
	if s.Job != 0 {
		if w.Exclude, err = expand(spec.Exclude); err != nil {
			return err
		}
	}
	head, pack, _ := strings.Cut(spec.Distribution, ",")
	first, _, _ := strings.Cut(head, ":")
	w.Packed = strings.EqualFold(pack, "pack")
	w.SpreadGiven = first != "" && first != "*"
	switch size, plane := planeSize(head); {
	case plane:
		n, _ := strconv.ParseUint(size, 10, 31)
		w.Spread, w.Plane = tasks.Spread_PLANE, uint32(n)
		s.Distribution = "plane"
	case first == "cyclic":
		w.Spread = tasks.Spread_CYCLIC
		s.Distribution = distributionTold(spec.Distribution)
	case first == "arbitrary":
		w.Spread = tasks.Spread_ARBITRARY
		s.Distribution = "arbitrary"
		if w.Tasks == 0 {
			w.Tasks = uint32(len(w.Nodes))
		}
	case first != "" && first != "*":
		s.Distribution = distributionTold(spec.Distribution)
	}
	return nil
}

func expand(list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	names, err := hostlist.Expand(list, hostlist.MaxHosts)
	if err != nil {
		return nil, refusal("%v", err)
	}
	return names, nil
}

// Program is one line of a file for --multi-prog.
type Program struct {
	Tasks events.Words // ranks
	Argv  []string     // with %t and %o filled in by Argv
}

// MultiProg reads a file for --multi-prog: lines of ranks (0,2-4, or * for all the others), a program and its arguments, in which %t
// stands for the rank and %o for its place among the ranks of the line. It returns the arguments of each of the tasks.
func MultiProg(text string, count int) ([][]string, error) {
	out := make([][]string, count)
	line := 0
	for l := range programLines(text) {
		line++
		l = strings.TrimSpace(l)
		if l == "" || l[0] == '#' {
			continue
		}
		ranks, rest, _ := strings.Cut(l, " ")
		if t := strings.IndexByte(ranks, '\t'); t >= 0 {
			ranks, rest = l[:t], l[t+1:]
		}
		words, err := programWords(rest, 0, 0)
		if err != nil || len(words) == 0 {
			return nil, refusal("line %d of the configuration: a program is missing or not readable: %s", line, clip(l))
		}
		list, err := ranksOf(ranks, count, out)
		if err != nil {
			return nil, refusal("line %d of the configuration: %v", line, err)
		}
		for at, r := range list {
			if r < count && out[r] == nil {
				out[r], _ = programWords(rest, r, at)
			}
		}
	}
	for r, argv := range out {
		if argv == nil {
			return nil, refusal("Configuration file invalid, no record for task id %d", r)
		}
	}
	return out, nil
}

// programLines are the lines of such a file, with those that a backslash makes one.
func programLines(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			end := 0
			for ; end < len(text) && text[end] != '\n'; end++ {
				if text[end] == '\\' && end+1 < len(text) {
					end++
				}
			}
			if !yield(text[:end]) {
				return
			}
			text = text[min(end+1, len(text)):]
		}
	}
}

func ranksOf(text string, count int, have [][]string) (out []int, err error) {
	if text == "*" {
		for r := range count {
			if have[r] == nil {
				out = append(out, r)
			}
		}
		return out, nil
	}
	for term := range strings.SplitSeq(text, ",") {
		lo, hi, ranged := strings.Cut(term, "-")
		from, err := strconv.Atoi(lo)
		to := from
		if err == nil && ranged {
			to, err = strconv.Atoi(hi)
		}
		if err != nil || from < 0 || to < from || to > 1<<20 {
			return nil, fmt.Errorf("%s is no list of tasks", clip(text))
		}
		for r := from; r <= to; r++ {
			out = append(out, r)
		}
	}
	return out, nil
}

// programWords are the words of a program and its arguments in a file for --multi-prog: blanks separate them, a backslash keeps what
// follows, single quotes keep blanks and all else; double quotes are nothing special. Outside of quotes %t is the rank and %o its place;
// any other character is lost with the % before it. A backslash at the end of a line goes on in the next, in a word.
func programWords(s string, rank, at int) (out []string, err error) {
	var b strings.Builder
	open, quoted, escape := false, false, rune(0)
	for _, c := range s {
		switch {
		case escape == '\\':
			escape = 0
			if c != '\n' {
				b.WriteRune(c)
			}
		case escape == '%':
			escape = 0
			switch c {
			case 't':
				b.WriteString(strconv.Itoa(rank))
			case 'o':
				b.WriteString(strconv.Itoa(at))
			}
		case c == '\'':
			quoted, open = !quoted, true
		case quoted:
			b.WriteRune(c)
		case c == '\\' || c == '%':
			escape, open = c, true
		case c == ' ' || c == '\t':
			if open {
				out = append(out, b.String())
				b.Reset()
				open = false
			}
		default:
			b.WriteRune(c)
			open = true
		}
	}
	if quoted || escape == '\\' {
		return nil, errUnquoted
	}
	if open {
		out = append(out, b.String())
	}
	return out, nil
}
