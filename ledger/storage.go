package ledger

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// logger passes on what the storage engine says. What it calls fatal must not end the process, in which a controller may
// lead: the goroutine that says so ends, the ledger is broken from then on, and says it.
type logger struct{ l *Ledger }

func (g *logger) Infof(format string, args ...interface{}) {}

func (g *logger) Errorf(format string, args ...interface{}) {
	g.l.o.Log.Error("ledger storage: " + fmt.Sprintf(format, args...))
}

func (g *logger) Fatalf(format string, args ...interface{}) {
	g.l.fail(fmt.Errorf(format, args...))
	if g.l.db == nil {
		panic(fmt.Sprintf(format, args...)) // while opening: recovered there
	}
	runtime.Goexit()
}

// fail marks the ledger as broken. The cursor is where the last batch left it, since rows and cursor are one write.
func (l *Ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return
	}
	what := "its storage failed"
	if vfs.IsNoSpaceError(err) || strings.Contains(err.Error(), "no space left") {
		what = "the disk is full: free some space"
	}
	l.broken = fmt.Errorf("the ledger in %s stands still at sequence %d: %s, then start it again (%w)", l.dir, l.seq, what, err)
	close(l.gone)
	l.o.Log.Error(l.broken.Error())
}

// guard runs a write and returns its error, or that of the storage engine if it gave up in the middle.
func (l *Ledger) guard(write func() error) error {
	done := make(chan error, 1)
	go func() {
		finished := false
		defer func() {
			if !finished {
				l.fail(errors.New("the write was given up"))
			}
		}()
		err := write()
		finished = true
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			return nil
		}
		if vfs.IsNoSpaceError(err) {
			l.fail(err)
		}
		return err
	case <-l.gone:
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.broken
	}
}

// room says why there is not enough space on the disk to go on, or nothing.
func (l *Ledger) room() string {
	u, err := l.fs.GetDiskUsage(l.dir)
	if err != nil || u.AvailBytes >= l.o.MinFreeBytes {
		return ""
	}
	return fmt.Sprintf("%s has %d MiB free, and the ledger wants %d to go on: free some space, it goes on by itself",
		l.dir, u.AvailBytes>>20, l.o.MinFreeBytes>>20)
}

func isLocked(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) || strings.Contains(err.Error(), "lock held")
}
