package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"stint/cli/slurm"
	"stint/cli/slurm/conf"
	"stint/cli/slurm/format"
	"stint/cli/slurm/once"
	"stint/events"
	"stint/projections"
)

// partition has a partition made, changed or removed.
func partition(s *slurm.Scontrol, w *World) int {
	m, err := conf.PartitionChange(s.Act, s.Name, s.Changes)
	if err != nil {
		return w.complain("scontrol", err)
	}
	return send(s, w, events.Verb_UPDATE_PARTITION, m)
}

// errorNumbers are Slurm's numbers for refusals, and the codes they stand for here.
var errorNumbers = once.Value[map[int64]events.Code]{Make: func() map[int64]events.Code {
	return map[int64]events.Code{
		2000: events.Code_INVALID_PARTITION, 2002: events.Code_ACCESS_DENIED, 2005: events.Code_INVALID_FEATURE, 2006: events.Code_INVALID_GRES, 2010: events.Code_POLICY,
		2014: events.Code_NODE_CONFIG_UNAVAILABLE, 2017: events.Code_UNKNOWN_JOB, 2018: events.Code_INVALID_NODE, 2021: events.Code_ALREADY_DONE,
		2089: events.Code_DUPLICATE_TRIGGER, 2096: events.Code_CRON_CHANGE, 2098: events.Code_CRON_CANCEL, 2043: events.Code_INVALID_NODE_STATE, 2045: events.Code_INVALID_ACCOUNT, 2051: events.Code_INVALID_TIME_LIMIT, 2066: events.Code_INVALID_QOS,
	}
}}

// errorText is what a number of an error stands for: the system's up to 1000, Slurm's of refusals that are known here.
func errorText(n int64) string {
	if code, ok := errorNumbers.Get()[n]; ok {
		return refusals.Get()[code]
	}
	if n == 0 {
		return "No error"
	}
	if text := syscall.Errno(n).Error(); n > 0 && n < 1000 && !strings.HasPrefix(text, "errno ") {
		return strings.ToUpper(text[:1]) + text[1:]
	}
	return fmt.Sprintf("Unknown error %d", n)
}

// writeConfig writes the configuration in force into a file, in the form of slurm.conf, with the time in its name.
func writeConfig(s *slurm.Scontrol, w *World) int {
	info, err := w.config("scontrol")
	if err != nil {
		return w.unmet("scontrol", err)
	}
	file := "slurm.conf" // in the working directory: what the cluster reads is not written beside without being asked
	if len(s.IDs) > 0 {
		file = s.IDs[0]
	}
	file += "." + w.Now.Format("2006-01-02T15:04:05")
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(w.Dir, path)
	}
	if err := os.WriteFile(path, []byte(conf.Write(info.GetConfig())), 0o644); err != nil {
		return w.complain("scontrol", fmt.Errorf("writing the configuration to %s: %w", file, plain(err)))
	}
	fmt.Fprintf(w.Stdout, "Slurm config saved to %s\n", file)
	return 0
}

// process is one process of a step on this host.
type process struct {
	pid  int
	job  uint64
	step string
}

// stepOfPid reads from the kernel which step a process belongs to.
func stepOfPid(pid int) (process, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return process{}, false
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		p := process{pid: pid}
		for part := range strings.SplitSeq(line, "/") {
			if id, ok := strings.CutPrefix(part, "job_"); ok {
				p.job, _ = strconv.ParseUint(id, 10, 32)
			}
			if step, ok := strings.CutPrefix(part, "step_"); ok {
				p.step = step
			}
		}
		if p.job != 0 {
			return p, true
		}
	}
	return process{}, false
}

// processes answers listpids, listjobs, liststeps and pidinfo from the control groups of this host.
func processes(s *slurm.Scontrol, w *World) int {
	if s.Verb == "pidinfo" {
		return pidInfo(s, w)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return w.complain("scontrol", fmt.Errorf("looking for processes: %w", plain(err)))
	}
	var found []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := stepOfPid(pid); ok && (len(s.Targets) == 0 || p.job == uint64(s.Targets[0].Job) && (!s.Targets[0].HasStep || p.step == events.StepName(s.Targets[0].Step))) {
			found = append(found, p)
		}
	}
	switch s.Verb {
	case "listpids":
		fmt.Fprintln(w.Stdout, "PID      JOBID    STEPID   LOCALID GLOBALID")
		if len(found) == 0 && len(s.Targets) > 0 {
			return w.complain("scontrol", fmt.Errorf("job %s has no process on this host", targetLabel(s.Targets[0])))
		}
		if len(found) == 0 {
			return w.complain("scontrol", fmt.Errorf("no job steps exist on this host"))
		}
		for _, p := range found {
			fmt.Fprintf(w.Stdout, "%-8d %-8d %-8s %-7s %-8s\n", p.pid, p.job, p.step, "-", "-")
		}
	default:
		var lines []string
		for _, p := range found {
			line := fmt.Sprint(p.job)
			if s.Verb == "liststeps" {
				line = fmt.Sprintf("%-8d %s", p.job, p.step)
			}
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
		fmt.Fprintln(w.Stdout, map[string]string{"listjobs": "JOBID", "liststeps": "JOBID    STEPID"}[s.Verb])
		for _, l := range lines {
			fmt.Fprintln(w.Stdout, l)
		}
		if len(lines) == 0 {
			return w.complain("scontrol", fmt.Errorf("no job steps exist on this host"))
		}
	}
	return 0
}

// pidInfo says which job a process belongs to, and when that ends at the latest.
func pidInfo(s *slurm.Scontrol, w *World) int {
	p, ok := stepOfPid(int(s.Number))
	if !ok {
		return w.complain("scontrol", fmt.Errorf("Failed to locate job for requested pid"))
	}
	a, err := w.jobs("scontrol", &projections.AskJobs{Ids: []uint32{uint32(p.job)}, AllStates: true, Slim: true})
	if err != nil {
		return w.unmet("scontrol", err)
	}
	c := w.context("", false)
	for _, r := range format.Jobs(a.GetJobs().GetJobs(), &c, false) {
		end := "UNLIMITED"
		if r.GetLimitS() != events.Unlimited {
			at := r.GetStartUs() + r.IdleUs() + int64(r.GetLimitS())*1e6
			end = w.clock().Time(at, "Unknown")
		}
		fmt.Fprintf(w.Stdout, "Slurm JobId=%d ends at %s\n", p.job, end)
		return 0
	}
	return w.complain("scontrol", fmt.Errorf("job %d: %s", p.job, refusals.Get()[events.Code_UNKNOWN_JOB]))
}
