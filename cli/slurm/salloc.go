package slurm

import (
	"path"
	"strconv"
	"strings"

	"stint/cli/slurm/once"
	"stint/events"
)

// sallocEnv are the variables of sbatch's options that salloc has too, under its own prefix. The others it does not read.
const sallocEnv = ` SALLOC_ACCOUNT SALLOC_ACCTG_FREQ SALLOC_CLUSTERS SALLOC_CONSTRAINT SALLOC_CONTAINER SALLOC_CORE_SPEC SALLOC_CPUS_PER_GPU SALLOC_DELAY_BOOT
 SALLOC_EXCLUSIVE SALLOC_GPU_BIND SALLOC_GPU_FREQ SALLOC_GPUS SALLOC_GPUS_PER_NODE SALLOC_GPUS_PER_TASK SALLOC_GRES SALLOC_GRES_FLAGS SALLOC_HINT SALLOC_MEM_BIND
 SALLOC_MEM_PER_CPU SALLOC_MEM_PER_GPU SALLOC_MEM_PER_NODE SALLOC_NETWORK SALLOC_NO_KILL SALLOC_OVERCOMMIT SALLOC_PARTITION SALLOC_POWER SALLOC_PROFILE SALLOC_QOS
 SALLOC_REQ_SWITCH SALLOC_RESERVATION SALLOC_SIGNAL SALLOC_SPREAD_JOB SALLOC_THREAD_SPEC SALLOC_THREADS_PER_CORE SALLOC_TIMELIMIT SALLOC_USE_MIN_NODES
 SALLOC_WAIT_ALL_NODES SALLOC_WAIT4SWITCH SALLOC_WCKEY SALLOC_CONTAINER_ID SALLOC_TRES_BIND SALLOC_TRES_PER_TASK SALLOC_SEGMENT_SIZE SALLOC_CONTAINER_TYPE SLURM_HINT
 SLURM_CLUSTERS `

// scriptOnly are options of sbatch that are about a script, its files, or a job that runs by itself.
const scriptOnly = ` array batch error export export-file get-user-env ignore-pbs input no-requeue open-mode output parsable propagate requeue test-only wait wrap
 kill-on-invalid-dep mail-type-array `

// SallocTable is the options of salloc: those of sbatch that are about resources, and its own.
func SallocTable() *Table { return sallocTable.Get() }

var sallocTable = once.Value[*Table]{Make: func() *Table {
	return &Table{Command: "salloc", Usage: "[OPTIONS...] [COMMAND [ARGUMENTS...]]", Submits: true, Options: append(resourceOptions(SbatchTable.Options, "SALLOC_", sallocEnv), []Option{
		{"bell", 0, None, T2, 0, 0, "SALLOC_BELL", "bell", "", "ring the bell when the allocation is granted after waiting"},
		{"immediate", 'I', Optional, T1, 0, 0, "SALLOC_IMMEDIATE", "immediate", "SECONDS", "give up if nothing is granted within this time (1)"},
		{"kill-command", 'K', Optional, T2, 0, 0, "SALLOC_KILL_CMD", "kill-command", "SIGNAL", "signal for the command when the allocation is taken away (TERM)"},
		{"no-bell", 0, None, T2, 0, 0, "SALLOC_NO_BELL", "no-bell", "", "never ring the bell"},
		{"no-shell", 0, None, T1, 0, 0, "", "no-shell", "", "leave the allocation behind and run nothing"},
		{"x11", 0, Optional, T2, 0, 0, "", "", "", "no displays are forwarded; use ssh -X"},
	}...)}
}}

// resourceOptions are the options of sbatch that are about resources, with the variables of another command.
func resourceOptions(all []Option, prefix, known string) []Option {
	var out []Option
	for _, o := range all {
		if strings.Contains(scriptOnly, " "+o.Name+" ") {
			continue
		}
		var env []string
		for _, v := range strings.Fields(o.Env) {
			v = strings.Replace(v, "SBATCH_", prefix, 1)
			if strings.Contains(known, " "+v+" ") || strings.Contains(known, "\n "+v+" ") || strings.Contains(known, " "+v+"\n") {
				env = append(env, v)
			}
		}
		o.Env = strings.Join(env, " ")
		out = append(out, o)
	}
	return out
}

