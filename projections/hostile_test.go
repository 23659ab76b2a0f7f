package projections

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"stint/events"
)

// hostile appends what a broken or malicious author might: bytes of true messages changed at random, given the nonce and
// number that make the fold read them.
func (h *chance) hostile(m logged) {
	data := append([]byte(nil), m.data...)
	for range 1 + h.r.IntN(4) {
		if len(data) == 0 {
			break
		}
		at := h.r.IntN(len(data))
		switch h.r.IntN(4) {
		case 0:
			data[at] = byte(h.r.Uint32())
		case 1:
			data = append(data[:at], data[at+1:]...)
		case 2:
			data = append(data[:at], append([]byte{byte(h.r.Uint32())}, data[at:]...)...)
		default:
			data[at] ^= 1 << h.r.IntN(8)
		}
	}
	h.force(m.subject, data)
}

func (h *chance) force(subject string, data []byte) {
	e := events.Decode(1, 1, subject, data)
	switch {
	case e.Sched.GetCycle() != nil:
		term := h.c.Term()
		e.Sched.GetCycle().Term, e.Sched.GetCycle().N = term.Nonce, term.N+1
		data, _ = e.Sched.MarshalVT()
	case e.Node != nil && h.c.Node(e.Name) != nil:
		n := h.c.Node(e.Name)
		e.Node.Boot, e.Node.Executor, e.Node.N = n.Boot, n.Executor, n.ExecutorN+1
		data, _ = e.Node.MarshalVT()
	}
	h.seq++
	h.c.Apply(events.Decode(h.seq, h.at, subject, data))
	h.n, h.term = h.c.Term().N, h.c.Term().Nonce
}

// Whatever arrives, the fold does not panic and its state passes the audit.
func TestHostileMessages(t *testing.T) {
	count := 60
	if testing.Short() {
		count = 15
	}
	for _, seed := range append(seeds(t, count), 10177035905231167092) { // the last: a leader that is gone before a component that waits for its name
		t.Run(fmt.Sprintf("STINT_SEED=%d", seed), func(t *testing.T) {
			h := newChance(newHistory(t), seed)
			h.other = nil
			h.open()
			for range 150 {
				h.step()
				for range h.r.IntN(6) {
					h.hostile(h.log[h.r.IntN(len(h.log))])
				}
				if err := audit(h.c); err != nil {
					t.Fatalf("at %d: %v", h.seq, err)
				}
			}
			data, err := h.c.Snapshot().MarshalVT()
			if err != nil {
				t.Fatal(err)
			}
			snap := new(Snapshot)
			if err := snap.UnmarshalVT(data); err != nil {
				t.Fatal(err)
			}
			again, err := Load(snap)
			if err != nil {
				t.Fatal(err)
			}
			if again.Hash() != h.c.Hash() {
				t.Fatal("the state is another after a snapshot")
			}
		})
	}
}

func FuzzApply(f *testing.F) {
	for seed := range uint64(3) {
		h := newChance(newHistory(f), seed)
		h.other = nil
		h.open()
		for range 60 {
			h.step()
		}
		for i, m := range h.log {
			if i%7 == 0 {
				f.Add(m.subject, m.data, uint8(seed))
			}
		}
	}
	f.Fuzz(func(t *testing.T, subject string, data []byte, seed uint8) {
		h := newChance(newHistory(t), uint64(seed))
		h.other = nil
		h.open()
		for range 40 {
			h.step()
		}
		h.force(subject, data)
		if err := audit(h.c); err != nil {
			t.Fatal(err)
		}
		h.c.Hash()
		for range 10 {
			h.step()
		}
		if err := audit(h.c); err != nil {
			t.Fatal(err)
		}
	})
}

// What a reader sees: everything a View gives, in one text.
func seen(r Reader) string {
	s := fmt.Sprintln(r.Seq(), r.At(), r.Messages(), r.NextID(), r.Term(), r.ConfigSeq(), r.Counts(), len(r.Inbox()), r.Shares(), r.Voids(), r.Config())
	for _, item := range r.Inbox() {
		s += fmt.Sprintln(item.Seq, item.Index, item.FirstId)
	}
	show := func(what string) func(j *Job) bool {
		return func(j *Job) bool { s += fmt.Sprintln(what, j); return true }
	}
	r.EachJob(show("job"))
	r.EachPending(show("pending"))
	r.EachRunning(show("running"))
	r.EachCompleting(show("completing"))
	r.EachJob(func(j *Job) bool {
		if j.ArrayId != 0 {
			s += fmt.Sprintln(r.Array(j.ArrayId))
			r.EachArrayTask(j.ArrayId, func(task *TaskJob) bool { s += fmt.Sprintln(task); return true })
		}
		return true
	})
	for _, n := range r.Nodes() {
		s += fmt.Sprintln(n, r.Node(n.Name) == n)
	}
	for _, p := range r.Partitions() {
		s += fmt.Sprintln(p, len(r.PartitionNodes(p.Name)))
	}
	for seq := range r.Seq() {
		s += fmt.Sprint(r.VerdictsOf(seq))
	}
	return s
}

// A view never moves, however the fold goes on.
func TestViewsStand(t *testing.T) {
	for _, seed := range seeds(t, 8) {
		h := newChance(newHistory(t), seed)
		h.other = nil
		h.open()
		var views []*View
		var texts []string
		for range 150 {
			h.step()
			if rand.N(4) == 0 {
				v := h.c.View()
				views, texts = append(views, v), append(texts, seen(v))
				if now := seen(h.c); now != texts[len(texts)-1] {
					t.Fatalf("STINT_SEED=%d: a view at %d shows\n%s\nand the state is\n%s", seed, h.seq, texts[len(texts)-1], now)
				}
			}
		}
		for i, v := range views {
			if got := seen(v); got != texts[i] {
				t.Fatalf("STINT_SEED=%d: the view at %d showed\n%s\nand shows\n%s", seed, v.Seq(), texts[i], got)
			}
		}
	}
}

// Readers of views and the encoder of a snapshot go on beside the fold (of use above all under -race).
func TestReadersBesideTheFold(t *testing.T) {
	h := newChance(newHistory(t), 3)
	h.other = nil
	h.open()
	var readers sync.WaitGroup
	for range 60 {
		h.step()
		view, snapshot, hash := h.c.View(), h.c.Snapshot(), h.c.Hash()
		text := seen(view)
		readers.Go(func() {
			if got := seen(view); got != text {
				t.Errorf("the view at %d moved", view.Seq())
			}
			if snapshot.Hash() != hash {
				t.Errorf("the snapshot at %d moved", snapshot.Seq)
			}
		})
	}
	readers.Wait()
}
