package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// stdio is the open files of a step to be.
type stdio struct {
	in, out, err *os.File // err may be out
	cwd          string   // where the thread stands now
	stderrPath   string   // absolute; "" when it goes nowhere
}

func (f *stdio) close() {
	for _, x := range []*os.File{f.in, f.out} {
		if x != nil {
			x.Close()
		}
	}
	if f.err != nil && f.err != f.out {
		f.err.Close()
	}
}

// launchError is why a launch failed.
type launchError struct {
	failure Failure
	detail  string
	code    int32 // with which what could not be executed is taken to have ended, as the real one's steps do; 0: it has not
}

func (e *launchError) Error() string { return e.detail }

func failed(f Failure, format string, args ...any) *launchError {
	return &launchError{failure: f, detail: fmt.Sprintf(format, args...)}
}

// enterAndOpen moves the thread to the step's working directory and opens its streams from there, as the user. A
// directory that cannot be entered is replaced by /tmp, and the step's stderr says so.
func enterAndOpen(l *Launch, who identity) (*stdio, error) {
	f := &stdio{}
	var note string
	err := who.as(func() error {
		f.cwd = string(l.Cwd)
		if f.cwd == "" {
			f.cwd = "/"
		}
		if err := unix.Chdir(f.cwd); err != nil {
			note = fmt.Sprintf("the working directory %s cannot be entered (%v), the job starts in /tmp\n", f.cwd, err)
			f.cwd = "/tmp"
			if err := unix.Chdir(f.cwd); err != nil {
				f.cwd = "/"
				if err := unix.Chdir(f.cwd); err != nil {
					return failed(Failure_OUTPUT, "neither the working directory %s nor /tmp nor / can be entered: %v", l.Cwd, err)
				}
			}
		}
		var err error
		if f.in, err = openStream(l.Stdin, false); err != nil {
			return failed(Failure_INPUT, "standard input: %v", err)
		}
		if f.out, err = openStream(l.Stdout, true); err != nil {
			return failed(Failure_OUTPUT, "standard output: %v", err)
		}
		out, errs := l.Stdout.GetPath(), l.Stderr.GetPath()
		if len(errs) == 0 || bytes.Equal(errs, out) {
			f.err, f.stderrPath = f.out, string(out)
		} else {
			f.stderrPath = string(errs)
			if f.err, err = openStream(l.Stderr, true); err != nil {
				return failed(Failure_OUTPUT, "standard error: %v", err)
			}
		}
		return nil
	})
	if err != nil {
		f.close()
		return nil, err
	}
	if f.stderrPath != "" && !filepath.IsAbs(f.stderrPath) {
		f.stderrPath = filepath.Join(f.cwd, f.stderrPath)
	}
	if note != "" {
		f.tell(note)
	}
	return f, nil
}

// tell writes a line for the user where the step's errors go. A disk that is full loses it.
func (f *stdio) tell(line string) {
	if f.err != nil {
		_, _ = f.err.WriteString("stint: " + line)
	}
}

// openStream opens one file of a step. It never waits: a pipe that nobody reads is refused at once.
func openStream(s *Stream, output bool) (*os.File, error) {
	path := string(s.GetPath())
	if path == "" {
		path = "/dev/null"
	}
	if strings.IndexByte(path, 0) >= 0 {
		return nil, fmt.Errorf("%q holds a zero byte", path)
	}
	flags := unix.O_RDONLY
	if output {
		flags = unix.O_WRONLY | unix.O_CREAT
		if s.GetAppend() {
			flags |= unix.O_APPEND
		} else {
			flags |= unix.O_TRUNC
		}
	}
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_LARGEFILE, 0o666)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		if err := unix.SetNonblock(fd, false); err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("making %s block: %w", path, err)
		}
		return os.NewFile(uintptr(fd), path), nil
	}
}
