package projections

import (
	"crypto/sha256"
	"fmt"
)

// foldVersion is the version of what a snapshot holds and how it is read; one of another version is not loaded, since
// folding the log again gives the same.
const foldVersion = 5

// Snapshot is everything the fold knows, in an order that is a function of the state alone. It shares its records with the
// state, which never changes them: taking it costs a pointer a record, and it may be encoded and hashed by another
// goroutine while the fold goes on.
func (c *Cluster) Snapshot() *Snapshot {
	s := &Snapshot{
		Seq: c.seq, AtUs: c.at, PassedUs: c.passed, NextId: c.nextID, Term: c.term, Config: c.config, ConfigSeq: c.configSeq, Messages: c.messages,
		FoldRules: foldVersion, Inbox: c.inbox[:len(c.inbox):len(c.inbox)], Shares: c.shares,
		Finished: append([]*FinishedRef(nil), c.over...), Nonces: c.nonces(),
		Voids: append([]*VoidCount(nil), c.voids...), Policy: c.policy.State(),
	}
	if c.given != c.config {
		s.Given = c.given
	}
	s.Crontabs, s.Zone, s.Triggers, s.NextTrigger = c.crontabs, c.zone, c.triggers, c.nextTrigger
	c.nodes.each(func(_ uint32, n *Node) bool { s.Nodes = append(s.Nodes, n); return true })
	s.Jobs = make([]*Job, 0, c.jobs.n)
	c.EachJob(func(j *Job) bool { s.Jobs = append(s.Jobs, j); return true })
	c.arrays.each(func(_ uint32, a *array) bool {
		rec := a.rec.copy()
		a.tasks.each(func(_ uint32, t *TaskJob) bool { rec.Started = append(rec.Started, t); return true })
		s.Arrays = append(s.Arrays, rec)
		return true
	})
	for _, seq := range c.judged {
		s.Verdicts = append(s.Verdicts, c.VerdictsOf(seq)...)
	}
	return s
}

// Hash is the SHA-256 of the snapshot: equal states have equal hashes.
func (s *Snapshot) Hash() [32]byte {
	data, err := s.MarshalVT()
	if err != nil {
		panic(fmt.Sprintf("encode a snapshot: %v", err)) // a generated encoder fails only on nil records, which state has none of
	}
	return sha256.Sum256(data)
}

// Hash is the hash of the state as it is now.
func (c *Cluster) Hash() [32]byte { return c.Snapshot().Hash() }

// Load is the fold as a snapshot left it: what is folded next comes out as if everything had been folded. The snapshot
// becomes part of the state and must not be changed. An error says that the snapshot is not one, or of another version:
// fold from the beginning instead.
func Load(s *Snapshot) (*Cluster, error) {
	if s.GetFoldRules() != foldVersion {
		return nil, fmt.Errorf("snapshot at %d is of fold version %d, this one is %d", s.GetSeq(), s.GetFoldRules(), foldVersion)
	}
	c := New()
	c.seq, c.at, c.passed, c.nextID, c.messages = s.GetSeq(), s.GetAtUs(), s.GetPassedUs(), s.GetNextId(), s.GetMessages()
	c.configSeq = s.GetConfigSeq()
	if s.GetTerm() != nil {
		c.term = s.GetTerm()
	}
	if s.GetConfig() != nil {
		c.config = s.GetConfig()
	}
	if c.given = c.config; s.GetGiven() != nil {
		c.given = s.GetGiven()
	}
	c.shares, c.voids, c.over, c.inbox = s.GetShares(), s.GetVoids(), s.GetFinished(), s.GetInbox()
	policy, err := LoadPolicy(s.GetPolicy())
	if err != nil {
		return nil, fmt.Errorf("snapshot at %d: %w", s.GetSeq(), err)
	}
	c.policy = policy
	c.crontabs, c.zone, c.triggers, c.nextTrigger = s.GetCrontabs(), s.GetZone(), s.GetTriggers(), s.GetNextTrigger()
	if err := c.loadNodes(s.GetNodes()); err != nil {
		return nil, fmt.Errorf("snapshot at %d: %w", s.GetSeq(), err)
	}
	for _, rec := range s.GetArrays() {
		a := &array{rec: rec.copy()}
		for _, t := range rec.GetStarted() {
			a.tasks.set(c.epoch, t.Task, t, 0)
		}
		a.rec.Started = nil
		c.arrays.set(c.epoch, rec.GetId(), a, 0)
	}
	for _, j := range s.GetJobs() {
		c.jobs.set(c.epoch, j.Id, j, j.marks())
		c.owners.move(c.epoch, nil, j)
		c.license(nil, j)
		c.sharing(nil, j)
		if a := c.arrays.get(j.ArrayId); a != nil && j.ArrayId != 0 {
			a.hot++
		}
		if !j.Over() {
			key := keyOf(j)
			c.names[key] = c.names[key].add(j.whole(), 1)
			c.watch(j)
		}
		if j.FinishedUs != 0 {
			c.leaving++
		}
	}
	for _, item := range c.inbox {
		c.waiting[intentKey{item.Seq, item.Index}] = item
	}
	for _, ref := range s.GetNonces() {
		if len(ref.GetNonce()) == nonceLength {
			c.tell(telling{nonce: nonce(ref.Nonce), at: ref.AtUs, seq: ref.Seq, index: ref.Index, first: ref.FirstId})
		}
	}
	for _, v := range s.GetVerdicts() {
		c.judge(v)
	}
	return c, nil
}

func (c *Cluster) loadNodes(nodes []*Node) error {
	names := make([]string, 0, len(nodes))
	configured := 0
	for i, n := range nodes {
		if !n.Removed {
			configured = i + 1
		}
		for uint32(len(names)) < n.Index && len(names) < len(nodes)+1<<16 {
			names = append(names, "") // a removed node that has gone since left its place empty
		}
		names = append(names, n.Name)
		c.nodes.set(c.epoch, n.Index, n, 0)
	}
	l, err := newLayout(c.config, names, configured)
	if err != nil {
		return err
	}
	c.layout = l
	return nil
}

var _, _ Reader = (*Cluster)(nil), (*View)(nil)
