package tasks

import "testing"

func TestMemoryOfTasks(t *testing.T) {
	for _, c := range []struct {
		m      *Memory
		task   int
		policy int
		nodes  uint64
	}{
		{nil, 0, policyDefault, 0},
		{&Memory{Kind: "none"}, 0, policyDefault, 0},
		{&Memory{Kind: "local"}, 3, policyLocal, 0},
		{&Memory{Kind: "rank"}, 1, policyBind, 2},
		{&Memory{Kind: "rank", Prefer: true}, 1, policyPreferred, 2},
		{&Memory{Kind: "map_mem", List: []uint64{0, 3}}, 1, policyBind, 8},
		{&Memory{Kind: "map_mem", List: []uint64{0, 3}}, 2, policyBind, 1},
		{&Memory{Kind: "mask_mem", List: []uint64{3}}, 5, policyBind, 3},
	} {
		if policy, nodes := c.m.memoryOf(c.task); policy != c.policy || nodes != c.nodes {
			t.Errorf("%v, task %d: policy %d on %b, want %d on %b", c.m, c.task, policy, nodes, c.policy, c.nodes)
		}
	}
}
