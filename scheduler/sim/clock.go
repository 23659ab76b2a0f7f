package sim

// leap is a moment from which on all clocks show something else.
type leap struct{ at, by int64 }

// SetClocks sets the clocks of all hosts forward (or back) by microseconds. Time passes as before.
func (w *World) SetClocks(by int64) {
	w.tell("all clocks are set by %d s", by/Second)
	w.leaps = append(w.leaps, leap{w.now, by})
}

// wall is what clocks showed at a moment.
func (w *World) wall(at int64) int64 {
	shown := at
	for _, l := range w.leaps {
		if l.at <= at {
			shown += l.by
		}
	}
	return shown
}

// latest is the latest time of day that any clock can show which was set with the others and never went back since.
func (w *World) latest() int64 {
	offset, most := int64(0), int64(0)
	for _, l := range w.leaps {
		offset += l.by
		most = max(most, offset)
	}
	return w.now + most
}
