package projections

// Finished jobs leave: hot state is bounded by what is in the queue and what ended lately.

// defaultJobAge is MinJobAge when the configuration does not say, seconds.
const defaultJobAge = 300

func (c *Cluster) jobAgeUs() int64 {
	if s := c.config.GetMinJobAgeS(); s > 0 {
		return int64(s) * 1000000
	}
	return defaultJobAge * 1000000
}

// retire puts a job that is over, nodes and all, in the line of those that leave.
func (c *Cluster) retire(j *Job) {
	c.over = append(c.over, &FinishedRef{Job: j.Id, EndUs: j.FinishedUs})
	c.leaving++
}

// purge lets jobs go that finished MinJobAge ago by the log's time. One that was requeued since has left the line: its
// place there says another time than its record.
func (c *Cluster) purge() {
	age := c.jobAgeUs()
	n := 0
	for n < len(c.over) && c.over[n].EndUs+age <= c.at {
		ref := c.over[n]
		c.over[n] = nil
		n++
		if j := c.jobs.get(ref.Job); j != nil && j.FinishedUs == ref.EndUs {
			c.leaving--
			c.putJob(j, nil)
		}
	}
	c.over = c.over[n:]
}
