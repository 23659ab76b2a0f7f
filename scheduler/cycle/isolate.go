package cycle

import (
	"fmt"

	"stint/events"
	"stint/scheduler/place"
)

// breakdown is a job that a pass failed on.
type breakdown struct {
	job  uint32
	spec *events.JobSpec // what could not be placed, so that jobs that ask for the same are not tried one by one; nil: it did not come to that
	text string
	q    *place.Request // of spec, in the memory of the present try
}

// maxBroken is how many requests one pass may fail on. Beyond that it is not the jobs: the pass has failed.
const maxBroken = 16

// isolate makes a pass. Code that fails on one job must not stop the others: when it panics on a job's turn in the queue,
// nothing that this try left behind is used (neither the fork of the state nor the memory, either may be half changed), and the
// pass is made again without the job, which is held. First, though, once more with nothing but a new memory: losing it
// must change nothing, so what fails only with an old one is no fault of the job's. All of it is a function of the state,
// and comes out alike when the pass is replayed. A panic at any other time is the caller's.
func isolate(begin func() *pass) *pass {
	var broken []breakdown
	for fresh := false; ; {
		p := begin()
		p.broken = broken
		b := p.attempt(len(broken) < maxBroken)
		if b == nil {
			return p
		}
		*p.mem = *NewMemory()
		if !fresh {
			fresh = true
			continue
		}
		broken = append(broken, *b)
	}
}

// attempt takes the steps of a pass, and returns what it failed on.
func (p *pass) attempt(recovers bool) (b *breakdown) {
	defer func() {
		if p.turn == 0 || !recovers {
			return
		}
		r := recover()
		b = &breakdown{job: p.turn, text: "the scheduler failed on it: " + sentence(fmt.Sprint(r))}
		if p.placing {
			b.spec = p.c.Job(p.turn).GetSpec()
		}
		if p.in.Failed != nil {
			p.in.Failed(p.turn, r)
		}
	}()
	for i := range p.broken {
		if b := &p.broken[i]; b.spec != nil {
			b.q, _ = p.mem.shapes.Of(b.spec)
		}
	}
	p.decide()
	return nil
}

// breakdownOf is why a job, or one that asks for the same as q, cannot be dealt with; nil if nothing is known against it.
func (p *pass) breakdownOf(job uint32, q *place.Request) *breakdown {
	for i := range p.broken {
		if b := &p.broken[i]; b.job == job || q != nil && b.q == q {
			return b
		}
	}
	return nil
}

// setAside holds a job until an administrator releases it.
func (p *pass) setAside(w *waiting, b *breakdown) *events.Fact {
	p.wait(w, events.Reason_SYSTEM_FAILURE, b.text)
	return &events.Fact{Kind: &events.Fact_Held{Held: &events.Held{
		Job: w.job.Id, Kind: events.HoldKind_HELD_ADMIN, Reason: events.Reason_SYSTEM_FAILURE, Text: b.text,
	}}}
}
