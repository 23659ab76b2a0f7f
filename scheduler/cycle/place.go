package cycle

import (
	"fmt"
	"slices"

	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
	"stint/scheduler/admit"
	"stint/scheduler/place"
	"stint/scheduler/rank"
)

// placing is the last step of a pass.
type placing struct {
	*pass
	added   []place.End // of jobs that start in this pass, not yet among the ends
	board   *place.Board
	blocked map[*events.PartitionDef]bool
	passed  map[*events.PartitionDef]bool // a job that waits for nodes to come back was passed over there
	failed  map[failure]bool
	trouble map[failure]trouble
	allowed map[standsFor]bool
	tests   uint32              // of jobs behind a reservation
	tried   int                 // of entries
	several map[uint32]*telling // of jobs that stand in several partitions

	enforcesQos bool
}

// failure is what did not fit: a shape of request on a partition, clear of certain reservations. Within a pass the room only
// shrinks, so it does not fit later either.
type failure struct {
	q      *place.Request
	part   *events.PartitionDef
	claims uint64
	user   uint32 // where it matters whose the jobs on a node are
}

type trouble struct {
	reason events.Reason
	text   string
}

// place starts jobs in the order of rank. What cannot start gets a reason.
func (p *pass) place() {
	entries := p.queue.Ordered()
	p.mem.Seen = Seen{Queue: len(entries)}
	if len(entries) == 0 {
		p.settleOutcomes()
		return
	}
	s := &placing{
		pass: p, board: place.NewBoard(p.c), blocked: map[*events.PartitionDef]bool{}, passed: map[*events.PartitionDef]bool{}, failed: map[failure]bool{},
		trouble: map[failure]trouble{}, several: map[uint32]*telling{}, allowed: map[standsFor]bool{}, enforcesQos: slices.Contains(p.c.Config().GetAccountingEnforce(), "qos"),
	}
	p.holdings()
	s.placing = true
	for i := range entries {
		s.turn = s.queued[entries[i].Tag].job.Id
		s.try(&entries[i])
	}
	s.turn, s.placing = 0, false
	p.mem.Seen.Tried, p.mem.Seen.Behind, p.mem.Seen.Held = s.tried, int(s.tests), len(p.ends)
	s.tellSeveral()
	p.settleOutcomes()
}

// holdings lists when the shares that runs hold come free.
func (p *pass) holdings() {
	for _, r := range p.runs {
		// A stop since the limits were looked at does not come sooner than they say.
		j := p.c.Job(r.job.Id)
		if j == nil || j.Allocation == nil {
			continue
		}
		j.Allocation.Each(func(i int, name string, share *events.NodeShare) bool {
			if i < len(j.Nodes) && j.Nodes[i].ExitedUs == 0 {
				if j.Lent {
					share = without(share, share.Cpus) // they are free already, or another's
				}
				p.ends = append(p.ends, place.End{At: min(r.end, p.now+longest), Job: j.Id, Node: name, Share: share})
			}
			return true
		})
	}
	place.SortEnds(p.ends)
	p.untangle()
}

// untangle has CPUs that are two jobs' at once come free with the later one.
func (p *pass) untangle() {
	var later map[string]events.Words
	for _, n := range p.c.Nodes() {
		if n.Doubled {
			if later == nil {
				later = map[string]events.Words{}
			}
			later[n.Name] = nil
		}
	}
	for i := len(p.ends) - 1; i >= 0 && later != nil; i-- {
		e := &p.ends[i]
		if kept, doubled := later[e.Node]; doubled {
			later[e.Node] = kept.Or(e.Share.Cpus)
			e.Share = without(e.Share, kept)
		}
	}
}

// without is a share but for some CPUs.
func without(share *events.NodeShare, cpus events.Words) *events.NodeShare {
	return &events.NodeShare{Cpus: events.Words(share.Cpus).AndNot(cpus), MemoryMib: share.MemoryMib, Gres: share.Gres}
}

// longest is how long a job without a time limit is taken to run when others are planned behind it: a year. It is also the limit that a job
// starts with for which none was asked, in a partition that has neither a default nor a longest time.
const longest = 365 * 24 * 3600 * int64(second)

