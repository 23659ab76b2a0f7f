package bus

import (
	"context"
	"time"
)

// Tell nudges subject with what what returns, at once and then each time, until ctx ends. What cannot be sent is not: the next
// one says more.
func Tell(ctx context.Context, w Wire, subject string, each time.Duration, what func() []byte) {
	t := time.NewTicker(each)
	defer t.Stop()
	for {
		_ = w.Nudge(subject, what())
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}
