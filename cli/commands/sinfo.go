package commands

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/projections"
)

func sinfo(args []string, w *World) int {
	q, err := slurm.ReadSinfo(w.input(args))
	switch {
	case err != nil:
		return w.complain("sinfo", err)
	case q.Print != "":
		io.WriteString(w.Stdout, q.Print)
		return 0
	case q.HelpFormat:
		io.WriteString(w.Stdout, strings.Join(format.SinfoFieldsOf(w.Release()).Names(), "\n")+"\n")
		return 0
	}
	w.yaml = q.YAML
	if len(q.Stray) > 0 {
		fmt.Fprintf(w.Stderr, "sinfo: %s is no option, and is left out\n", strings.Join(q.Stray, " "))
	}
	return w.repeat(q.Iterate, func() int { return sinfoOnce(q, w) })
}

func sinfoOnce(q *slurm.Sinfo, w *World) int {
	fields := format.SinfoFieldsOf(w.Release())
	how := listing{q.Fields, q.Format, format.SinfoFormat(q, w.Release()), "", q.Long, q.NoHeader}
	l, notes := columns(fields, how)
	a, err := w.ask("sinfo", &projections.Ask{What: &projections.Ask_Nodes{Nodes: &projections.AskNodes{Alike: format.Alike(q, l)}}})
	if err != nil {
		return w.unmet("sinfo", err)
	}
	answer := a.GetNodes()
	if !q.Future { // what is set aside is not there
		answer.Nodes = slices.DeleteFunc(answer.Nodes, (*projections.Node).GetFuture)
		answer.Alike = slices.DeleteFunc(answer.Alike, func(n *projections.AlikeNodes) bool {
			return int(n.GetKind()) < len(answer.Kinds) && answer.Kinds[n.GetKind()].GetFuture()
		})
	}
	cluster := answer.GetConfig().GetCluster()
	if err := w.other(q.Clusters, cluster); err != nil {
		return w.complain("sinfo", err)
	}
	if q.Reservations {
		io.WriteString(w.Stdout, format.NoReservations)
		return 0
	}
	switch {
	case answer.GetPartitionsPrivate():
		return w.complain("sinfo", errors.New("slurm_load_partitions: "+private("partitions")))
	case answer.GetNodesPrivate():
		return w.complain("sinfo", errors.New("slurm_load_node: "+private("nodes")))
	case q.JSON:
		return sinfoJSON(q, w, answer)
	}
	complainOf(w, "sinfo", notes)
	l.SpaceAll()
	c := w.nodeContext(answer, q.NoConvert)
	c.Named = q.Clusters != ""
	groups := format.Groups(q, l, answer, c)
	wrong := format.SortGroups(q, groups)
	if wrong != nil {
		groups = nil
	}
	if q.Verbose > 0 {
		nodes := len(answer.GetNodes())
		for _, n := range answer.GetAlike() {
			nodes += int(n.GetCount())
		}
		fmt.Fprintf(w.Stderr, "sinfo: %d nodes, %d partitions, current to message %d of the log\n", nodes, len(answer.GetPartitions()), a.Seq)
	}
	if q.Clusters != "" && !q.NoHeader {
		fmt.Fprintf(w.Stdout, "CLUSTER: %s\n", cluster)
	}
	code := printRows(w, l, how, groups)
	if wrong != nil {
		return w.complain("sinfo", wrong)
	}
	return code
}

// jsonAlike is the columns in which nodes of one record of --json are alike.
const jsonAlike = "%R %T %G %f %E %H %c %m %d %w %z"

func sinfoJSON(q *slurm.Sinfo, w *World, answer *projections.AnswerNodes) int {
	cluster := answer.GetConfig().GetCluster()
	exact := *q
	exact.Exact = true
	l, _ := format.SinfoFields.Get().ByLetter(jsonAlike)
	groups := format.Groups(&exact, l, answer, w.nodeContext(answer, q.NoConvert))
	return printJSON(w, "sinfo", cluster, false, len(groups), func(i int) any { return groups[i].JSON(answer.GetNodes()) })
}

// nodeContext is what rows about the nodes of an answer have in common.
func (w *World) nodeContext(a *projections.AnswerNodes, noConvert bool) *format.NodeContext {
	c := &format.NodeContext{
		Context: w.context(a.GetConfig().GetCluster(), noConvert), UserName: w.Users.Name, Sees: w.sees,
		Config: a.GetConfig(), Now: make(map[string]*projections.NodeNow, len(a.GetNow())),
	}
	for _, n := range a.GetNow() {
		c.Now[n.GetName()] = n
	}
	return c
}
