package ledger

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// commit writes all that is pending and the cursor in one batch. What a batch holds depends on where the commits fall,
// the tables after it do not.
func (t *tables) commit(seq uint64, at int64, how *pebble.WriteOptions) error {
	// Keys go in table by table and ascending, since that is how inserting is cheap.
	slices.SortStableFunc(t.dirty, func(a, b *record) int { return a.key.compare(b.key) })
	for _, r := range t.dirty {
		if err := t.write(r); err != nil {
			return err
		}
	}
	if err := t.writeKeys(); err != nil {
		return err
	}
	slices.SortStableFunc(t.told, func(a, b *chapter) int { return cmp.Compare(a.job, b.job) })
	for _, c := range t.told {
		if err := t.batch.Set(storyKey(t.buf[:0], c.job, c.chunk), c.data, nil); err != nil {
			return err
		}
		c.dirty = false
	}
	keys := make([]string, 0, len(t.usage))
	for k := range t.usage {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if err := t.put([]byte(k), t.usage[k]); err != nil {
			return err
		}
	}
	cursor := binary.BigEndian.AppendUint64(nil, seq)
	cursor = binary.BigEndian.AppendUint64(cursor, uint64(at))
	if err := t.batch.Set([]byte{tableCursor}, cursor, nil); err != nil {
		return err
	}
	if err := t.db.Apply(t.batch, how); err != nil {
		return fmt.Errorf("writing the rows up to sequence %d: %w", seq, err)
	}
	if err := t.batch.Close(); err != nil {
		return err
	}
	t.batch = t.db.NewBatch()
	t.forgetEnded()
	t.dirty, t.told, t.pending = t.dirty[:0], t.told[:0], 0
	clear(t.usage)
	t.forget()
	return nil
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
	if len(t.current) > keep {
		clear(t.current)
	}
	if len(t.stories) > keep {
		clear(t.stories)
	}
}

// write puts a record, its steps and its index keys into the batch.
func (t *tables) write(r *record) error {
	r.dirty = false
	key := jobKey(t.buf[:0], r.key)
	t.buf = key
	if r.gone {
		return t.remove(r)
	}
	if err := t.put(key, r.row); err != nil {
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
		if err := t.put(stepKey(t.buf[:0], r.key, s.row.Step), s.row); err != nil {
			return err
		}
	}
	if r.place != nil {
		if err := t.put(allocationKey(t.buf[:0], r.key), r.place); err != nil {
			return err
		}
		r.place = nil
	}
	if r.raw {
		if err := t.batch.Set(rawKey(t.buf[:0], r.row.Job), r.key.append(nil), nil); err != nil {
			return err
		}
		r.raw = false
	}
	t.reindex(r)
	return nil
}

// reindex keeps the index keys in step with the row.
func (t *tables) reindex(r *record) {
	if r.row.EndUs == 0 {
		if at := turnOf(r.key, r.row); !r.active || at != r.turn {
			r.active, r.turn = true, at
			t.key(false, at.append(nil), activeKey(t.arena, r.key))
		}
		return
	}
	if r.active {
		r.active = false
		t.key(true, nil, activeKey(t.arena, r.key))
	}
	now := indexOf(r.row)
	if r.index != nil {
		if *r.index == *now {
			return
		}
		t.index(r, true)
	}
	r.index = now
	t.index(r, false)
}

// index sets or removes the index keys of a record that has ended.
func (t *tables) index(r *record, remove bool) {
	x := r.index
	value := binary.BigEndian.AppendUint32(turnOf(r.key, r.row).append(nil), nameHash(x.name))
	t.key(remove, value, endKey(t.arena, x.end, r.key))
	t.key(remove, value, userKey(t.arena, x.user, x.end, r.key))
	t.key(remove, value, stateKey(t.arena, x.state, x.end, r.key))
}

// keyOp is an index key to be set or removed.
type keyOp struct {
	key    []byte
	value  []byte
	remove bool
}

// key notes an index key that was made at the end of the arena.
func (t *tables) key(remove bool, value, arena []byte) {
	t.keys = append(t.keys, keyOp{arena[len(t.arena):len(arena):len(arena)], value, remove})
	t.arena = arena
}

func (t *tables) writeKeys() error {
	slices.SortStableFunc(t.keys, func(a, b keyOp) int { return bytes.Compare(a.key, b.key) })
	for _, k := range t.keys {
		if k.remove {
			if err := t.batch.Delete(k.key, nil); err != nil {
				return err
			}
			continue
		}
		if err := t.batch.Set(k.key, k.value, nil); err != nil {
			return err
		}
	}
	t.keys, t.arena = t.keys[:0], t.arena[:0]
	return nil
}

// remove takes a record out: the remainder of an array whose last task has started.
func (t *tables) remove(r *record) error {
	if err := t.batch.Delete(jobKey(t.buf[:0], r.key), nil); err != nil {
		return err
	}
	if r.active {
		t.key(true, nil, activeKey(t.arena, r.key))
	}
	if r.index != nil {
		t.index(r, true)
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
