package supervisor

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// id is a Key as a map's key.
type id struct {
	job       uint64
	run, step uint32
}

func idOf(k *Key) id { return id{k.GetJob(), k.GetRun(), k.GetStep()} }

func (i id) key() *Key { return &Key{Job: i.job, Run: i.run, Step: i.step} }

func (i id) String() string {
	if i.step == StepBatch {
		return fmt.Sprintf("job %d (run %d)", i.job, i.run)
	}
	return fmt.Sprintf("step %d.%d (run %d)", i.job, i.step, i.run)
}

// step is one that is being launched, runs, or is being cleared away. Its fields are guarded by supervisor.mu, but for
// those that do not change once the step is born.
type step struct {
	id        id
	launching *Launching
	birth     *Birth    // nil until there is a process
	order     *Deadline // when it will be told to end, and why
	status    *Exited   // provisional: the main process has ended so

	cage    Confinement // nil: none
	pidfd   int
	adopted atomic.Bool // it is not our child
	stderr  *os.File    // where the user is told things; may be nil
	timer   *time.Timer
	ordered bool // the order was read from the journal, so it holds against the launch's time limit
	usage   tally
	sampled int64             // when usage was last looked at, or the step began, by the monotonic clock
	loose   chan struct{}     // closed when the process has been let go, and that was told
	tasks   map[uint32]*tally // of a keeper: by rank
	ranks   map[int]uint32    // of a keeper's tasks, by their processes; guarded by supervisor.sampling
	over    chan struct{}     // closed when the main process has ended
}

func newStep(l *Launching) *step {
	st := &step{id: idOf(l.Key), launching: l, pidfd: -1, loose: make(chan struct{}), over: make(chan struct{})}
	st.order = &Deadline{Key: l.Key, Cause: Cause_TIME_LIMIT, KillWaitMs: l.KillWaitMs}
	return st
}

// ended tells whether the main process is known to be over.
func (st *step) ended() bool {
	select {
	case <-st.over:
		return true
	default:
		return false
	}
}

func (st *step) started() *Started {
	return &Started{Key: st.launching.Key, Node: st.launching.Node, Pid: st.birth.Pid, StartedUnixNs: st.birth.StartedUnixNs, StartedMonoNs: st.birth.StartedMonoNs, Warnings: st.birth.Warnings, Note: st.launching.Note}
}

// safety is how safe what is written of the step has to be: the end of a keeper is of use only as long as the machine is up.
func (st *step) safety() safety {
	if st.launching.Keeper {
		return written
	}
	return synced
}

// launch starts a step. Its end is reported like that of any other, also if it never ran; but when the journal takes
// nothing more, nothing has happened.
func (s *supervisor) launch(l *Launch) (*Started, *launchError) {
	if e := check(l); e != nil {
		return nil, e
	}
	s.beginLaunch()
	defer s.endLaunch()

	st := newStep(&Launching{Key: l.Key, Node: l.Node, Uid: l.Uid, Gid: l.Gid, Groups: l.Groups,
		TimeLimitMs: l.TimeLimitMs, KillWaitMs: l.KillWaitMs, Warn: l.Warn, Watching: l.Watching, Keeper: l.Keeper, Note: l.Note})
	if s.cages != nil {
		st.launching.Group = s.cages.Name(l.Key, l.Uid)
	}
	if len(l.Script) > 0 {
		st.launching.Spool = s.spool.take()
	}
	if e := s.admit(st); e != nil {
		if st.launching.Spool != "" {
			_ = s.spool.give(st.launching.Spool)
		}
		return nil, e
	}
	if err := s.start(st, l); err != nil {
		e, ok := err.(*launchError)
		if !ok {
			e = failed(Failure_FORK, "%v", err)
		}
		s.bury(st, &Exited{Key: l.Key, Node: l.Node, End: End_NOT_LAUNCHED, Code: e.code, Failure: e.failure, Detail: e.detail, EndedUnixNs: unixNow()})
		return nil, e
	}
	return st.started(), nil
}

// beginLaunch waits while launches are held up, and counts one in.
func (s *supervisor) beginLaunch() {
	s.mu.Lock()
	for s.heldUp && !s.stopping {
		s.changed.Wait()
	}
	s.launches++
	s.mu.Unlock()
}

func (s *supervisor) endLaunch() {
	s.mu.Lock()
	s.launches--
	s.mu.Unlock()
}

