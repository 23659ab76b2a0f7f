package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Config says where a node's groups go.
type Config struct {
	// Node names the node when several share this host, so that each has a tree of its own; empty when the host is one
	// node, which gives the plain layout that exporters look for.
	Node string
	// Under is a relative directory below the place where the tree would otherwise begin, for tests and for clusters
	// that share a host; usually empty.
	Under string
}

// Tree is the part of the host's control groups that belongs to one node.
//
// Version 1 and hybrid:  CONTROLLER/slurm[_NODE]/uid_U/job_N/step_S, and the same path in the version 2 hierarchy;
// version 2:             system.slice/[NODE_]slurmstepd.scope/job_N/step_S.
//
// On version 1, a hierarchy in which this process sits in a group of its own gets the tree below that group, unless
// systemd owns the host. On version 2 under systemd, the scope is a unit that Open asks for, or finds, and moves this process
// into (its child "system"): so only the parent of the steps should open a tree. A Tree is safe for use by many goroutines.
type Tree struct {
	host  Host
	cfg   Config
	roots []root
	gaps  []Gap
	guard guard
}

// root is the directory of the tree in one hierarchy.
type root struct {
	*hierarchy
	dir    string
	kill   bool // groups have cgroup.kill
	freeze bool // groups have cgroup.freeze
	// What each job's directory costs is saved where it serves nobody: lazy names the only limit for which there is one,
	// jobOnly hierarchies have none for steps.
	lazy    string
	jobOnly bool
}

const (
	emptyPatience  = 50 * time.Millisecond // for the last process to leave a group
	removePatience = 3 * time.Second       // for the kernel to let go of an empty one
)

// ErrNoGroups is what operations on the groups of a Tree with nothing to enforce with give back.
var ErrNoGroups = errors.New("no control groups can be used here")

// ErrBusy is given when a group that is to be removed, or made anew, has processes in it.
var ErrBusy = errors.New("the group still has processes")

// Open detects the host and prepares the top of the tree. On a host where nothing can be enforced it gives a Tree whose
// Active is false and whose Gaps say why; that is not an error.
func Open(cfg Config) (*Tree, error) {
	host, err := Detect()
	if err != nil {
		return nil, err
	}
	return open(host, cfg)
}

func open(host Host, cfg Config) (*Tree, error) {
	if cfg.Node != "" && !plainName(cfg.Node) {
		return nil, fmt.Errorf("node name %q cannot be part of a control group's name: use letters, digits, '.', '_' and '-'", cfg.Node)
	}
	if cfg.Under != "" && !filepath.IsLocal(cfg.Under) {
		return nil, fmt.Errorf("control group directory %q must be a relative path without '..'", cfg.Under)
	}
	t := &Tree{host: host, cfg: cfg, gaps: slices.Clone(host.Gaps)}
	var err error
	switch host.Mode {
	case None:
		return t, nil
	case V2:
		err = t.openV2()
	default:
		err = t.openV1()
	}
	if err != nil {
		return nil, err
	}
	t.guard.open(t)
	t.probeSwap()
	return t, nil
}

// plainName allows what is safe as one directory name.
func plainName(s string) bool {
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-') {
			return false
		}
	}
	return s != "" && s != "." && s != ".."
}

// openV1 makes slurm[_NODE] in every hierarchy that serves a purpose, the one that kills and freezes first.
func (t *Tree) openV1() error {
	name := "slurm"
	if t.cfg.Node != "" {
		name += "_" + t.cfg.Node
	}
	var wanted []*hierarchy
	if u := t.host.unified(); u != nil {
		wanted = append(wanted, u)
	} else if f := t.host.find("freezer"); f != nil {
		wanted = append(wanted, f)
	} else {
		return fmt.Errorf("opening the control groups of %s: there is neither a freezer nor a version 2 hierarchy, so the processes of a job could not be found and ended", name)
	}
	for _, c := range []string{"cpuacct", "memory", "cpuset", "pids", "devices"} {
		if h := t.host.find(c); h != nil && !slices.Contains(wanted, h) {
			wanted = append(wanted, h)
		}
	}
	for _, h := range wanted {
		base := h.mount
		if !t.host.systemd {
			base = h.own
		}
		dir := filepath.Join(base, t.cfg.Under, name)
		if err := makePath(h, base, dir); err != nil {
			return fmt.Errorf("making the control group of this node: %w", err)
		}
		if h.has("cpuset") && !h.v2 {
			// Groups made below copy the CPUs and memory nodes of their parent, instead of having none.
			if err := writeFile(filepath.Join(dir, "cgroup.clone_children"), "1"); err != nil {
				return fmt.Errorf("making the control group of this node: %w", err)
			}
			users, err := filepath.Glob(filepath.Join(dir, "uid_*"))
			if err != nil {
				return err
			}
			for _, u := range users {
				if err := makeGroup(h, u); err != nil {
					return fmt.Errorf("making the control group of this node: %w", err)
				}
			}
		}
		t.roots = append(t.roots, root{hierarchy: h, dir: dir, lazy: lazyFor(h),
			// Exporters read a job's processor time here; a step's comes from the version 2 group.
			jobOnly: h.has("cpuacct") && !h.has("cpuset") && t.host.Mode == Hybrid,
			kill:    h.v2 && exists(filepath.Join(dir, "cgroup.kill")), freeze: h.v2 && exists(filepath.Join(dir, "cgroup.freeze"))})
	}
	return nil
}

