package cycle

import (
	"fmt"

	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
	"stint/scheduler/admit"
	"stint/scheduler/place"
	"stint/scheduler/rank"
)

// Heterogeneous jobs. Their components wait, start and end together: they stand in the queue once, in the place of the first,
// and start on nodes apart when all of them can, at once. The first has the script, so when its run is over, or is told to end,
// the others are told to. A component may end before (by its own time limit, or cancelled alone), but when one loses a node the
// job has.

// ensemble gathers the components of a heterogeneous job as the sweep comes by them; their ids follow each other.
type ensemble struct {
	id, size uint32
	ready    []*waiting // they could start, as far as they themselves go
	waiting  []uint32   // all that are in the queue
	priority uint32     // of the first
	never    *events.Ended
}

// component is the sweep's look at a component of a heterogeneous job.
func (p *pass) component(g *ensemble, w *waiting, killAll bool) (aside *events.Fact) {
	j := w.job
	g.waiting = append(g.waiting, j.Id)
	w.together = nil
	switch b := p.breakdownOf(j.Id, nil); {
	case b != nil:
		return p.setAside(w, b)
	case j.Hold != events.HoldKind_NOT_HELD && j.Reason == events.Reason_SYSTEM_FAILURE:
		p.wait(w, j.Reason, j.ReasonText)
		return nil
	}
	if f := p.neverStarts(j, killAll); f != nil {
		g.never = f.GetEnded()
		return nil
	}
	if !j.Eligible(p.now) {
		p.wait(w, p.ownReason(j), "")
		return nil
	}
	if w.q == nil && w.problem == nil {
		w.q, w.problem = p.mem.shapes.Of(j.Spec)
	}
	switch b := p.breakdownOf(j.Id, w.q); {
	case b != nil:
		return p.setAside(w, b)
	case w.problem != nil:
		p.wait(w, events.Reason_BAD_CONSTRAINTS, w.problem.Text)
	case len(w.parts) == 0:
		p.wait(w, events.Reason_PARTITION_CONFIG, "no partition "+j.GetSpec().GetPartition())
	default:
		g.ready = append(g.ready, w)
		if j.Leads() {
			g.priority = w.priority
			if p.in.Priority != nil {
				g.priority = p.in.Priority(j, p.now)
			}
		}
	}
	return nil
}

// gather puts the components into the queue if all of them may start, and returns their ends if they never will.
func (p *pass) gather(g *ensemble) (over []*events.Fact) {
	leader := p.c.Job(g.id)
	if e := g.never; e != nil || leader.Over() {
		if e == nil {
			e = &events.Ended{State: events.JobState_CANCELLED}
		}
		for _, id := range g.waiting {
			one := e.CloneVT()
			one.Job = id
			over = append(over, &events.Fact{Kind: &events.Fact_Ended{Ended: one}})
		}
		return over
	}
	if len(g.ready) < int(g.size) {
		for _, w := range g.ready {
			p.wait(w, events.Reason_NONE, "")
		}
		return nil
	}
	tag := uint32(len(p.queued))
	g.ready[0].together = g.ready
	p.queued = append(p.queued, g.ready[0])
	p.queue.Add(g.id, g.ready[0].parts[0], g.priority, tag)
	return nil
}

// together starts all components of a heterogeneous job, if they fit and delay nobody they must not, or notes why each waits.
func (s *placing) together(e *rank.Entry, list []*waiting) {
	parts := make([]place.Part, len(list))
	licenses, lacks := s.licensesTogether(list)
	blocked, against := false, false
	for i, w := range list {
		j := s.c.Job(w.job.Id)
		if j == nil || !j.Waits() {
			return
		}
		if s.watch != nil && s.watch.job == j.Id {
			s.watch.stands = append(s.watch.stands, s.stands(&rank.Entry{Partition: w.parts[0]}, w))
		}
		limit := s.limitOf(w)
		parts[i] = place.Part{Request: w.q, Window: place.Window{From: s.now, User: j.GetOwner().GetUid(), Alone: w.q.OneUser}}
		to := &parts[i].Window.To
		reason, text := events.Reason_NONE, ""
		for _, def := range w.parts {
			if r, t := s.limitReason(def, w); r != events.Reason_NONE {
				if weight(r) > weight(reason) || reason == events.Reason_NONE {
					reason, text = r, t
				}
				continue
			}
			parts[i].Partitions = append(parts[i].Partitions, def.GetName())
			parts[i].Window.Alone = parts[i].Window.Alone || def.GetExclusiveUser()
			blocked = blocked || s.blocked[def]
			if over := s.overTimeOf(def); limit != events.Unlimited && over >= 0 {
				*to = max(*to, s.now+int64(limit)*second+over)
			} else {
				*to = place.Forever
			}
		}
		if len(parts[i].Partitions) > 0 {
			reason = events.Reason_NONE
			if lacks[i] != nil {
				reason, text = events.Reason_LICENSES, fmt.Sprintf("%d of licence %s", lacks[i].Count, lacks[i].Name)
			}
		}
		if reason != events.Reason_NONE {
			s.wait(w, reason, text)
			list[i], against = nil, true
		}
	}
	rest := func(reason events.Reason) {
		for _, w := range list {
			if w != nil {
				s.wait(w, reason, "")
			}
		}
	}
	switch {
	case against:
		rest(events.Reason_RESOURCES)
		return
	case blocked && !s.mayTest():
		rest(events.Reason_PRIORITY)
		return
	case blocked:
		s.tests++
	}
	if given, where := s.board.PlaceTogether(parts); given != nil {
		if s.startTogether(list, parts, given, where, licenses, blocked) {
			return
		}
		rest(events.Reason_RESOURCES)
		return
	}
	s.cannotTogether(list, parts, blocked)
}

