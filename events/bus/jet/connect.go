// Package jet is the bus on NATS JetStream, one server or a cluster.
//
// It reconnects for ever. While it is not connected nothing is buffered: what was to be sent fails at once
// and is sent again by the rules of package bus, so that nothing is stored late or lost without a word.
package jet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"stint/events/bus"
	"stint/events/bus/internal/fenced"
)

// tryTime is how long one try waits for the server's word. It is shorter than any election and longer than any
// fsync that is not a fault.
const tryTime = 2 * time.Second

// Options says where the bus is and who connects.
type Options struct {
	// URL holds the addresses of the servers, with commas between; ignored if Server is set.
	URL string

	// Server, if not nil, is a server in this process, reached without a socket.
	Server nats.InProcessConnProvider

	// Role is who connects. Without Seed it is only a name.
	Role bus.Role

	// Seed is the role's nkey seed; nil on a server that asks for none.
	Seed []byte

	// Log gets what an operator should know of; nil is slog.Default.
	Log *slog.Logger
}

// Bus is a connection. It implements bus.Bus.
type Bus struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	role bus.Role
	log  *slog.Logger

	turns  fenced.Turns
	waits  waits
	alive  context.Context // ends at Close
	die    context.CancelFunc
	closed <-chan struct{} // of alive

	streamsMu sync.Mutex
	streams   map[string]jetstream.Stream

	tellMu   sync.Mutex // held while status functions run: one call at a time, in order
	statusMu sync.Mutex // guards what follows; taken within tellMu
	status   bus.Status
	statuses []*statusFn
	drops    chan struct{} // closed and replaced when the connection drops

	answers answers
}

type statusFn struct {
	fn      func(bus.Status)
	stopped atomic.Bool
}

var _ bus.Bus = (*Bus)(nil)

// Connect connects, trying until it succeeds or ctx ends. A credential that the server refuses is bus.ErrDenied
// at once.
func Connect(ctx context.Context, opts Options) (*Bus, error) {
	if err := opts.Role.Valid(); err != nil {
		return nil, fmt.Errorf("connecting to the bus: %w", err)
	}
	b := &Bus{
		role: opts.Role, log: opts.Log, drops: make(chan struct{}),
		streams: map[string]jetstream.Stream{}, status: bus.Status{State: bus.Down},
	}
	b.alive, b.die = context.WithCancel(context.Background())
	b.closed = b.alive.Done()
	if b.log == nil {
		b.log = slog.Default()
	}
	b.log = b.log.With("role", opts.Role.String())
	pings := 2 * time.Second // a server that sleeps is left after two without an answer
	if opts.Role.Narrow() {
		pings = 5 * time.Second // there may be thousands
	}
	nopts := []nats.Option{
		nats.Name(opts.Role.String()),
		nats.CustomInboxPrefix(opts.Role.Inbox()),
		nats.MaxReconnects(-1),
		nats.SyncQueueLen(8192), // of messages that wait for one subscription; the library's own 65,536 take half a megabyte each
		nats.ReconnectBufSize(-1),
		nats.CustomReconnectDelay(reconnectDelay),
		nats.IgnoreAuthErrorAbort(),
		nats.PingInterval(pings),
		nats.MaxPingsOutstanding(2),
		nats.Timeout(tryTime),
		nats.PermissionErrOnSubscribe(true),
		nats.ErrorHandler(b.asyncError),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			select {
			case <-b.closed: // Close did it: nothing is lost
			default:
				b.tell(bus.Status{State: bus.Down, Err: err})
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { b.tell(up(nc)) }),
		nats.ClosedHandler(func(*nats.Conn) { b.tell(bus.Status{State: bus.Closed, Err: bus.ErrClosed}) }),
	}
	if opts.Seed != nil {
		key, err := nkeys.FromSeed(opts.Seed)
		if err != nil {
			return nil, fmt.Errorf("connecting to the bus as %s: its key: %w", opts.Role, err)
		}
		public, err := key.PublicKey()
		if err != nil {
			return nil, fmt.Errorf("connecting to the bus as %s: its key: %w", opts.Role, err)
		}
		nopts = append(nopts, nats.Nkey(public, key.Sign))
	}
	where := opts.URL
	if opts.Server != nil {
		nopts = append(nopts, nats.InProcessServer(opts.Server))
		where = "in this process"
	}
	for n := 1; ; n++ {
		nc, err := nats.Connect(opts.URL, nopts...)
		if err == nil {
			b.nc = nc
			break
		}
		if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) {
			return nil, fmt.Errorf("connecting to the bus (%s) as %s: %w: %w", where, opts.Role, bus.ErrDenied, err)
		}
		if n == 1 {
			b.log.Info("the bus does not answer yet", "bus", where, "error", err)
		}
		if ctxErr := pause(ctx, reconnectDelay(n)); ctxErr != nil {
			return nil, fmt.Errorf("connecting to the bus (%s) as %s: %w (the last try: %w)", where, opts.Role, ctxErr, err)
		}
	}
	js, err := jetstream.New(b.nc, jetstream.WithPublishAsyncMaxPending(feedWindow), jetstream.WithPublishAsyncTimeout(2*tryTime))
	if err != nil {
		b.nc.Close()
		return nil, fmt.Errorf("connecting to the bus (%s) as %s: %w", where, opts.Role, err)
	}
	b.js = js
	b.tell(up(b.nc))
	return b, nil
}

