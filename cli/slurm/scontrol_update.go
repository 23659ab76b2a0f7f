package slurm

import (
	"strconv"
	"strings"

	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/hostlist"
	"stint/events/tres"
)

// Change is one KEY=VALUE of what is asked of a partition; Op is '=', '+' or '-'.
type Change struct {
	Key, Value string
	Op         byte
}

// change is one KEY=VALUE of scontrol update; op is '=', '+' or '-'.
type change struct {
	key, value string
	op         byte
}

func (s *Scontrol) update(args []string, in Input) error {
	var changes []change
	entity := ""
	for _, a := range args {
		key, value, ok := strings.Cut(a, "=")
		switch {
		case !ok && strings.EqualFold(key, "nice"): // alone: a hundred further back
			value = defaultNice
		case !ok && strings.EqualFold(key, "resetaccruetime"):
		case !ok || key == "":
			return refusal("%s is not KEY=VALUE", clip(a))
		}
		c := change{strings.ToLower(key), value, '='}
		if last := c.key[len(c.key)-1]; (last == '+' || last == '-') && len(c.key) > 1 {
			c.key, c.op = c.key[:len(c.key)-1], last
		}
		switch c.key {
		case "jobid", "job":
			entity = "job"
			for _, id := range SplitIDs(value) {
				t, err := ParseTarget(id)
				if err != nil || t.HasStep {
					return refusal("Invalid job id specified: %s", clip(id))
				}
				s.Targets = append(s.Targets, t)
			}
			continue
		case "nodename", "node":
			if entity == "" {
				entity = "node"
				s.IDs = []string{value}
				continue
			}
		case "partitionname":
			if entity == "" {
				entity, s.Name = "partition", value
				continue
			}
		case "stepid":
			if entity == "" {
				entity = "step"
				for _, id := range SplitIDs(value) {
					t, err := ParseTarget(id)
					if err != nil {
						return refusal("Invalid step id specified: %s", clip(id))
					}
					s.Targets = append(s.Targets, t)
				}
				continue
			}
		case "reservationname", "reservation", "slurmctlddebug", "suspendexcnodes", "suspendexcparts", "suspendexcstates":
			if entity == "" {
				return refusal("scontrol update %s= is not supported by Stint yet; JobId=, StepId=, NodeName= and PartitionName= are", key)
			}
		case "partition":
			if entity == "" && len(changes) == 0 && !hasKey(args, "jobid", "job", "jobname", "name") {
				entity, s.Name = "partition", value
				continue
			}
		case "userid":
			if in.User != "root" && value != in.User {
				return refusal("UserID=%s: only root may act on jobs of others", clip(value))
			}
			s.Users = []string{value}
			continue
		}
		changes = append(changes, c)
	}
	if entity == "" { // jobs by their name
		kept := changes[:0]
		for _, c := range changes {
			if (c.key == "jobname" || c.key == "name") && s.JobNames == nil {
				s.JobNames, entity = []string{c.value}, "job"
				continue
			}
			kept = append(kept, c)
		}
		changes = kept
	}
	switch {
	case entity == "":
		return refusal("say what to update: JobId=, JobName=, StepId=, NodeName= or PartitionName= is missing")
	case len(changes) == 0:
		return refusal("No changes specified")
	case entity == "node":
		return s.updateNode(changes)
	case entity == "step":
		return s.updateStep(changes, in)
	case entity == "partition":
		s.partition(events.PartitionAct_PARTITION_CHANGE, changes)
		return nil
	}
	s.Job = &events.UpdateJob{Targets: s.Targets}
	for _, c := range changes {
		if err := s.jobChange(c, in); err != nil {
			return err
		}
	}
	return nil
}

// updateStep reads what is to be changed of steps: their time limit is all that can be.
func (s *Scontrol) updateStep(changes []change, in Input) error {
	limit := &events.UpdateJob{}
	for _, c := range changes {
		if c.key != "timelimit" {
			return refusal("Update of this parameter is not supported: %s\nRequest aborted", c.key+"="+c.value)
		}
		if err := timeLimitChange(limit, c, in); err != nil {
			return err
		}
	}
	s.Step = &events.UpdateStep{TimeLimitS: limit.GetTimeLimitS(), TimeLimitAddS: limit.GetTimeLimitAddS()}
	return nil
}

