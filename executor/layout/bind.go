package layout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stint/events"
	"stint/executor/tasks"
)

// CPU is one of a node's, at its number in allocations: where it lies, and the kernel's number of it.
type CPU struct {
	Core, Socket, Domain int
	Number               uint32
}

// BindSite is what the site says of tasks and CPUs (TaskPluginParam).
type BindSite struct {
	Unit    string // where nothing is asked for: sockets, cores, threads; none: not bound
	Auto    string // where nothing is asked for and the numbers do not fit: the same
	Verbose bool
}

// Bound is what the tasks of a node are bound to.
type Bound struct {
	Kind    string         // none, rank, map_cpu, mask_cpu, rank_ldom, map_ldom, mask_ldom
	Unit    string         // what was asked for and could not be done, or is said beside a list: sockets, cores, threads, ldoms
	Masks   []events.Words // of each task, of the kernel's numbers; none with the kind none
	List    string         // as it is told
	Verbose bool
	All     bool // every task has all that the step has
}

// Bind binds the tasks of a node, so many, to those of its CPUs that are the step's. It follows what Slurm's task/affinity does (22.05, by
// trial): where nothing is asked for, tasks have a socket, a core or a thread each if there are just as many of them.
func Bind(node []CPU, mine events.Words, count int, want *tasks.Want, site BindSite) (*Bound, *Refused) {
	b := &binder{node: node, mine: mine, count: count, each: int(max(1, want.GetCpusPerTask())), one: want.GetOneThread(), within: want.GetWithin()}
	out := &Bound{Kind: want.GetBind(), Unit: want.GetBindUnit(), Verbose: want.GetBindVerbose() || site.Verbose}
	if out.Kind == "" && out.Unit == "" {
		if out.Unit = site.Unit; out.Unit == "none" {
			out.Kind, out.Unit = "none", ""
		}
	}
	whole := true
	for i := range node {
		whole = whole && mine.Has(uint32(i))
	}
	switch out.Kind {
	case "none":
		if whole {
			return out, nil
		}
		out.Kind = "mask_cpu"
		out.all(b)
		return out, nil
	case "":
		b.units(out, site.Auto)
		return out, nil
	case "map_cpu", "mask_cpu":
		allowed := b.kernel(func(i int) bool { return mine.Has(uint32(i)) })
		for _, word := range want.GetBindList() {
			mask := maskOf(word, out.Kind == "mask_cpu")
			if mask.Empty() || !mask.Within(allowed) {
				return nil, refuse(tasks.Refusal_BAD_BIND, "CPU binding outside of job step allocation, allocated CPUs are: %s.", b.hex(allowed))
			}
			out.Masks = append(out.Masks, mask)
		}
	default:
		if !whole {
			return nil, refuse(tasks.Refusal_BAD_BIND, "Entire node must be allocated for %s", out.told(false))
		}
		b.ranks(out, want.GetBindList())
	}
	out.List = strings.ToLower(strings.Join(want.GetBindList(), ","))
	for i := len(out.Masks); i < count; i++ {
		out.Masks = append(out.Masks, out.Masks[i%len(want.GetBindList())])
	}
	out.Masks = out.Masks[:count]
	return out, nil
}

// Environ are the variables that tell a task of it.
func (b *Bound) Environ() []string {
	kind := b.kinds()
	return []string{"SLURM_CPU_BIND=" + b.told(true), "SLURM_CPU_BIND_LIST=" + b.List, "SLURM_CPU_BIND_TYPE=" + kind, "SLURM_CPU_BIND_VERBOSE=" + b.loud()}
}

// Line is what is told of a task's CPUs when it starts: %d stands for its process.
func (b *Bound) Line(node string, rank uint32, local int) string {
	name := map[string]string{"none": "NONE", "rank": "RANK", "map_cpu": "MAP ", "mask_cpu": "MASK", "rank_ldom": "LDRANK", "map_ldom": "LDMAP ", "mask_ldom": "LDMASK"}[b.Kind]
	unit := ""
	if b.Unit != "" {
		unit = "-" + b.Unit
	}
	mask := "0x0"
	if b.Kind != "none" {
		mask = "0x" + strings.ToLower(hexOf(b.Masks[local], 1)) + " set"
	}
	return fmt.Sprintf("cpu-bind%s=%s - %s, task %2d %2d [%%d]: mask %s", unit, name, node, rank, local, mask)
}

