package slurm

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/idset"
	"stint/events/tres"
)

// sbatchEffects says what each effect of the table does. Values that can not be read end with the code real sbatch has.
var sbatchEffects = once.Value[map[string]func(*request, Given) error]{Make: func() map[string]func(*request, Given) error {
	return map[string]func(*request, Given) error{
		"account":     text(func(s *events.JobSpec) *string { return &s.Account }),
		"comment":     text(func(s *events.JobSpec) *string { return &s.Comment }),
		"extra":       text(func(s *events.JobSpec) *string { return &s.Extra }),
		"mail-user":   (*request).mailUser,
		"partition":   text(func(s *events.JobSpec) *string { return &s.Partition }),
		"qos":         text(func(s *events.JobSpec) *string { return &s.Qos }),
		"reservation": text(func(s *events.JobSpec) *string { return &s.Reservation }),
		"wckey":       text(func(s *events.JobSpec) *string { return &s.Wckey }),

		"cores-per-socket":  count(func(s *events.JobSpec) *uint32 { return &s.CoresPerSocket }),
		"cpus-per-gpu":      count(func(s *events.JobSpec) *uint32 { return &s.CpusPerGpu }),
		"cpus-per-task":     count(func(s *events.JobSpec) *uint32 { return &s.CpusPerTask }),
		"mincpus":           count(func(s *events.JobSpec) *uint32 { return &s.MinCpusPerNode }),
		"ntasks":            count(func(s *events.JobSpec) *uint32 { return &s.Tasks }),
		"ntasks-per-core":   count(func(s *events.JobSpec) *uint32 { return &s.TasksPerCore }),
		"ntasks-per-gpu":    count(func(s *events.JobSpec) *uint32 { return &s.TasksPerGpu }),
		"ntasks-per-node":   count(func(s *events.JobSpec) *uint32 { return &s.TasksPerNode }),
		"ntasks-per-socket": count(func(s *events.JobSpec) *uint32 { return &s.TasksPerSocket }),
		"sockets-per-node":  count(func(s *events.JobSpec) *uint32 { return &s.SocketsPerNode }),
		"threads-per-core":  count(func(s *events.JobSpec) *uint32 { return &s.ThreadsPerCore }),

		"spread-job":    toggle(func(q *request) *bool { return &q.Spec.SpreadJob }),
		"use-min-nodes": toggle(func(q *request) *bool { return &q.Spec.UseMinNodes }),

		"test-only":  toggle(func(q *request) *bool { return &q.TestOnly }),
		"contiguous": toggle(func(q *request) *bool { return &q.Spec.Contiguous }),
		"hold":       toggle(func(q *request) *bool { return &q.Spec.Hold }),
		"overcommit": toggle(func(q *request) *bool { return &q.Spec.Overcommit }),
		"parsable":   toggle(func(q *request) *bool { return &q.Parsable }),
		"quiet":      toggle(func(q *request) *bool { return &q.Quiet }),
		"wait":       toggle(func(q *request) *bool { return &q.Wait }),
		"ignore-pbs": toggle(func(q *request) *bool { return &q.ignorePBS }),

		"error":  file(func(s *events.JobSpec) *string { return &s.StdErr }),
		"input":  file(func(s *events.JobSpec) *string { return &s.StdIn }),
		"output": file(func(s *events.JobSpec) *string { return &s.StdOut }),

		"gres":            gresFor(events.Scope_PER_NODE, ParseGres),
		"gpus":            gresFor(events.Scope_PER_JOB, ParseGPUs),
		"gpus-per-node":   gresFor(events.Scope_PER_NODE, ParseGPUs),
		"gpus-per-socket": gresFor(events.Scope_PER_SOCKET, ParseGPUs),
		"gpus-per-task":   gresFor(events.Scope_PER_TASK, ParseGPUs),

		"acctg-freq":          (*request).acctgFreq,
		"array":               (*request).array,
		"batch":               (*request).batch,
		"bb":                  text(func(s *events.JobSpec) *string { return &s.BurstBuffer }),
		"bbf":                 (*request).burstBufferFile,
		"begin":               (*request).begin,
		"chdir":               (*request).chdir,
		"cluster-constraint":  text(func(s *events.JobSpec) *string { return &s.ClusterFeatures }),
		"clusters":            func(q *request, g Given) error { q.Clusters = g.Value; return nil },
		"constraint":          (*request).constraint,
		"core-spec":           (*request).coreSpec,
		"deadline":            (*request).deadline,
		"delay-boot":          (*request).delayBoot,
		"dependency":          (*request).dependency,
		"distribution":        (*request).distribution,
		"exclude":             nodesFor(func(s *events.JobSpec) *string { return &s.Exclude }),
		"nodelist":            nodesFor(func(s *events.JobSpec) *string { return &s.NodeList }),
		"nodefile":            (*request).nodefile,
		"exclusive":           (*request).exclusive,
		"oversubscribe":       (*request).oversubscribe,
		"export":              func(q *request, g Given) error { q.export, q.exported = g.Value, true; return nil },
		"extra-node-info":     (*request).nodeInfo,
		"export-file":         (*request).exportFile,
		"get-user-env":        (*request).getUserEnv,
		"gid":                 asRoot(func(q *request) *string { return &q.AsGroup }),
		"gpu-bind":            (*request).gpuBind,
		"gpu-freq":            (*request).gpuFreq,
		"gres-flags":          (*request).gresFlags,
		"help":                ignoreHere,
		"hint":                (*request).hint,
		"job-name":            (*request).jobName,
		"kill-on-invalid-dep": (*request).killOnInvalid,
		"licenses":            (*request).licenses,
		"mail-type":           (*request).mailType,
		"mcs-label":           text(func(s *events.JobSpec) *string { return &s.McsLabel }),
		"mem":                 (*request).mem,
		"mem-bind":            (*request).memBind,
		"mem-per-cpu":         (*request).memPerCPU,
		"mem-per-gpu":         (*request).memPerGPU,
		"network":             text(func(s *events.JobSpec) *string { return &s.Network }),
		"nice":                (*request).nice,
		"no-kill":             (*request).noKill,
		"no-requeue":          func(q *request, g Given) error { q.Spec.Requeue = events.Choice_CHOICE_NO; return nil },
		"requeue":             (*request).requeue,
		"nodes":               (*request).nodes,
		"cpu-freq":            (*request).cpuFreq,
		"open-mode":           (*request).openMode,
		"power":               (*request).power,
		"prefer":              (*request).prefer,
		"priority":            (*request).priority,
		"profile":             (*request).profile,
		"propagate":           (*request).propagate,
		"reboot":              toggle(func(q *request) *bool { return &q.Spec.Reboot }),
		"segment":             count(func(s *events.JobSpec) *uint32 { return &s.SegmentSize }),
		"signal":              (*request).signal,
		"stepmgr":             ignoreHere, // so it is anyway
		"switches":            (*request).switches,
		"time":                limitFor("--time", func(s *events.JobSpec) *uint32 { return &s.TimeLimitS }),
		"time-min":            limitFor("--time-min", func(s *events.JobSpec) *uint32 { return &s.TimeMinS }),
		"tmp":                 (*request).tmp,
		"tres-bind":           (*request).tresBind,
		"tres-per-task":       (*request).tresPerTask,
		"uid":                 asRoot(func(q *request) *string { return &q.AsUser }),
		"usage":               ignoreHere,
		"verbose":             (*request).verbose,
		"version":             ignoreHere,
		"wait-all-nodes":      (*request).waitAllNodes,
		"wait4switch":         func(q *request, g Given) error { q.waitFor = g.Value; return nil },
		"wrap":                ignoreHere, // taken before the script is read
	}

}}

