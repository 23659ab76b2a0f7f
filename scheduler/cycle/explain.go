package cycle

import (
	"fmt"

	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
	"stint/scheduler/place"
)

// Explain says of a job that waits what a pass at now (microseconds) finds in its way: for each of its partitions how its
// nodes stand, and which changes of the job would have it start in that pass. It is the pass itself that is asked, once as
// things are and once for each change that might do; so an answer costs several passes, and is for people, not for every
// beat. It does not change c.
func Explain(c *projections.Cluster, job uint32, now int64) *projections.Explanation {
	x := &projections.Explanation{}
	j := c.Job(job)
	if j == nil || !j.Waits() || c.ConfigSeq() == 0 {
		return x
	}
	in := Input{Now: now}
	asked := decideOn(c, in, nil, job)
	if asked.placed != nil {
		x.StartsNow = hostlist.Compress(asked.placed.Allocation.NodeNames())
		return x
	}
	for _, s := range asked.stands {
		part := &projections.PartitionStanding{Partition: s.partition}
		for _, g := range s.groups {
			part.Nodes = append(part.Nodes, &projections.NodeStanding{
				What: g.Standing.String(), Fits: g.Standing == place.Fits, Count: uint32(len(g.Nodes)), Names: hostlist.Compress(g.Nodes[:min(len(g.Nodes), maxNamed)]), Text: g.Text,
			})
		}
		x.Partitions = append(x.Partitions, part)
	}
	for _, idea := range ideas(c, j, now) {
		for _, change := range idea {
			if p := decideOn(c, in, change.facts, job).placed; p != nil {
				x.Remedies = append(x.Remedies, &projections.Remedy{Change: change.text, Nodes: hostlist.Compress(p.Allocation.NodeNames())})
				break
			}
		}
	}
	return x
}

// maxNamed is how many nodes of one standing are named.
const maxNamed = 1000

// watch is what a pass notes of one job while it decides.
type watch struct {
	job    uint32
	stands []standing
	placed *events.Placed
}

// standing is how the nodes of a partition stood when the pass came to the job.
type standing struct {
	partition string
	groups    []place.Group
}

// decideOn makes a pass in which facts are taken to have been decided already, and says what it found of one job.
func decideOn(c *projections.Cluster, in Input, suppose []*events.Fact, job uint32) *watch {
	p := isolate(func() *pass {
		p := newPass(c, in)
		p.watch = &watch{job: job}
		for _, f := range suppose {
			p.c.Try(p.now, f)
		}
		return p
	})
	for _, f := range p.facts {
		for _, pl := range events.Placements(f) {
			if pl.GetJob() == job && p.watch.placed == nil {
				p.watch.placed = pl
			}
		}
	}
	return p.watch
}

// change is something that could be done about a job, as facts, and as people would do it.
type change struct {
	text  string
	facts []*events.Fact
}

