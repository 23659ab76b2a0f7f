package slurm

import "stint/cli/slurm/once"

// SqueueTable is the options of squeue.
var SqueueTable = Table{Command: "squeue", Usage: "[OPTIONS...]", Options: []Option{
	{"account", 'A', Required, T1, 0, 0, "SQUEUE_ACCOUNT", "account", "NAMES", "jobs of these accounts"},
	{"accounts", 0, Required, T3, 0, 0, "", "account", "NAMES", ""},
	{"all", 'a', None, T1, 0, 0, "SQUEUE_ALL", "all", "", "jobs in hidden partitions too"},
	{"array", 'r', None, T1, 0, 0, "SQUEUE_ARRAY", "array", "", "one line for each task of an array"},
	{"array-unique", 0, None, T3, 0, 2205, "", "", "", ""},
	{"clusters", 'M', Required, T1, 0, 0, "SLURM_CLUSTERS", "clusters", "NAMES", "ask these clusters"},
	{"cluster", 0, Required, T3, 0, 0, "", "clusters", "NAMES", ""},
	{"expand-patterns", 0, None, T2, 2405, 0, "", "", "", ""},
	{"federation", 0, None, T2, 0, 0, "SQUEUE_FEDERATION", "local", "", "there is one cluster: the same as --local"},
	{"format", 'o', Required, T1, 0, 0, "SQUEUE_FORMAT", "format", "FORMAT", "columns, as %[[.]WIDTH]LETTER with text between"},
	{"Format", 'O', Required, T1, 0, 0, "SQUEUE_FORMAT2", "Format", "FIELDS", "columns by name, as NAME[:[.]WIDTH][SUFFIX],..."},
	{"help", 0, None, T1, 0, 0, "", "help", "", "show this help"},
	{"helpFormat", 0, None, T3, 0, 0, "", "helpFormat", "", "show the names for --Format"},
	{"helpformat", 0, None, T3, 0, 0, "", "helpFormat", "", ""},
	{"helpstate", 0, None, T3, 0, 0, "", "helpstate", "", "show the names of states"},
	{"hide", 0, None, T1, 0, 0, "", "hide", "", "no jobs in hidden partitions"},
	{"iterate", 'i', Required, T1, 0, 0, "", "iterate", "SECONDS", "again and again"},
	{"jobs", 'j', Next, T1, 0, 0, "", "jobs", "IDS", "these jobs"},
	{"json", 0, Optional, T1, 0, 0, "", "json", "v0.0.42", "as JSON, for programs"},
	{"", 0, Optional, T1, 2505, 0, "SLURM_JSON", "json", "", ""},
	{"licenses", 'L', Required, T1, 0, 0, "SQUEUE_LICENSES", "licenses", "NAMES", "jobs that asked for these licences"},
	{"local", 0, None, T2, 0, 0, "SQUEUE_LOCAL", "local", "", "this cluster only"},
	{"long", 'l', None, T1, 0, 0, "", "long", "", "more columns"},
	{"me", 0, None, T1, 0, 0, "", "me", "", "my own jobs"},
	{"name", 'n', Required, T1, 0, 0, "SQUEUE_NAMES", "name", "NAMES", "jobs of these names"},
	{"noconvert", 0, None, T1, 0, 0, "", "noconvert", "", "leave amounts in the unit they have"},
	{"nodelist", 'w', Required, T1, 0, 0, "", "nodelist", "NODES", "jobs on any of these nodes"},
	{"node", 0, Required, T3, 0, 0, "", "nodelist", "NODES", ""},
	{"nodes", 0, Required, T3, 0, 0, "", "nodelist", "NODES", ""},
	{"noheader", 'h', None, T1, 0, 0, "", "noheader", "", "no line of headings"},
	{"notme", 0, None, T2, 2405, 0, "", "notme", "", "jobs of everybody else"},
	{"only-job-state", 0, None, T2, 2311, 0, "", "only-job-state", "", "states only"},
	{"partition", 'p', Required, T1, 0, 0, "SQUEUE_PARTITION", "partition", "NAMES", "jobs in these partitions"},
	{"partitions", 0, Required, T3, 0, 0, "", "partition", "NAMES", ""},
	{"priority", 'P', None, T1, 0, 0, "SQUEUE_PRIORITY", "priority", "", "pending jobs once for each of their partitions"},
	{"qos", 'q', Required, T1, 0, 0, "SQUEUE_QOS", "qos", "NAMES", "jobs of these qualities of service"},
	{"reservation", 'R', Required, T1, 0, 0, "", "reservation", "NAME", "jobs in this reservation"},
	{"running-over", 0, Required, T3, 2511, 0, "", "", "", ""},
	{"running-under", 0, Required, T3, 2511, 0, "", "", "", ""},
	{"sibling", 0, None, T2, 0, 0, "SQUEUE_SIBLING", "local", "", "there is one cluster: the same as --local"},
	{"sib", 0, None, T3, 0, 0, "", "local", "", ""},
	{"sort", 'S', Required, T1, 0, 0, "SQUEUE_SORT", "sort", "FIELDS", "order: letters of --format, - before one for descending"},
	{"start", 0, None, T1, 0, 0, "", "start", "", "when pending jobs are expected to start"},
	{"states", 't', Required, T1, 0, 0, "SQUEUE_STATES", "states", "STATES", "jobs in these states, or all"},
	{"steps", 's', Next, T1, 0, 0, "", "steps", "IDS", "steps, not jobs"},
	{"usage", 0, None, T1, 0, 0, "", "usage", "", "show one line of help"},
	{"user", 'u', Required, T1, 0, 0, "SQUEUE_USERS", "user", "NAMES", "jobs of these users"},
	{"users", 0, Required, T3, 0, 0, "", "user", "NAMES", ""},
	{"verbose", 'v', None, T1, 0, 0, "", "verbose", "", "say more"},
	{"version", 'V', None, T1, 0, 0, "", "version", "", "show the version"},
	{"yaml", 0, Optional, T1, 0, 0, "", "yaml", "v0.0.42", "as YAML, for programs"},
	{"", 0, Optional, T1, 2505, 0, "SLURM_YAML", "yaml", "", ""},
	{"autocomplete", 0, Required, T3, 0, 0, "", "", "", ""},
}}

