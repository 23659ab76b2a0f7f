package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"stint/events"
	"stint/events/hostlist"
	"stint/ledger/rows"
	"stint/projections"
)

// How much one answer holds. Bigger questions are answered in several, each from a snapshot of its own: rows may change between
// them, none is told twice.
const (
	answerRecords = 4096
	answerBytes   = 2 << 20

	kindsMore = 4 // so many times as many, where records are told as kinds and rows
)

// query is one AskJobs made ready: sets instead of lists.
type query struct {
	ask        *rows.AskJobs
	users      map[string]bool
	uids       map[uint32]bool
	groups     map[string]bool
	gids       map[uint32]bool
	accounts   map[string]bool
	partitions map[string]bool
	names      map[string]bool
	qos        map[string]bool
	wckeys     map[string]bool
	nodes      map[string]bool
	states     map[events.JobState]bool
	reasons    map[events.Reason]bool
	assocs     map[uint32]bool
	selections map[uint32][]*rows.Selection // by the id that was named
	whole      map[uint32]bool              // heterogeneous jobs of which all is wanted
	sight      projections.Sight
}

func setOf[T comparable](list []T) map[T]bool {
	if len(list) == 0 {
		return nil
	}
	set := make(map[T]bool, len(list))
	for _, x := range list {
		set[x] = true
	}
	return set
}

// folded is a set of names without their case.
func folded(list []string) map[string]bool {
	small := make([]string, len(list))
	for i, s := range list {
		small[i] = strings.ToLower(s)
	}
	return setOf(small)
}

func newQuery(a *rows.AskJobs) (*query, error) {
	q := &query{
		ask: a, users: setOf(a.Users), uids: setOf(a.Uids), groups: setOf(a.Groups), gids: setOf(a.Gids),
		accounts: folded(a.Accounts), partitions: folded(a.Partitions), names: folded(a.Names), qos: folded(a.Qos),
		wckeys: setOf(a.Wckeys), states: setOf(a.States), reasons: setOf(a.Reasons), assocs: setOf(a.Associations),
	}
	if a.Nodes != "" {
		names, err := hostlist.Expand(a.Nodes, hostlist.MaxHosts)
		if err != nil {
			return nil, fmt.Errorf("node list %q: %w", a.Nodes, err)
		}
		q.nodes = setOf(names)
	}
	if len(a.Jobs) > 0 {
		q.selections, q.whole = map[uint32][]*rows.Selection{}, map[uint32]bool{}
		for _, s := range a.Jobs {
			q.selections[s.Job] = append(q.selections[s.Job], s)
		}
	}
	return q, nil
}

