package bus

import (
	"errors"
	"fmt"
)

var (
	// ErrDeposed is what a *DeposedError is, by errors.Is.
	ErrDeposed = errors.New("somebody else has written there")

	// ErrUnsettled: the call ended before it was known whether the message is stored. It may be, or may yet be.
	ErrUnsettled = errors.New("not known to be stored")

	// ErrOutstanding: an append on that subject is still under way.
	ErrOutstanding = errors.New("an append on this subject is still under way")

	// ErrNotFound: no such message.
	ErrNotFound = errors.New("no such message")

	// ErrTooLarge: more bytes than one message, or one blob, may hold.
	ErrTooLarge = errors.New("too large")

	// ErrDenied: the credential does not permit it.
	ErrDenied = errors.New("not permitted")

	// ErrCorrupt: bytes differ from the hash in their reference.
	ErrCorrupt = errors.New("the stored bytes differ from their hash")

	// ErrLeaseLost: the lease expired or somebody else has it.
	ErrLeaseLost = errors.New("the lease is lost")

	// ErrNobody: nobody answers that subject.
	ErrNobody = errors.New("nobody answers")

	// ErrBusy: the one asked has too many questions open.
	ErrBusy = errors.New("too many questions are open")

	// ErrClosed: the connection was closed.
	ErrClosed = errors.New("the connection to the bus is closed")

	// ErrSubject: not an exact subject where one is needed, or none of the stream's.
	ErrSubject = errors.New("not a subject to use here")
)

// DeposedError says that somebody else wrote where an author wanted to; nothing of the author's was stored.
type DeposedError struct {
	Subject string // "" for a Feed, which is conditional on its whole stream
	After   uint64 // the sequence the author wanted to follow
	Found   uint64 // the sequence of the message that is there instead
}

func (e *DeposedError) Error() string {
	where := "the feed"
	if e.Subject != "" {
		where = e.Subject
	}
	return fmt.Sprintf("refused to append on %s behind %d: somebody else wrote there at %d", where, e.After, e.Found)
}

func (e *DeposedError) Is(target error) bool { return target == ErrDeposed }

// TrimmedError says that messages a follower asked for are not in the log any more.
type TrimmedError struct {
	From  uint64 // asked for
	First uint64 // the first that is kept
}

func (e *TrimmedError) Error() string {
	return fmt.Sprintf("the log begins at %d: what lies between %d and that is in the archive", e.First, e.From)
}

// AheadError says that a follower has folded more than the log holds: the log lost what was acknowledged, or
// is another one.
type AheadError struct {
	From uint64 // asked for
	Last uint64 // the last of the log
}

func (e *AheadError) Error() string {
	return fmt.Sprintf("the log ends at %d, yet %d was asked for: this is another log, or it lost messages", e.Last, e.From)
}

// HeldError says who has a lease.
type HeldError struct {
	Name, Holder string
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("the lease %s is held by %s", e.Name, e.Holder)
}

// AnswerError holds the words of one who answered a question with an error.
type AnswerError struct {
	Text string
}

func (e *AnswerError) Error() string { return e.Text }

// Fits returns ErrTooLarge, with the size named, if data is more than one message may carry.
func Fits(data []byte) error {
	if len(data) > MaxData {
		return fmt.Errorf("%w: %d bytes, at most %d in one message", ErrTooLarge, len(data), MaxData)
	}
	return nil
}
