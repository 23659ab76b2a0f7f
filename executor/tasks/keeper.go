package tasks

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"stint/events"
)

// Command is the word by which a program of Stint's becomes a keeper.
const Command = "step-tasks"

// orderVariable holds an Order in base64, in pieces: the kernel limits what one string may have.
const (
	orderVariable = "STINT_STEP_"
	orderPiece    = 96 << 10
)

// OrderEnviron is what a keeper's environment holds.
func OrderEnviron(o *Order) ([]string, error) {
	data, err := o.MarshalVT()
	if err != nil {
		return nil, err
	}
	text := base64.StdEncoding.EncodeToString(data)
	var out []string
	for i := 0; len(text) > 0; i++ {
		n := min(len(text), orderPiece)
		out = append(out, orderVariable+strconv.Itoa(i)+"="+text[:n])
		text = text[n:]
	}
	return out, nil
}

func orderOf(environ []string) (*Order, error) {
	var text strings.Builder
	for i := 0; ; i++ {
		at := slices.IndexFunc(environ, func(nv string) bool { return strings.HasPrefix(nv, orderVariable+strconv.Itoa(i)+"=") })
		if at < 0 {
			break
		}
		_, piece, _ := strings.Cut(environ[at], "=")
		text.WriteString(piece)
	}
	data, err := base64.StdEncoding.DecodeString(text.String())
	o := &Order{}
	if err == nil {
		err = o.UnmarshalVT(data)
	}
	if err == nil && (o.Launcher == nil || len(o.Tasks) == 0) {
		err = errors.New("it names no launcher and no tasks")
	}
	if err != nil {
		return nil, fmt.Errorf("the order in the environment cannot be read: %w", err)
	}
	return o, nil
}

// leaveTime is how long a launcher may take to hear that all is over.
const leaveTime = 30 * time.Second

// keeper is the one process of a step on a node that the supervisor knows.
type keeper struct {
	order   *Order
	peer    *Peer
	hearing hearing
	begin   *Begin
	within  *Within // nil: the step has one component
	tasks   []*task // their ranks are those of the whole step

	mu     sync.Mutex
	cancel bool // it was said that the step is cancelled
	hung   bool // the launcher is gone
	live   int
	oom    int    // processes that the kernel is known to have killed for memory
	counts string // the file where it counts them
	wiring wiring // nil: tasks do not find each other
	meets  gatherings
	worst  syscall.WaitStatus
	closed chan struct{} // when no task is left
	once   sync.Once
}

// task is one of the tasks of the node.
type task struct {
	rank   uint32
	proc   *os.Process
	stdin  *feed
	pty    *os.File
	exited bool
	env    []string
	pumps  sync.WaitGroup
	drains []func() // take what is left of its output when it is over
}

// Main is the keeper: it ends as the worst of its tasks did.
func Main() int {
	// What is sent to all processes of the step is for the tasks.
	k := &keeper{closed: make(chan struct{})}
	heard := make(chan os.Signal, 64)
	k.hark()
	signal.Notify(heard, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE, syscall.SIGXCPU, syscall.SIGIO, syscall.SIGVTALRM, syscall.SIGPROF)
	go func() {
		for s := range heard {
			if s == syscall.SIGTERM {
				k.hear()
				k.cancelled()
			}
		}
	}()
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // who may not speak to the launcher shall not read how
	status, err := k.run(os.Environ())
	if err != nil {
		fmt.Fprintf(os.Stderr, "stint %s: %v\n", Command, err)
		return 1
	}
	if status.Signaled() { // end alike, without a core of its own
		unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
		signal.Reset()
		byDefault(status.Signal())
		unix.Kill(os.Getpid(), status.Signal())
		time.Sleep(time.Second)
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// byDefault gives a signal back the effect that it has on any program: Go's runtime lets some of them pass.
func byDefault(s syscall.Signal) {
	var act [8]uint64 // of the kernel's struct sigaction: SIG_DFL, no flags, nothing blocked
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&act)), 0, 8, 0, 0)
}

