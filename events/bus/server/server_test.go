package server_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"stint/events/bus"
	"stint/events/bus/jet"
	"stint/events/bus/server"
)

var quiet = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))

var admin = bus.Role{Kind: bus.Admin}

func start(t *testing.T, dir string, keys *server.Keys, port int) *server.Server {
	t.Helper()
	s, err := server.Start(server.Options{Dir: dir, Port: port, Keys: keys, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func openKeys(t *testing.T) *server.Keys {
	t.Helper()
	keys, err := server.OpenKeys(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Seed(admin); err != nil {
		t.Fatal(err)
	}
	return keys
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func connect(t *testing.T, url string, keys *server.Keys, role bus.Role) *jet.Bus {
	t.Helper()
	seed, err := keys.Seed(role)
	if err != nil {
		t.Fatal(err)
	}
	b, err := jet.Connect(within(t), jet.Options{URL: url, Role: role, Seed: seed, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// TestRestart stops the server under a follower and an author and starts it again: both go on.
func TestRestart(t *testing.T) {
	dir, keys, ctx := t.TempDir(), openKeys(t), within(t)
	s := start(t, dir, keys, 0)
	url := s.URL()
	b := connect(t, url, keys, admin)
	if _, err := b.Provision(ctx, jet.Layout{Replicas: 1, Synced: true}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var states []string
	b.OnStatus(func(st bus.Status) {
		mu.Lock()
		defer mu.Unlock()
		states = append(states, st.State.String())
	})
	seen := make(chan uint64, 100)
	go b.Events().Follow(ctx, 1, func(batch bus.Batch) error {
		for _, m := range batch.Messages {
			seen <- m.Seq
		}
		return nil
	})
	expect := func(want uint64) {
		t.Helper()
		select {
		case seq := <-seen:
			if seq != want {
				t.Fatalf("followed %d, want %d", seq, want)
			}
		case <-ctx.Done():
			t.Fatalf("%d was not followed", want)
		}
	}
	one, err := b.Events().Append(ctx, "ev.sched", 0, []byte("term"))
	if err != nil {
		t.Fatal(err)
	}
	expect(one)
	if _, err := server.Start(server.Options{Dir: dir, Keys: keys, Log: quiet}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Fatalf("a second server on the same folder: %v", err)
	}
	s.Stop()
	appended := make(chan error, 1)
	go func() {
		_, err := b.Events().Append(ctx, "ev.sched", one, []byte("cycle"))
		appended <- err
	}()
	port := url[strings.LastIndexByte(url, ':')+1:]
	again := start(t, dir, keys, atoi(t, port))
	if again.URL() != url {
		t.Fatalf("the server is at %s, was at %s", again.URL(), url)
	}
	if err := <-appended; err != nil {
		t.Fatal(err)
	}
	expect(one + 1)
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(states, " "); got != "up down up" {
		t.Fatalf("the states were: %s", got)
	}
}

func atoi(t *testing.T, s string) (n int) {
	for _, c := range s {
		if c < '0' || c > '9' {
			t.Fatalf("not a port: %s", s)
		}
		n = 10*n + int(c-'0')
	}
	return n
}

func TestKeyFiles(t *testing.T) {
	keys := openKeys(t)
	n1 := bus.Role{Kind: bus.Executor, Name: "n1"}
	seeds := make(chan string, 8)
	for range cap(seeds) {
		go func() {
			seed, err := keys.Seed(n1)
			if err != nil {
				t.Error(err)
			}
			seeds <- string(seed)
		}()
	}
	first := <-seeds
	for range cap(seeds) - 1 {
		if s := <-seeds; s != first {
			t.Fatal("one role has two keys")
		}
	}
	path := keys.Path(n1)
	for _, c := range []struct {
		path string
		mode os.FileMode
	}{{path, 0o600}, {filepath.Dir(path), 0o700}} {
		if info, err := os.Stat(c.path); err != nil || info.Mode().Perm() != c.mode {
			t.Errorf("%s: %v %v, want mode %o", c.path, info.Mode(), err, c.mode)
		}
	}
	if roles, err := keys.Roles(); err != nil || len(roles) != 2 || roles[0] != admin || roles[1] != n1 {
		t.Errorf("the roles are %v (%v)", roles, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Seed(n1); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others may read: %v", err)
	}
	for _, text := range []string{"executor", "executor:", "executor:a.b", "executor:a/b", "admin:x", "root", "", "agent:*"} {
		if _, err := bus.ParseRole(text); err == nil {
			t.Errorf("%q is taken for a role", text)
		}
	}
}

// TestAdmit adds a node to a running server; those connected stay so.
func TestAdmit(t *testing.T) {
	keys, ctx := openKeys(t), within(t)
	s := start(t, t.TempDir(), keys, 0)
	b := connect(t, s.URL(), keys, admin)
	if _, err := b.Provision(ctx, jet.Layout{Replicas: 1, Synced: s.Synced()}); err != nil {
		t.Fatal(err)
	}
	var states []bus.State
	b.OnStatus(func(st bus.Status) { states = append(states, st.State) })
	n1 := bus.Role{Kind: bus.Executor, Name: "n1"}
	seed, err := keys.Seed(n1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := jet.Connect(ctx, jet.Options{URL: s.URL(), Role: n1, Seed: seed, Log: quiet}); !errors.Is(err, bus.ErrDenied) {
		t.Fatalf("a node not yet admitted: %v", err)
	}
	for range 2 {
		if again, err := s.Admit(n1); err != nil || string(again) != string(seed) {
			t.Fatalf("admitting: %v", err)
		}
	}
	node := connect(t, s.URL(), keys, n1)
	if _, err := node.Events().Append(ctx, "ev.node.n1", 0, []byte("up")); err != nil {
		t.Fatal(err)
	}
	if len(states) != 1 {
		t.Errorf("the states of one connected before were %v", states)
	}
}

// TestPortTaken: a server that cannot listen says so at once, and leaves its folder to the next.
func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir, keys, began := t.TempDir(), openKeys(t), time.Now()
	silent := slog.New(slog.NewTextHandler(io.Discard, nil))
	_, err = server.Start(server.Options{Dir: dir, Port: l.Addr().(*net.TCPAddr).Port, Keys: keys, Log: silent})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Fatalf("starting on a port that is taken: %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Fatalf("it took %s to say so", took)
	}
	start(t, dir, keys, 0)
}

func TestRefusesToListenWithoutKeys(t *testing.T) {
	for _, host := range []string{"0.0.0.0", "::", "localhost.example"} {
		if _, err := server.Start(server.Options{Dir: t.TempDir(), Host: host}); err == nil || !strings.Contains(err.Error(), "loopback") {
			t.Errorf("starting without keys on %s: %v", host, err)
		}
	}
}

// TestUsers checks that the text for a cluster's servers is what such a server reads.
func TestUsers(t *testing.T) {
	keys := openKeys(t)
	roles := []bus.Role{{Kind: bus.Controller}, {Kind: bus.Ledger}, {Kind: bus.Executor, Name: "n1"}, {Kind: bus.Agent, Name: "login1"}, {Kind: bus.Service, Name: "web"}}
	for _, r := range roles {
		if _, err := keys.Seed(r); err != nil {
			t.Fatal(err)
		}
	}
	text, err := keys.Users()
	if err != nil {
		t.Fatal(err)
	}
	var opts natsserver.Options
	if err := opts.ProcessConfigString("authorization {\n" + text + "}\n"); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	if len(opts.Nkeys) != len(roles)+1 {
		t.Fatalf("%d users, want %d", len(opts.Nkeys), len(roles)+1)
	}
	for _, u := range opts.Nkeys {
		if u.Permissions == nil || len(u.Permissions.Publish.Allow) == 0 || len(u.Permissions.Subscribe.Allow) == 0 {
			t.Errorf("%s has the permissions %+v", u.Nkey, u.Permissions)
		}
	}
	seed, err := keys.Seed(admin)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, string(seed)) {
		t.Fatal("the text holds a secret")
	}
}

// TestWarns: the operator is told when what is acknowledged might not survive.
func TestWarns(t *testing.T) {
	keys, ctx := openKeys(t), within(t)
	s := start(t, t.TempDir(), keys, 0)
	b := connect(t, s.URL(), keys, admin)
	if warnings, err := b.Provision(ctx, jet.Layout{Replicas: 1}); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "sync_interval: always") {
		t.Fatalf("warnings are %q (%v)", warnings, err)
	}
	if warnings, err := b.Provision(ctx, jet.Layout{Replicas: 1, Synced: s.Synced()}); err != nil || len(warnings) != 0 {
		t.Fatalf("warnings are %q (%v)", warnings, err)
	}
	for _, n := range []int{0, 2, 7} {
		if _, err := b.Provision(ctx, jet.Layout{Replicas: n}); err == nil {
			t.Errorf("made %d replicas", n)
		}
	}
}
