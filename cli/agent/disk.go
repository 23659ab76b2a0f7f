package agent

import (
	"fmt"

	"golang.org/x/sys/unix"

	"stint/cli/wire"
	"stint/events"
)

// The log's disk must never be full, or nothing is recorded: no end of a job, no decision. So where it lies on this host, new jobs
// are the first that it has no room for; what runs still ends, and is recorded, long after.
const (
	roomForJobs = 32 << 20 // bytes free below which no job is taken
	roomForActs = 16 << 20 // … below which the bus, if it failed to write, does not try again (server.room)
)

// free returns how many bytes can be written where dir is; if that cannot be known, as many as one likes.
func free(dir string) uint64 {
	var fs unix.Statfs_t
	if dir == "" || unix.Statfs(dir, &fs) != nil {
		return ^uint64(0)
	}
	return fs.Bavail * uint64(fs.Bsize)
}

// full refuses new jobs when the log's disk is nearly full; nil: there is room.
func (a *Agent) full() *wire.Response {
	left := free(a.cfg.LogDir)
	if left >= roomForJobs {
		return nil
	}
	return refuse(events.Code_OK, fmt.Sprintf("nothing was submitted: %s, where the cluster's log is, has %d MiB free, and below %d MiB no new jobs are taken; running jobs go on, and new ones are taken as soon as there is room",
		a.cfg.LogDir, left>>20, roomForJobs>>20))
}

// short says what the log's disk lacks when the bus takes nothing, as the tail of a sentence.
func (a *Agent) short() string {
	if left := free(a.cfg.LogDir); left < roomForActs {
		return fmt.Sprintf(": %s, where the cluster's log is, has %d MiB free and is full; make room there", a.cfg.LogDir, left>>20)
	}
	return " (`stint status` and `stint doctor` say what is wrong)"
}
