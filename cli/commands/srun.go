package commands

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"stint/cli/slurm"
	"stint/events"
	"stint/executor/tasks"
	"stint/projections"
)

func srun(args []string, w *World) int {
	if w.Dir == "" {
		return w.complain("srun", errors.New("the working directory is not there any more; change to one that is"))
	}
	s, err := slurm.Srun(w.call(args))
	if err != nil {
		return w.exitError(w.complain("srun", err))
	}
	if s.MPI == "list" {
		io.WriteString(w.Stdout, mpiList())
		return 0
	}
	if s.Print != "" {
		io.WriteString(w.Stdout, s.Print)
		return 0
	}
	for _, note := range s.Notes {
		fmt.Fprintf(w.Stderr, "srun: %s\n", note)
	}
	l := &launcher{w: w, s: s, told: make(chan os.Signal, 16), peers: make(chan arrival), job: s.Job, begun: make(chan struct{}), finished: make(chan struct{})}
	for _, one := range append([]*slurm.Step{s}, s.Others...) {
		one.Want.Umask, one.Want.Rlimits = umask(), rlimits(one.Propagate)
		one.Want.StdIn, one.Want.StdOut, one.Want.StdErr = one.Input, one.Output, one.Error
		l.parts = append(l.parts, &component{s: one, job: s.Job})
	}
	if s.TestOnly {
		c, err := w.dial("srun")
		if err != nil {
			return w.complain("srun", errors.New(why(err)))
		}
		return tested(w, c, "srun", &s.Submission)
	}
	signal.Ignore(syscall.SIGTTIN, syscall.SIGTTOU)
	if s.Job != 0 {
		return l.inside()
	}
	h := &holder{w: w, name: "srun", quiet: s.Quiet}
	if code, ok := h.ask(&s.Allocation); !ok {
		return code
	}
	l.job, l.config = h.job.Id, h.config
	jobs := []*projections.Job{h.job}
	if len(l.parts) > 1 {
		var err error
		if jobs, err = h.components(len(l.parts)); err != nil {
			h.done(1)
			return w.complain("srun", err)
		}
	}
	for k, c := range l.parts {
		c.job, c.allocation = jobs[k].Id, jobs[k]
	}
	go h.watch(l.revoked)
	code := l.run()
	switch {
	case !h.giveBack():
	case l.signal != 0:
		h.doneBy(l.signal)
	default:
		h.done(code)
	}
	return code
}

// exitError is the exit code for a failure of srun itself, which SLURM_EXIT_ERROR changes.
func (w *World) exitError(code int) int {
	if n, err := strconv.Atoi(w.Getenv("SLURM_EXIT_ERROR")); err == nil && n != 0 && code == 1 {
		return n & 0xff
	}
	return code
}

// launcher is one srun: it has a step made, and is what its tasks read from and write to.
type launcher struct {
	w      *World
	s      *slurm.Step  // of the first component: what counts for all is said there
	parts  []*component // one, or those of a heterogeneous job
	job    uint32       // of several the first
	config *events.Config

	nonce []byte
	peers chan arrival
	told  chan os.Signal

	count  int        // of tasks, in all components: their ranks go on from one to the next
	nodes  []*nodeEnd // likewise
	window *sync.Cond

	mu       sync.Mutex
	ended    int
	code     int
	signal   uint32    // the worst task ended by it
	first    time.Time // when the first task ended
	states   []taskState
	notes    []exitNote
	ending   bool
	finished chan struct{}
	aborting bool

	onlookers sync.WaitGroup
	begun     chan struct{} // closed when all nodes have been told to begin
	hub       hub

	mpiByDefault bool // the site wants it, not the user
}

// component is the part of a step in one component of a heterogeneous job, which is a step of that job; mostly there is only one.
type component struct {
	s          *slurm.Step
	job        uint32
	allocation *projections.Job // nil: the environment says what there is to know of it

	listener net.Listener
	token    []byte
	created  *tasks.Created
	begin    *tasks.Begin
	first    int // tasks of the components before this one
	count    int // of its own
	place    int // nodes of the components before this one

	out      *sink
	err      *sink
	stdin    io.Reader // nil: none
	only     uint32    // the task that has it
	one      bool
	copied   string // where nodes have the program, if it was copied to them
	byNode   bool   // each under its own name behind that
	attached attached
}

// id is job.step, as people are told it.
func (c *component) id() string { return fmt.Sprintf("%d.%d", c.job, c.created.GetStep()) }

func (l *launcher) say(format string, args ...any) {
	if !l.s.Quiet {
		fmt.Fprintf(l.w.Stderr, "srun: "+format+"\n", args...)
	}
}

func (l *launcher) fail(format string, args ...any) int {
	fmt.Fprintf(l.w.Stderr, "srun: error: "+format+"\n", args...)
	return l.w.exitError(1)
}

// inside runs the step in an allocation that is there.
func (l *launcher) inside() int {
	w := l.w
	plain := len(l.parts) == 1 && l.s.Group == 0 && !l.s.Named
	if !plain || w.Getenv("SLURM_JOB_ID") != strconv.FormatUint(uint64(l.job), 10) || w.Getenv("SLURM_JOB_NODELIST") == "" {
		c, err := w.dial("srun")
		if err != nil {
			return l.fail("%s", why(err))
		}
		defer c.Close()
		a, err := c.Ask(&projections.Ask{What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{Ids: []uint32{l.job}, AllStates: true}}})
		if err != nil {
			return l.fail("%s", why(err))
		}
		var jobs []*projections.Job
		for _, v := range a.GetJobs().GetJobs() {
			jobs = append(jobs, v.GetJob())
		}
		slices.SortFunc(jobs, func(a, b *projections.Job) int { return int(a.GetHetOffset()) - int(b.GetHetOffset()) })
		if len(jobs) == 0 {
			return l.unconfirmed("Invalid job id specified")
		}
		if code, ok := l.assign(jobs); !ok {
			return code
		}
		if got, err := c.Ask(&projections.Ask{What: &projections.Ask_Config{Config: &projections.AskConfig{}}}); err == nil {
			l.config = got.GetConfig().GetConfig()
		}
	}
	return l.run()
}

