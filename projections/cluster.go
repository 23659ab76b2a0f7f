// Package projections is the fold: the state of the cluster as a function of the log, and what readers are shown of it.
//
// There is one fold. The leader, every follower, the ledger, a restart, the simulation and every test call Apply; what
// differs is only what they do with the state. Apply is total: it takes any message of the log, in the order of the log,
// and never fails. What does not fit the state (a placement that meets a cancelled job, a report by an executor that was
// replaced, a fact about another run) is void: listed in the Verdict, counted by reason, and without any other effect.
// Apply knows no clock, no chance and no order of maps, so two folds of one log are equal, byte by byte of their snapshots.
//
// Files: cluster (Apply and what it stores through), intents (ev.intent), sched (ev.sched) with queue, run, arrays and depend
// for what its facts do to jobs, node (ev.node and what facts do to nodes), config, purge; reader, table, copy (how readers
// are shown all this without being in the way), refuse, snapshot, answer, jobevent.
package projections

import (
	"cmp"
	"slices"

	"stint/events"
)

// Rules is the version of the fold's meaning that this code knows; a term says which one counts from it on.
const Rules = 1

// Cluster is the fold. One goroutine may use it; others are given a View.
type Cluster struct {
	state
	epoch uint64 // raised by View: what is older is shared with one

	// Derived from the state, made again by Load.
	waiting    map[intentKey]*InboxItem
	dependents map[uint32]map[uint32]struct{} // by job or array id: jobs in the queue that depend on it
	names      map[nameKey]nameSet            // live jobs by owner and name, for singletons

	parent *Cluster // of a fork: where an index entry is found that the fork has not touched

	shared *sharing // nil in a fork

	// State that readers do not see.
	over      []*FinishedRef   // finished jobs in the order in which they leave
	told      map[nonce]uint64 // which telling, counted from the first ever
	tellings  []telling        // the same, oldest first
	forgotten uint64           // tellings before these
	judged    []uint64         // messages with verdicts, in the order of their first one, to forget the oldest
	kept      int              // verdicts kept
	inboxGone int              // intents that got their verdict in this message

	// Of the message being folded.
	verdict  Verdict
	changes  []Change
	voidsOwn bool
	fact     *events.Fact
	nodeFact *events.NodeFact
	index    int
	now      int64 // the author's time
	pulled   []Pulled
}

type intentKey struct {
	seq   uint64
	index uint32
}

// New is the state before the first message.
func New() *Cluster {
	c := &Cluster{epoch: 1, shared: &sharing{}}
	c.nextID = 1
	c.term = &TermState{}
	c.config = &events.Config{}
	c.given = c.config
	c.policy = newPolicy()
	c.layout = &layout{index: map[string]uint32{}, byName: map[string]*partition{}}
	c.waiting = map[intentKey]*InboxItem{}
	c.dependents = map[uint32]map[uint32]struct{}{}
	c.names = map[nameKey]nameSet{}
	c.told = map[nonce]uint64{}
	return c
}

// View is the state as it is now, for readers; it never changes, and costs nothing to take. Changes after it copy what they
// touch (a page of 256 records) once.
func (c *Cluster) View() *View {
	c.epoch++
	c.voidsOwn = false
	return &View{c.state}
}

// Changes are the records that the last Apply changed, in the order in which it happened. The slice is good until the next
// Apply.
func (c *Cluster) Changes() []Change { return c.changes }

// Apply folds one message. Messages come in the order of the log; one that comes again is void. It never fails.
func (c *Cluster) Apply(e events.Event) Verdict {
	c.verdict = Verdict{}
	c.changes, c.pulled = c.changes[:0], c.pulled[:0]
	c.fact, c.nodeFact, c.index = nil, nil, -1
	if e.Seq <= c.seq {
		c.verdict.Void = []VoidFact{{-1, voidOldSeq, ""}}
		return c.verdict
	}
	c.seq = e.Seq
	c.messages++
	c.passed += min(max(0, e.At-c.at), passMost)
	c.at = max(c.at, e.At)
	c.now = c.at
	switch {
	case e.Author == events.AuthorLeader:
		c.sched(&e)
	case e.Author == events.AuthorNode:
		c.nodeMessage(&e)
	case e.Void != "":
		c.void(-1, e.Void)
	case e.Intents != nil:
		c.intents(&e)
	case e.Share != nil:
		c.share(e.Share)
	default:
		c.void(-1, voidEmpty)
	}
	c.index, c.fact, c.nodeFact, c.now = -1, nil, nil, c.at
	c.sweepInbox()
	c.purge()
	c.verdict.Changed = c.verdict.Changed || len(c.changes) > 0
	return c.verdict
}

// putJob stores a job (nil: it leaves), keeps the indexes in step, and notes the change.
func (c *Cluster) putJob(before, after *Job) {
	id := before.GetId()
	if after != nil {
		id = after.Id
		after.ChangedSeq = c.seq
		c.jobs.set(c.epoch, id, after, after.marks())
	} else {
		c.jobs.set(c.epoch, id, nil, 0)
	}
	c.owners.move(c.epoch, before, after)
	c.tally(before, after)
	c.license(before, after)
	c.sharing(before, after)
	c.changes = append(c.changes, Change{Before: before, After: after, Fact: c.fact, NodeFact: c.nodeFact, At: c.now, Seq: c.seq, Index: c.index})
	c.rename(before, after) // last: it may let other jobs go
}

// putNode stores a node and notes the change.
func (c *Cluster) putNode(before, after *Node) {
	c.nodes.set(c.epoch, after.Index, after, 0)
	c.nodeHits(before, after)
	c.changes = append(c.changes, Change{NodeBefore: before, NodeAfter: after, Fact: c.fact, NodeFact: c.nodeFact, At: c.now, Seq: c.seq, Index: c.index})
}

// share takes over the factors that changed.
func (c *Cluster) share(m *events.ShareMessage) {
	if len(m.GetFactors()) == 0 {
		c.void(-1, voidNothingWanted)
		return
	}
	// Old and new in one order, the last word on each counts.
	all := append(append([]*events.ShareFactor(nil), c.shares...), m.GetFactors()...)
	slices.SortStableFunc(all, func(a, b *events.ShareFactor) int {
		return cmp.Or(cmp.Compare(a.GetAccount(), b.GetAccount()), cmp.Compare(a.GetUser(), b.GetUser()))
	})
	next := all[:0]
	for i, f := range all {
		if i+1 < len(all) && all[i+1].GetAccount() == f.GetAccount() && all[i+1].GetUser() == f.GetUser() {
			continue
		}
		next = append(next, f)
	}
	c.shares = next
	c.verdict.Changed = true
}
