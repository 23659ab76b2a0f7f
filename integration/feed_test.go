package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// told is what the feed says of one state of a job.
type told struct {
	Subject    string `json:"-"`
	Job        uint32 `json:"job"`
	ArrayJob   uint32 `json:"array_job"`
	ArrayTask  *int   `json:"array_task"`
	ArrayTasks string `json:"array_tasks"`
	Name       string `json:"name"`
	User       string `json:"user"`
	State      string `json:"state"`
	Reason     string `json:"reason"`
	Nodes      string `json:"nodes"`
	ExitCode   string `json:"exit_code"`
	Seq        uint64 `json:"seq"`
	Index      int    `json:"index"`
}

// id is as sacct writes it.
func (e told) id() string {
	if e.ArrayTask != nil {
		return fmt.Sprintf("%d_%d", e.ArrayJob, *e.ArrayTask)
	}
	return fmt.Sprint(e.Job)
}

// service connects as a service does: with the stock client, the address and the key that the cluster's directory has.
func (c *cluster) service() *nats.Conn {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.dir, "cluster.json"))
	if err != nil {
		c.t.Fatal(err)
	}
	var at struct{ URL string }
	if err := json.Unmarshal(data, &at); err != nil {
		c.t.Fatal(err)
	}
	key, err := nats.NkeyOptionFromSeed(filepath.Join(c.dir, "keys", "service.nk"))
	if err != nil {
		c.t.Fatal(err)
	}
	nc, err := nats.Connect(at.URL, key, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	return nc
}

// feed reads all that the stream of job states has on some subjects.
func (c *cluster) feed(subjects ...string) (out []told) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	nc := c.service()
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		c.t.Fatal(err)
	}
	jobs, err := js.OrderedConsumer(ctx, "JOBS", jetstream.OrderedConsumerConfig{FilterSubjects: subjects})
	if err != nil {
		c.t.Fatal(err)
	}
	for {
		batch, err := jobs.FetchNoWait(1000)
		if err != nil {
			c.t.Fatal(err)
		}
		n := 0
		for m := range batch.Messages() {
			n++
			out = append(out, parseTold(c.t, m.Subject(), m.Data()))
		}
		if batch.Error() != nil {
			c.t.Fatal(batch.Error())
		}
		if n == 0 {
			return out
		}
	}
}

func parseTold(t *testing.T, subject string, data []byte) told {
	t.Helper()
	e := told{Subject: subject}
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatalf("%s: %q: %v", subject, data, err)
	}
	return e
}

// compareFeed holds the feed to accounting: each message is there once and in the order of the log, and the last word on each
// job is its state there.
func (c *cluster) compareFeed(states map[string]string) {
	c.t.Helper()
	var all []told
	last := map[string]told{}
	missing := ""
	for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		all, last, missing = c.feed("job.>"), map[string]told{}, ""
		for _, e := range all {
			last[e.id()] = e
		}
		for id, state := range states {
			if last[id].State != state {
				missing = fmt.Sprintf("of job %s the feed has %+v, accounting %s", id, last[id], state)
			}
		}
		if missing == "" {
			break
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s\n%s", missing, c.try("stint", "status").out)
		}
	}
	finals := map[string]int{}
	for i, e := range all {
		if i > 0 && (all[i-1].Seq > e.Seq || all[i-1].Seq == e.Seq && all[i-1].Index >= e.Index) {
			c.t.Errorf("the feed has %+v after %+v", e, all[i-1])
		}
		if want := fmt.Sprintf("job.%s.debug.%s.%d", e.State, e.User, e.Job); e.Subject != want {
			c.t.Errorf("the feed has %+v on %s, not on %s", e, e.Subject, want)
		}
		if final(e.State) && e.ArrayTasks == "" {
			finals[e.id()]++
		}
	}
	for id, n := range finals {
		if n != 1 {
			c.t.Errorf("the feed has %d ends of job %s", n, id)
		}
	}
}