// cancelled says that the step is ended from outside, which the tasks hear of themselves.
func (k *keeper) cancelled() {
	k.mu.Lock()
	say := k.begin != nil && !k.cancel
	k.cancel = true
	k.mu.Unlock()
	if say {
		k.peer.Send(KindAborted, 0, fmt.Appendf(nil, "slurmstepd: error: *** STEP %s ON %s CANCELLED AT %s ***", k.order.Step, k.order.Name, time.Now().Format("2006-01-02T15:04:05")))
	}
}

func (k *keeper) run(environ []string) (worst syscall.WaitStatus, err error) {
	if k.order, err = orderOf(environ); err != nil {
		return 0, err
	}
	if k.peer, err = Reach(k.order.Launcher, k.order.Node); err != nil {
		return 0, err
	}
	defer k.peer.Close()
	f, err := k.peer.Next()
	if err != nil || f.Kind != KindBegin {
		return 0, fmt.Errorf("the launcher says nothing: %w", err)
	}
	begin := &Begin{}
	if err := begin.UnmarshalVT(f.Data); err != nil {
		return 0, fmt.Errorf("what the launcher says cannot be read: %w", err)
	}
	k.mu.Lock()
	k.begin = begin
	k.mu.Unlock()
	k.within = begin.Within
	for i := range k.order.Tasks {
		k.order.Tasks[i] += k.within.GetTasks()
	}
	k.counts = killings()
	k.oom = killed(k.counts)
	before := k.oom
	k.enter()
	if begin.Receive != nil {
		return k.receive(begin.Receive)
	}
	if k.wiring, err = k.wire(begin.Mpi); err != nil {
		k.say("slurmstepd: error: --mpi=%s: %v", begin.Mpi.Kind, err)
		k.peer.Tell(KindFailed, 0, &Told{Tasks: k.order.Tasks, Code: 1})
		return 1 << 8, nil
	}
	if k.wiring != nil {
		defer k.wiring.close()
	}
	started := k.startAll()
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		k.listen()
	}()
	if started > 0 {
		<-k.closed
	}
	if n := killed(k.counts) - before; n > 0 {
		k.say("slurmstepd: error: %s", k.outOfMemory(n))
	}
	k.peer.Send(KindOver, 0, nil)
	select { // to close with input unread would take from the launcher what it has not read yet
	case <-heard:
	case <-time.After(leaveTime):
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.worst, nil
}

