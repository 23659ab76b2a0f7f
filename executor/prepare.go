package executor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"stint/events"
	"stint/events/bus"
	"stint/executor/cgroup"
	"stint/executor/gpu"
	"stint/executor/supervisor"
	"stint/executor/tasks"
	"stint/projections"
)

// blobs reads scripts and environments, and remembers the last ones: the tasks of an array share theirs.
type blobs struct {
	bus bus.Blobs

	mu    sync.Mutex
	order []string
	held  map[string][]byte
	bytes int
}

const blobMemory = 32 << 20

func (b *blobs) get(ctx context.Context, ref *events.BlobRef) ([]byte, error) {
	if ref.GetLength() == 0 {
		return nil, nil
	}
	r := bus.BlobRef{Subject: ref.GetSubject(), Offset: ref.GetOffset(), Length: ref.GetLength()}
	if copy(r.SHA256[:], ref.GetSha256()) != len(r.SHA256) {
		return nil, fmt.Errorf("the reference to %s has no hash: %w", r, bus.ErrCorrupt)
	}
	key := fmt.Sprintf("%s/%x", r, r.SHA256)
	b.mu.Lock()
	data, ok := b.held[key]
	b.mu.Unlock()
	if ok {
		return data, nil
	}
	data, err := b.bus.Get(ctx, r)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held == nil {
		b.held = map[string][]byte{}
	}
	if _, ok := b.held[key]; !ok && len(data) < blobMemory/4 {
		b.held[key] = data
		b.order = append(b.order, key)
		b.bytes += len(data)
	}
	for b.bytes > blobMemory {
		b.bytes -= len(b.held[b.order[0]])
		delete(b.held, b.order[0])
		b.order = b.order[1:]
	}
	return data, nil
}

// hopeless is an error of preparation that will not go away by trying again.
type hopeless struct{ error }

func (h hopeless) Unwrap() error { return h.error }

// prepare makes the launch of a job's batch script on this node.
func (e *executor) prepare(ctx context.Context, job *projections.Job, array *projections.Array, parts []*projections.Job, config *events.Config, h *hardware, def *events.NodeDef) (*supervisor.Launch, error) {
	spec := job.GetSpec()
	share, _ := job.GetAllocation().ForNode(e.conf.Node)
	script, err := e.blobs.get(ctx, spec.GetScript())
	if err != nil {
		return nil, unlessAway(fmt.Errorf("the job's script cannot be read: %w", err))
	}
	if len(script) == 0 {
		return nil, hopeless{errors.New("the job has no script")}
	}
	stored, err := e.blobs.get(ctx, spec.GetEnvironment())
	if err != nil {
		return nil, unlessAway(fmt.Errorf("the job's environment cannot be read: %w", err))
	}
	submitted := splitEnvironment(stored)
	if spec.GetGetUserEnv() {
		login, err := loginEnvironment(ctx, job.GetOwner())
		if err != nil {
			return nil, hopeless{err}
		}
		submitted = over(login, submitted)
	}
	granted, err := h.granted(share)
	if err != nil {
		return nil, hopeless{err}
	}
	cage, err := e.cage(share, def, config, h, granted)
	if err != nil {
		return nil, hopeless{err}
	}
	host := h.machine.Hostname
	if h.virtual {
		host = e.conf.Node
	}
	env := environment(submitted, job, setting{node: e.conf.Node, host: host, config: config, array: array, parts: parts, gpus: granted,
		hidden: len(cage.DenyDevices) > 0 && !h.virtual, conf: e.conf.SlurmConf})

	owner := job.GetOwner()
	l := &supervisor.Launch{
		Key: &supervisor.Key{Job: uint64(job.GetId()), Run: job.GetRun(), Step: supervisor.StepBatch}, Node: e.conf.Node,
		Script: script, Argv: spec.GetArgs(), Cwd: []byte(spec.GetWorkDir()),
		Uid: owner.GetUid(), Gid: owner.GetGid(), Groups: owner.GetGroups(), Umask: spec.GetUmask(), PidVariable: "SLURM_TASK_PID",
		Cage: cage, KillWaitMs: int64(config.GetKillWaitS()) * 1000, TimeLimitMs: e.limitMs(job, config), Watching: watching(job, share, config),
	}
	if before, after := program(config.Setting("TaskProlog")), program(config.Setting("TaskEpilog")); before != "" || after != "" {
		self, err := keeperProgram()
		if err != nil {
			return nil, err
		}
		l.Through = [][]byte{[]byte(self), []byte(tasks.BatchCommand), []byte(before), []byte(after)}
	}
	for _, v := range env {
		l.Env = append(l.Env, []byte(v))
	}
	for _, r := range spec.GetRlimits() {
		if config.GetPropagateNone() {
			break // PropagateResourceLimits=NONE: those of the node
		}
		l.Rlimits = append(l.Rlimits, &supervisor.Rlimit{Resource: r.GetResource(), Soft: r.GetSoft(), Hard: r.GetHard()})
	}
	l.Rlimits = residentLimit(l.Rlimits, share.GetMemoryMib())
	appends := spec.GetAppend() || config.GetJobFileAppend() && !spec.GetTruncate()
	// In the job's working directory, also if that cannot be entered: a job that goes on in /tmp must not write its output there.
	file := func(pattern string) []byte {
		name := FileName(pattern, job, e.conf.Node, config.GetCompat())
		if dir := spec.GetWorkDir(); dir != "" && !filepath.IsAbs(name) {
			name = strings.TrimSuffix(dir, "/") + "/" + name
		}
		return []byte(name)
	}
	l.Stdout = &supervisor.Stream{Path: file(outputName(job)), Append: appends}
	if p := spec.GetStdErr(); p != "" {
		l.Stderr = &supervisor.Stream{Path: file(p), Append: appends}
	}
	if p := spec.GetStdIn(); p != "" {
		l.Stdin = &supervisor.Stream{Path: file(p)}
	}
	if w := spec.GetWarn(); w.GetSignal() != 0 {
		l.Warn = &supervisor.Warn{Signal: w.GetSignal(), BeforeMs: int64(w.GetBeforeS()) * 1000, Which: supervisor.Which_STEPS_ONLY}
		if w.GetBatch() {
			l.Warn.Which = supervisor.Which_BATCH_SHELL
		}
	}
	return l, nil
}

