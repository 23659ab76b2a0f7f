package format

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"stint/cli/slurm"
	"stint/events"
	"stint/projections"
)

// Config is what scontrol show config prints: the settings in force, those of the file and the defaults that matter, by
// name. host is where the controller runs, file the path of slurm.conf (empty: none).
func Config(a *projections.AnswerConfig, c *Context, host, file string) string {
	cfg := a.GetConfig()
	if cfg == nil {
		cfg = &events.Config{}
	}
	values := map[string]string{}
	for _, s := range cfg.GetSettings() {
		if s.GetKey() != "SlurmctldHost" {
			values[s.GetKey()] = withUnit(s.GetKey(), null(s.GetValue()))
		}
	}
	set := func(key, format string, args ...any) { values[key] = fmt.Sprintf(format, args...) }
	set("ClusterName", "%s", cfg.GetCluster())
	set("KillWait", "%d sec", cfg.GetKillWaitS())
	set("MinJobAge", "%d sec", cfg.GetMinJobAgeS())
	set("MaxArraySize", "%d", cfg.GetMaxArraySize())
	if n := cfg.GetMaxBatchRequeue(); n > 0 {
		set("MaxBatchRequeue", "%d", n)
	}
	set("MaxJobCount", "%d", cfg.GetMaxJobCount())
	set("FirstJobId", "%d", cfg.GetFirstJobId())
	set("JobRequeue", "%s", bit(cfg.GetJobRequeue()))
	set("JobFileAppend", "%s", bit(cfg.GetJobFileAppend()))
	set("SlurmdTimeout", "%d sec", cfg.GetNodeTimeoutS())
	set("ReturnToService", "%d", cfg.GetReturnToServiceN())
	set("DisableRootJobs", "%s", map[bool]string{true: "Yes", false: "No"}[cfg.GetDisableRootJobs()])
	over := "UNLIMITED"
	if n := cfg.GetOverTimeLimitS(); n != events.Unlimited {
		over = strconv.Itoa(int(n/60)) + " min"
	}
	set("OverTimeLimit", "%s", over)
	for _, kind := range []struct {
		cpu, node       string
		perCPU, perNode uint64
	}{{"DefMemPerCPU", "DefMemPerNode", cfg.GetDefMemPerCpuMib(), cfg.GetDefMemPerNodeMib()}, {"MaxMemPerCPU", "MaxMemPerNode", cfg.GetMaxMemPerCpuMib(), cfg.GetMaxMemPerNodeMib()}} {
		delete(values, kind.cpu)
		delete(values, kind.node)
		switch {
		case kind.perCPU > 0:
			set(kind.cpu, "%d", kind.perCPU)
		case kind.perNode > 0:
			set(kind.node, "%d", kind.perNode)
		default:
			set(kind.node, "UNLIMITED")
		}
	}
	enforce := "NO"
	switch {
	case cfg.GetEnforcePartLimitsAll():
		enforce = "ALL"
	case cfg.GetEnforcePartLimitsAny():
		enforce = "ANY"
	}
	set("EnforcePartLimits", "%s", enforce)
	scheduler := "sched/builtin"
	if cfg.GetBackfill() {
		scheduler = "sched/backfill"
	}
	set("SchedulerType", "%s", scheduler)
	selectType := "select/cons_tres"
	if cfg.GetSelectLinear() {
		selectType = "select/linear"
	}
	set("SelectType", "%s", selectType)
	set("SelectTypeParameters", "%s", selectParameters(cfg))
	set("GresTypes", "%s", null(strings.Join(cfg.GetGresTypes(), ",")))
	for i, h := range cfg.GetControllers() {
		set(fmt.Sprintf("SlurmctldHost[%d]", i), "%s", h)
	}
	if len(cfg.GetControllers()) == 0 && host != "" {
		set("SlurmctldHost[0]", "%s", host)
	}
	set("BOOT_TIME", "%s", c.Clock.Time(a.GetBootUs(), "Unknown"))
	set("NEXT_JOB_ID", "%d", a.GetNextId())
	set("SLURM_CONF", "%s", null(file))
	set("SLURM_VERSION", "%s", strings.TrimPrefix(c.Release.Version(), "slurm "))

	keys := make([]string, 0, len(values))
	for k := range values {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return strings.ToLower(keys[i]) < strings.ToLower(keys[j]) })
	var b strings.Builder
	fmt.Fprintf(&b, "Configuration data as of %s\n", c.Clock.Time(c.Clock.Now.UnixMicro(), ""))
	for _, k := range keys {
		fmt.Fprintf(&b, "%-23s = %s\n", k, values[k])
	}
	if cg := cfg.GetCgroup(); cg.GetGiven() {
		b.WriteString("\nCgroup Support Configuration:\n")
		for _, kv := range [][2]string{
			{"AllowedRAMSpace", fmt.Sprintf("%.1f%%", cg.GetAllowedRamPct())}, {"AllowedSwapSpace", fmt.Sprintf("%.1f%%", cg.GetAllowedSwapPct())},
			{"ConstrainCores", boolWord(cg.GetCores())}, {"ConstrainDevices", boolWord(cg.GetDevices())}, {"ConstrainRAMSpace", boolWord(cg.GetRam())},
			{"ConstrainSwapSpace", boolWord(cg.GetSwap())}, {"MaxRAMPercent", fmt.Sprintf("%.1f%%", cg.GetMaxRamPct())}, {"MinRAMSpace", fmt.Sprintf("%d MB", cg.GetMinRamMib())},
		} {
			fmt.Fprintf(&b, "%-23s = %s\n", kv[0], kv[1])
		}
	}
	return b.String()
}

