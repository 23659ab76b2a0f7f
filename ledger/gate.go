package ledger

import (
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// gate is the file system that the storage engine of one Ledger sees. When the engine has failed it cannot be closed, and its
// goroutines may still want to write; once the gate is shut whatever of them wants to change something stands still for ever, and
// the folder's lock is given back, so that this process may open the tables again.
type gate struct {
	vfs.FS

	mu    sync.RWMutex // held for reading while something is being changed
	shut  bool
	locks []io.Closer
}

// enter begins a change; it does not return if the gate is shut.
func (g *gate) enter() (leave func()) {
	g.mu.RLock()
	if g.shut {
		g.mu.RUnlock()
		select {}
	}
	return g.mu.RUnlock
}

// close waits for changes under way, shuts the gate, and gives the locks back.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for i, l := range g.locks {
		if l != nil {
			l.Close()
		}
		g.locks[i] = nil
	}
}

// gateLock is a lock that the gate may have given back already.
type gateLock struct {
	g *gate
	n int // of g.locks
}

func (l gateLock) Close() error {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	lock := l.g.locks[l.n]
	l.g.locks[l.n] = nil
	if lock == nil {
		return nil
	}
	return lock.Close()
}

func (g *gate) Lock(name string) (io.Closer, error) {
	l, err := g.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.locks = append(g.locks, l)
	return gateLock{g, len(g.locks) - 1}, nil
}

func (g *gate) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	defer g.enter()()
	return g.file(g.FS.Create(name, category))
}

func (g *gate) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	defer g.enter()()
	return g.file(g.FS.OpenReadWrite(name, category, opts...))
}

func (g *gate) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	defer g.enter()()
	return g.file(g.FS.ReuseForWrite(old, name, category))
}

func (g *gate) Link(old, name string) error {
	defer g.enter()()
	return g.FS.Link(old, name)
}

func (g *gate) Remove(name string) error {
	defer g.enter()()
	return g.FS.Remove(name)
}

func (g *gate) RemoveAll(name string) error {
	defer g.enter()()
	return g.FS.RemoveAll(name)
}

func (g *gate) Rename(old, name string) error {
	defer g.enter()()
	return g.FS.Rename(old, name)
}

func (g *gate) Unwrap() vfs.FS { return g.FS }

func (g *gate) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return gateFile{f, g}, nil
}

// gateFile is a file that may be written.
type gateFile struct {
	vfs.File
	g *gate
}

func (f gateFile) Write(p []byte) (int, error) {
	defer f.g.enter()()
	return f.File.Write(p)
}

func (f gateFile) WriteAt(p []byte, off int64) (int, error) {
	defer f.g.enter()()
	return f.File.WriteAt(p, off)
}

func (f gateFile) Preallocate(offset, length int64) error {
	defer f.g.enter()()
	return f.File.Preallocate(offset, length)
}
