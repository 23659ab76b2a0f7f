package slurm

import (
	"sort"
	"strconv"
	"strings"
	"time"

	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/hostlist"
	"stint/events/idset"
	"stint/events/tres"
	"stint/ledger/rows"
)

// SacctTable is the options of sacct.
var SacctTable = Table{Command: "sacct", Usage: "[OPTIONS...]", Options: []Option{
	{"accounts", 'A', Required, T1, 0, 0, "", "accounts", "NAMES", "jobs of these accounts"},
	{"allclusters", 'L', None, T1, 0, 0, "", "local", "", "there is one cluster: no difference"},
	{"allocations", 'X', None, T1, 0, 0, "", "allocations", "", "jobs only, not their steps"},
	{"allusers", 'a', None, T1, 0, 0, "", "allusers", "", "jobs of all users"},
	{"array", 0, None, T1, 2302, 0, "", "array", "", "one line for each task of an array that waits"},
	{"associations", 'x', Required, T2, 0, 0, "", "associations", "NUMBERS", "jobs of these associations"},
	{"batch-script", 'B', None, T1, 0, 0, "", "batch-script", "", "the scripts of the jobs, as long as they are kept"},
	{"brief", 'b', None, T1, 0, 0, "", "brief", "", "job id, state and exit code"},
	{"clusters", 'M', Required, T1, 0, 0, "", "clusters", "NAMES", "ask these clusters"},
	{"cluster", 0, Required, T3, 0, 0, "", "clusters", "NAMES", ""},
	{"completion", 'c', None, T2, 0, 0, "", "", "", ""},
	{"constraints", 'C', Required, T2, 0, 0, "", "constraints", "FEATURES", "jobs that asked for these features"},
	{"delimiter", 0, Required, T1, 0, 0, "", "delimiter", "TEXT", "what separates fields with -p and -P (|)"},
	{"duplicates", 'D', None, T1, 0, 0, "", "duplicates", "", "every run of a job that was requeued"},
	{"endtime", 'E', Required, T1, 0, 0, "", "endtime", "TIME", "jobs of before this time"},
	{"env-vars", 0, None, T1, 0, 0, "", "env-vars", "", "the environments they were submitted with, as long as they are kept"},
	{"expand-patterns", 0, None, T2, 2405, 0, "", "", "", ""},
	{"federation", 0, None, T2, 0, 0, "SACCT_FEDERATION", "local", "", "there is one cluster: the same as --local"},
	{"fields", 0, Required, T3, 0, 0, "", "format", "FIELDS", ""},
	{"file", 'f', Required, T2, 0, 0, "", "", "", ""},
	{"flags", 'F', Required, T1, 0, 0, "", "", "", ""},
	{"format", 'o', Required, T1, 0, 0, "SACCT_FORMAT", "format", "FIELDS", "columns, as NAME[%[-]WIDTH],..."},
	{"gid", 'g', Required, T1, 0, 0, "", "group", "GROUPS", "jobs of these groups"},
	{"group", 0, Required, T1, 0, 0, "", "group", "GROUPS", "jobs of these groups"},
	{"help", 'h', None, T1, 0, 0, "", "help", "", "show this help"},
	{"helpformat", 'e', None, T1, 0, 0, "", "helpformat", "", "show the names of columns"},
	{"help-fields", 0, None, T3, 0, 0, "", "helpformat", "", ""},
	{"helpreason", 0, None, T3, 2302, 0, "", "helpreason", "", "show the names of reasons"},
	{"helpstate", 0, None, T3, 2302, 0, "", "helpstate", "", "show the names of states"},
	{"jobs", 'j', Required, T1, 0, 0, "", "jobs", "IDS", "these jobs, tasks or steps"},
	{"json", 0, Optional, T1, 0, 0, "", "json", "v0.0.42", "as JSON, for programs"},
	{"", 0, Optional, T1, 2505, 0, "SLURM_JSON", "json", "", ""},
	{"local", 0, None, T2, 0, 0, "SACCT_LOCAL", "local", "", "this cluster only"},
	{"long", 'l', None, T1, 0, 0, "", "long", "", "many columns"},
	{"name", 0, Required, T1, 0, 0, "", "name", "NAMES", "jobs of these names"},
	{"ncpus", 'I', Required, T2, 0, 0, "", "ncpus", "N[-M]", "jobs with so many CPUs"},
	{"nnodes", 'i', Required, T2, 0, 0, "", "nnodes", "N[-M]", "jobs with so many nodes"},
	{"noconvert", 0, None, T1, 0, 0, "", "noconvert", "", "leave amounts in the unit they have"},
	{"nodelist", 'N', Required, T1, 0, 0, "", "nodelist", "NODES", "jobs that had any of these nodes"},
	{"noheader", 'n', None, T1, 0, 0, "", "noheader", "", "no line of headings"},
	{"parsable", 'p', None, T1, 0, 0, "", "parsable", "", "fields separated by |, one at the end too"},
	{"parsable2", 'P', None, T1, 0, 0, "", "parsable2", "", "fields separated by |"},
	{"partition", 'r', Required, T1, 0, 0, "", "partition", "NAMES", "jobs in these partitions"},
	{"qos", 'q', Required, T1, 0, 0, "", "qos", "NAMES", "jobs of these qualities of service"},
	{"reason", 'R', Required, T2, 2302, 0, "", "reason", "REASONS", "jobs with these reasons"},
	{"reason", 0, Required, T2, 0, 2205, "", "reason", "REASONS", "jobs with these reasons"}, // its letter was said to be there, and was not
	{"starttime", 'S', Required, T1, 0, 0, "", "starttime", "TIME", "jobs of after this time (midnight)"},
	{"state", 's', Required, T1, 0, 0, "", "state", "STATES", "jobs in these states"},
	{"timelimit-max", 'K', Required, T2, 0, 0, "", "timelimit-max", "TIME", "with -k: time limits up to this; alone it means nothing"},
	{"timelimit-min", 'k', Required, T2, 0, 0, "", "timelimit-min", "TIME", "jobs with this time limit"},
	{"truncate", 'T', None, T1, 0, 0, "", "truncate", "", "cut start and end to the time asked for"},
	{"uid", 'u', Required, T1, 0, 0, "", "user", "NAMES", "jobs of these users"},
	{"user", 0, Required, T1, 0, 0, "", "user", "NAMES", "jobs of these users"},
	{"units", 0, Required, T1, 0, 0, "", "units", "K|M|G|T|P", "the unit of amounts"},
	{"usage", 0, None, T1, 0, 0, "", "usage", "", "show one line of help"},
	{"use-local-uid", 0, None, T2, 0, 0, "", "local", "", "users are always those of this host: no difference"},
	{"verbose", 'v', None, T2, 0, 0, "", "verbose", "", "say more"},
	{"version", 'V', None, T1, 0, 0, "", "version", "", "show the version"},
	{"wckeys", 'W', Required, T2, 0, 0, "", "wckeys", "KEYS", "jobs with these keys"},
	{"whole-hetjob", 0, Optional, T2, 0, 0, "", "whole-hetjob", "yes|no", "with a component, all of its heterogeneous job"},
	{"yaml", 0, Optional, T2, 0, 0, "", "yaml", "v0.0.42", "as YAML, for programs"},
	{"", 0, Optional, T2, 2505, 0, "SLURM_YAML", "yaml", "", ""},
	{"autocomplete", 0, Required, T3, 0, 0, "", "", "", ""},
}}

