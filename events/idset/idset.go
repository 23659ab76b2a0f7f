// Package idset holds sets of small non-negative integers: CPU and GPU indices of a node, task indices of a job array.
//
// A Set is a bitmap; its zero value is the empty set. Sets print as ranges (`0-3,7`) and encode to bytes that depend
// on the members alone, so equal sets are equal bytes in the log. Text and bytes may come from users: reading either
// takes the highest member allowed, and fails before allocating for more.
package idset

import (
	"fmt"
	"iter"
	"math/bits"
	"strconv"
	"strings"
)

// Set is a set of ids. Copying the struct shares the members: use Clone before changing a copy.
type Set struct {
	words []uint64 // bit i of words[w] is id 64*w+i; the last word is never zero
}

// Of returns the set of the ids given. It panics on a negative id.
func Of(ids ...int) Set {
	var s Set
	for _, id := range ids {
		s.Add(id)
	}
	return s
}

// Range returns the set lo, lo+step, … up to hi. It is empty if hi < lo, and panics if lo < 0 or step < 1.
func Range(lo, hi, step int) Set {
	var s Set
	s.AddRange(lo, hi, step)
	return s
}

func (s *Set) grow(id int) {
	if id < 0 {
		panic(fmt.Sprintf("idset: negative id %d", id))
	}
	if w := id / 64; w >= len(s.words) {
		if w < cap(s.words) {
			old := len(s.words)
			s.words = s.words[:w+1]
			clear(s.words[old:])
		} else {
			words := make([]uint64, w+1, max(w+1, len(s.words)*3/2))
			copy(words, s.words)
			s.words = words
		}
	}
}

func (s *Set) trim() {
	n := len(s.words)
	for n > 0 && s.words[n-1] == 0 {
		n--
	}
	s.words = s.words[:n]
}

// Add puts id into the set. It panics on a negative id.
func (s *Set) Add(id int) {
	s.grow(id)
	s.words[id/64] |= 1 << (id % 64)
}

// AddRange adds lo, lo+step, … up to hi; nothing if hi < lo. It panics if lo < 0 or step < 1.
func (s *Set) AddRange(lo, hi, step int) {
	if step < 1 {
		panic(fmt.Sprintf("idset: step %d", step))
	}
	if hi < lo {
		return
	}
	s.grow(lo)
	s.grow(lo + (hi-lo)/step*step)
	if step > 1 {
		for id := lo; id <= hi; id += step {
			s.words[id/64] |= 1 << (id % 64)
		}
		return
	}
	a, b := lo/64, hi/64
	first, last := ^uint64(0)<<(lo%64), ^uint64(0)>>(63-hi%64)
	if a == b {
		s.words[a] |= first & last
		return
	}
	s.words[a] |= first
	for w := a + 1; w < b; w++ {
		s.words[w] = ^uint64(0)
	}
	s.words[b] |= last
}

// Remove takes id out of the set; ids not in it, negative ones included, change nothing.
func (s *Set) Remove(id int) {
	if s.Has(id) {
		s.words[id/64] &^= 1 << (id % 64)
		s.trim()
	}
}

// Has says whether id is in the set.
func (s Set) Has(id int) bool {
	return id >= 0 && id/64 < len(s.words) && s.words[id/64]&(1<<(id%64)) != 0
}

// Empty says whether the set has no members.
func (s Set) Empty() bool { return len(s.words) == 0 }

// Len is the number of members.
func (s Set) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Min is the lowest member, -1 if there is none.
func (s Set) Min() int { return s.Next(0) }

// Max is the highest member, -1 if there is none.
func (s Set) Max() int {
	if len(s.words) == 0 {
		return -1
	}
	w := len(s.words) - 1
	return w*64 + 63 - bits.LeadingZeros64(s.words[w])
}

// Next is the lowest member not below id, -1 if there is none.
func (s Set) Next(id int) int {
	if id < 0 {
		id = 0
	}
	w := id / 64
	if w >= len(s.words) {
		return -1
	}
	word := s.words[w] >> (id % 64) << (id % 64)
	for word == 0 {
		if w++; w == len(s.words) {
			return -1
		}
		word = s.words[w]
	}
	return w*64 + bits.TrailingZeros64(word)
}

// nextGap is the lowest id not below id that is no member.
func (s Set) nextGap(id int) int {
	w := id / 64
	if w >= len(s.words) {
		return id
	}
	word := ^s.words[w] >> (id % 64) << (id % 64)
	for word == 0 {
		if w++; w == len(s.words) {
			return w * 64
		}
		word = ^s.words[w]
	}
	return w*64 + bits.TrailingZeros64(word)
}

// All yields the members in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for w, word := range s.words {
			for word != 0 {
				if !yield(w*64 + bits.TrailingZeros64(word)) {
					return
				}
				word &= word - 1
			}
		}
	}
}

