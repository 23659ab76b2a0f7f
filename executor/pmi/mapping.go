package pmi

import (
	"fmt"
	"strings"
)

// Mapping says on which node each rank is, as MPI programs read it under the key PMI_process_mapping: `(vector,(0,2,4))` is four
// ranks on each of two nodes, from the first node on. nodes lists the ranks of each node, ascending; all ranks together are 0 to
// n-1. A block is (first node, how many nodes, ranks on each).
func Mapping(nodes [][]uint32) string {
	count := 0
	for _, ranks := range nodes {
		count += len(ranks)
	}
	at := make([]int, count)
	for node, ranks := range nodes {
		for _, r := range ranks {
			if int(r) < count {
				at[r] = node
			}
		}
	}
	type block struct{ first, nodes, each int }
	var blocks []block
	for r := 0; r < count; {
		run := 1
		for r+run < count && at[r+run] == at[r] {
			run++
		}
		if n := len(blocks); n > 0 && blocks[n-1].each == run && blocks[n-1].first+blocks[n-1].nodes == at[r] {
			blocks[n-1].nodes++
		} else {
			blocks = append(blocks, block{at[r], 1, run})
		}
		r += run
	}
	var b strings.Builder
	b.WriteString("(vector")
	for _, v := range blocks {
		fmt.Fprintf(&b, ",(%d,%d,%d)", v.first, v.nodes, v.each)
	}
	return b.String() + ")"
}
