package jet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"stint/events/bus"
	"stint/events/bus/internal/fenced"
)

// Layout says how the streams are kept.
type Layout struct {
	// Replicas is 1 on one server, 3 on a cluster (5 is possible).
	Replicas int

	// UsageAge and UsageBytes limit USAGE; zero is 7 days and 1 GiB.
	UsageAge   time.Duration
	UsageBytes int64

	// Synced says that the server, of one, syncs each message to disk before it acknowledges it. It is what
	// Server.Synced reports of an embedded one; of a server elsewhere it cannot be known.
	Synced bool
}

// maxConsumers lifts the server's limit of 1000 consumers a stream, which a big cluster's executors would exceed.
const maxConsumers = 200_000

// Provision makes the streams that are missing, corrects what can be changed of those that are there, and returns an error if one
// is otherwise than Stint can live with. It needs the admin's credential and waits for the bus until ctx ends.
// The warnings are for the operator, loudly: above all that what is acknowledged might not survive.
func (b *Bus) Provision(ctx context.Context, layout Layout) (warnings []string, err error) {
	if layout.Replicas < 1 || layout.Replicas > 5 || layout.Replicas%2 == 0 {
		return nil, fmt.Errorf("making the streams with %d replicas: give 1, 3 or 5", layout.Replicas)
	}
	if layout.UsageAge == 0 {
		layout.UsageAge = 7 * 24 * time.Hour
	}
	if layout.UsageBytes == 0 {
		layout.UsageBytes = 1 << 30
	}
	for _, cfg := range layout.streams() {
		if err := b.provision(ctx, cfg); err != nil {
			return nil, fmt.Errorf("making the stream %s: %w", cfg.Name, err)
		}
	}
	if layout.Replicas == 1 && !layout.Synced {
		warnings = append(warnings, "what the bus acknowledges may be lost when power fails: it keeps one copy and is not known to sync it to disk each time. "+
			"Set sync_interval: always in the server's jetstream block, or run three servers")
	}
	return warnings, nil
}

func (l Layout) streams() []jetstream.StreamConfig {
	base := jetstream.StreamConfig{
		Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Discard: jetstream.DiscardOld, Replicas: l.Replicas,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxConsumers: maxConsumers, Duplicates: 2 * time.Minute, AllowDirect: true,
	}
	// What can be derived again need not wait for the disk, where there is a choice.
	derived := base
	if l.Replicas == 1 {
		derived.PersistMode = jetstream.AsyncPersistMode
	}

	events := base
	events.Name, events.Subjects, events.DenyDelete = bus.EventsStream, []string{bus.EventsSubjects}, true
	events.Description = "what decides scheduling; the system of record"

	jobs := derived
	jobs.Name, jobs.Subjects, jobs.MaxMsgs = bus.JobsStream, []string{bus.JobsSubjects}, bus.MaxJobs
	jobs.Description = "one message per job state, derived from EVENTS, for services to subscribe to"

	usage := derived
	usage.Name, usage.Subjects, usage.MaxAge, usage.MaxBytes = bus.UsageStream, []string{bus.UsageSubjects}, l.UsageAge, l.UsageBytes
	usage.Description = "measurements, limited in age and size"

	blobs := base
	blobs.Name, blobs.Subjects, blobs.MaxMsgsPerSubject = bus.BlobsStream, []string{bus.BlobsSubjects}, 1
	blobs.Description = "scripts, environments and big specs, referenced by EVENTS"

	// The bucket of leases, as a NATS key-value store of that name looks.
	leases := base
	leases.Name, leases.Subjects = leaseStream, []string{leasePrefix + ">"}
	leases.MaxMsgsPerSubject, leases.Discard, leases.DenyDelete = 1, jetstream.DiscardNew, true
	leases.AllowRollup, leases.AllowMsgTTL, leases.SubjectDeleteMarkerTTL = true, true, time.Second
	leases.Description = "who is probably alive: leases with a time to live"

	return []jetstream.StreamConfig{events, jobs, usage, blobs, leases}
}

