package cycle

import (
	"fmt"
	"strings"

	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
	"stint/scheduler/admit"
	"stint/scheduler/place"
)

// Test says what would become of a submission at now (microseconds): why it would be refused, or when and where it could
// start, going by what runs and by its begin time. As in Slurm neither the jobs that wait nor its own hold and dependencies
// are reckoned with: it is the earliest time, not a promise. It does not change c.
func Test(c *projections.Cluster, author *events.Author, spec *events.JobSpec, now int64) (out *projections.AnswerTest) {
	defer func() {
		if p := recover(); p != nil {
			out = refusedTest(events.Code_INTERNAL, "testing this request failed: %.200s", fmt.Sprint(p))
		}
	}()
	if spec.GetScript() == nil && !spec.GetInteractive() {
		spec = spec.CloneVT()
		spec.Script = &events.BlobRef{} // what is only tested is stored nowhere
	}
	body, err := (&events.Submit{Components: []*events.JobSpec{spec}}).MarshalVT()
	if err != nil {
		return refusedTest(events.Code_MALFORMED, "the request cannot be encoded: %s", err)
	}
	item := &projections.InboxItem{Seq: c.Seq() + 1, AtUs: now, FirstId: c.NextID(), Intent: &events.Intent{Verb: events.Verb_SUBMIT, Author: author, Ids: 1, Body: body}}
	facts := admit.Admit(c, item, now)
	verdict := facts[len(facts)-1]
	if j := verdict.GetJudged(); j != nil {
		return refusedTest(j.Code, "%s", j.Text)
	}
	spec = verdict.GetAdmitted().GetSpec()
	q, problem := place.RequestOf(spec)
	if problem != nil {
		return refusedTest(problem.Code, "%s", problem.Text)
	}
	p := newPass(c, Input{Now: now})
	p.limits()
	p.holdings()
	board := place.NewBoard(p.c)
	window := place.Window{From: max(now, spec.GetBeginUs()), To: place.Forever, User: author.GetUid()}
	if limit := spec.GetTimeLimitS(); limit != events.Unlimited {
		window.To = window.From + int64(limit)*second
	}
	var best *place.Reservation
	for name := range strings.SplitSeq(spec.GetPartition(), ",") {
		if r := board.Shadow(q, name, p.ends, window); r != nil && (best == nil || r.Start < best.Start) {
			best, out = r, &projections.AnswerTest{Partition: name}
		}
	}
	if best == nil {
		return refusedTest(events.Code_NODE_CONFIG_UNAVAILABLE, "it fits on no partition, even when all that runs has ended")
	}
	out.Job, out.StartUs, out.Nodes = item.FirstId, best.Start, hostlist.Compress(best.Allocation.NodeNames())
	best.Allocation.Each(func(_ int, _ string, s *events.NodeShare) bool {
		out.Cpus += uint32(s.CountedCPUs())
		return true
	})
	return out
}

func refusedTest(code events.Code, format string, args ...any) *projections.AnswerTest {
	return &projections.AnswerTest{Code: code, Text: fmt.Sprintf(format, args...)}
}
