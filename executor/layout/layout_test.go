package layout

import (
	"fmt"
	"strings"
	"testing"

	"stint/events"
	"stint/executor/tasks"
)

// alloc is an allocation of nodes n1, n2 … with so many CPUs each.
func alloc(cpus ...uint32) *events.Allocation {
	a := &events.Allocation{}
	for i, n := range cpus {
		var w events.Words
		w.AddRange(0, n-1)
		a.Shares = append(a.Shares, &events.NodeShare{Nodes: []string{fmt.Sprintf("n%d", i+1)}, Cpus: w, MemoryMib: 1000,
			Gres: []*events.GresShare{{Name: "gpu", Ids: events.WordsOf(0, 1)}}})
	}
	return a
}

func told(parts []*tasks.Part, no *Refused) string {
	if no != nil {
		return no.Refusal.String()
	}
	var out []string
	for _, p := range parts {
		out = append(out, fmt.Sprintf("%s:%s/%s", p.Node, strings.Trim(strings.ReplaceAll(fmt.Sprint(p.Tasks), " ", ","), "[]"), events.Words(p.Cpus)))
	}
	return strings.Join(out, " ")
}

func TestLay(t *testing.T) {
	busy := func(l *tasks.Live, node string, cpus ...uint32) *tasks.Live {
		l.Parts = append(l.Parts, &tasks.Part{Node: node, Cpus: events.WordsOf(cpus...)})
		l.Open = append(l.Open, node)
		return l
	}
	gpus := func(n uint64, s events.Scope) []*events.Gres {
		return []*events.Gres{{Name: "gpu", Count: n, Scope: s}}
	}
	for _, x := range []struct {
		name  string
		alloc *events.Allocation
		want  *tasks.Want
		live  []*tasks.Live
		out   string
	}{
		{"one a node", alloc(2, 2), &tasks.Want{}, nil, "n1:0/0-1 n2:1/0-1"},
		{"block deals in turn, and ranks follow one another", alloc(6, 2), &tasks.Want{Tasks: 4, MinNodes: 2}, nil, "n1:0,1/0-5 n2:2,3/0-1"},
		{"as far as there is room", alloc(3, 1), &tasks.Want{Tasks: 4, MinNodes: 2}, nil, "n1:0,1,2/0-2 n2:3/0"},
		{"packed", alloc(8, 8), &tasks.Want{Tasks: 4, MinNodes: 2, Packed: true}, nil, "n1:0,1,2,3/0-7"},
		{"too much in turn", alloc(6, 2), &tasks.Want{Tasks: 11, MinNodes: 2, Overcommit: true}, nil, "n1:0,1,2,3,4,5,6,7/0-5 n2:8,9,10/0-1"},
		{"cyclic", alloc(3, 1), &tasks.Want{Tasks: 4, MinNodes: 2, Spread: tasks.Spread_CYCLIC}, nil, "n1:0,2,3/0-2 n2:1/0"},
		{"plane", alloc(6, 2), &tasks.Want{Tasks: 8, MinNodes: 2, Spread: tasks.Spread_PLANE, Plane: 2}, nil, "n1:0,1,4,5,6,7/0-5 n2:2,3/0-1"},
		{"arbitrary", alloc(2, 2), &tasks.Want{Tasks: 3, Spread: tasks.Spread_ARBITRARY, Nodes: []string{"n2", "n1", "n2"}}, nil, "n1:1/0-1 n2:0,2/0-1"},
		{"no more nodes than needed", alloc(4, 4), &tasks.Want{Tasks: 2, MinNodes: 1}, nil, "n1:0,1/0-3"},
		{"exact", alloc(4), &tasks.Want{Tasks: 1, CpusPerTask: 2, Exact: true}, nil, "n1:0/0-1"},
		{"exact beside another", alloc(4), &tasks.Want{Tasks: 1, Exact: true}, []*tasks.Live{busy(&tasks.Live{}, "n1", 0, 1)}, "n1:0/2"},
		{"whole node beside another", alloc(4), &tasks.Want{Tasks: 1}, []*tasks.Live{busy(&tasks.Live{}, "n1", 0)}, "BUSY"},
		{"sharing", alloc(4), &tasks.Want{Tasks: 1, Overlap: true}, []*tasks.Live{busy(&tasks.Live{}, "n1", 0)}, "n1:0/0-3"},
		{"beside one that shares", alloc(4), &tasks.Want{Tasks: 1}, []*tasks.Live{busy(&tasks.Live{Overlap: true}, "n1", 0)}, "n1:0/0-3"},
		{"the free node", alloc(2, 2), &tasks.Want{Tasks: 1, MinNodes: 1}, []*tasks.Live{busy(&tasks.Live{}, "n1", 0)}, "n2:0/0-1"},
		{"too many", alloc(2), &tasks.Want{Tasks: 3}, nil, "TOO_MANY"},
		{"too many, also when all is free", alloc(2), &tasks.Want{Tasks: 3}, []*tasks.Live{busy(&tasks.Live{}, "n1", 0)}, "TOO_MANY"},
		{"overcommit", alloc(2), &tasks.Want{Tasks: 3, Overcommit: true}, nil, "n1:0,1,2/0-1"},
		{"too many nodes", alloc(2, 2), &tasks.Want{MinNodes: 3}, nil, "TOO_MANY_NODES"},
		{"relative", alloc(2, 2, 2), &tasks.Want{Tasks: 1, MinNodes: 1, HasRelative: true, Relative: 2}, nil, "n3:0/0-1"},
		{"relative beyond", alloc(2), &tasks.Want{Tasks: 1, HasRelative: true, Relative: 1}, nil, "TOO_MANY_NODES"},
		{"named", alloc(2, 2), &tasks.Want{Tasks: 1, MinNodes: 1, Nodes: []string{"n2"}}, nil, "n2:0/0-1"},
		{"unknown", alloc(2), &tasks.Want{Nodes: []string{"n9"}}, nil, "BAD_NODE"},
		{"excluded", alloc(2, 2), &tasks.Want{MinNodes: 1, MaxNodes: 1, Exclude: []string{"n1"}}, nil, "n2:0/0-1"},
		{"memory", alloc(2), &tasks.Want{Tasks: 1, MemPerNodeMib: 1001}, nil, "TOO_MUCH_MEMORY"},
		{"devices", alloc(2), &tasks.Want{Tasks: 1, Gres: gpus(3, events.Scope_PER_NODE)}, nil, "BAD_GRES"},
		{"devices of tasks", alloc(2, 2), &tasks.Want{Tasks: 3, MinNodes: 2, Gres: gpus(1, events.Scope_PER_TASK)}, nil, "n1:0,1/0-1 n2:2/0-1"},
		{"so many a node", alloc(4, 4), &tasks.Want{MinNodes: 2, TasksPerNode: 2}, nil, "n1:0,1/0-3 n2:2,3/0-3"},
	} {
		if got := told(Lay(x.alloc, x.want, x.live)); got != x.out {
			t.Errorf("%s: %s, want %s", x.name, got, x.out)
		}
	}
}
