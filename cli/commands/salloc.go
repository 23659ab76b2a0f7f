package commands

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"stint/cli/slurm"
	"stint/cli/wire"
	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
)

func salloc(args []string, w *World) int {
	if w.Dir == "" {
		return w.complain("salloc", errors.New("the working directory is not there any more; change to one that is"))
	}
	a, err := slurm.Salloc(w.call(args))
	if err != nil {
		return w.complain("salloc", err)
	}
	if a.Print != "" {
		io.WriteString(w.Stdout, a.Print)
		return 0
	}
	for _, note := range a.Notes {
		fmt.Fprintf(w.Stderr, "salloc: %s\n", note)
	}
	h := &holder{w: w, name: "salloc", quiet: a.Quiet}
	if code, ok := h.ask(a); !ok {
		return code
	}
	h.say("Granted job allocation %d", h.job.Id)
	if a.NoShell {
		return 0
	}
	argv := a.Command
	if len(argv) == 0 {
		shell := w.Getenv("SHELL")
		if shell == "" {
			shell = "/bin/sh"
		}
		argv = []string{shell}
	}
	environ := append(a.Environ, allocationEnviron(h.job, a, h.config, w)...)
	if len(a.More) > 0 {
		if environ, err = h.hetEnviron(a); err != nil {
			h.done(1)
			return w.complain("salloc", err)
		}
	}
	code := h.run(argv, environ, a.Kill)
	if !h.giveBack() {
		return code
	}
	h.say("Relinquishing job allocation %d", h.job.Id)
	h.done(code)
	return code
}

// holder is who holds an allocation that has no script of its own: it asks for it, is told when it is granted and when it is
// taken away, and says when it is done with it.
type holder struct {
	w      *World
	name   string // of the command
	quiet  bool
	conn   *wire.Conn
	job    *projections.Job
	config *events.Config

	mu    sync.Mutex
	given bool // it was given back: its end is no news
	taken bool // somebody else ended it
}

func (h *holder) say(format string, args ...any) {
	if !h.quiet {
		fmt.Fprintf(h.w.Stderr, h.name+": "+format+"\n", args...)
	}
}

// refused says why there is no allocation.
func (h *holder) refused(text string) int {
	lines := strings.Split(text, "\n")
	for _, l := range lines[:len(lines)-1] {
		fmt.Fprintf(h.w.Stderr, "%s: error: %s\n", h.name, l)
	}
	what := "Job submit/allocate failed"
	if h.name == "srun" {
		what = "Unable to allocate resources"
	}
	fmt.Fprintf(h.w.Stderr, "%s: error: %s: %s\n", h.name, what, lines[len(lines)-1])
	return h.exitError()
}

// exitError is the exit code for a failure of the command itself, which SLURM_EXIT_ERROR changes.
func (h *holder) exitError() int {
	if n, err := strconv.Atoi(h.w.Getenv("SLURM_EXIT_ERROR")); err == nil && n != 0 {
		return n & 0xff
	}
	return 1
}

// ask asks for the allocation and waits until it is granted. If it is not, ok is false and code is what to exit with.
func (h *holder) ask(a *slurm.Allocation) (code int, ok bool) {
	w := h.w
	var err error
	if h.conn, err = w.dial(h.name); err != nil {
		return h.refused(why(err)), false
	}
	if a.Clusters != "" {
		if err := w.other(a.Clusters, w.clusterName(h.conn)); err != nil {
			return w.complain(h.name, err), false
		}
	}
	got, err := h.conn.Ask(&projections.Ask{What: &projections.Ask_Config{Config: &projections.AskConfig{}}})
	if err != nil { // nothing was asked for yet, and who would grant it does not answer
		return h.refused(why(err)), false
	}
	h.config, w.conf = got.GetConfig().GetConfig(), got.GetConfig().GetConfFile()
	stop := make(chan os.Signal, 4)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(stop)
	verdicts, err := h.conn.Submit(&wire.Submit{Jobs: []*wire.Job{{Components: components(a)}}, AsUser: a.AsUser, AsGroup: a.AsGroup})
	if f := badOption(err); f != nil {
		return w.complain(h.name, f), false
	}
	if err != nil {
		return h.refused(why(err)), false
	}
	v := verdicts[0]
	if v.Code != events.Code_OK {
		return h.refused(refused(v.Code, v.Text)), false
	}
	if v.Job == 0 {
		return h.refused("the request is kept in the log, but nobody could tell its id: no controller answers (`stint doctor` says why); look with squeue, and cancel it if it is not wanted"), false
	}
	h.job = &projections.Job{Id: v.Job}
	granted := make(chan *projections.Job, 1)
	waiting := make(chan struct{})
	go h.await(v.Job, granted, waiting)
	var late <-chan time.Time
	if a.Immediate > 0 {
		late = time.After(time.Duration(a.Immediate) * time.Second)
	}
	waited := false
	for {
		select {
		case j := <-granted:
			if j == nil || j.Over() || j.Stop != nil {
				h.say("Job allocation %d has been revoked.", v.Job)
				return h.exitError(), false
			}
			h.job = j
			if waited {
				h.say("job %d has been allocated resources", v.Job)
				if a.Bell || !a.NoBell && term.IsTerminal(int(os.Stdin.Fd())) {
					io.WriteString(w.Stderr, "\a")
				}
			}
			return 0, true
		case <-waiting:
			waiting = nil
			waited = true
			if h.name == "salloc" {
				h.say("Pending job allocation %d", v.Job)
			}
			h.say("job %d queued and waiting for resources", v.Job)
		case <-late:
			h.done(1)
			fmt.Fprintf(w.Stderr, "%s: error: Unable to allocate resources: nothing was free within %d s (--immediate)\n", h.name, a.Immediate)
			if n, err := strconv.Atoi(w.Getenv("SLURM_EXIT_IMMEDIATE")); err == nil {
				return n & 0xff, false
			}
			return h.exitError(), false
		case s := <-stop:
			h.done(1)
			h.say("Job allocation %d has been revoked.", v.Job)
			return 128 + int(s.(syscall.Signal)), false
		}
	}
}

