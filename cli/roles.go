package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"time"

	"stint/cli/agent"
	"stint/cli/site"
	"stint/events"
	"stint/events/bus"
	"stint/events/bus/jet"
	"stint/events/bus/server"
	"stint/executor"
	"stint/executor/supervisor"
	"stint/ledger"
	"stint/scheduler"
)

// host is one host's part of a cluster: what its daemons need to find each other.
type host struct {
	dir     site.Dir
	cluster *site.Cluster
	log     *slog.Logger
	several bool // daemons in this process
}

// open reads what `stint up` wrote into dir.
func openHost(dir site.Dir, log *slog.Logger) (*host, error) {
	c, err := dir.Load()
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no cluster was ever made in %s; `stint up --dir %s` makes one", dir, dir)
	}
	if err != nil {
		return nil, err
	}
	return &host{dir: dir, cluster: c, log: log}, nil
}

// named is the log of one of several daemons in this process.
func (h *host) named(daemon string) *slog.Logger {
	if !h.several {
		return h.log
	}
	return h.log.With("daemon", daemon)
}

// roles are the credentials that the daemons of this host need.
func (h *host) roles() []bus.Role {
	out := []bus.Role{{Kind: bus.Admin}, {Kind: bus.Controller}, {Kind: bus.Ledger}, {Kind: bus.Service},
		{Kind: bus.Agent, Name: events.Token(site.HostName())}}
	if u, err := user.Current(); err == nil { // a service of whoever runs the cluster may subscribe to what becomes of jobs
		out = append(out, bus.Role{Kind: bus.Service, Name: events.Token(u.Username)})
	}
	for _, n := range h.cluster.Nodes {
		out = append(out, bus.Role{Kind: bus.Executor, Name: events.Token(n)})
	}
	return out
}

