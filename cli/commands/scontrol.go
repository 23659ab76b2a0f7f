package commands

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"stint/cli/slurm"
	"stint/events"
	"stint/projections"
)

func init() {
	table["scontrol"] = &command{"show and change jobs, nodes and the cluster", scontrol}
}

func scontrol(args []string, w *World) int {
	s, err := slurm.ReadScontrol(w.input(args))
	switch {
	case err != nil:
		return w.complain("scontrol", err)
	case s.Print != "":
		io.WriteString(w.Stdout, s.Print)
		return 0
	}
	switch s.Verb {
	case "show":
		return scontrolShow(s, w)
	case "hold", "uhold":
		return scontrolAct(s, w, events.Verb_HOLD, func(t []*events.Target) body {
			return &events.Select{Targets: t, Admin: s.Verb == "hold" && w.user() == "root"}
		})
	case "release":
		return scontrolAct(s, w, events.Verb_RELEASE, func(t []*events.Target) body { return &events.Select{Targets: t} })
	case "suspend":
		return scontrolAct(s, w, events.Verb_SUSPEND, func(t []*events.Target) body { return &events.Select{Targets: t} })
	case "resume":
		return scontrolAct(s, w, events.Verb_RESUME, func(t []*events.Target) body { return &events.Select{Targets: t} })
	case "requeue":
		return scontrolAct(s, w, events.Verb_REQUEUE, func(t []*events.Target) body {
			return &events.Requeue{Targets: t, Hold: s.Hold, Incomplete: s.Undone}
		})
	case "update":
		return scontrolUpdate(s, w)
	case "ping":
		return scontrolPing(w)
	case "wait_job":
		return scontrolWait(s, w)
	case "completing":
		return scontrolCompleting(s, w)
	case "reconfigure":
		return w.complain("scontrol", errors.New("the configuration is in the log, and `stint up --config FILE` takes a file's over into it; run that where the cluster runs"))
	case "write":
		return w.complain("scontrol", errors.New("scontrol write batch_script is not supported by Stint yet"))
	}
	return w.complain("scontrol", fmt.Errorf("scontrol %s is not supported by Stint yet", s.Verb))
}

type body interface{ MarshalVT() ([]byte, error) }

// byName finds the jobs of the given names, and adds them to the targets.
func byName(s *slurm.Scontrol, w *World) error {
	if len(s.JobNames) == 0 {
		return nil
	}
	a, err := w.ask("scontrol", &projections.Ask{What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{Names: s.JobNames, Slim: true}}})
	if err != nil {
		return errors.New(why(err))
	}
	seen := map[uint32]bool{}
	for _, v := range a.GetJobs().GetJobs() {
		id := v.Job.Id
		if v.Job.ArrayId != 0 {
			id = v.Job.ArrayId
		}
		if !seen[id] {
			seen[id] = true
			s.Targets = append(s.Targets, &events.Target{Job: id})
		}
	}
	if len(s.Targets) == 0 {
		return errors.New(refusals[events.Code_UNKNOWN_JOB])
	}
	return nil
}

// scontrolAct has one thing done to jobs.
func scontrolAct(s *slurm.Scontrol, w *World, verb events.Verb, make func([]*events.Target) body) int {
	if err := byName(s, w); err != nil {
		return w.complain("scontrol", err)
	}
	return scontrolSend(s, w, verb, make(s.Targets))
}

func scontrolSend(s *slurm.Scontrol, w *World, verb events.Verb, b body) int {
	v, err := w.control("scontrol", verb, b)
	if err != nil {
		return w.complain("scontrol", errors.New(why(err)))
	}
	if v.Code == events.Code_OK && len(v.Targets) == 0 {
		return 0
	}
	for _, t := range v.Targets {
		name := t.Name
		if name == "" {
			name = fmt.Sprint(t.Job)
		}
		fmt.Fprintf(w.Stderr, "%s for job %s\n", refused(t.Code, t.Text), name)
	}
	if len(v.Targets) == 0 {
		fmt.Fprintf(w.Stderr, "slurm_%s error: %s\n", s.Verb, refused(v.Code, v.Text))
	}
	return 1
}

func scontrolUpdate(s *slurm.Scontrol, w *World) int {
	if s.Node != nil {
		return scontrolSend(s, w, events.Verb_UPDATE_NODE, s.Node)
	}
	s.Targets = s.Job.Targets
	if err := byName(s, w); err != nil {
		return w.complain("scontrol", err)
	}
	s.Job.Targets = s.Targets
	return scontrolSend(s, w, events.Verb_UPDATE_JOB, s.Job)
}

func scontrolPing(w *World) int {
	a, err := w.ask("scontrol", &projections.Ask{What: &projections.Ask_Config{Config: &projections.AskConfig{}}})
	host, state, code := "", "UP", 0
	if err != nil {
		state, code = "DOWN", 1
	} else if list := a.GetConfig().GetConfig().GetControllers(); len(list) > 0 {
		host = list[0]
	}
	if host == "" {
		if host, err = os.Hostname(); err != nil {
			host = "localhost"
		}
	}
	fmt.Fprintf(w.Stdout, "Slurmctld(primary) at %s is %s\n", host, state)
	return code
}

// scontrolWait waits until the nodes of a job are ready: here that is when it runs.
func scontrolWait(s *slurm.Scontrol, w *World) int {
	for _, t := range s.Targets {
		for {
			a, err := w.ask("scontrol", &projections.Ask{What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{Ids: []uint32{t.Job}, AllStates: true, Slim: true}}})
			if err != nil {
				return w.complain("scontrol", errors.New(why(err)))
			}
			if len(a.GetJobs().GetJobs()) == 0 {
				return w.complain("scontrol", fmt.Errorf("job %d: %s", t.Job, refusals[events.Code_UNKNOWN_JOB]))
			}
			j := a.GetJobs().GetJobs()[0].Job
			if j.State == events.JobState_RUNNING {
				break
			}
			if j.State.Final() {
				return w.complain("scontrol", fmt.Errorf("job %d: %s", t.Job, refusals[events.Code_ALREADY_DONE]))
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
	return 0
}

func scontrolCompleting(s *slurm.Scontrol, w *World) int {
	a, err := w.ask("scontrol", &projections.Ask{What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{Slim: true}}})
	if err != nil {
		return w.complain("scontrol", errors.New(why(err)))
	}
	for _, v := range a.GetJobs().GetJobs() {
		if v.Job.Completing {
			fmt.Fprintf(w.Stdout, "JobId=%d EndTime=%s Nodes(COMPLETING)=%s\n", v.Job.Id,
				w.clock().Time(v.Job.EndUs, "Unknown"), strings.Join(v.Job.Unreported(), ","))
		}
	}
	return 0
}

// scontrolShow prints records.
func scontrolShow(s *slurm.Scontrol, w *World) int {
	switch s.Entity {
	case "hostnames", "hostlist", "hostlistsorted":
		list := s.IDs[0]
		if s.Entity != "hostnames" && strings.HasPrefix(list, "/") { // a file with names
			data, err := readSmall(list)
			if err != nil {
				return w.complain("scontrol", fmt.Errorf("reading the hosts: %w", err))
			}
			list = strings.Join(strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' || r == ' ' || r == '\t' }), ",")
		}
		text, err := s.Hosts(list)
		if err != nil {
			return w.complain("scontrol", err)
		}
		io.WriteString(w.Stdout, text)
		return 0
	}
	return scontrolRecords(s, w)
}
