package place

import (
	"slices"

	"stint/events"
)

// Reservation is room that is kept for a job from Start on until End. Later jobs may use it only until Start.
type Reservation struct {
	Job        uint32
	Start, End int64
	Allocation *events.Allocation
}

func (r *Reservation) overlaps(w Window) bool { return r.Start < w.To && r.End > w.From }

// claim is a reservation's part of one node. slack is the memory of the node that is left for jobs which start now and
// still run at Start.
type claim struct {
	res   *Reservation
	share *events.NodeShare
	slack int64
}

// End says when one node's share of a running job comes free at the latest.
type End struct {
	At    int64
	Job   uint32
	Node  string
	Share *events.NodeShare
}

// SortEnds orders ends by time, then by job and node.
func SortEnds(ends []End) {
	slices.SortFunc(ends, func(x, y End) int {
		switch {
		case x.At != y.At:
			return cmp(x.At < y.At)
		case x.Job != y.Job:
			return cmp(x.Job < y.Job)
		case x.Node != y.Node:
			return cmp(x.Node < y.Node)
		}
		return 0
	})
}

func cmp(less bool) int {
	if less {
		return -1
	}
	return 1
}

// Start takes an allocation for a job that runs in the window, and keeps account of the memory it leaves to reservations.
func (b *Board) Start(a *events.Allocation, w Window) {
	b.Take(a)
	a.Each(func(_ int, name string, share *events.NodeShare) bool {
		if i, ok := b.byName[name]; ok {
			b.nodes[i].hold(w.User, w.Alone)
			for _, c := range b.nodes[i].reserved {
				if c.res.overlaps(w) {
					c.slack -= int64(share.MemoryMib)
				}
			}
		}
		return true
	})
}

// Shadow is the earliest time at which the request fits on the partition, for a job that would run in the window if it could
// start now, given when the shares of running jobs come free
// (sorted by SortEnds) and what is reserved already: of the times at which something comes free, the first where it fits
// and stays clear of every reservation that ends later. It returns nil if it does not fit even when all has come free.
func (b *Board) Shadow(q *Request, part string, ends []End, w Window) *Reservation {
	times := b.times(ends, w.From)
	at := &timeline{b: b, ends: ends}
	fits := func(i int) *events.Allocation {
		board := at.board(times[i])
		return board.place(q, part, Window{From: times[i], To: Forever, Planned: true, User: w.User}, b)
	}
	// More is free at each later time, so the first time is found by doubling, then halving.
	last := len(times) - 1
	lo, hi := -1, 0
	var found *events.Allocation
	for step := 1; ; step *= 2 {
		if found = fits(hi); found != nil {
			break
		}
		if hi == last {
			return nil
		}
		lo = hi
		hi = min(hi+step, last)
	}
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		if a := fits(mid); a != nil {
			hi, found = mid, a
		} else {
			lo = mid
		}
	}
	end, duration := Forever, w.To-w.From
	if w.To < Forever && duration < Forever-times[hi] {
		end = times[hi] + duration
	}
	return &Reservation{Start: times[hi], End: end, Allocation: found}
}

// times is when the room may grow: now, ends of jobs and of reservations, ascending, each once.
func (b *Board) times(ends []End, now int64) []int64 {
	times := []int64{now}
	for _, e := range ends {
		times = append(times, max(e.At, now))
	}
	for _, r := range b.reservations {
		if r.End < Forever {
			times = append(times, max(r.End, now))
		}
	}
	slices.Sort(times)
	return slices.Compact(times)
}

// timeline makes boards of later times, going on from the one made before where that was earlier.
type timeline struct {
	b     *Board
	ends  []End
	last  *Board
	upTo  int // ends given back on last
	until int64
}

func (t *timeline) board(at int64) *Board {
	if t.last == nil || at < t.until {
		t.last, t.upTo = t.b.clone(), 0
	}
	for ; t.upTo < len(t.ends) && t.ends[t.upTo].At <= at; t.upTo++ {
		e := &t.ends[t.upTo]
		if i, ok := t.last.byName[e.Node]; ok {
			t.last.nodes[i].give(e.Share)
		}
	}
	t.until = at
	return t.last
}

// Reserve keeps the room of a reservation, made by Shadow on this board with the same ends, from now on.
func (b *Board) Reserve(r *Reservation, ends []End) {
	at := (&timeline{b: b, ends: ends}).board(r.Start)
	b.reservations = append(b.reservations, r)
	r.Allocation.Each(func(_ int, name string, share *events.NodeShare) bool {
		i, ok := b.byName[name]
		if !ok {
			return true
		}
		slack := at.nodes[i].memFree - int64(share.MemoryMib)
		for _, c := range b.nodes[i].reserved {
			if c.res.overlaps(Window{From: r.Start, To: r.End}) {
				slack -= int64(c.share.MemoryMib)
			}
		}
		b.nodes[i].reserved = append(b.nodes[i].reserved, &claim{res: r, share: share, slack: slack})
		return true
	})
}

// Starts is when reservations start that lie between two times, both included, ascending, each once.
func (b *Board) Starts(from, to int64) []int64 {
	var out []int64
	for _, r := range b.reservations {
		if r.Start >= from && r.Start <= to {
			out = append(out, r.Start)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Claims is a number that says which reservations a window meets: equal numbers, equal restrictions. Reservations beyond
// the 64th count as one.
func (b *Board) Claims(w Window) uint64 {
	var set uint64
	for i, r := range b.reservations {
		if r.overlaps(w) {
			set |= 1 << min(i, 63)
		}
	}
	return set
}
