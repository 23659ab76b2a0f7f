package ledger

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"stint/ledger/rows"
	"stint/projections"
)

// standing is what of a node makes a period: nil if it is as it should be.
func standing(n *projections.Node) *rows.NodeEventRow {
	if n == nil || n.NeverUp && !n.Down && !n.Drain && !n.Fail {
		return nil
	}
	if !n.Down && !n.Drain && !n.Fail && !n.Lost {
		return nil
	}
	return &rows.NodeEventRow{Node: n.Name, Down: n.Down, Drain: n.Drain, Fail: n.Fail, Lost: n.Lost, Reason: n.Reason, ReasonUid: n.ReasonUid}
}

func sameStanding(a, b *rows.NodeEventRow) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Down == b.Down && a.Drain == b.Drain && a.Fail == b.Fail && a.Lost == b.Lost &&
		a.Reason == b.Reason && a.ReasonUid == b.ReasonUid
}

// node ends the period a node was in and begins the one it is in now, if they differ.
func (t *tables) node(c *projections.Change) error {
	name, at, seq := c.NodeAfter.GetName(), c.At, c.Seq
	if c.NodeAfter == nil {
		name = c.NodeBefore.GetName()
	}
	now := standing(c.NodeAfter)
	if c.NodeBefore != nil && sameStanding(standing(c.NodeBefore), now) {
		return nil
	}
	was, err := t.period(name)
	if err != nil {
		return err
	}
	if sameStanding(was, now) {
		return nil
	}
	t.pending++
	if was != nil {
		was.EndUs, was.EndSeq = at, seq
		if err := t.put(nodeEventKey(t.buf[:0], name, was.StartUs, was.StartSeq), was); err != nil {
			return err
		}
	}
	t.open[name] = now
	if now == nil {
		return t.batch.Delete(nodePrefix(nil, tableNodeOpen, name), nil)
	}
	now.StartUs, now.StartSeq = at, seq
	if err := t.put(nodeEventKey(t.buf[:0], name, at, seq), now); err != nil {
		return err
	}
	return t.batch.Set(nodePrefix(nil, tableNodeOpen, name), nodeEventKey(nil, name, at, seq), nil)
}

// period is the period of a node that lasts, or nil.
func (t *tables) period(name string) (*rows.NodeEventRow, error) {
	if p, ok := t.open[name]; ok {
		return p, nil
	}
	if err := t.settle(); err != nil {
		return nil, err
	}
	key, closer, err := t.db.Get(nodePrefix(nil, tableNodeOpen, name))
	if errors.Is(err, pebble.ErrNotFound) {
		t.open[name] = nil
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the period of node %s: %w", name, err)
	}
	defer closer.Close()
	p := &rows.NodeEventRow{}
	found, err := get(t.db, key, p)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, damaged(key, errors.New("the row is missing"))
	}
	t.open[name] = p
	return p, nil
}
