package place

import "stint/events"

// ofSocket is how many units of one socket the tasks may use.
func (q *Request) ofSocket(g geometry) int {
	if q.TasksPerSocket == 0 {
		return MaxCount
	}
	return max((q.TasksPerSocket*q.CPUsPerTask+int(g.usable)-1)/int(g.usable), 1)
}

// inSockets is how many free units a node has if at most so many of each socket count.
func inSockets(free events.Words, n *node, unit int32, most int) int {
	size, sum := max(n.cores*n.threads, unit), 0
	for from := int32(0); from < n.cpus; from += size {
		sum += min(freeUnits(free, from, min(from+size, n.cpus), unit), most)
	}
	return sum
}

// freeUnits counts the wholly free units among some CPUs of a node.
func freeUnits(free events.Words, from, end, unit int32) int {
	units := 0
	for u := from; u < end; u += unit {
		if unitFree(free, u, min(u+unit, end)) {
			units++
		}
	}
	return units
}

// socketsOf is the number of sockets that CPUs of a node are on.
func socketsOf(cpus events.Words, n *node) int {
	size, sockets := max(n.cores*n.threads, 1), 0
	for from := int32(0); from < n.cpus; from += size {
		for c := from; c < min(from+size, n.cpus); c++ {
			if cpus.Has(uint32(c)) {
				sockets++
				break
			}
		}
	}
	return sockets
}

// takeSockets is takeUnits where whole sockets are given and a node has several: cores are dealt out as they would be where
// cores are given, and each socket that has one of them is taken, unless the memory of its CPUs is not there. It returns the
// number of units taken.
func takeSockets(r *room, n *node, g geometry, cpus, tasks, units int, q *Request, prefer *node, perCPU int64) (events.Words, int, bool) {
	if g.cores == 1 || n.sockets <= 1 || g.unit != n.cores*n.threads {
		out, ok := takeUnits(r.cpus, n, g, units, q, prefer)
		return out, units, ok
	}
	core := geometry{unit: n.threads, usable: g.usable / g.cores, cores: 1}
	want := max((cpus+int(core.usable)-1)/int(core.usable), q.unitsFor(tasks, core))
	free := make(events.Words, len(r.cpus))
	for from := int32(0); from < n.cpus; from += g.unit {
		if to := min(from+g.unit, n.cpus); unitFree(r.cpus, from, to) {
			free.AddRange(uint32(from), uint32(to-1))
		}
	}
	if dealt, ok := takeUnits(free, n, core, want, q, prefer); ok {
		whole, sockets := make(events.Words, len(dealt)), 0
		for from := int32(0); from < n.cpus; from += g.unit {
			to := min(from+g.unit, n.cpus)
			if freeUnits(dealt, from, to, core.unit) > 0 {
				whole.AddRange(uint32(from), uint32(to-1))
				sockets++
			}
		}
		if perCPU == 0 || perCPU*int64(sockets)*int64(g.usable) <= r.mem {
			return whole, sockets, true
		}
	}
	out, ok := takeUnits(r.cpus, n, g, units, q, prefer)
	return out, units, ok
}

// takeUnits picks wholly free units, first those of which nothing is free on prefer: in a row, or the tasks dealt out to the
// sockets in turn. Tasks of more than one CPU stay on one socket if that has room for all.
func takeUnits(free events.Words, n *node, g geometry, want int, q *Request, prefer *node) (events.Words, bool) {
	out := make(events.Words, 0, (n.cpus+63)/64)
	pick := func(from int32, later bool) bool {
		to := min(from+g.unit, n.cpus)
		if want == 0 || !free.Has(uint32(from)) || out.Has(uint32(from)) || !unitFree(free, from, to) {
			return false
		}
		if prefer != nil && later == prefer.free.Has(uint32(from)) {
			return false
		}
		for c := from; c < to; c++ {
			out.Set(uint32(c))
		}
		want--
		return true
	}
	size := max(n.cores*n.threads, g.unit)
	inTurn := n.sockets > 1 && size > g.unit
	for _, later := range []bool{true, false} {
		if !inTurn || q.CoresInRow && q.TasksPerSocket == 0 {
			for from := int32(0); from < n.cpus && want > 0; from += g.unit {
				pick(from, later)
			}
		} else {
			dealUnits(free, n, g, size, &want, q, func(from int32) bool { return pick(from, later) })
		}
		if prefer == nil {
			break
		}
	}
	return out, want == 0
}

// dealUnits offers the units of a node, a task's from each socket in turn, until no more are taken. pick takes one and counts
// it in want.
func dealUnits(free events.Words, n *node, g geometry, size int32, want *int, q *Request, pick func(from int32) bool) {
	type socket struct{ next, end, tasks, units int32 }
	sockets := make([]socket, 0, n.sockets)
	for from := int32(0); from < n.cpus; from += size {
		sockets = append(sockets, socket{next: from, end: min(from+size, n.cpus)})
	}
	most := int32(q.ofSocket(g))
	take := func(s *socket, upTo int32) {
		for s.units < min(upTo, most) && s.next < s.end {
			if pick(s.next) {
				s.units++
			}
			s.next += g.unit
		}
	}
	if q.CPUsPerTask > 1 || q.CoresInRow {
		for i := range sockets {
			s := &sockets[i]
			if freeUnits(free, s.next, s.end, g.unit) >= *want && int32(*want) <= most {
				take(s, int32(*want))
				if *want == 0 {
					return
				}
			}
		}
	}
	for open := true; open && *want > 0; {
		open = false
		for i := range sockets {
			s := &sockets[i]
			s.tasks++
			take(s, max(int32(q.unitsFor(int(s.tasks), g)), s.units+1))
			open = open || s.next < s.end && s.units < most
		}
	}
}
