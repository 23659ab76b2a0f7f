package slurm

import (
	"strconv"
	"strings"

	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/hostlist"
)

// StriggerTable is the options of strigger. What is said of databases and of controllers that stand by has no effect: there are
// none whose failure could be told.
var StriggerTable = Table{Command: "strigger", Usage: "[--set | --get | --clear] [OPTIONS...]", Options: []Option{
	{"set", 0, None, T2, 0, 0, "", "set", "", "have a program run when something happens"},
	{"get", 0, None, T2, 0, 0, "", "get", "", "show what is set"},
	{"clear", 0, None, T2, 0, 0, "", "clear", "", "clear what is set: --id, --jobid or --user say which"},
	{"primary_slurmctld_failure", 'a', None, T3, 0, 0, "", "ctld-failed", "", "another controller took over"},
	{"primary_slurmctld_resumed_operation", 'A', None, T3, 0, 0, "", "ctld-resumed", "", "the controller is back after it was restarted"},
	{"primary_slurmctld_resumed_control", 'b', None, T3, 0, 0, "", "control-resumed", "", "the first controller took over again"},
	{"backup_slurmctld_failure", 'B', None, T3, 0, 0, "", "", "", ""},
	{"backup_slurmctld_resumed_operation", 'c', None, T3, 0, 0, "", "", "", ""},
	{"backup_slurmctld_assumed_control", 'C', None, T3, 0, 0, "", "control-assumed", "", "a controller that is not the first took over"},
	{"burst_buffer", 0, None, T3, 0, 0, "", "", "", ""},
	{"cluster", 0, Required, T3, 0, 0, "", "clusters", "NAME", ""},
	{"clusters", 'M', Required, T3, 0, 0, "", "clusters", "NAME", "on this cluster"},
	{"down", 'd', None, T2, 0, 0, "", "down", "", "a node went down"},
	{"drained", 'D', None, T2, 0, 0, "", "drained", "", "a node is drained: it has no jobs any more"},
	{"draining", 0, None, T3, 2302, 0, "", "draining", "", "a node is drained, and still has jobs"},
	{"primary_slurmctld_acct_buffer_full", 'e', None, T3, 0, 0, "", "", "", ""},
	{"fail", 'F', None, T3, 0, 0, "", "fail", "", "a node is said to fail"},
	{"fini", 'f', None, T2, 0, 0, "", "fini", "", "a job is over"},
	{"flags", 0, Required, T2, 0, 0, "", "flags", "PERM", "PERM: the trigger stays when it was pulled"},
	{"front_end", 0, None, T3, 0, 2411, "", "", "", ""},
	{"primary_slurmdbd_failure", 'g', None, T3, 0, 0, "", "", "", ""},
	{"primary_slurmdbd_resumed_operation", 'G', None, T3, 0, 0, "", "", "", ""},
	{"primary_database_failure", 'h', None, T3, 0, 0, "", "", "", ""},
	{"primary_database_resumed_operation", 'H', None, T3, 0, 0, "", "", "", ""},
	{"id", 'i', Required, T2, 0, 0, "", "id", "N", "the trigger of this number"},
	{"idle", 'I', None, T2, 0, 0, "", "idle", "", "a node is idle for as long as --offset says"},
	{"jobid", 'j', Required, T2, 0, 0, "", "jobid", "ID", "of this job, and of the nodes it has"},
	{"node", 'n', Optional, T2, 0, 0, "", "node", "NODES", "of these nodes; without a name, of any"},
	{"noheader", 'N', None, T2, 0, 0, "", "noheader", "", "no header"},
	{"offset", 'o', Required, T2, 0, 0, "", "offset", "SECONDS", "so long after it happened; before, if negative"},
	{"program", 'p', Required, T2, 0, 0, "", "program", "PATH", "what to run, with arguments; the nodes or the job are the last one"},
	{"quiet", 'Q', None, T3, 0, 0, "", "quiet", "", "no words of triggers that are cleared already"},
	{"reconfig", 'r', None, T3, 0, 0, "", "reconfig", "", "the configuration, or a node by an administrator, was changed"},
	{"resume", 'R', None, T3, 2302, 0, "", "resume", "", "a node was resumed"},
	{"time", 't', None, T2, 0, 0, "", "time", "", "a job came to its time limit"},
	{"up", 'u', None, T2, 0, 0, "", "up", "", "a node is back that was down"},
	{"user", 0, Required, T2, 0, 0, "", "user", "NAME", "set by this user"},
	{"verbose", 'v', None, T3, 0, 0, "", "verbose", "", "say more"},
	{"help", 0, None, T1, 0, 0, "", "help", "", "show this help"},
	{"usage", 0, None, T1, 0, 0, "", "usage", "", "show one line of help"},
	{"version", 'V', None, T1, 0, 0, "", "version", "", "show the version"},
	{"autocomplete", 0, Required, T3, 0, 0, "", "", "", ""},
}, Example: `  strigger --set --node --down --flags=perm --program=/usr/local/sbin/nodes_down
  strigger --set --jobid=1234 --time --offset=-600 --program='/home/joe/clean_up --soon'
  strigger --get; strigger --clear --id=1
`}

