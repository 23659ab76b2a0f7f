package bus

import (
	"fmt"
	"strings"
)

// Kind is what a process is, as far as the bus is concerned.
type Kind string

// The kinds. Those with a name of their own are one role for each node, host or user.
const (
	Admin      Kind = "admin"      // makes the streams; may do everything
	Controller Kind = "controller" // follows everything, leads, answers questions
	Ledger     Kind = "ledger"     // follows everything, writes ev.share, archives and trims
	Executor   Kind = "executor"   // executor:<node>: its node's subjects only
	Agent      Kind = "agent"      // agent:<host>: intents of its host's users, blobs, their questions
	Service    Kind = "service"    // reads the feed of jobs; service:<user> may also write its own intents
)

// Names of the two leases.
const (
	LeaderLease = "leader" // the controller that leads, or means to
	ShareLease  = "share"  // the ledger that writes ev.share
)

// Role is a kind and, where it has one, the name: the subject token of the node, host or user.
type Role struct {
	Kind Kind
	Name string
}

// String returns the role as kind or kind:name.
func (r Role) String() string {
	if r.Name == "" {
		return string(r.Kind)
	}
	return string(r.Kind) + ":" + r.Name
}

// ParseRole reads what String wrote.
func ParseRole(s string) (Role, error) {
	kind, name, _ := strings.Cut(s, ":")
	r := Role{Kind(kind), name}
	return r, r.Valid()
}

// Valid returns nil if the kind is known and has a name if it needs one, and none if it cannot have one.
func (r Role) Valid() error {
	switch r.Kind {
	case Admin, Controller, Ledger:
		if r.Name != "" {
			return fmt.Errorf("role %s: a %s has no name of its own", r, r.Kind)
		}
	case Executor, Agent, Service:
		if r.Kind == Service && r.Name == "" {
			return nil
		}
		if Exact("x."+r.Name, "x.*") != nil || strings.Contains(r.Name, "/") {
			return fmt.Errorf("role %s: it needs a name that is one subject token", r)
		}
	default:
		return fmt.Errorf("role %q: want admin, controller, ledger, executor:NODE, agent:HOST, service or service:USER", r)
	}
	return nil
}

// Inbox is the prefix of the subjects on which the role gets its answers. Each role has its own, so that nobody
// hears answers to others.
func (r Role) Inbox() string {
	if r.Name == "" {
		return "_IN." + string(r.Kind)
	}
	return "_IN." + string(r.Kind) + "." + r.Name
}

// Narrow reports whether the role may read of EVENTS only what is on its own subject.
func (r Role) Narrow() bool {
	return r.Kind == Executor || r.Kind == Agent || r.Kind == Service
}

// MoreSubject is where the rest of a big answer is fetched; the rest of the subject is a secret of the two.
const MoreSubject = "more"

// Permissions returns the subjects the role may publish and subscribe to, with wildcards; nobody may do
// anything else.
//
// Reading a stream is asking the server's API on subjects of its own, so permissions to read are
// permissions to publish there: to follow is CONSUMER.CREATE with the filter as its tail, to read one subject
// is DIRECT.GET with that subject as its tail.
func (r Role) Permissions() (publish, subscribe []string) {
	own := r.Inbox() + ".>"
	switch r.Kind {
	case Admin:
		return []string{">"}, []string{">"}
	case Controller:
		publish = append(publish, "ev.sched", JobsSubjects, "run.*", "ask.>", MoreSubject+".*", "_IN.>",
			"$KV."+LeaseBucket+"."+LeaderLease, "$JS.API.STREAM.PURGE."+BlobsStream)
		for _, stream := range []string{EventsStream, JobsStream, UsageStream, BlobsStream, "KV_" + LeaseBucket} {
			publish = append(publish, reading(stream)...)
		}
		return publish, []string{own, "ask.>", MoreSubject + ".*", "beat.*"}
	case Ledger:
		publish = append(publish, "ev.share", "ask.>", MoreSubject+".*", "_IN.>",
			"$KV."+LeaseBucket+"."+ShareLease, "$JS.API.STREAM.PURGE."+EventsStream)
		for _, stream := range []string{EventsStream, BlobsStream, "KV_" + LeaseBucket} {
			publish = append(publish, reading(stream)...)
		}
		return publish, []string{own, "ask.>", MoreSubject + ".*"}
	case Executor:
		publish = append(publish, "ev.node."+r.Name, "usage."+r.Name, "beat."+r.Name, "ask.node."+r.Name, MoreSubject+".*",
			"step.*."+r.Name, "_IN.agent.>", "_IN.executor.>")
		publish = append(publish, readingSubject(EventsStream, "ev.node."+r.Name)...)
		publish = append(publish, readingSubject(BlobsStream, BlobsSubjects)...)
		return publish, []string{own, "run." + r.Name, "step." + r.Name + ".*", MoreSubject + ".*"}
	case Agent:
		publish = append(publish, "ev.intent.@"+r.Name, BlobsSubjects, "ask.*", "step.*.@"+r.Name, MoreSubject+".*")
		publish = append(publish, readingSubject(EventsStream, "ev.intent.@"+r.Name)...)
		publish = append(publish, readingSubject(BlobsStream, BlobsSubjects)...)
		publish = append(publish, readingSubject(UsageStream, UsageSubjects)...)
		return publish, []string{own}
	case Service:
		// Services come with clients that are not ours, which acknowledge what they read, ask for the streams there are,
		// and use the inboxes of all such clients: there lie only answers about the feed.
		publish = append(reading(JobsStream), "$JS.ACK."+JobsStream+".>", "$JS.FC."+JobsStream+".>", "$JS.API.INFO",
			"$JS.API.STREAM.NAMES", "$JS.API.CONSUMER.NAMES."+JobsStream, "$JS.API.CONSUMER.LIST."+JobsStream)
		// No questions: they name the user who asks, and answerers take the agents' word for it.
		if r.Name != "" {
			publish = append(publish, "ev.intent."+r.Name)
			publish = append(publish, readingSubject(EventsStream, "ev.intent."+r.Name)...)
		}
		return publish, []string{own, JobsSubjects, "_INBOX.>"}
	}
	return nil, nil
}

// reading is what it takes to read a whole stream.
func reading(stream string) []string {
	return []string{
		"$JS.API.STREAM.INFO." + stream,
		"$JS.API.STREAM.MSG.GET." + stream,
		"$JS.API.DIRECT.GET." + stream,
		"$JS.API.DIRECT.GET." + stream + ".>",
		"$JS.API.CONSUMER.CREATE." + stream + ".>",
		"$JS.API.CONSUMER.INFO." + stream + ".*",
		"$JS.API.CONSUMER.MSG.NEXT." + stream + ".*",
		"$JS.API.CONSUMER.DELETE." + stream + ".*",
	}
}

// readingSubject is what it takes to read what lies on one subject or pattern. The names of consumers are random, so that
// nobody can ask for the messages of another's.
func readingSubject(stream, subject string) []string {
	return []string{
		"$JS.API.STREAM.INFO." + stream,
		"$JS.API.DIRECT.GET." + stream + "." + subject,
		"$JS.API.CONSUMER.CREATE." + stream + ".*." + subject,
		"$JS.API.CONSUMER.MSG.NEXT." + stream + ".*",
		"$JS.API.CONSUMER.DELETE." + stream + ".*",
	}
}
