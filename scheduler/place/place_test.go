package place

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"stint/events"
	"stint/projections"
)

// fake is a cluster made of records.
type fake struct {
	cfg   *events.Config
	nodes []*projections.Node
}

func (f *fake) EachRunning(func(*projections.Job) bool) {}
func (f *fake) UserExclusive() int                      { return 0 }
func (f *fake) Config() *events.Config                  { return f.cfg }
func (f *fake) Nodes() []*projections.Node              { return f.nodes }
func (f *fake) Partitions() []*events.PartitionDef      { return f.cfg.Partitions }
func (f *fake) Partition(name string) *events.PartitionDef {
	for _, p := range f.cfg.Partitions {
		if p.Name == name {
			return p
		}
	}
	return nil
}
func (f *fake) PartitionNodes(name string) []*projections.Node {
	var out []*projections.Node
	for _, n := range f.nodes {
		if slices.Contains(n.Partitions, name) {
			out = append(out, n)
		}
	}
	return out
}

// randomCluster is up to six nodes, some of them partly or wholly used, some out of service.
func randomCluster(r *rand.Rand) *fake {
	f := &fake{cfg: &events.Config{SelectCore: r.IntN(3) > 0, SelectMemory: r.IntN(4) > 0, Partitions: []*events.PartitionDef{{Name: "p", MaxNodes: events.Unlimited, Lln: r.IntN(6) == 0}}}}
	for i := range 1 + r.IntN(6) {
		def := &events.NodeDef{Names: fmt.Sprintf("n%d", i+1), Sockets: 1, ThreadsPerCore: uint32(1 + r.IntN(2)), CoresPerSocket: uint32(1 + r.IntN(6)),
			MemoryMib: uint64(1000 * (1 + r.IntN(4))), Weight: uint32(1 + r.IntN(2))}
		n := &projections.Node{Name: def.Names, Index: uint32(i), Def: def, Up: r.IntN(8) > 0, Partitions: []string{"p"}}
		if r.IntN(3) == 0 {
			def.Features = []string{"big"}
		}
		if r.IntN(2) == 0 {
			n.Gres = []*projections.NodeGres{{Name: "gpu", Type: "a", Count: uint64(1 + r.IntN(3))}, {Name: "gpu", Type: "b", Count: uint64(1 + r.IntN(2))}}
		}
		if r.IntN(2) == 0 {
			var used events.Words
			for core := range def.CoresPerSocket {
				if r.IntN(2) == 0 {
					used.AddRange(core*def.ThreadsPerCore, (core+1)*def.ThreadsPerCore-1)
				}
			}
			n.CpusUsed = used
			n.MemoryUsedMib = uint64(r.IntN(int(def.MemoryMib)))
			if !used.Empty() {
				n.Jobs = []uint32{1}
			}
			for _, g := range n.Gres {
				if r.IntN(2) == 0 {
					g.Used = events.WordsOf(0)
				}
			}
		}
		f.nodes = append(f.nodes, n)
	}
	return f
}

func randomSpec(r *rand.Rand) *events.JobSpec {
	s := &events.JobSpec{CpusPerTask: uint32(r.IntN(4)), Overcommit: r.IntN(20) == 0, Contiguous: r.IntN(12) == 0, Nomultithread: r.IntN(8) == 0}
	switch r.IntN(4) {
	case 0:
		s.Tasks = uint32(1 + r.IntN(12))
	case 1:
		s.MinNodes = uint32(1 + r.IntN(3))
		s.MaxNodes = s.MinNodes + uint32(r.IntN(3))
	case 2:
		s.MinNodes = uint32(1 + r.IntN(3))
		s.MaxNodes = s.MinNodes + uint32(r.IntN(2))
		s.Tasks = s.MinNodes + uint32(r.IntN(6))
	case 3:
		s.TasksPerNode = uint32(1 + r.IntN(3))
		s.MinNodes = uint32(1 + r.IntN(3))
	}
	switch r.IntN(5) {
	case 0:
		s.MemPerNodeMib = uint64(100 * (1 + r.IntN(20)))
	case 1:
		s.MemPerCpuMib = uint64(50 * (1 + r.IntN(10)))
	case 2:
		s.MemAll = true
	}
	switch r.IntN(6) {
	case 0:
		s.Gres = []*events.Gres{{Name: "gpu", Count: uint64(1 + r.IntN(3))}}
	case 1:
		s.Gres = []*events.Gres{{Name: "gpu", Type: "a", Count: 1, Scope: events.Scope_PER_TASK}}
	case 2:
		s.Gres = []*events.Gres{{Name: "gpu", Count: uint64(1 + r.IntN(5)), Scope: events.Scope_PER_JOB}}
	}
	if r.IntN(8) == 0 {
		s.Exclusive = events.Exclusive_EXCLUSIVE_NODE
	}
	if r.IntN(8) == 0 {
		s.Constraint = "big"
	}
	if r.IntN(8) == 0 {
		s.NodeList = "n1"
	}
	if r.IntN(8) == 0 {
		s.Exclude = "n2"
	}
	return s
}

