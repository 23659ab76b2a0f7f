package projections

import (
	"sort"

	"stint/events"
)

// Reader is the state of the cluster as of one sequence, as *Cluster (the fold itself, which moves) and *View (a copy that
// never does) both show it. Records that a Reader hands out are shared and must not be changed; the fold replaces them
// rather than change them, so they may be kept. Functions given to Each… return false to stop.
type Reader interface {
	Seq() uint64            // last message folded
	At() int64              // the log's time: latest server time stamp seen, microseconds
	Messages() uint64       // how many messages were folded
	NextID() uint32         // the id that the next submission takes
	Term() *TermState       // never nil; an empty nonce before the first term
	Config() *events.Config // never nil; empty before the first configuration, see ConfigSeq
	Given() *events.Config  // the configuration last taken over: Config without what administrators changed since
	Policy() *Policy        // never nil: accounts, users, QoS and their limits
	ConfigSeq() uint64      // where the configuration was taken over; 0: none yet

	Job(id uint32) *Job     // nil: unknown, or no longer hot
	Array(id uint32) *Array // without its tasks; nil: unknown, or no longer hot
	ArrayTask(array, task uint32) *TaskJob
	EachArrayTask(array uint32, f func(*TaskJob) bool) // tasks with a record of their own or already over, ascending

	EachJob(f func(*Job) bool)        // ascending by id, as are the others
	EachPending(f func(*Job) bool)    // in the queue: jobs and remainders of arrays
	EachRunning(f func(*Job) bool)    // with a run that has not ended: running, suspended, told to end
	EachCompleting(f func(*Job) bool) // with completing set
	EachOf(users []string, f func(*Job) bool)
	Counts() Counts

	Node(name string) *Node
	Nodes() []*Node // the configured ones, in order of configuration
	EachNode(f func(*Node) bool)
	Partition(name string) *events.PartitionDef
	Partitions() []*events.PartitionDef
	DefaultPartition() *events.PartitionDef
	PartitionNodes(name string) []*Node

	Inbox() []*InboxItem // intents without a verdict, in log order
	VerdictOf(seq uint64, index uint32) *IntentVerdict
	VerdictsOf(seq uint64) []*IntentVerdict
	Share(account, user string) (ppm uint64, known bool)
	Shares() []*events.ShareFactor // ascending by account and user
	License(name string) (count uint32, configured bool)
	LicensesUsed(name string) uint32
	Crontabs() []*Crontab        // ascending by user
	Crontab(uid uint32) *Crontab // nil: none
	Zone() *events.Zone          // the site's local time; nil: nobody needed it yet
	Triggers() []*Trigger        // ascending by id
	NextTrigger() uint32         // the id that the next trigger takes
	UserExclusive() int          // hot jobs that share nodes with jobs of their own user alone, and partitions of such jobs
	Voids() []*VoidCount         // ascending by why
	Refuse(p *events.Placed) *Refusal
}

// Counts are the numbers of hot jobs.
type Counts struct {
	Jobs, Pending, Running, Completing int
	Finished                           int // over, and not yet old enough to leave
}

// state is everything that readers see. A copy of it (with the epoch of its origin moved on) never changes.
type state struct {
	seq, messages, configSeq uint64
	at                       int64
	passed                   int64 // how much time passed between messages, as nonces are kept: a clock that is set forward adds a minute at most
	nextID                   uint32
	leaving                  int // finished jobs that are still hot
	term                     *TermState
	config, given            *events.Config // the same one unless partitions or settings were changed
	policy                   *Policy
	layout                   *layout

	jobs     table[Job]
	owners   byOwner // derived
	arrays   table[array]
	nodes    table[Node] // by Node.index; nodes no longer configured come after the configured ones
	inbox    []*InboxItem
	verdicts shards[*verdictList] // by sequence
	shares   []*events.ShareFactor
	alone    int              // jobs in the queue or with a run that share with their own user alone; derived
	licenses []events.License // held by runs, ascending by name; derived
	voids    []*VoidCount

	crontabs    []*Crontab // ascending by user
	zone        *events.Zone
	triggers    []*Trigger // ascending by id
	nextTrigger uint32
}

// array is an Array with its tasks beside it.
type array struct {
	rec   *Array
	hot   int            // jobs of it that are hot
	tasks table[TaskJob] // by index
}

