package scheduler

import (
	"log/slog"
	"testing"

	"stint/projections"
	"stint/scheduler/feed"
)

// A feed that one server keeps may lose its last entries with the power, after a snapshot was made that took them for told. Then an
// older snapshot serves, from which they are derived again, or none.
func TestSnapshotAheadOfTheFeed(t *testing.T) {
	dir := t.TempDir()
	for i, rest := range []feed.Rest{{Seq: 10, Index: 2}, {Seq: 20, Index: 1, Waiting: []projections.JobEvent{{Seq: 21, Subject: "job.X", Data: []byte("x")}}}} {
		s := &snapshots{dir: dir, log: slog.New(slog.DiscardHandler)}
		snap := projections.New().Snapshot()
		snap.Seq = uint64(30 + i)
		if err := s.put(snap, rest); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name    string
		end     uint64 // of the feed
		want    uint64 // of the snapshot; 0: none
		waiting int
	}{
		{"all that it had", 20, 31, 1},
		{"less than the newest takes for told", 19, 30, 0},
		{"less than any takes for told", 9, 0, 0},
	} {
		s := &snapshots{dir: dir, log: slog.New(slog.DiscardHandler)}
		state, waiting := s.load(100, func(r feed.Rest) bool { return r.Seq <= c.end })
		got := uint64(0)
		if state != nil {
			got = state.Seq()
		}
		if got != c.want || len(waiting) != c.waiting {
			t.Errorf("where the feed has %s the snapshot at %d serves with %d entries, want %d with %d", c.name, got, len(waiting), c.want, c.waiting)
		}
	}
}