// reconnectDelay grows from 20 ms to 1 s, each with chance in it, so that a thousand nodes do not come back at once.
func reconnectDelay(attempts int) time.Duration {
	d := min(time.Second, 20*time.Millisecond<<min(attempts, 6))
	return d/2 + rand.N(d/2)
}

func up(nc *nats.Conn) bus.Status {
	return bus.Status{State: bus.Up, Server: nc.ConnectedServerName() + " at " + nc.ConnectedUrlRedacted()}
}

func (b *Bus) Events() bus.Log    { return eventLog{b} }
func (b *Bus) Jobs() bus.Feed     { return feed{b} }
func (b *Bus) Usage() bus.Samples { return samples{b} }
func (b *Bus) Blobs() bus.Blobs   { return blobs{b} }
func (b *Bus) Leases() bus.Leases { return leases{b} }
func (b *Bus) Wire() bus.Wire     { return wire{b} }

// Close implements bus.Bus.
func (b *Bus) Close() error {
	b.die()
	b.nc.Close()
	return nil
}

// OnStatus implements bus.Bus.
func (b *Bus) OnStatus(fn func(bus.Status)) (stop func()) {
	entry := &statusFn{fn: fn}
	b.tellMu.Lock()
	defer b.tellMu.Unlock()
	b.statusMu.Lock()
	b.statuses = append(b.statuses, entry)
	now := b.status
	b.statusMu.Unlock()
	fn(now)
	return func() {
		entry.stopped.Store(true)
		b.statusMu.Lock()
		defer b.statusMu.Unlock()
		for i, e := range b.statuses {
			if e == entry {
				b.statuses = append(b.statuses[:i:i], b.statuses[i+1:]...)
				return
			}
		}
	}
}

func (b *Bus) tell(s bus.Status) {
	b.tellMu.Lock()
	defer b.tellMu.Unlock()
	b.statusMu.Lock()
	before := b.status
	b.status = s
	if s.State != bus.Up {
		close(b.drops)
		b.drops = make(chan struct{})
		b.waits.end(errDropped)
	}
	fns := append([]*statusFn(nil), b.statuses...)
	b.statusMu.Unlock()
	switch {
	case s.State == bus.Down && before.State == bus.Up:
		b.log.Warn("lost the bus; connecting again", "error", s.Err)
	case s.State == bus.Up && before.State == bus.Down && before.Err != nil:
		b.log.Info("the bus is back", "bus", s.Server)
	}
	for _, e := range fns {
		if !e.stopped.Load() {
			e.fn(s)
		}
	}
}

