package conf

import (
	"fmt"
	"slices"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/hostlist"
	"stint/events/tres"
)

// partition is a PartitionName line.
type partition struct {
	def *events.PartitionDef
	at  line
}

var preemptModes = once.Value[[]string]{Make: func() []string {
	return strings.Fields("OFF CANCEL GANG REQUEUE SUSPEND WITHIN PRIORITY")

}}
var partitionKeys = once.Value[[]string]{Make: func() []string {
	return strings.Fields(`PartitionName Nodes Default State MaxTime DefaultTime MaxNodes MinNodes AllowGroups AllowAccounts DenyAccounts AllowQos DenyQos QOS
	PriorityTier PriorityJobFactor Priority OverSubscribe Shared PreemptMode GraceTime Hidden RootOnly DefMemPerCPU DefMemPerNode MaxMemPerCPU MaxMemPerNode
	MaxCPUsPerNode ExclusiveUser TRESBillingWeights LLN AllocNodes DisableRootJobs ReqResv OverTimeLimit SelectTypeParameters Alternate CpuBind DefCpuPerGPU
	DefMemPerGPU JobDefaults MaxCPUsPerSocket PowerDownOnIdle ResumeTimeout SuspendTime SuspendTimeout ExclusiveTopo Exclusive Topology`)

}}

func (b *builder) partitionLine(r record) error {
	if strings.EqualFold(r.name, "DEFAULT") {
		b.partBase = append(b.partBase, r.pairs...)
		return b.partitionPairs(&events.PartitionDef{}, record{"DEFAULT", b.partBase, r.at})
	}
	for _, name := range list(r.name) { // several names define several partitions alike
		if strings.ContainsAny(name, " \t/*") || len(name) > 64 {
			return fmt.Errorf("%q is not a name for a partition", clip(name))
		}
		for _, other := range b.partitions {
			if other.def.Name == name {
				return fmt.Errorf("the partition %s is defined twice, here and at %s", name, other.at.where())
			}
		}
		def := &events.PartitionDef{Name: name, MaxTimeS: slurm.Unlimited, PriorityTier: 1, PriorityJobFactor: 1, MaxNodes: slurm.Unlimited, Oversubscribe: "NO"}
		full := record{name, append(append([]pair(nil), b.partBase...), r.pairs...), r.at}
		if err := b.partitionPairs(def, full); err != nil {
			return fmt.Errorf("PartitionName=%s: %w", clip(name), err)
		}
		b.partitions = append(b.partitions, &partition{def, r.at})
	}
	return nil
}

func (b *builder) partitionPairs(d *events.PartitionDef, r record) error {
	for _, p := range r.pairs {
		if err := b.partitionPair(d, p, r.at); err != nil {
			return fmt.Errorf("%s: %w", p.key, err)
		}
	}
	return nil
}

