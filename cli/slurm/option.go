package slurm

import (
	"fmt"
	"strings"
)

// Arg says whether an option takes a value.
type Arg byte

const (
	None     Arg = iota
	Required     // --opt=val, --opt val, -oval, -o val
	Optional     // --opt, --opt=val, -oval
	Next         // as Optional, and the next word is the value too unless it is an option (squeue -j)
)

// Rank says how widely an option is used: T1 by nearly everybody, T2 at many sites, T3 rarely.
type Rank byte

const (
	T1 Rank = 1 + iota
	T2
	T3
)

// Release is a release of Slurm whose behaviour is wanted, as year and month: 2205, 2605.
type Release int

const (
	Release2205 Release = 2205
	Release2605 Release = 2605
)

// ParseRelease reads the value of SlurmCompat.
func ParseRelease(s string) (Release, bool) {
	switch s {
	case "22.05":
		return Release2205, true
	case "26.05", "":
		return Release2605, true
	}
	return 0, false
}

// Version is what the commands print for -V.
func (r Release) Version() string {
	if r == Release2205 {
		return "slurm 22.05.8"
	}
	return "slurm 26.05.0"
}

// Number is the version alone: 22.05.8.
func (r Release) Number() string { return strings.TrimPrefix(r.Version(), "slurm ") }

func (r Release) String() string { return fmt.Sprintf("%02d.%02d", r/100, r%100) }

// Option is one line of a command's table.
type Option struct {
	Name   string // long name, empty if there is none
	Short  byte   // one letter, 0 if there is none
	Arg    Arg
	Rank   Rank
	Since  Release // first release that has it, 0: all
	Until  Release // last release that has it, 0: still there
	Env    string  // environment variables that give it, separated by blanks, the first that is set counts
	Effect string  // what it sets; empty: known but not supported, refused by name
	Value  string  // the value's name in the help
	Help   string  // of one that is refused: why, and what to do instead
}

// Spelled is how the option is written in sentences.
func (o *Option) Spelled() string {
	switch {
	case o.Name != "":
		return "--" + o.Name
	case o.Short == 0:
		return o.Env // a variable alone
	}
	return "-" + string(o.Short)
}

func (o *Option) in(r Release) bool {
	return (o.Since == 0 || r >= o.Since) && (o.Until == 0 || r <= o.Until)
}

// Table is the options of one command.
type Table struct {
	Command string
	Usage   string   // what follows the command's name in the usage line
	Options []Option // in the order of the help
	Example string   // for the end of the help; empty: none
	Submits bool     // sbatch, srun, salloc: the first word that is no option ends the options, and bad ones exit with 255
}

func (t *Table) exit() int {
	if t.Submits {
		return ExitUsage
	}
	return ExitFailed
}

// Source says where an option was given; later ones outrank earlier ones.
type Source byte

const (
	FromEarlier Source = iota // given to an earlier component of a heterogeneous job
	FromScript
	FromEnvironment
	FromCommandLine
)

// Given is an option as it was met.
type Given struct {
	Option *Option
	Value  string
	Has    bool // a value was given, perhaps an empty one
	Source Source
	Where  string // for sentences: `line 3 of the script`, `SBATCH_TIMELIMIT`; empty on the command line
}

// Parse reads arguments by the rules of GNU getopt_long: clustered short options, values joined or apart, long options
// shortened to any unambiguous prefix, `--` to end them. It returns the options in the order met and the other words.
func (t *Table) Parse(args []string, r Release) (given []Given, words []string, err error) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			return given, append(words, args[i+1:]...), nil
		case len(arg) < 2 || arg[0] != '-':
			if t.Submits {
				return given, append(words, args[i:]...), nil
			}
			words = append(words, arg)
		case strings.HasPrefix(arg, "--"):
			name, value, has := strings.Cut(arg[2:], "=")
			o, err := t.long(name, r)
			if err != nil {
				return nil, nil, err
			}
			if has && o.Arg == None {
				return nil, nil, t.complain("option '--%s' doesn't allow an argument", o.Name)
			}
			if !has && o.Arg == Required {
				if i++; i == len(args) {
					return nil, nil, t.complain("option '--%s' requires an argument", o.Name)
				}
				value, has = args[i], true
			}
			if !has && o.Arg == Next && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				i++
				value, has = args[i], true
			}
			given = append(given, Given{Option: o, Value: value, Has: has, Source: FromCommandLine})
		default:
			for j := 1; j < len(arg); j++ {
				o := t.short(arg[j], r)
				if o == nil {
					return nil, nil, t.complain("invalid option -- '%s'", printable(arg[j]))
				}
				g := Given{Option: o, Source: FromCommandLine}
				if o.Arg != None && j+1 < len(arg) {
					g.Value, g.Has = arg[j+1:], true
					j = len(arg)
				} else if o.Arg == Required {
					if i++; i == len(args) {
						return nil, nil, t.complain("option requires an argument -- '%c'", o.Short)
					}
					g.Value, g.Has = args[i], true
				} else if o.Arg == Next && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
					i++
					g.Value, g.Has = args[i], true
				}
				given = append(given, g)
			}
		}
	}
	return given, words, nil
}

