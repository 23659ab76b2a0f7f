// Command figures makes the table of docs/performance.md again: each figure measured of Stint and, where it has the figure, of a real
// Slurm on the same machine within the same minutes, in turn.
//
//	go run ./integration/bench/figures -table docs/performance.md      # = task bench: half an hour
//	go run ./integration/bench/figures -only 'sbatch|rate' -scale 0.1  # some, with a tenth of the jobs
//
// It needs root, bin/stint and bin/stint-cli (task build) and STINT_ORACLE, the folder of the script that starts a real Slurm
// (docs/architecture.md, Held to the real one); without that the real one's column stays empty.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// bench is one run: what was asked, and the folder that everything is in.
type bench struct {
	dir    string  // world-readable, of this run
	bin    string  // where stint and stint-cli lie
	self   string  // this program
	scale  float64 // of the numbers of jobs
	oracle string  // folder of the real one's script, or ""
	sides  []*side // those that are up
	rows   []row
}

// row is a line of the table. Texts carry their units.
type row struct {
	Key, Figure, Recorded, Slurm, Stint, Ratio, Goal string
	Reached                                          string
}

// chapter is what is measured on one pair of clusters.
type chapter struct {
	keys []string // of its rows
	run  func(b *bench) error
}

var chapters = []chapter{
	{[]string{"sbatch", "parallel", "wait", "rate", "submit", "squeue10", "memory", "squeue50", "kill", "scancel", "sacct", "sacctj"}, (*bench).small},
	{[]string{"rate128"}, (*bench).wide},
	{[]string{"sinfo"}, (*bench).nodes},
	{[]string{"history", "rebuild", "replay"}, (*bench).history},
	{[]string{"queries"}, (*bench).queries},
	{[]string{"fold"}, (*bench).fold},
}

var only *regexp.Regexp

// wanted says whether a row was asked for.
func wanted(key string) bool { return only == nil || only.MatchString(key) }

func main() {
	if len(os.Args) > 1 && os.Args[1] == "inner" {
		inner(os.Args[2:])
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	b := &bench{oracle: os.Getenv("STINT_ORACLE")}
	table := flag.String("table", "", "write the table between its marks in `FILE`")
	pattern := flag.String("only", "", "measure the rows whose keys match `REGEXP`")
	bin := flag.String("bin", "bin", "the `DIR` with stint and stint-cli")
	keep := flag.String("rows", "", "read rows that are not measured from `FILE`, and write all there (JSON)")
	flag.Float64Var(&b.scale, "scale", 1, "multiply the numbers of jobs by `F`")
	flag.Parse()
	if os.Geteuid() != 0 {
		return errors.New("it starts clusters of several users: run it as root")
	}
	if *pattern != "" {
		if only, err = regexp.Compile("^(" + *pattern + ")$"); err != nil {
			return fmt.Errorf("reading -only: %w", err)
		}
	}
	if b.bin, err = filepath.Abs(*bin); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(b.bin, "stint")); err != nil {
		return fmt.Errorf("no stint in %s: `task build` makes it", b.bin)
	}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("/var/tmp", "stint-figures-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	defer b.down()
	if err := os.Chmod(b.dir, 0o755); err != nil {
		return err
	}
	script := "#!/bin/bash\ntrue\n"
	if err := os.WriteFile(filepath.Join(b.dir, "job.sh"), []byte(script), 0o755); err != nil {
		return err
	}
	var old []row
	if *keep != "" {
		if data, err := os.ReadFile(*keep); err == nil {
			if err := json.Unmarshal(data, &old); err != nil {
				return fmt.Errorf("reading %s: %w", *keep, err)
			}
		}
	}
	begun := time.Now()
	for _, c := range chapters {
		if !slices.ContainsFunc(c.keys, wanted) {
			continue
		}
		if err := c.run(b); err != nil {
			return err
		}
		b.down()
		if *keep != "" { // what is measured stays measured, whatever comes after
			if err := save(*keep, merged(old, b.rows)); err != nil {
				return err
			}
		}
	}
	rows := merged(old, b.rows)
	text := machine(b.dir) + "\n" + format(rows)
	fmt.Printf("\n%s\n%s\n", text, time.Since(begun).Round(time.Second))
	if *table != "" {
		return between(*table, text)
	}
	return nil
}

// add notes a row and shows it.
func (b *bench) add(r row) {
	if !wanted(r.Key) {
		return
	}
	g := goals[r.Key]
	r.Figure, r.Recorded, r.Goal = g.figure, g.recorded, g.goal
	b.rows = append(b.rows, r)
	fmt.Fprintf(os.Stderr, "%s  %-9s Slurm %s; Stint %s; %s (goal: %s)\n", time.Now().Format("15:04:05"), r.Key, orDash(r.Slurm), r.Stint, orDash(r.Ratio), r.Goal)
}

func (b *bench) count(n int) int { return max(8, int(float64(n)*b.scale)) }

// merged is the old rows with the new ones in their places, in the order of the chapters.
func merged(old, measured []row) (rows []row) {
	for _, c := range chapters {
		for _, k := range c.keys {
			for _, list := range [][]row{measured, old} {
				if i := slices.IndexFunc(list, func(r row) bool { return r.Key == k }); i >= 0 {
					rows = append(rows, list[i])
					break
				}
			}
		}
	}
	return rows
}

func save(file string, rows []row) error {
	data, err := json.MarshalIndent(rows, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func format(rows []row) string {
	var s strings.Builder
	s.WriteString("| figure | Slurm, recorded | Slurm, this run | Stint, this run | Stint : Slurm | asked for |\n|---|---:|---:|---:|---:|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&s, "| %s | %s | %s | %s | %s | %s |\n", r.Figure, orDash(r.Recorded), orDash(r.Slurm), r.Stint, orDash(r.Ratio), r.Goal)
	}
	return s.String()
}

const begin, end = "<!-- figures -->\n", "<!-- /figures -->\n"

// between puts the text between the marks of a file.
func between(file, text string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(data), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no marks %q and %q", file, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(file, []byte(head+begin+text+end+tail), 0o644)
}
