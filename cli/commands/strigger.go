package commands

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/cli/wire"
	"stint/events"
	"stint/projections"
)

func strigger(args []string, w *World) int {
	s, err := slurm.ReadStrigger(w.input(args))
	switch {
	case err != nil:
		return w.complain("strigger", err)
	case s.Print != "":
		io.WriteString(w.Stdout, s.Print)
		return 0
	}
	if s.Clusters != "" {
		info, err := w.config("strigger")
		if err == nil {
			err = w.other(s.Clusters, info.GetConfig().GetCluster())
		}
		if err != nil {
			return w.unmet("strigger", err)
		}
	}
	var owner *uint32
	if s.User != "" {
		uid, known := w.Users.Uid(s.User)
		if n, err := strconv.ParseUint(s.User, 10, 32); !known && err == nil {
			uid, known = uint32(n), true
		}
		if !known {
			return w.complain("strigger", errors.New("Invalid user "+s.User))
		}
		owner = &uid
	}
	if s.Program != "" {
		if err := isProgram(s.Program); err != nil {
			return w.complain("strigger", err)
		}
	}
	switch {
	case s.Set:
		return setTrigger(s, w)
	case s.Clear:
		return clearTriggers(s, owner, w)
	}
	return getTriggers(s, owner, w)
}

// isProgram looks whether the first word of a program is a file. Whether it may be run is seen where it is run.
func isProgram(program string) error {
	path := strings.Fields(program)[0]
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return errors.New("Invalid --program value, file not found")
	case !info.Mode().IsRegular():
		return errors.New("Invalid --program value, not regular file")
	}
	return nil
}

func setTrigger(s *slurm.Strigger, w *World) int {
	if info, err := os.Stat(strings.Fields(s.Program)[0]); err == nil && info.Mode().Perm()&0o111 == 0 {
		return triggerRefused(w, "slurm_set_trigger", events.Code_ACCESS_DENIED, fmt.Sprintf("%s is not executable", strings.Fields(s.Program)[0]))
	}
	v, err := w.control("strigger", events.Verb_SET_TRIGGER, s.Trigger())
	switch {
	case err != nil:
		return triggersUnmet(w, "slurm_set_trigger", err)
	case v.Code != events.Code_OK:
		return triggerRefused(w, "slurm_set_trigger", v.Code, v.Text)
	case s.Verbose > 0:
		fmt.Fprintln(w.Stderr, "strigger: trigger set")
	}
	return 0
}

func clearTriggers(s *slurm.Strigger, owner *uint32, w *World) int {
	v, err := w.control("strigger", events.Verb_CLEAR_TRIGGERS, &events.ClearTriggers{Id: s.ID, Job: s.Job, Uid: owner})
	switch {
	case s.Quiet && (err != nil || v.Code != events.Code_OK):
		return 0
	case err != nil:
		return triggersUnmet(w, "slurm_clear_trigger", err)
	case v.Code != events.Code_OK:
		return triggerRefused(w, "slurm_clear_trigger", v.Code, v.Text)
	case s.Verbose == 0:
	case s.Job != 0:
		fmt.Fprintf(w.Stderr, "strigger: triggers for job %d cleared\n", s.Job)
	case owner != nil:
		fmt.Fprintf(w.Stderr, "strigger: triggers for user %d cleared\n", *owner)
	default:
		fmt.Fprintf(w.Stderr, "strigger: trigger %d cleared\n", s.ID)
	}
	return 0
}

func getTriggers(s *slurm.Strigger, owner *uint32, w *World) int {
	a, err := w.ask("strigger", &projections.Ask{What: &projections.Ask_Triggers{Triggers: &projections.AskTriggers{}}})
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		return triggersUnmet(w, "slurm_get_triggers", err)
	}
	list := a.GetTriggers().GetTriggers()
	if s.Verbose > 0 {
		fmt.Fprintf(w.Stderr, "strigger: Read %d trigger records\n", len(list))
	}
	header := !s.NoHeader
	for _, t := range list {
		if !s.Shows(t.GetTrigger(), owner) {
			continue
		}
		if header {
			io.WriteString(w.Stdout, format.TriggerHeader)
			header = false
		}
		io.WriteString(w.Stdout, format.TriggerRow(t.GetTrigger()))
	}
	return 0
}

// triggerRefused prints why not: what was said precisely, and on the last line the call that Slurm would have failed, with the sentence
// that tools look for.
func triggerRefused(w *World, call string, code events.Code, text string) int {
	lines := strings.Split(refused(code, text), "\n")
	for _, l := range lines[:len(lines)-1] {
		fmt.Fprintf(w.Stderr, "strigger: error: %s\n", l)
	}
	fmt.Fprintf(w.Stderr, "%s: %s\n", call, lines[len(lines)-1])
	return 1
}

func triggersUnmet(w *World, call string, err error) int {
	var no *wire.Refused
	if errors.As(err, &no) && no.Code != events.Code_OK {
		return triggerRefused(w, call, no.Code, no.Text)
	}
	fmt.Fprintf(w.Stderr, "%s: %s\n", call, why(err))
	return 1
}
