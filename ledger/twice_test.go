package ledger

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"stint/events"
	"stint/ledger/rows"
)

// A node tells the end of a numbered step twice when its executor was killed before it knew that the first word had been heard. What
// the step used counts once.
func TestTheEndOfAStepToldTwiceCountsOnce(t *testing.T) {
	h := newHistory(t, 2)
	id := h.submit("bob", 2002, &events.JobSpec{Name: "bench", CpusPerTask: 1, MemPerNodeMib: 100})
	h.start(id)
	j := h.c.Job(id)
	node := j.Allocation.FirstNode()
	h.node(node, started(j, 0, h.now))
	for range 2 {
		h.node(node, exited(j, 0, h.now-5, h.now, 0, 0, &events.Usage{UserUs: 1000, SystemUs: 20}))
	}
	l := open(t, vfs.NewMem(), Options{})
	defer l.Close()
	for seq := range h.log {
		if err := l.Apply(h.event(uint64(seq + 1))); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Commit(true); err != nil {
		t.Fatal(err)
	}
	row := ask(t, l, &rows.Ask{What: &rows.Ask_Jobs{Jobs: &rows.AskJobs{Jobs: []*rows.Selection{{Job: id}}}}}).Records[0].Job
	if row.UserUs != 1000 || row.SystemUs != 20 {
		t.Errorf("%d us of users' and %d us of the system's time", row.UserUs, row.SystemUs)
	}
}
