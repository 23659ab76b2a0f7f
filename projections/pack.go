package projections

import (
	"encoding/binary"
	"errors"
	"fmt"

	"stint/events"
)

// Pack encodes a snapshot for a file. Requests and owners that jobs have in common are in it once, as they are in memory: fifty thousand jobs
// of a loop are 2 MB instead of 20, and are read without making each request anew. What the state hashes to is another encoding.
//
//	snapshot without jobs, count and requests, count and owners, count and jobs: request and owner (places in the lists from 1, 0: none), job without them
//
// Counts, places and lengths are varints; each record follows its length.
func (s *Snapshot) Pack() ([]byte, error) {
	jobs := s.Jobs
	s.Jobs = nil
	bare, err := s.MarshalVT()
	s.Jobs = jobs
	if err != nil {
		return nil, fmt.Errorf("encoding the state at %d: %w", s.Seq, err)
	}
	specs, owners := map[*events.JobSpec]uint64{}, map[*events.Owner]uint64{}
	var specList []*events.JobSpec
	var ownerList []*events.Owner
	for _, j := range jobs {
		if j.Spec != nil && specs[j.Spec] == 0 {
			specList = append(specList, j.Spec)
			specs[j.Spec] = uint64(len(specList))
		}
		if j.Owner != nil && owners[j.Owner] == 0 {
			ownerList = append(ownerList, j.Owner)
			owners[j.Owner] = uint64(len(ownerList))
		}
	}
	b := make([]byte, 0, len(bare)+512*len(specList)+64*len(ownerList)+80*len(jobs)+64)
	b = append(binary.AppendUvarint(b, uint64(len(bare))), bare...)
	b = binary.AppendUvarint(b, uint64(len(specList)))
	for _, x := range specList {
		if b, err = appendRecord(b, x); err != nil {
			return nil, fmt.Errorf("encoding a request: %w", err)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(ownerList)))
	for _, x := range ownerList {
		if b, err = appendRecord(b, x); err != nil {
			return nil, fmt.Errorf("encoding an owner: %w", err)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(jobs)))
	rest := new(Job)
	for _, j := range jobs {
		b = binary.AppendUvarint(binary.AppendUvarint(b, specs[j.Spec]), owners[j.Owner])
		j.copyTo(rest)
		rest.Spec, rest.Owner = nil, nil
		if b, err = appendRecord(b, rest); err != nil {
			return nil, fmt.Errorf("encoding job %d: %w", j.Id, err)
		}
	}
	return b, nil
}

func appendRecord(b []byte, m interface {
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
}) ([]byte, error) {
	n := m.SizeVT()
	b = binary.AppendUvarint(b, uint64(n))
	from := len(b)
	b = append(b, make([]byte, n)...)
	_, err := m.MarshalToSizedBufferVT(b[from:])
	return b, err
}

// errPacked: what was read was not written by Pack.
var errPacked = errors.New("these are not the bytes of a snapshot")

// Unpack reads what Pack wrote. The snapshot shares no memory with data.
func Unpack(data []byte) (*Snapshot, error) {
	r := unpacker{rest: data}
	s := &Snapshot{}
	r.record(s)
	specs := make([]*events.JobSpec, r.count())
	for i := range specs {
		specs[i] = &events.JobSpec{}
		r.record(specs[i])
	}
	owners := make([]*events.Owner, r.count())
	for i := range owners {
		owners[i] = &events.Owner{}
		r.record(owners[i])
	}
	s.Jobs = make([]*Job, r.count())
	for i := range s.Jobs {
		j := new(Job)
		spec, owner := r.number(), r.number()
		r.record(j)
		if r.err != nil || spec > uint64(len(specs)) || owner > uint64(len(owners)) {
			return nil, errors.Join(errPacked, r.err)
		}
		if spec > 0 {
			j.Spec = specs[spec-1]
		}
		if owner > 0 {
			j.Owner = owners[owner-1]
		}
		s.Jobs[i] = j
	}
	if r.err != nil || len(r.rest) > 0 {
		return nil, errors.Join(errPacked, r.err)
	}
	return s, nil
}

// unpacker takes records off the front of what is left. After the first error there is nothing left.
type unpacker struct {
	rest []byte
	err  error
}

func (r *unpacker) fail(err error) { r.rest, r.err = nil, errors.Join(r.err, err) }

func (r *unpacker) number() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		if r.err == nil {
			r.fail(errPacked)
		}
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// count is a number of records, each of which takes a byte at least.
func (r *unpacker) count() uint64 {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.fail(errPacked)
		return 0
	}
	return n
}

func (r *unpacker) record(m interface{ UnmarshalVT([]byte) error }) {
	n := r.number()
	if r.err != nil || n > uint64(len(r.rest)) {
		if r.err == nil {
			r.fail(errPacked)
		}
		return
	}
	if err := m.UnmarshalVT(r.rest[:n]); err != nil {
		r.fail(err)
		return
	}
	r.rest = r.rest[n:]
}
