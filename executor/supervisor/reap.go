package supervisor

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// reaper waits for the ends of processes by their descriptors (pidfds), children or not.
type reaper struct {
	epoll, wake int

	mu   sync.Mutex
	ends map[int32]func()
	done chan struct{}
}

func newReaper() (*reaper, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("preparing to wait for processes: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(ep)
		return nil, fmt.Errorf("preparing to wait for processes: %w", err)
	}
	r := &reaper{epoll: ep, wake: wake, ends: map[int32]func(){}, done: make(chan struct{})}
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(wake)}); err != nil {
		unix.Close(ep)
		unix.Close(wake)
		return nil, fmt.Errorf("preparing to wait for processes: %w", err)
	}
	go r.loop()
	return r, nil
}

// watch calls end, on a goroutine of its own, once the process of the descriptor is over; also if it already is.
func (r *reaper) watch(pidfd int, end func()) error {
	r.mu.Lock()
	r.ends[int32(pidfd)] = end
	r.mu.Unlock()
	err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, pidfd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(pidfd)})
	if err != nil {
		r.mu.Lock()
		delete(r.ends, int32(pidfd))
		r.mu.Unlock()
		return fmt.Errorf("waiting for a process: %w", err)
	}
	return nil
}

func (r *reaper) loop() {
	defer close(r.done)
	events := make([]unix.EpollEvent, 128)
	for {
		n, err := unix.EpollWait(r.epoll, events, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			panic("waiting for processes: " + err.Error()) // only by a fault of ours: the descriptor is good
		}
		for _, e := range events[:n] {
			if int(e.Fd) == r.wake {
				return
			}
			r.mu.Lock()
			end := r.ends[e.Fd]
			delete(r.ends, e.Fd)
			r.mu.Unlock()
			if end != nil {
				go end()
			}
		}
	}
}

func (r *reaper) close() {
	_, _ = unix.Write(r.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	<-r.done
	unix.Close(r.epoll)
	unix.Close(r.wake)
}
