package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"stint/events/bus"
	busserver "stint/events/bus/server"
)

// The servers of a bus are this test binary, run again with the very file that sites install, deployments/nats/server.conf.
const serveEnv = "STINT_TEST_SERVE"

// serve runs a NATS server until its standard input ends, which it does when the test is gone, however it went.
func serve(conf string) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	opts, err := natsserver.ProcessConfigFile(conf)
	if err != nil {
		return err
	}
	s, err := natsserver.NewServer(opts)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	s.WaitForShutdown()
	return nil
}

// servers are the three of a bus.
type servers struct {
	t   *testing.T
	all []*oneServer
	nc  *nats.Conn
	js  jetstream.JetStream
}

type oneServer struct {
	name string
	dir  string
	env  []string
	url  string

	mu  sync.Mutex
	cmd *exec.Cmd
	in  io.Closer
}

// startServers starts three servers that know the keys of the roles that a cluster in dir has.
func startServers(t *testing.T, base, keyDir string, nodes ...string) *servers {
	t.Helper()
	keys, err := busserver.OpenKeys(keyDir)
	if err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	names := []string{"admin", "controller", "ledger", "service", "agent:" + host}
	for _, n := range nodes {
		names = append(names, "executor:"+n)
	}
	for _, name := range names {
		role, err := bus.ParseRole(name)
		if err == nil {
			_, err = keys.Seed(role)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	users, err := keys.Users()
	if err != nil {
		t.Fatal(err)
	}
	conf, err := os.ReadFile("../deployments/nats/server.conf")
	if err != nil {
		t.Fatal(err)
	}
	s := &servers{t: t}
	defer func() {
		if s.js == nil {
			s.stop()
		}
	}()
	ports := freePorts(t, 6)
	var routes, urls []string
	for i := range 3 {
		routes = append(routes, fmt.Sprintf("nats-route://bus:s3cret@127.0.0.1:%d", ports[3+i]))
	}
	for i := range 3 {
		n := &oneServer{name: fmt.Sprintf("bus-%d", i+1), dir: filepath.Join(base, fmt.Sprintf("bus-%d", i+1)), url: fmt.Sprintf("nats://127.0.0.1:%d", ports[i])}
		urls = append(urls, n.url)
		n.env = append(os.Environ(),
			serveEnv+"="+filepath.Join(n.dir, "server.conf"),
			"STINT_BUS_NAME="+n.name,
			fmt.Sprintf(`STINT_BUS_LISTEN="127.0.0.1:%d"`, ports[i]),
			fmt.Sprintf(`STINT_BUS_CLUSTER_LISTEN="127.0.0.1:%d"`, ports[3+i]),
			fmt.Sprintf(`STINT_BUS_STORE=%q`, filepath.Join(n.dir, "store")),
			fmt.Sprintf(`STINT_BUS_RACK="rack:%d"`, i),
			"STINT_BUS_ROUTES=["+strings.Join(routes, ", ")+"]",
			"STINT_BUS_SECRET=s3cret",
		)
		if err := os.Mkdir(n.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{"server.conf": conf, "users.conf": []byte(users)} {
			if err := os.WriteFile(filepath.Join(n.dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s.all = append(s.all, n)
		s.start(n)
	}
	key, err := nats.NkeyOptionFromSeed(filepath.Join(keyDir, "admin.nk"))
	if err != nil {
		t.Fatal(err)
	}
	if s.nc, err = nats.Connect(strings.Join(urls, ","), key, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectWait(50*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if s.js, err = jetstream.New(s.nc); err != nil {
		t.Fatal(err)
	}
	return s
}

// stop stops all of it.
func (s *servers) stop() {
	if s.nc != nil {
		s.nc.Close()
	}
	for _, n := range s.all {
		n.kill()
	}
}

func (s *servers) urls() string {
	var list []string
	for _, n := range s.all {
		list = append(list, n.url)
	}
	return strings.Join(list, ",")
}

// freePorts returns ports that nobody listens on, below those that the kernel hands out: while a server is down, another's
// connection must not come to lie on its port.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for port := 12000 + os.Getpid()%700*20; len(ports) < n; port++ {
		if port == 32000 {
			t.Fatal("no ports are free")
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		defer l.Close() // all at the end, so that they differ
		ports = append(ports, port)
	}
	return ports
}

// start starts a server that does not run.
func (s *servers) start(n *oneServer) {
	log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer log.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		return
	}
	n.cmd = exec.Command("/proc/self/exe")
	n.cmd.Env, n.cmd.Stdout, n.cmd.Stderr = n.env, log, log
	if n.in, err = n.cmd.StdinPipe(); err == nil {
		err = n.cmd.Start()
	}
	if err != nil {
		s.t.Error(err)
	}
}

// kill ends the process without a word, as the kernel's OOM killer would.
func (n *oneServer) kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Signal(syscall.SIGCONT)
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
	n.in.Close()
	n.cmd = nil
}

func (n *oneServer) signal(sig syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		_ = n.cmd.Process.Signal(sig)
	}
}

// leader is the server that leads the log now.
func (s *servers) leader() *oneServer {
	s.t.Helper()
	var last error
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		stream, err := s.js.Stream(ctx, bus.EventsStream)
		cancel()
		if err != nil {
			last = err
			continue
		}
		last = errors.New("no leader")
		if c := stream.CachedInfo().Cluster; c != nil {
			for _, n := range s.all {
				if n.name == c.Leader {
					return n
				}
			}
		}
	}
	s.t.Fatalf("the bus has no leader: %v", last)
	return nil
}

// strike does to servers what a word says, and has them back after a while: one of "leader", "follower", "two", "all" are
// killed; "sleep" stops the leader for up to ten seconds. It returns who was struck and a function that waits until they are back.
func (s *servers) strike(r *rand.Rand, what string) (struck int, back func()) {
	leader := s.leader()
	var others []*oneServer
	for _, n := range s.all {
		if n != leader {
			others = append(others, n)
		}
	}
	r.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	away := 200*time.Millisecond + time.Duration(r.IntN(3000))*time.Millisecond
	var doomed []*oneServer
	switch what {
	case "leader":
		doomed = []*oneServer{leader}
	case "follower":
		doomed = others[:1]
	case "two":
		doomed = []*oneServer{leader, others[0]}
	case "all":
		doomed = s.all
	case "sleep":
		leader.signal(syscall.SIGSTOP)
		away = 3*time.Second + time.Duration(r.IntN(7000))*time.Millisecond
		done := make(chan struct{})
		time.AfterFunc(away, func() { leader.signal(syscall.SIGCONT); close(done) })
		return 1, func() { <-done }
	}
	for _, n := range doomed {
		n.kill()
	}
	done := make(chan struct{})
	time.AfterFunc(away, func() {
		for _, n := range doomed {
			s.start(n)
		}
		close(done)
	})
	return len(doomed), func() { <-done }
}
