package supervisor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// recover reads the journal, takes up the steps it tells of, and begins it anew with what still matters.
func (s *supervisor) recover() error {
	boot := ""
	var format uint32
	j, torn, err := openJournal(s.conf.StateDir, func(r *Record) {
		if h := r.GetHeader(); h != nil {
			boot, format = h.BootId, h.Format
			return
		}
		s.remember(r)
	})
	if err != nil {
		return err
	}
	if format > journalFormat {
		j.close()
		return fmt.Errorf("the journal in %s has format %d, which is newer than this program (it knows %d)", s.conf.StateDir, format, journalFormat)
	}
	s.journal = j
	if torn > 0 {
		s.log.Warn("the end of the journal was torn, and is left out", "bytes", torn)
	}
	if boot != "" && boot != s.boot {
		s.endBoot()
	}
	for _, st := range s.live {
		if st.order.AtMonoNs == 0 && st.order.KillAtMonoNs == 0 && !st.order.Suspended && !st.order.Warned && st.birth != nil && st.launching.TimeLimitMs > 0 && !st.ordered {
			st.order.AtMonoNs = st.birth.StartedMonoNs + st.launching.TimeLimitMs*int64(time.Millisecond)
		}
	}
	if err := s.compactNow(); err != nil {
		// A full disk must not keep the node from finding its steps: the journal as it is says the same.
		s.log.Warn("the journal cannot be begun anew", "error", err)
		if boot != s.boot {
			if err := s.journal.append(synced, &Record{What: &Record_Header{&Header{BootId: s.boot, Format: journalFormat}}}); err != nil {
				return err
			}
		}
	}
	used, claimed := map[string]bool{}, map[string]bool{}
	for _, st := range s.live {
		used[st.launching.Spool] = true
		claimed[st.launching.Group] = true
	}
	if s.cages != nil {
		found, err := s.cages.endStrays(claimed)
		if len(found) > 0 {
			s.log.Warn("processes ran here that no journal knows, and were ended", "groups", found)
		}
		if err != nil {
			s.log.Warn("control groups of earlier steps cannot be removed", "error", err)
		}
	}
	if err := s.spool.open(used); err != nil {
		return err
	}
	// The steps begin to move as they are taken up.
	for _, st := range slices.Collect(maps.Values(s.live)) {
		if err := s.takeUp(st); err != nil {
			return fmt.Errorf("taking up %s: %w", st.id, err)
		}
	}
	return nil
}

// remember folds one record of the journal.
func (s *supervisor) remember(r *Record) {
	switch w := r.What.(type) {
	case *Record_Launching:
		st := newStep(w.Launching)
		s.live[st.id] = st
	case *Record_Birth:
		if st := s.live[idOf(w.Birth.Key)]; st != nil {
			st.birth = w.Birth
		}
	case *Record_Released:
		if st := s.live[idOf(w.Released.Key)]; st != nil && st.birth != nil {
			st.birth.Held = false
		}
	case *Record_Deadline:
		if st := s.live[idOf(w.Deadline.Key)]; st != nil {
			st.order, st.ordered = w.Deadline, true
		}
	case *Record_Exited:
		k := idOf(w.Exited.Key)
		if st := s.live[k]; w.Exited.Provisional {
			if st != nil {
				st.status = w.Exited
			}
			return
		}
		delete(s.live, k)
		s.ended[k] = w.Exited
	case *Record_Tombstone:
		k := idOf(w.Tombstone.Key)
		delete(s.live, k)
		delete(s.ended, k)
		s.tombs[k] = w.Tombstone.AcknowledgedUnixNs
	}
}

// records is what the journal must hold for all that is in memory. The caller holds mu, or is alone.
func (s *supervisor) records() []*Record {
	out := []*Record{{What: &Record_Header{&Header{BootId: s.boot, Format: journalFormat}}}}
	for k, at := range s.tombs {
		out = append(out, &Record{What: &Record_Tombstone{&Tombstone{Key: k.key(), AcknowledgedUnixNs: at}}})
	}
	for _, x := range s.ended {
		out = append(out, &Record{What: &Record_Exited{x}})
	}
	for _, st := range s.live {
		out = append(out, &Record{What: &Record_Launching{st.launching}})
		if st.birth != nil {
			out = append(out, &Record{What: &Record_Birth{st.birth}}, &Record{What: &Record_Deadline{st.order.CloneVT()}})
		}
		if st.status != nil {
			p := st.status.CloneVT()
			p.Provisional = true
			out = append(out, &Record{What: &Record_Exited{p}})
		}
	}
	return out
}

