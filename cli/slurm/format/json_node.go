package format

import (
	"strings"

	"stint/events"
	"stint/events/hostlist"
	"stint/events/tres"
	"stint/projections"
)

// NodeJSON is a node as scontrol show node prints it with --json.
func NodeJSON(n *projections.Node, c *NodeContext) any {
	sockets, cores, threads := shape(n)
	d, inv := n.GetDef(), n.GetInventory()
	used := events.Words(n.GetCpusUsed()).Count()
	user := ""
	if n.GetReason() != "" {
		user = c.user(n.GetReasonUid())
	}
	gres := nodeGres(n)
	if gres == "(null)" {
		gres = ""
	}
	return object{
		{"architecture", inv.GetArch()}, {"burstbuffer_network_address", ""}, {"boards", max(d.GetBoards(), 1)}, {"boot_time", moment(max(n.GetBootUs(), inv.GetBootUs()))},
		{"cluster_name", c.Cluster}, {"cores", cores}, {"specialized_cores", d.GetCoreSpec()}, {"cpu_binding", 0}, {"cpu_load", c.Now[n.GetName()].GetLoadHundredths()}, {"free_mem", c.freeNumber(n)}, {"cpus", nodeCPUs(n)},
		{"effective_cpus", effectiveCPUs(n)}, {"specialized_cpus", ""},
		{"energy", object{{"average_watts", 0}, {"base_consumed_energy", 0}, {"consumed_energy", 0}, {"current_watts", unset()}, {"previous_consumed_energy", 0}, {"last_collected", 0}}},
		{"external_sensors", object{}}, {"extra", n.GetExtra()}, {"power", object{}}, {"features", nodeFeatureList(n)}, {"active_features", append([]string{}, n.Features()...)}, {"gpu_spec", ""},
		{"gres", gres}, {"gres_drained", "N/A"}, {"gres_used", nodeGresUsed(n)}, {"instance_id", n.GetInstanceId()}, {"instance_type", n.GetInstanceType()}, {"last_busy", moment(n.GetBusyUs())}, {"mcs_label", ""},
		{"specialized_memory", d.GetMemSpecMib()}, {"name", n.GetName()}, {"next_state_after_reboot", []string{"INVALID"}}, {"address", nodeAddr(n)}, {"hostname", nodeHost(n)},
		{"state", strings.Split(StateOf(n).Upper, "+")}, {"operating_system", inv.GetOs()}, {"owner", ""}, {"partitions", append([]string{}, n.GetPartitions()...)}, {"port", port(n)},
		{"real_memory", nodeMemory(n)}, {"res_cores_per_gpu", 0}, {"comment", n.GetComment()}, {"reason", n.GetReason()}, {"reason_changed_at", moment(n.GetReasonUs())}, {"reason_set_by_user", user},
		{"resume_after", unset()}, {"reservation", ""}, {"alloc_memory", n.GetMemoryUsedMib()}, {"alloc_cpus", used}, {"alloc_idle_cpus", nodeCPUs(n) - used},
		{"tres", nodeTres(n, false).String()}, {"tres_used", nodeTres(n, true).String()}, {"tres_weighted", float64(used)}, {"slurmd_start_time", moment(n.GetExecutorStartUs())},
		{"sockets", sockets}, {"threads", threads}, {"temporary_disk", nodeDisk(n)}, {"weight", max(d.GetWeight(), 1)}, {"topology", ""}, {"version", c.Release.Number()},
	}
}

// freeNumber is a node's free memory, unset where it said nothing.
func (c *NodeContext) freeNumber(n *projections.Node) any {
	if now := c.Now[n.GetName()]; now != nil {
		return number(now.FreeMemoryMib)
	}
	return unset()
}

