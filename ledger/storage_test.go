package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"stint/ledger/rows"
)

// A write error stops the follower and says so; the cursor stands where the rows do, and what was written is good.
func TestWriteErrors(t *testing.T) {
	for _, o := range []Options{{}, {BulkChanges: 1}} {
		writeErrors(t, o)
	}
}

func writeErrors(t *testing.T, o Options) {
	h := sample(t)
	end := uint64(len(h.log))
	want := open(t, vfs.NewMem(), Options{})
	defer want.Close()
	feed(t, want, h, end, 1)
	stops := 0
	for at := uint64(2); at < end; at += 5 {
		mem := vfs.NewCrashableMem()
		var full atomic.Bool
		fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if full.Load() && (op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo || op.Kind == errorfs.OpCreate) {
				return &errNoSpace{op.Path}
			}
			return nil
		}))
		l := open(t, fs, o)
		feed(t, l, h, at, 1)
		if err := l.Commit(true); err != nil {
			t.Fatal(err)
		}
		full.Store(true)
		var err error
		for seq := at + 1; seq <= end && err == nil; seq++ {
			if err = l.Apply(h.event(seq)); err == nil {
				err = l.Commit(true)
			}
		}
		if err == nil {
			t.Fatalf("from %d on the disk was full and nothing failed", at)
		}
		stops++
		if !strings.Contains(err.Error(), "disk is full") || !strings.Contains(err.Error(), "goes on by itself") {
			t.Errorf("it says: %v", err)
		}
		if got := l.Seq(); got != at {
			t.Errorf("the tables were good to %d and claim %d", at, got)
		}
		if a := l.Answer(context.Background(), &rows.Ask{What: &rows.Ask_Status{Status: &rows.AskStatus{}}}); !strings.Contains(a.Error, "disk is full") {
			t.Errorf("an answer after it: %v", a)
		}
		if err := l.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
		// Space was made and it is started again, on what a crash would have left.
		image := mem.CrashClone(vfs.CrashCloneCfg{})
		again := open(t, image, o)
		if again.Seq() != at {
			t.Errorf("opened again at %d, the cursor was at %d", again.Seq(), at)
		}
		feed(t, again, h, end, 3)
		same(t, "after a full disk", want, again)
		again.Close()
	}
	if stops < 5 {
		t.Fatalf("only %d stops", stops)
	}
}

