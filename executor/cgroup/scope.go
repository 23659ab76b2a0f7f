package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// Where systemd owns the version 2 tree, groups may be made only inside a unit that it was asked to delegate. That unit is
// a scope and not the service of whoever calls Open: a service whose group has groups with controllers inside cannot be
// started again (the kernel allows no process there), and jobs outlive services. A scope lives as long as a process is in
// it; the caller moves there, into the child group "system", and is again found there by a successor.

const scopePatience = 10 * time.Second

// enterScope gives the directory of the scope of that name, making it if need be, with this process in it.
func enterScope(h *hierarchy, name string) (string, error) {
	dir := filepath.Join(h.mount, "system.slice", name)
	if !exists(dir) {
		if err := startScope(name); err != nil {
			return "", fmt.Errorf("asking systemd for %s: %w", name, err)
		}
		if !exists(dir) {
			return "", fmt.Errorf("systemd made %s elsewhere than %s", name, dir)
		}
	}
	system := filepath.Join(dir, "system")
	if err := makeDir(system); err != nil {
		return "", err
	}
	if err := writeFile(filepath.Join(system, "cgroup.procs"), strconv.Itoa(os.Getpid())); err != nil {
		return "", err
	}
	return dir, vacate(dir)
}

// startScope asks over systemd's own socket, which root may use and which is there without a message bus.
func startScope(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), scopePatience)
	defer cancel()
	c, err := dbus.NewSystemdConnectionContext(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	done := make(chan string, 1)
	_, err = c.StartTransientUnitContext(ctx, name, "fail", []dbus.Property{
		dbus.PropDescription("job steps of Stint"),
		dbus.PropSlice("system.slice"),
		dbus.PropPids(uint32(os.Getpid())),
		{Name: "Delegate", Value: godbus.MakeVariant(true)},
		// A scope may by default have a share of the system's processes only; jobs have their own limits.
		{Name: "TasksMax", Value: godbus.MakeVariant(^uint64(0))},
	}, done)
	if err != nil {
		return err
	}
	select {
	case result := <-done:
		if result != "done" {
			return errors.New("the answer is " + result)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// delegatedUnit looks upwards from this process's own group for a unit that systemd marked as delegated.
func delegatedUnit(h *hierarchy) (dir string, ok bool) {
	for at := h.own; len(at) > len(h.mount); at = filepath.Dir(at) {
		var v [1]byte
		if n, err := unix.Getxattr(at, "trusted.delegate", v[:]); err == nil && n == 1 && v[0] == '1' {
			return at, true
		}
	}
	return "", false
}

// vacate moves the processes that sit directly in a delegated group into its child "system".
func vacate(dir string) error {
	pids, err := readPIDs(filepath.Join(dir, "cgroup.procs"))
	if err != nil || len(pids) == 0 {
		return err
	}
	child := filepath.Join(dir, "system")
	if err := makeDir(child); err != nil {
		return err
	}
	for _, pid := range pids {
		if err := writeFile(filepath.Join(child, "cgroup.procs"), strconv.Itoa(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}
