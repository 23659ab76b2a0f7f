package tasks

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"stint/events"
)

// pidVariable is the variable that holds a task's own process id. A process's environment is fixed before it has a number, so a place
// is kept at its end, and filled while the process stands at its exec.
const pidVariable = "SLURM_TASK_PID"

// spawn starts a task's program on the task's CPUs, with its process id in its environment where it may be looked at while it starts.
func (k *keeper) spawn(t *task, i int, path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	runtime.LockOSThread() // who starts a traced process is its tracer; and what it starts has the CPUs of this thread
	defer runtime.UnlockOSThread()
	defer k.bind(i)()
	plain := attr.Env
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil && st.Mode&(unix.S_ISUID|unix.S_ISGID) == 0 { // which would not change its user while it is traced
		attr.Env = append(plain[:len(plain):len(plain)], PidPlace(pidVariable))
		attr.Sys.Ptrace = true
	}
	for try := 0; ; try++ {
		p, err := os.StartProcess(path, argv, attr)
		switch {
		case err == nil && attr.Sys.Ptrace:
			k.letGo(t, p.Pid)
			return p, nil
		case errors.Is(err, unix.EPERM) && attr.Sys.Ptrace:
			attr.Sys.Ptrace, attr.Env = false, plain
		case errors.Is(err, unix.ETXTBSY) && try < 20: // somebody has just written it
			time.Sleep(time.Millisecond)
		default:
			return p, err
		}
	}
}

// letGo fills in the process id of a task that stands at its exec, and lets it run.
func (k *keeper) letGo(t *task, pid int) {
	for {
		var ws syscall.WaitStatus
		_, err := syscall.Wait4(pid, &ws, syscall.WALL|syscall.WSTOPPED, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || !ws.Stopped() {
			return
		}
		if ws.StopSignal() == syscall.SIGTRAP {
			break
		}
		syscall.PtraceCont(pid, int(ws.StopSignal()))
	}
	if err := FillPid(pid, pidVariable); err != nil {
		k.say("slurmstepd: error: task %d: %s cannot be set: %v", t.rank, pidVariable, err)
	}
	syscall.PtraceDetach(pid)
}

// bind has what this thread starts next run on the task's CPUs, until restore.
func (k *keeper) bind(i int) (restore func()) {
	if i >= len(k.order.Affinity) || len(k.order.Affinity[i].Cpus) == 0 {
		return func() {}
	}
	var before, set unix.CPUSet
	events.Words(k.order.Affinity[i].Cpus).Each(func(n uint32) bool { set.Set(int(n)); return true })
	if err := unix.SchedGetaffinity(0, &before); err != nil || unix.SchedSetaffinity(0, &set) != nil {
		return func() {}
	}
	return func() { unix.SchedSetaffinity(0, &before) }
}

// prolog runs a program before a task, and changes the task's environment by what it prints: `export NAME=VALUE`, `unset NAME`, and
// `print TEXT` for the task's output.
func (k *keeper) prolog(program string, t *task, env []string) []string {
	cmd := exec.Command(program)
	cmd.Env = env
	out, err := cmd.Output()
	if err != nil {
		k.say("slurmstepd: error: task %d: the prolog %s: %v", t.rank, program, err)
	}
	for line := range strings.Lines(string(out)) {
		word, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		name, _, _ := strings.Cut(rest, "=")
		keep := env[:0:0]
		switch word {
		case "print":
			k.peer.Send(KindStdout, t.rank, []byte(rest+"\n"))
			continue
		case "export", "unset":
			for _, nv := range env {
				if !strings.HasPrefix(nv, name+"=") {
					keep = append(keep, nv)
				}
			}
			if word == "export" && strings.Contains(rest, "=") {
				keep = append(keep, rest)
			}
			env = keep
		}
	}
	return env
}

// epilog runs a program after a task.
func (k *keeper) epilog(program string, t *task) {
	cmd := exec.Command(program)
	cmd.Env = t.env
	if err := cmd.Run(); err != nil {
		k.say("slurmstepd: error: task %d: the epilog %s: %v", t.rank, program, err)
	}
}
