package supervisor

import (
	"fmt"
	"slices"
	"syscall"
)

// processes lists the processes of a step. With a group it is what the group holds. Without, it is the main process,
// its session, their descendants, and orphans that were started with the job's number in their environment (an orphan's
// parent is this supervisor, which the kernel makes the reaper of its descendants).
func (s *supervisor) processes(st *step) ([]int, error) {
	if st.cage != nil {
		pids, err := st.cage.Pids()
		if err != nil {
			return nil, fmt.Errorf("listing the processes of %s: %w", st.id, err)
		}
		return without(pids, st), nil
	}
	if st.ended() && !st.adopted.Load() {
		// The main process is gone, so what is left of it are orphans, our children, with what is below them: mostly
		// there are none, and the whole of /proc need not be read.
		orphans, err := s.strangers()
		if err != nil || !slices.ContainsFunc(orphans, func(pid int) bool { return s.belongs(st, pid) }) {
			return nil, err
		}
	}
	all, err := allProcesses()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	return without(s.treeOf(st, all), st), nil
}

// treeOf picks the processes of a step without a group out of all there are.
func (s *supervisor) treeOf(st *step, all []stat) []int {
	main, since := -1, uint64(0) // none, if it was never recorded
	if st.birth != nil {
		main, since = int(st.birth.Pid), st.birth.StartTicks
	}
	children := map[int][]int{}
	for _, p := range all {
		children[p.ppid] = append(children[p.ppid], p.pid)
	}
	mine := map[int]bool{}
	var add func(pid int)
	add = func(pid int) {
		if mine[pid] {
			return
		}
		mine[pid] = true
		for _, c := range children[pid] {
			add(c)
		}
	}
	for _, p := range all {
		switch {
		case p.pid == main && p.startTicks == since, p.session == main && p.startTicks >= since:
			add(p.pid)
		case p.ppid == s.pid || st.adopted.Load():
			// Perhaps an orphan, whose parent is this supervisor, or after a kill somebody else. Whose it is, only its
			// environment tells, and only if there is no other step of the job.
			if !s.isMain(p.pid) && p.state != 'Z' && p.startTicks >= since && s.marked(st, p.pid) {
				add(p.pid)
			}
		}
	}
	out := make([]int, 0, len(mine))
	for _, p := range all { // in a fixed order, and without the dead
		if mine[p.pid] && p.state != 'Z' {
			out = append(out, p.pid)
		}
	}
	return out
}

// belongs tells whether an orphan is one of a step whose main process is over.
func (s *supervisor) belongs(st *step, pid int) bool {
	p, err := readStat(pid)
	return err == nil && p.state != 'Z' && (st.birth != nil && p.session == int(st.birth.Pid) || s.marked(st, pid))
}

// marked tells whether a process was started with the environment of a step, and no other step of the job is here.
func (s *supervisor) marked(st *step, pid int) bool {
	return s.alone(st) && hasVariable(pid, fmt.Sprintf("SLURM_JOB_ID=%d", st.id.job)) && hasVariable(pid, "SLURMD_NODENAME="+st.launching.Node)
}

// without drops the main process once it is known to have ended: it stays a zombie until its end is in the journal.
func without(pids []int, st *step) []int {
	if !st.ended() || st.birth == nil {
		return pids
	}
	out := pids[:0]
	for _, p := range pids {
		if p != int(st.birth.Pid) {
			out = append(out, p)
		}
	}
	return out
}

// strangers lists our children that are not the main process of any step: orphans of steps.
func (s *supervisor) strangers() ([]int, error) {
	kids, err := adoptedChildren()
	if err != nil {
		return nil, fmt.Errorf("listing adopted processes: %w", err)
	}
	out := kids[:0]
	for _, pid := range kids {
		if !s.isMain(pid) {
			out = append(out, pid)
		}
	}
	return out, nil
}

// sweep reaps orphans that have ended. The main processes of steps are left alone, and no process is forked meanwhile
// that is not yet known as one.
func (s *supervisor) sweep() {
	s.forks.Lock()
	defer s.forks.Unlock()
	orphans, err := s.strangers()
	if err != nil {
		s.log.Warn("orphans cannot be reaped", "error", err)
		return
	}
	for _, pid := range orphans {
		var ws syscall.WaitStatus
		_, _ = syscall.Wait4(pid, &ws, syscall.WNOHANG, nil)
	}
}

// signalAll sends a signal to every process of a step, and returns to how many.
func (s *supervisor) signalAll(st *step, sig syscall.Signal) (int, error) {
	if sig == syscall.SIGKILL && st.cage != nil {
		pids, err := s.processes(st)
		if err != nil {
			return 0, err
		}
		return len(pids), st.cage.Kill()
	}
	pids, err := s.processes(st)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, pid := range pids {
		if pid <= 1 || pid == s.pid {
			continue // cannot be; and must never
		}
		switch err := syscall.Kill(pid, sig); {
		case err == nil:
			n++
		case isGone(err):
		default:
			return n, fmt.Errorf("sending %s to process %d of %s: %w", sig, pid, st.id, err)
		}
	}
	return n, nil
}

// freeze stops or continues every process of a step.
func (s *supervisor) freeze(st *step, on bool) error {
	if st.cage != nil {
		if err := st.cage.Freeze(on); err == nil {
			return nil
		}
	}
	sig := syscall.SIGCONT
	if on {
		sig = syscall.SIGSTOP
	}
	_, err := s.signalAll(st, sig)
	return err
}
