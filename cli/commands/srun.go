package commands

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"stint/cli/slurm"
	"stint/cli/wire"
	"stint/events"
	"stint/events/hostlist"
	"stint/executor/tasks"
	"stint/projections"
)

func init() {
	table["srun"] = &command{"run tasks of a parallel job", srun}
}

func srun(args []string, w *World) int {
	if w.Dir == "" {
		return w.complain("srun", errors.New("the working directory is not there any more; change to one that is"))
	}
	s, err := slurm.Srun(w.call(args))
	if err != nil {
		return w.exitError(w.complain("srun", err))
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
}

type arrival struct {
	peer *tasks.Peer
	node uint32
}

// nodeEnd is the talk with one node.
type nodeEnd struct {
	name  string
	tasks []uint32
	peer  *tasks.Peer
	room  int // bytes of stdin that may still be sent; guarded by window's lock
	gone  bool
}

type taskState struct {
	node  int
	state byte // 0: not started, 1: runs, 2: over
}

// exitNote is tasks of a node that ended alike, and not well.
type exitNote struct {
	node  int
	text  string
	ranks []uint32
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

// aborted says that the step is being ended from outside.
func (l *launcher) aborted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.aborting || l.created == nil {
		return
	}
	l.aborting = true
	l.say("Job step aborted: Waiting up to %d seconds for job step to finish.", l.created.KillWaitS+2)
}

func (l *launcher) run() int {
	signal.Notify(l.told, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGCONT, syscall.SIGPIPE)
	begin, code, ok := l.prepare()
	if !ok {
		return code
	}
	defer l.closeFiles()
	defer l.listener.Close()
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
	begin.Environ = l.environ()
	begin.Memory = l.s.Memory
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
	go l.accept()
	return begin, 0, true
}

// listen opens a port for the nodes. Plain TCP: to look for the kernel's multipath TCP takes longer than all the rest.
func listen() (net.Listener, error) {
	c := net.ListenConfig{}
	c.SetMultipathTCP(false)
	return c.Listen(context.Background(), "tcp", ":0")
}

func (l *launcher) accept() {
	for {
		c, err := l.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			peer, node, err := tasks.Meet(c, l.token)
			switch {
			case err != nil:
				c.Close() // somebody else's
			case node == tasks.Onlooker:
				l.attach(peer)
			default:
				l.peers <- arrival{peer, node}
			}
		}()
	}
}

// addresses are where nodes may reach this host: its loopback for those on it, then the others.
func addresses() []string {
	out := []string{"127.0.0.1"}
	list, _ := net.InterfaceAddrs()
	var six []string
	for _, a := range list {
		ip, ok := a.(*net.IPNet)
		switch {
		case !ok || ip.IP.IsLoopback() || ip.IP.IsLinkLocalUnicast():
		case ip.IP.To4() != nil:
			out = append(out, ip.IP.String())
		default:
			six = append(six, ip.IP.String())
		}
	}
	return append(out, six...)
}

// soonFree is how long a step waits for what another one is just giving back before anything is said of it; busyFor is how long one
// question waits afterwards.
const (
	soonFree = 300 * time.Millisecond
	busyFor  = 20 * time.Second
)