func ignoreHere(*request, Given) error { return nil }

// maxText bounds the length of texts that are kept with a job.
const maxText = 4096

func text(field func(*events.JobSpec) *string) func(*request, Given) error {
	return func(q *request, g Given) error {
		if err := plain(g); err != nil {
			return err
		}
		*field(q.Spec) = g.Value
		return nil
	}
}

func (q *request) mailUser(g Given) error {
	if err := plain(g); err != nil {
		return err
	}
	q.Spec.MailUser = g.Value
	return CheckMailUser(g.Option.Spelled(), g.Value)
}

// plain refuses texts that can not be kept: too long, or with control characters that would break what shows them.
func plain(g Given) error {
	if len(g.Value) > maxText {
		return usage("%s is %d bytes long, and at most %d are kept", g.Option.Spelled(), len(g.Value), maxText)
	}
	if strings.ContainsAny(g.Value, "\x00\n\r") {
		return usage("%s holds a line end", g.Option.Spelled())
	}
	return nil
}

func count(field func(*events.JobSpec) *uint32) func(*request, Given) error {
	return func(q *request, g Given) error {
		n, err := positive(g.Option.Spelled(), g.Value)
		*field(q.Spec) = n
		return err
	}
}

func toggle(field func(*request) *bool) func(*request, Given) error {
	return func(q *request, g Given) error {
		*field(q) = true
		return nil
	}
}