// lazyFor names the one limit for which a version 1 hierarchy is worth a directory per job; empty: for every job.
func lazyFor(h *hierarchy) string {
	if h.v2 || h.has("cpuacct") || h.has("memory") || h.has("freezer") {
		return ""
	}
	for _, c := range []string{"cpuset", "pids", "devices"} {
		if h.has(c) {
			return c
		}
	}
	return ""
}

// makePath makes every directory between base and dir. A new version 1 cpuset is empty and can hold nobody, and one that is
// there does not get back a CPU that was switched off and on, so each takes its parent's.
func makePath(h *hierarchy, base, dir string) error {
	rel, err := filepath.Rel(base, dir)
	if err != nil {
		return err
	}
	at := base
	for _, part := range strings.Split(rel, "/") {
		at = filepath.Join(at, part)
		if err := makeGroup(h, at); err != nil {
			return err
		}
	}
	return nil
}

func makeGroup(h *hierarchy, dir string) error {
	if err := makeDir(dir); err != nil {
		return err
	}
	if h.v2 || !h.has("cpuset") {
		return nil
	}
	for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
		have, err := readFile(filepath.Join(dir, f))
		if err != nil {
			return err
		}
		parent, err := readFile(filepath.Join(filepath.Dir(dir), f))
		if err != nil {
			return err
		}
		if have == parent {
			continue
		}
		if err := writeFile(filepath.Join(dir, f), parent); err != nil {
			return err
		}
	}
	return nil
}

// openV2 makes the scope, or takes it over, and lets its children have the controllers.
func (t *Tree) openV2() error {
	h := t.host.unified()
	top, dir, err := t.placeV2(h)
	if err != nil {
		return fmt.Errorf("making the control group of this node: %w", err)
	}
	enabled := h.controllers
	for at := top; ; {
		enabled = t.enable(at, enabled)
		rel, err := filepath.Rel(at, dir)
		if err != nil || rel == "." {
			break
		}
		first, _, _ := strings.Cut(rel, "/")
		at = filepath.Join(at, first)
	}
	hh := *h
	hh.controllers = enabled
	t.roots = []root{{hierarchy: &hh, dir: dir,
		kill: exists(filepath.Join(dir, "cgroup.kill")), freeze: exists(filepath.Join(dir, "cgroup.freeze"))}}
	return nil
}

// placeV2 decides where the tree is and makes its directory. top is the highest group whose children are ours to give
// controllers to.
func (t *Tree) placeV2(h *hierarchy) (top, dir string, err error) {
	name := "slurmstepd.scope"
	if t.cfg.Node != "" {
		name = t.cfg.Node + "_" + name
	}
	if t.host.systemd && t.cfg.Under == "" {
		dir, err := enterScope(h, name)
		if err == nil {
			return dir, dir, nil
		}
		unit, ok := delegatedUnit(h)
		if !ok {
			return "", "", err
		}
		// Second best: this process's own unit, where exporters do not look.
		t.gaps = append(t.gaps, Gap{gapLayout, fmt.Sprintf("jobs are in %s instead: %v", unit, err)})
		return unit, unit, vacate(unit)
	}
	dir = filepath.Join(h.mount, t.cfg.Under, "system.slice", name)
	return h.mount, dir, makePath(h, h.mount, dir)
}

// v2Wanted are the version 2 controllers that jobs have a use for.
var v2Wanted = []string{"cpuset", "cpu", "io", "memory", "pids"}

// enable hands the controllers in use down to the children of dir, one by one, since the kernel takes all or none of a
// list. What fails becomes a gap. It gives back those that the children have.
func (t *Tree) enable(dir string, available []string) []string {
	var got []string
	on, _ := readFile(filepath.Join(dir, "cgroup.subtree_control"))
	for _, c := range v2Wanted {
		if !slices.Contains(available, c) {
			continue
		}
		if !slices.Contains(strings.Fields(on), c) {
			if err := writeFile(filepath.Join(dir, "cgroup.subtree_control"), "+"+c); err != nil {
				why := err.Error()
				if errors.Is(err, unix.EBUSY) {
					why = dir + " itself holds processes, so its children cannot have the " + c + " controller"
				}
				if what, ok := map[string]string{"cpuset": gapCores, "memory": gapMemory, "pids": gapProcesses}[c]; ok {
					t.gaps = append(t.gaps, Gap{what, why})
				}
				continue
			}
		}
		got = append(got, c)
	}
	return got
}

