package format

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/hostlist"
	"stint/events/tres"
	"stint/projections"
)

// Step is a row of squeue --steps, and a record of scontrol show step: the batch step, or a numbered one.
type Step struct {
	Job
	Step uint32                // raw id
	Live *projections.LiveStep // nil: the batch step
}

// Steps are the steps of the jobs that run: of each the numbered ones, then its batch step.
func Steps(jobs []Job) []Step {
	var steps []Step
	for _, j := range jobs {
		if !j.running() {
			continue
		}
		for _, s := range j.GetSteps() {
			steps = append(steps, Step{j, s.GetStep(), s})
		}
		if !j.Scriptless() {
			steps = append(steps, Step{j, events.StepBatch, nil})
		}
	}
	return steps
}

// AsRecords puts steps in the order of scontrol: of each job the batch step first.
func AsRecords(steps []Step) {
	slices.SortStableFunc(steps, func(a, b Step) int {
		if a.GetId() != b.GetId() {
			return 0
		}
		return cmp.Compare(boolInt(a.Live != nil), boolInt(b.Live != nil))
	})
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Label is the step as people name it: `8_3.batch`; in a heterogeneous job by the id of its component.
func (s Step) Label() string {
	job := s.Job.Label()
	if s.GetHetId() != 0 {
		job = u32(s.GetId())
	}
	return job + "." + events.StepName(s.Step)
}

func (s Step) name() string {
	if s.Live != nil {
		return s.Live.GetName()
	}
	return events.StepName(s.Step)
}

func (s Step) start() int64 {
	if s.Live != nil {
		return s.Live.GetStartUs()
	}
	return s.GetStartUs()
}

// elapsed is how long it runs, in seconds, without the time in which its job stood still.
func (s Step) elapsed() int64 {
	if s.Live == nil {
		return s.Job.elapsed()
	}
	end := s.Context.Clock.Now.UnixMicro()
	if s.GetSuspendedUs() != 0 && s.GetState() == events.JobState_SUSPENDED {
		end = s.GetSuspendedUs()
	}
	us := end - s.Live.GetStartUs()
	if s.Live.GetStartUs() == s.GetStartUs() {
		us -= s.IdleUs()
	}
	return max(us, 0) / 1e6
}

// NodeNames are the nodes it was started on, in the order of the allocation.
func (s Step) NodeNames() []string {
	if s.Live == nil {
		return []string{s.GetAllocation().FirstNode()}
	}
	names := s.GetAllocation().NodeNames()
	var out []string
	events.Words(s.Live.GetNodes()).Each(func(i uint32) bool {
		if int(i) < len(names) {
			out = append(out, names[i])
		}
		return true
	})
	return out
}

func (s Step) nodes() string { return hostlist.Compress(s.NodeNames()) }

func (s Step) tasks() uint32 {
	if s.Live != nil {
		return s.Live.GetTasks()
	}
	return 1
}

// limit is its own time limit in seconds, or Unlimited.
func (s Step) limit() uint32 {
	if n := s.Live.GetLimitS(); n != 0 {
		return n
	}
	return events.Unlimited
}

// resources are what it has; none is known of the batch step.
func (s Step) resources() string {
	if s.Live == nil {
		return "(null)"
	}
	var l tres.List
	l.Set("cpu", int64(s.Live.GetCpus()))
	if m := s.Live.GetMemoryMib(); m > 0 {
		l.Set("mem", int64(m))
	}
	l.Set("node", int64(events.Words(s.Live.GetNodes()).Count()))
	for _, g := range s.Live.GetGres() {
		addGres(&l, g.GetName(), g.GetType(), int64(g.GetCount()))
	}
	terms := strings.Split(l.String(), ",")
	slices.Sort(terms) // other than of jobs
	return strings.Join(terms, ",")
}

// asked are generic resources as they were asked for: `gres:gpu:1`, or "(null)".
func (s Step) asked(scope events.Scope) string {
	prefix := "gres/"
	if s.Context.Release < 2302 {
		prefix = "gres:"
	}
	var terms []string
	for _, g := range s.Live.GetPart().GetAsked() {
		if g.GetScope() != scope {
			continue
		}
		t := prefix + g.GetName()
		if g.GetType() != "" {
			t += ":" + g.GetType()
		}
		terms = append(terms, fmt.Sprintf("%s:%d", t, g.GetCount()))
	}
	return orNull(strings.Join(terms, ","))
}

func orNull(s string) string {
	if s == "" {
		return "(null)"
	}
	return s
}

// frequency is what was asked of the CPUs' frequency: of a numbered step nothing, of the batch step not even that.
func (s Step) frequency() string {
	if s.Live != nil {
		return "Unknown-Unknown:Unknown"
	}
	return "0-0:0"
}

// stream is where one of its streams goes: for the batch step what is said of its job.
func (s Step) stream(own func(*events.StepPart) string, jobs func(Job) string) string {
	if s.Live == nil {
		return jobs(s.Job)
	}
	return own(s.Live.GetPart())
}

// StepFields is what squeue --steps can print.
var StepFields = once.Value[Fields[Step]]{Make: func() Fields[Step] {
	return Fields[Step]{
		{'i', "StepId", "STEPID", Step.Label, func(s Step) int64 { return idOrder(s.Job) }},
		{'j', "StepName", "NAME", Step.name, nil},
		{'P', "Partition", "PARTITION", func(s Step) string { return s.partition() }, nil},
		{'u', "UserName", "USER", func(s Step) string { return s.GetOwner().GetUser() }, nil},
		{'U', "UserId", "UID", func(s Step) string { return u32(s.GetOwner().GetUid()) }, nil},
		{'M', "TimeUsed", "TIME", func(s Step) string { return Short(s.elapsed()) }, Step.elapsed},
		{'N', "Nodes", "NODELIST", Step.nodes, nil},
		{'A', "NumTasks", "TASKS", func(s Step) string { return u32(s.tasks()) }, func(s Step) int64 { return int64(s.tasks()) }},
		{'b', "Gres", "TRES_PER_JOB", func(s Step) string { return s.asked(events.Scope_PER_NODE) }, nil},
		{'S', "StartTime", "START_TIME", func(s Step) string { return s.Context.Clock.Time(s.start(), "N/A") }, Step.start},
		{'l', "TimeLimit", "TIME_LIMIT", func(s Step) string { return limitText(s.limit(), Short) }, func(s Step) int64 { return int64(s.limit()) }},
		{0, "JobId", "JOB_ID", func(s Step) string { return u32(s.GetId()) }, nil},
		{0, "ArrayJobId", "ARRAY_JOB_ID", func(s Step) string { return u32(s.GetArrayId()) }, nil},
		{0, "ArrayTaskId", "ARRAY_TASK_ID", func(s Step) string { return s.taskID() }, nil},
		{0, "Cluster", "CLUSTER", func(s Step) string { return s.Context.Cluster }, nil},
		{0, "StepState", "STATE", func(s Step) string { long, _ := s.stateWords(); return long }, nil},
		{0, "NumCPUs", "NUM_CPUS", func(s Step) string { return u32(s.Live.GetCpus()) }, nil},
		{0, "Network", "NETWORK", fixedText[Step]("(null)"), nil},
		{0, "Container", "CONTAINER", fixedText[Step]("(null)"), nil},
		{0, "ContainerId", "CONTAINER_ID", fixedText[Step]("(null)"), nil},
		{0, "ContainerType", "CONTAINER_TYPE", fixedText[Step]("(null)"), nil},
		{0, "CPUFreq", "CPU_FREQ", Step.frequency, nil},
		{0, "ResvPorts", "RESERVED_PORTS", fixedText[Step]("(null)"), nil},
		{0, "StdErr", "STDERR", func(s Step) string { return s.stream((*events.StepPart).GetStdErr, Job.stdErr) }, nil},
		{0, "StdIn", "STDIN", func(s Step) string { return s.stream((*events.StepPart).GetStdIn, Job.stdIn) }, nil},
		{0, "StdOut", "STDOUT", func(s Step) string { return s.stream((*events.StepPart).GetStdOut, Job.stdOut) }, nil},
		{0, "tres-bind", "TRES_BIND", fixedText[Step]("(null)"), nil},
		{0, "tres-freq", "TRES_FREQ", fixedText[Step]("(null)"), nil},
		{0, "tres-per-job", "TRES_PER_JOB", func(s Step) string { return s.asked(events.Scope_PER_JOB) }, nil},
		{0, "tres-per-step", "TRES_PER_STEP", func(s Step) string { return s.asked(events.Scope_PER_JOB) }, nil},
		{0, "tres-per-node", "TRES_PER_NODE", func(s Step) string { return s.asked(events.Scope_PER_NODE) }, nil},
		{0, "tres-per-socket", "TRES_PER_SOCKET", func(s Step) string { return s.asked(events.Scope_PER_SOCKET) }, nil},
		{0, "tres-per-task", "TRES_PER_TASK", func(s Step) string { return s.asked(events.Scope_PER_TASK) }, nil},
	}

}}

// Record is a step as scontrol show step prints it.
func (s Step) Record(oneLine bool) string {
	r := &record{oneLine: oneLine}
	long, _ := s.stateWords()
	if s.GetState() == events.JobState_SUSPENDED && s.Step == events.StepBatch { // Slurm does not tell its own step that it stands still
		long = "RUNNING"
	}
	host, pid, dist := "(null)", uint32(0), ""
	if p := s.Live.GetPart(); p != nil {
		host, pid = orNull(p.GetHost()), p.GetPid()
		dist = " Dist=" + p.GetLayout()
	}
	r.line("StepId=%s UserId=%d StartTime=%s TimeLimit=%s", s.Label(), s.GetOwner().GetUid(), s.Context.Clock.Time(s.start(), "Unknown"), limitText(s.limit(), Long))
	r.line("State=%s Partition=%s NodeList=%s", long, s.partition(), s.nodes())
	r.line("Nodes=%d CPUs=%d Tasks=%d Name=%s Network=(null)", len(s.NodeNames()), s.Live.GetCpus(), s.tasks(), s.name())
	r.line("TRES=%s", s.resources())
	r.line("ResvPorts=(null)")
	r.line("CPUFreqReq=Default%s", dist)
	r.line("SrunHost:Pid=%s:%d", host, pid)
	for _, t := range []struct {
		name  string
		scope events.Scope
	}{{"TresPerStep", events.Scope_PER_JOB}, {"TresPerNode", events.Scope_PER_NODE}, {"TresPerSocket", events.Scope_PER_SOCKET}, {"TresPerTask", events.Scope_PER_TASK}} {
		if text := s.asked(t.scope); text != "(null)" {
			r.line("%s=%s", t.name, text)
		}
	}
	return r.end()
}

// JSON is the step as scontrol show step prints it with --json.
func (s Step) JSON() any {
	long, _ := s.stateWords()
	task, limit := unset(), object{{"set", false}, {"infinite", true}, {"number", 0}}
	if s.GetHasTask() {
		task = number(int64(s.GetArrayTask()))
	}
	if n := s.limit(); n != events.Unlimited {
		limit = number(int64(n / 60))
	}
	frequency := object{{"min", ""}, {"max", ""}, {"governor", ""}}
	return object{
		{"array", object{{"job_id", number(int64(s.GetArrayId()))}, {"task_id", task}}}, {"cluster", s.Context.Cluster}, {"container", ""}, {"container_id", ""},
		{"cpu", object{{"frequency", frequency}}}, {"id", object{{"job_id", s.GetId()}, {"step_het_component", nil}, {"step_id", events.StepName(s.Step)}}},
		{"job_id", s.GetId()}, {"step_id", s.Label()}, {"name", s.name()}, {"network", ""}, {"nodes", s.nodes()}, {"node_count", len(s.NodeNames())},
		{"number_cpus", s.Live.GetCpus()}, {"number_tasks", s.tasks()}, {"tasks", s.tasks()}, {"partition", s.partition()}, {"reserved_ports", ""}, {"run_time", s.elapsed()},
		{"srun", object{{"host", s.Live.GetPart().GetHost()}, {"pid", s.Live.GetPart().GetPid()}}}, {"start_time", moment(s.start())}, {"state", []string{long}},
		{"stderr", s.stream((*events.StepPart).GetStdErr, Job.stdErr)}, {"stdin", s.stream((*events.StepPart).GetStdIn, Job.stdIn)}, {"stdout", s.stream((*events.StepPart).GetStdOut, Job.stdOut)},
		{"task", object{{"distribution", s.Live.GetPart().GetLayout()}}}, {"time_limit", limit},
		{"tres", object{{"allocated", strings.TrimPrefix(s.resources(), "(null)")}}}, {"user_id", s.GetOwner().GetUid()},
	}
}