func file(field func(*events.JobSpec) *string) func(*request, Given) error {
	return func(q *request, g Given) error {
		if err := plain(g); err != nil {
			return err
		}
		if g.Value == "none" {
			g.Value = "/dev/null"
		}
		*field(q.Spec) = g.Value
		return nil
	}
}

func gresFor(scope events.Scope, parse func(string, events.Scope) ([]*events.Gres, error)) func(*request, Given) error {
	return func(q *request, g Given) error {
		list, err := parse(g.Value, scope)
		if err != nil {
			return err
		}
		q.gres[g.Option.Effect] = list
		return nil
	}
}

func nodesFor(field func(*events.JobSpec) *string) func(*request, Given) error {
	return func(q *request, g Given) error {
		value := g.Value
		if strings.Contains(value, "/") && g.Option.Effect == "nodelist" { // a file, as with --nodefile
			return q.nodefile(g)
		}
		list, err := nodes(g.Option.Spelled(), value)
		*field(q.Spec) = list
		return err
	}
}

func limitFor(option string, field func(*events.JobSpec) *uint32) func(*request, Given) error {
	return func(q *request, g Given) error {
		s, err := ParseLimit(g.Value)
		if err != nil {
			return usage("%s: %v", option, err)
		}
		*field(q.Spec) = s
		return nil
	}
}

func (q *request) array(g Given) error {
	if g.Value == "" {
		q.Spec.Array = nil
		return nil
	}
	tasks, throttle, err := idset.ParseArray(g.Value)
	if err != nil {
		return refusal("--array=%s: %v", clip(g.Value), err)
	}
	q.Spec.Array = &events.ArraySpec{Tasks: tasks.Words(), MaxRunning: uint32(throttle), Text: g.Value}
	return nil
}

func (q *request) begin(g Given) error {
	at, err := ParseWhen(g.Value, q.in.Now, false)
	if err != nil {
		return usage("--begin: %v", err)
	}
	q.Spec.BeginUs = at.UnixMicro()
	if !at.After(q.in.Now) {
		q.Spec.BeginUs = 0
	}
	return nil
}

func (q *request) deadline(g Given) error {
	at, err := ParseWhen(g.Value, q.in.Now, false)
	if err != nil {
		return usage("--deadline: %v", err)
	}
	if !at.After(q.in.Now) {
		return refusal("--deadline=%s is in the past", g.Value)
	}
	q.Spec.DeadlineUs = at.UnixMicro()
	return nil
}

func (q *request) chdir(g Given) error {
	if err := plain(g); err != nil {
		return err
	}
	dir := g.Value
	if !path.IsAbs(dir) {
		dir = path.Join(q.in.Dir, dir)
	}
	q.Spec.WorkDir = dir
	return nil
}

func (q *request) constraint(g Given) error {
	if err := plain(g); err != nil {
		return err
	}
	c, err := ParseConstraint(g.Value)
	q.Spec.Constraint = c
	return err
}