// probeSwap notes when swap cannot be limited.
func (t *Tree) probeSwap() {
	for _, r := range t.roots {
		if !r.has("memory") {
			continue
		}
		file := "memory.memsw.limit_in_bytes"
		if r.v2 {
			file = "memory.swap.max"
		}
		if !exists(filepath.Join(r.dir, file)) {
			t.gaps = append(t.gaps, Gap{gapSwap, "this kernel does not account for swap"})
		}
	}
}

// Active says whether groups are made at all.
func (t *Tree) Active() bool { return len(t.roots) > 0 }

// Mode is the host's.
func (t *Tree) Mode() Mode { return t.host.Mode }

// Gaps lists what is not enforced and why, for doctor and the start-up message. Empty: everything is.
func (t *Tree) Gaps() []Gap { return slices.Clone(t.gaps) }

// Dirs gives the tree's directory in each hierarchy, by the hierarchy's name ("cpuset", "cpu,cpuacct", "unified").
func (t *Tree) Dirs() map[string]string {
	out := map[string]string{}
	for _, r := range t.roots {
		out[r.key()] = r.dir
	}
	return out
}

// Entry is a group that exists.
type Entry struct {
	Job  uint64
	Step string // "batch", "extern", "interactive" or a number; empty for the job's own group
	UID  int    // -1 where the layout does not say
	PIDs []int  // processes in it, those of steps included for a job
}

// List gives all groups of this node's tree in any hierarchy, jobs before their steps, sorted by job and step: what a
// crash may have left behind. Nothing outside the tree is looked at.
func (t *Tree) List() ([]Entry, error) {
	type key struct {
		job  uint64
		step string
	}
	found := map[key]int{}
	for _, r := range t.roots {
		err := eachJob(r.dir, func(uid int, job uint64, dir string) error {
			found[key{job: job}] = uid
			return eachStep(dir, func(step string) { found[key{job, step}] = uid })
		})
		if err != nil {
			return nil, fmt.Errorf("listing the control groups of jobs: %w", err)
		}
	}
	var out []Entry
	for k, uid := range found {
		e := Entry{Job: k.job, Step: k.step, UID: uid}
		if g, err := t.Find(k.job, k.step); err == nil {
			if e.PIDs, err = g.Procs(); err != nil {
				return nil, err
			}
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Entry) int {
		if a.Job != b.Job {
			return int(min(max(int64(a.Job)-int64(b.Job), -1), 1))
		}
		return strings.Compare(a.Step, b.Step)
	})
	return out, nil
}

// eachJob visits dir/job_N and dir/uid_U/job_N.
func eachJob(dir string, visit func(uid int, job uint64, dir string) error) error {
	names, err := childDirs(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if s, ok := strings.CutPrefix(n, "uid_"); ok {
			uid, err := strconv.Atoi(s)
			if err != nil {
				continue
			}
			jobs, err := childDirs(filepath.Join(dir, n))
			if err != nil {
				return err
			}
			for _, j := range jobs {
				if id, ok := jobNumber(j); ok {
					if err := visit(uid, id, filepath.Join(dir, n, j)); err != nil {
						return err
					}
				}
			}
		} else if id, ok := jobNumber(n); ok {
			if err := visit(-1, id, filepath.Join(dir, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

func eachStep(dir string, visit func(step string)) error {
	names, err := childDirs(dir)
	for _, n := range names {
		if s, ok := strings.CutPrefix(n, "step_"); ok {
			visit(s)
		}
	}
	return err
}

func jobNumber(name string) (uint64, bool) {
	s, ok := strings.CutPrefix(name, "job_")
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseUint(s, 10, 64)
	return id, err == nil
}

// childDirs names the groups directly below one; none if it is gone.
func childDirs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// Close removes the top of the tree where no jobs are left in it. Groups of jobs that still exist stay as they are.
func (t *Tree) Close() error {
	t.guard.close()
	for _, r := range t.roots {
		names, err := childDirs(r.dir)
		if err != nil {
			return fmt.Errorf("closing the control groups: %w", err)
		}
		for _, n := range names {
			if strings.HasPrefix(n, "uid_") {
				_ = unix.Rmdir(filepath.Join(r.dir, n))
			}
		}
		top := r.mount
		if !t.host.systemd && !r.v2 {
			top = r.own
		}
		// The parents of the tree that we made are removed as far as they are empty; the kernel refuses the others.
		for at := r.dir; len(at) > len(top) && at != r.own && filepath.Base(at) != "system.slice"; at = filepath.Dir(at) {
			if unix.Rmdir(at) != nil {
				break
			}
		}
	}
	return nil
}
