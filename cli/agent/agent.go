// Package agent is the host's door to the cluster: one unix socket that every command of the host speaks to. It knows
// who calls from the kernel, resolves their names, holds them to limits, stores what they send and appends what they
// wish, and waits for the verdict. It has no fold of its own: what it shows it asks a controller or the ledger for.
package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"stint/cli/slurm/conf"
	"stint/cli/wire"
	"stint/events"
	"stint/events/bus"
	"stint/projections"
)

// Config is what an agent is told when it starts.
type Config struct {
	Bus     bus.Bus
	Host    string      // names the subject its intents go to
	Dir     string      // where the socket is
	Mode    os.FileMode // of the socket: 0666 where the agent serves every user of the host, 0600 for one user's cluster
	Only    *uint32     // if set, the only user that is served, root apart
	Version string
	Log     *slog.Logger
	Limits  Limits
	Names   *Names // nil: the host's
	Conf    string // path of slurm.conf, empty: there is none
	LogDir  string // where the bus keeps the log, if that is on this host
}

// Agent serves one host.
type Agent struct {
	cfg     Config
	log     *slog.Logger
	names   *Names
	limiter *limiter
	intents *intents
	calls   *calls
	rules   rules
	places  stepPlaces
	serving atomic.Int32 // connections
	busUp   atomic.Bool
	seen    atomic.Uint64 // the last sequence an answer to anybody here was current to: later answers are at least that
}

// New returns an agent that does not listen yet.
func New(cfg Config) (*Agent, error) {
	if cfg.Bus == nil || cfg.Host == "" || cfg.Dir == "" {
		return nil, errors.New("an agent needs a bus, a host name and a directory for its socket")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Mode == 0 {
		cfg.Mode = 0o600
	}
	if cfg.Names == nil {
		cfg.Names = NewNames()
	}
	a := &Agent{cfg: cfg, log: cfg.Log.With("host", cfg.Host), names: cfg.Names, limiter: newLimiter(cfg.Limits), calls: newCalls()}
	a.rules.requests = conf.OwnRequests()
	a.intents = newIntents(cfg.Bus.Events(), events.SubjectIntentHost(cfg.Host), a.log)
	return a, nil
}

// Listen makes the socket. A socket left behind by an agent that is gone is replaced; one that somebody answers on is
// an error.
func (a *Agent) Listen() (net.Listener, error) {
	if err := os.MkdirAll(a.cfg.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the agent's directory: %w", err)
	}
	path, done, err := wire.Address(a.cfg.Dir, wire.Socket)
	if err != nil {
		return nil, fmt.Errorf("opening the agent's directory: %w", err)
	}
	defer done()
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		c.Close()
		return nil, fmt.Errorf("another agent answers on %s", filepath.Join(a.cfg.Dir, wire.Socket))
	}
	// A fresh name first, then a rename: at no moment is the socket there with another mode than it is to have.
	temporary := fmt.Sprintf(".%s.%d", wire.Socket, os.Getpid())
	fresh, done2, err := wire.Address(a.cfg.Dir, temporary)
	if err != nil {
		return nil, err
	}
	defer done2()
	os.Remove(fresh)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listening in %s: %w", a.cfg.Dir, err)
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(fresh, a.cfg.Mode); err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		l.Close()
		os.Remove(fresh)
		return nil, fmt.Errorf("making the agent's socket: %w", err)
	}
	return l, nil
}

// Run listens and serves until ctx ends (nil) or the socket fails.
func (a *Agent) Run(ctx context.Context) error {
	l, err := a.Listen()
	if err != nil {
		return err
	}
	return a.Serve(ctx, l)
}

// tellEvery is how often an agent says what its answers are current to. There may be as many as there are hosts.
const tellEvery = 5 * time.Second

