package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// scriptName is what a batch script is called on the node, whatever it was called where it was submitted: a script that
// looks at its own name finds it.
const scriptName = "slurm_script"

// spoolDir is the folder of one step below the supervisor's spool.
func (s *supervisor) spoolDir(k *Key) string {
	return filepath.Join(s.conf.Spool, fmt.Sprintf("job%05d.%d.%d", k.Job, k.Run, k.Step))
}

// writeScript puts the script where its user, and nobody else, can read and execute it.
func writeScript(dir string, script []byte, who identity) (string, error) {
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // whatever the umask made of it
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
