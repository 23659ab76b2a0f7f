package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// FD is the version 2 directory of the group, for SysProcAttr.CgroupFD (clone3 with CLONE_INTO_CGROUP). It belongs to the group: Close or Remove closes it. ErrNoGroups where the group has no such directory.
func (g *Group) FD() (int, error) {
	m, err := g.main()
	if err != nil {
		return -1, err
	}
	if !m.v2 {
		return -1, ErrNoGroups
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fd < 0 {
		fd, err := g.open(m)
		if err != nil {
			return -1, err
		}
		g.fd = fd
	}
	return g.fd, nil
}

func (g *Group) open(m groupDir) (int, error) {
	fd, err := retry(func() (int, error) { return unix.Open(m.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return -1, fmt.Errorf("opening control group %s: %w", g.Name(), err)
	}
	return fd, nil
}

// borrow is FD for a moment: done closes what was opened for it.
func (g *Group) borrow() (fd int, done func(), err error) {
	m, err := g.main()
	if err != nil {
		return -1, nil, err
	}
	if !m.v2 {
		return -1, nil, ErrNoGroups
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fd >= 0 {
		return g.fd, func() {}, nil
	}
	if fd, err = g.open(m); err != nil {
		return -1, nil, err
	}
	return fd, func() { unix.Close(fd) }, nil
}

// Launch calls start, which must fork and exec one process with attr (syscall.ForkExec or exec.Cmd.Start) on the
// goroutine it is called on, such that the child is born inside the group: on version 2 by clone3, on version 1 because
// the calling thread is in the group for the time of the fork. No process of the job is ever outside it, and nothing is
// executed in between. attr.UseCgroupFD and attr.CgroupFD are set here.
//
// Do not combine it with attr.Pdeathsig: the thread that forked may end at any time. The error is start's own, or one of
// joining; start is not called if the thread could not join.
func (g *Group) Launch(attr *syscall.SysProcAttr, start func() error) error {
	m, err := g.main()
	if err != nil {
		return start()
	}
	if m.v2 {
		fd, err := g.FD()
		if err != nil {
			return err
		}
		attr.UseCgroupFD, attr.CgroupFD = true, fd
		if len(g.dirs) == 1 {
			return start()
		}
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		tid := unix.Gettid()
		if err := g.Join(tid); err != nil {
			// The thread may be in some of the groups. It ends with this goroutine, since it is still locked to it.
			done <- err
			return
		}
		err := start()
		if g.tree.leave(g, tid) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// Join moves one thread into the version 1 directories of the group: what it forks from then on is born there. The
// thread must be locked to its goroutine (runtime.LockOSThread) and is brought back by Leave. Launch does all of it.
func (g *Group) Join(tid int) error {
	id := strconv.Itoa(tid)
	for _, d := range g.dirs {
		if d.v2 {
			continue
		}
		if err := writeFile(filepath.Join(d.path, "tasks"), id); err != nil {
			return fmt.Errorf("joining control group %s: %w", g.Name(), err)
		}
	}
	return nil
}

// Leave moves a thread that joined back to where this process is. If it fails the thread must not be used for anything
// else: let its goroutine end without unlocking it.
func (g *Group) Leave(tid int) error { return g.tree.leave(g, tid) }

func (t *Tree) leave(g *Group, tid int) error {
	id := strconv.Itoa(tid)
	for _, d := range g.dirs {
		if d.v2 {
			continue
		}
		if err := writeFile(filepath.Join(d.own, "tasks"), id); err != nil {
			return fmt.Errorf("leaving control group %s: %w", g.Name(), err)
		}
	}
	return nil
}

// Add moves a process with all its threads into the group. Children that it forked before stay where they are.
func (g *Group) Add(pid int) error {
	if !g.Active() {
		return ErrNoGroups
	}
	var errs []error
	for _, d := range g.dirs {
		if err := writeFile(filepath.Join(d.path, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("moving process %d into control group %s: %w", pid, g.Name(), errors.Join(errs...))
	}
	return nil
}
