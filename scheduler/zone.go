package scheduler

import (
	"time"

	"stint/events"
	"stint/projections"
)

// zoneYears is how far ahead the site's local time is told.
const zoneYears = 12

// zoneOf is the local time of the clock's zone, from the beginning of the year it shows: equal all year long, so that the log is
// told once a year.
func zoneOf(now time.Time) *events.Zone {
	at := time.Date(now.Year(), 1, 1, 0, 0, 0, 0, time.UTC).In(now.Location())
	last := at.AddDate(zoneYears, 0, 0)
	_, offset := at.Zone()
	z := &events.Zone{FromUs: at.UnixMicro(), OffsetS: int32(offset)}
	for {
		_, end := at.ZoneBounds()
		if end.IsZero() || end.After(last) {
			return z
		}
		at = end
		if _, next := at.Zone(); next != offset { // a new name alone changes nothing
			offset = next
			z.Shifts = append(z.Shifts, &events.ZoneShift{AtUs: at.UnixMicro(), OffsetS: int32(offset)})
		}
	}
}

// zoned adds the site's local time to what was observed, if crontabs need it and the state has another.
func (c *Controller) zoned(o *events.Observed) *events.Observed {
	if !needsZone(c.state) {
		return o
	}
	now := c.cfg.Clock()
	if z := c.zone; z == nil || time.UnixMicro(z.FromUs).UTC().Year() != now.Year() {
		c.zone = zoneOf(now)
	}
	if c.zone.EqualVT(c.state.Zone()) {
		return o
	}
	if o == nil {
		o = &events.Observed{}
	}
	o.Zone = c.zone
	return o
}

func needsZone(r projections.Reader) bool {
	if len(r.Crontabs()) > 0 {
		return true
	}
	for _, item := range r.Inbox() {
		if item.Intent.GetVerb() == events.Verb_CRONTAB {
			return true
		}
	}
	return false
}