func hasKey(args []string, keys ...string) bool {
	for _, a := range args {
		k, _, _ := strings.Cut(strings.ToLower(a), "=")
		for _, key := range keys {
			if k == key {
				return true
			}
		}
	}
	return false
}

func ptr[T any](v T) *T { return &v }

func asMailUser(u *events.UpdateJob, c change, in Input) error {
	if err := CheckMailUser(c.key, c.value); err != nil {
		return refusal("%s", err)
	}
	return asText(func(u *events.UpdateJob) **string { return &u.MailUser })(u, c, in)
}

func asText(field func(*events.UpdateJob) **string) func(*events.UpdateJob, change, Input) error {
	return func(u *events.UpdateJob, c change, _ Input) error {
		if len(c.value) > maxText || strings.ContainsAny(c.value, "\n\x00") {
			return refusal("%s is longer than %d bytes, or holds a line end", c.key, maxText)
		}
		*field(u) = ptr(c.value)
		return nil
	}
}

func asCount(field func(*events.UpdateJob) **uint32) func(*events.UpdateJob, change, Input) error {
	return func(u *events.UpdateJob, c change, _ Input) error {
		n, err := positive(c.key, c.value)
		*field(u) = ptr(n)
		return err
	}
}

func asMemory(field func(*events.UpdateJob) **uint64) func(*events.UpdateJob, change, Input) error {
	return func(u *events.UpdateJob, c change, _ Input) error {
		n, err := tres.ParseMemory(c.value)
		if err != nil {
			return refusal("%s: %v", c.key, err)
		}
		*field(u) = ptr(uint64(n))
		return nil
	}
}

func asTime(field func(*events.UpdateJob) **int64) func(*events.UpdateJob, change, Input) error {
	return func(u *events.UpdateJob, c change, in Input) error {
		at, err := ParseWhen(c.value, in.Now, false)
		if err != nil {
			return refusal("%s: %v", c.key, err)
		}
		*field(u) = ptr(at.UnixMicro())
		return nil
	}
}

func asNodes(field func(*events.UpdateJob) **string) func(*events.UpdateJob, change, Input) error {
	return func(u *events.UpdateJob, c change, _ Input) error {
		if _, err := hostlist.Count(c.value, hostlist.MaxHosts); err != nil {
			return refusal("%s: %v", c.key, err)
		}
		*field(u) = ptr(c.value)
		return nil
	}
}

// defaultNice is how far back `nice` without a value puts a job.
const defaultNice = "100"

