// Package ledger follows the log into tables and answers what was: which jobs ran, where, with what end, and what they
// used. It has a fold of its own; its rows are made from the changes that the fold reports, and the cursor is written in
// the same batch as the rows, so that the tables are a function of EVENTS alone: deleting the directory and replaying the
// log gives the same tables, whatever the size of batches, and wherever a kill -9 fell.
//
// A follower calls Apply for each message and Commit now and then (Run does both from a bus). Questions are answered
// from a snapshot of the tables, by any number of goroutines, and never hold the follower.
package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"stint/events"
	"stint/ledger/rows"
	"stint/projections"
)

// Options of a ledger. The zero value is what production uses.
type Options struct {
	FS            vfs.FS       // nil: the disk
	Log           *slog.Logger // nil: nothing is said
	BatchChanges  int          // changes per batch; 0: 4,096
	FarChanges    int          // changes per batch while the end of the log is far; 0: 32,768
	BulkChanges   int          // batches of as many are written in bulk; 0: 8,192
	SnapshotEvery uint64       // messages between snapshots of the fold; 0: 200,000
	CacheBytes    int64        // of blocks; 0: 64 MiB
	MinFreeBytes  uint64       // the follower pauses when the disk has less; 0: 64 MiB
	Host          string       // named in Status
	Version       string       // of the program, told to those who ask who follows the log
}

// Ledger is an open directory of tables and the fold that feeds them.
type Ledger struct {
	dir string
	o   Options
	fs  vfs.FS
	db  *pebble.DB

	gate *gate // between the storage engine and the disk

	fold    *projections.Cluster
	tables  *tables
	cursor  uint64 // rows up to here are committed
	synced  uint64 // and up to here known to be on disk
	far     uint64 // where the log ended when following it began
	bulk    *bulk
	flight  *flight // the commit in bulk that is under way, or nil
	snapped uint64  // sequence of the last snapshot of the fold
	work    int     // intents and facts folded since

	mu      sync.Mutex
	seq     uint64         // committed and visible
	at      int64          // server time of it
	moved   chan struct{}  // closed when seq moves
	hot     int            // jobs in hot state then
	config  *events.Config // in force then: what of others' whoever asks may see
	policy  *projections.Policy
	trouble string        // why the follower stands still
	broken  error         // the storage failed: nothing may be asked of it any more
	first   int64         // server time of message 1
	gone    chan struct{} // closed when broken is set

	snappedSeq uint64 // as told to others
	closed     bool
	asked      sync.WaitGroup // questions being answered
	fetch      Fetcher
	open       openQuestions
}

// Fetcher reads messages of the log for the stories that are told from them.
type Fetcher interface {
	// Message returns one message, decoded with its bytes. An error wrapping ErrArchived says that it is kept elsewhere.
	Message(ctx context.Context, seq uint64) (events.Event, error)
	// Messages calls f with the messages from the sequence from on, in order, until f returns false or the end of the log.
	Messages(ctx context.Context, from uint64, f func(events.Event) bool) error
}

// ErrArchived: a message is not in the log any more.
var ErrArchived = errors.New("the message has been archived")

// A DamagedError says that a directory cannot be trusted, and what to do.
type DamagedError struct {
	Dir string
	Err error
}

func (e *DamagedError) Error() string {
	where := "the tables"
	if e.Dir != "" {
		where = e.Dir
	}
	return fmt.Sprintf("%s cannot be read (%v): stop the ledger, delete the directory and start it again; the tables are made anew from the log", where, e.Err)
}

func (e *DamagedError) Unwrap() error { return e.Err }

func damaged(key []byte, err error) error {
	return &DamagedError{Err: fmt.Errorf("row %s: %w", hex.EncodeToString(key), err)}
}

