package events

import "strings"

// AuthorKind is who may append on a subject.
type AuthorKind uint8

const (
	AuthorNone   AuthorKind = iota
	AuthorHost              // the agent of a host, which vouches for the authors inside
	AuthorUser              // one user, by permission
	AuthorLeader            // the controller that holds the term
	AuthorNode              // the executor of a node
	AuthorLedger            // the ledger that holds the share lease
)

// Why a message is void before the fold looks at it.
const (
	VoidSubject = "message on a subject that is not part of the log"
	VoidBytes   = "message that does not decode"
)

// Event is one message of the log, decoded. Exactly one of Intents, Sched, Node and Share is set, or Void says why none is.
type Event struct {
	Seq     uint64 // sequence in the stream
	At      int64  // the server's time stamp, microseconds since 1970
	Subject string
	Author  AuthorKind
	Name    string // of the host, user or node that the subject names

	Intents *IntentBatch
	Sched   *SchedMessage
	Node    *NodeMessage
	Share   *ShareMessage
	Void    string
}

// Decode reads one message of the log. It is total: what it cannot read is Void, never an error or a panic, so that a
// message by a broken author costs a line in a count and nothing else. Older versions of a message are brought up to date
// here, nowhere else; so far there is one version of each.
func Decode(seq uint64, atUs int64, subject string, data []byte) Event {
	e := Event{Seq: seq, At: atUs, Subject: subject}
	e.Author, e.Name = authorOf(subject)
	var err error
	switch e.Author {
	case AuthorHost, AuthorUser:
		var m *IntentBatch
		if m, err = decodeIntents(data); err == nil {
			e.Intents = m
		}
	case AuthorLeader:
		var m *SchedMessage
		if m, err = decodeSched(data); err == nil {
			e.Sched = m
		}
	case AuthorNode:
		var m *NodeMessage
		if m, err = decodeNode(data); err == nil {
			e.Node = m
		}
	case AuthorLedger:
		m := new(ShareMessage)
		if err = m.UnmarshalVT(data); err == nil {
			e.Share = m
		}
	default:
		e.Void = VoidSubject
	}
	if err != nil {
		e.Void = VoidBytes
	}
	return e
}

func authorOf(subject string) (AuthorKind, string) {
	switch {
	case subject == SubjectSched:
		return AuthorLeader, ""
	case subject == SubjectShare:
		return AuthorLedger, ""
	case strings.HasPrefix(subject, prefixNode):
		if name, err := Untoken(subject[len(prefixNode):]); err == nil {
			return AuthorNode, name
		}
	case strings.HasPrefix(subject, prefixIntent+"@"):
		if name, err := Untoken(subject[len(prefixIntent)+1:]); err == nil {
			return AuthorHost, name
		}
	case strings.HasPrefix(subject, prefixIntent):
		if name, err := Untoken(subject[len(prefixIntent):]); err == nil {
			return AuthorUser, name
		}
	}
	return AuthorNone, ""
}
