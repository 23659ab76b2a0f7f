// Package server is the bus's server in this process: a NATS server with JetStream, for the one-machine cluster. A
// bigger site runs nats-server by itself (deployments/nats) and everybody connects to that.
package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"stint/events/bus"
)

// Options says how the server runs.
type Options struct {
	// Dir holds the streams. One process at a time.
	Dir string

	// Host and Port are where it listens; "" is 127.0.0.1, port 0 takes a free one.
	Host string
	Port int

	// Keys holds who may connect and as what: every role that has a key when the server starts, and those given
	// to Admit later. Without keys anybody who reaches the address may do anything, so only loopback is allowed then.
	Keys *Keys

	// Unsynced leaves the disk to write when it likes: what was acknowledged survives a crash of the process
	// and is lost with the power. For tests and measurements.
	Unsynced bool

	// Log gets what an operator should know of; nil is slog.Default.
	Log *slog.Logger
}

// Server is a running server.
type Server struct {
	opts   Options
	log    *slog.Logger
	unlock func()
	stop   chan struct{} // closed by Stop
	gone   chan struct{} // closed when it has stopped and its folder is free

	mu   sync.Mutex // guards what a restart or Admit replaces
	nopt *server.Options
	ns   *server.Server
	says *logger
}

// startTime is how long a server may take to be ready; a log of a million messages takes one second.
const startTime = 60 * time.Second

// Start starts the server and returns when it serves.
func Start(opts Options) (*Server, error) {
	if opts.Host == "" {
		opts.Host = "127.0.0.1"
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if ip := net.ParseIP(opts.Host); opts.Keys == nil && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("starting the bus on %s: without keys it may listen on loopback only", opts.Host)
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("starting the bus: %w", err)
	}
	unlock, err := lock(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("starting the bus: %w", err)
	}
	// The server's own limit, three quarters of what is free when it starts, would refuse appends after a restart
	// once the log is bigger than that. What is free limits it well enough.
	const noLimit = 1 << 50
	nopt := &server.Options{
		ServerName: "stint", Host: opts.Host, Port: opts.Port,
		JetStream: true, StoreDir: opts.Dir, SyncAlways: !opts.Unsynced, JetStreamMaxStore: noLimit,
		NoSigs: true, MaxPayload: 1 << 20, MaxPending: 128 << 20,
		JetStreamLimits: server.JSLimitOpts{DefaultMaxConsumers: -1},
	}
	if opts.Port == 0 {
		nopt.Port = server.RANDOM_PORT
	}
	if opts.Keys != nil {
		if nopt.Nkeys, err = users(opts.Keys); err != nil {
			unlock()
			return nil, fmt.Errorf("starting the bus: %w", err)
		}
	}
	s := &Server{opts: opts, log: opts.Log.With("part", "bus server"), unlock: unlock, stop: make(chan struct{}), gone: make(chan struct{}), nopt: nopt}
	if err := s.serve(); err != nil {
		unlock()
		return nil, fmt.Errorf("starting the bus in %s: %w", opts.Dir, err)
	}
	nopt.Port = s.ns.Addr().(*net.TCPAddr).Port // after a restart it is where it was
	go s.mend()
	return s, nil
}

// serve starts a NATS server with the present options, in place of the one before, and returns when it serves.
func (s *Server) serve() error {
	kept, seq, err := keepPrefix(s.opts.Dir, time.Now())
	if err != nil {
		return fmt.Errorf("looking whether the log is whole: %w", err)
	}
	if kept != "" {
		s.log.Warn("the log could not be read from an entry on, as after power went; it and what lay behind, which was never acknowledged, were cut off and kept", "entry", seq, "file", kept)
	}
	ns, err := server.NewServer(s.nopt.Clone())
	if err != nil {
		return err
	}
	says := newLogger(s.log)
	ns.SetLoggerV2(says, false, false, false)
	ns.Start()
	for deadline := time.Now().Add(startTime); !ns.ReadyForConnections(50 * time.Millisecond); {
		late := time.Now().After(deadline)
		if !late && !says.isFatal() {
			continue
		}
		ns.Shutdown()
		ns.WaitForShutdown()
		if late {
			return fmt.Errorf("it was not ready within %s%s", startTime, says.because())
		}
		return fmt.Errorf("it gave up%s", says.because())
	}
	if !ns.JetStreamEnabled() {
		ns.Shutdown()
		ns.WaitForShutdown()
		return fmt.Errorf("it cannot keep streams%s", says.because())
	}
	s.ns, s.says = ns, says
	return nil
}

// users returns the roles that have a key as the server's users.
func users(keys *Keys) ([]*server.NkeyUser, error) {
	roles, err := keys.Roles()
	if err != nil {
		return nil, err
	}
	var list []*server.NkeyUser
	for _, role := range roles {
		public, err := keys.public(role)
		if err != nil {
			return nil, err
		}
		publish, subscribe := role.Permissions()
		list = append(list, &server.NkeyUser{Nkey: public, Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: publish},
			Subscribe: &server.SubjectPermission{Allow: subscribe},
		}})
	}
	if len(list) == 0 {
		return nil, errors.New("there are no keys, so nobody could connect")
	}
	return list, nil
}

// Admit makes the role known to the running server, with a key if it has none yet, and returns its seed.
func (s *Server) Admit(role bus.Role) (seed []byte, err error) {
	if s.opts.Keys == nil {
		return nil, fmt.Errorf("admitting %s to the bus: the server runs without keys", role)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if seed, err = s.opts.Keys.Seed(role); err != nil {
		return nil, fmt.Errorf("admitting %s to the bus: %w", role, err)
	}
	list, err := users(s.opts.Keys)
	if err != nil {
		return nil, fmt.Errorf("admitting %s to the bus: %w", role, err)
	}
	if len(list) == len(s.nopt.Nkeys) {
		return seed, nil
	}
	next := s.nopt.Clone()
	next.Nkeys = list
	if err := s.ns.ReloadOptions(next); err != nil {
		return nil, fmt.Errorf("admitting %s to the bus: %w", role, err)
	}
	s.nopt = next
	return seed, nil
}

// InProcessConn connects without a socket; see jet.Options.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ns.InProcessConn()
}

// URL is where other processes connect.
func (s *Server) URL() string {
	return "nats://" + net.JoinHostPort(s.nopt.Host, strconv.Itoa(s.nopt.Port))
}

// Synced reports whether each message is on disk before it is acknowledged.
func (s *Server) Synced() bool { return !s.opts.Unsynced }

// Stop stops the server and returns when it has.
func (s *Server) Stop() {
	s.mu.Lock()
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	s.mu.Unlock()
	<-s.gone
}
