package conf

import (
	"fmt"
	"strings"

	"stint/cli/slurm"
	"stint/events"
)

// Write is a configuration in the form of slurm.conf: settings as the file had them, nodes, then partitions as they are now.
// What it writes can be read again.
func Write(c *events.Config) string {
	var b strings.Builder
	if !hasSetting(c, "ClusterName") {
		fmt.Fprintf(&b, "ClusterName=%s\n", c.GetCluster())
	}
	for _, s := range c.GetSettings() {
		fmt.Fprintf(&b, "%s=%s\n", s.GetKey(), s.GetValue())
	}
	for _, n := range c.GetNodes() {
		pairs := pairsOf("NodeName", n.GetNames())
		for _, f := range []struct {
			key   string
			value uint64
		}{{"CPUs", uint64(n.GetCpus())}, {"Boards", uint64(n.GetBoards())}, {"Sockets", uint64(n.GetSockets())}, {"CoresPerSocket", uint64(n.GetCoresPerSocket())},
			{"ThreadsPerCore", uint64(n.GetThreadsPerCore())}, {"RealMemory", n.GetMemoryMib()}, {"TmpDisk", n.GetTmpDiskMib()}, {"Weight", uint64(n.GetWeight())},
			{"CoreSpecCount", uint64(n.GetCoreSpec())}, {"MemSpecLimit", n.GetMemSpecMib()}, {"Port", uint64(n.GetPort())}} {
			if f.value != 0 {
				pairs = append(pairs, fmt.Sprintf("%s=%d", f.key, f.value))
			}
		}
		var gres []string
		for _, g := range n.GetGres() {
			name := g.GetName()
			if g.GetType() != "" {
				name += ":" + g.GetType()
			}
			gres = append(gres, fmt.Sprintf("%s:%d", name, g.GetCount()))
		}
		if len(n.GetPorts()) > 0 {
			pairs = append(pairs, "Port="+portList(n.GetPorts()))
		}
		for _, f := range [][2]string{{"NodeHostname", n.GetHostNames()}, {"NodeAddr", n.GetAddresses()}, {"Feature", strings.Join(n.GetFeatures(), ",")},
			{"Gres", strings.Join(gres, ",")}, {"State", n.GetState()}} {
			if f[1] != "" {
				pairs = append(pairs, f[0]+"="+f[1])
			}
		}
		fmt.Fprintln(&b, strings.Join(pairs, " "))
	}
	for _, p := range c.GetPartitions() {
		fmt.Fprintln(&b, strings.Join(partitionWords(p), " "))
	}
	return b.String()
}

// portList is the ports of a line's nodes, in the order of the nodes: [17001-17004,17010].
func portList(ports []uint32) string {
	var b strings.Builder
	for i := 0; i < len(ports); {
		j := i + 1
		for j < len(ports) && ports[j] == ports[j-1]+1 {
			j++
		}
		b.WriteString(map[bool]string{true: "[", false: ","}[i == 0])
		fmt.Fprint(&b, ports[i])
		if j > i+1 {
			fmt.Fprintf(&b, "-%d", ports[j-1])
		}
		i = j
	}
	return b.String() + "]"
}

func pairsOf(key, value string) []string { return []string{key + "=" + value} }

func hasSetting(c *events.Config, key string) bool {
	for _, s := range c.GetSettings() {
		if strings.EqualFold(s.GetKey(), key) {
			return true
		}
	}
	return false
}

// partitionWords are the keys and values of a partition that say more than their defaults.
func partitionWords(p *events.PartitionDef) []string {
	words := pairsOf("PartitionName", p.GetName())
	text := func(key, value, usual string) {
		if value != usual {
			words = append(words, key+"="+value)
		}
	}
	count := func(key string, n, usual uint64) {
		if n != usual {
			words = append(words, fmt.Sprintf("%s=%d", key, n))
		}
	}
	flag := func(key string, on bool) {
		if on {
			words = append(words, key+"=YES")
		}
	}
	minutes := func(key string, s uint32) {
		switch {
		case s == slurm.Unlimited:
			words = append(words, key+"=UNLIMITED")
		case s != 0:
			words = append(words, fmt.Sprintf("%s=%d:%02d", key, s/60, s%60))
		}
	}
	text("Nodes", p.GetNodes(), "")
	flag("Default", p.GetDefault())
	minutes("MaxTime", p.GetMaxTimeS())
	minutes("DefaultTime", p.GetDefaultTimeS())
	switch s := p.GetOverTimeLimitS(); {
	case !p.GetHasOverTimeLimit():
	case s == slurm.Unlimited:
		words = append(words, "OverTimeLimit=UNLIMITED")
	default:
		words = append(words, fmt.Sprintf("OverTimeLimit=%d", s/60))
	}
	count("PriorityTier", uint64(p.GetPriorityTier()), 1)
	count("PriorityJobFactor", uint64(p.GetPriorityJobFactor()), 1)
	count("MaxNodes", uint64(p.GetMaxNodes()), uint64(slurm.Unlimited))
	count("MinNodes", uint64(p.GetMinNodes()), 0)
	text("AllowGroups", strings.Join(p.GetAllowGroups(), ","), "")
	text("AllowAccounts", strings.Join(p.GetAllowAccounts(), ","), "")
	text("DenyAccounts", strings.Join(p.GetDenyAccounts(), ","), "")
	text("AllowQos", strings.Join(p.GetAllowQos(), ","), "")
	text("DenyQos", strings.Join(p.GetDenyQos(), ","), "")
	text("QOS", p.GetQos(), "")
	text("State", map[events.PartitionState]string{events.PartitionState_PARTITION_DOWN_STATE: "DOWN", events.PartitionState_PARTITION_DRAIN: "DRAIN",
		events.PartitionState_PARTITION_INACTIVE_STATE: "INACTIVE"}[p.GetState()], "")
	flag("Hidden", p.GetHidden())
	flag("RootOnly", p.GetRootOnly())
	text("OverSubscribe", p.GetOversubscribe(), "NO")
	count("DefMemPerCPU", p.GetDefMemPerCpuMib(), 0)
	count("DefMemPerNode", p.GetDefMemPerNodeMib(), 0)
	count("MaxMemPerCPU", p.GetMaxMemPerCpuMib(), 0)
	count("MaxMemPerNode", p.GetMaxMemPerNodeMib(), 0)
	count("MaxCPUsPerNode", uint64(p.GetMaxCpusPerNode()), 0)
	flag("DisableRootJobs", p.GetDisableRootJobs())
	count("GraceTime", uint64(p.GetGraceS()), 0)
	flag("LLN", p.GetLln())
	flag("ReqResv", p.GetRequireReservation())
	flag("ExclusiveUser", p.GetExclusiveUser())
	count("DefCpuPerGPU", uint64(p.GetDefCpusPerGpu()), 0)
	count("DefMemPerGPU", p.GetDefMemPerGpuMib(), 0)
	text("AllocNodes", p.GetAllocNodes(), "")
	text("Alternate", p.GetAlternate(), "")
	text("TRESBillingWeights", p.GetBillingWeights(), "")
	text("PreemptMode", p.GetPreemptMode(), "")
	return words
}
