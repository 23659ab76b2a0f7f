package projections

import (
	"math"
	"slices"

	"stint/events"
)

// Dependencies. A waiting job keeps what became of each of its dependencies; a word once said (fulfilled, never) stands,
// whatever becomes of the other job later. The fold looks again only when a job that is waited for starts or ends, by an index from
// job or array to those who wait for it. A job that is not hot (never was, or has left) counts as fulfilled, as in Slurm.

// depend weighs the dependencies of a job that is about to be stored.
func (c *Cluster) depend(j *Job, list []*events.Dependency) {
	for _, d := range list {
		s := &DependencyState{Dependency: d}
		c.weigh(j, s, -1)
		j.Dependencies = append(j.Dependencies, s)
	}
}

// reweigh looks again at what a job (a copy) still waits for.
func (c *Cluster) reweigh(j *Job) {
	list := slices.Clone(j.Dependencies)
	for i, d := range list {
		if d.State == Fulfilment_UNFULFILLED {
			list[i] = d.copy()
			c.weigh(j, list[i], -1)
		}
	}
	j.Dependencies = list
}

// weigh brings a dependency (a copy) up to date. task ≥ 0: the only thing that happened is that this task of the other array
// ended.
func (c *Cluster) weigh(j *Job, s *DependencyState, task int64) {
	d := s.Dependency
	since := max(1, c.now, j.SubmitUs)
	if d.GetKind() == events.DependencyKind_SINGLETON {
		if first := c.nameSetOf(keyOf(j)).first(); first == 0 || first >= j.whole() {
			s.State, s.SinceUs = Fulfilment_FULFILLED, since
		}
		return
	}
	a := c.arrays.get(d.GetJob())
	if a != nil && !d.GetHasTask() && d.GetKind() == events.DependencyKind_AFTER_CORR && (j.Remainder() || j.HasTask) {
		c.correspond(j, s, a, task, since)
		return
	}
	switch {
	case d.GetKind() == events.DependencyKind_AFTER:
		if at, began := c.beganAt(d, a); began {
			s.State, s.SinceUs = Fulfilment_FULFILLED, max(1, at+int64(d.GetDelayMin())*60*1000000)
			if at == 0 {
				s.SinceUs = since
			}
		}
	case a != nil && !d.GetHasTask():
		if a.rec.Completed+a.rec.Failed >= a.rec.Total {
			s.settle(a.rec.Failed == 0, since)
		}
	case a != nil:
		t := a.tasks.get(d.GetTask())
		switch {
		case t != nil && t.Ended:
			s.settle(t.State == events.JobState_COMPLETED, since)
		case t == nil && !c.pendingTask(d.GetJob(), d.GetTask()):
			s.State, s.SinceUs = Fulfilment_FULFILLED, since
		}
	default:
		other := c.jobs.get(d.GetJob())
		switch {
		case other == nil:
			s.State, s.SinceUs = Fulfilment_FULFILLED, since
		case other.Over():
			s.settle(other.State == events.JobState_COMPLETED, since)
		}
	}
}

// settle is the word on a dependency on a job that is over, well or not.
func (s *DependencyState) settle(well bool, since int64) {
	s.State = Fulfilment_FULFILLED
	switch s.Dependency.GetKind() {
	case events.DependencyKind_AFTER_OK, events.DependencyKind_AFTER_CORR:
		if !well {
			s.State = Fulfilment_NEVER
		}
	case events.DependencyKind_AFTER_NOT_OK:
		if well {
			s.State = Fulfilment_NEVER
		}
	}
	if s.State == Fulfilment_FULFILLED {
		s.SinceUs = since
	}
}

func (c *Cluster) pendingTask(id, task uint32) bool {
	j := c.jobs.get(id)
	return j.Remainder() && j.Waits() && events.Words(j.Pending).Has(task)
}

// beganAt says whether a job, all of an array or one task of it has begun (or is over without), and when; 0: not known.
func (c *Cluster) beganAt(d *events.Dependency, a *array) (at int64, began bool) {
	switch {
	case a != nil && !d.GetHasTask():
		if j := c.jobs.get(d.GetJob()); j.Remainder() && j.Waits() {
			return 0, false
		}
		began = true
		a.tasks.each(func(_ uint32, t *TaskJob) bool {
			j := c.jobs.get(t.Job)
			if j != nil && j.Waits() && j.Run == 0 {
				began = false
			}
			if j != nil {
				at = max(at, j.StartUs)
			}
			return began
		})
		return at, began
	case a != nil:
		t := a.tasks.get(d.GetTask())
		if t == nil {
			return 0, !c.pendingTask(d.GetJob(), d.GetTask())
		}
		return jobBegan(c.jobs.get(t.Job))
	}
	return jobBegan(c.jobs.get(d.GetJob()))
}

