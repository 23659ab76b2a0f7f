package commands

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
)

// scontrolRecords prints what show shows of jobs, nodes, partitions, steps and the configuration.
func scontrolRecords(s *slurm.Scontrol, w *World) int {
	switch s.Entity {
	case "job":
		return showJobs(s, w)
	case "step":
		return showSteps(s, w)
	case "node":
		return showNodes(s, w)
	case "partition":
		return showPartitions(s, w)
	case "config":
		return showConfig(w)
	case "reservation":
		if len(s.IDs) > 0 {
			fmt.Fprintf(w.Stdout, "Reservation %s not found\n", s.IDs[0])
			return 1
		}
		io.WriteString(w.Stdout, format.NoReservations)
		return 0
	}
	return w.complain("scontrol", fmt.Errorf("scontrol show %s is not supported by Stint yet", s.Entity))
}

// recordedJobs asks for the jobs named, all of them if none is, and makes rows of them, array tasks after what is pending.
func recordedJobs(s *slurm.Scontrol, w *World, slim bool) (rows []format.Job, found bool, err error) {
	ask := &projections.AskJobs{AllStates: true, Slim: slim}
	var targets []*events.Target
	for _, arg := range s.IDs {
		for _, id := range strings.FieldsFunc(arg, func(r rune) bool { return r == ' ' }) {
			t, err := slurm.ParseTarget(id)
			if err != nil {
				return nil, false, err
			}
			targets = append(targets, t)
			ask.Ids = append(ask.Ids, t.Job)
		}
	}
	a, err := w.ask("scontrol", &projections.Ask{What: &projections.Ask_Jobs{Jobs: ask}})
	if err != nil {
		return nil, false, errors.New(why(err))
	}
	info, err := w.ask("scontrol", &projections.Ask{What: &projections.Ask_Config{Config: &projections.AskConfig{}}})
	if err != nil {
		return nil, false, errors.New(why(err))
	}
	c := w.context(info.GetConfig().GetConfig().GetCluster(), false)
	for _, r := range format.Jobs(a.GetJobs().GetJobs(), &c, false, false) {
		if len(targets) == 0 {
			rows = append(rows, r)
			continue
		}
		for _, t := range targets {
			if !meant(t, r) {
				continue
			}
			if tasks := events.Words(t.Tasks); t.HasTasks && !r.GetHasTask() && tasks.Count() == 1 { // one pending task of an array
				task, _ := tasks.First()
				r.Task = int(task)
			}
			rows = append(rows, r)
			break
		}
	}
	slices.SortStableFunc(rows, func(a, b format.Job) int {
		if a.GetArrayId() != 0 && a.GetArrayId() == b.GetArrayId() {
			// What is pending of an array stands before its tasks, and the task started last comes first.
			if a.GetHasTask() != b.GetHasTask() {
				if b.GetHasTask() {
					return -1
				}
				return 1
			}
			return int(b.GetArrayTask()) - int(a.GetArrayTask())
		}
		return int(idOf(a)) - int(idOf(b))
	})
	return rows, len(rows) > 0, nil
}

// idOf is where a job stands among the others: an array's tasks with the array.
func idOf(j format.Job) uint32 {
	if j.GetArrayId() != 0 {
		return j.GetArrayId()
	}
	return j.GetId()
}

func showJobs(s *slurm.Scontrol, w *World) int {
	rows, found, err := recordedJobs(s, w, false)
	switch {
	case err != nil:
		return w.complain("scontrol", err)
	case !found && len(s.IDs) > 0:
		fmt.Fprintf(w.Stderr, "slurm_load_jobs error: %s\n", format.InvalidJobID)
		return 1
	case !found:
		io.WriteString(w.Stdout, format.NoJobs)
		return 0
	}
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(r.Record(s.OneLine, s.Details))
	}
	io.WriteString(w.Stdout, b.String())
	return 0
}

func showSteps(s *slurm.Scontrol, w *World) int {
	rows, _, err := recordedJobs(s, w, true)
	if err != nil {
		return w.complain("scontrol", err)
	}
	steps := format.Steps(rows)
	if len(steps) == 0 {
		if len(s.IDs) > 0 {
			fmt.Fprintf(w.Stdout, "Job step %s not found\n", s.IDs[0])
			return 1
		}
		io.WriteString(w.Stdout, format.NoSteps)
		return 0
	}
	for _, step := range steps {
		io.WriteString(w.Stdout, step.Record(s.OneLine))
	}
	return 0
}

// nodesAnswer asks for all nodes and partitions.
func nodesAnswer(w *World) (*projections.AnswerNodes, *format.NodeContext, error) {
	a, err := w.ask("scontrol", &projections.Ask{What: &projections.Ask_Nodes{Nodes: &projections.AskNodes{}}})
	if err != nil {
		return nil, nil, errors.New(why(err))
	}
	answer := a.GetNodes()
	return answer, &format.NodeContext{Context: w.context(answer.GetConfig().GetCluster(), false), UserName: w.Users.Name}, nil
}

func showNodes(s *slurm.Scontrol, w *World) int {
	answer, c, err := nodesAnswer(w)
	if err != nil {
		return w.complain("scontrol", err)
	}
	byName := map[string]*projections.Node{}
	var names []string
	for _, n := range answer.GetNodes() {
		byName[n.Name] = n
		names = append(names, n.Name)
	}
	if len(s.IDs) > 0 {
		if names, err = hostlist.Expand(strings.Join(s.IDs, ","), hostlist.MaxHosts); err != nil {
			return w.complain("scontrol", err)
		}
	}
	code := 0
	for _, name := range names {
		if n := byName[name]; n != nil {
			io.WriteString(w.Stdout, format.NodeRecord(n, c, s.OneLine, s.Details))
			continue
		}
		fmt.Fprintf(w.Stdout, format.NodeNotFound, name)
		code = 1
	}
	return code
}

func showPartitions(s *slurm.Scontrol, w *World) int {
	answer, c, err := nodesAnswer(w)
	if err != nil {
		return w.complain("scontrol", err)
	}
	found := false
	for _, p := range answer.GetPartitions() {
		if len(s.IDs) > 0 && !slices.Contains(strings.Split(strings.Join(s.IDs, ","), ","), p.Name) || len(s.IDs) == 0 && p.Hidden && !s.All {
			continue
		}
		found = true
		io.WriteString(w.Stdout, format.PartitionRecord(p, answer.GetNodes(), c, s.OneLine))
	}
	if !found && len(s.IDs) > 0 {
		fmt.Fprintf(w.Stdout, format.PartNotFound, s.IDs[0])
		return 1
	}
	return 0
}

func showConfig(w *World) int {
	a, err := w.ask("scontrol", &projections.Ask{What: &projections.Ask_Config{Config: &projections.AskConfig{}}})
	if err != nil {
		return w.complain("scontrol", errors.New(why(err)))
	}
	config := a.GetConfig()
	host := config.GetController()
	if list := config.GetConfig().GetControllers(); len(list) > 0 {
		host = list[0]
	}
	if host == "" {
		if host, err = os.Hostname(); err != nil {
			host = "localhost"
		}
	}
	c := w.context(config.GetConfig().GetCluster(), false)
	io.WriteString(w.Stdout, format.Config(config, &c, host, w.Getenv("SLURM_CONF")))
	fmt.Fprintf(w.Stdout, "\n%s", format.Ping("primary", host, true))
	return 0
}