// unlessAway says that an error of reading is final, unless it is that the bus is away.
func unlessAway(err error) error {
	if errors.Is(err, bus.ErrNotFound) || errors.Is(err, bus.ErrCorrupt) || errors.Is(err, bus.ErrDenied) || errors.Is(err, bus.ErrSubject) {
		return hopeless{err}
	}
	return err
}

// limitMs is how long a run may last on this node, with what the site lets it go over; 0: for ever.
func (e *executor) limitMs(job *projections.Job, config *events.Config) int64 {
	limit, over := job.GetLimitS(), config.GetOverTimeLimitS()
	for _, p := range config.GetPartitions() {
		if p.GetName() == job.GetPartition() && p.GetHasOverTimeLimit() {
			over = p.GetOverTimeLimitS()
		}
	}
	if limit == events.Unlimited || over == events.Unlimited {
		return 0
	}
	return max(1, (int64(limit)+int64(over))*1000)
}

// watching is how often the node looks at what a step uses, and from how much memory on it ends it (slurm.conf(5), JobAcctGatherFrequency and
// JobAcctGatherParams).
func watching(job *projections.Job, share *events.NodeShare, config *events.Config) *supervisor.Watching {
	every, kills := events.Sampling(config, job.GetSpec().GetAcctgFreq())
	w := &supervisor.Watching{EveryMs: int64(every) * 1000}
	switch every {
	case 0:
		w.EveryMs = -1
	case events.UsualSampling:
		w.EveryMs = 0
	}
	if kills {
		w.MemoryBytes = share.GetMemoryMib() << 20
	}
	return w
}

// cage is what the node holds a job to.
func (e *executor) cage(share *events.NodeShare, def *events.NodeDef, config *events.Config, h *hardware, granted []gpu.GPU) (*supervisor.Cage, error) {
	c := &supervisor.Cage{}
	if h.host.Mode == cgroup.None {
		return c, nil
	}
	conf := config.GetCgroup()
	if !conf.GetGiven() {
		conf = &events.CgroupConf{Cores: true, Ram: true, Devices: true}
	}
	if conf.GetCores() && h.pinned(def) {
		cpus, err := h.kernelCPUs(share)
		if err != nil {
			return nil, err
		}
		c.Cpus, c.Mems = cpus, h.memoryNodes(cpus)
	}
	if mib := share.GetMemoryMib(); conf.GetRam() && mib > 0 {
		allowed := float64(mib)
		if pct := conf.GetAllowedRamPct(); pct > 0 {
			allowed = allowed * pct / 100
		}
		if pct := conf.GetMaxRamPct(); pct > 0 {
			allowed = min(allowed, float64(h.machine.MemoryMiB)*pct/100)
		}
		allowed = max(allowed, float64(conf.GetMinRamMib()), 1)
		c.MemoryBytes = uint64(allowed) << 20
		if conf.GetSwap() {
			c.LimitSwap, c.SwapBytes = true, uint64(float64(mib)*conf.GetAllowedSwapPct()/100)<<20
		}
	}
	if conf.GetDevices() {
		all := make([]gpu.GPU, len(h.gpus))
		for i, g := range h.gpus {
			all[i] = g.GPU
		}
		c.DenyDevices, c.AllowDevices = numbers(all), numbers(granted)
		if h.virtual {
			for _, d := range simulatedHere() {
				if !slices.Contains(c.DenyDevices, d) {
					c.DenyDevices = append(c.DenyDevices, d)
				}
			}
		}
	}
	return c, nil
}

func numbers(gpus []gpu.GPU) []string {
	var out []string
	for _, d := range gpu.Devices(gpus) {
		out = append(out, fmt.Sprintf("%c %d:%d", d.Type, d.Major, d.Minor))
	}
	return out
}

// leftMs is what is left of the time of a run that began so long ago on this node, without what it was suspended; 0: it has no limit.
func (e *executor) leftMs(job *projections.Job, config *events.Config, since time.Duration) int64 {
	limit := e.limitMs(job, config)
	if limit == 0 {
		return 0
	}
	ran := since.Milliseconds() - job.GetSuspendedTotalUs()/1e3
	if left := limit - ran; left > 0 {
		return left
	}
	return -1
}

// residentLimit tells a step's memory on this node (MiB, 0: all there is) as its limit of resident memory, in place of what the submitter's was: as in
// Slurm, for programs that look there. No kernel holds anything to it.
func residentLimit(limits []*supervisor.Rlimit, memory uint64) []*supervisor.Rlimit {
	if memory == 0 {
		return limits
	}
	limits = slices.DeleteFunc(limits, func(r *supervisor.Rlimit) bool { return r.GetResource() == unix.RLIMIT_RSS })
	return append(limits, &supervisor.Rlimit{Resource: unix.RLIMIT_RSS, Soft: memory << 20, Hard: memory << 20})
}
