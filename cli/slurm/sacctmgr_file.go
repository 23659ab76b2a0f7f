package slurm

import (
	"fmt"
	"strings"
)

// FileLine is one line of a file of sacctmgr's dump: what it is about (cluster, parent, account, user), of what name, with
// which settings.
type FileLine struct {
	Number int
	Kind   string
	Name   string
	Terms  []Term
}

// Limits on a dump file: far above what sites have.
const (
	maxFileLines = 2_000_000
	maxFileTerms = 100
)

// ReadFile reads a file as sacctmgr dumps it and sites write it: `Kind - 'name':Key=Value:Key='value, value'`, # begins a
// comment. The error names the line.
func ReadFile(text string) ([]FileLine, error) {
	var out []FileLine
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		if n++; n > maxFileLines {
			return nil, fmt.Errorf("the file has more than %d lines", maxFileLines)
		}
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		kind, rest, ok := strings.Cut(line, "-")
		if !ok {
			return nil, fmt.Errorf("line %d: %s is not KIND - 'NAME':…", n, clip(line))
		}
		l := FileLine{Number: n}
		switch word := strings.TrimSpace(kind); {
		case Keyed(word, "cluster", 1):
			l.Kind = "cluster"
		case Keyed(word, "parent", 1):
			l.Kind = "parent"
		case Keyed(word, "account", 1), Keyed(word, "project", 2):
			l.Kind = "account"
		case Keyed(word, "user", 1):
			l.Kind = "user"
		default:
			return nil, fmt.Errorf("line %d: %s is not one of Cluster, Parent, Account and User", n, clip(word))
		}
		for i, part := range splitColons(rest) {
			part = strings.TrimSpace(part)
			if i == 0 {
				l.Name = strings.TrimSpace(unquoted(part))
				continue
			}
			if part == "" {
				continue
			}
			terms := ParseTerms([]string{part})
			if len(terms) != 1 || terms[0].Key == "" {
				return nil, fmt.Errorf("line %d: %s is not KEY=VALUE", n, clip(part))
			}
			if l.Terms = append(l.Terms, terms[0]); len(l.Terms) > maxFileTerms {
				return nil, fmt.Errorf("line %d has more than %d settings", n, maxFileTerms)
			}
		}
		if l.Kind != "cluster" {
			l.Name = strings.ToLower(l.Name)
		}
		if l.Name == "" {
			return nil, fmt.Errorf("line %d: the %s has no name", n, l.Kind)
		}
		out = append(out, l)
	}
	return out, nil
}

// splitColons splits at colons that are in no quotes and begin no type of a resource (GrpTRES=gres/gpu:a100=4).
func splitColons(s string) []string {
	var out []string
	var quote byte
	from := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == ':' && !inTres(s[from:i]):
			out = append(out, s[from:i])
			from = i + 1
		}
	}
	return append(out, s[from:])
}

// inTres says whether what stands before a colon ends in a resource's name, whose type the colon begins: GrpTRES=gres/gpu.
func inTres(before string) bool {
	item := before
	if i := strings.LastIndexAny(before, ",="); i >= 0 {
		item = before[i+1:]
	}
	for _, kind := range []string{"gres/", "license/", "bb/", "ic/", "interconnect/"} {
		if strings.HasPrefix(item, kind) {
			return true
		}
	}
	return false
}
