package scheduler

import (
	"encoding/binary"

	"stint/events"
	"stint/projections"
	"stint/scheduler/cycle"
)

// act does what follows from changes of state: the feed of job states grows, blobs of purged jobs are erased, and, if
// this controller leads, the nodes concerned are nudged.
func (c *Controller) act(changes []projections.Change) {
	if len(changes) == 0 {
		return
	}
	c.feed.Add(projections.JobEvents(c.state.Config().Cluster, changes))
	for i := range changes {
		if ch := &changes[i]; (ch.Before == nil) != (ch.After == nil) {
			c.refer(ch)
		}
	}
	if c.lead.led {
		for _, name := range cycle.Concerned(changes) {
			c.nudge(name)
		}
	}
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
			c.feed.Erase(c.cfg.Bus.Blobs(), s)
		}
	})
}