// Serve serves the connections of l until ctx ends.
func (a *Agent) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := a.cfg.Bus.OnStatus(func(s bus.Status) { a.busUp.Store(s.State == bus.Up) })
	defer stop()
	var serving sync.WaitGroup
	serving.Go(func() { a.intents.run(ctx) })
	go bus.Tell(ctx, a.cfg.Bus.Wire(), events.SubjectStanding, tellEvery, func() []byte {
		data, _ := (&projections.Standing{Kind: "agent", Name: a.cfg.Host, Seq: a.seen.Load(), Version: a.cfg.Version}).MarshalVT() // cannot fail
		return data
	})
	go func() { <-ctx.Done(); l.Close() }()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				serving.Wait()
				return nil
			}
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
				a.log.Warn("too many files are open; waiting", "error", err)
				time.Sleep(50 * time.Millisecond)
				continue
			}
			return fmt.Errorf("accepting on the agent's socket: %w", err)
		}
		serving.Go(func() { a.serve(ctx, c.(*net.UnixConn)) })
	}
}

// refuseTime is how long a caller who is turned away may take to hear it.
const refuseTime = time.Second

// serve answers the requests of one connection, one after another.
func (a *Agent) serve(ctx context.Context, c *net.UnixConn) {
	defer c.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { c.Close() })
	peer, err := peerOf(c)
	if err != nil {
		a.log.Warn("asking the kernel who calls", "error", err)
		return
	}
	if a.cfg.Only != nil && peer.uid != *a.cfg.Only && peer.uid != 0 {
		wire.Write(c, refuse(events.Code_ACCESS_DENIED, "this cluster belongs to another user"))
		return
	}
	release, no := a.limiter.connect(peer.uid)
	if no != "" {
		c.SetWriteDeadline(time.Now().Add(refuseTime)) // whoever does not listen keeps no file open
		wire.Write(c, refuse(events.Code_RATE_LIMITED, no))
		return
	}
	defer release()
	a.serving.Add(1)
	defer a.serving.Add(-1)
	r := bufio.NewReaderSize(c, 16<<10)
	call := &call{agent: a, ctx: ctx, peer: peer, send: func(m *wire.Response) error { return wire.Write(c, m) }}
	for {
		if !a.serveOne(ctx, c, r, call) {
			return
		}
	}
}

// sendTime is how long a request may take to arrive once it has begun to, and how long it may wait for others of its user.
const sendTime = 2 * time.Minute

// serveOne answers one request; false: the connection is over.
func (a *Agent) serveOne(ctx context.Context, c *net.UnixConn, r io.Reader, call *call) bool {
	unread := func(err error) bool {
		if !errors.Is(err, io.EOF) && ctx.Err() == nil {
			wire.Write(c, refuse(events.Code_MALFORMED, "the request could not be read: "+err.Error()))
		}
		return false
	}
	size, err := wire.ReadSize(r, wire.MaxFrame)
	if err != nil {
		return unread(err)
	}
	patience, cancel := context.WithTimeout(ctx, sendTime)
	release, ok := a.limiter.hold(patience, call.peer.uid, size)
	cancel()
	if !ok {
		wire.Write(c, refuse(events.Code_RATE_LIMITED, fmt.Sprintf("your other requests have %d MiB on their way to the agent, which is the most it allows; let some end first", a.limiter.limits.Bytes>>20)))
		return false
	}
	defer release()
	req := new(wire.Request)
	c.SetReadDeadline(time.Now().Add(sendTime))
	if err := wire.ReadBody(r, req, size); err != nil {
		return unread(err)
	}
	c.SetReadDeadline(time.Time{})
	begin := time.Now()
	resp := call.allowed(req)
	if resp == nil {
		resp = call.answer(req)
	}
	a.calls.count(kindOf(req), call.peer.uid, time.Since(begin), resp.GetCode() == events.Code_RATE_LIMITED)
	if relay := call.relay; relay != nil {
		call.relay = nil
		return relay.Write(c) == nil
	}
	return call.send(resp) == nil
}

// peer is who is at the other end of a connection, by the kernel's word.
type peer struct {
	uid, gid uint32
	pid      int32
}

func peerOf(c *net.UnixConn) (peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return peer{}, err
	}
	var cred *syscall.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) {
		cred, inner = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, inner); err != nil {
		return peer{}, err
	}
	return peer{uid: cred.Uid, gid: cred.Gid, pid: cred.Pid}, nil
}