// startBus starts the embedded server, makes the streams, and writes down where it listens. It returns a function that
// stops it.
func (h *host) startBus(ctx context.Context) (*server.Server, error) {
	keys, err := server.OpenKeys(h.dir.Keys())
	if err != nil {
		return nil, err
	}
	for _, r := range h.roles() {
		if _, err := keys.Seed(r); err != nil {
			return nil, err
		}
	}
	s, err := server.Start(server.Options{Dir: h.dir.Bus(), Port: h.port(), Keys: keys, Log: h.named("bus")})
	if err != nil && h.port() != 0 { // the port of last time is taken by somebody else
		h.log.Warn("the bus cannot listen where it did", "url", h.cluster.URL, "error", err)
		s, err = server.Start(server.Options{Dir: h.dir.Bus(), Keys: keys, Log: h.named("bus")})
	}
	if err != nil {
		return nil, err
	}
	if h.cluster.URL != s.URL() {
		h.cluster.URL = s.URL()
		if err := h.dir.Save(h.cluster); err != nil {
			s.Stop()
			return nil, err
		}
	}
	b, err := h.connect(ctx, bus.Role{Kind: bus.Admin}, s)
	if err == nil {
		var warnings []string
		warnings, err = h.provision(ctx, b, jet.Layout{Replicas: 1, Synced: s.Synced()})
		for _, w := range warnings {
			h.log.Warn(w)
		}
		b.Close()
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// port is the one the bus listened on last, 0 if it never did.
func (h *host) port() int {
	var port int
	fmt.Sscanf(h.cluster.URL, "nats://127.0.0.1:%d", &port)
	return port
}

// connect connects as a role, waiting for the bus, its address and its keys as long as ctx lasts. s, if not nil, is the server
// in this process.
func (h *host) connect(ctx context.Context, role bus.Role, s *server.Server) (*jet.Bus, error) {
	keys, err := server.OpenKeys(h.dir.Keys())
	if err != nil {
		return nil, err
	}
	for {
		if s == nil { // whoever serves the bus writes down where
			if c, err := h.dir.Load(); err == nil {
				h.cluster = c
			}
		}
		seed, err := server.ReadSeed(keys.Path(role))
		if err == nil && (s != nil || h.cluster.URL != "") {
			o := jet.Options{URL: h.cluster.URL, Role: role, Seed: seed, Log: h.named(role.String())}
			if s != nil {
				o.Server = s
			}
			try, cancel := context.WithTimeout(ctx, 5*time.Second)
			b, err := jet.Connect(try, o)
			cancel()
			if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
				return b, err
			}
		} else if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// with connects as a role and runs fn until it returns.
func (h *host) with(ctx context.Context, role bus.Role, s *server.Server, fn func(bus.Bus) error) error {
	b, err := h.connect(ctx, role, s)
	if err != nil {
		return err
	}
	defer b.Close()
	if role.Kind != bus.Service {
		if err := h.holdTo(ctx, b); err != nil {
			return err
		}
	}
	return fn(b)
}

func (h *host) runController(ctx context.Context, s *server.Server) error {
	return h.with(ctx, bus.Role{Kind: bus.Controller}, s, func(b bus.Bus) error {
		c, err := scheduler.New(scheduler.Config{
			Bus: b, Name: fmt.Sprintf("%s-%d", site.HostName(), os.Getpid()), Dir: h.dir.Controller(), Home: string(h.dir), Build: Build(), Log: h.named("controller"), Level: logLevel.Set,
		})
		if err != nil {
			return err
		}
		return c.Run(ctx)
	})
}

func (h *host) runAgent(ctx context.Context, s *server.Server) error {
	return h.with(ctx, bus.Role{Kind: bus.Agent, Name: events.Token(site.HostName())}, s, func(b bus.Bus) error {
		c := agent.Config{Bus: b, Host: site.HostName(), Dir: string(h.dir), Version: Build(), Log: h.named("agent"), Mode: 0o600, Conf: h.cluster.ConfFile}
		if h.cluster.Embedded {
			c.LogDir = h.dir.Bus()
		}
		if uid := uint32(os.Geteuid()); uid == 0 {
			c.Mode = 0o666
		} else {
			c.Only = &uid
		}
		a, err := agent.New(c)
		if err != nil {
			return err
		}
		return a.Run(ctx)
	})
}

// absentTime is how long a ledger that cannot be opened says so before it is tried again.
const absentTime = 5 * time.Second

func (h *host) runLedger(ctx context.Context, s *server.Server) error {
	l, err := ledger.Open(h.dir.Ledger(), ledger.Options{Log: h.named("ledger"), Host: site.HostName(), Version: Build()})
	if err != nil {
		ctx, cancel := context.WithTimeout(ctx, absentTime)
		defer cancel()
		if err := h.with(ctx, bus.Role{Kind: bus.Ledger}, s, func(b bus.Bus) error { return ledger.Absent(ctx, b, err) }); err != nil {
			h.named("ledger").Warn("who asks for accounting is not told why there is none", "error", err)
		}
		return err
	}
	defer l.Close()
	return h.with(ctx, bus.Role{Kind: bus.Ledger}, s, func(b bus.Bus) error { return l.Run(ctx, b) })
}

func (h *host) runExecutor(ctx context.Context, node string) error {
	return h.with(ctx, bus.Role{Kind: bus.Executor, Name: events.Token(node)}, nil, func(b bus.Bus) error {
		return executor.Run(ctx, executor.Config{
			Node: node, Bus: b, StateDir: h.dir.Node(node), Virtual: h.cluster.Virtual,
			SupervisorSocket: supervisor.SocketPath(h.dir.Node(node)), SlurmConf: h.cluster.ConfFile, GPUHelper: besides("stint-nvml"), Version: Build(), Log: h.log.With("node", node),
		})
	})
}

func (h *host) runSupervisor(ctx context.Context, node string) error {
	c := supervisor.Config{Node: node, StateDir: h.dir.Node(node), Spool: h.dir.Spool(node), Under: h.cluster.Under, Version: Build(), Log: h.log.With("node", node)}
	if h.cluster.Virtual {
		c.HostName = node
	}
	return supervisor.Main(ctx, c)
}
