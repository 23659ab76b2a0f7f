package admit

import (
	"cmp"
	"slices"
	"strings"

	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
)

// Acts of control on jobs: cancel, hold, release, requeue, suspend, resume. Each goes through its targets one by one;
// what fails for one is told in the verdict and hinders no other.

// act collects what an intent brings about, and its verdict.
type act struct {
	d       *Desk
	facts   []*events.Fact
	failed  []*events.Verdict
	more    int // failures beyond those told one by one
	touched uint32
	first   *refusal
}

// denied refuses all that was asked, job by job, so that the story of each tells of it.
func (a *act) denied(list []*events.Target, why string) []*events.Fact {
	for _, t := range list {
		a.fail(t.Job, refuse(events.Code_ACCESS_DENIED, "%s", why))
	}
	return a.done()
}

func (a *act) did(f *events.Fact) { a.facts = append(a.facts, f) }

func (a *act) fail(job uint32, r *refusal) {
	if a.first == nil {
		a.first = r
	}
	if len(a.failed) == MaxVerdicts {
		a.more++
		return
	}
	a.failed = append(a.failed, &events.Verdict{Job: job, Code: r.code, Text: r.text})
}

// done ends the act with its verdict: OK if anything was done or nothing failed, else the first failure.
func (a *act) done() []*events.Fact {
	j := &events.Judged{Intent: a.d.ref(), Verdicts: a.failed, Touched: a.touched}
	if a.first != nil && a.touched == 0 {
		j.Code, j.Text = a.first.code, a.first.text
	}
	return append(a.facts, judgedFact(j))
}

// part is what one target comes to on one record of the queue: a job, or some tasks of an array's remainder.
type part struct {
	job      *projections.Job
	tasks    events.Words // with hasTasks: these of the remainder, not all of it
	hasTasks bool
}

// parts resolves a target: a job, a task, a whole array. Nothing: unknown.
func (d *Desk) parts(t *events.Target) []part {
	a := d.r.Array(t.Job)
	if a == nil {
		j := d.r.Job(t.Job)
		if t.HasComponent || j.Leads() {
			return d.components(t)
		}
		if j == nil || t.HasTasks && !(j.HasTask && events.Words(t.Tasks).Has(j.ArrayTask)) {
			return nil
		}
		return []part{{job: j}}
	}
	var out []part
	wanted := func(task uint32) bool { return !t.HasTasks || events.Words(t.Tasks).Has(task) }
	if j := d.r.Job(t.Job); j != nil && j.Remainder() {
		pending := events.Words(j.Pending)
		switch {
		case !t.HasTasks || pending.Within(t.Tasks):
			out = append(out, part{job: j})
		case pending.Intersects(t.Tasks):
			out = append(out, part{job: j, tasks: pending.And(t.Tasks), hasTasks: true})
		}
	}
	d.r.EachArrayTask(t.Job, func(tj *projections.TaskJob) bool {
		if j := d.r.Job(tj.Job); j != nil && j.HasTask && j.ArrayTask == tj.Task && wanted(tj.Task) {
			out = append(out, part{job: j})
		}
		return true
	})
	return out
}

// components resolves a target that is a heterogeneous job, or a component of one.
func (d *Desk) components(t *events.Target) []part {
	leader := d.r.Job(t.Job)
	if !leader.Leads() || t.HasTasks {
		return nil
	}
	var out []part
	for _, j := range projections.Components(d.r, leader.HetId, leader.HetSize) {
		if !t.HasComponent || t.Component == j.HetOffset {
			out = append(out, part{job: j})
		}
	}
	return out
}

func checkTargets(list []*events.Target) *refusal {
	if len(list) > MaxTargets {
		return refuse(events.Code_MALFORMED, "the request names %d jobs, at most %d are taken at once", len(list), MaxTargets)
	}
	return nil
}

