package commands

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"stint/cli/site"
	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
)

// scontrolShow prints records.
func scontrolShow(s *slurm.Scontrol, w *World) int {
	switch s.Entity {
	case "job", "node", "partition", "licenses", "step":
	case "reservation":
		if s.JSON {
			return scontrolJSON(w, s.Entity, false, 0, nil)
		}
	default:
		if s.JSON {
			return w.complain("scontrol", fmt.Errorf("scontrol show %s --json is not supported by Stint yet", s.Entity))
		}
	}
	switch s.Entity {
	case "hostnames", "hostlist", "hostlistsorted":
		return showHosts(s, w)
	case "job":
		return showJobs(s, w)
	case "step":
		return showSteps(s, w)
	case "node", "partition":
		return showNodes(s, w)
	case "config":
		return showConfig(w)
	case "licenses":
		return showLicenses(s, w)
	case "aliases":
		return showAliases(s, w)
	case "topology", "federation", "burstbuffer", "bbstat", "dwstat":
		fmt.Fprintf(w.Stderr, "scontrol: %s\n", absent.Get()[s.Entity])
		return 0
	case "reservation":
		if len(s.IDs) > 0 {
			if !s.Quiet {
				fmt.Fprintf(w.Stdout, "Reservation %s not found\n", s.IDs[0])
			}
			return 1
		}
		io.WriteString(w.Stdout, format.NoReservations)
		return 0
	case "daemons":
		return showDaemons(w)
	case "assoc_mgr":
		return showAssocMgr(s, w)
	}
	return w.complain("scontrol", fmt.Errorf("scontrol show %s is not supported by Stint yet", s.Entity))
}

// absent is what there is to say of what a cluster of Stint's never has: as with Slurm there is nothing on standard output.
var absent = once.Value[map[string]string]{Make: func() map[string]string {
	return map[string]string{
		"topology":    "no topology is configured: nodes are alike in reach",
		"federation":  "the cluster is in no federation",
		"burstbuffer": "there is no burst buffer",
		"bbstat":      "there is no burst buffer",
		"dwstat":      "there is no burst buffer",
	}
}}

// showAliases names the nodes of a host.
func showAliases(s *slurm.Scontrol, w *World) int {
	host := w.Host
	if len(s.IDs) > 0 {
		host = s.IDs[0]
	}
	a, err := w.ask("scontrol", &projections.Ask{What: &projections.Ask_Nodes{Nodes: &projections.AskNodes{}}})
	if err != nil {
		return w.unmet("scontrol", err)
	}
	var names []string
	for _, n := range a.GetNodes().GetNodes() {
		if n.GetDef().GetHostNames() == host || n.GetDef().GetHostNames() == "" && n.GetName() == host {
			names = append(names, n.GetName())
		}
	}
	if len(names) == 0 {
		return w.complain("scontrol", fmt.Errorf("no node is on the host %s", host))
	}
	fmt.Fprintln(w.Stdout, hostlist.CompressSorted(names))
	return 0
}

// showLicenses prints the licences of the configuration and how many of them jobs hold.
func showLicenses(s *slurm.Scontrol, w *World) int {
	info, err := w.config("scontrol")
	if err != nil {
		return w.unmet("scontrol", err)
	}
	var held []events.License // of all jobs, those too that the caller may not see
	for _, l := range info.GetLicenses() {
		held = append(held, events.License{Name: l.GetName(), Count: l.GetUsed()})
	}
	all := format.Licenses(info.GetConfig(), held)
	if s.JSON {
		all = slices.DeleteFunc(all, func(l format.License) bool { return len(s.IDs) > 0 && !slices.Contains(s.IDs, l.Name) })
		return printJSON(w, "licenses", info.GetConfig().GetCluster(), false, len(all), func(i int) any { return all[i].JSON() })
	}
	if len(all) == 0 {
		io.WriteString(w.Stdout, "No licenses configured in Slurm.\n")
		return 0
	}
	found := false
	for _, l := range all {
		if len(s.IDs) == 0 || slices.Contains(s.IDs, l.Name) {
			found = true
			io.WriteString(w.Stdout, l.Record(s.OneLine))
		}
	}
	if !found {
		if w.Release() <= slurm.Release2205 { // where that is no failure
			fmt.Fprintf(w.Stderr, "scontrol: no licence is named %s\n", s.IDs[0])
			return 0
		}
		fmt.Fprintf(w.Stdout, "License name %s not found\n", s.IDs[0])
		return 1
	}
	return 0
}

