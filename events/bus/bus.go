// Package bus is the log as an interface: the five streams that Stint keeps, and the few core messages
// that are hints and questions and never truth.
//
// What is promised is written at each interface below, and one contract suite (package bustest) holds every
// implementation to it: the in-memory twin (package mem), one NATS server, and three of them with their
// leader killed. Payloads are opaque bytes here; their meaning belongs to package events.
//
// # The five stores
//
//	EVENTS  ev.>     Log      what decides scheduling; its sequence number is the only clock of causality
//	JOBS    job.>    Feed     one message per job state, derived from EVENTS, for services to subscribe to
//	USAGE   usage.>  Samples  measurements; limited in age and size
//	BLOBS   blob.>   Blobs    scripts and environments, referenced by events, each range with its hash
//	LEASE   (keys)   Leases   who is probably alive: a hint, never a fence
//
// # Who may append
//
// Each subject of EVENTS has one kind of author. An author appends on that exact subject, conditional on the
// sequence of the subject's last message (Log.Append): so a deposed leader and a zombie node are refused by
// the stream, whatever they believe. Only intents and samples, whose order among themselves means nothing,
// are published without a condition (Log.Publish); they carry an id and may, rarely, be stored twice.
//
// A condition on a wildcard is never used: on a replicated stream it accepts stale writes. There is no way
// to ask for one here, and a test pins why.
package bus

import (
	"context"
	"time"
)

// Names of the streams and of the bucket of leases, and what each stores.
const (
	EventsStream = "EVENTS"
	JobsStream   = "JOBS"
	UsageStream  = "USAGE"
	BlobsStream  = "BLOBS"
	LeaseBucket  = "LEASE"

	EventsSubjects = "ev.>"
	JobsSubjects   = "job.>"
	UsageSubjects  = "usage.>"
	BlobsSubjects  = "blob.>"
)

// MaxData is the most bytes one message may carry: the server's max_payload of 1 MiB less room for headers.
// Bigger messages are slower for their author and hold up everybody behind them, so authors cut at 512 KiB.
const MaxData = 1<<20 - 1<<12

// MaxJobs is how many messages JOBS keeps; each subject costs the server memory and restart time.
const MaxJobs = 500_000

// Bus is one process's connection to everything. All methods may be called from several goroutines.
type Bus interface {
	Events() Log
	Jobs() Feed
	Usage() Samples
	Blobs() Blobs
	Leases() Leases
	Wire() Wire

	// OnStatus calls fn with the present state of the connection and then with each change, one call at a
	// time and in order, until stop is called. fn must not block for long.
	OnStatus(fn func(Status)) (stop func())

	// Close ends the connection: followers return ErrClosed, outstanding calls fail.
	Close() error
}

// Message is one stored message. Data is shared with other readers and must not be changed.
type Message struct {
	Seq     uint64    // its place in the stream, from 1
	Subject string    // where it was appended
	Time    time.Time // stamped by the server when it was stored, in UTC
	Data    []byte
}

// Batch is what a follower is handed at once.
type Batch struct {
	Messages []Message // in the order of the stream; empty only when Tip is set

	// Tip says that nothing was behind the last of these messages when they were sent: the backlog is
	// folded and the follower may answer. It is set again whenever the end is reached, and is set once on
	// an empty batch if there was nothing to read at all. Whoever follows the whole log has then been handed all
	// that was acknowledged when Follow was called; one who follows a part of a stream may be a moment behind.
	Tip bool
}

