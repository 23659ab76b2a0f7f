package format

import (
	"fmt"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/once"
	"stint/events"
)

// The layouts of squeue without -o and -O, and its order.
const (
	SqueueFormat      = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
	SqueueLongFormat  = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
	SqueueStartFormat = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
	SqueueStepFormat  = "%.15i %.8j %.9P %.8u %.9M %N"
	SqueueSort        = "P,t,-p"
	SqueueStartSort   = "S"
)

// fixedText is a field about something that does not exist here: always the same.
func fixedText[R any](s string) func(R) string { return func(R) string { return s } }

func specText(get func(*events.JobSpec) string) func(Job) string {
	return func(j Job) string { return null(get(j.GetSpec())) }
}

func specCount(get func(*events.JobSpec) uint32, none string) func(Job) string {
	return func(j Job) string {
		if n := get(j.GetSpec()); n > 0 {
			return u32(n)
		}
		return none
	}
}

// countOrder sorts by a number that stands last where it is not given.
func countOrder(get func(*events.JobSpec) uint32) func(Job) int64 {
	return func(j Job) int64 {
		if n := get(j.GetSpec()); n > 0 {
			return int64(n)
		}
		return 1 << 16
	}
}

func timeOf(get func(Job) int64) func(Job) string {
	return func(j Job) string { return j.Context.Clock.Time(get(j), "N/A") }
}

// idOrder sorts tasks of an array with the array.
func idOrder(j Job) int64 {
	if j.GetArrayId() != 0 {
		task := int64(j.GetArrayTask())
		if j.remainder() {
			task = int64(max(j.Task, 0)) + 1<<22
		}
		return int64(j.GetArrayId())<<24 + task
	}
	return int64(j.GetId()) << 24
}

// SqueueFieldsOf is what squeue of a release can print of a job.
func SqueueFieldsOf(r slurm.Release) Fields[Job] {
	if r >= 2511 {
		return SqueueFields.Get()
	}
	fields := append(SqueueFields.Get().without("SLUID"), Field[Job]{Letter: 's', Value: fixedText[Job]("")}) // a letter that has lost its meaning
	if r < 2302 {                                                                                             // it had the letter only
		exclude := *fields.letter('x')
		exclude.Name = ""
		fields = append(fields.without("ExcNodes"), exclude)
	}
	return fields
}

