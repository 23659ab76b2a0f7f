package commands

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/user"
	"slices"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/events"
	"stint/events/tres"
	"stint/ledger/rows"
	"stint/projections"
)

func sacct(args []string, w *World) int {
	q, err := slurm.ReadSacct(w.input(args))
	switch {
	case err != nil:
		return w.complain("sacct", err)
	case q.Print != "":
		io.WriteString(w.Stdout, q.Print)
		return 0
	case q.HelpFormat:
		io.WriteString(w.Stdout, format.AccountFieldNames(w.Release()))
		return 0
	}
	w.yaml = q.YAML
	columns, err := format.AccountTable(q.Format, w.Release())
	if err != nil {
		return w.complain("sacct", err)
	}
	if name := w.unknown(q.Ask.Users); name != "" {
		return w.complain("sacct", errors.New("Invalid user id: "+name))
	}
	for _, uid := range q.Ask.Uids {
		if w.Users.all() && w.Users.Name(uid) == "" {
			return w.complain("sacct", fmt.Errorf("Invalid user id: %d", uid))
		}
	}
	for _, name := range q.Ask.Groups {
		if _, err := user.LookupGroup(name); err != nil && w.Users.all() {
			return w.complain("sacct", errors.New("Invalid group id: "+name))
		}
	}
	context := &format.AccountContext{Context: w.context("", q.Unit == tres.Plain), Unit: q.Unit}
	if q.Clusters != "" || q.JSON || columns.Has("Cluster") || len(q.Ask.Qos) > 0 {
		if err := w.knows(q, &context.Cluster); err != nil {
			return w.complain("sacct", err)
		}
		if err := w.other(q.Clusters, context.Cluster); err != nil { // an account book of its own, with nothing in it
			fmt.Fprintf(w.Stderr, "sacct: %v\n", err)
			q.Ask = nil
		}
	}
	if q.BatchScript || q.EnvVars {
		q.Ask.Allocations = true
		return sacctStored(q, w, context)
	}
	if q.JSON {
		return sacctJSON(q, w, context)
	}
	return sacctPrint(q, w, columns, context)
}

