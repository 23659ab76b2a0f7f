package ledger

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
)

// openQuestions remembers what is left of long answers between their parts, so that the records are not looked for again.
// It is a cache: a part that is asked for after it was forgotten (or of another ledger) is found again by its place.
type openQuestions struct {
	mu   sync.Mutex
	next uint64
	left []openQuestion // the oldest first
}

type openQuestion struct {
	id     uint64
	behind position
	keys   []position
}

const (
	maxOpen = 16
	moreLen = positionLen + 8 // the place, and a number
)

// keep remembers the keys that are left, and returns the token to go on with.
func (o *openQuestions) keep(behind position, keys []position) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next == 0 { // so that a token of another ledger is not taken for one of this
		o.next = rand.Uint64() >> 1
	}
	o.next++
	if len(o.left) == maxOpen {
		o.left = append(o.left[:0], o.left[1:]...)
	}
	o.left = append(o.left, openQuestion{o.next, behind, keys})
	return binary.BigEndian.AppendUint64(behind.append(nil), o.next)
}

// take returns what is left, once; nil if it is not known any more.
func (o *openQuestions) take(more []byte) []position {
	id := binary.BigEndian.Uint64(more[positionLen:])
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, q := range o.left {
		if k, err := parsePosition(more, more[turnLen:]); err == nil && q.id == id && q.behind == k {
			o.left = append(o.left[:i], o.left[i+1:]...)
			return q.keys
		}
	}
	return nil
}
