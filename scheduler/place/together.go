package place

import (
	"stint/events"
)

// Part is what one component of a heterogeneous job asks for: a request, and the partitions it may run in, best first.
type Part struct {
	Request    *Request
	Partitions []string
	Window     Window
}

// PlaceTogether finds room for all parts at once, each on nodes of its own, and returns it without taking it, with the partition
// of each; nil if there is none. Parts choose in order; no other way to share the nodes out is tried.
func (b *Board) PlaceTogether(parts []Part) ([]*events.Allocation, []string) {
	c := b.apart()
	defer func() { b.steps = c.steps }()
	return c.together(parts, nil, func(p *Part) Window { return p.Window })
}

// apart is a board to take nodes away from, which leaves this one as it is.
func (b *Board) apart() *Board {
	c := b.clone()
	c.steps, c.eligible = b.steps, make(map[string]*eligible)
	return c
}

func (b *Board) together(parts []Part, prefer *Board, window func(*Part) Window) ([]*events.Allocation, []string) {
	given := make([]*events.Allocation, len(parts))
	where := make([]string, len(parts))
	for i := range parts {
		p := &parts[i]
		for _, name := range p.Partitions {
			if given[i] = b.place(p.Request, name, window(p), prefer); given[i] != nil {
				where[i] = name
				break
			}
		}
		if given[i] == nil {
			return nil, nil
		}
		for _, name := range given[i].NodeNames() {
			if n, ok := b.byName[name]; ok {
				b.nodes[n].free, b.nodes[n].freeCPUs, b.nodes[n].units = nil, 0, 0
			}
		}
	}
	return given, where
}

// ShadowTogether is the earliest time at which all parts fit, as Shadow has it for one request: a reservation for each, all with
// the same start; nil if they never do.
func (b *Board) ShadowTogether(parts []Part, ends []End) []*Reservation {
	now := parts[0].Window.From
	times := b.times(ends, now)
	at := &timeline{b: b, ends: ends}
	fits := func(i int) []*events.Allocation {
		given, _ := at.board(times[i]).apart().together(parts, b, func(p *Part) Window {
			return Window{From: times[i], To: Forever, Planned: true, User: p.Window.User}
		})
		return given
	}
	// More is free at each later time, so the first time is found by halving.
	lo, hi := -1, len(times)-1
	found := fits(hi)
	if found == nil {
		return nil
	}
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		if given := fits(mid); given != nil {
			hi, found = mid, given
		} else {
			lo = mid
		}
	}
	list := make([]*Reservation, len(parts))
	for i := range parts {
		w := parts[i].Window
		end, duration := Forever, w.To-w.From
		if w.To < Forever && duration < Forever-times[hi] {
			end = times[hi] + duration
		}
		list[i] = &Reservation{Start: times[hi], End: end, Allocation: found[i]}
	}
	return list
}
