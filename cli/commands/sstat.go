package commands

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/events"
	"stint/events/hostlist"
	"stint/events/tres"
	"stint/executor/tasks"
	"stint/projections"
)

func sstat(args []string, w *World) int {
	q, err := slurm.ReadSstat(w.input(args))
	switch {
	case err != nil:
		return w.complain("sstat", err)
	case q.Print != "":
		io.WriteString(w.Stdout, q.Print)
		return 0
	case q.HelpFormat:
		io.WriteString(w.Stdout, format.SstatFieldNames(w.Release()))
		return 0
	}
	columns, err := format.SstatTable(q.Format, w.Release())
	if err != nil {
		return w.complain("sstat", err)
	}
	context := &format.AccountContext{Context: w.context("", q.Unit == tres.Plain), Unit: q.Unit}
	var ids []uint32
	for _, t := range q.Targets {
		ids = append(ids, t.Job)
	}
	a, err := w.jobs("sstat", &projections.AskJobs{Ids: ids, AllStates: true, Slim: true})
	if err != nil {
		w.unmet("sstat", err) // as there, nothing to show is no failure
		if !q.Columns.NoHeader {
			io.WriteString(w.Stdout, columns.Head(q.Columns))
		}
		return 0
	}
	steps := format.Steps(format.Jobs(a.GetJobs().GetJobs(), &context.Context, false))
	format.AsRecords(steps)
	out := bufio.NewWriterSize(w.Stdout, 64<<10)
	defer out.Flush()
	if !q.Columns.NoHeader {
		out.WriteString(columns.Head(q.Columns))
	}
	for _, t := range q.Targets {
		asked := asksOf(q, t, steps)
		if len(asked) == 0 && !slices.ContainsFunc(steps, func(s format.Step) bool { return meant(&events.Target{Job: t.Job}, s.Job) }) {
			fmt.Fprintf(w.Stderr, "sstat: error: no steps running for job %s: %s\n", targetLabel(t), format.InvalidJobID)
		}
		uses, err := usesOf(w, asked, q.Pids)
		if err != nil {
			fmt.Fprintf(w.Stderr, "sstat: error: couldn't get steps for job %s: %s\n", targetLabel(t), why(err))
		}
		for _, u := range uses {
			out.WriteString(columns.Row(q.Columns, format.Account{Now: u, Context: context}))
		}
	}
	return 0
}

// asksOf are the steps that a target of sstat means: the one that is named, with -a all of the job, else its first numbered one.
func asksOf(q *slurm.Sstat, t *events.Target, steps []format.Step) (out []format.Step) {
	for _, s := range steps {
		switch {
		case !names(t, s), !t.HasStep && !q.AllSteps && (s.Live == nil || len(out) > 0):
		default:
			out = append(out, s)
		}
	}
	return out
}

// usesOf asks the nodes of steps of a job what they use; with pids each node makes a row of its own.
func usesOf(w *World, steps []format.Step, pids bool) (out []*format.Use, err error) {
	if len(steps) == 0 {
		return nil, nil
	}
	look := &tasks.Look{Job: steps[0].GetId()}
	for _, s := range steps {
		look.Steps = append(look.Steps, s.Step)
		for _, n := range s.NodeNames() {
			if !slices.Contains(look.Nodes, n) {
				look.Nodes = append(look.Nodes, n)
			}
		}
	}
	c, err := w.connect("sstat")
	if err != nil {
		return nil, err
	}
	r, err := c.Step(&tasks.Question{What: &tasks.Question_Look{Look: look}})
	switch {
	case err != nil:
		return nil, err
	case r.Refusal != tasks.Refusal_NOT_REFUSED:
		return nil, errors.New(r.Text)
	case r.Text != "":
		err = errors.New(r.Text)
	}
	for _, s := range steps {
		all := &format.Use{Label: s.Label(), Batch: s.Live == nil}
		var nodes []string
		for _, name := range s.NodeNames() {
			for _, seen := range r.Seen {
				if seen.Step != s.Step || seen.Node != name {
					continue
				}
				one := all
				if pids {
					one = &format.Use{Label: s.Label(), Batch: s.Live == nil, Nodes: name}
					out = append(out, one)
				}
				nodes = append(nodes, name)
				one.Pids, one.KHz = append(one.Pids, seen.Pids...), max(one.KHz, seen.Khz)
				for _, t := range seen.Tasks {
					one.Tasks = append(one.Tasks, format.TaskUse{TaskUse: t, Node: name})
				}
			}
		}
		if all.Nodes = hostlist.Compress(nodes); !pids && len(nodes) > 0 {
			out = append(out, all)
		}
	}
	return out, err
}
