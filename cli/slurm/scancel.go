package slurm

import (
	"strings"

	"stint/cli/slurm/once"
	"stint/events"
)

// ScancelTable is the options of scancel.
var ScancelTable = Table{Command: "scancel", Usage: "[OPTIONS...] [JOBID[_TASK][.STEP]...]", Options: []Option{
	{"account", 'A', Required, T1, 0, 0, "SCANCEL_ACCOUNT", "account", "NAME", "jobs of this account"},
	{"admin-comment", 0, Required, T3, 2511, 0, "", "", "", ""},
	{"batch", 'b', None, T1, 0, 0, "SCANCEL_BATCH", "batch", "", "signal the batch shell only"},
	{"clusters", 'M', Required, T1, 0, 0, "SLURM_CLUSTERS", "clusters", "NAMES", "on this cluster"},
	{"cluster", 0, Required, T3, 0, 0, "", "clusters", "NAMES", ""},
	{"cron", 'c', None, T2, 2302, 0, "SCANCEL_CRON", "cron", "", "jobs of a crontab too, where the site wants that said"},
	{"ctld", 0, None, T2, 0, 0, "SCANCEL_CTLD", "ctld", "", "all goes through the log: no difference"},
	{"full", 'f', None, T1, 0, 0, "SCANCEL_FULL", "full", "", "signal the batch shell and all steps"},
	{"help", 0, None, T1, 0, 0, "", "help", "", "show this help"},
	{"hurry", 'H', None, T2, 0, 0, "SCANCEL_HURRY", "hurry", "", "there is no burst buffer whose stage-out could be skipped: no difference"},
	{"interactive", 'i', None, T1, 0, 0, "SCANCEL_INTERACTIVE", "interactive", "", "ask before each job"},
	{"jobname", 'n', Required, T1, 0, 0, "SCANCEL_NAME", "name", "NAME", "jobs of this name"},
	{"name", 0, Required, T1, 0, 0, "", "name", "NAME", "jobs of this name"},
	{"me", 0, None, T1, 0, 0, "", "me", "", "my own jobs"},
	{"nodelist", 'w', Required, T1, 0, 0, "", "nodelist", "NODES", "jobs on any of these nodes"},
	{"partition", 'p', Required, T1, 0, 0, "SCANCEL_PARTITION", "partition", "NAME", "jobs in this partition"},
	{"qos", 'q', Required, T1, 0, 0, "SCANCEL_QOS", "qos", "NAME", "jobs of this quality of service"},
	{"quiet", 'Q', None, T1, 0, 0, "", "quiet", "", "no words about jobs that are over"},
	{"reservation", 'R', Required, T1, 0, 0, "", "reservation", "NAME", "jobs in this reservation"},
	{"sibling", 0, Required, T2, 0, 0, "", "sibling", "CLUSTER", "of a federated job; there are none here"},
	{"signal", 's', Required, T1, 0, 0, "", "signal", "NAME", "send this signal, by name or number, and let the job go on"},
	{"state", 't', Required, T1, 0, 0, "SCANCEL_STATE", "state", "STATE", "jobs that are PENDING, RUNNING or SUSPENDED"},
	{"usage", 0, None, T1, 0, 0, "", "usage", "", "show one line of help"},
	{"user", 'u', Required, T1, 0, 0, "SCANCEL_USER", "user", "NAME", "jobs of this user"},
	{"verbose", 'v', None, T1, 0, 0, "SCANCEL_VERBOSE", "verbose", "", "say more"},
	{"version", 'V', None, T1, 0, 0, "", "version", "", "show the version"},
	{"wckey", 0, Required, T2, 0, 0, "SCANCEL_WCKEY", "wckey", "KEY", "jobs with this key"},
	{"autocomplete", 0, Required, T3, 0, 0, "", "", "", ""},
}}

// Scancel is what a call of scancel asks for.
type Scancel struct {
	Print       string // not empty: print it and exit with 0
	Cancel      *events.Cancel
	Quiet       bool
	Interactive bool
	Verbose     int
	Clusters    string
	Sibling     string // not empty: a federated job is meant, of which there is none
	me          bool
}

func (s *Scancel) filter() *events.Filter {
	if s.Cancel.Filter == nil {
		s.Cancel.Filter = &events.Filter{}
	}
	return s.Cancel.Filter
}

// filterBy reads a filter: one name, to the letter. Lists are for none of them.
func filterBy(field func(*events.Filter) *[]string) func(*Scancel, Given) error {
	return func(s *Scancel, g Given) error {
		*field(s.filter()) = []string{g.Value}
		return nil
	}
}

