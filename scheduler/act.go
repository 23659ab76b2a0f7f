package scheduler

import (
	"encoding/binary"

	"stint/events"
	"stint/projections"
)

// act does what follows from changes of state: the feed of job states grows, blobs of purged jobs are erased, and, if
// this controller leads, the nodes concerned are nudged.
func (c *Controller) act(changes []projections.Change) {
	if len(changes) == 0 {
		return
	}
	c.feed.add(projections.JobEvents(c.state.Config().Cluster, changes))
	leads := c.lead.led
	var nudged map[string]bool
	for i := range changes {
		ch := &changes[i]
		if (ch.Before == nil) != (ch.After == nil) {
			c.refer(ch)
		}
		if !leads || ch.Fact == nil && ch.NodeFact == nil {
			continue
		}
		if nudged == nil {
			nudged = map[string]bool{}
		}
		if ch.NodeFact != nil {
			// The first node of a run has reported: the run is over on the others too.
			if j := ch.After; j != nil && j.Completing && (ch.Before == nil || !ch.Before.Completing) {
				for _, name := range j.Unreported() {
					nudged[name] = true
				}
			}
			continue
		}
		if ch.NodeAfter != nil {
			nudged[ch.NodeAfter.Name] = true
			continue
		}
		if !concernsNodes(ch) {
			continue
		}
		for _, job := range []*projections.Job{ch.Before, ch.After} {
			for _, name := range job.GetAllocation().NodeNames() {
				nudged[name] = true
			}
		}
	}
	for name := range nudged {
		c.nudge(name)
	}
}

// concernsNodes reports whether the nodes of a job should look again at what should run on them.
func concernsNodes(ch *projections.Change) bool {
	switch ch.Fact.Kind.(type) {
	case *events.Fact_Admitted, *events.Fact_Judged, *events.Fact_Held, *events.Fact_Released:
		return false
	}
	return true
}

// nudge tells a node to ask what should run on it. The message is the sequence (8 bytes, big endian) that the answer
// must have reached.
func (c *Controller) nudge(node string) {
	data := binary.BigEndian.AppendUint64(nil, c.state.Seq())
	if err := c.cfg.Bus.Wire().Nudge(events.SubjectRun(node), data); err != nil {
		c.log.Debug("nudging", "node", node, "error", err)
	}
}

// blobsOf calls fn with the subject of each blob a job refers to.
func blobsOf(j *projections.Job, fn func(subject string)) {
	script, env := j.Spec.GetScript().GetSubject(), j.Spec.GetEnvironment().GetSubject()
	if script != "" {
		fn(script)
	}
	if env != "" && env != script {
		fn(env)
	}
}

// countBlobs counts, after a snapshot was loaded, the jobs that refer to each blob.
func (c *Controller) countBlobs() {
	clear(c.blobs)
	c.state.EachJob(func(j *projections.Job) bool {
		blobsOf(j, func(s string) { c.blobs[s]++ })
		return true
	})
}

// refer counts a new or purged job's blobs; what no hot job refers to any more is erased, by the leader. Blobs are packed
// and shared by the tasks of an array, hence the count.
func (c *Controller) refer(ch *projections.Change) {
	if ch.After != nil {
		blobsOf(ch.After, func(s string) { c.blobs[s]++ })
		return
	}
	blobsOf(ch.Before, func(s string) {
		c.blobs[s]--
		if c.blobs[s] > 0 {
			return
		}
		delete(c.blobs, s)
		if c.lead.led {
			c.feed.erase(c.cfg.Bus.Blobs(), s)
		}
	})
}