// dropped returns a channel that is closed when the present connection drops.
func (b *Bus) dropped() <-chan struct{} {
	b.statusMu.Lock()
	defer b.statusMu.Unlock()
	return b.drops
}

// asyncError hears what the server says about no call in particular: above all, what it does not permit.
func (b *Bus) asyncError(_ *nats.Conn, sub *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		// … Permissions Violation for Publish to "ev.sched"
		if _, rest, ok := strings.Cut(err.Error(), `"`); ok {
			subject, _, _ := strings.Cut(rest, `"`)
			b.waits.report(subject)
		}
		b.log.Warn("the bus does not permit what this role tried", "error", err)
		return
	}
	if sub != nil {
		b.log.Warn("the bus reports a fault", "subject", sub.Subject, "error", err)
		return
	}
	b.log.Warn("the bus reports a fault", "error", err)
}

// errDropped ends the tries whose answer cannot come any more.
var errDropped = errors.New("the connection dropped")

// waits ends tries that wait in vain: on subjects that the server refuses, which it says apart from the try, and all of
// them when the connection drops.
type waits struct {
	mu      sync.Mutex
	waiting map[string]map[*context.CancelCauseFunc]bool
}

func (w *waits) report(subject string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for cancel := range w.waiting[subject] {
		(*cancel)(bus.ErrDenied)
	}
}

func (w *waits) end(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, waiting := range w.waiting {
		for cancel := range waiting {
			(*cancel)(why)
		}
	}
}

func (w *waits) watch(subject string, cancel *context.CancelCauseFunc) (done func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil {
		w.waiting = map[string]map[*context.CancelCauseFunc]bool{}
	}
	if w.waiting[subject] == nil {
		w.waiting[subject] = map[*context.CancelCauseFunc]bool{}
	}
	w.waiting[subject][cancel] = true
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiting[subject], cancel)
		if len(w.waiting[subject]) == 0 {
			delete(w.waiting, subject)
		}
	}
}

// try runs one request that is sent on subject, for tryTime at most, and says what its error means.
func (b *Bus) try(ctx context.Context, subject string, request func(ctx context.Context) error) error {
	return b.tryFor(ctx, tryTime, subject, request)
}

// tryFor is try with a time of its own.
func (b *Bus) tryFor(ctx context.Context, limit time.Duration, subject string, request func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer b.waits.watch(subject, &cancel)()
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	err := request(ctx)
	if err == nil {
		return nil
	}
	if errors.Is(context.Cause(ctx), bus.ErrDenied) {
		return fmt.Errorf("%s: %w to %s", subject, bus.ErrDenied, b.role)
	}
	if errors.Is(context.Cause(ctx), errDropped) {
		err = errDropped
	}
	return b.meaning(err)
}

// meaning translates errors of the library that are certain into those of package bus.
func (b *Bus) meaning(err error) error {
	select {
	case <-b.closed:
		return bus.ErrClosed
	default:
	}
	switch {
	case errors.Is(err, nats.ErrConnectionClosed):
		return bus.ErrClosed
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", bus.ErrTooLarge, err)
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return bus.ErrNotFound
	}
	return err
}

// stream returns the handle of a stream, asking the server for it the first time.
func (b *Bus) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	b.streamsMu.Lock()
	s := b.streams[name]
	b.streamsMu.Unlock()
	if s != nil {
		return s, nil
	}
	err := b.try(ctx, "$JS.API.STREAM.INFO."+name, func(ctx context.Context) (err error) {
		s, err = b.js.Stream(ctx, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looking up the stream %s: %w", name, err)
	}
	b.streamsMu.Lock()
	defer b.streamsMu.Unlock()
	b.streams[name] = s
	return s, nil
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
