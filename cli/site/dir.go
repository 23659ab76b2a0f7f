// Package site is what a cluster is on disk and by configuration: where each process keeps what is its own, what a cluster
// without a configuration file looks like, and how a site's slurm.conf becomes one.
package site

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"stint/events"
)

// Dir is the directory of one cluster on one host. The agent's socket lies in it for all to reach; all else is its
// owner's alone.
type Dir string

// Make creates the directory, its owner's own and readable as far as mode says (0755 where every user of the host is
// served).
func (d Dir) Make(mode os.FileMode) error {
	if err := os.MkdirAll(string(d), mode); err != nil {
		return fmt.Errorf("making the directory of the cluster: %w", err)
	}
	for _, p := range []string{d.Bus(), d.Keys(), d.Controller(), d.Ledger(), d.Logs(), d.path("node")} {
		if err := os.MkdirAll(p, 0o700); err != nil {
			return fmt.Errorf("making the directory of the cluster: %w", err)
		}
	}
	if err := os.MkdirAll(d.path("spool"), 0o711); err != nil { // every user's scripts are run from there
		return fmt.Errorf("making the directory of the cluster: %w", err)
	}
	return errors.Join(os.Chmod(d.path("spool"), 0o711), os.Chmod(string(d), mode))
}

// Unmake takes back what Make made where nothing came of it: folders that are empty, the top one only if it was not there before.
func (d Dir) Unmake(top bool) {
	os.Remove(d.path("up.lock"))
	for _, p := range []string{d.Bus(), d.Keys(), d.Controller(), d.Ledger(), d.Logs(), d.path("node"), d.path("spool")} {
		os.Remove(p) // fails where something is in it
	}
	if top {
		os.Remove(string(d))
	}
}

func (d Dir) path(name ...string) string {
	return filepath.Join(append([]string{string(d)}, name...)...)
}

func (d Dir) Bus() string        { return d.path("bus") }        // streams of the embedded server
func (d Dir) Keys() string       { return d.path("keys") }       // credentials, 0600
func (d Dir) Controller() string { return d.path("controller") } // snapshots
func (d Dir) Ledger() string     { return d.path("ledger") }     // tables
func (d Dir) Logs() string       { return d.path("log") }

// Node is where the executor and the supervisor of a node keep what is theirs.
func (d Dir) Node(name string) string { return d.path("node", events.Token(name)) }

// Spool is where the supervisor of a node keeps scripts while they run; every user can reach it.
func (d Dir) Spool(node string) string { return d.path("spool", events.Token(node)) }

// Log is where a daemon that has no terminal writes its log.
func (d Dir) Log(daemon string) string { return filepath.Join(d.Logs(), daemon+".log") }

// Cluster is what `stint up` writes down for the processes of one host and for its own next start: cluster.json.
type Cluster struct {
	Name     string   `json:"name"`
	URL      string   `json:"url"`                 // of the bus
	Embedded bool     `json:"embedded"`            // the bus is a server of this host, started by `stint up`
	Nodes    []string `json:"nodes,omitempty"`     // that have their executors here
	Virtual  bool     `json:"virtual,omitempty"`   // the nodes share this machine and need not have what they say
	Asked    bool     `json:"asked,omitempty"`     // all nodes are played here, as --virtual asks: not only those that cannot be anywhere else
	ConfFile string   `json:"conf_file,omitempty"` // absolute path of slurm.conf
	Compat   string   `json:"compat,omitempty"`
	Log      string   `json:"log,omitempty"`   // which log it is: when its stream was made, by the bus; empty: no daemon has seen it yet
	Under    string   `json:"under,omitempty"` // directory of control groups in which the nodes' trees are made
	Options  Options  `json:"options"`
}

// Options are what `stint up` was told about nodes, so that the next `stint up` needs not be told again.
type Options struct {
	Nodes  string `json:"nodes,omitempty"`
	CPUs   uint32 `json:"cpus,omitempty"`
	Memory uint64 `json:"memory,omitempty"`
	Gres   string `json:"gres,omitempty"`
}

// Load reads cluster.json. The error is fs.ErrNotExist if no cluster was ever made here.
func (d Dir) Load() (*Cluster, error) {
	data, err := os.ReadFile(d.path("cluster.json"))
	if err != nil {
		return nil, err
	}
	c := new(Cluster)
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", d.path("cluster.json"), err)
	}
	return c, nil
}

// Save writes cluster.json, at once or not at all.
func (d Dir) Save(c *Cluster) error { return d.write("cluster.json", c) }

func (d Dir) write(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(string(d), "."+name+"-")
	if err != nil {
		return fmt.Errorf("writing %s: %w", d.path(name), err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", d.path(name), err)
	}
	return os.Rename(f.Name(), d.path(name))
}

// Processes is what `stint up` tells of itself while it runs: up.json.
type Processes struct {
	Pid      int            `json:"pid"`
	Version  string         `json:"version"`
	Started  string         `json:"started"`
	Children map[string]int `json:"children"` // daemon → process id, those in processes of their own
}

// SaveProcesses writes up.json.
func (d Dir) SaveProcesses(p *Processes) error { return d.write("up.json", p) }

// LoadProcesses reads up.json; nil if `stint up` does not run here.
func (d Dir) LoadProcesses() (*Processes, error) {
	if _, err := os.Lstat(d.path("up.lock")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil // and none is made by looking
	}
	lock, err := d.Lock()
	if err == nil {
		lock.Close() // nobody has it: what is written there is of the past
		return nil, nil
	}
	if !errors.Is(err, ErrRunning) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	data, err := os.ReadFile(d.path("up.json"))
	if err != nil {
		return nil, fmt.Errorf("a cluster is starting or stopping in %s: %w", d, err)
	}
	p := new(Processes)
	if err := json.Unmarshal(data, p); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", d.path("up.json"), err)
	}
	return p, nil
}

// ErrRunning: another `stint up` has this directory.
var ErrRunning = errors.New("a cluster already runs from this directory")

// Lock takes the directory for one `stint up`, until the file is closed or the process ends, or returns ErrRunning.
func (d Dir) Lock() (*os.File, error) {
	f, err := os.OpenFile(d.path("up.lock"), os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", d, ErrRunning)
		}
		return nil, fmt.Errorf("locking %s: %w", d, err)
	}
	return f, nil
}
