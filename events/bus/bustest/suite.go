// Package bustest is the contract of the bus as tests: every implementation passes the same ones.
package bustest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"stint/events/bus"
)

// Connect gives a test a connection of its own to the bus under test. The streams exist, may hold messages of
// earlier tests, and are used by this suite alone. The connection is closed when the test ends.
type Connect func(t testing.TB) bus.Bus

// patience is how long a test waits for something that must happen.
const patience = 2 * time.Minute

// Run runs the contract.
func Run(t *testing.T, connect Connect) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Connect)
	}{
		{"append is conditional on the exact subject", appendConditional},
		{"append behind a trimmed sequence", appendTrimmed},
		{"append races have one winner for each place", appendRaces},
		{"publish stores an id once", publishOnce},
		{"subjects are exact and in their stream", subjects},
		{"messages have a limit", tooLarge},
		{"follow gives each message once and says where the end is", follow},
		{"follow refuses what it cannot give", followRefuses},
		{"follow one subject", followSubject},
		{"read single messages", read},
		{"feed goes on where it ended", feed},
		{"feed refuses two histories", feedDeposed},
		{"samples", samples},
		{"blobs", blobs},
		{"leases", leases},
		{"nudges", nudges},
		{"questions", questions},
		{"slow questions", slowQuestions},
		{"status", status},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, connect) })
	}
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// token returns a subject token that belongs to this test alone.
func token(t testing.TB) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, t.Name())
	return fmt.Sprintf("%s%d", clean, time.Now().UnixNano())
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

func appendConditional(t *testing.T, connect Connect) {
	ctx, log, other := within(t), connect(t).Events(), connect(t).Events()
	subject := "ev.node." + token(t)
	one := must[uint64](t)(log.Append(ctx, subject, 0, []byte("one")))
	elsewhere := must[uint64](t)(other.Append(ctx, subject+"x", 0, []byte("elsewhere")))
	if elsewhere <= one {
		t.Fatalf("sequence %d came after %d", elsewhere, one)
	}
	two := must[uint64](t)(log.Append(ctx, subject, one, []byte("two")))
	if two <= elsewhere {
		t.Fatalf("sequence %d came after %d", two, elsewhere)
	}

	_, err := other.Append(ctx, subject, one, []byte("zombie"))
	var deposed *bus.DeposedError
	if !errors.As(err, &deposed) || deposed.Found != two || deposed.After != one || deposed.Subject != subject {
		t.Fatalf("a stale append ended with %v, want deposed by %d", err, two)
	}
	_, err = other.Append(ctx, subject, 0, []byte("newborn"))
	wantErr(t, err, bus.ErrDeposed)
	if last := must[bus.Message](t)(log.Last(ctx, subject)); last.Seq != two || string(last.Data) != "two" {
		t.Fatalf("the last is %d %q, want %d \"two\"", last.Seq, last.Data, two)
	}

	// The same bytes behind the same place are the same append: settled, not stored again.
	if again := must[uint64](t)(other.Append(ctx, subject, one, []byte("two"))); again != two {
		t.Fatalf("the append repeated has sequence %d, want %d", again, two)
	}
	three := must[uint64](t)(other.Append(ctx, subject, two, []byte("three")))
	if again := must[uint64](t)(log.Append(ctx, subject, one, []byte("two"))); again != two {
		t.Fatalf("the append repeated below %d has sequence %d, want %d", three, again, two)
	}
}

func appendTrimmed(t *testing.T, connect Connect) {
	ctx, log := within(t), connect(t).Events()
	idle, busy := "ev.node."+token(t), "ev.node.busy"+token(t)
	old := must[uint64](t)(log.Append(ctx, idle, 0, []byte("boot")))
	must[uint64](t)(log.Publish(ctx, busy, "a"+busy, []byte("work")))
	second := must[uint64](t)(log.Publish(ctx, busy, "b"+busy, []byte("work")))
	check(t, log.Trim(ctx, second))
	first, last, err := log.Bounds(ctx)
	check(t, err)
	if first != second || last != second {
		t.Fatalf("the log holds %d to %d, want %d to %d", first, last, second, second)
	}
	next := must[uint64](t)(log.Append(ctx, idle, old, []byte("started")))
	_, err = log.Append(ctx, idle, old, []byte("zombie"))
	wantErr(t, err, bus.ErrDeposed)
	must[uint64](t)(log.Append(ctx, idle, next, []byte("exited")))
}