// Reach connects to the launcher, as a node of the step by its place or as an onlooker.
func Reach(l *Launcher, node uint32) (*Peer, error) {
	var errs []error
	here := Boot()
	for i, a := range l.Addresses {
		if i == 0 && l.Boot != here {
			continue // its own loopback
		}
		d := net.Dialer{Timeout: 10 * time.Second}
		c, err := d.DialContext(context.Background(), "tcp", net.JoinHostPort(a, strconv.FormatUint(uint64(l.Port), 10)))
		if err == nil {
			var p *Peer
			if p, err = Greet(c, l.Token, node); err == nil {
				return p, nil
			}
			c.Close()
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("the launcher on %s cannot be reached: %w", l.Host, errors.Join(errs...))
}

// Boot names this machine and its network: where two processes agree in it, each reaches the other's loopback.
func Boot() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	ns, _ := os.Readlink("/proc/self/ns/net")
	return strings.TrimSpace(string(id)) + "/" + ns
}

// enter goes to the working directory, or to /tmp.
func (k *keeper) enter() {
	dir := string(k.begin.Dir)
	if err := os.Chdir(dir); err != nil {
		k.say("slurmstepd: error: couldn't chdir to `%s': %v: going to /tmp instead", dir, plain(err))
		if os.Chdir("/tmp") != nil {
			os.Chdir("/")
		}
	}
}

func plain(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errors.New(capital(errno.Error()))
	}
	return err
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// outOfMemory says how many processes of the step were killed for memory.
func (k *keeper) outOfMemory(n int) string {
	if k.order.CompatOld != 0 {
		return fmt.Sprintf("Detected %d oom-kill event(s) in StepId=%s. Some of your processes may have been killed by the cgroup out-of-memory handler.", n, k.order.Step)
	}
	events := "event"
	if n > 1 {
		events = "events"
	}
	return fmt.Sprintf("Detected %d oom_kill %s in StepId=%s. Some of the step tasks have been OOM Killed.", n, events, k.order.Step)
}

func (k *keeper) say(format string, args ...any) {
	k.peer.Send(KindSay, 0, []byte(fmt.Sprintf(format, args...)))
}

// notRun says in a task's standard error why its program is not run.
func (k *keeper) notRun(t *task, program string, err error) {
	k.tell(t, fmt.Sprintf("slurmstepd-%s: error: execve(): %s: %v", k.order.Name, program, plain(err)))
}

// tell says something in a task's standard error, as far as srun passes it on.
func (k *keeper) tell(t *task, line string) {
	way := k.begin.Stderr.GetWay()
	if way == Way_SAME {
		way = k.begin.Stdout.GetWay()
	}
	if way != Way_LAUNCHER {
		k.say("%s", line)
		return
	}
	k.peer.Send(KindStderr, t.rank, []byte(line+"\n"))
}

// startAll starts the tasks, and returns how many run.
func (k *keeper) startAll() int {
	var ranks, pids []uint32
	failed := map[syscall.Errno][]uint32{}
	for i, rank := range k.order.Tasks {
		t := &task{rank: rank}
		k.tasks = append(k.tasks, t)
		if i < len(k.order.TaskEnviron) {
			for _, line := range k.order.TaskEnviron[i].Said {
				if strings.HasPrefix(line, "error: ") {
					line = "slurmstepd-" + k.order.Name + ": " + line
				}
				k.tell(t, line)
			}
		}
		if err := k.start(t, i); err != nil {
			var errno syscall.Errno
			if !errors.As(err, &errno) {
				errno = syscall.EIO
				k.say("slurmstepd: error: task %d: %v", rank, err)
			}
			failed[errno] = append(failed[errno], rank)
			t.exited = true
			continue
		}
		ranks, pids = append(ranks, rank), append(pids, uint32(t.proc.Pid))
	}
	k.mu.Lock()
	k.live = len(ranks)
	k.mu.Unlock()
	if len(ranks) > 0 {
		k.peer.Tell(KindStarted, 0, &Told{Tasks: ranks, Pids: pids})
	}
	for errno, list := range failed {
		k.peer.Tell(KindFailed, 0, &Told{Tasks: list, Code: uint32(errno), Text: capital(errno.Error())})
		k.mu.Lock()
		k.note(syscall.WaitStatus(int(errno&0x7f) << 8))
		k.mu.Unlock()
	}
	for _, t := range k.tasks {
		if t.proc != nil {
			go k.await(t)
		}
	}
	return len(ranks)
}

// start starts one task, the i-th of this node.
func (k *keeper) start(t *task, i int) error {
	argv := k.argv(t.rank)
	if len(argv) == 0 {
		return fmt.Errorf("no program is named for it")
	}
	env := k.environ(t, i)
	if k.wiring != nil {
		env = append(env, k.wiring.environ(t.rank, i)...)
	}
	if k.begin.Receive == nil {
		for _, prolog := range []string{k.order.TaskProlog, string(k.begin.TaskProlog)} {
			if prolog != "" {
				env = k.prolog(prolog, t, env)
			}
		}
	}
	path, err := find(argv[0], env)
	if err != nil {
		k.notRun(t, argv[0], err)
		return err
	}
	var files []*os.File // the task's ends, closed here afterwards
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	t.env = env
	attr := &os.ProcAttr{Env: env, Sys: &syscall.SysProcAttr{Setpgid: true}}
	if k.begin.Pty && t.rank == 0 {
		master, slave, err := openTerminal(k.begin.Rows, k.begin.Columns)
		if err != nil {
			return err
		}
		t.pty = master
		files = append(files, slave)
		attr.Files = []*os.File{slave, slave, slave}
		attr.Sys = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	} else if attr.Files, err = k.streams(t, &files); err != nil {
		return err
	}
	if k.wiring != nil {
		if err := k.wiring.connect(t.rank, i, attr, &files); err != nil {
			return err
		}
	}
	t.proc, err = k.spawn(t, i, path, argv, attr)
	if err != nil {
		k.notRun(t, argv[0], err)
		if t.stdin != nil {
			t.stdin.end()
		}
		return err
	}
	if t.pty != nil {
		t.stdin = newFeed(t.pty, k.taken, true)
		t.pump(k, t.pty, KindStdout)
	}
	return nil
}

func (k *keeper) argv(rank uint32) (out []string) {
	for _, p := range k.begin.Programs {
		if len(p.Tasks) == 0 || events.Words(p.Tasks).Has(rank) {
			for _, a := range p.Argv {
				out = append(out, string(a))
			}
			return out
		}
	}
	return nil
}

// find finds a program on the PATH of the task's environment; where there is none (--export=NONE) only the working directory is looked into.
func find(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	path := ""
	for _, nv := range env {
		if v, ok := strings.CutPrefix(nv, "PATH="); ok {
			path = v
		}
	}
	var worst error = syscall.ENOENT
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "."
		}
		at := dir + "/" + name
		switch err := executable(at); {
		case err == nil:
			return at, nil
		case errors.Is(err, syscall.EACCES):
			worst = syscall.EACCES
		}
	}
	return "", worst
}

