package slurm

import (
	"strconv"

	"stint/cli/slurm/once"
	"stint/events"
)

// SattachTable is the options of sattach.
var SattachTable = Table{Command: "sattach", Usage: "[OPTIONS...] JOB.STEP", Options: []Option{
	{"error-filter", 0, Optional, T2, 0, 0, "", "error-filter", "TASK", "standard error of this task only; without a number: none"},
	{"help", 'h', None, T1, 0, 0, "", "help", "", "show this help"},
	{"input-filter", 0, Optional, T2, 0, 0, "", "input-filter", "TASK", "standard input for this task only; without a number: none"},
	{"label", 'l', None, T1, 0, 0, "", "label", "", "put each task's number before its lines"},
	{"layout", 0, None, T2, 0, 0, "", "layout", "", "show which tasks are where, and do not attach"},
	{"output-filter", 0, Optional, T2, 0, 0, "", "output-filter", "TASK", "standard output of this task only; without a number: none"},
	{"pty", 0, None, T2, 0, 0, "", "pty", "", "pass on each key for task 0 as it is typed"},
	{"quiet", 'Q', None, T2, 0, 0, "", "quiet", "", "say nothing but errors"},
	{"usage", 'u', None, T2, 0, 0, "", "usage", "", "show one line of help"},
	{"verbose", 'v', None, T2, 0, 0, "", "verbose", "", "say more"},
	{"version", 'V', None, T1, 0, 0, "", "version", "", "show the version"},
	{"autocomplete", 0, Required, T3, 0, 0, "", "", "", ""},
	{"debugger-test", 0, None, T3, 0, 0, "", "", "", ""},
}}

// Filter says of which tasks a stream is passed on.
type Filter struct {
	None bool
	Only *uint32 // nil: all
}

// Passes says whether it is that of a task.
func (f Filter) Passes(rank uint32) bool { return !f.None && (f.Only == nil || *f.Only == rank) }

// Sattach is what a call of sattach asks for.
type Sattach struct {
	Print                 string // not empty: print it and exit with 0
	Job, Step             uint32
	Target                *events.Target
	Label, Layout, Pty    bool
	Quiet                 bool
	Verbose               int
	Input, Output, Errors Filter
}

func filter(field func(*Sattach) *Filter) func(*Sattach, Given) error {
	return func(s *Sattach, g Given) error {
		if g.Value == "" {
			*field(s) = Filter{None: true}
			return nil
		}
		n, err := strconv.ParseUint(g.Value, 10, 31)
		if err != nil {
			return usage("%s: %s is no task's number", g.Option.Spelled(), clip(g.Value))
		}
		r := uint32(n)
		*field(s) = Filter{Only: &r}
		return nil
	}
}

var sattachEffects = once.Value[map[string]func(*Sattach, Given) error]{Make: func() map[string]func(*Sattach, Given) error {
	return map[string]func(*Sattach, Given) error{
		"error-filter":  filter(func(s *Sattach) *Filter { return &s.Errors }),
		"input-filter":  filter(func(s *Sattach) *Filter { return &s.Input }),
		"output-filter": filter(func(s *Sattach) *Filter { return &s.Output }),
		"help":          doneHere[Sattach],
		"usage":         doneHere[Sattach],
		"version":       doneHere[Sattach],
		"label":         on(func(s *Sattach) *bool { return &s.Label }),
		"layout":        on(func(s *Sattach) *bool { return &s.Layout }),
		"pty":           on(func(s *Sattach) *bool { return &s.Pty }),
		"quiet":         on(func(s *Sattach) *bool { return &s.Quiet }),
		"verbose":       func(s *Sattach, _ Given) error { s.Verbose++; return nil },
	}

}}

// ReadSattach reads a call of sattach.
func ReadSattach(in Input) (*Sattach, error) {
	s := &Sattach{}
	rest, print, err := readOptions(&SattachTable, in, s, sattachEffects.Get())
	if err != nil || print != "" {
		s.Print = print
		return s, err
	}
	if len(rest) != 1 {
		return s, refusal("name one step, as JOB.STEP")
	}
	t, err := ParseTarget(rest[0])
	switch {
	case err != nil:
		return s, refusal("Failed to parse stepid from command line options: %v", err)
	case !t.HasStep:
		return s, refusal("Failed to parse stepid from command line options: %s names no step; write JOB.STEP, as %s.0", clip(rest[0]), rest[0])
	case t.Step >= events.StepInteractive:
		return s, refusal("%s cannot be attached to: only numbered steps have an srun that passes on what their tasks read and write", rest[0])
	}
	s.Target, s.Job, s.Step = t, t.Job, t.Step
	return s, nil
}