// withUnit adds the unit in which a setting counts time to its number.
func withUnit(key, value string) string {
	_, err := strconv.ParseUint(value, 10, 32)
	switch key {
	case "BatchStartTimeout", "CompleteWait", "GetEnvTimeout", "GroupUpdateTime", "HealthCheckInterval", "InactiveLimit", "MessageTimeout",
		"ResumeTimeout", "SchedulerTimeSlice", "SlurmctldTimeout", "SuspendTimeout", "TCPTimeout", "UnkillableStepTimeout", "WaitTime",
		"AcctGatherNodeFreq", "ExtSensorsFreq", "SuspendTime":
		if err == nil {
			return value + " sec"
		}
	case "ResvOverRun":
		if err == nil {
			return value + " min"
		}
	case "PriorityDecayHalfLife", "PriorityMaxAge", "PriorityCalcPeriod", "PreemptExemptTime":
		if s, err := slurm.ParseLimit(value); err == nil && s != events.Unlimited {
			return Long(int64(s))
		}
	}
	return value
}

func selectParameters(c *events.Config) string {
	word := "CR_CPU"
	switch {
	case c.GetSelectLinear() && c.GetSelectMemory():
		return "CR_MEMORY"
	case c.GetSelectLinear():
		return "NONE"
	case c.GetSelectCore():
		word = "CR_CORE"
	case c.GetSelectSocket():
		word = "CR_SOCKET"
	}
	if c.GetSelectMemory() {
		word += "_MEMORY"
	}
	return word
}

// Ping is the line of scontrol ping about one controller; up says whether it answers.
func Ping(role, host string, up bool) string {
	state := "DOWN"
	if up {
		state = "UP"
	}
	return fmt.Sprintf("Slurmctld(%s) at %s is %s\n", role, host, state)
}

// Texts that tools match, and the one line that stands before each cluster's answer with -M.
const (
	NoJobs          = "No jobs in the system\n"
	NoSteps         = "No job steps in the system\n"
	NoReservations  = "No reservations in the system\n"
	InvalidJobID    = "Invalid job id specified"
	NodeNotFound    = "Node %s not found\n"
	PartNotFound    = "Partition %s not found\n"
	ClusterLine     = "CLUSTER: %s\n"
	SubmittedLine   = "Submitted batch job %d\n"
	SubmittedOnLine = "Submitted batch job %d on cluster %s\n"
)

// ClockOf makes a clock of SLURM_TIME_FORMAT in an environment.
func ClockOf(now time.Time, environ []string) Clock {
	f, _ := slurm.Lookup(environ)("SLURM_TIME_FORMAT")
	return Clock{Now: now, Format: f}
}

// BitstrLenOf reads SLURM_BITSTR_LEN in an environment.
func BitstrLenOf(environ []string) int {
	v, ok := slurm.Lookup(environ)("SLURM_BITSTR_LEN")
	if n, err := strconv.Atoi(v); ok && err == nil && n >= 0 {
		return n
	}
	return DefaultBitstrLen
}