// wrong says what is wrong with an allocation, looked at without any of the code that made it; empty if nothing is.
func wrong(f *fake, s *events.JobSpec, a *events.Allocation) string {
	names := a.NodeNames()
	tasks, gpus := 0, 0
	for i, name := range names {
		k := slices.IndexFunc(f.nodes, func(n *projections.Node) bool { return n.Name == name })
		n := f.nodes[k]
		share, _ := a.ForNode(name)
		cpus := events.Words(share.Cpus)
		total := n.Def.CoresPerSocket * n.Def.ThreadsPerCore
		var all events.Words
		all.AddRange(0, total-1)
		tasks += int(share.Tasks)
		perTask := int(max(s.CpusPerTask, 1))
		counted := cpus.Count()
		if s.Nomultithread {
			counted /= int(n.Def.ThreadsPerCore)
		}
		if c := int(share.Counted); c > 0 {
			if f.cfg.SelectCore || c > counted {
				return fmt.Sprintf("%s: %d of %d CPUs count", name, c, counted)
			}
			counted = c
		}
		switch {
		case !n.Up:
			return name + " is not up"
		case cpus.Empty() || !cpus.Within(all) || cpus.Intersects(n.CpusUsed):
			return fmt.Sprintf("%s: CPUs %s, in use %s of %d", name, cpus, events.Words(n.CpusUsed), total)
		case !s.Overcommit && counted < int(share.Tasks)*perTask:
			return fmt.Sprintf("%s: %d CPUs for %d tasks of %d", name, counted, share.Tasks, perTask)
		case f.cfg.SelectMemory && n.MemoryUsedMib+share.MemoryMib > n.Def.MemoryMib:
			return fmt.Sprintf("%s: %d MiB of %d, %d in use", name, share.MemoryMib, n.Def.MemoryMib, n.MemoryUsedMib)
		case f.cfg.SelectMemory && s.MemPerNodeMib > 0 && share.MemoryMib != s.MemPerNodeMib,
			f.cfg.SelectMemory && s.MemPerCpuMib > 0 && share.MemoryMib != s.MemPerCpuMib*uint64(counted),
			f.cfg.SelectMemory && s.MemAll && share.MemoryMib != n.Def.MemoryMib:
			return fmt.Sprintf("%s: %d MiB", name, share.MemoryMib)
		case s.Exclusive == events.Exclusive_EXCLUSIVE_NODE && (len(n.Jobs) > 0 || cpus.Count() != int(total)):
			return name + " is not had alone"
		case s.Constraint != "" && !slices.Contains(n.Def.Features, s.Constraint):
			return name + " has not the feature"
		case name == s.Exclude:
			return name + " is excluded"
		case s.TasksPerNode > 0 && share.Tasks != s.TasksPerNode:
			return fmt.Sprintf("%s: %d tasks, not %d", name, share.Tasks, s.TasksPerNode)
		case s.Contiguous && i > 0 && f.nodes[k-1].Name != names[i-1]:
			return name + " does not follow " + names[i-1]
		}
		if !f.cfg.SelectLinear && !f.cfg.SelectSocket {
			for core := range n.Def.CoresPerSocket {
				var c events.Words
				c.AddRange(core*n.Def.ThreadsPerCore, (core+1)*n.Def.ThreadsPerCore-1)
				if cpus.Intersects(c) && !c.Within(cpus) {
					return fmt.Sprintf("%s: half of core %d", name, core)
				}
			}
		}
		here := 0
		for _, g := range share.Gres {
			h := n.Gres[slices.IndexFunc(n.Gres, func(x *projections.NodeGres) bool { return x.Type == g.Type })]
			last, _ := events.Words(g.Ids).Last()
			if events.Words(g.Ids).Intersects(h.Used) || uint64(last) >= h.Count {
				return fmt.Sprintf("%s: gpu:%s %s, in use %s of %d", name, g.Type, events.Words(g.Ids), events.Words(h.Used), h.Count)
			}
			if len(s.Gres) == 0 || s.Gres[0].Type == "" || s.Gres[0].Type == g.Type {
				here += events.Words(g.Ids).Count()
			}
		}
		gpus += here
		if len(s.Gres) > 0 && s.Exclusive == 0 {
			want := int(s.Gres[0].Count)
			if s.Gres[0].Scope == events.Scope_PER_TASK {
				want *= int(share.Tasks)
			}
			if s.Gres[0].Scope != events.Scope_PER_JOB && here != want {
				return fmt.Sprintf("%s: %d GPUs, not %d", name, here, want)
			}
		}
	}
	q, _ := RequestOf(s)
	switch {
	case len(names) < int(s.MinNodes) && s.Tasks >= s.MinNodes, s.MaxNodes > 0 && len(names) > int(s.MaxNodes):
		return fmt.Sprintf("%d nodes", len(names))
	case s.Tasks > 0 && tasks != q.Tasks:
		return fmt.Sprintf("%d tasks", tasks)
	case len(s.Gres) > 0 && s.Gres[0].Scope == events.Scope_PER_JOB && gpus != int(s.Gres[0].Count) && s.Exclusive == 0:
		return fmt.Sprintf("%d GPUs in all", gpus)
	case s.NodeList != "" && !slices.Contains(names, s.NodeList):
		return "without " + s.NodeList
	}
	return ""
}

