package ledger

import (
	"stint/events"
	"stint/projections"
)

// record folds a message whose rows are not in the tables yet, and gathers them.
func (l *Ledger) record(e *events.Event) error {
	t := l.tables
	verdict := l.fold.Apply(*e)
	t.pending++
	changes := l.fold.Changes()
	t.policy, t.config, t.cluster = l.fold.Policy(), l.fold.Config(), l.fold.Config().GetCluster()
	for i := range changes {
		c := &changes[i]
		if c.NodeBefore != nil || c.NodeAfter != nil {
			if err := t.node(c); err != nil {
				return err
			}
			continue
		}
		if err := t.change(c); err != nil {
			return err
		}
		if err := t.tellChange(c); err != nil {
			return err
		}
	}
	void, err := t.voids(e.Seq, verdict.Void)
	if err != nil {
		return err
	}
	switch {
	case void[-1]:
		return nil
	case e.Node != nil:
		return l.recordSteps(e, void)
	case e.Sched.GetCycle() != nil:
		return l.recordFacts(e, void)
	case e.Intents != nil:
		return l.recordIntents(e, void)
	}
	return nil
}

// voids writes down what was void, and why, for stories and lists of it.
func (t *tables) voids(seq uint64, list []projections.VoidFact) (map[int]bool, error) {
	if len(list) == 0 {
		return nil, nil
	}
	void := make(map[int]bool, len(list))
	for _, v := range list {
		void[v.Index] = true
		why := v.Why
		if v.More != "" {
			why += ": " + v.More
		}
		if err := t.batch.Set(voidKey(t.buf[:0], seq, uint32(v.Index)), []byte(why), nil); err != nil {
			return nil, err
		}
	}
	return void, nil
}

// tellChange adds a fact to the story of a job it changed. A task that starts is no part of the story of its array's
// remainder, which would grow with every task.
func (t *tables) tellChange(c *projections.Change) error {
	if c.Fact == nil && c.NodeFact == nil || c.After == nil {
		return nil
	}
	if c.Fact.GetPlaced() != nil && c.Before != nil && c.After.Remainder() {
		return nil
	}
	return t.tell(c.After.Id, c.Seq, uint32(c.Index))
}

// recordSteps folds what a node says of steps. What is void is told in the story of its job, if that is hot.
func (l *Ledger) recordSteps(e *events.Event, void map[int]bool) error {
	for i, f := range e.Node.Facts {
		job := stepOf(f)
		if job == 0 {
			continue
		}
		j := l.fold.Job(job)
		if j == nil {
			continue
		}
		if err := l.tables.tell(job, e.Seq, uint32(i)); err != nil {
			return err
		}
		if void[i] {
			continue
		}
		if err := l.tables.stepFact(j, e.Name, f, e.Seq); err != nil {
			return err
		}
	}
	return nil
}

func stepOf(f *events.NodeFact) (job uint32) {
	switch f := f.Kind.(type) {
	case *events.NodeFact_Started:
		return f.Started.GetJob()
	case *events.NodeFact_Exited:
		return f.Exited.GetJob()
	}
	return 0
}

// recordFacts tells stories what the changes of records do not: submissions, refusals, and facts that were void.
func (l *Ledger) recordFacts(e *events.Event, void map[int]bool) error {
	t := l.tables
	for i, f := range e.Sched.GetCycle().GetFacts() {
		if void[i] {
			if job := events.FactJob(f); l.fold.Job(job) != nil {
				if err := t.tell(job, e.Seq, uint32(i)); err != nil {
					return err
				}
			}
			continue
		}
		switch f := f.Kind.(type) {
		case *events.Fact_Admitted:
			ref := f.Admitted.GetIntent()
			if err := t.tell(f.Admitted.GetJob(), ref.GetSeq(), ref.GetIndex()); err != nil {
				return err
			}
		case *events.Fact_Judged:
			if err := l.recordJudged(e.Seq, i, f.Judged); err != nil {
				return err
			}
		case *events.Fact_Signalled:
			if err := t.tell(f.Signalled.GetJob(), e.Seq, uint32(i)); err != nil {
				return err
			}
			if err := t.stepKilled(l.fold.Job(f.Signalled.GetJob()), f.Signalled, e.Seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// recordJudged tells the story of the id that a refused submission took, and of jobs that an act could not be done to.
func (l *Ledger) recordJudged(seq uint64, index int, f *events.Judged) error {
	ref := f.GetIntent()
	if v := l.fold.VerdictOf(ref.GetSeq(), ref.GetIndex()); v.GetFirstId() != 0 {
		if err := l.tables.tell(v.FirstId, ref.GetSeq(), ref.GetIndex()); err != nil {
			return err
		}
		return l.tables.tell(v.FirstId, seq, uint32(index))
	}
	for _, v := range f.GetVerdicts() {
		if l.fold.Job(v.GetJob()) == nil {
			continue
		}
		if err := l.tables.tell(v.GetJob(), seq, uint32(index)); err != nil {
			return err
		}
	}
	return nil
}

// maxTargets bounds how many jobs one intent is told to: an intent is untrusted, and what it names may be long.
const maxTargets = 1024

// recordIntents tells the jobs that an act of control names who wished it.
func (l *Ledger) recordIntents(e *events.Event, void map[int]bool) error {
	for i, intent := range e.Intents.GetIntents() {
		if void[i] {
			continue
		}
		told := 0
		for _, target := range events.IntentTargets(intent) {
			if told == maxTargets {
				break
			}
			job := target.GetJob()
			if l.fold.Job(job) == nil && l.fold.Array(job) == nil {
				continue
			}
			told++
			if err := l.tables.tell(job, e.Seq, uint32(i)); err != nil {
				return err
			}
		}
	}
	return nil
}
