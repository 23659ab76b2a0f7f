package supervisor

import (
	"debug/elf"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An upgrade is an exec: the process, its children and its number stay. The listening socket and the lock go along as
// open files; everything else the new program finds in the journal. It waits for no step, only for launches under way.

// handoverVariable tells the new program which open files are what.
const handoverVariable = "STINT_SUPERVISOR_HANDOVER"

type handover struct {
	listener, lock *os.File
}

// takeOver returns what an exec has handed to this program, if one has.
func takeOver() (handover, error) {
	var h handover
	v, ok := os.LookupEnv(handoverVariable)
	if !ok {
		return h, nil
	}
	os.Unsetenv(handoverVariable)
	a, b, _ := strings.Cut(v, ",")
	for _, x := range []struct {
		number string
		file   **os.File
	}{{a, &h.listener}, {b, &h.lock}} {
		n, err := strconv.Atoi(x.number)
		if err != nil || n < 3 {
			return handover{}, fmt.Errorf("%s=%q is not what a supervisor hands over", handoverVariable, v)
		}
		if _, err := unix.FcntlInt(uintptr(n), unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
			return handover{}, fmt.Errorf("%s=%q: file %d is not open", handoverVariable, v, n)
		}
		*x.file = os.NewFile(uintptr(n), "handed over")
	}
	return h, nil
}

// checkProgram refuses what cannot be executed here.
func checkProgram(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s is not a program: %w", path, err)
	}
	defer f.Close()
	self, err := elf.Open("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("looking at the running program: %w", err)
	}
	defer self.Close()
	if f.Machine != self.Machine || f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return fmt.Errorf("%s is a program for another machine (%s)", path, f.Machine)
	}
	return unix.Access(path, unix.X_OK)
}

// upgrade becomes the program at path. about is called when nothing can go wrong any more but the exec itself. It returns
// only if it failed; the supervisor then works on as before.
func (s *supervisor) upgrade(path string, about func()) error {
	if path == "" {
		var err error
		if path, err = os.Executable(); err != nil {
			return fmt.Errorf("finding the own program: %w", err)
		}
	}
	if err := checkProgram(path); err != nil {
		return err
	}
	defer s.release()
	if err := s.holdUp(10 * time.Second); err != nil {
		return err
	}
	s.gate.Lock()
	defer s.gate.Unlock()
	listener, err := s.listener.File()
	if err != nil {
		return fmt.Errorf("handing the socket over: %w", err)
	}
	defer listener.Close()
	if err := s.journal.close(); err != nil {
		s.log.Warn("the journal, before an upgrade", "error", err) // the new program will find what is there
	}
	about()
	fds := []int{int(listener.Fd()), int(s.lock.Fd())}
	for _, fd := range fds {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
	}
	env := append(os.Environ(), fmt.Sprintf("%s=%d,%d", handoverVariable, fds[0], fds[1]))
	s.log.Info("becoming a new program", "path", path)
	err = syscall.Exec(path, os.Args, env)
	for _, fd := range fds {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
	}
	j, _, jerr := openJournal(s.conf.StateDir, func(*Record) {})
	if jerr != nil {
		// Without a journal nothing may be promised: better no supervisor, whose steps the next one finds.
		s.leave()
		return errors.Join(err, jerr)
	}
	s.journal = j
	return fmt.Errorf("executing %s: %w", path, err)
}

// listen makes the socket, or goes on with the one handed over.
func listen(path string, handed handover) (*net.UnixListener, error) {
	if handed.listener != nil {
		defer handed.listener.Close()
		l, err := net.FileListener(handed.listener)
		if err != nil {
			return nil, fmt.Errorf("taking over the socket: %w", err)
		}
		u, ok := l.(*net.UnixListener)
		if !ok {
			return nil, fmt.Errorf("taking over the socket: it is a %T", l)
		}
		u.SetUnlinkOnClose(false)
		return u, nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("removing an old socket: %w", err)
	}
	near, release, err := shortened(path)
	if err != nil {
		return nil, err
	}
	defer release()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: near, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listening at %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // the next supervisor removes it; one that comes by exec still listens on it
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// shortened returns a name for a socket that fits the 108 bytes the kernel takes, however deep it lies.
func shortened(path string) (near string, release func(), err error) {
	if len(path) < 100 {
		return path, func() {}, nil
	}
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("opening %s: %w", filepath.Dir(path), err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path)), func() { unix.Close(dir) }, nil
}
