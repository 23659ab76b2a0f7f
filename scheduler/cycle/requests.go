package cycle

import (
	"strings"

	"stint/events"
	"stint/projections"
	"stint/scheduler/place"
)

// waiting is what a pass needs to know of a job in the queue. Most of it follows from the job's record, which never
// changes: as long as the record is the same, nothing of it is read again.
type waiting struct {
	job      *projections.Job
	q        *place.Request // nil: not eligible, or problem says what is wrong with it
	problem  *place.Problem
	parts    []*events.PartitionDef
	outcome  *projections.Outcome // of the last pass
	eligible int64
	limit    uint32
	priority uint32
	minNodes uint32
	maxNodes uint32
	prefer   *place.Request // with the features it would rather have; nil: none
	plain    bool           // no hold, dependency, deadline, least time, array: nothing but begin time and room to wait for
	bare     bool           // the outcome is a reason and nothing else
	reason   events.Reason
	pass     uint64
	together []*waiting // of the first component of a heterogeneous job: all of them, if they may start
}

// queueCache keeps what is known of waiting jobs from pass to pass, in pages by id, so that a pass over a long queue reads
// only what is new or changed.
type queueCache struct {
	pages  map[uint32]*queuePage
	pass   uint64
	last   *queuePage
	at     uint32
	config *events.Config // that parts are of
	lists  map[string][]*events.PartitionDef
}

// maxLists is how many different lists of partitions are remembered.
const maxLists = 1000

type queuePage struct {
	pass uint64 // in which it was last used
	jobs [256]waiting
}

func newQueueCache() queueCache { return queueCache{pages: map[uint32]*queuePage{}} }

func (c *queueCache) begin(config *events.Config) {
	c.pass++
	c.last = nil
	if c.config != config || len(c.lists) > maxLists {
		*c = queueCache{pages: map[uint32]*queuePage{}, pass: c.pass, config: config, lists: map[string][]*events.PartitionDef{}}
	}
}

// of is what is known of a job.
func (c *queueCache) of(r projections.Reader, j *projections.Job) *waiting {
	if c.last == nil || c.at != j.Id>>8 {
		c.at = j.Id >> 8
		if c.last = c.pages[c.at]; c.last == nil {
			c.last = &queuePage{}
			c.pages[c.at] = c.last
		}
		c.last.pass = c.pass
	}
	w := &c.last.jobs[j.Id&255]
	if w.job == j {
		return w
	}
	spec := j.GetSpec()
	if w.job == nil || w.job.Spec != spec {
		w.q, w.problem = nil, nil
	}
	w.job = j
	w.parts = c.partitions(r, spec.GetPartition())
	w.eligible, w.limit, w.priority = j.EligibleUs, j.LimitS, j.Priority
	if w.limit == events.Unlimited && spec.GetDefaultTimeLimit() && len(w.parts) > 0 && w.parts[0].GetDefaultTimeS() == 0 && r.Config().GetDefaultTimeS() == 0 {
		w.limit = uint32(longest / second)
	}
	w.minNodes, w.maxNodes = spec.GetMinNodes(), spec.GetMaxNodes()
	w.plain = j.Hold == events.HoldKind_NOT_HELD && len(j.Dependencies) == 0 && spec.GetDeadlineUs() == 0 && spec.GetTimeMinS() == 0 && j.ArrayId == 0 && j.EligibleUs != 0
	return w
}

func (c *queueCache) partitions(r projections.Reader, text string) []*events.PartitionDef {
	list, known := c.lists[text]
	if known {
		return list
	}
	for name := range strings.SplitSeq(text, ",") {
		p := r.Partition(name)
		if p == nil {
			continue
		}
		again := false
		for _, q := range list {
			again = again || q == p
		}
		if !again {
			list = append(list, p)
		}
	}
	c.lists[text] = list
	return list
}

// end drops the pages that no waiting job of this pass was on. What is deleted does not depend on the order of the map.
func (c *queueCache) end() {
	for id, page := range c.pages {
		if page.pass != c.pass {
			delete(c.pages, id)
		}
	}
}

// wait notes why a job stays in the queue, and returns the outcome if it is a new one that more may be said in. An outcome
// that says what the last pass said is that pass's.
func (p *pass) wait(w *waiting, reason events.Reason, text string) *projections.Outcome {
	if text == "" && w.bare && w.reason == reason {
		p.outcomes = append(p.outcomes, w.outcome)
		return w.outcome
	}
	if w.outcome != nil && text != "" && w.reason == reason && w.outcome.Text == text && w.outcome.StartUs == 0 && len(w.outcome.Blockers) == 0 {
		p.outcomes = append(p.outcomes, w.outcome)
		return w.outcome
	}
	o := &projections.Outcome{Job: w.job.Id, Reason: reason, Text: text, Basis: p.basis}
	w.outcome, w.reason, w.bare = o, reason, text == ""
	p.outcomes = append(p.outcomes, o)
	return o
}

// plan notes that a job waits for resources, or behind one that does, with all that is known of what it waits for and when it may start.
func (p *pass) plan(w *waiting, reason events.Reason, text string, start int64, nodes string, blockers []*projections.Blocker) {
	o := &projections.Outcome{Job: w.job.Id, Reason: reason, Text: text, StartUs: start, Nodes: nodes, Blockers: blockers, Basis: p.basis}
	if before := w.outcome; before != nil && before.Reason == o.Reason && before.Text == text && before.StartUs == start && before.Nodes == nodes && sameBlockers(before.Blockers, blockers) {
		o = before
	}
	w.outcome, w.reason, w.bare = o, o.Reason, false
	p.outcomes = append(p.outcomes, o)
}

func sameBlockers(x, y []*projections.Blocker) bool {
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if !x[i].EqualVT(y[i]) {
			return false
		}
	}
	return true
}
