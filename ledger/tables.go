package ledger

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"stint/events"
	"stint/events/tres"
	"stint/ledger/rows"
	"stint/projections"
)

// record is a row that is being written, with what is needed to write it again: a cache of what the tables hold, and
// after a commit it may be forgotten at any time.
type record struct {
	key    recordKey
	row    *rows.JobRow
	steps  []step // all of them, if read
	read   bool
	index  *indexed // under what it is found among those that have ended; nil: it has not
	active bool     // it is among those that have not ended …
	turn   turn     // … with this turn
	dirty  bool
	gone   bool                // the row is to be removed: the array has no pending remainder any more
	place  *rows.AllocationRow // to be written
	raw    bool                // found under its raw id
	former *record             // what the run was before it was resized, if known
}

type step struct {
	row   *rows.StepRow
	dirty bool
}

// indexed is what the index keys of an ended record are made of.
type indexed struct {
	user, name string
	state      uint32
	end        int64
}

// tables turns the fold's changes into rows, gathers them, and writes them with the cursor in one batch.
type tables struct {
	db *pebble.DB

	current map[uint32]*record  // by raw job id: the latest instance
	dirty   []*record           // in the order they were first changed since the last commit
	stories map[uint32]*chapter // by raw job id: the last chunk of its story
	told    []*chapter          // to be written
	topJob  uint32              // highest job id with a story
	open    map[string]*rows.NodeEventRow
	usage   map[string]*hourUse // by key: hours that were added to

	policy  *projections.Policy // as the fold has it: whose accounts there are
	config  *events.Config
	cluster string

	settle  func() error // to be called before db is read
	far     bool         // the end of the log is far
	pending int          // changes since the last commit

	writer         // of what is gathered
	spare  *writer // an empty one with its memory, or nil
}

// writer encodes rows into a batch.
type writer struct {
	batch *pebble.Batch
	buf   []byte
	keys  []keyOp // index keys that are not in the batch yet, in arena
	arena []byte
}

// keep is how many clean records and stories are kept for the next change; losing them costs a read.
const (
	keep    = 1 << 13
	keepFar = 1 << 16 // where a read would wait for a commit in bulk
)

// hourUse is what an account's user used in an hour.
type hourUse struct {
	rows.UsageRow
	dirty bool
}

func newTables(db *pebble.DB) (*tables, error) {
	t := &tables{db: db, current: map[uint32]*record{}, stories: map[uint32]*chapter{}, open: map[string]*rows.NodeEventRow{}, usage: map[string]*hourUse{}}
	t.settle = func() error { return nil }
	t.batch = db.NewBatch()
	if err := t.findTopJob(); err != nil {
		return nil, err
	}
	return t, nil
}

// get reads a row that may just have been written.
func (t *tables) get(key []byte, row interface{ UnmarshalVT([]byte) error }) (found bool, err error) {
	if err := t.settle(); err != nil {
		return false, err
	}
	return get(t.db, key, row)
}

// get reads a row; found is false if there is none.
func get(db pebble.Reader, key []byte, row interface{ UnmarshalVT([]byte) error }) (found bool, err error) {
	value, closer, err := db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %q: %w", key[:1], err)
	}
	defer closer.Close()
	if err := row.UnmarshalVT(value); err != nil {
		return false, damaged(key, err)
	}
	return true, nil
}

type marshaler interface {
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
}

// put writes a row into the batch.
func (w *writer) put(key []byte, row marshaler) error {
	n := row.SizeVT()
	op := w.batch.SetDeferred(len(key), n)
	copy(op.Key, key)
	if _, err := row.MarshalToSizedBufferVT(op.Value[:n]); err != nil {
		return fmt.Errorf("encoding a row of table %q: %w", key[:1], err)
	}
	return op.Finish()
}

func (t *tables) mark(r *record) {
	if !r.dirty {
		r.dirty = true
		t.dirty = append(t.dirty, r)
	}
}