// try starts the job of an entry, all that can of an array, or notes why not.
func (s *placing) try(e *rank.Entry) {
	w := s.queued[e.Tag]
	if w.together != nil {
		s.together(e, w.together)
		return
	}
	j := w.job
	if s.watch != nil && s.watch.job == j.Id && w.q != nil {
		s.watch.stands = append(s.watch.stands, s.stands(e, w))
	}
	if !w.plain || len(w.parts) > 1 {
		// Earlier decisions of this pass may have changed it: started it in another partition, ended some of its tasks.
		if j = s.c.Job(j.Id); j == nil || !j.Waits() {
			return
		}
	}
	s.tried++
	if reason, text := s.limitReason(e.Partition, w); reason != events.Reason_NONE {
		s.waits(w, reason, text)
		return
	}
	for {
		var task uint32
		if !w.plain && j.Remainder() {
			ready, any := j.ReadyTasks().First()
			if !any {
				s.waits(w, events.Reason_DEPENDENCY, "")
				return
			}
			task = ready
		}
		if !w.plain && j.ArrayId != 0 {
			if a := s.c.Array(j.ArrayId); a != nil && a.MaxRunning > 0 && a.Running >= a.MaxRunning {
				s.waits(w, events.Reason_JOB_ARRAY_TASK_LIMIT, "")
				return
			}
		}
		if !s.start(e, w, j, task) || w.plain || !j.Remainder() {
			return
		}
		// The rest of the array is the same record, with one task less.
		if j = s.c.Job(j.Id); j == nil || !j.Waits() {
			return
		}
	}
}

// stands is how the nodes of an entry's partition stand for its job at this point of the pass.
func (s *placing) stands(e *rank.Entry, w *waiting) standing {
	window := place.Window{From: s.now, To: place.Forever}
	if limit, over := s.limitOf(w), s.overTimeOf(e.Partition); limit != events.Unlimited && over >= 0 {
		window.To = s.now + int64(limit)*second + over
	}
	name := e.Partition.GetName()
	return standing{name, s.board.Census(w.q, name, window)}
}

// limitReason is which limit of a partition a job is beyond, if it is, with a sentence where the word does not say it all.
func (s *placing) limitReason(p *events.PartitionDef, w *waiting) (events.Reason, string) {
	switch p.GetState() {
	case events.PartitionState_PARTITION_DOWN_STATE:
		return events.Reason_PARTITION_DOWN_REASON, ""
	case events.PartitionState_PARTITION_INACTIVE_STATE:
		return events.Reason_PARTITION_INACTIVE, ""
	}
	if w.q.LeastCPUs() > 1 || s.board.MemoryLimit(p.GetName()) > 0 || w.maxNodes > 0 && w.maxNodes < p.GetMinNodes() {
		if s.board.Beyond(w.q, p.GetName()) != events.Reason_NONE {
			t := s.troubleOf(p, w.q)
			return t.reason, t.text
		}
	}
	if w.limit > admit.MaxTime(p) {
		return events.Reason_PARTITION_TIME_LIMIT, ""
	}
	if !s.mayHaveQos(p, w.job) {
		return events.Reason_INVALID_QOS_REASON, ""
	}
	return admit.MayRun(p, w.job.GetSpec().GetAccount(), w.job.GetSpec().GetQos())
}

// standsFor is whose job it is where QoS are enforced.
type standsFor struct{ user, account, qos, partition string }

// mayHaveQos says whether a job has a QOS of its association. One whose account was changed, or whose association had the QOS
// taken away, has not.
func (s *placing) mayHaveQos(p *events.PartitionDef, j *projections.Job) bool {
	if !s.enforcesQos { // asked first: of a long queue, each look at a job is a wait for memory
		return true
	}
	k := standsFor{j.GetOwner().GetUser(), j.GetSpec().GetAccount(), j.GetSpec().GetQos(), p.GetName()}
	if k.qos == "" {
		return true
	}
	may, known := s.allowed[k]
	if !known {
		policy := s.c.Policy()
		place := policy.Place(s.c.Config().GetCluster(), k.account, k.user, k.partition)
		may = place == nil || slices.Contains(policy.AllowedQos(place), k.qos)
		s.allowed[k] = may
	}
	return may
}

// limitOf is the time limit a job starts with, seconds: what it asked for, or what its deadline leaves of it.
func (s *placing) limitOf(w *waiting) uint32 {
	limit := w.limit
	if w.plain {
		return limit
	}
	if d := w.job.GetSpec().GetDeadlineUs(); d != 0 {
		left := max((d-s.now)/second, 1)
		if limit == events.Unlimited || left < int64(limit) {
			limit = uint32(min(left, int64(events.Unlimited)-1))
		}
	}
	return limit
}

