package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"stint/executor/tasks"
)

// StepBatch is the step number of a job's batch script.
const StepBatch uint32 = 0xfffffffb

// NoLimit is the value of an Rlimit that does not limit.
const NoLimit = ^uint64(0)

// check refuses what cannot be carried out by any supervisor, or not by this one.
func check(l *Launch) *launchError {
	switch {
	case l.Key == nil || l.Key.Job == 0:
		return failed(Failure_INVALID, "the request names no job")
	case len(l.Script) == 0 && len(l.Argv) == 0:
		return failed(Failure_INVALID, "the request names nothing to execute")
	case l.TimeLimitMs < 0, l.KillWaitMs < 0:
		return failed(Failure_INVALID, "the request has a negative time limit or kill wait")
	case l.Nice < -20 || l.Nice > 19:
		return failed(Failure_INVALID, "a nice value of %d does not exist", l.Nice)
	case l.Umask > 0o777:
		return failed(Failure_INVALID, "a umask of %#o does not exist", l.Umask)
	}
	for _, v := range l.Env {
		if bytes.IndexByte(v, 0) >= 0 {
			return failed(Failure_INVALID, "a variable of the environment holds a zero byte: %q", v)
		}
	}
	for _, a := range l.Argv {
		if bytes.IndexByte(a, 0) >= 0 {
			return failed(Failure_INVALID, "an argument holds a zero byte: %q", a)
		}
	}
	if me := os.Geteuid(); me != 0 && int(l.Uid) != me {
		return failed(Failure_NOT_PERMITTED, "the job belongs to user %d, and this node's supervisor serves only user %d, who started it", l.Uid, me)
	}
	return nil
}

// born is what a launch made.
type born struct {
	birth    *Birth
	pidfd    int
	stderr   *os.File
	warnings []string
}

// bring makes the process of a step, on one of the prepared threads. When it returns without error the process stands
// before its first instruction, in its group, with its limits; release lets it run, and must be called on all paths.
// record is called with its birth in between.
func (s *supervisor) bring(l *Launch, spool string, cage Confinement, record func(*born) error) (b *born, err error) {
	who := identity{l.Uid, l.Gid, l.Groups}
	argv := make([]string, 0, len(l.Argv)+1)
	program := ""
	if len(l.Script) > 0 {
		if program, err = writeScript(spool, l.Script, who); err != nil {
			return nil, unfit(Failure_SPOOL, "spool", err)
		}
		for _, a := range l.Through {
			argv = append(argv, string(a))
		}
		argv = append(argv, program)
		program = argv[0]
	} else {
		program = string(l.Argv[0])
	}
	for _, a := range l.Argv {
		argv = append(argv, string(a))
	}
	env := make([]string, len(l.Env))
	for i, v := range l.Env {
		env[i] = string(v)
	}
	terr := s.threads.do(func() (sound bool) {
		b, sound, err = s.fork(l, who, program, argv, env, cage, record)
		return sound
	})
	if terr != nil {
		return nil, failed(Failure_FORK, "%v", terr)
	}
	return b, err
}