// Allocation is what a call of salloc asks for.
type Allocation struct {
	Submission          // without a script; Environ is what its command's environment begins with
	Command    []string // empty: a shell
	NoShell    bool
	Bell       bool
	NoBell     bool
	Immediate  int // seconds, 0: as long as it takes
	Kill       int // signal for the command when the allocation is taken away; 0: none
}

// allocationEffects are the options of salloc that sbatch has not.
var allocationEffects = once.Value[map[string]func(*Allocation, Given) error]{Make: func() map[string]func(*Allocation, Given) error {
	return map[string]func(*Allocation, Given) error{
		"bell":     func(a *Allocation, _ Given) error { a.Bell = true; return nil },
		"no-bell":  func(a *Allocation, _ Given) error { a.NoBell = true; return nil },
		"no-shell": func(a *Allocation, _ Given) error { a.NoShell = true; return nil },
		"immediate": func(a *Allocation, g Given) error {
			a.Immediate = 1
			if g.Value != "" {
				n, err := strconv.ParseUint(g.Value, 10, 31)
				if err != nil {
					return usage("--immediate: %s is no number of seconds", clip(g.Value))
				}
				a.Immediate = int(n)
			}
			return nil
		},
		"kill-command": func(a *Allocation, g Given) error {
			a.Kill = 15
			if g.Value == "" || g.Source == FromEnvironment && g.Value == "1" {
				return nil
			}
			n, ok := ParseSignal(g.Value)
			if !ok {
				return usage("--kill-command: %s is no signal; write a name or a number, such as TERM or 15", clip(g.Value))
			}
			a.Kill = int(n)
			return nil
		},
	}

}}

// Salloc reads a call of salloc: its command line and the SALLOC_ variables. The error is a *Failure.
func Salloc(in SbatchInput) (*Allocation, error) {
	a := &Allocation{}
	q := &request{in: in, table: SallocTable(), memory: map[string]Source{}, gres: map[string][]*events.Gres{}}
	q.Spec = &events.JobSpec{WorkDir: in.Dir, Interactive: true, Name: "interactive"}
	var own [][]Given // by component
	args, words := in.Args, []string(nil)
	for more := true; more; {
		given, rest, err := SallocTable().Parse(args, in.Release)
		if err != nil {
			return nil, err
		}
		own, words = append(own, given), rest
		if more = len(rest) > 0 && rest[0] == ":"; more {
			args = rest[1:]
		}
		for _, g := range given {
			switch g.Option.Effect {
			case "help", "usage", "version":
				a.Print = standardText(SallocTable(), g.Option.Effect, in.Release)
				return a, nil
			case "no-shell":
				q.Spec.Name = "no-shell"
			}
		}
	}
	q.own = func(g Given) (bool, error) {
		effect, own := allocationEffects.Get()[g.Option.Effect]
		if own {
			return true, effect(a, g)
		}
		return false, nil
	}
	s, err := q.components(make([][]Given, len(own)), own, SallocTable().FromEnv(Lookup(in.Environ), in.Release))
	if err != nil {
		return nil, err
	}
	if a.NoShell && len(words) > 0 {
		return nil, usage("--no-shell runs nothing, so %s can not be run; leave one of them out", clip(path.Base(words[0])))
	}
	a.Submission, a.Command = *s, words
	for _, c := range a.More {
		c.Environ = withoutBatch(c.Environ)
	}
	a.Environ = withoutBatch(a.Environ)
	return a, nil
}

// withoutBatch leaves out what only a batch script's environment holds.
func withoutBatch(environ []string) []string {
	out := environ[:0:0]
	for _, nv := range environ {
		name, _, _ := strings.Cut(nv, "=")
		switch name {
		case "SLURM_PRIO_PROCESS", "SLURM_EXPORT_ENV", "SLURM_GET_USER_ENV":
			continue
		}
		out = append(out, nv)
	}
	return out
}