// provision makes one stream, or makes it as cfg says, trying until ctx ends: three servers that start need their time
// to find each other.
func (b *Bus) provision(ctx context.Context, cfg jetstream.StreamConfig) error {
	st := b.store(cfg.Name)
	for pauseFor := fenced.Shortest; ; pauseFor = min(2*pauseFor, time.Second) {
		err := b.provisionOnce(ctx, cfg)
		var is unfit
		if err == nil || fenced.Hopeless(err) || errors.As(err, &is) {
			return err
		}
		if waitErr := st.Wait(ctx, pauseFor, err); waitErr != nil {
			return fmt.Errorf("%w (the last try: %w)", waitErr, err)
		}
	}
}

func (b *Bus) provisionOnce(ctx context.Context, cfg jetstream.StreamConfig) error {
	var stream jetstream.Stream
	err := b.try(ctx, "$JS.API.STREAM.INFO."+cfg.Name, func(ctx context.Context) (err error) {
		stream, err = b.js.Stream(ctx, cfg.Name)
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = b.tryFor(ctx, 5*tryTime, "$JS.API.STREAM.CREATE."+cfg.Name, func(ctx context.Context) (err error) {
			stream, err = b.js.CreateStream(ctx, cfg)
			return err
		})
	}
	if err != nil {
		return err
	}
	is := stream.CachedInfo().Config
	if err := fits(is, cfg); err != nil {
		return err
	}
	if !differs(is, cfg) {
		return nil
	}
	is.Replicas, is.MaxMsgs, is.MaxBytes, is.MaxAge, is.Description = cfg.Replicas, cfg.MaxMsgs, cfg.MaxBytes, cfg.MaxAge, cfg.Description
	is.MaxMsgsPerSubject, is.Duplicates, is.AllowDirect, is.DenyDelete = cfg.MaxMsgsPerSubject, cfg.Duplicates, cfg.AllowDirect, cfg.DenyDelete
	is.MaxConsumers = cfg.MaxConsumers
	return b.tryFor(ctx, 5*tryTime, "$JS.API.STREAM.UPDATE."+cfg.Name, func(ctx context.Context) error {
		_, err := b.js.UpdateStream(ctx, is)
		return err
	})
}

// unfit says what of a stream cannot be changed and must be otherwise.
type unfit string

func (u unfit) Error() string {
	return "it exists " + string(u) + "; remove it, or use a server of Stint's own"
}

func fits(is, want jetstream.StreamConfig) error {
	say := func(format string, args ...any) error { return unfit(fmt.Sprintf(format, args...)) }
	switch {
	case is.Storage != want.Storage:
		return say("and is kept in %s, not in %s", is.Storage, want.Storage)
	case is.Retention != want.Retention:
		return say("and its retention is %s, not %s", is.Retention, want.Retention)
	case len(is.Subjects) != 1 || is.Subjects[0] != want.Subjects[0]:
		return say("with the subjects %v, not %v", is.Subjects, want.Subjects)
	case is.Discard != want.Discard:
		return say("and when full it discards %s, not %s", is.Discard, want.Discard)
	case is.AllowMsgTTL != want.AllowMsgTTL:
		return say("and allows messages a time to live: %v, not %v", is.AllowMsgTTL, want.AllowMsgTTL)
	case is.PersistMode == jetstream.AsyncPersistMode && want.PersistMode != is.PersistMode:
		return say("and acknowledges before it writes")
	case is.MaxMsgSize > 0 || is.Sealed || is.NoAck || is.Mirror != nil || len(is.Sources) > 0 || is.DenyPurge && want.MaxMsgs < 0:
		return say("with limits that Stint does not set: %+v", is)
	}
	return nil
}

func differs(is, want jetstream.StreamConfig) bool {
	return is.Replicas != want.Replicas || is.MaxMsgs != want.MaxMsgs || is.MaxBytes != want.MaxBytes || is.MaxAge != want.MaxAge ||
		is.MaxMsgsPerSubject != want.MaxMsgsPerSubject || is.Duplicates != want.Duplicates || is.AllowDirect != want.AllowDirect ||
		is.DenyDelete != want.DenyDelete || is.MaxConsumers != want.MaxConsumers || is.Description != want.Description
}