// change folds one change of a job into its record.
func (t *tables) change(c *projections.Change) error {
	t.pending++
	j := c.After
	if j == nil {
		return nil // it left hot state; its record stays
	}
	key := keyOf(j)
	var r *record
	if c.Before == nil {
		r = t.create(key, j)
	} else {
		before := keyOf(c.Before)
		old, err := t.find(c.Before, before)
		if err != nil {
			return err
		}
		switch {
		case key == before:
			r = old
		case key.place != before.place: // the last pending task of an array keeps the array's record id
			old.gone = true
			t.mark(old)
			r = t.create(key, j)
		case j.Resizes != c.Before.Resizes:
			if err := t.resize(old, c); err != nil {
				return err
			}
			r = t.create(key, j)
			r.former = old
			place(r.row, j)
			if r.row.Allocation == nil {
				r.place = &rows.AllocationRow{Allocation: j.Allocation, Run: j.Run, StartUs: j.ResizedUs}
			}
		default:
			if err := t.requeue(old, c); err != nil {
				return err
			}
			r = t.create(key, j)
			r.row.SubmitUs = c.At
		}
	}
	if c.Fact != nil {
		switch f := c.Fact.Kind.(type) {
		case *events.Fact_Placed:
			if j.State != events.JobState_PENDING && j.Run != r.row.Run {
				place(r.row, j)
				t.bill(r.row.Alloc, j.Partition)
				if r.row.Allocation == nil {
					r.place = &rows.AllocationRow{Allocation: j.Allocation, Run: j.Run, StartUs: j.StartUs}
				}
			}
		case *events.Fact_Updated:
			describe(r.row, j)
			t.bill(r.row.Req, j.Spec.GetPartition())
			t.belongs(r.row, j)
		case *events.Fact_NodeLost:
			if r.row.FailedNode == "" && r.row.Run != 0 {
				r.row.FailedNode = f.NodeLost.Node
			}
		}
	}
	was := r.row.EndUs
	follow(r.row, j, c.Seq)
	if r.row.EndUs != 0 && was == 0 {
		if err := t.finish(r); err != nil {
			return err
		}
	}
	t.mark(r)
	return nil
}

// create begins a record.
func (t *tables) create(key recordKey, j *projections.Job) *record {
	r := &record{key: key, row: &rows.JobRow{Instance: key.instance, SubmitUs: j.SubmitUs}, read: true, raw: key.group != j.Id}
	describe(r.row, j)
	t.bill(r.row.Req, j.Spec.GetPartition())
	t.belongs(r.row, j)
	t.current[j.Id] = r
	return r
}

// bill sets what resources come to in a partition, the first of a list.
func (t *tables) bill(of *rows.Tres, partitions string) {
	name, _, _ := strings.Cut(partitions, ",")
	p := t.config.PartitionNamed(name)
	if of == nil || p.GetBillingWeights() == "" {
		return
	}
	var l tres.List
	for _, it := range []tres.Item{{Name: "cpu", Count: int64(of.Cpus)}, {Name: "mem", Count: int64(of.MemMib)}, {Name: "node", Count: int64(of.Nodes)}} {
		l.Set(it.Name, it.Count)
	}
	for _, g := range of.Gres {
		name := "gres/" + g.Name
		l.Set(name, l.Get(name)+int64(g.Count))
		if g.Type != "" {
			l.Set(name+":"+g.Type, int64(g.Count))
		}
	}
	of.Billing = uint64(t.config.Bill(p, l))
}

// belongs notes whose account a record is on, by number: names are given anew, numbers are not.
func (t *tables) belongs(r *rows.JobRow, j *projections.Job) {
	if t.policy == nil {
		return
	}
	r.Association = t.policy.Place(t.cluster, r.Account, r.User, j.Partition).GetId()
	r.QosId = t.policy.QosNamed(r.Qos).GetId()
}

// find is the record of a job that is known: cached, or read back.
func (t *tables) find(j *projections.Job, key recordKey) (*record, error) {
	if r := t.current[j.Id]; r != nil && r.key == key {
		return r, nil
	}
	r := &record{key: key, row: &rows.JobRow{}}
	found, err := t.get(jobKey(t.buf[:0], key), r.row)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, damaged(jobKey(nil, key), errors.New("the row is missing"))
	}
	r.active, r.turn = r.row.EndUs == 0, turnOf(key, r.row)
	if !r.active {
		r.index = indexOf(r.row)
	}
	t.current[j.Id] = r
	return r, nil
}

func indexOf(r *rows.JobRow) *indexed {
	return &indexed{user: r.User, name: r.Name, state: stateOf(r), end: r.EndUs}
}