// start starts a job or one task of an array, if it fits and delays nobody it must not. Otherwise it notes why.
func (s *placing) start(e *rank.Entry, w *waiting, j *projections.Job, task uint32) bool {
	limit, q := s.limitOf(w), w.q
	window := place.Window{From: s.now, To: place.Forever, User: j.GetOwner().GetUid(), Alone: q.OneUser || e.Partition.GetExclusiveUser()}
	if over := s.overTimeOf(e.Partition); limit != events.Unlimited && over >= 0 {
		window.To = s.now + int64(limit)*second + over
	}
	licenses, short := projections.FreeLicenses(s.c, j.Spec, nil)
	if short != nil {
		s.waits(w, events.Reason_LICENSES, fmt.Sprintf("%d of licence %s", short.Count, short.Name))
		return false
	}
	blocked := s.blocked[e.Partition]
	if blocked && !s.mayTest() {
		s.waits(w, events.Reason_PRIORITY, "")
		return false
	}
	key := failure{q: q, part: e.Partition, claims: s.board.Claims(window)}
	if s.c.UserExclusive() > 0 {
		key.user = window.User
	}
	var a *events.Allocation
	if w.prefer != nil {
		a = s.board.Place(w.prefer, e.Partition.GetName(), window)
	}
	if a == nil && !s.failed[key] {
		if blocked {
			s.tests++
		}
		if a = s.board.Place(q, e.Partition.GetName(), window); a == nil {
			s.failed[key] = true
		}
	}
	if a == nil && !w.plain && w.job.GetSpec().GetTimeMinS() > 0 {
		if a, window = s.shorter(e, w, window); a != nil {
			limit = uint32((window.To - s.now - max(s.overTimeOf(e.Partition), 0)) / second)
		}
	}
	if a == nil {
		s.cannot(e, w, window, blocked)
		return false
	}
	f := &events.Placed{
		Job: j.Id, Run: j.Run + 1, Allocation: a, LimitS: limit, Backfilled: blocked, Partition: e.Partition.GetName(), Licenses: licenses,
	}
	if !w.plain && j.Remainder() {
		f.Task, f.HasTask = task, true
	}
	if why := s.say(&events.Fact{Kind: &events.Fact_Placed{Placed: f}}); why != "" {
		// The board and the definition of feasible disagree. Nothing is placed, and the queue behind goes on.
		s.failed[key] = true
		s.waits(w, events.Reason_RESOURCES, why)
		return false
	}
	s.board.Start(a, window)
	s.holds(j.Id, a, min(window.To, s.now+longest))
	delete(s.several, j.Id)
	if limit != events.Unlimited {
		s.wake(window.To)
	}
	return true
}

// shorter finds room for a job that would do with less time than its limit, between now and the latest start of a
// reservation that leaves it enough.
func (s *placing) shorter(e *rank.Entry, w *waiting, window place.Window) (*events.Allocation, place.Window) {
	least := s.now + int64(w.job.GetSpec().GetTimeMinS())*second + max(s.overTimeOf(e.Partition), 0)
	starts := s.board.Starts(least, window.To)
	for i := len(starts) - 1; i >= 0; i-- {
		short := window
		short.To = starts[i]
		if a := s.board.Place(w.q, e.Partition.GetName(), short); a != nil {
			return a, short
		}
	}
	return nil, window
}

// holds notes when the shares of a job that starts now come free.
func (s *placing) holds(id uint32, a *events.Allocation, end int64) {
	a.Each(func(_ int, name string, share *events.NodeShare) bool {
		s.added = append(s.added, place.End{At: end, Job: id, Node: name, Share: share})
		return true
	})
}

// allEnds is when all shares come free, those of jobs that start in this pass included.
func (s *placing) allEnds() []place.End {
	if len(s.added) > 0 {
		s.ends = append(s.ends, s.added...)
		s.added = s.added[:0]
		place.SortEnds(s.ends)
	}
	return s.ends
}

// mayTest says whether a job behind a reservation may still be tried: backfill is on, and neither its number of tests nor
// the budget is used up.
func (s *placing) mayTest() bool {
	cfg := s.c.Config()
	switch {
	case !cfg.GetBackfill():
		return false
	case cfg.GetBfMaxJobTest() > 0 && s.tests >= cfg.GetBfMaxJobTest():
		return false
	}
	return s.in.Budget == 0 || s.board.Steps() < s.in.Budget
}

