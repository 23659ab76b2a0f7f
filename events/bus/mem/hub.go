// Package mem is the bus in memory: the same promises as JetStream without a server, a clock or a goroutine of its own, for
// simulations on virtual time and for unit tests. Appends run the same settling of unknown outcomes as on
// a cluster, and Options.Faults makes those outcomes unknown at will.
//
// Used from one goroutine it is deterministic: questions, nudges and appends run where they are called.
package mem

import (
	"context"
	"sync"
	"time"

	"stint/events/bus"
)

// Options says how a Hub keeps time and what goes wrong in it. The zero value is the wall clock and no faults.
type Options struct {
	// Now stamps messages and ends leases; nil is time.Now.
	Now func() time.Time

	// Wait is called where an author pauses between two tries; nil goes on at once, unless ctx has ended.
	Wait func(ctx context.Context, d time.Duration) error

	// Faults is asked once for each try to store something; nil is no faults. It must not call the bus.
	Faults func(Op) Fault
}

// Op is one try to store one message.
type Op struct {
	Client      string // the name given to Connect
	Stream      string // bus.EventsStream, …
	Subject     string
	Conditional bool   // an Append, of a Log or a Feed
	After       uint64 // the condition of an Append
	Data        []byte
}

// Fault is what goes wrong with one try. The zero value is nothing.
type Fault struct {
	// Intrude is stored on the subject, by somebody else, just before the try arrives.
	Intrude []byte
	// LoseRequest: the try never arrives, and its author hears nothing.
	LoseRequest bool
	// LoseAck: the try is accepted or refused as it would be, and its author hears nothing.
	LoseAck bool
	// Delay: its author hears nothing, and the try arrives after the author has looked what became of it: just
	// before the next try of anybody, or at Hub.Deliver.
	Delay bool
	// Twice: an unconditional message is stored twice, as if retried after the server forgot its id.
	Twice bool
}

// dedupe is how long ids of unconditional messages are remembered, as by the server.
const dedupe = 2 * time.Minute

// Hub holds the streams. Connect gives each process of a simulation its own connection.
type Hub struct {
	opts Options

	mu      sync.Mutex
	events  *stream
	jobs    *stream
	usage   *stream
	blobs   map[string][]byte
	leases  map[string]hold
	delayed []func()
	subs    []*listener
	answers []*answerer
	turn    int           // rotates among queue members
	grant   uint64        // counts leases given
	stalled chan struct{} // closed when the stall ends; nil when there is none
	waiting int           // calls that wait for the end of it
}

// New returns an empty hub.
func New(opts Options) *Hub {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Wait == nil {
		opts.Wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	}
	return &Hub{
		opts: opts, blobs: map[string][]byte{}, leases: map[string]hold{},
		events: newStream(bus.EventsStream, bus.EventsSubjects, 0),
		jobs:   newStream(bus.JobsStream, bus.JobsSubjects, bus.MaxJobs),
		usage:  newStream(bus.UsageStream, bus.UsageSubjects, 0),
	}
}

// Connect returns a connection for the process called name.
func (h *Hub) Connect(name string) *Client {
	return &Client{hub: h, name: name, closed: make(chan struct{})}
}

// Read returns up to limit messages of EVENTS from the sequence from on, without waiting: the tail of a
// simulation, which follows the log in its own loop. It returns a *bus.TrimmedError or *bus.AheadError as
// Log.Follow does, and no messages at the end of the log.
func (h *Hub) Read(from uint64, limit int) ([]bus.Message, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	from = max(from, 1)
	if err := h.events.holds(from, true); err != nil {
		return nil, err
	}
	msgs, _, _ := h.events.read(from, limit, func(string) bool { return true })
	return msgs, nil
}

// Deliver lets tries that a fault delayed arrive now.
func (h *Hub) Deliver() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deliver()
}

func (h *Hub) deliver() {
	for len(h.delayed) > 0 {
		arrive := h.delayed[0]
		h.delayed = h.delayed[1:]
		arrive()
	}
}

// Stall makes the whole bus unreachable, as while servers elect a leader: calls wait until Resume or the end
// of their context. Followers get nothing.
func (h *Hub) Stall() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stalled == nil {
		h.stalled = make(chan struct{})
	}
}

// Waiting is how many calls wait for the end of a stall now.
func (h *Hub) Waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting
}

// Resume ends a stall.
func (h *Hub) Resume() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stalled != nil {
		close(h.stalled)
		h.stalled = nil
	}
}
