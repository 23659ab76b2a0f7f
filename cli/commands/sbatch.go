package commands

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"stint/cli/nofile"
	"stint/cli/slurm"
	"stint/cli/slurm/once"
	"stint/cli/wire"
	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
)

// call is what a call of sbatch, salloc or srun with these arguments depends on.
func (w *World) call(args []string) slurm.SbatchInput {
	return slurm.SbatchInput{
		Args: args, Environ: w.Environ, Dir: w.Dir, Now: w.Now, Release: w.Release(), Root: w.Uid == 0, Nice: w.Nice,
		Read: func(path string) ([]byte, string, error) { return readScript(w, path) },
	}
}

func sbatch(args []string, w *World) int {
	if w.Dir == "" {
		return w.complain("sbatch", errors.New("the working directory is not there any more; change to one that is"))
	}
	s, err := slurm.Sbatch(w.call(args))
	if err != nil {
		return w.complain("sbatch", err)
	}
	if s.Print != "" {
		io.WriteString(w.Stdout, s.Print)
		return 0
	}
	for _, note := range s.Notes {
		fmt.Fprintf(w.Stderr, "sbatch: %s\n", note)
	}
	for _, spec := range s.Specs() {
		spec.Umask = umask()
		spec.Rlimits = rlimits(s.Propagate)
	}
	c, err := w.dial("sbatch")
	if err != nil {
		return failed(w, why(err))
	}
	defer c.Close()
	if s.Clusters != "" {
		if err := w.other(s.Clusters, w.clusterName(c)); err != nil {
			return w.complain("sbatch", err)
		}
	}
	if s.TestOnly {
		return tested(w, c, "sbatch", s)
	}
	job := &wire.Job{}
	for _, part := range s.Components() {
		job.Components = append(job.Components, &wire.Component{Spec: part.Spec, Script: part.Script, Environment: joinEnviron(part.Environ)})
	}
	verdicts, err := c.Submit(&wire.Submit{Jobs: []*wire.Job{job}, AsUser: s.AsUser, AsGroup: s.AsGroup})
	if f := badOption(err); f != nil {
		return w.complain("sbatch", f)
	}
	if err != nil {
		return failed(w, why(err))
	}
	v := verdicts[0]
	if v.Code != events.Code_OK {
		return failed(w, refused(v.Code, v.Text))
	}
	if v.Job == 0 {
		return failed(w, fmt.Sprintf("the job is kept in the log (sequence %d), but nobody could tell its id: no controller answers (`stint doctor` says why); it runs when one is back", v.Seq))
	}
	if v.Undecided {
		fmt.Fprintf(w.Stderr, "sbatch: job %d is kept and waits for a controller to admit it\n", v.Job)
	}
	switch {
	case s.Quiet: // also with --parsable
	case s.Parsable && s.Clusters != "":
		fmt.Fprintf(w.Stdout, "%d;%s\n", v.Job, s.Clusters)
	case s.Parsable:
		fmt.Fprintf(w.Stdout, "%d\n", v.Job)
	case s.Clusters != "":
		fmt.Fprintf(w.Stdout, "Submitted batch job %d on cluster %s\n", v.Job, s.Clusters)
	default:
		fmt.Fprintf(w.Stdout, "Submitted batch job %d\n", v.Job)
	}
	if s.Wait {
		return waitFor(w, c, v.Job)
	}
	return 0
}

// tested says when and where a job would start, on stderr as Slurm does; nothing is submitted. Of a heterogeneous job it is when the last of its
// components could, and where they could if each had the cluster for itself, as in Slurm.
func tested(w *World, c *wire.Conn, name string, s *slurm.Submission) int {
	var all *projections.AnswerTest
	var nodes []string
	for _, spec := range s.Specs() {
		a, err := c.Ask(&projections.Ask{What: &projections.Ask_Test{Test: &projections.AskTest{Spec: spec}}})
		t := a.GetTest()
		switch {
		case err != nil:
			return notStarting(w, name, why(err))
		case t.GetCode() != events.Code_OK:
			return notStarting(w, name, refused(t.Code, t.Text))
		}
		if list, err := hostlist.Expand(t.Nodes, hostlist.MaxHosts); err == nil {
			nodes = append(nodes, list...)
		}
		if all == nil {
			all = t
			continue
		}
		all.StartUs = max(all.StartUs, t.StartUs)
		all.Cpus += t.Cpus
	}
	if s.Quiet {
		return 0
	}
	start := time.UnixMicro(all.StartUs).In(w.Now.Location()).Format("2006-01-02T15:04:05")
	if len(s.More) > 0 {
		hostlist.Sort(nodes)
		fmt.Fprintf(w.Stderr, "%s: Job %d to start at %s using %d processors on %s\n", name, all.Job, start, all.Cpus, hostlist.Compress(slices.Compact(nodes)))
		return 0
	}
	fmt.Fprintf(w.Stderr, "%s: Job %d to start at %s using %d processors on nodes %s in partition %s\n", name, all.Job, start, all.Cpus, all.Nodes, all.Partition)
	return 0
}

// notStarting says why a job that was only tested would not be taken.
func notStarting(w *World, name, text string) int {
	lines := strings.Split(text, "\n")
	for _, l := range lines[:len(lines)-1] {
		fmt.Fprintf(w.Stderr, "%s: error: %s\n", name, l)
	}
	fmt.Fprintf(w.Stderr, "allocation failure: %s\n", lines[len(lines)-1])
	return 1
}