// fork is bring's part on the thread, which is not sound any more if it could not leave the step's group.
func (s *supervisor) fork(l *Launch, who identity, program string, argv, env []string, cage Confinement, record func(*born) error) (b *born, sound bool, err error) {
	syscall.Umask(int(l.Umask))
	files, err := enterAndOpen(l, who)
	defer func() { _ = unix.Chdir("/") }() // hold no directory that somebody may want to unmount
	if err != nil {
		return nil, true, err
	}
	defer files.close()

	if !strings.Contains(program, "/") {
		if program, err = lookPath(program, env); err != nil {
			return nil, true, failed(Failure_EXEC, "%v", err)
		}
	}
	b = &born{pidfd: -1}
	sys := &syscall.SysProcAttr{Setsid: true, PidFD: &b.pidfd, Ptrace: true}
	if os.Geteuid() == 0 {
		sys.Credential = &syscall.Credential{Uid: l.Uid, Gid: l.Gid, Groups: l.Groups}
	} else if int(l.Gid) != os.Getegid() {
		b.warnings = append(b.warnings, fmt.Sprintf("the job was submitted under group %d and runs under group %d: only a supervisor of root can change it", l.Gid, os.Getegid()))
	}
	leave := func() error { return nil }
	if cage != nil {
		if leave, err = cage.Enter(sys); err != nil {
			return nil, leave() == nil, unfit(Failure_CAGE, "control group", err)
		}
	}
	if l.PidVariable != "" {
		env = append(env, tasks.PidPlace(l.PidVariable))
	}
	attr := &syscall.ProcAttr{Env: env, Files: []uintptr{files.in.Fd(), files.out.Fd(), files.err.Fd()}, Sys: sys}

	s.forks.RLock()
	pid, traced, err := forkExec(program, argv, attr, l.PidVariable != "")
	standing, serr := false, error(nil) // at its exec, and not killed meanwhile
	if err == nil {
		if traced { // at once: until then it would run on, unrecorded, if this supervisor were killed
			standing, serr = awaitExecStop(pid)
		}
		s.addMain(pid)
	}
	s.forks.RUnlock()
	lerr := leave()
	if err != nil {
		why := explainExec(program, l, err)
		if why.code != 0 {
			files.tell("slurmstepd: error: execve(): " + why.detail + "\n")
		}
		return nil, lerr == nil, why
	}
	if lerr != nil {
		s.log.Warn("a thread cannot leave a job's control group, and is given up", "step", idOf(l.Key).String(), "error", lerr)
	}
	if b.pidfd < 0 {
		s.abandon(pid, -1, traced)
		return nil, lerr == nil, failed(Failure_FORK, "this kernel gives no descriptor for a process (Linux 5.4 or later is needed)")
	}
	if serr != nil {
		s.abandon(pid, b.pidfd, true)
		return nil, lerr == nil, failed(Failure_FORK, "the new process did not come to its exec: %v", serr)
	}
	b, err = s.settle(l, b, pid, traced, standing, files, record)
	return b, lerr == nil, err
}

// settle sets the limits of a process that stands at its exec, records it, and lets it run.
func (s *supervisor) settle(l *Launch, b *born, pid int, traced, standing bool, files *stdio, record func(*born) error) (*born, error) {
	b.birth = &Birth{Key: l.Key, Pid: int32(pid), StartedUnixNs: unixNow(), StartedMonoNs: monoNow(), Held: standing}
	st, err := readStat(pid)
	if err != nil {
		s.abandon(pid, b.pidfd, traced)
		return nil, failed(Failure_FORK, "the new process cannot be looked at: %v", err)
	}
	b.birth.StartTicks = st.startTicks
	if standing && l.PidVariable != "" {
		if err := tasks.FillPid(pid, l.PidVariable); err != nil {
			b.warnings = append(b.warnings, fmt.Sprintf("%s cannot be set: %v", l.PidVariable, err))
		}
	}
	restore := asOwner(l, pid)
	for _, r := range l.Rlimits {
		soft, hard := setLimit(pid, r)
		if soft != "" {
			files.tell(soft + "\n")
		}
		for _, w := range []string{soft, hard} {
			if w != "" {
				b.warnings = append(b.warnings, w)
			}
		}
	}
	restore()
	if l.Nice != 0 {
		if err := unix.Setpriority(unix.PRIO_PROCESS, pid, int(l.Nice)); err != nil {
			b.warnings = append(b.warnings, fmt.Sprintf("the priority cannot be set to nice %d: %v", l.Nice, err))
		}
	}
	if w := s.setOOMScore(pid, l); w != "" {
		b.warnings = append(b.warnings, w)
	}
	if fd, err := unix.FcntlInt(files.err.Fd(), unix.F_DUPFD_CLOEXEC, 3); err == nil {
		b.stderr = os.NewFile(uintptr(fd), files.stderrPath)
	}
	if err := record(b); err != nil {
		if b.stderr != nil {
			b.stderr.Close()
		}
		s.abandon(pid, b.pidfd, traced)
		return nil, unfit(Failure_JOURNAL, "journal", err)
	}
	if standing {
		if err := syscall.PtraceDetach(pid); err != nil && !isGone(err) {
			// It can neither run nor be let go: its end will be seen like any other.
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return b, nil
}

// forkExec forks and executes with a trace stop; where tracing is forbidden, without one (then limits are set a moment
// after the program has begun, and the last variable, which is to hold the process's number, is left out).
func forkExec(program string, argv []string, attr *syscall.ProcAttr, placeholder bool) (pid int, traced bool, err error) {
	// The kernel refuses to execute a file that any process has open for writing, which one just forked may still have
	// for an instant.
	for range 20 {
		pid, err = syscall.ForkExec(program, argv, attr)
		if errors.Is(err, unix.ETXTBSY) {
			time.Sleep(time.Millisecond)
			continue
		}
		if errors.Is(err, unix.EPERM) && attr.Sys.Ptrace {
			attr.Sys.Ptrace = false
			if placeholder {
				attr.Env = attr.Env[:len(attr.Env)-1]
			}
			continue
		}
		break
	}
	return pid, attr.Sys.Ptrace, err
}

// awaitExecStop waits until a traced child stands at its exec. False: it was killed before.
func awaitExecStop(pid int) (bool, error) {
	for {
		// Without reaping, should it have been killed instead.
		info, _, err := waitid(pid, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT)
		if err != nil {
			return false, err
		}
		if info.over() {
			return false, nil
		}
		var ws syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &ws, syscall.WALL, nil); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return false, err
		}
		if ws.Stopped() && ws.StopSignal() == syscall.SIGTRAP {
			// Should this supervisor be killed now, the child must not run unrecorded.
			_ = syscall.PtraceSetOptions(pid, unix.PTRACE_O_EXITKILL)
			return true, nil
		}
		if ws.Stopped() {
			if err := syscall.PtraceCont(pid, int(ws.StopSignal())); err != nil && !isGone(err) {
				return false, err
			}
		}
	}
}

