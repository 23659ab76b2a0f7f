package ledger

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"

	"stint/events"
	"stint/ledger/rows"
	"stint/projections"
)

// Format is the version of the directory. Any other version is replaced by deleting the directory and replaying
// the log: the tables are a function of EVENTS, so there is nothing to migrate.
const Format = 4

// The tables. The first byte of a key says which; integers are big endian so that keys sort as numbers do.
//
//	m                                 Meta: format and cluster
//	c                                 cursor: the last sequence whose rows are here (8 bytes), its server time (8 bytes)
//	j record                          JobRow
//	j record step                     StepRow, right behind its job
//	l record                          AllocationRow
//	r job                             record of a job whose record does not begin with its own id (array tasks, components)
//	a record                          records that have not ended; the value is their turn (9 bytes)
//	e end record                      records that have ended, by end; the value is their turn and a hash of the job's name (13 bytes)
//	u user 0 end record               … by user and end; likewise
//	s state end record                … by state and end; likewise
//	h hour account 0 user 0           UsageRow
//	d node 0 start sequence           NodeEventRow
//	o node 0                          key of the period of this node that lasts
//	v sequence index                  why a fact or intent was void (index 4294967295: the message)
//	x job chunk                       story: places in the log, packed (see chapter.go)
const (
	tableMeta       = 'm'
	tableCursor     = 'c'
	tableJob        = 'j'
	tableAllocation = 'l'
	tableRaw        = 'r'
	tableActive     = 'a'
	tableEnd        = 'e'
	tableUser       = 'u'
	tableState      = 's'
	tableUsage      = 'h'
	tableNodeEvent  = 'd'
	tableNodeOpen   = 'o'
	tableVoid       = 'v'
	tableStory      = 'x'
)

// recordKey names a record: the group it is shown in (its own id, or the id of its array or het job), its place in
// the group, and its instance.
type recordKey struct {
	group    uint32
	place    uint32
	instance uint32
}

const (
	recordLen = 12

	placeAlone     = 0         // a job that is no part of anything
	placeRemainder = 1<<32 - 1 // the pending remainder of an array, behind its tasks
	placeFirst     = 1         // task t of an array is at place t+1, component c of a het job at c+1
)

func keyOf(j *projections.Job) recordKey {
	instance := j.Restarts + j.Resizes
	switch {
	case j.ArrayId != 0 && j.HasTask:
		return recordKey{j.ArrayId, j.ArrayTask + placeFirst, instance}
	case j.ArrayId != 0:
		return recordKey{j.ArrayId, placeRemainder, instance}
	case j.HetId != 0:
		return recordKey{j.HetId, j.HetOffset + placeFirst, instance}
	default:
		return recordKey{j.Id, placeAlone, instance}
	}
}

func keyOfRow(r *rows.JobRow) recordKey {
	switch {
	case r.ArrayId != 0 && r.HasTask:
		return recordKey{r.ArrayId, r.ArrayTask + placeFirst, r.Instance}
	case r.ArrayId != 0:
		return recordKey{r.ArrayId, placeRemainder, r.Instance}
	case r.HetId != 0:
		return recordKey{r.HetId, r.HetOffset + placeFirst, r.Instance}
	default:
		return recordKey{r.Job, placeAlone, r.Instance}
	}
}

func (k recordKey) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, k.group)
	b = binary.BigEndian.AppendUint32(b, k.place)
	return binary.BigEndian.AppendUint32(b, k.instance)
}

func (k recordKey) compare(o recordKey) int {
	return cmp.Or(cmp.Compare(k.group, o.group), cmp.Compare(k.place, o.place), cmp.Compare(k.instance, o.instance))
}

// position is a record and its turn in an answer.
type position struct {
	turn
	recordKey
}

// turn is what real sacct lists by: the second of submission; within one the jobs that are of no array by their ids, then the
// arrays, task by task. A requeued job is submitted anew. What waits of an array stands behind its tasks, but where it is one task
// only in that task's place.
type turn struct {
	submit uint32 // seconds since 1970
	array  bool
	place  uint32 // in the group
}

const (
	turnLen     = 4 + 1 + 4
	positionLen = turnLen + recordLen
)

func turnOf(k recordKey, r *rows.JobRow) turn {
	t := turn{uint32(max(r.SubmitUs, 0) / 1e6), r.ArrayId != 0, k.place}
	if tasks := events.Words(r.Tasks); r.Rest && tasks.Count() == 1 {
		first, _ := tasks.First()
		t.place = first + placeFirst
	}
	return t
}

func positionOf(k recordKey, r *rows.JobRow) position { return position{turnOf(k, r), k} }

