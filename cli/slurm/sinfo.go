package slurm

import (
	"strings"

	"stint/cli/slurm/once"
)

// SinfoTable is the options of sinfo.
var SinfoTable = Table{Command: "sinfo", Usage: "[OPTIONS...]", Options: []Option{
	{"all", 'a', None, T1, 0, 0, "SINFO_ALL", "all", "", "hidden partitions too"},
	{"clusters", 'M', Required, T1, 0, 0, "SLURM_CLUSTERS", "clusters", "NAMES", "ask these clusters"},
	{"cluster", 0, Required, T3, 0, 0, "", "clusters", "NAMES", ""},
	{"dead", 'd', None, T1, 0, 0, "", "dead", "", "nodes that do not respond"},
	{"exact", 'e', None, T1, 0, 0, "", "exact", "", "group nodes only if all is equal, not within a range"},
	{"federation", 0, None, T2, 0, 0, "SINFO_FEDERATION", "local", "", "there is one cluster: the same as --local"},
	{"format", 'o', Required, T1, 0, 0, "SINFO_FORMAT", "format", "FORMAT", "columns, as %[[.]WIDTH]LETTER with text between"},
	{"Format", 'O', Required, T1, 0, 0, "", "Format", "FIELDS", "columns by name, as NAME[:[.]WIDTH][SUFFIX],..."},
	{"future", 'F', None, T2, 2302, 0, "SCONTROL_FUTURE", "future", "", "nodes that are set aside too"},
	{"help", 0, None, T1, 0, 0, "", "help", "", "show this help"},
	{"helpFormat", 0, None, T3, 0, 0, "", "helpFormat", "", "show the names for --Format"},
	{"helpformat", 0, None, T3, 0, 0, "", "helpFormat", "", ""},
	{"helpstate", 0, None, T3, 0, 0, "", "helpstate", "", "show the names of states"},
	{"hide", 0, None, T1, 0, 0, "", "hide", "", "no hidden partitions"},
	{"iterate", 'i', Required, T1, 0, 0, "", "iterate", "SECONDS", "again and again"},
	{"json", 0, Optional, T1, 0, 0, "", "json", "v0.0.42", "as JSON, for programs"},
	{"", 0, Optional, T1, 2505, 0, "SLURM_JSON", "json", "", ""},
	{"list-reasons", 'R', None, T1, 0, 0, "", "list-reasons", "", "why nodes are down, drained or failing"},
	{"local", 0, None, T2, 0, 0, "SINFO_LOCAL", "local", "", "this cluster only"},
	{"long", 'l', None, T1, 0, 0, "", "long", "", "more columns"},
	{"noconvert", 0, None, T1, 0, 0, "", "noconvert", "", "leave amounts in the unit they have"},
	{"Node", 'N', None, T1, 0, 0, "", "Node", "", "one line for each node and partition"},
	{"nodes", 'n', Required, T1, 0, 0, "", "nodes", "NODES", "these nodes"},
	{"noheader", 'h', None, T1, 0, 0, "", "noheader", "", "no line of headings"},
	{"partition", 'p', Required, T1, 0, 0, "SINFO_PARTITION", "partition", "NAMES", "these partitions"},
	{"reservation", 'T', None, T2, 0, 0, "", "reservation", "", "reservations instead of partitions"},
	{"responding", 'r', None, T1, 0, 0, "", "responding", "", "nodes that respond"},
	{"sort", 'S', Required, T1, 0, 0, "SINFO_SORT", "sort", "FIELDS", "order: letters of --format, - before one for descending"},
	{"states", 't', Required, T1, 0, 0, "", "states", "STATES", "nodes in these states"},
	{"summarize", 's', None, T1, 0, 0, "", "summarize", "", "one line for each partition"},
	{"usage", 0, None, T1, 0, 0, "", "usage", "", "show one line of help"},
	{"verbose", 'v', None, T1, 0, 0, "", "verbose", "", "say more"},
	{"version", 'V', None, T1, 0, 0, "", "version", "", "show the version"},
	{"yaml", 0, Optional, T2, 0, 0, "", "yaml", "v0.0.42", "as YAML, for programs"},
	{"", 0, Optional, T2, 2505, 0, "SLURM_YAML", "yaml", "", ""},
	{"autocomplete", 0, Required, T3, 0, 0, "", "", "", ""},
}}

