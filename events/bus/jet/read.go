package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"stint/events/bus"
)

// stored is a message with its headers.
type stored struct {
	bus.Message
	header nats.Header
}

// leaderGet asks the leader of a stream for a message. Direct gets are quicker, but any replica answers them, and one
// that is behind would deny what was acknowledged a moment ago.
func (b *Bus) leaderGet(ctx context.Context, stream string, query leaderQuery) (stored, error) {
	request, err := json.Marshal(query)
	if err != nil {
		return stored{}, err
	}
	subject := "$JS.API.STREAM.MSG.GET." + stream
	var reply struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	err = b.try(ctx, subject, func(ctx context.Context) error {
		m, err := b.nc.RequestWithContext(ctx, subject, request)
		if err != nil {
			return err
		}
		return json.Unmarshal(m.Data, &reply)
	})
	switch {
	case err != nil:
		return stored{}, err
	case reply.Error != nil && reply.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return stored{}, bus.ErrNotFound
	case reply.Error != nil:
		return stored{}, reply.Error
	case reply.Message == nil:
		return stored{}, errors.New("the server answered without a message")
	}
	m := reply.Message
	got := stored{Message: bus.Message{Seq: m.Seq, Subject: m.Subject, Time: m.Time.UTC(), Data: m.Data}}
	if len(m.Header) > 0 {
		if got.header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			return stored{}, fmt.Errorf("headers of %s at %d: %w", stream, m.Seq, err)
		}
	}
	return got, nil
}

type leaderQuery struct {
	Seq       uint64 `json:"seq,omitempty"`
	NextOf    string `json:"next_by_subj,omitempty"`
	LastOf    string `json:"last_by_subj,omitempty"`
	NoHeaders bool   `json:"no_hdr,omitempty"`
}

// directLast asks any replica for the last message of a subject, which is all that narrow roles may do.
func (b *Bus) directLast(ctx context.Context, stream, subject string) (stored, error) {
	s, err := b.stream(ctx, stream)
	if err != nil {
		return stored{}, err
	}
	var m *jetstream.RawStreamMsg
	err = b.try(ctx, "$JS.API.DIRECT.GET."+stream+"."+subject, func(ctx context.Context) (err error) {
		m, err = s.GetLastMsgForSubject(ctx, subject)
		return err
	})
	if err != nil {
		return stored{}, err
	}
	return stored{bus.Message{Seq: m.Sequence, Subject: m.Subject, Time: m.Time.UTC(), Data: m.Data}, m.Header}, nil
}

// last returns the last message of a subject.
func (b *Bus) last(ctx context.Context, stream, subject string) (stored, error) {
	if b.role.Narrow() {
		return b.directLast(ctx, stream, subject)
	}
	return b.leaderGet(ctx, stream, leaderQuery{LastOf: subject})
}

// firstAfter returns the first message of a subject behind a sequence.
func (b *Bus) firstAfter(ctx context.Context, stream, subject string, after uint64) (bus.Message, error) {
	if !b.role.Narrow() {
		m, err := b.leaderGet(ctx, stream, leaderQuery{Seq: after + 1, NextOf: subject})
		return m.Message, err
	}
	m, err := b.directLast(ctx, stream, subject)
	if err != nil {
		return bus.Message{}, err
	}
	if m.Seq <= after {
		return bus.Message{}, bus.ErrNotFound
	}
	// Something is behind it, and may have something between: a consumer of the subject alone says what is first.
	c, err := b.consumer(ctx, stream, subject, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
	})
	if err != nil {
		return bus.Message{}, err
	}
	defer b.dropConsumer(stream, c.CachedInfo().Name)
	var first bus.Message
	err = b.try(ctx, subject, func(ctx context.Context) error {
		m, err := c.Next(jetstream.FetchContext(ctx))
		if err != nil {
			return err
		}
		first, _, err = message(m)
		return err
	})
	return first, err
}

// bounds returns the first and last sequence of a stream, as its leader knows them.
func (b *Bus) bounds(ctx context.Context, stream string) (first, last uint64, err error) {
	s, err := b.stream(ctx, stream)
	if err != nil {
		return 0, 0, err
	}
	err = b.try(ctx, "$JS.API.STREAM.INFO."+stream, func(ctx context.Context) error {
		info, err := s.Info(ctx)
		if err != nil {
			return err
		}
		first, last = info.State.FirstSeq, info.State.LastSeq
		return nil
	})
	return max(first, 1), last, err
}

// consumer makes a consumer that lives in the memory of one server and vanishes when unused. subject is "" or
// one pattern.
func (b *Bus) consumer(ctx context.Context, stream, subject string, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	cfg.Name = nuid.Next()
	cfg.FilterSubject = subject
	cfg.AckPolicy = jetstream.AckNonePolicy
	cfg.MemoryStorage = true
	cfg.Replicas = 1
	cfg.InactiveThreshold = 30 * time.Second
	api := "$JS.API.CONSUMER.CREATE." + stream + "." + cfg.Name
	if subject != "" {
		api += "." + subject
	}
	var c jetstream.Consumer
	err := b.try(ctx, api, func(ctx context.Context) (err error) {
		c, err = b.js.CreateConsumer(ctx, stream, cfg)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", stream, subject, err)
	}
	return c, nil
}

// dropConsumer removes a consumer that is not needed any more; if that fails it vanishes by itself.
func (b *Bus) dropConsumer(stream, name string) {
	_ = b.nc.Publish("$JS.API.CONSUMER.DELETE."+stream+"."+name, nil)
}

// message translates a message as a consumer delivers it.
func message(m jetstream.Msg) (bus.Message, *jetstream.MsgMetadata, error) {
	meta, err := m.Metadata()
	if err != nil {
		return bus.Message{}, nil, err
	}
	return bus.Message{Seq: meta.Sequence.Stream, Subject: m.Subject(), Time: meta.Timestamp.UTC(), Data: m.Data()}, meta, nil
}