func (b *builder) partitionPair(d *events.PartitionDef, p pair, at line) (err error) {
	v := p.value
	var n uint64
	switch strings.ToLower(p.key) {
	case "nodes":
		d.Nodes = v
	case "default":
		d.Default, err = yesNo(v)
	case "state":
		d.State, err = partitionState(v)
	case "maxtime":
		d.MaxTimeS, err = slurm.ParseLimit(v)
		if d.MaxTimeS == 0 {
			d.MaxTimeS = slurm.Unlimited
		}
	case "defaulttime":
		if !strings.EqualFold(v, "NONE") {
			d.DefaultTimeS, err = slurm.ParseLimit(v)
		}
	case "maxnodes":
		d.MaxNodes = slurm.Unlimited
		if !strings.EqualFold(v, "UNLIMITED") && !strings.EqualFold(v, "INFINITE") {
			n, err = whole(v, 0, 1<<31)
			d.MaxNodes = uint32(n)
		}
	case "minnodes":
		n, err = whole(v, 0, 1<<31)
		d.MinNodes = uint32(n)
	case "allowgroups":
		d.AllowGroups = unlessAll(v)
	case "allowaccounts":
		d.AllowAccounts = unlessAll(v)
	case "denyaccounts":
		d.DenyAccounts = list(v)
	case "allowqos":
		d.AllowQos = unlessAll(v)
	case "denyqos":
		d.DenyQos = list(v)
	case "qos":
		d.Qos = v
	case "prioritytier":
		n, err = whole(v, 0, 65533)
		d.PriorityTier = uint32(n)
	case "priorityjobfactor":
		n, err = whole(v, 0, 65533)
		d.PriorityJobFactor = uint32(n)
		b.Notes = append(b.Notes, Note{p.key, v, at.where(), Harmless, "multifactor priorities are not built yet"})
	case "priority":
		n, err = whole(v, 0, 65533)
		d.PriorityTier, d.PriorityJobFactor = uint32(n), uint32(n)
	case "oversubscribe", "shared":
		if d.Oversubscribe, err = oversubscribe(v); strings.Contains(d.Oversubscribe, ":") && !strings.HasSuffix(d.Oversubscribe, ":1") {
			b.Notes = append(b.Notes, Note{p.key, v, at.where(), Harmless, "each job has its CPUs to itself all the same: two never share one"})
		}
	case "preemptmode":
		for mode := range strings.SplitSeq(strings.ToUpper(v), ",") {
			if !slices.Contains(preemptModes.Get(), mode) {
				err = fmt.Errorf("%q is not a way to preempt: known are %s", v, strings.Join(preemptModes.Get(), ", "))
			}
		}
		d.PreemptMode = strings.ToUpper(v)
		b.Notes = append(b.Notes, Note{p.key, v, at.where(), Harmless, "no job is preempted yet"})
	case "gracetime":
		var s uint32
		if n, err = whole(v, 0, 1<<31); err != nil {
			s, err = slurm.ParseLimit(v)
			n = uint64(s)
		}
		d.GraceS = uint32(n)
		b.Notes = append(b.Notes, Note{p.key, v, at.where(), Harmless, "no job is preempted yet"})
	case "hidden":
		d.Hidden, err = yesNo(v)
	case "rootonly":
		d.RootOnly, err = yesNo(v)
	case "defmempercpu":
		d.DefMemPerCpuMib, err = mebibytes(v)
	case "defmempernode":
		d.DefMemPerNodeMib, err = mebibytes(v)
	case "defcpupergpu":
		n, err = whole(v, 0, 1<<20)
		d.DefCpusPerGpu = uint32(n)
	case "defmempergpu":
		d.DefMemPerGpuMib, err = mebibytes(v)
	case "jobdefaults":
		err = jobDefaults(d, v)
	case "maxmempercpu":
		d.MaxMemPerCpuMib, err = mebibytes(v)
	case "maxmempernode":
		d.MaxMemPerNodeMib, err = mebibytes(v)
	case "maxcpuspernode":
		if !strings.EqualFold(v, "UNLIMITED") {
			n, err = whole(v, 0, 1<<31)
			d.MaxCpusPerNode = uint32(n)
		}
	case "exclusiveuser":
		d.ExclusiveUser, err = yesNo(v)
	case "exclusive":
		if d.ExclusiveUser = strings.EqualFold(v, "USER"); !d.ExclusiveUser && !strings.EqualFold(v, "NO") {
			err = fmt.Errorf("%q is not supported yet; USER and NO are", clip(v))
		}
	case "lln":
		d.Lln, err = yesNo(v)
	case "disablerootjobs":
		d.DisableRootJobs, err = yesNo(v)
	case "reqresv":
		d.RequireReservation, err = yesNo(v)
	case "overtimelimit":
		d.OverTimeLimitS, err = minutes(v, 65533)
		d.HasOverTimeLimit = true
	case "allocnodes":
		if d.AllocNodes = strings.Join(unlessAll(v), ","); d.AllocNodes != "" {
			_, err = hostlist.Expand(v, maxNodes)
		}
	case "alternate":
		d.Alternate = v
	case "tresbillingweights":
		_, err = tres.ParseWeights(v)
		d.BillingWeights = v
	case "selecttypeparameters", "cpubind", "maxcpuspersocket",
		"powerdownonidle", "resumetimeout", "suspendtime", "suspendtimeout", "exclusivetopo", "topology":
		b.Notes = append(b.Notes, Note{p.key, v, at.where(), Harmless, "it has no effect yet"})
	default:
		err = fmt.Errorf("unrecognized key%s", nearOf(p.key, partitionKeys.Get()))
	}
	return err
}

