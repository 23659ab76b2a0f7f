package format

import (
	"strings"

	"stint/cli/slurm"
	"stint/events"
	"stint/events/hostlist"
	"stint/events/idset"
	"stint/projections"
)

// JSON is the job as squeue and scontrol show job print it with --json.
func (j Job) JSON() any {
	s, o := j.GetSpec(), j.GetOwner()
	long, _ := j.stateWords()
	states := []string{j.GetState().Word()}
	if long != states[0] {
		states = append(states, long)
	}
	word, text := j.reason()
	code, signal := j.exit()
	description := ""
	if text != word {
		description = text
	}
	array, task, maxTasks, tasks := unset(), unset(), uint32(0), ""
	if j.GetArrayId() != 0 {
		array, maxTasks = number(j.GetArrayId()), j.GetArrayMaxRunning()
		switch {
		case j.GetHasTask():
			task = number(j.GetArrayTask())
		case j.Task >= 0:
			task = number(j.Task)
		default:
			tasks = idset.FormatArray(idset.FromWords(j.GetPending()), int(maxTasks), 0)
		}
	} else {
		array = number(uint32(0))
	}
	var flags []string
	if s.GetKillOnInvalidDependency() {
		flags = append(flags, "KILL_INVALID_DEPENDENCY")
	}
	if j.GetBackfilled() {
		flags = append(flags, "STARTED_ON_BACKFILL")
	}
	mail := []string{}
	if bits := s.GetMailTypes(); bits != 0 {
		mail = strings.Split(slurm.FormatMail(bits), ",")
	}
	mem, perCPU := j.minMemory()
	perNode, perCpu := unset(), unset()
	if perCPU {
		perCpu = number(mem)
	} else {
		perNode = number(mem)
	}
	shared := []string{}
	switch j.oversubscribe() {
	case "NO":
		shared = append(shared, "none")
	case "USER":
		shared = append(shared, "user")
	case "MCS":
		shared = append(shared, "mcs")
	case "YES":
		shared = append(shared, "oversubscribe")
	}
	request := j
	request.Job = &projections.Job{Spec: s}
	alloc := ""
	if j.GetAllocation().NodeCount() > 0 && !j.pending() {
		alloc = j.tres().String()
	}
	scheduled := ""
	if j.pending() {
		scheduled = j.Outcome.GetNodes()
	}
	batch := j.GetAllocation().FirstNode()
	if j.pending() {
		batch = ""
	}
	het, hetIDs := number(j.GetHetId()), ""
	if j.GetHetId() != 0 {
		hetIDs = j.hetIDs()
	}
	return object{
		{"account", s.GetAccount()}, {"accrue_time", moment(j.accrue())}, {"admin_comment", s.GetAdminComment()}, {"allocating_node", s.GetSubmitHost()},
		{"array_job_id", array}, {"array_task_id", task}, {"array_max_tasks", number(maxTasks)}, {"array_task_string", tasks}, {"association_id", j.Association},
		{"batch_features", s.GetBatchFeatures()}, {"batch_flag", !s.GetInteractive()}, {"batch_host", batch}, {"flags", append([]string{}, flags...)}, {"burst_buffer", s.GetBurstBuffer()}, {"burst_buffer_state", ""},
		{"cluster", j.Context.Cluster}, {"cluster_features", s.GetClusterFeatures()}, {"command", s.GetCommand()}, {"comment", s.GetComment()}, {"container", ""}, {"container_id", ""},
		{"contiguous", s.GetContiguous()}, {"core_spec", 0}, {"thread_spec", 32767}, {"cores_per_socket", given(s.GetCoresPerSocket())}, {"billable_tres", number(float64(j.cpus()))},
		{"cpus_per_task", given(s.GetCpusPerTask())}, {"cpu_frequency_minimum", unset()}, {"cpu_frequency_maximum", unset()}, {"cpu_frequency_governor", unset()},
		{"cpus_per_tres", perGPU(uint64(s.GetCpusPerGpu()))}, {"cron", cronText(s.GetCron())}, {"deadline", moment(s.GetDeadlineUs())}, {"delay_boot", number(s.GetDelayBootS())}, {"dependency", j.dependencies()},
		{"derived_exit_code", exitStatus(false, 0, 0)}, {"eligible_time", moment(j.eligible())}, {"end_time", moment(j.end())}, {"excluded_nodes", s.GetExclude()},
		{"exit_code", exitStatus(false, code, signal)}, {"extra", s.GetExtra()}, {"failed_node", ""}, {"features", s.GetConstraint()},
		{"federation_origin", ""}, {"federation_siblings_active", ""}, {"federation_siblings_viable", ""}, {"gres_detail", j.gresDetail()},
		{"group_id", o.GetGid()}, {"group_name", o.GetGroup()}, {"het_job_id", het}, {"het_job_id_set", hetIDs}, {"het_job_offset", number(j.GetHetOffset())},
		{"job_id", j.GetId()}, {"job_resources", j.resources()}, {"job_size_str", list{}}, {"job_state", states}, {"last_sched_evaluation", moment(j.evaluated())},
		{"licenses", s.GetLicenses()}, {"mail_type", mail}, {"mail_user", s.GetMailUser()}, {"max_cpus", number(uint32(0))}, {"max_nodes", number(maxNodes(s))}, {"mcs_label", s.GetMcsLabel()},
		{"memory_per_tres", perGPU(s.GetMemPerGpuMib())}, {"name", s.GetName()}, {"network", s.GetNetwork()}, {"nodes", j.nodes()}, {"nice", s.GetNice()},
		{"tasks_per_core", given(s.GetTasksPerCore())}, {"tasks_per_tres", given(s.GetTasksPerGpu())}, {"tasks_per_node", number(s.GetTasksPerNode())}, {"tasks_per_socket", given(s.GetTasksPerSocket())},
		{"tasks_per_board", number(uint32(0))}, {"cpus", number(j.cpus())}, {"node_count", number(j.nodeCount())}, {"tasks", number(numTasks(s, j.allocated()))}, {"partition", j.partition()}, {"prefer", s.GetPrefer()},
		{"memory_per_cpu", perCpu}, {"memory_per_node", perNode}, {"minimum_cpus_per_node", number(j.minCPUs())}, {"minimum_tmp_disk_per_node", number(s.GetTmpDiskMib())},
		{"power", object{{"flags", list{}}}}, {"preempt_time", number(uint32(0))}, {"preemptable_time", number(uint32(0))}, {"pre_sus_time", moment(j.GetSuspendedTotalUs())},
		{"hold", j.pending() && j.GetHold() != events.HoldKind_NOT_HELD}, {"priority", number(j.priority())}, {"priority_by_partition", list{}}, {"profile", []string{"NOT_SET"}}, {"qos", s.GetQos()},
		{"reboot", s.GetReboot()}, {"required_nodes", s.GetNodeList()}, {"required_switches", 0}, {"requeue", s.GetRequeue() != events.Choice_CHOICE_NO}, {"resize_time", number(uint32(0))},
		{"restart_cnt", j.GetRestarts()}, {"resv_name", s.GetReservation()}, {"scheduled_nodes", scheduled}, {"segment_size", s.GetSegmentSize()}, {"selinux_context", ""}, {"shared", shared},
		{"sockets_per_board", 0}, {"sockets_per_node", given(s.GetSocketsPerNode())}, {"start_time", moment(j.start())}, {"state_description", description}, {"state_reason", word},
		{"standard_error", j.stdErr()}, {"standard_input", j.stdIn()}, {"standard_output", j.stdOut()}, {"submit_time", moment(j.GetSubmitUs())}, {"suspend_time", moment(j.GetSuspendedUs())},
		{"system_comment", ""}, {"time_limit", minutes(j.limit())}, {"time_minimum", minutes(s.GetTimeMinS())}, {"threads_per_core", given(s.GetThreadsPerCore())},
		{"tres_bind", s.GetTresBind()}, {"tres_freq", s.GetTresFreq()}, {"tres_per_job", j.tresPer(events.Scope_PER_JOB)}, {"tres_per_node", j.tresPer(events.Scope_PER_NODE)},
		{"tres_per_socket", j.tresPer(events.Scope_PER_SOCKET)}, {"tres_per_task", j.tresPer(events.Scope_PER_TASK)}, {"tres_req_str", request.tres().String()}, {"tres_alloc_str", alloc},
		{"user_id", o.GetUid()}, {"user_name", o.GetUser()}, {"maximum_switch_wait_time", 0}, {"wckey", s.GetWckey()}, {"current_working_directory", s.GetWorkDir()},
	}
}

