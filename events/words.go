package events

import (
	"math/bits"
	"strconv"
)

// Words is a set of small numbers (CPUs, array indices, device indices) as the log writes it: bit b of word i is number
// 64·i+b. A []uint64 field of a message is used as one by conversion: events.Words(job.Pending).Has(3). Methods that
// return Words return a new set; only Set, Clear, AddRange change the receiver, and only its own memory: clone first what a record
// holds.
type Words []uint64

// WordsOf makes a set of the numbers given.
func WordsOf(numbers ...uint32) Words {
	var w Words
	for _, n := range numbers {
		w.Set(n)
	}
	return w
}

// Has says whether n is in the set.
func (w Words) Has(n uint32) bool {
	i := int(n >> 6)
	return i < len(w) && w[i]>>(n&63)&1 == 1
}

// Set adds n, growing the set when needed.
func (w *Words) Set(n uint32) {
	i := int(n >> 6)
	if i >= len(*w) {
		grown := make(Words, i+1)
		copy(grown, *w)
		*w = grown
	}
	(*w)[i] |= 1 << (n & 63)
}

// Clear removes n.
func (w Words) Clear(n uint32) {
	if i := int(n >> 6); i < len(w) {
		w[i] &^= 1 << (n & 63)
	}
}

// AddRange adds from..to, both inclusive.
func (w *Words) AddRange(from, to uint32) {
	if from > to {
		return
	}
	w.Set(to)
	for n := from; n < to; n++ {
		(*w)[n>>6] |= 1 << (n & 63)
	}
}

// Count is the number of members.
func (w Words) Count() int {
	n := 0
	for _, x := range w {
		n += bits.OnesCount64(x)
	}
	return n
}

// Empty says that there is no member.
func (w Words) Empty() bool {
	for _, x := range w {
		if x != 0 {
			return false
		}
	}
	return true
}

// First is the smallest member; false if there is none.
func (w Words) First() (uint32, bool) {
	for i, x := range w {
		if x != 0 {
			return uint32(i<<6 + bits.TrailingZeros64(x)), true
		}
	}
	return 0, false
}

// Last is the greatest member; false if there is none.
func (w Words) Last() (uint32, bool) {
	for i := len(w) - 1; i >= 0; i-- {
		if w[i] != 0 {
			return uint32(i<<6 + 63 - bits.LeadingZeros64(w[i])), true
		}
	}
	return 0, false
}

// Each calls f with every member, ascending, until it returns false.
func (w Words) Each(f func(n uint32) bool) {
	for i, x := range w {
		for ; x != 0; x &= x - 1 {
			if !f(uint32(i<<6 + bits.TrailingZeros64(x))) {
				return
			}
		}
	}
}

// Range calls f with every maximal run from..to (both inclusive), ascending, until it returns false.
func (w Words) Range(f func(from, to uint32) bool) {
	open := false
	var from, last uint32
	stopped := false
	w.Each(func(n uint32) bool {
		if open && n == last+1 {
			last = n
			return true
		}
		if open && !f(from, last) {
			stopped = true
			return false
		}
		open, from, last = true, n, n
		return true
	})
	if open && !stopped {
		f(from, last)
	}
}

// List is the members, ascending.
func (w Words) List() []uint32 {
	list := make([]uint32, 0, w.Count())
	w.Each(func(n uint32) bool { list = append(list, n); return true })
	return list
}

// And is what both hold.
func (w Words) And(o Words) Words {
	r := make(Words, min(len(w), len(o)))
	for i := range r {
		r[i] = w[i] & o[i]
	}
	return r.trim()
}

// Or is what either holds.
func (w Words) Or(o Words) Words {
	if len(w) < len(o) {
		w, o = o, w
	}
	r := w.Clone()
	for i := range o {
		r[i] |= o[i]
	}
	return r
}

// AndNot is what w holds and o does not.
func (w Words) AndNot(o Words) Words {
	r := w.Clone()
	for i := range min(len(r), len(o)) {
		r[i] &^= o[i]
	}
	return r.trim()
}

// Intersects says whether they share a member; it allocates nothing.
func (w Words) Intersects(o Words) bool {
	for i := range min(len(w), len(o)) {
		if w[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

// Within says whether every member of w is one of o.
func (w Words) Within(o Words) bool {
	for i, x := range w {
		if i < len(o) {
			x &^= o[i]
		}
		if x != 0 {
			return false
		}
	}
	return true
}

// Equal says whether they hold the same; trailing empty words do not count.
func (w Words) Equal(o Words) bool { return w.Within(o) && o.Within(w) }

// Clone is a copy with memory of its own; nil stays nil.
func (w Words) Clone() Words {
	if w == nil {
		return nil
	}
	return append(make(Words, 0, len(w)), w...)
}

func (w Words) trim() Words {
	for len(w) > 0 && w[len(w)-1] == 0 {
		w = w[:len(w)-1]
	}
	return w
}

// String writes the set for people: "0-3,7".
func (w Words) String() string {
	var b []byte
	w.Range(func(from, to uint32) bool {
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(from), 10)
		if to > from {
			b = append(b, '-')
			b = strconv.AppendUint(b, uint64(to), 10)
		}
		return true
	})
	return string(b)
}