// each calls f for every part of every target that the author may act on. Unknown and over jobs, and those of others, are
// failures; with quiet, unknown and over ones are passed over.
func (a *act) each(list []*events.Target, quiet bool, f func(part)) {
	for _, t := range list {
		parts := a.d.parts(t)
		if len(parts) == 0 && !quiet {
			what := "there is no job %d"
			if t.HasTasks && (a.d.r.Job(t.Job) != nil || a.d.r.Array(t.Job) != nil) {
				what = "job %d has no such task"
			}
			a.fail(t.Job, refuse(events.Code_UNKNOWN_JOB, what, t.Job))
		}
		for _, p := range parts {
			switch {
			case !a.d.mayControl(p.job):
				a.fail(p.job.Id, a.d.notYours(p.job))
			case p.job.Over() && !quiet && len(parts) == 1:
				a.fail(p.job.Id, refuse(events.Code_ALREADY_DONE, "job %d is over (%s)", p.job.Id, p.job.State.Word()))
			case p.job.Over():
			default:
				f(p)
			}
		}
	}
}

// cancel ends jobs, or sends them a signal. What is unknown or over already is no failure, as Slurm has it.
func (d *Desk) cancel(m *events.Cancel) []*events.Fact {
	if r := checkTargets(m.Targets); r != nil {
		return d.refused(r)
	}
	if m.Signal < 0 || m.Signal > 64 {
		return d.refused(refuse(events.Code_MALFORMED, "%d is no signal", m.Signal))
	}
	meets, r := d.filter(m.Filter)
	if r != nil {
		return d.refused(r)
	}
	a := &act{d: d}
	// Whoever says more than which jobs has them looked up first, and then one that is over is as unknown as one that never was.
	looked := m.Filter != nil || m.Signal != 0 || m.BatchOnly
	one := func(p part, step *events.Target) {
		if meets == nil || meets(p.job) {
			a.cancel(p, m, step)
		}
	}
	if len(m.Targets) > 0 {
		for _, t := range m.Targets {
			whole := t.HasComponent && t.Component == 0
			if whole { // the first component is the job: without its script there is nothing
				t = &events.Target{Job: t.Job, Step: t.Step, HasStep: t.HasStep}
			}
			whole = whole || d.r.Job(t.Job).Leads() && !t.HasComponent
			if looked || t.HasStep {
				if known := slices.ContainsFunc(d.parts(t), func(p part) bool { return !p.job.Over() }); !known {
					a.fail(t.Job, refuse(events.Code_UNKNOWN_JOB, "there is no job %d that waits or runs", t.Job))
					continue
				}
			}
			a.each([]*events.Target{t}, true, func(p part) {
				if p.job.HetOffset > 0 && p.job.Waits() && !whole && (m.Signal == 0 || m.Signal == sigKill && !m.BatchOnly) {
					a.fail(p.job.Id, waitsWithRest(p.job))
					return
				}
				one(p, t)
			})
		}
		return a.done()
	}
	if m.Filter == nil {
		return d.refused(refuse(events.Code_MALFORMED, "the request says neither which jobs nor whose"))
	}
	var jobs []*projections.Job
	d.r.EachJob(func(j *projections.Job) bool {
		if !j.Over() && meets(j) {
			jobs = append(jobs, j)
		}
		return true
	})
	hidden := d.hidesJobs()
	for _, j := range jobs {
		switch {
		case d.mayControl(j) && j.HetOffset > 0 && j.Waits():
			// It goes when the job goes that it is of.
		case d.mayControl(j) && j.Leads():
			for _, c := range projections.Components(d.r, j.HetId, j.HetSize) {
				if !c.Over() {
					a.cancel(part{job: c}, m, nil)
				}
			}
		case d.mayControl(j):
			a.cancel(part{job: j}, m, nil)
		case !hidden: // where jobs are private, there are none to be found
			a.fail(j.Id, d.notYours(j))
		}
	}
	return a.done()
}

const sigKill = 9

