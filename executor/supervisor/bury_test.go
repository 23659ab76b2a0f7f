package supervisor

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// tomb is a group that knows what its step has used, until it is removed.
type tomb struct {
	gone
	remove func()
}

func (*tomb) Usage(u *Usage) error { u.UserNs = 7e6; return nil }
func (t *tomb) Remove() error      { t.remove(); return nil }

// What a step has used is known to its group alone, so the group goes only when the end is in the journal: a supervisor that is
// killed at any moment between leaves the next one either the figures or the group.
func TestGroupGoesAfterTheEndIsWritten(t *testing.T) {
	dir := t.TempDir()
	j, _, err := openJournal(dir, func(*Record) {})
	if err != nil {
		t.Fatal(err)
	}
	s := &supervisor{log: slog.New(slog.DiscardHandler), journal: j, live: map[id]*step{}, ended: map[id]*Exited{}, watchers: map[*watcher]struct{}{}, mains: map[int]bool{}}
	s.changed = sync.NewCond(&s.mu)
	end := func(job uint64) (removed int, written *Exited) {
		st := newStep(&Launching{Key: &Key{Job: job, Run: 1, Step: StepBatch}})
		st.adopted.Store(true)
		st.cage = &tomb{remove: func() {
			removed++
			b, err := os.ReadFile(filepath.Join(dir, journalFileName))
			if err != nil {
				t.Fatal(err)
			}
			readFrames(b, func(r *Record) {
				if x := r.GetExited(); x != nil && !x.Provisional && x.Key.Job == job {
					written = x
				}
			})
		}}
		x := &Exited{Key: st.launching.Key}
		s.countUp(st, x)
		s.bury(st, x)
		return removed, written
	}
	if removed, x := end(1); removed != 1 || x.GetUsage().GetUserNs() != 7e6 {
		t.Errorf("the group was removed %d times, and the journal had %v by then", removed, x)
	}
	j.close()
	s.closed = true // nothing more is written
	if removed, _ := end(2); removed != 0 {
		t.Errorf("the group of a step whose end could not be written is gone, and what the step had used with it")
	}
}