// assign gives each component of the step its part of the allocation.
func (l *launcher) assign(jobs []*projections.Job) (code int, ok bool) {
	het := jobs[0].GetHetId() != 0
	most := len(jobs) - 1
	last := l.parts[len(l.parts)-1].s
	switch {
	case het && jobs[0].GetHetOffset() != 0:
		return l.unconfirmed("Job not heterogeneous job leader"), false
	case last.Group > most && last.Named:
		return l.fail("Requested het-group offset exceeds highest hetjob index (%d > %d)", last.Group, most), false
	case !het && last.Named:
		return l.fail("No directives to start application on any available hetjob components"), false
	case last.Group > most && !het:
		n := jobs[0].GetAllocation().NodeCount()
		return l.fail("Allocation failure of 1 nodes: job size of %d, already allocated %d nodes to previous components.", n, n), false
	case last.Group > most:
		return l.fail("Attempt to run a job step with het group value of %d, but the job allocation has maximum value of %d", last.Group, most), false
	}
	for _, c := range l.parts {
		j := jobs[c.s.Group]
		switch {
		case j.Over():
			return l.unconfirmed("Job/step already completing or completed"), false
		case j.GetState() == events.JobState_PENDING:
			return l.unconfirmed("Job is pending execution"), false
		}
		c.job, c.allocation = j.GetId(), j
	}
	return 0, true
}

// unconfirmed says that there is no such allocation.
func (l *launcher) unconfirmed(why string) int {
	code := l.fail("Unable to confirm allocation for job %d: %s", l.job, why)
	l.say("Check SLURM_JOB_ID environment variable. Expired or invalid job %d", l.job)
	return code
}

func (l *launcher) run() int {
	signal.Notify(l.told, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGCONT, syscall.SIGPIPE)
	if code, ok := l.prepare(); !ok {
		return code
	}
	defer l.closeFiles()
	defer l.closePorts()
	for _, c := range l.parts {
		if code, ok := l.create(c); !ok {
			return code
		}
	}
	defer l.leave()
	for _, c := range l.parts {
		if len(l.parts) > 1 {
			c.begin.Within = &tasks.Within{Tasks: uint32(c.first), Nodes: uint32(c.place)}
		}
		if c.s.MultiProg {
			if code, ok := l.programs(c); !ok {
				return code
			}
		}
		if err := l.streams(c); err != nil {
			return l.fail("%v", err)
		}
		if code, ok := l.copyProgram(c); !ok {
			return code
		}
		c.begin.Mpi = l.mpi()
		c.begin.Environ = l.environ(c)
		c.begin.Memory = c.s.Memory
	}
	first := l.parts[0].begin
	l.around(l.s.Prolog, "prolog_srun", first.Environ)
	defer l.around(l.s.Epilog, "epilog_srun", first.Environ)
	l.states = make([]taskState, l.count)
	l.window = sync.NewCond(&sync.Mutex{})
	for _, c := range l.parts {
		c.out.tasks, c.err.tasks = l.count, l.count
	}
	restore := l.terminal(first)
	defer restore()
	if code, ok := l.gather(); !ok {
		return code
	}
	close(l.begun)
	var readers sync.WaitGroup
	for i := range l.nodes {
		readers.Go(func() { l.hear(i) })
	}
	go func() {
		readers.Wait()
		close(l.finished)
	}()
	l.feedAll()
	l.heed()
	for _, c := range l.parts {
		c.out.flush()
		c.err.flush()
	}
	restore()
	l.dismiss()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report()
	return l.code
}

// prepare opens the ports that nodes come to, before anything is started.
func (l *launcher) prepare() (code int, ok bool) {
	for _, c := range l.parts {
		s := c.s
		c.begin = &tasks.Begin{Dir: []byte(s.Spec.WorkDir), Pty: s.Pty, TaskProlog: []byte(s.TaskProlog), TaskEpilog: []byte(s.TaskEpilog)}
		if !s.MultiProg {
			p := &tasks.Program{}
			for _, a := range s.Command {
				p.Argv = append(p.Argv, []byte(a))
			}
			c.begin.Programs = []*tasks.Program{p}
		}
		var err error
		if c.listener, err = listen(); err != nil {
			l.closePorts()
			return l.fail("no port can be opened for the tasks' input and output: %v", err), false
		}
		c.token = make([]byte, 32)
		rand.Read(c.token)
		go l.accept(c, c.listener)
	}
	return 0, true
}

func (l *launcher) closePorts() {
	for _, c := range l.parts {
		if c.listener != nil {
			c.listener.Close()
		}
	}
}

// bound tells what tasks are to be bound to. Where the site binds nothing (TaskPlugin without task/affinity) and it was asked for, that is
// said.
func (l *launcher) bound(c *component) []string {
	b, spec := c.s.Bind, c.s.Spec
	if b.Given || spec.GetThreadsPerCore() == 1 {
		if l.config == nil {
			if a, err := l.w.ask("srun", &projections.Ask{What: &projections.Ask_Config{Config: &projections.AskConfig{}}}); err == nil {
				l.config = a.GetConfig().GetConfig()
			}
		}
		if l.config != nil && !l.config.Affinity() {
			l.say("cluster configuration lacks support for cpu binding")
		}
	}
	return b.Told()
}