// waitsWithRest refuses to end one component of a heterogeneous job that has not begun.
func waitsWithRest(j *projections.Job) *refusal {
	return refuse(events.Code_NOT_WHOLE_HET_JOB, "job %d+%d waits with the rest of job %d; cancel that", j.HetId, j.HetOffset, j.HetId)
}

func (a *act) cancel(p part, m *events.Cancel, t *events.Target) {
	j := p.job
	step := t.GetHasStep()
	ends := !step && (m.Signal == 0 || m.Signal == sigKill && !m.BatchOnly)
	switch {
	case ends && j.Recurs && !m.Cron && a.d.explicitCron():
		a.fail(j.Id, refuse(events.Code_CRON_CANCEL, "job %d is of a crontab and would not recur; cancel it with --cron, or change the crontab with scrontab -e", j.Id))
		return
	case step && (j.Waits() || j.Completing):
		return // there is no such step yet, or any more, and Slurm says nothing of it
	case step && !events.IsMainStep(t.GetStep()) && j.LiveStep(t.GetStep()) == nil && len(j.GetSteps()) < projections.MaxSteps:
		a.fail(j.Id, refuse(events.Code_UNKNOWN_STEP, "job %d has no step %s that runs", j.Id, events.StepName(t.GetStep())))
		return
	case step:
		signal := m.Signal
		if signal == 0 {
			signal = sigKill
		}
		a.did(&events.Fact{Kind: &events.Fact_Signalled{Signalled: &events.Signalled{Job: j.Id, Run: j.Run, Signal: signal, HasStep: true, Step: t.GetStep(), ByUid: a.d.who.Uid}}})
	case m.Signal != 0 && !(m.Signal == sigKill && !m.BatchOnly):
		if j.Waits() {
			a.fail(j.Id, refuse(events.Code_BAD_STATE, "job %d is not running, so it cannot get signal %d", j.Id, m.Signal))
			return
		}
		a.did(&events.Fact{Kind: &events.Fact_Signalled{Signalled: &events.Signalled{Job: j.Id, Run: j.Run, Signal: m.Signal, BatchOnly: m.BatchOnly, Full: m.Full, ByUid: a.d.who.Uid}}})
	case j.Waits():
		e := &events.Ended{Job: j.Id, State: events.JobState_CANCELLED, ByUid: a.d.who.Uid, Tasks: p.tasks, HasTasks: p.hasTasks}
		a.did(&events.Fact{Kind: &events.Fact_Ended{Ended: e}})
	case j.Stop == nil && j.Completing, j.Stop != nil && j.Stop.Cause == events.StopCause_STOP_CANCEL:
		return // it is ending already; a stop for another cause may bring it back, so that one is overridden
	default:
		// SIGKILL to a whole job is what no signal is: Slurm has the job hear SIGTERM first, and the batch step end by that.
		a.did(&events.Fact{Kind: &events.Fact_Stopping{Stopping: &events.Stopping{Job: j.Id, Run: j.Run, Cause: events.StopCause_STOP_CANCEL, ByUid: a.d.who.Uid, KillAfterS: a.d.r.Config().KillWaitS}}})
	}
	a.touched++
}