// nowRange is the least and the most of a figure of the moment over nodes, unset where none said it.
func (g Group) nowRange(get func(*projections.NodeNow) uint64) object {
	lo, hi, some := uint64(0), uint64(0), false
	for _, n := range g.Nodes {
		now := g.Context.Now[n.GetName()]
		if now == nil {
			continue
		}
		v := get(now)
		if !some {
			lo, hi, some = v, v, true
		}
		lo, hi = min(lo, v), max(hi, v)
	}
	if !some {
		return object{{"minimum", unset()}, {"maximum", unset()}}
	}
	return object{{"minimum", number(lo)}, {"maximum", number(hi)}}
}

func nodeFeatureList(n *projections.Node) []string {
	return append([]string{}, n.GetDef().GetFeatures()...)
}

// PartitionJSON is a partition as scontrol show partition prints it with --json. nodes are those of the cluster.
func PartitionJSON(p *events.PartitionDef, nodes []*projections.Node, c *NodeContext) any {
	own := members(p, nodes)
	names := make([]string, len(own))
	var sum tres.List
	for i, n := range own {
		names[i] = n.GetName()
		sum = sum.Plus(nodeTres(n, false))
	}
	if len(own) > 0 {
		sum.Set("node", int64(len(own)))
		sum.Set("billing", c.Config.Bill(p, sum))
	}
	state := [...]string{"UP", "DOWN", "DRAIN", "INACTIVE"}[min(int(p.GetState()), 3)]
	perNode := unset()
	if n := p.GetMaxCpusPerNode(); n > 0 {
		perNode = number(n)
	}
	over := unset()
	if p.GetHasOverTimeLimit() {
		over = limitNumber(p.GetOverTimeLimitS() / 60)
	}
	maxNodes := limitNumber(p.GetMaxNodes())
	if p.GetMaxNodes() == 0 {
		maxNodes = limitNumber(events.Unlimited)
	}
	maxTime := minutes(p.GetMaxTimeS())
	if p.GetMaxTimeS() == 0 {
		maxTime = minutes(events.Unlimited)
	}
	defaultTime := unset()
	if t := p.GetDefaultTimeS(); t != 0 {
		defaultTime = minutes(t)
	}
	return object{
		{"nodes", object{{"allowed_allocation", p.GetAllocNodes()}, {"configured", p.GetNodes()}, {"total", len(own)}}},
		{"accounts", object{{"allowed", strings.Join(p.GetAllowAccounts(), ",")}, {"deny", strings.Join(p.GetDenyAccounts(), ",")}}},
		{"groups", object{{"allowed", strings.Join(p.GetAllowGroups(), ",")}}},
		{"qos", object{{"allowed", strings.Join(p.GetAllowQos(), ",")}, {"deny", strings.Join(p.GetDenyQos(), ",")}, {"assigned", p.GetQos()}}},
		{"alternate", p.GetAlternate()}, {"tres", object{{"billing_weights", p.GetBillingWeights()}, {"configured", sum.String()}}}, {"cluster", c.Cluster}, {"select_type", list{}},
		{"cpus", object{{"task_binding", 0}, {"total", sum.Get("cpu")}}},
		{"defaults", object{{"memory_per_cpu", p.GetDefMemPerCpuMib()}, {"partition_memory_per_cpu", given(p.GetDefMemPerCpuMib())}, {"partition_memory_per_node", given(p.GetDefMemPerNodeMib())}, {"time", defaultTime}, {"job", jobDefaults(p)}}},
		{"grace_time", p.GetGraceS()},
		{"maximums", object{
			{"cpus_per_node", perNode}, {"cpus_per_socket", unset()}, {"memory_per_cpu", p.GetMaxMemPerCpuMib()}, {"partition_memory_per_cpu", given(p.GetMaxMemPerCpuMib())}, {"partition_memory_per_node", given(p.GetMaxMemPerNodeMib())},
			{"nodes", maxNodes}, {"shares", 1}, {"oversubscribe", object{{"jobs", 1}, {"flags", list{}}}}, {"time", maxTime}, {"over_time_limit", over},
		}},
		{"minimums", object{{"nodes", p.GetMinNodes()}}}, {"name", p.GetName()}, {"node_sets", hostlist.CompressSorted(names)},
		{"priority", object{{"job_factor", p.GetPriorityJobFactor()}, {"tier", p.GetPriorityTier()}}},
		{"timeouts", object{{"resume", unset()}, {"suspend", unset()}}}, {"partition", object{{"state", []string{state}}}}, {"suspend_time", unset()},
	}
}

