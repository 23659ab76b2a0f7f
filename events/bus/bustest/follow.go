package bustest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"stint/events/bus"
)

// reader collects what a follower is handed.
type reader struct {
	batches chan bus.Batch
	ended   chan error
	stop    context.CancelFunc
	held    []bus.Message // received and not yet taken
	tips    int           // how often the end was reported with nothing after it
}

func read1(t testing.TB, follow func(ctx context.Context, fn func(bus.Batch) error) error) *reader {
	ctx, cancel := context.WithCancel(within(t))
	r := &reader{batches: make(chan bus.Batch, 1<<16), ended: make(chan error, 1), stop: cancel}
	go func() {
		r.ended <- follow(ctx, func(b bus.Batch) error {
			r.batches <- b
			return nil
		})
	}()
	t.Cleanup(cancel)
	return r
}

// next returns the next message, failing the test if none comes.
func (r *reader) next(t testing.TB) bus.Message {
	t.Helper()
	for len(r.held) == 0 {
		select {
		case b := <-r.batches:
			if len(b.Messages) == 0 && !b.Tip {
				t.Fatal("a batch with neither messages nor the end")
			}
			if r.held = b.Messages; b.Tip {
				r.tips++
			}
		case err := <-r.ended:
			t.Fatalf("the follower ended: %v", err)
		}
	}
	m := r.held[0]
	r.held = r.held[1:]
	return m
}

// tip waits for the report of the end, after which nothing may be left to take.
func (r *reader) tip(t testing.TB) {
	t.Helper()
	for r.tips == 0 {
		select {
		case b := <-r.batches:
			if r.held = append(r.held, b.Messages...); b.Tip {
				r.tips++
			}
		case err := <-r.ended:
			t.Fatalf("the follower ended: %v", err)
		}
	}
	if len(r.held) != 0 {
		t.Fatalf("the end was reported %d messages late", len(r.held))
	}
}

func follow(t *testing.T, connect Connect) {
	ctx, log := within(t), connect(t).Events()
	subject := "ev.intent." + token(t)
	const backlog = 3000
	want := make([]uint64, 0, 2*backlog)
	for i := range backlog / 100 { // few round trips: each author publishes on
		want = append(want, publishMany(t, ctx, log, subject, i*100, 100)...)
	}
	r := read1(t, func(ctx context.Context, fn func(bus.Batch) error) error { return log.Follow(ctx, want[0], fn) })
	take := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			m := r.next(t)
			if m.Seq != want[i] || m.Subject != subject || string(m.Data) != fmt.Sprintf("message %d", i) {
				t.Fatalf("message %d is %d on %s %q, want %d", i, m.Seq, m.Subject, m.Data, want[i])
			}
		}
	}
	take(0, backlog)
	r.tip(t)
	want = append(want, publishMany(t, ctx, log, subject, backlog, 100)...)
	take(backlog, backlog+100)

	// From the end: told so at once, then what comes.
	last := want[len(want)-1]
	tail := read1(t, func(ctx context.Context, fn func(bus.Batch) error) error { return log.Follow(ctx, last+1, fn) })
	tail.tip(t)
	next := must[uint64](t)(log.Publish(ctx, subject, subject+"end", []byte("end")))
	if m := tail.next(t); m.Seq != next {
		t.Fatalf("a follower from the end was handed %d, want %d", m.Seq, next)
	}

	// It ends with its context, and with its function's error.
	tail.stop()
	wantErr(t, <-tail.ended, context.Canceled)
	full := errors.New("full")
	n := 0
	err := log.Follow(ctx, want[10], func(b bus.Batch) error {
		if n++; n > 1 {
			t.Error("handed a batch after an error")
		}
		if b.Messages[0].Seq != want[10] {
			t.Errorf("begins at %d, want %d", b.Messages[0].Seq, want[10])
		}
		return full
	})
	wantErr(t, err, full)

	// It ends when its connection is closed.
	b := connect(t)
	closed := read1(t, func(ctx context.Context, fn func(bus.Batch) error) error { return b.Events().Follow(ctx, next, fn) })
	closed.next(t)
	check(t, b.Close())
	wantErr(t, <-closed.ended, bus.ErrClosed)
	_, err = b.Events().Append(ctx, subject, 0, []byte("x"))
	wantErr(t, err, bus.ErrClosed)
}