func jobBegan(j *Job) (int64, bool) {
	switch {
	case j == nil:
		return 0, true
	case j.Waits():
		return 0, false
	case j.StartUs == 0:
		return j.EndUs, true
	}
	return j.StartUs, true
}

// correspond: each task waits for the task of the same index of the other array.
func (c *Cluster) correspond(j *Job, s *DependencyState, a *array, task, since int64) {
	other := c.jobs.get(s.Dependency.GetJob())
	word := func(i uint32) Fulfilment {
		t := a.tasks.get(i)
		switch {
		case t != nil && t.Ended && t.State == events.JobState_COMPLETED:
			return Fulfilment_FULFILLED
		case t != nil && t.Ended:
			return Fulfilment_NEVER
		case t == nil && !(other.Remainder() && events.Words(other.Pending).Has(i)):
			return Fulfilment_FULFILLED // there is no such task
		}
		return Fulfilment_UNFULFILLED
	}
	if j.HasTask {
		if s.State = word(j.ArrayTask); s.State == Fulfilment_FULFILLED {
			s.SinceUs = since
		}
		return
	}
	ready, never := events.Words(s.Ready), events.Words(s.Never)
	look := events.Words(j.Pending)
	if task >= 0 {
		if look = nil; events.Words(j.Pending).Has(uint32(task)) {
			look.Set(uint32(task))
		}
	}
	look.Each(func(i uint32) bool {
		switch w := word(i); {
		case w == Fulfilment_FULFILLED && !ready.Has(i):
			ready = ready.Or(events.WordsOf(i))
			s.SinceUs = since
		case w == Fulfilment_NEVER && !never.Has(i):
			never = never.Or(events.WordsOf(i))
		}
		return true
	})
	s.Ready, s.Never = ready, never
	switch pending := events.Words(j.Pending); {
	case pending.Within(ready):
		s.State = Fulfilment_FULFILLED
	case pending.Within(never):
		s.State = Fulfilment_NEVER
	}
}

// watch puts a stored job into the index of those who wait; unwatch takes it out.
func (c *Cluster) watch(j *Job) {
	if !j.Waits() {
		return
	}
	for _, d := range j.Dependencies {
		if d.State != Fulfilment_UNFULFILLED || d.Dependency.GetKind() == events.DependencyKind_SINGLETON {
			continue
		}
		set := c.dependentsOf(d.Dependency.GetJob())
		if set == nil {
			set = map[uint32]struct{}{}
			c.dependents[d.Dependency.GetJob()] = set
		}
		set[j.Id] = struct{}{}
	}
}

func (c *Cluster) unwatch(j *Job) {
	for _, d := range j.Dependencies {
		target := d.Dependency.GetJob()
		if set := c.dependentsOf(target); set != nil {
			if delete(set, j.Id); len(set) == 0 {
				c.forgetDependents(target)
			}
		}
	}
}

// began and endedFor let those who wait for a job look again.
func (c *Cluster) began(j *Job) {
	c.wake(j, j.Id, true)
	if j.ArrayId != 0 && j.ArrayId != j.Id {
		c.wake(j, j.ArrayId, true)
	}
}

func (c *Cluster) endedFor(j *Job) {
	c.wake(j, j.Id, false)
	if j.ArrayId != 0 && j.ArrayId != j.Id {
		c.wake(j, j.ArrayId, false)
	}
}

