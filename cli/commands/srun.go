package commands

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
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
	l := &launcher{w: w, s: s, want: s.Want, told: make(chan os.Signal, 16), peers: make(chan arrival), job: s.Job, begun: make(chan struct{}), finished: make(chan struct{})}
	l.want.Umask, l.want.Rlimits = umask(), rlimits(s.Propagate)
	l.want.Nice = int32(w.Nice)
	l.want.StdIn, l.want.StdOut, l.want.StdErr = s.Input, s.Output, s.Error
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
	l.job, l.allocation, l.config = h.job.Id, h.job, h.config
	go h.watch(func() { l.aborted() })
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
	w          *World
	s          *slurm.Step
	want       *tasks.Want
	job        uint32
	allocation *projections.Job // nil: the environment says what there is to know of it
	config     *events.Config

	listener net.Listener
	token    []byte
	peers    chan arrival
	told     chan os.Signal

	created *tasks.Created
	count   int // of tasks
	nodes   []*nodeEnd
	out     *sink
	err     *sink
	window  *sync.Cond
	stdin   io.Reader // nil: none
	only    uint32    // the task that has it
	one     bool

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

	attached  attached
	onlookers sync.WaitGroup
	begun     chan struct{} // closed when all nodes have been told to begin
	hub       hub

	mpiByDefault bool // the site wants it, not the user
}

// step is the step as people name it.
func (l *launcher) step() string {
	return strconv.FormatUint(uint64(l.job), 10) + "." + events.StepName(l.created.GetStep())
}

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
	if w.Getenv("SLURM_JOB_ID") != strconv.FormatUint(uint64(l.job), 10) || w.Getenv("SLURM_JOB_NODELIST") == "" {
		c, err := w.dial("srun")
		if err != nil {
			return l.fail("%s", why(err))
		}
		defer c.Close()
		a, err := c.Ask(&projections.Ask{What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{Ids: []uint32{l.job}, AllStates: true}}})
		if err != nil {
			return l.fail("%s", why(err))
		}
		if len(a.GetJobs().GetJobs()) == 0 {
			return l.unconfirmed("Invalid job id specified")
		}
		l.allocation = a.GetJobs().GetJobs()[0].GetJob()
		switch {
		case l.allocation.Over():
			return l.unconfirmed("Job/step already completing or completed")
		case l.allocation.GetState() == events.JobState_PENDING:
			return l.unconfirmed("Job is pending execution")
		}
		if got, err := c.Ask(&projections.Ask{What: &projections.Ask_Config{Config: &projections.AskConfig{}}}); err == nil {
			l.config = got.GetConfig().GetConfig()
		}
	}
	return l.run()
}

// unconfirmed says that there is no such allocation.
func (l *launcher) unconfirmed(why string) int {
	code := l.fail("Unable to confirm allocation for job %d: %s", l.job, why)
	l.say("Check SLURM_JOB_ID environment variable. Expired or invalid job %d", l.job)
	return code
}

func (l *launcher) run() int {
	signal.Notify(l.told, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGCONT, syscall.SIGPIPE)
	begin, code, ok := l.prepare()
	if !ok {
		return code
	}
	defer l.closeFiles()
	defer func() { l.listener.Close() }() // another one where the site has ports for it
	if code, ok := l.create(); !ok {
		return code
	}
	defer l.leave()
	if l.s.MultiProg {
		if code, ok := l.programs(begin); !ok {
			return code
		}
	}
	if err := l.streams(begin); err != nil {
		return l.fail("%v", err)
	}
	begin.Mpi = l.mpi()
	begin.Environ = l.environ()
	begin.Memory = l.s.Memory
	l.around(l.s.Prolog, "prolog_srun", begin.Environ)
	defer l.around(l.s.Epilog, "epilog_srun", begin.Environ)
	l.states = make([]taskState, l.count)
	l.window = sync.NewCond(&sync.Mutex{})
	l.out.tasks, l.err.tasks = l.count, l.count
	restore := l.terminal(begin)
	defer restore()
	if code, ok := l.gather(begin); !ok {
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
	if l.stdin != nil {
		go l.feed(l.stdin)
	}
	l.heed()
	l.out.flush()
	l.err.flush()
	restore()
	l.dismiss()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report()
	return l.code
}

// prepare opens files and the port that nodes come to, before anything is started.
func (l *launcher) prepare() (begin *tasks.Begin, code int, ok bool) {
	s := l.s
	begin = &tasks.Begin{Dir: []byte(s.Spec.WorkDir), Pty: s.Pty, TaskProlog: []byte(s.TaskProlog), TaskEpilog: []byte(s.TaskEpilog)}
	if !s.MultiProg {
		p := &tasks.Program{}
		for _, a := range s.Command {
			p.Argv = append(p.Argv, []byte(a))
		}
		begin.Programs = []*tasks.Program{p}
	}
	var err error
	if l.listener, err = listen(); err != nil {
		return nil, l.fail("no port can be opened for the tasks' input and output: %v", err), false
	}
	l.token = make([]byte, 32)
	rand.Read(l.token)
	go l.accept(l.listener)
	return begin, 0, true
}

// bound tells what tasks are to be bound to. Where the site binds nothing (TaskPlugin without task/affinity) and it was asked for, that is
// said.
func (l *launcher) bound() []string {
	b, spec := l.s.Bind, l.s.Spec
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