// Sinfo is what a call of sinfo asks for.
type Sinfo struct {
	JSON       bool // --json, or --yaml
	YAML       bool
	Print      string // not empty: print it and exit with 0
	Nodes      string // hostlist
	Partitions []string
	States     []string // upper case words of NodeStateNames.Get(); empty: all

	All, Hide, Dead, Responding, Exact, Reasons, Long, PerNode, Summarize, NoHeader, NoConvert, HelpFormat, Reservations, Future bool
	Verbose, Iterate                                                                                                             int
	Clusters, Sort, Format, Fields                                                                                               string
	Stray                                                                                                                        []string // words that are no options, of which nothing is taken
	formatted, everything, partitioned                                                                                           bool     // --format, --all and --partition are on the command line
}

// nodeStateNames are the states of nodes -t knows, with their short forms.
var nodeStateNames = once.Value[map[string]string]{Make: func() map[string]string {
	return map[string]string{
		"ALLOC": "ALLOCATED", "ALLOCATED": "ALLOCATED", "BLOCK": "BLOCKED", "BLOCKED": "BLOCKED", "CLOUD": "CLOUD", "COMP": "COMPLETING", "COMPLETING": "COMPLETING", "DOWN": "DOWN",
		"DRAIN": "DRAIN", "DRAINED": "DRAINED", "DRAINING": "DRAINING", "DRNG": "DRAINING", "FAIL": "FAIL", "FAILG": "FAILING", "FAILING": "FAILING",
		"FUTR": "FUTURE", "FUTURE": "FUTURE", "IDLE": "IDLE", "INVAL": "INVAL", "MAINT": "MAINT", "MIX": "MIXED", "MIXED": "MIXED", "NO_RESPOND": "NO_RESPOND", "NPC": "NPC",
		"PERFCTRS": "PERFCTRS", "PLANNED": "PLANNED", "PLND": "PLANNED", "POWER_DOWN": "POWER_DOWN", "POWERING_DOWN": "POWERING_DOWN",
		"POWERED_DOWN": "POWERED_DOWN", "POWERING_UP": "POWERING_UP", "POWER_UP": "POWERING_UP", "POW_DN": "POWERED_DOWN", "POW_UP": "POWERING_UP",
		"REBOOT_ISSUED": "REBOOT_ISSUED", "REBOOT_REQUESTED": "REBOOT_REQUESTED", "BOOT": "REBOOT_ISSUED", "REBOOT": "REBOOT_REQUESTED", "RESV": "RESERVED", "RESERVED": "RESERVED", "UNK": "UNKNOWN", "UNKNOWN": "UNKNOWN", "ERROR": "ERROR", "DYNAMIC_NORM": "DYNAMIC_NORM",
	}

}}

