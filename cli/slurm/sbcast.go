package slurm

import (
	"path"
	"strconv"
	"strings"

	"stint/cli/slurm/once"
)

// SbcastTable is the options of sbcast.
var SbcastTable = Table{Command: "sbcast", Usage: "[OPTIONS...] SOURCE DESTINATION", Options: []Option{
	{"compress", 'C', Optional, T1, 0, 0, "SBCAST_COMPRESS", "compress", "KIND", "compress what is sent: lz4 stands for whatever is at hand; none"},
	{"exclude", 0, Required, T2, 0, 0, "SBCAST_EXCLUDE", "", "", "libraries are not sent along, so none is left out"},
	{"fanout", 'F', Required, T2, 0, 0, "SBCAST_FANOUT", "fanout", "N", "send to so many nodes, which pass it on to the others"},
	{"treewidth", 0, Required, T2, 2311, 0, "", "fanout", "N", "the same as --fanout"},
	{"force", 'f', None, T1, 0, 0, "SBCAST_FORCE", "force", "", "replace a file that is there"},
	{"help", 0, None, T3, 0, 0, "", "help", "", "show this help"},
	{"jobid", 'j', Required, T1, 0, 0, "SLURM_JOB_ID", "jobid", "ID[.STEP]", "to the nodes of this job or step"},
	{"no-allocation", 'Z', None, T2, 2411, 0, "", "", "", "files go to the nodes of a job, as its user"},
	{"nodelist", 'w', Required, T2, 2411, 0, "", "nodelist", "NODES", "to these nodes of the job only"},
	{"preserve", 'p', None, T1, 0, 0, "SBCAST_PRESERVE", "preserve", "", "keep times and mode"},
	{"send-libs", 0, Optional, T2, 0, 0, "SBCAST_SEND_LIBS", "", "", "libraries are not sent along; put them where every node sees them"},
	{"size", 's', Required, T2, 0, 0, "SBCAST_SIZE", "size", "BYTES", "send pieces of this size, with k or m behind it (4m)"},
	{"timeout", 't', Required, T2, 0, 0, "SBCAST_TIMEOUT", "timeout", "SECONDS", "give a node so long to take a piece (60)"},
	{"usage", 0, None, T3, 0, 0, "", "usage", "", "show one line of help"},
	{"verbose", 'v', None, T1, 0, 0, "", "verbose", "", "say more"},
	{"version", 'V', None, T1, 0, 0, "", "version", "", "show the version"},
	{"autocomplete", 0, Required, T3, 0, 0, "", "", "", ""},
}}

// Sbcast is what a call of sbcast asks for.
type Sbcast struct {
	Print           string // not empty: print it and exit with 0
	Job             uint32
	Step            uint32 // with HasStep: to the nodes of this step only
	HasStep         bool
	Source, Target  string
	Nodes           []string // none: all of the job
	Compress, Force bool
	Preserve        bool
	Size            int // bytes of a piece
	Fanout          int // 0: as suits
	Timeout         int // seconds
	Verbose         int
}

// The least and the most that a piece has, in bytes.
const (
	sbcastLeast = 1 << 10
	sbcastMost  = 7 << 20
)

var sbcastEffects = once.Value[map[string]func(*Sbcast, Given) error]{Make: func() map[string]func(*Sbcast, Given) error {
	return map[string]func(*Sbcast, Given) error{
		"compress": func(s *Sbcast, g Given) error {
			var err error
			s.Compress, err = compressing(g.Value)
			return err
		},
		"fanout":  number("number of nodes", func(s *Sbcast) *int { return &s.Fanout }),
		"timeout": number("number of seconds", func(s *Sbcast) *int { return &s.Timeout }),
		"force":   on(func(s *Sbcast) *bool { return &s.Force }),
		"help":    doneHere[Sbcast],
		"usage":   doneHere[Sbcast],
		"version": doneHere[Sbcast],
		"jobid": func(s *Sbcast, g Given) error {
			t, err := ParseTarget(g.Value)
			if err != nil {
				return usage("%s: %s is no job id", g.Option.Spelled(), clip(g.Value))
			}
			s.Job, s.Step, s.HasStep = t.Job, t.Step, t.HasStep
			return nil
		},
		"nodelist": func(s *Sbcast, g Given) (err error) {
			s.Nodes, err = expand(g.Value)
			return err
		},
		"preserve": on(func(s *Sbcast) *bool { return &s.Preserve }),
		"size": func(s *Sbcast, g Given) error {
			text, by := strings.ToLower(g.Value), 1
			switch {
			case strings.HasSuffix(text, "k"):
				by = 1 << 10
			case strings.HasSuffix(text, "m"):
				by = 1 << 20
			}
			n, err := strconv.Atoi(strings.TrimRight(text, "km"))
			if err != nil || n <= 0 || n > 1<<30/by {
				return usage("--size: %s is no number of bytes: write 512k or 4m", clip(g.Value))
			}
			s.Size = min(max(n*by, sbcastLeast), sbcastMost)
			return nil
		},
		"verbose": func(s *Sbcast, _ Given) error { s.Verbose++; return nil },
	}

}}

// compressing reads --compress: what is at hand stands for any kind.
func compressing(value string) (bool, error) {
	switch strings.ToLower(value) {
	case "", "lz4", "zlib", "1", "yes":
		return true, nil
	case "none", "0", "no":
		return false, nil
	}
	return false, refusal("--compress=%s is no kind that is known: lz4 or none", clip(value))
}

// number reads an option that is a whole number, 1 at least.
func number[R any](what string, field func(*R) *int) func(*R, Given) error {
	return func(r *R, g Given) error {
		n, err := strconv.ParseUint(g.Value, 10, 31)
		if err != nil || n == 0 {
			return usage("%s: %s is no %s", g.Option.Spelled(), clip(g.Value), what)
		}
		*field(r) = int(n)
		return nil
	}
}

// ReadSbcast reads a call of sbcast.
func ReadSbcast(in Input) (*Sbcast, error) {
	s := &Sbcast{Size: 4 << 20, Timeout: 60}
	rest, print, err := readOptions(&SbcastTable, in, s, sbcastEffects.Get())
	switch {
	case err != nil || print != "":
		s.Print = print
		return s, err
	case len(rest) != 2:
		return s, refusal("Need two file names, have %d names", len(rest))
	case strings.HasSuffix(rest[1], "/") || path.Base(rest[1]) == "..":
		return s, refusal("Target filename cannot be a directory.")
	case s.Job == 0:
		return s, refusal("Need a job id to run this command.  Run from within a Slurm job or use the --jobid option.")
	}
	s.Source, s.Target = rest[0], rest[1]
	return s, nil
}