// Sacct is what a call of sacct asks for.
type Sacct struct {
	JSON     bool // --json, or --yaml
	YAML     bool
	Print    string // not empty: print it and exit with 0
	Ask      *rows.AskJobs
	AllUsers bool // -a; otherwise Ask.Users holds at least the caller, unless root calls
	Format   string
	Unit     tres.Unit
	Clusters string
	Verbose  int

	BatchScript, EnvVars bool
	Array                bool // a row for each task of an array that has not started
	HelpFormat           bool
	Separation
	starting, formatted bool
	release             Release
	long, brief         bool
	maxLimit            string
}

// DefaultSacctFormat is the columns of sacct without -o; the others are those of -b and -l.
const (
	DefaultSacctFormat = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
	briefSacctFormat   = "JobID,State,ExitCode"
	longSacctFormat    = "JobID,JobIDRaw,JobName,Partition,MaxVMSize,MaxVMSizeNode,MaxVMSizeTask,AveVMSize,MaxRSS,MaxRSSNode,MaxRSSTask,AveRSS,MaxPages," +
		"MaxPagesNode,MaxPagesTask,AvePages,MinCPU,MinCPUNode,MinCPUTask,AveCPU,NTasks,AllocCPUS,Elapsed,State,ExitCode,AveCPUFreq,ReqCPUFreqMin,ReqCPUFreqMax," +
		"ReqCPUFreqGov,ReqMem,ConsumedEnergy,MaxDiskRead,MaxDiskReadNode,MaxDiskReadTask,AveDiskRead,MaxDiskWrite,MaxDiskWriteNode,MaxDiskWriteTask,AveDiskWrite," +
		"ReqTRES,AllocTRES,TRESUsageInAve,TRESUsageInMax,TRESUsageInMaxNode,TRESUsageInMaxTask,TRESUsageInMin,TRESUsageInMinNode,TRESUsageInMinTask,TRESUsageInTot," +
		"TRESUsageOutMax,TRESUsageOutMaxNode,TRESUsageOutMaxTask,TRESUsageOutAve,TRESUsageOutTot"
)