// create has the step made, as soon as there is room for it.
func (l *launcher) create() (code int, ok bool) {
	w := l.w
	nonce := make([]byte, 16)
	rand.Read(nonce)
	reach := addresses()
	ask := &tasks.Create{Job: l.job, Nonce: nonce, Want: l.want, WaitMs: uint32(soonFree.Milliseconds()), Launcher: &tasks.Launcher{
		Addresses: reach, Port: uint32(l.listener.Addr().(*net.TCPAddr).Port), Token: l.token, Host: w.Host, Boot: tasks.Boot(), Pid: uint32(os.Getpid())}}
	answers := make(chan *tasks.Reply, 1)
	errs := make(chan error, 1)
	var conn *wire.Conn
	put := func() {
		r, err := func() (*tasks.Reply, error) {
			var err error
			if conn == nil {
				if conn, err = w.dial("srun"); err != nil {
					return nil, err
				}
			}
			return conn.Step(&tasks.Question{What: &tasks.Question_Create{Create: ask}})
		}()
		if err != nil {
			errs <- err
			return
		}
		answers <- r
	}
	said := false
	for {
		go put()
		select {
		case err := <-errs:
			return l.fail("Unable to create step for job %d: %s", l.job, why(err)), false
		case s := <-l.told:
			if s == syscall.SIGCONT {
				continue
			}
			l.say("Cancelled pending step for job %d", l.job)
			return 128 + int(s.(syscall.Signal)), false
		case r := <-answers:
			switch {
			case r.Refusal == tasks.Refusal_NOT_REFUSED:
				l.created = r.Created
				for _, p := range r.Created.Parts {
					l.count += len(p.Tasks)
					l.nodes = append(l.nodes, &nodeEnd{name: p.Node, tasks: p.Tasks, room: tasks.Window})
				}
				if said {
					l.say("Step created for StepId=%d.%d", l.job, r.Created.Step)
				}
				if r.Created.Warning != "" {
					l.say("%s", r.Created.Warning)
				}
				conn.Close()
				return 0, true
			case r.Refusal == tasks.Refusal_BUSY && l.s.Immediate == 0, r.Refusal == tasks.Refusal_NOT_RUNNING && l.s.Immediate == 0:
				if !said {
					said = true
					l.say("Job %d step creation temporarily disabled, retrying (%s)", l.job, r.Text)
				}
				ask.WaitMs = uint32(busyFor.Milliseconds())
				if r.Refusal == tasks.Refusal_NOT_RUNNING {
					select {
					case s := <-l.told:
						l.say("Cancelled pending step for job %d", l.job)
						return 128 + int(s.(syscall.Signal)), false
					case <-time.After(time.Second):
					}
				}
			case r.Refusal == tasks.Refusal_TOO_MANY_NODES && l.want.MinNodes > 0:
				return l.fail("%s", capital(r.Text)), false
			default:
				return l.fail("Unable to create step for job %d: %s", l.job, r.Text), false
			}
		}
	}
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// programs reads the file of --multi-prog.
func (l *launcher) programs(begin *tasks.Begin) (code int, ok bool) {
	path := l.s.Command[0]
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.w.Dir, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return l.fail("Unable to read the program configuration %s: %v", l.s.Command[0], plain(err)), false
	}
	list, err := slurm.MultiProg(string(text), l.count)
	if err != nil {
		return l.w.complain("srun", err), false
	}
	for r, argv := range list {
		p := &tasks.Program{Tasks: events.WordsOf(uint32(r))}
		for _, a := range append(argv, l.s.Command[1:]...) {
			p.Argv = append(p.Argv, []byte(a))
		}
		begin.Programs = append(begin.Programs, p)
	}
	return 0, true
}