// cannot notes why a job that does not fit waits. The first one of a partition that waits for resources keeps room for
// itself.
func (s *placing) cannot(e *rank.Entry, w *waiting, window place.Window, blocked bool) {
	q := w.q
	if blocked && len(q.NodeList) == 0 {
		s.waits(w, events.Reason_PRIORITY, "")
		return
	}
	if t := s.troubleOf(e.Partition, q); t.reason != events.Reason_NONE {
		s.waits(w, t.reason, t.text)
		if t.reason == events.Reason_REQ_NODE_NOT_AVAIL && len(q.NodeList) == 0 {
			s.passed[e.Partition] = true
		}
		return
	}
	if blocked {
		s.waits(w, events.Reason_PRIORITY, "")
		return
	}
	s.blocked[e.Partition] = true
	t := &telling{w: w, reason: events.Reason_RESOURCES, planned: true, blockers: s.board.Blockers(q, e.Partition.GetName())}
	if s.passed[e.Partition] {
		t.reason = events.Reason_PRIORITY // the word for whoever stands behind one that waits
	}
	if t.reason == events.Reason_RESOURCES && s.keptForOthers(q, e.Partition) {
		t.text = events.KeptForOthers
	}
	defer s.tell(t)
	if !s.c.Config().GetBackfill() {
		s.board.Seal(e.Partition.GetName())
	}
	ends := s.allEnds()
	r := s.board.Shadow(q, e.Partition.GetName(), ends, window)
	if r == nil {
		return
	}
	r.Job = w.job.Id
	t.start, t.nodes = r.Start, hostlist.Compress(r.Allocation.NodeNames())
	if window := s.c.Config().GetBfWindowS(); s.c.Config().GetBackfill() && (window == 0 || r.Start <= s.now+int64(window)*second) {
		s.board.Reserve(r, ends)
	}
}

// keptForOthers says whether a request needs nodes of a partition that are also of partitions where a job of higher rank waits: what is
// left without those is too little for it.
func (s *placing) keptForOthers(q *place.Request, p *events.PartitionDef) bool {
	taken := map[*projections.Node]bool{}
	for _, other := range s.c.Partitions() {
		if other != p && (s.blocked[other] || s.passed[other]) {
			for _, n := range s.c.PartitionNodes(other.GetName()) {
				taken[n] = true
			}
		}
	}
	if len(taken) == 0 {
		return false
	}
	cpus := 0
	for _, n := range s.c.PartitionNodes(p.GetName()) {
		if !taken[n] {
			cpus += int(n.CPUs())
		}
	}
	return cpus < int(q.LeastCPUs())
}

// troubleOf is what is wrong with nodes that keeps a request from ever fitting as things stand; NONE if nothing is.
func (s *placing) troubleOf(p *events.PartitionDef, q *place.Request) trouble {
	key := failure{q: q, part: p}
	t, known := s.trouble[key]
	if !known {
		t.reason, t.text = s.board.Trouble(q, p.GetName(), s.mem.desk.Idle(s.c))
		s.trouble[key] = t
	}
	return t
}

// telling is why a job waits in one partition.
type telling struct {
	w        *waiting
	reason   events.Reason
	text     string
	planned  bool
	start    int64
	nodes    string
	blockers []*projections.Blocker
}

// waits notes why a job waits in one of its partitions. Of several the most telling word stays.
func (s *placing) waits(w *waiting, reason events.Reason, text string) {
	if len(w.parts) == 1 {
		s.wait(w, reason, text)
		return
	}
	s.tell(&telling{w: w, reason: reason, text: text})
}

func (s *placing) tell(t *telling) {
	switch before := s.several[t.w.job.Id]; {
	case len(t.w.parts) > 1 && (before == nil || weight(t.reason) > weight(before.reason)):
		s.several[t.w.job.Id] = t
	case len(t.w.parts) > 1:
	default:
		s.say1(t)
	}
}

func (s *placing) say1(t *telling) {
	if t.planned {
		s.plan(t.w, t.reason, t.text, t.start, t.nodes, t.blockers)
		return
	}
	s.wait(t.w, t.reason, t.text)
}

// tellSeveral says what was found out about jobs that stand in several partitions. The order of the map does not matter:
// outcomes are put in order afterwards.
func (s *placing) tellSeveral() {
	for _, t := range s.several {
		s.say1(t)
	}
}

// weight orders the reasons of a job that stands in several partitions: what it waits for where it could start comes
// before where it could not.
func weight(r events.Reason) int {
	switch r {
	case events.Reason_RESOURCES:
		return 5
	case events.Reason_PRIORITY:
		return 4
	case events.Reason_JOB_ARRAY_TASK_LIMIT, events.Reason_LICENSES:
		return 3
	case events.Reason_REQ_NODE_NOT_AVAIL:
		return 2
	}
	return 1
}

// settleOutcomes puts the outcomes in the order of the jobs.
func (p *pass) settleOutcomes() {
	byJob := func(x, y *projections.Outcome) int {
		switch {
		case x.Job < y.Job:
			return -1
		case x.Job > y.Job:
			return 1
		}
		return 0
	}
	if !slices.IsSortedFunc(p.outcomes, byJob) {
		slices.SortFunc(p.outcomes, byJob)
	}
}