// jobDefaults reads JobDefaults of a partition: DefCpuPerGPU=N,DefMemPerGPU=MIB.
func jobDefaults(d *events.PartitionDef, v string) error {
	d.DefCpusPerGpu, d.DefMemPerGpuMib = 0, 0
	for _, term := range list(v) {
		name, value, _ := strings.Cut(term, "=")
		var err error
		switch strings.ToLower(name) {
		case "defcpupergpu":
			var n uint64
			n, err = whole(value, 0, 1<<20)
			d.DefCpusPerGpu = uint32(n)
		case "defmempergpu":
			d.DefMemPerGpuMib, err = mebibytes(value)
		default:
			err = fmt.Errorf("%q is no default of jobs: known are DefCpuPerGPU and DefMemPerGPU", clip(name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func unlessAll(v string) []string {
	if strings.EqualFold(v, "ALL") {
		return nil
	}
	return list(v)
}

func partitionState(v string) (events.PartitionState, error) {
	switch strings.ToUpper(v) {
	case "UP":
		return events.PartitionState_PARTITION_UP, nil
	case "DOWN":
		return events.PartitionState_PARTITION_DOWN_STATE, nil
	case "DRAIN":
		return events.PartitionState_PARTITION_DRAIN, nil
	case "INACTIVE", "INACT":
		return events.PartitionState_PARTITION_INACTIVE_STATE, nil
	}
	return 0, fmt.Errorf("%q is not one of UP, DOWN, DRAIN and INACTIVE", clip(v))
}

func oversubscribe(v string) (string, error) {
	word, count, counted := strings.Cut(strings.ToUpper(v), ":")
	switch word {
	case "NO", "EXCLUSIVE":
		if !counted {
			return word, nil
		}
	case "YES", "FORCE":
		if !counted {
			return word + ":4", nil
		}
		if _, err := whole(count, 1, 1000); err == nil {
			return word + ":" + count, nil
		}
	}
	return "", fmt.Errorf("%q is not one of NO, YES[:N], FORCE[:N] and EXCLUSIVE", clip(v))
}

func (b *builder) finishPartitions() error {
	def := ""
	for _, p := range b.partitions {
		d := p.def
		if d.Default {
			if def != "" {
				b.Warnings = append(b.Warnings, fmt.Sprintf("%s: the partitions %s and %s are both the default; the last one counts", p.at.where(), def, d.Name))
				for _, o := range b.Config.Partitions {
					o.Default = false
				}
			}
			def = d.Name
		}
		nodes, err := b.partitionNodes(d.Nodes)
		if err != nil {
			return fmt.Errorf("%s: PartitionName=%s: %w", p.at.where(), d.Name, err)
		}
		d.Nodes = nodes
		b.Config.Partitions = append(b.Config.Partitions, d)
	}
	return nil
}

// partitionNodes resolves node sets, and checks that the nodes exist.
func (b *builder) partitionNodes(expr string) (string, error) {
	if strings.EqualFold(expr, "ALL") {
		return "ALL", nil
	}
	names, err := hostlist.Expand(expr, maxNodes)
	if err != nil {
		return "", err
	}
	var out []string
	have := map[string]bool{}
	add := func(name string) {
		if !have[name] {
			have[name] = true
			out = append(out, name)
		}
	}
	for _, name := range names {
		if set, ok := b.sets[name]; ok {
			if err := b.expandSet(name, set, add); err != nil {
				return "", err
			}
			continue
		}
		if b.nodeOf[name] == nil {
			return "", fmt.Errorf("there is no node or node set %s", name)
		}
		add(name)
	}
	return hostlist.Compress(out), nil
}

func (b *builder) expandSet(name string, set []pair, add func(string)) error {
	for _, p := range set {
		if strings.EqualFold(p.key, "Feature") {
			for _, n := range b.nodes {
				for _, f := range n.def.Features {
					if f == p.value {
						for _, h := range n.names {
							add(h)
						}
					}
				}
			}
			continue
		}
		names, err := hostlist.Expand(p.value, maxNodes)
		if err != nil {
			return fmt.Errorf("NodeSet=%s: %w", name, err)
		}
		for _, h := range names {
			if b.nodeOf[h] == nil {
				return fmt.Errorf("NodeSet=%s: there is no node %s", name, h)
			}
			add(h)
		}
	}
	return nil
}