// SqueueFields is everything squeue can print of a job. What is not built prints what Slurm prints when it is not used.
var SqueueFields = once.Value[Fields[Job]]{Make: func() Fields[Job] {
	return Fields[Job]{
		{'a', "Account", "ACCOUNT", specText((*events.JobSpec).GetAccount), nil},
		{0, "AccrueTime", "ACCRUE_TIME", timeOf(Job.accrue), nil},
		{0, "admin_comment", "ADMIN_COMMENT", specText((*events.JobSpec).GetAdminComment), nil},
		{0, "AllocNodes", "ALLOC_NODES", func(j Job) string { return orNA(j.GetSpec().GetSubmitHost()) }, nil},
		{0, "AllocSID", "ALLOC_SID", func(j Job) string { return u32(j.GetSpec().GetSubmitSid()) }, nil},
		{'F', "ArrayJobId", "ARRAY_JOB_ID", func(j Job) string {
			if j.GetArrayId() != 0 {
				return u32(j.GetArrayId())
			}
			return u32(j.GetId())
		}, idOrder},
		{'K', "ArrayTaskId", "ARRAY_TASK_ID", Job.taskID, idOrder},
		{0, "AssocId", "ASSOC_ID", func(j Job) string { return u32(j.Association) }, nil},
		{0, "BatchFlag", "BATCH_FLAG", func(j Job) string { return bit(!j.GetSpec().GetInteractive()) }, nil},
		{'B', "BatchHost", "EXEC_HOST", func(j Job) string {
			if n := j.GetAllocation().FirstNode(); n != "" && !j.pending() {
				return n
			}
			return "n/a"
		}, nil},
		{0, "BoardsPerNode", "BOARDS_PER_NODE", fixedText[Job]("0"), nil},
		{0, "BurstBuffer", "BURST_BUFFER", func(j Job) string { return null(j.GetSpec().GetBurstBuffer()) }, nil},
		{0, "BurstBufferState", "BURST_BUFFER_STATE", fixedText[Job]("(null)"), nil},
		{0, "Cluster", "CLUSTER", func(j Job) string { return j.Context.Cluster }, nil},
		{0, "ClusterFeature", "CLUSTER_FEATURES", func(j Job) string { return null(j.GetSpec().GetClusterFeatures()) }, nil},
		{'o', "Command", "COMMAND", Job.command, nil},
		{'k', "Comment", "COMMENT", specText((*events.JobSpec).GetComment), nil},
		{0, "Container", "CONTAINER", fixedText[Job]("(null)"), nil},
		{0, "ContainerId", "CONTAINER_ID", fixedText[Job]("(null)"), nil},
		{0, "ContainerType", "CONTAINER_TYPE", fixedText[Job]("(null)"), nil},
		{'O', "Contiguous", "CONTIGUOUS", func(j Job) string { return bit(j.GetSpec().GetContiguous()) }, nil},
		{'I', "Cores", "CORES_PER_SOCKET", specCount((*events.JobSpec).GetCoresPerSocket, "*"), countOrder((*events.JobSpec).GetCoresPerSocket)},
		{'X', "CoreSpec", "CORE_SPEC", fixedText[Job]("N/A"), nil},
		{0, "cpus-per-task", "CPUS_PER_TASK", specCount((*events.JobSpec).GetCpusPerTask, "1"), nil},
		{0, "CPUsPerTask", "CPUS_PER_TASK", specCount((*events.JobSpec).GetCpusPerTask, "1"), nil},
		{0, "cpus-per-tres", "CPUS_PER_TRES", func(j Job) string {
			if n := j.GetSpec().GetCpusPerGpu(); n > 0 {
				return perTres(uint64(n), j.GetSpec().GetDefaultCpusPerGpu())
			}
			return "N/A"
		}, nil},
		{0, "CronJob", "CRON_JOB", fixedText[Job]("No"), nil},
		{0, "Deadline", "DEADLINE", timeOf(func(j Job) int64 { return j.GetSpec().GetDeadlineUs() }), nil},
		{0, "DelayBoot", "DELAY_BOOT", func(j Job) string { return delay(j.GetSpec().GetDelayBootS(), Short) }, nil},
		{'E', "Dependency", "DEPENDENCY", func(j Job) string { return null(j.dependencies()) }, nil},
		{0, "DerivedEC", "DERIVED_EC", fixedText[Job]("0"), nil},
		{0, "EligibleTime", "ELIGIBLE_TIME", timeOf(Job.eligible), nil},
		{'e', "EndTime", "END_TIME", func(j Job) string {
			if j.limit() == events.Unlimited && j.start() != 0 && !j.GetState().Final() {
				return "NONE"
			}
			return timeOf(Job.end)(j)
		}, func(j Job) int64 {
			if n := j.start(); n != 0 && j.limit() == events.Unlimited && !j.GetState().Final() {
				return n/1e6 + 365*24*3600 // which it has, though it is not shown
			}
			return j.end() / 1e6
		}},
		{'x', "ExcNodes", "EXC_NODES", func(j Job) string { return j.GetSpec().GetExclude() }, nil},
		{0, "Exclusive", "EXCLUSIVE", func(j Job) string { return bit(j.GetSpec().GetExclusive() == events.Exclusive_EXCLUSIVE_NODE) }, nil},
		{0, "exit_code", "EXIT_CODE", func(j Job) string { code, signal := j.exit(); return u32(code<<8 | signal) }, nil},
		{'f', "Feature", "FEATURES", specText((*events.JobSpec).GetConstraint), nil},
		{'b', "tres-per-node", "TRES_PER_NODE", func(j Job) string { return orNA(j.tresPer(events.Scope_PER_NODE)) }, nil},
		{0, "Gres", "TRES_PER_NODE", func(j Job) string { return orNA(j.tresPer(events.Scope_PER_NODE)) }, nil},
		{'G', "GroupId", "GROUP", func(j Job) string { return u32(j.GetOwner().GetGid()) }, func(j Job) int64 { return int64(j.GetOwner().GetGid()) }},
		{'g', "GroupName", "GROUP", func(j Job) string { return j.GetOwner().GetGroup() }, nil},
		{0, "HetJobId", "HET_JOB_ID", hetID, nil},
		{0, "HetJobIdSet", "HET_JOB_ID_SET", hetSet, nil},
		{0, "HetJobOffset", "HET_JOB_OFFSET", hetOffset, nil},
		{0, "PackJobId", "HET_JOB_ID", hetID, nil},
		{0, "PackJobIdSet", "HET_JOB_ID_SET", hetSet, nil},
		{0, "PackJobOffset", "HET_JOB_OFFSET", hetOffset, nil},
		{'i', "JobArrayId", "JOBID", Job.listed, idOrder},
		{'A', "JobId", "JOBID", func(j Job) string { return u32(j.GetId()) }, func(j Job) int64 { return int64(j.GetId()) }},
		{0, "LastSchedEval", "LAST_SCHED_EVAL", timeOf(Job.evaluated), nil},
		{'W', "Licenses", "LICENSES", specText((*events.JobSpec).GetLicenses), nil},
		{0, "LicensesAlloc", "LICENSES_ALLOC", func(j Job) string { return null(events.FormatLicenses(j.HeldLicenses())) }, nil},
		{0, "MaxCPUs", "MAX_CPUS", func(j Job) string { return fmt.Sprint(j.cpus()) }, nil},
		{0, "MaxNodes", "MAX_NODES", func(j Job) string {
			if n := maxNodes(j.GetSpec()); n > 0 && j.pending() {
				return u32(n)
			}
			return u32(j.nodesWanted())
		}, nil},
		{0, "MCSLabel", "MCSLABEL", func(j Job) string { return null(j.GetSpec().GetMcsLabel()) }, nil},
		{0, "mem-per-tres", "MEM_PER_TRES", func(j Job) string {
			if n := j.GetSpec().GetMemPerGpuMib(); n > 0 {
				return perTres(n, j.GetSpec().GetDefaultMemPerGpu())
			}
			return "N/A"
		}, nil},
		{'c', "MinCPUs", "MIN_CPUS", func(j Job) string { return u32(j.minCPUs()) }, nil},
		{'m', "MinMemory", "MIN_MEMORY", func(j Job) string { n, _ := j.minMemory(); return j.memory(n) }, func(j Job) int64 { n, _ := j.minMemory(); return int64(n) }},
		{0, "MinTime", "TIME_MIN", func(j Job) string { return Short(int64(j.GetSpec().GetTimeMinS())) }, nil},
		{'d', "MinTmpDisk", "MIN_TMP_DISK", func(j Job) string { return j.memory(j.GetSpec().GetTmpDiskMib()) }, nil},
		{'j', "Name", "NAME", func(j Job) string { return j.GetSpec().GetName() }, nil},
		{0, "Network", "NETWORK", func(j Job) string { return null(j.GetSpec().GetNetwork()) }, nil},
		{'y', "Nice", "NICE", func(j Job) string { return fmt.Sprint(j.GetSpec().GetNice()) }, func(j Job) int64 { return int64(j.GetSpec().GetNice()) }},
		{'N', "NodeList", "NODELIST", Job.nodes, nil},
		{0, "NTPerBoard", "NTASKS_PER_BOARD", fixedText[Job]("0"), nil},
		{0, "NTPerCore", "NTASKS_PER_CORE", specCount((*events.JobSpec).GetTasksPerCore, "N/A"), nil},
		{0, "NTPerNode", "NTASKS_PER_NODE", specCount((*events.JobSpec).GetTasksPerNode, "0"), nil},
		{0, "NTPerSocket", "NTASKS_PER_SOCKET", specCount((*events.JobSpec).GetTasksPerSocket, "N/A"), nil},
		{'C', "NumCPUs", "CPUS", func(j Job) string { return fmt.Sprint(j.cpus()) }, func(j Job) int64 { return int64(j.cpus()) }},
		{'D', "NumNodes", "NODES", func(j Job) string { return u32(j.nodesWanted()) }, func(j Job) int64 { return int64(j.nodesWanted()) }},
		{0, "NumTasks", "TASKS", func(j Job) string {
			if j.GetStartUs() == 0 && j.GetState().Final() {
				return "4294967294" // Slurm's number for none
			}
			return u32(numTasks(j.GetSpec(), j.allocated()))
		}, nil},
		{0, "Origin", "ORIGIN", fixedText[Job]("NA"), nil},
		{0, "OriginRaw", "ORIGIN_RAW", fixedText[Job]("NA"), nil},
		{'h', "OverSubscribe", "OVER_SUBSCRIBE", Job.oversubscribe, nil},
		{0, "Shared", "OVER_SUBSCRIBE", Job.oversubscribe, nil},
		{'P', "Partition", "PARTITION", Job.partition, nil},
		{0, "PendingTime", "PENDING_TIME", func(j Job) string {
			until := j.GetStartUs()
			if j.pending() || until == 0 {
				until = j.Context.Clock.Now.UnixMicro()
			}
			return fmt.Sprint(max(until-j.GetSubmitUs(), 0) / 1e6)
		}, nil},
		{0, "PreemptTime", "PREEMPT_TIME", fixedText[Job]("N/A"), nil},
		{0, "Prefer", "PREFER", func(j Job) string { return null(j.GetSpec().GetPrefer()) }, nil},
		{'p', "Priority", "PRIORITY", func(j Job) string { return fmt.Sprintf("%.14f", float64(j.priority())/4294967296) }, func(j Job) int64 { return int64(j.priority()) }},
		{'Q', "PriorityLong", "PRIORITY", func(j Job) string { return u32(j.priority()) }, func(j Job) int64 { return int64(j.priority()) }},
		{0, "Profile", "PROFILE", func(j Job) string {
			if p := j.GetSpec().GetProfile(); p != "" {
				return p
			}
			return "NotSet"
		}, nil},
		{'q', "QOS", "QOS", specText((*events.JobSpec).GetQos), nil},
		{'r', "Reason", "REASON", func(j Job) string { _, text := j.reason(); return text }, nil},
		{'R', "ReasonList", "NODELIST(REASON)", func(j Job) string {
			if !j.shownReason() {
				return j.nodes()
			}
			_, text := j.reason()
			return "(" + text + ")"
		}, nil},
		{0, "Reboot", "REBOOT", func(j Job) string { return bit(j.GetSpec().GetReboot()) }, nil},
		{'n', "ReqNodes", "REQ_NODES", func(j Job) string { return j.GetSpec().GetNodeList() }, nil},
		{0, "ReqSwitch", "REQ_SWITCH", func(j Job) string { n, _, _ := strings.Cut(j.GetSpec().GetSwitches(), "@"); return zero(n) }, nil},
		{0, "Requeue", "REQUEUE", func(j Job) string { return bit(j.GetSpec().GetRequeue() != events.Choice_CHOICE_NO) }, nil},
		{'v', "Reservation", "RESERVATION", specText((*events.JobSpec).GetReservation), nil},
		{0, "ResizeTime", "RESIZE_TIME", fixedText[Job]("N/A"), nil},
		{0, "RestartCnt", "RESTART_COUNT", func(j Job) string { return u32(j.GetRestarts()) }, nil},
		{'Y', "SchedNodes", "SCHEDNODES", func(j Job) string {
			if !j.pending() {
				return "(null)"
			}
			return null(j.Outcome.GetNodes())
		}, nil},
		{'z', "SCT", "S:C:T", func(j Job) string {
			s := j.GetSpec()
			return count(s.GetSocketsPerNode()) + ":" + count(s.GetCoresPerSocket()) + ":" + count(s.GetThreadsPerCore())
		}, func(j Job) int64 {
			place := int64(0)
			for _, get := range []func(*events.JobSpec) uint32{(*events.JobSpec).GetSocketsPerNode, (*events.JobSpec).GetCoresPerSocket, (*events.JobSpec).GetThreadsPerCore} {
				place = place<<17 + countOrder(get)(j)
			}
			return place
		}},
		{0, "SegmentSize", "SEGMENT_SIZE", func(j Job) string { return u32(j.GetSpec().GetSegmentSize()) }, nil},
		{0, "SiblingsActive", "ACTIVE_SIBLINGS", fixedText[Job]("NA"), nil},
		{0, "SiblingsActiveRaw", "ACTIVE_SIBLINGS_RAW", fixedText[Job]("NA"), nil},
		{0, "SiblingsViable", "VIABLE_SIBLINGS", fixedText[Job]("NA"), nil},
		{0, "SiblingsViableRaw", "VIALBLE_SIBLINGS_RAW", fixedText[Job]("NA"), nil}, // as it is spelled in Slurm
		{'s', "SLUID", "SLUID", fixedText[Job](""), nil},
		{'H', "Sockets", "SOCKETS_PER_NODE", specCount((*events.JobSpec).GetSocketsPerNode, "*"), countOrder((*events.JobSpec).GetSocketsPerNode)},
		{0, "SPerBoard", "SOCKETS_PER_BOARD", fixedText[Job]("0"), nil},
		{'S', "StartTime", "START_TIME", timeOf(Job.start), func(j Job) int64 {
			if n := j.start(); n != 0 {
				return n / 1e6
			}
			return absent
		}},
		{'T', "State", "STATE", func(j Job) string { long, _ := j.stateWords(); return long }, nil},
		{'t', "StateCompact", "ST", func(j Job) string { _, short := j.stateWords(); return short }, nil},
		{0, "StdErr", "STDERR", Job.queueErr, nil},
		{0, "StdIn", "STDIN", Job.stdIn, nil},
		{0, "StdOut", "STDOUT", Job.queueOut, nil},
		{'V', "SubmitTime", "SUBMIT_TIME", timeOf(func(j Job) int64 { return j.GetSubmitUs() }), func(j Job) int64 { return j.GetSubmitUs() / 1e6 }},
		{0, "system_comment", "SYSTEM_COMMENT", fixedText[Job]("(null)"), nil},
		{'J', "Threads", "THREADS_PER_CORE", specCount((*events.JobSpec).GetThreadsPerCore, "*"), countOrder((*events.JobSpec).GetThreadsPerCore)},
		{'L', "TimeLeft", "TIME_LEFT", func(j Job) string {
			if n := j.limit(); n == 0 || n == events.Unlimited {
				return limitText(n, Short)
			}
			return Short(int64(j.limit()) - j.elapsed())
		}, func(j Job) int64 {
			if j.limit() == events.Unlimited {
				return int64(events.Unlimited)
			}
			return int64(j.limit()) - j.elapsed()
		}},
		{'l', "TimeLimit", "TIME_LIMIT", func(j Job) string { return limitText(j.limit(), Short) }, func(j Job) int64 { return int64(j.limit()) }},
		{'M', "TimeUsed", "TIME", func(j Job) string { return Short(j.elapsed()) }, Job.elapsed},
		{0, "tres-alloc", "TRES_ALLOC", func(j Job) string { return j.tres().String() }, nil},
		{0, "Tres", "TRES_ALLOC", func(j Job) string { return j.tres().String() }, nil},
		{0, "tres-bind", "TRES_BIND", func(j Job) string { return orNA(j.GetSpec().GetTresBind()) }, nil},
		{0, "tres-freq", "TRES_FREQ", func(j Job) string { return orNA(j.GetSpec().GetTresFreq()) }, nil},
		{0, "tres-per-job", "TRES_PER_JOB", func(j Job) string { return orNA(j.tresPer(events.Scope_PER_JOB)) }, nil},
		{0, "tres-per-socket", "TRES_PER_SOCKET", func(j Job) string { return orNA(j.tresPer(events.Scope_PER_SOCKET)) }, nil},
		{0, "tres-per-task", "TRES_PER_TASK", func(j Job) string { return orNA(j.tresPer(events.Scope_PER_TASK)) }, nil},
		{'U', "UserId", "UID", func(j Job) string { return u32(j.GetOwner().GetUid()) }, func(j Job) int64 { return int64(j.GetOwner().GetUid()) }},
		{'u', "UserName", "USER", func(j Job) string { return j.GetOwner().GetUser() }, nil},
		{0, "Wait4Switch", "WAIT4SWITCH", func(j Job) string {
			if n, wait := j.switches(); n != "" {
				return Short(wait)
			}
			return "0:00"
		}, nil},
		{'w', "WCKey", "WCKEY", specText((*events.JobSpec).GetWckey), nil},
		{'Z', "WorkDir", "WORK_DIR", func(j Job) string { return j.GetSpec().GetWorkDir() }, nil},
	}

}}

// command is the script with what was given to it.
func (j Job) command() string {
	text := null(j.GetSpec().GetCommand())
	for _, a := range j.GetSpec().GetArgs() {
		text += " " + string(a)
	}
	return text
}

func hetID(j Job) string {
	if j.GetHetId() == 0 {
		return "N/A"
	}
	return u32(j.GetHetId())
}

func hetSet(j Job) string {
	if j.GetHetId() == 0 {
		return "N/A"
	}
	return j.hetIDs()
}

// hetIDs are the ids of the components of its heterogeneous job: `8-10`.
func (j Job) hetIDs() string {
	return fmt.Sprintf("%d-%d", j.GetHetId(), j.GetHetId()+max(j.GetHetSize(), 1)-1)
}

func hetOffset(j Job) string {
	if j.GetHetId() == 0 {
		return "N/A"
	}
	return u32(j.GetHetOffset())
}

func zero(s string) string {
	if s == "" {
		return "0"
	}
	return s
}

func count(n uint32) string {
	if n == 0 {
		return "*"
	}
	return u32(n)
}
