package supervisor

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Ending a step takes two blows: SIGTERM (with SIGCONT, so that a stopped process hears it) to every process of it, and
// SIGKILL when the kill wait is over. When the first falls stands in the step's order; the clock is the machine's
// monotonic one, and the order is in the journal, so that a time limit holds whoever else is alive.

// plan sets the step's timer to what comes next. The caller holds s.mu.
func (s *supervisor) plan(st *step) {
	if st.timer != nil {
		st.timer.Stop()
		st.timer = nil
	}
	if st.birth == nil || st.ended() {
		return
	}
	o, now := st.order, monoNow()
	var next int64
	switch {
	case o.KillAtMonoNs != 0:
		// Again and again if need be: a process may be born while the others are being killed.
		next = max(o.KillAtMonoNs, now)
		if now >= o.KillAtMonoNs {
			next = now + int64(time.Second)
		}
	case o.Suspended || o.AtMonoNs == 0:
		return
	default:
		next = o.AtMonoNs
		if w := s.warnAt(st); w != 0 && w < next {
			next = w
		}
	}
	st.timer = time.AfterFunc(time.Duration(max(0, next-now)), func() { s.due(st) })
}

// warnAt is when the signal of --signal is due; 0: never, or it was sent.
func (s *supervisor) warnAt(st *step) int64 {
	w := st.launching.Warn
	if w.GetSignal() == 0 || st.order.Warned || st.order.AtMonoNs == 0 || st.order.Cause != Cause_TIME_LIMIT {
		return 0
	}
	return max(1, st.order.AtMonoNs-w.BeforeMs*int64(time.Millisecond))
}

// due does what the clock asks for.
func (s *supervisor) due(st *step) {
	s.mu.Lock()
	if st.birth == nil || st.ended() {
		s.mu.Unlock()
		return
	}
	o, now := st.order, monoNow()
	act := func() {}
	switch {
	case o.KillAtMonoNs != 0:
		if now >= o.KillAtMonoNs {
			act = func() { s.blow(st, syscall.SIGKILL) }
		}
	case o.Suspended || o.AtMonoNs == 0:
	case now >= o.AtMonoNs:
		act = s.firstBlow(st, now)
	default:
		if w := s.warnAt(st); w != 0 && now >= w {
			o.Warned = true
			warn := st.launching.Warn
			act = func() {
				_, _ = s.deliver(s.stepsOf(st.id.job, st.id.run, nil), syscall.Signal(warn.Signal), warn.Which)
			}
		}
	}
	order := o.CloneVT()
	s.plan(st)
	s.mu.Unlock()
	s.noteOrder(order)
	act()
}

// firstBlow marks the step as told to end, and returns what tells it. The caller holds s.mu.
func (s *supervisor) firstBlow(st *step, now int64) func() {
	o := st.order
	o.KillAtMonoNs = max(1, now+o.KillWaitMs*int64(time.Millisecond))
	o.Suspended = false
	line := notice(st, o.Cause, time.Now())
	return func() {
		s.tellUser(st, line)
		if o.KillWaitMs > 0 {
			s.blow(st, syscall.SIGTERM)
		} else {
			s.blow(st, syscall.SIGKILL)
		}
	}
}

// blow sends SIGTERM or SIGKILL to all of a step, stopped or frozen as it may be.
func (s *supervisor) blow(st *step, sig syscall.Signal) {
	if err := s.freeze(st, false); err != nil {
		s.log.Warn("a step cannot be continued", "step", st.id.String(), "error", err)
	}
	if sig != syscall.SIGKILL && st.cage != nil {
		_, _ = s.signalAll(st, syscall.SIGCONT) // freeze has sent it where there is no group
	}
	if _, err := s.signalAll(st, sig); err != nil {
		s.log.Warn("a step cannot be signalled", "step", st.id.String(), "signal", sig.String(), "error", err)
	}
}

// noteOrder writes a changed order down, for a supervisor that comes after this one.
func (s *supervisor) noteOrder(o *Deadline) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	_ = s.journal.append(inMemory, &Record{What: &Record_Deadline{o}})
}

