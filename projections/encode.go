package projections

import (
	"encoding/binary"
	"slices"
	"time"

	"stint/events"
)

// Encode is Reply, encoded. A long list of jobs costs no memory besides what is sent: rows are written one after another from records
// that are used again, and what many jobs have in common is written once, if whoever asks says that this may be (AskJobs.shared).
func Encode(r Reader, outcomes OutcomeSource, ask *Ask) ([]byte, error) {
	q := ask.GetJobs()
	if !q.GetShared() || !q.GetSlim() {
		return Reply(r, outcomes, ask).MarshalVT()
	}
	jobs, unknown, err := jobsFor(r, q, SightOf(r.Config(), ask.Uid))
	if err != nil {
		return Reply(r, outcomes, ask).MarshalVT()
	}
	const head = 48 // room for what stands before the rows, whose length is known last
	each := 64
	if q.GetKinds() {
		each = 0
	}
	e := &rowEncoder{buf: make([]byte, head, head+256+each*len(jobs)), specs: map[*events.JobSpec]uint32{}, owners: map[*events.Owner]uint32{}}
	if q.GetKinds() {
		if err := e.rows(r, outcomes, q, jobs); err != nil {
			return nil, err
		}
		jobs = nil
	}
	for i, j := range jobs {
		if i == 32 { // what they are like is known now
			e.buf = slices.Grow(e.buf, (len(e.buf)-head)/i*(len(jobs)-i))
		}
		if err := e.row(r, outcomes, q, j); err != nil {
			return nil, err
		}
	}
	if unknown {
		e.buf = appendNumber(e.buf, 2, 1)
	}
	size := len(e.buf) - head
	var front [head]byte
	b := appendNumber(front[:0], 1, r.Seq())
	b = appendNumber(b, 2, uint64(r.At()))
	b = appendLength(b, 4, uint64(size))
	copy(e.buf[head-len(b):head], b)
	return e.buf[head-len(b):], nil
}

// appendNumber appends a field that is a number, appendLength what stands before the bytes of one that is a message.
func appendNumber(b []byte, field, n uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, field<<3), n)
}

func appendLength(b []byte, field, n uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, field<<3|2), n)
}

// Stale says in an encoded answer for how long its author has lagged. The answer may be shared: it is not changed.
func Stale(answer []byte, lag time.Duration) []byte {
	return appendNumber(slices.Clip(answer), 50, uint64(lag.Microseconds()))
}

// rowEncoder writes the fields of an AnswerJobs.
type rowEncoder struct {
	buf    []byte
	view   JobView
	job    Job
	thin   events.JobSpec
	specs  map[*events.JobSpec]uint32
	owners map[*events.Owner]uint32
	spec   *events.JobSpec // of the row before, which the next most often has too
	owner  *events.Owner
	specN  uint32
	ownerN uint32
}

type sized interface {
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
}

func (e *rowEncoder) add(field uint64, m sized) error {
	n := m.SizeVT()
	e.buf = appendLength(e.buf, field, uint64(n))
	at := len(e.buf)
	e.buf = slices.Grow(e.buf, n)[:at+n]
	_, err := m.MarshalToSizedBufferVT(e.buf[at:])
	return err
}

func (e *rowEncoder) row(r Reader, outcomes OutcomeSource, q *AskJobs, j *Job) error {
	if err := e.look(&e.view, &e.job, r, outcomes, q, j); err != nil {
		return err
	}
	return e.add(1, &e.view)
}

// look makes the view of a job that is sent, and writes what it has in common with others where that is not told yet.
func (e *rowEncoder) look(v *JobView, job *Job, r Reader, outcomes OutcomeSource, q *AskJobs, j *Job) error {
	if j.Spec != e.spec || e.specN == 0 {
		n, told := e.specs[j.Spec]
		if !told {
			n = uint32(len(e.specs) + 1)
			e.specs[j.Spec] = n
			slimSpec(&e.thin, j.Spec)
			if err := e.add(3, &e.thin); err != nil {
				return err
			}
		}
		e.spec, e.specN = j.Spec, n
	}
	if j.Owner != e.owner || e.ownerN == 0 {
		n, told := e.owners[j.Owner]
		if !told {
			n = uint32(len(e.owners) + 1)
			e.owners[j.Owner] = n
			if err := e.add(4, slimOwner(j.Owner)); err != nil {
				return err
			}
		}
		e.owner, e.ownerN = j.Owner, n
	}
	j.copyTo(job)
	job.Usage, job.Signals, job.Spec, job.Owner = nil, nil, nil, nil
	v.Job, v.Outcome, v.Array, v.Arrays, v.Association, v.Spec, v.Owner = job, nil, nil, v.Arrays[:0], 0, e.specN, e.ownerN
	see(v, r, outcomes, j)
	if q.GetAssociations() {
		v.Association = associationOf(r, j)
	}
	return nil
}

// kindOf is a job's view without what JobRows has of it.
type kindOf struct {
	view    JobView
	job     Job
	outcome Outcome
}

