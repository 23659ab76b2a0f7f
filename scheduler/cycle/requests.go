package cycle

import (
	"stint/events"
	"stint/projections"
	"stint/scheduler/place"
)

// requestCache keeps the request of each waiting job from pass to pass, in pages by id, so that a pass over a long queue
// reads specifications only of jobs that are new or changed.
type requestCache struct {
	pages map[uint32]*requestPage
	pass  uint64
	last  *requestPage
	at    uint32
}

type requestPage struct {
	pass uint64 // in which it was last used
	spec [256]*events.JobSpec
	q    [256]*place.Request
}

func newRequestCache() requestCache { return requestCache{pages: map[uint32]*requestPage{}} }

func (c *requestCache) begin() {
	c.pass++
	c.last = nil
}

// of is the request of a job.
func (c *requestCache) of(j *projections.Job, shapes *place.Shapes) (*place.Request, *place.Problem) {
	if c.last == nil || c.at != j.Id>>8 {
		c.at = j.Id >> 8
		if c.last = c.pages[c.at]; c.last == nil {
			c.last = &requestPage{}
			c.pages[c.at] = c.last
		}
		c.last.pass = c.pass
	}
	i := j.Id & 255
	if c.last.spec[i] == j.Spec && c.last.q[i] != nil {
		return c.last.q[i], nil
	}
	q, problem := shapes.Of(j.Spec)
	if problem != nil {
		return nil, problem
	}
	c.last.spec[i], c.last.q[i] = j.Spec, q
	return q, nil
}

// end drops the pages that no waiting job of this pass was on. What is deleted does not depend on the order of the map.
func (c *requestCache) end() {
	for id, page := range c.pages {
		if page.pass != c.pass {
			delete(c.pages, id)
		}
	}
}