func askList(field func(*rows.AskJobs) *[]string) func(*Sacct, Given) error {
	return more(func(s *Sacct) *[]string { return field(s.Ask) })
}

// namesOrNumbers puts the members of a list that are numbers into one field and the others into another.
func namesOrNumbers(names func(*rows.AskJobs) *[]string, numbers func(*rows.AskJobs) *[]uint32) func(*Sacct, Given) error {
	return func(s *Sacct, g Given) error {
		list, err := splitList(g)
		for _, w := range list {
			if n, err := strconv.ParseUint(w, 10, 32); err == nil && w[0] != '+' {
				*numbers(s.Ask) = append(*numbers(s.Ask), uint32(n))
			} else {
				*names(s.Ask) = append(*names(s.Ask), w)
			}
		}
		return err
	}
}

// users names whose jobs are wanted; of -a and this, what is given last counts.
func (s *Sacct) users(g Given) error {
	s.AllUsers = false
	if strings.Trim(g.Value, " ,") == "" {
		return refusal("%s names nobody: it is empty", g.Option.Spelled())
	}
	return namesOrNumbers(func(a *rows.AskJobs) *[]string { return &a.Users }, func(a *rows.AskJobs) *[]uint32 { return &a.Uids })(s, g)
}

var sacctEffects = once.Value[map[string]func(*Sacct, Given) error]{Make: func() map[string]func(*Sacct, Given) error {
	return map[string]func(*Sacct, Given) error{
		"json":         asJSON(func(s *Sacct) (*bool, *string) { return &s.JSON, &s.Print }),
		"yaml":         asYAML(func(s *Sacct) (*bool, *bool, *string) { return &s.JSON, &s.YAML, &s.Print }),
		"accounts":     askList(func(a *rows.AskJobs) *[]string { return &a.Accounts }),
		"array":        on(func(s *Sacct) *bool { return &s.Array }),
		"batch-script": on(func(s *Sacct) *bool { return &s.BatchScript }),
		"env-vars":     on(func(s *Sacct) *bool { return &s.EnvVars }),
		"local":        doneHere[Sacct],
		"allocations":  on(func(s *Sacct) *bool { return &s.Ask.Allocations }),
		"allusers":     on(func(s *Sacct) *bool { return &s.AllUsers }),
		"associations": (*Sacct).associations,
		"brief":        on(func(s *Sacct) *bool { return &s.brief }),
		"clusters":     word(func(s *Sacct) *string { return &s.Clusters }),
		"constraints":  askList(func(a *rows.AskJobs) *[]string { return &a.Constraints }),
		"delimiter":    word(func(s *Sacct) *string { return &s.Delimiter }),
		"whole-hetjob": wholeHet,
		"duplicates":   on(func(s *Sacct) *bool { return &s.Ask.Duplicates }),
		"format": func(s *Sacct, g Given) error {
			if s.Format != "" && g.Source == FromCommandLine && s.formatted {
				s.Format += "," + g.Value
				return nil
			}
			s.Format, s.formatted = g.Value, g.Source == FromCommandLine
			return nil
		},
		"group":      namesOrNumbers(func(a *rows.AskJobs) *[]string { return &a.Groups }, func(a *rows.AskJobs) *[]uint32 { return &a.Gids }),
		"help":       doneHere[Sacct],
		"usage":      doneHere[Sacct],
		"version":    doneHere[Sacct],
		"helpformat": on(func(s *Sacct) *bool { return &s.HelpFormat }),
		"helpreason": func(s *Sacct, g Given) error { s.Print = joinLines(reasonNames()); return nil },
		"helpstate":  func(s *Sacct, g Given) error { s.Print = joinLines(StateNames()); return nil },
		"jobs":       (*Sacct).jobs,
		"long":       on(func(s *Sacct) *bool { return &s.long }),
		"name":       askList(func(a *rows.AskJobs) *[]string { return &a.Names }),
		"ncpus": func(s *Sacct, g Given) (err error) {
			s.Ask.MinCpus, s.Ask.MaxCpus, err = countRange(g)
			return
		},
		"nnodes": func(s *Sacct, g Given) (err error) {
			s.Ask.MinNodes, s.Ask.MaxNodes, err = countRange(g)
			return
		},
		"noconvert":     func(s *Sacct, g Given) error { s.Unit = tres.Plain; return nil },
		"nodelist":      nodeWord(func(s *Sacct) *string { return &s.Ask.Nodes }),
		"noheader":      on(func(s *Sacct) *bool { return &s.NoHeader }),
		"parsable":      func(s *Sacct, g Given) error { s.Parsable, s.Trailing = true, true; return nil },
		"parsable2":     func(s *Sacct, g Given) error { s.Parsable, s.Trailing = true, false; return nil },
		"partition":     askList(func(a *rows.AskJobs) *[]string { return &a.Partitions }),
		"qos":           askList(func(a *rows.AskJobs) *[]string { return &a.Qos }),
		"reason":        (*Sacct).reason,
		"starttime":     doneHere[Sacct], // read with the time of day, see ReadSacct
		"endtime":       doneHere[Sacct],
		"state":         (*Sacct).state,
		"timelimit-max": word(func(s *Sacct) *string { return &s.maxLimit }),
		"timelimit-min": func(s *Sacct, g Given) error {
			n, err := ParseLimit(g.Value)
			if err != nil {
				return refusal("--timelimit-min: %v", err)
			}
			s.Ask.MinLimitS, s.Ask.MaxLimitS = n, n
			return nil
		},
		"truncate": on(func(s *Sacct) *bool { return &s.Ask.Truncate }),
		"user":     (*Sacct).users,
		"units": func(s *Sacct, g Given) error {
			u, ok := tres.ParseUnit(g.Value)
			if !ok {
				return refusal("%s is not a unit: write K, M, G, T or P", clip(g.Value))
			}
			s.Unit = u
			return nil
		},
		"verbose": counter(func(s *Sacct) *int { return &s.Verbose }),
		"wckeys":  askList(func(a *rows.AskJobs) *[]string { return &a.Wckeys }),
	}

}}

