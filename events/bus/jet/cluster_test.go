package jet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"stint/events/bus"
	"stint/events/bus/jet"
	"stint/events/bus/server"
)

// The servers of a cluster are processes of their own, to be killed as such: this test binary, run again with
// the configuration in serveEnv. They run the very file that sites install, deployments/nats/server.conf.
const serveEnv = "STINT_TEST_SERVE"

func TestMain(m *testing.M) {
	if conf := os.Getenv(serveEnv); conf != "" {
		if err := serve(conf); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

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

// cluster is three servers, or one, as processes.
type cluster struct {
	t     testing.TB
	keys  *server.Keys
	nodes []*node
	raw   *nats.Conn
	js    jetstream.JetStream
}

type node struct {
	name, dir string
	port      int
	env       []string

	mu  sync.Mutex
	cmd *exec.Cmd
	in  io.Closer
}

// startCluster starts that many servers and makes the streams, with as many replicas.
func startCluster(t testing.TB, size int) *cluster {
	t.Helper()
	c := &cluster{t: t}
	dir := t.TempDir()
	var err error
	if c.keys, err = server.OpenKeys(filepath.Join(dir, "keys")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.keys.Seed(role("admin")); err != nil {
		t.Fatal(err)
	}
	users, err := c.keys.Users()
	if err != nil {
		t.Fatal(err)
	}
	conf, err := os.ReadFile("../../../deployments/nats/server.conf")
	if err != nil {
		t.Fatal(err)
	}
	if size == 1 { // as its README says: without the cluster
		text := string(conf)
		from, to := strings.Index(text, "\ncluster {"), strings.Index(text, "\n# Who may connect")
		conf = []byte(strings.Replace(text[:from]+text[to:], "unique_tag:", "# unique_tag:", 1))
	}
	ports := freePorts(t, 2*size)
	var routes []string
	for i := range size {
		routes = append(routes, fmt.Sprintf("nats-route://bus:s3cret@127.0.0.1:%d", ports[size+i]))
	}
	for i := range size {
		n := &node{name: fmt.Sprintf("bus-%d", i+1), dir: filepath.Join(dir, fmt.Sprint(i)), port: ports[i]}
		n.env = append(os.Environ(),
			serveEnv+"="+filepath.Join(n.dir, "server.conf"),
			"STINT_BUS_NAME="+n.name,
			fmt.Sprintf(`STINT_BUS_LISTEN="127.0.0.1:%d"`, n.port),
			fmt.Sprintf(`STINT_BUS_CLUSTER_LISTEN="127.0.0.1:%d"`, ports[size+i]),
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
		c.nodes = append(c.nodes, n)
		n.start(t)
		t.Cleanup(n.kill)
	}
	admin := c.connect(t)
	if _, err := admin.Provision(within(t), jet.Layout{Replicas: size, Synced: true}); err != nil {
		t.Fatalf("%v\n%s", err, c.logs())
	}
	c.raw = c.anotherConn(t)
	if c.js, err = jetstream.New(c.raw); err != nil {
		t.Fatal(err)
	}
	return c
}

// anotherConn connects as admin without the adapter, for what it does not offer.
func (c *cluster) anotherConn(t testing.TB) *nats.Conn {
	t.Helper()
	seed, err := c.keys.Seed(role("admin"))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(c.urls(), nats.Nkey(public, pair.Sign), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// freePorts returns ports that nobody listens on, below those that the kernel hands out: while a server of the cluster is down,
// another's connection must not come to lie on its port.
func freePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for port := 20000 + os.Getpid()%500*20; len(ports) < n; port++ {
		if port == 30000 {
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

func (n *node) start(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cmd = exec.Command("/proc/self/exe")
	n.cmd.Env, n.cmd.Stdout, n.cmd.Stderr = n.env, log, log
	if n.in, err = n.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// kill ends the process without a word, as the kernel's OOM killer would.
func (n *node) kill() {
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

func (n *node) signal(t testing.TB, s syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.cmd.Process.Signal(s); err != nil {
		t.Fatalf("%s to %s: %v", s, n.name, err)
	}
}

func (c *cluster) urls() string {
	var list []string
	for _, n := range c.nodes {
		list = append(list, fmt.Sprintf("nats://127.0.0.1:%d", n.port))
	}
	return strings.Join(list, ",")
}

// connect connects as admin to any of the servers.
func (c *cluster) connect(t testing.TB) *jet.Bus {
	t.Helper()
	seed, err := c.keys.Seed(role("admin"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := jet.Connect(within(t), jet.Options{URL: c.urls(), Role: role("admin"), Seed: seed, Log: quiet})
	if err != nil {
		t.Fatalf("%v\n%s", err, c.logs())
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// leader waits until EVENTS has a leader and, if all is set, until each server has all of it; it returns the leader.
func (c *cluster) leader(t testing.TB, all bool) *node {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var last error
	for {
		s, err := c.js.Stream(ctx, bus.EventsStream)
		switch {
		case err != nil:
			last = err
		case len(c.nodes) == 1:
			return c.nodes[0]
		case s.CachedInfo().Cluster == nil || s.CachedInfo().Cluster.Leader == "":
			last = errors.New("no leader")
		default:
			info := s.CachedInfo().Cluster
			last = nil
			for _, r := range info.Replicas {
				if all && (!r.Current || r.Offline) {
					last = fmt.Errorf("%s is behind: %+v", r.Name, r)
				}
			}
			if all && len(info.Replicas) != len(c.nodes)-1 {
				last = fmt.Errorf("%d replicas", len(info.Replicas))
			}
			for _, n := range c.nodes {
				if n.name == info.Leader && last == nil {
					return n
				}
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the cluster is not whole: %v\n%s", last, c.logs())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// logs returns the last lines of what the servers said.
func (c *cluster) logs() string {
	var out strings.Builder
	for _, n := range c.nodes {
		text, _ := os.ReadFile(filepath.Join(n.dir, "log"))
		lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
		fmt.Fprintf(&out, "--- %s\n%s\n", n.name, bytes.Join(lines[max(0, len(lines)-15):], []byte("\n")))
	}
	return out.String()
}

// whole skips a test that runs three servers where only quick ones are wanted.
func whole(t testing.TB) {
	if testing.Short() {
		t.Skip("skipped because of -short: starts three servers and kills them, a minute")
	}
	if runtime.GOOS != "linux" {
		t.Skip("skipped: runs its own binary again through /proc/self/exe, which is Linux")
	}
}

func TestContractOnThreeServers(t *testing.T) {
	whole(t)
	t.Parallel() // mostly waits
	c := startCluster(t, 3)
	runContract(t, c)
}
