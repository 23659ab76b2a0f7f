package events

// ClockSetUs is by how much the time between a step's beginning and its end, or between two looks at the clock, may differ from the time that
// passed, microseconds, before it is taken that somebody has set a clock meanwhile.
const ClockSetUs = 10_000_000

// Over is when a step was over that began at start and ended at the given time by a node's clock, which may have been set in between; all in
// microseconds. The time that passed is measured by a clock that nobody sets, so where the two disagree it is right.
func (x *StepExited) Over(start, at int64) int64 {
	passed := x.GetElapsedUs()
	if off := at - start - passed; passed > 0 && start > 0 && (off > ClockSetUs || off < -ClockSetUs) {
		return start + passed
	}
	return at
}
