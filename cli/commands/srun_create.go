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
	of   *component // of a step; nil: of something else
	node uint32
}

// listen opens a port for the nodes. Plain TCP: to look for the kernel's multipath TCP takes longer than all the rest.
func listen() (net.Listener, error) {
	c := net.ListenConfig{}
	c.SetMultipathTCP(false)
	return c.Listen(context.Background(), "tcp", ":0")
}

func (l *launcher) accept(to *component, from net.Listener) {
	for {
		c, err := from.Accept()
		if err != nil {
			return
		}
		go func() {
			peer, node, err := tasks.Meet(c, to.token)
			switch {
			case err != nil:
				c.Close() // somebody else's
			case node == tasks.Onlooker:
				l.attach(to, peer)
			default:
				l.peers <- arrival{peer, to, node}
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

// create has the step made, as soon as there is room for it; of several components the part of one.
func (l *launcher) create(c *component) (code int, ok bool) {
	w := l.w
	if l.nonce == nil { // the same for all: so they have one number
		l.nonce = make([]byte, 16)
		rand.Read(l.nonce)
	}
	reach := addresses()
	ask := &tasks.Create{Job: c.job, Nonce: l.nonce, Want: c.s.Want, WaitMs: uint32(soonFree.Milliseconds()), Launcher: &tasks.Launcher{
		Addresses: reach, Port: uint32(c.listener.Addr().(*net.TCPAddr).Port), Token: c.token, Host: w.Host, Boot: tasks.Boot(), Pid: uint32(os.Getpid())}}
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
			return l.fail("Unable to create step for job %d: %s", c.job, why(err)), false
		case s := <-l.told:
			if s == syscall.SIGCONT {
				continue
			}
			l.say("Cancelled pending step for job %d", c.job)
			return 128 + int(s.(syscall.Signal)), false
		case r := <-answers:
			switch {
			case r.Refusal == tasks.Refusal_NOT_REFUSED:
				c.created, c.first, c.place = r.Created, l.count, len(l.nodes)
				l.siteSays(r.Created.Site)
				for _, p := range r.Created.Parts {
					for i := range p.Tasks {
						p.Tasks[i] += uint32(c.first)
					}
					c.count += len(p.Tasks)
					l.nodes = append(l.nodes, &nodeEnd{of: c, name: p.Node, tasks: p.Tasks, room: tasks.Window})
				}
				if l.count += c.count; said {
					l.say("Step created for StepId=%s", c.id())
				}
				if r.Created.Warning != "" {
					l.say("%s", r.Created.Warning)
				}
				conn.Close()
				return 0, true
			case r.Refusal == tasks.Refusal_BAD_PORT:
				if err := l.listenWithin(c, r.Text); err != nil {
					return l.fail("%v", err), false
				}
				ask.Launcher.Port = uint32(c.listener.Addr().(*net.TCPAddr).Port)
			case r.Refusal == tasks.Refusal_BUSY && l.s.Immediate == 0, r.Refusal == tasks.Refusal_NOT_RUNNING && l.s.Immediate == 0:
				if !said {
					said = true
					l.say("Job %d step creation temporarily disabled, retrying (%s)", c.job, r.Text)
				}
				ask.WaitMs = uint32(busyFor.Milliseconds())
				if r.Refusal == tasks.Refusal_NOT_RUNNING {
					select {
					case s := <-l.told:
						l.say("Cancelled pending step for job %d", c.job)
						return 128 + int(s.(syscall.Signal)), false
					case <-time.After(time.Second):
					}
				}
			case r.Refusal == tasks.Refusal_BAD_BIND:
				return l.notBound(c, r), false
			case r.Refusal == tasks.Refusal_TOO_MANY_NODES && c.s.Want.MinNodes > 0:
				return l.fail("%s", capital(r.Text)), false
			default:
				return l.fail("Unable to create step for job %d: %s", c.job, r.Text), false
			}
		}
	}
}

// badBind is the exit code where tasks cannot be bound as --cpu-bind has it: Slurm's number of that error, as far as a code goes.
const badBind = 192

// notBound says why no task was started.
func (l *launcher) notBound(c *component, r *tasks.Reply) int {
	node, text, _ := strings.Cut(r.Text, ": ")
	for _, line := range []string{"error: " + text, fmt.Sprintf("error: Task launch for StepId=%d.%d failed on node %s: Unable to satisfy cpu bind request", c.job, r.GetCreated().GetStep(), node),
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