// NodeStateNames are the states sinfo -t knows, in alphabetical order.
var NodeStateNames = once.Value[[]string]{Make: func() []string {
	return strings.Fields(`ALLOCATED BLOCKED CLOUD COMPLETING DOWN DRAIN DRAINED DRAINING DYNAMIC_NORM ERROR FAIL FAILING FUTURE IDLE INVAL MAINT MIXED
	NO_RESPOND NPC PERFCTRS PLANNED POWERED_DOWN POWERING_DOWN POWERING_UP POWER_DOWN REBOOT_ISSUED REBOOT_REQUESTED RESERVED UNKNOWN`)

}}
var sinfoEffects = once.Value[map[string]func(*Sinfo, Given) error]{Make: func() map[string]func(*Sinfo, Given) error {
	return map[string]func(*Sinfo, Given) error{
		"json": asJSON(func(s *Sinfo) (*bool, *string) { return &s.JSON, &s.Print }),
		"yaml": asYAML(func(s *Sinfo) (*bool, *bool, *string) { return &s.JSON, &s.YAML, &s.Print }),
		"all": func(s *Sinfo, g Given) error {
			s.All, s.Hide, s.everything = true, false, s.everything || g.Where == ""
			return nil
		},
		"future":   on(func(s *Sinfo) *bool { return &s.Future }),
		"hide":     func(s *Sinfo, g Given) error { s.All, s.Hide = false, true; return nil },
		"clusters": word(func(s *Sinfo) *string { return &s.Clusters }),
		"dead":     on(func(s *Sinfo) *bool { return &s.Dead }),
		"exact":    on(func(s *Sinfo) *bool { return &s.Exact }),
		"local":    doneHere[Sinfo],
		"format": func(s *Sinfo, g Given) error {
			s.Format, s.Fields, s.formatted = g.Value, "", s.formatted || g.Where == ""
			return nil
		},
		"Format": func(s *Sinfo, g Given) error {
			s.Format, s.Fields, s.formatted = "", g.Value, s.formatted || g.Where == ""
			return nil
		},
		"help":         doneHere[Sinfo],
		"usage":        doneHere[Sinfo],
		"version":      doneHere[Sinfo],
		"helpFormat":   on(func(s *Sinfo) *bool { return &s.HelpFormat }),
		"helpstate":    func(s *Sinfo, g Given) error { s.Print = joinLines(NodeStateNames.Get()); return nil },
		"iterate":      seconds(func(s *Sinfo) *int { return &s.Iterate }),
		"list-reasons": on(func(s *Sinfo) *bool { return &s.Reasons }),
		"long":         on(func(s *Sinfo) *bool { return &s.Long }),
		"noconvert":    on(func(s *Sinfo) *bool { return &s.NoConvert }),
		"Node":         on(func(s *Sinfo) *bool { return &s.PerNode }),
		"nodes":        nodeWord(func(s *Sinfo) *string { return &s.Nodes }),
		"noheader":     on(func(s *Sinfo) *bool { return &s.NoHeader }),
		"partition": func(s *Sinfo, g Given) (err error) {
			s.Partitions, err = splitList(g)
			s.partitioned = s.partitioned || g.Where == ""
			return err
		},
		"reservation": on(func(s *Sinfo) *bool { return &s.Reservations }),
		"responding":  on(func(s *Sinfo) *bool { return &s.Responding }),
		"sort":        word(func(s *Sinfo) *string { return &s.Sort }),
		"states":      (*Sinfo).states,
		"summarize":   on(func(s *Sinfo) *bool { return &s.Summarize }),
		"verbose":     counter(func(s *Sinfo) *int { return &s.Verbose }),
	}

}}

func (s *Sinfo) states(g Given) error {
	s.States = nil
	for _, w := range strings.FieldsFunc(strings.ToUpper(g.Value), func(r rune) bool { return r == ',' || r == '&' }) {
		if w == "ALL" {
			if len(g.Value) == len(w) {
				return nil
			}
			continue // beside another it has no say
		}
		name, ok := nodeStateNames.Get()[w]
		if !ok {
			return refusal("Bad state string: %s; known are all, %s%s", clip(w), strings.Join(NodeStateNames.Get(), ", "), mean(w, NodeStateNames.Get()))
		}
		s.States = append(s.States, name)
	}
	return nil
}

// ReadSinfo reads a call of sinfo. The error is a *Failure.
func ReadSinfo(in Input) (*Sinfo, error) {
	s := &Sinfo{}
	rest, print, err := readOptions(&SinfoTable, in, s, sinfoEffects.Get())
	switch {
	case err != nil:
		return nil, err
	case print != "":
		return &Sinfo{Print: print}, nil
	case s.Long && s.formatted:
		return nil, refusal("--long and --format exclude one another")
	case s.everything && s.partitioned:
		return nil, refusal("--all and --partition exclude one another")
	case s.Dead && s.Responding:
		return nil, refusal("--dead and --responding exclude one another")
	}
	s.Stray = rest
	return s, nil
}
