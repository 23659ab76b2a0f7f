package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"stint/cli/site"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "look for what is wrong with this machine and its cluster, and say what to do about it", Category: running,
		Description: "It looks at the machine (hardware, control groups, clock, disks, limits), at the cluster's folders, processes and logs, at\n" +
			"the bus, the leader and all who follow the log, at nodes, configuration and queue, at what commands here would find, and at what\n" +
			"jobs and clusters that are over have left behind. Of\n" +
			"each it says how it is (ok, note, warning, fault) and what would mend it. It changes nothing, and waits for nobody for more\n" +
			"than a few seconds. Whose the cluster is not is told less.\n\n" +
			"It ends with 0 if there is no fault, with 1 if there is one, and with 2 if it was called wrongly; warnings do not count.\n" +
			"--json prints {ok, dir, version, faults, warnings, findings: [{check, level, text, do}]}; do is left out where nothing is to be done.\n\n" +
			"Examples: stint doctor\n          stint doctor --quiet\n          stint doctor --json",
		Flags: []cli.Flag{
			dirFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "only warnings and faults"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return exitError{2, fmt.Sprintf("doctor takes no argument %q; --dir names the folder of a cluster", c.Args().First())}
			}
			dir, err := dirOf(c)
			if err != nil {
				return err
			}
			d := examine(dir)
			if c.Bool("quiet") {
				d.quiet()
			}
			if c.Bool("json") {
				e := json.NewEncoder(c.App.Writer)
				e.SetIndent("", "  ")
				if err := e.Encode(d); err != nil {
					return err
				}
			} else {
				f, isFile := c.App.Writer.(*os.File)
				d.print(c.App.Writer, isFile && colour(f))
			}
			if !d.OK {
				return exitError{code: 1}
			}
			return nil
		},
	}
}

// Levels of what was found.
const (
	well    = "ok"
	note    = "note" // nothing to do, as a rule
	warning = "warning"
	fault   = "fault" // jobs do not run, or are not safe
)

// diagnosis is what the doctor found.
type diagnosis struct {
	OK       bool      `json:"ok"` // there is no fault
	Dir      string    `json:"dir"`
	Version  string    `json:"version"`
	Faults   int       `json:"faults"`
	Warnings int       `json:"warnings"`
	Findings []finding `json:"findings"`
}

// finding is one thing looked at.
type finding struct {
	Check string `json:"check"`
	Level string `json:"level"`
	Text  string `json:"text"`
	Do    string `json:"do,omitempty"` // what to do about it, a command where there is one
}

func (d *diagnosis) add(level, check, do, format string, args ...any) {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	d.Findings = append(d.Findings, finding{check, level, text, do})
	switch level {
	case fault:
		d.OK, d.Faults = false, d.Faults+1
	case warning:
		d.Warnings++
	}
}

// quiet leaves out what is well.
func (d *diagnosis) quiet() {
	kept := []finding{}
	for _, f := range d.Findings {
		if f.Level == warning || f.Level == fault {
			kept = append(kept, f)
		}
	}
	d.Findings = kept
}

// print writes the findings for people, a line each and one for what to do, and how many there were to worry about.
func (d *diagnosis) print(w io.Writer, coloured bool) {
	tint := map[string]string{well: "\033[32m", note: "\033[2m", warning: "\033[33m", fault: "\033[1;31m"}
	for _, f := range d.Findings {
		level := fmt.Sprintf("%-7s", f.Level)
		if coloured {
			level = tint[f.Level] + level + "\033[0m"
		}
		fmt.Fprintf(w, "%s  %-14s %s\n", level, f.Check, printable(f.Text))
		if f.Do != "" {
			fmt.Fprintf(w, "%24s %s\n", "→", printable(f.Do))
		}
	}
	if d.Faults+d.Warnings > 0 {
		fmt.Fprintf(w, "%s, %s\n", count(d.Faults, "fault"), count(d.Warnings, "warning"))
	} else {
		fmt.Fprintln(w, "no fault, no warning")
	}
}

