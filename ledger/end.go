package ledger

import (
	"fmt"

	"stint/events"
	"stint/ledger/rows"
	"stint/projections"
)

// requeue closes a record whose job goes back to the queue.
func (t *tables) requeue(r *record, c *projections.Change) error {
	if r.row.EndUs != 0 {
		return nil // it had ended before it was requeued, and stays what it was
	}
	r.row.EndUs = c.At
	if b := c.Before; b.EndUs != 0 {
		r.row.EndUs = b.EndUs
	}
	r.row.Completing = false
	r.row.ChangedSeq = c.Seq
	r.row.State, r.row.Requeued = requeuedState(c.Before)
	r.row.ExitCode = c.After.ExitCode // of a run that was put back for it
	if r.row.State == events.JobState_NODE_FAIL && r.row.FailedNode == "" {
		r.row.FailedNode = lostNode(c.Before)
	}
	t.mark(r)
	return t.finish(r)
}

// resize closes a record whose run goes on with fewer nodes. Its steps go on in the next record.
func (t *tables) resize(r *record, c *projections.Change) error {
	r.row.EndUs = c.After.ResizedUs
	r.row.ChangedSeq = c.Seq
	r.row.State, r.row.Resized = events.JobState_RUNNING, true
	t.mark(r)
	return t.finish(r)
}

// requeuedState is what a run that was put back is shown as: PREEMPTED or NODE_FAIL if that was why, else REQUEUED.
func requeuedState(j *projections.Job) (s events.JobState, requeued bool) {
	switch j.GetStop().GetCause() {
	case events.StopCause_STOP_PREEMPT:
		return events.JobState_PREEMPTED, false
	case events.StopCause_STOP_NODE_LOST:
		return events.JobState_NODE_FAIL, false
	}
	if j.State.Final() {
		return j.State, false
	}
	return events.JobState_CANCELLED, true
}

// finish does what is done once for a record, when it ends: steps nobody spoke of again are closed, and what it
// used is added to the hours in which it did.
func (t *tables) finish(r *record) error {
	if r.row.Run == 0 {
		return nil
	}
	if err := t.readSteps(r); err != nil {
		return err
	}
	for i := range r.steps {
		if s := &r.steps[i]; s.row.EndUs == 0 {
			abandon(s.row, r.row.EndUs)
			s.dirty = true
		}
	}
	return t.charge(r.row)
}

const (
	hourUs = int64(3600) * 1e6
	// maxHours bounds what one record may add: ten years. A node whose clock leaps must not fill the table.
	maxHours = 24 * 3660
)

// charge adds a run's use to the hours from its start; time it was suspended is taken from the end.
func (t *tables) charge(r *rows.JobRow) error {
	end := r.EndUs - r.SuspendedUs
	if r.Alloc == nil || r.StartUs <= 0 || end <= r.StartUs {
		return t.add(r, max(r.EndUs, 0), 0, 1)
	}
	at := r.StartUs
	for range maxHours {
		next := min(at-at%hourUs+hourUs, end)
		ended := uint64(0)
		if next == end {
			ended = 1
		}
		if err := t.add(r, at, uint64(next-at), ended); err != nil {
			return err
		}
		if at = next; at == end {
			return nil
		}
	}
	return nil
}

// add adds us microseconds of a run's resources to the hour that holds at.
func (t *tables) add(r *rows.JobRow, at int64, us, ended uint64) error {
	hour := at - at%hourUs
	t.buf = usageKey(t.buf[:0], hour, r.Account, r.User)
	u := t.usage[string(t.buf)]
	if u == nil {
		u = &hourUse{}
		if _, err := t.get(t.buf, &u.UsageRow); err != nil {
			return fmt.Errorf("usage of %s in %s: %w", r.User, r.Account, err)
		}
		u.HourUs, u.Account, u.User = hour, r.Account, r.User
		t.usage[string(t.buf)] = u
	}
	u.dirty = true
	u.JobsEnded += ended
	if a := r.Alloc; a != nil && us > 0 {
		u.CpuUs += a.Cpus * us
		u.MemMibUs += a.MemMib * us
		u.NodeUs += uint64(a.Nodes) * us
		u.BillingUs += a.Billing * us
		for _, g := range a.Gres {
			u.GresUs = addGres(u.GresUs, g.Name, g.Type, g.Count*us)
		}
	}
	return nil
}