// licensesTogether is what each component would be given of the licences it asks for, those with a choice last, or what it lacks beside
// the others.
func (s *placing) licensesTogether(list []*waiting) (given []string, lacks []*events.License) {
	given, lacks = make([]string, len(list)), make([]*events.License, len(list))
	taken := map[string]uint64{}
	for _, choosing := range []bool{false, true} {
		for i, w := range list {
			spec := w.job.GetSpec()
			asked, any, err := events.ParseLicenses(spec.GetLicenses())
			if err != nil || any != choosing || len(asked) == 0 {
				continue
			}
			given[i], lacks[i] = projections.FreeLicenses(s.c, spec, taken)
			if any {
				asked, _, _ = events.ParseLicenses(given[i])
			}
			for _, l := range asked {
				taken[l.Name] += uint64(l.Count)
			}
		}
	}
	return given, lacks
}

func (s *placing) startTogether(list []*waiting, parts []place.Part, given []*events.Allocation, where, licenses []string, blocked bool) bool {
	f := &events.PlacedTogether{}
	for i, w := range list {
		j := s.c.Job(w.job.Id)
		f.Parts = append(f.Parts, &events.Placed{
			Job: j.Id, Run: j.Run + 1, Allocation: given[i], LimitS: s.limitOf(w), Backfilled: blocked, Partition: where[i], Licenses: licenses[i],
		})
	}
	if why := s.say(&events.Fact{Kind: &events.Fact_PlacedTogether{PlacedTogether: f}}); why != "" {
		return false
	}
	for i, w := range list {
		s.board.Start(given[i], parts[i].Window)
		s.holds(w.job.Id, given[i], min(parts[i].Window.To, s.now+longest))
		s.wake(parts[i].Window.To)
	}
	return true
}

// cannotTogether notes why each component of a job that does not fit waits, and keeps room for all of them.
func (s *placing) cannotTogether(list []*waiting, parts []place.Part, blocked bool) {
	trouble := false
	for i, w := range list {
		if t := s.troubleOf(w.parts[0], w.q); len(w.parts) == 1 && t.reason != events.Reason_NONE {
			s.wait(w, t.reason, t.text)
			list[i], trouble = nil, true
		}
	}
	var planned []*place.Reservation
	if !trouble && !blocked {
		for i, w := range list {
			for _, name := range parts[i].Partitions {
				if !s.c.Config().GetBackfill() {
					s.board.Seal(name)
				}
			}
			for _, def := range w.parts {
				s.blocked[def] = true
			}
		}
		ends := s.allEnds()
		planned = s.board.ShadowTogether(parts, ends)
		window := s.c.Config().GetBfWindowS()
		for i, r := range planned {
			r.Job = list[i].job.Id
			if s.c.Config().GetBackfill() && (window == 0 || r.Start <= s.now+int64(window)*second) {
				s.board.Reserve(r, ends)
			}
		}
	}
	for i, w := range list {
		switch {
		case w == nil:
		case blocked:
			s.wait(w, events.Reason_PRIORITY, "")
		case planned != nil:
			s.plan(w, events.Reason_RESOURCES, "", planned[i].Start, hostlist.Compress(planned[i].Allocation.NodeNames()), nil)
		default:
			s.wait(w, events.Reason_RESOURCES, "")
		}
	}
}

