package executor

import (
	"fmt"
	"strings"
	"testing"

	"stint/executor/gpu"
)

// What each task of a step has for --gpu-bind, as the real one gives it, and what it is told.
func TestGPUBind(t *testing.T) {
	for _, c := range []struct {
		bind   string
		tasks  int
		gpus   []int // numbers on the node
		hidden bool
		want   string // of each task
		said   string // of all
	}{
		{"", 2, []int{0, 1}, false, "all", ""},
		{"closest", 2, []int{0, 1}, false, "all", ""},
		{"none", 2, []int{0, 1}, false, "none", ""},
		{"single:1", 4, []int{0, 1, 2, 3}, false, "0 1 2 3", ""},
		{"single:2", 4, []int{0, 1, 2, 3}, false, "0 0 1 1", ""},
		{"single:1", 4, []int{0, 1}, false, "0 1 0 1", ""},
		{"single", 2, []int{0, 1}, false, "0 1", ""},
		{"per_task:2", 2, []int{0, 1, 2, 3}, false, "0,1 2,3", ""},
		{"per_task:2", 3, []int{0, 1, 2, 3}, false, "0,1 2,3 0", "names none"},
		{"map_gpu:3,1", 4, []int{0, 1, 2, 3}, false, "3 1 3 1", ""},
		{"map_gpu:3*2,1", 4, []int{0, 1, 2, 3}, false, "3 3 1 3", ""},
		{"map_gpu:1,5", 2, []int{0, 1}, false, "1 0", "names none"},
		{"map_gpu:3,2", 2, []int{2, 3}, false, "1 0", ""},
		{"map:1,0", 2, []int{2, 3}, true, "1 0", ""},
		{"mask_gpu:0x1,0x6", 4, []int{0, 1, 2, 3}, false, "0 1,2 0 1,2", ""},
		{"mask_gpu:F0", 1, []int{0, 1, 2, 3}, false, "0", "names none"},
		{"mask_gpu:f0", 1, []int{4, 5}, false, "0,1", ""},
		{"verbose,single:1", 2, []int{0, 1, 2, 3}, false, "0 1", "gpu-bind: usable_gres=0x1; bit_alloc=0xF; local_inx=0; global_list=0; local_list=0\n" +
			"gpu-bind: usable_gres=0x2; bit_alloc=0xF; local_inx=0; global_list=1; local_list=1\n"},
		{"verbose,closest", 1, []int{2, 3}, true, "all", "gpu-bind: usable_gres=0xC; bit_alloc=0xC; local_inx=0; global_list=2,3; local_list=0,1\n"},
	} {
		var granted []gpu.GPU
		for _, n := range c.gpus {
			granted = append(granted, gpu.GPU{Index: n})
		}
		b := bindGPUs(c.bind, c.tasks, granted, c.hidden)
		got, said := "all", ""
		if b.none {
			got = "none"
		}
		if b.tasks != nil {
			var each []string
			for _, places := range b.tasks {
				each = append(each, strings.ReplaceAll(strings.Trim(fmt.Sprint(places), "[]"), " ", ","))
			}
			got = strings.Join(each, " ")
		}
		for _, lines := range b.said {
			for _, l := range lines {
				said += l + "\n"
			}
		}
		if got != c.want || said != c.said && !(c.said != "" && !strings.HasPrefix(c.said, "gpu-bind") && strings.Contains(said, c.said)) {
			t.Errorf("%s, %d tasks on %v: %s, want %s; said %q", c.bind, c.tasks, c.gpus, got, c.want, said)
		}
	}
}