// completed ends an allocation without a script, with the status of whoever held it. Before it began it is cancelled; one that
// is ending or over already is left alone: then the log had the last word.
func (d *Desk) completed(m *events.Complete) []*events.Fact {
	j := d.r.Job(m.Job)
	switch {
	case j == nil:
		return d.refused(refuse(events.Code_UNKNOWN_JOB, "there is no job %d", m.Job))
	case !d.mayControl(j):
		return d.refused(d.notYours(j))
	case !j.GetSpec().GetInteractive():
		return d.refused(refuse(events.Code_BAD_STATE, "job %d has a script, which says itself how it ends; cancel it to end it sooner", j.Id))
	case m.ExitCode > 255 || m.ExitSignal > 64 && m.ExitSignal != events.SignalOOM:
		return d.refused(refuse(events.Code_MALFORMED, "%d:%d is no exit status", m.ExitCode, m.ExitSignal))
	}
	a := &act{d: d}
	switch {
	case j.Over(), j.Stop != nil, j.Completing:
	case j.Waits() && j.HetOffset > 0: // without it the others could never start
		a.fail(j.Id, waitsWithRest(j))
	case j.Waits():
		a.touched++
		a.did(&events.Fact{Kind: &events.Fact_Ended{Ended: &events.Ended{Job: j.Id, State: events.JobState_CANCELLED, ByUid: d.who.Uid}}})
	default:
		a.touched++
		a.did(&events.Fact{Kind: &events.Fact_Stopping{Stopping: &events.Stopping{
			Job: j.Id, Run: j.Run, Cause: events.StopCause_STOP_COMPLETE, ByUid: d.who.Uid, KillAfterS: d.r.Config().GetKillWaitS(), ExitCode: m.ExitCode, ExitSignal: m.ExitSignal,
		}}})
	}
	return a.done()
}

// filter makes the test of a filter; nil if there is none.
func (d *Desk) filter(f *events.Filter) (func(*projections.Job) bool, *refusal) {
	if f == nil {
		return nil, nil
	}
	for _, list := range [][]string{f.Users, f.Accounts, f.Partitions, f.Names, f.Qos} {
		if len(list) > MaxFilterNames {
			return nil, refuse(events.Code_MALFORMED, "a filter lists %d names, at most %d are taken", len(list), MaxFilterNames)
		}
	}
	var nodes []string
	if f.Nodes != "" {
		var err error
		if nodes, err = hostlist.Expand(f.Nodes, hostlist.MaxHosts); err != nil {
			return nil, refuse(events.Code_INVALID_NODE, "nodes of the filter: %s", err)
		}
		slices.Sort(nodes)
	}
	in := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	return func(j *projections.Job) bool {
		s := j.Spec
		switch {
		case !in(f.Users, j.Owner.GetUser()), !in(f.Accounts, s.Account), !in(f.Names, s.Name), !in(f.Qos, s.Qos),
			f.Reservation != "" && f.Reservation != s.Reservation, f.Wckey != "" && f.Wckey != s.Wckey,
			len(f.States) > 0 && !slices.Contains(f.States, j.State):
			return false
		}
		if len(f.Partitions) > 0 {
			partition := j.Partition
			if j.Waits() {
				partition = s.Partition
			}
			if !anyOf(partition, f.Partitions) {
				return false
			}
		}
		if nodes == nil {
			return true
		}
		on := false
		j.Allocation.Each(func(_ int, name string, _ *events.NodeShare) bool {
			_, on = slices.BinarySearch(nodes, name)
			return !on
		})
		return on && !j.Waits()
	}, nil
}

// hold keeps waiting jobs from starting, and running ones from starting again when they come back into the queue.
func (d *Desk) hold(m *events.Select) []*events.Fact {
	if r := checkTargets(m.Targets); r != nil {
		return d.refused(r)
	}
	kind := events.HoldKind_HELD_USER
	if m.Admin && d.admin() { // one's own job too: root holds as the administrator
		kind = events.HoldKind_HELD_ADMIN
	}
	a := &act{d: d}
	a.each(m.Targets, false, func(p part) {
		switch {
		case p.job.Hold == events.HoldKind_HELD_ADMIN && kind == events.HoldKind_HELD_USER && !d.admin(), p.job.Hold == kind:
			a.touched++ // held as it is
		default:
			a.did(&events.Fact{Kind: &events.Fact_Held{Held: &events.Held{Job: p.job.Id, Tasks: p.tasks, HasTasks: p.hasTasks, Kind: kind, ByUid: d.who.Uid}}})
			a.touched++
		}
	})
	return a.done()
}

