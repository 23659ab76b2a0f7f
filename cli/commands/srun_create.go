package commands

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"stint/cli/wire"
	"stint/executor/tasks"
)

// The making of a step: where nodes reach srun, and the question to the first of them.

type arrival struct {
	peer *tasks.Peer
	node uint32
}

// listen opens a port for the nodes. Plain TCP: to look for the kernel's multipath TCP takes longer than all the rest.
func listen() (net.Listener, error) {
	c := net.ListenConfig{}
	c.SetMultipathTCP(false)
	return c.Listen(context.Background(), "tcp", ":0")
}

func (l *launcher) accept(from net.Listener) {
	for {
		c, err := from.Accept()
		if err != nil {
			return
		}
		go func() {
			peer, node, err := tasks.Meet(c, l.token)
			switch {
			case err != nil:
				c.Close() // somebody else's
			case node == tasks.Onlooker:
				l.attach(peer)
			default:
				l.peers <- arrival{peer, node}
			}
		}()
	}
}

// addresses are where nodes may reach this host: its loopback for those on it, then the others.
func addresses() []string {
	out := []string{"127.0.0.1"}
	list, _ := net.InterfaceAddrs()
	var six []string
	for _, a := range list {
		ip, ok := a.(*net.IPNet)
		switch {
		case !ok || ip.IP.IsLoopback() || ip.IP.IsLinkLocalUnicast():
		case ip.IP.To4() != nil:
			out = append(out, ip.IP.String())
		default:
			six = append(six, ip.IP.String())
		}
	}
	return append(out, six...)
}

// soonFree is how long a step waits for what another one is just giving back before anything is said of it; busyFor is how long one
// question waits afterwards.
const (
	soonFree = 300 * time.Millisecond
	busyFor  = 20 * time.Second
)

// create has the step made, as soon as there is room for it.
func (l *launcher) create() (code int, ok bool) {
	w := l.w
	nonce := make([]byte, 16)
	rand.Read(nonce)
	reach := addresses()
	ask := &tasks.Create{Job: l.job, Nonce: nonce, Want: l.want, WaitMs: uint32(soonFree.Milliseconds()), Launcher: &tasks.Launcher{
		Addresses: reach, Port: uint32(l.listener.Addr().(*net.TCPAddr).Port), Token: l.token, Host: w.Host, Boot: tasks.Boot(), Pid: uint32(os.Getpid())}}
	answers := make(chan *tasks.Reply, 1)
	errs := make(chan error, 1)
	var conn *wire.Conn
	put := func() {
		r, err := func() (*tasks.Reply, error) {
			var err error
			if conn == nil {
				if conn, err = w.dial("srun"); err != nil {
					return nil, err
				}
			}
			return conn.Step(&tasks.Question{What: &tasks.Question_Create{Create: ask}})
		}()
		if err != nil {
			errs <- err
			return
		}
		answers <- r
	}
	said := false
	for {
		go put()
		select {
		case err := <-errs:
			return l.fail("Unable to create step for job %d: %s", l.job, why(err)), false
		case s := <-l.told:
			if s == syscall.SIGCONT {
				continue
			}
			l.say("Cancelled pending step for job %d", l.job)
			return 128 + int(s.(syscall.Signal)), false
		case r := <-answers:
			switch {
			case r.Refusal == tasks.Refusal_NOT_REFUSED:
				l.created = r.Created
				l.siteSays(r.Created.Site)
				for _, p := range r.Created.Parts {
					l.count += len(p.Tasks)
					l.nodes = append(l.nodes, &nodeEnd{name: p.Node, tasks: p.Tasks, room: tasks.Window})
				}
				if said {
					l.say("Step created for StepId=%s", l.step())
				}
				if r.Created.Warning != "" {
					l.say("%s", r.Created.Warning)
				}
				conn.Close()
				return 0, true
			case r.Refusal == tasks.Refusal_BAD_PORT:
				if err := l.listenWithin(r.Text); err != nil {
					return l.fail("%v", err), false
				}
				ask.Launcher.Port = uint32(l.listener.Addr().(*net.TCPAddr).Port)
			case r.Refusal == tasks.Refusal_BUSY && l.s.Immediate == 0, r.Refusal == tasks.Refusal_NOT_RUNNING && l.s.Immediate == 0:
				if !said {
					said = true
					l.say("Job %d step creation temporarily disabled, retrying (%s)", l.job, r.Text)
				}
				ask.WaitMs = uint32(busyFor.Milliseconds())
				if r.Refusal == tasks.Refusal_NOT_RUNNING {
					select {
					case s := <-l.told:
						l.say("Cancelled pending step for job %d", l.job)
						return 128 + int(s.(syscall.Signal)), false
					case <-time.After(time.Second):
					}
				}
			case r.Refusal == tasks.Refusal_BAD_BIND:
				return l.notBound(r), false
			case r.Refusal == tasks.Refusal_TOO_MANY_NODES && l.want.MinNodes > 0:
				return l.fail("%s", capital(r.Text)), false
			default:
				return l.fail("Unable to create step for job %d: %s", l.job, r.Text), false
			}
		}
	}
}

// badBind is the exit code where tasks cannot be bound as --cpu-bind has it: Slurm's number of that error, as far as a code goes.
const badBind = 192

// notBound says why no task was started.
func (l *launcher) notBound(r *tasks.Reply) int {
	node, text, _ := strings.Cut(r.Text, ": ")
	for _, line := range []string{"error: " + text, fmt.Sprintf("error: Task launch for StepId=%d.%d failed on node %s: Unable to satisfy cpu bind request", l.job, r.GetCreated().GetStep(), node),
		"error: Application launch failed: Unable to satisfy cpu bind request", "Job step aborted"} {
		fmt.Fprintf(l.w.Stderr, "srun: %s\n", line)
	}
	return badBind
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