// jobKeys are what can be changed of a job. An entry without a function is known and refused by name.
var jobKeys = once.Value[map[string]func(*events.UpdateJob, change, Input) error]{Make: func() map[string]func(*events.UpdateJob, change, Input) error {
	return map[string]func(*events.UpdateJob, change, Input) error{
		"account":       asText(func(u *events.UpdateJob) **string { return &u.Account }),
		"admincomment":  asText(func(u *events.UpdateJob) **string { return &u.AdminComment }),
		"comment":       asText(func(u *events.UpdateJob) **string { return &u.Comment }),
		"jobname":       asText(func(u *events.UpdateJob) **string { return &u.Name }),
		"name":          asText(func(u *events.UpdateJob) **string { return &u.Name }),
		"mailuser":      asMailUser,
		"partition":     asText(func(u *events.UpdateJob) **string { return &u.Partition }),
		"qos":           asText(func(u *events.UpdateJob) **string { return &u.Qos }),
		"stdout":        asText(func(u *events.UpdateJob) **string { return &u.StdOut }),
		"stderr":        asText(func(u *events.UpdateJob) **string { return &u.StdErr }),
		"stdin":         asText(func(u *events.UpdateJob) **string { return &u.StdIn }),
		"wckey":         asText(func(u *events.UpdateJob) **string { return &u.Wckey }),
		"excnodelist":   asNodes(func(u *events.UpdateJob) **string { return &u.Exclude }),
		"nodelist":      asNodes(func(u *events.UpdateJob) **string { return &u.NodeList }),
		"reqnodelist":   asNodes(func(u *events.UpdateJob) **string { return &u.NodeList }),
		"numtasks":      asCount(func(u *events.UpdateJob) **uint32 { return &u.Tasks }),
		"reqprocs":      asCount(func(u *events.UpdateJob) **uint32 { return &u.Tasks }),
		"minmemorynode": asMemory(func(u *events.UpdateJob) **uint64 { return &u.MemPerNodeMib }),
		"minmemorycpu":  asMemory(func(u *events.UpdateJob) **uint64 { return &u.MemPerCpuMib }),
		"deadline":      asTime(func(u *events.UpdateJob) **int64 { return &u.DeadlineUs }),
		"eligibletime":  asTime(func(u *events.UpdateJob) **int64 { return &u.BeginUs }),
		"starttime":     asTime(func(u *events.UpdateJob) **int64 { return &u.BeginUs }),
		"timelimit":     timeLimitChange,
		"arraytaskthrottle": func(u *events.UpdateJob, c change, _ Input) error {
			n, err := strconv.ParseUint(c.value, 10, 31)
			if err != nil {
				return refusal("%s is not a number of tasks to run at once", clip(c.value))
			}
			u.ArrayThrottle = ptr(uint32(n))
			return nil
		},
		"dependency": func(u *events.UpdateJob, c change, _ Input) error {
			list, any, err := ParseDependencies(c.value)
			u.Dependencies, u.DependencyAny, u.SetDependencies = list, any, true
			return err
		},
		"features": func(u *events.UpdateJob, c change, _ Input) error {
			f, err := ParseConstraint(c.value)
			u.Features = ptr(f)
			return err
		},
		"nice": func(u *events.UpdateJob, c change, _ Input) error {
			n, err := strconv.ParseInt(c.value, 10, 64)
			if c.value == "" {
				n, err = 0, nil
			}
			if err != nil || n > maxNice || n < -maxNice {
				return refusal("%s is not a nice value: write a whole number from -%d to %d", clip(c.value), maxNice, maxNice)
			}
			u.Nice = ptr(int32(n))
			return nil
		},
		"numnodes": nodesChange, "reqnodes": nodesChange, "minnodes": nodesChange,
		"priority": func(u *events.UpdateJob, c change, _ Input) error {
			n, err := strconv.ParseUint(c.value, 10, 64)
			if strings.EqualFold(c.value, "top") {
				n, err = topPriority, nil
			}
			if err != nil || n > topPriority {
				return refusal("%s is not a priority: write a whole number from 0 to %d", clip(c.value), topPriority)
			}
			u.Priority = ptr(uint32(n))
			return nil
		},
		"requeue": func(u *events.UpdateJob, c change, _ Input) error {
			switch strings.ToLower(c.value) {
			case "1", "yes":
				u.Requeue = ptr(true)
			case "0", "no":
				u.Requeue = ptr(false)
			default:
				return refusal("%s is not a value for Requeue: write 0 or 1", clip(c.value))
			}
			return nil
		},
		"cpuspertask": asCount(func(u *events.UpdateJob) **uint32 { return &u.CpusPerTask }),
		"mincpusnode": asCount(func(u *events.UpdateJob) **uint32 { return &u.MinCpusPerNode }),
		"numcpus": func(u *events.UpdateJob, c change, _ Input) error {
			least, _, _ := strings.Cut(c.value, "-") // a range asks for what it begins with
			n, err := positive(c.key, least)
			u.Cpus = ptr(n)
			return err
		},
		"taskspernode":    asCount(func(u *events.UpdateJob) **uint32 { return &u.TasksPerNode }),
		"reqsockets":      asCount(func(u *events.UpdateJob) **uint32 { return &u.SocketsPerNode }),
		"reqcores":        asCount(func(u *events.UpdateJob) **uint32 { return &u.CoresPerSocket }),
		"reqthreads":      asCount(func(u *events.UpdateJob) **uint32 { return &u.ThreadsPerCore }),
		"mintmpdisknode":  asMemory(func(u *events.UpdateJob) **uint64 { return &u.TmpDiskMib }),
		"licenses":        asText(func(u *events.UpdateJob) **string { return &u.Licenses }),
		"extra":           asText(func(u *events.UpdateJob) **string { return &u.Extra }),
		"workdir":         asText(func(u *events.UpdateJob) **string { return &u.WorkDir }),
		"reservationname": asText(func(u *events.UpdateJob) **string { return &u.Reservation }),
		"reservation":     asText(func(u *events.UpdateJob) **string { return &u.Reservation }),
		"endtime":         asTime(func(u *events.UpdateJob) **int64 { return &u.EndUs }),
		"gres": func(u *events.UpdateJob, c change, _ Input) error {
			u.SetGres = true
			if c.value == "" || strings.EqualFold(c.value, "none") {
				return nil
			}
			list, err := ParseGres(c.value, events.Scope_PER_NODE)
			u.Gres = list
			return err
		},
		"mailtype": func(u *events.UpdateJob, c change, _ Input) error {
			bits, err := ParseMail(c.value)
			u.MailTypes = ptr(bits)
			return err
		},
		"timemin": func(u *events.UpdateJob, c change, _ Input) error {
			n, err := ParseLimit(c.value)
			if err != nil {
				return refusal("Invalid TimeMin value: %v", err)
			}
			u.TimeMinS = ptr(n)
			return nil
		},
		"contiguous": func(u *events.UpdateJob, c change, _ Input) error {
			on, err := yesNo(c)
			u.Contiguous = ptr(on)
			return err
		},
		"oversubscribe": func(u *events.UpdateJob, c change, _ Input) error {
			on, err := yesNo(c)
			if err == nil && on {
				return refusal("OverSubscribe=YES: CPUs are never given to two jobs here; NO and EXCLUSIVE can be set")
			}
			if strings.EqualFold(c.value, "EXCLUSIVE") {
				u.Exclusive, err = ptr(events.Exclusive_EXCLUSIVE_NODE), nil
			} else if err == nil {
				u.Exclusive = ptr(events.Exclusive_SHARED)
			}
			return err
		},
		"resetaccruetime": func(u *events.UpdateJob, c change, _ Input) error { u.ResetAccrue = true; return nil },
		"burstbuffer":     nil, "clusters": nil, "clusterfeatures": nil, "corespec": nil, "delayboot": nil, "mcslabel": nil, "reboot": nil, "sitefactor": nil, "threadspec": nil,
		"prefer": func(u *events.UpdateJob, c change, _ Input) error {
			f, err := ParseConstraint(c.value)
			u.Prefer = ptr(f)
			return err
		},
		"switches": func(u *events.UpdateJob, c change, _ Input) error {
			n, wait, timed := strings.Cut(c.value, "@")
			if _, err := positive("Switches", n); err != nil {
				return err
			}
			if timed {
				if _, err := ParseLimit(wait); err != nil {
					return refusal("Switches: %v", err)
				}
			}
			u.Switches = ptr(c.value)
			return nil
		},
	}

}}