// Open opens the tables in dir, which is made if it is not there, and loads the latest snapshot of the fold that is not
// ahead of them. It fails with a *DamagedError if they cannot be used and must be deleted.
func Open(dir string, o Options) (*Ledger, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.BatchChanges == 0 {
		o.BatchChanges = 4096
	}
	if o.FarChanges == 0 {
		o.FarChanges = 1 << 15
	}
	if o.BulkChanges == 0 {
		o.BulkChanges = 1 << 13
	}
	if o.SnapshotEvery == 0 {
		o.SnapshotEvery = 200_000
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	if o.MinFreeBytes == 0 {
		o.MinFreeBytes = 64 << 20
	}
	l := &Ledger{dir: dir, o: o, fs: o.FS, moved: make(chan struct{}), gone: make(chan struct{})}
	if err := o.FS.MkdirAll(o.FS.PathJoin(dir, tablesDir), 0o700); err != nil {
		return nil, fmt.Errorf("making the ledger's directory %s: %w", dir, err)
	}
	// The new directory's own name must be on the disk too, or a crash takes all of it.
	for _, d := range []string{dir, o.FS.PathDir(dir)} {
		if err := syncDir(o.FS, d); err != nil {
			return nil, fmt.Errorf("syncing the directory %s: %w", d, err)
		}
	}
	if why := l.room(); why != "" { // an engine that fails as it opens cannot be thrown away
		return nil, errors.New(why)
	}
	if err := l.openTables(); err != nil {
		return nil, err
	}
	if err := l.load(); err != nil {
		l.db.Close()
		return nil, err
	}
	return l, nil
}

// tablesDir holds the tables; the fold's snapshots lie beside it.
const tablesDir = "tables"

func (l *Ledger) openTables() (err error) {
	l.gate = &gate{FS: l.fs}
	l.bulk = newBulk(l.gate, l.dir)
	l.bulk.sweep()
	cache := pebble.NewCache(l.o.CacheBytes)
	defer cache.Unref()
	opts := &pebble.Options{
		FS:                 l.gate,
		FormatMajorVersion: pebble.FormatNewest,
		Cache:              cache,
		MemTableSize:       8 << 20, // small ones are used again before they leave the cache, and no rebuild is quicker with bigger ones
		// Rows are written in bulk when the tables are made anew: fewer and bigger merges.
		L0CompactionThreshold: 8,
		L0StopWritesThreshold: 40,
		LBaseMaxBytes:         256 << 20,
		Logger:                &logger{l},
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { l.fail(fmt.Errorf("writing in the background: %w", err)) }, // it would try again at once, for ever
			DataCorruption:  l.corrupt,
		},
	}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	err = l.guard(func() (err error) {
		defer func() {
			if r := recover(); r != nil { // a damaged file may be believed, up to a point
				err = fmt.Errorf("%v", r)
			}
		}()
		db, err := pebble.Open(l.fs.PathJoin(l.dir, tablesDir), opts)
		l.db = db
		return err
	})
	var d *DamagedError
	if err == nil {
		return nil
	}
	l.gate.close()
	switch {
	case errors.As(err, &d):
		return err
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("opening the tables in %s: %w", l.dir, err)
	case isLocked(err):
		return fmt.Errorf("opening the tables in %s: another process has them open: %w", l.dir, err)
	case vfs.IsNoSpaceError(err):
		return fmt.Errorf("opening the tables in %s: the disk is full; free some space: %w", l.dir, err)
	}
	return &DamagedError{Dir: l.dir, Err: err}
}

// load reads what the directory is, where it stands, and the fold.
func (l *Ledger) load() error {
	meta := &rows.Meta{}
	known, err := get(l.db, []byte{tableMeta}, meta)
	if err != nil {
		return l.named(err)
	}
	if known && meta.Format != Format {
		return &DamagedError{Dir: l.dir, Err: fmt.Errorf("they have format %d, this version writes format %d", meta.Format, Format)}
	}
	if !known {
		value, err := (&rows.Meta{Format: Format}).MarshalVT()
		if err != nil {
			return err
		}
		if err := l.db.Set([]byte{tableMeta}, value, pebble.Sync); err != nil {
			return fmt.Errorf("writing to the tables in %s: %w", l.dir, err)
		}
	}
	l.first = meta.FirstUs
	seq, at, err := readCursor(l.db)
	if err != nil {
		return l.named(err)
	}
	l.cursor, l.seq, l.at = seq, seq, at
	if l.tables, err = newTables(l.db); err != nil {
		return l.named(err)
	}
	l.tables.settle = l.settle
	l.fold, l.snapped = l.loadFold()
	l.config, l.policy = l.fold.Config(), l.fold.Policy()
	return nil
}

// named puts the directory's name into a damage that was found in it.
func (l *Ledger) named(err error) error {
	var d *DamagedError
	if errors.As(err, &d) && d.Dir == "" {
		return &DamagedError{Dir: l.dir, Err: d.Err}
	}
	if pebble.IsCorruptionError(err) {
		return &DamagedError{Dir: l.dir, Err: err}
	}
	return err
}

// Next is the sequence of the message that Apply wants next: behind the snapshot of the fold, which may lie before the
// tables' cursor.
func (l *Ledger) Next() uint64 { return l.fold.Seq() + 1 }

// Seq is the sequence the tables are current to, for all to see.
func (l *Ledger) Seq() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

// Apply folds one message and gathers its rows; they are written by Commit. Messages that were folded before are passed
// over, those whose rows are already in the tables are only folded.
func (l *Ledger) Apply(e events.Event) error {
	if e.Seq <= l.fold.Seq() {
		return nil
	}
	if e.Seq <= l.cursor {
		l.fold.Apply(e)
		return nil
	}
	if e.Seq == 1 {
		if err := l.tables.put([]byte{tableMeta}, &rows.Meta{Format: Format, FirstUs: e.At}); err != nil {
			return err
		}
		l.first = e.At
	}
	return l.named(l.record(&e))
}

