package slurm

import (
	"fmt"
	"strings"
)

// Help is what the command prints for --help: every option that works, as the release emulated has it.
func (t *Table) Help(r Release) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s %s\n\n", t.Command, t.Usage)
	for i := range t.Options {
		o := &t.Options[i]
		if o.Effect == "" || o.Help == "" || !o.in(r) {
			continue
		}
		left := "      "
		if o.Short != 0 {
			left = fmt.Sprintf("  -%c, ", o.Short)
		}
		if o.Name == "" {
			left = fmt.Sprintf("  -%c ", o.Short) + o.Value
		} else {
			left += "--" + o.Name
			switch o.Arg {
			case Required:
				left += "=" + o.Value
			case Optional, Next:
				left += "[=" + o.Value + "]"
			}
		}
		if len(left) > 33 {
			fmt.Fprintf(&b, "%s\n%-34s%s\n", left, "", o.Help)
			continue
		}
		fmt.Fprintf(&b, "%-34s%s\n", left, o.Help)
	}
	if t.Example != "" {
		fmt.Fprintf(&b, "\nExample:\n%s", t.Example)
	}
	return b.String()
}

// UsageLine is what the command prints for --usage.
func (t *Table) UsageLine() string { return fmt.Sprintf("Usage: %s %s\n", t.Command, t.Usage) }

// Completion is one word a shell may offer.
type Completion struct{ Word, Help string }

// Complete returns the options that begin with what was typed, those that are not supported left out.
func (t *Table) Complete(typed string, r Release) []Completion {
	var words []Completion
	for i := range t.Options {
		o := &t.Options[i]
		if o.Effect == "" || !o.in(r) {
			continue
		}
		if word := "--" + o.Name; o.Name != "" && strings.HasPrefix(word, typed) {
			if o.Arg == Required {
				word += "="
			}
			words = append(words, Completion{word, o.Help})
		} else if word := "-" + string(o.Short); o.Name == "" && o.Short != 0 && strings.HasPrefix(word, typed) {
			words = append(words, Completion{word, o.Help})
		}
	}
	return words
}
