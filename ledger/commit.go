package ledger

import (
	"encoding/binary"
	"fmt"
	"sort"

	"github.com/cockroachdb/pebble/v2"
)

// commit writes all that is pending and the cursor in one batch. What a batch holds depends on where the commits fall,
// the tables after it do not.
func (t *tables) commit(seq uint64, at int64, how *pebble.WriteOptions) error {
	for _, r := range t.dirty {
		if err := t.write(r); err != nil {
			return err
		}
	}
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
	sort.Strings(keys)
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
	t.dirty, t.told, t.pending = t.dirty[:0], t.told[:0], 0
	clear(t.usage)
	t.forget()
	return nil
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
	return t.reindex(r)
}

// reindex keeps the index keys in step with the row.
func (t *tables) reindex(r *record) error {
	if r.row.EndUs == 0 {
		if !r.active {
			r.active = true
			return t.batch.Set(activeKey(t.buf[:0], r.key), nil, nil)
		}
		return nil
	}
	if r.active {
		r.active = false
		if err := t.batch.Delete(activeKey(t.buf[:0], r.key), nil); err != nil {
			return err
		}
	}
	now := indexOf(r.row)
	if r.index != nil {
		if *r.index == *now {
			return nil
		}
		if err := t.unindex(r); err != nil {
			return err
		}
	}
	r.index = now
	var value [4]byte
	name := nameValue(value[:0], now.name)
	return t.eachIndex(r, func(key []byte) error { return t.batch.Set(key, name, nil) })
}

func (t *tables) unindex(r *record) error {
	return t.eachIndex(r, func(key []byte) error { return t.batch.Delete(key, nil) })
}

func (t *tables) eachIndex(r *record, f func(key []byte) error) error {
	x := r.index
	if err := f(endKey(t.buf[:0], x.end, r.key)); err != nil {
		return err
	}
	if err := f(userKey(t.buf[:0], x.user, x.end, r.key)); err != nil {
		return err
	}
	return f(stateKey(t.buf[:0], x.state, x.end, r.key))
}

// remove takes a record out: the remainder of an array whose last task has started.
func (t *tables) remove(r *record) error {
	if err := t.batch.Delete(jobKey(t.buf[:0], r.key), nil); err != nil {
		return err
	}
	if r.active {
		if err := t.batch.Delete(activeKey(t.buf[:0], r.key), nil); err != nil {
			return err
		}
	}
	if r.index != nil {
		return t.unindex(r)
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
