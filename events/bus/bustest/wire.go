package bustest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"stint/events/bus"
)

func nudges(t *testing.T, connect Connect) {
	ctx := within(t)
	from, one, two := connect(t).Wire(), connect(t).Wire(), connect(t).Wire()
	name := token(t)
	all, shared := make(chan bus.Nudge, 10_000), make(chan bus.Nudge, 10_000)
	stop := must[func()](t)(one.Listen("beat."+name+".*", "", func(n bus.Nudge) { all <- n }))
	for _, w := range []bus.Wire{one, two} {
		must[func()](t)(w.Listen("beat."+name+".>", "readers", func(n bus.Nudge) { shared <- n }))
	}
	// Interest spreads through a cluster in its own time: wait until both hear.
	settle := func(heard chan bus.Nudge) {
		t.Helper()
		for {
			check(t, from.Nudge("beat."+name+".warm", nil))
			select {
			case <-heard:
				return
			case <-ctx.Done():
				t.Fatal("a nudge was never heard")
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	settle(all)
	settle(shared)
	for i := range 100 {
		check(t, from.Nudge("beat."+name+".n1", fmt.Append(nil, i)))
	}
	next := func(heard chan bus.Nudge) bus.Nudge {
		t.Helper()
		for {
			select {
			case n := <-heard:
				if n.Subject != "beat."+name+".warm" {
					return n
				}
			case <-ctx.Done():
				t.Fatal("a nudge was never heard")
			}
		}
	}
	seen := map[string]int{}
	for i := range 100 {
		if n := next(all); string(n.Data) != fmt.Sprint(i) || n.Subject != "beat."+name+".n1" {
			t.Fatalf("heard %s %q, want %d", n.Subject, n.Data, i)
		}
		seen[string(next(shared).Data)]++
	}
	for i := range 100 {
		if seen[fmt.Sprint(i)] != 1 {
			t.Fatalf("the queue heard %d %d times", i, seen[fmt.Sprint(i)])
		}
	}
	stop()
	check(t, from.Nudge("beat."+name+".n1", []byte("after")))
	next(shared)
	select {
	case n := <-all:
		if n.Subject != "beat."+name+".warm" {
			t.Fatalf("heard %q after it stopped listening", n.Data)
		}
	default:
	}
}

func questions(t *testing.T, connect Connect) {
	ctx := within(t)
	asker, answerer := connect(t).Wire(), connect(t).Wire()
	subject := "ask." + token(t)
	_, err := asker.Ask(ctx, subject, nil)
	wantErr(t, err, bus.ErrNobody)

	release := make(chan struct{})
	stop := must[func()](t)(answerer.Answer(subject, "views", func(ctx context.Context, q bus.Nudge) ([]byte, error) {
		if q.Subject != subject {
			return nil, fmt.Errorf("asked on %s", q.Subject)
		}
		switch string(q.Data) {
		case "wait":
			select {
			case <-release:
				return []byte("waited"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		case "wait for ever":
			<-ctx.Done()
			return nil, ctx.Err()
		case "huge":
			return bytes.Repeat([]byte("0123456789abcdef"), 20<<20/16), nil
		case "bad":
			return nil, errors.New("no such view: bad")
		default:
			return append([]byte("echo "), q.Data...), nil
		}
	}))
	for {
		got, err := asker.Ask(ctx, subject, []byte("hello"))
		if errors.Is(err, bus.ErrNobody) && ctx.Err() == nil { // interest has not yet spread through the cluster
			time.Sleep(10 * time.Millisecond)
			continue
		}
		check(t, err)
		if string(got) != "echo hello" {
			t.Fatalf("the answer is %q", got)
		}
		break
	}
	if got := must[[]byte](t)(asker.Ask(ctx, subject, nil)); string(got) != "echo " {
		t.Fatalf("the answer to nothing is %q", got)
	}
	huge := must[[]byte](t)(asker.Ask(ctx, subject, []byte("huge")))
	if want := bytes.Repeat([]byte("0123456789abcdef"), 20<<20/16); !bytes.Equal(huge, want) {
		t.Fatalf("a big answer came as %d bytes, want %d", len(huge), len(want))
	}
	_, err = asker.Ask(ctx, subject, []byte("bad"))
	var answer *bus.AnswerError
	if !errors.As(err, &answer) || answer.Text != "no such view: bad" {
		t.Fatalf("the error is %v", err)
	}
	_, err = asker.Ask(ctx, subject, make([]byte, bus.MaxData+1))
	wantErr(t, err, bus.ErrTooLarge)

	// A question that waits holds up no other.
	waiting := make(chan string, 1)
	go func() {
		got, err := asker.Ask(ctx, subject, []byte("wait"))
		waiting <- fmt.Sprintf("%s %v", got, err)
	}()
	must[[]byte](t)(asker.Ask(ctx, subject, []byte("hello")))
	close(release)
	if got := <-waiting; got != "waited <nil>" {
		t.Fatalf("the question that waited got %s", got)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = asker.Ask(short, subject, []byte("wait for ever"))
	wantErr(t, err, context.DeadlineExceeded)
	stop()
	for {
		if _, err = asker.Ask(ctx, subject, nil); errors.Is(err, bus.ErrNobody) {
			break
		}
		check(t, err)
		time.Sleep(10 * time.Millisecond)
	}
}

// slowQuestions: an answer may take its time, and one who dies over it is replaced.
func slowQuestions(t *testing.T, connect Connect) {
	ctx := within(t)
	asker := connect(t).Wire()
	subject := "ask." + token(t)
	var asked atomic.Int32
	for range 2 {
		b := connect(t)
		must[func()](t)(b.Wire().Answer(subject, "views", func(ctx context.Context, q bus.Nudge) ([]byte, error) {
			if string(q.Data) == "warm" {
				return q.Data, nil
			}
			switch asked.Add(1) {
			case 1: // dies over it
				time.Sleep(1200 * time.Millisecond)
				b.Close()
				<-ctx.Done()
				return nil, ctx.Err()
			case 2: // takes its time
				time.Sleep(2500 * time.Millisecond)
				return bytes.Repeat([]byte("late"), 1<<20), ctx.Err()
			}
			return nil, errors.New("asked too often")
		}))
	}
	for {
		_, err := asker.Ask(ctx, subject, []byte("warm"))
		if err == nil {
			break
		}
		wantErr(t, err, bus.ErrNobody)
		time.Sleep(10 * time.Millisecond)
	}
	if got := must[[]byte](t)(asker.Ask(ctx, subject, []byte("slow"))); !bytes.Equal(got, bytes.Repeat([]byte("late"), 1<<20)) {
		t.Fatalf("the answer has %d bytes, want %d", len(got), 4<<20)
	}
}

func status(t *testing.T, connect Connect) {
	b := connect(t)
	seen := make(chan bus.Status, 100)
	stop := b.OnStatus(func(s bus.Status) { seen <- s })
	if s := <-seen; s.State != bus.Up || s.Server == "" {
		t.Fatalf("the first status is %+v, want up", s)
	}
	silent := make(chan bus.Status, 100)
	b.OnStatus(func(s bus.Status) { silent <- s })()
	<-silent
	check(t, b.Close())
	for {
		select {
		case s := <-seen:
			if s.State == bus.Closed {
				stop()
				if len(silent) != 0 {
					t.Fatalf("told %+v after it asked for no more", <-silent)
				}
				return
			}
		case <-time.After(patience):
			t.Fatal("never told that the bus is closed")
		}
	}
}