// publishMany publishes messages from+0, from+1, … in order and returns their sequences.
func publishMany(t testing.TB, ctx context.Context, log bus.Log, subject string, from, count int) []uint64 {
	t.Helper()
	var seqs []uint64
	for i := from; i < from+count; i++ {
		seqs = append(seqs, must[uint64](t)(log.Publish(ctx, subject, fmt.Sprintf("%s%d", subject, i), fmt.Appendf(nil, "message %d", i))))
	}
	return seqs
}

func followRefuses(t *testing.T, connect Connect) {
	ctx, log := within(t), connect(t).Events()
	subject := "ev.intent." + token(t)
	publishMany(t, ctx, log, subject, 0, 3)
	last := must[uint64](t)(log.Publish(ctx, subject, subject+"last", []byte("last")))
	never := func(b bus.Batch) error {
		t.Errorf("handed %d messages", len(b.Messages))
		return nil
	}
	var ahead *bus.AheadError
	if err := log.Follow(ctx, last+2, never); !errors.As(err, &ahead) || ahead.From != last+2 || ahead.Last != last {
		t.Fatalf("following from beyond the end ended with %v", err)
	}
	check(t, log.Trim(ctx, last))
	var trimmed *bus.TrimmedError
	if err := log.Follow(ctx, 0, never); !errors.As(err, &trimmed) || trimmed.From != 1 || trimmed.First != last {
		t.Fatalf("following from the beginning of a trimmed log ended with %v", err)
	}
	r := read1(t, func(ctx context.Context, fn func(bus.Batch) error) error { return log.Follow(ctx, last, fn) })
	if m := r.next(t); m.Seq != last {
		t.Fatalf("handed %d, want %d", m.Seq, last)
	}
	r.stop()
	check(t, log.Trim(ctx, last+1))
	if first, end, err := log.Bounds(ctx); err != nil || first != last+1 || end != last {
		t.Fatalf("a log trimmed to nothing holds %d to %d (%v), want %d to %d", first, end, err, last+1, last)
	}
	empty := read1(t, func(ctx context.Context, fn func(bus.Batch) error) error { return log.Follow(ctx, last+1, fn) })
	empty.tip(t)
	if next := must[uint64](t)(log.Publish(ctx, subject, subject+"next", []byte("next"))); next != last+1 {
		t.Fatalf("the message after a trim has sequence %d, want %d", next, last+1)
	}
	if m := empty.next(t); m.Seq != last+1 {
		t.Fatalf("handed %d, want %d", m.Seq, last+1)
	}
}

func followSubject(t *testing.T, connect Connect) {
	ctx, log := within(t), connect(t).Events()
	mine, other := "ev.node."+token(t), "ev.node.x"+token(t)
	var want []uint64
	for i := range 20 {
		want = append(want, publishMany(t, ctx, log, mine, i, 1)...)
		publishMany(t, ctx, log, other, i, 1)
	}
	r := read1(t, func(ctx context.Context, fn func(bus.Batch) error) error {
		return log.FollowSubject(ctx, mine, want[5], fn)
	})
	for _, seq := range want[5:] {
		if m := r.next(t); m.Seq != seq || m.Subject != mine {
			t.Fatalf("handed %d on %s, want %d", m.Seq, m.Subject, seq)
		}
	}
	r.tip(t)
	publishMany(t, ctx, log, other, 20, 1)
	next := publishMany(t, ctx, log, mine, 20, 1)[0]
	if m := r.next(t); m.Seq != next {
		t.Fatalf("handed %d on %s, want %d", m.Seq, m.Subject, next)
	}

	// What was trimmed is passed over.
	check(t, log.Trim(ctx, next))
	r = read1(t, func(ctx context.Context, fn func(bus.Batch) error) error { return log.FollowSubject(ctx, mine, 0, fn) })
	if m := r.next(t); m.Seq != next {
		t.Fatalf("handed %d, want %d", m.Seq, next)
	}
}

func entries(t testing.TB, from, count int) []bus.Entry {
	var list []bus.Entry
	for i := from; i < from+count; i++ {
		list = append(list, bus.Entry{
			Subject: fmt.Sprintf("job.RUNNING.%s.user%d.%d", token(t), i%3, i),
			Data:    fmt.Appendf(nil, "entry %d", i),
		})
	}
	return list
}

// feedEnd returns the sequence of the last message of the feed.
func feedEnd(t testing.TB, ctx context.Context, f bus.Feed) uint64 {
	t.Helper()
	m, err := f.Last(ctx)
	if errors.Is(err, bus.ErrNotFound) {
		return 0
	}
	check(t, err)
	return m.Seq
}

