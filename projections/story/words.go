package story

import (
	"fmt"
	"strings"
	"time"

	"stint/events"
)

func plural(n uint64, one string, many ...string) string {
	word := one
	if n != 1 {
		word = one + "s"
		if len(many) > 0 {
			word = many[0]
		}
	}
	return fmt.Sprintf("%d %s", n, word)
}

// join puts a semicolon between what is not empty.
func join(parts ...string) string {
	kept := parts[:0]
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "; ")
}

// clock is a moment in UTC, to the millisecond: a story is the same wherever it is read.
func clock(us int64) string { return time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05.000Z") }

func seconds(us int64) string {
	return time.Duration(us * 1000).Round(time.Millisecond).String()
}

func limit(s uint32) string {
	if s == events.Unlimited {
		return "UNLIMITED"
	}
	d, s := s/86400, s%86400
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
	if d > 0 {
		text = fmt.Sprintf("%d-%s", d, text)
	}
	return text
}

func short(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most-3] + "..."
}

func exitText(code, signal uint32) string { return fmt.Sprintf("%d:%d", code, signal) }

func holdText(h events.HoldKind) string {
	switch h {
	case events.HoldKind_HELD_USER:
		return "held by its owner"
	case events.HoldKind_HELD_ADMIN:
		return "held by an administrator"
	}
	return ""
}

// heldText is who holds a job and why, or why it is in the queue again.
func heldText(h events.HoldKind, r events.Reason) string {
	if h == events.HoldKind_HELD_ADMIN && r != events.Reason_NONE && r != events.Reason_JOB_HELD_ADMIN {
		return join(reasonText(r), "held until an administrator releases it")
	}
	return join(reasonText(r), holdText(h))
}

func reasonText(r events.Reason) string {
	if r == events.Reason_NONE {
		return ""
	}
	return r.Word()
}

// codeText is a code in lower case words.
func codeText(c events.Code) string {
	return strings.ToLower(strings.ReplaceAll(c.String(), "_", " "))
}

func causeText(c events.EndCause) string {
	switch c {
	case events.EndCause_EXITED:
		return ""
	case events.EndCause_LAUNCH_FAILED:
		return "it could not be started"
	case events.EndCause_NODE_UNFIT:
		return "the node could not start it"
	case events.EndCause_OOM_KILLED:
		return "out of memory"
	case events.EndCause_LIMIT_PASSED:
		return "the node ended it at its time limit"
	case events.EndCause_MEMORY_PASSED:
		return "the node ended it, since it used more memory than it has"
	case events.EndCause_STATUS_UNSEEN:
		return "nobody saw how it ended"
	case events.EndCause_NODE_WAS_LOST:
		return "the node was lost"
	case events.EndCause_NODE_REBOOTED:
		return "the node was booted again"
	case events.EndCause_STOPPED:
		return "ended by order"
	case events.EndCause_RUN_VOID:
		return "the log knew this run no more"
	}
	return fmt.Sprintf("cause %d", c)
}

func nodeOrder(o events.NodeOrder) string {
	switch o {
	case events.NodeOrder_NODE_DRAIN:
		return "drains"
	case events.NodeOrder_NODE_DOWN:
		return "sets down"
	case events.NodeOrder_NODE_RESUME:
		return "resumes"
	case events.NodeOrder_NODE_UNDRAIN:
		return "undrains"
	case events.NodeOrder_NODE_FAIL_ORDER:
		return "sets failing"
	case events.NodeOrder_NODE_IDLE:
		return "sets idle"
	case events.NodeOrder_NODE_FUTURE:
		return "sets aside"
	}
	return "changes"
}