func (b *Bound) loud() string {
	if b.Verbose {
		return "verbose"
	}
	return "quiet"
}

func (b *Bound) kinds() string {
	kind := b.Kind
	if strings.HasPrefix(kind, "map_") || strings.HasPrefix(kind, "mask_") {
		kind += ":"
	}
	if b.Unit != "" {
		kind = b.Unit + "," + kind
	}
	return kind
}

func (b *Bound) told(listed bool) string {
	if !listed {
		return b.loud() + "," + strings.TrimSuffix(b.kinds(), ":")
	}
	return b.loud() + "," + b.kinds() + b.List
}

// all gives every task all that the step has.
func (b *Bound) all(by *binder) {
	mask := by.kernel(func(i int) bool { return by.mine.Has(uint32(i)) })
	b.Masks, b.List, b.All = slices.Repeat([]events.Words{mask}, by.count), by.hex(mask), true
}

// binder deals the CPUs of a node out to tasks.
type binder struct {
	node   []CPU
	mine   events.Words
	count  int // of tasks
	each   int // CPUs of a task
	one    bool
	within string // how they are taken from sockets: block, cyclic (or empty), fcyclic
}

// kernel are the kernel's numbers of CPUs.
func (b *binder) kernel(has func(i int) bool) (out events.Words) {
	for i, c := range b.node {
		if has(i) {
			out.Set(c.Number)
		}
	}
	return out
}

func (b *binder) hex(w events.Words) string { return "0x" + hexOf(w, (len(b.node)+3)/4) }

// hexOf is a mask in base 16, with so many digits at least.
func hexOf(w events.Words, digits int) string {
	last, any := w.Last()
	if any {
		digits = max(digits, int(last)/4+1)
	}
	out := make([]byte, digits)
	for d := range digits {
		n := 0
		for bit := range 4 {
			if w.Has(uint32(d*4 + bit)) {
				n |= 1 << bit
			}
		}
		out[digits-1-d] = "0123456789ABCDEF"[n]
	}
	return string(out)
}

// maskOf is one word of a list: a number of a CPU, or a mask in base 16.
func maskOf(word string, mask bool) (out events.Words) {
	if !mask {
		if n, err := strconv.ParseUint(word, 10, 16); err == nil {
			out.Set(uint32(n))
		}
		return out
	}
	for d := range len(word) {
		n, err := strconv.ParseUint(word[len(word)-1-d:len(word)-d], 16, 8)
		for bit := range 4 {
			if err == nil && n&(1<<bit) != 0 {
				out.Set(uint32(d*4 + bit))
			}
		}
	}
	return out
}

// ranks binds by the number of a task on the node: to the CPU of that number, or to domains of memory.
func (b *binder) ranks(out *Bound, list []string) {
	domains := 0
	for _, c := range b.node {
		domains = max(domains, c.Domain+1)
	}
	n := len(list)
	if n == 0 {
		n = b.count
	}
	for i := range n {
		var wanted events.Words
		switch out.Kind {
		case "rank":
			out.Masks = append(out.Masks, events.WordsOf(b.node[i%len(b.node)].Number))
			continue
		case "rank_ldom":
			wanted.Set(uint32(i % domains))
		default:
			maskOf(list[i], out.Kind == "mask_ldom").Each(func(d uint32) bool { wanted.Set(d % uint32(domains)); return true })
		}
		out.Masks = append(out.Masks, b.kernel(func(i int) bool { return wanted.Empty() || wanted.Has(uint32(b.node[i].Domain)) }))
	}
	if out.Kind == "rank" && b.count <= len(b.node) { // by the kernel's numbers, as people count them
		for i := range out.Masks {
			if n := uint32(i); slices.ContainsFunc(b.node, func(c CPU) bool { return c.Number == n }) {
				out.Masks[i] = events.WordsOf(n)
			}
		}
	}
}

// units binds to sockets, cores, threads or domains.
func (b *binder) units(out *Bound, auto string) {
	unit := out.Unit
	if unit == "" {
		if unit = b.fitting(); unit == "" {
			unit = auto
		}
	}
	out.Kind = "mask_cpu"
	avail := b.avail()
	if unit == "" || unit == "none" || b.count > avail.Count() {
		out.all(b)
		return
	}
	out.Unit = ""
	if n := avail.Count(); b.count*b.each > n {
		b.each = max(1, n/b.count)
	}
	deal := b.cyclic
	if b.within == "block" {
		deal = b.block
	}
	var words []string
	for _, has := range deal(avail, unit == "cores") {
		mask := b.grown(has, unit)
		out.Masks, words = append(out.Masks, mask), append(words, b.hex(mask))
	}
	out.List = strings.Join(words, ",")
}