func executable(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return syscall.EACCES
	}
	return unix.Access(path, unix.X_OK)
}

// environ is a task's complete environment: the launcher's, the node's, the task's.
func (k *keeper) environ(t *task, i int) []string {
	set := map[string]int{}
	var out []string
	put := func(nv string) {
		name, _, _ := strings.Cut(nv, "=")
		if at, ok := set[name]; ok {
			out[at] = nv
			return
		}
		set[name] = len(out)
		out = append(out, nv)
	}
	for _, list := range [][][]byte{k.begin.Environ, k.order.Environ} {
		for _, nv := range list {
			put(string(nv))
		}
	}
	if i < len(k.order.TaskEnviron) {
		for _, nv := range k.order.TaskEnviron[i].Environ {
			put(string(nv))
		}
	}
	if k.within != nil {
		put("SLURM_NODEID=" + strconv.FormatUint(uint64(k.order.Node+k.within.Nodes), 10))
		put("SLURM_GTIDS=" + joined(k.order.Tasks))
	}
	put("SLURM_PROCID=" + strconv.FormatUint(uint64(t.rank), 10))
	put("SLURM_LOCALID=" + strconv.Itoa(i))
	return out
}

func joined(ranks []uint32) string {
	words := make([]string, len(ranks))
	for i, r := range ranks {
		words[i] = strconv.FormatUint(uint64(r), 10)
	}
	return strings.Join(words, ",")
}

