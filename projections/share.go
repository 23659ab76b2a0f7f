package projections

import "stint/events"

// sharing has equal requests and owners of jobs be one record in memory: the thousand jobs of a loop differ in little else than their ids. It
// remembers those admitted lately, a fixed number. It is no state: which record a job has is nothing that anybody can tell.
type sharing struct {
	last   [2]*events.JobSpec // the one that was asked for last, and its equal: decoding shares what follows an equal one
	specs  [1024]*events.JobSpec
	owners [256]*events.Owner
}

// hashed takes bytes of a string into a hash.
func hashed(h uint32, s string) uint32 {
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

// spec is a record that is equal to one, which is kept from here on if there was none.
func (s *sharing) spec(spec *events.JobSpec) *events.JobSpec {
	if s == nil || spec == nil {
		return spec
	}
	if s.last[0] == spec {
		return s.last[1]
	}
	h := hashed(2166136261, spec.Name)
	h = hashed(hashed(hashed(h, spec.SubmitLine), spec.Command), spec.Script.GetSubject())
	h = (h ^ uint32(spec.Script.GetOffset())) * 16777619
	at := &s.specs[h%uint32(len(s.specs))]
	if *at == nil || !(*at).EqualVT(spec) {
		*at = spec
	}
	s.last = [2]*events.JobSpec{spec, *at}
	return *at
}

func (s *sharing) owner(o *events.Owner) *events.Owner {
	if s == nil || o == nil {
		return o
	}
	at := &s.owners[hashed((2166136261^o.Uid)*16777619, o.User)%uint32(len(s.owners))]
	if *at == nil || !(*at).EqualVT(o) {
		*at = o
	}
	return *at
}
