package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"stint/executor/cgroup"
)

// ControlGroups holds steps in the control groups of a node's tree: job_N/step_S, where S is "batch" or the step's number.
// nil if the tree is not active: nothing can be enforced here.
func ControlGroups(tree *cgroup.Tree) Cages {
	if tree == nil || !tree.Active() {
		return nil
	}
	return &groups{tree: tree, steps: map[uint64]int{}}
}

type groups struct {
	tree *cgroup.Tree

	locks [64]sync.Mutex // of jobs, by their numbers: a job's group is not removed while a step of it is made

	mu    sync.Mutex
	steps map[uint64]int // of each job: its group goes with the last of them
}

func (g *groups) lock(job uint64) *sync.Mutex { return &g.locks[job%uint64(len(g.locks))] }

// count changes the number of a job's steps, and returns it.
func (g *groups) count(job uint64, by int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.steps[job] + by
	if g.steps[job] = n; n <= 0 {
		delete(g.steps, job)
	}
	return n
}

// patience is how long one attempt to kill or stop all of a group may take.
const patience = 5 * time.Second

func stepName(step uint32) string {
	if step == StepBatch {
		return "batch"
	}
	return strconv.FormatUint(uint64(step), 10)
}

func (g *groups) Name(k *Key, uid uint32) string {
	return fmt.Sprintf("job_%d/step_%s", k.Job, stepName(k.Step))
}

func (g *groups) Make(k *Key, uid uint32, job, c *Cage) (Confinement, []string, error) {
	whole, err := limits(cmp.Or(job, c))
	if err != nil {
		return nil, nil, err
	}
	var own cgroup.Limits // none: it shares the job's
	if job != nil && !job.EqualVT(c) {
		if own, err = limits(c); err != nil {
			return nil, nil, err
		}
	}
	mu := g.lock(k.Job)
	mu.Lock()
	defer mu.Unlock()
	group, err := g.tree.Create(k.Job, stepName(k.Step), int(uid), whole, own)
	if err != nil {
		return nil, nil, err
	}
	g.count(k.Job, 1)
	return &group1{groups: g, group: group}, nil, nil
}

// limits are those of a cage.
func limits(c *Cage) (l cgroup.Limits, err error) {
	l = cgroup.Limits{CPUs: ints(c.GetCpus()), Mems: ints(c.GetMems()), MemoryBytes: c.GetMemoryBytes(), PIDs: c.GetPids()}
	if c.GetLimitSwap() {
		l.SwapBytes = &c.SwapBytes
	}
	if l.DenyDevices, err = devices(c.GetDenyDevices()); err == nil {
		l.AllowDevices, err = devices(c.GetAllowDevices())
	}
	return l, err
}

func (g *groups) Find(name string) (Confinement, error) {
	var job uint64
	var step string
	if n, err := fmt.Sscanf(strings.ReplaceAll(name, "/", " "), "job_%d step_%s", &job, &step); n != 2 || err != nil {
		return nil, fmt.Errorf("%q is not the name of a step's control group", name)
	}
	mu := g.lock(job)
	mu.Lock()
	defer mu.Unlock()
	group, err := g.tree.Find(job, step)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return gone{}, nil
	case err != nil:
		return nil, err
	}
	g.count(job, 1)
	return &group1{groups: g, group: group}, nil
}

// endStrays ends what is in groups of the tree that nobody claims, as a lost journal leaves them behind, and removes
// them. It returns the names of those that had processes.
func (g *groups) endStrays(claimed map[string]bool) (found []string, err error) {
	entries, err := g.tree.List()
	if err != nil {
		return nil, err
	}
	kept := map[uint64]bool{}
	var errs []error
	remove := func(job uint64, step string) {
		group, err := g.tree.Find(job, step)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			err = group.Kill(ctx)
			cancel()
		}
		if err == nil {
			err = group.Remove()
		}
		errs = append(errs, err)
	}
	for _, e := range entries {
		switch name := fmt.Sprintf("job_%d/step_%s", e.Job, e.Step); {
		case e.Step == "":
		case claimed[name]:
			kept[e.Job] = true
		default:
			if len(e.PIDs) > 0 {
				found = append(found, name)
			}
			remove(e.Job, e.Step)
		}
	}
	for _, e := range entries {
		if e.Step == "" && !kept[e.Job] {
			remove(e.Job, "")
		}
	}
	return found, errors.Join(errs...)
}

