package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Group is the control group of one job or of one step of it, in every hierarchy in use. The zero number of directories
// (a Tree that is not Active) is valid: Launch then just starts, and what would need a group gives ErrNoGroups.
type Group struct {
	tree *Tree
	Job  uint64
	Step string // empty for the job's own group
	UID  int

	dirs []groupDir

	mu sync.Mutex
	fd int // of the version 2 directory; -1 until asked for
}

type groupDir struct {
	*root
	path   string
	shared bool // the job's, in which the step lives too: it limits the step, but counts for the whole job
}

// Name is job_N or job_N/step_S.
func (g *Group) Name() string {
	n := "job_" + strconv.FormatUint(g.Job, 10)
	if g.Step != "" {
		n += "/step_" + g.Step
	}
	return n
}

// Active says whether the group exists; if not, nothing about it is enforced or counted.
func (g *Group) Active() bool { return len(g.dirs) > 0 }

// Paths gives the directory of the group's processes in each hierarchy, by the hierarchy's name. For a step that is the
// job's directory where the step has no limits of its own to set.
func (g *Group) Paths() map[string]string {
	out := map[string]string{}
	for _, d := range g.dirs {
		out[d.key()] = d.path
	}
	return out
}

// Create makes the group of a step with its limits, within those of its job: whole is what all of the job has here, with which
// the job's group is made when this is the first step in it. uid is the user whose job it is.
//
// A group of that name that is left over and empty is made anew, so that it counts from nothing; one that has processes
// gives ErrBusy. What was begun is removed again when a limit cannot be set.
func (t *Tree) Create(job uint64, step string, uid int, whole, l Limits) (*Group, error) {
	first := false
	j, err := t.find(job, "", uid)
	if errors.Is(err, fs.ErrNotExist) {
		first = true
		j, err = t.CreateJob(job, uid, whole)
	}
	if err != nil {
		return nil, err
	}
	s, err := j.CreateStep(step, l)
	if err != nil && first {
		_ = j.Remove()
	}
	return s, err
}

// CreateJob makes the group of a job with the limits of its allocation. See Create for what happens to leftovers.
func (t *Tree) CreateJob(job uint64, uid int, l Limits) (*Group, error) {
	g := &Group{tree: t, Job: job, UID: uid, fd: -1}
	if !t.Active() {
		return g, nil
	}
	if err := g.make(l); err != nil {
		return nil, err
	}
	return g, nil
}

// CreateStep makes the group of a step inside the group of its job. The processes of jobs live in steps only.
func (g *Group) CreateStep(step string, l Limits) (*Group, error) {
	if g.Step != "" {
		return nil, fmt.Errorf("control group %s is a step and has no steps", g.Name())
	}
	if !plainName(step) {
		return nil, fmt.Errorf("step name %q cannot be part of a control group's name", step)
	}
	s := &Group{tree: g.tree, Job: g.Job, Step: step, UID: g.UID, fd: -1}
	if !g.tree.Active() {
		return s, nil
	}
	if err := s.make(l); err != nil {
		return nil, err
	}
	return s, nil
}

// make makes the directories and sets the limits; on failure nothing is left.
func (g *Group) make(l Limits) (err error) {
	made := false
	defer func() {
		if err != nil {
			err = fmt.Errorf("making control group %s: %w", g.Name(), err)
			if made {
				if rerr := g.Remove(); rerr != nil {
					err = errors.Join(err, rerr)
				}
			}
		}
	}()
	for i := range g.tree.roots {
		r := &g.tree.roots[i]
		path := filepath.Join(r.dir, g.rel(r))
		if r.lazy != "" && !l.needs(r.lazy, &g.tree.guard) {
			if g.Step != "" && exists(filepath.Dir(path)) {
				g.dirs = append(g.dirs, groupDir{r, filepath.Dir(path), true})
			}
			continue
		}
		if r.jobOnly && g.Step != "" {
			g.dirs = append(g.dirs, groupDir{r, filepath.Dir(path), true})
			continue
		}
		if err := g.mkdir(r, path); err != nil {
			return err
		}
		made = true
		g.dirs = append(g.dirs, groupDir{r, path, false})
	}
	if err := g.apply(l); err != nil {
		return err
	}
	return nil
}

