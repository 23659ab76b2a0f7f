package bustest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint/events/bus"
)

// Blow does to the bus what must not be noticed, for instance kill the server that leads. It returns while the
// bus is still hurt; mend, if not nil, is called when authors were seen to go on in spite of it.
type Blow struct {
	Name   string
	Strike func(t testing.TB)
	Mend   func(t testing.TB)
}

// steps is how many appends each author must get through before, between and after blows.
const steps = 25

// RunBlows keeps authors of every sort, followers and a feed busy while the blows fall, and then holds what each
// was told against what the log holds: nothing acknowledged is lost, nothing is stored twice, nothing
// refused is stored, and a follower was handed every sequence once, in order.
func RunBlows(t *testing.T, connect Connect, blows ...Blow) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	w := &workload{t: t, connect: connect, ctx: ctx, name: token(t), stop: make(chan struct{})}
	_, last, err := connect(t).Events().Bounds(ctx)
	check(t, err)
	w.from = last + 1
	w.feedFrom = feedEnd(t, ctx, connect(t).Jobs())

	w.follow()
	w.follow()
	for i := range 2 {
		w.author(fmt.Sprintf("ev.node.%s%d", w.name, i)) // sole authors
	}
	for range 2 {
		w.rival("ev.sched." + w.name) // each believes to be the leader
	}
	for i := range 2 {
		w.publisher(fmt.Sprintf("ev.intent.@%s%d", w.name, i))
	}
	w.deriver()

	w.progress("before any blow")
	for _, blow := range blows {
		began := time.Now()
		blow.Strike(t)
		w.progress("after: " + blow.Name)
		t.Logf("%s: everybody went on within %s", blow.Name, time.Since(began).Round(100*time.Millisecond))
		if blow.Mend != nil {
			began = time.Now()
			blow.Mend(t)
			w.progress("mended: " + blow.Name)
			t.Logf("%s: mended within %s", blow.Name, time.Since(began).Round(100*time.Millisecond))
		}
	}
	close(w.stop)
	w.authors.Wait()
	if t.Failed() {
		return
	}
	w.audit()
}

// workload is what goes on and what was said about it.
type workload struct {
	t        *testing.T
	connect  Connect
	ctx      context.Context
	name     string
	from     uint64 // sequence of the first message that can be ours
	feedFrom uint64
	stop     chan struct{}
	authors  sync.WaitGroup
	counts   []*atomic.Int64 // steps of each author

	mu       sync.Mutex
	acked    []ack
	refused  []string
	feedSize int
	tails    []*tail
}

// ack is what an author was told: data stands at seq, on subject, behind after of that subject if it was conditional.
type ack struct {
	subject, data string
	seq, after    uint64
	conditional   bool
}

// run starts an author: step is called until the workload stops, and returns an error only if it must not be.
func (w *workload) run(name string, step func(n int) error) {
	count := new(atomic.Int64)
	w.counts = append(w.counts, count)
	w.authors.Add(1)
	go func() {
		defer w.authors.Done()
		for n := 0; ; n++ {
			select {
			case <-w.stop:
				return
			default:
			}
			if err := step(n); err != nil {
				w.t.Errorf("%s: %v", name, err)
				return
			}
			count.Add(1)
			time.Sleep(time.Millisecond) // leave the others some of the machine
		}
	}()
}

func (w *workload) say(a ack) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked = append(w.acked, a)
}

// author appends to a subject of its own, each message behind the one before.
func (w *workload) author(subject string) {
	log := w.connect(w.t).Events()
	var after uint64
	w.run(subject, func(n int) error {
		data := fmt.Sprintf("%s %d", subject, n)
		seq, err := log.Append(w.ctx, subject, after, []byte(data))
		if err != nil {
			return err
		}
		w.say(ack{subject, data, seq, after, true})
		after = seq
		return nil
	})
}

// rival appends to a subject on which another does, too. Refused, it reads what is there and tries behind that; now
// and then it is a zombie, and tries again behind what it knows to be old.
func (w *workload) rival(subject string) {
	log := w.connect(w.t).Events()
	me := len(w.counts)
	var after, old uint64
	w.run(fmt.Sprint(subject, " rival ", me), func(n int) error {
		data := fmt.Sprintf("%s %d %d", subject, me, n)
		behind := after
		zombie := n%5 == 4 && old < after
		if zombie {
			behind = old
		}
		seq, err := log.Append(w.ctx, subject, behind, []byte(data))
		var deposed *bus.DeposedError
		switch {
		case err == nil && zombie:
			return fmt.Errorf("an append behind %d was accepted at %d, although %d is there", behind, seq, after)
		case err == nil:
			w.say(ack{subject, data, seq, behind, true})
			old, after = after, seq
		case errors.As(err, &deposed):
			w.mu.Lock()
			w.refused = append(w.refused, data)
			w.mu.Unlock()
			if deposed.Found > after {
				old, after = after, deposed.Found
			}
		default:
			return err
		}
		return nil
	})
}

func (w *workload) publisher(subject string) {
	log := w.connect(w.t).Events()
	w.run(subject, func(n int) error {
		data := fmt.Sprintf("%s %d", subject, n)
		seq, err := log.Publish(w.ctx, subject, data, []byte(data))
		if err != nil {
			return err
		}
		w.say(ack{subject: subject, data: data, seq: seq})
		return nil
	})
}

// derived is what stands at place n of the feed: the same, whoever derives it.
func (w *workload) derived(n int) bus.Entry {
	return bus.Entry{Subject: fmt.Sprintf("job.DONE.p.%s.%d", w.name, n), Data: fmt.Appendf(nil, "%s %d", w.name, n)}
}

