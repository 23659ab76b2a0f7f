package admit

import (
	"fmt"
	"strings"

	"stint/events"
	"stint/events/hostlist"
	"stint/events/tres"
)

func expand(text string) ([]string, *refusal) {
	if len(text) > MaxBody {
		return nil, refuse(events.Code_INVALID_NODE, "the list of nodes is too long")
	}
	names, err := hostlist.Expand(text, hostlist.MaxHosts)
	if err != nil {
		return nil, refuse(events.Code_INVALID_NODE, "%s", err)
	}
	return names, nil
}

// configure takes over a configuration. The first one may come from anybody the bus lets speak for a host: there is
// nothing yet that would say who the administrators are.
func (d *Desk) configure(m *events.Config) []*events.Fact {
	if d.r.ConfigSeq() != 0 && !d.admin() {
		return d.refused(refuse(events.Code_ACCESS_DENIED, "only an administrator may change the configuration"))
	}
	if text := CheckConfig(m); text != "" {
		return d.refused(refuse(events.Code_INVALID_CONFIG, "%s", text))
	}
	return []*events.Fact{{Kind: &events.Fact_Configured{Configured: &events.Configured{Intent: d.ref(), Config: m}}}}
}

// CheckConfig says in a sentence what is wrong with a configuration; empty if nothing is.
func CheckConfig(c *events.Config) string {
	nodes := map[string]bool{}
	if len(c.Nodes) == 0 {
		return "the configuration names no nodes"
	}
	for _, def := range c.Nodes {
		names, err := hostlist.Expand(def.Names, hostlist.MaxHosts)
		switch {
		case err != nil:
			return fmt.Sprintf("nodes %.100q: %s", def.Names, err)
		case len(names) == 0:
			return "a line of nodes names none"
		}
		for _, name := range names {
			if nodes[name] {
				return fmt.Sprintf("node %s is defined twice", name)
			}
			nodes[name] = true
		}
		if len(nodes) > MaxConfigNodes {
			return fmt.Sprintf("the configuration names more than %d nodes", MaxConfigNodes)
		}
		if text := checkNode(def); text != "" {
			return fmt.Sprintf("nodes %.100q: %s", def.Names, text)
		}
	}
	if len(c.Partitions) == 0 {
		return "the configuration has no partition"
	}
	partitions, defaults := map[string]bool{}, ""
	for _, p := range c.Partitions {
		switch {
		case p.Name == "" || strings.ContainsAny(p.Name, ", \t\n"):
			return fmt.Sprintf("%q is no name for a partition", p.Name)
		case partitions[p.Name]:
			return fmt.Sprintf("partition %s is defined twice", p.Name)
		case p.Default && defaults != "":
			return fmt.Sprintf("both %s and %s are the default partition", defaults, p.Name)
		}
		partitions[p.Name] = true
		if p.Default {
			defaults = p.Name
		}
		if text := checkPartition(p, nodes); text != "" {
			return fmt.Sprintf("partition %s: %s", p.Name, text)
		}
	}
	selects := 0
	for _, set := range []bool{c.SelectCore, c.SelectSocket, c.SelectLinear} {
		if set {
			selects++
		}
	}
	if selects > 1 {
		return "more than one of cores, sockets and whole nodes is what jobs are given"
	}
	return ""
}

func checkNode(def *events.NodeDef) string {
	const most = 1 << 20
	switch {
	case def.Sockets > most, def.CoresPerSocket > most, def.ThreadsPerCore > 1024, def.Cpus > most:
		return "more CPUs than any machine has"
	case def.Cpus == 0 && def.Sockets == 0 && def.CoresPerSocket == 0:
		return "the number of CPUs is missing"
	}
	total := uint64(max(def.Sockets, 1)) * uint64(max(def.CoresPerSocket, 1)) * uint64(max(def.ThreadsPerCore, 1))
	switch {
	case total > most:
		return "more CPUs than any machine has"
	case def.Cpus != 0 && def.Sockets*def.CoresPerSocket != 0 && uint64(def.Cpus) > total:
		return fmt.Sprintf("CPUs=%d, but sockets, cores and threads make %d", def.Cpus, total)
	case def.MemoryMib > 1<<40:
		return "more memory than any machine has"
	}
	for _, g := range def.Gres {
		if g.Name == "" || g.Count > 1024 && !g.NoConsume && g.Files != "" {
			return fmt.Sprintf("resource %q with a count of %d", g.Name, g.Count)
		}
		if g.Count > 1<<16 {
			return fmt.Sprintf("%d of %s: at most 65536 are counted", g.Count, g.Name)
		}
	}
	return ""
}

func checkPartition(p *events.PartitionDef, nodes map[string]bool) string {
	if !strings.EqualFold(p.Nodes, "ALL") {
		names, err := hostlist.Expand(p.Nodes, hostlist.MaxHosts)
		if err != nil {
			return fmt.Sprintf("nodes %.100q: %s", p.Nodes, err)
		}
		for _, name := range names {
			if !nodes[name] {
				return fmt.Sprintf("there is no node %.100s", name)
			}
		}
	}
	switch mode, _, _ := strings.Cut(strings.ToUpper(p.Oversubscribe), ":"); mode {
	case "", "NO", "EXCLUSIVE":
	case "YES", "FORCE": // jobs may share; they never do, which no job can tell from a partition that has room
	default:
		return fmt.Sprintf("OverSubscribe=%q is not known", p.Oversubscribe)
	}
	if _, err := hostlist.Expand(p.AllocNodes, hostlist.MaxHosts); err != nil && p.AllocNodes != "" {
		return fmt.Sprintf("AllocNodes=%.100s: %s", p.AllocNodes, err)
	}
	if _, err := tres.ParseWeights(p.BillingWeights); err != nil {
		return fmt.Sprintf("TRESBillingWeights: %s", err)
	}
	return ""
}
