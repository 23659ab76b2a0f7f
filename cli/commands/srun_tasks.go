package commands

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"stint/events"
	"stint/events/hostlist"
	"stint/executor/tasks"
)

// The talk with nodes while tasks run: who has begun, who has ended, and how.

// nodeEnd is the talk with one node.
type nodeEnd struct {
	of    *component
	name  string
	tasks []uint32 // their ranks in all of the step
	peer  *tasks.Peer
	room  int // bytes of stdin that may still be sent; guarded by window's lock
	gone  bool
}

type taskState struct {
	node  int
	state byte // 0: not started, 1: runs, 2: over
}

// exitNote is tasks of a node that ended alike, and not well.
type exitNote struct {
	node  int
	text  string
	ranks []uint32
}

// comeTime is how long nodes may take to come once they have started their part.
const comeTime = 60 * time.Second

// leave closes what is open to the nodes: those that have come late or were never told to begin end by that.
func (l *launcher) leave() {
	for _, n := range l.nodes {
		if n.peer != nil {
			n.peer.Close()
		}
	}
}

// gather waits until all nodes have come, and has them begin.
func (l *launcher) gather() (code int, ok bool) {
	late := time.NewTimer(comeTime)
	defer late.Stop()
	for left := len(l.nodes); left > 0; {
		select {
		case a := <-l.peers:
			if at := a.of.place + int(a.node); int(a.node) < len(a.of.created.GetParts()) && l.nodes[at].peer == nil {
				l.nodes[at].peer = a.peer
				left--
				continue
			}
			a.peer.Close()
		case <-late.C:
			var names []string
			for _, n := range l.nodes {
				if n.peer == nil {
					names = append(names, n.name)
				} else {
					n.peer.Close()
				}
			}
			return l.fail("StepId=%s: no word from %s, whose tasks have not begun: is this host's port %d reachable from there?", l.parts[0].id(),
				hostlist.Compress(names), l.parts[0].listener.Addr().(*net.TCPAddr).Port), false
		}
	}
	for i, n := range l.nodes {
		for _, t := range n.tasks {
			l.states[t].node = i
		}
		if l.s.Verbose > 0 {
			l.say("launching StepId=%s on host %s, %d tasks: %s", n.of.id(), n.name, len(n.tasks), events.WordsOf(n.of.own(n.tasks)...))
		}
		if err := n.peer.Tell(tasks.KindBegin, 0, n.of.beginOn(n.name)); err != nil {
			n.gone = true
		}
	}
	return 0, true
}

// hear takes in what one node says, until it is over.
func (l *launcher) hear(i int) {
	n := l.nodes[i]
	defer n.peer.Close()
	for {
		f, err := n.peer.Next()
		if err != nil {
			l.lost(i)
			return
		}
		switch f.Kind {
		case tasks.KindStdout:
			n.of.attached.wrote(f.Kind, f.Number-uint32(n.of.first), f.Data)
			n.of.out.write(f.Number, f.Data)
		case tasks.KindStderr:
			n.of.attached.wrote(f.Kind, f.Number-uint32(n.of.first), f.Data)
			n.of.err.write(f.Number, f.Data)
		case tasks.KindSay:
			fmt.Fprintf(l.w.Stderr, "%s\n", bytes.TrimRight(f.Data, "\n"))
		case tasks.KindAborted:
			fmt.Fprintf(l.w.Stderr, "%s\n", f.Data)
			if f.Number == 1 && l.s.Job == 0 {
				l.say("Exceeded job memory limit")
			}
			l.aborted()
		case tasks.KindTaken:
			l.window.L.Lock()
			n.room += int(f.Number)
			l.window.L.Unlock()
			l.window.Broadcast()
		case tasks.KindGather:
			m := &tasks.Gather{}
			if m.UnmarshalVT(f.Data) == nil {
				l.hub.met(l, i, m)
			}
		case tasks.KindFetch:
			m := &tasks.Fetch{}
			if m.UnmarshalVT(f.Data) == nil {
				l.hub.fetch(l, i, m)
			}
		case tasks.KindQuit:
			if text := strings.TrimRight(string(f.Data), "\n"); text != "" {
				fmt.Fprintf(l.w.Stderr, "srun: error: %s: task %d: %s\n", n.name, f.Number-uint32(n.of.first), text)
			}
			l.aborted()
			l.endAll(true)
		case tasks.KindOver:
			l.drop(n)
			return
		case tasks.KindStarted, tasks.KindExited, tasks.KindFailed:
			m := &tasks.Told{}
			if m.UnmarshalVT(f.Data) == nil {
				l.note(i, f.Kind, m)
				if f.Kind != tasks.KindStarted {
					m.Tasks = n.of.own(m.Tasks)
					if told, err := m.MarshalVT(); err == nil {
						n.of.attached.ended(told)
					}
				}
			}
		}
	}
}

// drop lets nobody wait for room for stdin on a node that is gone.
func (l *launcher) drop(n *nodeEnd) {
	l.window.L.Lock()
	n.gone = true
	l.window.L.Unlock()
	l.window.Broadcast()
	l.hub.left(l, slices.Index(l.nodes, n))
}