func (s *Scontrol) jobChange(c change, in Input) error {
	apply, known := jobKeys.Get()[c.key]
	switch {
	case !known:
		return refusal("Update of this parameter is not supported: %s%s", clip(c.key), mean(c.key, sortedKeys(jobKeys.Get())))
	case apply == nil:
		return refusal("Update of %s is not supported by Stint yet", c.key)
	case c.op != '=' && c.key != "timelimit":
		return refusal("%s takes = only, not %c=", c.key, c.op)
	}
	return apply(s.Job, c, in)
}

func timeLimitChange(u *events.UpdateJob, c change, _ Input) error {
	value := c.value
	if c.op == '=' && value != "" && (value[0] == '+' || value[0] == '-' && value != "-1") {
		c.op, value = value[0], value[1:]
	}
	n, err := ParseLimit(value)
	switch {
	case err != nil:
		return refusal("Invalid TimeLimit value: %v", err)
	case c.op == '=':
		if n == 0 {
			return refusal("Invalid TimeLimit value: a job can not be left without time; scancel ends it")
		}
		u.TimeLimitS = ptr(n)
	case n == Unlimited || n > 1<<30:
		return refusal("Invalid TimeLimit value: %s can not be added or taken away", clip(c.value))
	case c.op == '+':
		u.TimeLimitAddS = ptr(int32(n))
	default:
		u.TimeLimitAddS = ptr(-int32(n))
	}
	return nil
}

// yesNo reads a switch of a job.
func yesNo(c change) (bool, error) {
	switch strings.ToLower(c.value) {
	case "1", "yes", "y", "true":
		return true, nil
	case "0", "no", "n", "false":
		return false, nil
	}
	return false, refusal("%s is not a value for %s: write YES or NO", clip(c.value), c.key)
}

