package slurm

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/tres"
)

// Setting is one thing that `set` (and add) can give: its keys, how many letters of them are enough, and of what.
type Setting struct {
	Keys  string // separated by blanks
	Least int
	Limit events.Limit // of limits
	Unit  unitKind
	Tres  string // of the old spellings GrpCPUs and the like: the resource
	Show  string // what it is called when a change is shown; empty: the first key
	Of    settingOf
}

type settingOf byte

const (
	ofAssociation settingOf = 1 << iota
	ofQos
)

type unitKind byte

const (
	unitCount   unitKind = iota
	unitMinutes          // a time, kept in minutes
	unitSeconds          // a time, kept in seconds; shown as a time
	unitTres             // a vector of resources
	unitFactor           // a fraction, kept in millionths
	unitShares           // a count, or `parent`
)

// unitWords say what is written for a value.
var unitWords = once.Value[map[unitKind]string]{Make: func() map[unitKind]string {
	return map[unitKind]string{
		unitCount: "a whole number", unitMinutes: "minutes or DAYS-HH:MM:SS", unitSeconds: "a time such as 00:05:00",
		unitFactor: "a number such as 0.5", unitShares: "a whole number or parent",
	}

}}

// Settings is every limit and weight, in the order in which they are shown when something is added.
var Settings = []Setting{
	{"Fairshare Shares", 1, events.Limit_SHARES, unitShares, "", "Fairshare", ofAssociation},
	{"GraceTime", 3, events.Limit_GRACE_TIME, unitSeconds, "", "", ofQos},
	{"GrpTRESMins", 8, events.Limit_GRP_TRES_MINS, unitTres, "", "", ofAssociation | ofQos},
	{"GrpTRESRunMins", 8, events.Limit_GRP_TRES_RUN_MINS, unitTres, "", "", ofAssociation | ofQos},
	{"GrpTRES", 7, events.Limit_GRP_TRES, unitTres, "", "", ofAssociation | ofQos},
	{"GrpCPUMins", 7, events.Limit_GRP_TRES_MINS, unitTres, "cpu", "GrpTRESMins", ofAssociation | ofQos},
	{"GrpCPURunMins", 7, events.Limit_GRP_TRES_RUN_MINS, unitTres, "cpu", "GrpTRESRunMins", ofAssociation | ofQos},
	{"GrpCPUs", 7, events.Limit_GRP_TRES, unitTres, "cpu", "GrpTRES", ofAssociation | ofQos},
	{"GrpMemory", 4, events.Limit_GRP_TRES, unitTres, "mem", "GrpTRES", ofAssociation | ofQos},
	{"GrpNodes", 4, events.Limit_GRP_TRES, unitTres, "node", "GrpTRES", ofAssociation | ofQos},
	{"GrpJobs", 4, events.Limit_GRP_JOBS, unitCount, "", "", ofAssociation | ofQos},
	{"GrpJobsAccrue", 8, events.Limit_GRP_JOBS_ACCRUE, unitCount, "", "", ofAssociation | ofQos},
	{"GrpSubmitJobs", 4, events.Limit_GRP_SUBMIT, unitCount, "", "", ofAssociation | ofQos},
	{"GrpWall", 4, events.Limit_GRP_WALL, unitMinutes, "", "", ofAssociation | ofQos},
	{"LimitFactor", 3, events.Limit_LIMIT_FACTOR, unitFactor, "", "", ofQos},
	{"MaxTRESMinsPerJob MaxTRESMinsPJ", 8, events.Limit_MAX_TRES_MINS_PER_JOB, unitTres, "", "MaxTRESMins", ofAssociation | ofQos},
	{"MaxTRESRunMins", 11, events.Limit_MAX_TRES_RUN_MINS, unitTres, "", "", ofAssociation},
	{"MaxTRESRunMinsPerUser MaxTRESRunMinsPU", 15, events.Limit_MAX_TRES_RUN_MINS_PER_USER, unitTres, "", "MaxTRESRunMinsPU", ofQos},
	{"MaxTRESRunMinsPerAccount MaxTRESRunMinsPA", 15, events.Limit_MAX_TRES_RUN_MINS_PER_ACCOUNT, unitTres, "", "MaxTRESRunMinsPA", ofQos},
	{"MaxTRESPerJob MaxTRESPJ", 7, events.Limit_MAX_TRES_PER_JOB, unitTres, "", "MaxTRES", ofAssociation | ofQos},
	{"MaxTRESPerNode MaxTRESPN", 11, events.Limit_MAX_TRES_PER_NODE, unitTres, "", "MaxTRESPerNode", ofAssociation | ofQos},
	{"MaxTRESPerUser MaxTRESPU", 11, events.Limit_MAX_TRES_PER_USER, unitTres, "", "MaxTRESPerUser", ofQos},
	{"MaxTRESPerAccount MaxTRESPA", 11, events.Limit_MAX_TRES_PER_ACCOUNT, unitTres, "", "MaxTRESPerAccount", ofQos},
	{"MaxCPUMinsPerJob", 7, events.Limit_MAX_TRES_MINS_PER_JOB, unitTres, "cpu", "MaxTRESMins", ofAssociation | ofQos},
	{"MaxCPUsPerUser MaxCPUsPU", 11, events.Limit_MAX_TRES_PER_USER, unitTres, "cpu", "MaxTRESPerUser", ofQos},
	{"MaxCPUsPerJob", 7, events.Limit_MAX_TRES_PER_JOB, unitTres, "cpu", "MaxTRES", ofAssociation | ofQos},
	{"MaxNodesPerUser MaxNodesPU", 12, events.Limit_MAX_TRES_PER_USER, unitTres, "node", "MaxTRESPerUser", ofQos},
	{"MaxNodesPerJob", 4, events.Limit_MAX_TRES_PER_JOB, unitTres, "node", "MaxTRES", ofAssociation | ofQos},
	{"MaxJobsPerUser MaxJobsPU", 4, events.Limit_MAX_JOBS_PER_USER, unitCount, "", "MaxJobsPU", ofQos},
	{"MaxJobsPerAccount MaxJobsPA", 9, events.Limit_MAX_JOBS_PER_ACCOUNT, unitCount, "", "MaxJobsPA", ofQos},
	{"MaxJobsAccruePerUser MaxJobsAccruePU", 8, events.Limit_MAX_JOBS_ACCRUE_PER_USER, unitCount, "", "MaxJobsAccruePU", ofQos},
	{"MaxJobsAccruePerAccount MaxJobsAccruePA", 15, events.Limit_MAX_JOBS_ACCRUE_PER_ACCOUNT, unitCount, "", "MaxJobsAccruePA", ofQos},
	{"MaxSubmitJobsPerUser MaxSubmitJobsPU MaxSubmitPU", 4, events.Limit_MAX_SUBMIT_PER_USER, unitCount, "", "MaxSubmitJobsPU", ofQos},
	{"MaxSubmitJobsPerAccount MaxSubmitJobsPA MaxSubmitPA", 11, events.Limit_MAX_SUBMIT_PER_ACCOUNT, unitCount, "", "MaxSubmitJobsPA", ofQos},
	{"MaxJobs", 4, events.Limit_MAX_JOBS, unitCount, "", "", ofAssociation},
	{"MaxJobsAccrue", 8, events.Limit_MAX_JOBS_ACCRUE, unitCount, "", "", ofAssociation},
	{"MaxSubmitJobs", 4, events.Limit_MAX_SUBMIT, unitCount, "", "", ofAssociation},
	{"MaxWallDurationPerJob MaxWallPJ", 4, events.Limit_MAX_WALL, unitMinutes, "", "MaxWall", ofAssociation | ofQos},
	{"MinPrioThreshold", 4, events.Limit_MIN_PRIO_THRESHOLD, unitCount, "", "MinPrioThresh", ofAssociation | ofQos},
	{"MinTRESPerJob", 7, events.Limit_MIN_TRES_PER_JOB, unitTres, "", "", ofQos},
	{"MinCPUsPerJob", 7, events.Limit_MIN_TRES_PER_JOB, unitTres, "cpu", "MinTRESPerJob", ofQos},
	{"PreemptExemptTime", 8, events.Limit_PREEMPT_EXEMPT_TIME, unitSeconds, "", "", ofQos},
	{"Priority", 3, events.Limit_PRIORITY_VALUE, unitCount, "", "", ofAssociation | ofQos},
	{"UsageFactor", 6, events.Limit_USAGE_FACTOR, unitFactor, "", "", ofQos},
	{"UsageThreshold", 6, events.Limit_USAGE_THRESHOLD, unitFactor, "", "", ofQos},
}

