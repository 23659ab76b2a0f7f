package hostlist

import (
	"slices"
	"strconv"
)

// JoinSorted is CompressSorted of all names of some expressions. It takes ranges for what they are: thousands of names cost no more than
// the ranges they are written as. An expression that cannot be read counts as a name.
func JoinSorted(exprs []string) string {
	var runs []run
	for _, expr := range exprs {
		more, ok := runsOf(expr)
		if !ok {
			return expandSorted(exprs)
		}
		runs = append(runs, more...)
	}
	slices.SortStableFunc(runs, func(a, b run) int {
		switch {
		case a.Name.before(b.Name):
			return -1
		case b.Name.before(a.Name):
			return 1
		}
		return 0
	})
	w := writer{}
	for i, r := range runs {
		if i > 0 && r.numbered && runs[i-1].numbered && r.prefix == runs[i-1].prefix && r.width == runs[i-1].width && r.n <= runs[i-1].hi {
			return expandSorted(exprs) // names that come twice
		}
		w.add(r.Name)
		if r.numbered { // what follows the first joins it as the first joined what was before
			w.g.spans[len(w.g.spans)-1].hi = r.hi
		}
	}
	return w.end()
}

// run is a name, or those up to another number that are written with as many digits.
type run struct {
	Name
	hi uint64
}

// runsOf takes an expression apart; ok: it is one of names and of brackets that stand behind text.
func runsOf(expr string) (runs []run, ok bool) {
	items, _, err := parse(expr, MaxHosts, false)
	if err != nil {
		return nil, false
	}
	for _, it := range items {
		p := it.parts[0]
		if len(it.parts) > 1 || p.text == "" || p.spans != nil && nameOf(p.text, 1).numbered {
			return nil, false
		}
		if p.spans == nil {
			n := nameOf(p.text, 1)
			runs = append(runs, run{n, n.n})
			continue
		}
		for _, s := range p.spans {
			for lo := s.lo; lo <= s.hi; {
				width := max(s.width, len(strconv.FormatUint(lo, 10)))
				hi := min(s.hi, most(width))
				runs = append(runs, run{Name{p.text, lo, width, true}, hi})
				lo = hi + 1
			}
		}
	}
	return runs, true
}

// most is the greatest number of so many digits.
func most(digits int) uint64 {
	n := uint64(0)
	for range min(digits, maxDigits) {
		n = 10*n + 9
	}
	return n
}

func expandSorted(exprs []string) string {
	var names []string
	for _, expr := range exprs {
		list, err := Expand(expr, MaxHosts)
		if err != nil {
			list = []string{expr}
		}
		names = append(names, list...)
	}
	return CompressSorted(names)
}