// Tables whose storage failed are opened again by the same process, as `stint up` does, and what is left of the failed engine
// writes no more.
func TestOpenAgainAfterWriteError(t *testing.T) {
	h := sample(t)
	end := uint64(len(h.log))
	want := open(t, vfs.NewMem(), Options{})
	defer want.Close()
	feed(t, want, h, end, 1)
	dir := t.TempDir()
	var full atomic.Bool
	fs := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && (op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpCreate) {
			return &errNoSpace{op.Path}
		}
		return nil
	}))
	for try := range 3 {
		full.Store(false)
		l, err := Open(dir, Options{FS: fs, MinFreeBytes: 1})
		if err != nil {
			t.Fatalf("try %d: %v", try, err)
		}
		feed(t, l, h, end/2, 1)
		if err := l.Commit(true); err != nil {
			t.Fatal(err)
		}
		full.Store(true)
		for seq := end/2 + 1; seq <= end && err == nil; seq++ {
			if err = l.Apply(h.event(seq)); err == nil {
				err = l.Commit(true)
			}
		}
		if err == nil {
			t.Fatal("the disk was full and nothing failed")
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Options{FS: fs, MinFreeBytes: 1}); err == nil || !strings.Contains(err.Error(), "disk is full") && !strings.Contains(err.Error(), "no space left") {
			t.Fatalf("opening with a full disk: %v", err)
		}
	}
	full.Store(false)
	l, err := Open(dir, Options{FS: fs, MinFreeBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	feed(t, l, h, end, 1)
	same(t, "after all", want, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

type errNoSpace struct{ path string }

func (e *errNoSpace) Error() string { return "write " + e.path + ": no space left on device" }
func (e *errNoSpace) Unwrap() error { return syscall.ENOSPC }

// little is a disk that says how much room it has.
type little struct {
	vfs.FS
	free *atomic.Uint64
}

func (d little) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: d.free.Load()}, nil
}

// With little room left the follower waits, says why, still answers, and goes on by itself.
func TestLittleRoom(t *testing.T) {
	h := sample(t)
	b := newHub()
	half := len(h.log) / 2
	b.play(t, h, 1, half)
	var free atomic.Uint64
	free.Store(1 << 30)
	l := open(t, little{vfs.NewMem(), &free}, Options{MinFreeBytes: 64 << 20})
	stop := run(t, l, b.Connect("ledger"))
	if err := l.Reached(context.Background(), uint64(half)); err != nil {
		t.Fatal(err)
	}
	free.Store(1 << 20)
	b.play(t, h, half+1, len(h.log))
	until(t, "it says why it stands still", func() bool {
		a := l.Answer(context.Background(), &rows.Ask{What: &rows.Ask_Status{Status: &rows.AskStatus{}}})
		return a.Seq == uint64(half) && strings.Contains(a.Status.GetError(), "1 MiB free")
	})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := l.Reached(ctx, uint64(len(h.log))); err == nil || !strings.Contains(err.Error(), "MiB free") {
		t.Errorf("who waits is told %v", err)
	}
	free.Store(1 << 30)
	until(t, "it goes on", func() bool { return l.Seq() == uint64(len(h.log)) })
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// A damaged directory is refused with a sentence that says what to do, whatever is damaged; a damaged snapshot of the
// fold is passed over.
func TestDamage(t *testing.T) {
	h := sample(t)
	end := uint64(len(h.log))
	fs := vfs.NewMem()
	l := open(t, fs, Options{SnapshotEvery: 10})
	feed(t, l, h, end, 5)
	want, err := l.Hash()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := fs.List("ledger/tables")
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, name := range names {
		ext := path.Ext(name)
		if ext != ".sst" && !strings.HasPrefix(name, "MANIFEST") && !strings.HasPrefix(name, "OPTIONS") {
			continue
		}
		for _, how := range []string{"flipped", "cut", "gone"} {
			t.Run(name+" "+how, func(t *testing.T) {
				copied := vfs.NewMem()
				if _, err := vfs.Clone(fs, copied, "ledger", "ledger"); err != nil {
					t.Fatal(err)
				}
				spoil(t, copied, "ledger/tables/"+name, how)
				l, err := Open("ledger", Options{FS: copied, MinFreeBytes: 1})
				if err == nil {
					// Found when the rows are read; or it was nothing that matters.
					got, herr := l.Hash()
					a := l.Answer(context.Background(), &rows.Ask{What: &rows.Ask_Jobs{Jobs: &rows.AskJobs{}}})
					l.Close()
					switch {
					case a.Error != "":
						refused++
						if !strings.Contains(a.Error, "delete the directory") {
							t.Errorf("it says: %s", a.Error)
						}
					case herr == nil && got != want:
						t.Error("other tables, and nothing was said")
					}
					return
				}
				refused++
				var d *DamagedError
				if !errors.As(err, &d) || !strings.Contains(err.Error(), "ledger") || !strings.Contains(err.Error(), "delete the directory") {
					t.Errorf("it says: %v", err)
				}
			})
		}
	}
	if refused < 2 {
		t.Errorf("only %d of the damages were noticed", refused)
	}
	t.Run("snapshots", func(t *testing.T) {
		copied := vfs.NewMem()
		if _, err := vfs.Clone(fs, copied, "ledger", "ledger"); err != nil {
			t.Fatal(err)
		}
		l := open(t, copied, Options{})
		seqs := l.folds()
		l.db.Close()
		if len(seqs) == 0 {
			t.Fatal("there are no snapshots")
		}
		for i, seq := range seqs {
			spoil(t, copied, fmt.Sprint("ledger/", foldPrefix, seq), []string{"flipped", "cut"}[i%2])
		}
		l = open(t, copied, Options{})
		defer l.Close()
		if l.Next() != 1 || l.Seq() != end {
			t.Errorf("folds from %d on, tables at %d", l.Next(), l.Seq())
		}
		feed(t, l, h, end, 5)
		if got, err := l.Hash(); err != nil || got != want {
			t.Errorf("other tables: %v", err)
		}
	})
	t.Run("another format", func(t *testing.T) {
		copied := vfs.NewMem()
		if _, err := vfs.Clone(fs, copied, "ledger", "ledger"); err != nil {
			t.Fatal(err)
		}
		l := open(t, copied, Options{})
		value, _ := (&rows.Meta{Format: Format + 1}).MarshalVT()
		if err := l.db.Set([]byte{tableMeta}, value, nil); err != nil {
			t.Fatal(err)
		}
		l.Close()
		if _, err := Open("ledger", Options{FS: copied}); err == nil || !strings.Contains(err.Error(), "delete the directory") {
			t.Errorf("it says: %v", err)
		}
	})
}

func spoil(t *testing.T, fs vfs.FS, name, how string) {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := fs.Remove(name); err != nil {
		t.Fatal(err)
	}
	switch how {
	case "gone":
		return
	case "cut":
		data = data[:len(data)/2]
	case "flipped":
		data[len(data)/2] ^= 0x40
	}
	g, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
}

// A directory that is open in another process is not called damaged.
func TestOpenTwice(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = Open(dir, Options{})
	var d *DamagedError
	if err == nil || errors.As(err, &d) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("it says: %v", err)
	}
}
