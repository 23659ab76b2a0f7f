package slurm

import (
	"strconv"
	"strings"
	"time"

	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/hostlist"
	"stint/events/idset"
)

// Input is what a call of a command that asks or controls depends on.
type Input struct {
	Args    []string  // without the command's name
	Environ []string  // NAME=value
	Now     time.Time // in the user's time zone
	Release Release   // the release emulated
	User    string    // who calls
}

// readOptions lets the environment and then the command line have their effects on to, and returns the other words. print
// is not empty if the command is only to print it.
func readOptions[R any](t *Table, in Input, to *R, effects map[string]func(*R, Given) error) (words []string, print string, err error) {
	given, words, err := t.Parse(in.Args, in.Release)
	if err != nil {
		return nil, "", err
	}
	for _, g := range given {
		switch g.Option.Effect {
		case "help", "usage", "version":
			return nil, standardText(t, g.Option.Effect, in.Release), nil
		}
	}
	for _, g := range append(t.FromEnv(Lookup(in.Environ), in.Release), given...) {
		effect, ok := effects[g.Option.Effect]
		if !ok {
			return nil, "", t.Refused(g)
		}
		if err := effect(to, g); err != nil {
			if f, ok := err.(*Failure); ok && g.Where != "" {
				f.Text = g.Where + ": " + f.Text
			}
			return nil, "", err
		}
	}
	return words, "", nil
}

func on[R any](field func(*R) *bool) func(*R, Given) error {
	return func(r *R, _ Given) error { *field(r) = true; return nil }
}

func off[R any](field func(*R) *bool) func(*R, Given) error {
	return func(r *R, _ Given) error { *field(r) = false; return nil }
}

func word[R any](field func(*R) *string) func(*R, Given) error {
	return func(r *R, g Given) error { *field(r) = g.Value; return nil }
}

// words reads a list joined by commas; empty members are left out.
func words[R any](field func(*R) *[]string) func(*R, Given) error {
	return func(r *R, g Given) error {
		list, err := splitList(g)
		*field(r) = list
		return err
	}
}

// more is like words, and adds to what was given before.
func more[R any](field func(*R) *[]string) func(*R, Given) error {
	return func(r *R, g Given) error {
		list, err := splitList(g)
		*field(r) = append(*field(r), list...)
		return err
	}
}

const maxList = 100000

func splitList(g Given) ([]string, error) {
	list := strings.FieldsFunc(g.Value, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' })
	if len(list) > maxList {
		return nil, refusal("%s has more than %d members", g.Option.Spelled(), maxList)
	}
	return list, nil
}

func nodeWord[R any](field func(*R) *string) func(*R, Given) error {
	return func(r *R, g Given) error {
		if _, err := hostlist.Count(g.Value, hostlist.MaxHosts); err != nil {
			return refusal("%s: %v", g.Option.Spelled(), err)
		}
		*field(r) = g.Value
		return nil
	}
}

func seconds[R any](field func(*R) *int) func(*R, Given) error {
	return func(r *R, g Given) error {
		n, err := strconv.Atoi(g.Value)
		if err != nil || n < 1 || n > 1<<30 || g.Value[0] == '+' {
			return refusal("%s is not a number of seconds for %s", clip(g.Value), g.Option.Spelled())
		}
		*field(r) = n
		return nil
	}
}

// JSONVersion is the one shape of --json that is written: that of this version of Slurm's data_parser.
const JSONVersion = "v0.0.42"

// asJSON is the effect of --json, with the version of its shape or without; `list` says which there are.
func asJSON[R any](fields func(*R) (json *bool, print *string)) func(*R, Given) error {
	return func(r *R, g Given) error {
		json, print := fields(r)
		return shaped(g, json, print)
	}
}

// asYAML is the effect of --yaml: as --json, written otherwise.
func asYAML[R any](fields func(*R) (json, yaml *bool, print *string)) func(*R, Given) error {
	return func(r *R, g Given) error {
		json, yaml, print := fields(r)
		*yaml = true
		return shaped(g, json, print)
	}
}

// shaped reads the version of the shape asked for. A variable only has to be set: what it is set to is no version.
func shaped(g Given, wanted *bool, print *string) error {
	switch strings.TrimPrefix(g.Value, "data_parser/") {
	case "list":
		*print = "Possible data_parser plugins:\ndata_parser/" + JSONVersion + "\n"
	case "", JSONVersion, "latest":
		*wanted = true
	default:
		if g.Source != FromEnvironment {
			return refusal("--%s=%s is not supported by Stint yet; it writes the shape of %s", g.Option.Effect, clip(g.Value), JSONVersion)
		}
		*wanted = true
	}
	return nil
}

func counter[R any](field func(*R) *int) func(*R, Given) error {
	return func(r *R, g Given) error {
		*field(r)++
		return nil
	}
}

// doneHere is for options whose effect was had before the others: --help and its kin.
func doneHere[R any](*R, Given) error { return nil }

// SplitIDs splits a list of job ids at commas that stand outside brackets, and blanks.
func SplitIDs(value string) []string {
	depth := 0
	return strings.FieldsFunc(value, func(r rune) bool {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		}
		return depth <= 0 && (r == ',' || r == ' ' || r == '\t' || r == '\n')
	})
}

