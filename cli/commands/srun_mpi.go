package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"stint/executor/tasks"
)

// The part of srun in how MPI programs find each other (--mpi): nodes meet here, and ask each other by way of here.

// mpiList is what --mpi=list prints. PMIx needs a program of its own beside this one, which speaks with PMIx's library.
func mpiList() string {
	exe, _ := os.Executable()
	if _, err := os.Stat(filepath.Join(filepath.Dir(exe), tasks.PMIxProgram)); err != nil {
		return "MPI plugin types are...\n\tnone\n\tpmi2\n"
	}
	return "MPI plugin types are...\n\tpmix\n\tnone\n\tpmi2\nspecific pmix plugin versions available: pmix_v4\n"
}

// mpi is what nodes are told; nil: tasks do not find each other.
func (l *launcher) mpi() *tasks.Mpi {
	if l.s.MPI == "" || l.s.MPI == "none" {
		return nil
	}
	m := &tasks.Mpi{Kind: l.s.MPI, ByDefault: l.mpiByDefault, Id: l.parts[0].id()}
	for _, n := range l.nodes {
		m.Places = append(m.Places, &tasks.Place{Node: n.name, Tasks: n.tasks})
	}
	return m
}

// hub is where the nodes of a step meet. The zero value is ready.
type hub struct {
	mu       sync.Mutex
	meetings map[string]*meeting
	away     map[int]bool // nodes that are over
}

// meeting is one that not all nodes have come to.
type meeting struct {
	nodes  []int // who takes part, ascending
	data   map[int][]byte
	come   map[int]bool
	failed string
}

// maxMeeting is how much the nodes of a step may tell each other at once.
const maxMeeting = 1 << 30

// met takes in a node's part of a meeting, or a piece of it, and tells all when the last has come.
func (h *hub) met(l *launcher, i int, m *tasks.Gather) {
	h.mu.Lock()
	t := h.meetings[m.Key]
	if t == nil {
		t = &meeting{data: map[int][]byte{}, come: map[int]bool{}}
		for _, n := range m.Nodes {
			if int(n) < len(l.nodes) {
				t.nodes = append(t.nodes, int(n))
			}
		}
		if len(m.Nodes) == 0 {
			for n := range l.nodes {
				t.nodes = append(t.nodes, n)
			}
		}
		slices.Sort(t.nodes)
		t.nodes = slices.Compact(t.nodes)
		if h.meetings == nil {
			h.meetings = map[string]*meeting{}
		}
		h.meetings[m.Key] = t
	}
	if m.Failed != "" && t.failed == "" {
		t.failed = m.Failed
	}
	if t.data[i] = append(t.data[i], m.Data...); m.More {
		h.mu.Unlock()
		return
	}
	t.come[i] = true
	for _, n := range t.nodes {
		if h.away[n] && !t.come[n] && t.failed == "" {
			t.failed = l.nodes[n].name + " is over and will never come"
		}
	}
	h.settle(l, m.Key, t)
}

// settle tells those who have come to a meeting how it went, if it is at its end. It is called with the lock, and gives it back.
func (h *hub) settle(l *launcher, key string, t *meeting) {
	var to []int
	answer := &tasks.Gather{Key: key, Failed: t.failed}
	switch {
	case t.failed != "": // whoever comes later is told then
		for n := range t.come {
			to = append(to, n)
		}
		t.come, t.data = map[int]bool{}, map[int][]byte{}
	case len(t.come) == len(t.nodes):
		size := 0
		for _, n := range t.nodes {
			size += len(t.data[n])
		}
		if size > maxMeeting {
			answer.Failed = fmt.Sprintf("the tasks tell each other %d bytes at once, and %d may be", size, maxMeeting)
		} else {
			answer.Data = make([]byte, 0, size)
			for _, n := range t.nodes {
				answer.Data = append(answer.Data, t.data[n]...)
			}
		}
		to = t.nodes
		delete(h.meetings, key)
	}
	h.mu.Unlock()
	for _, n := range to {
		go tasks.TellGather(l.nodes[n].peer, answer) // one that does not read is not waited for
	}
}

// left says that a node is over: what waits for it waits in vain.
func (h *hub) left(l *launcher, i int) {
	h.mu.Lock()
	if h.away == nil {
		h.away = map[int]bool{}
	}
	h.away[i] = true
	var open []string
	for key, t := range h.meetings {
		if t.failed == "" && !t.come[i] && slices.Contains(t.nodes, i) {
			t.failed = l.nodes[i].name + " is over and will never come"
			open = append(open, key)
		}
	}
	h.mu.Unlock()
	for _, key := range open {
		h.mu.Lock()
		h.settle(l, key, h.meetings[key])
	}
}

// fetch passes a question on to the node that it is for, and an answer to the node that has asked.
func (h *hub) fetch(l *launcher, i int, m *tasks.Fetch) {
	to := int(m.To)
	if m.Answer {
		to = int(m.From)
	} else {
		m.From = uint32(i)
	}
	h.mu.Lock()
	away := to >= len(l.nodes) || h.away[to]
	h.mu.Unlock()
	switch {
	case !away:
		go l.nodes[to].peer.Tell(tasks.KindFetch, 0, m)
	case !m.Answer:
		m.Answer, m.Status = true, -1
		go l.nodes[i].peer.Tell(tasks.KindFetch, 0, m)
	}
}