// appendRaces lets several authors fight for one subject. The log must be one chain: each message was accepted
// by its author, and each acceptance is in the log.
func appendRaces(t *testing.T, connect Connect) {
	const authors, wins = 4, 25
	subject := "ev.sched" + token(t)
	type win struct {
		seq  uint64
		data string
	}
	results := make(chan []win, authors)
	ctx := within(t)
	for a := range authors {
		log := connect(t).Events()
		go func() {
			var mine []win
			var after uint64
			for n := 0; len(mine) < wins && ctx.Err() == nil; n++ {
				data := fmt.Sprintf("author %d try %d", a, n)
				seq, err := log.Append(ctx, subject, after, []byte(data))
				var deposed *bus.DeposedError
				switch {
				case err == nil:
					mine, after = append(mine, win{seq, data}), seq
				case errors.As(err, &deposed):
					after = deposed.Found
				default:
					t.Errorf("author %d: %v", a, err)
					results <- mine
					return
				}
			}
			results <- mine
		}()
	}
	accepted := map[uint64]string{}
	for range authors {
		for _, w := range <-results {
			if before, twice := accepted[w.seq]; twice {
				t.Errorf("sequence %d was given to %q and %q", w.seq, before, w.data)
			}
			accepted[w.seq] = w.data
		}
	}
	log := connect(t).Events()
	var after uint64
	for range authors * wins {
		m := must[bus.Message](t)(log.FirstAfter(ctx, subject, after))
		if accepted[m.Seq] != string(m.Data) {
			t.Fatalf("the log has %q at %d, accepted was %q", m.Data, m.Seq, accepted[m.Seq])
		}
		after = m.Seq
	}
	if m, err := log.FirstAfter(ctx, subject, after); !errors.Is(err, bus.ErrNotFound) {
		t.Fatalf("behind the last acceptance stands %d %q (%v)", m.Seq, m.Data, err)
	}
}

func publishOnce(t *testing.T, connect Connect) {
	ctx, log := within(t), connect(t).Events()
	subject := "ev.intent." + token(t)
	first := must[uint64](t)(log.Publish(ctx, subject, subject+"1", []byte("submit")))
	if again := must[uint64](t)(connect(t).Events().Publish(ctx, subject, subject+"1", []byte("submit"))); again != first {
		t.Fatalf("the id sent again has sequence %d, want %d", again, first)
	}
	second := must[uint64](t)(log.Publish(ctx, subject, subject+"2", []byte("submit")))
	if m := must[bus.Message](t)(log.FirstAfter(ctx, subject, first)); m.Seq != second {
		t.Fatalf("behind %d stands %d, want %d", first, m.Seq, second)
	}
}

func subjects(t *testing.T, connect Connect) {
	ctx, b := within(t), connect(t)
	for _, subject := range []string{"", "ev", "ev.", "ev.*", "ev.node.>", "ev.node.a b", "ev..x", "job.x", "usage.x", "ev.\n"} {
		_, err := b.Events().Append(ctx, subject, 0, []byte("x"))
		wantErr(t, err, bus.ErrSubject)
		_, err = b.Events().Publish(ctx, subject, "id", []byte("x"))
		wantErr(t, err, bus.ErrSubject)
		_, err = b.Events().Last(ctx, subject)
		wantErr(t, err, bus.ErrSubject)
		_, err = b.Events().FirstAfter(ctx, subject, 0)
		wantErr(t, err, bus.ErrSubject)
		wantErr(t, b.Events().FollowSubject(ctx, subject, 0, nil), bus.ErrSubject)
	}
	_, err := b.Blobs().Put(ctx, "blob.>", nil)
	wantErr(t, err, bus.ErrSubject)
	wantErr(t, b.Blobs().Erase(ctx, "blob.*.x"), bus.ErrSubject)
	wantErr(t, b.Usage().Publish(ctx, "ev.x", "id", nil), bus.ErrSubject)
	_, err = b.Jobs().Append(ctx, 0, []bus.Entry{{Subject: "ev.x"}})
	wantErr(t, err, bus.ErrSubject)
	wantErr(t, b.Wire().Nudge("run.*", nil), bus.ErrSubject)
}

