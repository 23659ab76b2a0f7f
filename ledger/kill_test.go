package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestKilledProcess has a process make the tables, kills it again and again wherever it happens to be, and finds the tables
// that nobody disturbed. The process is this test binary, told so by the environment.
func TestKilledProcess(t *testing.T) {
	killedProcess(t, Options{MinFreeBytes: 1, SnapshotEvery: 100}, 1)
}

// The same while the tables are made in bulk.
func TestKilledProcessInBulk(t *testing.T) {
	killedProcess(t, Options{MinFreeBytes: 1, SnapshotEvery: 400, BulkChanges: 1}, 20)
}

// killedProcess does it with a commit each so many messages.
func killedProcess(t *testing.T, o Options, each uint64) {
	const seed = 7
	story := func() *history {
		h := newHistory(t, 4)
		h.wander(rand.New(rand.NewPCG(seed, 6)), 1500)
		return h
	}
	if dir := os.Getenv("STINT_LEDGER_KILLED"); dir != "" {
		h := story()
		l, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(os.Stderr, "ready", l.Seq())
		for seq := l.Next(); seq <= uint64(len(h.log)); seq++ {
			if err := l.Apply(h.event(seq)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Microsecond) // leaves room to be killed in
			if seq%each != 0 && seq < uint64(len(h.log)) {
				continue
			}
			if err := l.Commit(seq%50 == 0); err != nil {
				t.Fatal(err)
			}
			if err := l.snapshotIfDue(true); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.settle(); err != nil {
			t.Fatal(err)
		}
		os.Exit(0) // without closing: what is committed must do
	}
	h := story()
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(seedOf(t), 7))
	kills := 0
	for deadline := time.Now().Add(60 * time.Second); ; {
		if time.Now().After(deadline) {
			t.Fatal("it does not come to an end")
		}
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "STINT_LEDGER_KILLED="+dir)
		ready, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var at uint64
		if _, err := fmt.Fscanf(ready, "ready %d\n", &at); err != nil {
			t.Fatalf("the process did not get ready after %d kills: %v", kills, err)
		}
		if kills < 12 {
			time.AfterFunc(time.Duration(r.IntN(60))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		}
		err = cmd.Wait()
		var exit *exec.ExitError
		if err == nil {
			break
		}
		if !errors.As(err, &exit) || exit.ExitCode() != -1 {
			t.Fatalf("after %d kills: %v", kills, err)
		}
		kills++
	}
	if kills < 3 {
		t.Errorf("only %d kills", kills)
	}
	want := open(t, vfs.NewMem(), Options{})
	defer want.Close()
	feed(t, want, h, uint64(len(h.log)), 9)
	got, err := Open(dir, Options{MinFreeBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	feed(t, got, h, uint64(len(h.log)), 9)
	same(t, fmt.Sprintf("after %d kills", kills), want, got)
}