// Runs yields the maximal ranges of consecutive members, lowest first, both ends included.
func (s Set) Runs() iter.Seq2[int, int] {
	return func(yield func(lo, hi int) bool) {
		for lo := s.Next(0); lo >= 0; {
			end := s.nextGap(lo)
			if !yield(lo, end-1) {
				return
			}
			lo = s.Next(end)
		}
	}
}

// Slice returns the members in ascending order.
func (s Set) Slice() []int {
	ids := make([]int, 0, s.Len())
	for id := range s.All() {
		ids = append(ids, id)
	}
	return ids
}

// Clone returns a copy that shares nothing.
func (s Set) Clone() Set { return Set{append([]uint64(nil), s.words...)} }

// Equal says whether both sets have the same members.
func (s Set) Equal(t Set) bool {
	if len(s.words) != len(t.words) {
		return false
	}
	for i := range s.words {
		if s.words[i] != t.words[i] {
			return false
		}
	}
	return true
}

// Union returns the members of either set.
func (s Set) Union(t Set) Set {
	if len(s.words) < len(t.words) {
		s, t = t, s
	}
	u := s.Clone()
	for i, w := range t.words {
		u.words[i] |= w
	}
	return u
}

// Intersect returns the members of both sets.
func (s Set) Intersect(t Set) Set {
	n := min(len(s.words), len(t.words))
	u := Set{make([]uint64, n)}
	for i := range u.words {
		u.words[i] = s.words[i] & t.words[i]
	}
	u.trim()
	return u
}

// Minus returns the members of s that are not in t.
func (s Set) Minus(t Set) Set {
	u := s.Clone()
	for i := 0; i < len(u.words) && i < len(t.words); i++ {
		u.words[i] &^= t.words[i]
	}
	u.trim()
	return u
}

// Intersects says whether the sets share a member.
func (s Set) Intersects(t Set) bool {
	for i := 0; i < len(s.words) && i < len(t.words); i++ {
		if s.words[i]&t.words[i] != 0 {
			return true
		}
	}
	return false
}

// Contains says whether every member of t is in s.
func (s Set) Contains(t Set) bool {
	for i, w := range t.words {
		if i >= len(s.words) && w != 0 || i < len(s.words) && w&^s.words[i] != 0 {
			return false
		}
	}
	return true
}

// First returns the n lowest members, or all if there are fewer.
func (s Set) First(n int) Set {
	var f Set
	for id := range s.All() {
		if n--; n < 0 {
			break
		}
		f.Add(id)
	}
	return f
}

// String writes the set as ranges in ascending order: `0-3,7`; the empty set as the empty string.
func (s Set) String() string {
	var b []byte
	for lo, hi := range s.Runs() {
		if b != nil {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(lo), 10)
		if hi > lo {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(hi), 10)
		}
	}
	return string(b)
}

// Parse reads ranges such as `0-3,7` or `1-9:2`, with or without brackets around them. It fails on malformed text and
// on ids above highest. The empty text is the empty set.
func Parse(text string, highest int) (Set, error) {
	var s Set
	body := text
	if strings.HasPrefix(body, "[") && strings.HasSuffix(body, "]") && len(body) > 1 {
		body = body[1 : len(body)-1]
	}
	if body == "" {
		return s, nil
	}
	for _, field := range strings.Split(body, ",") {
		span, stepText, stepped := strings.Cut(field, ":")
		loText, hiText, ranged := strings.Cut(span, "-")
		if !ranged {
			hiText = loText
		}
		lo, err1 := number(loText)
		hi, err2 := number(hiText)
		step, err3 := 1, error(nil)
		if stepped {
			step, err3 = number(stepText)
		}
		switch {
		case err1 != nil || err2 != nil || err3 != nil || stepped && !ranged:
			return Set{}, fmt.Errorf("%s is not an index, a range such as 0-15 or a range with a step such as 0-15:4", clip(field))
		case stepped && step < 1:
			return Set{}, fmt.Errorf("the step of %s must be at least 1", clip(field))
		case hi < lo:
			return Set{}, fmt.Errorf("the range %s runs backwards", clip(field))
		case hi > highest:
			return Set{}, fmt.Errorf("the index %d of %s is above the highest allowed, %d", hi, clip(field), highest)
		}
		s.AddRange(lo, hi, step)
	}
	return s, nil
}

func number(s string) (int, error) {
	if s == "" || len(s) > 18 {
		return 0, strconv.ErrSyntax
	}
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, strconv.ErrSyntax
		}
	}
	return strconv.Atoi(s)
}

func clip(s string) string {
	if len(s) > 40 {
		s = s[:37] + "..."
	}
	return strconv.Quote(s)
}

// Words returns the set as bit words, least significant bit first, without zero words at the end: the form allocations
// and arrays have in the log. The caller must not change them.
func (s Set) Words() []uint64 { return s.words }

// FromWords returns the set of the bits of words. The slice is copied.
func FromWords(words []uint64) Set {
	s := Set{append([]uint64(nil), words...)}
	s.trim()
	return s
}
