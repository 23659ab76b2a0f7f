package commands

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/events/tres"
	"stint/ledger/rows"
)

func init() { table["sacct"] = &command{"show what jobs there were and what they used", sacct} }

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
	columns, err := format.AccountTable(q.Format, w.Release())
	if err != nil {
		return w.complain("sacct", err)
	}
	if name := w.unknown(q.Ask.Users); name != "" {
		return w.complain("sacct", errors.New("Invalid user id: "+name))
	}
	context := &format.AccountContext{Context: w.context("", q.Unit == tres.Plain), Unit: q.Unit}
	if q.Clusters != "" || q.JSON || columns.Has("Cluster") {
		info, err := w.config("sacct")
		if err != nil {
			return w.unmet("sacct", err)
		}
		context.Cluster = info.GetConfig().GetCluster()
		if err := w.other(q.Clusters, context.Cluster); err != nil { // an account book of its own, with nothing in it
			fmt.Fprintf(w.Stderr, "sacct: %v\n", err)
			q.Ask = nil
		}
	}
	if q.JSON {
		return sacctJSON(q, w, context)
	}
	return sacctPrint(q, w, columns, context)
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
	ask := &rows.Ask{What: &rows.Ask_Jobs{Jobs: q.Ask}}
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
			out.WriteString(columns.Head(q))
		}
		list := format.Accounts(a.Records, context)
		for i := range list {
			out.WriteString(columns.Row(q, list[i]))
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