// abandon ends a process that has not run yet, and forgets it.
func (s *supervisor) abandon(pid, pidfd int, traced bool) {
	_ = syscall.Kill(pid, syscall.SIGKILL)
	if traced {
		_ = syscall.PtraceDetach(pid)
	}
	for {
		var ws syscall.WaitStatus
		_, err := syscall.Wait4(pid, &ws, syscall.WALL, nil)
		if errors.Is(err, unix.EINTR) || err == nil && ws.Stopped() {
			continue
		}
		break
	}
	if pidfd >= 0 {
		unix.Close(pidfd)
	}
	s.dropMain(pid)
}

// asOwner makes the real user and group of this thread the job's, where the kernel would not let root see to the limits of
// another user's process otherwise: it lets one's own, or whoever may raise limits at all (CAP_SYS_RESOURCE), which in a
// container root often may not. Where it may, nothing is done: while a thread's real user is the job's, that user could send
// it signals.
func asOwner(l *Launch, pid int) (restore func()) {
	var have unix.Rlimit
	if len(l.Rlimits) == 0 || os.Geteuid() != 0 || l.Uid == 0 || !errors.Is(prlimit(pid, l.Rlimits[0].Resource, nil, &have), unix.EPERM) {
		return func() {}
	}
	const keep = ^uintptr(0)
	gid := uintptr(os.Getgid())
	unix.RawSyscall(unix.SYS_SETRESGID, uintptr(l.Gid), keep, keep)
	unix.RawSyscall(unix.SYS_SETRESUID, uintptr(l.Uid), keep, keep)
	return func() {
		unix.RawSyscall(unix.SYS_SETRESUID, 0, keep, keep)
		unix.RawSyscall(unix.SYS_SETRESGID, gid, keep, keep)
	}
}

// setLimit sets one limit of a process as near to what was asked as is permitted. The sentences are for the user, when
// the soft or the hard limit is not what was asked for.
func setLimit(pid int, r *Rlimit) (soft, hard string) {
	want := unix.Rlimit{Cur: r.Soft, Max: max(r.Hard, r.Soft)}
	var have unix.Rlimit
	if err := prlimit(pid, r.Resource, nil, &have); err != nil {
		return fmt.Sprintf("the limit %s cannot be read: %v", limitName(r.Resource), err), ""
	}
	if have == want {
		return "", ""
	}
	err := prlimit(pid, r.Resource, &want, nil)
	if err == nil {
		return "", ""
	}
	near := unix.Rlimit{Cur: min(want.Cur, have.Max), Max: min(want.Max, have.Max)}
	if nerr := prlimit(pid, r.Resource, &near, nil); nerr != nil {
		return fmt.Sprintf("the limit %s cannot be set to %s: %v", limitName(r.Resource), amount(want.Cur), nerr), ""
	}
	if near.Cur != want.Cur {
		return fmt.Sprintf("the limit %s cannot be set to %s on this node (%v), it is %s", limitName(r.Resource), amount(want.Cur), err, amount(near.Cur)), ""
	}
	return "", fmt.Sprintf("the hard limit %s cannot be raised to %s on this node (%v), it is %s", limitName(r.Resource), amount(want.Max), err, amount(near.Max))
}