// lost is a node whose keeper is gone without a word: it was killed, and its tasks with it.
func (l *launcher) lost(i int) {
	n := l.nodes[i]
	l.drop(n)
	var open []uint32
	l.mu.Lock()
	for _, t := range n.tasks {
		if l.states[t].state != 2 {
			open = append(open, t)
		}
	}
	l.mu.Unlock()
	if len(open) > 0 {
		l.note(i, tasks.KindExited, &tasks.Told{Tasks: open, Signal: uint32(syscall.SIGKILL)})
	}
}

// note takes in what became of tasks.
func (l *launcher) note(i int, kind tasks.Kind, m *tasks.Told) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kind == tasks.KindStarted {
		for _, t := range m.Tasks {
			if int(t) < len(l.states) {
				l.states[t].state = 1
			}
		}
		return
	}
	n := 0
	for _, t := range m.Tasks {
		if int(t) < len(l.states) && l.states[t].state != 2 {
			l.states[t].state = 2
			n++
		}
	}
	if n == 0 {
		return
	}
	if l.ended += n; l.first.IsZero() {
		l.first = time.Now()
		if l.s.Wait > 0 {
			time.AfterFunc(time.Duration(l.s.Wait)*time.Second, l.tooLate)
		}
	}
	code, text := int(m.Code), fmt.Sprintf("Exited with exit code %d", m.Code)
	switch {
	case m.Signal == events.SignalOOM:
		code, text = 1, "Out Of Memory"
	case m.Signal != 0:
		code, text = 128+int(m.Signal), signalText(syscall.Signal(m.Signal))
		if m.Core {
			text += " (core dumped)"
		}
	}
	if m.Signal == events.SignalOOM || l.signal != events.SignalOOM && code > l.code {
		l.code, l.signal = max(l.code, code), m.Signal
	}
	if code == 0 {
		return
	}
	at := slices.IndexFunc(l.notes, func(e exitNote) bool { return e.node == i && e.text == text })
	if at < 0 {
		l.notes = append(l.notes, exitNote{i, text, nil})
		at = len(l.notes) - 1
		time.AfterFunc(100*time.Millisecond, func() { // those that ended alike share a line
			l.mu.Lock()
			defer l.mu.Unlock()
			l.report()
		})
	}
	l.notes[at].ranks = append(l.notes[at].ranks, m.Tasks...)
	if l.s.KillOnBad && !l.ending {
		l.ending = true
		l.report()
		l.terminating()
		go l.endAll(false)
	}
}

// signalText is how a signal is told.
func signalText(s syscall.Signal) string {
	text := s.String()
	switch s {
	case syscall.SIGUSR1:
		text = "user defined signal 1"
	case syscall.SIGUSR2:
		text = "user defined signal 2"
	}
	return capital(text)
}

// report says how tasks ended that did not end well. The caller holds l.mu.
func (l *launcher) report() {
	for _, e := range l.notes {
		what := "task"
		if len(e.ranks) > 1 {
			what = "tasks"
		}
		n := l.nodes[e.node]
		fmt.Fprintf(l.w.Stderr, "srun: error: %s: %s %s: %s\n", n.name, what, events.WordsOf(n.of.own(e.ranks)...), e.text)
	}
	l.notes = nil
}

// tooLate ends the tasks that still run so long after the first has ended.
func (l *launcher) tooLate() {
	l.mu.Lock()
	open := l.ended < l.count && !l.ending
	l.ending = l.ending || open
	l.mu.Unlock()
	if open {
		l.say("First task exited %ds ago", l.s.Wait)
		l.status()
		l.terminating()
		l.endAll(true)
	}
}

// status says which tasks run.
func (l *launcher) status() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.parts {
		var by [3]events.Words
		for t, s := range l.states[c.first : c.first+c.count] {
			by[s.state].Set(uint32(t))
		}
		for i, text := range []string{"unknown", "running", "exited"} {
			if n := by[i].Count(); n > 0 {
				what := "task"
				if n > 1 {
					what = "tasks"
				}
				l.say("StepId=%s %s %s: %s", c.id(), what, by[i], text)
			}
		}
	}
}

func (l *launcher) terminating() {
	for _, c := range l.parts {
		l.say("Terminating StepId=%s", c.id())
	}
}

// own are ranks as they are counted within the component.
func (c *component) own(ranks []uint32) []uint32 {
	if c.first == 0 {
		return ranks
	}
	out := make([]uint32, len(ranks))
	for i, r := range ranks {
		out[i] = r - uint32(c.first)
	}
	return out
}

func (l *launcher) endAll(now bool) {
	number := uint32(0)
	if now {
		number = 1
	}
	for _, n := range l.nodes {
		n.peer.Send(tasks.KindEnd, number, nil)
	}
}

func (l *launcher) signalAll(s syscall.Signal) {
	for _, n := range l.nodes {
		n.peer.Send(tasks.KindSignal, uint32(s), nil)
	}
}