// endBoot ends everything that ran when the machine was up the last time.
func (s *supervisor) endBoot() {
	for k, st := range s.live {
		x := st.status
		if x == nil {
			x = &Exited{Key: st.launching.Key, Node: st.launching.Node, End: End_BOOT_ENDED, Detail: "the machine was started anew while it ran"}
			if st.birth != nil {
				x.StartedUnixNs = st.birth.StartedUnixNs
			} else {
				x.Detail = "the machine was started anew while it was being launched"
			}
		}
		x.Provisional = false
		delete(s.live, k)
		s.ended[k] = x
	}
}

// takeUp goes on with one step of an earlier supervisor: this process before an exec, or one that was killed.
func (s *supervisor) takeUp(st *step) error {
	if st.launching.Group != "" && s.cages != nil {
		cage, err := s.cages.Find(st.launching.Group)
		if err != nil {
			return err
		}
		st.cage = cage
	}
	if st.birth == nil || st.birth.Held && s.fell(st) {
		// It was killed between deciding and letting go. What had begun, if anything, never was known to anybody.
		st.adopted.Store(true)
		close(st.over)
		go s.clear(st, &Exited{Key: st.launching.Key, Node: st.launching.Node, End: End_LOST_STATUS, EndedUnixNs: unixNow(),
			Detail: "the supervisor was killed while it was launching it; if it had begun, it was ended"})
		return nil
	}
	if st.birth.Held { // it was let go, and there was no time left to write that down
		st.birth.Held = false
		if err := s.journal.append(inMemory, &Record{What: &Record_Released{&Released{Key: st.launching.Key}}}); err != nil {
			return err
		}
	}
	close(st.loose)
	pid := int(st.birth.Pid)
	p, err := readStat(pid)
	if err == nil && p.startTicks == st.birth.StartTicks {
		st.adopted.Store(p.ppid != s.pid)
		if st.pidfd, err = unix.PidfdOpen(pid, 0); err == nil {
			if !st.adopted.Load() {
				s.addMain(pid)
			}
			if err := s.reaper.watch(st.pidfd, func() { s.finish(st) }); err != nil {
				return err
			}
			s.mu.Lock()
			s.plan(st)
			s.mu.Unlock()
			return nil
		}
		if !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("opening process %d: %w", pid, err)
		}
	}
	st.adopted.Store(true)
	x := st.status // it may have been seen before the last supervisor was killed
	if x == nil {
		x = &Exited{Key: st.launching.Key, Node: st.launching.Node, End: End_LOST_STATUS, StartedUnixNs: st.birth.StartedUnixNs, EndedUnixNs: unixNow(),
			ElapsedNs: monoNow() - st.birth.StartedMonoNs, Detail: "it ended while no supervisor was there to see how"}
	}
	x.Provisional = false
	if st.order.KillAtMonoNs != 0 {
		x.Cause = st.order.Cause
	}
	close(st.over)
	go s.clear(st, x)
	return nil
}

// fell tells whether the process of a step that was held when its supervisor was killed has been killed with it, as the kernel
// does with a traced process, or is just being killed. One that has ended in another way had been let go.
func (s *supervisor) fell(st *step) bool {
	pid := int(st.birth.Pid)
	p, err := readStat(pid)
	if err != nil || p.startTicks != st.birth.StartTicks {
		return true // and was reaped, so nobody can tell any more
	}
	if p.state == 'Z' || p.state == 'X' {
		ws, ok := zombieStatus(pid, st.birth.StartTicks)
		return !ok || ws.Signaled() && ws.Signal() == syscall.SIGKILL
	}
	return p.exiting || killPending(pid)
}

// dropOldest takes the n oldest entries out of m.
func dropOldest(m map[id]int64, n int) {
	ids := make([]id, 0, len(m))
	for k := range m {
		ids = append(ids, k)
	}
	slices.SortFunc(ids, func(a, b id) int { return cmp.Compare(m[a], m[b]) })
	for _, k := range ids[:n] {
		delete(m, k)
	}
}