// terminate ends steps for a cause, or earlier if they are already being ended.
func (s *supervisor) terminate(steps []*step, cause Cause, killWaitMs int64) int {
	n := 0
	for _, st := range steps {
		s.mu.Lock()
		if st.ended() {
			s.mu.Unlock()
			continue
		}
		n++
		o, now := st.order, monoNow()
		act := func() {}
		killAt := now + killWaitMs*int64(time.Millisecond)
		switch {
		case o.KillAtMonoNs == 0 && st.birth == nil: // being launched: as soon as it is there
			o.AtMonoNs, o.Cause, o.KillWaitMs, o.Suspended = now, cause, killWaitMs, false
		case o.KillAtMonoNs == 0:
			o.AtMonoNs, o.Cause, o.KillWaitMs = now, cause, killWaitMs
			act = s.firstBlow(st, now)
		case killAt < o.KillAtMonoNs:
			o.KillAtMonoNs = max(1, killAt)
		}
		order := o.CloneVT()
		s.plan(st)
		s.mu.Unlock()
		s.noteOrder(order)
		act()
	}
	return n
}

// tooBig ends a step that has more memory than it may, at once. The main process of a numbered step is spared for the kill wait: it says to
// srun how the tasks ended.
func (s *supervisor) tooBig(st *step, has, most uint64) {
	s.mu.Lock()
	o, now := st.order, monoNow()
	if st.ended() || o.KillAtMonoNs != 0 {
		s.mu.Unlock()
		return
	}
	keeper := -1
	o.Cause, o.Suspended, o.KillAtMonoNs = Cause_MEMORY, false, now+int64(time.Second)
	if st.id.step != StepBatch {
		keeper = int(st.birth.Pid)
		o.KillAtMonoNs = now + max(o.KillWaitMs*int64(time.Millisecond), int64(time.Second))
	}
	order := o.CloneVT()
	s.plan(st)
	s.mu.Unlock()
	s.noteOrder(order)
	who := speaker(st.launching.Node)
	line := fmt.Sprintf("%s: error: StepId=%d.%s exceeded memory limit (%d > %d), being killed\n", who, st.id.job, stepName(st.id.step), has, most)
	if !st.launching.Keeper { // else srun says so
		line += who + ": error: Exceeded job memory limit\n"
	}
	s.tellUser(st, line+notice(st, Cause_MEMORY, time.Now()))
	pids, err := s.processes(st)
	if err != nil {
		s.log.Warn("a step that has too much memory cannot be ended yet", "step", st.id.String(), "error", err)
	}
	for _, pid := range pids {
		if pid > 1 && pid != s.pid && pid != keeper {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// setLimit moves the time limit of steps: leftMs from now; 0 takes it away.
func (s *supervisor) setLimit(steps []*step, leftMs int64) int {
	n := 0
	for _, st := range steps {
		s.mu.Lock()
		o := st.order
		if st.ended() || o.KillAtMonoNs != 0 {
			s.mu.Unlock()
			continue // too late
		}
		n++
		left := max(1, leftMs*int64(time.Millisecond))
		switch {
		case leftMs == 0:
			o.AtMonoNs, o.SuspendedLeftNs = 0, 0
		case o.Suspended:
			o.SuspendedLeftNs = left
		default:
			o.AtMonoNs = monoNow() + left
		}
		o.Cause = Cause_TIME_LIMIT
		order := o.CloneVT()
		s.plan(st)
		s.mu.Unlock()
		s.noteOrder(order)
	}
	return n
}

// suspend stops steps and their clocks, or lets both go on.
func (s *supervisor) suspend(steps []*step, resume bool) (int, error) {
	n := 0
	for _, st := range steps {
		s.mu.Lock()
		o, now := st.order, monoNow()
		if st.birth == nil || st.ended() || o.KillAtMonoNs != 0 || o.Suspended == !resume {
			s.mu.Unlock()
			continue
		}
		o.Suspended = !resume
		switch {
		case resume && o.SuspendedLeftNs > 0:
			o.AtMonoNs, o.SuspendedLeftNs = now+o.SuspendedLeftNs, 0
		case !resume && o.AtMonoNs != 0:
			o.SuspendedLeftNs, o.AtMonoNs = max(1, o.AtMonoNs-now), 0
		}
		order := o.CloneVT()
		s.plan(st)
		s.mu.Unlock()
		s.noteOrder(order)
		n++
		if err := s.freeze(st, !resume); err != nil {
			return n, err
		}
	}
	return n, nil
}

// once drops the steps that have carried out an order of that number, or a later one, before, and notes it for the others.
func (s *supervisor) once(steps []*step, number uint32) []*step {
	if number == 0 {
		return steps
	}
	var out []*step
	for _, st := range steps {
		s.mu.Lock()
		if st.birth == nil || st.order.LastSignal >= number {
			s.mu.Unlock()
			continue
		}
		st.order.LastSignal = number
		order := st.order.CloneVT()
		s.mu.Unlock()
		s.noteOrder(order)
		out = append(out, st)
	}
	return out
}

// deliver sends a signal to steps: to all of their processes, or only to some.
func (s *supervisor) deliver(steps []*step, sig syscall.Signal, which Which) (int, error) {
	n := 0
	for _, st := range steps {
		s.mu.Lock()
		there := st.birth != nil && !st.ended()
		s.mu.Unlock()
		batch := st.id.step == StepBatch
		switch {
		case !there, which == Which_STEPS_ONLY && batch, which == Which_BATCH_SHELL && !batch:
		case which == Which_BATCH_SHELL:
			if err := syscall.Kill(int(st.birth.Pid), sig); err != nil && !isGone(err) {
				return n, fmt.Errorf("sending %s to the batch shell of %s: %w", sig, st.id, err)
			}
			n++ // until its end is journalled the number is the main process's
		default:
			k, err := s.signalAll(st, sig)
			n += k
			if err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// tellUser writes a line to where the step's errors go. It is not waited for: the file may be on a file system that
// does not answer.
func (s *supervisor) tellUser(st *step, line string) {
	s.mu.Lock()
	f := st.stderr
	s.mu.Unlock()
	if st.launching.Keeper {
		f = nil // it hears by a way of its own
	}
	if line == "" {
		return
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		if f == nil {
			if f = s.reopenErrors(st); f == nil {
				return
			}
			defer f.Close()
		}
		_, _ = f.WriteString(line)
	}()
	select {
	case <-written:
	case <-time.After(time.Second):
	}
}

// reopenErrors finds the file of a step's errors again that an earlier supervisor had open: the main process's own, so
// that what is written does not cover what the step writes; or else the end of the file by its name, as its user.
func (s *supervisor) reopenErrors(st *step) *os.File {
	if st.launching.Keeper {
		return st.ear()
	}
	path := string(st.birth.GetStderr())
	if path == "" {
		return nil
	}
	if fd, err := unix.PidfdGetfd(st.pidfd, 2, 0); err == nil {
		f := os.NewFile(uintptr(fd), path)
		if now, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && now == path {
			return f
		}
		f.Close()
	}
	var f *os.File
	who := identity{st.launching.Uid, st.launching.Gid, st.launching.Groups}
	_ = s.threads.do(func() bool {
		_ = who.as(func() (err error) {
			f, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
			return err
		})
		return true
	})
	return f
}

// ear is the pipe by which a keeper hears what is for the user; nil: it has none.
func (st *step) ear() *os.File {
	fd, err := unix.PidfdGetfd(st.pidfd, 2, 0)
	if err != nil {
		return nil
	}
	var is unix.Stat_t
	if unix.Fstat(fd, &is) != nil || is.Mode&unix.S_IFMT != unix.S_IFIFO {
		unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), "ear")
}

// notice is what the user reads about an end from outside. Tools look for these words.
func notice(st *step, cause Cause, now time.Time) string {
	why := map[Cause]string{Cause_TIME_LIMIT: " DUE TO TIME LIMIT", Cause_PREEMPTED: " DUE TO PREEMPTION", Cause_REQUEUED: " DUE TO JOB REQUEUE", Cause_NODE_FAILED: " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"}[cause]
	what := fmt.Sprintf("JOB %d", st.id.job)
	if st.id.step != StepBatch {
		what = fmt.Sprintf("STEP %d.%d", st.id.job, st.id.step)
	}
	return fmt.Sprintf("%s: error: *** %s ON %s CANCELLED AT %s%s ***\n", speaker(st.launching.Node), what, st.launching.Node, now.Format("2006-01-02T15:04:05"), why)
}

// speaker is who speaks in a job's errors: slurmstepd, with the node's name behind it where that is not the host's, as one of several nodes on
// a host is called.
func speaker(node string) string {
	host, err := os.Hostname()
	host, _, _ = strings.Cut(host, ".")
	if err != nil || node == "" || node == host {
		return "slurmstepd"
	}
	return "slurmstepd-" + node
}