// knows asks the ledger which cluster this is, and holds a question to what there is in it. Only a ledger is asked, as real sacct asks slurmdbd
// only: it answers while no controller does.
func (w *World) knows(q *slurm.Sacct, cluster *string) error {
	a, err := w.account("sacct", &rows.Ask{What: &rows.Ask_Status{Status: &rows.AskStatus{}}})
	if err != nil {
		return errors.New(why(err))
	}
	*cluster = a.GetStatus().GetCluster()
	known := a.GetStatus().GetQos()
	for _, name := range q.Ask.Qos {
		if !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) }) {
			return fmt.Errorf("there is no qos '%s'; there are %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// sacctJSON prints the records for programs, part by part.
func sacctJSON(q *slurm.Sacct, w *World, context *format.AccountContext) int {
	out := newJSON(w, "jobs")
	ask := &rows.Ask{What: &rows.Ask_Jobs{Jobs: q.Ask}}
	for q.Ask != nil {
		a, err := w.account("sacct", ask)
		if err != nil {
			return w.unmet("sacct", err)
		}
		if q.Array {
			a.Records = expanded(a.Records)
		}
		for _, r := range a.Records {
			out.add(format.RecordJSON(r, context))
		}
		if len(a.More) == 0 {
			break
		}
		ask.After = a.More
	}
	return out.end(context.Cluster, false)
}

// sacctPrint prints the records part by part, as the ledger hands them out: there may be more of them than memory.
func sacctPrint(q *slurm.Sacct, w *World, columns format.Table, context *format.AccountContext) int {
	out := bufio.NewWriterSize(w.Stdout, 64<<10)
	seq, n := uint64(0), 0
	told := columns.Has("Reason") || columns.Has("Timelimit") || columns.Has("TimelimitRaw")
	lines := columns.Lines(q.Separation)
	ask := &rows.Ask{What: &rows.Ask_Jobs{Jobs: q.Ask}}
	if q.Ask != nil {
		q.Ask.Kinds = q.Ask.Allocations && len(q.Ask.Jobs) == 0 && !q.Array && columns.OfKinds()
	}
	for first := true; ; first = false {
		a := &rows.Answer{}
		if q.Ask != nil {
			var err error
			if a, err = w.account("sacct", ask); err != nil {
				out.Flush()
				return w.unmet("sacct", err)
			}
		}
		if first && !q.NoHeader {
			out.WriteString(columns.Head(q.Separation))
		}
		if w.Release() <= slurm.Release2205 {
			a.Records = slices.DeleteFunc(a.Records, func(r *rows.Record) bool { return nameless(r.GetJob(), q.Ask.GetJobs()) })
		}
		told = told && w.waiting(a.Records)
		if q.Array {
			a.Records = expanded(a.Records)
		}
		a.EachRow(func(r *rows.JobRow) {
			out.Write(lines.Next(format.Account{Job: r, Context: context}))
			n++
		})
		list := format.Accounts(a.Records, context)
		for i := range list {
			out.WriteString(columns.Row(q.Separation, list[i]))
		}
		seq, n = a.Seq, n+len(list)
		if len(a.More) == 0 {
			break
		}
		ask.After = a.More
	}
	if err := out.Flush(); err != nil {
		return 1 // whoever read it is gone
	}
	if q.Verbose > 0 {
		fmt.Fprintf(w.Stderr, "sacct: %d rows, current to message %d of the log\n", n, seq)
	}
	return 0
}

// waiting fills in what only the scheduler knows of records: why jobs wait, and that they have no time limit before it finds a partition
// for them. It is false where it cannot be asked.
func (w *World) waiting(records []*rows.Record) bool {
	ask := &projections.AskJobs{States: []events.JobState{events.JobState_PENDING}}
	at := map[uint32]*rows.JobRow{}
	for _, r := range records {
		if j := r.GetJob(); j.GetState() == events.JobState_PENDING && j.GetEndUs() == 0 {
			ask.Ids, at[j.GetJob()] = append(ask.Ids, j.GetJob()), j
		}
	}
	if len(ask.Ids) == 0 {
		return true
	}
	a, err := w.jobs("sacct", ask)
	if err != nil {
		return false
	}
	for _, v := range a.GetJobs().GetJobs() {
		row, reason := at[v.GetJob().GetId()], v.GetOutcome().GetReason()
		if row == nil || !v.GetJob().Waits() {
			continue
		}
		switch reason {
		case events.Reason_PARTITION_DOWN_REASON, events.Reason_PARTITION_INACTIVE, events.Reason_PARTITION_NODE_LIMIT, events.Reason_PARTITION_TIME_LIMIT:
			if v.GetJob().GetSpec().GetDefaultTimeLimit() {
				row.LimitS = 0
			}
		}
		if row.WaitReason == events.Reason_NONE && reason != events.Reason_PARTITION_DOWN_REASON { // which accounting is not told
			row.WaitReason = reason
		}
	}
	return true
}

// nameless: of 22.05, tasks that wait have no names of their own. What is left of an array is named by the array only.
func nameless(j *rows.JobRow, named []*rows.Selection) bool {
	if j.GetArrayId() == 0 || j.GetHasTask() || len(named) == 0 {
		return false
	}
	return !slices.ContainsFunc(named, func(s *rows.Selection) bool {
		return !s.GetHasTasks() && (s.GetJob() == j.GetArrayId() || s.GetJob() == j.GetJob())
	})
}

// sacctStored prints the scripts of jobs, or the environments they were submitted with. Both are kept as long as the job is in
// the queue's memory.
func sacctStored(q *slurm.Sacct, w *World, context *format.AccountContext) int {
	code := 0
	ask := &rows.Ask{What: &rows.Ask_Jobs{Jobs: q.Ask}}
	for q.Ask != nil {
		a, err := w.account("sacct", ask)
		if err != nil {
			return w.unmet("sacct", err)
		}
		for _, row := range format.Accounts(a.Records, context) {
			label := rows.Label(row.Job)
			title := "Batch Script for " + label
			if q.EnvVars {
				title = "Environment used for " + label + " (must be batch to display)"
			}
			text, err := stored(q, w, row.Job.GetJob())
			if err != nil {
				fmt.Fprintf(w.Stderr, "sacct: error: job %s: %s\n", label, why(err))
				code = 1
				continue
			}
			fmt.Fprintf(w.Stdout, "%s\n%s\n%s\n", title, strings.Repeat("-", 80), text)
		}
		if len(a.More) == 0 {
			break
		}
		ask.After = a.More
	}
	return code
}

// stored fetches what a job was submitted with; NONE if it is not kept any more.
func stored(q *slurm.Sacct, w *World, job uint32) (string, error) {
	a, err := w.jobs("sacct", &projections.AskJobs{Ids: []uint32{job}, AllStates: true})
	if err != nil {
		return "", err
	}
	var ref *events.BlobRef
	for _, v := range a.GetJobs().GetJobs() {
		if v.GetJob().GetId() == job {
			ref = v.GetJob().GetSpec().GetScript()
			if q.EnvVars {
				ref = v.GetJob().GetSpec().GetEnvironment()
			}
		}
	}
	if ref.GetLength() == 0 {
		return "NONE\n", nil
	}
	c, err := w.connect("sacct")
	if err != nil {
		return "", err
	}
	text, err := c.Blob(ref)
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(string(text), "\x00", "\n"), nil
}

// expanded has a record for each task of an array in place of one for all that did not start.
func expanded(records []*rows.Record) []*rows.Record {
	var out []*rows.Record
	for _, r := range records {
		j := r.GetJob()
		if j.GetArrayId() == 0 || j.GetHasTask() {
			out = append(out, r)
			continue
		}
		events.Words(j.GetTasks()).Each(func(task uint32) bool {
			one := j.CloneVT()
			one.HasTask, one.ArrayTask, one.Tasks = true, task, nil
			out = append(out, &rows.Record{Job: one, Steps: r.GetSteps(), StepsOnly: r.GetStepsOnly()})
			return true
		})
	}
	return out
}
