package format

import (
	"strings"

	"stint/events"
	"stint/events/hostlist"
	"stint/events/tres"
	"stint/ledger/rows"
)

// cpuSeconds is CPU time as accounting has it.
func cpuSeconds(us uint64) object {
	return object{{"seconds", us / 1e6}, {"microseconds", us % 1e6}}
}

func tresOf(t *rows.Tres) tres.List {
	var l tres.List
	if t == nil {
		return l
	}
	l.Set("cpu", int64(t.GetCpus()))
	for _, p := range []struct {
		name string
		n    int64
	}{{"mem", int64(t.GetMemMib())}, {"node", int64(t.GetNodes())}, {"billing", int64(t.GetBilling())}} {
		if p.n > 0 {
			l.Set(p.name, p.n)
		}
	}
	for _, g := range t.GetGres() {
		addGres(&l, g.GetName(), g.GetType(), int64(g.GetCount()))
	}
	return l
}

// RecordJSON is a job with its steps as sacct prints it with --json.
func RecordJSON(r *rows.Record, c *AccountContext) any {
	j := r.GetJob()
	a := Account{Job: j, Context: c}
	code, signal := a.ended()
	states := []string{j.GetState().Word()}
	if j.GetRequeued() {
		states = append(states, "REQUEUED")
	}
	if j.GetResized() {
		states = append(states, "RESIZING")
	}
	array := object{{"job_id", j.GetArrayId()}, {"limits", object{{"max", object{{"running", object{{"tasks", j.GetArrayMaxRunning()}}}}}}}, {"task_id", unset()}, {"task", ""}}
	if j.GetArrayId() != 0 {
		if j.GetHasTask() {
			array[2].value = number(j.GetArrayTask())
		} else {
			label := rows.Label(j)
			array[3].value = strings.Trim(label[strings.IndexByte(label, '_')+1:], "[]")
		}
	}
	canceller := ""
	if j.GetWasCancelled() {
		canceller = u32(j.GetCancelledBy())
	}
	perCPU, perNode := unset(), unset()
	switch {
	case j.GetMemPerCpuMib() > 0:
		perCPU = number(j.GetMemPerCpuMib())
	case j.GetMemPerNodeMib() > 0 || j.GetMemAll():
		perNode = number(j.GetMemPerNodeMib())
	}
	flags := []string{"STARTED_ON_SCHEDULE"}
	if j.GetBackfilled() {
		flags = []string{"STARTED_ON_BACKFILL"}
	}
	if j.GetStartUs() == 0 {
		flags = []string{}
	}
	planned := unset()
	if j.GetEligibleUs() != 0 {
		until := j.GetStartUs()
		if until == 0 {
			until = c.Clock.Now.UnixMicro()
		}
		planned = number(max(until-j.GetEligibleUs(), 0) / 1e6)
	}
	steps := list{}
	for _, s := range r.GetSteps() {
		steps = append(steps, Account{Job: j, Step: s, Context: c}.stepJSON())
	}
	nodes := j.GetNodes()
	if nodes == "" {
		nodes = "None assigned"
	}
	pending := j.GetState() == events.JobState_PENDING
	return object{
		{"account", j.GetAccount()}, {"comment", object{{"administrator", j.GetAdminComment()}, {"job", j.GetComment()}, {"system", ""}}}, {"allocation_nodes", j.GetAlloc().GetNodes()},
		{"array", array}, {"association", object{{"account", j.GetAccount()}, {"cluster", c.Cluster}, {"partition", ""}, {"user", j.GetUser()}, {"id", j.GetAssociation()}}}, {"block", ""}, {"cluster", c.Cluster},
		{"constraints", j.GetConstraint()}, {"container", ""}, {"derived_exit_code", exitStatus(pending, j.GetDerivedCode(), j.GetDerivedSignal())},
		{"time", object{
			{"elapsed", a.elapsed()}, {"eligible", j.GetEligibleUs() / 1e6}, {"end", j.GetEndUs() / 1e6}, {"planned", planned}, {"start", j.GetStartUs() / 1e6}, {"submission", j.GetSubmitUs() / 1e6},
			{"suspended", a.suspended() / 1e6}, {"system", cpuSeconds(j.GetSystemUs())}, {"limit", minutes(j.GetLimitS())}, {"total", cpuSeconds(j.GetUserUs() + j.GetSystemUs())}, {"user", cpuSeconds(j.GetUserUs())},
		}},
		{"exit_code", exitStatus(pending, code, signal)}, {"extra", j.GetExtra()}, {"failed_node", j.GetFailedNode()}, {"flags", flags}, {"group", j.GetGroup()},
		{"het", object{{"job_id", j.GetHetId()}, {"job_offset", given(j.GetHetOffset())}}}, {"job_id", j.GetJob()}, {"name", j.GetName()}, {"licenses", j.GetLicenses()}, {"mcs", object{{"label", ""}}},
		{"nodes", nodes}, {"partition", j.GetPartition()}, {"hold", ""}, {"priority", number(j.GetPriority())}, {"qos", j.GetQos()}, {"qosreq", ""},
		{"required", object{{"CPUs", j.GetReq().GetCpus()}, {"memory_per_cpu", perCPU}, {"memory_per_node", perNode}}}, {"kill_request_user", canceller}, {"restart_cnt", j.GetInstance()},
		{"reservation", object{{"id", 0}, {"name", j.GetReservation()}, {"requested", ""}}}, {"script", ""},
		{"stdin_expanded", ""}, {"stdout_expanded", ""}, {"stderr_expanded", ""}, {"stdout", j.GetStdOut()}, {"stderr", j.GetStdErr()}, {"stdin", j.GetStdIn()},
		{"state", object{{"current", states}, {"reason", j.GetReason().Word()}}}, {"steps", steps}, {"submit_line", j.GetSubmitLine()},
		{"tres", object{{"allocated", tresList(tresOf(j.GetAlloc()))}, {"requested", tresList(tresOf(j.GetReq()))}}}, {"used_gres", ""}, {"user", j.GetUser()},
		{"wckey", object{{"wckey", j.GetWckey()}, {"flags", list{}}}}, {"working_directory", j.GetWorkDir()},
	}
}

