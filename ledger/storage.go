package ledger

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// logger passes on what the storage engine says. What it calls fatal must not end the process, in which a controller may
// lead: the ledger is broken from then on and says so, and the goroutine that met it stands still for ever, since the
// engine does not expect it to go on, nor to be unwound.
type logger struct{ l *Ledger }

func (g *logger) Infof(format string, args ...interface{}) {}

func (g *logger) Errorf(format string, args ...interface{}) {
	g.l.o.Log.Error("ledger storage: " + fmt.Sprintf(format, args...))
}

func (g *logger) Fatalf(format string, args ...interface{}) {
	g.l.fail(fmt.Errorf(format, args...))
	select {}
}

// corrupt is called when the engine reads what it did not write.
func (l *Ledger) corrupt(info pebble.DataCorruptionInfo) {
	l.broke(&DamagedError{Dir: l.dir, Err: fmt.Errorf("%s: %w", info.Path, info.Details)})
}

// fail marks the ledger as broken. The cursor is where the last batch left it, since rows and cursor are one write.
func (l *Ledger) fail(err error) {
	what := "its storage failed, and is opened again"
	if vfs.IsNoSpaceError(err) || strings.Contains(err.Error(), "no space left") {
		what = "the disk is full; free some space, it goes on by itself"
	}
	l.broke(fmt.Errorf("the ledger in %s stands still at sequence %d: %s (%w)", l.dir, l.Seq(), what, err))
}

func (l *Ledger) broke(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return
	}
	l.broken = err
	close(l.gone)
	l.o.Log.Error(err.Error())
}

// guard runs a write and returns its error, or why the storage engine gave up in the middle of it.
func (l *Ledger) guard(write func() error) error {
	done := make(chan error, 1)
	go func() { done <- write() }()
	var err error
	select {
	case err = <-done:
		if err == nil {
			return nil
		}
		if vfs.IsNoSpaceError(err) {
			l.fail(err)
		}
	case <-l.gone:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	return err
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
