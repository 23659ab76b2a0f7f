package tasks

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

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
	defer k.bindMemory(t, i)()
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
			k.tellBound(t, i, p.Pid, attr)
			k.letGo(t, p.Pid)
			return p, nil
		case err == nil:
			k.tellBound(t, i, p.Pid, attr)
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

// tellBound tells of a task's CPUs before it runs: in the standard error of the first task of the node where that goes to srun, as the real
// one does, and else in the task's own.
func (k *keeper) tellBound(t *task, i, pid int, attr *os.ProcAttr) {
	if i >= len(k.order.Affinity) || k.order.Affinity[i].Told == "" {
		return
	}
	line := fmt.Sprintf(k.order.Affinity[i].Told, pid)
	switch way := k.begin.Stderr.GetWay(); {
	case k.begin.Pty, way != Way_LAUNCHER && (way != Way_SAME || k.begin.Stdout.GetWay() != Way_LAUNCHER):
		if len(attr.Files) > 2 && attr.Files[2] != nil {
			attr.Files[2].WriteString(line + "\n")
		}
	default:
		k.peer.Send(KindStderr, k.tasks[0].rank, []byte(line+"\n"))
	}
}

// The kernel's policies of memory (set_mempolicy(2)).
const (
	policyDefault   = 0
	policyPreferred = 1
	policyBind      = 2
	policyLocal     = 4
)

// memoryOf is the policy for the task that is the i-th here: local, or the nodes of memory it is bound to.
func (m *Memory) memoryOf(i int) (policy int, nodes uint64) {
	nth := func() uint64 {
		if len(m.List) == 0 {
			return 0
		}
		return m.List[i%len(m.List)]
	}
	switch m.GetKind() {
	case "local":
		return policyLocal, 0
	case "rank":
		nodes = 1 << (i % 64)
	case "map_mem":
		nodes = 1 << (nth() % 64)
	case "mask_mem":
		nodes = nth()
	default:
		return policyDefault, 0
	}
	if m.Prefer {
		return policyPreferred, nodes
	}
	return policyBind, nodes
}

// bindMemory has what this thread starts next get its memory where the step wants it, until restore. What the machine has not got is said.
func (k *keeper) bindMemory(t *task, i int) (restore func()) {
	policy, nodes := k.begin.GetMemory().memoryOf(i)
	if policy == policyDefault {
		return func() {}
	}
	if k.begin.Memory.Kind == "rank" { // as many as there are, and again from the first
		if n := memoryNodes(); n > 0 {
			nodes = 1 << (i % n)
		}
	}
	mask, size := uintptr(unsafe.Pointer(&nodes)), uintptr(64)
	if policy == policyLocal {
		mask, size = 0, 0
	}
	if _, _, errno := unix.Syscall(unix.SYS_SET_MEMPOLICY, uintptr(policy), mask, size); errno != 0 {
		k.say("slurmstepd: error: task %d: memory cannot be bound (--mem-bind=%s): %v", t.rank, k.begin.Memory.Kind, errno)
		return func() {}
	}
	return func() { unix.Syscall(unix.SYS_SET_MEMPOLICY, policyDefault, 0, 0) }
}

// memoryNodes is how many nodes of memory the machine has.
func memoryNodes() int {
	list, _ := filepath.Glob("/sys/devices/system/node/node[0-9]*")
	return len(list)
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
	return changed(env, string(out), func(text string) { k.peer.Send(KindStdout, t.rank, []byte(text+"\n")) })
}

// changed is an environment after what a prolog has printed; what is to be printed for the task is passed on.
func changed(env []string, out string, print func(string)) []string {
	for line := range strings.Lines(out) {
		word, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		name, _, _ := strings.Cut(rest, "=")
		keep := env[:0:0]
		switch word {
		case "print":
			print(rest)
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

// epilog runs a program after a task. What it says of errors comes out as the task's does; what it prints nobody sees, as in Slurm.
func (k *keeper) epilog(program string, t *task) {
	cmd := exec.Command(program)
	cmd.Env = t.env
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	if said.Len() > 0 {
		k.peer.Send(KindStderr, t.rank, said.Bytes())
	}
	if err != nil {
		k.say("slurmstepd: error: task %d: the epilog %s: %v", t.rank, program, err)
	}
}
