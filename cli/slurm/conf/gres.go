package conf

import (
	"fmt"
	"strconv"
	"strings"

	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/hostlist"
	"stint/events/tres"
)

// nodeGres reads Gres= of a NodeName line: `gpu:a100:8`, `gpu:2(S:0-1)`, `gpu:tesla:no_consume:2`, joined by commas.
func nodeGres(v string) ([]*events.GresDef, error) {
	var out []*events.GresDef
	if strings.EqualFold(v, "(null)") || strings.EqualFold(v, "none") {
		return nil, nil
	}
	for _, term := range list(v) {
		body, _, _ := strings.Cut(term, "(")
		fields := strings.Split(body, ":")
		g := &events.GresDef{Name: fields[0], Count: 1}
		for i, f := range fields[1:] {
			last := i == len(fields)-2
			n, err := tres.ParseCount(f)
			switch {
			case strings.EqualFold(f, "no_consume"):
				g.NoConsume = true
			case last && err == nil:
				g.Count = uint64(n)
			case g.Type == "" && f != "" && !last, g.Type == "" && f != "" && last && err != nil && !strings.ContainsAny(f[:1], "0123456789"):
				g.Type = f
			default:
				return nil, fmt.Errorf("%q is not NAME[:TYPE][:COUNT]", clip(term))
			}
		}
		if g.Name == "" || g.Count == 0 || g.Count > 1<<40 {
			return nil, fmt.Errorf("%q is not NAME[:TYPE][:COUNT]", clip(term))
		}
		out = append(out, g)
	}
	return out, nil
}

// gresRecord is a line of gres.conf: devices that nodes have.
type gresRecord struct {
	nodes map[string]bool // nil: all
	def   *events.GresDef
	count bool // given, not counted from files
	at    line
}

var gresKeys = once.Value[[]string]{Make: func() []string {
	return strings.Fields("NodeName Name Type Count Cores CPUs File Files MultipleFiles Flags Links Link AutoDetect")

}}

func (b *builder) gresLine(l line) error {
	r := gresRecord{def: &events.GresDef{}, at: l}
	files := 0
	for _, p := range l.pairs {
		var err error
		switch strings.ToLower(p.key) {
		case "nodename":
			var names []string
			names, err = hostlist.Expand(p.value, maxNodes)
			r.nodes = map[string]bool{}
			for _, n := range names {
				if b.nodeOf[n] == nil {
					return fmt.Errorf("there is no node %s", n)
				}
				r.nodes[n] = true
			}
		case "name":
			r.def.Name = p.value
		case "type":
			r.def.Type = p.value
		case "count":
			var n int64
			n, err = tres.ParseCount(p.value)
			r.def.Count, r.count = uint64(n), true
		case "cores", "cpus":
			r.def.Cores = p.value
			err = coreList(p.value)
		case "file", "files", "multiplefiles":
			files, err = hostlist.Count(p.value, 4096)
			r.def.Files = p.value
		case "flags", "links", "link":
			b.Notes = append(b.Notes, Note{p.key, p.value, l.where(), Harmless, "it has no effect yet"})
		case "autodetect":
			if !strings.EqualFold(p.value, "off") {
				b.Notes = append(b.Notes, Note{"AutoDetect", p.value, l.where(), Mapped, "devices are found by the executor's helper where it is built"})
			}
		default:
			err = fmt.Errorf("unrecognized key%s", nearOf(p.key, gresKeys.Get()))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.key, err)
		}
	}
	if r.def.Name == "" {
		return nil // AutoDetect alone
	}
	switch {
	case !r.count && files > 0:
		r.def.Count = uint64(files)
	case !r.count:
		r.def.Count = 1
	case files > 0 && r.def.Count != uint64(files):
		return fmt.Errorf("Count=%d, but File names %d devices", r.def.Count, files)
	}
	b.gres = append(b.gres, r)
	return nil
}

func coreList(v string) error {
	for _, f := range list(v) {
		lo, hi, ranged := strings.Cut(f, "-")
		if !ranged {
			hi = lo
		}
		a, err1 := strconv.ParseUint(lo, 10, 16)
		z, err2 := strconv.ParseUint(hi, 10, 16)
		if err1 != nil || err2 != nil || z < a {
			return fmt.Errorf("%q is not a list of cores, such as 0-15", clip(v))
		}
	}
	return nil
}

// joinGres gives the resources of the nodes the files and cores that gres.conf has for them.
func (b *builder) joinGres() error {
	if len(b.gres) == 0 {
		return nil
	}
	keys := map[string]string{}
	keyOf := func(name string) string {
		if k, ok := keys[name]; ok {
			return k
		}
		var k strings.Builder
		for i, r := range b.gres {
			if r.nodes == nil || r.nodes[name] {
				fmt.Fprintf(&k, "%d,", i)
			}
		}
		keys[name] = k.String()
		return k.String()
	}
	return b.split(keyOf, func(n *node, key string) error {
		var records []gresRecord
		for _, i := range list(key) {
			k, _ := strconv.Atoi(i)
			records = append(records, b.gres[k])
		}
		return b.refine(n, records)
	})
}

// refine replaces a node's resource by the devices of the lines about it.
func (b *builder) refine(n *node, records []gresRecord) error {
	var out []*events.GresDef
	for _, g := range n.def.Gres {
		left := g.Count
		for _, r := range records {
			if r.def.Name != g.Name || r.def.Type != "" && g.Type != "" && r.def.Type != g.Type || left == 0 {
				continue
			}
			d := r.def.CloneVT()
			d.NoConsume = g.NoConsume
			if d.Type == "" {
				d.Type = g.Type
			}
			if d.Count > left {
				b.Warnings = append(b.Warnings, fmt.Sprintf("%s: %d devices of %s, but slurm.conf gives %s only %d; the first ones count", r.at.where(), d.Count, d.Name, n.names[0], left))
				d.Count = left
			}
			left -= d.Count
			out = append(out, d)
		}
		switch {
		case left == g.Count:
			out = append(out, g)
		case left > 0:
			return fmt.Errorf("Gres=%s: gres.conf has only %d of %d for %s", g.Name, g.Count-left, g.Count, n.names[0])
		}
	}
	n.def.Gres = out
	return nil
}