func countRange(g Given) (least, most uint32, err error) {
	if strings.Trim(g.Value, "0") == "" && g.Value != "" {
		return 0, 0, nil // any
	}
	l, m, err := ParseNodeCount(g.Value)
	if err != nil || strings.HasPrefix(g.Value, "-") {
		return 0, 0, refusal("%s: %s is not a number or a range such as 2-4", g.Option.Spelled(), clip(g.Value))
	}
	return l, m, nil
}

func reasonNames() []string {
	var names []string
	for n := range events.Reason_name {
		names = append(names, events.Reason(n).Word())
	}
	sort.Strings(names)
	return names
}

func (s *Sacct) reason(g Given) error {
	list, err := splitList(g)
	if err != nil {
		return err
	}
next:
	for _, w := range list {
		for n := range events.Reason_name {
			if r := events.Reason(n); strings.EqualFold(r.Word(), w) {
				s.Ask.Reasons = append(s.Ask.Reasons, r)
				continue next
			}
		}
		return refusal("%s is not a reason that Stint gives%s", clip(w), mean(w, reasonNames()))
	}
	return nil
}

func (s *Sacct) associations(g Given) error {
	list, err := splitList(g)
	for _, w := range list {
		n, err := strconv.ParseUint(w, 10, 32)
		if err != nil {
			return refusal("%s is not the number of an association; `sacctmgr show assoc format=id` shows them", clip(w))
		}
		s.Ask.Associations = append(s.Ask.Associations, uint32(n))
	}
	return err
}

