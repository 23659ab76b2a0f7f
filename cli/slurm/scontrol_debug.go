package slurm

import (
	"slices"
	"strconv"
	"strings"

	"stint/events"
)

// debugLevels are the words for how much a controller logs, in order of their numbers.
var debugLevels = []string{"quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5"}

// debugFlags are the words of DebugFlags.
var debugFlags = []string{"Accrue", "Agent", "AuditRPCs", "AuditTLS", "Backfill", "BackfillMap", "BurstBuffer", "Cgroup", "ConMgr", "CPU_Bind", "CpuFrequency", "Data",
	"DBD_Agent", "Dependency", "Elasticsearch", "Energy", "ExtSensors", "Federation", "FrontEnd", "Gang", "GLOB_SILENCE", "Gres", "Hetjob", "Interconnect",
	"JobAccountGather", "JobComp", "JobContainer", "License", "Metrics", "Namespace", "Network", "NetworkRaw", "NodeFeatures", "NO_CONF_HASH", "Power", "Priority",
	"Profile", "Protocol", "Reservation", "Route", "Script", "SelectType", "Steps", "Switch", "TimeCray", "TLS", "TraceJobs", "Triggers", "WorkQueue"}

// debug reads setdebug LEVEL and setdebugflags +FLAG or -FLAG; what is said of nodes is refused.
func (s *Scontrol) debug(args []string) error {
	s.Config = &events.SetConfig{}
	for i, a := range args {
		if key, _, joined := strings.Cut(a, "="); joined && strings.EqualFold(key, "nodes") {
			return refusal("%s %s: only controllers are told how much to log; executors say it on their command line (--verbose)", s.Verb, clip(a))
		}
		if i > 0 {
			return refusal("too many arguments for keyword:%s", s.Verb)
		}
		if s.Verb == "setdebug" {
			level := strings.ToLower(a)
			if n, err := strconv.Atoi(a); err == nil && n >= 0 && n < len(debugLevels) {
				level = debugLevels[n]
			}
			if !slices.Contains(debugLevels, level) {
				return refusal("invalid debug level %s: it is one of %s, or 0 to %d%s", clip(a), strings.Join(debugLevels, ", "), len(debugLevels)-1, mean(level, debugLevels))
			}
			s.Config.Debug = level
			continue
		}
		if a == "" || a[0] != '+' && a[0] != '-' {
			return refusal("%s is neither +FLAG nor -FLAG", clip(a))
		}
		at := slices.IndexFunc(debugFlags, func(f string) bool { return strings.EqualFold(f, a[1:]) })
		switch {
		case at < 0:
			return refusal("invalid debug flag %s%s", clip(a), mean(a[1:], debugFlags))
		case a[0] == '+':
			s.Config.FlagsOn = append(s.Config.FlagsOn, debugFlags[at])
		default:
			s.Config.FlagsOff = append(s.Config.FlagsOff, debugFlags[at])
		}
	}
	return nil
}
