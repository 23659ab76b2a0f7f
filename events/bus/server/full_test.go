package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stint/events/bus"
	"stint/events/bus/jet"
	"stint/events/bus/server"
)

// TestFullDisk fills the disk under the server, makes room again, and expects appends to go on by themselves with nothing
// acknowledged lost.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("skipped: it takes a file system of its own to fill, and mounting one is not permitted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	keys, ctx := openKeys(t), within(t)
	s, err := server.Start(server.Options{Dir: filepath.Join(dir, "bus"), Keys: keys, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	seed, err := keys.Seed(admin)
	if err != nil {
		t.Fatal(err)
	}
	// One by a socket, one without: both must find the server again.
	remote := connect(t, s.URL(), keys, admin)
	local, err := jet.Connect(ctx, jet.Options{Server: s, Role: admin, Seed: seed, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { local.Close() })
	if _, err := remote.Provision(ctx, jet.Layout{Replicas: 1, Synced: true}); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 50<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	var acked []uint64
	last := func() uint64 {
		if len(acked) == 0 {
			return 0
		}
		return acked[len(acked)-1]
	}
	data := func(n int) []byte { return append(fmt.Appendf(nil, "%d ", n), make([]byte, 256<<10)...) }
	for {
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		seq, err := remote.Events().Append(short, "ev.sched", last(), data(len(acked)))
		cancel()
		if errors.Is(err, bus.ErrUnsettled) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if acked = append(acked, seq); len(acked) > 1000 {
			t.Fatal("the disk does not fill")
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	// The append that was not settled is tried again, as its author would.
	for _, b := range []bus.Bus{remote, local} {
		seq, err := b.Events().Append(ctx, "ev.sched", last(), data(len(acked)))
		if err != nil {
			t.Fatal(err)
		}
		acked = append(acked, seq)
	}
	for n, seq := range acked {
		m, err := remote.Events().Get(ctx, seq)
		if err != nil || string(m.Data) != string(data(n)) {
			t.Fatalf("append %d was acknowledged at %d, where there is something else (%v)", n, seq, err)
		}
	}
	t.Logf("%d appends before the disk was full and after", len(acked))
}
