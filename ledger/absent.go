package ledger

import (
	"context"
	"fmt"

	"stint/events"
	"stint/events/bus"
	"stint/ledger/rows"
)

// Absent answers questions in the place of a ledger that cannot be opened, with why, until ctx ends.
func Absent(ctx context.Context, b bus.Bus, why error) error {
	data, err := (&rows.Answer{Error: "accounting is not there: " + why.Error()}).MarshalVT()
	if err != nil {
		return err
	}
	stop, err := b.Wire().Answer(events.SubjectAsk(rows.View), "ledger", func(context.Context, bus.Nudge) ([]byte, error) { return data, nil })
	if err != nil {
		return fmt.Errorf("answering that accounting is not there: %w", err)
	}
	defer stop()
	<-ctx.Done()
	return nil
}
