package executor

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"stint/events"
	"stint/executor/tasks"
	"stint/projections"
)

// board is what the first node of a run knows of its steps: the numbers that were given out, and what lives where. It is written
// nowhere. An executor that comes after this one, and another node when this one is lost, makes it anew from what the nodes say lives
// on them and from the numbers that are in the log.
type board struct {
	mu      sync.Mutex
	known   bool // it was made anew, or the run had just begun
	next    uint32
	aside   uint32 // so many have run aside
	live    []*tasks.Live
	made    map[string]*making // by nonce: a question that is put again gets the same answer
	given   []given            // of a heterogeneous job: the last numbers, so that the parts of a step in all components have the same
	changed chan struct{}      // closed when something has become free
}

// making is a step on its way.
type making struct {
	done  chan struct{}
	reply *tasks.Reply
}

func newBoard(known bool) *board {
	return &board{known: known, made: map[string]*making{}, changed: make(chan struct{})}
}

// hearRuns takes in what an answer says should run here. The caller holds e.mu.
func (e *executor) hearRuns(runs []*projections.NodeRun) {
	clear(e.runs)
	for _, r := range runs {
		e.runs[r.GetJob().GetId()] = r
	}
	close(e.answered)
	e.answered = make(chan struct{})
	e.boardsMu.Lock()
	defer e.boardsMu.Unlock()
	for k := range e.boards {
		if r := e.runs[k[0]]; r == nil || r.GetJob().GetRun() != k[1] {
			delete(e.boards, k)
		}
	}
	for _, r := range runs {
		job := r.GetJob()
		k := [2]uint32{job.GetId(), job.GetRun()}
		if e.boards[k] == nil && job.GetAllocation().FirstNode() == e.conf.Node {
			// Of a run that nobody has heard of yet there are no steps.
			e.boards[k] = newBoard(job.RunNode(e.conf.Node).GetStartedUs() == 0 && job.GetNextStep() == 0 && job.GetResizedUs() == 0)
		}
	}
}

// boardOf returns the board of a run whose first node this is, made anew if need be; nil: that cannot be done now.
func (e *executor) boardOf(ctx context.Context, job *projections.Job) *board {
	k := [2]uint32{job.GetId(), job.GetRun()}
	e.boardsMu.Lock()
	b := e.boards[k]
	if b == nil {
		b = newBoard(false)
		e.boards[k] = b
	}
	e.boardsMu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.known && !e.remake(ctx, b, job) {
		return nil
	}
	return b
}

// remakePatience is how long nodes may take to say what lives on them. One that does not answer is likely to be lost, and its steps
// with it.
const remakePatience = 5 * time.Second

// remake learns from the nodes of a run which steps live. A node that has answered knows the state as this one does, and takes no
// step any more from a node that was the first before. The caller holds b.mu.
func (e *executor) remake(ctx context.Context, b *board, job *projections.Job) bool {
	ctx, cancel := context.WithTimeout(ctx, remakePatience)
	defer cancel()
	e.mu.Lock()
	seq := e.seen
	e.mu.Unlock()
	w := &tasks.Which{Job: job.GetId(), Run: job.GetRun(), LeastSeq: seq}
	names := job.GetAllocation().NodeNames()
	replies := make([]*tasks.Reply, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			if name == e.conf.Node {
				replies[i] = e.whichSteps(w)
			} else if r, err := e.askNode(ctx, name, &tasks.Question{What: &tasks.Question_Which{Which: w}}); err == nil {
				replies[i] = r
			} else {
				e.log.Warn("a node does not say which steps live there", "node", name, "job", job.GetId(), "error", err)
			}
		})
	}
	all.Wait()
	if own := replies[0]; own.GetRefusal() != tasks.Refusal_NOT_REFUSED {
		return false
	}
	b.next, b.live = max(b.next, job.GetNextStep()), nil
	for i, r := range replies {
		for _, n := range r.GetLiving() {
			if events.IsAside(n.Step) {
				b.aside = max(b.aside, n.Step-events.StepAside+1)
			} else {
				b.next = max(b.next, n.Step+1)
			}
			at := slices.IndexFunc(b.live, func(l *tasks.Live) bool { return l.Step == n.Step })
			if at < 0 {
				at = len(b.live)
				b.live = append(b.live, &tasks.Live{Step: n.Step, Nonce: n.Nonce, Overlap: n.Overlap, Launcher: n.Launcher})
			}
			l := b.live[at]
			l.Parts, l.Open = append(l.Parts, n.Part), append(l.Open, names[i])
		}
	}
	if job.Leads() {
		e.remakeNumbers(ctx, b, job, seq)
	}
	b.known = true
	return true
}

// partEnded frees what a step has on a node.
func (e *executor) partEnded(k key, node string) {
	e.boardsMu.Lock()
	b := e.boards[[2]uint32{k.job, k.run}]
	e.boardsMu.Unlock()
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, l := range b.live {
		at := slices.Index(l.Open, node)
		if l.Step != k.step || at < 0 {
			continue
		}
		if l.Open = slices.Delete(l.Open, at, at+1); len(l.Open) == 0 {
			b.live = slices.Delete(b.live, i, i+1)
			delete(b.made, string(l.Nonce))
		}
		close(b.changed)
		b.changed = make(chan struct{})
		return
	}
}

// whichSteps says which steps of a run live here.
func (e *executor) whichSteps(w *tasks.Which) *tasks.Reply {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client == nil {
		return refusal(tasks.Refusal_FAILED, "its supervisor is away")
	}
	r := &tasks.Reply{}
	for k, st := range e.steps {
		if k.job != w.Job || k.run != w.Run || events.IsMainStep(k.step) || !(st.launching || st.started != nil) || st.exited != nil {
			continue
		}
		if n := st.noted(); n != nil {
			r.Living = append(r.Living, n)
		}
	}
	slices.SortFunc(r.Living, func(a, b *tasks.Note) int { return int(a.Step) - int(b.Step) })
	return r
}

// checkSteps compares what this node has given out with what lives: a word may have been lost.
func (e *executor) checkSteps(ctx context.Context) {
	type doubt struct {
		k    key
		node string
	}
	var doubts []doubt
	e.boardsMu.Lock()
	boards := maps.Clone(e.boards)
	e.boardsMu.Unlock()
	for k, b := range boards {
		b.mu.Lock()
		for _, l := range b.live {
			if m := b.made[string(l.Nonce)]; m != nil {
				select {
				case <-m.done:
				default:
					continue // on its way
				}
			}
			for _, node := range l.Open {
				doubts = append(doubts, doubt{key{k[0], k[1], l.Step}, node})
			}
		}
		b.mu.Unlock()
	}
	known := map[doubt]*tasks.Reply{}
	for _, d := range doubts {
		of := doubt{key{d.k.job, d.k.run, 0}, d.node}
		reply, ok := known[of]
		if !ok {
			w := &tasks.Which{Job: d.k.job, Run: d.k.run}
			if d.node == e.conf.Node {
				reply = e.whichSteps(w)
			} else if r, err := e.askNode(ctx, d.node, &tasks.Question{What: &tasks.Question_Which{Which: w}}); err == nil {
				reply = r
			} else {
				reply = refusal(tasks.Refusal_FAILED, "%v", err)
			}
			known[of] = reply
		}
		if reply.Refusal == tasks.Refusal_NOT_REFUSED && !slices.ContainsFunc(reply.Living, func(n *tasks.Note) bool { return n.Step == d.k.step }) {
			e.partEnded(d.k, d.node)
		}
	}
}