// uncounted are states that are passed through and that accounting does not keep.
var uncounted = once.Value[map[string]bool]{Make: func() map[string]bool {
	return map[string]bool{"CG": true, "CF": true, "ST": true, "SE": true, "RH": true, "SI": true, "SO": true, "RD": true, "RF": true,
		"COMPLETING": true, "CONFIGURING": true, "STOPPED": true, "SPECIAL_EXIT": true, "REQUEUE_HOLD": true, "SIGNALING": true, "STAGE_OUT": true, "RESV_DEL_HOLD": true, "REQUEUE_FED": true}
}}

func (s *Sacct) state(g Given) error {
	if g.Value == "" {
		return nil
	}
	for _, w := range strings.Split(g.Value, ",") {
		switch w = strings.ToUpper(strings.TrimSpace(w)); {
		case uncounted.Get()[w]:
			return refusal("job state %s is not supported / accounted: jobs pass through it", clip(w))
		case w == "ALL" && s.release < 2302:
			return refusal("unrecognized job state value %s; leave --state out for jobs in any state", clip(w))
		}
	}
	st, err := ParseStates(g.Value)
	if err != nil {
		return err
	}
	s.Ask.States, s.Ask.Requeued = st.States, st.Requeued
	if st.All {
		s.Ask.States, s.Ask.Requeued = nil, false
	}
	return nil
}

func (s *Sacct) jobs(g Given) error {
	for _, id := range SplitIDs(g.Value) {
		if job, _, ok := strings.Cut(id, "_["); ok && s.release <= Release2205 {
			return refusal("Bad job array element specified: %s; tasks are named one by one, as %s_1", clip(id), clip(job))
		}
		sel, err := ParseSelection(id)
		if err != nil {
			return err
		}
		if s.Ask.Jobs = append(s.Ask.Jobs, sel); len(s.Ask.Jobs) > maxList {
			return refusal("--jobs has more than %d members", maxList)
		}
	}
	return nil
}

func wholeHet(s *Sacct, g Given) error {
	switch strings.ToLower(g.Value) {
	case "", "yes":
		s.Ask.WholeHet, s.Ask.LeaderOnly = true, false
	case "no":
		s.Ask.WholeHet, s.Ask.LeaderOnly = false, true
	default:
		return refusal("--whole-hetjob=%s: it is yes or no", clip(g.Value))
	}
	return nil
}

