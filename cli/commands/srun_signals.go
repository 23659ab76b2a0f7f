package commands

import (
	"encoding/binary"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"stint/executor/tasks"
)

// What comes from outside while tasks run: signals, and the terminal that srun stands on.

// aborted says that the step is being ended from outside.
func (l *launcher) aborted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.aborting || l.parts[0].created == nil {
		return
	}
	l.aborting = true
	l.say("Job step aborted: Waiting up to %d seconds for job step to finish.", l.parts[0].created.KillWaitS+2)
}

// silence is how much longer than the site's KillWait nodes may say nothing once the allocation is taken away: what is lost never says a word.
const silence = 10 * time.Second

// revoked is called when the allocation was taken away. The nodes that are left end the step themselves; who is not heard of is gone.
func (l *launcher) revoked() {
	l.aborted()
	wait := silence
	if created := l.parts[0].created; created != nil {
		wait += time.Duration(created.KillWaitS) * time.Second
	}
	time.AfterFunc(wait, func() {
		for _, n := range l.nodes {
			if n.peer != nil {
				n.peer.Close()
			}
		}
	})
}

// heed passes signals on until the step is over.
func (l *launcher) heed() {
	var last time.Time
	for {
		select {
		case <-l.finished:
			return
		case s := <-l.told:
			sig := s.(syscall.Signal)
			switch sig {
			case syscall.SIGCONT:
			case syscall.SIGPIPE:
			case syscall.SIGINT:
				switch {
				case l.s.Quit || l.s.NoStatus && last.IsZero() || !last.IsZero() && time.Since(last) <= time.Second:
					for _, c := range l.parts {
						l.say("sending Ctrl-C to StepId=%s", c.id())
					}
					go func() {
						l.signalAll(syscall.SIGCONT)
						l.signalAll(sig)
						l.aborted()
						time.AfterFunc(time.Duration(l.parts[0].created.KillWaitS)*time.Second, func() { l.endAll(true) })
					}()
				default:
					l.say("interrupt (one more within 1 sec to abort)")
					l.status()
				}
				last = time.Now()
			case syscall.SIGTERM, syscall.SIGHUP:
				l.say("forcing job termination")
				go func() {
					l.aborted()
					l.endAll(true)
				}()
			default:
				go l.signalAll(sig)
			}
		}
	}
}

// size is the size of the terminal that srun stands on.
func (l *launcher) size() (rows [2]uint16, ok bool) {
	for _, f := range []any{l.w.Stdin, l.w.Stdout} {
		if t, is := f.(*os.File); is {
			if w, h, err := term.GetSize(int(t.Fd())); err == nil {
				return [2]uint16{uint16(h), uint16(w)}, true
			}
		}
	}
	return rows, false
}

// terminal makes the terminal that srun stands on the other end of the task's, until restore.
func (l *launcher) terminal(begin *tasks.Begin) (restore func()) {
	if !l.s.Pty {
		return func() {}
	}
	if size, ok := l.size(); ok {
		begin.Rows, begin.Columns = uint32(size[0]), uint32(size[1])
	}
	in, isFile := l.w.Stdin.(*os.File)
	if !isFile || !term.IsTerminal(int(in.Fd())) {
		return func() {}
	}
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return func() {}
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	go func() {
		for range changed {
			if size, ok := l.size(); ok {
				data := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, size[0]), size[1])
				for _, n := range l.nodes {
					if n.peer != nil {
						n.peer.Send(tasks.KindSize, 0, data)
					}
				}
			}
		}
	}()
	return func() {
		signal.Stop(changed)
		term.Restore(int(in.Fd()), old)
	}
}
