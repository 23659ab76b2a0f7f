package commands

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/events/hostlist"
	"stint/ledger/rows"
)

// ofTime reads what only events and transactions are chosen by (sacctmgr(1), SPECIFICATIONS FOR EVENTS).
func (q *query) ofTime(t slurm.Term) bool {
	for _, c := range []struct {
		key   string
		least int
		to    *[]string
	}{{"events", 1, &q.kinds}, {"nodes", 1, &q.nodes}, {"states", 4, &q.states}} {
		if slurm.Keyed(t.Key, c.key, c.least) && t.Key != "start" {
			*c.to = append(*c.to, slurm.SplitNames(t.Value, true)...)
			return true
		}
	}
	switch {
	case slurm.Keyed(t.Key, "start", 4):
		q.start = t.Value
	case slurm.Keyed(t.Key, "end", 2):
		q.end = t.Value
	default:
		return false
	}
	return true
}

// window is the time asked for, in microseconds; 0: open.
func (q *query) window(w *World) (from, to int64, err error) {
	for _, one := range []struct {
		text string
		us   *int64
	}{{q.start, &from}, {q.end, &to}} {
		if one.text == "" {
			continue
		}
		at, err := slurm.ParseWhen(one.text, w.Now, true)
		if err != nil {
			return 0, 0, fmt.Errorf("start and end: %w", err)
		}
		*one.us = at.UnixMicro()
	}
	return from, to, nil
}

// showEvents shows when nodes were not in service, and since when the cluster is as it is. Without a time it is today.
func (m *manager) showEvents(q *query) int {
	cols, ok := m.columns(q, format.ManagerEvents)
	if !ok {
		return 1
	}
	from, to, err := q.window(m.w)
	if err != nil {
		return m.fail("%s", err)
	}
	if q.start == "" && !q.all {
		y, mon, d := m.w.Now.Date()
		from = time.Date(y, mon, d, 0, 0, 0, 0, m.w.Now.Location()).UnixMicro()
	}
	cluster, node := true, true
	for _, k := range q.kinds {
		switch {
		case slurm.Keyed(k, "cluster", 1):
			node = false
		case slurm.Keyed(k, "node", 1):
			cluster = false
		default:
			return m.fail("%s is no kind of event: there are Cluster and Node", k)
		}
	}
	cluster = cluster && len(q.nodes) == 0 && len(q.states) == 0
	var list []format.ManagerRow
	if cluster {
		list = append(list, simple("Cluster", m.cfg.GetCluster(), "TimeStart", m.w.clock().Time(m.began(), "Unknown"), "TimeEnd", "Unknown", "Reason", "Cluster Registered TRES"))
	}
	if node {
		a, err := m.w.account("sacctmgr", &rows.Ask{What: &rows.Ask_NodeEvents{NodeEvents: &rows.AskNodeEvents{Nodes: strings.Join(q.nodes, ","), StartUs: from, EndUs: to}}})
		if err != nil {
			return m.fail("%s", why(err))
		}
		for _, e := range a.GetNodeEvents() {
			if state := eventState(e); len(q.states) == 0 || slices.ContainsFunc(q.states, func(s string) bool { return strings.EqualFold(strings.TrimSuffix(state, "*"), s) }) {
				list = append(list, m.eventRow(e, state))
			}
		}
	}
	m.print(cols, len(list), func(i int) format.ManagerRow { return list[i] })
	return 0
}

func eventState(e *rows.NodeEventRow) string {
	state := "DOWN"
	switch {
	case e.GetDrain():
		state = "DRAIN"
	case e.GetFail():
		state = "FAIL"
	}
	if e.GetLost() {
		state += "*"
	}
	return state
}

func (m *manager) eventRow(e *rows.NodeEventRow, state string) format.ManagerRow {
	clock := m.w.clock()
	until := e.GetEndUs()
	if until == 0 {
		until = m.w.Now.UnixMicro()
	}
	return simple("Cluster", m.cfg.GetCluster(), "NodeName", e.GetNode(), "TimeStart", clock.Time(e.GetStartUs(), "Unknown"), "TimeEnd", clock.Time(e.GetEndUs(), "Unknown"),
		"State", state, "Reason", e.GetReason(), "Duration", format.Long((until-e.GetStartUs())/1e6), "Event", "Node", "Cluster Nodes", hostlist.Compress([]string{e.GetNode()}),
		"User", fmt.Sprintf("%s(%d)", cmp.Or(m.w.Users.Name(e.GetReasonUid()), "root"), e.GetReasonUid()))
}
