package place

import (
	"testing"

	"stint/events"
	"stint/projections"
)

// Where each thing asked for is on some node, but no node has them all, the sentence has the figures of the node that comes closest.
func TestLacksAtOnce(t *testing.T) {
	node := func(name string, cores uint32, mem uint64, gpus uint64) *projections.Node {
		n := &projections.Node{Name: name, Up: true, Partitions: []string{"p"}, Def: &events.NodeDef{Names: name, Sockets: 1, CoresPerSocket: cores, ThreadsPerCore: 1, MemoryMib: mem}}
		if gpus > 0 {
			n.Gres = []*projections.NodeGres{{Name: "gpu", Type: "a", Count: gpus}}
		}
		return n
	}
	f := &fake{cfg: &events.Config{SelectCore: true, SelectMemory: true, Partitions: []*events.PartitionDef{{Name: "p", MaxNodes: events.Unlimited}}},
		nodes: []*projections.Node{node("n1", 2, 9000, 4), node("n2", 8, 4000, 0), node("n3", 8, 1000, 4)}}
	const head = "no node of partition p has all it asks for at once: it needs "
	for _, test := range []struct {
		spec *events.JobSpec
		want string
	}{
		{&events.JobSpec{Tasks: 1, CpusPerTask: 4, MemPerNodeMib: 6000, MinNodes: 1, MaxNodes: 1}, head + "4 CPUs and 6000 MiB on one node, and n1, which comes closest, has 2 CPUs and 9000 MiB"},
		{&events.JobSpec{Tasks: 1, CpusPerTask: 4, MemPerNodeMib: 3000, MinNodes: 1, MaxNodes: 1, Gres: []*events.Gres{{Name: "gpu", Count: 2}}},
			head + "4 CPUs, 3000 MiB and 2 gpu on one node, and n1, which comes closest, has 2 CPUs, 9000 MiB and 4 gpu"},
		{&events.JobSpec{Tasks: 1, MemPerNodeMib: 8500, MinNodes: 1, MaxNodes: 1, Gres: []*events.Gres{{Name: "gpu", Count: 5}}}, "no node of partition p has 5 gpu"},
		{&events.JobSpec{MemPerCpuMib: 5000, Exclusive: events.Exclusive_EXCLUSIVE_NODE}, "it takes nodes whole, with 5000 MiB for each CPU: that is 10000 MiB for the 2 CPUs of n1, which has 9000; " +
			"ask for less memory, or for all of a node with --mem=0"},
	} {
		q, problem := RequestOf(test.spec)
		if problem != nil {
			t.Fatal(problem)
		}
		b := NewIdleBoard(f)
		if b.Fits(q, "p") {
			t.Fatalf("%v fits", test.spec)
		}
		if got := b.Lacks(q, "p"); got != test.want {
			t.Errorf("%v:\n got %s\nwant %s", test.spec, got, test.want)
		}
	}
}