var scancelEffects = once.Value[map[string]func(*Scancel, Given) error]{Make: func() map[string]func(*Scancel, Given) error {
	return map[string]func(*Scancel, Given) error{
		"account":     filterBy(func(f *events.Filter) *[]string { return &f.Accounts }),
		"name":        filterBy(func(f *events.Filter) *[]string { return &f.Names }),
		"partition":   filterBy(func(f *events.Filter) *[]string { return &f.Partitions }),
		"qos":         filterBy(func(f *events.Filter) *[]string { return &f.Qos }),
		"user":        filterBy(func(f *events.Filter) *[]string { return &f.Users }),
		"batch":       on(func(s *Scancel) *bool { return &s.Cancel.BatchOnly }),
		"cron":        on(func(s *Scancel) *bool { return &s.Cancel.Cron }),
		"full":        on(func(s *Scancel) *bool { return &s.Cancel.Full }),
		"quiet":       on(func(s *Scancel) *bool { return &s.Quiet }),
		"interactive": on(func(s *Scancel) *bool { return &s.Interactive }),
		"me":          on(func(s *Scancel) *bool { return &s.me }),
		"verbose":     counter(func(s *Scancel) *int { return &s.Verbose }),
		"clusters":    word(func(s *Scancel) *string { return &s.Clusters }),
		"sibling":     word(func(s *Scancel) *string { return &s.Sibling }),
		"reservation": func(s *Scancel, g Given) error { s.filter().Reservation = g.Value; return nil },
		"wckey":       func(s *Scancel, g Given) error { s.filter().Wckey = g.Value; return nil },
		"nodelist":    nodeWord(func(s *Scancel) *string { return &s.filter().Nodes }),
		"ctld":        doneHere[Scancel],
		"hurry":       doneHere[Scancel],
		"help":        doneHere[Scancel],
		"usage":       doneHere[Scancel],
		"version":     doneHere[Scancel],
		"signal": func(s *Scancel, g Given) error {
			n, ok := ParseSignal(g.Value)
			if !ok {
				return refusal("%s is not a signal: write a name such as TERM or USR1, or a number from 1 to 64", clip(g.Value))
			}
			s.Cancel.Signal = n
			return nil
		},
		"state": func(s *Scancel, g Given) error {
			states, err := ParseStates(g.Value)
			if err != nil || strings.ContainsAny(g.Value, ", ") || states.All {
				return refusal("Invalid job state specified: %s; one of PENDING, RUNNING and SUSPENDED can be given", clip(g.Value))
			}
			if len(states.States) == 0 { // what passes, such as COMPLETING, has nothing left to end
				states.States = []events.JobState{events.JobState_COMPLETED}
			}
			s.filter().States = states.States
			return nil
		},
	}

}}

// ReadScancel reads a call of scancel. The error is a *Failure.
func ReadScancel(in Input) (*Scancel, error) {
	s := &Scancel{Cancel: &events.Cancel{}}
	rest, print, err := readOptions(&ScancelTable, in, s, scancelEffects.Get())
	if err != nil {
		return nil, err
	}
	if print != "" {
		return &Scancel{Print: print}, nil
	}
	for _, w := range rest {
		if strings.Contains(w, ",,") || strings.HasPrefix(w, ",") || strings.HasSuffix(w, ",") {
			return nil, refusal("Invalid job id %s: a comma has no id beside it", clip(w))
		}
		for _, id := range SplitIDs(w) {
			t, err := ParseTarget(signed(id))
			switch {
			case err != nil:
				return nil, err
			case t.HasStep && t.Step >= events.StepInteractive && in.Release < 2302:
				return nil, refusal("Invalid job id %s: releases before 23.02 take steps by their numbers; -b is for the batch shell", clip(id))
			}
			s.Cancel.Targets = append(s.Cancel.Targets, t)
		}
	}
	if s.me {
		s.filter().Users = []string{in.User}
	}
	if len(s.Cancel.Targets) == 0 && s.Cancel.Filter == nil {
		return nil, refusal("No job identification provided: name jobs, or say which with --user, --me, --name, --state and the like")
	}
	return s, nil
}

// signed leaves out what may stand before a job id: blanks and a plus, as before any number.
func signed(id string) string {
	rest := strings.TrimPrefix(strings.TrimLeft(id, " \t"), "+")
	if rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		return rest
	}
	return id
}
