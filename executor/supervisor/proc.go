package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Ran is how long ago a step started, whatever the clock was set to since.
func (x *Started) Ran() time.Duration {
	if x.GetStartedMonoNs() == 0 { // told by a supervisor that does not say
		return time.Since(time.Unix(0, x.GetStartedUnixNs()))
	}
	return time.Duration(monoNow() - x.GetStartedMonoNs())
}

// monoNow is the machine's monotonic clock in nanoseconds: it means the same in every process until the machine is
// started anew, so it may be written to the journal.
func monoNow() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("the monotonic clock cannot be read: " + err.Error())
	}
	return ts.Nano()
}

// BootID names the time since the machine was started.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// stat is what /proc/pid/stat says of a process.
type stat struct {
	pid, ppid, group, session int
	state                     byte
	exiting                   bool // on its way out, and not yet a zombie
	startTicks                uint64
	userTicks                 uint64
	systemTicks               uint64
	majorFaults               uint64
	vmBytes                   uint64
	rssBytes                  uint64
	exitCode                  int // as wait tells it; 0 also for those who may not know
}

// pfExiting is the kernel's PF_EXITING among a process's flags.
const pfExiting = 0x4

var pageSize = uint64(os.Getpagesize())

// tickNs is what one clock tick of /proc lasts: USER_HZ is 100 on every architecture that Go runs on.
const tickNs = uint64(10 * time.Millisecond)

// readStat reads one process. A process that is gone is fs.ErrNotExist or ESRCH.
func readStat(pid int) (stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(b)
}

func parseStat(b []byte) (stat, error) {
	// The name may hold blanks and parentheses: the last one ends it.
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return stat{}, fmt.Errorf("not a process status: %q", b)
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b[:open])))
	if err != nil {
		return stat{}, fmt.Errorf("not a process status: %q", b)
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 22 {
		return stat{}, fmt.Errorf("short process status: %q", b)
	}
	num := func(field int) uint64 { // by its number in proc(5), from 3
		n, _ := strconv.ParseUint(f[field-3], 10, 64)
		return n
	}
	code := 0
	if len(f) >= 50 {
		code, _ = strconv.Atoi(f[52-3])
	}
	return stat{
		exitCode: code,
		exiting:  num(9)&pfExiting != 0,
		pid:      pid, state: f[0][0], ppid: int(num(4)), group: int(num(5)), session: int(num(6)), majorFaults: num(12),
		userTicks: num(14), systemTicks: num(15), startTicks: num(22), vmBytes: num(23), rssBytes: num(24) * pageSize,
	}, nil
}

// zombieStatus reads how a process ended that nobody has reaped yet. False when that is not so, or not for us to know.
func zombieStatus(pid int, startTicks uint64) (syscall.WaitStatus, bool) {
	p, err := readStat(pid)
	if err != nil || p.state != 'Z' || p.startTicks != startTicks {
		return 0, false
	}
	if me := os.Geteuid(); me != 0 {
		// The kernel shows a zero to those who may not look into the process.
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			return 0, false
		}
		n := strconv.Itoa(me)
		if !bytes.Contains(b, []byte("\nUid:\t"+n+"\t"+n+"\t"+n+"\t"+n+"\n")) {
			return 0, false
		}
	}
	return syscall.WaitStatus(p.exitCode), true
}

// killPending tells whether a process has a SIGKILL before it, which it has not died of yet.
func killPending(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return isGone(err)
	}
	for line := range strings.Lines(string(b)) {
		name, set, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64); err == nil && n&(1<<(uint(syscall.SIGKILL)-1)) != 0 {
			return true
		}
	}
	return false
}

// readIO reads what a process has read and written, of files and all else, as Slurm counts it; zeros where that is not told.
func readIO(pid int) (read, written uint64) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/io")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, _ := strconv.ParseUint(v, 10, 64)
		switch k {
		case "rchar":
			read = n
		case "wchar":
			written = n
		}
	}
	return read, written
}

// allProcesses lists every process there is.
func allProcesses() ([]stat, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var out []stat
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil {
			out = append(out, s)
		}
	}
	return out, nil
}

// adoptedChildren lists the orphans that have come to this process. The kernel gives them to its first thread; what
// this process forks itself belongs to the threads that launch, and is looked at one by one.
func adoptedChildren() ([]int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	if err != nil {
		return nil, err
	}
	var out []int
	for f := range strings.FieldsSeq(string(b)) {
		if pid, err := strconv.Atoi(f); err == nil {
			out = append(out, pid)
		}
	}
	return out, nil
}

// hasVariable tells whether a process was started with NAME=value in its environment. False also when that is not
// for us to read.
func hasVariable(pid int, assignment string) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for v := range bytes.SplitSeq(b, []byte{0}) {
		if string(v) == assignment {
			return true
		}
	}
	return false
}

// isGone tells whether an error of kill or /proc says that the process no longer exists.
func isGone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || errors.Is(err, os.ErrProcessDone)
}
