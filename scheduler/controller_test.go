package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint/events"
	"stint/events/bus"
	"stint/events/bus/mem"
	"stint/projections"
	"stint/scheduler/cycle"
)

// running is a controller that runs in a test.
type running struct {
	*Controller
	client *mem.Client
	stop   func()
}

func quietLog(t *testing.T) *slog.Logger {
	if os.Getenv("STINT_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

func run(t *testing.T, hub *mem.Hub, name, dir string) *running {
	t.Helper()
	client := hub.Connect(name)
	c, err := New(Config{Bus: client, Name: name, Dir: dir, Lease: time.Second, Log: quietLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := c.Run(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	var once sync.Once
	r := &running{Controller: c, client: client}
	r.stop = func() { once.Do(func() { cancel(); done.Wait() }) }
	t.Cleanup(r.stop)
	return r
}

// eventually waits for a condition that must come about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come about: %s", what)
		}
	}
}

// patientHub is a bus in memory whose authors wait as long as they say they do.
func patientHub() *mem.Hub {
	return mem.New(mem.Options{Wait: func(ctx context.Context, d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}})
}

func status(r *running) *projections.AnswerStatus {
	return r.Answer(context.Background(), &projections.Ask{What: &projections.Ask_Status{Status: &projections.AskStatus{}}}).GetStatus()
}

// One of several leads; when it ends another does, and its term is in the log behind the first.
func TestElection(t *testing.T) {
	hub := patientHub()
	var all []*running
	for i := range 3 {
		all = append(all, run(t, hub, fmt.Sprint("c", i), ""))
	}
	for len(all) > 0 {
		leader := -1
		eventually(t, "one leads", func() bool {
			n := 0
			for i, r := range all {
				if r.busyLeading() {
					leader, n = i, n+1
				}
			}
			return n == 1
		})
		name := all[leader].cfg.Name
		for _, r := range all {
			eventually(t, r.cfg.Name+" knows that "+name+" leads", func() bool { s := status(r); return s != nil && s.Term.GetController() == name })
		}
		all[leader].stop()
		all = append(all[:leader], all[leader+1:]...)
	}
}

// A leader that is cut off keeps its term, decides nothing, and learns from the log that another has taken over.
func TestCutOff(t *testing.T) {
	hub := patientHub()
	a := run(t, hub, "a", "")
	eventually(t, "a leads", a.busyLeading)
	b := run(t, hub, "b", "")
	a.client.Cut(true)
	eventually(t, "b leads", b.busyLeading)
	if !a.busyLeading() {
		t.Error("a gave up its term without having read of another")
	}
	a.client.Cut(false)
	eventually(t, "a is deposed", func() bool { return !a.busyLeading() })
	if !b.busyLeading() {
		t.Error("b does not lead any more")
	}
}

// A controller that comes back from its snapshot is where one that folds everything is.
func TestSnapshot(t *testing.T) {
	hub := patientHub()
	dir := t.TempDir()
	a := run(t, hub, "a", dir)
	eventually(t, "a leads", a.busyLeading)
	agent := hub.Connect("agent")
	config := &events.Config{Cluster: "c", AdminUids: []uint32{0}}
	body, _ := config.MarshalVT()
	batch := &events.IntentBatch{Intents: []*events.Intent{{Verb: events.Verb_CONFIGURE, Nonce: make([]byte, 16), Author: &events.Author{User: "root"}, Body: body}}}
	data, _ := batch.MarshalVT()
	seq, err := agent.Events().Publish(context.Background(), events.SubjectIntentHost("h"), "1", data)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the intent is folded", func() bool { return a.shown.Load().view.Seq() >= seq })
	a.stop()
	files, _ := filepath.Glob(filepath.Join(dir, "snapshot-*"))
	if len(files) == 0 {
		t.Fatal("no snapshot was left behind")
	}
	want := a.state.Hash()
	wantSeq := a.state.Seq()

	for _, test := range []struct {
		name   string
		damage func()
		from   bool // from the snapshot
	}{
		{"as it is", func() {}, true},
		{"with a bit turned", func() {
			for _, f := range files {
				data, _ := os.ReadFile(f)
				data[len(data)/2] ^= 1
				os.WriteFile(f, data, 0o600)
			}
		}, false},
		{"deleted", func() {
			for _, f := range files {
				os.Remove(f)
			}
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.damage()
			c, err := New(Config{Bus: hub.Connect("x"), Name: "x", Dir: dir, Log: quietLog(t)})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.restore(context.Background()); err != nil {
				t.Fatal(err)
			}
			if from := c.state.Seq() == wantSeq; from != test.from {
				t.Errorf("begun at %d, snapshot used: %v, want %v", c.state.Seq(), from, test.from)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			hub.Connect("y").Events().Follow(ctx, c.state.Seq()+1, func(b bus.Batch) error {
				for _, m := range b.Messages {
					if m.Seq <= wantSeq {
						c.fold(read{events: []events.Event{events.Decode(m.Seq, m.Time.UnixMicro(), m.Subject, m.Data)}})
					}
				}
				if b.Tip {
					cancel()
				}
				return nil
			})
			if got := c.state.Hash(); got != want {
				t.Errorf("the state at %d differs from the one that wrote the snapshot at %d", c.state.Seq(), wantSeq)
			}
		})
	}
}

// A question that names a sequence is answered when that is folded.
func TestLeastSequence(t *testing.T) {
	hub := patientHub()
	a := run(t, hub, "a", "")
	eventually(t, "a leads", a.busyLeading)
	next := a.shown.Load().view.Seq() + 1
	got := make(chan *projections.Answer, 1)
	go func() {
		got <- a.Answer(context.Background(), &projections.Ask{LeastSeq: next, What: &projections.Ask_Status{Status: &projections.AskStatus{}}})
	}()
	select {
	case <-got:
		t.Fatal("answered before the sequence was there")
	case <-time.After(30 * time.Millisecond):
	}
	if _, err := hub.Connect("agent").Events().Publish(context.Background(), events.SubjectIntentHost("h"), "1", []byte{1}); err != nil {
		t.Fatal(err)
	}
	select {
	case ans := <-got:
		if ans.Seq < next {
			t.Errorf("answered from %d, asked for %d", ans.Seq, next)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("not answered")
	}
}

// The loop is watched: what does not end and what does not move is complained of.
func TestWatch(t *testing.T) {
	w := &watch{limit: 20 * time.Millisecond, log: quietLog(t)}
	if got := w.complaint(); got != "" {
		t.Errorf("idle: %q", got)
	}
	w.begin("cycle")
	eventually(t, "the cycle is complained of", func() bool { return w.complaint() != "" })
	w.end()
	if got := w.complaint(); got != "" {
		t.Errorf("ended: %q", got)
	}
	w.inbox(3)
	eventually(t, "the inbox is complained of", func() bool { return w.complaint() != "" })
	w.inbox(2)
	if got := w.complaint(); got != "" {
		t.Errorf("it moves: %q", got)
	}
	w.inbox(0)
}

// A pass that panics decides nothing and takes nothing down: questions are answered, the status complains, and when the cause
// is gone decisions go on.
func TestPassThatPanics(t *testing.T) {
	hub := patientHub()
	client := hub.Connect("a")
	c, err := New(Config{Bus: client, Name: "a", Lease: time.Second, Log: quietLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	var broken atomic.Bool
	broken.Store(true)
	c.run = func(s *projections.Cluster, in cycle.Input) ([]*events.Fact, []*projections.Outcome, int64) {
		if broken.Load() {
			panic("no such thing")
		}
		return cycle.Run(s, in)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { c.Run(ctx) })
	defer done.Wait()
	defer cancel()
	r := &running{Controller: c}
	eventually(t, "the status complains", func() bool {
		return c.shown.Load() != nil && strings.Contains(status(r).GetComplaint(), "the last pass failed: no such thing")
	})
	broken.Store(false)
	eventually(t, "decisions go on", func() bool { return status(r).GetComplaint() == "" })
}
