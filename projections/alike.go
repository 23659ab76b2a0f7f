package projections

import (
	"sync"

	"stint/events"
	"stint/events/hostlist"
)

// Alike answers questions about all nodes (AskNodes.alike) with those told together that look alike: an answer about a cluster of
// thousands of equal nodes has a few hundred bytes. What it found out of a page of the table of nodes holds as long as the page does,
// which never changes once it is in a view; so a question costs what has changed since the last one. Its methods may be called at
// the same time.
type Alike struct {
	mu     sync.Mutex
	pages  []likes
	config *events.Config
	body   []byte // of the answer to the last question, without what it is current to
}

// likes are the nodes of a page: what they look like, encoded, and who does.
type likes struct {
	page  *page[Node]
	least int // nodes of the page that are configured
	kinds []string
	runs  []AlikeNodes // their kinds are those of the page
}

// Encode is Reply, encoded, for a question that takes nodes told together. Who may not see all of them is told as Reply does.
func (a *Alike) Encode(v *View, ask *Ask) ([]byte, error) {
	sight := SightOf(v.Config(), ask.Uid)
	if sight.Private(events.Private_PRIVATE_NODES) || sight.Private(events.Private_PRIVATE_PARTITIONS) {
		return Reply(v, nil, ask).MarshalVT()
	}
	body, err := a.answer(v)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(body)+40)
	out = appendNumber(appendNumber(out, 1, v.Seq()), 2, uint64(v.At()))
	return append(appendLength(out, 5, uint64(len(body))), body...), nil
}

// answer is the encoded AnswerNodes of a view.
func (a *Alike) answer(v *View) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	same := a.config == v.config
	n := 0
	for ci, c := range v.nodes.root {
		if c == nil {
			continue
		}
		for pi, p := range c.pages {
			first := ci<<16 | pi<<pageBits
			configured := min(v.layout.configured-first, pageSize)
			if p == nil || configured <= 0 {
				continue
			}
			if n == len(a.pages) {
				a.pages = append(a.pages, likes{})
			}
			if l := &a.pages[n]; l.page != p || l.least != configured {
				same = false
				if err := l.read(p, configured); err != nil {
					a.pages = a.pages[:n]
					return nil, err
				}
			}
			n++
		}
	}
	same = same && n == len(a.pages)
	a.pages = a.pages[:n]
	if same {
		return a.body, nil
	}
	var kinds, runs []byte
	numbers := map[string]uint32{}
	for i := range a.pages {
		l := &a.pages[i]
		for _, run := range l.runs {
			kind := l.kinds[run.Kind]
			number, told := numbers[kind]
			if !told {
				number = uint32(len(numbers))
				numbers[kind] = number
				kinds = append(appendLength(kinds, 7, uint64(len(kind))), kind...)
			}
			run.Kind = number
			data, err := run.MarshalVT()
			if err != nil {
				return nil, err
			}
			runs = append(appendLength(runs, 8, uint64(len(data))), data...)
		}
	}
	rest, err := (&AnswerNodes{Partitions: v.Partitions(), Config: v.Config()}).MarshalVT()
	if err != nil {
		return nil, err
	}
	a.config, a.body = v.config, append(append(rest, kinds...), runs...)
	return a.body, nil
}

// read finds out who looks alike of the first nodes of a page.
func (l *likes) read(p *page[Node], configured int) error {
	*l = likes{page: p, least: configured}
	numbers := map[string]uint32{}
	var names []string
	var node Node
	var def events.NodeDef
	var inventory events.Inventory
	var buf []byte
	end := func() {
		if n := len(l.runs); n > 0 {
			l.runs[n-1].Count, l.runs[n-1].Names = uint32(len(names)), hostlist.Compress(names)
		}
		names = names[:0]
	}
	for _, n := range p.recs[:configured] {
		if n == nil {
			continue
		}
		alike(&node, &def, &inventory, n)
		size := node.SizeVT()
		if size > cap(buf) {
			buf = make([]byte, 2*size)
		}
		if _, err := node.MarshalToSizedBufferVT(buf[:size]); err != nil {
			return err
		}
		number, known := numbers[string(buf[:size])]
		if !known {
			kind := string(buf[:size])
			number = uint32(len(l.kinds))
			numbers[kind] = number
			l.kinds = append(l.kinds, kind)
		}
		if last := len(l.runs) - 1; last < 0 || l.runs[last].Kind != number || l.runs[last].Index+uint32(len(names)) != n.Index {
			end()
			l.runs = append(l.runs, AlikeNodes{Kind: number, Index: n.Index})
		}
		names = append(names, n.Name)
	}
	end()
	return nil
}

// alike makes of a node what it may have in common with others: without what is its own, and of the CPUs in use how many. What a
// column or a filter shows of it besides makes whoever asks ask for nodes one by one (cli/slurm/format, Alike).
func alike(to *Node, def *events.NodeDef, inventory *events.Inventory, n *Node) {
	d, i := n.GetDef(), n.GetInventory()
	*def = events.NodeDef{
		Boards: d.GetBoards(), Sockets: d.GetSockets(), CoresPerSocket: d.GetCoresPerSocket(), ThreadsPerCore: d.GetThreadsPerCore(), Cpus: d.GetCpus(),
		MemoryMib: d.GetMemoryMib(), TmpDiskMib: d.GetTmpDiskMib(), Gres: d.GetGres(), Features: d.GetFeatures(), Weight: d.GetWeight(),
	}
	*to = Node{
		Def: def, Up: n.Up, Drain: n.Drain, Down: n.Down, Lost: n.Lost, Fail: n.Fail, Reason: n.Reason,
		CpusUsed: lowest(events.Words(n.CpusUsed).Count()), Gres: unused(n.Gres), Partitions: n.Partitions, Invalid: n.Invalid, NeverUp: n.NeverUp,
		Comment: n.Comment, Future: n.Future, ActiveFeatures: n.ActiveFeatures, HasActive: n.HasActive,
	}
	if i != nil {
		*inventory = events.Inventory{
			Boards: i.Boards, Sockets: i.Sockets, CoresPerSocket: i.CoresPerSocket, ThreadsPerCore: i.ThreadsPerCore, Cpus: i.Cpus, MemoryMib: i.MemoryMib, TmpDiskMib: i.TmpDiskMib,
		}
		to.Inventory = inventory
	}
}

// lowest is a set of so many numbers.
func lowest(n int) []uint64 {
	var words []uint64
	for ; n >= 64; n -= 64 {
		words = append(words, ^uint64(0))
	}
	if n > 0 {
		words = append(words, 1<<n-1)
	}
	return words
}

// unused is what there is, without which of it is in use.
func unused(list []*NodeGres) []*NodeGres {
	if len(list) == 0 {
		return nil
	}
	all := make([]NodeGres, len(list))
	out := make([]*NodeGres, len(list))
	for i, g := range list {
		all[i].Name, all[i].Type, all[i].Count = g.Name, g.Type, g.Count
		out[i] = &all[i]
	}
	return out
}
