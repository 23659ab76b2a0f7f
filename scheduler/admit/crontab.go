package admit

import (
	"fmt"
	"slices"
	"strings"

	"stint/events"
	"stint/projections"
)

// Limits of a crontab. An entry takes a job id, and an intent takes no more of those.
const (
	MaxCrontab      = 64 << 10 // bytes of its text
	MaxCrontabLines = 2000
	MaxCronEntries  = 128
)

// crontab puts a crontab in place of what a user had: its entries become jobs, each waiting for its first time, and those of the
// one before leave the queue; what runs of them runs on, and does not recur. All of it happens, or nothing does.
func (d *Desk) crontab(m *events.Crontab) []*events.Fact {
	owner := d.who
	if m.Owner != nil && m.Owner.Uid != owner.Uid {
		owner = m.Owner
	}
	switch lines := strings.Count(m.Text, "\n"); {
	case !d.r.Config().GetCrontabs():
		return d.refused(refuse(events.Code_CRON_DISABLED, "this cluster has no crontabs; ScronParameters=enable in slurm.conf gives it some"))
	case owner.Uid != d.who.Uid && !d.admin():
		return d.refused(refuse(events.Code_ACCESS_DENIED, "only root and SlurmUser write the crontab of another; this is %s's", owner.User))
	case len(m.Text) > MaxCrontab:
		return d.refused(refuse(events.Code_MALFORMED, "the crontab has %d bytes, at most %d are taken", len(m.Text), MaxCrontab))
	case lines > MaxCrontabLines:
		return d.refused(refuse(events.Code_MALFORMED, "the crontab has %d lines, at most %d are taken", lines, MaxCrontabLines))
	case len(m.Entries) > MaxCronEntries:
		return d.refused(refuse(events.Code_MALFORMED, "the crontab has %d entries, at most %d are taken", len(m.Entries), MaxCronEntries))
	case int(d.item.Intent.Ids) != len(m.Entries), m.Remove && len(m.Entries) > 0:
		return d.refused(refuse(events.Code_MALFORMED, "a crontab of %d entries takes %d ids", len(m.Entries), d.item.Intent.Ids))
	}
	author := d.who
	defer func() { d.who = author }()
	d.who = owner // what jobs may ask for is a matter of whose they are
	var facts []*events.Fact
	set := &events.CrontabSet{Intent: d.ref(), Uid: owner.Uid, User: owner.User, Text: m.Text, Removed: m.Remove, ByUid: author.Uid}
	for i, entry := range m.Entries {
		id := d.item.FirstId + uint32(i)
		set.Jobs = append(set.Jobs, id)
		if d.r.Job(id) != nil {
			continue // a leader before this one was deposed in the midst of it
		}
		f, r := d.cronJob(id, entry, len(m.Entries))
		if r != nil {
			cron := entry.GetCron()
			return []*events.Fact{judgedFact(&events.Judged{Intent: d.ref(), Code: r.code, Text: r.text, Verdicts: []*events.Verdict{
				{Name: fmt.Sprintf("%d-%d", cron.GetFirstLine(), cron.GetLastLine()), Code: r.code, Text: r.text},
			}})}
		}
		facts = append(facts, f)
	}
	for _, id := range d.r.Crontab(owner.Uid).GetJobs() {
		if j := d.r.Job(id); j.GetRecurs() && j.Waits() && !slices.Contains(set.Jobs, id) {
			facts = append(facts, &events.Fact{Kind: &events.Fact_Ended{Ended: &events.Ended{Job: id, State: events.JobState_CANCELLED, ByUid: author.Uid}}})
		}
	}
	return append(facts, &events.Fact{Kind: &events.Fact_CrontabSet{CrontabSet: set}})
}

// cronJob judges one entry of a crontab as if it were submitted.
func (d *Desk) cronJob(id uint32, entry *events.JobSpec, together int) (*events.Fact, *refusal) {
	spec := entry.CloneVT()
	if spec == nil || spec.Cron == nil {
		return nil, refuse(events.Code_MALFORMED, "an entry of the crontab does not say when it recurs")
	}
	switch err := spec.Cron.Check(); {
	case err != nil:
		return nil, refuse(events.Code_MALFORMED, "%s", err)
	case spec.Array != nil:
		return nil, refuse(events.Code_INVALID_ARRAY, "an array does not recur; have the job submit it")
	case spec.Interactive:
		return nil, refuse(events.Code_MALFORMED, "an entry of a crontab has a script")
	case spec.Cron.LastLine < spec.Cron.FirstLine || spec.Cron.LastLine > MaxCrontabLines:
		return nil, refuse(events.Code_MALFORMED, "an entry of the crontab is of no line of it")
	}
	if r := d.complete(spec, together); r != nil {
		return nil, r
	}
	if spec.BeginUs = spec.Cron.Next(d.now, d.r.Zone()); spec.BeginUs == 0 {
		return nil, refuse(events.Code_MALFORMED, "there is no such time in the years to come")
	}
	return d.admitted(id, spec, 0), nil
}

// explicitCron says whether the site wants it said when a job of a crontab is cancelled.
func (d *Desk) explicitCron() bool { return d.r.Config().GetCronCancelExplicit() }

// Recurred is the return of a job of a crontab that is over, for its next time.
func Recurred(j *projections.Job, beginUs int64) *events.Requeued {
	return &events.Requeued{Job: j.Id, Run: j.Run, BeginUs: beginUs, Priority: priorityOf(j.Family(), j.Spec), Reason: events.Reason_BEGIN_TIME}
}