// release lets held jobs start again, at the priority they would have had.
func (d *Desk) release(m *events.Select) []*events.Fact {
	if r := checkTargets(m.Targets); r != nil {
		return d.refused(r)
	}
	a := &act{d: d}
	a.each(m.Targets, false, func(p part) {
		switch {
		case p.job.Hold == events.HoldKind_HELD_ADMIN && !d.admin():
			by := "by an administrator, who"
			if r := p.job.Reason; r != events.Reason_NONE && r != events.Reason_JOB_HELD_ADMIN {
				by = "(" + r.Word() + "), and an administrator"
			}
			a.fail(p.job.Id, refuse(events.Code_ACCESS_DENIED, "job %d is held %s has to release it", p.job.Id, by))
		case p.job.Hold == events.HoldKind_NOT_HELD:
			a.touched++
		default:
			a.did(&events.Fact{Kind: &events.Fact_Released{Released: &events.Released{Job: p.job.Id, Tasks: p.tasks, HasTasks: p.hasTasks, Priority: priorityOf(p.job.Family(), p.job.Spec), ByUid: d.who.Uid}}})
			a.touched++
		}
	})
	return a.done()
}

// RequeueDelayS is how long a requeued job waits before it may start again, in seconds: what its first run leaves on the
// nodes is to be gone by then.
const RequeueDelayS = 121

// requeue sends jobs back into the queue: a running one is stopped first.
func (d *Desk) requeue(m *events.Requeue) []*events.Fact {
	if r := checkTargets(m.Targets); r != nil {
		return d.refused(r)
	}
	a := &act{d: d}
	one := func(p part) {
		j := p.job
		switch {
		case j.Spec.GetRequeue() != events.Choice_CHOICE_YES && !j.Recurs:
			a.fail(j.Id, refuse(events.Code_NOT_REQUEUEABLE, "job %d is not to be requeued; scontrol update JobId=%d Requeue=1 lets it be", j.Id, j.Id))
		case j.Waits() && j.Recurs && !m.Hold:
			now := d.now // as in Slurm: it need not wait for its next time
			a.did(&events.Fact{Kind: &events.Fact_Updated{Updated: &events.Updated{Job: j.Id, Change: &events.UpdateJob{BeginUs: &now}, ByUid: d.who.Uid}}})
			a.touched++
		case j.Waits():
			a.fail(j.Id, refuse(events.Code_BAD_STATE, "job %d is in the queue already", j.Id))
		case j.Over() && !j.Completing:
			if m.Incomplete && j.State == events.JobState_COMPLETED {
				return
			}
			if j.Run == 0 {
				a.fail(j.Id, refuse(events.Code_BAD_STATE, "job %d never ran; submit it again", j.Id))
				return
			}
			a.did(&events.Fact{Kind: &events.Fact_Requeued{Requeued: d.requeued(j, m)}})
			a.touched++
		case j.Over():
			a.fail(j.Id, refuse(events.Code_BAD_STATE, "job %d is still ending; requeue it when it is over", j.Id))
		case j.Stop != nil:
			a.fail(j.Id, refuse(events.Code_BAD_STATE, "job %d is ending; requeue it when it is over", j.Id))
		default:
			a.did(&events.Fact{Kind: &events.Fact_Stopping{Stopping: &events.Stopping{Job: j.Id, Run: j.Run, Cause: events.StopCause_STOP_REQUEUE, ByUid: d.who.Uid,
				KillAfterS: d.r.Config().KillWaitS, HoldAfter: m.Hold, SpecialAfter: m.Special}}})
			a.touched++
		}
	}
	for _, t := range m.Targets {
		parts := d.parts(t)
		if len(parts) == 0 || t.HasComponent {
			a.fail(t.Job, refuse(events.Code_UNKNOWN_JOB, "there is no job %d", t.Job))
			continue
		}
		if j := parts[0].job; j.HetOffset > 0 {
			a.fail(j.Id, refuse(events.Code_NOT_HET_JOB_LEADER, "job %d is component %d of job %d; requeue that", j.Id, j.HetOffset, j.HetId))
			continue
		}
		if j := parts[0].job; j.HetId != 0 && len(parts) < int(j.HetSize) {
			a.fail(j.Id, refuse(events.Code_BAD_STATE, "some components of job %d ended so long ago that they cannot be run again; submit it again", j.Id))
			continue
		}
		for _, p := range parts {
			if !d.mayControl(p.job) {
				a.fail(p.job.Id, a.d.notYours(p.job))
				continue
			}
			one(p)
		}
	}
	return a.done()
}