// anySet says whether any set of the nodes does, by trying them all: each with as many tasks and devices as it alone can take.
func (b *Board) anySet(q *Request) bool {
	p := b.parts["p"]
	e := b.eligibleNodes(q, p)
	if len(e.unavailable) > 0 {
		return false
	}
	need := 0
	if g := q.pooled(); g != nil {
		need = g.PerJob
	}
	for _, list := range e.alternatives {
	sets:
		for set := 1; set < 1<<len(b.nodes); set++ {
			count, tasks, pool, last := 0, 0, 0, -1
			for i := range b.nodes {
				if set>>i&1 == 0 {
					continue
				}
				if !slices.Contains(list, int32(i)) || q.Contiguous && last >= 0 && last != i-1 {
					continue sets
				}
				last = i
				var r room
				b.look(&b.nodes[i], Window{To: Forever}, &r)
				t, c := b.capacity(&b.nodes[i], q, q.Exclusive, p, &r)
				if t == 0 {
					continue sets
				}
				count, tasks, pool = count+1, tasks+t, pool+c
			}
			for _, n := range e.required {
				if set>>n&1 == 0 {
					continue sets
				}
			}
			if count >= q.MinNodes && count <= q.MaxNodes && tasks >= q.Tasks && pool >= need {
				return true
			}
		}
	}
	return false
}

