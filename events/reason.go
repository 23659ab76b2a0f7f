package events

import "strings"

// Unlimited stands for "no limit" in 32 bit fields of limits and counts.
const Unlimited uint32 = 0xffffffff

// Step ids beyond the numbered ones, in the raw form that Slurm's tools show.
const (
	StepInteractive uint32 = 4294967290
	StepBatch       uint32 = 4294967291
	StepExtern      uint32 = 4294967292
)

// StepAside is the first of the numbers of what runs aside of steps: what a command has done on the nodes of a job, and no log hears of.
const StepAside uint32 = 0xF0000000

// IsAside says whether a step is none, but runs aside of them.
func IsAside(step uint32) bool { return step >= StepAside && step < StepInteractive }

// IsMainStep says whether a step is a run's share of a node itself: its end on a node is the end of the run there.
// Numbered steps and the extern step come and go within it.
func IsMainStep(step uint32) bool { return step == StepBatch || step == StepInteractive }

// StepName is how people see a step: batch, extern, interactive, or its number.
func StepName(step uint32) string {
	switch step {
	case StepBatch:
		return "batch"
	case StepExtern:
		return "extern"
	case StepInteractive:
		return "interactive"
	}
	return itoa(step)
}

func itoa(n uint32) string {
	var b [10]byte
	i := len(b)
	for {
		i--
		b[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return string(b[i:])
		}
	}
}

// KeptForOthers is the text beside the reason RESOURCES of a job that waits for nodes which jobs of other partitions wait for too, with
// a higher rank.
const KeptForOthers = "kept for jobs in higher priority partitions"

// Word is Slurm's word for a reason, as squeue's %r prints it.
func (r Reason) Word() string {
	if w, ok := reasonWords[r]; ok {
		return w
	}
	return "InvalidReason"
}

var reasonWords = map[Reason]string{
	Reason_NONE:                       "None",
	Reason_PRIORITY:                   "Priority",
	Reason_DEPENDENCY:                 "Dependency",
	Reason_RESOURCES:                  "Resources",
	Reason_PARTITION_NODE_LIMIT:       "PartitionNodeLimit",
	Reason_PARTITION_TIME_LIMIT:       "PartitionTimeLimit",
	Reason_PARTITION_DOWN_REASON:      "PartitionDown",
	Reason_PARTITION_INACTIVE:         "PartitionInactive",
	Reason_JOB_HELD_ADMIN:             "JobHeldAdmin",
	Reason_JOB_HELD_USER:              "JobHeldUser",
	Reason_BEGIN_TIME:                 "BeginTime",
	Reason_LICENSES:                   "Licenses",
	Reason_ASSOC_JOB_LIMIT:            "AssociationJobLimit",
	Reason_RESERVATION:                "Reservation",
	Reason_REQ_NODE_NOT_AVAIL:         "ReqNodeNotAvail",
	Reason_NODE_DOWN_REASON:           "NodeDown",
	Reason_BAD_CONSTRAINTS:            "BadConstraints",
	Reason_SYSTEM_FAILURE:             "SystemFailure",
	Reason_JOB_LAUNCH_FAILURE:         "JobLaunchFailure",
	Reason_NON_ZERO_EXIT_CODE:         "NonZeroExitCode",
	Reason_RAISED_SIGNAL:              "RaisedSignal",
	Reason_TIME_LIMIT:                 "TimeLimit",
	Reason_INVALID_ACCOUNT_REASON:     "InvalidAccount",
	Reason_INVALID_QOS_REASON:         "InvalidQOS",
	Reason_CLEANING:                   "Cleaning",
	Reason_DEPENDENCY_NEVER_SATISFIED: "DependencyNeverSatisfied",
	Reason_JOB_ARRAY_TASK_LIMIT:       "JobArrayTaskLimit",
	Reason_DEADLINE_REASON:            "DeadLine",
	Reason_PARTITION_CONFIG:           "PartitionConfig",
	Reason_OUT_OF_MEMORY_REASON:       "OutOfMemory",
	Reason_JOB_HOLD_MAX_REQUEUE:       "JobHoldMaxRequeue",
	Reason_STATUS_LOST:                "StatusLost",
	Reason_MEM_PER_LIMIT:              "MaxMemPerLimit",
	Reason_ACCOUNT_NOT_ALLOWED:        "AccountNotAllowed",
	Reason_QOS_NOT_ALLOWED:            "QOSNotAllowed",
	Reason_JOB_REQUEUED_HELD:          "job requeued in held state",
}

type stateWord struct{ word, compact string }

var stateWords = [...]stateWord{
	JobState_PENDING:       {"PENDING", "PD"},
	JobState_RUNNING:       {"RUNNING", "R"},
	JobState_SUSPENDED:     {"SUSPENDED", "S"},
	JobState_COMPLETED:     {"COMPLETED", "CD"},
	JobState_CANCELLED:     {"CANCELLED", "CA"},
	JobState_FAILED:        {"FAILED", "F"},
	JobState_TIMEOUT:       {"TIMEOUT", "TO"},
	JobState_NODE_FAIL:     {"NODE_FAIL", "NF"},
	JobState_PREEMPTED:     {"PREEMPTED", "PR"},
	JobState_BOOT_FAIL:     {"BOOT_FAIL", "BF"},
	JobState_DEADLINE:      {"DEADLINE", "DL"},
	JobState_OUT_OF_MEMORY: {"OUT_OF_MEMORY", "OOM"},
}

// Word is Slurm's word for a state, Compact its short form.
func (s JobState) Word() string {
	if s >= 0 && int(s) < len(stateWords) {
		return stateWords[s].word
	}
	return "INVALID"
}

// Compact is the short form of a state: PD, R, CD …
func (s JobState) Compact() string {
	if s >= 0 && int(s) < len(stateWords) {
		return stateWords[s].compact
	}
	return "?"
}

// Final says whether a state is an end.
func (s JobState) Final() bool { return s >= JobState_COMPLETED && int(s) < len(stateWords) }

// ParseJobState reads a state in its long or short form, in any case.
func ParseJobState(text string) (JobState, bool) {
	for s, w := range stateWords {
		if strings.EqualFold(text, w.word) || strings.EqualFold(text, w.compact) {
			return JobState(s), true
		}
	}
	return 0, false
}

// SignalOOM is the signal by which is told of a task, a step or a job that the kernel has killed a process of it for memory: a number
// that no signal has, by which Slurm's tools know it.
const SignalOOM = 125
