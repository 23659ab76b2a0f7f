package jet_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"stint/events/bus"
	"stint/events/bus/bustest"
	"stint/events/bus/jet"
	"stint/events/bus/server"
)

var quiet = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))

// one starts a server with keys and its streams.
func one(t testing.TB, opts server.Options) *server.Server {
	t.Helper()
	if opts.Keys == nil {
		keys, err := server.OpenKeys(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		opts.Keys = keys
	}
	if _, err := opts.Keys.Seed(bus.Role{Kind: bus.Admin}); err != nil {
		t.Fatal(err)
	}
	opts.Log = quiet
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	s, err := server.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	admin := connect(t, s, bus.Role{Kind: bus.Admin})
	warnings, err := admin.Provision(within(t), jet.Layout{Replicas: 1, Synced: s.Synced()})
	if err != nil {
		t.Fatal(err)
	}
	if opts.Unsynced != (len(warnings) == 1) {
		t.Fatalf("warnings are %q", warnings)
	}
	return s
}

// connect connects as a role, which is admitted if it is new.
func connect(t testing.TB, s *server.Server, role bus.Role) *jet.Bus {
	t.Helper()
	seed, err := s.Admit(role)
	if err != nil {
		t.Fatal(err)
	}
	b, err := jet.Connect(within(t), jet.Options{URL: s.URL(), Role: role, Seed: seed, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestContractOnOneServer(t *testing.T) {
	t.Parallel() // mostly waits
	s := one(t, server.Options{})
	bustest.Run(t, func(t testing.TB) bus.Bus { return connect(t, s, bus.Role{Kind: bus.Admin}) })
}

func TestContractInProcess(t *testing.T) {
	t.Parallel() // mostly waits
	s := one(t, server.Options{Unsynced: true})
	bustest.Run(t, func(t testing.TB) bus.Bus {
		role := bus.Role{Kind: bus.Admin}
		seed, err := s.Admit(role)
		if err != nil {
			t.Fatal(err)
		}
		b, err := jet.Connect(within(t), jet.Options{Server: s, Role: role, Seed: seed, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	})
}

func runContract(t *testing.T, c *cluster) {
	bustest.Run(t, func(t testing.TB) bus.Bus { return c.connect(t) })
}