// Log is the stream EVENTS.
type Log interface {
	// Append stores data on subject if the last message there has the sequence after (0: none), and returns
	// the sequence of what was stored once it is durable.
	//
	// An answer other than an acknowledgement proves nothing, so Append looks at the first message of the
	// subject behind after. If it is byte for byte data, that is the append (so data must be unique: a
	// nonce and a number); if it is something else, the author is deposed: the error is a *DeposedError,
	// and nothing was stored nor ever will be. If there is none yet, the same bytes are sent again. If the
	// subject holds no message any more because the log was trimmed beyond after, the condition becomes 0.
	//
	// Append tries until ctx ends. The error then wraps ErrUnsettled: data may be stored, or may yet be; the
	// same call again settles it, and so does following the log. A second Append on a subject while one is
	// outstanding fails with ErrOutstanding: predicted sequences let stale messages slip in.
	//
	// Having appended is not having folded: act only when a follower has delivered the sequence.
	Append(ctx context.Context, subject string, after uint64, data []byte) (seq uint64, err error)

	// Publish stores data on subject without a condition and returns its sequence. The same bytes are sent
	// with the same id until acknowledged or ctx ends (ErrUnsettled). The server drops an id it has seen in
	// the last two minutes, a retry after that is stored twice: readers ignore a nonce they have seen.
	Publish(ctx context.Context, subject, id string, data []byte) (seq uint64, err error)

	// Follow hands every message from the sequence from on (0 means 1) to fn: each once, in order, without
	// a gap, through reconnections and restarts of servers. It returns when ctx ends (its error), when fn
	// returns an error (that one), or when it cannot keep its promise: *TrimmedError if messages asked for
	// were trimmed away, *AheadError if from lies beyond the end of the log.
	Follow(ctx context.Context, from uint64, fn func(Batch) error) error

	// FollowSubject is Follow for the messages of one exact subject. Trimmed messages are passed over.
	FollowSubject(ctx context.Context, subject string, from uint64, fn func(Batch) error) error

	// Get returns the message with that sequence, or ErrNotFound.
	Get(ctx context.Context, seq uint64) (Message, error)

	// Last returns the last message of an exact subject, or ErrNotFound.
	Last(ctx context.Context, subject string) (Message, error)

	// FirstAfter returns the first message of an exact subject whose sequence is above after, or ErrNotFound.
	FirstAfter(ctx context.Context, subject string, after uint64) (Message, error)

	// Bounds returns the first sequence kept and the last one given out. An empty log that was never
	// written has (1, 0), one that was trimmed to nothing (last+1, last).
	Bounds(ctx context.Context) (first, last uint64, err error)

	// Trim removes all messages below the sequence before. It is the archiver's alone, for what it has
	// verified in the archive.
	Trim(ctx context.Context, before uint64) error
}

// Entry is one message to be appended to a Feed.
type Entry struct {
	Subject string
	Data    []byte
}

// Feed is the stream JOBS: messages derived from the log, in an order fixed by it. Whoever derives them writes
// the same bytes, so two that derive at once do no harm and the last message is the checkpoint of both.
type Feed interface {
	// Last returns the last message of the stream, or ErrNotFound if it was never written.
	Last(ctx context.Context) (Message, error)

	// Get returns the message at a sequence of the stream, or ErrNotFound if it is not kept.
	Get(ctx context.Context, seq uint64) (Message, error)

	// Append stores the entries, in order, right behind the stream's sequence after, many in flight at once,
	// and returns the stream's last sequence. If the stream has other messages there the error is a
	// *DeposedError: read Last and go on from it. If ctx ends the error wraps ErrUnsettled and a prefix of
	// the entries is stored.
	Append(ctx context.Context, after uint64, entries []Entry) (last uint64, err error)

	// Follow is Log.Follow for the subjects that match filter, which may hold the wildcards * and >.
	// Messages that are not kept any more are passed over. A place beyond the end is waited for: one server may
	// forget the last entries in a crash, and they are derived again, the same at the same places.
	Follow(ctx context.Context, filter string, from uint64, fn func(Batch) error) error
}

