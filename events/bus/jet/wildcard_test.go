package jet_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestWhyExactSubjects pins why an append is conditional on the exact subject it is stored on, and on nothing
// wider. Two authors append at the same moment, both having read the same last sequence; what is accepted second
// is stale. On an exact subject the second is refused, every time. If its condition is about a wildcard that covers
// the subjects of both, a replicated stream compares with what is stored, and with what is on its way to the replicas
// under that very wildcard, but not with what is on its way under the subjects it covers: a leader just deposed
// would get its decisions in behind the term of the next. (One server stores messages one by one and refuses as it should,
// which is how such a fault stays unseen until there are three.)
//
// If the wildcard refuses every stale append too, the servers have changed: then this test fails, and the design
// may be thought over.
func TestWhyExactSubjects(t *testing.T) {
	whole(t)
	c := startCluster(t, 3)
	other, err := jetstream.New(c.anotherConn(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t)
	c.leader(t, true)

	// race lets both append at once and returns the sequences they were given, 0 for one that was refused.
	race := func(subject, otherSubject string, condition, otherCondition jetstream.PublishOpt) (mine, others uint64) {
		result := make(chan uint64)
		try := func(js jetstream.JetStream, subject string, condition jetstream.PublishOpt) uint64 {
			ack, err := js.PublishMsg(ctx, nats.NewMsg(subject), condition, jetstream.WithRetryAttempts(0))
			if err != nil {
				return 0
			}
			return ack.Sequence
		}
		go func() { result <- try(other, otherSubject, otherCondition) }()
		mine = try(c.js, subject, condition)
		return mine, <-result
	}

	const tries = 300
	var last uint64
	for n := range tries {
		same := jetstream.WithExpectLastSequencePerSubject(last)
		a, b := race("ev.pin", "ev.pin", same, same)
		if a != 0 && b != 0 {
			t.Fatalf("try %d: two appends behind %d of an exact subject were accepted, at %d and %d", n, last, a, b)
		}
		last = max(last, a, b)
	}

	var term, stale uint64
	last = 0
	for range tries {
		// The new leader appends its term behind the last term; the old one its cycle behind all it has seen.
		a, b := race("ev.wild.term", "ev.wild.cycle",
			jetstream.WithExpectLastSequencePerSubject(term), jetstream.WithExpectLastSequenceForSubject(last, "ev.wild.*"))
		if a != 0 {
			term = a
		}
		if a != 0 && b > a {
			stale++
		}
		last = max(last, a, b)
	}
	t.Logf("a condition on a wildcard let %d stale appends in, of %d tries", stale, tries)
	if stale == 0 {
		t.Fatalf("in %d races no append that was conditional on a wildcard was accepted stale", tries)
	}
}
