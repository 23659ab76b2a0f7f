package gpu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A simulated GPU's device file has the number of a loop device that is bound to nothing: each number is distinct, so
// that a control group can deny one and allow another, and an open succeeds although there is nothing behind it. (Clones
// of /dev/null all have its number: denying one would deny /dev/null.)

// firstLoop keeps clear of the loop devices that mounts use.
const firstLoop, lastLoop = 4096, 8192

// Simulate makes the device files of a virtual node's GPUs, dir/gpu0 and so on, or finds them again after a restart. It
// needs root; for an ordinary user the files are plain ones that anybody can open, which is noted, as it is on a host
// without loop devices. The files are for reading only.
func Simulate(dir, typ string, count int) (Found, error) {
	fail := func(err error) (Found, error) {
		return Found{}, fmt.Errorf("making the simulated GPUs in %s: %w", dir, err)
	}
	if count == 0 {
		return Found{}, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fail(err)
	}
	why := "only root can make device files"
	control := -1
	if os.Geteuid() == 0 {
		fd, err := unix.Open("/dev/loop-control", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err == nil {
			control = fd
			defer unix.Close(control)
		} else {
			why = "this host has no loop devices (/dev/loop-control: " + err.Error() + ")"
		}
	}
	var f Found
	if control < 0 {
		f.Notes = append(f.Notes, "Any job can open the simulated GPUs: "+why+".")
	}
	next := firstLoop
	for i := range count {
		g := GPU{Index: i, Vendor: Simulated, Type: typ, Name: "simulated " + typ, NUMANode: -1,
			UUID: fmt.Sprintf("GPU-simulated-%s-%d", filepath.Base(dir), i)}
		path := filepath.Join(dir, "gpu"+strconv.Itoa(i))
		var err error
		if control >= 0 {
			err = makeLoopFile(control, path, &next)
		} else {
			err = makePlainFile(path)
		}
		if err != nil {
			return fail(err)
		}
		if err := g.addFiles(path); err != nil {
			return fail(err)
		}
		f.GPUs = append(f.GPUs, g)
	}
	return f, nil
}

// makeLoopFile makes one file with a number of its own; *next is where to begin the search for it. A file that is
// there and works is kept, so that running jobs keep theirs.
func makeLoopFile(control int, path string, next *int) error {
	if d, ok, err := DeviceOf(path); err == nil && ok && d.Type == 'b' && unbound(path) {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for ; *next < lastLoop; *next++ {
		err := unix.IoctlSetInt(control, unix.LOOP_CTL_ADD, *next)
		if err == unix.EEXIST {
			continue // somebody's, perhaps another virtual node's
		}
		if err != nil {
			return fmt.Errorf("adding loop device %d: %w", *next, err)
		}
		number, err := readText("/sys/block", "loop"+strconv.Itoa(*next), "dev")
		if err != nil {
			return err
		}
		var major, minor uint32
		if _, err := fmt.Sscanf(number, "%d:%d", &major, &minor); err != nil {
			return fmt.Errorf("reading the number of loop device %d: %w", *next, err)
		}
		*next++
		if err := unix.Mknod(path, unix.S_IFBLK|0o444, int(unix.Mkdev(major, minor))); err != nil {
			return &os.PathError{Op: "mknod", Path: path, Err: err}
		}
		if err := os.Chmod(path, 0o444); err != nil { // whatever the umask
			return err
		}
		if !unbound(path) {
			return fmt.Errorf("%s cannot be opened or is in use", path)
		}
		return nil
	}
	return fmt.Errorf("all loop devices from %d to %d are in use", firstLoop, lastLoop)
}

// unbound opens the file and asks whether nothing is bound to it.
func unbound(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	_, err = unix.IoctlLoopGetStatus64(fd)
	return err == unix.ENXIO
}

func makePlainFile(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o444)
	if err != nil {
		return &os.PathError{Op: "create", Path: path, Err: err}
	}
	return unix.Close(fd)
}

var simulatedName = regexp.MustCompile(`^gpu[0-9]+$`)

// EndSimulation removes the device files that Simulate made in dir, the loop devices behind them, and dir if that leaves
// it empty.
func EndSimulation(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing the simulated GPUs of %s: %w", dir, err)
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !simulatedName.MatchString(e.Name()) {
			continue
		}
		d, ok, err := DeviceOf(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if ok && d.Type == 'b' {
			if err := removeLoop(d); err != nil {
				errs = append(errs, err)
			}
		}
		if err := os.Remove(path); err != nil {
			errs = append(errs, err)
		}
	}
	_ = os.Remove(dir)
	return errors.Join(errs...)
}

// removeLoop removes the loop device with a number, unless somebody has come to use it.
func removeLoop(d Device) error {
	link, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", d.Major, d.Minor))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(link), "loop"))
	if err != nil || n < firstLoop {
		return nil // not one of ours
	}
	control, err := unix.Open("/dev/loop-control", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("removing loop device %d: %w", n, err)
	}
	defer unix.Close(control)
	if err := unix.IoctlSetInt(control, unix.LOOP_CTL_REMOVE, n); err != nil && err != unix.EBUSY && err != unix.ENODEV {
		return fmt.Errorf("removing loop device %d: %w", n, err)
	}
	return nil
}
