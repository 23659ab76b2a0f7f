package tasks

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"stint/events/filename"
)

// streams makes the three streams of a task that has no terminal. What is closed here after the start is added to files.
func (k *keeper) streams(t *task, files *[]*os.File) ([]*os.File, error) {
	in, err := k.input(t, files)
	if err != nil {
		return nil, err
	}
	out, err := k.output(t, k.begin.Stdout, KindStdout, files)
	if err != nil {
		return nil, err
	}
	if k.begin.Stderr.GetWay() == Way_SAME {
		return []*os.File{in, out, out}, nil
	}
	errs, err := k.output(t, k.begin.Stderr, KindStderr, files)
	return []*os.File{in, out, errs}, err
}

func (k *keeper) input(t *task, files *[]*os.File) (*os.File, error) {
	s := k.begin.Stdin
	switch {
	case s.GetWay() == Way_FILES:
		f, err := os.Open(k.fileName(s, t))
		if err != nil {
			return nil, fmt.Errorf("its standard input: %w", err)
		}
		*files = append(*files, f)
		return f, nil
	case s.GetWay() == Way_NOTHING, s.GetWay() == Way_ONE && s.Only != t.rank, k.begin.Pty:
		f, err := os.Open(os.DevNull)
		if err == nil {
			*files = append(*files, f)
		}
		return f, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	*files = append(*files, r)
	t.stdin = newFeed(w, k.taken, false)
	return r, nil
}

func (k *keeper) output(t *task, s *Stream, kind Kind, files *[]*os.File) (*os.File, error) {
	switch {
	case s.GetWay() == Way_FILES:
		mode := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
		if s.Append {
			mode = os.O_WRONLY | os.O_CREATE | os.O_APPEND
		}
		f, err := os.OpenFile(k.fileName(s, t), mode, 0o666)
		if err != nil {
			return nil, fmt.Errorf("its output: %w", err)
		}
		*files = append(*files, f)
		return f, nil
	case s.GetWay() == Way_NOTHING, s.GetWay() == Way_ONE && s.Only != t.rank:
		f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err == nil {
			*files = append(*files, f)
		}
		return f, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	*files = append(*files, w)
	t.pump(k, r, kind)
	return w, nil
}

// fileName puts into a pattern what only the node knows: %t the rank, %n the node's place, %N its name.
func (k *keeper) fileName(s *Stream, t *task) string {
	rank := t.rank
	if k.order.CompatOld != 0 { // which counts the tasks of the components before twice
		rank += k.within.GetTasks()
	}
	return filename.AtNode(string(s.Path), filename.Names{TaskRank: rank, NodeRank: k.order.Node, Node: k.order.Name})
}

const chunk = 64 << 10

// pump carries what a task writes to the launcher, as fast as that takes it, until the task is over or has closed it.
func (t *task) pump(k *keeper, r *os.File, kind Kind) {
	t.pumps.Add(1)
	raw, err := r.SyscallConn()
	t.drains = append(t.drains, func() { r.SetReadDeadline(time.Unix(1, 0)) })
	go func() {
		defer t.pumps.Done()
		defer r.Close()
		buf := make([]byte, chunk)
		var broken error
		pass := func(n int) {
			if n > 0 && broken == nil {
				broken = k.peer.Send(kind, t.rank, buf[:n]) // without a launcher what comes is read and dropped
			}
		}
		for {
			n, err := r.Read(buf)
			pass(n)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				pass(0)
				k.peer.Send(kind, t.rank, nil)
				return
			}
		}
		// The task is over; what it has written is in the pipe. What others still hold open is not waited for.
		r.SetReadDeadline(time.Time{})
		for err == nil {
			n := 0
			var rerr error
			err = raw.Read(func(fd uintptr) bool {
				n, rerr = syscall.Read(int(fd), buf)
				return true
			})
			if rerr == syscall.EINTR {
				continue
			}
			if rerr != nil || n <= 0 {
				break
			}
			pass(n)
		}
		k.peer.Send(kind, t.rank, nil)
	}()
}

// sharing is some bytes of stdin on their way to one or more tasks: they are taken when the last has them.
type sharing struct {
	mu    sync.Mutex
	bytes int
	left  int
	told  func(int)
}

func (s *sharing) done() {
	s.mu.Lock()
	s.left--
	last := s.left == 0
	s.mu.Unlock()
	if last {
		s.told(s.bytes)
	}
}

// feed is the way of stdin to one task. Bytes that a task never reads are kept up to the launcher's window; those for one that is
// over are dropped.
type feed struct {
	w    *os.File
	tty  bool
	mu   sync.Mutex
	cond *sync.Cond
	line []piece
	over bool
}

type piece struct {
	data  []byte // none: end of file
	share *sharing
}

func newFeed(w *os.File, _ func(int), tty bool) *feed {
	f := &feed{w: w, tty: tty}
	f.cond = sync.NewCond(&f.mu)
	go f.run()
	return f
}

func (f *feed) put(data []byte, s *sharing) {
	f.mu.Lock()
	if f.over {
		f.mu.Unlock()
		s.done()
		return
	}
	f.line = append(f.line, piece{data, s})
	f.mu.Unlock()
	f.cond.Signal()
}

// end drops what waits and closes the way.
func (f *feed) end() {
	f.mu.Lock()
	f.over = true
	rest := f.line
	f.line = nil
	f.mu.Unlock()
	f.cond.Signal()
	f.w.SetWriteDeadline(time.Unix(1, 0))
	for _, p := range rest {
		p.share.done()
	}
}

func (f *feed) run() {
	if !f.tty {
		defer f.w.Close()
	}
	for {
		f.mu.Lock()
		for len(f.line) == 0 && !f.over {
			f.cond.Wait()
		}
		if f.over {
			f.mu.Unlock()
			return
		}
		p := f.line[0]
		f.line = f.line[1:]
		f.mu.Unlock()
		if len(p.data) == 0 {
			p.share.done()
			if f.tty {
				f.w.Write([]byte{4}) // end of file, as typed
				continue
			}
			f.end()
			return
		}
		_, err := f.w.Write(p.data)
		p.share.done()
		if err != nil {
			f.end()
			return
		}
	}
}

// openTerminal makes a terminal of the given size.
func openTerminal(rows, columns uint32) (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("a terminal: %w", err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil && rows > 0 {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(columns)})
	}
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		master.Close()
		return nil, nil, fmt.Errorf("a terminal: %w", err)
	}
	return master, slave, nil
}