// components are the parts of an allocation, as they are asked for.
func components(a *slurm.Allocation) (list []*wire.Component) {
	for _, spec := range a.Specs() {
		list = append(list, &wire.Component{Spec: spec})
	}
	return list
}

// hetEnviron is the environment of the command that holds a heterogeneous job: what each component is told, under its own names.
func (h *holder) hetEnviron(a *slurm.Allocation) ([]string, error) {
	parts, err := h.components(len(a.More) + 1)
	if err != nil {
		return nil, err
	}
	old := h.config.GetCompat() == "22.05"
	var told []string
	for k, c := range a.Components() {
		one := append(c.Environ[:len(c.Environ):len(c.Environ)], allocationEnviron(parts[k], &slurm.Allocation{Submission: *c}, h.config, h.w)...)
		for _, nv := range one {
			name, value, _ := strings.Cut(nv, "=")
			if !strings.HasPrefix(name, "SLURM_") || slices.Contains(h.w.Environ, nv) || slices.Contains(ofAll, name) {
				continue
			}
			told = append(told, fmt.Sprintf("%s_HET_GROUP_%d=%s", name, k, value))
			if old {
				told = append(told, fmt.Sprintf("%s_PACK_GROUP_%d=%s", name, k, value))
			}
		}
	}
	told = append(told, fmt.Sprintf("SLURM_HET_SIZE=%d", len(parts)), fmt.Sprintf("SLURM_JOB_ID=%d", h.job.Id), "SLURM_CLUSTER_NAME="+h.config.GetCluster(),
		"SLURM_SUBMIT_DIR="+h.w.Dir, "SLURM_SUBMIT_HOST="+h.w.Host)
	if old {
		told = append(told, fmt.Sprintf("SLURM_PACK_SIZE=%d", len(parts)))
	}
	tasks := uint32(0)
	for _, c := range a.Components() {
		tasks += c.Spec.GetTasks()
	}
	if tasks > 0 {
		told = append(told, fmt.Sprintf("SLURM_NTASKS=%d", tasks), fmt.Sprintf("SLURM_NPROCS=%d", tasks))
	}
	if file := h.w.confFile(); file != "" {
		told = append(told, "SLURM_CONF="+file)
	}
	return append(slices.Clone(h.w.Environ), told...), nil
}

// components are the jobs of a heterogeneous job of so many, in order.
func (h *holder) components(count int) ([]*projections.Job, error) {
	got, err := h.conn.Ask(&projections.Ask{What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{Ids: []uint32{h.job.Id}, AllStates: true}}})
	if err != nil {
		return nil, errors.New(why(err))
	}
	parts := make([]*projections.Job, count)
	for _, v := range got.GetJobs().GetJobs() {
		if k := v.GetJob().GetHetOffset(); int(k) < len(parts) {
			parts[k] = v.GetJob()
		}
	}
	for k, p := range parts {
		if p == nil {
			return nil, fmt.Errorf("component %d of job %d is not there any more", k, h.job.Id)
		}
	}
	return parts, nil
}