// ParseSelection reads a job as sacct takes it: `8`, `8_3`, `8_[1-4]`, `8+1`, `8.0`, `8.batch`.
func ParseSelection(id string) (*rows.Selection, error) {
	bad := refusal("Invalid job id: %s; write JOBID, JOBID_TASK, JOBID_[TASKS], JOBID+COMPONENT or JOBID.STEP", clip(id))
	sel := &rows.Selection{}
	body, step, stepped := strings.Cut(id, ".")
	if stepped {
		n, ok := ParseStep(step)
		if !ok {
			return nil, bad
		}
		sel.Step, sel.HasStep = n, true
	}
	if head, component, het := strings.Cut(body, "+"); het {
		n, err := strconv.ParseUint(component, 10, 31)
		if err != nil {
			return nil, bad
		}
		body, sel.Component, sel.HasComponent = head, uint32(n), true
	}
	job, tasks, hasTasks, ok := ParseJobID(body)
	if !ok {
		return nil, bad
	}
	sel.Job = job
	if hasTasks && tasks != "*" {
		text, _, _ := strings.Cut(tasks, "%")
		set, err := idset.Parse(text, idset.HighestTask)
		if err != nil || set.Empty() {
			return nil, bad
		}
		sel.Tasks, sel.HasTasks = set.Words(), true
	}
	return sel, nil
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// ReadSacct reads a call of sacct. The error is a *Failure.
func ReadSacct(in Input) (*Sacct, error) {
	s := &Sacct{Ask: &rows.AskJobs{}, Separation: Separation{Delimiter: "|"}, release: in.Release}
	rest, print, err := readOptions(&SacctTable, in, s, sacctEffects.Get())
	switch {
	case err != nil:
		return nil, err
	case print != "":
		return &Sacct{Print: print}, nil
	case len(rest) > 0:
		return nil, refusal("Unrecognized argument: %s; sacct takes options only", clip(rest[0]))
	}
	if err := s.window(in); err != nil {
		return nil, err
	}
	if (s.BatchScript || s.EnvVars) && len(s.Ask.Jobs) == 0 {
		return nil, refusal("scripts and environments are shown of jobs that are named: add --jobs=IDS")
	}
	if s.BatchScript && s.EnvVars {
		return nil, refusal("--batch-script and --env-vars are mutually exclusive: ask for one after the other")
	}
	// Columns that are given come first, then those of -b, then those of -l; the variable counts only where none of them is.
	if !s.formatted && (s.brief || s.long) {
		s.Format = ""
	}
	if s.brief {
		s.Format += "," + briefSacctFormat
	}
	if s.long {
		s.Format += "," + longSacctFormat
	}
	if s.Format = strings.Trim(s.Format, ","); s.Format == "" {
		s.Format = DefaultSacctFormat
	}
	if s.maxLimit != "" {
		n, err := ParseLimit(s.maxLimit)
		if err != nil {
			return nil, refusal("--timelimit-max: %v", err)
		}
		if s.Ask.MinLimitS != 0 { // alone it means nothing, as documented
			s.Ask.MaxLimitS = n
		}
	}
	a := s.Ask
	if s.AllUsers {
		a.Users, a.Uids = nil, nil
	} else if len(a.Users)+len(a.Uids) == 0 && in.User != "root" && len(a.Jobs) == 0 && a.Nodes == "" {
		a.Users = []string{in.User}
	}
	if a.Nodes != "" {
		if n, err := hostlist.Count(a.Nodes, hostlist.MaxHosts); err != nil || n == 0 {
			return nil, refusal("--nodelist names no node")
		}
	}
	return s, nil
}

// window sets the time asked for: from midnight to now, for jobs named by id from the beginning.
func (s *Sacct) window(in Input) error {
	given, _, _ := SacctTable.Parse(in.Args, in.Release)
	midnight := time.Date(in.Now.Year(), in.Now.Month(), in.Now.Day(), 0, 0, 0, 0, in.Now.Location())
	start, end := midnight, time.Time{}
	if len(s.Ask.Jobs) > 0 {
		start = time.Unix(0, 0)
	}
	for _, g := range given {
		var to *time.Time
		switch g.Option.Effect {
		case "starttime":
			to = &start
		case "endtime":
			to = &end
		default:
			continue
		}
		at, err := ParseWhen(g.Value, in.Now, true)
		if err != nil {
			return refusal("%s: %v", g.Option.Spelled(), err)
		}
		*to = at
		s.starting = s.starting || g.Option.Effect == "starttime"
	}
	// With states and no -S, real sacct looks at the present moment only.
	if len(s.Ask.States) > 0 && !s.starting && len(s.Ask.Jobs) == 0 && end.IsZero() {
		start = in.Now
	}
	// With states and -S but no -E, it looks at that moment only: the end is the beginning.
	if (len(s.Ask.States) > 0 || s.Ask.Requeued) && s.starting && end.IsZero() {
		end = start
	}
	if end.IsZero() && s.starting && start.After(in.Now) && len(s.Ask.States) == 0 {
		return refusal("the beginning of the time asked for (%s) lies in the future, and no --endtime is given", start.Format("2006-01-02T15:04:05"))
	}
	if !end.IsZero() && end.Before(start) {
		return refusal("the end of the time asked for lies before its beginning (%s)", start.Format("2006-01-02T15:04:05"))
	}
	s.Ask.StartUs = start.UnixMicro()
	if end.IsZero() && len(s.Ask.Jobs) == 0 {
		end = in.Now.Add(time.Second) // what has just been submitted is of now
		end = latest(end, start)
	}
	if !end.IsZero() {
		s.Ask.EndUs = end.UnixMicro()
	}
	return nil
}