// holdUp lets no launch begin until release, and waits for those under way. It gives up after a while, with an error: one
// may be stuck in a file system that does not answer.
func (s *supervisor) holdUp(patience time.Duration) error {
	s.mu.Lock()
	s.heldUp = true
	s.mu.Unlock()
	for until := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		n := s.launches
		s.mu.Unlock()
		switch {
		case n == 0:
			return nil
		case time.Now().After(until):
			return fmt.Errorf("%d launches are under way and do not come to an end", n)
		}
	}
}

// release lets launches begin again.
func (s *supervisor) release() {
	s.mu.Lock()
	s.heldUp = false
	s.changed.Broadcast()
	s.mu.Unlock()
}

// admit makes sure that this is the first launch of this step's run, and writes it down.
func (s *supervisor) admit(st *step) *launchError {
	s.gate.RLock()
	defer s.gate.RUnlock()
	s.mu.Lock()
	_, live := s.live[st.id]
	_, ended := s.ended[st.id]
	_, known := s.tombs[st.id]
	if s.stopping {
		s.mu.Unlock()
		return failed(Failure_STOPPING, "the supervisor of node %s is on its way out", s.conf.Node)
	}
	if live || ended || known {
		s.mu.Unlock()
		return failed(Failure_ALREADY, "%s was launched here before", st.id)
	}
	s.live[st.id] = st
	n := len(s.live) + len(s.ended)
	s.mu.Unlock()

	err := s.journal.reserve(n + 1)
	if err == nil {
		err = s.journal.append(st.safety(), &Record{What: &Record_Launching{st.launching}})
	}
	if err != nil {
		s.mu.Lock()
		delete(s.live, st.id)
		s.mu.Unlock()
		return unfit(Failure_JOURNAL, "journal", err)
	}
	return nil
}

// start makes the group and the process.
func (s *supervisor) start(st *step, l *Launch) error {
	var warnings []string
	if s.cages != nil {
		cage, w, err := s.cages.Make(l.Key, l.Uid, l.JobCage, l.Cage)
		if err != nil {
			return unfit(Failure_CAGE, "control group", err)
		}
		st.cage, warnings = cage, w
	}
	_, err := s.bring(l, st.launching.Spool, st.cage, func(b *born) error {
		b.birth.Warnings = append(warnings, b.warnings...)
		if b.stderr != nil {
			b.birth.Stderr = []byte(b.stderr.Name())
		}
		return s.bear(st, b)
	})
	if err != nil {
		return err
	}
	s.loosen(st)
	if st.launching.Keeper { // the next round may be far
		time.AfterFunc(firstSample, func() { s.look(&Look{Job: st.id.job, Run: st.id.run, Steps: []uint32{st.id.step}}) })
	}
	return nil
}

// loosen tells that the process of a step has been let go. Before, nobody may hear that the step has started: if this
// supervisor were killed, the process would be too, without one instruction carried out.
func (s *supervisor) loosen(st *step) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	s.mu.Lock()
	held := st.birth.Held
	st.birth.Held = false
	s.publish(&Reply{Answer: &Reply_Started{st.started()}})
	s.mu.Unlock()
	if held {
		_ = s.journal.append(inMemory, &Record{What: &Record_Released{&Released{Key: st.launching.Key}}})
	}
	close(st.loose)
}

// bear takes a new process in, which is still held: from now on its end will be seen.
func (s *supervisor) bear(st *step, b *born) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	s.mu.Lock()
	st.birth, st.pidfd, st.stderr = b.birth, b.pidfd, b.stderr
	if ms := st.launching.TimeLimitMs; ms > 0 && st.order.AtMonoNs == 0 && st.order.KillAtMonoNs == 0 {
		st.order.AtMonoNs = b.birth.StartedMonoNs + ms*int64(time.Millisecond)
	}
	s.mu.Unlock()
	// It guards against this process being killed; if the machine goes down, the process does too.
	err := s.journal.append(written, &Record{What: &Record_Birth{b.birth}})
	if err == nil {
		err = s.reaper.watch(st.pidfd, func() { s.finish(st) })
	}
	if err != nil {
		s.mu.Lock()
		st.birth, st.pidfd, st.stderr = nil, -1, nil
		s.mu.Unlock()
		return err
	}
	s.mu.Lock()
	s.plan(st)
	s.mu.Unlock()
	return nil
}