// candidates are the records that may match, in the order of an answer, those behind a position only.
func (q *query) candidates(db pebble.Reader, behind *position) ([]position, error) {
	var keys []position
	var err error
	collect := func(k position) {
		if behind == nil || behind.compare(k) < 0 {
			keys = append(keys, k)
		}
	}
	switch {
	case q.selections != nil:
		err = q.selected(db, collect)
	default:
		err = q.indexed(db, collect)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(keys, position.compare)
	return slices.Compact(keys), nil
}

// selected finds the records of the jobs that are named: a whole group, or the one record that a raw id stands for.
func (q *query) selected(db pebble.Reader, f func(position)) error {
	for id := range q.selections {
		prefix := binary.BigEndian.AppendUint32([]byte{tableJob}, id)
		if err := q.group(db, prefix, f); err != nil {
			return err
		}
		value, closer, err := db.Get(rawKey(nil, id))
		if err == pebble.ErrNotFound {
			continue
		}
		if err != nil {
			return fmt.Errorf("looking up job %d: %w", id, err)
		}
		k, err := parseRecordKey(value)
		closer.Close()
		if err != nil {
			return damaged(rawKey(nil, id), err)
		}
		prefix = jobKey(nil, k)[:1+8] // every instance of it
		if q.ask.WholeHet {
			prefix = prefix[:1+4] // and of the others; those of an array are sorted out later
			q.whole[k.group] = true
		}
		if err := q.group(db, prefix, f); err != nil {
			return err
		}
	}
	return nil
}

// group finds all records whose key begins with prefix.
func (q *query) group(db pebble.Reader, prefix []byte, f func(position)) error {
	return scan(db, prefix, after(prefix), func(key, value []byte) error {
		if len(key) != 1+recordLen {
			return nil // a step
		}
		k, err := parseRecordKey(key[1:])
		r := &rows.JobRow{}
		if err == nil {
			err = r.UnmarshalVT(value)
		}
		if err != nil {
			return damaged(key, err)
		}
		f(positionOf(k, r))
		return nil
	})
}

// indexed finds the records in the window by the narrowest index there is for the question: by user, by state, by end;
// and those that have not ended.
func (q *query) indexed(db pebble.Reader, f func(position)) error {
	a := q.ask
	var prefixes [][]byte
	switch {
	case len(a.Users) > 0 && len(a.Uids) == 0:
		for u := range q.users {
			prefixes = append(prefixes, userPrefix(nil, u))
		}
	case q.endStatesOnly():
		for s := range q.states {
			if s.Final() {
				prefixes = append(prefixes, statePrefix(nil, uint32(s)))
			}
		}
		if a.Requeued {
			prefixes = append(prefixes, statePrefix(nil, stateRequeued))
		}
	default:
		prefixes = [][]byte{{tableEnd}}
	}
	hashes := map[uint32]bool{}
	for n := range q.names {
		hashes[nameHash(n)] = true
	}
	tail := func(key, value []byte) error {
		if len(value) == turnLen+4 && len(hashes) > 0 && !hashes[binary.BigEndian.Uint32(value[turnLen:])] {
			return nil
		}
		k, err := tailRecord(key, value)
		if err != nil {
			return damaged(key, err)
		}
		f(k)
		return nil
	}
	for _, p := range prefixes {
		if err := scan(db, appendTime(bytes.Clone(p), max(a.StartUs, 0)), after(p), tail); err != nil {
			return err
		}
	}
	if q.endStatesOnly() {
		return nil
	}
	return scan(db, []byte{tableActive}, []byte{tableActive + 1}, tail)
}

// endStatesOnly: only records that have ended can match.
func (q *query) endStatesOnly() bool {
	if q.states == nil && !q.ask.Requeued {
		return false
	}
	for s := range q.states {
		if !s.Final() {
			return false
		}
	}
	return true
}

// matches holds a record to the question.
func (q *query) matches(k recordKey, r *rows.JobRow) bool {
	a := q.ask
	switch {
	case q.users != nil && !q.users[r.User] && !q.uids[r.Uid],
		q.users == nil && q.uids != nil && !q.uids[r.Uid],
		q.groups != nil && !q.groups[r.Group] && !q.gids[r.Gid],
		q.groups == nil && q.gids != nil && !q.gids[r.Gid],
		q.accounts != nil && !q.accounts[strings.ToLower(r.Account)],
		q.partitions != nil && !q.partitions[strings.ToLower(r.Partition)],
		q.names != nil && !q.names[strings.ToLower(r.Name)],
		q.qos != nil && !q.qos[strings.ToLower(r.Qos)],
		q.wckeys != nil && !q.wckeys[r.Wckey],
		q.assocs != nil && !q.assocs[r.Association],
		slices.ContainsFunc(a.Constraints, func(c string) bool { return !strings.Contains(r.Constraint, c) }),
		q.reasons != nil && !q.reasons[rows.Waited(r)],
		a.CompletedOnly && r.EndUs == 0:
		return false
	}
	if q.selections != nil && !q.selects(k, r) {
		return false
	}
	have := r.Alloc
	if have == nil {
		have = r.Req
	}
	switch {
	case a.MinNodes != 0 && r.Alloc.GetNodes() < a.MinNodes, a.MaxNodes != 0 && r.Alloc.GetNodes() > a.MaxNodes,
		a.MinCpus != 0 && have.GetCpus() < uint64(a.MinCpus), a.MaxCpus != 0 && have.GetCpus() > uint64(a.MaxCpus),
		a.MinLimitS != 0 && r.LimitS < a.MinLimitS, a.MaxLimitS != 0 && r.LimitS > a.MaxLimitS:
		return false
	}
	return q.inWindow(r) && (q.nodes == nil || q.hadNode(r))
}

// inWindow: see AskJobs.
func (q *query) inWindow(r *rows.JobRow) bool {
	from, to := q.ask.StartUs, q.ask.EndUs
	overlaps := func(begin, end int64) bool {
		return (to == 0 || begin <= to) && (end == 0 || end >= from)
	}
	if q.states == nil && !q.ask.Requeued {
		if from == 0 && to == 0 {
			return true
		}
		begin := r.EligibleUs
		if begin == 0 {
			begin = r.StartUs
		}
		if begin == 0 && q.selections != nil { // one that is named is seen from the beginning
			begin = r.SubmitUs
		}
		return begin != 0 && overlaps(begin, r.EndUs) // a job that could not have started was not there
	}
	if q.states[events.JobState_PENDING] {
		left := r.StartUs
		if left == 0 {
			left = r.EndUs
		}
		// A job that left the queue is shown for having been in it only if it was there in the window; one that could not have started
		// was not in it.
		if r.EligibleUs != 0 && overlaps(r.EligibleUs, left) && (left == 0 || from != 0 || q.selections != nil) {
			return true
		}
	}
	start := r.StartUs
	if start == 0 && r.Run == 0 { // what was cancelled before has its start at its end
		start = r.EndUs
	}
	if q.states[events.JobState_RUNNING] && start != 0 && overlaps(start, r.EndUs) && (r.EndUs == 0 && r.State == events.JobState_RUNNING || r.EndUs != 0 && (from != 0 || q.selections != nil)) {
		return true
	}
	if r.EndUs == 0 {
		return r.State != events.JobState_PENDING && q.states[r.State] && overlaps(r.SubmitUs, 0)
	}
	if r.Requeued && q.ask.Requeued || !r.Requeued && !r.Resized && q.states[r.State] {
		return overlaps(r.EndUs, r.EndUs)
	}
	return false
}

func (q *query) hadNode(r *rows.JobRow) bool {
	if r.Nodes == "" {
		return false
	}
	if q.nodes[r.Nodes] {
		return true
	}
	names, err := hostlist.Expand(r.Nodes, hostlist.MaxHosts)
	if err != nil {
		return false
	}
	for _, n := range names {
		if q.nodes[n] {
			return true
		}
	}
	return false
}

// selects: the record is one of those named.
func (q *query) selects(k recordKey, r *rows.JobRow) bool {
	return q.selection(k, r, func(*rows.Selection) bool { return true })
}

// selection reports whether a selection that f accepts names the record.
func (q *query) selection(k recordKey, r *rows.JobRow, f func(*rows.Selection) bool) bool {
	if r.HetId != 0 && q.whole[k.group] && f(&rows.Selection{}) {
		return true
	}
	ids := [2]uint32{k.group, r.Job}
	for i, id := range ids {
		if i == 1 && id == ids[0] {
			break
		}
		for _, s := range q.selections[id] {
			if q.ask.LeaderOnly && r.HetId != 0 && !s.HasComponent && s.Job != r.Job {
				continue
			}
			if s.HasTasks && !hasTask(r, s.Tasks) || s.HasComponent && !q.ask.WholeHet && (r.HetId == 0 || r.HetOffset != s.Component) {
				continue
			}
			if f(s) {
				return true
			}
		}
	}
	return false
}

func hasTask(r *rows.JobRow, tasks events.Words) bool {
	if r.HasTask {
		return tasks.Has(r.ArrayTask)
	}
	return r.ArrayId != 0 && tasks.Intersects(r.Tasks)
}

// wantsStep: some selection names the record as a whole, or this step of it.
func (q *query) wantsStep(k recordKey, r *rows.JobRow, step uint32) bool {
	return q.selections == nil || q.selection(k, r, func(s *rows.Selection) bool { return !s.HasStep || s.Step == step })
}

// wantsJob: the record itself is shown, not only steps of it.
func (q *query) wantsJob(k recordKey, r *rows.JobRow) bool {
	return q.selections == nil || q.selection(k, r, func(s *rows.Selection) bool { return !s.HasStep })
}

// truncate cuts times to the window. What has not ended ends with it, what never began begins at its own end.
func (q *query) truncate(r *rows.JobRow, steps []*rows.StepRow) {
	from, to := q.ask.StartUs, q.ask.EndUs
	cut := func(start, end *int64) {
		if *start != 0 && *start < from {
			*start = from
		}
		if to != 0 && (*end > to || *end == 0) {
			*end = to
		}
		if *start == 0 {
			*start = *end
		}
		if *end != 0 && *end < *start {
			*end = *start
		}
	}
	cut(&r.StartUs, &r.EndUs)
	for _, s := range steps {
		cut(&s.StartUs, &s.EndUs)
	}
}

// run answers from a snapshot of the tables.
func (q *query) run(db pebble.Reader, open *openQuestions, ask *rows.Ask, answer *rows.Answer) error {
	keys, err := q.keys(db, open, ask.After)
	if err != nil {
		return err
	}
	most := int(ask.Limit)
	if most == 0 || most > answerRecords {
		most = answerRecords
	}
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{tableJob}, UpperBound: []byte{tableJob + 1}})
	if err != nil {
		return fmt.Errorf("reading job records: %w", err)
	}
	defer it.Close()
	later, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{tableJob}, UpperBound: []byte{tableJob + 1}})
	if err != nil {
		return fmt.Errorf("reading job records: %w", err)
	}
	defer later.Close()
	size := 0
	var buf []byte
	var kinds *rows.Kinds
	if q.ask.Kinds && q.ask.Allocations && !q.ask.WithAllocation && q.selections == nil {
		kinds = rows.NewKinds(answer)
		most *= kindsMore
	}
	one := &rows.JobRow{}
	next := false // it stands behind the record before, where the next one often is
	for i, at := range keys {
		k := at.recordKey
		buf = jobKey(buf[:0], k)
		if !(next && it.Valid() && bytes.Equal(it.Key(), buf)) && (!it.SeekGE(buf) || !bytes.Equal(it.Key(), buf)) {
			if err := it.Error(); err != nil {
				return fmt.Errorf("reading job records: %w", err)
			}
			continue // an index that outlived its row by a moment cannot be: batches are whole; but nothing to show
		}
		r := one
		if kinds == nil {
			r = &rows.JobRow{}
		} else {
			*r = rows.JobRow{}
		}
		value := len(it.Value())
		if err := r.UnmarshalVT(it.Value()); err != nil {
			return damaged(buf, err)
		}
		next = false
		if !q.shows(k, r) {
			continue
		}
		// Of a job that was requeued only the last run that matches is shown, unless all are wanted. What a run was before it lost a node
		// is always shown.
		several := true
		if q.ask.Allocations {
			next = true
			for it.Next() && len(it.Key()) != 1+recordLen { // its steps
			}
			several = it.Valid() && bytes.HasPrefix(it.Key(), buf[:1+8])
		}
		if several && !q.ask.Duplicates && !r.Resized {
			again, err := q.again(later, k)
			if err != nil {
				return err
			}
			if again {
				continue
			}
		}
		if kinds != nil {
			if n := kinds.Len(); n >= most || kinds.Size() > answerBytes && n > 0 {
				answer.More = open.keep(keys[i-1], keys[i:])
				return nil
			}
			if q.ask.Truncate {
				q.truncate(r, nil)
			}
			if err := kinds.Add(r); err != nil {
				return fmt.Errorf("encoding a record: %w", err)
			}
			continue
		}
		if n := len(answer.Records); n >= most || size > answerBytes && n > 0 {
			answer.More = open.keep(keys[i-1], keys[i:]) // this record is told next time
			return nil
		}
		rec := &rows.Record{Job: r}
		size += value
		if !q.ask.Allocations {
			n, err := q.steps(it, buf, k, rec)
			if err != nil {
				return err
			}
			size += n
		}
		for _, s := range rec.Steps {
			s.SubmitLine, _ = q.sight.Row(r.Uid, s.SubmitLine, nil)
		}
		r.SubmitLine, r.Script = q.sight.Row(r.Uid, r.SubmitLine, r.Script)
		if q.ask.WithAllocation && r.Alloc != nil {
			if rec.Allocation = r.Allocation; r.Allocation == nil {
				a := &rows.AllocationRow{}
				if _, err := get(db, allocationKey(nil, k), a); err != nil {
					return err
				}
				rec.Allocation = a.Allocation
			}
		}
		r.Allocation = nil
		if q.ask.Truncate {
			q.truncate(r, rec.Steps)
		}
		rec.StepsOnly = !q.wantsJob(k, r)
		answer.Records = append(answer.Records, rec)
	}
	return nil
}

