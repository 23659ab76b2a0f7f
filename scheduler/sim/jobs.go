package sim

import (
	"context"
	"time"

	"stint/events/bus"
)

// jobStream is the stream JOBS.
type jobStream struct {
	w    *World
	list []bus.Message
}

func (s *jobStream) Last(context.Context) (bus.Message, error) {
	if len(s.list) == 0 {
		return bus.Message{}, bus.ErrNotFound
	}
	return s.list[len(s.list)-1], nil
}

// Bounds are the log's, for a feed that looks whether a place is one of it.
func (s *jobStream) Bounds(context.Context) (first, last uint64, err error) {
	return 1, uint64(len(s.w.log)), nil
}

func (s *jobStream) Get(_ context.Context, seq uint64) (bus.Message, error) {
	if seq == 0 || seq > uint64(len(s.list)) {
		return bus.Message{}, bus.ErrNotFound
	}
	return s.list[seq-1], nil
}

// Append stores entries behind the sequence after. Whoever derives writes the same bytes, so what is there already counts as stored.
// Now and then it stores some of them only, or does not say that it has.
func (s *jobStream) Append(_ context.Context, after uint64, entries []bus.Entry) (uint64, error) {
	if after > uint64(len(s.list)) {
		return 0, bus.ErrDeposed
	}
	most, fails := len(entries), s.w.faulty && s.w.rng.IntN(20) == 0
	if fails {
		most = s.w.rng.IntN(most + 1)
	}
	if fails && s.w.flaw == flawFeedLost { // the first of them: lost ones at the end are put there again
		entries, most = entries[1:], len(entries)-1
	}
	for i, e := range entries[:most] {
		if at := after + uint64(i); at < uint64(len(s.list)) && s.w.flaw != flawFeed {
			if m := s.list[at]; m.Subject != e.Subject || string(m.Data) != string(e.Data) {
				return 0, bus.ErrDeposed
			}
			continue
		}
		s.list = append(s.list, bus.Message{Seq: uint64(len(s.list)) + 1, Subject: e.Subject, Time: time.UnixMicro(s.w.now), Data: e.Data})
	}
	if fails && s.w.flaw != flawFeedLost {
		return 0, bus.ErrUnsettled
	}
	return after + uint64(len(entries)), nil
}

func (s *jobStream) Follow(context.Context, string, uint64, func(bus.Batch) error) error {
	return bus.ErrClosed
}