// Squeue is what a call of squeue asks for.
type Squeue struct {
	JSON  bool // --json, or --yaml
	YAML  bool
	Print string // not empty: print it and exit with 0

	Jobs        []string // `8`, `8_3`, `8_[1-4]`
	HasJobs     bool     // -j was given, perhaps without a value
	Steps       bool
	StepIDs     []string // `8.0`, `8`
	Users       []string // names or numbers; --me included
	NotMe       bool
	Accounts    []string
	Partitions  []string
	Names       []string
	QOS         []string
	Licenses    []string
	Reservation string
	Nodes       string // hostlist
	States      States // nothing: pending, running, suspended and completing ones
	StatesText  string // as given

	All, Hide, Local, Sibling, Array, Long, Start, NoHeader, NoConvert, PerPartition, HelpFormat bool
	Verbose, Iterate                                                                             int
	Clusters, Sort                                                                               string
	Format                                                                                       string // -o, empty if not given
	Fields                                                                                       string // -O, empty if not given
	me, formatted                                                                                bool
}

var squeueEffects = once.Value[map[string]func(*Squeue, Given) error]{Make: func() map[string]func(*Squeue, Given) error {
	return map[string]func(*Squeue, Given) error{
		"json":     asJSON(func(q *Squeue) (*bool, *string) { return &q.JSON, &q.Print }),
		"yaml":     asYAML(func(q *Squeue) (*bool, *bool, *string) { return &q.JSON, &q.YAML, &q.Print }),
		"account":  words(func(q *Squeue) *[]string { return &q.Accounts }),
		"all":      func(q *Squeue, g Given) error { q.All, q.Hide = true, false; return nil },
		"hide":     func(q *Squeue, g Given) error { q.All, q.Hide = false, true; return nil },
		"array":    on(func(q *Squeue) *bool { return &q.Array }),
		"clusters": word(func(q *Squeue) *string { return &q.Clusters }),
		"local": func(q *Squeue, g Given) error {
			q.Local, q.Sibling = q.Local || g.Option.Name == "local", q.Sibling || g.Option.Name == "sibling" || g.Option.Name == "sib"
			return nil
		},
		"format": func(q *Squeue, g Given) error {
			q.Format, q.Fields, q.formatted = g.Value, "", q.formatted || g.Where == ""
			return nil
		},
		"Format": func(q *Squeue, g Given) error {
			q.Format, q.Fields = "", g.Value
			return nil
		},
		"help":       doneHere[Squeue],
		"usage":      doneHere[Squeue],
		"version":    doneHere[Squeue],
		"helpFormat": on(func(q *Squeue) *bool { return &q.HelpFormat }),
		"helpstate":  doneHere[Squeue],
		"iterate":    seconds(func(q *Squeue) *int { return &q.Iterate }),
		"jobs": func(q *Squeue, g Given) error {
			q.HasJobs = true
			for _, id := range SplitIDs(g.Value) {
				if _, err := ParseTarget(id); err != nil {
					return refusal("Invalid job id: %s", clip(id))
				}
				q.Jobs = append(q.Jobs, id)
			}
			return nil
		},
		"steps": func(q *Squeue, g Given) error {
			q.Steps = true
			for _, id := range SplitIDs(g.Value) {
				if _, err := ParseTarget(id); err != nil {
					return refusal("Invalid step id: %s", clip(id))
				}
				q.StepIDs = append(q.StepIDs, id)
			}
			return nil
		},
		"licenses":       words(func(q *Squeue) *[]string { return &q.Licenses }),
		"long":           on(func(q *Squeue) *bool { return &q.Long }),
		"me":             func(q *Squeue, g Given) error { q.me, q.Users = true, nil; return nil },
		"notme":          on(func(q *Squeue) *bool { return &q.NotMe }),
		"name":           words(func(q *Squeue) *[]string { return &q.Names }),
		"noconvert":      on(func(q *Squeue) *bool { return &q.NoConvert }),
		"nodelist":       nodeWord(func(q *Squeue) *string { return &q.Nodes }),
		"noheader":       on(func(q *Squeue) *bool { return &q.NoHeader }),
		"only-job-state": doneHere[Squeue],
		"partition":      words(func(q *Squeue) *[]string { return &q.Partitions }),
		"priority":       on(func(q *Squeue) *bool { return &q.PerPartition }),
		"qos":            words(func(q *Squeue) *[]string { return &q.QOS }),
		"reservation":    word(func(q *Squeue) *string { return &q.Reservation }),
		"sort":           word(func(q *Squeue) *string { return &q.Sort }),
		"start":          on(func(q *Squeue) *bool { return &q.Start }),
		"states": func(q *Squeue, g Given) (err error) {
			q.StatesText = g.Value
			q.States, err = ParseStates(g.Value)
			return
		},
		"user": func(q *Squeue, g Given) error { // of this and --me, the last counts
			q.me = false
			return words(func(q *Squeue) *[]string { return &q.Users })(q, g)
		},
		"verbose": counter(func(q *Squeue) *int { return &q.Verbose }),
	}

}}

// ReadSqueue reads a call of squeue. The error is a *Failure.
func ReadSqueue(in Input) (*Squeue, error) {
	q := &Squeue{}
	rest, print, err := readOptions(&SqueueTable, in, q, squeueEffects.Get())
	switch {
	case err != nil:
		return nil, err
	case print != "":
		return &Squeue{Print: print}, nil
	case len(rest) > 0:
		return nil, refusal("Unrecognized option: %s; squeue takes options only", clip(rest[0]))
	}
	for _, a := range in.Args {
		if a == "--helpstate" {
			q.Print = joinLines(StateNames())
		}
	}
	if q.me {
		q.Users = []string{in.User}
	}
	if q.Long && q.formatted && q.Format != "" {
		return nil, refusal("--long and --format exclude one another")
	}
	if q.Steps && q.Start {
		return nil, refusal("--steps and --start exclude one another")
	}
	return q, nil
}

func joinLines(list []string) string {
	out := ""
	for _, l := range list {
		out += l + "\n"
	}
	return out
}
