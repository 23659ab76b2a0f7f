package slurm

import (
	"fmt"
	"slices"
	"strings"

	"stint/cli/slurm/once"
	"stint/events"
	"stint/projections"
)

// ScrontabTable is the options of scrontab.
var ScrontabTable = Table{Command: "scrontab", Usage: "[-u USER] [FILE | -]  |  [-u USER] -e | -l | -r", Options: []Option{
	{"edit", 'e', None, T1, 0, 0, "", "edit", "", "edit the crontab with $VISUAL, $EDITOR or vi"},
	{"list", 'l', None, T1, 0, 0, "", "list", "", "print the crontab"},
	{"remove", 'r', None, T1, 0, 0, "", "remove", "", "remove the crontab; what runs of it runs on, and does not recur"},
	{"user", 'u', Required, T1, 0, 0, "", "user", "NAME", "the crontab of this user; for root and SlurmUser, -l for operators too"},
	{"verbose", 'v', None, T3, 0, 0, "", "verbose", "", "say more"},
	{"help", 0, None, T1, 0, 0, "", "help", "", "show this help"},
	{"usage", 0, None, T1, 0, 0, "", "usage", "", "show one line of help"},
	{"version", 'V', None, T1, 0, 0, "", "version", "", "show the version"},
	{"autocomplete", 0, Required, T3, 0, 0, "", "", "", ""},
}, Example: `  scrontab - <<'END'
  #SCRON --time=10 --partition=short
  0 5 * * mon  $HOME/bin/report          # Mondays at five; @hourly, @daily … stand for the five fields
  END
`}

// Scrontab is what a call of scrontab asks for.
type Scrontab struct {
	Print   string // not empty: print it and exit with 0
	Edit    bool
	List    bool
	Remove  bool
	User    string // whose, by name or number; empty: the caller's
	File    string // to read it from; - is standard input; empty: not given
	Verbose int
}

var scrontabEffects = once.Value[map[string]func(*Scrontab, Given) error]{Make: func() map[string]func(*Scrontab, Given) error {
	return map[string]func(*Scrontab, Given) error{
		"edit":    on(func(s *Scrontab) *bool { return &s.Edit }),
		"list":    on(func(s *Scrontab) *bool { return &s.List }),
		"remove":  on(func(s *Scrontab) *bool { return &s.Remove }),
		"user":    word(func(s *Scrontab) *string { return &s.User }),
		"verbose": counter(func(s *Scrontab) *int { return &s.Verbose }),
		"help":    doneHere[Scrontab],
		"usage":   doneHere[Scrontab],
		"version": doneHere[Scrontab],
	}

}}

// ReadScrontab reads a call of scrontab. The error is a *Failure.
func ReadScrontab(in Input) (*Scrontab, error) {
	s := &Scrontab{}
	words, print, err := readOptions(&ScrontabTable, in, s, scrontabEffects.Get())
	switch {
	case err != nil:
		return nil, err
	case print != "":
		return &Scrontab{Print: print}, nil
	}
	modes := 0
	for _, m := range []bool{s.Edit, s.List, s.Remove} {
		if m {
			modes++
		}
	}
	switch {
	case modes > 1:
		return nil, ScrontabTable.complain("only one of -e, -l and -r can be had at a time")
	case modes == 1 && len(words) > 0, len(words) > 1:
		return nil, ScrontabTable.complain("%s is one word too many", clip(words[len(words)-1]))
	case len(words) == 1:
		s.File = words[0]
	}
	return s, nil
}

// CrontabFault is what is wrong with a crontab, and on which lines, from 0.
type CrontabFault struct {
	First, Last int
	Text        string
}

func (f *CrontabFault) Error() string {
	if f.First < f.Last {
		return fmt.Sprintf("lines %d to %d: %s", f.First+1, f.Last+1, f.Text)
	}
	return fmt.Sprintf("line %d: %s", f.First+1, f.Text)
}

// notRecurring are the effects of options of sbatch that mean nothing to a job of a crontab, and why.
var notRecurring = once.Value[map[string]string]{Make: func() map[string]string {
	return map[string]string{
		"array": "an array does not recur; have the job submit it", "begin": "the line itself says when", "wrap": "the line itself is the command", "wait": "nobody waits for it",
		"parsable": "nothing is printed", "test-only": "it is for sbatch", "uid": "use scrontab -u", "gid": "jobs have their user's group", "export-file": "use --export=NAME=VALUE",
		"help": "use sbatch --help", "usage": "use sbatch --usage", "version": "use sbatch --version", "ignore-pbs": "only #SCRON lines are read",
	}

}}

// ReadCrontab reads a crontab: what each entry asks for, in order, each with its script and environment. in says what options of
// sbatch depend on; its directory is the home of whose crontab it is, and neither its arguments nor its environment
// count. The error is a *CrontabFault.
func ReadCrontab(text string, in SbatchInput) ([]*Submission, error) {
	in.Args, in.Environ = nil, nil
	var entries []*Submission
	var variables []variable
	var options []Given
	var kept []string // lines with options
	first := -1
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		body := strings.TrimLeft(line, " \t")
		fault := func(err error) *CrontabFault { return &CrontabFault{i, i, err.Error()} }
		switch rest, scron := strings.CutPrefix(body, "#SCRON"); {
		case strings.ContainsRune(line, 0):
			return nil, fault(fmt.Errorf("it holds a NUL byte"))
		case body == "":
			continue
		case scron:
			given, err := scronOptions(rest, in.Release)
			if err != nil {
				return nil, fault(err)
			}
			if first < 0 {
				first = i
			}
			options, kept = append(options, given...), append(kept, body)
			continue
		case body[0] == '#':
			continue
		}
		if v, ok, err := readVariable(body); err != nil {
			return nil, fault(err)
		} else if ok {
			variables = append(variables, v)
			continue
		}
		cron, command, err := parseCron(body)
		if err != nil {
			return nil, fault(err)
		}
		if first < 0 {
			first = i
		}
		cron.FirstLine, cron.LastLine = uint32(first), uint32(i)
		s, err := cronEntry(cron, expandVariables(command, variables), options, kept, in)
		if err != nil {
			return nil, &CrontabFault{first, i, err.Error()}
		}
		entries = append(entries, s)
		options, kept, first = nil, nil, -1
	}
	return entries, nil
}

