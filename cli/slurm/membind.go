package slurm

import (
	"strconv"
	"strings"

	"stint/cli/slurm/once"
)

// MemBind is what --mem-bind says of where tasks get their memory from. The zero value says nothing.
type MemBind struct {
	Verbose bool
	Quiet   bool // or only this was said
	Prefer  bool // elsewhere if there is none
	Sort    bool
	Kind    string   // none, local, rank, map_mem, mask_mem; empty: not said
	List    []uint64 // numbers of nodes of memory, or masks of them; a task after the other
}

// memKinds are the kinds, with the words for them.
var memKinds = once.Value[map[string]string]{Make: func() map[string]string {
	return map[string]string{
		"none": "none", "no": "none", "local": "local", "rank": "rank", "map_mem": "map_mem", "mapmem": "map_mem", "mask_mem": "mask_mem", "maskmem": "mask_mem",
	}

}}

// ParseMemBind reads the value of --mem-bind: words joined by commas, where the numbers behind map_mem: and mask_mem: go on over commas.
func ParseMemBind(value string) (MemBind, error) {
	var b MemBind
	words := strings.Split(value, ",")
	for i := 0; i < len(words); i++ {
		w := strings.ToLower(words[i])
		name, first, listed := strings.Cut(w, ":")
		switch kind := memKinds.Get()[name]; {
		case w == "v" || w == "verbose":
			b.Verbose, b.Quiet = true, false
		case w == "q" || w == "quiet":
			b.Verbose, b.Quiet = false, true
		case w == "p" || w == "prefer":
			b.Prefer = true
		case w == "sort":
			b.Sort = true
		case w == "nosort":
			b.Sort = false
		case kind == "map_mem" || kind == "mask_mem":
			if !listed {
				return b, usage("--mem-bind=%s needs a list behind a colon, such as %s:0,1", kind, kind)
			}
			b.Kind, b.List = kind, nil
			for number := first; ; number = words[i] {
				n, ok := memNumber(number, kind == "mask_mem")
				if !ok {
					return b, usage("--mem-bind: %s in %s is not a number of a node of memory", clip(number), kind)
				}
				b.List = append(b.List, n...)
				if i+1 == len(words) || !memMore(words[i+1], kind == "mask_mem") {
					break
				}
				i++
			}
		case kind != "" && !listed:
			b.Kind, b.List = kind, nil
		default:
			known := []string{"none", "local", "rank", "map_mem", "mask_mem", "prefer", "sort", "quiet", "verbose"}
			return b, usage("%s is not a word for --mem-bind: known are %s%s", clip(words[i]), strings.Join(known, ", "), mean(w, known))
		}
	}
	return b, nil
}

func memMore(word string, mask bool) bool {
	_, ok := memNumber(word, mask)
	return ok
}

// memNumber reads a number, or a mask in base 16, which may stand for several tasks: `0x3*4`.
func memNumber(word string, mask bool) ([]uint64, bool) {
	word, times, repeated := strings.Cut(word, "*")
	n, base := 1, 10
	if repeated {
		var err error
		if n, err = strconv.Atoi(times); err != nil || n < 1 || n > 1<<16 {
			return nil, false
		}
	}
	if mask {
		word, base = strings.TrimPrefix(strings.ToLower(word), "0x"), 16
	}
	one, err := strconv.ParseUint(word, base, 64)
	if err != nil || !mask && one > 1023 {
		return nil, false
	}
	list := make([]uint64, n)
	for i := range list {
		list[i] = one
	}
	return list, true
}

func (b MemBind) sort() string {
	if b.Sort {
		return "sort"
	}
	return ""
}

// loud is the value of SLURM_MEM_BIND_VERBOSE, empty if nothing was said.
func (b MemBind) loud() string {
	switch {
	case b.Verbose:
		return "verbose"
	case b.Kind != "" || b.Prefer || b.Sort:
		return "quiet"
	}
	return ""
}

// ListText is the list as it is told: masks in base 16 without a sign of it.
func (b MemBind) ListText() string {
	base := 10
	if b.Kind == "mask_mem" {
		base = 16
	}
	out := make([]string, len(b.List))
	for i, n := range b.List {
		out[i] = strings.ToUpper(strconv.FormatUint(n, base))
	}
	return strings.Join(out, ",")
}

// told is the value of SLURM_MEM_BIND, empty if nothing was said.
func (b MemBind) told() string {
	var words []string
	add := func(is bool, word string) {
		if is {
			words = append(words, word)
		}
	}
	add(b.Verbose, "verbose")
	add(b.Prefer, "prefer")
	add(b.Sort, "sort")
	kind := b.Kind
	if len(b.List) > 0 {
		kind += ":" + b.ListText()
	}
	add(kind != "", kind)
	return strings.Join(words, ",")
}

func (q *request) memBind(g Given) error {
	if strings.EqualFold(g.Value, "help") {
		q.note("--mem-bind takes none, local, rank, map_mem:LIST or mask_mem:LIST, with prefer, sort, quiet or verbose before it")
		return nil
	}
	b, err := ParseMemBind(g.Value)
	q.memBound = b
	return err
}