func (q *request) dependency(g Given) error {
	list, any, err := ParseDependencies(g.Value)
	if err != nil {
		return err
	}
	q.Spec.Dependencies, q.Spec.DependencyAny, q.Spec.DependencyText = list, any, g.Value
	return nil
}

func (q *request) distribution(g Given) error {
	if err := checkDistribution(g.Value); err != nil {
		return err
	}
	q.Spec.Distribution, q.dist = strings.ToLower(g.Value), true
	return nil
}

func (q *request) nodefile(g Given) error {
	if !path.IsAbs(g.Value) {
		g.Value = path.Join(q.in.Dir, g.Value)
	}
	text, _, err := q.in.Read(g.Value)
	if err != nil {
		return usage("%s: %v", g.Option.Spelled(), err)
	}
	list, err := nodes(g.Option.Spelled(), strings.Join(strings.Fields(string(text)), ","))
	q.Spec.NodeList = list
	return err
}

func (q *request) exclusive(g Given) error {
	switch strings.ToLower(g.Value) {
	case "", "exclusive":
		q.Spec.Exclusive = events.Exclusive_EXCLUSIVE_NODE
	case "user":
		q.Spec.Exclusive = events.Exclusive_EXCLUSIVE_USER
	case "mcs":
		q.Spec.Exclusive = events.Exclusive_EXCLUSIVE_MCS
		q.note("no security labels are configured (MCSPlugin), so --exclusive=mcs keeps nobody away")
	case "topo":
		if q.in.Release >= 2411 {
			return refusal("--exclusive=topo is not supported: Stint keeps whole nodes for a job (--exclusive) or nodes for one user's jobs (--exclusive=user), not a block of the topology")
		}
		fallthrough
	default:
		return usage("%s is not a value for --exclusive: write --exclusive alone (whole nodes), --exclusive=user (nodes for one user's jobs) or --exclusive=mcs (which keeps nobody away)", clip(g.Value))
	}
	q.Spec.Oversubscribe = false
	return nil
}

func (q *request) oversubscribe(Given) error {
	q.Spec.Oversubscribe, q.Spec.Exclusive = true, events.Exclusive_SHARED
	return nil
}

func (q *request) nodeInfo(g Given) error {
	q.shaped = true
	fields := strings.Split(g.Value, ":")
	to := []*uint32{&q.Spec.SocketsPerNode, &q.Spec.CoresPerSocket, &q.Spec.ThreadsPerCore}
	if len(fields) > len(to) {
		return refusal("%s is not a shape of a node: write SOCKETS[:CORES[:THREADS]], * for any", clip(g.Value))
	}
	for i, f := range fields {
		if f == "*" {
			continue
		}
		f, top, ranged := strings.Cut(f, "-") // a range: the smaller number is what is needed
		n, err := positive(g.Option.Spelled(), f)
		if err == nil && ranged {
			var most uint32
			if most, err = positive(g.Option.Spelled(), top); err == nil && most < n {
				err = refusal("%s of %s runs backwards", clip(g.Value), g.Option.Spelled())
			}
		}
		if err != nil {
			return err
		}
		*to[i] = n
	}
	return nil
}

func (q *request) getUserEnv(g Given) error {
	if v := strings.TrimRight(g.Value, "SsLl"); strings.Trim(v, "0123456789") != "" {
		return usage("%s is not a value for --get-user-env: it stands alone, or with a number of seconds", clip(g.Value))
	}
	q.Spec.GetUserEnv = true
	return nil
}

func (q *request) hint(g Given) error {
	words := []string{"compute_bound", "memory_bound", "multithread", "nomultithread"}
	h := strings.ToLower(g.Value)
	if !slices.Contains(words, h) {
		return refusal("%s is not a hint: known are %s%s", clip(g.Value), strings.Join(words, ", "), mean(g.Value, words))
	}
	q.hinted = h
	return nil
}

func (q *request) jobName(g Given) error {
	if err := plain(g); err != nil {
		return err
	}
	q.Spec.Name = g.Value
	return nil
}