// JSON is the row as sinfo prints it with --json: nodes that look alike, and their partition.
func (g Group) JSON(nodes []*projections.Node) any {
	alloc, idle, other, total := g.nodeCounts()
	cAlloc, cIdle, cOther, cTotal := g.cpuCounts()
	var names, hosts, addresses []string
	var memory uint64
	for _, some := range g.Nodes {
		n := some.Node
		names, hosts, addresses = append(names, n.GetName()), append(hosts, nodeHost(n)), append(addresses, nodeAddr(n))
		memory += n.GetMemoryUsedMib()
	}
	state, listens, version := []string{}, uint32(0), ""
	features, active, gres, gresUsed, comment, extra, reason, at, user := "", "", "", "", "", "", "", unset(), ""
	if len(g.Nodes) > 0 {
		n := g.Nodes[0].Node
		state, listens = strings.Split(StateOf(n).Upper, "+"), port(n)
		features, active = strings.Join(n.GetDef().GetFeatures(), ","), strings.Join(n.Features(), ",")
		gres, gresUsed, comment, extra = nodeGres(n), nodeGresUsed(n), n.GetComment(), n.GetExtra()
		if gres == "(null)" {
			gres = ""
		}
		if reason = n.GetReason(); reason != "" {
			at, user = moment(n.GetReasonUs()), g.Context.user(n.GetReasonUid())
		}
		version = g.Context.Release.Number()
	}
	span := func(get func(*projections.Node) uint64) object {
		lo, hi := uint64(0), uint64(0)
		for i, n := range g.Nodes {
			if v := get(n.Node); i == 0 {
				lo, hi = v, v
			} else {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
		return object{{"minimum", lo}, {"maximum", hi}}
	}
	cpus := append(object{{"allocated", cAlloc}, {"idle", cIdle}, {"other", cOther}, {"total", cTotal}}, span(cpusOf)...)
	cpus = append(cpus, pair{"load", g.nowRange(func(n *projections.NodeNow) uint64 { return uint64(n.LoadHundredths) })})
	mem := append(span(nodeMemory), pair{"free", g.nowRange((*projections.NodeNow).GetFreeMemoryMib)}, pair{"allocated", memory})
	var partition any = object{}
	if g.Partition != nil {
		partition = PartitionJSON(g.Partition, nodes, g.Context)
	}
	return object{
		{"port", listens}, {"node", object{{"state", state}}},
		{"nodes", object{{"allocated", alloc}, {"idle", idle}, {"other", other}, {"total", total}, {"addresses", append([]string{}, addresses...)}, {"hostnames", append([]string{}, hosts...)}, {"nodes", append([]string{}, names...)}}},
		{"cpus", cpus}, {"sockets", span(socketsOf)}, {"cores", span(coresOf)}, {"threads", span(threadsOf)}, {"disk", span(nodeDisk)}, {"memory", mem},
		{"weight", span(func(n *projections.Node) uint64 { return uint64(max(n.GetDef().GetWeight(), 1)) })},
		{"features", object{{"total", features}, {"active", active}}}, {"gres", object{{"total", gres}, {"used", gresUsed}}}, {"cluster", g.Context.Cluster}, {"comment", comment}, {"extra", extra},
		{"reason", object{{"description", reason}, {"time", at}, {"user", user}}}, {"reservation", ""}, {"partition", partition}, {"version", version},
	}
}