// ParentShares is what Fairshare=parent is kept as.
const ParentShares = 0x7fffffff

// FindSetting finds a limit by what was typed of its name; nil: there is none.
func FindSetting(key string, qos bool) *Setting {
	of := ofAssociation
	if qos {
		of = ofQos
	}
	for i := range Settings {
		s := &Settings[i]
		if s.Of&of == 0 {
			continue
		}
		for _, k := range strings.Fields(s.Keys) {
			if strings.EqualFold(k, key) {
				return s
			}
		}
	}
	for i := range Settings {
		s := &Settings[i]
		if s.Of&of == 0 {
			continue
		}
		for _, k := range strings.Fields(s.Keys) {
			if Keyed(key, k, s.Least) {
				return s
			}
		}
	}
	return nil
}

// Label is what a limit is called when a change of it is shown.
func (s *Setting) Label(qos bool) string {
	switch {
	case qos && s.Limit == events.Limit_MAX_TRES_PER_JOB:
		return "MaxTRESPerJob"
	case qos && s.Limit == events.Limit_MAX_TRES_MINS_PER_JOB:
		return "MaxTRESMinsPerJob"
	case s.Show != "":
		return s.Show
	}
	first, _, _ := strings.Cut(s.Keys, " ")
	return first
}

// Change reads a value. known are the resources that the cluster counts.
func (s *Setting) Change(value string, known []string) (*events.LimitChange, error) {
	c := &events.LimitChange{Limit: s.Limit}
	if s.Unit == unitTres {
		if s.Tres != "" {
			value = s.Tres + "=" + value
		}
		var err error
		if strings.TrimSpace(unquoted(value)) == "" {
			return nil, fmt.Errorf("%s needs NAME=COUNT,…, or -1 for no limit: it is empty", s.Label(s.Of == ofQos))
		}
		c.Tres, err = ParseTresChange(value, known)
		if err == nil && len(c.Tres) == 0 {
			c.Clear = true
		}
		return c, err
	}
	switch strings.ToLower(value) {
	case "-1", "infinite", "unlimited":
		c.Clear = true
		return c, nil
	case "parent":
		if s.Unit == unitShares {
			c.Value = ParentShares
			return c, nil
		}
	}
	bad := fmt.Errorf("Bad %s value: %s; write %s, or -1 for none", s.Label(s.Of == ofQos), clip(value), unitWords.Get()[s.Unit])
	switch s.Unit {
	case unitMinutes:
		sec, err := ParseLimit(value)
		if err != nil {
			return nil, bad
		}
		if sec == Unlimited {
			c.Clear = true
		}
		c.Value = uint64(sec / 60)
	case unitSeconds:
		if n, err := strconv.ParseUint(value, 10, 31); err == nil && s.Limit == events.Limit_GRACE_TIME {
			c.Value = n
			return c, nil
		}
		sec, err := parseDuration(value)
		if err != nil || sec < 0 || sec > math.MaxInt32 {
			return nil, bad
		}
		c.Value = uint64(sec)
	case unitFactor:
		f, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(f) || f > 1e9 {
			return nil, bad
		}
		if f < 0 {
			c.Clear = true
			return c, nil
		}
		c.Value = uint64(math.Round(f * 1e6))
	default:
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || n >= 0x7fffffff {
			return nil, bad
		}
		c.Value = n
	}
	return c, nil
}

