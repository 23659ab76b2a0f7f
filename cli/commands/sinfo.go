package commands

import (
	"fmt"
	"io"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/projections"
)

func init() { table["sinfo"] = &command{"show partitions and nodes", sinfo} }

func sinfo(args []string, w *World) int {
	q, err := slurm.ReadSinfo(w.input(args))
	switch {
	case err != nil:
		return w.complain("sinfo", err)
	case q.Print != "":
		io.WriteString(w.Stdout, q.Print)
		return 0
	case q.HelpFormat:
		io.WriteString(w.Stdout, strings.Join(format.SinfoFields.Names(), "\n")+"\n")
		return 0
	}
	return w.repeat(q.Iterate, func() int { return sinfoOnce(q, w) })
}

func sinfoOnce(q *slurm.Sinfo, w *World) int {
	a, err := w.ask("sinfo", &projections.Ask{What: &projections.Ask_Nodes{Nodes: &projections.AskNodes{}}})
	if err != nil {
		return w.complain("sinfo", fmt.Errorf("%s", why(err)))
	}
	answer := a.GetNodes()
	if err := w.other(q.Clusters, answer.GetConfig().GetCluster()); err != nil {
		return w.complain("sinfo", err)
	}
	c := &format.NodeContext{Context: w.context(answer.GetConfig().GetCluster(), q.NoConvert), UserName: userName}
	var l format.Layout[format.Group]
	var notes []string
	switch {
	case q.Fields != "":
		l, notes = format.SinfoFields.ByName(q.Fields)
	case q.Format != "":
		l, notes = format.SinfoFields.ByLetter(q.Format)
	default:
		l, _ = format.SinfoFields.ByLetter(format.SinfoFormat(q, w.Release()))
	}
	for _, n := range notes {
		fmt.Fprintf(w.Stderr, "sinfo: error: %s\n", n)
	}
	groups := format.Groups(q, l, answer, c)
	if err := format.SortGroups(q, groups); err != nil {
		return w.complain("sinfo", err)
	}
	l.Fit(groups)
	if q.Long && !q.NoHeader {
		io.WriteString(w.Stdout, format.DateLine(w.Now))
	}
	return printRows(w, l, groups, q.NoHeader)
}
