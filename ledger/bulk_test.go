package ledger

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Rows written in bulk are those written in batches, whatever was written which way, and wherever it was closed or killed, also
// while a commit in bulk was under way.
func TestBulkIsTheSame(t *testing.T) {
	seed := seedOf(t)
	r := rand.New(rand.NewPCG(seed, 21))
	h := newHistory(t, 6)
	h.wander(r, 1500)
	end := uint64(len(h.log))
	want := open(t, vfs.NewMem(), Options{})
	defer want.Close()
	feed(t, want, h, end, 1)

	for _, batch := range []uint64{1, 7, 100, 1 << 40} {
		got := open(t, vfs.NewMem(), Options{BulkChanges: 1})
		feed(t, got, h, end, batch)
		same(t, fmt.Sprintf("bulks of %d messages", batch), want, got)
		got.Close()
	}
	for _, killed := range []bool{false, true} {
		t.Run(map[bool]string{false: "closed and opened", true: "killed"}[killed], func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			ways := []Options{{SnapshotEvery: 150}, {SnapshotEvery: 150, BulkChanges: 1}, {SnapshotEvery: 150, BulkChanges: 30}}
			underway := 0
			for at := uint64(0); at < end; {
				at = min(end, at+1+r.Uint64N(300))
				l := open(t, fs, ways[r.IntN(len(ways))])
				feed(t, l, h, at, 1+r.Uint64N(80))
				if l.flight != nil {
					underway++
				}
				if killed {
					image := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(101), RNG: rand.New(rand.NewPCG(seed, at))})
					l.Close()
					fs = image
					continue
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if underway == 0 {
				t.Error("no commit in bulk was ever under way: it shows nothing")
			}
			got := open(t, fs, Options{})
			defer got.Close()
			feed(t, got, h, end, 10)
			same(t, "at the end", want, got)
			names, err := fs.List("ledger")
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range names {
				if strings.HasPrefix(fs.PathBase(n), bulkPrefix) {
					t.Errorf("%s was left behind", n)
				}
			}
		})
	}
}
