package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"stint/executor/cgroup"
)

// Config says how a node's supervisor works. Node and StateDir must be set.
type Config struct {
	Node     string // the node's name
	HostName string // what steps see as the host's name; empty: the machine's. Only root can change it
	StateDir string // journal, lock and socket; made if it is not there. One supervisor at a time
	Spool    string // scripts; every user must be able to reach it. Empty: StateDir/spool
	Socket   string // empty: StateDir/supervisor.sock

	// Steps of a supervisor of root are held in control groups, as far as the machine allows, unless Unconfined. A node with
	// a HostName of its own shares the machine with others, and has a tree of its own; Under puts it below a directory.
	Unconfined bool
	Under      string

	SampleEvery  time.Duration // 0: 30 s
	CompactFrom  int64         // bytes of journal from which on it is written anew; 0: 4 MiB
	TombstoneAge time.Duration // for how long an acknowledged run cannot start again; 0: an hour
	Version      string        // told to those who list
	Log          *slog.Logger  // nil: slog.Default()
}

// SocketPath is where the supervisor of a state directory listens unless configured otherwise.
func SocketPath(stateDir string) string { return filepath.Join(stateDir, "supervisor.sock") }

// maxTombstones bounds the acknowledged runs that are remembered, whatever their age.
const maxTombstones = 50_000

const defaultCompactFrom = 4 << 20

// supervisor is what a running one holds.
//
// Locks are taken in the order gate, mu. Whoever changes what is in memory and writes the same to the journal
// holds gate for reading around both, so that a compaction, which holds it for writing, sees either all or nothing.
type supervisor struct {
	conf     Config
	log      *slog.Logger
	pid      int
	boot     string
	oomScore int32
	journal  *journal
	spool    *spool
	tree     *cgroup.Tree // nil: none
	cages    Cages        // nil: steps are not confined
	threads  *threads
	reaper   *reaper
	listener *net.UnixListener
	lock     *os.File

	forks    sync.RWMutex // held for reading from fork until the child is known; for writing while orphans are reaped
	gate     sync.RWMutex
	sampling sync.Mutex // one at a time looks at processes

	mu       sync.Mutex
	changed  *sync.Cond // a step is over, or launches may begin again
	launches int        // under way
	heldUp   bool       // no more may begin
	live     map[id]*step
	ended    map[id]*Exited // not yet acknowledged
	tombs    map[id]int64   // acknowledged: when
	mains    map[int]bool   // main processes that are our children
	watchers map[*watcher]struct{}
	conns    map[net.Conn]bool
	stopping bool
	closed   bool
	finished chan struct{} // closed: Main is to return
	compact  int64         // the length of the journal at which it is compacted next
}

// Main supervises the steps of a node until ctx is done or a client tells it to stop. Steps go on after it has
// returned; a later Main with the same StateDir finds them.
func Main(ctx context.Context, conf Config) error {
	s, err := open(conf)
	if err != nil {
		return fmt.Errorf("supervisor of node %s: %w", conf.Node, err)
	}
	go s.serve()
	go s.housekeep()
	select {
	case <-ctx.Done():
	case <-s.finished:
	}
	return s.shut()
}

