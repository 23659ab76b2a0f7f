package commands

import (
	"slices"
	"sync"
	"time"

	"stint/executor/tasks"
)

// Others who look on: sattach connects to the step's srun as nodes do, hears what tasks write and how they end, and passes on what
// it reads. What it missed it gets as far as srun has kept it.

// attached are those who look on at a step.
type attached struct {
	mu     sync.Mutex
	list   []*onlooker
	kept   []tasks.Frame // the last of what tasks wrote
	bytes  int
	ends   [][]byte // what was told of tasks that ended
	closed bool
}

// onlooker is one of them. What it does not take in time is kept for it up to a point.
type onlooker struct {
	peer *tasks.Peer
	line chan tasks.Frame
}

const (
	keptFrames   = 128
	keptBytes    = 256 << 10
	onlookerLine = 1024
)

// wrote passes on what a task wrote.
func (a *attached) wrote(k tasks.Kind, rank uint32, data []byte) {
	f := tasks.Frame{Kind: k, Number: rank, Data: data}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(data) > 0 {
		a.kept, a.bytes = append(a.kept, f), a.bytes+len(data)
		for len(a.kept) > keptFrames || a.bytes > keptBytes && len(a.kept) > 1 {
			a.bytes -= len(a.kept[0].Data)
			a.kept = a.kept[1:]
		}
	}
	a.pass(f)
}

// ended passes on how tasks ended.
func (a *attached) ended(told []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ends = append(a.ends, told)
	a.pass(tasks.Frame{Kind: tasks.KindExited, Data: told})
}

// pass gives a frame to all. One that does not read is let go: it must not hold up the tasks. The caller holds a.mu.
func (a *attached) pass(f tasks.Frame) {
	left := a.list[:0]
	for _, o := range a.list {
		select {
		case o.line <- f:
			left = append(left, o)
		default:
			close(o.line)
		}
	}
	a.list = left
}

// over lets them all go, once they have heard.
func (a *attached) over() {
	a.mu.Lock()
	a.closed = true
	list := a.list
	a.list = nil
	a.mu.Unlock()
	for _, o := range list {
		select {
		case o.line <- tasks.Frame{Kind: tasks.KindOver}:
		default:
		}
		close(o.line)
	}
}

// attach takes one more in, and passes on what it sends, until it leaves.
func (l *launcher) attach(c *component, peer *tasks.Peer) {
	o := &onlooker{peer: peer, line: make(chan tasks.Frame, onlookerLine)}
	a := &c.attached
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		peer.Close()
		return
	}
	for _, f := range a.kept {
		o.line <- f
	}
	for _, told := range a.ends {
		select {
		case o.line <- tasks.Frame{Kind: tasks.KindExited, Data: told}:
		default:
		}
	}
	a.list = append(a.list, o)
	a.mu.Unlock()
	l.onlookers.Go(func() {
		defer peer.Close()
		for f := range o.line {
			if peer.Send(f.Kind, f.Number, f.Data) != nil {
				return
			}
		}
	})
	for {
		f, err := peer.Next()
		if err != nil {
			return
		}
		select {
		case <-l.begun:
		case <-l.finished:
			return
		}
		switch f.Kind {
		case tasks.KindStdin:
			if len(f.Data) > 0 { // what one of several has no more of is no end
				l.pass(l.targets(c, f.Number), f.Data)
			}
		case tasks.KindSize:
			for _, n := range l.targets(c, tasks.AllTasks) {
				n.peer.Send(f.Kind, f.Number, f.Data)
			}
		}
	}
}

// targets are the nodes of a component with a task, or all of them. The rank is one within the component.
func (l *launcher) targets(c *component, rank uint32) (out []target) {
	for _, n := range l.nodes {
		switch global := rank + uint32(c.first); {
		case n.of != c:
		case rank == tasks.AllTasks:
			out = append(out, target{n, rank})
		case slices.Contains(n.tasks, global):
			out = append(out, target{n, global})
		}
	}
	return out
}

// dismiss lets those who look on hear the rest.
func (l *launcher) dismiss() {
	for _, c := range l.parts {
		c.attached.over()
	}
	done := make(chan struct{})
	go func() {
		l.onlookers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}