func (a Account) stepJSON() any {
	s := a.Step
	names, _ := hostlist.Expand(s.GetNodes(), hostlist.MaxHosts)
	measured := s.GetMaxRssKib() != nil || s.GetSamples() != 0
	peak := func(kind, name string, id int, p *rows.Peak, scale uint64) object {
		return object{{"type", kind}, {"name", name}, {"id", id}, {"count", p.GetValue() * scale}, {"node", p.GetNode()}, {"task", p.GetTask()}}
	}
	consumed := object{{"max", list{}}, {"min", list{}}, {"average", list{}}, {"total", list{}}}
	requested := object{{"max", list{}}, {"min", list{}}, {"average", list{}}, {"total", list{}}}
	if measured {
		tasks := uint64(max(s.GetTasks(), 1))
		part := func(n uint64) list {
			return list{
				object{{"type", "cpu"}, {"name", ""}, {"id", 1}, {"count", (s.GetUserUs() + s.GetSystemUs()) / 1000 / n}},
				object{{"type", "mem"}, {"name", ""}, {"id", 2}, {"count", s.GetSumPeakRssKib() * 1024 / n}},
				object{{"type", "fs"}, {"name", "disk"}, {"id", 6}, {"count", s.GetReadBytes() / n}},
				object{{"type", "vmem"}, {"name", ""}, {"id", 7}, {"count", s.GetSumPeakVmKib() * 1024 / n}},
				object{{"type", "pages"}, {"name", ""}, {"id", 8}, {"count", s.GetSumPages() / n}},
			}
		}
		requested = object{
			{"max", list{peak("mem", "", 2, s.GetMaxRssKib(), 1024), peak("fs", "disk", 6, s.GetMaxRead(), 1), peak("vmem", "", 7, s.GetMaxVmKib(), 1024), peak("pages", "", 8, s.GetMaxPages(), 1)}},
			{"min", list{peak("cpu", "", 1, s.GetMinCpuUs(), 1)}}, {"average", part(tasks)}, {"total", part(1)},
		}
		consumed = object{
			{"max", list{peak("fs", "disk", 6, s.GetMaxWrite(), 1)}}, {"min", list{}},
			{"average", list{object{{"type", "fs"}, {"name", "disk"}, {"id", 6}, {"count", s.GetWriteBytes() / tasks}}}},
			{"total", list{object{{"type", "fs"}, {"name", "disk"}, {"id", 6}, {"count", s.GetWriteBytes()}}}},
		}
	}
	return object{
		{"time", object{
			{"elapsed", a.elapsed()}, {"end", moment(s.GetEndUs())}, {"start", moment(s.GetStartUs())}, {"suspended", 0},
			{"system", cpuSeconds(s.GetSystemUs())}, {"total", cpuSeconds(s.GetUserUs() + s.GetSystemUs())}, {"user", cpuSeconds(s.GetUserUs())},
		}},
		{"exit_code", exitStatus(s.GetEndUs() == 0, s.GetExitCode(), s.GetExitSignal())}, {"nodes", object{{"count", s.GetNodeCount()}, {"range", s.GetNodes()}, {"list", append([]string{}, names...)}}},
		{"tasks", object{{"count", s.GetTasks()}}}, {"pid", ""}, {"CPU", object{{"requested_frequency", object{{"min", unset()}, {"max", unset()}}}, {"governor", "0"}}}, {"kill_request_user", ""},
		{"state", []string{s.GetState().Word()}}, {"statistics", object{{"CPU", object{{"actual_frequency", 0}}}, {"energy", object{{"consumed", unset()}}}}},
		{"step", object{{"id", a.label(true)}, {"name", s.GetName()}}}, {"task", object{{"distribution", "Unknown"}}},
		{"tres", object{{"requested", requested}, {"consumed", consumed}, {"allocated", tresList(tresOf(s.GetAlloc()))}}},
	}
}