// requeued is the return of a job that was over.
func (d *Desk) requeued(j *projections.Job, m *events.Requeue) *events.Requeued {
	r := Requeued(j, d.now, m.Hold, d.now)
	r.Special, r.ByUid = m.Special, d.who.Uid
	return r
}

// Requeued is a job's return into the queue at a time: it begins RequeueDelayS after it was told to stop, held if so wished.
func Requeued(j *projections.Job, stopped int64, hold bool, now int64) *events.Requeued {
	r := &events.Requeued{Job: j.Id, Run: j.Run, BeginUs: stopped + RequeueDelayS*1_000_000, Priority: priorityOf(j.Family(), j.Spec), Reason: events.Reason_BEGIN_TIME}
	if r.BeginUs <= now {
		r.BeginUs, r.Reason = 0, events.Reason_NONE
	}
	switch {
	case hold:
		r.Hold, r.Priority, r.Reason = events.HoldKind_HELD_USER, 0, events.Reason_JOB_REQUEUED_HELD
	case j.Hold != events.HoldKind_NOT_HELD: // while it ran
		r.Hold, r.Priority, r.Reason = j.Hold, 0, events.Reason_NONE
	}
	return r
}

// suspend and resume stop and continue the processes of running jobs; administrators only, as in Slurm. What stands still
// already is left so without a word; what runs cannot be resumed.
func (d *Desk) suspend(m *events.Select) []*events.Fact {
	return d.pause(m, func(a *act, j *projections.Job) {
		switch j.State {
		case events.JobState_SUSPENDED:
		case events.JobState_RUNNING:
			a.did(&events.Fact{Kind: &events.Fact_Suspended{Suspended: &events.Suspended{Job: j.Id, Run: j.Run, ByUid: d.who.Uid}}})
		default:
			a.fail(j.Id, refuse(events.Code_BAD_STATE, "job %d is %s; only a running job can be suspended", j.Id, j.State.Word()))
			return
		}
		a.touched++
	})
}

func (d *Desk) resume(m *events.Select) []*events.Fact {
	return d.pause(m, func(a *act, j *projections.Job) {
		if j.State != events.JobState_SUSPENDED {
			a.fail(j.Id, refuse(events.Code_BAD_STATE, "job %d is %s; only a suspended job can be resumed", j.Id, j.State.Word()))
			return
		}
		a.did(&events.Fact{Kind: &events.Fact_Resumed{Resumed: &events.Resumed{Job: j.Id, Run: j.Run, ByUid: d.who.Uid}}})
		a.touched++
	})
}

func (d *Desk) pause(m *events.Select, one func(*act, *projections.Job)) []*events.Fact {
	if r := checkTargets(m.Targets); r != nil {
		return d.refused(r)
	}
	a := &act{d: d}
	if !d.admin() {
		return a.denied(m.Targets, "only an administrator may suspend and resume jobs")
	}
	a.each(m.Targets, false, func(p part) {
		if p.job.Stop != nil || p.job.Completing {
			a.fail(p.job.Id, refuse(events.Code_BAD_STATE, "job %d is ending", p.job.Id))
			return
		}
		one(a, p.job)
	})
	return a.done()
}

// MaxNotice bounds a message to a job, in bytes.
const MaxNotice = 4 << 10