// Samples is the stream USAGE. Nothing that decides anything may depend on it.
type Samples interface {
	// Publish is Log.Publish.
	Publish(ctx context.Context, subject, id string, data []byte) error

	// Last returns the last message of an exact subject, or ErrNotFound.
	Last(ctx context.Context, subject string) (Message, error)

	// Follow hands the messages that match filter and were stored at since or later to fn, as Log.Follow
	// does; the zero time means all that are kept. Messages that are not kept any more are passed over.
	Follow(ctx context.Context, filter string, since time.Time, fn func(Batch) error) error
}

// Blobs is the stream BLOBS: bytes too big or too private for an event.
type Blobs interface {
	// Put stores data, at most MaxBlob bytes, under the exact subject and returns a reference to all of it once it
	// is durable. Use RefTo for references to ranges of what was packed. A subject is written once: what is put there
	// again replaces what was, but readers may meet the older, or parts of both (ErrCorrupt), for a moment.
	Put(ctx context.Context, subject string, data []byte) (BlobRef, error)

	// Get returns the bytes of the reference after checking them against its hash: ErrNotFound if they were
	// erased or never stored, ErrCorrupt if the hash differs.
	Get(ctx context.Context, ref BlobRef) ([]byte, error)

	// Erase removes all that is stored under the subject; removing what is not there is no error. Readers may
	// still meet it for a moment.
	Erase(ctx context.Context, subject string) error
}

// Leases are keys that vanish unless they are renewed. A lease is a hint that somebody is alive, and spares
// rivals the attempt; what fences is Log.Append.
type Leases interface {
	// Take takes the lease for ttl (whole seconds, at least one) if nobody has it; else the error is a
	// *HeldError that names the holder.
	Take(ctx context.Context, name, holder string, ttl time.Duration) (Lease, error)

	// Holder returns who has the lease, or "" if nobody does.
	Holder(ctx context.Context, name string) (string, error)
}

// Lease is a lease that was taken.
type Lease interface {
	// Renew makes it last for its whole ttl from now, or fails with ErrLeaseLost if it expired or was taken.
	// Any other error leaves the matter open: try again while the ttl lasts.
	Renew(ctx context.Context) error

	// Release gives it up at once. Releasing a lost lease is no error.
	Release(ctx context.Context) error
}

// Wire is what is not stored: nudges and beats, which may be lost, and questions, which are answered or fail.
type Wire interface {
	// Nudge sends data to whoever listens on subject now. Nobody there is no error.
	Nudge(subject string, data []byte) error

	// Listen calls fn, one at a time and in order, for each nudge that matches subject, which may hold
	// wildcards. Of those who listen with the same queue that is not "", one is chosen for each message.
	Listen(subject, queue string, fn func(Nudge)) (stop func(), err error)

	// Ask sends a question and returns the answer, of any size and however long it takes. ErrNobody: nobody answers that
	// subject. ErrBusy: the one asked has too many questions open. An *AnswerError holds the words of an Answer that
	// returned an error. It fails when ctx ends. When the one asked falls silent for some seconds the question is
	// put to whoever is there then: so answering must change nothing.
	Ask(ctx context.Context, subject string, question []byte) ([]byte, error)

	// Answer calls fn for each question that matches subject, each on its own goroutine; of those who answer with
	// the same queue one is chosen for each question. ctx ends when the answer is not wanted any more as far as
	// that is known, at the latest when stop is called or the connection closed.
	Answer(subject, queue string, fn func(ctx context.Context, q Nudge) ([]byte, error)) (stop func(), err error)
}

// Nudge is a message that is not stored.
type Nudge struct {
	Subject string
	Data    []byte
}

// State is whether the bus can be reached.
type State int

const (
	Down   State = iota // not connected; connecting goes on for ever
	Up                  // connected
	Closed              // Close was called
)

// String returns the state in a word.
func (s State) String() string {
	switch s {
	case Up:
		return "up"
	case Closed:
		return "closed"
	default:
		return "down"
	}
}

// Status is the state of a connection.
type Status struct {
	State  State
	Server string // the server's name and address while Up
	Err    error  // why it is Down, if that is known
}
