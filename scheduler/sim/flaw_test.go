package sim

import (
	"regexp"
	"testing"
)

// TestTheAuditorSees has worlds do one thing wrong each, and wants the auditor to say what: one that never complains proves nothing.
func TestTheAuditorSees(t *testing.T) {
	const most = 20 // histories
	for seed := uint64(1); seed <= most; seed++ {
		if _, err := play(seed, 0, flawNone, nil); err != nil {
			t.Errorf("nothing is wrong in history %d (go test ./scheduler/sim -run Story -seed %d -flaw '%s'): %v", seed, seed, flawNone, err)
		}
	}
	for _, one := range []struct {
		flaw      flaw
		complaint string
	}{
		{flawFence, `decided what is void|lost its own subject`},
		{flawLostAck, `told that it is kept is not in the log`},
		{flawNonce, `an intent counts twice`},
		{flawEarly, `told that it is kept is not in the log`},
		{flawAnswer, `its author was told`},
		{flawBegun, `started twice`},
		{flawForgets, `lives on|at once`},
		{flawCode, `which is not what happened there`},
		{flawEnd, `do not end`},
		{flawOccupied, `CPUs .* run jobs|serves jobs|jobs on .* have`},
		{flawOff, `CPUs .* run jobs|serves jobs|runs .* of job .* at once|jobs on .* have`},
		{flawSkips, `another state`},
		{flawSnapshot, `another state`},
		{flawTwice, `decided what is void`},
		{flawMemory, `without memory decides otherwise`},
		{flawFeed, `JOBS`},
		{flawFeedLost, `JOBS`},
		{flawRows, `other rows`},
		{flawUsage, `of CPU time as its nodes told`},
	} {
		t.Run(string(one.flaw), func(t *testing.T) {
			for seed := uint64(1); seed <= most; seed++ {
				_, err := play(seed, 0, one.flaw, nil)
				switch {
				case err == nil:
				case !regexp.MustCompile(one.complaint).MatchString(err.Error()):
					t.Fatalf("history %d: %v", seed, err)
				default:
					t.Logf("history %d: %.200v", seed, err)
					return
				}
			}
			t.Fatalf("%d histories, and no complaint", most)
		})
	}
}
