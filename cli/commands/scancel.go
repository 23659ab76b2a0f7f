package commands

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/events"
	"stint/projections"
)

// targetsAtOnce is how many jobs one act names: what the agent takes has an end.
const targetsAtOnce = 2000

func scancel(args []string, w *World) int {
	s, err := slurm.ReadScancel(w.input(args))
	switch {
	case err != nil:
		return w.complain("scancel", err)
	case s.Print != "":
		io.WriteString(w.Stdout, s.Print)
		return 0
	}
	if s.Clusters != "" {
		info, err := w.config("scancel")
		if err != nil {
			return w.unmet("scancel", err)
		}
		if err := w.other(s.Clusters, info.GetConfig().GetCluster()); err != nil {
			return w.complain("scancel", err)
		}
	}
	if f := s.Cancel.Filter; f != nil {
		if name := w.unknown(f.Users); name != "" {
			return w.complain("scancel", errors.New("Invalid user name: "+name))
		}
		f.Users = w.names("scancel", f.Users)
	}
	if s.Sibling != "" {
		return noSibling(s, w)
	}
	code := 0
	if s.Interactive {
		var done bool
		if done, code = confirm(s, w); done {
			return code
		}
	}
	if s.Verbose > 0 {
		for _, t := range s.Cancel.Targets {
			fmt.Fprintf(w.Stderr, "scancel: Terminating %s %s\n", targetKind(t), targetLabel(t))
		}
	}
	code = max(code, cancel(s, w))
	for len(s.Cancel.Targets) > targetsAtOnce {
		s.Cancel.Targets = s.Cancel.Targets[targetsAtOnce:]
		code = max(code, cancel(s, w))
	}
	return code
}

// stepTold is how long it takes at most, on a node that is not busy, until a step that has just begun is known to the controller: nodes wait
// a little before they tell, since many steps are over by then.
const stepTold = 100 * time.Millisecond

// cancel sends one act with the first of the targets. What is over, or was never there, is no failure, as Slurm has it.
func cancel(s *slurm.Scancel, w *World) int {
	m := s.Cancel.CloneVT()
	m.Targets = m.Targets[:min(len(m.Targets), targetsAtOnce)]
	v, err := w.control("scancel", events.Verb_CANCEL, m)
	if err == nil && len(m.Targets) == 1 && m.Targets[0].HasStep && len(v.Targets) == 1 && v.Targets[0].Code == events.Code_UNKNOWN_STEP {
		w.Wait(stepTold)
		v, err = w.control("scancel", events.Verb_CANCEL, m)
	}
	if err != nil {
		w.unmet("scancel", err)
		if len(m.Targets) > 0 && m.Filter == nil && m.Signal == 0 && !m.BatchOnly {
			return unheard
		}
		return 1
	}
	if v.Code != events.Code_OK && len(v.Targets) == 0 {
		return w.complain("scancel", errors.New(refused(v.Code, v.Text)))
	}
	code := 0
	for _, t := range v.Targets {
		for _, line := range strings.Split(refused(t.Code, t.Text), "\n") {
			kind, label := asked(m.Targets, t.Job)
			fmt.Fprintf(w.Stderr, "scancel: error: Kill job error on %s id %s: %s\n", kind, label, line)
		}
		code = max(code, scancelExit(t.Code))
	}
	if s.Verbose > 0 && !s.Quiet && v.Touched == 0 && code == 0 {
		fmt.Fprintln(w.Stderr, "scancel: nothing was left to end: "+refusals.Get()[events.Code_ALREADY_DONE])
	}
	return code
}

// unheard is how scancel ends when ids alone are given and nobody takes them.
const unheard = 8

// scancelExit is the exit code for a job that was not ended: scancel ends with the low byte of Slurm's number for what the
// controller refuses, and with 1 for what it finds out itself.
func scancelExit(code events.Code) int {
	switch code {
	case events.Code_ACCESS_DENIED:
		return 2002 & 0xff
	case events.Code_UNKNOWN_STEP:
		return 2017 & 0xff
	case events.Code_BAD_STATE: // a signal for a job that does not run
		return 2020 & 0xff
	case events.Code_CRON_CANCEL:
		return 2098 & 0xff
	case events.Code_NOT_WHOLE_HET_JOB:
		return 60
	}
	return 1
}

// noSibling says of each job that it is no federated one.
func noSibling(s *slurm.Scancel, w *World) int {
	for _, t := range s.Cancel.Targets {
		fmt.Fprintf(w.Stderr, "scancel: error: Kill job error on job id %s: there is no federation, so cluster %s has no part in it\n", targetLabel(t), s.Sibling)
	}
	return 191
}

