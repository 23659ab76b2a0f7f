package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// counts are a group's.
type counts struct {
	shown, shownSame int // rows with output
	mute, muteSame   int // rows with an exit code only
	later            int // that need what is not built yet: see later.go
	left             int // not compared
}

// table is the outcome: counts per group, and why rows were left out.
type table struct {
	groups map[string]*counts
	left   map[string]int
}

// compare reads what a play left and prints the rows that differ.
func (o *order) compare(real map[string][]*row, at string) (*table, error) {
	t := &table{groups: map[string]*counts{}, left: map[string]int{}}
	scenes, err := filepath.Glob(filepath.Join(at, "s[0-9]*"))
	if err != nil {
		return nil, err
	}
	slices.Sort(scenes)
	for _, scene := range scenes {
		for _, g := range groupsOf(real) {
			if len(o.groups) > 0 && !slices.Contains(o.groups, g) {
				continue
			}
			answers, names, err := read(filepath.Join(scene, g))
			if err != nil {
				return nil, err
			}
			if len(names) == 0 {
				continue
			}
			for i, r := range pair(real[g], names) {
				if r != nil {
					o.one(t, r, answers[i])
				}
			}
		}
	}
	return t, nil
}

func (o *order) one(t *table, r *row, a *answer) {
	c := t.groups[r.Group]
	if c == nil {
		c = new(counts)
		t.groups[r.Group] = c
	}
	why := leftOut(r)
	if why != "" || a == nil {
		if why == "" {
			return // not asked for
		}
		c.left++
		t.left[why]++
		return
	}
	if o.rows != nil && !o.rows.MatchString(r.bare()) {
		return
	}
	wanted, ours := r.Stdout, usersDir.ReplaceAllString(a.out, "/users")
	if r.Name == "012-shell-stdin" { // which writes a letter for each figure of an id
		wanted, ours = strings.ReplaceAll(wanted, "NNN", "@ID"), strings.ReplaceAll(ours, "NNNN", "@ID")
	}
	if r.Group == "final-states" && earlier.MatchString(r.bare()) {
		wanted = withoutEarlier(wanted)
	}
	if r.Group == "down" && r.bare() == "sacct__X__n" { // all of it jobs that other scenarios had left
		wanted, ours = ofJob.ReplaceAllString(wanted, ""), ofJob.ReplaceAllString(ours, "")
	}
	what := ""
	if a.exit != r.Exit {
		what = fmt.Sprintf("exit: real %d, ours %d: %s", r.Exit, a.exit, strings.TrimSpace(firstLine(a.err)))
	} else if d := differ(r, wanted, ours); d != "" {
		what = "stdout: " + d
		if list := differing(r, wanted, ours); len(list) > 1 {
			what = "stdout:\n\t" + strings.Join(list, "\n\t")
		}
	}
	if l := o.later.of(r); l != nil {
		c.later++
		if what == "" {
			fmt.Printf("%s/%s is as recorded, and needs no %s: line %d of later.txt can go\n", r.Group, r.Name, l.needs, l.number)
		}
		return
	}
	same := 0
	if what == "" {
		same = 1
	}
	if strings.TrimSpace(r.Stdout) == "" {
		c.mute, c.muteSame = c.mute+1, c.muteSame+same
	} else {
		c.shown, c.shownSame = c.shown+1, c.shownSame+same
	}
	if what == "" {
		return
	}
	fmt.Printf("%s/%s  %s  %s\n", r.Group, r.Name, clip(strings.ReplaceAll(a.command, "\n", " "), 160), what)
	if o.verbose {
		fmt.Printf("--- real (exit %d)\n%s\n--- ours (exit %d)\n%s\n--- ours, stderr\n%s\n", r.Exit, clip(wanted, 4000), a.exit, clip(ours, 4000), clip(a.err, 1000))
	}
}

// usersDir is what usersOf returns, any of them.
var usersDir = regexp.MustCompile(`(` + strings.Join([]string{usersOf("s10"), usersOf("s40"), usersOf("")}, "|") + `)\b`)

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

func clip(s string, most int) string {
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// text is the table as Markdown.
func (t *table) text() string {
	var b strings.Builder
	var sum counts
	b.WriteString("| group | with output | match | | exit only | match | | later | left out |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	line := func(name string, c counts) {
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %d | %d | %s | %d | %d |\n", name, c.shown, c.shownSame, percent(c.shownSame, c.shown),
			c.mute, c.muteSame, percent(c.muteSame, c.mute), c.later, c.left)
	}
	var names []string
	for g := range t.groups {
		names = append(names, g)
	}
	slices.Sort(names)
	for _, g := range names {
		c := *t.groups[g]
		line(g, c)
		sum.shown, sum.shownSame, sum.mute, sum.muteSame = sum.shown+c.shown, sum.shownSame+c.shownSame, sum.mute+c.mute, sum.muteSame+c.muteSame
		sum.later, sum.left = sum.later+c.later, sum.left+c.left
	}
	line("**total**", sum)
	return b.String()
}

func percent(n, of int) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

const beginMark, endMark = "<!-- golden: begin, written by `task golden` -->\n", "<!-- golden: end -->\n"

// write puts the table between the marks of a file.
func (t *table) write(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(data), beginMark)
	_, after, ok2 := strings.Cut(rest, endMark)
	if !ok || !ok2 {
		return fmt.Errorf("%s has not the marks %q and %q", path, strings.TrimSpace(beginMark), strings.TrimSpace(endMark))
	}
	return os.WriteFile(path, []byte(before+beginMark+t.text()+endMark+after), 0o644)
}
