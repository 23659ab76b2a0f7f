package projections

import (
	"stint/events"
)

// A heterogeneous job is several jobs, its components, that start together on nodes apart and are one to people. The first of
// them, the leader, has the script; the others are allocations that last as long as the leader's run, or end before.

// Leads says that the job is the first component of a heterogeneous one.
func (j *Job) Leads() bool { return j.GetHetId() != 0 && j.GetHetOffset() == 0 }

// Scriptless says that no program runs by the job itself: it is there until it is told to end.
func (j *Job) Scriptless() bool { return j.GetSpec().GetInteractive() || j.GetHetOffset() > 0 }

// FirstRun is what is known of the present run on the node that runs the script; nil if there is none.
func (j *Job) FirstRun() *RunNode {
	first := j.GetAllocation().FirstNode()
	for _, n := range j.GetNodes() {
		if n.GetNode() == first {
			return n
		}
	}
	return nil
}

// Components are the components of a heterogeneous job that are hot, in order.
func Components(r interface{ Job(id uint32) *Job }, het, size uint32) []*Job {
	list := make([]*Job, 0, size)
	for id := het; id < het+size; id++ {
		if j := r.Job(id); j != nil && j.HetId == het {
			list = append(list, j)
		}
	}
	return list
}

// RefuseTogether is Refuse for all components of a heterogeneous job: none is refused, they are all there are, on nodes apart,
// and there are licences for all of them.
func (s *state) RefuseTogether(p *events.PlacedTogether) *Refusal {
	parts := p.GetParts()
	if len(parts) == 0 {
		return refuse(0, "no component is placed")
	}
	leader := s.jobs.get(parts[0].GetJob())
	if leader == nil || !leader.Leads() || int(leader.HetSize) != len(parts) {
		return refuse(0, "%d components beginning with job %d are no heterogeneous job", len(parts), parts[0].GetJob())
	}
	taken := map[string]uint32{}
	wanted := map[string]uint64{}
	for i, part := range parts {
		if part.GetJob() != leader.Id+uint32(i) {
			return refuse(0, "job %d is not component %d of job %d", part.GetJob(), i, leader.Id)
		}
		if r := s.Refuse(part); r != nil {
			return r
		}
		for _, name := range part.GetAllocation().NodeNames() {
			if other, again := taken[name]; again {
				return refuse(events.Reason_RESOURCES, "node %s is given to jobs %d and %d, components of one job", name, other, part.GetJob())
			}
			taken[name] = part.GetJob()
		}
		text := part.GetLicenses()
		if text == "" {
			text = s.jobs.get(part.GetJob()).GetSpec().GetLicenses()
		}
		list, _, _ := events.ParseLicenses(text)
		for _, l := range list {
			wanted[l.Name] += uint64(l.Count)
			if have, _ := s.License(l.Name); uint64(s.LicensesUsed(l.Name))+wanted[l.Name] > uint64(have) {
				return refuse(events.Reason_LICENSES, "the components of job %d want %d of licence %s, and of %d that there are %d are in use", leader.Id, wanted[l.Name], l.Name, have, s.LicensesUsed(l.Name))
			}
		}
	}
	return nil
}

// placedTogether: all components run, if the state refuses none of them. Each start is told as that of a job.
func (c *Cluster) placedTogether(f *events.PlacedTogether) string {
	if r := c.RefuseTogether(f); r != nil {
		c.voidMore(c.index, voidNotFeasible, r.Text)
		return ""
	}
	whole := c.fact
	for _, p := range f.GetParts() {
		c.fact = &events.Fact{Kind: &events.Fact_Placed{Placed: p}}
		c.start(p)
	}
	c.fact = whole
	return ""
}
