// Package sim is a whole cluster in memory on virtual time: the real fold, the real admission and the real passes, around
// a log and modelled executors.
//
// A World holds the log, controllers (each with its own fold and snapshots, one of them leading), executors (each the author of
// its own subject) with the supervisors that are the parents of runs, and a clock that jumps from event to event. Everything is
// a function of the seed: a seed and a commit are a bug report.
//
// Two things drive it: scripts (script.go: text in, text out, for reading), where nothing takes longer than it must, and
// histories (history_test.go: random work in a rough world, watched by an auditor that shares no code with the fold). In a
// rough world (Options.Rough) all that goes over the bus takes its own time, gets lost or comes twice; agents, a ledger and the
// feed of job states take part; and each daemon dies now and then at any of its points (process.go).
package sim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"

	"stint/events"
	"stint/projections"
)

// Microseconds.
const (
	Millisecond = int64(1000)
	Second      = 1000 * Millisecond
	Minute      = 60 * Second
	Hour        = 60 * Minute
)

// Epoch is the time at which a world begins: microseconds since 1970.
const Epoch = int64(1_700_000_000) * Second

// Message is one message of the log.
type Message struct {
	Seq     uint64
	At      int64
	Subject string
	Data    []byte
}

// Options shape a world.
type Options struct {
	Seed        uint64
	Controllers int   // 0: one
	MinDelay    int64 // of everything that takes time: a pass after a change, a nudge to a node; microseconds
	MaxDelay    int64
}

// Roughness is how a rough world treats its daemons.
type Roughness struct {
	Deaths  int    // one in so many points that daemons pass is their end
	CrashAt uint64 // if not 0: the one point at which one dies, counted from the first; no other fault happens
}

// World is a cluster in memory.
type World struct {
	opts Options
	now  int64
	rng  *rand.Rand
	log  []Message
	last map[string]uint64 // last sequence by subject

	subjects map[string][]uint64  // all sequences by subject, in a rough world
	ids      map[string]published // what the bus remembers of ids
	rough    *Roughness           // nil: nothing is lost, late or twice, and nobody dies by chance
	faulty   bool                 // faults happen now
	point    uint64               // points that daemons have passed
	points   map[string]int       // the same by name
	deaths   map[string]int       // those that were the end of somebody
	flaw     flaw                 // what it does wrong deliberately
	story    func(string)         // hears what happens besides the log; may be nil
	jobs     *jobStream
	agents   []*agent
	hears    []func(seq uint64) // others who follow the log, in a rough world
	lease    lease

	queue agenda
	order uint64

	Fold        *projections.Cluster // follows every message at once
	controllers []*controller
	executors   []*executor
	byName      map[string]*executor
	nonce       uint64
	leaps       []leap
	zone        *events.Zone // the site's local time, which leaders see; nil: none of them looks

	// watch is told of what happens, in order; nil: nobody watches. chaos is called after each event; nil: no faults.
	watch watcher
	chaos func()
	err   error // the first thing that must not happen
}

// watcher is told what happens in a world.
type watcher interface {
	folded(m *Message, e *events.Event, v projections.Verdict, changes []projections.Change)
	began(x *executor, r *simRun)
	ended(x *executor, r *simRun)
	restored(c *controller)
	follows(c *controller)
	kept(i *events.Intent)
	answered(i *events.Intent, v *projections.IntentVerdict)
}

// New is a world without a configuration, and with a leader.
func New(o Options) *World {
	w := &World{opts: o, now: Epoch, rng: rand.New(rand.NewPCG(o.Seed, 0x5717)), last: map[string]uint64{}, Fold: projections.New(), byName: map[string]*executor{}}
	for i := range max(o.Controllers, 1) {
		w.controllers = append(w.controllers, newController(w, fmt.Sprintf("c%d", i+1)))
	}
	for _, c := range w.controllers {
		c.patrol()
	}
	w.controllers[0].takeOver()
	return w
}

// Roughen makes a world rough from now on, with faults or, for now, without.
func (w *World) Roughen(r Roughness) {
	w.rough, w.faulty = &r, true
	w.points, w.deaths = map[string]int{}, map[string]int{}
	w.subjects, w.ids = map[string][]uint64{}, map[string]published{}
	for _, m := range w.log {
		w.subjects[m.Subject] = append(w.subjects[m.Subject], m.Seq)
	}
	w.jobs = &jobStream{w: w}
	w.agents = []*agent{newAgent(w, "login"), newAgent(w, "other")}
	for i, c := range w.controllers {
		if i == 0 {
			w.lease = lease{c, w.now + leaseTime}
		}
		c.roughen()
	}
}

func (w *World) tell(format string, args ...any) {
	if w.story != nil {
		w.story(w.clock(w.now) + " " + fmt.Sprintf(format, args...))
	}
}

// Now is the virtual time, microseconds since 1970.
func (w *World) Now() int64 { return w.now }

// Log is every message so far.
func (w *World) Log() []Message { return w.log }

// Err is the first thing that happened and must not; nil so far.
func (w *World) Err() error { return w.err }

