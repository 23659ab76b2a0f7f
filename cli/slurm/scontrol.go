package slurm

import (
	"slices"
	"sort"
	"strings"

	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/hostlist"
)

// ScontrolTable is the options of scontrol.
var ScontrolTable = Table{Command: "scontrol", Usage: "[OPTIONS...] COMMAND [ARGUMENTS...]", Options: []Option{
	{"all", 'a', None, T1, 0, 0, "SCONTROL_ALL", "all", "", "hidden partitions too"},
	{"clusters", 'M', Required, T1, 0, 0, "SLURM_CLUSTERS", "clusters", "NAME", "on this cluster"},
	{"details", 'd', None, T1, 0, 0, "", "details", "", "show more about jobs, nodes and steps"},
	{"federation", 0, None, T2, 0, 0, "SCONTROL_FEDERATION", "local", "", "there is one cluster: the same as --local"},
	{"future", 'F', None, T2, 0, 0, "SCONTROL_FUTURE", "future", "", "nodes that are set aside too"},
	{"help", 'h', None, T1, 0, 0, "", "help", "", "show this help"},
	{"hide", 0, None, T1, 0, 0, "", "hide", "", "no hidden partitions"},
	{"json", 0, Optional, T1, 0, 0, "", "json", "v0.0.42", "as JSON, for programs"},
	{"", 0, Optional, T1, 2505, 0, "SLURM_JSON", "json", "", ""},
	{"local", 0, None, T2, 0, 0, "SCONTROL_LOCAL", "local", "", "this cluster only"},
	{"oneliner", 'o', None, T1, 0, 0, "", "oneliner", "", "one line for each record"},
	{"quiet", 'Q', None, T1, 0, 0, "", "quiet", "", "print errors only"},
	{"sibling", 0, None, T2, 0, 0, "SCONTROL_SIBLING", "local", "", "there is one cluster: the same as --local"},
	{"uid", 'u', Required, T2, 0, 0, "", "", "", ""},
	{"usage", 0, None, T2, 0, 0, "", "usage", "", "show one line of help"},
	{"verbose", 'v', None, T1, 0, 0, "", "verbose", "", "say more"},
	{"version", 'V', None, T1, 0, 0, "", "version", "", "show the version"},
	{"yaml", 0, Optional, T2, 2302, 0, "", "yaml", "v0.0.42", "as YAML, for programs"},
	{"", 0, Optional, T2, 2505, 0, "SLURM_YAML", "yaml", "", ""},
	{"autocomplete", 0, Required, T3, 0, 0, "", "", "", ""},
}}

// Scontrol is what a call of scontrol asks for: one command with what belongs to it.
type Scontrol struct {
	JSON     bool // --json, or --yaml
	YAML     bool
	Print    string // not empty: print it and exit with 0
	Verb     string // empty: commands are read from standard input; show, hold, uhold, release, requeue, requeuehold, suspend, resume, update, ping, version, completing, reconfigure, wait_job, write
	Entity   string // of show: job, node, partition, config, hostnames, hostlist, hostlistsorted, step, licenses, reservation, …; of write: batch_script
	IDs      []string
	JobNames []string // hold jobname=…: jobs of these names, to be found first

	Targets []*events.Target // of hold, release, requeue, suspend, resume, wait_job
	Hold    bool             // requeuehold
	Undone  bool             // requeue Incomplete
	Special bool             // requeuehold State=SpecialExit
	Users   []string         // whose jobs JobNames mean; empty: the caller's, or for root everybody's

	Name    string              // of the partition to create, update or delete
	Act     events.PartitionAct // what is done to it
	Changes []Change            // of create and update of a partition
	Text    string              // notify: the message
	Number  int64               // errnumstr
	Step    *events.UpdateStep  // update StepId=…, without its targets
	Job     *events.UpdateJob   // update JobId=…, without its targets where JobNames are given
	Node    *events.UpdateNode  // update NodeName=…
	Config  *events.SetConfig   // setdebug, setdebugflags

	All, Hide, OneLine, Quiet, Future bool
	Details, Verbose                  int
	Clusters                          string
}