// ParseTresChange reads a vector of resources: name=count,…; a count of -1 clears one.
func ParseTresChange(value string, known []string) ([]*events.TresCount, error) {
	var out []*events.TresCount
	for _, item := range strings.Split(unquoted(value), ",") {
		if item == "" || item == "-1" && len(value) == 2 {
			continue
		}
		name, count, has := strings.Cut(item, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		if !has {
			return nil, fmt.Errorf("%s is not NAME=COUNT", clip(item))
		}
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("unknown TRES %s: this cluster counts %s", clip(name), strings.Join(known, ", "))
		}
		t := &events.TresCount{Tres: name}
		switch n, err := strconv.ParseInt(count, 10, 64); {
		case count == "-1" || strings.EqualFold(count, "none"):
			t.Clear = true
		case err == nil && n >= 0:
			t.Count = uint64(n)
		default:
			var got int64
			if name == "mem" || name == "vmem" {
				got, err = tres.ParseMemory(count)
			} else {
				got, err = tres.ParseCount(count)
			}
			if err != nil || got < 0 {
				return nil, fmt.Errorf("%s of %s is not an amount", clip(count), name)
			}
			t.Count = uint64(got)
		}
		if slices.ContainsFunc(out, func(o *events.TresCount) bool { return o.Tres == name }) {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *events.TresCount) int {
		switch {
		case tres.Before(a.Tres, b.Tres):
			return -1
		case tres.Before(b.Tres, a.Tres):
			return 1
		}
		return 0
	})
	return out, nil
}

// QosFlags are the flags of a QoS, in the order in which they are shown.
var QosFlags = []string{"DenyOnLimit", "EnforceUsageThreshold", "NoReserve", "PartitionMaxNodes", "PartitionMinNodes", "OverPartQOS",
	"PartitionTimeLimit", "RequiresReservation", "NoDecay", "UsageFactorSafe", "Relative"}

// FlagsIn are the flags that a release knows.
func FlagsIn(r Release) []string {
	if r < 2302 {
		return QosFlags[:len(QosFlags)-1]
	}
	return QosFlags
}

// ParseListChange reads what is said of a list: name,name (the list), +name,-name (more, fewer), by an operator = += or -=.
// keep: names stay as they are written.
func ParseListChange(l *events.ListChange, op, value string, keep bool) (*events.ListChange, error) {
	if l == nil {
		l = &events.ListChange{}
	}
	for _, n := range SplitNames(value, keep) {
		to, name := op, n
		if op == "=" && (n[0] == '+' || n[0] == '-') {
			to, name = n[:1]+"=", n[1:]
		}
		switch to {
		case "+=":
			l.Add = append(l.Add, name)
		case "-=":
			l.Remove = append(l.Remove, name)
		default:
			l.Replace, l.Names = true, append(l.Names, name)
		}
	}
	if op == "=" && len(l.Add)+len(l.Remove) == 0 {
		l.Replace = true
	}
	if l.Replace && len(l.Add)+len(l.Remove) > 0 {
		return nil, fmt.Errorf("a list is either given anew or changed by + and -, not both in one line")
	}
	return l, nil
}
