package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// child is a daemon in a process of its own that is started again whenever it ends.
type child struct {
	name     string   // for people, and in the list of processes
	args     []string // of this program
	log      string   // file its output goes to
	outlives bool     // it goes on when we end; else it ends with us, however we end

	// adopt, if not nil, looks for one that an earlier run left alive and returns its process id, 0 if there is none.
	adopt func() int

	mu  sync.Mutex
	pid int
}

// lifeline is the descriptor on which a child that must not outlive us waits for our end: it is closed by the kernel then,
// whatever ended us.
const lifeline = 3

// Pid returns the process id while it runs, else 0.
func (c *child) Pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pid
}

func (c *child) set(pid int, changed func()) {
	c.mu.Lock()
	c.pid = pid
	c.mu.Unlock()
	changed()
}

// run keeps the child running until ctx ends, and then stops it unless it outlives us. changed is called with each new
// process.
func (c *child) run(ctx context.Context, log *slog.Logger, changed func()) {
	pause := 100 * time.Millisecond
	for ctx.Err() == nil {
		begun := time.Now()
		if c.adopt != nil {
			if pid := c.adopt(); pid != 0 {
				log.Info("adopted", "child", c.name, "pid", pid)
				c.set(pid, changed)
				awaitExit(ctx, pid)
				c.set(0, func() {})
				if ctx.Err() != nil {
					return
				}
				log.Warn("a daemon ended", "child", c.name, "pid", pid)
				continue
			}
		}
		err := c.once(ctx, changed)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > 2*time.Second {
			pause = 100 * time.Millisecond
		}
		log.Warn("a daemon ended and is started again", "child", c.name, "after", time.Since(begun).Round(time.Millisecond), "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, 2*time.Second)
	}
}

// once runs it from start to end.
func (c *child) once(ctx context.Context, changed func()) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := openLog(c.log)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(self, c.args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a signal to our group, Ctrl-C among them, is ours alone
	var hold io.Closer = io.NopCloser(nil)
	if !c.outlives {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		defer r.Close()
		hold = w
		cmd.ExtraFiles = []*os.File{r}
		cmd.Args = append(cmd.Args, "--lifeline")
	}
	if err := cmd.Start(); err != nil {
		hold.Close()
		return err
	}
	c.set(cmd.Process.Pid, changed)
	defer c.set(0, func() {})
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		hold.Close()
		return err
	case <-ctx.Done():
	}
	if c.outlives {
		return ctx.Err()
	}
	hold.Close()
	cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err = <-ended:
	case <-time.After(10 * time.Second):
		cmd.Process.Kill()
		err = <-ended
	}
	return err
}

// openLog opens a log for appending; one that has grown long is set aside first, and only one is kept so.
func openLog(name string) (*os.File, error) {
	if info, err := os.Stat(name); err == nil && info.Size() > 16<<20 {
		os.Rename(name, name+".1")
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a log: %w", err)
	}
	return f, nil
}

// awaitExit waits until a process that is not our child ends.
func awaitExit(ctx context.Context, pid int) {
	for ctx.Err() == nil {
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// heed returns a context that ends when the lifeline does.
func heed(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		f := os.NewFile(lifeline, "lifeline")
		io.Copy(io.Discard, f)
		cancel()
	}()
	return ctx
}
