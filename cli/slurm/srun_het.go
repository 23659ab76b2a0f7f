package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A call of srun for several components of a heterogeneous job: programs with options of their own joined by colons, or one program
// for the components that --het-group names.

// Srun reads a call of srun: its command line and the SLURM_ variables. Of several components the first is returned, with the others in
// Others, in the order of their places in the job. The error is a *Failure.
func Srun(in SbatchInput) (*Step, error) {
	var own [][]Given // by component
	var commands [][]string
	args := in.Args
	for more := true; more; {
		given, words, err := SrunTable().Parse(args, in.Release)
		if err != nil {
			return nil, err
		}
		for _, g := range given {
			switch g.Option.Effect {
			case "help", "usage", "version":
				return &Step{Allocation: Allocation{Submission: Submission{Print: standardText(SrunTable(), g.Option.Effect, in.Release)}}}, nil
			}
		}
		colon := slices.Index(words, ":")
		if more = colon >= 0; more {
			args, words = words[colon+1:], words[:colon]
		}
		own, commands = append(own, given), append(commands, words)
	}
	lookup := Lookup(in.Environ)
	_, here := lookup("SLURM_JOB_ID")
	_, het := lookup("SLURM_HET_SIZE")
	var list []*Step
	var carried []Given
	for k, given := range own {
		groups := []int{k}
		named := ""
		words := commands[k]
		if len(words) == 0 && k+1 < len(own) { // that of the next
			words = commands[len(own)-1]
		}
		all := slices.Concat(carried, given)
		for _, g := range all {
			switch g.Option.Effect {
			case "het-group":
				named = g.Value
			case "jobid":
				here = true
			}
		}
		if named != "" {
			var err error
			if groups, err = hetGroups(named); err != nil {
				return nil, err
			}
			if !here {
				groups = []int{k}
			}
		}
		for _, g := range groups {
			s, err := srunOne(in, all, words, g, het || named != "")
			if err != nil || s.Print != "" || s.MPI == "list" {
				return s, err
			}
			s.Group, s.Named = g, named != ""
			for _, before := range list {
				if before.Group == g {
					return nil, refusal("fatal: Duplicate het groups in single srun not supported")
				}
			}
			list = append(list, s)
		}
		for _, g := range given {
			if !ofComponent.Get()[g.Option.Effect] && !strings.Contains(ofOneStep, " "+g.Option.Effect+" ") {
				g.Source = FromEarlier
				carried = append(carried, g)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b *Step) int { return a.Group - b.Group })
	first := list[0]
	for _, s := range list[1:] {
		first.Others = append(first.Others, s)
		if first.Job == 0 {
			first.More = append(first.More, &s.Submission)
		}
		for _, note := range s.Notes {
			if !slices.Contains(first.Notes, note) {
				first.Notes = append(first.Notes, note)
			}
		}
	}
	return first, nil
}

// ofOneStep are effects of srun's own options that count for the component that they are given to.
const ofOneStep = " het-group relative multi-prog exact pty cpu-bind "

// hetGroups reads --het-group: places of components, as 0,2-4.
func hetGroups(text string) ([]int, error) {
	var out []int
	for term := range strings.SplitSeq(strings.Trim(text, "[]"), ",") {
		lo, hi, ranged := strings.Cut(term, "-")
		from, err := strconv.ParseUint(lo, 10, 16)
		to := from
		if err == nil && ranged {
			to, err = strconv.ParseUint(hi, 10, 16)
		}
		if err != nil || to < from {
			return nil, refusal("Invalid --het-group value: %s", text)
		}
		for g := from; g <= to; g++ {
			if !slices.Contains(out, int(g)) {
				out = append(out, int(g))
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// ofGroup is an environment as it speaks of one component of a heterogeneous job: what is said of that one stands in place of what is said
// of the first, and of the job as a whole.
func ofGroup(environ []string, group int) []string {
	suffix := fmt.Sprintf("_HET_GROUP_%d", group)
	said := map[string]string{}
	for _, nv := range environ {
		name, value, _ := strings.Cut(nv, "=")
		if base, ok := strings.CutSuffix(name, suffix); ok && base != "SLURM_JOB_ID" && base != "SLURM_JOBID" {
			said[base] = value
		}
	}
	for _, alike := range [][2]string{{"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}, {"SLURM_NODELIST", "SLURM_JOB_NODELIST"}} {
		if v, ok := said[alike[1]]; ok {
			said[alike[0]] = v
		}
	}
	var out []string
	for _, nv := range environ {
		name, _, _ := strings.Cut(nv, "=")
		_, other := said[name]
		if other || group > 0 && len(said) > 0 && strings.Contains(ofTheFirst, " "+name+" ") {
			continue
		}
		out = append(out, nv)
	}
	for name, value := range said {
		out = append(out, name+"="+value)
	}
	return out
}

// ofTheFirst are variables of a batch script's environment that are about the first component alone.
const ofTheFirst = " SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE SLURM_NTASKS_PER_CORE SLURM_NTASKS_PER_SOCKET SLURM_NTASKS_PER_GPU SLURM_CPUS_PER_TASK SLURM_GPUS" +
	" SLURM_GPUS_PER_NODE SLURM_GPUS_PER_TASK SLURM_MEM_PER_CPU SLURM_MEM_PER_NODE SLURM_MEM_PER_GPU SLURM_CPUS_PER_GPU SLURM_DISTRIBUTION "