// firstSample is when the tasks of a step are first looked at.
const firstSample = 500 * time.Millisecond

// killPatience is how long what a main process left behind may take to go away after SIGKILL, before the end is
// reported all the same: a process in a file system that does not answer cannot be ended.
const killPatience = 30 * time.Second

// finish sees a step off whose main process has ended: learns how, ends what is left, counts, and reports.
func (s *supervisor) finish(st *step) {
	<-st.loose
	x := s.howEnded(st)
	s.mu.Lock()
	st.status = x
	close(st.over)
	if st.timer != nil {
		st.timer.Stop()
	}
	if st.order.KillAtMonoNs != 0 {
		x.Cause = st.order.Cause
	}
	s.mu.Unlock()
	s.clear(st, x)
}

// clear ends what a step's main process has left behind, takes away what it used, and reports x as its end.
func (s *supervisor) clear(st *step, x *Exited) {
	left, err := s.processes(st)
	if err != nil {
		s.log.Warn("what a step left behind cannot be listed", "step", st.id.String(), "error", err)
	}
	if len(left) > 0 {
		// It may take a while: the status is safe meanwhile.
		p := x.CloneVT()
		p.Provisional = true
		s.gate.RLock()
		_ = s.journal.append(st.safety(), &Record{What: &Record_Exited{p}})
		s.gate.RUnlock()
		x.LeftOver = uint32(s.endAll(st))
	}
	s.countUp(st, x)
	s.bury(st, x)
}

// endAll kills the processes of a step until there are none, and returns how many are left when its patience ends.
func (s *supervisor) endAll(st *step) int {
	pause, until := time.Millisecond, time.Now().Add(killPatience)
	for {
		if st.cage != nil {
			_ = st.cage.Freeze(false)
		}
		if _, err := s.signalAll(st, syscall.SIGKILL); err != nil {
			s.log.Warn("what a step left behind cannot be ended", "step", st.id.String(), "error", err)
		}
		time.Sleep(pause)
		s.sweep()
		left, err := s.processes(st)
		if err == nil && len(left) == 0 {
			return 0
		}
		if time.Now().After(until) {
			s.log.Error("processes do not go away", "step", st.id.String(), "pids", left)
			return max(1, len(left))
		}
		pause = min(2*pause, 100*time.Millisecond)
	}
}

// howEnded asks the kernel how the main process ended.
func (s *supervisor) howEnded(st *step) *Exited {
	x := &Exited{Key: st.launching.Key, Node: st.launching.Node, StartedUnixNs: st.birth.StartedUnixNs, EndedUnixNs: unixNow(),
		ElapsedNs: monoNow() - st.birth.StartedMonoNs, Usage: &Usage{}}
	info, ru, done, err := peekExit(int(st.birth.Pid))
	if err == nil && done {
		switch info.code {
		case cldExited:
			x.Code = info.status
		default:
			x.End, x.Signal, x.Core = End_SIGNALED, info.status, info.code == cldDumped
		}
		x.Usage.UserNs, x.Usage.SystemNs = uint64(ru.Utime.Nano()), uint64(ru.Stime.Nano())
		x.Usage.RssPeakBytes = ownPeak(ru.Maxrss)
		x.Usage.ReadBytes, x.Usage.WriteBytes = uint64(ru.Inblock)*512, uint64(ru.Oublock)*512
		x.Usage.MajorFaults = uint64(ru.Majflt)
		return x
	}
	// Not our child. Its parent is going to reap it, or has: both leave a trace.
	st.adopted.Store(true)
	if ws, ok := s.traceOf(st); ok {
		setStatus(x, ws)
		return x
	}
	x.End, x.Detail = End_LOST_STATUS, "the supervisor that had started it was killed, so nobody saw how it ended"
	return x
}

// ownPeak is the most memory a child had, in bytes, from what the kernel says at its end in KiB. That begins with what the
// supervisor itself had when it forked (the kernel carries the peak over exec), so only more than that is the child's; 0: unknown.
func ownPeak(kib int64) uint64 {
	var self syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &self) == nil && kib <= self.Maxrss {
		return 0
	}
	return uint64(kib) << 10
}