// updateText names what an update sets.
func updateText(u *events.UpdateJob) string {
	if u == nil {
		return "nothing"
	}
	var parts []string
	add := func(set bool, name string, value any) {
		if set {
			parts = append(parts, fmt.Sprintf("%s=%v", name, value))
		}
	}
	if u.TimeLimitS != nil {
		add(true, "TimeLimit", limit(*u.TimeLimitS))
	}
	if u.BeginUs != nil {
		add(true, "StartTime", clock(*u.BeginUs))
	}
	if u.DeadlineUs != nil {
		add(true, "Deadline", clock(*u.DeadlineUs))
	}
	if u.TimeLimitAddS != nil {
		add(true, "TimeLimit", fmt.Sprintf("%+ds", *u.TimeLimitAddS))
	}
	add(u.Partition != nil, "Partition", u.GetPartition())
	add(u.Name != nil, "Name", u.GetName())
	add(u.Priority != nil, "Priority", u.GetPriority())
	add(u.Nice != nil, "Nice", u.GetNice())
	add(u.Comment != nil, "Comment", u.GetComment())
	add(u.ArrayThrottle != nil, "ArrayTaskThrottle", u.GetArrayThrottle())
	add(u.Requeue != nil, "Requeue", u.GetRequeue())
	add(u.SetDependencies, "Dependency", fmt.Sprintf("%d terms", len(u.Dependencies)))
	add(u.Account != nil, "Account", u.GetAccount())
	add(u.Qos != nil, "QOS", u.GetQos())
	add(u.AdminComment != nil, "AdminComment", u.GetAdminComment())
	add(u.Features != nil, "Features", u.GetFeatures())
	add(u.NodeList != nil, "ReqNodeList", u.GetNodeList())
	add(u.Exclude != nil, "ExcNodeList", u.GetExclude())
	add(u.MinNodes != nil, "MinNodes", u.GetMinNodes())
	add(u.MaxNodes != nil, "MaxNodes", u.GetMaxNodes())
	add(u.Tasks != nil, "NumTasks", u.GetTasks())
	add(u.MemPerNodeMib != nil, "MinMemoryNode", u.GetMemPerNodeMib())
	add(u.MemPerCpuMib != nil, "MinMemoryCPU", u.GetMemPerCpuMib())
	add(u.Wckey != nil, "WCKey", u.GetWckey())
	add(u.MailUser != nil, "MailUser", u.GetMailUser())
	add(u.StdOut != nil, "StdOut", u.GetStdOut())
	add(u.StdErr != nil, "StdErr", u.GetStdErr())
	add(u.StdIn != nil, "StdIn", u.GetStdIn())
	add(u.SetGres, "Gres", fmt.Sprintf("%d kinds", len(u.Gres)))
	add(u.CpusPerTask != nil, "CPUsPerTask", u.GetCpusPerTask())
	add(u.Cpus != nil, "NumCPUs", u.GetCpus())
	add(u.Prefer != nil, "Prefer", u.GetPrefer())
	add(u.MinCpusPerNode != nil, "MinCPUsNode", u.GetMinCpusPerNode())
	add(u.TmpDiskMib != nil, "MinTmpDiskNode", u.GetTmpDiskMib())
	add(u.Licenses != nil, "Licenses", u.GetLicenses())
	add(u.Reservation != nil, "Reservation", u.GetReservation())
	add(u.Contiguous != nil, "Contiguous", u.GetContiguous())
	add(u.Exclusive != nil, "OverSubscribe", u.GetExclusive())
	add(u.MailTypes != nil, "MailType", u.GetMailTypes())
	add(u.TimeMinS != nil, "TimeMin", u.GetTimeMinS())
	add(u.WorkDir != nil, "WorkDir", u.GetWorkDir())
	add(u.TasksPerNode != nil, "TasksPerNode", u.GetTasksPerNode())
	add(u.Extra != nil, "Extra", u.GetExtra())
	add(u.SocketsPerNode != nil, "ReqSockets", u.GetSocketsPerNode())
	add(u.CoresPerSocket != nil, "ReqCores", u.GetCoresPerSocket())
	add(u.ThreadsPerCore != nil, "ReqThreads", u.GetThreadsPerCore())
	add(u.ResetAccrue, "ResetAccrueTime", true)
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, " ")
}