func printable(c byte) string {
	if c < ' ' || c > '~' {
		return fmt.Sprintf("\\x%02x", c)
	}
	return string(c)
}

func (t *Table) complain(format string, args ...any) *Failure {
	return &Failure{Text: fmt.Sprintf(format, args...), Exit: t.exit(), Bare: true, Hint: true}
}

func (t *Table) short(c byte, r Release) *Option {
	for i := range t.Options {
		if o := &t.Options[i]; o.Short == c && o.in(r) {
			return o
		}
	}
	return nil
}

// long finds an option by its whole name or an unambiguous prefix. Names for the same thing are not ambiguous.
func (t *Table) long(name string, r Release) (*Option, error) {
	var found *Option
	var also []string
	for i := range t.Options {
		o := &t.Options[i]
		if o.Name == "" || !o.in(r) || !strings.HasPrefix(o.Name, name) {
			continue
		}
		if o.Name == name {
			return o, nil
		}
		if found == nil || o.Effect != found.Effect || o.Effect == "" || o.Arg != found.Arg {
			also = append(also, "--"+o.Name)
		}
		if found == nil {
			found = o
		}
	}
	if len(also) > 1 {
		return nil, t.complain("option '--%s' is ambiguous; possibilities: %s", name, strings.Join(also, " "))
	}
	if found != nil && name != "" {
		return found, nil
	}
	return nil, t.unknown(name, r)
}

func (t *Table) unknown(name string, r Release) *Failure {
	var names []string
	for i := range t.Options {
		o := &t.Options[i]
		if o.in(r) {
			names = append(names, o.Name)
		} else if o.Name == name {
			if o.Since > r {
				return t.complain("unrecognized option '--%s': Slurm has it since %s, and %s is emulated", name, o.Since, r)
			}
			return t.complain("unrecognized option '--%s': Slurm dropped it after %s, and %s is emulated", name, o.Until, r)
		}
	}
	if near, ok := Nearest(name, names); ok {
		return t.complain("unrecognized option '--%s'; did you mean '--%s'?", name, near)
	}
	return t.complain("unrecognized option '--%s'", name)
}

// FromEnv returns the options that environment variables give, in the order of the table.
func (t *Table) FromEnv(lookup func(string) (string, bool), r Release) []Given {
	var given []Given
	for i := range t.Options {
		o := &t.Options[i]
		if o.Env == "" || !o.in(r) {
			continue
		}
		for _, name := range strings.Fields(o.Env) {
			if value, ok := lookup(name); ok {
				given = append(given, Given{Option: o, Value: value, Has: true, Source: FromEnvironment, Where: name})
				break
			}
		}
	}
	return given
}

// Refused returns the failure for an option that is known and not supported.
func (t *Table) Refused(g Given) *Failure {
	why := ""
	if g.Option.Help != "" && g.Option.Effect == "" {
		why = ": " + g.Option.Help
	}
	if g.Source == FromEnvironment {
		return refusal("%s asks for %s, which Stint does not support yet%s; unset it", g.Where, g.Option.Spelled(), why)
	}
	if why == "" {
		why = "; leave it out"
	}
	where := ""
	if g.Where != "" {
		where = " (" + g.Where + ")"
	}
	return refusal("the option %s%s is not supported by Stint yet%s", g.Option.Spelled(), where, why)
}

// Lookup makes a function that finds variables in a list of NAME=value strings; of several the last counts.
func Lookup(environ []string) func(string) (string, bool) {
	vars := make(map[string]string, len(environ))
	for _, nv := range environ {
		if name, value, ok := strings.Cut(nv, "="); ok {
			vars[name] = value
		}
	}
	return func(name string) (string, bool) { value, ok := vars[name]; return value, ok }
}
