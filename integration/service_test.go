package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A service hears each state of each job once, picks by wildcards, and goes on where it stopped, whatever was stopped
// meanwhile: the service itself, or the whole cluster.
func TestService(t *testing.T) {
	c := start(t, "--nodes", "n1", "--cpus", "4", "--memory", "4000")
	states := func(durable, filter string, until func([]string) bool) (out []string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		nc := c.service()
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		place, err := js.CreateOrUpdateConsumer(ctx, "JOBS", jetstream.ConsumerConfig{Durable: durable, FilterSubject: filter, AckPolicy: jetstream.AckExplicitPolicy})
		if err != nil {
			t.Fatal(err)
		}
		for !until(out) {
			m, err := place.Next(jetstream.FetchMaxWait(5 * time.Second))
			if err != nil {
				if ctx.Err() != nil {
					t.Fatalf("%s heard only %v", durable, out)
				}
				continue
			}
			e := parseTold(t, m.Subject(), m.Data())
			out = append(out, e.id()+" "+e.State)
			if err := m.DoubleAck(ctx); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	has := func(want string) func([]string) bool {
		return func(got []string) bool { return slices.Contains(got, want) }
	}
	first := c.submit("-o", "/dev/null", "--wrap", "exit 1")
	if got := strings.Join(states("all", "job.>", has(first+" FAILED")), ", "); got != fmt.Sprintf("%[1]s PENDING, %[1]s RUNNING, %[1]s COMPLETING, %[1]s FAILED", first) {
		t.Errorf("a service heard of job %s: %s", first, got)
	}
	second := c.submit("-o", "/dev/null", "--wrap", "exit 0")
	c.await(second, "COMPLETED")
	c.do("stint", "down")
	c.up()
	third := c.submit("-o", "/dev/null", "--array=0-1", "--wrap", "exit $SLURM_ARRAY_TASK_ID")
	got := states("all", "job.>", func(got []string) bool { return has(third+"_0 COMPLETED")(got) && has(third+"_1 FAILED")(got) })
	for _, want := range []string{second + " PENDING", second + " RUNNING", second + " COMPLETED", third + "_0 RUNNING", third + "_0 COMPLETED", third + "_1 RUNNING", third + "_1 FAILED"} {
		n := 0
		for _, g := range got {
			if g == want {
				n++
			}
		}
		if n != 1 {
			t.Errorf("a service heard %q %d times, going on where it had stopped: %v", want, n, got)
		}
	}
	if slices.Contains(got, first+" FAILED") {
		t.Errorf("it heard again what it had heard: %v", got)
	}
	failed := states("failed", "job.FAILED.debug.*.*", func(got []string) bool { return len(got) == 2 })
	if want := []string{first + " FAILED", third + "_1 FAILED"}; !slices.Equal(failed, want) {
		t.Errorf("by a wildcard for failures it hears %v, not %v", failed, want)
	}
}
