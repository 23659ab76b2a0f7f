package projections

import (
	"cmp"
	"slices"

	"stint/events"
)

// Crontabs: what users have run again and again. An entry is a job of the usual kind that recurs; what a crontab adds is
// the text, and which jobs are of it.

// Crontabs are those there are, ascending by user.
func (s *state) Crontabs() []*Crontab { return s.crontabs }

// Crontab is a user's; nil: none.
func (s *state) Crontab(uid uint32) *Crontab {
	if i, known := s.crontabOf(uid); known {
		return s.crontabs[i]
	}
	return nil
}

// Zone is the site's local time; nil as long as nobody needed it.
func (s *state) Zone() *events.Zone { return s.zone }

func (s *state) crontabOf(uid uint32) (int, bool) {
	return slices.BinarySearchFunc(s.crontabs, uid, func(t *Crontab, uid uint32) int { return cmp.Compare(t.Uid, uid) })
}

// putCrontab stores a user's crontab; nil: it goes.
func (c *Cluster) putCrontab(uid uint32, t *Crontab) {
	i, known := c.crontabOf(uid)
	list := slices.Clone(c.crontabs) // readers keep the one they have
	switch {
	case t != nil && known:
		list[i] = t
	case t != nil:
		list = slices.Insert(list, i, t)
	case known:
		list = slices.Delete(list, i, i+1)
	}
	c.crontabs = list
	c.verdict.Changed = true
}

// crontabSet: these jobs are a user's crontab from here on. Those of the one before that run go on, and do not recur; those that
// waited have ended by facts of their own.
func (c *Cluster) crontabSet(f *events.CrontabSet) string {
	item := c.waits(f.GetIntent())
	if item == nil || item.GetIntent().GetVerb() != events.Verb_CRONTAB {
		return voidNoIntent
	}
	for _, id := range c.Crontab(f.GetUid()).GetJobs() {
		if j := c.jobs.get(id); j.GetRecurs() && !slices.Contains(f.GetJobs(), id) {
			next := j.copy()
			next.Recurs = false
			c.putJob(j, next)
		}
	}
	var t *Crontab
	if !f.GetRemoved() {
		t = &Crontab{Uid: f.GetUid(), User: f.GetUser(), Text: f.GetText(), Jobs: f.GetJobs(), SetUs: c.now}
	}
	c.putCrontab(f.GetUid(), t)
	c.settle(item, &IntentVerdict{Touched: uint32(len(f.GetJobs()))})
	return ""
}

// zoneSet: the site's local time is so from here on.
func (c *Cluster) zoneSet(f *events.ZoneSet) string {
	if f.GetZone() == nil {
		return voidNothingWanted
	}
	c.zone = f.GetZone()
	c.verdict.Changed = true
	return ""
}

// disable takes a job that is cancelled, or leaves the queue without having run, out of its crontab: it does not recur, and
// the lines of its entry are marked. j is a copy that is being changed.
func (c *Cluster) disable(j *Job) {
	j.Recurs = false
	t := c.Crontab(j.GetOwner().GetUid())
	at := slices.Index(t.GetJobs(), j.Id)
	if at < 0 {
		return
	}
	cron := j.GetSpec().GetCron()
	next := t.CloneVT()
	next.Jobs = slices.Delete(next.Jobs, at, at+1)
	next.Disabled = append(next.Disabled, &LineRange{First: cron.GetFirstLine(), Last: cron.GetLastLine()})
	c.putCrontab(t.Uid, next)
}

// replyCrontab shows a user's crontab to that user, administrators and operators.
func replyCrontab(r Reader, q *AskCrontab, sight Sight) *AnswerCrontab {
	a := &AnswerCrontab{Enabled: r.Config().GetCrontabs()}
	a.Denied = !sight.Owns(q.GetOf()) && (q.GetAsker() == "" || r.Policy().Level(q.GetAsker()) < events.AdminLevel_ADMIN_OPERATOR)
	if a.Enabled && !a.Denied {
		a.Crontab = r.Crontab(q.GetOf())
	}
	return a
}
