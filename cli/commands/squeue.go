package commands

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/events"
	"stint/projections"
)

func init() { table["squeue"] = &command{"show the queue", squeue} }

func squeue(args []string, w *World) int {
	q, err := slurm.ReadSqueue(w.input(args))
	switch {
	case err != nil:
		return w.complain("squeue", err)
	case q.Print != "":
		io.WriteString(w.Stdout, q.Print)
		return 0
	case q.HelpFormat:
		io.WriteString(w.Stdout, strings.Join(format.SqueueFields.Names(), "\n")+"\n")
		return 0
	}
	q.Users = w.names("squeue", q.Users)
	return w.repeat(q.Iterate, func() int { return squeueOnce(q, w) })
}

func squeueOnce(q *slurm.Squeue, w *World) int {
	ask := &projections.AskJobs{
		Users: q.Users, Partitions: q.Partitions, Accounts: q.Accounts, Names: q.Names, Nodes: q.Nodes, Qos: q.QOS,
		AllStates: q.States.All || q.States.Completing, States: q.States.States,
	}
	if q.States.Completing {
		ask.States = nil
	}
	var targets []*events.Target
	for _, id := range append(slices.Clone(q.Jobs), q.StepIDs...) {
		t, err := slurm.ParseTarget(id)
		if err != nil {
			return w.complain("squeue", err)
		}
		targets = append(targets, t)
		ask.Ids = append(ask.Ids, t.Job)
	}
	if len(q.Jobs) > 0 {
		ask.AllStates = true // to tell a job that is over from one that nobody knows
	}
	a, err := w.ask("squeue", &projections.Ask{What: &projections.Ask_Jobs{Jobs: ask}})
	if err != nil {
		return w.complain("squeue", fmt.Errorf("%s", why(err)))
	}
	if len(q.Jobs) == 1 && len(a.GetJobs().GetJobs()) == 0 && a.GetJobs().UnknownId {
		fmt.Fprintln(w.Stderr, "slurm_load_jobs error: Invalid job id specified")
		return 1
	}
	info, err := w.ask("squeue", &projections.Ask{What: &projections.Ask_Config{Config: &projections.AskConfig{}}})
	if err != nil {
		return w.complain("squeue", fmt.Errorf("%s", why(err)))
	}
	config := info.GetConfig().GetConfig()
	if err := w.other(q.Clusters, config.GetCluster()); err != nil {
		return w.complain("squeue", err)
	}
	views := slices.DeleteFunc(a.GetJobs().GetJobs(), func(v *projections.JobView) bool { return !shown(q, v, config) })
	c := w.context(config.GetCluster(), q.NoConvert)
	rows := format.Jobs(views, &c, q.Array, q.PerPartition)
	if len(targets) > 0 {
		rows = slices.DeleteFunc(rows, func(r format.Job) bool {
			return !slices.ContainsFunc(targets, func(t *events.Target) bool { return meant(t, r) })
		})
	}
	if q.Steps {
		return squeueSteps(q, w, rows)
	}
	return printJobs(q, w, rows)
}

// shown says whether a job is asked for, as far as the question could not say it.
func shown(q *slurm.Squeue, v *projections.JobView, config *events.Config) bool {
	j := v.Job
	live := j.State == events.JobState_PENDING || j.State == events.JobState_RUNNING || j.State == events.JobState_SUSPENDED || j.Completing
	switch {
	case q.States.All:
	case !q.States.Any():
		if !live {
			return false
		}
	case q.States.Completing && j.Completing:
	case slices.Contains(q.States.States, j.State):
	default:
		return false
	}
	if q.NotMe && slices.Contains(q.Users, j.GetOwner().GetUser()) {
		return false
	}
	if len(q.Licenses) > 0 && !slices.ContainsFunc(strings.FieldsFunc(j.GetSpec().GetLicenses(), func(r rune) bool { return r == ',' || r == ';' }), func(l string) bool {
		name, _, _ := strings.Cut(l, ":")
		return slices.Contains(q.Licenses, name)
	}) {
		return false
	}
	if q.Reservation != "" && j.GetSpec().GetReservation() != q.Reservation {
		return false
	}
	if q.Start && j.State != events.JobState_PENDING {
		return false
	}
	if !q.All && len(q.Partitions) == 0 { // jobs in hidden partitions are shown when these are asked for
		for _, p := range config.GetPartitions() {
			if p.Name == j.Partition && p.Hidden {
				return false
			}
		}
	}
	return true
}

// meant says whether a row is one of those that `-j 8`, `8_3` or `8_[1-4]` names.
func meant(t *events.Target, r format.Job) bool {
	if r.GetId() != t.Job && r.GetArrayId() != t.Job {
		return false
	}
	if !t.HasTasks {
		return true
	}
	tasks := events.Words(t.Tasks)
	switch {
	case r.GetHasTask():
		return tasks.Has(r.GetArrayTask())
	case r.Task >= 0:
		return tasks.Has(uint32(r.Task))
	}
	return tasks.Intersects(events.Words(r.GetPending()))
}

func printJobs(q *slurm.Squeue, w *World, rows []format.Job) int {
	var l format.Layout[format.Job]
	var notes []string
	order := format.SqueueSort
	switch {
	case q.Fields != "":
		l, notes = format.SqueueFields.ByName(q.Fields)
	case q.Format != "":
		l, notes = format.SqueueFields.ByLetter(q.Format)
	case q.Start:
		l, _ = format.SqueueFields.ByLetter(format.SqueueStartFormat)
		order = format.SqueueStartSort
	case q.Long:
		l, _ = format.SqueueFields.ByLetter(format.SqueueLongFormat)
	default:
		l, _ = format.SqueueFields.ByLetter(format.SqueueFormat)
	}
	for _, n := range notes {
		fmt.Fprintf(w.Stderr, "squeue: error: %s\n", n)
	}
	if q.Sort != "" {
		order = q.Sort
	}
	sorter, err := format.SqueueFields.Sort(order)
	if err != nil {
		return w.complain("squeue", err)
	}
	slices.SortStableFunc(rows, sorter.Compare)
	l.Fit(rows)
	if q.Long && !q.NoHeader {
		io.WriteString(w.Stdout, format.DateLine(w.Now))
	}
	return printRows(w, l, rows, q.NoHeader)
}

func squeueSteps(q *slurm.Squeue, w *World, jobs []format.Job) int {
	var l format.Layout[format.Step]
	var notes []string
	switch {
	case q.Fields != "":
		l, notes = format.StepFields.ByName(q.Fields)
	case q.Format != "":
		l, notes = format.StepFields.ByLetter(q.Format)
	default:
		l, _ = format.StepFields.ByLetter(format.SqueueStepFormat)
	}
	for _, n := range notes {
		fmt.Fprintf(w.Stderr, "squeue: error: %s\n", n)
	}
	order := q.Sort
	if order == "" {
		order = "i"
	}
	sorter, err := format.StepFields.Sort(order)
	if err != nil {
		return w.complain("squeue", err)
	}
	rows := format.Steps(jobs)
	slices.SortStableFunc(rows, sorter.Compare)
	l.Fit(rows)
	return printRows(w, l, rows, q.NoHeader)
}

// printRows prints headings and rows at once.
func printRows[R any](w *World, l format.Layout[R], rows []R, noHeader bool) int {
	var b strings.Builder
	if !noHeader {
		b.WriteString(l.Head() + "\n")
	}
	for _, r := range rows {
		b.WriteString(l.Row(r) + "\n")
	}
	if _, err := io.WriteString(w.Stdout, b.String()); err != nil {
		return 1
	}
	return 0
}