func TestPlacementsAreRightAndComplete(t *testing.T) {
	const n = 20_000
	placed, missed := 0, 0
	for seed := range uint64(n) {
		r := rand.New(rand.NewPCG(seed, 1))
		f, s := randomCluster(r), randomSpec(r)
		q, problem := RequestOf(s)
		if problem != nil {
			continue
		}
		b := NewBoard(f)
		a := b.Place(q, "p", Window{To: Forever})
		if a == nil {
			if b.anySet(q) {
				if q.pooled() == nil || q.Tasks == 0 {
					t.Fatalf("seed %d: %v does not fit on %v, and some nodes do", seed, s, f.nodes)
				}
				missed++
			}
			continue
		}
		placed++
		if text := wrong(f, s, a); text != "" {
			t.Fatalf("seed %d: %v on %v: %v: %s", seed, s, f.nodes, a, text)
		}
		before := fmt.Sprint(b.nodes[0].free, b.nodes[0].memFree)
		b.Take(a)
		a.Each(func(_ int, name string, share *events.NodeShare) bool {
			b.nodes[b.byName[name]].give(share)
			return true
		})
		if after := fmt.Sprint(b.nodes[0].free, b.nodes[0].memFree); after != before {
			t.Fatalf("seed %d: taken and given back, n1 has %s, before %s", seed, after, before)
		}
	}
	t.Logf("%d of %d placed, %d missed", placed, n, missed)
	if placed < n/10 || missed > placed/200 {
		t.Fatalf("%d of %d placed, %d missed", placed, n, missed)
	}
}

// laid writes what a placement gives: for each node its CPUs that count, the CPUs of its cores and its tasks.
func laid(a *events.Allocation) string {
	var out []string
	a.Each(func(_ int, name string, s *events.NodeShare) bool {
		out = append(out, fmt.Sprintf("%s:%d/%d:%d", name, s.CountedCPUs(), events.Words(s.Cpus).Count(), s.Tasks))
		return true
	})
	return strings.Join(out, " ")
}

// Where a core has two threads: what each of four equal nodes gets, by whole cores and by CPUs, as the real one deals it.
func TestDeal(t *testing.T) {
	for _, c := range []struct {
		spec        *events.JobSpec
		cores, cpus string
	}{
		{&events.JobSpec{}, "n1:2/2:1", "n1:1/2:1"},
		{&events.JobSpec{Tasks: 3}, "n1:4/4:3", "n1:3/4:3"},
		{&events.JobSpec{Tasks: 3, TasksPerCore: 1}, "n1:6/6:3", "n1:3/6:3"},
		{&events.JobSpec{Tasks: 3, MinNodes: 2, MaxNodes: 2}, "n1:2/2:2 n2:2/2:1", "n1:1/2:1 n2:2/2:2"},
		{&events.JobSpec{Tasks: 12, MinNodes: 1, MaxNodes: 2}, "n1:12/12:10 n2:2/2:2", "n1:11/12:11 n2:1/2:1"},
		{&events.JobSpec{Tasks: 5, MinNodes: 1, MaxNodes: 3}, "n1:4/4:2 n2:2/2:2 n3:2/2:1", "n1:3/4:3 n2:1/2:1 n3:1/2:1"},
		{&events.JobSpec{Tasks: 5, MinNodes: 2, MaxNodes: 3}, "n1:2/2:2 n2:2/2:2 n3:2/2:1", "n1:2/2:2 n2:2/2:2 n3:1/2:1"},
		{&events.JobSpec{Tasks: 9, MinNodes: 2, MaxNodes: 4}, "n1:6/6:3 n2:2/2:2 n3:2/2:2 n4:2/2:2", "n1:5/6:5 n2:2/2:2 n3:1/2:1 n4:1/2:1"},
		{&events.JobSpec{Tasks: 9, MinNodes: 3, MaxNodes: 4}, "n1:4/4:3 n2:2/2:2 n3:2/2:2 n4:2/2:2", "n1:4/4:4 n2:2/2:2 n3:2/2:2 n4:1/2:1"},
		{&events.JobSpec{Tasks: 11, MinNodes: 3, MaxNodes: 3}, "n1:8/8:7 n2:2/2:2 n3:2/2:2", "n1:7/8:7 n2:2/2:2 n3:2/2:2"},
		{&events.JobSpec{Tasks: 8, MinNodes: 1, MaxNodes: 4}, "n1:6/6:2 n2:2/2:2 n3:2/2:2 n4:2/2:2", "n1:5/6:5 n2:1/2:1 n3:1/2:1 n4:1/2:1"},
		{&events.JobSpec{Tasks: 5, CpusPerTask: 3, MinNodes: 2, MaxNodes: 2}, "n1:12/12:4 n2:4/4:1", "n1:12/12:4 n2:3/4:1"},
		{&events.JobSpec{Tasks: 5, CpusPerTask: 2, MinNodes: 1, MaxNodes: 3}, "n1:6/6:3 n2:2/2:1 n3:2/2:1", "n1:6/6:3 n2:2/2:1 n3:2/2:1"},
		{&events.JobSpec{Tasks: 4, TasksPerNode: 2, Overcommit: true}, "n1:2/2:2 n2:2/2:2", "n1:1/2:2 n2:1/2:2"},
		{&events.JobSpec{Tasks: 9, MinCpusPerNode: 3, Overcommit: true}, "n1:2/2:9", "n1:1/2:9"},
		{&events.JobSpec{Tasks: 1, NodeList: "n3,n1", MinNodes: 2}, "n1:2/2:1", "n1:1/2:1"},
		{&events.JobSpec{Tasks: 7, Nomultithread: true, MinNodes: 2, MaxNodes: 2}, "n1:12/12:6 n2:2/2:1", "n1:6/12:6 n2:1/2:1"},
	} {
		for core, want := range map[bool]string{true: c.cores, false: c.cpus} {
			f := &fake{cfg: &events.Config{SelectCore: core, Partitions: []*events.PartitionDef{{Name: "p", MaxNodes: events.Unlimited}}}}
			for i := range uint32(4) {
				name := fmt.Sprintf("n%d", i+1)
				f.nodes = append(f.nodes, &projections.Node{Name: name, Index: i, Up: true, Partitions: []string{"p"},
					Def: &events.NodeDef{Names: name, Cpus: 16, Sockets: 2, CoresPerSocket: 4, ThreadsPerCore: 2, MemoryMib: 16000}})
			}
			q, problem := RequestOf(c.spec)
			if problem != nil {
				t.Fatal(problem)
			}
			if got := laid(NewBoard(f).Place(q, "p", Window{To: Forever})); got != want {
				t.Errorf("%v, cores %v: %s, want %s", c.spec, core, got, want)
			}
		}
	}
}

