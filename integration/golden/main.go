// Command golden plays the scenarios that a real Slurm was recorded with against Stint, and compares. See run, beside it.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

func main() {
	if err := golden(); err != nil {
		fmt.Fprintln(os.Stderr, "golden:", err)
		os.Exit(1)
	}
}

// order is what was asked for.
type order struct {
	programs string   // directory of stint and stint-cli
	work     string   // directory for clusters, users' files and rows
	oracle   string   // directory with scenarios/ and etc/oracle/
	scenario []string // their names without .sh; empty: those that have the groups
	groups   []string // empty: all
	rows     *regexp.Regexp
	later    laterList
	verbose  bool
	keep     string
	again    string
	table    string
}

func golden() error {
	o := order{}
	goldens := flag.String("goldens", envOr("GOLDENS", "../shared/slurm/goldens.jsonl"), "the recorded rows")
	flag.StringVar(&o.oracle, "oracle", envOr("ORACLE", "../shared/oracle"), "the directory of the real Slurm's scenarios and configuration")
	flag.StringVar(&o.programs, "programs", "", "the directory of stint and stint-cli")
	flag.StringVar(&o.work, "work", "", "a directory for everything that is made")
	scenarios := flag.String("s", "", "scenarios to play, commas between")
	rows := flag.String("r", "", "the rows whose names match")
	flag.BoolVar(&o.verbose, "v", false, "print both outputs of a row that differs")
	flag.StringVar(&o.keep, "keep", "", "leave what was printed in this directory")
	flag.StringVar(&o.again, "again", "", "compare what is in this directory, without playing anything")
	flag.StringVar(&o.table, "table", "", "write the table of matches between the marks of this file")
	flag.Parse()
	o.groups = flag.Args()
	if *scenarios != "" {
		o.scenario = strings.Split(*scenarios, ",")
	}
	if *rows != "" {
		var err error
		if o.rows, err = regexp.Compile(*rows); err != nil {
			return fmt.Errorf("-r: %w", err)
		}
	}
	real, err := load(*goldens)
	if err != nil {
		return err
	}
	if o.later, err = readLater(laterText); err != nil {
		return err
	}
	for _, g := range o.groups {
		if !slices.Contains(groupsOf(real), g) {
			return fmt.Errorf("there is no group %s: there are %s", g, strings.Join(groupsOf(real), " "))
		}
	}
	at := o.again
	if at == "" {
		if at = o.keep; at == "" {
			at = filepath.Join(o.work, "rows")
		}
		unlock, err := lock("/var/tmp/stint-golden.lock")
		if err != nil {
			return err
		}
		defer unlock()
		if err := o.play(real, at); err != nil {
			return err
		}
	}
	t, err := o.compare(real, at)
	if err != nil {
		return err
	}
	fmt.Print(t.text())
	if o.table != "" {
		return t.write(o.table)
	}
	return nil
}

// lock waits until no other run plays on this machine: two would compete for processors, and times are part of what is compared.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("the lock of golden runs: %w", err)
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		fmt.Fprintln(os.Stderr, "golden: another run is under way on this machine; waiting for it")
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			return nil, fmt.Errorf("waiting for %s: %w", path, err)
		}
	}
	return func() { f.Close() }, nil
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
