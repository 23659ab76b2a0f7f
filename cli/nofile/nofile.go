// Package nofile knows the soft limit on open files that this process was started with. The Go runtime raises it before
// anything else runs, for its own sake, and tells nobody what it was; a job is to have what its submitter had. So this package
// asks the kernel while packages are initialised: it imports nothing, and its path sorts before that of package syscall,
// which does the raising, and the language initialises packages in that order.
package nofile

var (
	atStart [2]uint64 // soft, hard
	known   = read(&atStart) == 0
)

// Soft returns the soft limit as it was when the process was started; false: it is not known on this kind of machine.
func Soft() (limit uint64, ok bool) { return atStart[0], known }
