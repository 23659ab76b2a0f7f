package jet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"stint/events/bus"
	"stint/events/bus/internal/fenced"
)

// A blob is cut into parts of partSize bytes. The first lies on the blob's subject and says in a header how many
// bytes the whole has, the others on <subject>.1, <subject>.2, …; the first is stored last, so that it is there
// only when all are.
const (
	partSize   = 512 << 10
	sizeHeader = "Stint-Size"

	// How long a replica may be behind others that acknowledged: one that slept, or was killed, answers before it has caught up, and
	// the others may need an election first. Whoever reads a blob has it from the log, so it is there, or was.
	blobSettle = 20 * time.Second
)

type blobs struct{ b *Bus }

func part(subject string, i int) string {
	if i == 0 {
		return subject
	}
	return subject + "." + strconv.Itoa(i)
}

func (s blobs) Put(ctx context.Context, subject string, data []byte) (bus.BlobRef, error) {
	if err := bus.Exact(subject, bus.BlobsSubjects); err != nil {
		return bus.BlobRef{}, err
	}
	if len(data) > bus.MaxBlob {
		return bus.BlobRef{}, fmt.Errorf("storing %s: %w: %d bytes, at most %d in one blob", subject, bus.ErrTooLarge, len(data), bus.MaxBlob)
	}
	for i := max(0, len(data)-1) / partSize; i >= 0; i-- {
		bytes := data[i*partSize : min((i+1)*partSize, len(data))]
		_, err := fenced.Publish(ctx, s.b.store(subject), subject, func(ctx context.Context) (uint64, error) {
			m := nats.NewMsg(part(subject, i))
			if i == 0 {
				m.Header.Set(sizeHeader, strconv.Itoa(len(data)))
			}
			return s.b.publish(ctx, bus.BlobsStream, m, bytes)
		})
		if err != nil {
			return bus.BlobRef{}, fmt.Errorf("storing a blob: %w", err)
		}
	}
	return bus.RefTo(subject, 0, data), nil
}

func (s blobs) Get(ctx context.Context, ref bus.BlobRef) ([]byte, error) {
	if err := bus.Exact(ref.Subject, bus.BlobsSubjects); err != nil {
		return nil, err
	}
	head, err := s.part(ctx, ref.Subject)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	size, err := strconv.ParseUint(head.header.Get(sizeHeader), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reading %s: its size: %w", ref, errors.Join(bus.ErrCorrupt, err))
	}
	if ref.Offset > size || ref.Length > size-ref.Offset {
		return nil, fmt.Errorf("reading %s of %d bytes: %w", ref, size, bus.ErrCorrupt)
	}
	data := make([]byte, 0, ref.Length)
	for at, end := ref.Offset, ref.Offset+ref.Length; at < end; {
		i := int(at / partSize)
		m := head
		if i > 0 {
			if m, err = s.part(ctx, part(ref.Subject, i)); err != nil {
				return nil, fmt.Errorf("reading part %d of %s: %w", i, ref, err)
			}
		}
		begin := uint64(i) * partSize
		upTo := min(end, begin+uint64(len(m.Data)))
		if upTo <= at {
			return nil, fmt.Errorf("reading part %d of %s: it has %d bytes: %w", i, ref, len(m.Data), bus.ErrCorrupt)
		}
		data = append(data, m.Data[at-begin:upTo-begin]...)
		at = upTo
	}
	return data, ref.Check(data)
}

// part reads one message by its subject, the one way to read that can be permitted for some subjects only. Any
// replica answers, so one that is missing from a replicated stream is asked for again for a while.
func (s blobs) part(ctx context.Context, subject string) (stored, error) {
	st := s.b.store(subject)
	for {
		m, err := s.b.directLast(ctx, bus.BlobsStream, subject)
		if err == nil || fenced.Hopeless(err) {
			return m, err
		}
		if errors.Is(err, bus.ErrNotFound) {
			if stream, lookErr := s.b.stream(ctx, bus.BlobsStream); lookErr == nil && (stream.CachedInfo().Config.Replicas <= 1 || time.Since(st.began) > blobSettle) {
				return stored{}, err
			}
		}
		if waitErr := st.Wait(ctx, fenced.Longest, err); waitErr != nil {
			return stored{}, fmt.Errorf("%w (the last try: %w)", waitErr, err)
		}
	}
}

func (s blobs) Erase(ctx context.Context, subject string) error {
	if err := bus.Exact(subject, bus.BlobsSubjects); err != nil {
		return err
	}
	// The parts behind the first go first: as long as that one is there, the erasing can be repeated.
	head, err := s.b.last(ctx, bus.BlobsStream, subject)
	if err != nil || head.header.Get(sizeHeader) != strconv.Itoa(len(head.Data)) {
		if err := s.b.purge(ctx, bus.BlobsStream, jetstream.WithPurgeSubject(subject+".>")); err != nil {
			return fmt.Errorf("erasing %s: %w", subject, err)
		}
	}
	if errors.Is(err, bus.ErrNotFound) {
		return nil
	}
	if err := s.b.purge(ctx, bus.BlobsStream, jetstream.WithPurgeSubject(subject)); err != nil {
		return fmt.Errorf("erasing %s: %w", subject, err)
	}
	return nil
}
