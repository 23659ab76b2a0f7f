package ledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"stint/events"
	"stint/events/bus"
	"stint/events/bus/mem"
	"stint/ledger/rows"
	"stint/projections/story"
)

// hub is a bus in memory that says the time of the history.
type hub struct {
	*mem.Hub
	now time.Time
}

func newHub() *hub {
	h := &hub{}
	h.Hub = mem.New(mem.Options{Now: func() time.Time { return h.now }})
	return h
}

// play appends messages from..to of a history.
func (b *hub) play(t testing.TB, h *history, from, to int) {
	t.Helper()
	log := b.Connect("author").Events()
	last := map[string]uint64{}
	for seq := from; seq <= to; seq++ {
		m := h.log[seq-1]
		b.now = time.UnixMicro(m.at)
		var got uint64
		var err error
		if strings.HasPrefix(m.subject, "ev.intent") {
			got, err = log.Publish(context.Background(), m.subject, string(rune(seq)), m.data)
		} else {
			after := last[m.subject]
			if after == 0 {
				if m, err := log.Last(context.Background(), m.subject); err == nil {
					after = m.Seq
				}
			}
			got, err = log.Append(context.Background(), m.subject, after, m.data)
			last[m.subject] = got
		}
		if err != nil || got != uint64(seq) {
			t.Fatalf("message %d became %d: %v", seq, got, err)
		}
	}
}

// run starts a ledger on a bus; the returned function stops it and returns what Run said.
func run(t testing.TB, l *Ledger, b bus.Bus) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx, b) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(20 * time.Second):
			t.Fatal("the ledger does not stop")
			return nil
		}
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func question(t testing.TB, b bus.Bus, q *rows.Ask) *rows.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	data, err := q.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	for {
		if got, err = b.Wire().Ask(ctx, events.SubjectAsk(rows.View), data); !errors.Is(err, bus.ErrNobody) || ctx.Err() != nil {
			break
		}
		time.Sleep(time.Millisecond) // nobody answers yet: the ledger is coming up
	}
	if err != nil {
		t.Fatal(err)
	}
	a := &rows.Answer{}
	if err := a.UnmarshalVT(got); err != nil {
		t.Fatal(err)
	}
	return a
}

