package supervisor

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Whose fault it is that something does not start: what this node lacks takes it out of service, and the job starts
// elsewhere; what the job or its user lacks would be lacking on any node.

// OfNode says whether a failure is the node's own: any job would have met it here.
func (f Failure) OfNode() bool {
	switch f {
	case Failure_JOURNAL, Failure_SPOOL, Failure_CAGE, Failure_FORK:
		return true
	}
	return false
}

// unfit is a failure of the node's. The first words are what an administrator reads in a narrow column: what fails, and
// what the kernel says of it; where follows.
func unfit(f Failure, what string, err error) *launchError {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return failed(f, "%s: %v", what, err)
	}
	var path *os.PathError
	if errors.As(err, &path) {
		return failed(f, "%s: %v (%s %s)", what, errno, path.Op, path.Path)
	}
	if text := err.Error(); text != errno.Error() {
		return failed(f, "%s: %v (%s)", what, errno, text)
	}
	return failed(f, "%s: %v", what, errno)
}

// leastMemory is a memory limit up to which it is the job's own if no process can be made within it: the kernel counts
// stacks and page tables of a process that is just being born to its group.
const leastMemory = 64 << 20

// atOwnLimit says whether a user has as many processes on this node as the limit that this supervisor hands on allows.
// The kernel holds root to none.
func atOwnLimit(uid uint32) bool {
	var most unix.Rlimit
	if uid == 0 || unix.Getrlimit(unix.RLIMIT_NPROC, &most) != nil || most.Cur == unix.RLIM_INFINITY {
		return false
	}
	list, err := allProcesses()
	if err != nil {
		return false
	}
	count := uint64(0)
	for _, p := range list {
		var st unix.Stat_t
		dir := fmt.Sprintf("/proc/%d/task", p.pid)
		if unix.Stat(dir, &st) != nil || st.Uid != uid {
			continue
		}
		// The link count of the folder of threads is theirs and its own two.
		count += max(uint64(st.Nlink), 3) - 2
	}
	return count >= most.Cur
}
