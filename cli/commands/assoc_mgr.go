package commands

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/projections"
)

// showAssocMgr shows users, associations and QoS with their limits and what the queue holds of them.
func showAssocMgr(s *slurm.Scontrol, w *World) int {
	mgr := &format.AssocMgr{OneLine: s.OneLine}
	for _, word := range s.IDs {
		key, value, _ := strings.Cut(word, "=")
		list := slurm.SplitNames(value, false)
		switch k := strings.ToLower(key); {
		case value == "":
			return w.complain("scontrol", fmt.Errorf("show assoc_mgr takes users=, accounts=, qos= and flags=, not %s", word))
		case slurm.Keyed(k, "users", 1):
			mgr.Named = append(mgr.Named, list...)
		case slurm.Keyed(k, "accounts", 1):
			mgr.Account = append(mgr.Account, list...)
		case slurm.Keyed(k, "qos", 1):
			mgr.QosName = append(mgr.QosName, list...)
		case slurm.Keyed(k, "flags", 1):
			for _, f := range list {
				switch {
				case slurm.Keyed(f, "users", 1):
					mgr.Users = true
				case slurm.Keyed(f, "associations", 1):
					mgr.Assocs = true
				case slurm.Keyed(f, "qos", 1):
					mgr.Qos = true
				default:
					return w.complain("scontrol", fmt.Errorf("flags=%s is not one of users, assoc and qos", f))
				}
			}
		default:
			return w.complain("scontrol", fmt.Errorf("show assoc_mgr knows no %s; it takes users=, accounts=, qos= and flags=", key))
		}
	}
	if !mgr.Users && !mgr.Assocs && !mgr.Qos {
		mgr.Users, mgr.Assocs, mgr.Qos = true, true, true
	}
	a, err := w.ask("scontrol", &projections.Ask{What: &projections.Ask_Policy{Policy: &projections.AskPolicy{}}})
	if err != nil {
		return w.complain("scontrol", errors.New(why(err)))
	}
	mgr.Config = a.GetPolicy().GetConfig()
	if mgr.Policy, err = projections.LoadPolicy(a.GetPolicy().GetPolicy()); err != nil {
		return w.complain("scontrol", fmt.Errorf("reading the policy: %w", err))
	}
	jobs, err := w.jobs("scontrol", &projections.AskJobs{Slim: true})
	if err != nil {
		return w.unmet("scontrol", err)
	}
	mgr.Jobs = jobs.GetJobs().GetJobs()
	mgr.Uid = func(user string) string { return uidOf(w, user) }
	io.WriteString(w.Stdout, mgr.Print())
	return 0
}