// ParseTarget reads a job as scancel and scontrol take it: `8`, `8_3`, `8_[1-4,7]`, `8_*`, `8+1`, `8.0`, `8_3.batch`.
func ParseTarget(s string) (*events.Target, error) {
	bad := refusal("Invalid job id %s: write JOBID, JOBID_TASK, JOBID_[TASKS], JOBID+COMPONENT or JOBID.STEP", clip(s))
	t := &events.Target{}
	body, step, stepped := strings.Cut(s, ".")
	if stepped {
		id, ok := ParseStep(step)
		if !ok {
			return nil, bad
		}
		t.Step, t.HasStep = id, true
	}
	body, component, het := strings.Cut(body, "+")
	job, tasks, hasTasks, ok := ParseJobID(body)
	if !ok || het && hasTasks {
		return nil, bad
	}
	t.Job = job
	if het {
		n, err := strconv.ParseUint(component, 10, 31)
		if err != nil {
			return nil, bad
		}
		t.Component, t.HasComponent = uint32(n), true
	}
	if hasTasks && tasks != "*" {
		set, err := idset.Parse(tasks, idset.HighestTask)
		if err != nil || set.Empty() {
			return nil, bad
		}
		t.Tasks, t.HasTasks = set.Words(), true
	}
	return t, nil
}

// ParseStep reads the name of a step: a number, batch, extern or interactive.
func ParseStep(s string) (uint32, bool) {
	switch s {
	case "batch":
		return events.StepBatch, true
	case "extern":
		return events.StepExtern, true
	case "interactive":
		return events.StepInteractive, true
	}
	n, err := strconv.ParseUint(s, 10, 31)
	return uint32(n), err == nil && s[0] != '+'
}

// States is a filter on job states as -t of squeue and -s of sacct have it.
type States struct {
	All        bool
	States     []events.JobState
	Completing bool
	Requeued   bool
	Special    bool // requeued as a special exit; PENDING does not mean these
	Passing    bool // what jobs here are never in, such as CONFIGURING
	Stopped    bool // told to stand still by a signal; RUNNING does not mean these
}

// Any says whether anything was asked for.
func (s States) Any() bool {
	return s.All || s.Passing || s.Completing || s.Requeued || s.Special || s.Stopped || len(s.States) > 0
}

// states that are shown in place of the others while they last; of these the first, SPECIAL_EXIT and STOPPED occur here.
var passingStates = once.Value[map[string]string]{Make: func() map[string]string {
	return map[string]string{
		"CG": "COMPLETING", "CF": "CONFIGURING", "SO": "STAGE_OUT", "RS": "RESIZING", "RQ": "REQUEUED", "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD",
		"SE": "SPECIAL_EXIT", "ST": "STOPPED", "RV": "REVOKED", "RD": "RESV_DEL_HOLD", "SI": "SIGNALING",
	}

}}

// StateNames are the words ParseStates knows, for sentences and --helpstate.
func StateNames() []string {
	var names []string
	for s := events.JobState_PENDING; s.Word() != "INVALID"; s++ {
		names = append(names, s.Word())
	}
	return append(names, "COMPLETING", "CONFIGURING", "STAGE_OUT", "RESIZING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "STOPPED", "REVOKED", "RESV_DEL_HOLD", "SIGNALING")
}

// ParseStates reads states in their long or short form, in any case, joined by commas, or `all`.
func ParseStates(value string) (States, error) {
	var out States
	seen := map[events.JobState]bool{}
next:
	for _, w := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' }) {
		if strings.EqualFold(w, "all") {
			out.All = true
			continue
		}
		if s, ok := events.ParseJobState(w); ok {
			if !seen[s] {
				out.States = append(out.States, s)
			}
			seen[s] = true
			continue
		}
		for short, long := range passingStates.Get() {
			if strings.EqualFold(w, short) || strings.EqualFold(w, long) {
				out.Completing = out.Completing || short == "CG"
				out.Requeued = out.Requeued || short == "RQ"
				out.Special = out.Special || short == "SE"
				out.Passing = out.Passing || short != "CG" && short != "RQ" && short != "SE"
				out.Stopped = out.Stopped || short == "ST"
				continue next
			}
		}
		return States{}, refusal("Invalid job state specified: %s; known are all, %s%s", clip(w), strings.Join(StateNames(), ", "), mean(strings.ToUpper(w), StateNames()))
	}
	if out.All && strings.ContainsAny(strings.TrimSpace(value), ", ") {
		return States{}, refusal("Invalid job state specified: all; it stands alone")
	}
	if !out.Any() && strings.TrimSpace(value) == "" {
		return out, refusal("Invalid job state specified: it is empty")
	}
	return out, nil
}