func (q *request) killOnInvalid(g Given) error {
	switch strings.ToLower(g.Value) {
	case "yes", "y":
		q.Spec.KillOnInvalidDependency, q.Spec.KeepOnInvalidDependency = true, false
	case "no", "n":
		q.Spec.KillOnInvalidDependency, q.Spec.KeepOnInvalidDependency = false, true
	default:
		return usage("%s is not a value for --kill-on-invalid-dep: write yes or no", clip(g.Value))
	}
	return nil
}

func (q *request) licenses(g Given) error {
	if err := plain(g); err != nil {
		return err
	}
	_, any, err := events.ParseLicenses(g.Value)
	switch {
	case err != nil:
		return refusal("Invalid license specification: %v", err)
	case any && q.in.Release < 2411:
		return refusal("Invalid license specification: %s: a choice by | is there since Slurm 24.11", clip(g.Value))
	}
	q.Spec.Licenses = g.Value
	return nil
}

func (q *request) mailType(g Given) error {
	bits, err := ParseMail(g.Value)
	q.Spec.MailTypes = bits
	return err
}

func (q *request) mem(g Given) error {
	n, err := q.memoryOf(g)
	q.Spec.MemPerNodeMib, q.Spec.MemAll = n, n == 0
	return err
}

func (q *request) memPerCPU(g Given) error {
	n, err := q.memoryOf(g)
	q.Spec.MemPerCpuMib, q.Spec.MemAll = n, n == 0
	return err
}

func (q *request) memPerGPU(g Given) error {
	n, err := q.memoryOf(g)
	q.Spec.MemPerGpuMib, q.Spec.MemAll = n, n == 0
	return err
}

// maxNice is the largest absolute value of --nice.
const maxNice = 2147483645

func (q *request) nice(g Given) error {
	n := int64(100)
	if g.Has {
		var err error
		digits := len(g.Value) - len(strings.TrimLeft(strings.TrimLeft(g.Value, "+-"), "0123456789"))
		if n, err = strconv.ParseInt(g.Value[:digits], 10, 64); errors.Is(err, strconv.ErrRange) {
			n = maxNice + 1
		}
		if digits != len(g.Value) || digits == 0 { // as in Slurm, what stands before the first letter counts
			q.note("%s is no whole number: the nice value is %d", clip(g.Value), n)
		}
	}
	if n > maxNice || n < -maxNice {
		return usage("--nice=%d is out of range: it must be from -%d to %d", n, maxNice, maxNice)
	}
	q.Spec.Nice = int32(n)
	return nil
}

func (q *request) noKill(g Given) error {
	switch strings.ToLower(g.Value) {
	case "":
		q.Spec.NoKill = true
	case "off", "no":
		q.Spec.NoKill = false
	default:
		if g.Source == FromEnvironment {
			q.Spec.NoKill = true
			return nil
		}
		return usage("%s is not a value for --no-kill: it stands alone, or with off", clip(g.Value))
	}
	return nil
}

func (q *request) requeue(g Given) error {
	if g.Has && g.Value != "" && g.Source != FromEnvironment {
		return refusal("--requeue=%s is not supported by Stint yet; --requeue alone is", g.Value)
	}
	q.Spec.Requeue = events.Choice_CHOICE_YES
	return nil
}

func (q *request) nodes(g Given) error {
	least, most, err := ParseNodeCount(g.Value)
	q.Spec.MinNodes, q.Spec.MaxNodes = least, most
	return err
}

func (q *request) openMode(g Given) error {
	v := strings.ToLower(g.Value)
	switch {
	case v != "" && strings.HasPrefix("append", v):
		q.Spec.Append, q.Spec.Truncate = true, false
	case v != "" && strings.HasPrefix("truncate", v):
		q.Spec.Append, q.Spec.Truncate = false, true
	default:
		return usage("%s is not a value for --open-mode: write append or truncate", clip(g.Value))
	}
	return nil
}

// topPriority is what --priority=TOP asks for, one below the largest that can be kept.
const topPriority = 4294967293