func (c *Cluster) wake(other *Job, target uint32, start bool) {
	set := c.dependentsOf(target)
	if len(set) == 0 {
		return
	}
	ids := make([]uint32, 0, len(set))
	for id := range set {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	task := int64(-1)
	if other.HasTask {
		task = int64(other.ArrayTask)
	}
	for _, id := range ids {
		j := c.jobs.get(id)
		if j == nil || !j.Waits() {
			delete(set, id)
			continue
		}
		var list []*DependencyState
		for i, d := range j.Dependencies {
			if d.State != Fulfilment_UNFULFILLED || d.Dependency.GetJob() != target || start && d.Dependency.GetKind() != events.DependencyKind_AFTER {
				continue
			}
			next := d.copy()
			c.weigh(j, next, task)
			if next.State == d.State && len(next.Ready) == len(d.Ready) && len(next.Never) == len(d.Never) &&
				events.Words(next.Ready).Equal(d.Ready) && events.Words(next.Never).Equal(d.Never) {
				continue
			}
			if list == nil {
				list = slices.Clone(j.Dependencies)
			}
			list[i] = next
		}
		if list == nil {
			continue
		}
		next := j.copy()
		next.Dependencies = list
		c.reckon(next, max(next.SubmitUs, j.EligibleUs))
		c.unwatch(next)
		c.putJob(j, next)
		c.watch(next)
	}
	if len(c.dependentsOf(target)) == 0 {
		c.forgetDependents(target)
	}
}

// Singletons wait until no earlier job of the same owner and name is left. Earlier is by id; the tasks of an array are one.

type nameKey struct {
	uid  uint32
	name string
}

func keyOf(j *Job) nameKey { return nameKey{j.GetOwner().GetUid(), j.GetSpec().GetName()} }

// nameSet are the families (jobs, arrays) of one owner and name that are not over. Most names have one.
type nameSet struct {
	one  uint32
	n    int32 // records of that one which are not over
	many *nameMany
}

type nameMany struct {
	live  map[uint32]int32 // records not over, by family
	order []uint32         // ascending; may hold families that are over, but not at its head
}

func (s nameSet) first() uint32 {
	if s.many != nil {
		if len(s.many.order) > 0 {
			return s.many.order[0]
		}
		return math.MaxUint32
	}
	return s.one
}

func (s nameSet) add(family uint32, n int32) nameSet {
	switch {
	case s.many == nil && (s.n == 0 || s.one == family):
		s.one, s.n = family, s.n+n
		return s
	case s.many == nil:
		s = nameSet{many: &nameMany{live: map[uint32]int32{s.one: s.n}, order: []uint32{s.one}}}
	}
	m := s.many
	if m.live[family] += n; m.live[family] <= 0 {
		delete(m.live, family)
	} else if at, found := slices.BinarySearch(m.order, family); !found {
		m.order = slices.Insert(m.order, at, family)
	}
	for len(m.order) > 0 && m.live[m.order[0]] == 0 {
		m.order = m.order[1:]
	}
	return s
}

func (s nameSet) empty() bool {
	return s.many == nil && s.n == 0 || s.many != nil && len(s.many.live) == 0
}

// rename keeps the index of live jobs by owner and name, and lets the first of a name go when it comes to be first.
func (c *Cluster) rename(before, after *Job) {
	was, is := before != nil && !before.Over(), after != nil && !after.Over()
	if was == is && (!was || before.Spec == after.Spec || before.Spec.GetName() == after.Spec.GetName()) {
		return
	}
	if was {
		c.count(before, -1)
	}
	if is {
		c.count(after, 1)
	}
}

func (c *Cluster) count(j *Job, n int32) {
	key := keyOf(j)
	set := c.nameSetOf(key)
	first := set.first()
	set = set.add(j.whole(), n)
	if set.empty() {
		if c.names[key] = (nameSet{}); c.parent == nil {
			delete(c.names, key)
		}
		return
	}
	c.names[key] = set
	if set.first() != first {
		c.letGo(set.first(), key)
	}
}

// letGo fulfils the singletons of a family, of the components of a heterogeneous job those of one name.
func (c *Cluster) letGo(family uint32, key nameKey) {
	ids := []uint32{family}
	if leader := c.jobs.get(family); leader.GetHetId() != 0 || leader == nil && c.arrays.get(family) == nil { // a leader may be gone before the others
		ids = ids[:0]
		for _, part := range Components(c, family, maxIDs) {
			if keyOf(part) == key {
				ids = append(ids, part.Id)
			}
		}
	}
	c.EachArrayTask(family, func(t *TaskJob) bool {
		if t.Job != family {
			ids = append(ids, t.Job)
		}
		return true
	})
	for _, id := range ids {
		j := c.jobs.get(id)
		if j == nil || !j.Waits() {
			continue
		}
		if !slices.ContainsFunc(j.Dependencies, unfulfilledSingleton) {
			continue
		}
		next := j.copy()
		next.Dependencies = slices.Clone(j.Dependencies)
		for i, d := range next.Dependencies {
			if unfulfilledSingleton(d) {
				d = d.copy()
				d.State, d.SinceUs = Fulfilment_FULFILLED, max(1, c.now)
				next.Dependencies[i] = d
			}
		}
		c.reckon(next, max(next.SubmitUs, j.EligibleUs))
		c.putJob(j, next)
	}
}

func unfulfilledSingleton(d *DependencyState) bool {
	return d.Dependency.GetKind() == events.DependencyKind_SINGLETON && d.State == Fulfilment_UNFULFILLED
}