// mkdir makes one directory, afresh if it is there but empty.
func (g *Group) mkdir(r *root, path string) error {
	_, err := retry(func() (int, error) { return 0, unix.Mkdir(path, 0o755) })
	if err == unix.ENOENT {
		// The first job of this user, or of this job in this hierarchy: make the way to it.
		if err := makePath(r.hierarchy, r.dir, filepath.Dir(path)); err != nil {
			return err
		}
		_, err = retry(func() (int, error) { return 0, unix.Mkdir(path, 0o755) })
	}
	if err == unix.EEXIST {
		old := Group{tree: g.tree, Job: g.Job, Step: g.Step, dirs: []groupDir{{r, path, false}}, fd: -1}
		if err := old.Remove(); err != nil {
			return err
		}
		_, err = retry(func() (int, error) { return 0, unix.Mkdir(path, 0o755) })
	}
	if err != nil {
		return &os.PathError{Op: "mkdir", Path: path, Err: err}
	}
	if g.Step == "" && r.v2 && len(r.controllers) > 0 && g.tree.host.Mode == V2 {
		if err := writeFile(filepath.Join(path, "cgroup.subtree_control"), "+"+strings.Join(r.controllers, " +")); err != nil {
			return err
		}
	}
	return nil
}

// rel is the group's place below the root of a hierarchy.
func (g *Group) rel(r *root) string {
	if g.tree.host.Mode == V2 {
		return g.Name()
	}
	return "uid_" + strconv.Itoa(g.UID) + "/" + g.Name()
}

// Find gives the group of a job (step empty) or step that exists, for instance after a restart. A group that exists
// nowhere is fs.ErrNotExist.
func (t *Tree) Find(job uint64, step string) (*Group, error) {
	uid := -1
	if t.host.Mode != V2 {
		name := "job_" + strconv.FormatUint(job, 10)
		for _, r := range t.roots {
			users, err := childDirs(r.dir)
			if err != nil {
				return nil, fmt.Errorf("finding control group %s: %w", name, err)
			}
			for _, u := range users {
				if s, ok := strings.CutPrefix(u, "uid_"); ok && exists(filepath.Join(r.dir, u, name)) {
					if n, err := strconv.Atoi(s); err == nil {
						uid = n
					}
				}
			}
			if uid >= 0 {
				break
			}
		}
	}
	return t.find(job, step, uid)
}

// find looks where the group of that user's job would be.
func (t *Tree) find(job uint64, step string, uid int) (*Group, error) {
	g := &Group{tree: t, Job: job, Step: step, UID: uid, fd: -1}
	own := false
	var elsewhere []*root
	for i := range t.roots {
		r := &t.roots[i]
		p := filepath.Join(r.dir, g.rel(r))
		switch {
		case exists(p):
			g.dirs = append(g.dirs, groupDir{r, p, false})
			own = true
		case r.lazy == "" && !r.jobOnly:
			elsewhere = append(elsewhere, r)
		case step != "" && exists(filepath.Dir(p)):
			g.dirs = append(g.dirs, groupDir{r, filepath.Dir(p), true})
		}
	}
	if !own {
		return nil, fmt.Errorf("finding control group %s: %w", g.Name(), fs.ErrNotExist)
	}
	for _, r := range elsewhere {
		if p := g.seek(r); p != "" {
			g.dirs = append(g.dirs, groupDir{r, p, false})
		}
	}
	return g, nil
}