// Nodes of eight cores with one thread: a range of nodes is served in turn, within what the first ones are counted for.
func TestDealInTurn(t *testing.T) {
	for _, c := range []struct {
		tasks, least, most uint32
		want               string
	}{
		{16, 1, 4, "n1:7/7:7 n2:7/7:7 n3:1/1:1 n4:1/1:1"},
		{14, 1, 4, "n1:6/6:6 n2:6/6:6 n3:1/1:1 n4:1/1:1"},
		{12, 1, 3, "n1:7/7:7 n2:4/4:4 n3:1/1:1"},
		{19, 2, 4, "n1:8/8:8 n2:7/7:7 n3:3/3:3 n4:1/1:1"},
	} {
		for _, core := range []bool{true, false} {
			f := &fake{cfg: &events.Config{SelectCore: core, Partitions: []*events.PartitionDef{{Name: "p", MaxNodes: events.Unlimited}}}}
			for i := range uint32(4) {
				name := fmt.Sprintf("n%d", i+1)
				f.nodes = append(f.nodes, &projections.Node{Name: name, Index: i, Up: true, Partitions: []string{"p"},
					Def: &events.NodeDef{Names: name, Cpus: 8, Sockets: 1, CoresPerSocket: 8, ThreadsPerCore: 1, MemoryMib: 16000}})
			}
			q, problem := RequestOf(&events.JobSpec{Tasks: c.tasks, MinNodes: c.least, MaxNodes: c.most})
			if problem != nil {
				t.Fatal(problem)
			}
			if got := laid(NewBoard(f).Place(q, "p", Window{To: Forever})); got != c.want {
				t.Errorf("%d tasks on %d-%d nodes, cores %v: %s, want %s", c.tasks, c.least, c.most, core, got, c.want)
			}
		}
	}
}
