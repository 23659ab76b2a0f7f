package commands

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
)

func squeue(args []string, w *World) int {
	q, err := slurm.ReadSqueue(w.input(args))
	switch {
	case err != nil:
		return w.complain("squeue", err)
	case q.Print != "":
		io.WriteString(w.Stdout, q.Print)
		return 0
	case q.HelpFormat:
		io.WriteString(w.Stdout, strings.Join(format.SqueueFieldsOf(w.Release()).Names(), "\n")+"\n")
		return 0
	}
	w.yaml = q.YAML
	if q.Verbose > 0 {
		io.WriteString(w.Stdout, q.Asked(w.number))
	}
	q.Users = w.names("squeue", q.Users)
	return w.repeat(q.Iterate, func() int { return squeueOnce(q, w) })
}

func squeueOnce(q *slurm.Squeue, w *World) int {
	ask := &projections.AskJobs{
		Users: q.Users, Partitions: q.Partitions, Accounts: q.Accounts, Names: q.Names, Nodes: q.Nodes, Qos: q.QOS,
		AllStates: q.States.All || q.States.Completing, States: q.States.States, Slim: !q.JSON, Associations: q.JSON || strings.Contains(strings.ToLower(q.Fields), "associd"),
		Kinds: !q.JSON,
	}
	if q.States.Special && len(ask.States) > 0 {
		ask.States = append(slices.Clone(ask.States), events.JobState_PENDING) // which they are as well
	}
	if q.States.Stopped && len(ask.States) > 0 {
		ask.States = append(slices.Clone(ask.States), events.JobState_RUNNING) // likewise
	}
	if q.States.Completing {
		ask.States = nil // shown tells them apart
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
	if len(q.Jobs) > 0 && !q.States.Any() {
		ask.AllStates = true // to tell a job that is over from one that nobody knows
	}
	if q.Verbose > 0 {
		ask.AllStates, ask.States = true, nil // it says how many there are
		if !q.NoHeader {
			io.WriteString(w.Stdout, format.DateLine(w.Now))
		}
	}
	info, err := w.config("squeue")
	if err != nil {
		return w.unmet("squeue", err)
	}
	config := info.GetConfig()
	if err := w.other(q.Clusters, config.GetCluster()); err != nil {
		return w.complain("squeue", err)
	}
	if name := unknownNode(q.Nodes, config); name != "" {
		return w.complain("squeue", fmt.Errorf("Invalid node name %s", name))
	}
	a, err := w.jobs("squeue", ask)
	if err != nil {
		return w.unmet("squeue", err)
	}
	records := len(a.GetJobs().GetJobs()) + len(a.GetJobs().GetRows().GetIds())
	if len(q.Jobs) == 1 && records == 0 && a.GetJobs().UnknownId {
		fmt.Fprintln(w.Stderr, "slurm_load_jobs error: Invalid job id specified")
		return 1
	}
	if q.Verbose > 0 {
		updated := a.NowUs / 1e6
		if len(q.Jobs) == 1 || len(q.Users) == 1 { // asked for by themselves, they have no such time
			updated = 0
		}
		fmt.Fprintf(w.Stdout, "last_update_time=%d records=%d\n", updated, records)
	}
	hidden := w.hiddenPartitions(config)
	me := ""
	if q.NotMe {
		me = w.user()
	}
	c := w.context(config.GetCluster(), q.NoConvert)
	c.Under(config)
	rows := format.Queue(a.GetJobs(), &c, q.PerPartition, func(j *projections.Job) bool { return shown(q, j, hidden, me) })
	if len(q.Partitions) > 0 {
		rows = slices.DeleteFunc(rows, func(j format.Job) bool { return j.In != "" && !slices.Contains(q.Partitions, j.In) })
	}
	if q.JSON {
		format.AsListed(rows, len(q.Jobs) == 1)
	} else {
		format.AsLoaded(rows, len(q.Jobs) == 1)
	}
	named := func(rows []format.Job) []format.Job {
		if len(targets) > 0 {
			rows = narrowed(rows, targets)
		}
		return rows
	}
	if q.JSON {
		rows = named(rows)
		return printJSON(w, "jobs", config.GetCluster(), true, len(rows), func(i int) any { return rows[i].JSON() })
	}
	if q.Clusters != "" && !q.NoHeader {
		fmt.Fprintf(w.Stdout, "CLUSTER: %s\n", config.GetCluster())
	}
	if q.Steps {
		return squeueSteps(q, w, named(rows))
	}
	tasks := slices.ContainsFunc(targets, func(t *events.Target) bool { return t.HasTasks })
	if !q.Array && !tasks {
		rows = format.Merged(rows)
	}
	return squeueJobs(q, w, rows, func(rows []format.Job) []format.Job {
		if q.Array {
			rows = format.Expanded(rows)
		}
		return named(rows)
	})
}

// unknownNode returns the first node of a host list that is not configured.
func unknownNode(list string, config *events.Config) string {
	if list == "" {
		return ""
	}
	known := map[string]bool{}
	for _, def := range config.GetNodes() {
		names, _ := hostlist.Expand(def.GetNames(), hostlist.MaxHosts)
		for _, n := range names {
			known[n] = true
		}
	}
	names, _ := hostlist.Expand(list, hostlist.MaxHosts)
	for _, n := range names {
		if !known[n] {
			return n
		}
	}
	return ""
}

func (w *World) hiddenPartitions(config *events.Config) map[string]bool {
	hidden := map[string]bool{}
	for _, p := range config.GetPartitions() {
		if !w.sees(p) {
			hidden[p.GetName()] = true
		}
	}
	return hidden
}

// shown says whether a job is asked for, as far as the question could not say it. me is who is not, or empty.
func shown(q *slurm.Squeue, j *projections.Job, hidden map[string]bool, me string) bool {
	switch {
	case q.States.All:
	case !q.States.Any():
		if j.Over() && !j.GetCompleting() {
			return false
		}
	case q.States.Completing && j.GetCompleting():
	case j.Waits() && j.GetSpecialExit():
		if !q.States.Special {
			return false
		}
	case j.GetState() == events.JobState_RUNNING && j.GetStopped():
		if !q.States.Stopped {
			return false
		}
	case !slices.Contains(q.States.States, j.GetState()):
		return false
	}
	switch {
	case me != "" && j.GetOwner().GetUser() == me,
		q.Reservation != "" && j.GetSpec().GetReservation() != q.Reservation,
		q.Start && !j.Waits(),
		len(q.Licenses) > 0 && !asksFor(j.GetSpec().GetLicenses(), q.Licenses):
		return false
	}
	// Jobs in hidden partitions are shown when these are asked for.
	return q.All || len(q.Partitions) > 0 || !hidden[j.GetPartition()]
}

// asksFor says whether a list of licences holds one of the names.
func asksFor(licenses string, names []string) bool {
	for _, l := range strings.FieldsFunc(licenses, func(r rune) bool { return r == ',' || r == ';' || r == '|' }) {
		name, _, _ := strings.Cut(l, ":")
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// narrowed leaves the rows that were named. Of what waits of an array, naming a task or two makes rows of their own.
func narrowed(rows []format.Job, targets []*events.Target) []format.Job {
	var out []format.Job
	for _, r := range rows {
		whole, tasks := false, events.Words(nil)
		for _, t := range targets {
			if !meant(t, r) {
				continue
			}
			if !t.HasTasks || r.GetHasTask() || r.Task >= 0 {
				whole = true
				break
			}
			tasks = tasks.Or(events.Words(t.Tasks).And(events.Words(r.GetPending())))
		}
		if whole {
			out = append(out, r)
			continue
		}
		tasks.Each(func(n uint32) bool {
			one := r
			one.Task = int(n)
			out = append(out, one)
			return true
		})
	}
	return out
}

// meant says whether a row is one of those that `8`, `8_3`, `8_[1-4]` or `8+1` names.
func meant(t *events.Target, r format.Job) bool {
	if t.HasComponent {
		return r.GetHetId() == t.Job && r.GetHetId() != 0 && r.GetHetOffset() == t.Component
	}
	if r.GetId() != t.Job && r.GetArrayId() != t.Job && r.GetHetId() != t.Job {
		return false
	}
	tasks := events.Words(t.Tasks)
	switch {
	case !t.HasTasks:
		return true
	case r.GetHasTask():
		return tasks.Has(r.GetArrayTask())
	case r.Task >= 0:
		return tasks.Has(uint32(r.Task))
	}
	return tasks.Intersects(events.Words(r.GetPending()))
}

// squeueJobs prints jobs. split makes rows of those that are sorted: an array is sorted as one, and its tasks stay together.
func squeueJobs(q *slurm.Squeue, w *World, rows []format.Job, split func([]format.Job) []format.Job) int {
	layout, order := format.SqueueFormat, format.SqueueSort
	switch {
	case q.Start:
		layout, order = format.SqueueStartFormat, format.SqueueStartSort
		q.Fields = "" // has no say then
	case q.Long:
		layout = format.SqueueLongFormat
	}
	if q.Sort != "" {
		order = q.Sort
	}
	return show(w, "squeue", format.SqueueFieldsOf(w.Release()), listing{q.Fields, q.Format, layout, order, q.Long && q.Verbose == 0, q.NoHeader}, format.JobSort(w.Release()), rows, split, format.JobsAlike)
}

// stepSort is the order of steps without -S.
const stepSort = "P,i"

func squeueSteps(q *slurm.Squeue, w *World, jobs []format.Job) int {
	order := q.Sort
	if order == "" {
		order = stepSort
	}
	steps := namedSteps(format.Steps(jobs), slices.Concat(q.Jobs, q.StepIDs))
	return show(w, "squeue", format.StepFields.Get(), listing{q.Fields, q.Format, format.SqueueStepFormat, order, q.Long && q.Verbose == 0, q.NoHeader}, format.SortRules{}, steps,
		func(steps []format.Step) []format.Step { return steps })
}

// namedSteps leaves the steps that ids such as `8` and `8.batch` name; all of them if there are none.
func namedSteps(steps []format.Step, ids []string) []format.Step {
	if len(ids) == 0 {
		return steps
	}
	return slices.DeleteFunc(steps, func(s format.Step) bool {
		return !slices.ContainsFunc(ids, func(id string) bool {
			t, err := slurm.ParseTarget(id)
			return err == nil && names(t, s)
		})
	})
}

// listing is how rows are to be shown.
type listing struct {
	fields   string // -O
	format   string // -o
	standard string // the format if neither was given
	order    string
	date     bool
	noHeader bool
}

// show sorts rows, makes of them those to be shown, and prints these.
func show[R any](w *World, command string, fields format.Fields[R], how listing, rules format.SortRules, rows []R, split func([]R) []R, alike ...format.Likeness[R]) int {
	l := layout(w, command, fields, how)
	sorter, notes, wrong := fields.Sort(how.order, rules)
	for _, n := range notes {
		fmt.Fprintf(w.Stderr, "%s: %s\n", command, n)
	}
	if wrong != nil {
		rows = nil
	} else {
		sorter.Rows(rows, alike...)
	}
	code := printRows(w, l, how, split(rows), alike...)
	if wrong != nil {
		return w.complain(command, wrong)
	}
	return code
}

// layout reads the columns asked for, and says what is wrong with them.
func layout[R any](w *World, command string, fields format.Fields[R], how listing) format.Layout[R] {
	l, notes := columns(fields, how)
	complainOf(w, command, notes)
	return l
}

// columns reads the columns asked for; notes are what is wrong with them.
func columns[R any](fields format.Fields[R], how listing) (l format.Layout[R], notes []string) {
	switch {
	case how.fields != "":
		return fields.ByName(how.fields)
	case how.format != "":
		return fields.ByLetter(how.format)
	}
	return fields.ByLetter(how.standard)
}

func complainOf(w *World, command string, notes []string) {
	for _, n := range notes {
		fmt.Fprintf(w.Stderr, "%s: error: %s\n", command, n)
	}
}

// printRows prints headings and rows as they are made.
func printRows[R any](w *World, l format.Layout[R], how listing, rows []R, alike ...format.Likeness[R]) int {
	l.Fit(rows)
	out := bufio.NewWriterSize(w.Stdout, 64<<10)
	if how.date && !how.noHeader {
		out.WriteString(format.DateLine(w.Now))
	}
	if !how.noHeader {
		out.WriteString(l.Head())
		out.WriteByte('\n')
	}
	lines := l.Lines(alike...)
	for i := range rows {
		out.Write(lines.Next(&rows[i]))
	}
	if err := out.Flush(); err != nil {
		return 1 // whoever read it is gone
	}
	return 0
}