func (p position) compare(o position) int {
	if c := cmp.Compare(p.submit, o.submit); c != 0 {
		return c
	}
	if p.array != o.array {
		if o.array {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(p.group, o.group), cmp.Compare(p.turn.place, o.turn.place), p.recordKey.compare(o.recordKey))
}

func (t turn) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, t.submit)
	if t.array {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	return binary.BigEndian.AppendUint32(b, t.place)
}

func (p position) append(b []byte) []byte { return p.recordKey.append(p.turn.append(b)) }

// parsePosition reads a turn and the key that belongs to it.
func parsePosition(t, key []byte) (position, error) {
	k, err := parseRecordKey(key)
	if err != nil {
		return position{}, err
	}
	if len(t) < turnLen {
		return position{}, fmt.Errorf("a turn of %d bytes", len(t))
	}
	return position{turn{binary.BigEndian.Uint32(t), t[4] != 0, binary.BigEndian.Uint32(t[5:])}, k}, nil
}

func parseRecordKey(b []byte) (recordKey, error) {
	if len(b) < recordLen {
		return recordKey{}, fmt.Errorf("a record key of %d bytes", len(b))
	}
	return recordKey{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])}, nil
}

// tailRecord is the record at the end of an index key, whose value begins with its turn.
func tailRecord(key, value []byte) (position, error) {
	if len(key) < recordLen {
		return position{}, fmt.Errorf("an index key of %d bytes", len(key))
	}
	return parsePosition(value, key[len(key)-recordLen:])
}

func jobKey(b []byte, k recordKey) []byte { return k.append(append(b, tableJob)) }

// stepOrder puts batch, extern and interactive, whose raw ids are the highest, before the numbered steps.
func stepOrder(step uint32) uint32 { return step + 6 }

func stepKey(b []byte, k recordKey, step uint32) []byte {
	return binary.BigEndian.AppendUint32(jobKey(b, k), stepOrder(step))
}

func allocationKey(b []byte, k recordKey) []byte { return k.append(append(b, tableAllocation)) }

func rawKey(b []byte, job uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, tableRaw), job)
}

func activeKey(b []byte, k recordKey) []byte { return k.append(append(b, tableActive)) }

func appendTime(b []byte, us int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(us)) }

func endKey(b []byte, end int64, k recordKey) []byte {
	return k.append(appendTime(append(b, tableEnd), end))
}

func userPrefix(b []byte, user string) []byte {
	return append(appendText(append(b, tableUser), user), 0)
}
func statePrefix(b []byte, state uint32) []byte {
	return append(b, tableState, byte(state))
}

func userKey(b []byte, user string, end int64, k recordKey) []byte {
	return k.append(appendTime(userPrefix(b, user), end))
}

// nameHash is what index rows tell of a name in any case, so that a search by name reads few records of other names (FNV-1a).
func nameHash(name string) uint32 {
	name = strings.ToLower(name)
	h := uint32(2166136261)
	for i := 0; i < len(name); i++ {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return h
}

// stateOf is the byte a record is indexed by: its state, or that it was requeued or resized.
func stateOf(r *rows.JobRow) uint32 {
	switch {
	case r.Requeued:
		return stateRequeued
	case r.Resized:
		return stateResized
	}
	return uint32(r.State)
}

const (
	stateRequeued = 255
	stateResized  = 254
)

func stateKey(b []byte, state uint32, end int64, k recordKey) []byte {
	return k.append(appendTime(statePrefix(b, state), end))
}

func usageKey(b []byte, hour int64, account, user string) []byte {
	b = appendTime(append(b, tableUsage), hour)
	b = append(appendText(b, account), 0)
	return append(appendText(b, user), 0)
}

func nodePrefix(b []byte, table byte, node string) []byte {
	return append(appendText(append(b, table), node), 0)
}

func nodeEventKey(b []byte, node string, start int64, seq uint64) []byte {
	return appendTime(appendTime(nodePrefix(b, tableNodeEvent, node), start), int64(seq))
}

func voidKey(b []byte, seq uint64, index uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(append(b, tableVoid), seq), index)
}

func storyPrefix(b []byte, job uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, tableStory), job)
}

func storyKey(b []byte, job, chunk uint32) []byte {
	return binary.BigEndian.AppendUint32(storyPrefix(b, job), chunk)
}

// appendText writes a text that may hold any byte so that a zero byte can end it: 0 becomes 1 1, 1 becomes 1 2.
func appendText(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case 0:
			b = append(b, 1, 1)
		case 1:
			b = append(b, 1, 2)
		default:
			b = append(b, c)
		}
	}
	return b
}

// after is the least key that does not begin with the prefix, or nil if there is none.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