// environ is the environment of the tasks, without what differs between nodes and tasks.
func (l *launcher) environ() [][]byte {
	s, created := l.s, l.created
	var set []string
	put := func(name string, value any) { set = append(set, fmt.Sprintf("%s=%v", name, value)) }
	names := make([]string, len(l.nodes))
	counts := make([]int, len(l.nodes))
	for i, n := range l.nodes {
		names[i], counts[i] = n.name, len(n.tasks)
	}
	if l.allocation != nil {
		for _, nv := range allocationEnviron(l.allocation, l.asked(), l.config, l.w) {
			if !strings.HasPrefix(nv, "SLURM_NODE_ALIASES=") {
				set = append(set, nv)
			}
		}
	} else if cpus, ok := slurm.Lookup(s.Environ)("SLURM_JOB_CPUS_PER_NODE"); ok && s.Old {
		put("SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0", cpus)
	}
	list, perNode := hostlist.Compress(names), hostlist.Runs(counts)
	port := l.listener.Addr().(*net.TCPAddr).Port
	ip := addresses()
	if len(ip) > 1 {
		ip = ip[1:]
	}
	put("SLURM_JOB_ID", l.job)
	put("SLURM_JOBID", l.job)
	put("SLURM_STEP_ID", created.Step)
	put("SLURM_STEPID", created.Step)
	put("SLURM_STEP_NODELIST", list)
	put("SLURM_STEP_NUM_NODES", len(names))
	put("SLURM_STEP_NUM_TASKS", l.count)
	put("SLURM_STEP_TASKS_PER_NODE", perNode)
	put("SLURM_STEP_LAUNCHER_PORT", port)
	put("SLURM_SRUN_COMM_HOST", ip[0])
	put("SLURM_SRUN_COMM_PORT", port)
	put("SLURM_LAUNCH_NODE_IPADDR", ip[0])
	if !s.PreserveEnv {
		put("SLURM_NTASKS", l.count)
		put("SLURM_NPROCS", l.count)
		put("SLURM_NNODES", len(names))
	}
	put("SLURM_TASKS_PER_NODE", perNode)
	distribution := s.Distribution
	if distribution == "" {
		distribution = "block"
		if l.count <= len(names) {
			distribution = "cyclic"
		}
	}
	if l.allocation == nil || s.Distribution != "" {
		put("SLURM_DISTRIBUTION", distribution)
	}
	if s.Label {
		put("SLURM_LABELIO", 1)
	}
	if n := l.want.CpusPerTask; n > 0 {
		put("SLURM_CPUS_PER_TASK", n)
	}
	if l.want.Overcommit {
		put("SLURM_OVERCOMMIT", 1)
	}
	if m := s.Memory; m.GetKind() != "" {
		put("SLURM_MEM_BIND_LIST", s.MemoryList)
		put("SLURM_MEM_BIND_TYPE", m.Kind)
	}
	if kind := l.bound(); kind != "" {
		put("SLURM_CPU_BIND", "quiet,"+kind)
		put("SLURM_CPU_BIND_LIST", "")
		put("SLURM_CPU_BIND_TYPE", kind)
		put("SLURM_CPU_BIND_VERBOSE", "quiet")
	}
	put("SLURM_PRIO_PROCESS", l.w.Nice)
	put("SLURM_UMASK", fmt.Sprintf("%04o", l.want.Umask))
	put("SRUN_DEBUG", 3+s.Verbose)
	if l.allocation == nil {
		put("SLURM_JOB_NAME", s.Spec.Name)
		if !slices.Contains(l.w.called[1:], "-J") && !slices.ContainsFunc(l.w.called[1:], func(a string) bool { return strings.HasPrefix(a, "--job-name") || strings.HasPrefix(a, "-J") }) {
			set = set[:len(set)-1] // that of the job stays
		}
	}
	if s.Pty {
		if size, ok := l.size(); ok {
			put("SLURM_PTY_WIN_ROW", size[0])
			put("SLURM_PTY_WIN_COL", size[1])
		}
	}
	ours := map[string]bool{}
	for _, nv := range set {
		name, _, _ := strings.Cut(nv, "=")
		ours[name] = true
	}
	var out [][]byte
	for _, nv := range s.Environ {
		name, _, _ := strings.Cut(nv, "=")
		if !ours[name] {
			out = append(out, []byte(nv))
		}
	}
	for _, nv := range set {
		out = append(out, []byte(nv))
	}
	return out
}

// bound is what tasks are to be bound to: what was asked for, or the threads where they are to use one of each core. Where the site binds
// nothing (TaskPlugin=task/none) that is said.
func (l *launcher) bound() string {
	kind, spec := l.want.Bind, l.s.Spec
	if kind == "" && (spec.GetNomultithread() || spec.GetThreadsPerCore() == 1) {
		kind = "threads"
	}
	if kind == "" || kind == "none" {
		return kind
	}
	if l.config == nil {
		if a, err := l.w.ask("srun", &projections.Ask{What: &projections.Ask_Config{Config: &projections.AskConfig{}}}); err == nil {
			l.config = a.GetConfig().GetConfig()
		}
	}
	for _, set := range l.config.GetSettings() {
		if strings.EqualFold(set.GetKey(), "TaskPlugin") && strings.EqualFold(set.GetValue(), "task/none") {
			l.say("cluster configuration lacks support for cpu binding")
		}
	}
	return kind
}

// comeTime is how long nodes may take to come once they have started their part.
const comeTime = 60 * time.Second

// leave closes what is open to the nodes: those that have come late or were never told to begin end by that.
func (l *launcher) leave() {
	for _, n := range l.nodes {
		if n.peer != nil {
			n.peer.Close()
		}
	}
}

// gather waits until all nodes have come, and has them begin.
func (l *launcher) gather(begin *tasks.Begin) (code int, ok bool) {
	late := time.NewTimer(comeTime)
	defer late.Stop()
	for left := len(l.nodes); left > 0; {
		select {
		case a := <-l.peers:
			if int(a.node) < len(l.nodes) && l.nodes[a.node].peer == nil {
				l.nodes[a.node].peer = a.peer
				left--
				continue
			}
			a.peer.Close()
		case <-late.C:
			var names []string
			for _, n := range l.nodes {
				if n.peer == nil {
					names = append(names, n.name)
				} else {
					n.peer.Close()
				}
			}
			return l.fail("StepId=%d.%d: no word from %s, whose tasks have not begun: is this host's port %d reachable from there?", l.job, l.created.Step,
				hostlist.Compress(names), l.listener.Addr().(*net.TCPAddr).Port), false
		}
	}
	for i, n := range l.nodes {
		for _, t := range n.tasks {
			l.states[t].node = i
		}
		if l.s.Verbose > 0 {
			l.say("launching StepId=%d.%d on host %s, %d tasks: %s", l.job, l.created.Step, n.name, len(n.tasks), events.WordsOf(n.tasks...))
		}
		if err := n.peer.Tell(tasks.KindBegin, 0, begin); err != nil {
			n.gone = true
		}
	}
	return 0, true
}