// step is a step's row, which is begun if there is none, and is to be written.
func (t *tables) step(r *record, id uint32) (*rows.StepRow, error) {
	if err := t.readSteps(r); err != nil {
		return nil, err
	}
	t.mark(r)
	for i := range r.steps {
		if s := &r.steps[i]; s.row.Step == id {
			s.dirty = true
			return s.row, nil
		}
	}
	s := &rows.StepRow{Step: id, State: events.JobState_RUNNING, Name: events.StepName(id)}
	r.steps = append(r.steps, step{s, true})
	r.row.Steps++
	return s, nil
}

func (t *tables) readSteps(r *record) error {
	if r.read {
		return nil
	}
	if err := t.settle(); err != nil {
		return err
	}
	prefix := jobKey(nil, r.key)
	it, err := t.db.NewIter(&pebble.IterOptions{LowerBound: append(prefix, 0), UpperBound: after(prefix)})
	if err != nil {
		return fmt.Errorf("reading steps: %w", err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		s := &rows.StepRow{}
		if err := s.UnmarshalVT(it.Value()); err != nil {
			return damaged(it.Key(), err)
		}
		r.steps = append(r.steps, step{row: s})
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("reading steps: %w", err)
	}
	r.read = true
	return nil
}

// stepFact folds what a node says about a step of the run its job is in.
func (t *tables) stepFact(j *projections.Job, node string, f *events.NodeFact, seq uint64) error {
	if f.GetStarted().GetStep() == events.StepInteractive || f.GetExited().GetStep() == events.StepInteractive {
		return nil // the node's part in an allocation without a script: nothing runs by it, so it is no step
	}
	r, err := t.find(j, keyOf(j))
	if err != nil {
		return err
	}
	if known, err := t.overBefore(r, node, max(f.GetStarted().GetStep(), f.GetExited().GetStep())); known || err != nil {
		return err
	}
	switch f := f.Kind.(type) {
	case *events.NodeFact_Started:
		s, err := t.step(r, f.Started.Step)
		if err != nil {
			return err
		}
		stepStarted(s, j.Allocation, node, f.Started)
		s.ChangedSeq = seq
	case *events.NodeFact_Exited:
		s, err := t.step(r, f.Exited.Step)
		if err != nil {
			return err
		}
		first := stepExited(s, j.Allocation, node, f.Exited)
		s.ChangedSeq = seq
		if u := f.Exited.Usage; u != nil && first {
			r.row.UserUs += u.UserUs
			r.row.SystemUs += u.SystemUs
		}
		if s.Step < events.StepInteractive && s.EndUs != 0 {
			derive(r.row, s)
		}
	}
	return nil
}

// overBefore says whether a node told the end of a numbered step in a record that the run had before it was resized. An executor
// that is new does not know what the one before it has told, and tells it again.
func (t *tables) overBefore(r *record, node string, id uint32) (bool, error) {
	for !events.IsMainStep(id) && r.key.instance > 0 {
		if r.former == nil {
			b := &record{key: r.key, row: &rows.JobRow{}}
			b.key.instance--
			found, err := t.get(jobKey(t.buf[:0], b.key), b.row)
			if !found || err != nil {
				return false, err
			}
			r.former = b
		}
		b := r.former
		if !b.row.Resized || b.row.Run != r.row.Run {
			return false, nil
		}
		if err := t.readSteps(b); err != nil {
			return false, err
		}
		for _, s := range b.steps {
			for _, n := range s.row.ByNode {
				if s.row.Step == id && n.Node == node && n.EndUs != 0 {
					return true, nil
				}
			}
		}
		r = b
	}
	return false, nil
}

// killSignal ends whatever gets it.
const killSignal = 9

// stepKilled notes who ended a numbered step.
func (t *tables) stepKilled(j *projections.Job, f *events.Signalled, seq uint64) error {
	if j == nil || !f.GetHasStep() || f.GetSignal() != killSignal || events.IsMainStep(f.GetStep()) || j.LiveStep(f.GetStep()) == nil {
		return nil
	}
	r, err := t.find(j, keyOf(j))
	if err != nil {
		return err
	}
	s, err := t.step(r, f.GetStep())
	if err != nil {
		return err
	}
	s.WasCancelled, s.CancelledBy, s.ChangedSeq = true, f.GetByUid(), seq
	return nil
}

// derive keeps the highest exit code of the numbered steps, or that one of them ran out of memory. Other signals do not count.
func derive(r *rows.JobRow, s *rows.StepRow) {
	r.DerivedCode = max(r.DerivedCode, s.ExitCode)
	if s.State == events.JobState_OUT_OF_MEMORY {
		r.DerivedSignal = events.SignalOOM
	}
}