func maxNodes(s *events.JobSpec) uint32 {
	if n := s.GetMaxNodes(); n != events.Unlimited {
		return n
	}
	return 0
}

func perGPU(n uint64) string {
	if n == 0 {
		return ""
	}
	return gresWord("gres/gpu", "", n)
}

// gresDetail is what of generic resources the job has on each node, in the order of its nodes.
func (j Job) gresDetail() list {
	out := list{}
	if j.pending() {
		return out
	}
	j.GetAllocation().Each(func(_ int, _ string, sh *events.NodeShare) bool {
		var words []string
		for _, g := range sh.GetGres() {
			ids := idset.FromWords(g.GetIds())
			words = append(words, gresWord(g.GetName(), g.GetType(), uint64(ids.Len()))+"(IDX:"+ids.String()+")")
		}
		if len(words) > 0 {
			out = append(out, strings.Join(words, ","))
		}
		return true
	})
	return out
}

// resources is what the job has of each node; null while it waits.
func (j Job) resources() any {
	a := j.GetAllocation()
	if j.pending() || a.NodeCount() == 0 {
		return nil
	}
	nodes := list{}
	a.Each(func(i int, name string, sh *events.NodeShare) bool {
		cores := list{}
		events.Words(sh.GetCpus()).Each(func(cpu uint32) bool {
			cores = append(cores, object{{"index", cpu}, {"status", []string{"ALLOCATED"}}})
			return true
		})
		count := events.Words(sh.GetCpus()).Count()
		nodes = append(nodes, object{
			{"index", i}, {"name", name}, {"cpus", object{{"count", count}, {"used", count}}}, {"memory", object{{"used", 0}, {"allocated", sh.GetMemoryMib()}}},
			{"sockets", list{object{{"index", 0}, {"cores", cores}}}},
		})
		return true
	})
	return object{
		{"select_type", []string{"CORE", "MEMORY"}},
		{"nodes", object{{"count", a.NodeCount()}, {"select_type", []string{"AVAILABLE"}}, {"list", hostlist.Compress(a.NodeNames())}, {"whole", j.GetSpec().GetExclusive() == events.Exclusive_EXCLUSIVE_NODE}, {"allocation", nodes}}},
		{"cpus", a.CPUs()}, {"threads_per_core", given(j.GetSpec().GetThreadsPerCore())},
	}
}

// cronText is when a job recurs; empty: it does not.
func cronText(c *events.Cron) string {
	if c == nil {
		return ""
	}
	return c.Text()
}
