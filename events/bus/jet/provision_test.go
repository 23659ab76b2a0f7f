package jet_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"stint/events/bus"
	"stint/events/bus/jet"
)

// TestStreamsAreAsTheyMustBe alters streams behind Stint's back: what can be put right is, the rest is refused by name.
func TestStreamsAreAsTheyMustBe(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped because of -short: starts a server as a process")
	}
	c := startCluster(t, 1)
	b, ctx := c.connect(t), within(t)
	layout := jet.Layout{Replicas: 1, Synced: true}

	events, err := c.js.Stream(ctx, bus.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := events.CachedInfo().Config
	if cfg.Storage != jetstream.FileStorage || !cfg.DenyDelete || !cfg.AllowDirect || cfg.MaxAge != 0 || cfg.MaxMsgs != -1 || cfg.MaxBytes != -1 {
		t.Fatalf("EVENTS is %+v", cfg)
	}
	cfg.MaxAge, cfg.MaxMsgs = time.Hour, 1000
	if _, err := c.js.UpdateStream(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	layout.UsageAge = time.Hour
	if _, err := b.Provision(ctx, layout); err != nil {
		t.Fatal(err)
	}
	if events, err = c.js.Stream(ctx, bus.EventsStream); err != nil {
		t.Fatal(err)
	}
	if cfg := events.CachedInfo().Config; cfg.MaxAge != 0 || cfg.MaxMsgs != -1 {
		t.Fatalf("EVENTS still forgets: %+v", cfg)
	}
	usage, err := c.js.Stream(ctx, bus.UsageStream)
	if err != nil {
		t.Fatal(err)
	}
	if age := usage.CachedInfo().Config.MaxAge; age != time.Hour {
		t.Fatalf("USAGE keeps %s, want an hour", age)
	}

	for _, wrong := range []struct {
		cfg  jetstream.StreamConfig
		want string
	}{
		{jetstream.StreamConfig{Name: bus.EventsStream, Subjects: []string{bus.EventsSubjects}, Storage: jetstream.MemoryStorage}, "kept in Memory, not in File"},
		{jetstream.StreamConfig{Name: bus.EventsStream, Subjects: []string{"ev.>", "x.>"}}, "with the subjects [ev.> x.>]"},
		{jetstream.StreamConfig{Name: bus.EventsStream, Subjects: []string{bus.EventsSubjects}, Retention: jetstream.WorkQueuePolicy}, "retention is WorkQueue"},
		{jetstream.StreamConfig{Name: bus.EventsStream, Subjects: []string{bus.EventsSubjects}, PersistMode: jetstream.AsyncPersistMode}, "acknowledges before it writes"},
		{jetstream.StreamConfig{Name: bus.EventsStream, Subjects: []string{bus.EventsSubjects}, MaxMsgSize: 100}, "limits that Stint does not set"},
	} {
		if err := c.js.DeleteStream(ctx, bus.EventsStream); err != nil {
			t.Fatal(err)
		}
		if _, err := c.js.CreateStream(ctx, wrong.cfg); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Provision(ctx, layout); err == nil || !strings.Contains(err.Error(), wrong.want) || !strings.Contains(err.Error(), bus.EventsStream) {
			t.Errorf("provisioning ended with %v, want %q", err, wrong.want)
		}
	}
}