// View is the state as of one sequence. It never changes, so any number of goroutines may read it.
type View struct{ state }

func (s *state) Seq() uint64            { return s.seq }
func (s *state) At() int64              { return s.at }
func (s *state) Messages() uint64       { return s.messages }
func (s *state) NextID() uint32         { return s.nextID }
func (s *state) Term() *TermState       { return s.term }
func (s *state) Config() *events.Config { return s.config }
func (s *state) Given() *events.Config  { return s.given }
func (s *state) Policy() *Policy        { return s.policy }
func (s *state) ConfigSeq() uint64      { return s.configSeq }

func (s *state) Job(id uint32) *Job { return s.jobs.get(id) }

func (s *state) Array(id uint32) *Array {
	if a := s.arrays.get(id); a != nil {
		return a.rec
	}
	return nil
}

func (s *state) ArrayTask(id, task uint32) *TaskJob {
	if a := s.arrays.get(id); a != nil {
		return a.tasks.get(task)
	}
	return nil
}

func (s *state) EachArrayTask(id uint32, f func(*TaskJob) bool) {
	if a := s.arrays.get(id); a != nil {
		a.tasks.each(func(_ uint32, t *TaskJob) bool { return f(t) })
	}
}

func (s *state) EachJob(f func(*Job) bool) {
	s.jobs.each(func(_ uint32, j *Job) bool { return f(j) })
}
func (s *state) EachPending(f func(*Job) bool)    { s.jobs.eachMarked(markPending, f) }
func (s *state) EachRunning(f func(*Job) bool)    { s.jobs.eachMarked(markRunning, f) }
func (s *state) EachCompleting(f func(*Job) bool) { s.jobs.eachMarked(markCompleting, f) }

func (s *state) Counts() Counts {
	return Counts{Jobs: s.jobs.n, Pending: s.jobs.count[0], Running: s.jobs.count[1], Completing: s.jobs.count[2], Finished: s.leaving}
}

func (s *state) Node(name string) *Node {
	if i, ok := s.layout.index[name]; ok {
		return s.nodes.get(i)
	}
	return nil
}

func (s *state) EachNode(f func(*Node) bool) {
	s.nodes.each(func(i uint32, n *Node) bool { return int(i) < s.layout.configured && f(n) })
}

func (s *state) Nodes() []*Node {
	list := make([]*Node, 0, s.layout.configured)
	s.EachNode(func(n *Node) bool { list = append(list, n); return true })
	return list
}

func (s *state) Partition(name string) *events.PartitionDef {
	if p := s.layout.byName[name]; p != nil {
		return p.def
	}
	return nil
}

func (s *state) Partitions() []*events.PartitionDef { return s.config.GetPartitions() }

func (s *state) DefaultPartition() *events.PartitionDef {
	for _, p := range s.config.GetPartitions() {
		if p.GetDefault() {
			return p
		}
	}
	return nil
}

func (s *state) PartitionNodes(name string) []*Node {
	p := s.layout.byName[name]
	if p == nil {
		return nil
	}
	list := make([]*Node, 0, len(p.nodes))
	for _, i := range p.nodes {
		if n := s.nodes.get(i); n != nil {
			list = append(list, n)
		}
	}
	return list
}

func (s *state) Inbox() []*InboxItem { return s.inbox }

func (s *state) VerdictsOf(seq uint64) []*IntentVerdict {
	if l, ok := s.verdicts.get(seq); ok {
		return l.list
	}
	return nil
}

func (s *state) VerdictOf(seq uint64, index uint32) *IntentVerdict {
	for _, v := range s.VerdictsOf(seq) {
		if v.Index == index {
			return v
		}
	}
	return nil
}

func (s *state) Shares() []*events.ShareFactor { return s.shares }

func (s *state) findShare(account, user string) (int, bool) {
	i := sort.Search(len(s.shares), func(i int) bool {
		f := s.shares[i]
		return f.GetAccount() > account || f.GetAccount() == account && f.GetUser() >= user
	})
	return i, i < len(s.shares) && s.shares[i].GetAccount() == account && s.shares[i].GetUser() == user
}

func (s *state) Share(account, user string) (uint64, bool) {
	if i, ok := s.findShare(account, user); ok {
		return s.shares[i].GetPpm(), true
	}
	return 0, false
}

func (s *state) Voids() []*VoidCount { return s.voids }