// notify tells running jobs something on their standard error.
func (d *Desk) notify(m *events.Notify) []*events.Fact {
	if r := checkTargets(m.Targets); r != nil {
		return d.refused(r)
	}
	if r := texts(MaxNotice, "the message", m.Text); r != nil {
		return d.refused(r)
	}
	if m.Text == "" {
		return d.refused(refuse(events.Code_MALFORMED, "the message is empty"))
	}
	a := &act{d: d}
	a.each(m.Targets, false, func(p part) {
		if !p.job.Live() || p.job.Completing {
			a.fail(p.job.Id, refuse(events.Code_BAD_STATE, "job %d is not running, so nobody would read the message", p.job.Id))
			return
		}
		a.did(&events.Fact{Kind: &events.Fact_Notified{Notified: &events.Notified{Job: p.job.Id, Run: p.job.Run, Text: m.Text, ByUid: d.who.Uid}}})
		a.touched++
	})
	return a.done()
}

// top puts jobs at the head of those of the same user, partition, account and QOS that wait: the priorities that they have
// together are given out anew, so that nobody else is overtaken. Users may where SchedulerParameters has enable_user_top.
func (d *Desk) top(m *events.Select) []*events.Fact {
	if r := checkTargets(m.Targets); r != nil {
		return d.refused(r)
	}
	a := &act{d: d}
	if !d.admin() && !userTop(d.r.Config()) {
		return a.denied(m.Targets, "users may not reorder their jobs here (SchedulerParameters=enable_user_top lets them)")
	}
	var first []*projections.Job
	a.each(m.Targets, false, func(p part) {
		switch {
		case !p.job.Waits():
			a.fail(p.job.Id, refuse(events.Code_BAD_STATE, "job %d has started", p.job.Id))
		case p.job.Hold != events.HoldKind_NOT_HELD:
			a.fail(p.job.Id, refuse(events.Code_BAD_STATE, "job %d is held", p.job.Id))
		case !slices.Contains(first, p.job):
			first = append(first, p.job)
		}
	})
	for len(first) > 0 {
		head := first[0]
		alike := func(j *projections.Job) bool {
			return j.Owner.GetUid() == head.Owner.GetUid() && j.Spec.GetPartition() == head.Spec.GetPartition() &&
				j.Spec.GetAccount() == head.Spec.GetAccount() && j.Spec.GetQos() == head.Spec.GetQos()
		}
		var set, rest []*projections.Job
		for _, j := range first {
			if alike(j) {
				set = append(set, j)
			} else {
				rest = append(rest, j)
			}
		}
		a.reorder(set, alike)
		first = rest
	}
	return a.done()
}

// reorder gives out the priorities of the waiting jobs that are alike: first to those of a list, then to the others as they
// stand.
func (a *act) reorder(list []*projections.Job, alike func(*projections.Job) bool) {
	var others []*projections.Job
	a.d.r.EachPending(func(j *projections.Job) bool {
		if j.Hold == events.HoldKind_NOT_HELD && alike(j) && !slices.Contains(list, j) {
			others = append(others, j)
		}
		return true
	})
	slices.SortStableFunc(others, func(x, y *projections.Job) int { return cmp.Compare(y.Priority, x.Priority) })
	order := append(slices.Clone(list), others...)
	priorities := make([]uint32, 0, len(order))
	for _, j := range order {
		priorities = append(priorities, j.Priority)
	}
	slices.Sort(priorities)
	slices.Reverse(priorities)
	for i, j := range order {
		if p := priorities[i]; p != j.Priority {
			a.did(&events.Fact{Kind: &events.Fact_Updated{Updated: &events.Updated{Job: j.Id, Change: &events.UpdateJob{Priority: &p}, ByUid: a.d.who.Uid}}})
		}
	}
	a.touched += uint32(len(list))
}

// userTop says whether users may put their jobs in another order.
func userTop(c *events.Config) bool {
	for _, s := range c.GetSettings() {
		if strings.EqualFold(s.GetKey(), "SchedulerParameters") {
			for option := range strings.SplitSeq(s.GetValue(), ",") {
				if strings.EqualFold(strings.TrimSpace(option), "enable_user_top") {
					return true
				}
			}
		}
	}
	return false
}
