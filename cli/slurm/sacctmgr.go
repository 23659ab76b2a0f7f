package slurm

import (
	"strings"

	"stint/cli/slurm/once"
)

// SacctmgrTable is the options of sacctmgr.
var SacctmgrTable = Table{Command: "sacctmgr", Usage: "[OPTIONS...] COMMAND ENTITY [SPECS...]", Options: []Option{
	{"associations", 's', None, T1, 0, 0, "", "associations", "", "with show: the associations of what is shown too"},
	{"help", 'h', None, T1, 0, 0, "", "help", "", "show this help"},
	{"immediate", 'i', None, T1, 0, 0, "", "immediate", "", "commit without asking"},
	{"json", 0, Optional, T2, 2302, 0, "", "json", "v0.0.42", "as JSON, for programs"},
	{"noheader", 'n', None, T1, 0, 0, "", "noheader", "", "no header"},
	{"oneliner", 'o', None, T3, 0, 0, "", "oneliner", "", "one line for each record, as it always is"},
	{"parsable", 'p', None, T1, 0, 0, "", "parsable", "", "columns are ended by |"},
	{"parsable2", 'P', None, T1, 0, 0, "", "parsable2", "", "columns are separated by |"},
	{"quiet", 'Q', None, T1, 0, 0, "", "quiet", "", "print errors only"},
	{"readonly", 'r', None, T1, 0, 0, "", "readonly", "", "change nothing"},
	{"usage", 0, None, T2, 0, 0, "", "usage", "", "show one line of help"},
	{"verbose", 'v', None, T1, 0, 0, "", "verbose", "", "say more"},
	{"version", 'V', None, T1, 0, 0, "", "version", "", "show the version"},
	{"yaml", 0, Optional, T2, 2302, 0, "", "", "", ""},
	{"autocomplete", 0, Required, T3, 0, 0, "", "", "", ""},
}}

// Sacctmgr is what a call of sacctmgr asks for.
type Sacctmgr struct {
	Print     string // not empty: print it and exit with 0
	Immediate bool
	JSON      bool
	NoHeader  bool
	Parsable  int // 1: columns end in |, 2: columns are separated by it
	Quiet     bool
	ReadOnly  bool
	WithAssoc bool
	Verbose   int

	Words []string // the command: empty means that commands are read from standard input
}

var sacctmgrEffects = once.Value[map[string]func(*Sacctmgr, Given) error]{Make: func() map[string]func(*Sacctmgr, Given) error {
	return map[string]func(*Sacctmgr, Given) error{
		"associations": on(func(s *Sacctmgr) *bool { return &s.WithAssoc }),
		"help":         doneHere[Sacctmgr],
		"usage":        doneHere[Sacctmgr],
		"version":      doneHere[Sacctmgr],
		"immediate":    on(func(s *Sacctmgr) *bool { return &s.Immediate }),
		"json":         asJSON(func(s *Sacctmgr) (*bool, *string) { return &s.JSON, &s.Print }),
		"noheader":     on(func(s *Sacctmgr) *bool { return &s.NoHeader }),
		"oneliner":     doneHere[Sacctmgr],
		"parsable":     func(s *Sacctmgr, _ Given) error { s.Parsable = 1; return nil },
		"parsable2":    func(s *Sacctmgr, _ Given) error { s.Parsable = 2; return nil },
		"quiet":        on(func(s *Sacctmgr) *bool { return &s.Quiet }),
		"readonly":     on(func(s *Sacctmgr) *bool { return &s.ReadOnly }),
		"verbose":      counter(func(s *Sacctmgr) *int { return &s.Verbose }),
	}

}}

// ReadSacctmgr reads a call of sacctmgr. The error is a *Failure.
func ReadSacctmgr(in Input) (*Sacctmgr, error) {
	s := &Sacctmgr{}
	words, print, err := readOptions(&SacctmgrTable, in, s, sacctmgrEffects.Get())
	if err != nil {
		return nil, err
	}
	if print != "" {
		s.Print = print
	}
	s.Words = words
	return s, nil
}

// Term is one word of a command of sacctmgr: key=value, key+=value, key-=value, or a word alone (key empty).
type Term struct {
	Key   string // lower case
	Op    string // =, += or -=
	Value string // without quotes
	Set   bool   // after `set`
	Where bool   // after `where`
}

// ParseTerms takes the words after a command and its entity apart.
func ParseTerms(words []string) []Term {
	var out []Term
	set, where := false, false
	for _, w := range words {
		switch strings.ToLower(w) {
		case "set":
			set, where = true, false
			continue
		case "where":
			set, where = false, true
			continue
		}
		t := Term{Value: unquoted(w), Set: set, Where: where}
		if i := strings.IndexByte(w, '='); i > 0 && w[0] != '\'' && w[0] != '"' {
			key, op := w[:i], "="
			if c := key[len(key)-1]; c == '+' || c == '-' {
				key, op = key[:len(key)-1], string(c)+"="
			}
			t.Key, t.Op, t.Value = strings.ToLower(key), op, unquoted(w[i+1:])
		}
		out = append(out, t)
	}
	return out
}

func unquoted(s string) string {
	if len(s) >= 2 && (s[0] == '\'' || s[0] == '"') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// SplitNames takes a list of names apart: commas between, quotes around a list or a name, brackets of numbers left alone.
// Duplicates and empty names are dropped. Names are lower case unless keep says otherwise.
func SplitNames(list string, keep bool) []string {
	var out []string
	seen := map[string]bool{}
	for _, n := range strings.Split(unquoted(list), ",") {
		n = unquoted(strings.TrimSpace(n))
		if !keep {
			n = strings.ToLower(n)
		}
		if n != "" && !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}

// Keyed says whether what was typed means a key: a beginning of it, of at least so many letters.
func Keyed(typed, key string, least int) bool {
	typed = strings.ToLower(typed)
	return len(typed) >= least && strings.HasPrefix(strings.ToLower(key), typed)
}

// SplitLine takes one line of commands apart into words: blanks between, quotes hold words together and stay.
func SplitLine(line string) []string {
	var out []string
	var b strings.Builder
	var quote byte
	in := false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0:
			b.WriteByte(c)
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote, in = c, true
			b.WriteByte(c)
		case c == ' ' || c == '\t' || c == '\r':
			if in {
				out = append(out, b.String())
				b.Reset()
				in = false
			}
		default:
			in = true
			b.WriteByte(c)
		}
	}
	if in {
		out = append(out, b.String())
	}
	return out
}
