package projections

import (
	"fmt"
	"runtime"
	"testing"

	"stint/events"
)

// Hot state is bounded by what is in the queue and what ended lately: memory and snapshot stay as they are however many
// jobs have come and gone.
func TestHotStateIsBounded(t *testing.T) {
	waves := 100
	if testing.Short() {
		waves = 30
	}
	l := newLife(t, 32, 2000)
	held := l.submit() // and jobs that stay in the queue all along, the first of them with an id that grows old
	measure := func() (heap uint64, snapshot int) {
		data, err := l.c.Snapshot().MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, len(data)
	}
	var heap0 uint64
	var size0, pages0 int
	for wave := range waves {
		l.at += 100 * 1000000
		l.run(l.submit())
		l.log = l.log[:0]
		if wave == 19 { // verdicts and nonces have reached their bounds
			heap0, size0 = measure()
			pages0 = pages(&l.c.jobs)
		}
	}
	heap, size := measure()
	if v := l.c.Voids(); len(v) > 0 {
		t.Fatalf("void: %v", v)
	}
	t.Logf("after %d jobs %d KiB of heap and a snapshot of %d KiB; after %d jobs %d and %d", 20*l.wave, heap0/1024, size0/1024, waves*l.wave, heap/1024, size/1024)
	if float64(heap) > 1.2*float64(heap0) {
		t.Errorf("the heap grew from %d to %d bytes", heap0, heap)
	}
	// Ids and times are written in more bytes as they grow.
	if float64(size) > 1.05*float64(size0) {
		t.Errorf("the snapshot grew from %d to %d bytes", size0, size)
	}
	if n := pages(&l.c.jobs); n > pages0+1 {
		t.Errorf("jobs take %d pages, and took %d", n, pages0)
	}
	if c := l.c.Counts(); c.Pending != l.wave || c.Jobs > 5*l.wave || c.Running != 0 {
		t.Errorf("hot: %+v", c)
	}
	if l.c.Job(held) == nil || l.c.Job(held+uint32(l.wave)) != nil {
		t.Error("a waiting job left, or a finished one stayed")
	}
	if len(l.c.dependents) > 0 || len(l.c.names) != 1 || len(l.c.told) > keepNonces || l.c.kept > keepVerdicts+l.wave {
		t.Errorf("%d are waited for, %d names, %d nonces, %d verdicts", len(l.c.dependents), len(l.c.names), len(l.c.told), l.c.kept)
	}
}

func pages[T any](t *table[T]) int {
	n := 0
	for _, c := range t.root {
		if c != nil {
			n += c.n
		}
	}
	return n
}

// Nonces are forgotten by age and by number, verdicts by number.
func TestWhatWasToldIsBounded(t *testing.T) {
	h := newHistory(t)
	h.other = nil
	h.begin("t")
	tell := func(n, from int) Verdict {
		batch := &events.IntentBatch{}
		for i := range n {
			batch.Intents = append(batch.Intents, &events.Intent{
				Verb: events.Verb_HOLD, Nonce: []byte(fmt.Sprintf("%016d", from+i)), Author: &events.Author{User: "alice"},
			})
		}
		return h.append(events.SubjectIntentHost("h"), batch)
	}
	tell(1, 0)
	h.at += 3600 * 1000000
	if v := tell(1, 0); len(v.Void) != 1 {
		t.Fatal("a nonce was forgotten since a clock was set forward by an hour")
	}
	left := int64(keepNoncesUs - passMost)
	for ; left > passMost; left -= passMost { // messages come, and a minute passes between two
		h.at += passMost
		tell(1, 90_000_000+int(left))
	}
	h.at += left - 1
	if v := tell(1, 0); len(v.Void) != 1 {
		t.Fatal("a nonce was forgotten too early")
	}
	h.at++
	if v := tell(1, 0); len(v.Void) != 0 {
		t.Fatal("a nonce was remembered too long")
	}
	for i := range 70 {
		tell(1000, 1000*(i+1))
	}
	if len(h.c.told) != keepNonces || len(h.c.tellings) != keepNonces {
		t.Fatalf("%d nonces are kept, not %d", len(h.c.told), keepNonces)
	}
	var facts []*events.Fact
	for _, item := range h.c.Inbox() {
		facts = append(facts, fact(&events.Judged{Intent: &events.IntentRef{Seq: item.Seq, Index: item.Index}}))
	}
	h.facts(facts...)
	if len(h.c.Inbox()) != 0 || h.c.kept > keepVerdicts {
		t.Fatalf("%d intents wait, %d verdicts are kept", len(h.c.Inbox()), h.c.kept)
	}
	last := h.log[len(h.log)-2].seq
	if h.c.VerdictOf(last, 999) == nil || h.c.VerdictOf(3, 0) != nil {
		t.Fatal("the latest verdict is not kept, or the oldest is")
	}
}