// asked is a job that an act failed on as it was asked for: a step, component or task by its name, where it was given by that.
func asked(targets []*events.Target, job uint32) (kind, label string) {
	for _, t := range targets {
		if t.Job == job && t.HasStep {
			return "job step", targetLabel(t)
		}
		if t.HasComponent && t.Job+t.Component == job || t.Job == job && t.HasTasks {
			return "job", targetLabel(t)
		}
	}
	return "job", fmt.Sprint(job)
}

func targetKind(t *events.Target) string {
	if t.HasStep {
		return "step"
	}
	return "job"
}

// targetLabel is a target as people write it.
func targetLabel(t *events.Target) string {
	label := fmt.Sprint(t.Job)
	if t.HasComponent {
		label += fmt.Sprintf("+%d", t.Component)
	}
	if t.HasTasks {
		tasks := events.Words(t.Tasks)
		if n, ok := tasks.First(); ok && tasks.Count() == 1 {
			label += fmt.Sprintf("_%d", n)
		} else {
			label += "_[" + tasks.String() + "]"
		}
	}
	if t.HasStep {
		label += "." + events.StepName(t.Step)
	}
	return label
}

// confirm asks before each job, and leaves those that may be ended. done: there is nothing more to do.
func confirm(s *slurm.Scancel, w *World) (done bool, code int) {
	ask := &projections.AskJobs{Slim: true}
	if f := s.Cancel.Filter; f != nil {
		ask.Users, ask.Partitions, ask.Accounts, ask.Names, ask.Nodes, ask.Qos, ask.States = f.Users, f.Partitions, f.Accounts, f.Names, f.Nodes, f.Qos, f.States
	}
	for _, t := range s.Cancel.Targets {
		ask.Ids = append(ask.Ids, t.Job)
	}
	a, err := w.jobs("scancel", ask)
	if err != nil {
		return true, w.unmet("scancel", err)
	}
	c := w.context("", false)
	in := bufio.NewReader(w.Stdin)
	var agreed []*events.Target
	put := func(kind, label string, r format.Job, t *events.Target) (more bool) {
		for {
			fmt.Fprintf(w.Stdout, "Cancel %s_id=%s name=%s partition=%s [y/n]? ", kind, label, r.GetSpec().GetName(), r.GetPartition())
			line, err := in.ReadString('\n')
			switch strings.ToLower(strings.TrimSpace(line)) {
			case "y", "yes":
				agreed = append(agreed, t)
				return err == nil
			case "n", "no":
				return err == nil
			}
			if err != nil {
				fmt.Fprintln(w.Stdout)
				return false
			}
		}
	}
	rows := format.Jobs(a.GetJobs().GetJobs(), &c, false)
	targets := s.Cancel.Targets
	if len(targets) == 0 {
		targets = []*events.Target{nil}
	}
asking:
	for _, t := range targets {
		if t != nil && !slices.ContainsFunc(rows, func(r format.Job) bool { return meant(t, r) }) {
			fmt.Fprintf(w.Stderr, "scancel: error: Kill job error on %s id %s: %s\n", targetKind(t), targetLabel(t), refusals.Get()[events.Code_UNKNOWN_JOB])
			code = 1
			continue
		}
		for _, r := range rows {
			if f := s.Cancel.Filter; t != nil && !meant(t, r) || f.GetReservation() != "" && r.GetSpec().GetReservation() != f.GetReservation() ||
				f.GetWckey() != "" && r.GetSpec().GetWckey() != f.GetWckey() {
				continue
			}
			one := &events.Target{Job: r.GetId()}
			kind, label := "job", r.Label()
			switch {
			case r.GetArrayId() != 0 && r.GetHasTask():
				one.Job, one.HasTasks, one.Tasks = r.GetArrayId(), true, events.WordsOf(r.GetArrayTask())
			case r.GetArrayId() != 0: // what waits of it, and of that what was named
				one.HasTasks, one.Tasks = true, r.GetPending()
				if t.GetHasTasks() {
					one.Tasks = events.Words(one.Tasks).And(t.Tasks)
				}
				label = targetLabel(one)
			}
			if t.GetHasStep() {
				kind, label = "step", label+"."+events.StepName(t.Step)
				one.Step, one.HasStep = t.Step, true
			}
			if !put(kind, label, r, one) {
				break asking
			}
		}
	}
	if len(agreed) == 0 {
		return true, code
	}
	s.Cancel.Targets, s.Cancel.Filter = agreed, nil
	return false, code
}
