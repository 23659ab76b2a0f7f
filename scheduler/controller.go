package scheduler

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"stint/events"
	"stint/events/bus"
	"stint/projections"
	"stint/scheduler/cycle"
	"stint/scheduler/feed"
)

// Config is what a controller is told when it starts. What decides scheduling is not here: that is in the log.
type Config struct {
	Bus  bus.Bus
	Name string       // of this controller, unique in the cluster
	Dir  string       // where snapshots are kept; "" keeps none
	Home string       // the cluster's directory, for commands that programs of triggers call; may be empty
	Log  *slog.Logger // nil: slog.Default
	// Level is told how much is to be logged whenever the configuration or an administrator says otherwise; nil: nobody is.
	Level func(slog.Level)

	Build         string        // version of the program, recorded in the term
	Lease         time.Duration // how long the lease lasts unrenewed; 0: 3 s
	SnapshotEvery uint64        // messages between snapshots; 0: 20,000
	Budget        uint64        // steps a cycle may take; 0: DefaultBudget
	Stuck         time.Duration // a cycle, or waiting work, older than that is reported; 0: 10 s
	Clock         func() time.Time
}

// DefaultBudget is how many steps of searching a cycle is granted: under a second on a slow core.
const DefaultBudget = 4_000_000

// Controller is one controller. Make it with New, let it work with Run.
type Controller struct {
	cfg Config
	log *slog.Logger

	begun time.Time
	state *projections.Cluster // owned by the loop
	shown atomic.Pointer[shown]

	batches  chan read
	appended chan appendResult
	hints    chan leaseHint
	hashes   chan chan<- hashed
	copies   chan chan<- *projections.Snapshot
	explain  sync.Mutex // held while a job is explained: one at a time, so that many who ask cost no more than one
	busUp    atomic.Bool

	run       func(*projections.Cluster, cycle.Input) ([]*events.Fact, []*projections.Outcome, int64) // cycle.Run
	lead      leadership
	memory    *cycle.Memory
	feed      *feed.Feed
	mail      *mailer
	triggers  *triggers
	zone      *events.Zone // the site's local time this year; nil: not asked for yet
	beats     *beats
	outcomes  *outcomes
	alike     projections.Alike
	stats     *stats
	standings *standings
	snaps     *snapshots
	watch     *watch
	report    atomic.Pointer[report]
	heeded    *events.Config // whose SlurmctldDebug and DebugFlags hold
	blobs     map[string]int // blob subject → hot jobs that refer to it
}

