package format

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"stint/cli/slurm"
	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
)

// configRow is a line of scontrol show config.
type configRow struct {
	key          string
	write        func(string) string // how a value of the file is shown
	otherwise    string              // what is shown if the file says nothing
	value        func(*configSource) string
	since, until slurm.Release // 0: always
}

// ConfigPlace is where a configuration was read and is in force.
type ConfigPlace struct {
	Host string // where the controller runs
	File string // the path of slurm.conf; empty: there is none
	Uid  func(name string) (uint32, bool)
}

type configSource struct {
	answer  *projections.AnswerConfig
	cfg     *events.Config
	context *Context
	place   ConfigPlace
	nodes   int
	set     map[string]string // the file's settings, by their keys in lower case
}

// Config is what scontrol show config prints: every setting there is, as the cluster has it.
func Config(a *projections.AnswerConfig, c *Context, place ConfigPlace) string {
	s := &configSource{answer: a, cfg: a.GetConfig(), context: c, place: place, set: map[string]string{}}
	if s.cfg == nil {
		s.cfg = &events.Config{}
	}
	for _, set := range s.cfg.GetSettings() {
		s.set[strings.ToLower(set.GetKey())] = set.GetValue()
	}
	for _, d := range s.cfg.GetNodes() {
		if n, err := hostlist.Count(d.GetNames(), hostlist.MaxHosts); err == nil {
			s.nodes += n
		}
	}
	var b strings.Builder
	line := func(key, value string) { fmt.Fprintf(&b, "%-23s = %s\n", key, value) }
	fmt.Fprintf(&b, "Configuration data as of %s\n", c.Clock.Time(c.Clock.Now.UnixMicro(), ""))
	for _, r := range configTable {
		switch {
		case !s.ranked() && (r.key == "FairShareDampeningFactor" || strings.HasPrefix(r.key, "Priority") && r.key != "PriorityType" && r.key != "PriorityParameters" && !strings.HasPrefix(r.key, "PrioritySite")):
		case r.since != 0 && c.Release < r.since || r.until != 0 && c.Release > r.until:
		case r.value != nil:
			line(r.key, r.value(s))
		case r.write != nil:
			if v := s.set[strings.ToLower(r.key)]; v != "" {
				line(r.key, r.write(v))
			} else {
				line(r.key, r.otherwise)
			}
		case r.key == "SlurmctldHost":
			for i, h := range s.controllers() {
				line(fmt.Sprintf("SlurmctldHost[%d]", i), h)
			}
		case r.key == "DefMemPer":
			s.memory(line, r.key, s.cfg.GetDefMemPerCpuMib(), s.cfg.GetDefMemPerNodeMib())
		case r.key == "MaxMemPer":
			s.memory(line, r.key, s.cfg.GetMaxMemPerCpuMib(), s.cfg.GetMaxMemPerNodeMib())
		}
	}
	if cg := s.cfg.GetCgroup(); cg.GetGiven() && s.grouped() {
		b.WriteString("\nCgroup Support Configuration:\n")
		for _, kv := range [][2]string{
			{"AllowedRAMSpace", fmt.Sprintf("%.1f%%", cg.GetAllowedRamPct())}, {"AllowedSwapSpace", fmt.Sprintf("%.1f%%", cg.GetAllowedSwapPct())},
			{"ConstrainCores", boolWord(cg.GetCores())}, {"ConstrainDevices", boolWord(cg.GetDevices())}, {"ConstrainRAMSpace", boolWord(cg.GetRam())},
			{"ConstrainSwapSpace", boolWord(cg.GetSwap())}, {"MaxRAMPercent", fmt.Sprintf("%.1f%%", cg.GetMaxRamPct())}, {"MinRAMSpace", fmt.Sprintf("%d MB", cg.GetMinRamMib())},
		} {
			line(kv[0], kv[1])
		}
	}
	b.WriteString("\nMPI Plugins Configuration:\n")
	for _, kv := range mpiTable {
		line(kv[0], kv[1])
	}
	return b.String()
}

// ranked says whether priorities are made of several things.
func (s *configSource) ranked() bool {
	t := s.set["prioritytype"]
	return t == "" || t == "priority/multifactor"
}