// showHosts takes lists of hosts apart and puts them together; a path is a file with names. It asks nobody.
func showHosts(s *slurm.Scontrol, w *World) int {
	list := s.IDs[0]
	if s.Entity != "hostnames" && strings.HasPrefix(list, "/") {
		data, err := readSmall(list)
		if err != nil {
			return w.complain("scontrol", fmt.Errorf("reading the hosts in %s: %w", list, plain(err)))
		}
		list = strings.Join(strings.Fields(string(data)), ",")
	}
	text, err := s.Hosts(list, w.Release())
	if err != nil {
		return w.complain("scontrol", err)
	}
	io.WriteString(w.Stdout, text)
	return 0
}

// targetsOf reads the ids after an entity.
func targetsOf(s *slurm.Scontrol) (targets []*events.Target, ids []uint32, err error) {
	for _, word := range s.IDs {
		for _, id := range slurm.SplitIDs(word) {
			t, err := slurm.ParseTarget(id)
			if err != nil {
				return nil, nil, err
			}
			targets, ids = append(targets, t), append(ids, t.Job)
		}
	}
	return targets, ids, nil
}

func showJobs(s *slurm.Scontrol, w *World) int {
	targets, ids, err := targetsOf(s)
	if err != nil {
		return w.complain("scontrol", err)
	}
	a, err := w.jobs("scontrol", &projections.AskJobs{Ids: ids, AllStates: true, Slim: !s.JSON, Associations: s.JSON})
	if err != nil {
		return w.unmet("scontrol", err)
	}
	info, err := w.config("scontrol")
	if err != nil {
		return w.unmet("scontrol", err)
	}
	c := w.context("", false)
	c.Under(info.GetConfig())
	rows := format.Jobs(a.GetJobs().GetJobs(), &c, false)
	format.AsListed(rows, len(targets) == 1 && len(rows) > 0 && rows[0].GetArrayId() != 0)
	if s.JSON {
		if len(targets) > 0 {
			rows = narrowed(rows, targets)
		}
		if len(targets) == 0 || len(rows) > 0 {
			return scontrolJSON(w, "jobs", true, len(rows), func(i int) any { return rows[i].JSON() })
		}
	}
	out := bufio.NewWriterSize(w.Stdout, 64<<10)
	defer out.Flush()
	if len(targets) == 0 {
		if len(rows) == 0 {
			out.WriteString(format.NoJobs)
		}
		var line []byte
		for _, r := range rows {
			line = r.AppendRecord(line[:0], s.OneLine, s.Details)
			out.Write(line)
		}
		return 0
	}
	code := 0
	for _, t := range targets {
		found := narrowed(rows, []*events.Target{t})
		for _, r := range found {
			out.WriteString(r.Record(s.OneLine, s.Details))
		}
		if len(found) == 0 {
			fmt.Fprintf(w.Stderr, "slurm_load_jobs error: %s\n", format.InvalidJobID)
			code = 1
		}
	}
	return code
}

// stepLabel is a step as it is said not to be there: without a number, up to the dot.
func stepLabel(t *events.Target) string {
	if t.HasStep {
		return targetLabel(t)
	}
	return targetLabel(t) + "."
}

