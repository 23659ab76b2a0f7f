package jet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"stint/events/bus"
)

// Kept is how a stream is kept.
type Kept struct {
	Name        string
	Missing     bool
	Unfit       string    // what of it cannot be changed and must be otherwise; empty: nothing
	Made        time.Time // when it was made, by the server's clock: a stream that was made anew is another one
	Messages    uint64
	Bytes       uint64
	First, Last uint64    // sequences
	Deleted     int       // sequences between them that have no message
	LastTime    time.Time // when the last message was stored, by the server's clock; zero: none ever was
	Replicas    int
	Leader      string   // the server that takes what is appended, where there are several; empty there: none does
	Behind      []string // servers whose replica is not current, and by how much
}

// Inspect tells of every stream how it is kept, and changes nothing. It needs the admin's credential. The error is of a bus that
// does not answer.
func (b *Bus) Inspect(ctx context.Context) ([]Kept, error) {
	var all []Kept
	for _, cfg := range (Layout{Replicas: 1, UsageAge: 1, UsageBytes: 1}).streams() {
		k := Kept{Name: cfg.Name}
		var stream jetstream.Stream
		err := b.try(ctx, "$JS.API.STREAM.INFO."+cfg.Name, func(ctx context.Context) (err error) {
			stream, err = b.js.Stream(ctx, cfg.Name)
			return err
		})
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			k.Missing = true
			all = append(all, k)
			continue
		case err != nil:
			return all, fmt.Errorf("looking at the stream %s: %w", cfg.Name, err)
		}
		info := stream.CachedInfo()
		cfg.PersistMode = info.Config.PersistMode // Provision judges it by the number of replicas
		var is unfit
		if errors.As(fits(info.Config, cfg), &is) {
			k.Unfit = string(is)
		}
		k.Made = info.Created
		k.Messages, k.Bytes, k.First, k.Last, k.LastTime, k.Replicas = info.State.Msgs, info.State.Bytes, info.State.FirstSeq, info.State.LastSeq, info.State.LastTime, info.Config.Replicas
		k.Deleted = info.State.NumDeleted
		if c := info.Cluster; c != nil && info.Config.Replicas > 1 {
			k.Leader = c.Leader
			for _, r := range c.Replicas {
				switch {
				case r.Offline:
					k.Behind = append(k.Behind, r.Name+" is offline")
				case !r.Current || r.Lag > 0:
					k.Behind = append(k.Behind, fmt.Sprintf("%s is %d behind, last heard %s ago", r.Name, r.Lag, r.Active.Round(time.Millisecond)))
				}
			}
		}
		all = append(all, k)
	}
	return all, nil
}

// Made is when the stream of the log was made, by the server's clock; zero: it is not there. A log that was lost and made anew has another time.
func (b *Bus) Made(ctx context.Context) (time.Time, error) {
	var made time.Time
	err := b.try(ctx, "$JS.API.STREAM.INFO."+bus.EventsStream, func(ctx context.Context) error {
		stream, err := b.js.Stream(ctx, bus.EventsStream)
		if err == nil {
			made = stream.CachedInfo().Created
		}
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("looking up the stream %s: %w", bus.EventsStream, err)
	}
	return made, nil
}
