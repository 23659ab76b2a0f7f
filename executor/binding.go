package executor

import (
	"strings"

	"stint/events"
	"stint/executor/layout"
	"stint/executor/tasks"
)

// bind puts into an order which CPUs each of the tasks has, and what they are told of it. A node that is not what its machine is tells of the
// CPUs that it is configured to have, and binds to none. The caller holds e.mu.
func (e *executor) bind(o *tasks.Order, h *hardware, def *events.NodeDef, part *tasks.Part, want *tasks.Want) error {
	if want.GetAside() || !e.config.Affinity() {
		return nil
	}
	node := h.seats(def)
	if !h.pinned(def) {
		node = seatsOf(def)
	}
	b, no := layout.Bind(node, part.Cpus, len(part.Tasks), want, bindSite(e.config.Setting("TaskPluginParam")))
	if no != nil {
		return no
	}
	for _, nv := range b.Environ() {
		o.Environ = append(o.Environ, []byte(nv))
	}
	if b.All && !b.Verbose || b.Kind == "none" && !b.Verbose {
		return nil
	}
	for i, rank := range part.Tasks {
		a := &tasks.Affinity{}
		if b.Kind != "none" && h.pinned(def) {
			a.Cpus = b.Masks[i]
		}
		if b.Verbose {
			a.Told = b.Line(e.conf.Node, rank, i)
		}
		o.Affinity = append(o.Affinity, a)
	}
	return nil
}

// bindSite reads TaskPluginParam.
func bindSite(param string) (s layout.BindSite) {
	for _, w := range strings.FieldsFunc(strings.ToLower(param), func(r rune) bool { return r == ',' || r == ' ' }) {
		unit, auto := strings.CutPrefix(w, "autobind=")
		switch {
		case auto:
			s.Auto = unit
		case w == "verbose":
			s.Verbose = true
		case w == "none" || w == "sockets" || w == "cores" || w == "threads":
			s.Unit = w
		}
	}
	return s
}

// seats are the node's CPUs as allocations number them, where they lie in the machine.
func (h *hardware) seats(def *events.NodeDef) (out []layout.CPU) {
	for i, c := range h.machine.Cores {
		for _, cpu := range c.CPUs {
			if def.GetCpus() == 0 || len(out) < int(def.GetCpus()) {
				out = append(out, layout.CPU{Core: i, Socket: c.Socket, Domain: c.Node, Number: uint32(cpu)})
			}
		}
	}
	return out
}

// seatsOf are the CPUs that a node is configured to have, all in one domain of memory.
func seatsOf(def *events.NodeDef) (out []layout.CPU) {
	threads, cores := int(max(1, def.GetThreadsPerCore())), int(max(1, def.GetCoresPerSocket()))
	if whole := int(max(1, def.GetSockets())) * cores; whole == int(def.GetCpus()) {
		threads = 1 // each core is counted as one
	}
	for i := range int(def.GetCpus()) {
		out = append(out, layout.CPU{Core: i / threads, Socket: i / threads / cores, Number: uint32(i)})
	}
	return out
}