// await waits for the end of a task, passes on what it has written last, and tells.
func (k *keeper) await(t *task) {
	state, err := t.proc.Wait()
	if k.wiring != nil {
		k.wiring.gone(t.rank)
	}
	for _, epilog := range []string{string(k.begin.TaskEpilog), k.order.TaskEpilog} {
		if epilog != "" {
			k.epilog(epilog, t)
		}
	}
	for _, drain := range t.drains {
		drain()
	}
	t.pumps.Wait()
	if t.stdin != nil {
		t.stdin.end()
	}
	told := &Told{Tasks: []uint32{t.rank}, Code: 1}
	var ws syscall.WaitStatus = 1 << 8
	if err == nil {
		ws = state.Sys().(syscall.WaitStatus)
		told.Code = 0
		if ws.Signaled() {
			told.Signal, told.Core = uint32(ws.Signal()), ws.CoreDump()
		} else {
			told.Code = uint32(ws.ExitStatus())
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := killed(k.counts); n > k.oom { // since the last task has ended, so it was this one's, or on its account
		k.oom = n
		told.Code, told.Signal, told.Core = 0, events.SignalOOM, false
	}
	k.peer.Tell(KindExited, 0, told)
	t.exited = true
	k.note(ws)
	if k.live--; k.live == 0 {
		close(k.closed)
	}
}

// note keeps the worst end: a signal counts more than a code. The caller holds k.mu.
func (k *keeper) note(ws syscall.WaitStatus) {
	rank := func(w syscall.WaitStatus) int {
		if w.Signaled() {
			return 1000 + int(w.Signal())
		}
		return w.ExitStatus()
	}
	if rank(ws) > rank(k.worst) {
		k.worst = ws
	}
}

// listen does what the launcher says, until it is gone: then what runs is ended.
func (k *keeper) listen() {
	for {
		f, err := k.peer.Next()
		if err != nil {
			k.mu.Lock()
			k.hung = true
			k.mu.Unlock()
			k.meets.hangUp()
			for _, t := range k.tasks { // nobody reads any more
				if t.pty != nil {
					t.pty.Close()
				}
			}
			k.end(false)
			return
		}
		switch f.Kind {
		case KindStdin:
			k.stdin(f)
		case KindSignal:
			k.signal(syscall.Signal(f.Number))
		case KindSize:
			if len(f.Data) == 4 {
				for _, t := range k.tasks {
					if t.pty != nil {
						unix.IoctlSetWinsize(int(t.pty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: binary.BigEndian.Uint16(f.Data), Col: binary.BigEndian.Uint16(f.Data[2:])})
					}
				}
			}
		case KindEnd:
			k.end(f.Number == 1)
		case KindGather:
			m := &Gather{}
			if m.UnmarshalVT(f.Data) == nil {
				k.meets.answered(m)
			}
		case KindFetch:
			m := &Fetch{}
			if m.UnmarshalVT(f.Data) == nil {
				k.fetched(m)
			}
		}
	}
}

func (k *keeper) stdin(f Frame) {
	last := len(k.tasks) - 1
	share := &sharing{bytes: len(f.Data), told: k.taken}
	var to []*feed
	for i, t := range k.tasks {
		if t.stdin != nil && (f.Number == AllTasks || f.Number == t.rank) && i <= last {
			to = append(to, t.stdin)
		}
	}
	share.left = len(to)
	if len(to) == 0 {
		k.taken(len(f.Data))
		return
	}
	for _, feed := range to {
		feed.put(f.Data, share)
	}
}

// taken tells the launcher that so many bytes more may come.
func (k *keeper) taken(n int) {
	if n > 0 {
		k.peer.Send(KindTaken, uint32(n), nil)
	}
}

// signal signals the process groups of the tasks.
func (k *keeper) signal(sig syscall.Signal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, t := range k.tasks {
		if t.proc != nil && !t.exited {
			if syscall.Kill(-t.proc.Pid, sig) != nil {
				syscall.Kill(t.proc.Pid, sig)
			}
		}
	}
}

// end ends what runs: TERM and after a while KILL, or KILL at once.
func (k *keeper) end(now bool) {
	if now {
		k.signal(syscall.SIGKILL)
		return
	}
	k.signal(syscall.SIGCONT)
	k.signal(syscall.SIGTERM)
	k.once.Do(func() {
		time.AfterFunc(time.Duration(k.order.KillWaitS)*time.Second, func() { k.signal(syscall.SIGKILL) })
	})
}