// untold is why nothing can be told of what options of strigger are for.
var untold = once.Value[map[string]string]{Make: func() map[string]string {
	return map[string]string{
		"backup_slurmctld_failure":           "controllers that stand by are not watched; `stint status` shows them",
		"backup_slurmctld_resumed_operation": "controllers that stand by are not watched; `stint status` shows them",
		"burst_buffer":                       "there are no burst buffers",
		"front_end":                          "there are no front ends",
		"primary_slurmctld_acct_buffer_full": "accounting follows the log, and has no buffer that could be full",
		"primary_slurmdbd_failure":           "accounting is the ledger's, which is made again from the log; there is no slurmdbd",
		"primary_slurmdbd_resumed_operation": "accounting is the ledger's, which is made again from the log; there is no slurmdbd",
		"primary_database_failure":           "accounting needs no database",
		"primary_database_resumed_operation": "accounting needs no database",
	}

}}

// Strigger is what a call of strigger asks for.
type Strigger struct {
	Print           string // not empty: print it and exit with 0
	Set, Get, Clear bool
	Kinds           []events.TriggerKind // in the order met
	Job, ID         uint32
	Node            string // as given, * for any; empty: not given
	Offset          int
	Program         string
	Permanent       bool
	User            string
	NoHeader, Quiet bool
	Verbose         int
	Clusters        string
}

func triggerKind(kind events.TriggerKind) func(*Strigger, Given) error {
	return func(s *Strigger, _ Given) error { s.Kinds = append(s.Kinds, kind); return nil }
}