// shows: the record matches, and whoever asks may see it.
func (q *query) shows(k recordKey, r *rows.JobRow) bool {
	return q.matches(k, r) && q.sight.SeesJob(r.Uid)
}

// again says whether a later run of the same job is shown too.
func (q *query) again(it *pebble.Iterator, k recordKey) (found bool, err error) {
	k.instance++
	next := jobKey(nil, k)
	for ok := it.SeekGE(next); ok && !found && bytes.HasPrefix(it.Key(), next[:1+8]); ok = it.Next() {
		if len(it.Key()) != 1+recordLen {
			continue // a step
		}
		r := &rows.JobRow{}
		if err := r.UnmarshalVT(it.Value()); err != nil {
			return false, damaged(it.Key(), err)
		}
		found = q.shows(keyOfRow(r), r)
	}
	if err := it.Error(); err != nil {
		return false, fmt.Errorf("looking for later runs: %w", err)
	}
	return found, nil
}

// keys are the records to look at: those that were found for the part before, if they are still known, or found again.
func (q *query) keys(db pebble.Reader, open *openQuestions, more []byte) ([]position, error) {
	if len(more) == 0 {
		return q.candidates(db, nil)
	}
	if len(more) != moreLen {
		return nil, fmt.Errorf("go on behind %x: that is no place in an answer", more)
	}
	behind, err := parsePosition(more, more[turnLen:])
	if err != nil {
		return nil, fmt.Errorf("go on behind %x: %w", more, err)
	}
	if keys := open.take(more); keys != nil {
		return keys, nil
	}
	return q.candidates(db, &behind)
}

func sameJob(a, b *rows.JobRow) bool {
	ka, kb := keyOfRow(a), keyOfRow(b)
	return ka.group == kb.group && ka.place == kb.place
}

// steps reads the steps behind a job's row.
func (q *query) steps(it *pebble.Iterator, key []byte, k recordKey, rec *rows.Record) (size int, err error) {
	for it.Next() && len(it.Key()) == len(key)+4 && bytes.HasPrefix(it.Key(), key) {
		s := &rows.StepRow{}
		if err := s.UnmarshalVT(it.Value()); err != nil {
			return 0, damaged(it.Key(), err)
		}
		if q.wantsStep(k, rec.Job, s.Step) {
			rec.Steps = append(rec.Steps, s)
			size += len(it.Value())
		}
	}
	if err := it.Error(); err != nil {
		return 0, fmt.Errorf("reading steps: %w", err)
	}
	return size, nil
}

// scan calls f with each key and value of a range.
func scan(db pebble.Reader, from, to []byte, f func(key, value []byte) error) error {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return fmt.Errorf("reading table %q: %w", from[:1], err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if err := f(it.Key(), it.Value()); err != nil {
			return err
		}
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("reading table %q: %w", from[:1], err)
	}
	return nil
}