// rows writes jobs as kinds and rows of these. Most jobs are of the kind of the one before, so that is looked at first.
func (e *rowEncoder) rows(r Reader, outcomes OutcomeSource, q *AskJobs, jobs []*Job) error {
	var columns [6][]byte
	for i := range columns {
		columns[i] = make([]byte, 0, len(jobs)+len(jobs)/4+64)
	}
	put := func(column int, n int64) {
		columns[column] = binary.AppendVarint(columns[column], n)
	}
	var two [2]kindOf
	k, before := &two[0], &two[1]
	numbers := map[string]uint32{}
	number := uint32(0)
	var buf []byte
	var last Job
	for i, j := range jobs {
		if err := e.look(&k.view, &k.job, r, outcomes, q, j); err != nil {
			return err
		}
		o := &k.job
		o.Id, o.SubmitUs, o.Priority, o.EligibleUs, o.AccrueUs, o.SubmittedSeq, o.ChangedSeq, o.PlacedSeq = 0, 0, 0, 0, 0, 0, 0, 0
		if out := k.view.Outcome; out != nil {
			k.outcome = Outcome{Reason: out.Reason, Text: out.Text, StartUs: out.StartUs, Nodes: out.Nodes}
			k.view.Outcome = &k.outcome
		}
		if i == 0 || !k.view.EqualVT(&before.view) {
			size := k.view.SizeVT()
			buf = slices.Grow(buf[:0], size)[:size]
			if _, err := k.view.MarshalToSizedBufferVT(buf); err != nil {
				return err
			}
			n, told := numbers[string(buf)]
			if !told {
				n = uint32(len(numbers))
				numbers[string(buf)] = n
				e.buf = append(appendLength(e.buf, 5, uint64(size)), buf...)
			}
			number = n
			k, before = before, k
		}
		columns[0] = binary.AppendUvarint(columns[0], uint64(number))
		put(1, int64(int32(j.Id-last.Id)))
		put(2, j.SubmitUs-last.SubmitUs)
		put(3, int64(j.Priority)-int64(last.Priority))
		put(4, sinceSubmit(j.EligibleUs, j.SubmitUs))
		put(5, sinceSubmit(j.AccrueUs, j.SubmitUs))
		last.Id, last.SubmitUs, last.Priority = j.Id, j.SubmitUs, j.Priority
	}
	var rows []byte
	for i, c := range columns {
		rows = append(appendLength(rows, uint64(i+1), uint64(len(c))), c...)
	}
	e.buf = append(appendLength(e.buf, 6, uint64(len(rows))), rows...)
	return nil
}

// sinceSubmit is a time as JobRows has it.
func sinceSubmit(us, submit int64) int64 {
	switch {
	case us == 0:
		return 0
	case us >= submit:
		return us - submit + 1
	}
	return us - submit
}

// submitPlus is the time of which that is sinceSubmit.
func submitPlus(since, submit int64) int64 {
	switch {
	case since == 0:
		return 0
	case since > 0:
		return submit + since - 1
	}
	return submit + since
}

// JobRow is what a job has of its own beside its kind.
type JobRow struct {
	Kind                           int
	Id, Priority                   uint32
	SubmitUs, EligibleUs, AccrueUs int64
}

// Each calls f with every row, in their order. Rows of which a column lacks are none.
func (x *JobRows) Each(f func(JobRow)) {
	var r JobRow
	n := min(len(x.GetKinds()), len(x.GetIds()), len(x.GetSubmitsUs()), len(x.GetPriorities()), len(x.GetEligiblesUs()), len(x.GetAccruesUs()))
	for i := range n {
		r.Kind = int(x.Kinds[i])
		r.Id += uint32(x.Ids[i])
		r.SubmitUs += x.SubmitsUs[i]
		r.Priority = uint32(int64(r.Priority) + x.Priorities[i])
		r.EligibleUs, r.AccrueUs = submitPlus(x.EligiblesUs[i], r.SubmitUs), submitPlus(x.AccruesUs[i], r.SubmitUs)
		f(r)
	}
}

// Unshare gives the jobs of an answer what was told of them once.
func (a *AnswerJobs) Unshare() {
	a.unshare(a.GetJobs())
	a.unshare(a.GetKinds())
	a.Specs, a.Owners = nil, nil
}

func (a *AnswerJobs) unshare(views []*JobView) {
	for _, v := range views {
		if n := v.Spec; n > 0 && int(n) <= len(a.Specs) && v.Job != nil {
			v.Job.Spec, v.Spec = a.Specs[n-1], 0
		}
		if n := v.Owner; n > 0 && int(n) <= len(a.Owners) && v.Job != nil {
			v.Job.Owner, v.Owner = a.Owners[n-1], 0
		}
	}
}

// SeqOf is the sequence that an encoded Answer is current to.
func SeqOf(answer []byte) uint64 {
	if len(answer) == 0 || answer[0] != 1<<3 { // fields are written in their order
		return 0
	}
	seq, _ := binary.Uvarint(answer[1:])
	return seq
}