// hear takes in what one node says, until it is over.
func (l *launcher) hear(i int) {
	n := l.nodes[i]
	defer n.peer.Close()
	for {
		f, err := n.peer.Next()
		if err != nil {
			l.lost(i)
			return
		}
		switch f.Kind {
		case tasks.KindStdout:
			l.attached.wrote(f.Kind, f.Number, f.Data)
			l.out.write(f.Number, f.Data)
		case tasks.KindStderr:
			l.attached.wrote(f.Kind, f.Number, f.Data)
			l.err.write(f.Number, f.Data)
		case tasks.KindSay:
			fmt.Fprintf(l.w.Stderr, "%s\n", bytes.TrimRight(f.Data, "\n"))
		case tasks.KindTaken:
			l.window.L.Lock()
			n.room += int(f.Number)
			l.window.L.Unlock()
			l.window.Broadcast()
		case tasks.KindOver:
			l.drop(n)
			return
		case tasks.KindStarted, tasks.KindExited, tasks.KindFailed:
			m := &tasks.Told{}
			if m.UnmarshalVT(f.Data) == nil {
				l.note(i, f.Kind, m)
				if f.Kind != tasks.KindStarted {
					l.attached.ended(f.Data)
				}
			}
		}
	}
}

// drop lets nobody wait for room for stdin on a node that is gone.
func (l *launcher) drop(n *nodeEnd) {
	l.window.L.Lock()
	n.gone = true
	l.window.L.Unlock()
	l.window.Broadcast()
}

// lost is a node whose keeper is gone without a word: it was killed, and its tasks with it.
func (l *launcher) lost(i int) {
	n := l.nodes[i]
	l.drop(n)
	var open []uint32
	l.mu.Lock()
	for _, t := range n.tasks {
		if l.states[t].state != 2 {
			open = append(open, t)
		}
	}
	l.mu.Unlock()
	if len(open) > 0 {
		l.note(i, tasks.KindExited, &tasks.Told{Tasks: open, Signal: uint32(syscall.SIGKILL)})
	}
}

// note takes in what became of tasks.
func (l *launcher) note(i int, kind tasks.Kind, m *tasks.Told) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kind == tasks.KindStarted {
		for _, t := range m.Tasks {
			if int(t) < len(l.states) {
				l.states[t].state = 1
			}
		}
		return
	}
	n := 0
	for _, t := range m.Tasks {
		if int(t) < len(l.states) && l.states[t].state != 2 {
			l.states[t].state = 2
			n++
		}
	}
	if n == 0 {
		return
	}
	if l.ended += n; l.first.IsZero() {
		l.first = time.Now()
		if l.s.Wait > 0 {
			time.AfterFunc(time.Duration(l.s.Wait)*time.Second, l.tooLate)
		}
	}
	code, text := int(m.Code), fmt.Sprintf("Exited with exit code %d", m.Code)
	if m.Signal != 0 {
		code, text = 128+int(m.Signal), signalText(syscall.Signal(m.Signal))
		if m.Core {
			text += " (core dumped)"
		}
	}
	if code > l.code {
		l.code, l.signal = code, m.Signal
	}
	if code == 0 {
		return
	}
	at := slices.IndexFunc(l.notes, func(e exitNote) bool { return e.node == i && e.text == text })
	if at < 0 {
		l.notes = append(l.notes, exitNote{i, text, nil})
		at = len(l.notes) - 1
		time.AfterFunc(100*time.Millisecond, func() { // those that ended alike share a line
			l.mu.Lock()
			defer l.mu.Unlock()
			l.report()
		})
	}
	l.notes[at].ranks = append(l.notes[at].ranks, m.Tasks...)
	if l.s.KillOnBad && !l.ending {
		l.ending = true
		l.report()
		l.say("Terminating StepId=%d.%d", l.job, l.created.Step)
		go l.endAll(false)
	}
}

// signalText is how a signal is told.
func signalText(s syscall.Signal) string {
	text := s.String()
	switch s {
	case syscall.SIGUSR1:
		text = "user defined signal 1"
	case syscall.SIGUSR2:
		text = "user defined signal 2"
	}
	return capital(text)
}

