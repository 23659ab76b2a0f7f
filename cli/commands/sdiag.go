package commands

import (
	"io"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
)

func sdiag(args []string, w *World) int {
	q, err := slurm.ReadSdiag(w.input(args))
	switch {
	case err != nil:
		return w.complain("sdiag", err)
	case q.Print != "":
		io.WriteString(w.Stdout, q.Print)
		return 0
	}
	if q.Clusters != "" || q.JSON {
		info, err := w.config("sdiag")
		if err != nil {
			return w.unmet("sdiag", err)
		}
		if err := w.other(q.Clusters, info.GetConfig().GetCluster()); err != nil {
			return w.complain("sdiag", err)
		}
		q.Clusters = info.GetConfig().GetCluster()
	}
	conn, err := w.connect("sdiag")
	if err != nil {
		w.unmet("sdiag", err)
		return 255
	}
	counted, err := conn.Stats(q.Reset)
	switch {
	case err != nil: // the real one's exit
		w.unmet("sdiag", err)
		return 255
	case q.Reset:
		io.WriteString(w.Stdout, "Reset scheduling statistics\n")
		return 0
	}
	d := &format.Diagnosis{
		AnswerStats: counted.GetAnswer().GetStats(), NowUs: counted.GetAnswer().GetNowUs(), Release: w.Release(),
		Serving: counted.GetServing(), Waiting: counted.GetWaiting(), ClockUs: counted.GetClockUs(),
	}
	for _, c := range counted.GetKinds() {
		d.Kinds = append(d.Kinds, format.Calls{Name: c.Name, Number: c.Number, Count: c.Count, TotalUs: c.TotalUs, Refused: c.Refused})
	}
	for _, c := range counted.GetUsers() {
		d.Users = append(d.Users, format.Calls{Name: c.Name, Number: c.Number, Count: c.Count, TotalUs: c.TotalUs, Refused: c.Refused})
	}
	d.Sort(q.Order)
	if q.JSON {
		return printOne(w, "statistics", q.Clusters, d.JSON())
	}
	io.WriteString(w.Stdout, d.Text())
	return 0
}
