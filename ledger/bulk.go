package ledger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Tables that are far behind their log get their rows in bulk: what a commit has gathered is sorted and written to files as the
// storage engine keeps them, which it then takes over, rows and cursor in one act, as a batch is. Nothing of it passes through the engine's
// own log and memory, and what lies behind all that a table has is never merged again. It is done beside the fold, one commit at a time.
const bulkPrefix = "rows-"

// flight is a commit in bulk that is under way.
type flight struct {
	view
	w    *writer
	done chan struct{} // closed at the end
	err  error
}

// launch begins to write what was gathered, with the cursor, in bulk.
func (l *Ledger) launch(v view) error {
	w, ended, err := l.tables.gathered(v.seq, v.at, true)
	if err != nil {
		return err
	}
	f := &flight{view: v, w: w, done: make(chan struct{})}
	l.flight = f
	go func() {
		defer close(f.done)
		if f.err = l.bulk.write(l.db, w, ended); f.err == nil {
			l.publish(f.view)
			return
		}
		f.err = fmt.Errorf("writing the rows up to sequence %d: %w", v.seq, f.err)
		if vfs.IsNoSpaceError(f.err) {
			l.fail(f.err)
		}
	}()
	return nil
}

// settle waits for the commit in bulk that is under way: until then the tables may not be read for what is to be written next.
func (l *Ledger) settle() error {
	f := l.flight
	if f == nil {
		return nil
	}
	select {
	case <-f.done:
	case <-l.gone:
	}
	l.mu.Lock()
	broken := l.broken
	l.mu.Unlock()
	switch {
	case broken != nil:
		return broken
	case f.err != nil:
		return f.err
	}
	l.flight, l.cursor, l.synced = nil, f.seq, f.seq
	l.tables.reuse(f.w)
	return nil
}

// bulk writes sorted files into dir and has the storage engine take them over.
type bulk struct {
	fs  vfs.FS
	dir string
	n   int // of files
	ops []rowOp
	top map[string][]byte // by table: the highest key that was written in bulk
}

// rowOp is a row to be set or removed; key and value lie in the writer.
type rowOp struct {
	keyOp
	head uint64 // the first bytes of the key
	n    int    // when it was written
}

func (b *bulk) add(k keyOp) {
	var head [8]byte
	copy(head[:], k.key)
	b.ops = append(b.ops, rowOp{k, binary.BigEndian.Uint64(head[:]), len(b.ops)})
}

func (x *rowOp) compare(y *rowOp) int {
	if x.head != y.head {
		return cmp.Compare(x.head, y.head)
	}
	if c := bytes.Compare(x.key, y.key); c != 0 {
		return c
	}
	return cmp.Compare(x.n, y.n)
}

func newBulk(fs vfs.FS, dir string) *bulk { return &bulk{fs: fs, dir: dir, top: map[string][]byte{}} }

// sweep removes files that were begun and never taken over.
func (b *bulk) sweep() {
	names, err := b.fs.List(b.dir)
	if err != nil {
		return // there is nothing yet
	}
	for _, n := range names {
		if base := b.fs.PathBase(n); strings.HasPrefix(base, bulkPrefix) {
			b.fs.Remove(b.fs.PathJoin(b.dir, base)) // it is only in the way
		}
	}
}

func (b *bulk) write(db *pebble.DB, w *writer, ended []*record) error {
	for _, r := range ended {
		if err := w.write(r); err != nil {
			return err
		}
	}
	if err := b.sort(w); err != nil {
		return err
	}
	var files []string
	for ops := b.ops; len(ops) > 0; {
		n := b.cut(ops)
		b.n++
		name := b.fs.PathJoin(b.dir, fmt.Sprintf("%s%d.sst", bulkPrefix, b.n))
		if err := b.file(db, name, ops[:n]); err != nil {
			return err
		}
		files = append(files, name)
		ops = ops[n:]
	}
	clear(b.ops)
	return db.Ingest(context.Background(), files)
}

// sort lists what is to be written by keys, of each key the last.
func (b *bulk) sort(w *writer) error {
	b.ops = b.ops[:0]
	in := w.batch.Reader()
	for {
		kind, key, value, ok, err := in.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		b.add(keyOp{key, value, kind == pebble.InternalKeyKindDelete})
	}
	for _, k := range w.keys {
		b.add(k)
	}
	w.keys, w.arena = w.keys[:0], w.arena[:0]
	slices.SortFunc(b.ops, func(x, y rowOp) int { return x.compare(&y) })
	n := 0
	for i := range b.ops {
		if i+1 < len(b.ops) && bytes.Equal(b.ops[i].key, b.ops[i+1].key) {
			continue
		}
		b.ops[n] = b.ops[i]
		n++
	}
	b.ops = b.ops[:n]
	return nil
}

// tableOf is what of a key names the table it is in, with the state where there is a list for each.
func tableOf(key []byte) []byte {
	if key[0] == tableState {
		return key[:2]
	}
	return key[:1]
}

// cut is how many of ops go into one file: those of a table that lie between what it has, or those behind it.
func (b *bulk) cut(ops []rowOp) int {
	table := tableOf(ops[0].key)
	top := b.top[string(table)]
	between := bytes.Compare(ops[0].key, top) <= 0
	n := 0
	for n < len(ops) && bytes.Equal(tableOf(ops[n].key), table) && (bytes.Compare(ops[n].key, top) <= 0) == between {
		n++
	}
	if !between {
		b.top[string(table)] = append(top[:0], ops[n-1].key...)
	}
	return n
}

// file writes a file of rows.
func (b *bulk) file(db *pebble.DB, name string, ops []rowOp) error {
	f, err := b.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), sstable.WriterOptions{TableFormat: db.TableFormat(), FilterPolicy: bloom.FilterPolicy(10), BlockSize: 8 << 10})
	for _, op := range ops {
		if op.remove {
			err = w.Delete(op.key)
		} else {
			err = w.Set(op.key, op.value)
		}
		if err != nil {
			w.Close()
			return err
		}
	}
	return w.Close()
}
