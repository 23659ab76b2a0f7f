package format

import (
	"fmt"
	"strconv"

	"stint/cli/slurm"
	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/tres"
	"stint/ledger/rows"
)

var (
	maxRSS   = peak((*rows.StepRow).GetMaxRssKib)
	maxVM    = peak((*rows.StepRow).GetMaxVmKib)
	maxPages = peak((*rows.StepRow).GetMaxPages)
	maxRead  = peak((*rows.StepRow).GetMaxRead)
	maxWrite = peak((*rows.StepRow).GetMaxWrite)
	minCPU   = peak((*rows.StepRow).GetMinCpuUs)
)

func totalCPU(s *rows.StepRow) uint64 { return s.GetUserUs() + s.GetSystemUs() }

// planned is how long a job waited for its resources, in seconds; negative if it may not start yet.
func planned(a Account) (seconds int64, ok bool) {
	if a.Step != nil {
		return 0, false
	}
	if a.Job.GetEligibleUs() == 0 {
		return 0, true
	}
	until := a.Job.GetStartUs()
	if until == 0 {
		if until = a.Job.GetEndUs(); until == 0 {
			until = a.Context.Clock.Now.UnixMicro()
		}
	}
	return until/1e6 - a.Job.GetEligibleUs()/1e6, true
}

// wait prints a time that was waited.
func wait(seconds int64) string {
	if seconds < 0 {
		return "INVALID"
	}
	return Long(seconds)
}

func plannedTime(a Account) string {
	n, ok := planned(a)
	if !ok {
		return ""
	}
	return wait(n)
}

func plannedCPU(a Account) string {
	n, ok := planned(a)
	if !ok {
		return ""
	}
	return wait(n * int64(a.Job.GetReq().GetCpus()))
}

func plannedCPURaw(a Account) string {
	n, ok := planned(a)
	if !ok {
		return ""
	}
	return fmt.Sprint(n * int64(a.Job.GetReq().GetCpus()))
}

func reqFreq(a Account) string {
	if a.Step != nil && events.IsMainStep(a.Step.GetStep()) {
		return "0"
	}
	return "Unknown"
}

