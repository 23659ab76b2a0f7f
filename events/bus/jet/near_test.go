package jet_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"stint/events/bus"
	"stint/events/bus/jet"
	"stint/events/bus/server"
)

// inside connects as a role without a socket.
func inside(t testing.TB, s *server.Server, name string) *jet.Bus {
	t.Helper()
	seed, err := s.Admit(role(name))
	if err != nil {
		t.Fatal(err)
	}
	b, err := jet.Connect(within(t), jet.Options{Server: s, Role: role(name), Seed: seed, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// TestQuestionsInOneProcess: who asks in the process of the server and of one who answers wakes nobody else, may ask no more than
// elsewhere, and hears from another one when the one here is gone.
func TestQuestionsInOneProcess(t *testing.T) {
	t.Parallel()
	s := one(t, server.Options{Unsynced: true})
	ctx := within(t)
	answers := func(b *jet.Bus, text string) func() {
		stop, err := b.Wire().Answer("ask.>", "views", func(context.Context, bus.Nudge) ([]byte, error) { return []byte(text), nil })
		if err != nil {
			t.Fatal(err)
		}
		return stop
	}
	controller, agent := inside(t, s, "controller"), inside(t, s, "agent:login1")
	stop := answers(controller, "here")
	var passed atomic.Int32
	listener := connect(t, s, role("admin"))
	if _, err := listener.Wire().Listen("ask.jobs", "", func(bus.Nudge) { passed.Add(1) }); err != nil {
		t.Fatal(err)
	}
	wants := func(b *jet.Bus, want string) {
		t.Helper()
		if got, err := b.Wire().Ask(ctx, "ask.jobs", []byte("which")); err != nil || string(got) != want {
			t.Fatalf("the answer is %q, %v; want %q", got, err, want)
		}
	}
	for range 100 {
		wants(agent, "here")
	}
	outside := connect(t, s, role("agent:login2"))
	wants(outside, "here") // through the server; so what came before was heard before
	if n := passed.Load(); n > 1 {
		t.Fatalf("%d questions passed through the server, and 1 had to", n)
	}
	if _, err := agent.Wire().Ask(ctx, "ask.node.n1", nil); !errors.Is(err, bus.ErrDenied) {
		t.Fatalf("an agent asked what only executors may: %v", err)
	}
	answers(connect(t, s, role("ledger")), "there")
	stop()
	wants(agent, "there")
}
