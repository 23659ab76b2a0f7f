package tasks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"stint/executor/pmi"
)

// How the tasks of a step find each other, for MPI (--mpi). What nodes have to tell each other goes by way of srun, to which each
// has a connection: when the last node of a gathering has sent its part, all get what all have sent.

// wiring is one way to do that, on one node.
type wiring interface {
	// environ is what the i-th task of the node, of this rank, finds in its environment beside the rest.
	environ(rank uint32, i int) []string
	// connect adds what the task inherits. Files that are to be closed here once it has started are added to files.
	connect(rank uint32, i int, attr *os.ProcAttr, files *[]*os.File) error
	// gone says that a task is over.
	gone(rank uint32)
	close()
}

// wire makes what the launcher wants; nil: nothing.
func (k *keeper) wire(m *Mpi) (wiring, error) {
	switch m.GetKind() {
	case "", "none":
		return nil, nil
	case "pmi2":
		return newPMI(k, m), nil
	case "pmix":
		w, err := newPMIx(k, m)
		switch {
		case err == nil:
			return w, nil
		case m.ByDefault && errors.Is(err, fs.ErrNotExist):
			return nil, nil
		}
		return nil, err
	}
	return nil, fmt.Errorf("%s is not known on node %s", m.Kind, k.order.Name)
}

// pmiWiring serves PMI over a pair of sockets for each task.
type pmiWiring struct {
	k       *keeper
	server  *pmi.Server
	id      string
	size    int
	mu      sync.Mutex
	parents map[uint32]*os.File
}

// firstPMI is the descriptor of a node's first task; each further one has one two higher. Programs ask the environment, where it
// stands; scripts have been seen that rely on Slurm's numbers.
const firstPMI = 11

func newPMI(k *keeper, m *Mpi) *pmiWiring {
	w := &pmiWiring{k: k, id: m.Id, parents: map[uint32]*os.File{}}
	var nodes [][]uint32
	for _, p := range m.Places {
		nodes = append(nodes, p.Tasks)
		w.size += len(p.Tasks)
	}
	w.server = pmi.New(pmi.Job{ID: w.id, Size: w.size, Ranks: k.order.Tasks, Universe: w.size, Mapping: pmi.Mapping(nodes)})
	w.server.Fence = func(n int, puts []pmi.Pair) ([]pmi.Pair, error) {
		all, err := k.meet(fenceKey(n), nil, pmi.Encode(nil, puts))
		if err != nil {
			return nil, err
		}
		return pmi.Decode(all)
	}
	w.server.Forgo = func(n int) {
		k.forgo(fenceKey(n), fmt.Sprintf("a task of %s is over and will never come", k.order.Name))
	}
	w.server.Abort = func(rank uint32, code int, text string) { k.quit(rank, text) }
	return w
}

func fenceKey(n int) string { return "pmi " + strconv.Itoa(n) }

func (w *pmiWiring) environ(rank uint32, i int) []string {
	return []string{fmt.Sprintf("PMI_FD=%d", firstPMI+2*i), "PMI_JOBID=" + w.id, fmt.Sprintf("PMI_RANK=%d", rank), fmt.Sprintf("PMI_SIZE=%d", w.size)}
}

func (w *pmiWiring) connect(rank uint32, i int, attr *os.ProcAttr, files *[]*os.File) error {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("its PMI_FD: %w", err)
	}
	if err := unix.SetNonblock(ends[0], true); err != nil {
		return fmt.Errorf("its PMI_FD: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "PMI"), os.NewFile(uintptr(ends[1]), "PMI_FD")
	*files = append(*files, theirs)
	for len(attr.Files) <= firstPMI+2*i {
		attr.Files = append(attr.Files, nil)
	}
	attr.Files[firstPMI+2*i] = theirs
	w.mu.Lock()
	w.parents[rank] = ours
	w.mu.Unlock()
	go func() {
		if err := w.server.Serve(rank, ours); err != nil && !errors.Is(err, os.ErrClosed) && !errors.Is(err, unix.ECONNRESET) {
			w.k.say("slurmstepd: error: mpi/pmi2: %v", err)
		}
	}()
	return nil
}

func (w *pmiWiring) gone(rank uint32) {
	w.server.Gone(rank)
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.parents[rank]; f != nil {
		f.Close()
	}
}

func (w *pmiWiring) close() {}

// quit has srun end the whole step: a task wants it.
func (k *keeper) quit(rank uint32, text string) {
	k.cancelled()
	k.peer.Send(KindQuit, rank, []byte(text))
}

// gatherings are the meetings of nodes that this one waits for.
type gatherings struct {
	mu      sync.Mutex
	waiting map[string]chan *Gather
	data    map[string][]byte // of answers that come in pieces
	closed  bool
}

// gatherPiece is how much of a meeting's data goes into one frame.
const gatherPiece = 1 << 20

var errHungUp = errors.New("srun is gone")

// meet gives this node's part of a meeting, and waits for what all have given. nodes are those that take part; none: all.
func (k *keeper) meet(key string, nodes []uint32, data []byte) ([]byte, error) {
	g := &k.meets
	answer := make(chan *Gather, 1)
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil, errHungUp
	}
	if g.waiting == nil {
		g.waiting, g.data = map[string]chan *Gather{}, map[string][]byte{}
	}
	g.waiting[key] = answer
	g.mu.Unlock()
	if err := TellGather(k.peer, &Gather{Key: key, Nodes: nodes, Data: data}); err != nil {
		return nil, err
	}
	m := <-answer
	if m == nil {
		return nil, errHungUp
	}
	if m.Failed != "" {
		return nil, errors.New(m.Failed)
	}
	return m.Data, nil
}

// forgo says that this node will not come to a meeting.
func (k *keeper) forgo(key, why string) { k.peer.Tell(KindGather, 0, &Gather{Key: key, Failed: why}) }

// TellGather sends a Gather, in pieces if it has much to say.
func TellGather(p *Peer, m *Gather) error {
	data := m.Data
	for {
		n := min(len(data), gatherPiece)
		part := &Gather{Key: m.Key, Nodes: m.Nodes, Data: data[:n], More: n < len(data), Failed: m.Failed}
		if err := p.Tell(KindGather, 0, part); err != nil {
			return err
		}
		if data = data[n:]; len(data) == 0 {
			return nil
		}
	}
}

// answered takes in an answer, or a piece of one.
func (g *gatherings) answered(m *Gather) {
	g.mu.Lock()
	defer g.mu.Unlock()
	to := g.waiting[m.Key]
	if to == nil {
		return
	}
	if m.More {
		g.data[m.Key] = append(g.data[m.Key], m.Data...)
		return
	}
	m.Data = append(g.data[m.Key], m.Data...)
	delete(g.data, m.Key)
	delete(g.waiting, m.Key)
	to <- m
}

// hangUp lets nobody wait any more: the launcher is gone.
func (g *gatherings) hangUp() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for key, to := range g.waiting {
		delete(g.waiting, key)
		close(to)
	}
}

// fetched takes in a question of another node, or the answer to one of this node's.
func (k *keeper) fetched(m *Fetch) {
	if w, ok := k.wiring.(*pmixWiring); ok {
		w.peer.Tell(KindFetch, 0, m)
		return
	}
	if !m.Answer {
		m.Answer, m.Status = true, -1
		k.peer.Tell(KindFetch, 0, m)
	}
}