var striggerEffects = once.Value[map[string]func(*Strigger, Given) error]{Make: func() map[string]func(*Strigger, Given) error {
	return map[string]func(*Strigger, Given) error{
		"set":             on(func(s *Strigger) *bool { return &s.Set }),
		"get":             on(func(s *Strigger) *bool { return &s.Get }),
		"clear":           on(func(s *Strigger) *bool { return &s.Clear }),
		"ctld-failed":     triggerKind(events.TriggerKind_TRIGGER_CONTROLLER_FAILED),
		"ctld-resumed":    triggerKind(events.TriggerKind_TRIGGER_CONTROLLER_RESUMED),
		"control-resumed": triggerKind(events.TriggerKind_TRIGGER_CONTROL_RESUMED),
		"control-assumed": triggerKind(events.TriggerKind_TRIGGER_CONTROL_ASSUMED),
		"down":            triggerKind(events.TriggerKind_TRIGGER_DOWN),
		"drained":         triggerKind(events.TriggerKind_TRIGGER_DRAINED),
		"draining":        triggerKind(events.TriggerKind_TRIGGER_DRAINING),
		"fail":            triggerKind(events.TriggerKind_TRIGGER_FAIL),
		"fini":            triggerKind(events.TriggerKind_TRIGGER_FINI),
		"idle":            triggerKind(events.TriggerKind_TRIGGER_IDLE),
		"reconfig":        triggerKind(events.TriggerKind_TRIGGER_RECONFIG),
		"resume":          triggerKind(events.TriggerKind_TRIGGER_RESUME),
		"time":            triggerKind(events.TriggerKind_TRIGGER_TIME),
		"up":              triggerKind(events.TriggerKind_TRIGGER_UP),
		"clusters":        word(func(s *Strigger) *string { return &s.Clusters }),
		"program":         word(func(s *Strigger) *string { return &s.Program }),
		"user":            word(func(s *Strigger) *string { return &s.User }),
		"noheader":        on(func(s *Strigger) *bool { return &s.NoHeader }),
		"quiet":           on(func(s *Strigger) *bool { return &s.Quiet }),
		"verbose":         counter(func(s *Strigger) *int { return &s.Verbose }),
		"help":            doneHere[Strigger],
		"usage":           doneHere[Strigger],
		"version":         doneHere[Strigger],
		"node": func(s *Strigger, g Given) error {
			if s.Node = "*"; g.Has && g.Value != "" {
				s.Node = g.Value
			}
			return nil
		},
		"flags": func(s *Strigger, g Given) error {
			if !strings.HasPrefix(strings.ToLower(g.Value), "perm") {
				return refusal("Invalid flags %s: the one there is is PERM", clip(g.Value))
			}
			s.Permanent = true
			return nil
		},
		"id": func(s *Strigger, g Given) error {
			n, err := strconv.ParseUint(g.Value, 10, 32)
			if err != nil || n == 0 {
				return refusal("Invalid id %s: strigger --get shows the numbers there are", clip(g.Value))
			}
			s.ID = uint32(n)
			return nil
		},
		"jobid": func(s *Strigger, g Given) error {
			n, err := strconv.ParseUint(g.Value, 10, 32)
			if err != nil || n == 0 {
				return refusal("Invalid jobid %s", g.Value)
			}
			s.Job = uint32(n)
			return nil
		},
		"offset": func(s *Strigger, g Given) error {
			n, err := strconv.Atoi(g.Value)
			switch {
			case err != nil:
				return refusal("%s is not a number of seconds for --offset", clip(g.Value))
			case n < -32000 || n > 32000:
				return refusal("The --offset parameter must be between +/-32000")
			}
			s.Offset = n
			return nil
		},
	}

}}

// ReadStrigger reads a call of strigger. The error is a *Failure.
func ReadStrigger(in Input) (*Strigger, error) {
	given, _, err := StriggerTable.Parse(in.Args, in.Release)
	if err != nil {
		return nil, err
	}
	for _, g := range given {
		if why, known := untold.Get()[g.Option.Name]; known {
			return nil, refusal("%s cannot be told here: %s; leave it out", g.Option.Spelled(), why)
		}
	}
	s := &Strigger{}
	_, print, err := readOptions(&StriggerTable, in, s, striggerEffects.Get()) // other words are passed over, as in Slurm
	switch {
	case err != nil:
		return nil, err
	case print != "":
		return &Strigger{Print: print}, nil
	}
	modes := 0
	for _, m := range []bool{s.Set, s.Get, s.Clear} {
		if m {
			modes++
		}
	}
	ofJob := s.has(events.TriggerKind_TRIGGER_FINI) || s.has(events.TriggerKind_TRIGGER_TIME)
	switch {
	case modes != 1:
		return nil, refusal("You must use exactly one of the following options: --set, --get or --clear")
	case s.Clear && s.ID == 0 && s.Job == 0 && s.User == "":
		return nil, refusal("You must specify a --id, --jobid, or --user to clear")
	case s.Set && len(s.Kinds) == 0:
		return nil, refusal("You must specify a trigger: --down, --up, --drained, --fail or --idle of nodes, --time or --fini of a job, --reconfig, or one of the controllers'")
	case s.Set && s.Program == "":
		return nil, refusal("You must specify a --program value")
	case ofJob && s.Job == 0:
		return nil, refusal("You must specify a --jobid value")
	case s.Program != "" && s.Program[0] != '/':
		return nil, refusal("The --program value must start with \"/\"")
	}
	return s, s.agree()
}

