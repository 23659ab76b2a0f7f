package tasks

import (
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// hearing is how a keeper hears what the supervisor has to tell the user: its standard error, which leads nowhere else, is the one end of a
// pipe that the supervisor writes to.
type hearing struct {
	mu sync.Mutex
	fd int // -1: nothing is heard
}

// hark begins to hear.
func (k *keeper) hark() {
	k.hearing.fd = -1
	var st, null unix.Stat_t
	if unix.Fstat(2, &st) != nil || unix.Stat(os.DevNull, &null) != nil || st.Rdev != null.Rdev || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return // somebody reads it
	}
	var ends [2]int
	if unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
		return
	}
	if unix.Dup3(ends[1], 2, unix.O_CLOEXEC) == nil {
		k.hearing.fd = ends[0]
	}
	unix.Close(ends[1])
	if k.hearing.fd < 0 {
		unix.Close(ends[0])
		return
	}
	go func() {
		for {
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(k.hearing.fd), Events: unix.POLLIN}}, -1); err != nil && err != unix.EINTR {
				return
			}
			k.hear()
		}
	}()
}

// hear passes on what has been told. After that the step's end needs no other words.
func (k *keeper) hear() {
	k.hearing.mu.Lock()
	defer k.hearing.mu.Unlock()
	if k.hearing.fd < 0 {
		return
	}
	buf := make([]byte, 4096)
	n, err := unix.Read(k.hearing.fd, buf)
	if err != nil || n <= 0 {
		return
	}
	k.mu.Lock()
	say := k.begin != nil
	k.cancel = true
	k.mu.Unlock()
	for line := range strings.Lines(string(buf[:n])) {
		number := uint32(0)
		if strings.Contains(line, " exceeded memory limit ") {
			number = 1
		}
		if say {
			k.peer.Send(KindAborted, number, []byte(strings.TrimSuffix(line, "\n")))
		}
	}
}