// ofAll are variables that are told once of all components.
var ofAll = []string{"SLURM_CLUSTER_NAME", "SLURM_SUBMIT_DIR", "SLURM_SUBMIT_HOST", "SLURM_CONF"}

// soon is how long an allocation may take without a word that it waits.
const soon = 300 * time.Millisecond

// await tells on granted when the job has begun or is over (nil: nobody knows it any more), and closes waiting if that takes a
// while.
func (h *holder) await(id uint32, granted chan<- *projections.Job, waiting chan struct{}) {
	wait := soon
	for {
		a, err := h.w.patiently(h.name, &projections.Ask{What: &projections.Ask_Wait{Wait: &projections.AskWait{Ids: []uint32{id}, WaitMs: uint32(wait.Milliseconds()), Begin: true}}})
		got := a.GetWait()
		switch {
		case err != nil, len(got.GetGone()) > 0:
			granted <- nil
			return
		case len(got.GetBegun()) > 0:
			granted <- got.Begun[0]
			return
		case len(got.GetEnded()) > 0:
			granted <- got.Ended[0]
			return
		}
		if wait == soon {
			close(waiting)
			wait = time.Minute
		}
	}
}

// patiently asks, on a connection of its own, and again if the agent is away for a while.
func (w *World) patiently(command string, q *projections.Ask) (*projections.Answer, error) {
	for {
		c, err := wire.Dial(w.State)
		if err == nil {
			var a *projections.Answer
			a, err = c.Ask(q)
			c.Close()
			var no *wire.Refused
			if err == nil || errors.As(err, &no) {
				return a, err
			}
		}
		time.Sleep(time.Second)
	}
}

// watch waits for the end of the allocation and then calls taken, unless it was this holder who ended it.
func (h *holder) watch(taken func()) {
	for {
		a, err := h.w.patiently(h.name, &projections.Ask{What: &projections.Ask_Wait{Wait: &projections.AskWait{Ids: []uint32{h.job.Id}, WaitMs: 60_000}}})
		if err == nil && a.GetWait().GetUndecided() {
			continue
		}
		h.mu.Lock()
		news := !h.given
		h.taken = h.taken || news
		h.mu.Unlock()
		if news {
			taken()
		}
		return
	}
}

// giveBack notes that the holder is about to give the allocation back; false if it is not its own any more.
func (h *holder) giveBack() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.given = true
	return !h.taken
}

// doneBy is done for what a signal has ended.
func (h *holder) doneBy(signal uint32) {
	h.complete(&events.Complete{Job: h.job.Id, ExitSignal: signal})
}

// done says that the holder is done with the allocation, with an exit code of 0 to 255.
func (h *holder) done(code int) {
	h.complete(&events.Complete{Job: h.job.Id, ExitCode: uint32(code) & 0xff})
}

func (h *holder) complete(c *events.Complete) {
	data, err := c.MarshalVT()
	if err == nil {
		_, err = h.conn.Control(&wire.Control{Verb: events.Verb_COMPLETE, Body: data})
	}
	if err != nil {
		fmt.Fprintf(h.w.Stderr, "%s: error: the allocation %d could not be given back: %s; end it with scancel %d\n", h.name, h.job.Id, why(err), h.job.Id)
	}
}

// run runs a command while the allocation is held, and returns its exit code: 0 if a signal ended it, as the real salloc has it.
// On a terminal the command is its foreground job, and what is typed reaches it alone.
func (h *holder) run(argv, environ []string, kill int) int {
	w := h.w
	path, err := findProgram(argv[0], environ, w.Dir)
	if err != nil {
		fmt.Fprintf(w.Stderr, "%s: error: Unable to find %s: %v\n", h.name, argv[0], err)
		return h.exitError()
	}
	cmd := &exec.Cmd{Path: path, Args: argv, Env: environ, Dir: w.Dir, Stdin: w.Stdin, Stdout: w.Stdout, Stderr: w.Stderr, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	in, isFile := w.Stdin.(*os.File)
	onTerminal := isFile && term.IsTerminal(int(in.Fd()))
	if onTerminal {
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, int(in.Fd())
	}
	// Heard and passed over, not ignored: what is ignored would be so in the command too.
	over := make(chan os.Signal, 1)
	signal.Notify(over, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	defer signal.Stop(over)
	told := make(chan os.Signal, 4)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(told)
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(w.Stderr, "%s: error: %s cannot be run: %v\n", h.name, argv[0], plain(err))
		return h.exitError()
	}
	go func() {
		for s := range told {
			syscall.Kill(-cmd.Process.Pid, s.(syscall.Signal))
		}
	}()
	go h.watch(func() {
		h.say("Job allocation %d has been revoked.", h.job.Id)
		switch {
		case kill != 0:
			syscall.Kill(-cmd.Process.Pid, syscall.Signal(kill))
		case onTerminal:
			syscall.Kill(-cmd.Process.Pid, syscall.SIGHUP)
			syscall.Kill(-cmd.Process.Pid, syscall.SIGCONT)
		}
	})
	err = cmd.Wait()
	if onTerminal {
		signal.Ignore(syscall.SIGTTOU) // or taking the terminal back would stop us
		unix.IoctlSetPointerInt(int(in.Fd()), unix.TIOCSPGRP, unix.Getpgrp())
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 0)
	case err != nil:
		return h.exitError()
	}
	return 0
}

