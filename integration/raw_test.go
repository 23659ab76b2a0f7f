package integration

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// second starts another controller, which follows, and ends it with the test.
func (c *cluster) second() *exec.Cmd {
	c.t.Helper()
	logs, err := os.Create(filepath.Join(c.dir, "log", "second.log"))
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, "stint"), "controller", "--dir", c.dir)
	cmd.Env, cmd.Stderr = c.env, logs
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGCONT)
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	c.eventually("the second controller answers", func() bool {
		data, _ := os.ReadFile(logs.Name())
		return regexp.MustCompile(`msg=answering`).Match(data)
	})
	return cmd
}

// client connects to the bus with the stock client and the key of a role.
func (c *cluster) client(role string) (*nats.Conn, jetstream.JetStream) {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.dir, "cluster.json"))
	if err != nil {
		c.t.Fatal(err)
	}
	var at struct{ URL string }
	if err := json.Unmarshal(data, &at); err != nil {
		c.t.Fatal(err)
	}
	key, err := nats.NkeyOptionFromSeed(filepath.Join(c.dir, "keys", role+".nk"))
	if err != nil {
		c.t.Fatal(err)
	}
	nc, err := nats.Connect(at.URL, key, nats.CustomInboxPrefix("_IN."+role))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		c.t.Fatal(err)
	}
	return nc, js
}

type message struct {
	seq  uint64
	data []byte
}

// messages are what the log has on a subject.
func (c *cluster) messages(subject string) (out []message) {
	c.t.Helper()
	nc, js := c.client("admin")
	defer nc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := js.Stream(ctx, "EVENTS")
	if err != nil {
		c.t.Fatal(err)
	}
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(ctx, seq)
		if err != nil {
			c.t.Fatal(err)
		}
		if m.Subject == subject {
			out = append(out, message{seq, m.Data})
		}
	}
	return out
}

// publish appends data, on condition that the subject's last message is the one given (0: without a condition).
func (c *cluster) publish(role, subject string, data []byte, last uint64) error {
	c.t.Helper()
	var options []jetstream.PublishOpt
	if last > 0 {
		options = append(options, jetstream.WithExpectLastSequencePerSubject(last))
	}
	_, err := c.append(role, subject, data, options...)
	return err
}

// append appends data to the stream of a subject and returns its sequence there.
func (c *cluster) append(role, subject string, data []byte, options ...jetstream.PublishOpt) (seq uint64, err error) {
	c.t.Helper()
	nc, js := c.client(role)
	defer nc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ack, err := js.Publish(ctx, subject, data, options...)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}
