package cgroup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Kill sends SIGKILL to every process in the group and below it, however fast they fork, and waits until none is left or
// ctx is done; a process in uninterruptible sleep can hold it up. A group that is gone is no error.
func (g *Group) Kill(ctx context.Context) error {
	m, err := g.main()
	if err != nil {
		return err
	}
	fail := func(err error) error { return fmt.Errorf("killing control group %s: %w", g.Name(), err) }
	for pause := 200 * time.Microsecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if m.kill {
			err = writeFile(filepath.Join(m.path, "cgroup.kill"), "1")
		} else {
			err = g.killFrozen(ctx)
		}
		if err != nil && !isGone(err) {
			return fail(err)
		}
		empty, err := g.Empty()
		if err != nil {
			return fail(err)
		}
		if empty {
			return nil
		}
		select {
		case <-ctx.Done():
			pids, _ := g.Procs()
			return fail(fmt.Errorf("processes %v are still there: %w", pids, ctx.Err()))
		case <-time.After(pause):
		}
	}
}

// killFrozen stops the group, so that nothing can fork, signals everything, and lets it go to die.
func (g *Group) killFrozen(ctx context.Context) error {
	// A group that does not come to rest (a process in uninterruptible sleep) is signalled all the same.
	brief, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
	defer cancel()
	frozen := g.Freeze(brief)
	_, err := g.Signal(syscall.SIGKILL)
	if terr := g.Thaw(ctx); terr != nil && !isGone(terr) && !errors.Is(terr, unix.ENOTSUP) {
		return terr
	}
	if frozen != nil && brief.Err() == nil && !isGone(frozen) && !errors.Is(frozen, unix.ENOTSUP) {
		return frozen
	}
	return err
}

// Empty says whether no process is left in the group or below it; processes that have ended and were not yet waited for
// do not count. A group that is gone is empty.
func (g *Group) Empty() (bool, error) {
	m, err := g.main()
	if err != nil {
		return false, err
	}
	if m.v2 {
		ev, err := readKeys(filepath.Join(m.path, "cgroup.events"))
		if isGone(err) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("looking into control group %s: %w", g.Name(), err)
		}
		return ev["populated"] == 0, nil
	}
	pids, err := g.Procs()
	return len(pids) == 0, err
}

// Freeze stops every process in the group, without a signal that it could see, and returns when all stand still.
func (g *Group) Freeze(ctx context.Context) error { return g.freeze(ctx, true) }

// Thaw lets a frozen group run on.
func (g *Group) Thaw(ctx context.Context) error { return g.freeze(ctx, false) }

func (g *Group) freeze(ctx context.Context, on bool) error {
	m, err := g.main()
	if err != nil {
		return err
	}
	what, value, v1 := "thawing", "0", "THAWED"
	if on {
		what, value, v1 = "freezing", "1", "FROZEN"
	}
	fail := func(err error) error { return fmt.Errorf("%s control group %s: %w", what, g.Name(), err) }
	set := func() error { return writeFile(filepath.Join(m.path, "cgroup.freeze"), value) }
	reached := func() (bool, error) {
		ev, err := readKeys(filepath.Join(m.path, "cgroup.events"))
		return on == (ev["frozen"] == 1), err
	}
	if !m.freeze {
		d, ok := g.dir("freezer")
		if !ok {
			return fail(fmt.Errorf("this kernel has no way to freeze it: %w", unix.ENOTSUP))
		}
		set = func() error { return writeFile(filepath.Join(d.path, "freezer.state"), v1) }
		reached = func() (bool, error) {
			s, err := readFile(filepath.Join(d.path, "freezer.state"))
			return strings.TrimSpace(s) == v1, err
		}
	}
	if err := set(); err != nil {
		return fail(err)
	}
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		ok, err := reached()
		if err != nil {
			return fail(err)
		}
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fail(ctx.Err())
		case <-time.After(pause):
		}
		// Version 1: a process that forked while the group came to rest needs the order again.
		if !m.freeze && on {
			if err := set(); err != nil {
				return fail(err)
			}
		}
	}
}

// Frozen says whether the group is stopped, for instance found so after a restart.
func (g *Group) Frozen() (bool, error) {
	m, err := g.main()
	if err != nil {
		return false, err
	}
	if m.freeze {
		ev, err := readKeys(filepath.Join(m.path, "cgroup.events"))
		return ev["frozen"] == 1, err
	}
	d, ok := g.dir("freezer")
	if !ok {
		return false, nil
	}
	s, err := readFile(filepath.Join(d.path, "freezer.state"))
	return s == "FROZEN" || s == "FREEZING", err
}
