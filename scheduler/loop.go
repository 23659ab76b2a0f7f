package scheduler

import (
	"context"
	"slices"
	"time"

	"stint/events"
	"stint/projections"
)

// loop is the only place where the cluster's state changes: messages are folded, what changed is acted upon, and while
// the term is ours and nothing of ours is on its way, a cycle is run when there is cause for one.
func (c *Controller) loop(ctx context.Context) error {
	wake := time.NewTimer(time.Hour)
	defer wake.Stop()
	var stopAnswers func()
	defer func() {
		if stopAnswers != nil {
			stopAnswers()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b, ok := <-c.batches:
			if !ok {
				return c.watch.err()
			}
			c.fold(b)
			for more := true; more && !b.tip; { // what has already arrived is folded before anything is decided
				select {
				case b, ok = <-c.batches:
					if !ok {
						return c.watch.err()
					}
					c.fold(b)
				default:
					more = false
				}
			}
			if b.tip {
				c.lead.tip = true
			}
			c.show()
			if c.lead.tip && stopAnswers == nil {
				stop, err := c.answer()
				if err != nil {
					return err
				}
				stopAnswers = stop
				c.log.Info("answering", "seq", c.state.Seq(), "jobs", c.state.Counts().Jobs)
			}
		case r := <-c.appended:
			c.settled(r)
		case h := <-c.hints:
			c.lead.held = h.held
		case to := <-c.hashes:
			to <- hashed{c.state.Seq(), c.state.Hash()}
		case to := <-c.copies:
			to <- c.state.Snapshot()
		case <-wake.C:
		case <-c.beats.changed:
		}
		next := c.step(ctx)
		c.watch.inbox(len(c.state.Inbox()))
		c.report.Store(&report{leads: c.lead.led && c.leading(), cycles: c.lead.cycles, lastCycle: c.lead.lastCycle})
		wake.Reset(next)
	}
}

// fold applies a batch and notes what follows from it.
func (c *Controller) fold(b read) {
	for _, e := range b.events {
		if e.Seq <= c.state.Seq() {
			continue
		}
		v := c.state.Apply(e)
		c.snaps.count(&e)
		if v.Changed {
			c.lead.cause = true
		}
		changes := c.state.Changes()
		c.act(changes)
		if c.lead.led && c.leading() {
			c.triggers.pull(slices.Clone(c.state.Pulled()))
		}
		if c.lead.tip { // what was there before is not of this time
			c.stats.changed(changes)
		}
		if e.Author == events.AuthorNode {
			c.beats.heard(e.Name)
		}
		for _, void := range v.Void {
			if void.Index < 0 && e.Author == events.AuthorLeader && c.lead.out != nil {
				c.lead.voids = append(c.lead.voids, e.Seq)
			}
			c.log.Debug("void", "seq", e.Seq, "index", void.Index, "why", void.Why)
		}
	}
	c.heed()
	c.snaps.maybe(c.state, c.feed.Rest)
}

// shown is the state as readers see it. next is closed when there is a newer one.
type shown struct {
	view *projections.View
	next chan struct{}
}

// show gives readers the state as it is now.
func (c *Controller) show() {
	old := c.shown.Load()
	if old != nil && old.view.Seq() == c.state.Seq() {
		return
	}
	c.shown.Store(&shown{view: c.state.View(), next: make(chan struct{})})
	if old != nil {
		close(old.next)
	}
}
