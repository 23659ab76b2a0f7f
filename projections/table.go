package projections

import "math/bits"

// table holds records by number, in pages of 256 and chapters of 256 pages, copied on write: whoever copied the table (a
// View) keeps what was there, because a page written after the copy is replaced, not changed. Taking a copy costs nothing;
// the first write to a page after it costs one page. Pages and chapters without a record are given back, so that numbers
// that only ever grow cost a pointer for every 65,536 that have come and gone.
//
// Every record carries marks, one bit each, kept as bit words beside the pointers and summed up per chapter: going through
// all records with a mark costs in proportion to their number.
type table[T any] struct {
	root  []*chapter[T]
	epoch uint64 // of the root
	n     int
	count [marks]int
}

// The marks of a job; a table of other records leaves them unset.
const (
	markPending    = 1 << iota // in the queue
	markRunning                // has a run that is not over: running or suspended, told to end or not
	markCompleting             // its run is over or told to end, and some node has not reported, or its end is not decided yet
	marks          = 3
)

const pageBits, pageSize = 8, 256

type chapter[T any] struct {
	epoch uint64
	n     int
	any   [marks][pageSize / 64]uint64 // pages in which some record has the mark
	pages [pageSize]*page[T]
}

type page[T any] struct {
	epoch uint64
	n     int
	has   [marks][pageSize / 64]uint64
	recs  [pageSize]*T
}

func (t *table[T]) get(id uint32) *T {
	if c := int(id >> 16); c < len(t.root) && t.root[c] != nil {
		if p := t.root[c].pages[id>>pageBits&255]; p != nil {
			return p.recs[id&255]
		}
	}
	return nil
}

// set stores a record (nil: removes it) with its marks. Whatever is older than the epoch is shared with a copy and replaced.
func (t *table[T]) set(epoch uint64, id uint32, rec *T, mark uint8) {
	ci, pi, ri := int(id>>16), id>>pageBits&255, id&255
	if rec == nil && t.get(id) == nil {
		return
	}
	if t.epoch < epoch {
		t.root, t.epoch = append([]*chapter[T](nil), t.root...), epoch
	}
	for len(t.root) <= ci {
		t.root = append(t.root, nil)
	}
	c := t.root[ci]
	if c == nil {
		c = &chapter[T]{epoch: epoch}
		t.root[ci] = c
	} else if c.epoch < epoch {
		copied := *c
		copied.epoch = epoch
		c = &copied
		t.root[ci] = c
	}
	p := c.pages[pi]
	if p == nil {
		p = &page[T]{epoch: epoch}
		c.pages[pi] = p
		c.n++
	} else if p.epoch < epoch {
		copied := *p
		copied.epoch = epoch
		p = &copied
		c.pages[pi] = p
	}
	switch {
	case p.recs[ri] == nil && rec != nil:
		p.n++
		t.n++
	case p.recs[ri] != nil && rec == nil:
		p.n--
		t.n--
	}
	p.recs[ri] = rec
	for k := range marks {
		word, bit := &p.has[k][ri>>6], uint64(1)<<(ri&63)
		had, has := *word&bit != 0, mark>>k&1 == 1 && rec != nil
		if had == has {
			continue
		}
		if has {
			*word |= bit
			t.count[k]++
		} else {
			*word &^= bit
			t.count[k]--
		}
		if p.has[k] != [pageSize / 64]uint64{} {
			c.any[k][pi>>6] |= 1 << (pi & 63)
		} else {
			c.any[k][pi>>6] &^= 1 << (pi & 63)
		}
	}
	if p.n == 0 {
		c.pages[pi] = nil
		if c.n--; c.n == 0 {
			t.root[ci] = nil
		}
	}
}

// each calls f with every record, ascending, until it returns false.
func (t *table[T]) each(f func(id uint32, rec *T) bool) {
	for ci, c := range t.root {
		if c == nil {
			continue
		}
		for pi, p := range c.pages {
			if p == nil {
				continue
			}
			for ri, rec := range p.recs {
				if rec != nil && !f(uint32(ci<<16|pi<<pageBits|ri), rec) {
					return
				}
			}
		}
	}
}

// eachMarked calls f with every record that has the mark, ascending, until it returns false.
func (t *table[T]) eachMarked(mark uint8, f func(rec *T) bool) {
	k := bits.TrailingZeros8(mark)
	for _, c := range t.root {
		if c == nil {
			continue
		}
		for w, pages := range c.any[k] {
			for ; pages != 0; pages &= pages - 1 {
				p := c.pages[w<<6+bits.TrailingZeros64(pages)]
				for v, recs := range p.has[k] {
					for ; recs != 0; recs &= recs - 1 {
						if !f(p.recs[v<<6+bits.TrailingZeros64(recs)]) {
							return
						}
					}
				}
			}
		}
	}
}

// shards is a map cut into small maps that are copied on write, as table is.
type shards[V any] struct {
	epoch uint64
	root  []*shard[V]
}

type shard[V any] struct {
	epoch uint64
	m     map[uint64]V
}

const shardCount = 256

func (s *shards[V]) get(key uint64) (v V, ok bool) {
	if s.root == nil || s.root[key%shardCount] == nil {
		return v, false
	}
	v, ok = s.root[key%shardCount].m[key]
	return v, ok
}

func (s *shards[V]) writable(epoch, key uint64) map[uint64]V {
	switch {
	case s.root == nil:
		s.root, s.epoch = make([]*shard[V], shardCount), epoch
	case s.epoch < epoch:
		s.root, s.epoch = append([]*shard[V](nil), s.root...), epoch
	}
	h := s.root[key%shardCount]
	switch {
	case h == nil:
		h = &shard[V]{epoch, map[uint64]V{}}
	case h.epoch < epoch:
		copied := make(map[uint64]V, len(h.m)+1)
		for k, v := range h.m {
			copied[k] = v
		}
		h = &shard[V]{epoch, copied}
	}
	s.root[key%shardCount] = h
	return h.m
}

func (s *shards[V]) set(epoch, key uint64, v V) { s.writable(epoch, key)[key] = v }
func (s *shards[V]) del(epoch, key uint64)      { delete(s.writable(epoch, key), key) }
