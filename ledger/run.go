package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stint/events"
	"stint/events/bus"
	"stint/ledger/rows"
	"stint/projections"
)

const (
	commitEvery = 200 * time.Millisecond // how old rows may get before they are seen, while there is always more to read
	ahead       = 16                     // decoded batches that wait for the fold
	roomEvery   = time.Second            // how often a full disk is looked at again
)

// Run follows the log of b into the tables and answers questions on ask.account until ctx ends, which is no error. It
// returns when the log is another one than the tables were made from, when messages it needs are no longer there, and when
// the storage fails; the cursor then stands where the last batch left it. Call Close after it.
func (l *Ledger) Run(ctx context.Context, b bus.Bus) error {
	log := b.Events()
	if err := l.sameLog(ctx, log); err != nil {
		return err
	}
	l.mu.Lock()
	l.fetch = fromLog{log}
	l.mu.Unlock()
	stop, err := b.Wire().Answer(events.SubjectAsk(rows.View), "ledger", l.question)
	if err != nil {
		return fmt.Errorf("answering questions about accounting: %w", err)
	}
	defer stop()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go bus.Tell(ctx, b.Wire(), events.SubjectStanding, tellEvery, func() []byte {
		data, _ := (&projections.Standing{Kind: "ledger", Name: l.o.Host, Seq: l.Seq(), Version: l.o.Version}).MarshalVT() // cannot fail
		return data
	})
	if _, l.far, err = log.Bounds(ctx); err != nil {
		return fmt.Errorf("asking how far the log reaches: %w", err)
	}
	decoded := make(chan batch, ahead)
	folded := make(chan error, 1)
	go func() {
		err := l.foldAll(ctx, decoded)
		if err != nil {
			cancel(err)
		}
		folded <- err
	}()
	err = log.Follow(ctx, l.Next(), func(in bus.Batch) error {
		out := batch{tip: in.Tip, events: make([]events.Event, len(in.Messages))}
		for i, m := range in.Messages {
			out.events[i] = events.Decode(m.Seq, m.Time.UnixMicro(), m.Subject, m.Data)
		}
		select {
		case decoded <- out:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	close(decoded)
	if ferr := <-folded; ferr != nil {
		return ferr
	}
	return l.ended(ctx, err)
}

// tellEvery is how often a ledger says how far it has got.
const tellEvery = 2 * time.Second

// batch is what was read at once, decoded.
type batch struct {
	events []events.Event
	tip    bool // nothing was behind it
}

// foldAll folds what is read, and commits: at the end of the log at once, before it when enough has gathered.
func (l *Ledger) foldAll(ctx context.Context, in <-chan batch) error {
	last := time.Now()
	for b := range in {
		for i := range b.events {
			e := &b.events[i]
			l.work += 1 + len(e.Intents.GetIntents()) + len(e.Sched.GetCycle().GetFacts()) + len(e.Node.GetFacts())
			if err := l.Apply(*e); err != nil {
				return err
			}
			most := l.o.BatchChanges
			if l.tables.far = e.Seq < l.far; l.tables.far {
				most = l.o.FarChanges
			}
			if l.Pending() >= most {
				if err := l.commit(ctx, false); err != nil {
					return err
				}
				last = time.Now()
			}
		}
		if b.tip || !l.tables.far && time.Since(last) >= commitEvery {
			if err := l.commit(ctx, b.tip); err != nil {
				return err
			}
			last = time.Now()
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

// commit commits when the disk has room, and takes a snapshot of the fold when one is due.
func (l *Ledger) commit(ctx context.Context, tip bool) error {
	for why := l.room(); why != ""; why = l.room() {
		l.stand(why)
		select {
		case <-time.After(roomEvery):
		case <-ctx.Done():
			return nil
		}
	}
	if err := l.Commit(false); err != nil {
		return err
	}
	return l.snapshotIfDue(tip)
}

// snapshotWork is how many intents and facts are folded before a snapshot is taken, whatever the number of messages: at the end of the log, and
// before it, where there is more to do than to save.
const (
	snapshotWork      = 20_000
	snapshotWorkAhead = 1_000_000
)

// snapshotIfDue saves the fold now and then. tip: there is nothing else to do.
func (l *Ledger) snapshotIfDue(tip bool) error {
	work := max(snapshotWork, l.fold.Counts().Jobs/2)
	if !tip {
		work = max(snapshotWorkAhead, l.fold.Counts().Jobs/2)
	}
	if l.fold.Seq() < l.cursor || l.fold.Seq()-l.snapped < l.o.SnapshotEvery && l.work < work {
		return nil
	}
	if err := l.Commit(true); err != nil {
		return err
	}
	if err := l.saveFold(); err != nil {
		l.stand(err.Error()) // a cache: a restart would take longer, nothing else
		l.snapped, l.work = l.fold.Seq(), 0
	}
	return nil
}

// ended says in words why following the log ended.
func (l *Ledger) ended(ctx context.Context, err error) error {
	var trimmed *bus.TrimmedError
	var ahead *bus.AheadError
	switch {
	case errors.As(err, &ahead):
		return l.otherLog(err)
	case errors.As(err, &trimmed):
		return fmt.Errorf("the ledger in %s stands at %d: %w; give it a copy of another ledger's directory, or the archive", l.dir, l.fold.Seq(), err)
	case ctx.Err() != nil:
		return nil
	}
	return err
}

func (l *Ledger) otherLog(err error) error {
	return fmt.Errorf("the ledger in %s was made from another log than this one (%w): if the bus's folder was moved or replaced, stop the cluster and put it back; if this log is the right one: mv %s %s.old, and start it again: the tables are made anew from the log", l.dir, err, l.dir, l.dir)
}

// sameLog compares the first message of the log with what the tables remember of it.
func (l *Ledger) sameLog(ctx context.Context, log bus.Log) error {
	if l.first == 0 {
		return nil
	}
	m, err := log.Get(ctx, 1)
	if errors.Is(err, bus.ErrNotFound) {
		first, last, err := log.Bounds(ctx)
		if err != nil {
			return fmt.Errorf("asking how far the log reaches: %w", err)
		}
		if first <= 1 || last < l.cursor {
			return l.otherLog(fmt.Errorf("it ends at %d, the tables at %d", last, l.cursor))
		}
		return nil // archived
	}
	if err != nil {
		return fmt.Errorf("reading the first message of the log: %w", err)
	}
	if at := m.Time.UnixMicro(); at != l.first {
		return l.otherLog(fmt.Errorf("its first message is of %s", m.Time.UTC().Format(time.RFC3339)))
	}
	return nil
}

// question answers one request of ask.account.
func (l *Ledger) question(ctx context.Context, q bus.Nudge) ([]byte, error) {
	ask := &rows.Ask{}
	if err := ask.UnmarshalVT(q.Data); err != nil {
		return nil, fmt.Errorf("a question that does not decode: %w", err)
	}
	return l.Answer(ctx, ask).MarshalVT()
}

// fromLog reads messages for stories.
type fromLog struct{ log bus.Log }

func (f fromLog) Message(ctx context.Context, seq uint64) (events.Event, error) {
	m, err := f.log.Get(ctx, seq)
	if errors.Is(err, bus.ErrNotFound) {
		return events.Event{}, ErrArchived
	}
	if err != nil {
		return events.Event{}, err
	}
	return events.Decode(m.Seq, m.Time.UnixMicro(), m.Subject, m.Data), nil
}

var errEnough = errors.New("enough")

func (f fromLog) Messages(ctx context.Context, from uint64, each func(events.Event) bool) error {
	first, _, err := f.log.Bounds(ctx)
	if err != nil {
		return err
	}
	err = f.log.Follow(ctx, max(from, first), func(b bus.Batch) error {
		for _, m := range b.Messages {
			if !each(events.Decode(m.Seq, m.Time.UnixMicro(), m.Subject, m.Data)) {
				return errEnough
			}
		}
		if b.Tip {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
