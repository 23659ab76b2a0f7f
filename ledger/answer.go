package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"stint/events"
	"stint/events/hostlist"
	"stint/ledger/rows"
	"stint/projections"
)

// Answer answers one question from the tables as they are when they have reached ask.LeastSeq. It never fails: what goes
// wrong is in Answer.Error. Long answers come in parts: while More is set, ask again with After = More.
func (l *Ledger) Answer(ctx context.Context, ask *rows.Ask) *rows.Answer {
	wait := time.Duration(min(ask.GetStory().GetWaitMs(), maxWaitMs)) * time.Millisecond
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience+wait)
		defer cancel()
	}
	if err := l.Reached(ctx, ask.LeastSeq); err != nil {
		return &rows.Answer{Error: err.Error()}
	}
	for until := time.Now().Add(wait); ; {
		answer := &rows.Answer{}
		if err := l.answer(ctx, ask, answer); err != nil {
			return &rows.Answer{Error: l.named(err).Error()}
		}
		// A story that is followed is answered when there is something new to tell, more to look through, or the time is over.
		left := time.Until(until)
		if wait == 0 || len(answer.Story) > 0 || answer.StorySeq < answer.Seq || left <= 0 || !l.wait(ctx, answer.Seq, left) {
			return answer
		}
	}
}

// wait waits until the tables have moved behind seq, at most for so long, and reports whether they have.
func (l *Ledger) wait(ctx context.Context, seq uint64, most time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return l.Reached(ctx, seq+1) == nil
}

// Each asks until there is no more and hands each part to f.
func (l *Ledger) Each(ctx context.Context, ask *rows.Ask, f func(*rows.Answer) error) error {
	ask = ask.CloneVT()
	for {
		a := l.Answer(ctx, ask)
		if a.Error != "" {
			return errors.New(a.Error)
		}
		if err := f(a); err != nil {
			return err
		}
		if len(a.More) == 0 {
			return nil
		}
		ask.After = a.More
	}
}

func (l *Ledger) answer(ctx context.Context, ask *rows.Ask, answer *rows.Answer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	snap, err := l.snapshot()
	if err != nil {
		return err
	}
	defer func() {
		snap.Close()
		l.asked.Done()
	}()
	if answer.Seq, answer.NowUs, err = readCursor(snap); err != nil {
		return err
	}
	sight := l.sight(ask.Uid)
	switch what := ask.What.(type) {
	case *rows.Ask_Jobs:
		q, err := newQuery(what.Jobs)
		if err != nil {
			return err
		}
		q.sight = sight
		return q.run(snap, &l.open, ask, answer)
	case *rows.Ask_Story:
		return l.tell(ctx, snap, what.Story, sight, answer)
	case *rows.Ask_Usage:
		return usage(snap, what.Usage, ask.User, sight, answer)
	case *rows.Ask_NodeEvents:
		if sight.Private(events.Private_PRIVATE_EVENTS) {
			return errors.New("Access/permission denied: PrivateData keeps events for administrators")
		}
		return nodeEvents(snap, what.NodeEvents, answer)
	case *rows.Ask_Status:
		answer.Status = l.status(answer.Seq)
		return nil
	}
	return errors.New("a question that this ledger does not know; it may be older than the command that asks")
}

// sight is what a user, or nil for nobody, may see under the configuration that the tables are current to.
func (l *Ledger) sight(uid *uint32) projections.Sight {
	l.mu.Lock()
	defer l.mu.Unlock()
	return projections.SightOf(l.config, uid)
}

// snapshot is the tables as they are now, or why they cannot be read. Close waits until l.asked is done.
func (l *Ledger) snapshot() (*pebble.Snapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return nil, l.broken
	}
	if l.closed {
		return nil, errors.New("the ledger is going down; ask again when it is back")
	}
	l.asked.Add(1)
	return l.db.NewSnapshot(), nil
}

func (l *Ledger) status(seq uint64) *rows.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &rows.Status{Seq: seq, Format: Format, Error: l.trouble, Host: l.o.Host, Records: uint64(l.hot), SnapshotSeq: l.snappedSeq, Cluster: l.config.GetCluster(), Qos: qosNames(l.policy)}
}

func qosNames(p *projections.Policy) (names []string) {
	if p == nil {
		return nil
	}
	p.EachQos(func(q *projections.Qos) bool { names = append(names, q.Name); return true })
	for _, q := range p.Deleted().Qos {
		names = append(names, q.Name)
	}
	return names
}

// usage adds up the hours of a window by account and user. Where usage is private, it is the asker's own.
func usage(db pebble.Reader, a *rows.AskUsage, asker string, sight projections.Sight, answer *rows.Answer) error {
	private := sight.Private(events.Private_PRIVATE_USAGE)
	accounts, users := setOf(a.Accounts), setOf(a.Users)
	from := appendTime([]byte{tableUsage}, max(a.StartUs-a.StartUs%hourUs, 0))
	to := []byte{tableUsage + 1}
	if a.EndUs > 0 {
		to = appendTime([]byte{tableUsage}, a.EndUs)
	}
	return scan(db, from, to, func(key, value []byte) error {
		u := &rows.UsageRow{}
		if err := u.UnmarshalVT(value); err != nil {
			return damaged(key, err)
		}
		if private && u.User != asker || accounts != nil && !accounts[u.Account] || users != nil && !users[u.User] {
			return nil
		}
		answer.Usage = append(answer.Usage, u)
		return nil
	})
}

// nodeEvents lists the periods that overlap a window, by node and start.
func nodeEvents(db pebble.Reader, a *rows.AskNodeEvents, answer *rows.Answer) error {
	var nodes map[string]bool
	if a.Nodes != "" {
		names, err := hostlist.Expand(a.Nodes, hostlist.MaxHosts)
		if err != nil {
			return fmt.Errorf("node list %q: %w", a.Nodes, err)
		}
		nodes = setOf(names)
	}
	return scan(db, []byte{tableNodeEvent}, []byte{tableNodeEvent + 1}, func(key, value []byte) error {
		n := &rows.NodeEventRow{}
		if err := n.UnmarshalVT(value); err != nil {
			return damaged(key, err)
		}
		if nodes != nil && !nodes[n.Node] || a.EndUs != 0 && n.StartUs > a.EndUs || n.EndUs != 0 && n.EndUs < a.StartUs {
			return nil
		}
		answer.NodeEvents = append(answer.NodeEvents, n)
		return nil
	})
}

const (
	patience  = 10 * time.Second // how long a question waits when nobody set it a time
	maxWaitMs = 3_600_000
)