// session is the caller's session, 0 if it is not known: the process is gone, or is of another namespace.
func (p peer) session() uint32 {
	if p.pid <= 0 {
		return 0
	}
	sid, err := unix.Getsid(int(p.pid))
	if err != nil {
		return 0
	}
	return uint32(sid)
}

// call is one connection's caller and how to speak to it.
type call struct {
	agent *Agent
	ctx   context.Context
	peer  peer
	send  func(*wire.Response) error
	relay *wire.Relay // the answer, if it is another's and only passed on
}

func refuse(code events.Code, text string) *wire.Response {
	return &wire.Response{Error: text, Code: code}
}

// answer meets one request. Without a response the answer is in relay.
func (c *call) answer(req *wire.Request) *wire.Response {
	switch w := req.What.(type) {
	case *wire.Request_Submit:
		return c.submit(w.Submit)
	case *wire.Request_Crontab:
		return c.crontab(w.Crontab)
	case *wire.Request_Control:
		return c.control(w.Control)
	case *wire.Request_Ask:
		return c.ask(w.Ask)
	case *wire.Request_Account:
		return c.account(w.Account)
	case *wire.Request_Step:
		return c.step(w.Step)
	case *wire.Request_Blob:
		return c.blob(w.Blob)
	case *wire.Request_Stats:
		return c.stats(w.Stats)
	case *wire.Request_Hello:
		who := c.agent.names.User(c.ctx, c.peer.uid, c.peer.gid)
		return &wire.Response{What: &wire.Response_Welcome{Welcome: &wire.Welcome{
			Uid: c.peer.uid, User: who.User, Host: c.agent.cfg.Host, Version: c.agent.cfg.Version,
			LastSeq: c.agent.seen.Load(), BusUp: c.agent.busUp.Load(), Dir: c.agent.cfg.Dir,
		}}}
	}
	return refuse(events.Code_UNSUPPORTED, "this agent does not know that request: it is older than the command; restart it from the same installation")
}

// author is the caller as the log will name them.
func (c *call) author() *events.Author {
	who := c.agent.names.User(c.ctx, c.peer.uid, c.peer.gid)
	return &events.Author{
		Uid: c.peer.uid, Gid: who.Gid, User: who.User, Group: who.Group,
		Groups: who.Groups, GroupNames: who.GroupNames, Host: c.agent.cfg.Host,
	}
}

// authorOf is the author of a submission: the caller, or whom root speaks for.
func (c *call) authorOf(s *wire.Submit) (*events.Author, *wire.Response) {
	if s.AsUser == "" && s.AsGroup == "" {
		return c.author(), nil
	}
	if c.peer.uid != 0 {
		return nil, refuse(events.Code_ACCESS_DENIED, "only root may submit as another user or with another group")
	}
	on := &call{agent: c.agent, ctx: c.ctx, peer: c.peer}
	if s.AsUser != "" {
		uid, ok := c.agent.names.number(c.ctx, "passwd", s.AsUser)
		if !ok {
			return nil, refuse(events.Code_MALFORMED, "Invalid --uid specification: there is no user "+strconv.Quote(s.AsUser))
		}
		on.peer.uid, on.peer.gid = uid, uid
	}
	author := on.author()
	if s.AsGroup != "" {
		gid, ok := c.agent.names.number(c.ctx, "group", s.AsGroup)
		if !ok {
			return nil, refuse(events.Code_MALFORMED, "Invalid --gid specification: there is no group "+strconv.Quote(s.AsGroup))
		}
		author.Gid, author.Group = gid, groupName(c.ctx, gid)
		if author.Group == "" {
			author.Group = strconv.FormatUint(uint64(gid), 10)
		}
		if !slices.Contains(author.Groups, gid) {
			author.Groups = append(slices.Clone(author.Groups), gid)
		}
	}
	return author, nil
}

// saw notes what an answer was current to, so that no later answer to anybody on this host is older.
func (a *Agent) saw(seq uint64) {
	for {
		old := a.seen.Load()
		if seq <= old || a.seen.CompareAndSwap(old, seq) {
			return
		}
	}
}