// endTogether tells the components of heterogeneous jobs to end with the first of them, and all of them when one lost a node.
func (p *pass) endTogether() {
	var leaders []uint32
	p.c.EachCompleting(func(j *projections.Job) bool {
		if j.HetId != 0 && j.Live() && (len(leaders) == 0 || leaders[len(leaders)-1] != j.HetId) {
			leaders = append(leaders, j.HetId)
		}
		return true
	})
	for _, id := range leaders {
		leader := p.c.Job(id)
		if leader == nil {
			continue
		}
		parts := projections.Components(p.c, id, leader.HetSize)
		if lost := firstLost(parts); lost != "" {
			p.stopParts(parts, &events.Stopping{Cause: events.StopCause_STOP_NODE_LOST, Text: lost})
			continue
		}
		if order := p.orderFor(leader); order != nil {
			p.stopParts(parts, order)
		}
	}
}

// firstLost says which component lost a node, in words; empty if none did.
func firstLost(parts []*projections.Job) string {
	for _, j := range parts {
		if j.Live() && (lostNode(j) != "" || j.Stop.GetCause() == events.StopCause_STOP_NODE_LOST) {
			return fmt.Sprintf("component %d lost a node", j.HetOffset)
		}
	}
	return ""
}

// orderFor is how the other components are told to end when the first does; nil if it does not.
func (p *pass) orderFor(leader *projections.Job) *events.Stopping {
	s := leader.Stop
	switch {
	case leader.Over():
		return &events.Stopping{Cause: events.StopCause_STOP_COMPLETE, ExitCode: leader.ExitCode, ExitSignal: leader.ExitSignal}
	case !leader.Completing:
		return nil
	case s == nil && leader.FirstRun() != nil && leader.FirstRun().ExitedUs == 0:
		return nil
	case s == nil && leader.UnfitNode() != nil && leader.GetSpec().GetRequeue() == events.Choice_CHOICE_YES:
		return &events.Stopping{Cause: events.StopCause_STOP_REQUEUE, Text: "the first component could not be started"}
	case s == nil:
		e := EndOf(leader)
		return &events.Stopping{Cause: events.StopCause_STOP_COMPLETE, ExitCode: e.ExitCode, ExitSignal: e.ExitSignal, Text: "the first component is over"}
	case s.Cause == events.StopCause_STOP_TIME_LIMIT:
		// As Slurm shows it: ended by the signal that the first was told to end by.
		return &events.Stopping{Cause: events.StopCause_STOP_COMPLETE, ExitSignal: sigTerm, Text: "time limit of the first component"}
	}
	return &events.Stopping{Cause: s.Cause, ByUid: s.ByUid, HoldAfter: s.HoldAfter, SpecialAfter: s.SpecialAfter, ExitCode: s.ExitCode, ExitSignal: s.ExitSignal, Text: s.Text}
}

const sigTerm = 15

func (p *pass) stopParts(parts []*projections.Job, order *events.Stopping) {
	for _, j := range parts {
		lost := order.Cause == events.StopCause_STOP_NODE_LOST
		if !j.Live() || j.Stop != nil || j.Leads() && !lost {
			continue
		}
		one := order.CloneVT()
		one.Job, one.Run, one.KillAfterS = j.Id, j.Run, p.c.Config().GetKillWaitS()
		p.say(&events.Fact{Kind: &events.Fact_Stopping{Stopping: one}})
	}
}

// leaderOf is the job whose word counts on what becomes of a job when its run is over: itself, or the first component of the
// heterogeneous job that it is of.
func (p *pass) leaderOf(j *projections.Job) *projections.Job {
	if j.HetId == 0 {
		return j
	}
	if l := p.c.Job(j.HetId); l != nil && len(projections.Components(p.c, l.HetId, l.HetSize)) == int(l.HetSize) {
		return l
	}
	return nil // the whole cannot be run again
}

// restOf sends the components that were over before back into the queue with the first one.
func (p *pass) restOf(leader *projections.Job, r *events.Requeued) {
	if !leader.Leads() {
		return
	}
	for _, j := range projections.Components(p.c, leader.HetId, leader.HetSize) {
		if j.Over() && !j.Completing {
			p.say(&events.Fact{Kind: &events.Fact_Requeued{Requeued: &events.Requeued{
				Job: j.Id, Run: j.Run, BeginUs: r.BeginUs, Hold: r.Hold, Reason: r.Reason, Priority: priorityBack(j, r), Special: r.Special, ByUid: r.ByUid,
			}}})
		}
	}
}

func priorityBack(j *projections.Job, r *events.Requeued) uint32 {
	if r.Priority == 0 {
		return 0
	}
	return admit.Requeued(j, 0, false, 0).Priority
}