// traceOf looks for the status of a process that is over and was never our child: as long as it is a zombie /proc has it,
// and once it is reaped recent kernels tell it to who holds its descriptor.
func (s *supervisor) traceOf(st *step) (syscall.WaitStatus, bool) {
	for range 50 {
		if ws, ok := zombieStatus(int(st.birth.Pid), st.birth.StartTicks); ok {
			return ws, true
		}
		if ws, ok := exitOf(st.pidfd); ok {
			return syscall.WaitStatus(ws), true
		}
		if _, err := readStat(int(st.birth.Pid)); isGone(err) {
			ws, ok := exitOf(st.pidfd) // it may have been reaped in between
			return syscall.WaitStatus(ws), ok
		}
		time.Sleep(10 * time.Millisecond)
	}
	return 0, false
}

func setStatus(x *Exited, ws syscall.WaitStatus) {
	if ws.Signaled() {
		x.End, x.Signal, x.Core = End_SIGNALED, int32(ws.Signal()), ws.CoreDump()
		return
	}
	x.Code = int32(ws.ExitStatus())
}

// countUp fills in what the step has used.
func (s *supervisor) countUp(st *step, x *Exited) {
	if x.Usage == nil {
		x.Usage = &Usage{}
	}
	keeper := st.launching.Keeper
	if keeper { // what the kernel knows to be its peak is the keeper's own
		x.Usage.RssPeakBytes = 0
	}
	s.mu.Lock()
	st.usage.into(x.Usage)
	x.Usage.Tasks = st.taskUsage()
	s.mu.Unlock()
	if st.cage == nil {
		return
	}
	peak := x.Usage.RssPeakBytes
	err := st.cage.Usage(x.Usage)
	if keeper {
		x.Usage.RssPeakBytes = peak
	}
	if err != nil {
		s.log.Warn("what a step used cannot be read from its control group", "step", st.id.String(), "error", err)
	}
	oom, err := st.cage.OOM()
	if err != nil {
		s.log.Warn("whether a step ran out of memory cannot be read", "step", st.id.String(), "error", err)
	}
	x.Oom = oom
}

// bury writes a step's end down, takes away what it used of the node, and reports it. An end that the journal does not take is
// tried again until it does: it is not reported before. The control group goes only then, for it alone knows what the step has
// used: a supervisor that is killed in between leaves the next one either the group or the figures. A group that stays is one
// that no step of the journal claims, and is removed as such.
func (s *supervisor) bury(st *step, x *Exited) {
	x.Note = st.launching.Note
	if st.stderr != nil {
		st.stderr.Close()
	}
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		s.gate.RLock()
		err := s.journal.append(st.safety(), &Record{What: &Record_Exited{x}})
		if err == nil {
			s.removeCage(st)
			s.returnSpool(st)
			s.retire(st, x)
		}
		s.gate.RUnlock()
		if err == nil {
			return
		}
		if s.isClosed() {
			return // the next supervisor finds the process still to be reaped, or its status lost
		}
		s.log.Error("the end of a step cannot be written down, trying again", "step", st.id.String(), "error", err)
		time.Sleep(pause)
	}
}

func (s *supervisor) removeCage(st *step) {
	if st.cage == nil {
		return
	}
	if err := st.cage.Remove(); err != nil {
		s.log.Warn("a control group cannot be removed", "step", st.id.String(), "error", err)
	}
}

// returnSpool gives back the folder of a step's script. Not before the end is written down: else another step could have the
// folder while the journal still calls this one its owner, and a supervisor that takes both up would clear it under the other.
func (s *supervisor) returnSpool(st *step) {
	if dir := st.launching.Spool; dir != "" {
		if err := s.spool.give(dir); err != nil {
			s.log.Warn("a script cannot be removed", "step", st.id.String(), "error", err)
		}
	}
}

// retire moves a step from the living to those whose end waits to be acknowledged.
func (s *supervisor) retire(st *step, x *Exited) {
	if st.birth != nil && st.pidfd >= 0 {
		pid := int(st.birth.Pid)
		if !st.adopted.Load() {
			var ws syscall.WaitStatus
			_, _ = syscall.Wait4(pid, &ws, syscall.WNOHANG, nil)
		}
		unix.Close(st.pidfd)
		s.dropMain(pid)
	}
	s.mu.Lock()
	delete(s.live, st.id)
	s.ended[st.id] = x
	s.publish(&Reply{Answer: &Reply_Exited{x}})
	s.changed.Broadcast()
	s.mu.Unlock()
}