func tooLarge(t *testing.T, connect Connect) {
	ctx, log := within(t), connect(t).Events()
	subject := "ev.node." + token(t)
	_, err := log.Append(ctx, subject, 0, make([]byte, bus.MaxData+1))
	wantErr(t, err, bus.ErrTooLarge)
	_, err = log.Publish(ctx, subject, subject, make([]byte, bus.MaxData+1))
	wantErr(t, err, bus.ErrTooLarge)
	seq := must[uint64](t)(log.Append(ctx, subject, 0, make([]byte, bus.MaxData)))
	if m := must[bus.Message](t)(log.Get(ctx, seq)); len(m.Data) != bus.MaxData {
		t.Fatalf("%d bytes came back of %d", len(m.Data), bus.MaxData)
	}
}

func read(t *testing.T, connect Connect) {
	ctx, log := within(t), connect(t).Events()
	subject := "ev.node." + token(t)
	_, err := log.Last(ctx, subject)
	wantErr(t, err, bus.ErrNotFound)
	_, err = log.FirstAfter(ctx, subject, 0)
	wantErr(t, err, bus.ErrNotFound)
	before := time.Now().Add(-time.Minute)
	one := must[uint64](t)(log.Append(ctx, subject, 0, []byte("one")))
	two := must[uint64](t)(log.Append(ctx, subject, one, nil))
	for _, got := range []bus.Message{
		must[bus.Message](t)(log.Get(ctx, one)),
		must[bus.Message](t)(log.FirstAfter(ctx, subject, 0)),
	} {
		if got.Seq != one || got.Subject != subject || string(got.Data) != "one" || got.Time.Before(before) || got.Time.Location() != time.UTC {
			t.Fatalf("read %+v, want %d on %s, stamped now in UTC", got, one, subject)
		}
	}
	for _, got := range []bus.Message{
		must[bus.Message](t)(log.Last(ctx, subject)),
		must[bus.Message](t)(log.FirstAfter(ctx, subject, one)),
	} {
		if got.Seq != two || len(got.Data) != 0 {
			t.Fatalf("read %+v, want %d, empty", got, two)
		}
	}
	_, err = log.Get(ctx, two+1_000_000)
	wantErr(t, err, bus.ErrNotFound)
	_, err = log.FirstAfter(ctx, subject, two)
	wantErr(t, err, bus.ErrNotFound)
	if first, last, err := log.Bounds(ctx); err != nil || first > one || last < two {
		t.Fatalf("the log holds %d to %d (%v), want at least %d to %d", first, last, err, one, two)
	}
}