func (s *Strigger) has(kind events.TriggerKind) bool {
	for _, k := range s.Kinds {
		if k == kind {
			return true
		}
	}
	return false
}

// agree refuses what of a trigger to be set does not go together. (Slurm takes it, and such a trigger is never pulled.)
func (s *Strigger) agree() error {
	if !s.Set {
		return nil
	}
	if s.Node != "" && s.Node != "*" {
		if _, err := hostlist.Count(s.Node, hostlist.MaxHosts); err != nil {
			return refusal("--node: %v", err)
		}
	}
	of := s.of()
	for _, k := range s.Kinds {
		job := k == events.TriggerKind_TRIGGER_FINI || k == events.TriggerKind_TRIGGER_TIME
		controller := k >= events.TriggerKind_TRIGGER_CONTROLLER_FAILED
		node := k == events.TriggerKind_TRIGGER_IDLE || k == events.TriggerKind_TRIGGER_RECONFIG
		switch {
		case controller != (of == events.TriggerOf_TRIGGER_CONTROLLER), job && of != events.TriggerOf_TRIGGER_JOB, node && of != events.TriggerOf_TRIGGER_NODE:
			return refusal("one trigger is of nodes, of a job or of controllers; set one for each")
		}
	}
	return nil
}

func (s *Strigger) of() events.TriggerOf {
	for _, k := range s.Kinds {
		if k >= events.TriggerKind_TRIGGER_CONTROLLER_FAILED {
			return events.TriggerOf_TRIGGER_CONTROLLER
		}
	}
	if s.Job != 0 {
		return events.TriggerOf_TRIGGER_JOB
	}
	return events.TriggerOf_TRIGGER_NODE
}

// Trigger is the trigger to set.
func (s *Strigger) Trigger() *events.Trigger {
	t := &events.Trigger{Kinds: s.Kinds, Of: s.of(), OffsetS: int32(s.Offset), Permanent: s.Permanent, Program: s.Program}
	switch t.Of {
	case events.TriggerOf_TRIGGER_JOB:
		t.Job = s.Job
	case events.TriggerOf_TRIGGER_NODE:
		if t.Nodes = s.Node; t.Nodes == "" {
			t.Nodes = "*"
		}
	}
	return t
}

// Shows says whether a trigger is among those that are asked for. owner is whose are wanted, if any.
func (s *Strigger) Shows(t *events.Trigger, owner *uint32) bool {
	for _, k := range s.Kinds {
		if k == events.TriggerKind_TRIGGER_RECONFIG {
			continue // as in Slurm, it does not restrict
		}
		if len(t.GetKinds()) != 1 || t.GetKinds()[0] != k {
			return false
		}
		if t.GetOf() != (&Strigger{Kinds: s.Kinds, Job: t.GetJob()}).of() || t.GetOf() == events.TriggerOf_TRIGGER_JOB && k != events.TriggerKind_TRIGGER_TIME && k != events.TriggerKind_TRIGGER_FINI {
			return false
		}
	}
	switch {
	case s.Job != 0 && (t.GetOf() != events.TriggerOf_TRIGGER_JOB || t.GetJob() != s.Job),
		s.Node != "" && t.GetOf() != events.TriggerOf_TRIGGER_NODE,
		s.ID != 0 && t.GetId() != s.ID,
		owner != nil && t.GetOwner().GetUid() != *owner:
		return false
	}
	return true
}
