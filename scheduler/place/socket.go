package place

import "stint/events"

// perSocket calls f with the free CPUs of each socket of a node. A unit that is bigger than a socket makes the node one.
func perSocket(n *node, free events.Words, g geometry, f func(free events.Words) bool) {
	size := n.cores * n.threads
	if n.sockets <= 1 || size < g.unit || size%g.unit != 0 {
		f(free)
		return
	}
	for from := int32(0); from < n.cpus; from += size {
		var of events.Words
		of.AddRange(uint32(from), uint32(min(from+size, n.cpus)-1))
		if !f(free.And(of)) {
			return
		}
	}
}

// onSockets is how many tasks a node can take with so many on a socket at most.
func (q *Request) onSockets(n *node, free events.Words, g geometry) int {
	tasks := 0
	perSocket(n, free, g, func(free events.Words) bool {
		tasks += q.onSocket(int(countUnits(free, n.cpus, g.unit)), g)
		return true
	})
	return tasks
}

// onSocket is how many tasks so many free units of one socket take.
func (q *Request) onSocket(units int, g geometry) int {
	if q.Overcommit && units > 0 {
		return q.TasksPerSocket
	}
	return min(units*int(g.usable)/q.CPUsPerTask, q.TasksPerSocket)
}

// takeSockets picks units for tasks with so many on a socket at most, from the first socket on, and then what the node's part
// needs besides.
func (q *Request) takeSockets(n *node, free events.Words, g geometry, tasks, units int, prefer *node) (events.Words, bool) {
	var out events.Words
	perSocket(n, free, g, func(free events.Words) bool {
		here := min(q.onSocket(int(countUnits(free, n.cpus, g.unit)), g), tasks)
		want := (here*q.CPUsPerTask + int(g.usable) - 1) / int(g.usable)
		if q.Overcommit {
			want = min(here, 1)
		}
		got, ok := takeUnits(free, n.cpus, g.unit, want, prefer)
		if !ok {
			return false
		}
		out = out.Or(got)
		tasks -= here
		return tasks > 0
	})
	if tasks > 0 {
		return nil, false
	}
	if more := units - int(countUnits(out, n.cpus, g.unit)); more > 0 {
		rest, ok := takeUnits(free.AndNot(out), n.cpus, g.unit, more, prefer)
		if !ok {
			return nil, false
		}
		out = out.Or(rest)
	}
	return out, true
}