var scontrolEffects = once.Value[map[string]func(*Scontrol, Given) error]{Make: func() map[string]func(*Scontrol, Given) error {
	return map[string]func(*Scontrol, Given) error{
		"json":     asJSON(func(s *Scontrol) (*bool, *string) { return &s.JSON, &s.Print }),
		"yaml":     asYAML(func(s *Scontrol) (*bool, *bool, *string) { return &s.JSON, &s.YAML, &s.Print }),
		"all":      func(s *Scontrol, g Given) error { s.All, s.Hide = true, false; return nil },
		"future":   on(func(s *Scontrol) *bool { return &s.Future }),
		"hide":     func(s *Scontrol, g Given) error { s.All, s.Hide = false, true; return nil },
		"clusters": word(func(s *Scontrol) *string { return &s.Clusters }),
		"details":  counter(func(s *Scontrol) *int { return &s.Details }),
		"local":    doneHere[Scontrol],
		"help":     doneHere[Scontrol],
		"usage":    doneHere[Scontrol],
		"version":  doneHere[Scontrol],
		"oneliner": on(func(s *Scontrol) *bool { return &s.OneLine }),
		"quiet":    on(func(s *Scontrol) *bool { return &s.Quiet }),
		"verbose":  counter(func(s *Scontrol) *int { return &s.Verbose }),
	}

}}

// scontrolVerbs are all commands of scontrol; those that are not supported are refused by name.
var scontrolVerbs = []struct {
	word  string
	built bool
}{
	{"show", true}, {"hold", true}, {"holdu", true}, {"uhold", true}, {"release", true}, {"requeue", true}, {"requeuehold", true}, {"suspend", true}, {"resume", true},
	{"update", true}, {"ping", true}, {"version", true}, {"completing", true}, {"reconfigure", true}, {"wait_job", true}, {"write", true}, {"help", true},
	{"abort", false}, {"cancel_reboot", false}, {"cluster", true}, {"create", true}, {"delete", true}, {"errnumstr", true}, {"fsdampeningfactor", false},
	{"getaddrs", false}, {"getent", false}, {"listjobs", true}, {"listpids", true}, {"liststeps", true}, {"notify", true}, {"pidinfo", true}, {"power", false},
	{"reboot", false}, {"schedloglevel", false}, {"setdebug", true}, {"setdebugflags", true}, {"shutdown", false}, {"takeover", false}, {"token", false}, {"top", true},
}

// scontrolMeaningless says why a command has no meaning here.
var scontrolMeaningless = once.Value[map[string]string]{Make: func() map[string]string {
	return map[string]string{
		"abort":             "it would end the controller with a core file; `stint down` ends the cluster",
		"shutdown":          "`stint down` ends the cluster, and says which jobs would be lost",
		"takeover":          "every controller that follows the log can lead, and takes over by itself when the leader is gone",
		"reboot":            "RebootProgram isn't defined: no node is rebooted from here",
		"cancel_reboot":     "no node waits for a reboot: none is rebooted from here",
		"power":             "no node is powered from here (no SuspendProgram or ResumeProgram is run)",
		"fsdampeningfactor": "fairshare has no damping here",
		"schedloglevel":     "there is no log of the scheduler apart: `stint events` tells what it decided and why",
		"token":             "no tokens are given out: callers are known by the kernel's word (AuthAltTypes is not set)",
	}

}}

// tooShort are beginnings of entities that are not enough to tell which is meant.
var tooShort = []string{"b", "h", "l", "p", "s"}

// scontrolEntities are what show can show.
var scontrolEntities = []struct {
	word  string // in the singular where show takes both
	built bool
}{
	{"jobs", true}, {"nodes", true}, {"partitions", true}, {"config", true}, {"hostnames", true}, {"hostlist", true}, {"hostlistsorted", true}, {"steps", true},
	{"licenses", true}, {"reservations", true}, {"daemons", true}, {"aliases", true}, {"assoc_mgr", true}, {"bbstat", true}, {"burstbuffer", true}, {"dwstat", true},
	{"federation", true}, {"slurmd", false}, {"topoconf", false}, {"topology", true},
}

// ReadScontrol reads a call of scontrol. The error is a *Failure.
func ReadScontrol(in Input) (*Scontrol, error) {
	s, err := readScontrol(in)
	if f, ok := err.(*Failure); ok && f.Exit == ExitUsage {
		f.Exit = 1 // a value that sbatch would not take either is nothing special here
	}
	return s, err
}