func devices(texts []string) ([]cgroup.Device, error) {
	out := make([]cgroup.Device, len(texts))
	for i, t := range texts {
		var err error
		if out[i], err = parseDevice(t); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// parseDevice reads a device number: "c 195:0".
func parseDevice(s string) (d cgroup.Device, err error) {
	var rest string
	if n, _ := fmt.Sscanf(s, "%c %d:%d%s", &d.Type, &d.Major, &d.Minor, &rest); n != 3 || d.Type != 'c' && d.Type != 'b' {
		return cgroup.Device{}, fmt.Errorf("device %q: a type and a number are wanted, like \"c 195:0\"", s)
	}
	return d, nil
}

func ints(v []uint32) []int {
	if len(v) == 0 {
		return nil
	}
	out := make([]int, len(v))
	for i, n := range v {
		out[i] = int(n)
	}
	return out
}

// group1 is the control group of one step.
type group1 struct {
	groups *groups
	group  *cgroup.Group
}

func (c *group1) Enter(attr *syscall.SysProcAttr) (func() error, error) {
	tid := unix.Gettid()
	leave := func() error { return c.group.Leave(tid) }
	if fd, err := c.group.FD(); err == nil {
		attr.UseCgroupFD, attr.CgroupFD = true, fd
	} else if !errors.Is(err, cgroup.ErrNoGroups) {
		return leave, err
	}
	return leave, c.group.Join(tid)
}

func (c *group1) Pids() ([]int, error) { return c.group.Procs() }

func (c *group1) Kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.group.Kill(ctx)
}

func (c *group1) Freeze(on bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if on {
		return c.group.Freeze(ctx)
	}
	return c.group.Thaw(ctx)
}

func (c *group1) Usage(u *Usage) error {
	s, err := c.group.Stats()
	if err != nil {
		return err
	}
	// The kernel's sums cover every process that ever was in the group; what was seen of them can only be less.
	if s.Has&cgroup.HasCPU != 0 && uint64(s.CPUUser+s.CPUSystem) > u.UserNs+u.SystemNs {
		u.UserNs, u.SystemNs = uint64(s.CPUUser), uint64(s.CPUSystem)
	}
	if s.Has&cgroup.HasMemoryPeak != 0 && u.RssPeakBytes == 0 { // too short to be looked at: page cache and all
		u.RssPeakBytes = s.MemoryPeakBytes
	}
	if s.Has&cgroup.HasPIDsPeak != 0 {
		u.ProcessesPeak = max(u.ProcessesPeak, uint32(s.PIDsPeak))
	}
	return nil
}

func (c *group1) OOM() (bool, error) {
	n, err := c.group.OOMKills()
	return n > 0, err
}

func (c *group1) Remove() error {
	err := c.group.Remove()
	g, job := c.groups, c.group.Job
	mu := g.lock(job)
	mu.Lock()
	defer mu.Unlock()
	if g.count(job, -1) > 0 || err != nil {
		return err
	}
	whole, err := g.tree.Find(job, "")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return whole.Remove()
}

// gone is a group that is not there any more.
type gone struct{}

func (gone) Enter(*syscall.SysProcAttr) (func() error, error) {
	return func() error { return nil }, errors.New("the control group is gone")
}
func (gone) Pids() ([]int, error) { return nil, nil }
func (gone) Kill() error          { return nil }
func (gone) Freeze(bool) error    { return nil }
func (gone) Usage(*Usage) error   { return nil }
func (gone) OOM() (bool, error)   { return false, nil }
func (gone) Remove() error        { return nil }