func (q *request) priority(g Given) error {
	n := uint64(topPriority)
	if !strings.EqualFold(g.Value, "top") {
		var err error
		if n, err = strconv.ParseUint(g.Value, 10, 64); err != nil || n > topPriority {
			return usage("%s is not a priority: write a whole number from 0 to %d, or TOP", clip(g.Value), topPriority)
		}
	}
	q.Spec.Priority, q.Spec.HasPriority = uint32(n), true
	return nil
}

func (q *request) profile(g Given) error {
	switch strings.ToLower(g.Value) {
	case "none":
		q.Spec.Profile = "None"
		return nil
	case "all":
		q.Spec.Profile = "Energy,Lustre,Network,Task"
		q.note("--profile=%s: no profile is recorded, none is configured (AcctGatherProfileType)", g.Value)
		return nil
	}
	kinds := []string{"all", "none", "energy", "lustre", "network", "task", "filesystem"}
	asked := map[string]bool{}
	for _, word := range strings.Split(strings.ToLower(g.Value), ",") {
		if !slices.Contains(kinds[2:], word) {
			return usage("%s is not a kind of profile: known are %s%s", clip(word), strings.Join(kinds, ", "), mean(word, kinds))
		}
		asked[word] = true
	}
	var shown []string
	for _, kind := range []string{"Energy", "Lustre", "Network", "Task"} {
		if asked[strings.ToLower(kind)] || kind == "Lustre" && asked["filesystem"] {
			shown = append(shown, kind)
		}
	}
	q.Spec.Profile = strings.Join(shown, ",")
	q.note("--profile=%s: no profile is recorded, none is configured (AcctGatherProfileType)", g.Value)
	return nil
}

// Rlimits are the names of resource limits, as --propagate and the configuration have them.
var Rlimits = []string{"AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK"}

func (q *request) propagate(g Given) error {
	names, err := ParseRlimits(g.Value, g.Has)
	q.Propagate = names
	return err
}

// ParseRlimits reads which resource limits to pass on: ALL (also when there is no value), NONE, or names.
func ParseRlimits(value string, has bool) (string, error) {
	if !has || value == "" || strings.EqualFold(value, "ALL") {
		return "ALL", nil
	}
	if strings.EqualFold(value, "NONE") {
		return "NONE", nil
	}
	var names []string
next:
	for _, w := range strings.FieldsFunc(strings.ToUpper(value), func(r rune) bool { return r == ',' || r == ' ' }) {
		w = strings.TrimPrefix(w, "RLIMIT_")
		for _, known := range Rlimits {
			if w == known {
				names = append(names, w)
				continue next
			}
		}
		return "", refusal("%s is not a resource limit: known are ALL, NONE, %s%s", clip(w), strings.Join(Rlimits, ", "), mean(w, Rlimits))
	}
	return strings.Join(names, ","), nil
}

func (q *request) signal(g Given) error {
	w, err := ParseWarn(g.Value)
	q.Spec.Warn = w
	return err
}

func (q *request) switches(g Given) error {
	n, wait, timed := strings.Cut(g.Value, "@")
	if _, err := positive("--switches", n); err != nil {
		return err
	}
	if timed {
		if _, err := ParseLimit(wait); err != nil {
			return usage("--switches: %v", err)
		}
	}
	q.Spec.Switches = g.Value
	return nil
}

func (q *request) tmp(g Given) error {
	n, err := tres.ParseMemory(g.Value)
	if err != nil {
		return usage("--tmp: %v", err)
	}
	q.Spec.TmpDiskMib = uint64(n)
	return nil
}

func (q *request) verbose(g Given) error {
	if g.Source == FromEnvironment {
		n, err := strconv.ParseUint(g.Value, 10, 8)
		if err != nil {
			return usage("%s is not a number", clip(g.Value))
		}
		q.Verbose = int(n)
		return nil
	}
	q.Verbose++
	return nil
}

func (q *request) waitAllNodes(g Given) error {
	if g.Value != "0" && g.Value != "1" {
		return refusal("Invalid numeric value %s for --wait-all-nodes: write 0 or 1", clip(g.Value))
	}
	q.Spec.WaitAllNodes = g.Value == "1"
	return nil
}
