package supervisor

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// setThreadGroups sets the supplementary groups of the calling thread only; the library's function sets those of all.
func setThreadGroups(groups []uint32) error {
	var p unsafe.Pointer
	if len(groups) > 0 {
		p = unsafe.Pointer(&groups[0])
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(p), 0); e != 0 {
		return e
	}
	return nil
}

// prlimit sets or reads a limit of another process.
func prlimit(pid int, resource uint32, set, get *unix.Rlimit) error {
	return unix.Prlimit(pid, int(resource), set, get)
}

// exitInfo is the part of a siginfo that waitid fills for a child.
type exitInfo struct {
	signo, errno, code int32
	_                  int32
	pid                int32
	uid                uint32
	status             int32
	_                  [100]byte
}

// The values of exitInfo.code.
const (
	cldExited = 1
	cldKilled = 2
	cldDumped = 3
)

// waitid waits for a child as the flags say, and tells what it did. A process of another's making is ECHILD.
func waitid(pid, flags int) (info exitInfo, ru unix.Rusage, err error) {
	for {
		_, _, e := unix.Syscall6(unix.SYS_WAITID, unix.P_PID, uintptr(pid), uintptr(unsafe.Pointer(&info)),
			uintptr(flags), uintptr(unsafe.Pointer(&ru)), 0)
		switch e {
		case 0:
			return info, ru, nil
		case unix.EINTR:
			continue
		}
		return info, ru, e
	}
}

// peekExit looks at how a child ended, without reaping it: its number stays taken, and whoever asks next gets the same
// answer, a supervisor that follows this one by exec too. The third result is false while the child lives.
func peekExit(pid int) (exitInfo, unix.Rusage, bool, error) {
	info, ru, err := waitid(pid, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT)
	return info, ru, info.pid != 0 && info.over(), err
}

// over tells whether it is the end of a process that the information is about.
func (i exitInfo) over() bool {
	return i.code == cldExited || i.code == cldKilled || i.code == cldDumped
}

// exitOf asks the kernel how the process behind a descriptor ended, although it was not our child. Kernels before 6.15
// do not tell; then, and while it lives, ok is false.
func exitOf(pidfd int) (waitStatus int, ok bool) {
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(pidfd), unix.PIDFD_GET_INFO, uintptr(unsafe.Pointer(&info))); e != 0 {
		return 0, false
	}
	return int(info.Exit_code), info.Mask&unix.PIDFD_INFO_EXIT != 0
}
