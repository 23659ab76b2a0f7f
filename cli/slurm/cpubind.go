package slurm

import (
	"fmt"
	"strconv"
	"strings"
)

// CPUBind is what --cpu-bind says. The zero value says nothing.
type CPUBind struct {
	Given   bool // even if only how loudly
	Verbose bool
	Kind    string   // none, rank, map_cpu, mask_cpu, rank_ldom, map_ldom, mask_ldom; empty: not said
	Unit    string   // sockets, cores, threads, ldoms; empty: not said
	List    []string // numbers, or masks in base 16; a task after the other
	One     bool     // one_thread: of each core
}

// cpuBindHelp is what --cpu-bind=help prints.
const cpuBindHelp = `--cpu-bind takes, joined by commas: quiet or verbose; sockets, cores, threads or ldoms (tasks have these); none, rank, rank_ldom, map_cpu:LIST, mask_cpu:LIST, map_ldom:LIST or mask_ldom:LIST (one of the list for each task; N*COUNT repeats)
`

// ParseCPUBind reads the value of --cpu-bind: words joined by commas, where the list behind map_cpu: and the like goes on over commas.
func ParseCPUBind(value string) (CPUBind, error) {
	b := CPUBind{Given: true}
	words := strings.Split(value, ",")
	for i := 0; i < len(words); i++ {
		w := strings.ToLower(words[i])
		name, first, listed := strings.Cut(w, ":")
		switch name {
		case "q", "quiet":
			b.Verbose = false
		case "v", "verbose":
			b.Verbose = true
		case "no", "none":
			b.Kind, b.List = "none", nil
		case "one_thread":
			b.One = true
		case "socket", "sockets", "core", "cores", "thread", "threads", "ldom", "ldoms":
			b.Unit = strings.TrimSuffix(name, "s") + "s"
		case "rank", "rank_ldom":
			b.Kind, b.List = name, nil
		case "map_cpu", "mapcpu", "mask_cpu", "maskcpu", "map_ldom", "mapldom", "mask_ldom", "maskldom":
			kind := name
			if !strings.Contains(kind, "_") {
				kind = strings.Replace(strings.Replace(kind, "map", "map_", 1), "mask", "mask_", 1)
			}
			if first == "" {
				return b, refusal(`missing list for "--cpu-bind=%s:<list>"`, kind)
			}
			b.Kind, b.List = kind, nil
			_, as, _ := strings.Cut(words[i], ":")
			for {
				list, err := bindNumber(as, strings.HasPrefix(kind, "mask"))
				if err != nil {
					return b, err
				}
				b.List = append(b.List, list...)
				if i+1 == len(words) || words[i+1] == "" || !strings.ContainsRune("0123456789", rune(words[i+1][0])) && (!strings.HasPrefix(kind, "mask") || !isHex(words[i+1])) {
					break
				}
				i++
				as = words[i]
			}
			continue
		default:
			return b, refusal(`unrecognized --cpu-bind argument %s; --cpu-bind=help shows what there is`, clip(value))
		}
		if listed {
			return b, refusal(`unrecognized --cpu-bind argument %s; %s takes no list`, clip(value), name)
		}
	}
	return b, nil
}

func isHex(w string) bool {
	word, _, _ := strings.Cut(w, "*")
	_, err := strconv.ParseUint(word, 16, 64)
	return err == nil
}

// bindNumber reads a number of a CPU or a mask, which may stand for several tasks: `0x3*4`. Masks lose their 0x.
func bindNumber(word string, mask bool) ([]string, error) {
	number, times, repeated := strings.Cut(word, "*")
	n := 1
	if repeated {
		var err error
		if n, err = strconv.Atoi(times); err != nil || n < 1 || n > 1<<16 {
			return nil, refusal("--cpu-bind: %s says how often in a way that is no number", clip(word))
		}
	}
	digits := "0123456789"
	if mask {
		digits += "abcdefABCDEF"
		if len(number) > 2 && (number[:2] == "0x" || number[:2] == "0X") {
			number = number[2:]
		}
	}
	for _, c := range number {
		if !strings.ContainsRune(digits, c) {
			return nil, refusal("Failed to validate number: %s, the offending character is %c", clip(word), c)
		}
	}
	if number == "" || !mask && len(number) > 5 || len(number) > 1024 {
		return nil, refusal("--cpu-bind: %s is no number of a CPU", clip(word))
	}
	list := make([]string, n)
	for i := range list {
		list[i] = number
	}
	return list, nil
}

// Told are the variables that tell tasks of what was asked for, where nodes do not tell them of what came of it: SLURM_CPU_BIND and those
// with _LIST, _TYPE and _VERBOSE. None if nothing was.
func (b CPUBind) Told() []string {
	loud := "quiet"
	if b.Verbose {
		loud = "verbose"
	}
	var kinds []string
	if b.Unit != "" {
		kinds = append(kinds, b.Unit)
	}
	list := strings.Join(b.List, ",")
	switch {
	case len(b.List) > 0:
		kinds = append(kinds, b.Kind+":")
	case b.Kind != "":
		kinds = append(kinds, b.Kind)
	}
	kind := strings.Join(kinds, ",")
	if kind == "" {
		if !b.Verbose {
			return nil
		}
		return []string{"SLURM_CPU_BIND=verbose", "SLURM_CPU_BIND_LIST=verbose", "SLURM_CPU_BIND_TYPE=", "SLURM_CPU_BIND_VERBOSE=verbose"} // sic
	}
	if kind == "ldoms" {
		list = kind // sic
	}
	return []string{fmt.Sprintf("SLURM_CPU_BIND=%s,%s%s", loud, kind, list), "SLURM_CPU_BIND_LIST=" + list, "SLURM_CPU_BIND_TYPE=" + kind, "SLURM_CPU_BIND_VERBOSE=" + loud}
}

// cpuBind reads --cpu-bind.
func (s *Step) cpuBind(g Given) error {
	if strings.EqualFold(g.Value, "help") {
		s.Print = cpuBindHelp
		return nil
	}
	var err error
	s.Bind, err = ParseCPUBind(g.Value)
	return err
}

// binds is what tasks are to be bound to: what was asked for, or what other options mean by it.
func (s *Step) binds(q *request) {
	b, spec := &s.Bind, q.Spec
	one := spec.ThreadsPerCore == 1 || q.hinted == "nomultithread" || spec.Nomultithread && q.hinted == ""
	if b.Kind == "" && b.Unit == "" {
		switch {
		case q.shaped && spec.ThreadsPerCore > 0, one, spec.ThreadsPerCore > 0, q.hinted == "multithread":
			b.Unit = "threads"
		case q.hinted == "compute_bound" || q.hinted == "memory_bound" || spec.TasksPerCore > 0 || q.shaped && spec.CoresPerSocket > 0:
			b.Unit = "cores"
		case spec.TasksPerSocket > 0 || q.shaped && spec.SocketsPerNode > 0:
			b.Unit = "sockets"
		}
	}
	w := s.Want
	w.Bind, w.BindUnit, w.BindList, w.BindVerbose, w.OneThread = b.Kind, b.Unit, b.List, b.Verbose, one || b.One
	head, _, _ := strings.Cut(spec.Distribution, ",")
	levels := strings.Split(head, ":")
	if len(levels) > 1 && levels[1] != "*" {
		w.Within = levels[1]
	} else if strings.HasPrefix(head, "plane") {
		w.Within = "block"
	}
}