// seek finds the directory in a hierarchy where it is not in the place we would give it today: this program was itself in
// another group when it made it. A process of the group knows.
func (g *Group) seek(r *root) string {
	pids, err := g.Procs()
	if err != nil || len(pids) == 0 {
		return ""
	}
	text, err := readFile("/proc/" + strconv.Itoa(pids[0]) + "/cgroup")
	if err != nil {
		return ""
	}
	where := []hierarchy{{controllers: r.controllers, mount: r.mount, own: "/", v2: r.v2}}
	attachOwn(where, text)
	if at := strings.Index(where[0].own+"/", "/"+g.rel(r)+"/"); at >= 0 {
		if p := where[0].own[:at+len(g.rel(r))+1]; exists(p) {
			return p
		}
	}
	return ""
}

// main is the directory whose membership counts: the version 2 one, or the freezer's; of what a crash left half removed,
// any.
func (g *Group) main() (groupDir, error) {
	for _, d := range g.dirs {
		if !d.shared {
			return d, nil
		}
	}
	return groupDir{}, ErrNoGroups
}

// dir gives the group's own directory that has a controller.
func (g *Group) dir(controller string) (groupDir, bool) {
	for _, d := range g.dirs {
		if !d.shared && d.has(controller) && (!d.v2 || g.tree.host.Mode == V2) {
			return d, true
		}
	}
	return groupDir{}, false
}

// Procs gives the processes in the group and in groups below it, sorted. A group that is gone has none.
func (g *Group) Procs() ([]int, error) {
	m, err := g.main()
	if err != nil {
		return nil, err
	}
	var pids []int
	err = filepath.WalkDir(m.path, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			if isGone(err) {
				return nil
			}
			return err
		}
		if !e.IsDir() {
			return nil
		}
		p, err := readPIDs(filepath.Join(path, "cgroup.procs"))
		pids = append(pids, p...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the processes of control group %s: %w", g.Name(), err)
	}
	slices.Sort(pids)
	return pids, nil
}

func readPIDs(path string) ([]int, error) {
	s, err := readFile(path)
	if err != nil {
		if isGone(err) {
			return nil, nil
		}
		return nil, err
	}
	var out []int
	for _, f := range strings.Fields(s) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		out = append(out, pid)
	}
	return out, nil
}

// Signal sends a signal to every process that is in the group at the moment; how many got it is returned. Use Kill to
// end a group for certain.
func (g *Group) Signal(sig syscall.Signal) (int, error) {
	pids, err := g.Procs()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, pid := range pids {
		switch err := syscall.Kill(pid, sig); err {
		case nil:
			n++
		case syscall.ESRCH:
		default:
			return n, fmt.Errorf("sending %v to process %d of control group %s: %w", sig, pid, g.Name(), err)
		}
	}
	return n, nil
}

// Remove removes the group and all groups below it. ErrBusy if there are processes in it: Kill first. A group that is
// gone already is no error.
func (g *Group) Remove() error {
	g.Close()
	if !g.Active() {
		return nil
	}
	// A process that was waited for may leave its group a moment later.
	for pause := 100 * time.Microsecond; ; pause *= 2 {
		empty, err := g.Empty()
		if empty {
			break
		}
		if err != nil || pause > emptyPatience {
			return fmt.Errorf("removing control group %s: %w", g.Name(), cmp.Or(err, ErrBusy))
		}
		time.Sleep(pause)
	}
	var errs []error
	for _, d := range slices.Backward(g.dirs) {
		if d.shared {
			continue
		}
		if err := removeBelow(d.path); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("removing control group %s: %w", g.Name(), errors.Join(errs...))
	}
	return nil
}

// removeBelow tries the directory itself first: most groups have nothing below them.
func removeBelow(dir string) error {
	err := removeDir(dir, 0)
	if err == nil {
		return nil
	}
	names, lerr := childDirs(dir)
	if lerr != nil {
		return lerr
	}
	for _, n := range names {
		if err := removeBelow(filepath.Join(dir, n)); err != nil {
			return err
		}
	}
	return removeDir(dir, removePatience)
}

// Close gives back the file descriptor that FD opened; the group itself stays.
func (g *Group) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fd >= 0 {
		unix.Close(g.fd)
		g.fd = -1
	}
}
