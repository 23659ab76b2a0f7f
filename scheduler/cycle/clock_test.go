package cycle_test

import (
	"testing"

	"stint/scheduler/cycle"
)

// A leader's time goes forward with the clocks that people and the log go by, never back, and knows how much of it did not pass.
func TestClock(t *testing.T) {
	const s, hour, epoch = 1_000_000, 3_600_000_000, 1_700_000_000_000_000
	var k cycle.Clock
	k.Begin(epoch, 50*s)
	for _, step := range []struct {
		what               string
		wall, logged, mono int64
		now, set           int64
	}{
		{"time passes", epoch + 10*s, epoch + 9*s, 60 * s, epoch + 10*s, 0},
		{"the clock is put right by three seconds: nothing waits for them", epoch + 14*s, epoch + 9*s, 61 * s, epoch + 14*s, 0},
		{"it is set forward by an hour", epoch + hour + 15*s, epoch + 9*s, 62 * s, epoch + hour + 15*s, hour},
		{"and that is told once", epoch + hour + 16*s, epoch + 9*s, 63 * s, epoch + hour + 16*s, hour},
		{"it is set back by two", epoch - hour + 17*s, epoch + 9*s, 64 * s, epoch + hour + 17*s, hour},
		{"and forward by three: by one beyond what was", epoch + 2*hour + 18*s, epoch + 9*s, 65 * s, epoch + 2*hour + 18*s, 2 * hour},
		{"the host of the log has another time", epoch + 2*hour + 19*s, epoch + 3*hour, 66 * s, epoch + 3*hour, 3*hour - 18*s - s},
	} {
		now := k.Now(step.wall, step.logged, step.mono)
		if now != step.now || k.Unrecorded(0) != step.set {
			t.Errorf("%s: it is %d s, set by %d s; want %d s, %d s", step.what, (now-epoch)/s, k.Unrecorded(0)/s, (step.now-epoch)/s, step.set/s)
		}
	}
	if got := k.Unrecorded(3 * hour); got != 0 {
		t.Errorf("what is in the log already is told again: %d", got)
	}
}
