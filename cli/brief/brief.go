// Package brief has a program begin and end as cheaply as the Go runtime lets it: for commands, which do a little and end. A page that
// is touched for the first time costs a fault, and a thread that wakes for nothing costs more; most of what a command costs is these.
//
// It imports nothing but the runtime, and its path sorts before that of package sync, so it is initialised before anything that has
// work to do then.
package brief

import "runtime"

// As it is initialised, the first goroutine gets a stack that is large enough for what commands do. A stack begins at 2 KiB and grows
// by being copied to one of twice the size: each size has a pool of its own, whose pages are all touched when the first stack is
// taken from it, and each copy reads tables of all functions that are under way. Grown to 32 KiB at once, with few functions under way,
// only the pages that are used are ever touched.
//
// And it has one processor: with more, each goroutine that becomes ready wakes a thread that finds nothing to do.
var processors = begin()

func begin() int {
	grow()
	return runtime.GOMAXPROCS(1)
}

// grow needs so much stack that it has to be made larger first, and touches none of it.
func grow()

// Long gives back what Go programs have that do several things at once. With one processor, a goroutine that blocks in a system call
// would keep the others waiting for some milliseconds.
func Long() { runtime.GOMAXPROCS(processors) }
