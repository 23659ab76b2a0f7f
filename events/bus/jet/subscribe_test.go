package jet_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"stint/events/bus"
	"stint/events/bus/server"
)

// TestSubscribeWithStockClient does what docs/subscribe.md shows: a service with the stock client and the key for services.
func TestSubscribeWithStockClient(t *testing.T) {
	dir := t.TempDir()
	keys, err := server.OpenKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := one(t, server.Options{Unsynced: true, Keys: keys})
	if _, err := s.Admit(role("service")); err != nil {
		t.Fatal(err)
	}
	ctx := within(t)
	feed := connect(t, s, role("controller")).Jobs()
	end := uint64(0)
	tell := func(states ...string) {
		t.Helper()
		for _, state := range states {
			if end, err = feed.Append(ctx, end, []bus.Entry{{Subject: "job." + state + ".gpu.alice.7", Data: fmt.Appendf(nil, `{"state":%q}`, state)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	tell("PENDING", "RUNNING")

	key, err := nats.NkeyOptionFromSeed(keys.Path(role("service")))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.URL(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	live, err := nc.SubscribeSync("job.FAILED.>")
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	all, err := js.OrderedConsumer(ctx, "JOBS", jetstream.OrderedConsumerConfig{FilterSubjects: []string{"job.*.gpu.>"}})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 10)
	reading, err := all.Consume(func(m jetstream.Msg) { got <- m.Subject() + " " + string(m.Data()) })
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Stop()
	tell("FAILED")
	for _, state := range []string{"PENDING", "RUNNING", "FAILED"} {
		want := fmt.Sprintf(`job.%s.gpu.alice.7 {"state":%q}`, state, state)
		select {
		case text := <-got:
			if text != want {
				t.Fatalf("read %s, want %s", text, want)
			}
		case <-ctx.Done():
			t.Fatalf("%s did not come", want)
		}
	}
	if m, err := live.NextMsgWithContext(ctx); err != nil || m.Subject != "job.FAILED.gpu.alice.7" {
		t.Fatalf("live came %v (%v)", m, err)
	}

	// A place that the server keeps: what was acknowledged does not come again, the rest does.
	for _, want := range []string{"PENDING", "RUNNING"} {
		c, err := js.CreateOrUpdateConsumer(ctx, "JOBS", jetstream.ConsumerConfig{Durable: "mailer", FilterSubject: "job.*.*.alice.*"})
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Next(jetstream.FetchContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(m.Subject(), want) {
			t.Fatalf("the durable consumer gave %s, want %s", m.Subject(), want)
		}
		if err := m.DoubleAck(ctx); err != nil {
			t.Fatal(err)
		}
	}

	// Nothing else is theirs.
	soon := func() context.Context {
		short, cancel := context.WithTimeout(ctx, nats.DefaultTimeout/10) // what is not permitted is not answered
		t.Cleanup(cancel)
		return short
	}
	for _, stream := range []string{"EVENTS", "BLOBS", "USAGE"} {
		if _, err := js.Stream(soon(), stream); err == nil {
			t.Errorf("a service looked into %s", stream)
		}
	}
	if _, err := js.Publish(soon(), "job.DONE.x.y.1", nil, jetstream.WithRetryAttempts(0)); err == nil {
		t.Error("a service wrote to the feed")
	}
}
