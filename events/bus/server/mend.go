package server

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	room      = 16 << 20        // bytes that must be free again before a server that ran out of them is restarted
	lookAgain = time.Second     // between two looks
	calm      = 5 * time.Second // between two restarts
)

// mend restarts the server when it can write again, after it could not, and ends it when Stop is called. A NATS server that failed to
// write once refuses all writing to that stream from then on: a disk that was full for a minute would stop the cluster until
// somebody comes. Nothing acknowledged is lost by a restart, and clients come back by themselves.
func (s *Server) mend() {
	defer close(s.gone)
	defer s.unlock()
	for {
		select {
		case <-s.stop:
			s.ns.Shutdown()
			s.ns.WaitForShutdown()
			return
		case <-s.says.cannotWrite:
		}
		s.log.Error("the bus cannot write; nothing is recorded until it can", "dir", s.opts.Dir, "free_bytes", free(s.opts.Dir))
		for free(s.opts.Dir) < room && s.wait(lookAgain) {
		}
		if !s.wait(lookAgain) {
			continue
		}
		s.log.Warn("the bus starts again, to write again", "dir", s.opts.Dir, "free_bytes", free(s.opts.Dir))
		for !s.restart() && s.wait(calm) {
		}
		s.wait(calm)
	}
}

// restart replaces the NATS server by a new one. Until it succeeds there is none.
func (s *Server) restart() (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
	if err := s.serve(); err != nil {
		s.log.Error("the bus could not start again", "dir", s.opts.Dir, "error", err)
		return false
	}
	return true
}

// wait pauses and returns false if Stop was called.
func (s *Server) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.stop:
		return false
	case <-t.C:
		return true
	}
}

// free returns how many bytes can be written where dir is; if that cannot be known, as many as one likes.
func free(dir string) uint64 {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return ^uint64(0)
	}
	return fs.Bavail * uint64(fs.Bsize)
}
