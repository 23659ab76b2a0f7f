package supervisor

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// serve takes connections until the listener is closed.
func (s *supervisor) serve() {
	for {
		c, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of files, most likely: what runs goes on, and a file will be free again.
			s.log.Error("a connection cannot be accepted", "error", err)
			select {
			case <-s.finished:
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		if err := permitted(c); err != nil {
			s.log.Warn("a connection was refused", "error", err)
			c.Close()
			continue
		}
		go s.converse(c)
	}
}

// permitted lets in root and the user this process runs as.
func permitted(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) { cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if cerr != nil {
		return cerr
	}
	if cred.Uid != 0 && int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("user %d may not speak to this supervisor", cred.Uid)
	}
	return nil
}

// conversation is one connection.
type conversation struct {
	conn net.Conn
	mu   sync.Mutex
	buf  []byte
}

// say sends a reply; the error of a connection that is gone is found by its reader too.
func (c *conversation) say(replies ...*Reply) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buf = c.buf[:0]
	for _, r := range replies {
		var err error
		if c.buf, err = appendMessage(c.buf, r); err != nil {
			return err
		}
	}
	_, err := c.conn.Write(c.buf)
	return err
}

// converse answers the requests of one connection. Each is carried out on a goroutine of its own, so that a launch into
// a file system that does not answer holds up nothing else.
func (s *supervisor) converse(conn net.Conn) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		conn.Close()
		return
	}
	s.conns[conn] = true
	s.mu.Unlock()
	c := &conversation{conn: conn}
	gone := make(chan struct{})
	defer func() {
		close(gone)
		conn.Close()
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
	}()
	r := bufio.NewReaderSize(conn, 64<<10)
	for {
		req := &Request{}
		if err := readMessage(r, req); err != nil {
			return
		}
		go s.answer(c, req, gone)
	}
}

func (s *supervisor) answer(c *conversation, req *Request, gone <-chan struct{}) {
	done := func(n int, err error) *Reply {
		if err != nil {
			return &Reply{Error: err.Error()}
		}
		return &Reply{Answer: &Reply_Done{&Done{Reached: uint32(n)}}}
	}
	var r *Reply
	switch v := req.Verb.(type) {
	case *Request_Launch:
		l := &Launched{}
		started, e := s.launch(v.Launch)
		if e != nil {
			l.Failure, l.Detail = e.failure, e.detail
		} else {
			l.Started = started
		}
		r = &Reply{Answer: &Reply_Launched{l}}
	case *Request_Signal:
		g := v.Signal
		if g.Signal < 0 || g.Signal > 64 {
			r = done(0, fmt.Errorf("signal %d does not exist", g.Signal))
			break
		}
		if g.Text != "" {
			steps := s.once(s.stepsOf(g.Job, g.Run, g.Step), g.Number)
			for _, st := range steps {
				s.tellUser(st, speaker(st.launching.Node)+": error: "+g.Text+"\n")
			}
			r = done(len(steps), nil)
			break
		}
		r = done(s.deliver(s.once(s.stepsOf(g.Job, g.Run, g.Step), g.Number), syscall.Signal(g.Signal), g.Which))
	case *Request_Suspend:
		r = done(s.suspend(s.stepsOf(v.Suspend.Job, v.Suspend.Run, nil), v.Suspend.Resume))
	case *Request_Terminate:
		t := v.Terminate
		r = done(s.terminate(s.stepsOf(t.Job, t.Run, t.Step), t.Cause, max(0, t.KillWaitMs)), nil)
	case *Request_SetLimit:
		r = done(s.setLimit(s.stepsOf(v.SetLimit.Job, v.SetLimit.Run, v.SetLimit.Step), v.SetLimit.LeftMs), nil)
	case *Request_Look:
		r = &Reply{Answer: &Reply_Looked{s.look(v.Look)}}
	case *Request_List:
		r = &Reply{Answer: &Reply_Listed{s.list()}}
	case *Request_Acknowledge:
		r = done(s.acknowledge(v.Acknowledge.Keys))
	case *Request_Watch:
		s.tell(c, req.Id, gone)
		return
	case *Request_Upgrade:
		told := false
		err := s.upgrade(v.Upgrade.Path, func() {
			told = true
			_ = c.say(&Reply{Id: req.Id, Answer: &Reply_Done{&Done{}}})
		})
		if told {
			s.log.Error("the upgrade failed", "error", err)
			return
		}
		r = done(0, err)
	case *Request_Stop:
		if err := s.stop(v.Stop.Mode); err != nil {
			r = done(0, err)
			break
		}
		_ = c.say(&Reply{Id: req.Id, Answer: &Reply_Done{&Done{}}})
		s.leave()
		return
	default:
		r = done(0, errors.New("this supervisor does not know the request: it is older than who asks"))
	}
	r.Id = req.Id
	_ = c.say(r)
}

// tell streams to one watcher.
func (s *supervisor) tell(c *conversation, id uint64, gone <-chan struct{}) {
	w := s.subscribe()
	defer s.unsubscribe(w)
	go func() {
		<-gone
		w.close()
	}()
	for {
		batch := w.take()
		if batch == nil {
			return
		}
		for len(batch) > 0 {
			n := min(len(batch), 256)
			out := make([]*Reply, n)
			for i, r := range batch[:n] {
				out[i] = &Reply{Id: id, Answer: r.Answer} // others have the same one
			}
			if c.say(out...) != nil {
				c.conn.Close()
				return
			}
			batch = batch[n:]
		}
	}
}

// list describes what there is.
func (s *supervisor) list() *Listed {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &Listed{BootId: s.boot, Version: s.conf.Version, Pid: int32(s.pid)}
	now := monoNow()
	for _, st := range s.live {
		if st.birth == nil || st.birth.Held {
			out.Launching = append(out.Launching, st.launching.Key)
			continue
		}
		r := &Running{Started: st.started(), Suspended: st.order.Suspended, Adopted: st.adopted.Load(), LimitLeftMs: -1}
		switch {
		case st.order.KillAtMonoNs != 0:
			r.Cause, r.LimitLeftMs = st.order.Cause, 0
		case st.order.Suspended && st.order.SuspendedLeftNs > 0:
			r.LimitLeftMs = st.order.SuspendedLeftNs / int64(time.Millisecond)
		case st.order.AtMonoNs != 0:
			r.LimitLeftMs = max(0, (st.order.AtMonoNs-now)/int64(time.Millisecond))
		}
		out.Running = append(out.Running, r)
	}
	for _, x := range s.ended {
		out.Exited = append(out.Exited, x)
	}
	return out
}

// acknowledge turns ends into tombstones.
func (s *supervisor) acknowledge(keys []*Key) (int, error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	now := unixNow()
	var records []*Record
	s.mu.Lock()
	for _, k := range keys {
		i := idOf(k)
		if _, ok := s.ended[i]; !ok {
			continue
		}
		delete(s.ended, i)
		s.tombs[i] = now
		records = append(records, &Record{What: &Record_Tombstone{&Tombstone{Key: i.key(), AcknowledgedUnixNs: now}}})
	}
	s.mu.Unlock()
	if len(records) == 0 {
		return 0, nil
	}
	// Should it be lost, the end is told once more, which does no harm.
	return len(records), s.journal.append(inMemory, records...)
}
