package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"stint/events/bus"
	"stint/events/bus/jet"
	"stint/events/bus/server"
	"stint/scheduler/replay"
)

// A history is what a cluster leaves: nothing of it is void, and a replay makes every decision of it again.
func TestHistoryHolds(t *testing.T) {
	dir := t.TempDir()
	const jobs = 2500 // more than run at once
	made, err := Make(context.Background(), Options{Dir: dir, Jobs: jobs, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	if made.States != 4*jobs {
		t.Errorf("%d job states were written, want four of each of %d jobs", made.States, jobs)
	}
	keys, err := server.OpenKeys(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.Start(server.Options{Dir: filepath.Join(dir, "bus"), Keys: keys, Unsynced: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	role := bus.Role{Kind: bus.Admin}
	seed, err := keys.Seed(role)
	if err != nil {
		t.Fatal(err)
	}
	b, err := jet.Connect(context.Background(), jet.Options{URL: s.URL(), Server: s, Role: role, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	o := replay.Options{}
	r, err := replay.Verify(context.Background(), replay.From(b.Events()), o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK(o) || r.Void != 0 || r.Derived != r.Cycles || r.Messages != made.Messages {
		t.Errorf("the history does not hold: %+v, %v", r, r.First)
	}
}