func showSteps(s *slurm.Scontrol, w *World) int {
	targets, ids, err := targetsOf(s)
	if err != nil {
		return w.complain("scontrol", err)
	}
	a, err := w.jobs("scontrol", &projections.AskJobs{Ids: ids, AllStates: true, Slim: true})
	if err != nil {
		return w.unmet("scontrol", err)
	}
	if len(ids) == 1 && a.GetJobs().UnknownId {
		fmt.Fprintf(w.Stderr, "slurm_get_job_steps error: %s\n", format.InvalidJobID)
		return 1
	}
	c := w.context("", false)
	steps := format.Steps(format.Jobs(a.GetJobs().GetJobs(), &c, false))
	format.AsRecords(steps)
	if s.JSON {
		if len(targets) > 0 {
			steps = slices.DeleteFunc(steps, func(step format.Step) bool {
				return !slices.ContainsFunc(targets, func(t *events.Target) bool { return names(t, step) })
			})
		}
		return scontrolJSON(w, "steps", true, len(steps), func(i int) any { return steps[i].JSON() })
	}
	if len(targets) == 0 {
		if len(steps) == 0 {
			io.WriteString(w.Stdout, format.NoSteps)
		}
		for _, step := range steps {
			if w.Release() > slurm.Release2205 || step.GetArrayId() == 0 { // of all steps, those of arrays are not shown there
				io.WriteString(w.Stdout, step.Record(s.OneLine))
			}
		}
		return 0
	}
	code := 0
	for _, t := range targets {
		if t.HasStep && w.Release() < 2302 {
			t.Step = numbered(t.Step)
		}
		found := false
		for _, step := range steps {
			if names(t, step) {
				found = true
				io.WriteString(w.Stdout, step.Record(s.OneLine))
			}
		}
		switch {
		case found:
		case !slices.ContainsFunc(steps, func(step format.Step) bool { return meant(&events.Target{Job: t.Job}, step.Job) }):
			if t.HasStep || slices.ContainsFunc(a.GetJobs().GetJobs(), func(v *projections.JobView) bool { return v.GetJob().GetId() == t.Job }) {
				fmt.Fprintf(w.Stdout, "Job step %s not found\n", stepLabel(t))
			}
			fmt.Fprintf(w.Stderr, "scontrol: %s: job %d runs no step\n", format.InvalidJobID, t.Job)
			code = 1
		default:
			fmt.Fprintf(w.Stdout, "Job step %s not found\n", targetLabel(t))
			code = 1
		}
	}
	return code
}

// names says whether `8`, `8.0` or `8+1.0` means a step. The steps of a component of a heterogeneous job go by its own id alone.
func names(t *events.Target, step format.Step) bool {
	own := step.GetHetId() == 0 || t.HasComponent || t.Job == step.GetId()
	return own && meant(t, step.Job) && (!t.HasStep || t.Step == step.Step)
}

// numbered is the step that releases of before 23.02 look for: they read no names, and a name for 0.
func numbered(step uint32) uint32 {
	if step >= events.StepInteractive {
		return 0
	}
	return step
}

func showNodes(s *slurm.Scontrol, w *World) int {
	a, err := w.ask("scontrol", &projections.Ask{What: &projections.Ask_Nodes{Nodes: &projections.AskNodes{}}})
	if err != nil {
		return w.unmet("scontrol", err)
	}
	answer := a.GetNodes()
	if !s.Future && s.Entity == "node" { // what is set aside is not there
		answer.Nodes = slices.DeleteFunc(answer.Nodes, func(n *projections.Node) bool { return n.GetFuture() })
	}
	c := w.nodeContext(answer, false)
	switch {
	case s.Entity == "node" && answer.GetNodesPrivate():
		return w.complain("scontrol", errors.New("slurm_load_node error: "+private("nodes")))
	case s.Entity == "partition" && answer.GetPartitionsPrivate():
		return w.complain("scontrol", errors.New("slurm_load_partitions error: "+private("partitions")))
	case s.JSON:
		return nodesJSON(s, w, answer, c)
	}
	out := bufio.NewWriterSize(w.Stdout, 64<<10)
	defer out.Flush()
	if s.Entity == "partition" {
		return showPartitions(s, out, answer, c)
	}
	if len(s.IDs) == 0 {
		for _, n := range answer.GetNodes() {
			out.WriteString(format.NodeRecord(n, c, s.OneLine, s.Details))
		}
		return 0
	}
	byName := map[string]*projections.Node{}
	for _, n := range answer.GetNodes() {
		byName[n.GetName()] = n
	}
	code := 0
	for _, word := range s.IDs {
		names, err := hostlist.Expand(word, hostlist.MaxHosts)
		if err != nil {
			return w.complain("scontrol", err)
		}
		for _, name := range names {
			if n := byName[name]; n != nil {
				out.WriteString(format.NodeRecord(n, c, s.OneLine, s.Details))
				continue
			}
			fmt.Fprintf(out, format.NodeNotFound, name)
			code = 1
		}
	}
	return code
}