func (w *World) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("at %s: %s", w.clock(w.now), fmt.Sprintf(format, args...))
	}
}

// clock writes a time as seconds since the world began.
func (w *World) clock(at int64) string {
	return fmt.Sprintf("%.3fs", float64(at-Epoch)/float64(Second))
}

// ───── the log ─────

// append stores a message if the last one of its subject has the sequence after, as the stream does.
func (w *World) append(subject string, after uint64, data []byte) (seq uint64, ok bool) {
	if w.last[subject] != after && w.flaw != flawFence {
		return 0, false
	}
	return w.store(subject, data), true
}

// store stores a message without a condition.
func (w *World) store(subject string, data []byte) uint64 {
	m := Message{Seq: uint64(len(w.log)) + 1, At: w.wall(w.now), Subject: subject, Data: data}
	w.log = append(w.log, m)
	w.last[subject] = m.Seq
	if w.rough != nil {
		w.subjects[subject] = append(w.subjects[subject], m.Seq)
	}
	e := events.Decode(m.Seq, m.At, m.Subject, m.Data)
	v := w.Fold.Apply(w.read(&m))
	if w.watch != nil {
		w.watch.folded(&w.log[len(w.log)-1], &e, v, w.Fold.Changes())
	}
	w.sync()
	for _, c := range w.controllers {
		c.deliver(m.Seq)
	}
	for _, hear := range w.hears {
		hear(m.Seq)
	}
	return m.Seq
}

// sync sees to it that executors exist for what is configured.
func (w *World) sync() {
	for _, n := range w.Fold.Nodes() {
		if w.byName[n.Name] == nil {
			x := newExecutor(w, n.Name)
			w.executors = append(w.executors, x)
			w.byName[n.Name] = x
			w.after(w.delay(), func() { x.start() })
		}
	}
}

// Intent appends a wish, and returns the sequence of its message and the first id it took.
func (w *World) Intent(author *events.Author, verb events.Verb, body interface{ MarshalVT() ([]byte, error) }) (seq uint64, id uint32) {
	data := encode(body)
	w.nonce++
	i := &events.Intent{Verb: verb, Nonce: fmt.Appendf(nil, "%08d%08d", w.opts.Seed%100_000_000, w.nonce), Author: author, Body: data}
	if verb == events.Verb_SUBMIT {
		i.Ids = 1
		if s, ok := body.(*events.Submit); ok {
			i.Ids = uint32(len(s.Components))
		}
		id = w.Fold.NextID()
	}
	if t, ok := body.(*events.Crontab); ok && verb == events.Verb_CRONTAB {
		i.Ids, id = uint32(len(t.Entries)), w.Fold.NextID()
	}
	return w.store(events.SubjectIntentHost("login"), encode(&events.IntentBatch{Intents: []*events.Intent{i}})), id
}

// Repeat stores one of the latest intents once more, as an agent does that has seen no acknowledgement for long.
func (w *World) Repeat() {
	for i, back := len(w.log)-1, w.rng.IntN(8); i >= 0; i-- {
		if m := w.log[i]; events.Decode(m.Seq, m.At, m.Subject, m.Data).Intents != nil {
			if back--; back < 0 {
				w.store(m.Subject, m.Data)
				return
			}
		}
	}
}

func encode(m interface{ MarshalVT() ([]byte, error) }) []byte {
	data, err := m.MarshalVT()
	if err != nil {
		panic(fmt.Sprintf("encode a message: %v", err)) // generated codecs fail only on nil records
	}
	return data
}

// ───── time ─────

type appointment struct {
	at    int64
	order uint64
	do    func()
}

type agenda []appointment

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].order < a[j].order
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(appointment)) }
func (a *agenda) Pop() any {
	old := *a
	x := old[len(old)-1]
	*a = old[:len(old)-1]
	return x
}

// at does something at a time.
func (w *World) at(t int64, do func()) {
	w.order++
	heap.Push(&w.queue, appointment{max(t, w.now), w.order, do})
}

func (w *World) after(d int64, do func()) { w.at(w.now+d, do) }

func (w *World) delay() int64 {
	if w.opts.MaxDelay <= w.opts.MinDelay {
		return w.opts.MinDelay
	}
	return w.opts.MinDelay + w.rng.Int64N(w.opts.MaxDelay-w.opts.MinDelay)
}

// Advance lets time pass.
func (w *World) Advance(d int64) {
	until := w.now + d
	for len(w.queue) > 0 && w.queue[0].at <= until && w.err == nil {
		next := heap.Pop(&w.queue).(appointment)
		w.now = next.at
		next.do()
		if w.chaos != nil {
			w.chaos()
		}
	}
	w.now = until
}

// Forget drops what the messages of the log say; nobody may start from nothing any more. What has grown with time is the list of them.
func (w *World) Forget() {
	for i := len(w.log) - 1; i >= 0 && w.log[i].Data != nil; i-- {
		w.log[i].Data, w.log[i].Subject = nil, ""
	}
}
