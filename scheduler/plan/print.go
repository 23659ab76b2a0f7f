package plan

import (
	"fmt"
	"io"
	"strings"
)

// Marks of what is added, removed and changed.
var marks = map[string]string{Added: "+", Removed: "-", Changed: "~"}

// Print writes the report for people. when writes a time in microseconds.
func (r *Report) Print(w io.Writer, when func(us int64) string) {
	if r.Refused != "" {
		fmt.Fprintf(w, "It would be refused: %s\n", r.Refused)
		return
	}
	if r.Same() {
		fmt.Fprintf(w, "Nothing would change: no setting, node, partition or job. %s\n", r.counts())
		return
	}
	for _, part := range []struct {
		title   string
		changes []Change
	}{{"Settings", r.Settings}, {"Nodes", r.Nodes}, {"Partitions", r.Partitions}} {
		if len(part.changes) == 0 {
			continue
		}
		fmt.Fprintf(w, "%s\n", part.title)
		for _, c := range part.changes {
			fmt.Fprintf(w, "  %s %s%s\n", marks[c.Kind], c.Name, c.said())
		}
	}
	if len(r.Jobs) > 0 {
		fmt.Fprintf(w, "Jobs\n")
		for _, j := range r.Jobs {
			fmt.Fprintf(w, "  %s of %s %s; then it %s\n", j.ID, j.User, j.Now.said(when), j.Then.said(when))
		}
	}
	jobs := "jobs"
	if len(r.Jobs) == 1 {
		jobs = "job"
	}
	fmt.Fprintf(w, "%d %s would fare otherwise. %s\n", len(r.Jobs), jobs, r.counts())
}

func (r *Report) counts() string {
	return fmt.Sprintf("Now %d wait and %d run.", r.Pending, r.Running)
}

func (c Change) said() string {
	var parts []string
	for _, f := range c.Fields {
		name := f.Name
		if name != "" {
			name += " "
		}
		switch {
		case c.Kind == Added:
			parts = append(parts, name+f.New)
		case c.Kind == Removed:
			parts = append(parts, name+f.Old)
		default:
			parts = append(parts, fmt.Sprintf("%s%s -> %s", name, shown(f.Old), shown(f.New)))
		}
	}
	text := strings.Join(parts, ", ")
	if c.Note != "" {
		if text != "" {
			text += "; "
		}
		text += c.Note
	}
	if text == "" {
		return ""
	}
	return ": " + text
}

func shown(v string) string {
	if v == "" {
		return "(not set)"
	}
	return v
}

func (f Fate) said(when func(us int64) string) string {
	s := f.Does
	if f.Does == "starts" {
		return s + " on " + f.Nodes
	}
	if f.Reason != "" && f.Reason != "None" {
		s += " (" + f.Reason + ")"
	}
	if f.Text != "" {
		s += ", " + f.Text
	}
	if f.StartUs != 0 {
		s += ", expected to start " + when(f.StartUs)
		if f.Nodes != "" {
			s += " on " + f.Nodes
		}
	}
	return s
}