// report says how tasks ended that did not end well. The caller holds l.mu.
func (l *launcher) report() {
	for _, e := range l.notes {
		what := "task"
		if len(e.ranks) > 1 {
			what = "tasks"
		}
		fmt.Fprintf(l.w.Stderr, "srun: error: %s: %s %s: %s\n", l.nodes[e.node].name, what, events.WordsOf(e.ranks...), e.text)
	}
	l.notes = nil
}

// tooLate ends the tasks that still run so long after the first has ended.
func (l *launcher) tooLate() {
	l.mu.Lock()
	open := l.ended < l.count && !l.ending
	l.ending = l.ending || open
	l.mu.Unlock()
	if open {
		l.say("First task exited %ds ago", l.s.Wait)
		l.status()
		l.say("Terminating StepId=%d.%d", l.job, l.created.Step)
		l.endAll(true)
	}
}

// status says which tasks run.
func (l *launcher) status() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var by [3]events.Words
	for t, s := range l.states {
		by[s.state].Set(uint32(t))
	}
	for i, text := range []string{"unknown", "running", "exited"} {
		if n := by[i].Count(); n > 0 {
			what := "task"
			if n > 1 {
				what = "tasks"
			}
			l.say("StepId=%d.%d %s %s: %s", l.job, l.created.Step, what, by[i], text)
		}
	}
}

func (l *launcher) endAll(now bool) {
	number := uint32(0)
	if now {
		number = 1
	}
	for _, n := range l.nodes {
		n.peer.Send(tasks.KindEnd, number, nil)
	}
}

func (l *launcher) signalAll(s syscall.Signal) {
	for _, n := range l.nodes {
		n.peer.Send(tasks.KindSignal, uint32(s), nil)
	}
}

// heed passes signals on until the step is over.
func (l *launcher) heed() {
	var last time.Time
	for {
		select {
		case <-l.finished:
			return
		case s := <-l.told:
			sig := s.(syscall.Signal)
			switch sig {
			case syscall.SIGCONT:
			case syscall.SIGPIPE:
			case syscall.SIGINT:
				switch {
				case l.s.Quit || l.s.NoStatus && last.IsZero() || !last.IsZero() && time.Since(last) <= time.Second:
					l.say("sending Ctrl-C to StepId=%d.%d", l.job, l.created.Step)
					go func() {
						l.signalAll(syscall.SIGCONT)
						l.signalAll(sig)
						l.aborted()
						time.AfterFunc(time.Duration(l.created.KillWaitS)*time.Second, func() { l.endAll(true) })
					}()
				default:
					l.say("interrupt (one more within 1 sec to abort)")
					l.status()
				}
				last = time.Now()
			case syscall.SIGTERM, syscall.SIGHUP:
				l.say("forcing job termination")
				go func() {
					l.aborted()
					l.endAll(false)
				}()
			default:
				go l.signalAll(sig)
			}
		}
	}
}

// size is the size of the terminal that srun stands on.
func (l *launcher) size() (rows [2]uint16, ok bool) {
	for _, f := range []any{l.w.Stdin, l.w.Stdout} {
		if t, is := f.(*os.File); is {
			if w, h, err := term.GetSize(int(t.Fd())); err == nil {
				return [2]uint16{uint16(h), uint16(w)}, true
			}
		}
	}
	return rows, false
}

// terminal makes the terminal that srun stands on the other end of the task's, until restore.
func (l *launcher) terminal(begin *tasks.Begin) (restore func()) {
	if !l.s.Pty {
		return func() {}
	}
	if size, ok := l.size(); ok {
		begin.Rows, begin.Columns = uint32(size[0]), uint32(size[1])
	}
	in, isFile := l.w.Stdin.(*os.File)
	if !isFile || !term.IsTerminal(int(in.Fd())) {
		return func() {}
	}
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return func() {}
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	go func() {
		for range changed {
			if size, ok := l.size(); ok {
				data := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, size[0]), size[1])
				for _, n := range l.nodes {
					if n.peer != nil {
						n.peer.Send(tasks.KindSize, 0, data)
					}
				}
			}
		}
	}()
	return func() {
		signal.Stop(changed)
		term.Restore(int(in.Fd()), old)
	}
}

// asked is what the allocation was asked for, as far as it is known.
func (l *launcher) asked() *slurm.Allocation {
	if l.s.Job == 0 {
		return &l.s.Allocation
	}
	return &slurm.Allocation{Submission: slurm.Submission{Spec: l.allocation.GetSpec(), Environ: l.s.Environ}}
}
