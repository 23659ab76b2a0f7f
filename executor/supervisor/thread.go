package supervisor

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// threads are operating system threads kept for launching. Each has its own working directory and umask
// (CLONE_FS undone), and stands in the node's namespace of host names: what it forks inherits them. The kernel keeps
// credentials per thread, so one of them can open a file as the user while the others go on being root.
type threads struct {
	host string // "": the machine's own

	mu    sync.Mutex
	idle  []chan func() bool
	total int
	freed *sync.Cond
	uts   *os.File // the namespace with host set
}

// maxThreads bounds how many launches can be stuck in a file system that does not answer.
const maxThreads = 64

func newThreads(host string) *threads {
	t := &threads{host: host}
	t.freed = sync.NewCond(&t.mu)
	return t
}

// do runs f on one of the threads, and waits for it. A thread that f says is not sound any more is not used again.
func (t *threads) do(f func() (sound bool)) error {
	t.mu.Lock()
	for len(t.idle) == 0 && t.total >= maxThreads {
		t.freed.Wait()
	}
	var work chan func() bool
	if n := len(t.idle); n > 0 {
		work = t.idle[n-1]
		t.idle = t.idle[:n-1]
		t.mu.Unlock()
	} else {
		t.total++
		t.mu.Unlock()
		var err error
		if work, err = t.start(); err != nil {
			t.mu.Lock()
			t.total--
			t.freed.Signal()
			t.mu.Unlock()
			return err
		}
	}
	done := make(chan bool, 1)
	work <- func() bool {
		sound := f()
		done <- sound
		return sound
	}
	sound := <-done
	t.mu.Lock()
	if sound {
		t.idle = append(t.idle, work)
	} else {
		t.total--
	}
	t.freed.Signal()
	t.mu.Unlock()
	return nil
}

// warm starts n threads ahead of their first use.
func (t *threads) warm(n int) error {
	for range n {
		work, err := t.start()
		if err != nil {
			return err
		}
		t.mu.Lock()
		t.total++
		t.idle = append(t.idle, work)
		t.mu.Unlock()
	}
	return nil
}

// spareThreads is how many threads the runtime gets ahead of need, at the least (it takes as many again to make them).
const spareThreads = 24

// spare makes the runtime create n threads, which it keeps. It creates one whenever too many others are in system calls,
// and ends the process if the system refuses: a user whose jobs use up the limit on processes must not do that to us.
func spare(n int) {
	var there sync.WaitGroup
	there.Add(n)
	release := make(chan struct{})
	for range n {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			there.Done()
			<-release // a goroutine that is bound to its thread takes that along when it waits
		}()
	}
	there.Wait()
	close(release)
}

func (t *threads) start() (chan func() bool, error) {
	work := make(chan func() bool)
	ready := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := t.prepare()
		ready <- err
		if err != nil {
			return
		}
		for f := range work {
			if !f() {
				return
			}
		}
	}()
	if err := <-ready; err != nil {
		return nil, err
	}
	return work, nil
}

func (t *threads) prepare() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("preparing a thread for launches: own umask and directory: %w", err)
	}
	if t.host == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.uts != nil {
		if err := unix.Setns(int(t.uts.Fd()), unix.CLONE_NEWUTS); err != nil {
			return fmt.Errorf("preparing a thread for launches: joining the host name %q: %w", t.host, err)
		}
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("preparing a thread for launches: a host name of its own: %w", err)
	}
	if err := unix.Sethostname([]byte(t.host)); err != nil {
		return fmt.Errorf("preparing a thread for launches: setting the host name %q: %w", t.host, err)
	}
	f, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/uts", unix.Gettid()))
	if err != nil {
		return fmt.Errorf("preparing a thread for launches: %w", err)
	}
	t.uts = f
	return nil
}

// close lets the idle threads go.
func (t *threads) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.idle {
		close(w)
	}
	t.idle = nil
	if t.uts != nil {
		t.uts.Close()
		t.uts = nil
	}
}

// identity is whom a file is opened for.
type identity struct {
	uid, gid uint32
	groups   []uint32
}

// as runs f with the file system rights of a user on the calling thread, which must be one of the prepared ones.
// Without being root it just runs f: then the user is whom this process runs as.
func (who identity) as(f func() error) error {
	if os.Geteuid() != 0 || who.uid == 0 {
		return f()
	}
	own, err := syscall.Getgroups()
	if err != nil {
		return fmt.Errorf("reading own groups: %w", err)
	}
	back := make([]uint32, len(own))
	for i, g := range own {
		back[i] = uint32(g)
	}
	if err := setThreadGroups(who.groups); err != nil {
		return fmt.Errorf("taking on the groups of user %d: %w", who.uid, err)
	}
	// The kernel takes away the capabilities to pass over permissions when the file system user stops being root.
	unix.RawSyscall(unix.SYS_SETFSGID, uintptr(who.gid), 0, 0)
	unix.RawSyscall(unix.SYS_SETFSUID, uintptr(who.uid), 0, 0)
	ferr := f()
	unix.RawSyscall(unix.SYS_SETFSUID, 0, 0, 0)
	unix.RawSyscall(unix.SYS_SETFSGID, uintptr(os.Getegid()), 0, 0)
	if err := setThreadGroups(back); err != nil {
		// A thread that cannot get its own groups back must not be used again, and no sound kernel does this.
		panic("a thread cannot get its groups back: " + err.Error())
	}
	return ferr
}
