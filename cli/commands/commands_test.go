package commands

import (
	"errors"
	"testing"

	"stint/cli/wire"
	"stint/events"
)

// What only the agent can see to be wrong with an option is a mistake on the command line; other refusals are of the job.
func TestBadOptions(t *testing.T) {
	for _, c := range []struct {
		err  error
		exit int
	}{
		{&wire.Refused{Code: events.Code_MALFORMED, Text: `Invalid --uid specification: there is no user "x"`}, 255},
		{&wire.Refused{Code: events.Code_MALFORMED, Text: "the job has no script"}, 0},
		{&wire.Refused{Code: events.Code_ACCESS_DENIED, Text: "Invalid --uid specification"}, 0},
		{errors.New("Invalid --uid specification"), 0},
		{nil, 0},
	} {
		got := 0
		if f := badOption(c.err); f != nil {
			got = f.Exit
		}
		if got != c.exit {
			t.Errorf("badOption(%v): exit %d, want %d", c.err, got, c.exit)
		}
	}
}
