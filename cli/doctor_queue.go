package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"stint/events"
	"stint/projections"
)

// checkPartitions says which partitions take or start no jobs.
func checkPartitions(r *report, s *scene) {
	if a := s.answers(); a.nodes != nil && !a.nodes.GetNodesPrivate() && !a.nodes.GetPartitionsPrivate() {
		judgePartitions(r, a.nodes)
	}
}

func judgePartitions(r *report, a *projections.AnswerNodes) {
	able := map[string]int{} // nodes that take jobs, by partition
	all := map[string]int{}
	for _, n := range a.GetNodes() {
		for _, p := range n.Partitions {
			all[p]++
			if n.Up && !n.Down && !n.Drain && !n.Fail && !n.Future && !n.Invalid {
				able[p]++
			}
		}
	}
	fine := 0
	for _, p := range a.GetPartitions() {
		up := "scontrol update partitionname=" + p.Name + " state=up"
		switch {
		case p.State == events.PartitionState_PARTITION_DOWN_STATE:
			r.add(warning, "partitions", up, "partition %s is down: it takes jobs and starts none", p.Name)
		case p.State == events.PartitionState_PARTITION_DRAIN:
			r.add(warning, "partitions", up, "partition %s is drained: it starts those it has and takes no others", p.Name)
		case p.State == events.PartitionState_PARTITION_INACTIVE_STATE:
			r.add(warning, "partitions", up, "partition %s is inactive: it takes none and starts none", p.Name)
		case all[p.Name] == 0:
			r.add(warning, "partitions", "correct Nodes= of it in slurm.conf, then: scontrol reconfigure", "partition %s has no nodes (Nodes=%s)", p.Name, p.Nodes)
		case able[p.Name] == 0:
			r.add(warning, "partitions", "see the nodes above", "none of the %d nodes of partition %s takes jobs", all[p.Name], p.Name)
		default:
			fine++
		}
		if p.MinNodes > uint32(all[p.Name]) && all[p.Name] > 0 {
			r.add(warning, "partitions", "correct MinNodes= of it", "partition %s wants at least %d nodes of each job and has %d", p.Name, p.MinNodes, all[p.Name])
		}
	}
	if fine > 0 {
		r.add(well, "partitions", "", "%s", is(fine, "takes and starts jobs", "take and start jobs"))
	}
}

// checkQueue says why jobs wait: how many for which reason, and of one of each, what would help.
func checkQueue(r *report, s *scene) {
	a := s.answers()
	if a.status == nil || a.nodes == nil {
		return
	}
	r.on("asking for the queue")
	conn, err := impatient(s.dir)
	if err != nil {
		return
	}
	defer conn.Close()
	got, err := conn.Ask(&projections.Ask{What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{States: []events.JobState{events.JobState_PENDING, events.JobState_RUNNING}, Slim: true}}})
	if err != nil {
		r.add(warning, "queue", "", "the queue could not be asked for: %v", err)
		return
	}
	groups := judgeQueue(r, got.GetJobs().GetJobs(), a.nodes.GetNodes(), time.UnixMicro(got.NowUs))
	for _, g := range groups[:min(len(groups), 3)] {
		r.on("asking why job %s waits", g.label)
		why, err := conn.Ask(&projections.Ask{What: &projections.Ask_Why{Why: &projections.AskWhy{Job: g.job, Task: g.task, HasTask: g.hasTask, Thorough: true}}})
		if err != nil {
			continue
		}
		judgeWhy(r, g, why.GetWhy())
	}
}

// waiting is the jobs that wait for one reason, and one of them.
type waitingJobs struct {
	reason    events.Reason
	n         int
	text      string
	label     string
	job, task uint32
	hasTask   bool
}

// never are reasons that do not pass by themselves.
var never = map[events.Reason]string{
	events.Reason_PARTITION_NODE_LIMIT: "they ask for more or fewer nodes than the partition gives a job", events.Reason_PARTITION_TIME_LIMIT: "they ask for more time than the partition gives a job",
	events.Reason_BAD_CONSTRAINTS: "no node has what they ask for", events.Reason_DEPENDENCY_NEVER_SATISFIED: "what they depend on ended otherwise",
	events.Reason_PARTITION_CONFIG: "no node of the partition can ever serve them", events.Reason_INVALID_ACCOUNT_REASON: "their account is not there any more", events.Reason_INVALID_QOS_REASON: "their QoS is not there any more",
	events.Reason_ACCOUNT_NOT_ALLOWED: "their account may not use the partition", events.Reason_QOS_NOT_ALLOWED: "their QoS may not use the partition",
	events.Reason_JOB_HOLD_MAX_REQUEUE: "nodes failed to start them too often; look at the nodes first, then: scontrol release", events.Reason_JOB_LAUNCH_FAILURE: "a node failed to start them",
	events.Reason_PARTITION_DOWN_REASON: "their partition is down", events.Reason_PARTITION_INACTIVE: "their partition is inactive", events.Reason_DEADLINE_REASON: "their deadline cannot be met",
}