// Pending is how many changes wait for Commit.
func (l *Ledger) Pending() int { return l.tables.pending }

// Commit writes what was gathered, with the cursor. sync: it is on disk when Commit returns; otherwise the end of it may
// be lost in a crash, rows and cursor together.
func (l *Ledger) Commit(sync bool) error {
	if err := l.settle(); err != nil {
		return l.named(err)
	}
	v := view{l.fold.Seq(), l.fold.At(), l.fold.Counts().Jobs, l.fold.Config(), l.fold.Policy()}
	seq := v.seq
	if seq <= l.cursor && (!sync || l.cursor <= l.synced) {
		return nil
	}
	if seq < l.cursor {
		return nil // still folding what the tables have
	}
	if l.tables.pending >= l.o.BulkChanges {
		err := l.launch(v)
		if err == nil && sync {
			err = l.settle()
		}
		return l.named(err)
	}
	how := pebble.NoSync
	if sync {
		how = pebble.Sync
	}
	if err := l.guard(func() error { return l.tables.commit(seq, v.at, how) }); err != nil {
		return l.named(err)
	}
	l.cursor = seq
	if sync {
		l.synced = seq
	}
	l.publish(v)
	return nil
}

// view is the state of the fold that a commit belongs to.
type view struct {
	seq    uint64
	at     int64
	hot    int
	config *events.Config
	policy *projections.Policy
}

// publish lets all see how far the tables are.
func (l *Ledger) publish(v view) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq, l.at, l.hot, l.config, l.policy = v.seq, v.at, v.hot, v.config, v.policy
	l.trouble = ""
	close(l.moved)
	l.moved = make(chan struct{})
}

// Reached waits until the tables are current to seq.
func (l *Ledger) Reached(ctx context.Context, seq uint64) error {
	for {
		l.mu.Lock()
		have, moved, trouble, broken := l.seq, l.moved, l.trouble, l.broken
		l.mu.Unlock()
		switch {
		case broken != nil:
			return broken
		case have >= seq:
			return nil
		}
		select {
		case <-moved:
		case <-l.gone:
		case <-ctx.Done():
			if trouble != "" {
				return fmt.Errorf("accounting stands at %d, %d was asked for: %s", have, seq, trouble)
			}
			return fmt.Errorf("accounting is at %d, %d was asked for: %w", have, seq, ctx.Err())
		}
	}
}

// stand notes why the follower stands still; a commit that succeeds takes it back.
func (l *Ledger) stand(why string) {
	l.mu.Lock()
	changed := l.trouble != why
	l.trouble = why
	l.mu.Unlock()
	if changed && why != "" {
		l.o.Log.Error("the ledger is in trouble", "dir", l.dir, "why", why)
	}
}

// Hash is a hash over all keys and values of the tables: equal for equal logs. It is for whoever follows the log.
func (l *Ledger) Hash() ([32]byte, error) {
	if err := l.settle(); err != nil {
		return [32]byte{}, err
	}
	h := sha256.New()
	it, err := l.db.NewIter(nil)
	if err != nil {
		return [32]byte{}, fmt.Errorf("reading the tables: %w", err)
	}
	defer it.Close()
	var n [8]byte
	for ok := it.First(); ok; ok = it.Next() {
		n[0], n[1], n[2], n[3] = byte(len(it.Key())), byte(len(it.Key())>>8), byte(len(it.Value())), byte(len(it.Value())>>8)
		n[4], n[5] = byte(len(it.Value())>>16), byte(len(it.Value())>>24)
		h.Write(n[:])
		h.Write(it.Key())
		h.Write(it.Value())
	}
	if err := it.Error(); err != nil {
		return [32]byte{}, fmt.Errorf("reading the tables: %w", err)
	}
	return [32]byte(h.Sum(nil)), nil
}

// Close writes what was gathered and a snapshot of the fold, and closes the tables.
func (l *Ledger) Close() error {
	l.mu.Lock()
	broken, again := l.broken, l.closed
	l.closed = true
	l.mu.Unlock()
	if again {
		return nil
	}
	if broken != nil {
		l.gate.close() // the storage engine is not in a state to be closed
		return nil
	}
	l.asked.Wait()
	err := l.Commit(true)
	if err == nil && l.fold.Seq() > l.snapped {
		err = l.saveFold()
	}
	if cerr := l.tables.batch.Close(); err == nil {
		err = cerr
	}
	if cerr := l.db.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("closing the tables in %s: %w", l.dir, cerr)
	}
	return err
}
