package slurm

import (
	"errors"
	"strings"
)

var errUnquoted = errors.New("a quotation mark is not closed")

// Exported is the environment that --export lets through.
type Exported struct {
	Environ    []string // NAME=value, in the order of the submitter's environment, then what --export sets
	GetUserEnv bool     // the node is to load the user's login environment first: not everything passed
}

// Export applies the value of --export to an environment. given says whether the option was given at all: without it, and
// with ALL, everything passes. NONE and NIL let only SLURM_* pass, a list of names these and what it names, NAME=value
// sets. Values may be quoted to hold commas. Always: variables that are not NAME=value are dropped.
func Export(environ []string, value string, given bool) (Exported, error) {
	var out Exported
	all := !given
	var names []string
	set := map[string]string{}
	var order []string
	if given {
		terms, err := splitQuoted(value)
		if err != nil {
			return out, usage("--export=%s: %v", clip(value), err)
		}
		nothing := len(terms) == 1 && strings.EqualFold(terms[0], "NIL")
		for _, term := range terms {
			name, v, assigned := strings.Cut(term, "=")
			switch {
			case assigned && name == "":
				return out, usage("%s in --export is not NAME=VALUE", clip(term))
			case assigned:
				if _, twice := set[name]; !twice {
					order = append(order, name)
				}
				set[name] = v
			case strings.EqualFold(term, "ALL"):
				all = true
			case nothing || strings.EqualFold(term, "NONE") && len(terms) == 1:
			case term != "":
				names = append(names, term)
			}
		}
		out.GetUserEnv = !all && !nothing
	}
	pass := map[string]bool{}
	for _, n := range names {
		pass[n] = true
	}
	for _, nv := range environ {
		name, _, ok := strings.Cut(nv, "=")
		if !ok || name == "" {
			continue
		}
		if _, replaced := set[name]; replaced {
			continue
		}
		if all || pass[name] || strings.HasPrefix(name, "SLURM_") {
			out.Environ = append(out.Environ, nv)
		}
	}
	for _, name := range order {
		out.Environ = append(out.Environ, name+"="+set[name])
	}
	return out, nil
}

// splitQuoted splits at commas outside quotes, and takes the quotes off.
func splitQuoted(s string) ([]string, error) {
	var terms []string
	var b strings.Builder
	var quote rune
	for _, c := range s {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && c == ',':
			terms = append(terms, b.String())
			b.Reset()
		default:
			b.WriteRune(c)
		}
	}
	if quote != 0 {
		return nil, errUnquoted
	}
	return append(terms, b.String()), nil
}