// judgeQueue counts why jobs wait, the most frequent reason first.
func judgeQueue(r *report, jobs []*projections.JobView, nodes []*projections.Node, now time.Time) []*waitingJobs {
	by := map[events.Reason]*waitingJobs{}
	pending, unseen, cron, held := 0, 0, 0, 0
	var latest int64 // when a job began last
	var oldest int64
	for _, v := range jobs {
		j := v.GetJob()
		if j.State == events.JobState_RUNNING {
			latest = max(latest, j.StartUs)
			continue
		}
		if j.State != events.JobState_PENDING {
			continue
		}
		pending++
		if oldest == 0 || j.SubmitUs < oldest {
			oldest = j.SubmitUs
		}
		reason, text := j.Reason, j.ReasonText
		if reason == events.Reason_NONE && v.GetOutcome() != nil {
			reason, text = v.Outcome.Reason, v.Outcome.Text
		}
		if j.Recurs && j.Hold != events.HoldKind_NOT_HELD {
			cron++
		}
		if j.Hold != events.HoldKind_NOT_HELD {
			held++
		}
		if reason == events.Reason_NONE && v.GetOutcome() == nil && now.Sub(time.UnixMicro(j.SubmitUs)) > 30*time.Second {
			unseen++
		}
		g := by[reason]
		if g == nil {
			g = &waitingJobs{reason: reason, text: text, label: jobLabel(v), job: j.Id, task: j.ArrayTask, hasTask: j.HasTask}
			by[reason] = g
		}
		g.n++
	}
	if pending == 0 {
		r.add(well, "queue", "", "nothing waits")
		return nil
	}
	groups := make([]*waitingJobs, 0, len(by))
	for _, g := range by {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b *waitingJobs) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.job, b.job)) })
	idle := 0
	for _, n := range nodes {
		if n.Up && !n.Down && !n.Drain && !n.Fail && !n.Invalid && !n.Future && len(n.Jobs) == 0 {
			idle++
		}
	}
	var told []string
	for _, g := range groups {
		told = append(told, fmt.Sprintf("%d %s", g.n, g.reason.Word()))
	}
	r.add(well, "queue", "", "%s, the oldest submitted %s ago: %s; %d nodes have no job", is(pending, "job waits", "jobs wait"), now.Sub(time.UnixMicro(oldest)).Round(time.Second), strings.Join(told, ", "), idle)
	if unseen > 0 {
		r.add(fault, "queue", "see the leader above", "no pass has looked at %s for 30 s", is(unseen, "job that waits", "jobs that wait"))
	}
	if cron > 0 {
		r.add(warning, "queue", "scontrol release", "%s held: they do not recur", is(cron, "job of a crontab is", "jobs of crontabs are"))
	}
	if free := pending - held; free > 0 && idle > 0 && latest > 0 {
		if since := now.Sub(time.UnixMicro(latest)); since > 30*time.Minute {
			r.add(note, "queue", "", "nothing began for %s although %d nodes have no job", since.Round(time.Minute), idle)
		}
	}
	return groups
}

// judgeWhy says of the jobs that wait for one reason what one of them lacks, and what would start it.
func judgeWhy(r *report, g *waitingJobs, why *projections.AnswerWhy) {
	level := note
	because := g.reason.Word()
	if text := never[g.reason]; text != "" {
		level, because = warning, because+", which does not pass by itself: "+text
	}
	if g.text != "" {
		because += " (" + g.text + ")"
	}
	var stands []string
	x := why.GetExplanation()
	for _, p := range x.GetPartitions() {
		for _, n := range p.GetNodes() {
			text := fmt.Sprintf("%d of partition %s %s", n.Count, p.Partition, n.What)
			if n.Text != "" {
				text += " (" + n.Text + ")"
			}
			stands = append(stands, text)
		}
	}
	text := fmt.Sprintf("%s: %s", is(g.n, "job waits", "jobs wait"), because)
	if len(stands) > 0 {
		text += fmt.Sprintf("; for job %s the nodes stand so: %s", g.label, some(stands))
	}
	if s := x.GetStartsNow(); s != "" {
		text += fmt.Sprintf("; the next pass starts job %s on %s", g.label, s)
	}
	do := "stint why " + g.label
	if m := x.GetRemedies(); len(m) > 0 {
		do += " says more; this would start it now: " + m[0].Change
	}
	r.add(level, "queue", do, "%s", text)
}