// Over a bus: what is asked with a least sequence is answered when the rows are there, and a story that is followed
// goes on.
func TestOverABus(t *testing.T) {
	h := sample(t)
	b := newHub()
	client := b.Connect("client")
	half := len(h.log) / 2
	b.play(t, h, 1, half)
	l := open(t, vfs.NewMem(), Options{})
	stop := run(t, l, b.Connect("ledger"))

	a := question(t, client, &rows.Ask{LeastSeq: uint64(half), What: &rows.Ask_Jobs{Jobs: &rows.AskJobs{Allocations: true}}})
	if a.Seq < uint64(half) || a.Error != "" || len(a.Records) < 2 {
		t.Fatalf("at %d: %v", half, a)
	}
	answers := make(chan *rows.Answer, 1)
	go func() {
		answers <- l.Answer(context.Background(), &rows.Ask{LeastSeq: uint64(len(h.log)), What: &rows.Ask_Jobs{Jobs: &rows.AskJobs{Allocations: true}}})
	}()
	story := make(chan *rows.Answer, 1)
	go func() {
		story <- l.Answer(context.Background(), &rows.Ask{What: &rows.Ask_Story{Story: &rows.AskStory{AfterSeq: uint64(half), WaitMs: 20000}}})
	}()
	b.play(t, h, half+1, len(h.log))
	if got := told(<-answers); got != "1 COMPLETED; 2 FAILED; 3_1 COMPLETED; 3_2 CANCELLED; 3_5 PENDING; 6 RUNNING; 7 PENDING" {
		t.Errorf("after the end: %s", got)
	}
	if a := <-story; len(a.Story) == 0 || a.Story[0].Seq != uint64(half)+1 {
		t.Errorf("the story does not go on behind %d: %v", half, a)
	}
	// one whose time is over
	late, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if a := l.Answer(late, &rows.Ask{LeastSeq: 1 << 40, What: &rows.Ask_Status{Status: &rows.AskStatus{}}}); !strings.Contains(a.Error, "accounting is at") {
		t.Errorf("a sequence that never comes: %q", a.Error)
	}
	if err := stop(); err != nil {
		t.Errorf("stopped: %v", err)
	}
	want := open(t, vfs.NewMem(), Options{})
	defer want.Close()
	feed(t, want, h, uint64(len(h.log)), 1)
	same(t, "over a bus", want, l)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestAnotherLog(t *testing.T) {
	fs := vfs.NewMem()
	h := sample(t)
	l := open(t, fs, Options{})
	feed(t, l, h, uint64(len(h.log)), 10)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, play := range map[string]func(*hub){
		"shorter": func(b *hub) { b.play(t, h, 1, 5) },
		"empty":   func(b *hub) {},
		"other": func(b *hub) {
			o := newHistory(t, 2)
			for i := range o.log {
				o.log[i].at += 5e6
			}
			o.wander(rand.New(rand.NewPCG(1, 1)), 400)
			b.play(t, o, 1, len(o.log))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newHub()
			play(b)
			l := open(t, fs, Options{})
			defer l.Close()
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := l.Run(ctx, b.Connect("ledger")); err == nil || !strings.Contains(err.Error(), "put it back") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestStories(t *testing.T) {
	h := sample(t)
	l := open(t, vfs.NewMem(), Options{})
	defer l.Close()
	feed(t, l, h, uint64(len(h.log)), 7)
	l.fetch = h
	kinds := func(q *rows.AskStory) string {
		t.Helper()
		var out []string
		for _, line := range ask(t, l, &rows.Ask{What: &rows.Ask_Story{Story: q}}).Story {
			text := line.Kind
			if line.Label != "" {
				text += " " + line.Label
			}
			out = append(out, text)
			if strings.Contains(story.Text(line), "\n") || len(story.JSON(line)) == 0 {
				t.Errorf("line %v", line)
			}
			if q.Raw && line.Raw == "" {
				t.Errorf("no raw form of %s", story.Text(line))
			}
		}
		return strings.Join(out, ", ")
	}
	for _, tt := range []struct {
		ask  *rows.AskStory
		want string
	}{
		{&rows.AskStory{Job: 1}, "submit, admitted 1, placed 1, started 1, exited 1, ended 1"},
		{&rows.AskStory{Job: 1, Raw: true}, "submit, admitted 1, placed 1, started 1, exited 1, ended 1"},
		{&rows.AskStory{Job: 2}, "submit, admitted 2, placed 2, started 2, started 2, started 2, exited 2, exited 2, exited 2, ended 2"},
		{&rows.AskStory{Job: 3}, "submit, admitted 3_[1-2,5], placed 3_1, started 3_1, ended 3_2, exited 3_1, ended 3_1"},
		{&rows.AskStory{Job: 3, Task: 2, HasTask: true}, "submit, admitted 3_[1-2,5], ended 3_2"},
		{&rows.AskStory{Job: 6}, "submit, admitted 6, placed 6, started 6, stopping 6, exited 6, requeued 6, placed 6, started 6"},
		{&rows.AskStory{Job: 99}, ""},
	} {
		if got := kinds(tt.ask); got != tt.want {
			t.Errorf("%v\n got %s\nwant %s", tt.ask, got, tt.want)
		}
	}
	whole := kinds(&rows.AskStory{})
	if n := strings.Count(whole, ",") + 1; n < 30 {
		t.Errorf("the whole story has %d lines: %s", n, whole)
	}
	var parts []string
	for after := uint64(0); ; {
		a := l.Answer(context.Background(), &rows.Ask{What: &rows.Ask_Story{Story: &rows.AskStory{AfterSeq: after, Limit: 3}}})
		for _, line := range a.Story {
			text := line.Kind
			if line.Label != "" {
				text += " " + line.Label
			}
			parts = append(parts, text)
		}
		if a.StorySeq == after {
			break
		}
		after = a.StorySeq
	}
	if got := strings.Join(parts, ", "); got != whole {
		t.Errorf("in parts\n got %s\nwant %s", got, whole)
	}
	for _, line := range ask(t, l, &rows.Ask{What: &rows.Ask_Story{Story: &rows.AskStory{Job: 2}}}).Story {
		t.Log(story.Text(line))
	}
}

// What had no effect is told, and why.
func TestVoidIsTold(t *testing.T) {
	h := sample(t)
	j := h.c.Job(7)
	p := h.fit(j, 0)
	h.end(7, 0, 0, events.JobState_CANCELLED, 2002)
	h.place(p) // a placement that meets a cancelled job
	l := open(t, vfs.NewMem(), Options{})
	defer l.Close()
	feed(t, l, h, uint64(len(h.log)), 100)
	l.fetch = h
	a := ask(t, l, &rows.Ask{What: &rows.Ask_Story{Story: &rows.AskStory{Job: 7}}})
	all := ask(t, l, &rows.Ask{What: &rows.Ask_Story{Story: &rows.AskStory{Void: true}}}).Story
	if len(all) != 1 || !all[0].Void || all[0].Seq != uint64(len(h.log)) {
		t.Errorf("all that was void: %v", all)
	}
	if more := ask(t, l, &rows.Ask{What: &rows.Ask_Story{Story: &rows.AskStory{Void: true, AfterSeq: uint64(len(h.log))}}}).Story; len(more) != 0 {
		t.Errorf("void behind the end: %v", more)
	}
	last := a.Story[len(a.Story)-1]
	if !last.Void || last.Kind != "placed" || !strings.Contains(last.Why, "void: ") {
		t.Errorf("%s", story.Text(last))
	}
}

// Questions may come at any time, also while the ledger goes down and when it is gone.
func TestAskedWhileClosing(t *testing.T) {
	h := sample(t)
	for range 20 {
		l := open(t, vfs.NewMem(), Options{})
		feed(t, l, h, uint64(len(h.log)), 100)
		done := make(chan int)
		for range 4 {
			go func() {
				n := 0
				for {
					a := l.Answer(context.Background(), &rows.Ask{What: &rows.Ask_Jobs{Jobs: &rows.AskJobs{}}})
					if a.Error != "" {
						break
					}
					n++
				}
				done <- n
			}()
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			<-done
		}
		if a := l.Answer(context.Background(), &rows.Ask{What: &rows.Ask_Status{}}); !strings.Contains(a.Error, "going down") {
			t.Errorf("after it: %v", a)
		}
	}
}