// printable leaves nothing in a text that a terminal would take as an order: some of what is shown, others wrote.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// checkTime is how long one check may take, unless it says otherwise.
const checkTime = 2 * time.Second

// check is one thing to look at. run says on report what it finds, and what it is about to wait for.
type check struct {
	name string
	most time.Duration // 0: checkTime
	run  func(r *report, s *scene)
}

// report takes what one check finds, until its time is over.
type report struct {
	mu    sync.Mutex
	found []finding
	doing string
	over  bool
}

// add notes a finding. The text is a format if there are arguments.
func (r *report) add(level, check, do, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	r.found = append(r.found, finding{check, level, format, do})
}

// on notes what is waited for from now on, for the case that it does not come.
func (r *report) on(format string, args ...any) {
	r.mu.Lock()
	r.doing = fmt.Sprintf(format, args...)
	r.mu.Unlock()
}

// scene is what all checks look at.
type scene struct {
	dir       site.Dir
	probe     probe
	processes func() []process // the cluster's on this host, looked for once

	listed  sync.Once
	folders []part // of the nodes
}

// within makes a check within its time. One that takes longer goes on unheard: what it hangs on is what is wrong.
func (c check) within(s *scene) []finding {
	most := c.most
	if most == 0 {
		most = checkTime
	}
	r, done := &report{}, make(chan struct{})
	go func() {
		defer close(done)
		c.run(r, s)
	}()
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	select {
	case <-done:
	default:
		what := r.doing
		if what == "" {
			what = "looking at it"
		}
		r.found = append(r.found, finding{c.name, fault, fmt.Sprintf("no answer in %s: %s", most, what), "whatever that waits for is what to look at first: a disk that does not answer, or a process that is stopped"})
	}
	return r.found
}

// checks are made all at once and told in this order.
func checks() []check {
	return []check{
		{name: "machine", run: checkMachine}, {name: "host name", run: checkHostName}, {name: "control groups", run: checkGroups}, {name: "GPUs", most: 5 * time.Second, run: checkGPUs},
		{name: "user names", run: checkNames}, {name: "clock", run: checkClock}, {name: "limits", run: checkLimits},
		{name: "commands", run: checkCommands}, {name: "disk", run: checkDisk}, {name: "folders", run: checkFolders}, {name: "keys", run: checkKeys}, {name: "writing", most: 4 * time.Second, run: checkWriting},
		{name: "configuration", run: checkConf}, {name: "processes", run: checkProcesses}, {name: "supervisors", most: 3 * time.Second, run: checkSupervisors}, {name: "logs", run: checkLogs},
		{name: "left behind", most: 5 * time.Second, run: checkLeft},
		{name: "bus", most: 4 * time.Second, run: checkBus},
		{name: "cluster", most: probeTime + time.Second, run: checkCluster},
		{name: "versions", most: probeTime + checkTime, run: checkVersions}, {name: "followers", most: probeTime + checkTime, run: checkFollowers},
		{name: "nodes", most: probeTime + checkTime, run: checkNodes}, {name: "partitions", most: probeTime + checkTime, run: checkPartitions},
		{name: "in force", most: probeTime + checkTime, run: checkInForce}, {name: "accounts", most: probeTime + checkTime, run: checkPolicy},
		{name: "queue", most: probeTime + 2*checkTime, run: checkQueue}, {name: "voids", most: probeTime + checkTime, run: checkVoids},
	}
}

func examine(dir site.Dir) *diagnosis {
	d := &diagnosis{OK: true, Dir: string(dir), Version: Build(), Findings: []finding{}}
	s := &scene{dir: dir, processes: sync.OnceValue(func() []process { return processesOf(dir) })}
	all := checks()
	found := make([][]finding, len(all))
	var wait sync.WaitGroup
	for i, c := range all {
		wait.Go(func() { found[i] = c.within(s) })
	}
	wait.Wait()
	for _, list := range found {
		for _, f := range list {
			d.add(f.Level, f.Check, f.Do, "%s", f.Text)
		}
	}
	return d
}
