package executor

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"stint/executor/gpu"
)

// The device files of simulated GPUs: those of one virtual node are in one folder, which outlives the node's processes, since steps
// may.

// devicesRoot is where root makes these folders, each named after its node's state folder.
const devicesRoot = "/run/stint-gpu-"

// claimFile says in such a folder whose it is: the path of the state folder.
const claimFile = "of"

// DevicesDir is where the files of a virtual node's simulated GPUs are: where every user can reach them if root makes them.
func DevicesDir(stateDir string) string {
	if os.Geteuid() != 0 {
		return filepath.Join(stateDir, "gpu")
	}
	abs, err := filepath.Abs(stateDir)
	if err != nil {
		abs = stateDir
	}
	return fmt.Sprintf("%s%x", devicesRoot, sha256.Sum256([]byte(abs)))[:len(devicesRoot)+12]
}

// claimDevices writes down whose the folder is, for RemoveStaleDevices.
func claimDevices(dir, stateDir string) error {
	if os.Geteuid() != 0 {
		return nil // it is in the state folder
	}
	abs, err := filepath.Abs(stateDir)
	if err != nil {
		return fmt.Errorf("claiming the simulated GPUs in %s: %w", dir, err)
	}
	err = os.WriteFile(filepath.Join(dir, claimFile), []byte(abs), 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there are none
	}
	if err != nil {
		return fmt.Errorf("claiming the simulated GPUs in %s: %w", dir, err)
	}
	return nil
}

// Devices is a folder of simulated GPUs in /run, and the state folder of the node whose they are.
type Devices struct{ Dir, Of string }

// AllDevices lists the simulated GPUs of this machine's nodes that say whose they are, whatever cluster's.
func AllDevices() []Devices { return allDevices(devicesRoot) }

func allDevices(root string) (all []Devices) {
	claims, _ := filepath.Glob(root + "*/" + claimFile) // only a bad pattern is an error
	for _, c := range claims {
		if of, err := os.ReadFile(c); err == nil && len(of) > 0 { // else somebody else is at it
			all = append(all, Devices{filepath.Dir(c), string(of)})
		}
	}
	return all
}

// RemoveStaleDevices removes the simulated GPUs of nodes whose state folder is gone: nobody has taken their cluster down, and
// nobody can any more. It returns the folders that it removed.
func RemoveStaleDevices() (removed []string, err error) { return removeStaleDevices(devicesRoot) }

func removeStaleDevices(root string) (removed []string, err error) {
	var errs []error
	for _, d := range allDevices(root) {
		if _, err := os.Lstat(d.Of); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := removeDevices(d.Dir); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, d.Dir)
	}
	return removed, errors.Join(errs...)
}

// simulatedHere are the numbers of all simulated GPUs of this machine, whatever cluster's, sorted: a job of a virtual node must
// not open those of another one either.
func simulatedHere() []string { return simulated.list(devicesRoot) }

// simulated remembers what was found, since every launch on a virtual node asks.
var simulated listing

// listing is what was found of device files in folders, good for as long as these are not changed.
type listing struct {
	mu    sync.Mutex
	seen  map[string]time.Time // the folders that were looked into: when each was changed last
	found []string
	read  int // how often the files were read
}

// settled is how long ago a folder must have been changed for its time to tell the next change from the last: the kernel's clock of
// files goes in steps of up to ten milliseconds.
const settled = 100 * time.Millisecond

// list gives the numbers of the device files root*/*/gpu*, sorted. It looks at the times of the folders only, unless one has changed.
func (l *listing) list(root string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unchanged() {
		return l.found
	}
	l.read++
	l.seen, l.found = map[string]time.Time{}, nil
	look := func(dir string) bool {
		st, err := os.Stat(dir)
		if err == nil && st.IsDir() {
			l.seen[dir] = st.ModTime()
		}
		return err == nil && st.IsDir()
	}
	now := time.Now()
	look(filepath.Dir(root))
	var out []gpu.GPU
	nodes, _ := filepath.Glob(root + "*") // only a bad pattern is an error
	for _, node := range nodes {
		if !look(node) {
			continue
		}
		kinds, _ := filepath.Glob(node + "/*")
		for _, kind := range kinds {
			if !look(kind) {
				continue
			}
			files, _ := filepath.Glob(kind + "/gpu*")
			for _, f := range files {
				if d, ok, err := gpu.DeviceOf(f); err == nil && ok {
					out = append(out, gpu.GPU{Devices: []gpu.Device{d}})
				}
			}
		}
	}
	l.found = numbers(out)
	slices.Sort(l.found)
	l.found = slices.Compact(l.found)
	for _, at := range l.seen {
		if now.Sub(at) < settled {
			l.seen = nil // it may change once more and have the same time
			break
		}
	}
	return l.found
}

// unchanged says whether all folders are as they were when they were read.
func (l *listing) unchanged() bool {
	for dir, at := range l.seen {
		if st, err := os.Stat(dir); err != nil || !st.ModTime().Equal(at) {
			return false
		}
	}
	return len(l.seen) > 0
}

// RemoveDevices takes the simulated GPUs of a virtual node away. No step may be running there.
func RemoveDevices(stateDir string) error { return removeDevices(DevicesDir(stateDir)) }

func removeDevices(dir string) error {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing the simulated GPUs of a node: %w", err)
	}
	for _, e := range entries {
		if e.Name() == claimFile {
			continue // last, so that what is left half done is found again
		}
		if err := gpu.EndSimulation(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(dir, claimFile)); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("removing the simulated GPUs of a node: %w", err)
	}
	if err := os.Remove(dir); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("removing the simulated GPUs of a node: %w", err)
	}
	return nil
}
