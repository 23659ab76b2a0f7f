package jet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"stint/events/bus"
)

type wire struct{ b *Bus }

func (w wire) Nudge(subject string, data []byte) error {
	if err := bus.Exact(subject, ">"); err != nil {
		return err
	}
	if err := bus.Fits(data); err != nil {
		return err
	}
	if err := w.b.nc.Publish(subject, data); err != nil {
		return fmt.Errorf("nudging %s: %w", subject, w.b.meaning(err))
	}
	return nil
}

func (w wire) Listen(subject, queue string, fn func(bus.Nudge)) (func(), error) {
	sub, err := w.subscribe(subject, queue, func(m *nats.Msg) { fn(bus.Nudge{Subject: m.Subject, Data: m.Data}) })
	if err != nil {
		return nil, err
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// subscribe subscribes, waits for the server's word that it is so, and then calls fn for each message in turn.
func (w wire) subscribe(subject, queue string, fn func(*nats.Msg)) (*nats.Subscription, error) {
	sub, err := w.b.nc.QueueSubscribeSync(subject, queue)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", subject, w.b.meaning(err))
	}
	// A refusal has come before the answer to the flush, if there is one: while the connection is down the
	// library subscribes when it is back.
	_ = w.b.nc.FlushTimeout(tryTime)
	first, err := sub.NextMsg(time.Nanosecond)
	if errors.Is(err, nats.ErrPermissionViolation) {
		_ = sub.Unsubscribe()
		return nil, fmt.Errorf("listening on %s: %w to %s", subject, bus.ErrDenied, w.b.role)
	}
	go func() {
		ctx := context.Background() // NextMsg returns when the subscription or the connection ends
		if first != nil {
			fn(first)
		}
		for {
			m, err := sub.NextMsgWithContext(ctx)
			switch {
			case err == nil:
				fn(m)
			case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrBadSubscription):
				return
			case errors.Is(err, nats.ErrSlowConsumer):
				w.b.log.Warn("nudges came faster than they were heard; some are lost", "subject", subject)
			default: // refused after a reconnection, until the next one
				_ = pause(ctx, time.Second)
			}
		}
	}()
	return sub, nil
}
