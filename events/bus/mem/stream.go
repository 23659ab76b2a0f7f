package mem

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"time"

	"stint/events/bus"
)

// errRefused is the answer to a condition that does not hold.
var errRefused = errors.New("the condition on the last sequence does not hold")

// stream is one stored sequence of messages. The hub's mutex guards it.
type stream struct {
	name, pattern string
	keep          int // most messages kept; 0 is all

	first     uint64 // sequence of msgs[0], or of the next message if there is none
	msgs      []bus.Message
	bySubject map[string][]uint64
	ids       map[string]uint64
	idAges    []idAge
	changed   chan struct{} // closed and replaced at each change
}

type idAge struct {
	id string
	at time.Time
}

func newStream(name, pattern string, keep int) *stream {
	return &stream{
		name: name, pattern: pattern, keep: keep, first: 1,
		bySubject: map[string][]uint64{}, ids: map[string]uint64{}, changed: make(chan struct{}),
	}
}

func (s *stream) last() uint64 { return s.first + uint64(len(s.msgs)) - 1 }

// lastOf returns the sequence of the subject's last message, 0 if there is none.
func (s *stream) lastOf(subject string) uint64 {
	seqs := s.bySubject[subject]
	if len(seqs) == 0 {
		return 0
	}
	return seqs[len(seqs)-1]
}

func (s *stream) store(at time.Time, subject string, data []byte) uint64 {
	seq := s.last() + 1
	s.msgs = append(s.msgs, bus.Message{Seq: seq, Subject: subject, Time: at.UTC(), Data: bytes.Clone(data)})
	s.bySubject[subject] = append(s.bySubject[subject], seq)
	if s.keep > 0 && len(s.msgs) > s.keep {
		s.trim(s.first + uint64(len(s.msgs)-s.keep))
	}
	s.notify()
	return seq
}

// storeOnce is store for a message with an id.
func (s *stream) storeOnce(at time.Time, subject, id string, data []byte) uint64 {
	for len(s.idAges) > 0 && at.Sub(s.idAges[0].at) > dedupe {
		delete(s.ids, s.idAges[0].id)
		s.idAges = s.idAges[1:]
	}
	if seq, seen := s.ids[id]; seen {
		return seq
	}
	seq := s.store(at, subject, data)
	s.ids[id] = seq
	s.idAges = append(s.idAges, idAge{id, at})
	return seq
}

func (s *stream) trim(before uint64) {
	for s.first < before && len(s.msgs) > 0 {
		m := s.msgs[0]
		s.msgs[0] = bus.Message{}
		s.msgs = s.msgs[1:]
		s.first++
		if rest := s.bySubject[m.Subject][1:]; len(rest) > 0 {
			s.bySubject[m.Subject] = rest
		} else {
			delete(s.bySubject, m.Subject)
		}
	}
	s.notify()
}

func (s *stream) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// holds returns an error if a follower cannot begin at from; complete says that it must not miss any.
func (s *stream) holds(from uint64, complete bool) error {
	if complete && from < s.first {
		return &bus.TrimmedError{From: from, First: s.first}
	}
	if from > s.last()+1 {
		return &bus.AheadError{From: from, Last: s.last()}
	}
	return nil
}

// read returns up to limit messages from from on that match, the sequence to go on from, and whether that is
// the end.
func (s *stream) read(from uint64, limit int, match func(subject string) bool) (msgs []bus.Message, next uint64, end bool) {
	next = max(from, s.first)
	for ; next <= s.last() && len(msgs) < limit; next++ {
		if m := s.msgs[next-s.first]; match(m.Subject) {
			msgs = append(msgs, m)
		}
	}
	return msgs, next, next > s.last()
}

func (s *stream) get(seq uint64) (bus.Message, error) {
	if seq < s.first || seq > s.last() {
		return bus.Message{}, fmt.Errorf("reading %s at %d: %w", s.name, seq, bus.ErrNotFound)
	}
	return s.msgs[seq-s.first], nil
}

func (s *stream) firstAfter(subject string, after uint64) (bus.Message, error) {
	seqs := s.bySubject[subject]
	i := sort.Search(len(seqs), func(i int) bool { return seqs[i] > after })
	if i == len(seqs) {
		return bus.Message{}, fmt.Errorf("reading %s behind %d: %w", subject, after, bus.ErrNotFound)
	}
	return s.get(seqs[i])
}