func blobs(t *testing.T, connect Connect) {
	ctx, b, other := within(t), connect(t).Blobs(), connect(t).Blobs()
	subject := "blob.1000." + token(t)
	_, err := b.Get(ctx, bus.RefTo(subject, 0, []byte("x")))
	wantErr(t, err, bus.ErrNotFound)
	for _, size := range []int{0, 1, 1 << 19, 1<<19 + 1, 3<<20 + 7} {
		subject := fmt.Sprint(subject, size) // written once, as all are
		data := bytes.Repeat([]byte{'a', 'b', 'c', byte(size)}, size/4+1)[:size]
		ref := must[bus.BlobRef](t)(b.Put(ctx, subject, data))
		if ref != bus.RefTo(subject, 0, data) {
			t.Fatalf("putting %d bytes returned %s", size, ref)
		}
		if got := must[[]byte](t)(other.Get(ctx, ref)); !bytes.Equal(got, data) {
			t.Fatalf("%d bytes came back changed", size)
		}
		for _, at := range [][2]int{{0, size / 2}, {size / 3, size}, {size, size}} {
			part := data[at[0]:at[1]]
			if got := must[[]byte](t)(other.Get(ctx, bus.RefTo(subject, uint64(at[0]), part))); !bytes.Equal(got, part) {
				t.Fatalf("bytes %d to %d of %d came back changed", at[0], at[1], size)
			}
		}
		wrong := ref
		wrong.SHA256[5]++
		_, err = other.Get(ctx, wrong)
		wantErr(t, err, bus.ErrCorrupt)
		wrong = ref
		wrong.Length++
		_, err = other.Get(ctx, wrong)
		wantErr(t, err, bus.ErrCorrupt)
		wrong.Offset = ^uint64(0)
		_, err = other.Get(ctx, wrong)
		wantErr(t, err, bus.ErrCorrupt)
	}
	_, err = b.Put(ctx, subject, make([]byte, bus.MaxBlob+1))
	wantErr(t, err, bus.ErrTooLarge)
	neighbour := must[bus.BlobRef](t)(b.Put(ctx, subject+"n", []byte("kept")))
	gone := must[bus.BlobRef](t)(b.Put(ctx, subject, make([]byte, 1<<20)))
	check(t, b.Erase(ctx, subject))
	check(t, b.Erase(ctx, subject))
	for { // a replica may be a little late
		if _, err = other.Get(ctx, gone); errors.Is(err, bus.ErrNotFound) {
			break
		}
		check(t, err)
		check(t, ctx.Err())
	}
	must[[]byte](t)(other.Get(ctx, neighbour))
}

func leases(t *testing.T, connect Connect) {
	ctx, one, two := within(t), connect(t).Leases(), connect(t).Leases()
	name := token(t)
	if holder := must[string](t)(one.Holder(ctx, name)); holder != "" {
		t.Fatalf("nobody's lease is held by %q", holder)
	}
	mine := must[bus.Lease](t)(one.Take(ctx, name, "one", time.Hour))
	_, err := two.Take(ctx, name, "two", time.Hour)
	var held *bus.HeldError
	if !errors.As(err, &held) || held.Holder != "one" || held.Name != name {
		t.Fatalf("taking a held lease ended with %v", err)
	}
	if holder := must[string](t)(two.Holder(ctx, name)); holder != "one" {
		t.Fatalf("the holder is %q, want one", holder)
	}
	check(t, mine.Renew(ctx))
	check(t, mine.Renew(ctx))
	check(t, mine.Release(ctx))
	theirs := must[bus.Lease](t)(two.Take(ctx, name, "two", time.Hour))
	wantErr(t, mine.Renew(ctx), bus.ErrLeaseLost)
	check(t, mine.Release(ctx))
	check(t, theirs.Renew(ctx))
	check(t, theirs.Release(ctx))

	// A lease ends by itself, also one that was renewed: renewing must not make it last for ever.
	brief := must[bus.Lease](t)(one.Take(ctx, name, "one", time.Second))
	check(t, brief.Renew(ctx))
	after := must[bus.Lease](t)(bus.AwaitLease(ctx, two, name, "two", time.Second))
	wantErr(t, brief.Renew(ctx), bus.ErrLeaseLost)

	// Kept alive it outlasts its ttl; let go of, it ends.
	keep, stop := context.WithTimeout(ctx, 2500*time.Millisecond)
	defer stop()
	wantErr(t, bus.KeepLease(keep, after, time.Second, nil), context.DeadlineExceeded)
	if holder := must[string](t)(one.Holder(ctx, name)); holder != "two" {
		t.Fatalf("the holder is %q, want two", holder)
	}
	must[bus.Lease](t)(bus.AwaitLease(ctx, one, name, "one", time.Second))
	wantErr(t, bus.KeepLease(ctx, after, time.Second, nil), bus.ErrLeaseLost)

	for _, bad := range []struct {
		name, holder string
		ttl          time.Duration
	}{{"", "x", time.Second}, {"a.b", "x", time.Second}, {name, "", time.Second}, {name, "x", 0}, {name, "x", 1500 * time.Millisecond}} {
		if _, err := one.Take(ctx, bad.name, bad.holder, bad.ttl); err == nil {
			t.Fatalf("took the lease %q for %q of %s", bad.name, bad.holder, bad.ttl)
		}
	}
}
