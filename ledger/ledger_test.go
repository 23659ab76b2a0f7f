package ledger

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"stint/events"
	"stint/events/schema"
	"stint/ledger/rows"
)

// feed applies a history's messages up to and including to, committing after every batch messages.
func feed(t testing.TB, l *Ledger, h *history, to uint64, batch uint64) {
	t.Helper()
	for seq := l.Next(); seq <= to; seq++ {
		if err := l.Apply(h.event(seq)); err != nil {
			t.Fatalf("message %d: %v", seq, err)
		}
		if seq%batch == 0 {
			if err := l.Commit(false); err != nil {
				t.Fatal(err)
			}
			if l.fold.Seq() >= l.cursor && l.fold.Seq()-l.snapped >= l.o.SnapshotEvery {
				if err := l.Commit(true); err != nil {
					t.Fatal(err)
				}
				if err := l.saveFold(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := l.Commit(false); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, fs vfs.FS, o Options) *Ledger {
	t.Helper()
	o.FS = fs
	if o.MinFreeBytes == 0 {
		o.MinFreeBytes = 1
	}
	l, err := Open("ledger", o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// dump writes the tables as text, a row a line.
func dump(t testing.TB, l *Ledger) string {
	t.Helper()
	var b bytes.Buffer
	err := scan(l.db, []byte{0}, []byte{0xff}, func(key, value []byte) error {
		var m interface {
			schema.Message
			UnmarshalVT([]byte) error
		}
		switch {
		case key[0] == tableJob && len(key) == 1+recordLen:
			m = &rows.JobRow{}
		case key[0] == tableJob:
			m = &rows.StepRow{}
		case key[0] == tableAllocation:
			m = &rows.AllocationRow{}
		case key[0] == tableUsage:
			m = &rows.UsageRow{}
		case key[0] == tableNodeEvent:
			m = &rows.NodeEventRow{}
		}
		text := fmt.Sprintf("%x", value)
		if m != nil {
			if err := m.UnmarshalVT(value); err != nil {
				return err
			}
			j, err := schema.JSON(m)
			if err != nil {
				return err
			}
			text = strings.ReplaceAll(string(j), " ", "")
		}
		fmt.Fprintf(&b, "%c %x %s\n", key[0], key[1:], text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// same fails if two ledgers differ, and shows where.
func same(t testing.TB, what string, want, got *Ledger) {
	t.Helper()
	a, err := want.Hash()
	if err != nil {
		t.Fatal(err)
	}
	b, err := got.Hash()
	if err != nil {
		t.Fatal(err)
	}
	if a == b {
		return
	}
	x, y := strings.Split(dump(t, want), "\n"), strings.Split(dump(t, got), "\n")
	for i := 0; i < len(x) || i < len(y); i++ {
		var p, q string
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if p != q {
			t.Fatalf("%s: row %d differs\n one %s\nother %s", what, i, p, q)
		}
	}
	t.Fatalf("%s: the hashes differ and no row does", what)
}

func seedOf(t testing.TB) uint64 {
	seed := rand.Uint64()
	if s := os.Getenv("SEED"); s != "" {
		fmt.Sscan(s, &seed)
	}
	t.Logf("SEED=%d", seed)
	return seed
}

// The tables are the same whatever the batches, the snapshots, the restarts and the kills.
func TestTablesAreAFunctionOfTheLog(t *testing.T) {
	seed := seedOf(t)
	r := rand.New(rand.NewPCG(seed, 1))
	h := newHistory(t, 6)
	h.wander(r, 1500)
	end := uint64(len(h.log))
	want := open(t, vfs.NewMem(), Options{})
	defer want.Close()
	feed(t, want, h, end, 1)
	jobs := strings.Count(dump(t, want), "\nj ")
	t.Logf("%d messages, %d job and step rows, voids %v", end, jobs, h.c.Voids())
	if jobs < 300 {
		t.Fatalf("only %d rows: the history is too poor to show anything", jobs)
	}

	for _, batch := range []uint64{2, 7, 100, 1 << 40} {
		got := open(t, vfs.NewMem(), Options{})
		feed(t, got, h, end, batch)
		same(t, fmt.Sprintf("batches of %d messages", batch), want, got)
		got.Close()
	}

	t.Run("closed and opened", func(t *testing.T) {
		fs := vfs.NewMem()
		for at := uint64(0); at < end; {
			at = min(end, at+1+r.Uint64N(400))
			l := open(t, fs, Options{SnapshotEvery: 100})
			feed(t, l, h, at, 1+r.Uint64N(50))
			if r.IntN(2) == 0 { // the snapshots are a cache
				for _, seq := range l.folds() {
					fs.Remove(fs.PathJoin("ledger", fmt.Sprint(foldPrefix, seq)))
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		got := open(t, fs, Options{})
		defer got.Close()
		same(t, "with restarts", want, got)
	})

	t.Run("killed", func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		kills, lost := 0, 0
		for at := uint64(0); at < end; {
			at = min(end, at+1+r.Uint64N(300))
			l := open(t, fs, Options{SnapshotEvery: 150})
			if kills > 0 && l.cursor == 0 {
				lost++
			}
			feed(t, l, h, at, 1+r.Uint64N(40))
			if at == end {
				if err := l.Commit(true); err != nil {
					t.Fatal(err)
				}
			}
			// What was not synced may or may not have reached the disk.
			image := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(101), RNG: rand.New(rand.NewPCG(seed, at))})
			l.Close()
			fs = image
			kills++
		}
		got := open(t, fs, Options{})
		defer got.Close()
		feed(t, got, h, end, 10)
		same(t, fmt.Sprintf("with %d kills", kills), want, got)
		if lost > kills/2 {
			t.Errorf("%d of %d kills lost everything: they show nothing", lost, kills)
		}
	})
}

// A row is found under what it is asked for, and the index rows are exactly those of the rows.
func TestIndexesFitTheirRows(t *testing.T) {
	r := rand.New(rand.NewPCG(seedOf(t), 2))
	h := newHistory(t, 4)
	h.wander(r, 1500)
	l := open(t, vfs.NewMem(), Options{})
	defer l.Close()
	feed(t, l, h, uint64(len(h.log)), 13)
	want := map[string]bool{}
	err := scan(l.db, []byte{tableJob}, []byte{tableJob + 1}, func(key, value []byte) error {
		if len(key) != 1+recordLen {
			return nil
		}
		k, err := parseRecordKey(key[1:])
		if err != nil {
			return err
		}
		row := &rows.JobRow{}
		if err := row.UnmarshalVT(value); err != nil {
			return err
		}
		if keyOfRow(row) != k {
			t.Errorf("record %v has a row of %v", k, keyOfRow(row))
		}
		if row.EndUs == 0 {
			want[string(activeKey(nil, k))] = true
			if row.State.Final() {
				t.Errorf("%s is %s and has no end", rows.Label(row), row.State)
			}
			return nil
		}
		want[string(endKey(nil, row.EndUs, k))] = true
		want[string(userKey(nil, row.User, row.EndUs, k))] = true
		want[string(stateKey(nil, stateOf(row), row.EndUs, k))] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for _, table := range []byte{tableActive, tableEnd, tableUser, tableState} {
		err := scan(l.db, []byte{table}, []byte{table + 1}, func(key, _ []byte) error {
			got++
			if !want[string(key)] {
				t.Errorf("index row %c %x belongs to no record", key[0], key[1:])
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got != len(want) {
		t.Errorf("%d index rows, %d expected", got, len(want))
	}
}

// Usage adds up: the hours hold what the records say, to the microsecond.
func TestUsageAddsUp(t *testing.T) {
	r := rand.New(rand.NewPCG(seedOf(t), 3))
	h := newHistory(t, 4)
	h.wander(r, 1200)
	l := open(t, vfs.NewMem(), Options{})
	defer l.Close()
	feed(t, l, h, uint64(len(h.log)), 50)
	var cpu, mem, ended uint64
	answer := ask(t, l, &rows.Ask{What: &rows.Ask_Jobs{Jobs: &rows.AskJobs{Duplicates: true}}})
	for _, rec := range answer.Records {
		j := rec.Job
		if j.EndUs == 0 || j.Run == 0 {
			continue
		}
		ended++
		if j.EndUs > j.StartUs {
			cpu += j.Alloc.Cpus * uint64(j.EndUs-j.StartUs)
			mem += j.Alloc.MemMib * uint64(j.EndUs-j.StartUs)
		}
	}
	var cpu2, mem2, ended2 uint64
	a := l.Answer(context.Background(), &rows.Ask{What: &rows.Ask_Usage{Usage: &rows.AskUsage{}}})
	for _, u := range a.Usage {
		if u.HourUs%hourUs != 0 {
			t.Errorf("hour %d", u.HourUs)
		}
		cpu2, mem2, ended2 = cpu2+u.CpuUs, mem2+u.MemMibUs, ended2+u.JobsEnded
	}
	if cpu != cpu2 || mem != mem2 || ended != ended2 || cpu == 0 {
		t.Errorf("records: %d CPU-us, %d MiB-us, %d runs; hours: %d, %d, %d", cpu, mem, ended, cpu2, mem2, ended2)
	}
}

// ask asks and puts the parts of the answer together.
func ask(t testing.TB, l *Ledger, q *rows.Ask) *rows.Answer {
	t.Helper()
	whole := &rows.Answer{}
	err := l.Each(context.Background(), q, func(a *rows.Answer) error {
		whole.Records = append(whole.Records, a.Records...)
		whole.Story = append(whole.Story, a.Story...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

var _ = events.Unlimited
