package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// scriptName is what a batch script is called on the node, whatever it was called where it was submitted: a script that
// looks at its own name finds it.
const scriptName = "slurm_script"

// spool gives out folders for scripts, one to a step at a time. They are kept: making one costs as much as making the
// file in it.
type spool struct {
	dir string

	mu   sync.Mutex
	free []string
	next int
}

// take returns a folder that no step has.
func (p *spool) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		d := p.free[n-1]
		p.free = p.free[:n-1]
		return d
	}
	p.next++
	return filepath.Join(p.dir, strconv.Itoa(p.next))
}

// give takes a folder back, without the script.
func (p *spool) give(dir string) error {
	if err := os.Remove(filepath.Join(dir, scriptName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err // and the folder is not used again
	}
	p.mu.Lock()
	p.free = append(p.free, dir)
	p.mu.Unlock()
	return nil
}

// open makes the spool, and empties it of all but the folders in use. Those count even if they are not there: a step that was
// written down and killed before its folder was made gives the number back when it is cleared away, and nobody else may have
// got it meanwhile, or would get it once more.
func (p *spool) open(used map[string]bool) error {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return fmt.Errorf("opening the spool of scripts: %w", err)
	}
	for dir := range used {
		if n, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			p.next = max(p.next, n)
		}
	}
	for _, e := range entries {
		dir := filepath.Join(p.dir, e.Name())
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 0 {
			p.next = max(p.next, n)
			if !used[dir] {
				if err := p.give(dir); err != nil {
					return fmt.Errorf("emptying the spool of scripts: %w", err)
				}
			}
		}
	}
	return nil
}

// writeScript puts the script where its user, and nobody else, can read and execute it.
func writeScript(dir string, script []byte, who identity) (string, error) {
	switch err := os.Mkdir(dir, 0o711); {
	case err == nil:
		if err := os.Chmod(dir, 0o711); err != nil { // whatever the umask made of it
			return "", err
		}
	case !errors.Is(err, os.ErrExist):
		return "", err
	}
	path := filepath.Join(dir, scriptName)
	// A process forked while the file is open for writing would hold it open until its own exec, and the kernel does not
	// execute what somebody has open for writing.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o700)
	if err != nil {
		return "", err
	}
	_, err = fd.Write(script)
	if err == nil && os.Geteuid() == 0 {
		err = fd.Chown(int(who.uid), int(who.gid))
	}
	if err == nil {
		err = fd.Chmod(0o700)
	}
	if cerr := fd.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return "", err
	}
	return path, nil
}
