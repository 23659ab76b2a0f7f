package supervisor

import "syscall"

// Cages makes the groups that hold the processes of steps. On a real machine they are the kernel's control groups
// (package executor/cgroup); without any, steps are held together by session, parentage and environment alone, and
// nothing is enforced.
type Cages interface {
	// Name is what the group of a step is called, the same each time it is asked.
	Name(key *Key, uid uint32) string
	// Make makes that group, with its limits, within those of all of the job (nil: the same). The warnings are of what cannot be enforced here.
	Make(key *Key, uid uint32, job, limits *Cage) (c Confinement, warnings []string, err error)
	// endStrays ends and removes the groups of this node whose names nobody claims.
	endStrays(claimed map[string]bool) (found []string, err error)
	// Find returns a group that was made earlier. One that is gone is a Confinement without processes.
	Find(name string) (Confinement, error)
}

// Confinement is the group of one step.
type Confinement interface {
	// Enter arranges that what the calling thread forks next is born in the group, by attr or by moving the thread,
	// which the caller has locked. leave undoes it, and is to be called also when there is an error; a thread that
	// cannot leave must not fork for anybody else.
	Enter(attr *syscall.SysProcAttr) (leave func() error, err error)
	// Pids lists the processes in it.
	Pids() ([]int, error)
	// Kill sends SIGKILL to every process in it.
	Kill() error
	// Freeze stops every process where it is, or lets them go on.
	Freeze(on bool) error
	// Usage adds what the kernel has counted to u: times, peaks and sums that are better known than from samples.
	Usage(u *Usage) error
	// OOM tells whether the kernel has killed a process of it for memory.
	OOM() (bool, error)
	// Remove takes the group away. It must be empty.
	Remove() error
}
