package executor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"stint/events"
	"stint/executor/cgroup"
	"stint/executor/gpu"
	"stint/executor/machine"
)

// hardware is what a node has and what of it is enforced.
type hardware struct {
	machine   machine.Machine
	host      cgroup.Host
	virtual   bool
	gpus      []nodeGPU
	notes     []string
	inventory *events.Inventory
}

// nodeGPU is a GPU of the node with its place in the configuration: the entry's type, and which of that entry it is. The log
// names it so.
type nodeGPU struct {
	gpu.GPU
	entry string
	id    uint32
}

// takeStock looks at the machine, and at what the configuration says of the node. stateDir is the node's, by which the folder for
// the files of simulated GPUs goes.
func takeStock(node *events.NodeDef, virtual bool, stateDir, helper string) (*hardware, error) {
	m, err := machine.Read("/", os.TempDir())
	if err != nil {
		return nil, err
	}
	if cpus, err := machine.Allowed(); err == nil {
		m.Restrict(cpus)
	}
	h := &hardware{machine: m, virtual: virtual || node.GetVirtual()}
	if h.host, err = cgroup.Detect(); err != nil {
		return nil, err
	}
	if err := h.findGPUs(node, stateDir, helper); err != nil {
		return nil, err
	}
	h.inventory = &events.Inventory{
		Boards: 1, Sockets: uint32(m.Sockets), CoresPerSocket: uint32(m.CoresPerSocket), ThreadsPerCore: uint32(m.ThreadsPerCore),
		Cpus: uint32(m.CPUs()), MemoryMib: m.MemoryMiB, TmpDiskMib: m.TmpDiskMiB, Arch: m.Arch, Os: m.OS, Host: m.Hostname,
		Address: m.Hostname, BootUs: time.Now().Add(-m.Uptime).UnixMicro(), Enforced: h.host.Mode != cgroup.None,
	}
	for _, g := range h.host.Gaps {
		h.inventory.Unenforced = append(h.inventory.Unenforced, g.String())
	}
	if !h.pinned(node) {
		h.inventory.Unenforced = append(h.inventory.Unenforced, fmt.Sprintf("cores are not enforced: the node is %s, and has %d CPUs on a machine with %d", kindOf(h.virtual), node.GetCpus(), m.CPUs()))
	}
	for _, n := range h.notes {
		h.inventory.Unenforced = append(h.inventory.Unenforced, n)
	}
	for _, g := range h.gpus {
		d := &events.Device{Name: "gpu", Type: g.entry, Index: uint32(g.Index), Id: g.UUID, MemoryMib: g.MemoryMiB}
		if len(g.Files) > 0 {
			d.File = g.Files[0]
		}
		var cpus events.Words
		for _, c := range m.Allocated(g.CPUs) {
			cpus.Set(uint32(c))
		}
		d.Cpus = cpus
		h.inventory.Devices = append(h.inventory.Devices, d)
	}
	return h, nil
}

func kindOf(virtual bool) string {
	if virtual {
		return "virtual"
	}
	return "taken as configured (config_overrides)"
}

// findGPUs finds the GPUs that the configuration counts on: simulated ones on a virtual node, else those whose files it
// names, else those of the machine.
func (h *hardware) findGPUs(node *events.NodeDef, stateDir, helper string) error {
	devices := DevicesDir(stateDir)
	index := 0
	add := func(entry string, gpus []gpu.GPU) {
		for i, g := range gpus {
			g.Index = index
			index++
			h.gpus = append(h.gpus, nodeGPU{g, entry, uint32(i)})
		}
	}
	var detected *gpu.Found
	for k, def := range node.GetGres() {
		if def.GetName() != "gpu" || def.GetNoConsume() {
			continue
		}
		switch {
		case h.virtual:
			found, err := gpu.Simulate(filepath.Join(devices, strconv.Itoa(k)), def.GetType(), int(def.GetCount()))
			if err != nil {
				return err
			}
			if err := claimDevices(devices, stateDir); err != nil {
				return err
			}
			h.notes = append(h.notes, found.Notes...)
			add(def.GetType(), found.GPUs)
		case def.GetFiles() != "":
			found, err := gpu.FromLines([]gpu.Line{{Type: def.GetType(), File: def.GetFiles()}})
			if err != nil {
				h.notes = append(h.notes, fmt.Sprintf("The GPUs that the configuration names cannot be found: %v.", err))
				continue
			}
			add(def.GetType(), found)
		default:
			if detected == nil {
				found, err := gpu.Detect("/", helper)
				if err != nil {
					return err
				}
				detected = &found
				h.notes = append(h.notes, found.Notes...)
			}
			var match []gpu.GPU
			for _, g := range detected.GPUs {
				if def.GetType() == "" || g.Type == def.GetType() {
					match = append(match, g)
				}
			}
			add(def.GetType(), match)
		}
	}
	return nil
}

// granted picks the GPUs of a share of this node. One that is not there is an error: what the log gave out does not exist.
func (h *hardware) granted(share *events.NodeShare) ([]gpu.GPU, error) {
	var out []gpu.GPU
	for _, s := range share.GetGres() {
		if s.GetName() != "gpu" {
			continue
		}
		var missing error
		events.Words(s.GetIds()).Each(func(id uint32) bool {
			for _, g := range h.gpus {
				if g.entry == s.GetType() && g.id == id {
					out = append(out, g.GPU)
					return true
				}
			}
			missing = fmt.Errorf("the job was given GPU %d of type %q, which this node has not", id, s.GetType())
			return false
		})
		if missing != nil {
			return nil, missing
		}
	}
	return out, nil
}

// pinned says whether jobs are held to their CPUs: a virtual node with more CPUs than its machine cannot do so, nor one that is
// taken for what is configured.
func (h *hardware) pinned(node *events.NodeDef) bool {
	return !h.virtual && !node.GetAsConfigured() || int(node.GetCpus()) <= h.machine.CPUs()
}

// kernelCPUs turns CPUs as the log numbers them into the kernel's numbers.
func (h *hardware) kernelCPUs(share *events.NodeShare) ([]uint32, error) {
	var allocated []int
	for _, n := range events.Words(share.GetCpus()).List() {
		if int(n) >= h.machine.CPUs() {
			return nil, fmt.Errorf("the job was given CPU %d, which this node has not", n)
		}
		allocated = append(allocated, int(n))
	}
	var out []uint32
	for _, n := range h.machine.Logical(allocated) {
		out = append(out, uint32(n))
	}
	return out, nil
}

// memoryNodes are the NUMA nodes of some CPUs of the kernel's numbers.
func (h *hardware) memoryNodes(cpus []uint32) []uint32 {
	var nodes events.Words
	for _, c := range cpus {
		if i := h.machine.CoreOf(int(c)); i >= 0 {
			nodes.Set(uint32(h.machine.Cores[i].Node))
		}
	}
	return nodes.List()
}
