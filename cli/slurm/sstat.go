package slurm

import (
	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/tres"
)

// SstatTable is the options of sstat.
var SstatTable = Table{Command: "sstat", Usage: "[OPTIONS...] -j JOB[.STEP],...", Options: []Option{
	{"allsteps", 'a', None, T1, 0, 0, "", "allsteps", "", "every step of the jobs, the batch step too"},
	{"fields", 0, Required, T3, 0, 0, "", "format", "FIELDS", ""},
	{"format", 'o', Required, T1, 0, 0, "", "format", "FIELDS", "columns, as NAME[%[-]WIDTH],..."},
	{"help", 'h', None, T1, 0, 0, "", "help", "", "show this help"},
	{"helpformat", 'e', None, T1, 0, 0, "", "helpformat", "", "show the names of columns"},
	{"jobs", 'j', Required, T1, 0, 0, "", "jobs", "IDS", "these jobs or steps"},
	{"noconvert", 0, None, T1, 0, 0, "", "noconvert", "", "leave amounts in the unit they have"},
	{"noheader", 'n', None, T1, 0, 0, "", "noheader", "", "no line of headings"},
	{"parsable", 'p', None, T1, 0, 0, "", "parsable", "", "fields separated by |, one at the end too"},
	{"parsable2", 'P', None, T1, 0, 0, "", "parsable2", "", "fields separated by |"},
	{"pidformat", 'i', None, T2, 0, 0, "", "pidformat", "", "the processes of each node"},
	{"usage", 0, None, T1, 0, 0, "", "usage", "", "show one line of help"},
	{"verbose", 'v', None, T2, 0, 0, "", "verbose", "", "say more"},
	{"version", 'V', None, T1, 0, 0, "", "version", "", "show the version"},
	{"autocomplete", 0, Required, T3, 0, 0, "", "", "", ""},
}}

// Sstat is what a call of sstat asks for.
type Sstat struct {
	Print      string // not empty: print it and exit with 0
	Targets    []*events.Target
	AllSteps   bool
	Pids       bool // a row for each node, with its processes
	HelpFormat bool
	Format     string
	Columns    Separation
	Unit       tres.Unit
	Verbose    int
}

// Separation is how fields are set apart in a table.
type Separation struct {
	NoHeader           bool
	Parsable, Trailing bool   // fields separated by Delimiter; one at the end too
	Delimiter          string // | by default
}

// The columns of sstat without -o, and with -i.
const (
	sstatFormat = "JobID,MaxVMSize,MaxVMSizeNode,MaxVMSizeTask,AveVMSize,MaxRSS,MaxRSSNode,MaxRSSTask,AveRSS,MaxPages,MaxPagesNode,MaxPagesTask,AvePages,MinCPU,MinCPUNode," +
		"MinCPUTask,AveCPU,NTasks,AveCPUFreq,ReqCPUFreqMin,ReqCPUFreqMax,ReqCPUFreqGov,ConsumedEnergy,MaxDiskRead,MaxDiskReadNode,MaxDiskReadTask,AveDiskRead,MaxDiskWrite," +
		"MaxDiskWriteNode,MaxDiskWriteTask,AveDiskWrite,TRESUsageInAve,TRESUsageInMax,TRESUsageInMaxNode,TRESUsageInMaxTask,TRESUsageInMin,TRESUsageInMinNode,TRESUsageInMinTask," +
		"TRESUsageInTot,TRESUsageOutAve,TRESUsageOutMax,TRESUsageOutMaxNode,TRESUsageOutMaxTask,TRESUsageOutMin,TRESUsageOutMinNode,TRESUsageOutMinTask,TRESUsageOutTot"
	sstatPidFormat = "JobID,Nodelist,Pids"
)

var sstatEffects = once.Value[map[string]func(*Sstat, Given) error]{Make: func() map[string]func(*Sstat, Given) error {
	return map[string]func(*Sstat, Given) error{
		"allsteps":   on(func(s *Sstat) *bool { return &s.AllSteps }),
		"format":     word(func(s *Sstat) *string { return &s.Format }),
		"help":       doneHere[Sstat],
		"usage":      doneHere[Sstat],
		"version":    doneHere[Sstat],
		"helpformat": on(func(s *Sstat) *bool { return &s.HelpFormat }),
		"jobs": func(s *Sstat, g Given) error {
			for _, id := range SplitIDs(g.Value) {
				t, err := ParseTarget(id)
				if err != nil {
					return err
				}
				s.Targets = append(s.Targets, t)
			}
			return nil
		},
		"noconvert": func(s *Sstat, _ Given) error { s.Unit = tres.Plain; return nil },
		"noheader":  on(func(s *Sstat) *bool { return &s.Columns.NoHeader }),
		"parsable":  func(s *Sstat, _ Given) error { s.Columns.Parsable, s.Columns.Trailing = true, true; return nil },
		"parsable2": func(s *Sstat, _ Given) error { s.Columns.Parsable, s.Columns.Trailing = true, false; return nil },
		"pidformat": on(func(s *Sstat) *bool { return &s.Pids }),
		"verbose":   func(s *Sstat, _ Given) error { s.Verbose++; return nil },
	}

}}

// ReadSstat reads a call of sstat. Words beside the options are jobs too.
func ReadSstat(in Input) (*Sstat, error) {
	s := &Sstat{Columns: Separation{Delimiter: "|"}}
	rest, print, err := readOptions(&SstatTable, in, s, sstatEffects.Get())
	if err != nil || print != "" {
		s.Print = print
		return s, err
	}
	for _, word := range rest {
		for _, id := range SplitIDs(word) {
			t, err := ParseTarget(id)
			if err != nil {
				return s, err
			}
			s.Targets = append(s.Targets, t)
		}
	}
	switch {
	case s.Format != "":
	case s.Pids:
		s.Format = sstatPidFormat
	default:
		s.Format = sstatFormat
	}
	if len(s.Targets) == 0 && !s.HelpFormat {
		return s, refusal("You didn't give me any jobs to stat: name them with -j JOB or -j JOB.STEP")
	}
	return s, nil
}
