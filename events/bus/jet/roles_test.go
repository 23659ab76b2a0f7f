package jet_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"stint/events/bus"
	"stint/events/bus/jet"
	"stint/events/bus/server"
)

func role(text string) bus.Role {
	r, err := bus.ParseRole(text)
	if err != nil {
		panic(err)
	}
	return r
}

// TestRoles tries what each role needs and what it must not do.
func TestRoles(t *testing.T) {
	s := one(t, server.Options{Unsynced: true})
	ctx := within(t)
	conns := map[string]*jet.Bus{}
	for _, r := range []string{"admin", "controller", "ledger", "executor:n1", "executor:n2", "agent:login1", "service:web"} {
		conns[r] = connect(t, s, role(r))
	}
	admin := conns["admin"]
	first, err := admin.Events().Publish(ctx, "ev.node.n1", "seed", []byte("up"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := admin.Events().Append(ctx, "ev.node.n1", first, []byte("started"))
	if err != nil {
		t.Fatal(err)
	}
	blob, err := admin.Blobs().Put(ctx, "blob.1000.x", []byte("#!/bin/sh\n"))
	if err != nil {
		t.Fatal(err)
	}
	stop, err := conns["controller"].Wire().Answer("ask.>", "views", func(_ context.Context, q bus.Nudge) ([]byte, error) {
		return make([]byte, 1<<20), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()

	appendTo := func(subject string) func(*jet.Bus) error {
		return func(b *jet.Bus) error {
			var after uint64
			if m, err := admin.Events().Last(ctx, subject); err == nil {
				after = m.Seq
			}
			_, err := b.Events().Append(ctx, subject, after, []byte(time.Now().String()))
			return err
		}
	}
	publishTo := func(subject string) func(*jet.Bus) error {
		return func(b *jet.Bus) error {
			_, err := b.Events().Publish(ctx, subject, time.Now().String(), []byte("submit"))
			return err
		}
	}
	enough := errors.New("enough")
	takeOne := func(follow func(func(bus.Batch) error) error) error {
		if err := follow(func(bus.Batch) error { return enough }); !errors.Is(err, enough) {
			return err
		}
		return nil
	}
	followAll := func(b *jet.Bus) error {
		return takeOne(func(fn func(bus.Batch) error) error { return b.Events().Follow(ctx, 1, fn) })
	}
	followOne := func(subject string) func(*jet.Bus) error {
		return func(b *jet.Bus) error {
			return takeOne(func(fn func(bus.Batch) error) error { return b.Events().FollowSubject(ctx, subject, 1, fn) })
		}
	}
	listen := func(subject string) func(*jet.Bus) error {
		return func(b *jet.Bus) error {
			stop, err := b.Wire().Listen(subject, "", func(bus.Nudge) {})
			if err == nil {
				stop()
			}
			return err
		}
	}
	ask := func(subject string) func(*jet.Bus) error {
		return func(b *jet.Bus) error {
			_, err := b.Wire().Ask(ctx, subject, nil)
			return err
		}
	}
	answer := func(b *jet.Bus) error {
		stop, err := b.Wire().Answer("ask.other", "", func(context.Context, bus.Nudge) ([]byte, error) { return nil, nil })
		if err == nil {
			stop()
		}
		return err
	}
	take := func(name string) func(*jet.Bus) error {
		return func(b *jet.Bus) error {
			l, err := b.Leases().Take(ctx, name, "x", time.Hour)
			if err != nil {
				return err
			}
			return errors.Join(l.Renew(ctx), l.Release(ctx))
		}
	}
	for _, c := range []struct {
		what string
		do   func(*jet.Bus) error
		may  string
	}{
		{"append ev.sched", appendTo("ev.sched"), "admin controller"},
		{"append ev.share", appendTo("ev.share"), "admin ledger"},
		{"append ev.node.n2", appendTo("ev.node.n2"), "admin executor:n2"},
		{"publish ev.intent.@login1", publishTo("ev.intent.@login1"), "admin agent:login1"},
		{"publish ev.intent.@login2", publishTo("ev.intent.@login2"), "admin"},
		{"publish ev.intent.web", publishTo("ev.intent.web"), "admin service:web"},
		{"follow the log", followAll, "admin controller ledger"},
		{"follow ev.node.n1", followOne("ev.node.n1"), "admin controller ledger executor:n1"},
		{"read the first of ev.node.n1", func(b *jet.Bus) error {
			m, err := b.Events().FirstAfter(ctx, "ev.node.n1", first)
			if err == nil && m.Seq != second {
				t.Errorf("the first behind %d is %d, want %d", first, m.Seq, second)
			}
			return err
		}, "admin controller ledger executor:n1"},
		{"read a message", func(b *jet.Bus) error { _, err := b.Events().Get(ctx, 1); return err }, "admin controller ledger"},
		{"trim the log", func(b *jet.Bus) error { return b.Events().Trim(ctx, 1) }, "admin ledger"},
		{"append to the feed", func(b *jet.Bus) error {
			var last uint64
			if m, err := admin.Jobs().Last(ctx); err == nil {
				last = m.Seq
			}
			_, err := b.Jobs().Append(ctx, last, []bus.Entry{{Subject: "job.RUNNING.p.u.1", Data: []byte("{}")}})
			return err
		}, "admin controller"},
		{"follow the feed", func(b *jet.Bus) error {
			return takeOne(func(fn func(bus.Batch) error) error { return b.Jobs().Follow(ctx, "job.*.*.u.>", 0, fn) })
		}, "admin controller service:web"},
		{"publish usage.n1", func(b *jet.Bus) error { return b.Usage().Publish(ctx, "usage.n1", time.Now().String(), nil) }, "admin executor:n1"},
		{"read usage.n1", func(b *jet.Bus) error { _, err := b.Usage().Last(ctx, "usage.n1"); return err }, "admin controller agent:login1"},
		{"put a blob", func(b *jet.Bus) error { _, err := b.Blobs().Put(ctx, "blob.1000.y", make([]byte, 1<<20)); return err }, "admin agent:login1"},
		{"get a blob", func(b *jet.Bus) error { _, err := b.Blobs().Get(ctx, blob); return err }, "admin controller ledger executor:n1 executor:n2 agent:login1"},
		{"erase a blob", func(b *jet.Bus) error { return b.Blobs().Erase(ctx, "blob.1000.z") }, "admin controller"},
		{"take the leader's lease", take(bus.LeaderLease), "admin controller"},
		{"take the share lease", take(bus.ShareLease), "admin ledger"},
		{"listen to beats", listen("beat.*"), "admin controller"},
		{"listen to run.n1", listen("run.n1"), "admin executor:n1"},
		{"listen to others' answers", listen("_IN.controller.>"), "admin controller"},
		{"answer questions", answer, "admin controller ledger"},
		{"ask for the queue", ask("ask.queue"), "admin controller ledger agent:login1"},
		{"ask for n1", ask("ask.node.n1"), "admin controller ledger executor:n1"},
	} {
		may := map[string]bool{}
		for _, r := range strings.Fields(c.may) {
			may[r] = true
		}
		for r, b := range conns {
			err := c.do(b)
			switch {
			case may[r] && err != nil:
				t.Errorf("%s could not %s: %v", r, c.what, err)
			case !may[r] && !errors.Is(err, bus.ErrDenied):
				t.Errorf("%s could %s: %v", r, c.what, err)
			}
		}
	}
}

func TestWrongKey(t *testing.T) {
	s := one(t, server.Options{Unsynced: true})
	other, err := server.OpenKeys(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	seed, err := other.Seed(role("controller"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = jet.Connect(within(t), jet.Options{URL: s.URL(), Role: role("controller"), Seed: seed, Log: quiet})
	if !errors.Is(err, bus.ErrDenied) {
		t.Fatalf("connecting with a foreign key ended with %v", err)
	}
	_, err = jet.Connect(within(t), jet.Options{URL: s.URL(), Role: role("controller"), Log: quiet})
	if !errors.Is(err, bus.ErrDenied) {
		t.Fatalf("connecting without a key ended with %v", err)
	}
}
