package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel's files are written with bare system calls: this is the hot path of starting a job, and each of them can
// come back with EINTR when the runtime interrupts the thread (seen about once in ten thousand writes).

// writeFile writes one value to an existing file.
func writeFile(path, value string) error {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if _, err := retry(func() (int, error) { return unix.Write(fd, []byte(value)) }); err != nil {
		return &os.PathError{Op: "write " + strconv.Quote(value) + " to", Path: path, Err: err}
	}
	return nil
}

// readFile reads a whole small file, without the blanks around it.
func readFile(path string) (string, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	buf := make([]byte, 0, 4096)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := retry(func() (int, error) { return unix.Read(fd, buf[len(buf):cap(buf)]) })
		if err != nil {
			return "", &os.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return strings.TrimSpace(string(buf)), nil
		}
		buf = buf[:len(buf)+n]
	}
}

func retry(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if err != unix.EINTR {
			return n, err
		}
	}
}

// makeDir makes a group; it is no error that it is there.
func makeDir(path string) error {
	_, err := retry(func() (int, error) { return 0, unix.Mkdir(path, 0o755) })
	if err != nil && err != unix.EEXIST {
		return &os.PathError{Op: "mkdir", Path: path, Err: err}
	}
	return nil
}

// removeDir removes one empty group. The kernel answers EBUSY for a moment after the last process has gone, so that is
// tried again until the time is over. A group that is not there is no error.
func removeDir(path string, patience time.Duration) error {
	pause := 100 * time.Microsecond
	for waited := time.Duration(0); ; waited += pause {
		_, err := retry(func() (int, error) { return 0, unix.Rmdir(path) })
		switch {
		case err == nil, err == unix.ENOENT:
			return nil
		case err != unix.EBUSY || waited >= patience:
			return &os.PathError{Op: "rmdir", Path: path, Err: err}
		}
		pause = min(2*pause, 20*time.Millisecond)
		time.Sleep(pause)
	}
}

// readUint reads a file that holds one number; "max" is the largest there is.
func readUint(path string) (uint64, error) {
	s, err := readFile(path)
	if err != nil {
		return 0, err
	}
	if s == "max" {
		return ^uint64(0), nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", path, err)
	}
	return n, nil
}

// readKeys reads a file of "key number" lines.
func readKeys(path string) (map[string]uint64, error) {
	s, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return parseKeys(s), nil
}

func parseKeys(s string) map[string]uint64 {
	out := make(map[string]uint64, 16)
	for line := range strings.Lines(s) {
		k, v, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(v), 10, 64); err == nil {
			out[k] = n
		}
	}
	return out
}

func exists(path string) bool { return unix.Access(path, unix.F_OK) == nil }

func isGone(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) }
