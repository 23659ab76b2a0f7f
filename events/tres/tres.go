// Package tres holds amounts of trackable resources (TRES): CPUs, memory, nodes, billing units, generic resources such
// as gres/gpu and gres/gpu:a100, licences. Memory and vmem count MiB, everything else counts pieces.
package tres

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// Item is an amount of one resource.
type Item struct {
	Name  string // cpu, mem, node, billing, gres/gpu, gres/gpu:a100, license/matlab, …
	Count int64  // MiB for mem and vmem
}

// List is amounts of resources, each name once, in the order of Slurm's TRES ids. The zero value is the empty list.
type List []Item

// The resources with a fixed id, by id. All others follow, by name: a generic resource comes before its types.
var fixed = [...]string{"cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages"}

func rank(name string) int {
	for i, f := range fixed {
		if f == name {
			return i
		}
	}
	return len(fixed)
}

// Before says whether resource a has a lower id than b.
func Before(a, b string) bool {
	if ra, rb := rank(a), rank(b); ra != rb {
		return ra < rb
	}
	return a < b
}

// Canonical returns the name Slurm prints for a resource name of any case, and whether it is a name at all: one of the
// fixed ones, or gres/…, license/…, bb/… or ic/… with a name after the slash.
func Canonical(name string) (string, bool) {
	kind, rest, slash := strings.Cut(name, "/")
	kind = strings.ToLower(kind)
	if !slash {
		return kind, rank(kind) < len(fixed)
	}
	switch kind {
	case "gres", "license", "bb", "ic":
		ok := rest != "" && !strings.ContainsAny(rest, "/=, \t\n") && rest[0] != ':' && rest[len(rest)-1] != ':'
		return kind + "/" + rest, ok
	case "fs":
		return "fs/" + strings.ToLower(rest), strings.EqualFold(rest, "disk")
	}
	return kind + "/" + rest, false
}

// Get returns the amount of a resource, 0 if it is not in the list.
func (l List) Get(name string) int64 {
	if i, ok := l.find(name); ok {
		return l[i].Count
	}
	return 0
}

func (l List) find(name string) (int, bool) {
	i := sort.Search(len(l), func(i int) bool { return !Before(l[i].Name, name) })
	return i, i < len(l) && l[i].Name == name
}

// Set puts an amount into the list, in place of the one there.
func (l *List) Set(name string, count int64) {
	i, ok := l.find(name)
	if ok {
		(*l)[i].Count = count
		return
	}
	*l = append(*l, Item{})
	copy((*l)[i+1:], (*l)[i:])
	(*l)[i] = Item{name, count}
}

// Plus returns the sum of two lists.
func (l List) Plus(m List) List {
	sum := append(List(nil), l...)
	for _, it := range m {
		sum.Set(it.Name, sum.Get(it.Name)+it.Count)
	}
	return sum
}

// Times returns every amount multiplied by n.
func (l List) Times(n int64) List {
	product := append(List(nil), l...)
	for i := range product {
		product[i].Count *= n
	}
	return product
}

// Without returns the list less the resources named.
func (l List) Without(names ...string) List {
	var rest List
next:
	for _, it := range l {
		for _, n := range names {
			if it.Name == n {
				continue next
			}
		}
		rest = append(rest, it)
	}
	return rest
}

// String writes the list in the order of ids, as scontrol does: `cpu=64,mem=6400M,node=8,billing=64,gres/gpu=24`.
func (l List) String() string { return l.text(Auto) }

// Alphabetical writes the list in the order of the written terms, as sacct does, in the unit given:
// `billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=800M,node=2`.
func (l List) Alphabetical(unit Unit) string {
	terms := strings.Split(l.text(unit), ",")
	sort.Strings(terms)
	return strings.Join(terms, ",")
}

func (l List) text(unit Unit) string {
	var b strings.Builder
	for i, it := range l {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(it.Name)
		b.WriteByte('=')
		if isMemory(it.Name) {
			b.WriteString(Memory(it.Count, unit))
		} else {
			b.WriteString(strconv.FormatInt(it.Count, 10))
		}
	}
	return b.String()
}

func isMemory(name string) bool { return name == "mem" || name == "vmem" }

// maxItems bounds what Parse accepts.
const maxItems = 256

// Parse reads `cpu=4,mem=500M,gres/gpu:a100=2` with names of any case. Memory takes a suffix K M G T P (M without),
// rounded up to whole MiB; other amounts take K M G T P as powers of 1024. A name given twice is refused.
func Parse(text string) (List, error) {
	var l List
	if text == "" {
		return l, nil
	}
	terms := strings.Split(text, ",")
	if len(terms) > maxItems {
		return nil, fmt.Errorf("%d resources in one list are more than the %d allowed", len(terms), maxItems)
	}
	for _, term := range terms {
		name, amount, ok := strings.Cut(term, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not a resource and its amount, such as cpu=4", term)
		}
		canon, ok := Canonical(name)
		if !ok {
			return nil, fmt.Errorf("%q is not a trackable resource; known are %s, gres/NAME[:TYPE], license/NAME and bb/NAME", name, strings.Join(fixed[:], ", "))
		}
		if _, twice := l.find(canon); twice {
			return nil, fmt.Errorf("%s is given twice", canon)
		}
		var count int64
		var err error
		if isMemory(canon) {
			count, err = ParseMemory(amount)
		} else {
			count, err = ParseCount(amount)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", canon, err)
		}
		l.Set(canon, count)
	}
	return l, nil
}