// scronOptions reads the options of one #SCRON line.
func scronOptions(text string, r Release) ([]Given, error) {
	words, err := splitDirective(text)
	if err != nil {
		return nil, err
	}
	given, rest, err := SbatchTable.Parse(words, r)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%s is no option; a #SCRON line holds options of sbatch, and values with blanks are quoted", clip(rest[0]))
	}
	for _, g := range given {
		if why, known := notRecurring.Get()[g.Option.Effect]; known {
			return nil, fmt.Errorf("%s is not for a crontab: %s", g.Option.Spelled(), why)
		}
	}
	return given, nil
}

// cronEntry is what one entry asks for.
func cronEntry(cron *events.Cron, command string, options []Given, lines []string, in SbatchInput) (*Submission, error) {
	if command = strings.TrimSpace(command); command == "" {
		return nil, fmt.Errorf("no command is left behind the times once its variables have their values")
	}
	q := newRequest(in)
	for _, g := range options {
		if err := q.apply(g); err != nil {
			return nil, err
		}
	}
	if err := q.finish(); err != nil {
		return nil, err
	}
	s := q.Spec
	s.Cron, s.Command, s.SubmitLine = cron, command, "scrontab"
	if s.Name == "" {
		s.Name, _, _ = strings.Cut(command, " ")
	}
	s.GetUserEnv = true
	if !slices.Contains(q.Environ, "SLURM_GET_USER_ENV=1") {
		q.Environ = append(q.Environ, "SLURM_GET_USER_ENV=1")
	}
	var script strings.Builder
	script.WriteString("#!/bin/sh\n# This script is of an entry of a crontab.\n")
	for _, line := range lines {
		script.WriteString(line + "\n")
	}
	fmt.Fprintf(&script, "# It runs at: %s\n%s\n", cron.Text(), command)
	q.Script = []byte(script.String())
	return &q.Submission, nil
}

// variable is a line NAME=value, which counts for the lines behind it.
type variable struct{ name, value string }

// readVariable reads a line that sets a variable, as crontab(5) has it: blanks may stand around the =, and quotes around the value.
func readVariable(line string) (v variable, is bool, err error) {
	name, value, found := strings.Cut(line, "=")
	name = strings.TrimRight(name, " \t")
	if !found || !isName(name) {
		return v, false, nil
	}
	value = strings.TrimSpace(value)
	if value != "" && (value[0] == '"' || value[0] == '\'') {
		end := strings.IndexByte(value[1:], value[0])
		switch {
		case end < 0:
			return v, false, errQuote
		case end+2 < len(value):
			return v, false, fmt.Errorf("something stands behind the quoted value of %s", clip(name))
		}
		value = value[1 : end+1]
	}
	return variable{name, value}, true, nil
}

func isName(s string) bool {
	for i, c := range []byte(s) {
		if !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}

// expandVariables puts the values of variables into a command, where it says $NAME or ${NAME}. Other names are left to the shell.
func expandVariables(command string, variables []variable) string {
	if len(variables) == 0 {
		return command
	}
	values := map[string]string{}
	for _, v := range variables {
		values[v.name] = v.value
	}
	var out strings.Builder
	for rest := command; rest != ""; {
		before, after, found := strings.Cut(rest, "$")
		out.WriteString(before)
		if !found {
			break
		}
		name, braced := after, strings.HasPrefix(after, "{")
		end := 0
		if braced {
			name = after[1:]
		}
		for end < len(name) && isName(name[:end+1]) {
			end++
		}
		value, known := values[name[:end]]
		switch {
		case known && braced && strings.HasPrefix(name[end:], "}"):
			out.WriteString(value)
			rest = name[end+1:]
		case known && !braced:
			out.WriteString(value)
			rest = name[end:]
		default:
			out.WriteByte('$')
			rest = after
		}
	}
	return out.String()
}

// MarkLines puts a mark before lines of a text, given from line to line, from 0. Without any the text is as it was.
func MarkLines(text, mark string, ranges []*projections.LineRange) string {
	if len(ranges) == 0 {
		return text
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := range lines {
		for _, r := range ranges {
			if uint32(i) >= r.First && uint32(i) <= r.Last {
				lines[i] = mark + lines[i]
				break
			}
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// What marks lines of a crontab: those whose job was cancelled, and those with a fault.
const (
	MarkDisabled = "#DISABLED: "
	MarkBad      = "#BAD: "
)

// NewCrontab is what is edited where there is no crontab yet.
const NewCrontab = `# Jobs that recur, one a line: when, and a command for /bin/sh.
#
# minute (0-59)  hour (0-23)  day of month (1-31)  month (1-12, jan-dec)  day of week (0-7, sun-sat)  command
#
# * is any; lists (1,15), ranges (mon-fri: 1-5) and steps (*/10) may be used. @hourly, @daily, @weekly, @monthly and @yearly
# stand for the five fields. The times are the cluster's. Options of sbatch stand before the line that they are for:
#
#SCRON --time=10
# 0 5 * * * $HOME/bin/report
`