func nodesChange(u *events.UpdateJob, c change, _ Input) error {
	least, most, err := ParseNodeCount(c.value)
	if err != nil {
		return refusal("%s: %v", c.key, err)
	}
	if u.MinNodes = ptr(least); strings.Contains(c.value, "-") {
		u.MaxNodes = ptr(most) // a number alone is the least: the most stays what it was
	}
	return nil
}

// nodeOrders are the values of State= that change a node.
var nodeOrders = once.Value[map[string]events.NodeOrder]{Make: func() map[string]events.NodeOrder {
	return map[string]events.NodeOrder{
		"DRAIN": events.NodeOrder_NODE_DRAIN, "DOWN": events.NodeOrder_NODE_DOWN, "RESUME": events.NodeOrder_NODE_RESUME, "UNDRAIN": events.NodeOrder_NODE_UNDRAIN,
		"FAIL": events.NodeOrder_NODE_FAIL_ORDER, "IDLE": events.NodeOrder_NODE_IDLE, "FUTURE": events.NodeOrder_NODE_FUTURE,
	}

}}
var otherNodeStates = once.Value[[]string]{Make: func() []string {
	return strings.Fields("NORESP POWER POWER_DOWN POWER_UP POWER_DOWN_ASAP POWER_DOWN_FORCE CANCEL_REBOOT")

}}

func (s *Scontrol) updateNode(changes []change) error {
	if _, err := hostlist.Count(s.IDs[0], hostlist.MaxHosts); err != nil {
		return refusal("%v", err)
	}
	s.Node = &events.UpdateNode{Nodes: s.IDs[0]}
	for _, c := range changes {
		switch c.key {
		case "state":
			order, ok := nodeOrders.Get()[strings.ToUpper(c.value)]
			if !ok {
				for _, o := range otherNodeStates.Get() {
					if strings.EqualFold(o, c.value) {
						return refusal("State=%s: no node is powered or booted from here (no SuspendProgram, ResumeProgram or RebootProgram is run)", o)
					}
				}
				return refusal("Invalid input: State=%s; known are %s%s", clip(c.value), strings.Join(sortedKeys(nodeOrders.Get()), ", "), mean(strings.ToUpper(c.value), sortedKeys(nodeOrders.Get())))
			}
			s.Node.Order = order
		case "reason":
			s.Node.Reason = ptr(strings.Trim(c.value, `"'`))
		case "comment":
			s.Node.Comment = ptr(c.value)
		case "features", "availablefeatures":
			s.Node.Features = ptr(c.value)
		case "activefeatures":
			s.Node.ActiveFeatures = ptr(c.value)
		case "extra":
			s.Node.Extra = ptr(c.value)
		case "instanceid":
			s.Node.InstanceId = ptr(c.value)
		case "instancetype":
			s.Node.InstanceType = ptr(c.value)
		case "nodeaddr":
			s.Node.Address = ptr(c.value)
		case "nodehostname":
			s.Node.HostName = ptr(c.value)
		case "cpubind":
			if v := strings.ToLower(c.value); v != "none" && v != "off" {
				return refusal("CpuBind=%s: tasks of a node are not bound by a default of its own; none is what holds", clip(c.value))
			}
			// That is so already: nothing changes.
		case "weight":
			n, err := strconv.ParseUint(c.value, 10, 32)
			if err != nil || n > 1<<32-2 {
				return refusal("%s is not a weight", clip(c.value))
			}
			s.Node.Weight = ptr(uint32(n))
		case "gres", "resumeafter", "topology", "certtoken":
			return refusal("Update of %s is not supported by Stint yet", c.key)
		default:
			return refusal("Update of this parameter is not supported: %s%s", clip(c.key), mean(c.key, []string{"state", "reason", "comment", "extra", "availablefeatures", "activefeatures", "weight", "nodeaddr", "nodehostname"}))
		}
	}
	switch s.Node.Order {
	case events.NodeOrder_NODE_DRAIN, events.NodeOrder_NODE_DOWN, events.NodeOrder_NODE_FAIL_ORDER:
		if s.Node.GetReason() == "" {
			return refusal("You must specify a reason when DOWNING or DRAINING a node: add reason=...")
		}
	}
	return nil
}
