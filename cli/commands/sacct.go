package commands

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/ledger/rows"
)

func init() { table["sacct"] = &command{"show accounting records", sacct} }

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
	t, err := format.AccountTable(q.Format, w.Release())
	if err != nil {
		return w.complain("sacct", err)
	}
	q.Ask.Users = w.names("sacct", q.Ask.Users)
	c, err := w.connect("sacct")
	if err != nil {
		return w.complain("sacct", fmt.Errorf("Problem talking to the database: %s", why(err)))
	}
	cluster := w.clusterName(c)
	if err := w.other(q.Clusters, cluster); err != nil {
		return w.complain("sacct", err)
	}
	context := &format.AccountContext{Context: w.context(cluster, false), Unit: q.Unit}
	if !q.NoHeader {
		io.WriteString(w.Stdout, t.Head(q))
	}
	ask := &rows.Ask{What: &rows.Ask_Jobs{Jobs: q.Ask}}
	for {
		a, err := c.Account(ask)
		if err != nil {
			return w.complain("sacct", errors.New("Problem talking to the database: "+why(err)))
		}
		var b strings.Builder
		for _, row := range format.Accounts(a.Records, context) {
			b.WriteString(t.Row(q, row))
		}
		if _, err := io.WriteString(w.Stdout, b.String()); err != nil {
			return 1
		}
		if len(a.More) == 0 {
			return 0
		}
		ask.After = a.More
	}
}
