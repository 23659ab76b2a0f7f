package cli

import (
	"context"
	"errors"
	"os"
	"time"

	"stint/executor/supervisor"
)

// withSupervisor speaks to the supervisor that answers on a socket. It returns false, and f is not called, if none does.
func withSupervisor(socket string, patience time.Duration, f func(context.Context, *supervisor.Client, *supervisor.Listed)) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := supervisor.Dial(ctx, socket)
	if err != nil {
		return false
	}
	defer c.Close()
	l, err := c.List(ctx)
	if err != nil {
		return false
	}
	f(ctx, c, l)
	return true
}

// supervisorPid returns the process of the supervisor that answers on a socket, 0 if none does.
func supervisorPid(socket string) (pid int) {
	withSupervisor(socket, 2*time.Second, func(_ context.Context, _ *supervisor.Client, l *supervisor.Listed) { pid = int(l.Pid) })
	return pid
}

// adopt looks for the supervisor that an earlier run left alive and returns its process, 0 if there is none. One of another version
// becomes this program in place: it stays the same process, and its steps stay its children.
func (u *upper) adopt(node, socket string) (pid int) {
	withSupervisor(socket, 20*time.Second, func(ctx context.Context, c *supervisor.Client, l *supervisor.Listed) {
		pid = int(l.Pid)
		if l.Version == Build() {
			return
		}
		self, err := os.Executable()
		if err == nil {
			err = c.Upgrade(ctx, self)
		}
		if err == nil {
			err = poll(ctx, func() error {
				if supervisorPid(socket) != pid {
					return errors.New("it does not answer again")
				}
				return nil
			})
		}
		if err != nil {
			u.log.Error("a supervisor could not be upgraded in place, and goes on as it was", "node", node, "version", l.Version, "error", err)
			return
		}
		u.log.Info("a supervisor was upgraded in place", "node", node, "pid", pid, "from", l.Version, "to", Build())
	})
	return pid
}

// stopSupervisor asks the supervisor on a socket to end. One that has steps refuses, by the mode that `down` uses.
func stopSupervisor(socket string, mode supervisor.StopMode) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := supervisor.Dial(ctx, socket)
	if err != nil {
		return nil // nobody there
	}
	defer c.Close()
	return c.Stop(ctx, mode)
}
