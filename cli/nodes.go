package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"stint/cli/site"
	"stint/events"
	"stint/events/bus"
	"stint/events/bus/server"
	"stint/executor/supervisor"
)

// nodeSet is the nodes whose executors `stint up` runs. It grows when a reconfiguration adds nodes of this machine; those
// that one takes away keep their executors, for what runs there, until `stint up` ends.
type nodeSet struct {
	u     *upper
	group *sync.WaitGroup
	ctx   context.Context // of the executors

	mu  sync.Mutex
	has []string
}

func newNodeSet(u *upper, group *sync.WaitGroup, ctx context.Context) *nodeSet {
	return &nodeSet{u: u, group: group, ctx: ctx}
}

// start starts the supervisor and the executor of each node that has none yet.
func (s *nodeSet) start(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range names {
		if slices.Contains(s.has, n) {
			continue
		}
		s.has = append(s.has, n)
		socket := supervisor.SocketPath(s.u.dir.Node(n))
		s.u.spawn(s.group, s.ctx, &child{
			name: "supervisor:" + n, args: s.u.args("supervisor", "--node", n), log: s.u.dir.Log("supervisor-" + events.Token(n)), outlives: true,
			adopt: func() int { return s.u.adopt(n, socket) },
		})
		s.u.spawn(s.group, s.ctx, &child{name: "executor:" + n, args: s.u.args("executor", "--node", n), log: s.u.dir.Log("executor-" + events.Token(n))})
	}
}

func (s *nodeSet) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.has)
}

// heedReread calls do with the cluster.json of now for each site.RereadSignal, until ctx ends. From its return on the signal is heeded.
func heedReread(ctx context.Context, dir site.Dir, log *slog.Logger, do func(*site.Cluster) error) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, site.RereadSignal)
	go func() {
		defer signal.Stop(told)
		for {
			select {
			case <-ctx.Done():
				return
			case <-told:
			}
			c, err := dir.Load()
			if err == nil {
				err = do(c)
			}
			if err != nil {
				log.Error("following a reconfiguration", "error", err)
			}
		}
	}()
}

// admitNodes lets the executors of nodes speak on the bus, with keys of their own.
func admitNodes(s *server.Server, nodes []string) error {
	for _, n := range nodes {
		if _, err := s.Admit(bus.Role{Kind: bus.Executor, Name: events.Token(n)}); err != nil {
			return err
		}
	}
	return nil
}

// reread follows a reconfiguration: the bus gets to know the executors of nodes that are new, then they start.
func (s *nodeSet) reread(c *site.Cluster) error {
	if s.u.server != nil {
		if err := admitNodes(s.u.server, c.Nodes); err != nil {
			return err
		}
	} else if pid := s.u.pidOf("bus"); pid != 0 {
		if err := syscall.Kill(pid, site.RereadSignal); err != nil {
			return fmt.Errorf("telling the bus: %w", err)
		}
	}
	s.start(c.Nodes)
	return nil
}