// scontrolJSON prints records for programs.
func scontrolJSON(w *World, key string, queue bool, n int, record func(int) any) int {
	info, err := w.config("scontrol")
	if err != nil {
		return w.unmet("scontrol", err)
	}
	if key == "reservation" {
		key = "reservations"
	}
	return printJSON(w, key, info.GetConfig().GetCluster(), queue, n, record)
}

func nodesJSON(s *slurm.Scontrol, w *World, answer *projections.AnswerNodes, c *format.NodeContext) int {
	wanted := map[string]bool{}
	for _, word := range s.IDs {
		names, err := hostlist.Expand(word, hostlist.MaxHosts)
		if err != nil {
			return w.complain("scontrol", err)
		}
		for _, name := range names {
			wanted[name] = true
		}
	}
	key := s.Entity + "s"
	var records []any
	for _, n := range answer.GetNodes() {
		if s.Entity == "node" && (len(s.IDs) == 0 || wanted[n.GetName()]) {
			records = append(records, format.NodeJSON(n, c))
			delete(wanted, n.GetName())
		}
	}
	for _, p := range answer.GetPartitions() {
		if s.Entity == "partition" && (s.All || c.Sees(p)) && (len(s.IDs) == 0 || wanted[p.GetName()]) {
			records = append(records, format.PartitionJSON(p, answer.GetNodes(), c))
			delete(wanted, p.GetName())
		}
	}
	if len(wanted) > 0 {
		return w.complain("scontrol", fmt.Errorf("there is no %s %s", s.Entity, strings.Join(slices.Sorted(maps.Keys(wanted)), ",")))
	}
	return printJSON(w, key, c.Cluster, false, len(records), func(i int) any { return records[i] })
}

func showPartitions(s *slurm.Scontrol, out io.Writer, answer *projections.AnswerNodes, c *format.NodeContext) int {
	if len(s.IDs) == 0 {
		for _, p := range answer.GetPartitions() {
			if s.All || c.Sees(p) {
				io.WriteString(out, format.PartitionRecord(p, answer.GetNodes(), c, s.OneLine))
			}
		}
		return 0
	}
	for _, p := range answer.GetPartitions() {
		if p.GetName() == s.IDs[0] && (s.All || c.Sees(p)) {
			io.WriteString(out, format.PartitionRecord(p, answer.GetNodes(), c, s.OneLine))
			return 0
		}
	}
	fmt.Fprintf(out, format.PartNotFound, s.IDs[0])
	return 1
}

func showConfig(w *World) int {
	info, err := w.config("scontrol")
	if err != nil {
		return w.unmet("scontrol", err)
	}
	file := w.confFile()
	c := w.context(info.GetConfig().GetCluster(), false)
	host := w.controllerHost(info)
	io.WriteString(w.Stdout, format.Config(info, &c, format.ConfigPlace{Host: host, File: file, Uid: w.Users.Uid}))
	io.WriteString(w.Stdout, "\n"+format.Ping("primary", host, true))
	return 0
}

// confFile is the path of slurm.conf, empty if there is none or the caller may not know.
func (w *World) confFile() string {
	if w.conf != "" {
		return w.conf
	}
	if cluster, err := site.Dir(w.State).Load(); err == nil { // whoever may not read it sees none
		return cluster.ConfFile
	}
	return w.Getenv("SLURM_CONF")
}

// showDaemons names the daemons that belong on this host, by Slurm's names.
func showDaemons(w *World) int {
	a, err := w.ask("scontrol", &projections.Ask{What: &projections.Ask_Nodes{Nodes: &projections.AskNodes{}}})
	if err != nil {
		return w.unmet("scontrol", err)
	}
	here, out := w.Host, ""
	if h := w.controllerHost(&projections.AnswerConfig{Config: a.GetNodes().GetConfig()}); h == here || h == "localhost" {
		out += "slurmctld "
	}
	for _, n := range a.GetNodes().GetNodes() {
		if d := n.GetDef(); n.GetName() == here || d.GetHostNames() == here || d.GetVirtual() && d.GetHostNames() == "" {
			out += "slurmd "
			break
		}
	}
	fmt.Fprintln(w.Stdout, out)
	return 0
}