// New returns a controller that has read nothing yet.
func New(cfg Config) (*Controller, error) {
	if cfg.Bus == nil || cfg.Name == "" {
		return nil, errors.New("a controller needs a bus and a name")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Lease == 0 {
		cfg.Lease = 3 * time.Second
	}
	if cfg.SnapshotEvery == 0 {
		cfg.SnapshotEvery = 20_000
	}
	if cfg.Budget == 0 {
		cfg.Budget = DefaultBudget
	}
	if cfg.Stuck == 0 {
		cfg.Stuck = 10 * time.Second
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	c := &Controller{
		cfg:      cfg,
		begun:    time.Now(),
		log:      cfg.Log.With("controller", cfg.Name),
		batches:  make(chan read, 8),
		appended: make(chan appendResult, 1),
		hints:    make(chan leaseHint, 4),
		hashes:   make(chan chan<- hashed),
		copies:   make(chan chan<- *projections.Snapshot),
		blobs:    map[string]int{},
		memory:   cycle.NewMemory(),
		run:      cycle.Run,
	}
	c.feed = feed.New(cfg.Bus.Jobs(), cfg.Bus.Events(), c.log)
	c.mail = newMailer(c.log, cfg.Clock, c.shown.Load)
	c.feed.Told = c.mail.told
	c.triggers = newTriggers(c.log, cfg.Home)
	c.beats = newBeats(cfg.Clock)
	c.outcomes = newOutcomes()
	c.stats = newStats(cfg.Clock().UnixMicro())
	c.standings = newStandings(cfg.Name, cfg.Clock)
	c.snaps = &snapshots{dir: cfg.Dir, every: cfg.SnapshotEvery, log: c.log}
	c.watch = &watch{limit: cfg.Stuck, log: c.log}
	return c, nil
}

// Run folds, answers and, when it holds the term, decides, until ctx ends (nil) or the log cannot be followed any more
// (why). It leaves a snapshot behind.
func (c *Controller) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopStatus := c.cfg.Bus.OnStatus(func(s bus.Status) {
		up := s.State == bus.Up
		if c.busUp.Swap(up) != up && up {
			c.beats.forgive()
			c.feed.Back()
		}
	})
	defer stopStatus()
	stopBeats, err := c.beats.listen(c.cfg.Bus.Wire())
	if err != nil {
		return fmt.Errorf("listening for the beats of nodes: %w", err)
	}
	defer stopBeats()
	stopStandings, err := c.cfg.Bus.Wire().Listen(events.SubjectStanding, "", func(n bus.Nudge) {
		if s := c.shown.Load(); s != nil {
			c.standings.hear(n.Data, s.view.Seq())
		}
	})
	if err != nil {
		return fmt.Errorf("listening for those who follow the log: %w", err)
	}
	defer stopStandings()

	if err := c.restore(ctx); err != nil {
		return err
	}
	background := c.start(ctx)
	err = c.loop(ctx)
	stop()
	background()
	if c.state.Seq() > 0 {
		c.snaps.saveNow(c.state, c.feed.Rest())
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// start starts what runs beside the loop and returns a function that waits for its end.
func (c *Controller) start(ctx context.Context) (wait func()) {
	done := make(chan struct{}, 4)
	go func() { c.follow(ctx); done <- struct{}{} }()
	go func() { c.campaign(ctx); done <- struct{}{} }()
	go func() { c.feed.Run(ctx); done <- struct{}{} }()
	go func() { c.mail.run(ctx); done <- struct{}{} }()
	go c.watch.run(ctx)
	go bus.Tell(ctx, c.cfg.Bus.Wire(), events.SubjectStanding, tellEvery, c.standing)
	return func() {
		for range 4 {
			<-done
		}
		c.triggers.wait()
		c.snaps.wait()
	}
}

// read is what was read of the log at once, decoded: beside the loop, since that is half of the work when there is much to fold.
type read struct {
	events []events.Event
	tip    bool
}

// follow hands the log to the loop from the sequence after the fold's on. When it cannot go on, the loop is told.
func (c *Controller) follow(ctx context.Context) {
	from := c.state.Seq() + 1
	err := c.cfg.Bus.Events().Follow(ctx, from, func(b bus.Batch) error {
		r := read{tip: b.Tip, events: make([]events.Event, len(b.Messages))}
		for i, m := range b.Messages {
			r.events[i] = events.Decode(m.Seq, m.Time.UnixMicro(), m.Subject, m.Data)
		}
		select {
		case c.batches <- r:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	c.watch.ended(err)
	close(c.batches)
}

// restore loads the newest snapshot that fits the log, or begins from nothing.
func (c *Controller) restore(ctx context.Context) error {
	last, err := bounds(ctx, c.cfg.Bus)
	if err != nil {
		return err
	}
	if err := c.feed.Begin(ctx, nil); err != nil {
		return fmt.Errorf("reading where the feed of job states ends: %w", err)
	}
	state, waiting := c.snaps.load(last, c.feed.Covers)
	if state == nil {
		state = projections.New()
	}
	c.state = state
	c.feed.Add(waiting)
	c.countBlobs()
	c.log.Info("folding the log", "from", state.Seq()+1, "last", last)
	return nil
}

func bounds(ctx context.Context, b bus.Bus) (last uint64, err error) {
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, last, err = b.Events().Bounds(attempt)
		cancel()
		if err == nil {
			return last, nil
		}
		if ctx.Err() != nil || errors.Is(err, bus.ErrDenied) || errors.Is(err, bus.ErrClosed) {
			return 0, fmt.Errorf("asking where the log ends: %w", err)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func newNonce() []byte {
	n := make([]byte, 16)
	rand.Read(n)
	return n
}
