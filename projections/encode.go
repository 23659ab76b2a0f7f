package projections

import (
	"encoding/binary"
	"slices"

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
	e := &rowEncoder{buf: make([]byte, head, head+256+64*len(jobs)), specs: map[*events.JobSpec]uint32{}, owners: map[*events.Owner]uint32{}}
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
	j.copyTo(&e.job)
	e.job.Usage, e.job.Signals, e.job.Spec, e.job.Owner = nil, nil, nil, nil
	v := &e.view
	v.Job, v.Outcome, v.Array, v.Arrays, v.Association, v.Spec, v.Owner = &e.job, nil, nil, v.Arrays[:0], 0, e.specN, e.ownerN
	see(v, r, outcomes, j)
	if q.GetAssociations() {
		v.Association = associationOf(r, j)
	}
	return e.add(1, v)
}

// Unshare gives the jobs of an answer what was told of them once.
func (a *AnswerJobs) Unshare() {
	for _, v := range a.GetJobs() {
		if n := v.Spec; n > 0 && int(n) <= len(a.Specs) && v.Job != nil {
			v.Job.Spec, v.Spec = a.Specs[n-1], 0
		}
		if n := v.Owner; n > 0 && int(n) <= len(a.Owners) && v.Job != nil {
			v.Job.Owner, v.Owner = a.Owners[n-1], 0
		}
	}
	a.Specs, a.Owners = nil, nil
}

// SeqOf is the sequence that an encoded Answer is current to.
func SeqOf(answer []byte) uint64 {
	if len(answer) == 0 || answer[0] != 1<<3 { // fields are written in their order
		return 0
	}
	seq, _ := binary.Uvarint(answer[1:])
	return seq
}
