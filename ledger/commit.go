package ledger

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// commit writes all that is pending and the cursor in one batch.
func (t *tables) commit(seq uint64, at int64, how *pebble.WriteOptions) error {
	w, _, err := t.gathered(seq, at, false)
	if err != nil {
		return err
	}
	if err := w.writeKeys(); err != nil {
		return err
	}
	if err := t.db.Apply(w.batch, how); err != nil {
		return fmt.Errorf("writing the rows up to sequence %d: %w", seq, err)
	}
	t.reuse(w)
	return nil
}

// gathered is all that is pending, and the cursor, but for index keys. What a batch holds depends on where the commits fall,
// the tables after it do not. apart: records that have ended are not written yet; they are given back and nothing else holds them.
func (t *tables) gathered(seq uint64, at int64, apart bool) (*writer, []*record, error) {
	// Keys go in table by table and ascending, since that is how inserting is cheap.
	slices.SortStableFunc(t.dirty, func(a, b *record) int { return a.key.compare(b.key) })
	var ended []*record
	for _, r := range t.dirty {
		if apart && r.row.EndUs != 0 && t.current[r.row.Job] == r { // no later record of the job says what this one says too
			ended = append(ended, r)
			continue
		}
		if err := t.write(r); err != nil {
			return nil, nil, err
		}
	}
	slices.SortStableFunc(t.told, func(a, b *chapter) int { return cmp.Compare(a.job, b.job) })
	for _, c := range t.told {
		if err := t.batch.Set(storyKey(t.buf[:0], c.job, c.chunk), c.data, nil); err != nil {
			return nil, nil, err
		}
		c.dirty = false
	}
	var keys []string
	for k, u := range t.usage {
		if u.dirty {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		u := t.usage[k]
		if err := t.put([]byte(k), &u.UsageRow); err != nil {
			return nil, nil, err
		}
		u.dirty = false
	}
	cursor := binary.BigEndian.AppendUint64(nil, seq)
	cursor = binary.BigEndian.AppendUint64(cursor, uint64(at))
	if err := t.batch.Set([]byte{tableCursor}, cursor, nil); err != nil {
		return nil, nil, err
	}
	w := t.writer
	if t.spare != nil {
		t.writer, t.spare = *t.spare, nil
	} else {
		t.writer = writer{batch: t.db.NewBatch(pebble.WithMaxRetainedSizeBytes(retained))}
	}
	t.forgetEnded()
	clear(t.dirty)
	t.dirty, t.told, t.pending = t.dirty[:0], t.told[:0], 0
	t.forget()
	return &w, ended, nil
}

// retained is the most memory of a batch that the next but one has again.
const retained = 64 << 20

// reuse takes back a writer whose rows are in the tables.
func (t *tables) reuse(w *writer) {
	w.batch.Reset()
	t.spare = w
}

// forgetEnded drops the records that have ended, which hardly ever change again.
func (t *tables) forgetEnded() {
	for _, r := range t.dirty {
		job := r.row.Job
		if r.row.EndUs != 0 && t.current[job] == r {
			delete(t.current, job)
			if c := t.stories[job]; c != nil && !c.dirty {
				delete(t.stories, job)
			}
		}
	}
}

// forget drops what is cached beyond what is worth keeping. Nothing is dirty here.
func (t *tables) forget() {
	keep := keep
	if t.far {
		keep = keepFar
	}
	if len(t.current) > keep {
		clear(t.current)
	}
	if len(t.stories) > keep {
		clear(t.stories)
	}
	if len(t.usage) > keep {
		clear(t.usage)
	}
}

// write puts a record, its steps and its index keys into the batch.
func (w *writer) write(r *record) error {
	r.dirty = false
	key := jobKey(w.buf[:0], r.key)
	w.buf = key
	if r.gone {
		return w.remove(r)
	}
	if err := w.put(key, r.row); err != nil {
		return err
	}
	for i := range r.steps {
		s := &r.steps[i]
		if !s.dirty {
			continue
		}
		s.dirty = false
		if len(s.row.ByNode) != 0 {
			s.row.Nodes = stepNodes(s.row)
		}
		if err := w.put(stepKey(w.buf[:0], r.key, s.row.Step), s.row); err != nil {
			return err
		}
	}
	if r.place != nil {
		if err := w.put(allocationKey(w.buf[:0], r.key), r.place); err != nil {
			return err
		}
		r.place = nil
	}
	if r.raw {
		if err := w.batch.Set(rawKey(w.buf[:0], r.row.Job), r.key.append(nil), nil); err != nil {
			return err
		}
		r.raw = false
	}
	w.reindex(r)
	return nil
}

// reindex keeps the index keys in step with the row.
func (w *writer) reindex(r *record) {
	if r.row.EndUs == 0 {
		if at := turnOf(r.key, r.row); !r.active || at != r.turn {
			r.active, r.turn = true, at
			w.key(false, at.append(nil), activeKey(w.arena, r.key))
		}
		return
	}
	if r.active {
		r.active = false
		w.key(true, nil, activeKey(w.arena, r.key))
	}
	now := indexOf(r.row)
	if r.index != nil {
		if *r.index == *now {
			return
		}
		w.index(r, true)
	}
	r.index = now
	w.index(r, false)
}

// index sets or removes the index keys of a record that has ended.
func (w *writer) index(r *record, remove bool) {
	x := r.index
	value := binary.BigEndian.AppendUint32(turnOf(r.key, r.row).append(nil), nameHash(x.name))
	w.key(remove, value, endKey(w.arena, x.end, r.key))
	w.key(remove, value, userKey(w.arena, x.user, x.end, r.key))
	w.key(remove, value, stateKey(w.arena, x.state, x.end, r.key))
}

// keyOp is an index key to be set or removed.
type keyOp struct {
	key    []byte
	value  []byte
	remove bool
}

// key notes an index key that was made at the end of the arena.
func (w *writer) key(remove bool, value, arena []byte) {
	w.keys = append(w.keys, keyOp{arena[len(w.arena):len(arena):len(arena)], value, remove})
	w.arena = arena
}

func (w *writer) writeKeys() error {
	slices.SortStableFunc(w.keys, func(a, b keyOp) int { return bytes.Compare(a.key, b.key) })
	for _, k := range w.keys {
		if k.remove {
			if err := w.batch.Delete(k.key, nil); err != nil {
				return err
			}
			continue
		}
		if err := w.batch.Set(k.key, k.value, nil); err != nil {
			return err
		}
	}
	w.keys, w.arena = w.keys[:0], w.arena[:0]
	return nil
}

// remove takes a record out: the remainder of an array whose last task has started.
func (w *writer) remove(r *record) error {
	if err := w.batch.Delete(jobKey(w.buf[:0], r.key), nil); err != nil {
		return err
	}
	if r.active {
		w.key(true, nil, activeKey(w.arena, r.key))
	}
	if r.index != nil {
		w.index(r, true)
	}
	return nil
}

// readCursor is where the tables stand: 0 if nothing was ever written.
func readCursor(db pebble.Reader) (seq uint64, at int64, err error) {
	value, closer, err := db.Get([]byte{tableCursor})
	if err == pebble.ErrNotFound {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("reading the cursor: %w", err)
	}
	defer closer.Close()
	if len(value) != 16 {
		return 0, 0, damaged([]byte{tableCursor}, fmt.Errorf("a cursor of %d bytes", len(value)))
	}
	return binary.BigEndian.Uint64(value), int64(binary.BigEndian.Uint64(value[8:])), nil
}