func readScontrol(in Input) (*Scontrol, error) {
	s := &Scontrol{}
	var signed []string // what follows setdebugflags begins with a sign, and is no option
	if at := slices.IndexFunc(in.Args, func(a string) bool { return strings.HasPrefix(strings.ToLower(a), "setdebug") }); at >= 0 {
		in.Args, signed = in.Args[:at+1], in.Args[at+1:]
	}
	rest, print, err := readOptions(&ScontrolTable, in, s, scontrolEffects.Get())
	if err != nil {
		return nil, err
	}
	rest = append(rest, signed...)
	if print != "" {
		return &Scontrol{Print: print}, nil
	}
	if len(rest) == 0 {
		return s, nil
	}
	if err := s.verb(rest[0]); err != nil {
		return nil, err
	}
	if s.Verb != "show" && !slices.ContainsFunc(in.Args, func(a string) bool { return strings.HasPrefix(a, "--j") || strings.HasPrefix(a, "--y") }) {
		s.JSON, s.YAML = false, false // the environment asks for it: where there is something to show
	}
	args := rest[1:]
	switch s.Verb {
	case "show":
		return s, s.show(args, in)
	case "update":
		return s, s.update(args, in)
	case "hold", "uhold", "release", "suspend", "resume", "requeue", "requeuehold", "wait_job":
		return s, s.select_(args)
	case "top", "notify", "errnumstr", "create", "delete", "cluster", "listpids", "listjobs", "liststeps", "pidinfo", "setdebug", "setdebugflags":
		return s, s.more(args)
	case "write":
		return s, s.write(args)
	case "help":
		s.Print = ScontrolTable.Help(in.Release)
	case "version":
		s.Print = in.Release.Version() + "\n"
	}
	if len(args) > 0 {
		return nil, refusal("too many arguments for %s: %s", s.Verb, clip(args[0]))
	}
	return s, nil
}

func (s *Scontrol) verb(word string) error {
	w := strings.ToLower(word)
	var known, found []string
	for _, v := range scontrolVerbs {
		known = append(known, v.word)
		if v.word == w {
			found = []string{w}
			break
		}
		if len(w) >= 2 && strings.HasPrefix(v.word, w) {
			found = append(found, v.word)
		}
	}
	if len(found) == 2 && found[0]+"hold" == found[1] { // requeue and requeuehold: the shorter is meant
		found = found[:1]
	}
	switch len(found) {
	case 1:
	case 0:
		return refusal("invalid keyword: %s%s", clip(word), mean(w, known))
	default:
		return refusal("the keyword %s is ambiguous: %s", clip(word), strings.Join(found, ", "))
	}
	for _, v := range scontrolVerbs {
		if v.word == found[0] && !v.built {
			if why := scontrolMeaningless.Get()[v.word]; why != "" {
				return refusal("scontrol %s: %s", v.word, why)
			}
			return refusal("scontrol %s is not supported by Stint yet", v.word)
		}
	}
	if s.Verb = found[0]; s.Verb == "holdu" {
		s.Verb = "uhold"
	}
	return nil
}

func (s *Scontrol) show(args []string, in Input) error {
	if len(args) == 0 {
		return refusal("too few arguments for show: say what, such as job, node, partition, config or hostnames")
	}
	word, id, joined := strings.Cut(args[0], "=")
	args = args[1:]
	if joined {
		args = append([]string{id}, args...)
	}
	w := strings.ToLower(word)
	var known []string
	found, built := "", false
	if slices.Contains(tooShort, w) {
		return refusal("invalid entity: %s; write more of the word", clip(word))
	}
	for _, e := range scontrolEntities {
		known = append(known, e.word)
		if w == e.word || w == strings.TrimSuffix(e.word, "s") {
			found, built = e.word, e.built
			break
		}
		if found == "" && len(w) >= 1 && strings.HasPrefix(e.word, w) {
			found, built = e.word, e.built
		}
	}
	switch {
	case found == "":
		return refusal("invalid entity: %s; known are %s%s", clip(word), strings.Join(known, ", "), mean(w, known))
	case !built:
		return refusal("scontrol show %s is not supported by Stint yet", found)
	}
	switch found {
	case "jobs", "nodes", "partitions", "steps", "reservations":
		found = strings.TrimSuffix(found, "s")
	}
	s.Entity, s.IDs = found, args
	if len(args) > 1 && s.Entity != "assoc_mgr" {
		return refusal("too many arguments for show %s: %s", s.Entity, clip(args[1]))
	}
	switch s.Entity {
	case "hostnames", "hostlist", "hostlistsorted":
		if len(args) == 0 && s.Entity == "hostnames" {
			list, _ := Lookup(in.Environ)("SLURM_NODELIST")
			if list == "" {
				return &Failure{Text: "host list is empty: name hosts, or set SLURM_NODELIST", Exit: 0}
			}
			s.IDs = []string{list}
		}
		if len(s.IDs) == 0 {
			return refusal("scontrol show %s needs host names", s.Entity)
		}
		if len(s.IDs) > 1 {
			return refusal("too many arguments for show %s: quote the list, or join it by commas", s.Entity)
		}
	case "job":
		for _, a := range args {
			if in.Release <= Release2205 && strings.ContainsAny(a, ",.") { // it takes one job only
				return refusal("Invalid job id specified: %s", clip(a))
			}
			for _, id := range SplitIDs(a) {
				t, err := ParseTarget(id)
				many := t.GetHasTasks() && in.Release < 2302 && strings.Contains(id, "[") // until then one task, or all
				if err != nil || t.HasStep || many {
					return refusal("Invalid job id specified: %s", clip(id))
				}
			}
		}
	case "node":
		for _, a := range args {
			if _, err := hostlist.Count(a, hostlist.MaxHosts); err != nil {
				return refusal("%v", err)
			}
		}
	}
	return nil
}

