package site

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"stint/cli/slurm/conf"
	"stint/events"
	"stint/events/hostlist"
	"stint/executor/machine"
)

// Unlimited is how limits say that there is none.
const Unlimited = 0xffffffff

// NodesMost is how many nodes one host may play.
const NodesMost = 1024

// OneMachine is the configuration of a cluster that was given none: the machine as it is, or the nodes asked for, in one
// partition `debug` that takes everything, as Slurm's own configurator proposes. Memory is consumed, and a job that asks for
// none gets its CPUs' share of it.
func OneMachine(o Options, owner uint32) (*events.Config, error) {
	m, err := machine.Read("/", os.TempDir())
	if err != nil {
		return nil, err
	}
	if cpus, err := machine.Allowed(); err == nil {
		m.Restrict(cpus)
	}
	c := conf.Defaults()
	c.GresTypes, c.AdminUids, c.BfMaxJobTest = []string{"gpu"}, []uint32{0}, 0
	c.MaxJobCount = 100_000
	c.MaxArraySize = 100_001
	c.ReturnToServiceN, c.ReturnToService = 1, true
	if owner != 0 {
		c.AdminUids = append(c.AdminUids, owner)
	}
	if host, err := os.Hostname(); err == nil {
		c.Controllers = []string{host}
	}
	def := &events.NodeDef{
		Names: m.Hostname, Boards: 1, Sockets: uint32(m.Sockets), CoresPerSocket: uint32(m.CoresPerSocket), ThreadsPerCore: uint32(m.ThreadsPerCore),
		Cpus: uint32(m.CPUs()), MemoryMib: m.MemoryMiB, TmpDiskMib: m.TmpDiskMiB, Weight: 1, State: "UNKNOWN",
	}
	if def.Names == "" {
		def.Names = "localhost"
	}
	if o.Nodes != "" {
		names, err := hostlist.Expand(o.Nodes, NodesMost)
		if err != nil {
			return nil, fmt.Errorf("--nodes %s: %w", o.Nodes, err)
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("--nodes %q names no node; write for instance --nodes 'n[1-4]'", o.Nodes)
		}
		def.Names, def.Virtual = o.Nodes, true
	}
	if o.CPUs > 0 {
		def.Virtual = true
		def.Cpus, def.Sockets, def.CoresPerSocket, def.ThreadsPerCore = o.CPUs, 1, o.CPUs, 1
	}
	if o.Memory > 0 {
		def.MemoryMib = o.Memory
		def.Virtual = def.Virtual || o.Memory > m.MemoryMiB
	}
	if o.Gres != "" {
		if def.Gres, err = parseGres(o.Gres); err != nil {
			return nil, err
		}
		def.Virtual = true
		c.GresTypes = gresTypes(def.Gres)
	}
	if def.Cpus > 0 {
		c.DefMemPerCpuMib = max(def.MemoryMib/uint64(def.Cpus), 1)
	}
	c.Nodes = []*events.NodeDef{def}
	c.Partitions = []*events.PartitionDef{{
		Name: "debug", Nodes: "ALL", Default: true, MaxTimeS: Unlimited, PriorityTier: 1, PriorityJobFactor: 1,
		MaxNodes: Unlimited, Oversubscribe: "NO",
	}}
	return c, nil
}

// parseGres reads --gres of `stint up` as a node's Gres= is written: gpu:a100:4, gpu:2, or several with commas between.
func parseGres(text string) ([]*events.GresDef, error) {
	var out []*events.GresDef
	for _, part := range strings.Split(text, ",") {
		f := strings.Split(part, ":")
		g := &events.GresDef{Name: f[0], Count: 1}
		bad := g.Name == ""
		switch len(f) {
		case 1:
		case 2:
			if n, err := strconv.ParseUint(f[1], 10, 32); err == nil {
				g.Count = n
			} else {
				g.Type = f[1]
			}
		case 3:
			n, err := strconv.ParseUint(f[2], 10, 32)
			bad = bad || err != nil || f[1] == ""
			g.Type, g.Count = f[1], n
		default:
			bad = true
		}
		if bad || g.Count == 0 || g.Count > 1024 {
			return nil, fmt.Errorf("--gres %s: %q is not NAME, NAME:COUNT or NAME:TYPE:COUNT with a count from 1 to 1024; write for instance gpu:a100:4", text, part)
		}
		out = append(out, g)
	}
	return out, nil
}

func gresTypes(defs []*events.GresDef) (names []string) {
	seen := map[string]bool{}
	for _, g := range defs {
		if !seen[g.Name] {
			seen[g.Name] = true
			names = append(names, g.Name)
		}
	}
	return names
}
