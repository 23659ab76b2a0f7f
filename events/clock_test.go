package events_test

import (
	"testing"

	"stint/events"
)

func TestOver(t *testing.T) {
	const s, hour, begin = 1_000_000, 3_600_000_000, 1_700_000_000_000_000
	for name, c := range map[string]struct{ passed, at, want int64 }{
		"nobody set it":                   {20 * s, begin + 20*s, begin + 20*s},
		"told a little late":              {20 * s, begin + 29*s, begin + 29*s},
		"set back an hour":                {20 * s, begin + 20*s - hour, begin + 20*s},
		"set back, and held to its start": {20 * s, begin, begin + 20*s},
		"set forward an hour":             {20 * s, begin + 20*s + hour, begin + 20*s},
		"nobody knows what passed":        {0, begin + hour, begin + hour},
	} {
		if got := (&events.StepExited{ElapsedUs: c.passed}).Over(begin, c.at); got != c.want {
			t.Errorf("%s: over after %d s, want %d", name, (got-begin)/s, (c.want-begin)/s)
		}
	}
}