// failed prints why the job was not accepted. Text of several lines: all but the last are explanations of their own.
func failed(w *World, text string) int {
	lines := strings.Split(text, "\n")
	for _, l := range lines[:len(lines)-1] {
		fmt.Fprintf(w.Stderr, "sbatch: error: %s\n", l)
	}
	fmt.Fprintf(w.Stderr, "sbatch: error: Batch job submission failed: %s\n", lines[len(lines)-1])
	return 1
}

// readScript reads a script from where it is named, or, as Slurm does, finds it on PATH if the working directory has none.
func readScript(w *World, path string) ([]byte, string, error) {
	limit := int64(slurm.MaxScript) + 1
	if path == "" {
		text, err := io.ReadAll(io.LimitReader(w.Stdin, limit))
		if err != nil {
			return nil, "", fmt.Errorf("the script could not be read from standard input: %w", err)
		}
		return text, "", nil
	}
	found := path
	if !filepath.IsAbs(path) {
		found = filepath.Join(w.Dir, path)
		if _, err := os.Stat(found); err != nil && !strings.Contains(path, "/") {
			for _, dir := range filepath.SplitList(w.Getenv("PATH")) {
				candidate := filepath.Join(dir, path)
				if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() {
					found = candidate
					break
				}
			}
		}
	}
	f, err := os.Open(found)
	if err != nil {
		return nil, "", fmt.Errorf("Unable to open file %s: %w", path, plain(err))
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, "", fmt.Errorf("%s is a directory, not a script", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, "", fmt.Errorf("Unable to read file %s: %w", path, plain(err))
	}
	return text, found, nil
}

// plain is the reason without the operation and the path around it.
func plain(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// niceness is this process's nice value, as it is told to jobs.
func niceness() int {
	n, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return 0
	}
	return 20 - n // the kernel counts from 40 down to 1
}

// umask returns the process's mask, which can only be asked for by setting it.
func umask() uint32 {
	mask := syscall.Umask(0o077)
	syscall.Umask(mask)
	return uint32(mask)
}

// limitNames are the limits that can be passed on, by Slurm's names.
var limitNames = once.Value[map[string]int]{Make: func() map[string]int {
	return map[string]int{
		"AS": unix.RLIMIT_AS, "CORE": unix.RLIMIT_CORE, "CPU": unix.RLIMIT_CPU, "DATA": unix.RLIMIT_DATA, "FSIZE": unix.RLIMIT_FSIZE,
		"MEMLOCK": unix.RLIMIT_MEMLOCK, "NOFILE": unix.RLIMIT_NOFILE, "NPROC": unix.RLIMIT_NPROC, "RSS": unix.RLIMIT_RSS, "STACK": unix.RLIMIT_STACK,
	}
}}

// rlimits returns the submitter's resource limits that are to be passed on: ALL (also if nothing is said), NONE, or names.
func rlimits(propagate string) []*events.Rlimit {
	var out []*events.Rlimit
	if propagate == "NONE" {
		return nil
	}
	names := strings.Split(propagate, ",")
	if propagate == "" || propagate == "ALL" {
		names = []string{"AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK"}
	}
	for _, name := range names {
		number, ok := limitNames.Get()[name]
		if !ok {
			continue
		}
		var l unix.Rlimit
		if unix.Getrlimit(number, &l) == nil {
			if soft, ok := nofile.Soft(); ok && number == unix.RLIMIT_NOFILE {
				l.Cur = min(soft, l.Max) // the submitter's, not what this program has raised it to
			}
			out = append(out, &events.Rlimit{Resource: uint32(number), Soft: l.Cur, Hard: l.Max})
		}
	}
	return out
}

// joinEnviron writes an environment as it is stored: each variable with a NUL behind it.
func joinEnviron(environ []string) []byte {
	size := 0
	for _, nv := range environ {
		size += len(nv) + 1
	}
	out := make([]byte, 0, size)
	for _, nv := range environ {
		out = append(append(out, nv...), 0)
	}
	return out
}

// waitFor waits for the end of a job (of all tasks, for an array) and returns the highest exit code; a job that a signal or
// anything but its script ended counts as 1.
func waitFor(w *World, c *wire.Conn, job uint32) int {
	for {
		a, err := c.Ask(&projections.Ask{What: &projections.Ask_Wait{Wait: &projections.AskWait{Ids: []uint32{job}, WaitMs: 60_000}}})
		if err != nil {
			var no *wire.Refused
			if !errors.As(err, &no) { // the agent was restarted: go on asking the next one
				c.Close()
				for {
					time.Sleep(time.Second)
					if c, err = w.dial("sbatch"); err == nil {
						break
					}
				}
			}
			continue
		}
		got := a.GetWait()
		if got.GetUndecided() {
			continue
		}
		code := 0
		for _, j := range got.GetEnded() {
			code = max(code, exitOf(j))
		}
		return code
	}
}

func exitOf(j *projections.Job) int {
	switch {
	case j.ExitSignal != 0:
		return 1
	case j.ExitCode != 0:
		return int(j.ExitCode)
	case j.State != events.JobState_COMPLETED:
		return 1
	}
	return 0
}