// controllers are the hosts of the controllers as the file has them, else the one that answers.
func (s *configSource) controllers() (hosts []string) {
	for _, set := range s.cfg.GetSettings() {
		if set.GetKey() == "SlurmctldHost" {
			hosts = append(hosts, set.GetValue())
		}
	}
	if hosts == nil {
		hosts = append(hosts, s.cfg.GetControllers()...)
	}
	if hosts == nil && s.place.Host != "" {
		hosts = []string{s.place.Host}
	}
	return hosts
}

func (s *configSource) memory(line func(key, value string), key string, perCPU, perNode uint64) {
	switch {
	case perCPU > 0:
		line(key+"CPU", fmt.Sprint(perCPU))
	case perNode > 0:
		line(key+"Node", fmt.Sprint(perNode))
	default:
		line(key+"Node", "UNLIMITED")
	}
}

// grouped says whether the site left control groups in place: real Slurm shows their settings only then.
func (s *configSource) grouped() bool {
	for _, key := range []string{"proctracktype", "taskplugin", "jobacctgathertype"} {
		if v := s.set[key]; v == "" || strings.Contains(v, "cgroup") {
			return true
		}
	}
	return false
}

func accountedTres(s *configSource) string {
	all := "cpu,mem,energy,node,billing,fs/disk,vmem,pages"
	if v := s.set["accountingstoragetres"]; v != "" {
		all += "," + v
	}
	return all
}

// storeFlags has its words in one order, whatever that of the file.
func storeFlags(s *configSource) string {
	words := strings.Split(s.set["accountingstoreflags"], ",")
	slices.Sort(words)
	return null(strings.Join(words, ","))
}

func bootTime(s *configSource) string { return s.context.Clock.Time(s.answer.GetBootUs(), "Unknown") }

func enforcedLimits(s *configSource) string {
	switch {
	case s.cfg.GetEnforcePartLimitsAll():
		return "ALL"
	case s.cfg.GetEnforcePartLimitsAny():
		return "ANY"
	}
	return "NO"
}

// messagesHeld is how many messages for the accounting daemon would be kept: Slurm's rule.
func messagesHeld(s *configSource) string {
	if v := s.set["maxdbdmsgs"]; v != "" {
		return v
	}
	return fmt.Sprint(max(10000, 2*uint64(s.cfg.GetMaxJobCount())+4*uint64(s.nodes)))
}

func overTime(s *configSource) string {
	n := s.cfg.GetOverTimeLimitS()
	if n == events.Unlimited {
		return "UNLIMITED"
	}
	return u32(n/60) + " min"
}

func propagated(s *configSource) string {
	if _, except := s.set["propagateresourcelimitsexcept"]; except && s.set["propagateresourcelimits"] == "" {
		return "(null)"
	}
	return cmp.Or(s.set["propagateresourcelimits"], "ALL")
}

func schedulerType(s *configSource) string {
	if s.cfg.GetBackfill() {
		return "sched/backfill"
	}
	return "sched/builtin"
}

func selectType(s *configSource) string {
	if s.cfg.GetSelectLinear() {
		return "select/linear"
	}
	return "select/cons_tres"
}

// user is a setting that names a user, with its number.
func (s *configSource) user(key string) string {
	name := cmp.Or(s.set[strings.ToLower(key)], "root")
	if s.place.Uid != nil {
		if uid, ok := s.place.Uid(name); ok {
			return fmt.Sprintf("%s(%d)", name, uid)
		}
	}
	return name
}

// How values are written. A value that is no number stays as it is.
func word(v string) string { return v }

func counted(v, unit string) string {
	if _, err := strconv.ParseUint(v, 10, 32); err != nil {
		if strings.EqualFold(v, "UNLIMITED") || strings.EqualFold(v, "INFINITE") {
			return strings.ToUpper(v)
		}
		return v
	}
	return v + unit
}

func seconds(v string) string   { return counted(v, " sec") }
func minutesOf(v string) string { return counted(v, " min") }
func micros(v string) string    { return counted(v, " usec") }
func rate(v string) string      { return counted(v, " nodes/min") }
func percent(v string) string   { return counted(strings.TrimSuffix(v, "%"), " percent") }

func yesOrNo(v string) string {
	switch strings.ToLower(v) {
	case "yes", "y", "1", "true", "t", "up":
		return "Yes"
	}
	return "No"
}

// span is a length of time: minutes, or as limits are written.
func span(v string) string {
	if n, err := slurm.ParseLimit(v); err == nil && n != events.Unlimited {
		return Long(int64(n))
	}
	return v
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
	if c.GetOneTaskPerCore() {
		word += ",CR_ONE_TASK_PER_CORE"
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