func open(conf Config) (*supervisor, error) {
	if conf.Node == "" || conf.StateDir == "" {
		return nil, errors.New("a node name and a state directory are needed")
	}
	abs, err := filepath.Abs(conf.StateDir)
	if err != nil {
		return nil, err
	}
	conf.StateDir = abs
	if conf.Spool == "" {
		conf.Spool = filepath.Join(conf.StateDir, "spool")
	}
	if conf.Socket == "" {
		conf.Socket = SocketPath(conf.StateDir)
	}
	if conf.SampleEvery == 0 {
		conf.SampleEvery = 30 * time.Second
	}
	if conf.CompactFrom == 0 {
		conf.CompactFrom = defaultCompactFrom
	}
	if conf.TombstoneAge == 0 {
		conf.TombstoneAge = time.Hour
	}
	if conf.Log == nil {
		conf.Log = slog.Default()
	}
	s := &supervisor{conf: conf, log: conf.Log, pid: os.Getpid(), live: map[id]*step{}, ended: map[id]*Exited{}, tombs: map[id]int64{},
		spool: &spool{dir: conf.Spool}, mains: map[int]bool{}, watchers: map[*watcher]struct{}{}, conns: map[net.Conn]bool{}, finished: make(chan struct{}), compact: conf.CompactFrom}
	s.changed = sync.NewCond(&s.mu)
	if s.boot, err = BootID(); err != nil {
		return nil, err
	}
	for _, dir := range []string{conf.StateDir, conf.Spool} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, err
		}
	}
	if err := os.Chmod(conf.Spool, 0o711); err != nil {
		return nil, err
	}
	handed, err := takeOver()
	if err != nil {
		return nil, err
	}
	if s.lock, err = lockState(conf.StateDir, handed); err != nil {
		return nil, err
	}
	if err := s.prepareProcess(); err != nil {
		return nil, err
	}
	host := conf.HostName
	if have, herr := os.Hostname(); os.Geteuid() != 0 || herr == nil && have == host {
		host = ""
	}
	s.threads = newThreads(host)
	spare(spareThreads)
	if err := s.threads.warm(8); err != nil {
		return nil, err
	}
	if s.reaper, err = newReaper(); err != nil {
		return nil, err
	}
	if err := s.openGroups(); err != nil {
		return nil, err
	}
	if err := s.recover(); err != nil {
		return nil, err
	}
	if s.listener, err = listen(conf.Socket, handed); err != nil {
		return nil, err
	}
	return s, nil
}

// openGroups prepares the control groups of the node.
func (s *supervisor) openGroups() error {
	if s.conf.Unconfined || os.Geteuid() != 0 {
		return nil
	}
	c := cgroup.Config{Under: s.conf.Under}
	if s.conf.HostName != "" {
		c.Node = s.conf.Node
	}
	tree, err := cgroup.Open(c)
	if err != nil {
		return err
	}
	for _, g := range tree.Gaps() {
		s.log.Warn("not everything can be enforced here", "what", g.What, "why", g.Why)
	}
	s.tree, s.cages = tree, ControlGroups(tree)
	return nil
}

// prepareProcess makes this process a parent whose children begin clean: no inherited descriptors, no ignored signals,
// and orphans come to it.
func (s *supervisor) prepareProcess() error {
	if err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("keeping own files from steps: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming the parent of orphaned processes: %w", err)
	}
	// A signal that is ignored here would be ignored in every step; one with a handler gets its default back at exec.
	ignored, err := ignoredSignals()
	if err != nil {
		return err
	}
	if len(ignored) > 0 {
		signal.Notify(make(chan os.Signal, 1), ignored...)
	}
	if b, err := os.ReadFile("/proc/self/oom_score_adj"); err == nil {
		n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		s.oomScore = int32(n)
	}
	return nil
}

func ignoredSignals() ([]os.Signal, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, fmt.Errorf("looking for ignored signals: %w", err)
	}
	var out []os.Signal
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "SigIgn:"); ok {
			mask, err := strconv.ParseUint(strings.TrimSpace(v), 16, 64)
			if err != nil {
				return nil, fmt.Errorf("looking for ignored signals: %w", err)
			}
			for n := range 64 {
				if mask&(1<<n) != 0 {
					out = append(out, syscall.Signal(n+1))
				}
			}
		}
	}
	return out, nil
}

// lockState makes sure that one supervisor at a time works on a state directory.
func lockState(dir string, handed handover) (*os.File, error) {
	if handed.lock != nil {
		return handed.lock, nil
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	// A child of one that was killed in the middle of a fork holds the lock until its exec.
	for until := time.Now().Add(3 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", dir, err)
		case time.Now().After(until):
			f.Close()
			return nil, fmt.Errorf("another supervisor works on %s", dir)
		}
	}
}

// housekeep does what is due now and then.
func (s *supervisor) housekeep() {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	sample := time.NewTicker(min(s.conf.SampleEvery, time.Second))
	defer sample.Stop()
	for {
		select {
		case <-s.finished:
			return
		case <-second.C:
			s.sweep()
			s.expire(unixNow())
			if err := s.compactIfLong(); err != nil {
				s.log.Warn("the journal stays long", "error", err)
			}
		case <-sample.C:
			s.sample(monoNow())
		}
	}
}

