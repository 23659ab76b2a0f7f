package slurm

import "stint/cli/slurm/once"

// SdiagTable is the options of sdiag.
var SdiagTable = Table{Command: "sdiag", Usage: "[OPTIONS...]", Options: []Option{
	{"all", 'a', None, T1, 0, 0, "", "all", "", "show all statistics; so it does without"},
	{"cluster", 'M', Required, T1, 0, 0, "SLURM_CLUSTERS", "clusters", "NAME", "of this cluster"},
	{"help", 'h', None, T1, 0, 0, "", "help", "", "show this help"},
	{"json", 0, Optional, T1, 2302, 0, "", "json", "v0.0.42", "as JSON, for programs"},
	{"reset", 'r', None, T1, 0, 0, "", "reset", "", "count anew; for administrators"},
	{"sort-by-id", 'i', None, T2, 0, 0, "", "sort-by-id", "", "order calls by their numbers"},
	{"sort-by-time", 't', None, T2, 0, 0, "", "sort-by-time", "", "order calls by the time they took in all"},
	{"sort-by-time2", 'T', None, T2, 0, 0, "", "sort-by-time2", "", "order calls by the time one took on average"},
	{"usage", 0, None, T1, 0, 0, "", "usage", "", "show one line of help"},
	{"version", 'V', None, T1, 0, 0, "", "version", "", "show the version"},
	{"yaml", 0, Optional, T2, 2302, 0, "", "", "", ""},
}}

// Sdiag is what a call of sdiag asks for.
type Sdiag struct {
	JSON     bool
	Print    string // not empty: print it and exit with 0
	Reset    bool
	Order    byte // i, t or T as the option is called; 0: by how often
	Clusters string
}

var sdiagEffects = once.Value[map[string]func(*Sdiag, Given) error]{Make: func() map[string]func(*Sdiag, Given) error {
	return map[string]func(*Sdiag, Given) error{
		"all":           doneHere[Sdiag],
		"help":          doneHere[Sdiag],
		"usage":         doneHere[Sdiag],
		"version":       doneHere[Sdiag],
		"clusters":      word(func(s *Sdiag) *string { return &s.Clusters }),
		"json":          asJSON(func(s *Sdiag) (*bool, *string) { return &s.JSON, &s.Print }),
		"reset":         on(func(s *Sdiag) *bool { return &s.Reset }),
		"sort-by-id":    func(s *Sdiag, _ Given) error { s.Order = 'i'; return nil },
		"sort-by-time":  func(s *Sdiag, _ Given) error { s.Order = 't'; return nil },
		"sort-by-time2": func(s *Sdiag, _ Given) error { s.Order = 'T'; return nil },
	}

}}

// ReadSdiag reads a call of sdiag. The error is a *Failure.
func ReadSdiag(in Input) (*Sdiag, error) {
	s := &Sdiag{}
	rest, print, err := readOptions(&SdiagTable, in, s, sdiagEffects.Get())
	switch {
	case err != nil:
		return nil, err
	case print != "":
		return &Sdiag{Print: print}, nil
	case len(rest) > 0:
		return nil, refusal("Unrecognized option: %s; sdiag takes options only", clip(rest[0]))
	}
	return s, nil
}
