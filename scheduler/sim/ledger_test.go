package sim

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2/vfs"

	"stint/events"
	"stint/ledger"
	"stint/ledger/rows"
)

// ledgerd is a ledger that follows a world's log into tables on a disk that loses what was not synced when it dies.
type ledgerd struct {
	process
	fs   *vfs.MemFS
	l    *ledger.Ledger
	upto uint64
	rng  *rand.Rand // its own: what the storage engine does in the background is none of the world's
}

var ledgerOptions = ledger.Options{SnapshotEvery: 60, MinFreeBytes: 1, CacheBytes: 1 << 20}

func newLedgerd(w *World) *ledgerd {
	d := &ledgerd{process: process{w: w, kind: "ledger"}, fs: vfs.NewCrashableMem(), rng: rand.New(rand.NewPCG(w.opts.Seed, 0x1ed6e4))}
	d.died = func() {
		w.tell("the ledger is gone")
		image := d.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: d.rng.IntN(101), RNG: d.rng})
		d.l.Close()
		d.l, d.fs = nil, image
		w.after(Second+w.rng.Int64N(90*Second), d.start)
	}
	w.hears = append(w.hears, func(seq uint64) {
		d.later(w.transit(), func() {
			d.upto = max(d.upto, seq)
			d.follow()
		})
	})
	d.start()
	return d
}

func (d *ledgerd) start() {
	l, err := ledger.Open("ledger", withFS(ledgerOptions, d.fs))
	if err != nil {
		d.w.fail("starting the ledger: %v", err)
		return
	}
	d.l, d.alive, d.upto = l, true, uint64(len(d.w.log))
	d.follow()
}

func withFS(o ledger.Options, fs vfs.FS) ledger.Options {
	o.FS = fs
	return o
}

// read is a message as ledgers are given it.
func (d *ledgerd) read(m *Message) events.Event {
	e := d.w.read(m)
	if d.w.flaw == flawUsage {
		for _, f := range e.Node.GetFacts() {
			if u := f.GetExited().GetUsage(); u != nil {
				u.UserUs *= 2
			}
		}
	}
	return e
}

// follow folds what has come, and commits now and then.
func (d *ledgerd) follow() {
	for d.alive && d.l.Next() <= d.upto {
		m := &d.w.log[d.l.Next()-1]
		e := d.read(m)
		if d.w.has(flawRows, 50) {
			e = events.Event{Seq: m.Seq, At: m.At}
		}
		if err := d.l.Apply(e); err != nil {
			d.w.fail("the ledger at %d: %v", m.Seq, err)
			return
		}
		if m.Seq%4 != 0 {
			continue
		}
		if !d.passes("folded a message") {
			return
		}
		if err := d.l.Commit(m.Seq%64 == 0); err != nil {
			d.w.fail("the ledger commits %d: %v", m.Seq, err)
			return
		}
		if !d.passes("written rows") {
			return
		}
	}
}

// check compares its tables with those of a ledger that nobody disturbed, and the rows with the jobs the auditor saw.
func (d *ledgerd) check(a *auditor) error {
	if !d.alive {
		d.start()
	}
	defer d.l.Close()
	d.upto = uint64(len(d.w.log))
	d.follow()
	if err := d.l.Commit(true); err != nil {
		return err
	}
	calm, err := ledger.Open("ledger", withFS(ledgerOptions, vfs.NewMem()))
	if err != nil {
		return err
	}
	defer calm.Close()
	for _, m := range d.w.log {
		if err := calm.Apply(d.read(&m)); err != nil {
			return err
		}
	}
	if err := calm.Commit(true); err != nil {
		return err
	}
	one, err := d.l.Hash()
	if err != nil {
		return err
	}
	two, err := calm.Hash()
	if err != nil {
		return err
	}
	if one != two {
		return fmt.Errorf("the ledger has other rows than one that nobody disturbed")
	}
	root := uint32(0)
	last := map[uint32]*rows.JobRow{}
	used := map[uint32]uint64{}
	open := 0
	err = d.l.Each(context.Background(), &rows.Ask{Uid: &root, What: &rows.Ask_Jobs{Jobs: &rows.AskJobs{Duplicates: true}}}, func(answer *rows.Answer) error {
		for _, r := range answer.Records {
			if r.Job.EndUs == 0 {
				open++
			}
			used[r.Job.Job] += r.Job.UserUs
			if l := last[r.Job.Job]; l == nil || l.Instance < r.Job.Instance {
				last[r.Job.Job] = r.Job
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if open > 0 {
		return fmt.Errorf("%d records of the ledger do not end", open)
	}
	for id, s := range a.jobs {
		j, r := s.job, last[id]
		switch {
		case j.Remainder(), j.ArrayId == id && !j.HasTask:
		case r == nil:
			return fmt.Errorf("the ledger has no record of job %d", id)
		case r.State != j.State || r.ExitCode != j.ExitCode || r.EndUs != j.EndUs:
			return fmt.Errorf("job %d ended as %s %d at %s, its record says %s %d at %s", id, j.State.Word(), j.ExitCode, d.w.clock(j.EndUs), r.State.Word(), r.ExitCode, d.w.clock(r.EndUs))
		case used[id] != a.used[id]:
			return fmt.Errorf("job %d used %d us of CPU time as its nodes told, its records say %d", id, a.used[id], used[id])
		}
	}
	return nil
}