// Hosts answers show hostnames, hostlist and hostlistsorted for a list of hosts.
func (s *Scontrol) Hosts(list string, r Release) (string, error) {
	names, err := hostlist.Parse(list, hostlist.MaxHosts)
	if err != nil {
		f := refusal("Invalid hostlist: %v", err)
		if r <= Release2205 && s.Entity == "hostnames" { // it says so, and all is well
			f.Exit = 0
		}
		return "", f
	}
	switch s.Entity {
	case "hostlist":
		return names.Compress() + "\n", nil
	case "hostlistsorted":
		names.Sort()
		return names.Compress() + "\n", nil
	}
	return joinLines(names.Hosts()), nil
}

// select_ reads the jobs of hold and its kin: ids joined by commas or apart, or jobname=NAME.
func (s *Scontrol) select_(args []string) error {
	if s.Verb == "requeuehold" {
		s.Verb, s.Hold = "requeue", true
	}
	for _, a := range args {
		key, value, named := strings.Cut(a, "=")
		switch {
		case named && (strings.EqualFold(key, "jobname") || strings.EqualFold(key, "name")):
			s.JobNames = append(s.JobNames, value)
			continue
		case named && (strings.EqualFold(key, "jobid") || strings.EqualFold(key, "job")):
			a = value
		case named && s.Hold && strings.EqualFold(key, "state"):
			if !strings.EqualFold(value, "SpecialExit") {
				return refusal("requeuehold State=%s is not known; SpecialExit is", clip(value))
			}
			s.Special = true
			continue
		case !named && s.Verb == "requeue" && strings.EqualFold(a, "incomplete"):
			s.Undone = true
			continue
		}
		for _, id := range SplitIDs(a) {
			t, err := ParseTarget(id)
			if err != nil || t.HasStep {
				return refusal("Invalid job id specified: %s", clip(id))
			}
			s.Targets = append(s.Targets, t)
		}
	}
	if len(s.Targets)+len(s.JobNames) == 0 {
		return refusal("too few arguments for %s: name jobs", s.Verb)
	}
	return nil
}

func (s *Scontrol) write(args []string) error {
	switch {
	case len(args) == 0:
		return refusal("too few arguments for write: batch_script JOBID [FILE], or config [FILE]")
	case strings.HasPrefix("config", strings.ToLower(args[0])):
		if s.Entity = "config"; len(args) > 2 {
			return refusal("scontrol write config takes a file and nothing more")
		}
		s.IDs = args[1:]
		return nil
	case !strings.HasPrefix("batch_script", strings.ToLower(args[0])):
		return refusal("invalid write argument: %s; batch_script and config can be written", clip(args[0]))
	}
	s.Entity = "batch_script"
	if len(args) < 2 || len(args) > 3 {
		return refusal("scontrol write batch_script takes a job id and perhaps a file")
	}
	if _, err := ParseTarget(args[1]); err != nil {
		return err
	}
	s.IDs = args[1:]
	return nil
}

// sortedKeys are the names of a table, for sentences.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