// avail are the CPUs that tasks count on: those of the step, or the first of it of each core.
func (b *binder) avail() events.Words {
	out := events.Words{}
	last := -1
	for i, c := range b.node {
		if b.mine.Has(uint32(i)) && (!b.one || c.Core != last) {
			out.Set(uint32(i))
			last = c.Core
		}
	}
	return out
}

// fitting is what there are just as many of as the tasks need CPUs.
func (b *binder) fitting() string {
	whole := func(of func(CPU) int) int {
		broken, all := map[int]bool{}, map[int]bool{}
		for i, c := range b.node {
			all[of(c)] = true
			broken[of(c)] = broken[of(c)] || !b.mine.Has(uint32(i))
		}
		n := 0
		for k := range all {
			if !broken[k] {
				n++
			}
		}
		return n
	}
	switch b.count * b.each {
	case whole(func(c CPU) int { return c.Socket }):
		return "sockets"
	case whole(func(c CPU) int { return c.Core }):
		return "cores"
	case b.mine.Count():
		return "threads"
	}
	return ""
}

// cyclic deals from one socket after the other: a task's CPUs from one, or with fcyclic each CPU from the next. Where all have been given
// out it begins again, at the socket where it is.
func (b *binder) cyclic(avail events.Words, cores bool) (out []events.Words) {
	var sockets [][]int
	for i, c := range b.node {
		for c.Socket >= len(sockets) {
			sockets = append(sockets, nil)
		}
		sockets[c.Socket] = append(sockets[c.Socket], i)
	}
	next, at := make([]int, len(sockets)), 0
	take := func() int {
		for {
			for from := at; next[at] >= len(sockets[at]); {
				if at = (at + 1) % len(sockets); at == from {
					clear(next)
					break
				}
			}
			if next[at] >= len(sockets[at]) { // a socket without a CPU
				at = (at + 1) % len(sockets)
				continue
			}
			i := sockets[at][next[at]]
			next[at]++
			if avail.Has(uint32(i)) {
				return i
			}
		}
	}
	for range b.count {
		var has events.Words
		last := 0
		for range b.each {
			last = take()
			has.Set(uint32(last))
			if b.within == "fcyclic" {
				at = (at + 1) % len(sockets)
			}
		}
		if s := b.node[last].Socket; cores { // the threads of its last core that it has not
			threads := 0
			for i, c := range b.node {
				if c.Core == b.node[last].Core && (!b.one || avail.Has(uint32(i))) {
					threads++
				}
			}
			next[s] += (threads - b.each%threads) % threads
		}
		if b.within != "fcyclic" {
			at = (at + 1) % len(sockets)
		}
		out = append(out, has)
	}
	return out
}

// block deals one CPU after the other.
func (b *binder) block(avail events.Words, cores bool) (out []events.Words) {
	list, next := avail.List(), 0
	for range b.count {
		var has events.Words
		last := uint32(0)
		for range b.each {
			if next >= len(list) {
				next = 0
			}
			last = list[next]
			has.Set(last)
			next++
		}
		for cores && next < len(list) && b.node[list[next]].Core == b.node[last].Core {
			next++
		}
		out = append(out, has)
	}
	return out
}

// grown are the kernel's numbers of what a task was dealt, with all that the step has of its units. Of domains of memory it has all.
func (b *binder) grown(has events.Words, unit string) events.Words {
	of := map[string]func(CPU) int{"cores": func(c CPU) int { return c.Core }, "sockets": func(c CPU) int { return c.Socket }, "ldoms": func(c CPU) int { return c.Domain }}[unit]
	if of == nil {
		return b.kernel(func(i int) bool { return has.Has(uint32(i)) })
	}
	units := map[int]bool{}
	has.Each(func(n uint32) bool { units[of(b.node[n])] = true; return true })
	return b.kernel(func(i int) bool { return units[of(b.node[i])] && (unit == "ldoms" || b.mine.Has(uint32(i))) })
}