// findProgram finds a program as a shell would: by its path, or on PATH.
func findProgram(name string, environ []string, dir string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, runnable(name)
	}
	err := errors.New("it is not on PATH")
	list, _ := slurm.Lookup(environ)("PATH")
	for _, d := range filepath.SplitList(list) {
		if d == "" {
			d = "."
		}
		found := filepath.Join(d, name)
		if !filepath.IsAbs(found) {
			found = filepath.Join(dir, found)
		}
		if runnable(found) == nil {
			return found, nil
		}
	}
	return "", err
}

func runnable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return plain(err)
	}
	if info.IsDir() {
		return syscall.EISDIR
	}
	return unix.Access(path, unix.X_OK)
}

// allocationEnviron is what an allocation adds to the environment of the command that holds it. Memory is told as it was asked for, not
// as the site's default.
func allocationEnviron(j *projections.Job, a *slurm.Allocation, config *events.Config, w *World) []string {
	asked := a.Spec
	told := slices.ContainsFunc(a.Environ, func(nv string) bool { return strings.HasPrefix(nv, "SLURM_NTASKS=") })
	spec, alloc := j.GetSpec(), j.GetAllocation()
	var out []string
	set := func(name string, value any) { out = append(out, fmt.Sprintf("%s=%v", name, value)) }
	nodes := alloc.NodeNames()
	list := hostlist.Compress(nodes)
	set("SLURM_JOB_ID", j.Id)
	set("SLURM_JOBID", j.Id)
	set("SLURM_JOB_NAME", spec.GetName())
	set("SLURM_JOB_NUM_NODES", len(nodes))
	set("SLURM_NNODES", len(nodes))
	set("SLURM_JOB_NODELIST", list)
	set("SLURM_NODELIST", list)
	set("SLURM_JOB_PARTITION", j.GetPartition())
	set("SLURM_JOB_CPUS_PER_NODE", projections.PerNode(alloc, (*events.NodeShare).UsableCPUs))
	set("SLURM_TASKS_PER_NODE", hostlist.Runs(j.TasksPerNode()))
	set("SLURM_CLUSTER_NAME", config.GetCluster())
	set("SLURM_SUBMIT_DIR", w.Dir)
	set("SLURM_SUBMIT_HOST", w.Host)
	if n := spec.GetCpusPerTask(); n > 0 {
		set("SLURM_CPUS_PER_TASK", n)
	}
	if each := asked.GetTasksPerNode(); each > 0 && asked.GetMinNodes() < asked.GetMaxNodes() && !told {
		set("SLURM_NTASKS", int(each)*len(nodes))
		set("SLURM_NPROCS", int(each)*len(nodes))
	}
	if a := spec.GetAccount(); a != "" {
		set("SLURM_JOB_ACCOUNT", a)
	}
	if q := spec.GetQos(); q != "" {
		set("SLURM_JOB_QOS", q)
	}
	switch {
	case asked.GetMemAll():
	case asked.GetMemPerNodeMib() > 0:
		set("SLURM_MEM_PER_NODE", asked.GetMemPerNodeMib())
	case asked.GetMemPerCpuMib() > 0:
		set("SLURM_MEM_PER_CPU", asked.GetMemPerCpuMib())
	}
	if file := w.confFile(); file != "" {
		set("SLURM_CONF", file)
	}
	if config.GetCompat() == "22.05" {
		set("SLURM_NODE_ALIASES", "(null)")
		return out
	}
	set("SLURM_JOB_START_TIME", j.GetStartUs()/1e6)
	if limit := j.GetLimitS(); limit != events.Unlimited {
		set("SLURM_JOB_END_TIME", j.GetStartUs()/1e6+int64(limit))
	}
	if l := spec.GetLicenses(); l != "" {
		set("SLURM_JOB_LICENSES", l)
	}
	return out
}