// ideas are the changes worth trying, by kind: within a kind the least change first, and the first that works is told.
func ideas(c *projections.Cluster, j *projections.Job, now int64) [][]change {
	spec := j.GetSpec()
	var out [][]change
	update := func(text string, u *events.UpdateJob) change {
		u.Targets = []*events.Target{{Job: j.Id}}
		return change{fmt.Sprintf("scontrol update jobid=%s %s", number(j), text), []*events.Fact{{Kind: &events.Fact_Updated{Updated: &events.Updated{Job: j.Id, Change: u}}}}}
	}
	if j.Hold != events.HoldKind_NOT_HELD {
		out = append(out, []change{{fmt.Sprintf("scontrol release %s", number(j)), []*events.Fact{{Kind: &events.Fact_Released{Released: &events.Released{Job: j.Id, Priority: max(j.Priority, 1)}}}}}})
	}
	if len(j.Dependencies) > 0 {
		out = append(out, []change{update("dependency=", &events.UpdateJob{SetDependencies: true})})
	}
	if a := c.Array(j.ArrayId); j.ArrayId != 0 && a.GetMaxRunning() > 0 && a.GetRunning() >= a.GetMaxRunning() {
		more := a.GetRunning() + 1
		out = append(out, []change{update(fmt.Sprintf("arraytaskthrottle=%d", more), &events.UpdateJob{ArrayThrottle: &more})})
	}
	if j.BeginUs > now {
		out = append(out, []change{update("starttime=now", &events.UpdateJob{BeginUs: &now})})
	}
	var shorter []change
	for _, pct := range []uint32{75, 50, 25, 10} {
		if minutes := j.LimitS / 100 * pct / 60; j.LimitS != events.Unlimited && minutes > 0 && minutes*60 < j.LimitS {
			limit := minutes * 60
			shorter = append(shorter, update("timelimit="+clock(limit), &events.UpdateJob{TimeLimitS: &limit}))
		}
	}
	if j.LimitS == events.Unlimited {
		for _, limit := range []uint32{24 * 3600, 3600, 600} {
			shorter = append(shorter, update("timelimit="+clock(limit), &events.UpdateJob{TimeLimitS: &limit}))
		}
	}
	out = append(out, shorter)
	if spec.GetNodeList() != "" {
		none := ""
		out = append(out, []change{update("nodelist=", &events.UpdateJob{NodeList: &none})})
	}
	if spec.GetExclude() != "" {
		none := ""
		out = append(out, []change{update("excnodelist=", &events.UpdateJob{Exclude: &none})})
	}
	if spec.GetConstraint() != "" {
		none := ""
		out = append(out, []change{update("features=", &events.UpdateJob{Features: &none})})
	}
	var lighter []change
	for _, pct := range []uint64{75, 50, 25, 10} {
		if mib := spec.GetMemPerNodeMib() * pct / 100; mib > 0 {
			lighter = append(lighter, update(fmt.Sprintf("minmemorynode=%d", mib), &events.UpdateJob{MemPerNodeMib: &mib}))
		}
		if mib := spec.GetMemPerCpuMib() * pct / 100; mib > 0 {
			lighter = append(lighter, update(fmt.Sprintf("minmemorycpu=%d", mib), &events.UpdateJob{MemPerCpuMib: &mib}))
		}
	}
	out = append(out, lighter)
	var fewer []change
	one := uint32(1)
	for _, n := range []uint32{spec.GetMinNodes() * 3 / 4, spec.GetMinNodes() / 2, 1} {
		if n > 0 && n < spec.GetMinNodes() {
			fewer = append(fewer, update(fmt.Sprintf("numnodes=%d-%d", n, n), &events.UpdateJob{MinNodes: &n, MaxNodes: &n}))
		}
	}
	if spec.GetMinNodes() > 1 || spec.GetMaxNodes() > 0 {
		most := max(spec.GetMinNodes(), spec.GetTasks())
		fewer = append(fewer, update(fmt.Sprintf("numnodes=1-%d", most), &events.UpdateJob{MinNodes: &one, MaxNodes: &most}))
	}
	out = append(out, fewer)
	tried := 0
	for _, p := range c.Partitions() {
		if p.Name == spec.GetPartition() || tried == maxPartitionsTried {
			continue
		}
		tried++
		name := p.Name
		out = append(out, []change{update("partition="+name, &events.UpdateJob{Partition: &name})})
	}
	return out
}

// maxPartitionsTried is how many other partitions a job is tried in.
const maxPartitionsTried = 8

// number is a job as scontrol takes it.
func number(j *projections.Job) string {
	if j.HasTask {
		return fmt.Sprintf("%d_%d", j.ArrayId, j.ArrayTask)
	}
	return fmt.Sprint(j.Id)
}

// clock writes seconds as a time limit is written.
func clock(s uint32) string {
	if d := s / 86400; d > 0 {
		return fmt.Sprintf("%d-%02d:%02d:%02d", d, s/3600%24, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}
