package rows

import (
	"slices"
)

// Kinds puts records into an answer as kinds and rows of these (Answer.kinds): many jobs differ in their ids and times alone.
type Kinds struct {
	to      *Answer
	numbers map[string]uint32
	number  uint32
	before  *JobRow
	buf     []byte
	job     uint32
	submit  int64
	size    int
}

// NewKinds begins to put records into an answer.
func NewKinds(to *Answer) *Kinds {
	to.Rows = &JobRows{}
	return &Kinds{to: to, numbers: map[string]uint32{}}
}

// Add adds a record, which is used up. What only few columns show of it is left out.
func (s *Kinds) Add(r *JobRow) error {
	job, submit := r.Job, r.SubmitUs
	eligible, start, end := since(r.EligibleUs, submit), since(r.StartUs, submit), since(r.EndUs, submit)
	r.Job, r.SubmitUs, r.EligibleUs, r.StartUs, r.EndUs = 0, 0, 0, 0, 0
	r.Priority, r.WorkDir, r.SubmitLine, r.StdIn, r.StdOut, r.StdErr, r.UserUs, r.SystemUs, r.SubmittedSeq, r.ChangedSeq = 0, "", "", "", "", "", 0, 0, 0, 0
	r.Script, r.Allocation, r.Steps = nil, nil, 0
	if s.before == nil || !r.EqualVT(s.before) {
		size := r.SizeVT()
		s.buf = slices.Grow(s.buf[:0], size)[:size]
		if _, err := r.MarshalToSizedBufferVT(s.buf); err != nil {
			return err
		}
		n, told := s.numbers[string(s.buf)]
		if !told {
			n = uint32(len(s.numbers))
			s.numbers[string(s.buf)] = n
			s.to.Kinds = append(s.to.Kinds, r.CloneVT())
			s.size += size
		}
		s.number, s.before = n, s.to.Kinds[n]
	}
	to := s.to.Rows
	to.Kinds = append(to.Kinds, s.number)
	to.Jobs = append(to.Jobs, int32(job-s.job))
	to.SubmitsUs = append(to.SubmitsUs, submit-s.submit)
	to.EligiblesUs, to.StartsUs, to.EndsUs = append(to.EligiblesUs, eligible), append(to.StartsUs, start), append(to.EndsUs, end)
	s.job, s.submit = job, submit
	s.size += 20
	return nil
}

// Len is how many records there are, and Size about how many bytes they take.
func (s *Kinds) Len() int  { return len(s.to.Rows.Kinds) }
func (s *Kinds) Size() int { return s.size }

// EachRow calls f with every record that an answer has as a row, in their order. The record is good until the next one.
func (x *Answer) EachRow(f func(*JobRow)) {
	rows := x.GetRows()
	n := min(len(rows.GetKinds()), len(rows.GetJobs()), len(rows.GetSubmitsUs()), len(rows.GetEligiblesUs()), len(rows.GetStartsUs()), len(rows.GetEndsUs()))
	job, submit := uint32(0), int64(0)
	for i := range n {
		job += uint32(rows.Jobs[i])
		submit += rows.SubmitsUs[i]
		if int(rows.Kinds[i]) >= len(x.Kinds) {
			continue
		}
		r := x.Kinds[rows.Kinds[i]] // rows of a kind are told one after another, so its record can be theirs in turn
		r.Job, r.SubmitUs = job, submit
		r.EligibleUs, r.StartUs, r.EndUs = at(rows.EligiblesUs[i], submit), at(rows.StartsUs[i], submit), at(rows.EndsUs[i], submit)
		f(r)
	}
}

// since is a time as JobRows has it, and at the time of which that is since.
func since(us, submit int64) int64 {
	switch {
	case us == 0:
		return 0
	case us >= submit:
		return us - submit + 1
	}
	return us - submit
}

func at(since, submit int64) int64 {
	switch {
	case since == 0:
		return 0
	case since > 0:
		return submit + since - 1
	}
	return submit + since
}
