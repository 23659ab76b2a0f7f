package executor

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"stint/executor/gpu"
)

// gpuBind is which GPUs of a step each of its tasks on a node has (srun(1), --gpu-bind).
type gpuBind struct {
	tasks [][]int    // places among those granted, of each task; nil: all tasks have all
	none  bool       // tasks are told of none
	said  [][]string // to each task, in its standard error
}

// bindGPUs binds tasks by a kind that the command line has checked: single:N, per_task:N, map_gpu:LIST, mask_gpu:LIST, closest, none,
// with verbose before it. Where tasks can open the step's GPUs alone they are numbered from 0; otherwise by their numbers on the node.
// A task that nothing is left for has the first, and is told so.
func bindGPUs(bind string, tasks int, granted []gpu.GPU, hidden bool) gpuBind {
	if bind == "" {
		return gpuBind{}
	}
	kind := strings.ToLower(bind)
	verbose := false
	if head, rest, more := strings.Cut(kind, ","); more && (head == "verbose" || head == "v") {
		verbose, kind = true, rest
	}
	kind, list, _ := strings.Cut(kind, ":")
	n := max(1, atoi(list))
	b := gpuBind{said: make([][]string, tasks)}
	switch kind {
	case "none":
		b.none = true
		return b
	case "single", "per_task", "map", "map_gpu", "mask", "mask_gpu":
		b.tasks = make([][]int, tasks)
	}
	number := func(at int) int {
		if hidden {
			return at
		}
		return granted[at].Index
	}
	every := inTurn(list)
	for i := range tasks {
		var mine []int
		for at := range granted {
			has := kind == "closest" // nothing says which are near
			switch kind {
			case "single":
				has = at == i/n%len(granted)
			case "per_task":
				has = at/n == i && (i+1)*n <= len(granted)
			case "map", "map_gpu":
				has = strconv.Itoa(number(at)) == every[i%len(every)]
			case "mask", "mask_gpu":
				mask, _ := new(big.Int).SetString(strings.TrimPrefix(every[i%len(every)], "0x"), 16)
				has = mask != nil && mask.Bit(number(at)) == 1
			}
			if has {
				mine = append(mine, at)
			}
		}
		if len(mine) == 0 {
			mine = []int{0}
			b.said[i] = append(b.said[i], fmt.Sprintf("error: --gpu-bind=%s names none of the step's %d GPUs here for this task, so it has the first", bind, len(granted)))
		}
		if b.tasks != nil {
			b.tasks[i] = mine
		}
		if verbose {
			usable, all := new(big.Int), new(big.Int)
			var global, local []string
			for _, g := range granted {
				all.SetBit(all, g.Index, 1)
			}
			for _, at := range mine {
				usable.SetBit(usable, granted[at].Index, 1)
				global, local = append(global, strconv.Itoa(granted[at].Index)), append(local, strconv.Itoa(number(at)))
			}
			b.said[i] = append(b.said[i], fmt.Sprintf("gpu-bind: usable_gres=0x%X; bit_alloc=0x%X; local_inx=0; global_list=%s; local_list=%s", usable, all, strings.Join(global, ","), strings.Join(local, ",")))
		}
	}
	return b
}

// inTurn is a list with each entry as often as it says: 3*2,1 is 3,3,1.
func inTurn(list string) []string {
	const most = 1 << 12
	var out []string
	for term := range strings.SplitSeq(list, ",") {
		value, times, _ := strings.Cut(term, "*")
		for range max(1, atoi(times)) {
			if len(out) < most {
				out = append(out, value)
			}
		}
	}
	return out
}

// atoi is a number that was checked, or 0.
func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