// deriver appends to the feed and trusts only its end: what one server had not yet put on disk when it was
// killed is derived again.
func (w *workload) deriver() {
	feed := w.connect(w.t).Jobs()
	w.run("feed", func(int) error {
		var end uint64
		m, err := feed.Last(w.ctx)
		switch {
		case err == nil:
			end = m.Seq
		case !errors.Is(err, bus.ErrNotFound):
			return w.ctx.Err() // the bus is away
		}
		have := int(end - w.feedFrom)
		var list []bus.Entry
		for n := have; n < have+20; n++ {
			list = append(list, w.derived(n))
		}
		_, err = feed.Append(w.ctx, end, list)
		if errors.Is(err, bus.ErrDeposed) {
			return nil
		}
		if err == nil {
			w.mu.Lock()
			w.feedSize = have + len(list)
			w.mu.Unlock()
		}
		return err
	})
}

// tail is what a follower was handed.
type tail struct {
	mu   sync.Mutex
	msgs []bus.Message
	err  error
}

func (t *tail) last() (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.msgs) == 0 {
		return 0, t.err
	}
	return t.msgs[len(t.msgs)-1].Seq, t.err
}

func (w *workload) follow() {
	log := w.connect(w.t).Events()
	tl := &tail{}
	w.tails = append(w.tails, tl)
	go func() {
		err := log.Follow(w.ctx, w.from, func(b bus.Batch) error {
			tl.mu.Lock()
			defer tl.mu.Unlock()
			tl.msgs = append(tl.msgs, b.Messages...)
			return nil
		})
		tl.mu.Lock()
		defer tl.mu.Unlock()
		tl.err = err
	}()
}

// progress waits until every author has got through so many steps more.
func (w *workload) progress(when string) {
	w.t.Helper()
	var start []int64
	for _, c := range w.counts {
		start = append(start, c.Load())
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		behind := -1
		for i, c := range w.counts {
			if c.Load() < start[i]+steps {
				behind = i
			}
		}
		switch {
		case behind < 0:
			return
		case w.t.Failed():
			w.t.FailNow()
		case time.Now().After(deadline):
			w.t.Fatalf("%s: author %d got through %d steps within %s", when, behind, w.counts[behind].Load()-start[behind], patience)
		}
	}
}

func (w *workload) audit() {
	t := w.t
	_, last, err := w.connect(t).Events().Bounds(w.ctx)
	check(t, err)
	at := map[uint64]bus.Message{}
	where := map[string][]uint64{}
	for i, tl := range w.tails {
		for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			if got, err := tl.last(); err != nil || time.Now().After(deadline) {
				t.Fatalf("follower %d came to %d of %d: %v", i, got, last, err)
			} else if got >= last {
				break
			}
		}
		tl.mu.Lock()
		for n, m := range tl.msgs {
			if want := w.from + uint64(n); m.Seq != want {
				t.Fatalf("follower %d was handed %d where %d was due", i, m.Seq, want)
			}
			if before, seen := at[m.Seq]; seen && (before.Subject != m.Subject || !bytes.Equal(before.Data, m.Data)) {
				t.Fatalf("followers were handed %s %q and %s %q at %d", before.Subject, before.Data, m.Subject, m.Data, m.Seq)
			}
			at[m.Seq] = m
			if i == 0 {
				where[string(m.Data)] = append(where[string(m.Data)], m.Seq)
			}
		}
		tl.mu.Unlock()
	}
	if uint64(len(at)) != last-w.from+1 {
		t.Fatalf("followers were handed %d messages of %d", len(at), last-w.from+1)
	}
	latest := map[string]uint64{} // of each subject, while going through the log
	before := map[uint64]uint64{}
	for seq := w.from; seq <= last; seq++ {
		m := at[seq]
		before[seq], latest[m.Subject] = latest[m.Subject], seq
	}
	said := map[string]bool{}
	for _, a := range w.acked {
		m := at[a.seq]
		if m.Subject != a.subject || string(m.Data) != a.data {
			t.Errorf("%q was acknowledged at %d, where there is %s %q", a.data, a.seq, m.Subject, m.Data)
		}
		if a.conditional && before[a.seq] != a.after {
			t.Errorf("%q was accepted behind %d and stands behind %d", a.data, a.after, before[a.seq])
		}
		said[a.data] = true
	}
	for data, seqs := range where {
		if len(seqs) > 1 {
			t.Errorf("%q is stored at %v", data, seqs)
		}
		if !said[data] {
			t.Errorf("%q is stored at %v and was never acknowledged", data, seqs)
		}
	}
	for _, data := range w.refused {
		if seqs := where[data]; seqs != nil {
			t.Errorf("%q was refused and is stored at %v", data, seqs)
		}
	}
	w.auditFeed()
	t.Logf("%d appends acknowledged and %d refused, %d entries of the feed", len(w.acked), len(w.refused), w.feedSize)
}

func (w *workload) auditFeed() {
	t := w.t
	enough := errors.New("enough")
	n := 0
	err := w.connect(t).Jobs().Follow(w.ctx, fmt.Sprintf("job.*.*.%s.*", w.name), w.feedFrom+1, func(b bus.Batch) error {
		for _, m := range b.Messages {
			if want := w.derived(n); m.Seq != w.feedFrom+1+uint64(n) || m.Subject != want.Subject || !bytes.Equal(m.Data, want.Data) {
				return fmt.Errorf("place %d of the feed holds %d %s %q", n, m.Seq, m.Subject, m.Data)
			}
			n++
		}
		if b.Tip && n >= w.feedSize { // this reader may be a moment behind the authors
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || n < w.feedSize {
		t.Errorf("the feed holds %d entries of %d: %v", n, w.feedSize, err)
	}
}
