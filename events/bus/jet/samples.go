package jet

import (
	"context"
	"fmt"
	"time"

	"stint/events/bus"
)

type samples struct{ b *Bus }

func (s samples) Publish(ctx context.Context, subject, id string, data []byte) error {
	_, err := s.b.publishOnce(ctx, bus.UsageStream, bus.UsageSubjects, subject, id, data)
	return err
}

func (s samples) Last(ctx context.Context, subject string) (bus.Message, error) {
	if err := bus.Exact(subject, bus.UsageSubjects); err != nil {
		return bus.Message{}, err
	}
	m, err := s.b.last(ctx, bus.UsageStream, subject)
	if err != nil {
		return bus.Message{}, fmt.Errorf("reading the last of %s: %w", subject, err)
	}
	return m.Message, nil
}

func (s samples) Follow(ctx context.Context, filter string, since time.Time, fn func(bus.Batch) error) error {
	f := follower{b: s.b, stream: bus.UsageStream, filter: filter, since: since}
	return f.run(ctx, fn)
}