// expire forgets tombstones that are old, or too many.
func (s *supervisor) expire(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, at := range s.tombs {
		if now-at > int64(s.conf.TombstoneAge) {
			delete(s.tombs, k)
		}
	}
	if over := len(s.tombs) - maxTombstones; over > 0 {
		dropOldest(s.tombs, over)
	}
}

func (s *supervisor) compactIfLong() error {
	if s.journal.length() < s.compact {
		return nil
	}
	s.gate.Lock()
	defer s.gate.Unlock()
	return s.compactNow()
}

// compactNow rewrites the journal from what is in memory. The caller holds gate for writing, or is alone.
func (s *supervisor) compactNow() error {
	s.mu.Lock()
	records, live := s.records(), len(s.live)+len(s.ended)
	s.mu.Unlock()
	err := s.journal.compact(records, live)
	s.compact = max(s.conf.CompactFrom, 2*s.journal.length())
	return err
}

func (s *supervisor) addMain(pid int) {
	s.mu.Lock()
	s.mains[pid] = true
	s.mu.Unlock()
}

func (s *supervisor) dropMain(pid int) {
	s.mu.Lock()
	delete(s.mains, pid)
	s.mu.Unlock()
}

func (s *supervisor) isMain(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mains[pid]
}

// alone tells whether no other step of the same job is there.
func (s *supervisor) alone(st *step) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.live {
		if k.job == st.id.job && k != st.id {
			return false
		}
	}
	return true
}

func (s *supervisor) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// stepsOf lists the steps of a run that are not over; one only, if asked for.
func (s *supervisor) stepsOf(job uint64, run uint32, only *uint32) []*step {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*step
	for k, st := range s.live {
		if k.job == job && k.run == run && (only == nil || *only == k.step) {
			out = append(out, st)
		}
	}
	return out
}

// stop makes the supervisor go, in one of three ways.
func (s *supervisor) stop(mode StopMode) error {
	s.mu.Lock()
	if n := len(s.live); n > 0 && mode == StopMode_REFUSE_IF_BUSY {
		s.mu.Unlock()
		return fmt.Errorf("%d steps run on node %s: say whether they are to be killed or kept", n, s.conf.Node)
	}
	s.stopping = true
	steps := make([]*step, 0, len(s.live))
	for _, st := range s.live {
		steps = append(steps, st)
	}
	s.mu.Unlock()
	if mode == StopMode_KILL_STEPS {
		for _, st := range steps {
			s.terminate([]*step{st}, Cause_DOWN, st.launching.KillWaitMs)
		}
		s.mu.Lock()
		for len(s.live) > 0 {
			s.changed.Wait()
		}
		s.mu.Unlock()
	}
	return nil
}

// leave makes Main return.
func (s *supervisor) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.finished:
	default:
		close(s.finished)
	}
}

// seeingOff tells whether some step has ended and is not in the journal yet.
func (s *supervisor) seeingOff() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.live {
		if st.ended() {
			return true
		}
		if st.birth != nil && !st.adopted.Load() {
			if _, _, over, err := peekExit(int(st.birth.Pid)); err == nil && over {
				return true
			}
		}
	}
	return false
}

// shut gives everything back but the steps.
func (s *supervisor) shut() error {
	s.leave()
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	if err := s.holdUp(5 * time.Second); err != nil {
		s.log.Warn("not waiting any longer", "error", err)
	}
	s.listener.Close()
	// A status that is known to nobody else yet is to be in the journal, or it goes with this process.
	for until := time.Now().Add(5 * time.Second); s.seeingOff() && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	s.mu.Lock()
	s.closed = true
	for _, st := range s.live {
		if st.timer != nil {
			st.timer.Stop()
		}
	}
	for c := range s.conns {
		c.Close()
	}
	for w := range s.watchers {
		w.close()
	}
	s.mu.Unlock()
	idle := len(s.live) == 0
	err := s.journal.close()
	if s.tree != nil && idle {
		if terr := s.tree.Close(); terr != nil {
			s.log.Warn("the node's control groups stay", "error", terr)
		}
	}
	s.reaper.close()
	s.threads.close()
	s.lock.Close()
	if err != nil {
		return fmt.Errorf("supervisor of node %s: %w", s.conf.Node, err)
	}
	return nil
}
