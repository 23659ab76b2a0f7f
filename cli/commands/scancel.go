package commands

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/events"
	"stint/projections"
)

func init() { table["scancel"] = &command{"end jobs, or send them signals", scancel} }

func scancel(args []string, w *World) int {
	s, err := slurm.ReadScancel(w.input(args))
	switch {
	case err != nil:
		return w.complain("scancel", err)
	case s.Print != "":
		io.WriteString(w.Stdout, s.Print)
		return 0
	}
	if f := s.Cancel.Filter; f != nil {
		for _, u := range f.Users {
			if knowsUsers() && len(w.unknownUsers([]string{u})) > 0 {
				return w.complain("scancel", fmt.Errorf("Invalid user: %s", u))
			}
		}
		f.Users = w.names("scancel", f.Users)
	}
	if s.Interactive {
		if code, done := scancelAsk(s, w); done {
			return code
		}
	}
	for _, t := range s.Cancel.Targets {
		if s.Verbose > 0 {
			fmt.Fprintf(w.Stderr, "scancel: Terminating job %s\n", targetLabel(t))
		}
	}
	v, err := w.control("scancel", events.Verb_CANCEL, s.Cancel)
	if err != nil {
		return w.complain("scancel", errors.New(why(err)))
	}
	if v.Code != events.Code_OK && len(v.Targets) == 0 {
		fmt.Fprintf(w.Stderr, "scancel: error: %s\n", refused(v.Code, v.Text))
		return 1
	}
	code := 0
	for _, t := range v.Targets {
		switch t.Code {
		case events.Code_UNKNOWN_JOB, events.Code_ALREADY_DONE: // there is nothing left to end
			if s.Verbose > 0 && !s.Quiet {
				fmt.Fprintf(w.Stderr, "scancel: error: Kill job error on job id %d: %s\n", t.Job, refusals[t.Code])
			}
			if s.Cancel.Signal != 0 && !s.Quiet && s.Verbose > 0 {
				code = 1
			}
		default:
			fmt.Fprintf(w.Stderr, "scancel: error: Kill job error on job id %d: %s\n", t.Job, refused(t.Code, t.Text))
			code = 1
		}
	}
	return code
}

// unknownUsers returns those of the users that the host does not have.
func (w *World) unknownUsers(users []string) (out []string) {
	for _, u := range users {
		if !userExists(u) {
			out = append(out, u)
		}
	}
	return out
}

func targetLabel(t *events.Target) string {
	label := fmt.Sprint(t.Job)
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

// scancelAsk asks before each job, and leaves those that may be ended.
func scancelAsk(s *slurm.Scancel, w *World) (code int, done bool) {
	ask := &projections.AskJobs{}
	if f := s.Cancel.Filter; f != nil {
		ask.Users, ask.Partitions, ask.Accounts, ask.Names, ask.Nodes, ask.Qos, ask.States = f.Users, f.Partitions, f.Accounts, f.Names, f.Nodes, f.Qos, f.States
	}
	for _, t := range s.Cancel.Targets {
		ask.Ids = append(ask.Ids, t.Job)
	}
	a, err := w.ask("scancel", &projections.Ask{What: &projections.Ask_Jobs{Jobs: ask}})
	if err != nil {
		return w.complain("scancel", errors.New(why(err))), true
	}
	c := w.context("", false)
	r := bufio.NewReader(w.Stdin)
	var targets []*events.Target
	for _, row := range format.Jobs(a.GetJobs().GetJobs(), &c, false, false) {
		if row.GetState().Final() {
			continue
		}
		fmt.Fprintf(w.Stdout, "Cancel job_id=%s name=%s partition=%s [y/n]? ", row.Label(), row.GetSpec().GetName(), row.GetPartition())
		line, err := r.ReadString('\n')
		if strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y") {
			targets = append(targets, &events.Target{Job: row.GetId()})
		}
		if err != nil {
			break
		}
	}
	if len(targets) == 0 {
		return 0, true
	}
	s.Cancel.Targets, s.Cancel.Filter = targets, nil
	return 0, false
}
