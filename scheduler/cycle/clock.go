package cycle

import "stint/events"

// Clock is a leader's time, microseconds since 1970. It goes on by a clock that nobody sets, never back, and forward with the clocks that people and
// the log go by, so that nothing waits for a time that they have passed. What it went forward that way is no time that runs had.
type Clock struct {
	base, read int64 // the time when the clock that nobody sets showed read
	set        int64
}

// Begin sets it at the beginning of a term. mono is of a clock that nobody sets, microseconds.
func (k *Clock) Begin(now, mono int64) { *k = Clock{base: now, read: mono} }

// Now is the time while the clock of the host shows wall, the log's last message was stamped logged, and the clock that nobody sets shows mono.
func (k *Clock) Now(wall, logged, mono int64) int64 {
	now := k.base + max(0, mono-k.read)
	if ahead := max(wall, logged) - now; ahead > 0 {
		if ahead > events.ClockSetUs {
			k.set += ahead
		}
		now += ahead
	}
	k.base, k.read = now, max(k.read, mono)
	return now
}

// Unrecorded is by how much clocks were set forward in the term beyond what the log says of it.
func (k *Clock) Unrecorded(recorded int64) int64 { return max(0, k.set-recorded) }

// ObserveClock adds to what a leader saw that clocks were set forward by this; 0: they were not.
func ObserveClock(o *events.Observed, by int64) *events.Observed {
	if by == 0 {
		return o
	}
	if o == nil {
		o = &events.Observed{}
	}
	o.ClockSetUs = by
	return o
}