func feed(t *testing.T, connect Connect) {
	ctx, f := within(t), connect(t).Jobs()
	start := feedEnd(t, ctx, f)
	all := entries(t, 0, 700)
	if last := must[uint64](t)(f.Append(ctx, start, all[:500])); last != start+500 {
		t.Fatalf("500 entries behind %d end at %d", start, last)
	}
	if m := must[bus.Message](t)(f.Get(ctx, start+7)); m.Seq != start+7 || string(m.Data) != "entry 6" || m.Subject != all[6].Subject {
		t.Errorf("at %d the feed has %+v", start+7, m)
	}
	if _, err := f.Get(ctx, start+501); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("behind its end the feed has %v", err)
	}
	if m := must[bus.Message](t)(f.Last(ctx)); m.Seq != start+500 || string(m.Data) != "entry 499" || m.Subject != all[499].Subject {
		t.Fatalf("the last is %d %q", m.Seq, m.Data)
	}
	// Another one derives the same, not knowing how far the first had come.
	other := connect(t).Jobs()
	if last := must[uint64](t)(other.Append(ctx, start+300, all[300:])); last != start+700 {
		t.Fatalf("the rest ends at %d, want %d", last, start+700)
	}
	if last := must[uint64](t)(f.Append(ctx, start+700, nil)); last != start+700 {
		t.Fatalf("nothing appended ends at %d, want %d", last, start+700)
	}
	r := read1(t, func(ctx context.Context, fn func(bus.Batch) error) error {
		return connect(t).Jobs().Follow(ctx, "job.RUNNING.*.user1.>", start+1, fn)
	})
	for i := 1; i < 700; i += 3 {
		if m := r.next(t); m.Seq != start+1+uint64(i) || m.Subject != all[i].Subject || string(m.Data) != string(all[i].Data) {
			t.Fatalf("handed %d %s %q, want %d %s", m.Seq, m.Subject, m.Data, start+1+uint64(i), all[i].Subject)
		}
	}
	r.tip(t)

	// From a place that is not there yet.
	beyond := read1(t, func(ctx context.Context, fn func(bus.Batch) error) error {
		return f.Follow(ctx, "job.>", start+703, fn)
	})
	beyond.tip(t)
	must[uint64](t)(f.Append(ctx, start+700, entries(t, 700, 5)))
	for seq := start + 703; seq <= start+705; seq++ {
		if m := beyond.next(t); m.Seq != seq {
			t.Fatalf("handed %d, want %d", m.Seq, seq)
		}
	}
}

func feedDeposed(t *testing.T, connect Connect) {
	ctx, f := within(t), connect(t).Jobs()
	start := feedEnd(t, ctx, f)
	list := entries(t, 0, 20)
	must[uint64](t)(f.Append(ctx, start, list[:10]))
	_, err := connect(t).Jobs().Append(ctx, start, list[5:15])
	wantErr(t, err, bus.ErrDeposed)
	_, err = connect(t).Jobs().Append(ctx, start+11, list[10:])
	wantErr(t, err, bus.ErrDeposed)
	if end := feedEnd(t, ctx, f); end != start+10 {
		t.Fatalf("refused appends moved the end to %d, want %d", end, start+10)
	}
}

func samples(t *testing.T, connect Connect) {
	ctx, u := within(t), connect(t).Usage()
	subject := "usage." + token(t)
	_, err := u.Last(ctx, subject)
	wantErr(t, err, bus.ErrNotFound)
	since := time.Now().Add(-time.Minute)
	for i := range 10 {
		check(t, u.Publish(ctx, subject, fmt.Sprint(subject, i), fmt.Appendf(nil, "sample %d", i)))
	}
	check(t, u.Publish(ctx, subject, fmt.Sprint(subject, 9), []byte("sample 9")))
	if m := must[bus.Message](t)(u.Last(ctx, subject)); string(m.Data) != "sample 9" {
		t.Fatalf("the last sample is %q", m.Data)
	}
	for _, from := range []time.Time{{}, since} {
		r := read1(t, func(ctx context.Context, fn func(bus.Batch) error) error { return u.Follow(ctx, subject, from, fn) })
		for i := range 10 {
			if m := r.next(t); string(m.Data) != fmt.Sprintf("sample %d", i) {
				t.Fatalf("sample %d is %q", i, m.Data)
			}
		}
		r.tip(t)
	}
	r := read1(t, func(ctx context.Context, fn func(bus.Batch) error) error {
		return u.Follow(ctx, "usage.*", time.Now().Add(time.Hour), fn)
	})
	r.tip(t)
}