func amount(n uint64) string {
	if n == NoLimit {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

var limitNames = [...]string{"CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE", "MEMLOCK", "AS", "LOCKS", "SIGPENDING", "MSGQUEUE", "NICE", "RTPRIO", "RTTIME"}

func limitName(r uint32) string {
	if int(r) < len(limitNames) {
		return "RLIMIT_" + limitNames[r]
	}
	return "number " + strconv.Itoa(int(r))
}

// setOOMScore sets how willingly the kernel kills the process when memory runs out. Unless asked for, a step does not
// inherit the protection that a service may have.
func (s *supervisor) setOOMScore(pid int, l *Launch) string {
	score := min(int32(0), s.oomScore)
	if score != 0 {
		score = 0
	} else if l.OomScoreAdj == nil {
		return ""
	}
	if l.OomScoreAdj != nil {
		score = *l.OomScoreAdj
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), strconv.AppendInt(nil, int64(score), 10), 0o644); err != nil {
		return fmt.Sprintf("the score for the out-of-memory killer cannot be set to %d: %v", score, err)
	}
	return ""
}

// lookPath finds a program that was named without a slash in the PATH of its environment.
func lookPath(name string, env []string) (string, error) {
	path := "/usr/local/bin:/usr/bin:/bin"
	for _, v := range env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			path = p
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		p := filepath.Join(dir, name)
		if !strings.Contains(p, "/") {
			p = "./" + p
		}
		if st, err := os.Stat(p); err == nil && !st.IsDir() && st.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s is not in the PATH %s", name, path)
}

// explainExec says in a sentence why a program did not start.
func explainExec(program string, l *Launch, err error) *launchError {
	what := program
	if len(l.Script) > 0 {
		what = "the script's interpreter " + interpreter(l.Script)
	}
	switch {
	case errors.Is(err, unix.EAGAIN) && atOwnLimit(l.Uid):
		return failed(Failure_OWN_LIMIT, "no process can be made: user %d has as many on this node as a user may have", l.Uid)
	case errors.Is(err, unix.EAGAIN):
		return failed(Failure_FORK, "no process can be made: the limit on processes of this node is reached")
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return failed(Failure_FORK, "no process can be made: too many open files on this node")
	case errors.Is(err, unix.ENOMEM) && l.Cage.GetMemoryBytes() > 0 && l.Cage.GetMemoryBytes() <= leastMemory:
		return failed(Failure_OWN_LIMIT, "no process can be made with %d MiB of memory: the job is to ask for more", l.Cage.GetMemoryBytes()>>20)
	case errors.Is(err, unix.ENOMEM):
		return failed(Failure_FORK, "no process can be made: no memory")
	case errors.Is(err, unix.ENOENT):
		return notRun(2, "%s does not exist on this node", what)
	case errors.Is(err, unix.EACCES):
		return notRun(13, "%s may not be executed by user %d (permission denied, there or on the way to %s)", what, l.Uid, program)
	case errors.Is(err, unix.ENOEXEC):
		return notRun(8, "%s is not in a format that this node can execute", what)
	case errors.Is(err, unix.E2BIG):
		return notRun(7, "the environment and arguments are too long for the kernel (%d variables)", len(l.Env))
	}
	return failed(Failure_EXEC, "%s cannot be executed: %v", what, err)
}

// notRun is the error of a program that the kernel would not execute. The job then ends with the number of the kernel's error as its exit
// code, as if it had run.
func notRun(code int32, format string, args ...any) *launchError {
	e := failed(Failure_EXEC, format, args...)
	e.code = code
	return e
}

// interpreter is what stands after #! in a script.
func interpreter(script []byte) string {
	line, _, _ := bytes.Cut(script, []byte("\n"))
	rest, ok := bytes.CutPrefix(line, []byte("#!"))
	if !ok {
		return "(none: the script does not begin with #!)"
	}
	return strings.TrimSpace(string(rest))
}