// AccountFields is every column of sacct, in the order of --helpformat.
var AccountFields = once.Value[[]AccountField]{Make: func() []AccountField {
	return []AccountField{
		{"Account", 10, 0, 0, func(a Account) string { return a.Job.GetAccount() }},
		{"AdminComment", 15, 0, 0, jobOnly((*rows.JobRow).GetAdminComment)},
		{"AllocCPUS", 10, 0, 0, func(a Account) string { return strconv.FormatUint(a.cpus(), 10) }},
		{"AllocNodes", 10, 0, 0, func(a Account) string {
			if a.Step == nil && a.Job.GetAlloc() == nil {
				return "0"
			}
			return u32(a.nodeCount())
		}},
		{"AllocTRES", 10, 0, 0, func(a Account) string { return a.tresText(a.alloc(), a.Step == nil) }},
		{"AssocID", 7, 0, 0, func(a Account) string { return u32(a.Job.GetAssociation()) }},
		{"AveCPU", 10, 0, 0, measured(over(totalCPU), longCPU)},
		{"AveCPUFreq", 10, 0, 0, stepOnly(func(Account) string { return "0" })},
		{"AveDiskRead", 14, 0, 0, measured(over((*rows.StepRow).GetReadBytes), disk)},
		{"AveDiskWrite", 14, 0, 0, measured(over((*rows.StepRow).GetWriteBytes), disk)},
		{"AvePages", 10, 0, 0, measured(over((*rows.StepRow).GetSumPages), plainCount)},
		{"AveRSS", 10, 0, 0, measured(over((*rows.StepRow).GetSumPeakRssKib), kib)},
		{"AveVMSize", 10, 0, 0, measured(over((*rows.StepRow).GetSumPeakVmKib), kib)},
		{"BlockID", 16, 0, 0, nothing},
		{"Cluster", 10, 0, 0, func(a Account) string { return a.Context.Cluster }},
		{"Comment", 14, 0, 0, jobComment},
		{"Constraints", 19, 0, 0, jobOnly((*rows.JobRow).GetConstraint)},
		{"ConsumedEnergy", 14, 0, 0, energy},
		{"ConsumedEnergyRaw", 17, 0, 0, energy},
		{"Container", 19, 0, 0, nothing},
		{"CPUTime", 10, 0, 0, func(a Account) string { return Long(a.elapsed() * int64(a.cpus())) }},
		{"CPUTimeRAW", 10, 0, 0, func(a Account) string { return fmt.Sprint(a.elapsed() * int64(a.cpus())) }},
		{"DBIndex", -21, 0, 0, func(a Account) string { return strconv.FormatUint(a.Job.GetSubmittedSeq(), 10) }},
		{"DerivedExitCode", 15, 0, 0, jobOnly(func(j *rows.JobRow) string { return fmt.Sprintf("%d:%d", j.GetDerivedCode(), j.GetDerivedSignal()) })},
		{"Elapsed", 10, 0, 0, func(a Account) string { return Long(a.elapsed()) }},
		{"ElapsedRaw", 10, 0, 0, func(a Account) string { return fmt.Sprint(a.elapsed()) }},
		{"Eligible", 19, 0, 0, func(a Account) string {
			if a.Step != nil {
				return a.time(a.Step.GetStartUs(), "Unknown")
			}
			return a.time(a.Job.GetEligibleUs(), "Unknown")
		}},
		{"End", 19, 0, 0, func(a Account) string { return a.time(a.end(), "Unknown") }},
		{"Exclusive", 10, 2311, 0, jobOnly(func(j *rows.JobRow) string { return bit(j.GetExclusive() != events.Exclusive_SHARED) })},
		{"ExitCode", 8, 0, 0, Account.exitCode},
		{"Extra", 14, 2302, 0, jobOnly((*rows.JobRow).GetExtra)},
		{"FailedNode", 8, 2302, 0, jobOnly((*rows.JobRow).GetFailedNode)},
		{"Flags", 19, 0, 0, jobOnly(func(j *rows.JobRow) string {
			switch {
			case j.GetStartUs() == 0:
				return "StartRecieved"
			case j.GetBackfilled():
				return "SchedBackfill,StartRecieved" // as it is spelled in Slurm
			}
			return "SchedMain,StartRecieved"
		})},
		{"GID", 6, 0, 0, jobOnly(func(j *rows.JobRow) string { return u32(j.GetGid()) })},
		{"Group", 9, 0, 0, jobOnly((*rows.JobRow).GetGroup)},
		{"JobID", -12, 0, 0, func(a Account) string { return a.label(false) }},
		{"JobIDRaw", -12, 0, 0, func(a Account) string { return a.label(true) }},
		{"JobName", 10, 0, 0, func(a Account) string {
			if a.Step != nil {
				return a.Step.GetName()
			}
			return a.Job.GetName()
		}},
		{"Layout", 9, 0, 0, stepOnly(func(a Account) string {
			if a.Step.GetStep() >= events.StepInteractive {
				return "Unknown"
			}
			if l := a.Step.GetLayout(); l != "" {
				return l
			}
			return "Cyclic"
		})},
		{"Licenses", 10, 2302, 0, jobOnly((*rows.JobRow).GetLicenses)},
		{"MaxDiskRead", 12, 0, 0, maxRead.value(disk)},
		{"MaxDiskReadNode", 15, 0, 0, maxRead.node()},
		{"MaxDiskReadTask", 15, 0, 0, maxRead.task()},
		{"MaxDiskWrite", 12, 0, 0, maxWrite.value(disk)},
		{"MaxDiskWriteNode", 16, 0, 0, maxWrite.node()},
		{"MaxDiskWriteTask", 16, 0, 0, maxWrite.task()},
		{"MaxPages", 8, 0, 0, maxPages.value(plainCount)},
		{"MaxPagesNode", 12, 0, 0, maxPages.node()},
		{"MaxPagesTask", 14, 0, 0, maxPages.task()},
		{"MaxRSS", 10, 0, 0, maxRSS.value(kib)},
		{"MaxRSSNode", 10, 0, 0, maxRSS.node()},
		{"MaxRSSTask", 10, 0, 0, maxRSS.task()},
		{"MaxVMSize", 10, 0, 0, maxVM.value(kib)},
		{"MaxVMSizeNode", 14, 0, 0, maxVM.node()},
		{"MaxVMSizeTask", 14, 0, 0, maxVM.task()},
		{"McsLabel", 12, 0, 0, nothing},
		{"MinCPU", 10, 0, 0, minCPU.value(longCPU)},
		{"MinCPUNode", 10, 0, 0, minCPU.node()},
		{"MinCPUTask", 10, 0, 0, minCPU.task()},
		{"NCPUS", 10, 0, 0, func(a Account) string { return strconv.FormatUint(a.cpus(), 10) }},
		{"NNodes", 8, 0, 0, func(a Account) string { return u32(a.nodeCount()) }},
		{"NodeList", 15, 0, 0, func(a Account) string {
			nodes := a.Job.GetNodes()
			if a.Step != nil {
				nodes = a.Step.GetNodes()
			}
			if nodes == "" {
				return "None assigned"
			}
			return nodes
		}},
		{"NTasks", 8, 0, 0, stepOnly(func(a Account) string { return u32(a.Step.GetTasks()) })},
		{"OriginalSLUID", 14, 2511, 0, nothing},
		{"OverSubscribe", 13, 2311, 0, jobOnly(func(j *rows.JobRow) string { return bit(j.GetOversubscribe()) })},
		{"Partition", 10, 0, 0, jobOnly((*rows.JobRow).GetPartition)},
		{"Planned", 10, 2302, 0, plannedTime},
		{"PlannedCPU", 10, 2302, 0, plannedCPU},
		{"PlannedCPURAW", 13, 2302, 0, plannedCPURaw},
		{"Priority", 10, 0, 0, jobOnly(func(j *rows.JobRow) string { return u32(j.GetPriority()) })},
		{"QOS", 10, 0, 0, jobOnly((*rows.JobRow).GetQos)},
		{"QOSRAW", 6, 0, 0, jobOnly(func(j *rows.JobRow) string { return u32(j.GetQosId()) })},
		{"QOSREQ", 10, 2405, 0, jobOnly((*rows.JobRow).GetQos)},
		{"Reason", 22, 0, 0, jobOnly(func(j *rows.JobRow) string { return rows.Waited(j).Word() })},
		{"ReqCPUFreq", 10, 0, 0, reqFreq},
		{"ReqCPUFreqGov", 13, 0, 0, reqFreq},
		{"ReqCPUFreqMax", 13, 0, 0, reqFreq},
		{"ReqCPUFreqMin", 13, 0, 0, reqFreq},
		{"ReqCPUS", 8, 0, 0, func(a Account) string {
			if a.Step != nil {
				return strconv.FormatUint(a.cpus(), 10)
			}
			return strconv.FormatUint(a.Job.GetReq().GetCpus(), 10)
		}},
		{"ReqMem", 10, 0, 0, func(a Account) string {
			if a.Step != nil {
				return ""
			}
			return tres.Memory(int64(a.Job.GetReq().GetMemMib()), a.Context.Unit)
		}},
		{"ReqNodes", 8, 0, 0, func(a Account) string {
			if a.Step != nil {
				return u32(a.nodeCount())
			}
			return u32(a.Job.GetReq().GetNodes())
		}},
		{"ReqReservation", 20, 2405, 0, jobOnly((*rows.JobRow).GetReservation)},
		{"ReqTRES", 10, 0, 0, func(a Account) string {
			if a.Step != nil {
				return ""
			}
			return a.tresText(a.Job.GetReq(), true)
		}},
		{"Reservation", 20, 0, 0, jobOnly((*rows.JobRow).GetReservation)},
		{"ReservationId", 8, 0, 0, nothing},
		{"Reserved", 10, 0, 2205, plannedTime},
		{"Restarts", 8, 2405, 0, jobOnly(func(j *rows.JobRow) string { return u32(j.GetInstance()) })},
		{"ResvCPU", 10, 0, 2205, plannedCPU},
		{"ResvCPURAW", 10, 0, 2205, plannedCPURaw},
		{"SegmentSize", 11, 2505, 0, jobOnly(func(*rows.JobRow) string { return "0" })},
		{"SLUID", 14, 2511, 0, nothing},
		{"Start", 19, 0, 0, Account.startText},
		{"State", 10, 0, 0, Account.state},
		{"StdErr", 20, 2311, 0, jobOnly((*rows.JobRow).GetStdErr)},
		{"StdIn", 20, 2311, 0, jobOnly((*rows.JobRow).GetStdIn)},
		{"StdOut", 20, 2311, 0, jobOnly((*rows.JobRow).GetStdOut)},
		{"Submit", 19, 0, 0, func(a Account) string {
			if a.Step != nil {
				return a.time(a.Step.GetSubmitUs(), "Unknown")
			}
			return a.time(a.Job.GetSubmitUs(), "Unknown")
		}},
		{"SubmitLine", 20, 0, 0, func(a Account) string {
			if a.Step != nil {
				return a.Step.GetSubmitLine()
			}
			return a.Job.GetSubmitLine()
		}},
		{"Suspended", 10, 0, 0, func(a Account) string { return Long(a.suspended() / 1e6) }},
		{"SystemComment", 15, 0, 0, nothing},
		{"SystemCPU", 10, 0, 0, func(a Account) string { _, s := a.cpuTime(); return CPUTime(s) }},
		{"Timelimit", 10, 0, 0, jobOnly(func(j *rows.JobRow) string {
			if j.GetLimitS() == 0 {
				return "Partition_Limit"
			}
			return limitText(j.GetLimitS(), Long)
		})},
		{"TimelimitRaw", 10, 0, 0, jobOnly(func(j *rows.JobRow) string {
			switch j.GetLimitS() {
			case 0:
				return "Partition_Limit"
			case events.Unlimited:
				return "UNLIMITED"
			}
			return u32(j.GetLimitS() / 60)
		})},
		{"TotalCPU", 10, 0, 0, func(a Account) string { u, s := a.cpuTime(); return CPUTime(u + s) }},
		{"TRESUsageInAve", 14, 0, 0, usageIn(func(s *rows.StepRow) spent {
			n := uint64(max(s.GetTasks(), 1))
			return spent{totalCPU(s) / n, s.GetReadBytes() / n, s.GetSumPeakRssKib() / n, s.GetSumPages() / n, s.GetSumPeakVmKib() / n}
		})},
		{"TRESUsageInMax", 14, 0, 0, usageMax},
		{"TRESUsageInMaxNode", 18, 0, 0, usageNode(peaksIn)},
		{"TRESUsageInMaxTask", 18, 0, 0, usageTask(peaksIn)},
		{"TRESUsageInMin", 14, 0, 0, usageMax},
		{"TRESUsageInMinNode", 18, 0, 0, usageNode(peaksIn)},
		{"TRESUsageInMinTask", 18, 0, 0, usageTask(peaksIn)},
		{"TRESUsageInTot", 14, 0, 0, usageIn(func(s *rows.StepRow) spent {
			return spent{totalCPU(s), s.GetReadBytes(), s.GetSumPeakRssKib(), s.GetSumPages(), s.GetSumPeakVmKib()}
		})},
		{"TRESUsageOutAve", 15, 0, 0, usageOut(over((*rows.StepRow).GetWriteBytes))},
		{"TRESUsageOutMax", 15, 0, 0, outMax},
		{"TRESUsageOutMaxNode", 19, 0, 0, usageNode(peaksOut)},
		{"TRESUsageOutMaxTask", 19, 0, 0, usageTask(peaksOut)},
		{"TRESUsageOutMin", 15, 0, 0, outMax},
		{"TRESUsageOutMinNode", 19, 0, 0, usageNode(peaksOut)},
		{"TRESUsageOutMinTask", 19, 0, 0, usageTask(peaksOut)},
		{"TRESUsageOutTot", 15, 0, 0, usageOut((*rows.StepRow).GetWriteBytes)},
		{"UID", 6, 0, 0, jobOnly(func(j *rows.JobRow) string { return u32(j.GetUid()) })},
		{"User", 9, 0, 0, jobOnly((*rows.JobRow).GetUser)},
		{"UserCPU", 10, 0, 0, func(a Account) string { u, _ := a.cpuTime(); return CPUTime(u) }},
		{"WCKey", 10, 0, 0, jobOnly((*rows.JobRow).GetWckey)},
		{"WCKeyID", 10, 0, 0, jobOnly(func(*rows.JobRow) string { return "0" })},
		{"WorkDir", 20, 0, 0, jobOnly((*rows.JobRow).GetWorkDir)},
	}

}}

// jobComment is the comment of a job; in Slurm accounting is told of it when the job ends.
func jobComment(a Account) string {
	if a.Step != nil || a.Context.Release <= slurm.Release2205 && a.Job.GetEndUs() == 0 {
		return ""
	}
	return a.Job.GetComment()
}

// energy is never measured. Of a job with one step Slurm leaves it to the step.
func energy(a Account) string {
	if a.Step == nil && a.Job.GetSteps() <= 1 {
		return ""
	}
	return "0"
}

func outMax(a Account) string {
	if a.Step.GetMaxWrite() == nil || !a.measured() {
		return ""
	}
	return usageOut(func(s *rows.StepRow) uint64 { return s.GetMaxWrite().GetValue() })(a)
}
