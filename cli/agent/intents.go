package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"stint/events"
	"stint/events/bus"
)

const (
	batchMost       = 256 << 10 // bytes of intents in one message
	outstandingMost = 2         // messages on their way at a time: what comes meanwhile is packed together
)

// intents packs what waits into messages and appends them on the host's subject, without condition: the order among
// intents means nothing, and each has a nonce that the fold knows it by.
type intents struct {
	log     bus.Log
	subject string
	logger  *slog.Logger
	queue   chan *waiting
}

// waiting is how many acts wait to be appended.
func (i *intents) waiting() int { return len(i.queue) }

// waiting is one intent and where its author waits for the word that it is kept.
type waiting struct {
	intent *events.Intent
	kept   chan place // one word, then nothing
	taken  bool
}

// place is where in the log an intent lies.
type place struct {
	seq   uint64
	index uint32
	count uint32 // intents in that message
	err   error
}

func newIntents(log bus.Log, subject string, logger *slog.Logger) *intents {
	return &intents{log: log, subject: subject, logger: logger, queue: make(chan *waiting, 4096)}
}

// put hands intents over and returns where each will say its place. It fails when ctx ends before they are taken.
func (q *intents) put(ctx context.Context, all []*events.Intent) ([]*waiting, error) {
	out := make([]*waiting, len(all))
	for i, in := range all {
		out[i] = &waiting{intent: in, kept: make(chan place, 1)}
	}
	for _, w := range out {
		select {
		case q.queue <- w:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return out, nil
}

// run packs and appends until ctx ends. A message is sent again, the same bytes under the same id, until the bus has it.
func (q *intents) run(ctx context.Context) {
	slots := make(chan struct{}, outstandingMost)
	var left *waiting // did not fit into the last message
	for {
		var batch []*waiting
		size := 0
		if left == nil {
			select {
			case <-ctx.Done():
				return
			case left = <-q.queue:
			}
		}
		select { // while all slots are taken, more arrives
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		for left != nil {
			n := left.intent.SizeVT() + 8
			if len(batch) > 0 && size+n > batchMost {
				break
			}
			batch, size, left = append(batch, left), size+n, nil
			select {
			case left = <-q.queue:
			default:
			}
		}
		go func() {
			defer func() { <-slots }()
			q.send(ctx, batch)
		}()
	}
}

func (q *intents) send(ctx context.Context, batch []*waiting) {
	m := &events.IntentBatch{}
	for _, w := range batch {
		m.Intents = append(m.Intents, w.intent)
	}
	data, err := m.MarshalVT()
	var seq uint64
	id := hex.EncodeToString(nonce())
	for err == nil {
		seq, err = q.log.Publish(ctx, q.subject, id, data)
		if err == nil || ctx.Err() != nil || !errors.Is(err, bus.ErrUnsettled) {
			break
		}
		q.logger.Warn("intents are not acknowledged yet", "count", len(batch), "error", err)
		err = nil
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	for i, w := range batch {
		w.kept <- place{seq: seq, index: uint32(i), count: uint32(len(batch)), err: err}
	}
}

func nonce() []byte {
	n := make([]byte, 16)
	rand.Read(n)
	return n
}
