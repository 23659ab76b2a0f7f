package idset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// The byte form of a set, part of the log's format: nothing for the empty set, otherwise one byte that names the shape
// and then the shorter of two shapes (runs when both are equally long), so that equal sets are equal bytes.
const (
	// shapeRuns: for each run of consecutive members, two unsigned varints: how many ids are left out since the end of
	// the run before (since 0 for the first), and the length of the run less one.
	shapeRuns = 1
	// shapeBits: the bitmap, eight ids a byte, lowest id in the lowest bit; the last byte is not zero.
	shapeBits = 2
)

// AppendBinary appends the byte form of the set to b.
func (s Set) AppendBinary(b []byte) ([]byte, error) {
	if s.Empty() {
		return b, nil
	}
	runs, at := 0, 0
	bitmap := s.Max()/8 + 1
	for lo, hi := range s.Runs() {
		if runs += uvarintLen(uint64(lo-at)) + uvarintLen(uint64(hi-lo)); runs > bitmap {
			break
		}
		at = hi + 1
	}
	if runs <= bitmap {
		b = append(b, shapeRuns)
		at = 0
		for lo, hi := range s.Runs() {
			b = binary.AppendUvarint(b, uint64(lo-at))
			b = binary.AppendUvarint(b, uint64(hi-lo))
			at = hi + 1
		}
		return b, nil
	}
	b = append(b, shapeBits)
	for i := 0; i < bitmap; i++ {
		b = append(b, byte(s.words[i/8]>>(i%8*8)))
	}
	return b, nil
}

// Bytes is the byte form of the set.
func (s Set) Bytes() []byte {
	b, _ := s.AppendBinary(nil)
	return b
}

var errForm = errors.New("not the byte form of an id set")

// Decode reads the byte form. It fails on any other bytes, on a form that AppendBinary would not have chosen, and on
// ids above highest.
func Decode(b []byte, highest int) (Set, error) {
	var s Set
	if len(b) == 0 {
		return s, nil
	}
	shape, b := b[0], b[1:]
	switch shape {
	case shapeRuns:
		size, at, first := len(b), uint64(0), true
		if size == 0 {
			return s, errForm
		}
		for len(b) > 0 {
			gap, n := binary.Uvarint(b)
			if n <= 0 || n != uvarintLen(gap) || !first && gap == 0 {
				return Set{}, errForm
			}
			b = b[n:]
			more, n := binary.Uvarint(b)
			if n <= 0 || n != uvarintLen(more) {
				return Set{}, errForm
			}
			b = b[n:]
			// Each term is checked alone: their sum could wrap around.
			if gap > uint64(highest) || more > uint64(highest) || at+gap+more > uint64(highest) {
				return Set{}, fmt.Errorf("id set: ids above the highest allowed, %d", highest)
			}
			s.AddRange(int(at+gap), int(at+gap+more), 1)
			at, first = at+gap+more+1, false
		}
		if size > s.Max()/8+1 {
			return Set{}, errForm
		}
		return s, nil
	case shapeBits:
		if len(b) == 0 || b[len(b)-1] == 0 {
			return s, errForm
		}
		if top := (len(b)-1)*8 + 7 - bits.LeadingZeros8(b[len(b)-1]); top > highest {
			return s, fmt.Errorf("id set: ids above the highest allowed, %d", highest)
		}
		s.words = make([]uint64, (len(b)+7)/8)
		for i, c := range b {
			s.words[i/8] |= uint64(c) << (i % 8 * 8)
		}
		runs, at := 0, 0
		for lo, hi := range s.Runs() {
			runs += uvarintLen(uint64(lo-at)) + uvarintLen(uint64(hi-lo))
			at = hi + 1
		}
		if runs <= len(b) {
			return Set{}, errForm
		}
		return s, nil
	}
	return s, errForm
}

func uvarintLen(n uint64) int { return (bits.Len64(n|1) + 6) / 7 }
