package events

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

type generated interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

// packedSamples are a message of each kind that is packed, with likes and unlikes next to each other.
func packedSamples(t *testing.T) map[string][]byte {
	spec := func(name string) *JobSpec {
		return &JobSpec{Name: name, Partition: "main", SubmitLine: "sbatch job.sh", Tasks: 3, Script: &BlobRef{Subject: "blob.1.x", Length: 9, Sha256: make([]byte, 32)}}
	}
	owner := &Owner{Uid: 7, User: "bob", Groups: []uint32{7, 8}}
	cycle := &Cycle{Term: []byte("term"), N: 3, Parts: 1, Observed: &Observed{SilentNodes: []string{"n1"}}}
	for i, name := range []string{"a", "a", "b", "a", ""} {
		f := &Admitted{Intent: &IntentRef{Seq: 4, Index: uint32(i)}, Job: uint32(i), Priority: 9, Owner: owner, Spec: spec(name)}
		if i == 4 {
			f.Intent, f.Spec, f.Owner = nil, nil, nil
		}
		cycle.Facts = append(cycle.Facts, &Fact{Kind: &Fact_Admitted{Admitted: f}})
	}
	cycle.Facts = append(cycle.Facts,
		&Fact{Kind: &Fact_Placed{Placed: &Placed{Job: 1, Run: 1, Allocation: &Allocation{Shares: []*NodeShare{{Nodes: []string{"n1"}, Cpus: []uint64{3}}}}}}},
		&Fact{Kind: &Fact_Ended{Ended: &Ended{Job: 1, Run: 1, State: JobState_FAILED}}},
		&Fact{Kind: &Fact_NodeLost{NodeLost: &NodeLost{Node: "n1"}}}, &Fact{}, &Fact{Kind: &Fact_Placed{Placed: &Placed{}}})
	batch := &IntentBatch{}
	for i := range 5 {
		x := &Intent{Verb: Verb_SUBMIT, Nonce: bytes.Repeat([]byte{byte(i)}, 16), Ids: 1, Body: []byte("body"), Author: &Author{Uid: 7, User: "bob"}}
		if i == 3 {
			x.Author.User, x.Body = "eve", []byte("another")
		}
		if i == 4 {
			x.Nonce, x.Body, x.Author = nil, nil, nil
		}
		batch.Intents = append(batch.Intents, x)
	}
	node := &NodeMessage{Boot: "b", Executor: []byte("x"), N: 4, Facts: []*NodeFact{
		{Kind: &NodeFact_Started{Started: &StepStarted{Job: 1, Part: &StepPart{Name: "s"}}}},
		{Kind: &NodeFact_Exited{Exited: &StepExited{Job: 1, ExitCode: 3, Usage: &Usage{UserUs: 5}}}},
		{Kind: &NodeFact_Up{Up: &NodeUp{Version: "1"}}}, {},
	}}
	out := map[string][]byte{}
	for subject, m := range map[string]generated{SubjectSched: &SchedMessage{Kind: &SchedMessage_Cycle{Cycle: cycle}}, SubjectIntentHost("h"): batch, SubjectNode("n1"): node} {
		data, err := m.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		out[subject] = data
	}
	return out
}

// What is read of a packed message is what the generated decoder reads of it, be it whole, cut, with bits flipped, or with parts of it twice.
func TestPackedIsAsGenerated(t *testing.T) {
	for subject, whole := range packedSamples(t) {
		for seed := range uint64(20000) {
			data := slices.Clone(whole)
			if r := rand.New(rand.NewPCG(seed, 1)); seed > 0 {
				for range 1 + r.IntN(3) {
					at := r.IntN(len(data))
					switch r.IntN(4) {
					case 0:
						data[at] ^= 1 << r.IntN(8)
					case 1:
						data[at] = byte(r.IntN(32))
					case 2:
						data = data[:max(at, 1)]
					default:
						to := at + r.IntN(min(40, len(data)-at))
						data = slices.Insert(data, at, slices.Clone(data[at:to])...)
					}
				}
			}
			before := slices.Clone(data)
			e := Decode(1, 1, subject, data)
			if !bytes.Equal(before, data) {
				t.Fatalf("%s, seed %d: the bytes were changed", subject, seed)
			}
			var want generated
			var same bool
			switch e.Author {
			case AuthorLeader:
				m := &SchedMessage{}
				want, same = m, m.UnmarshalVT(data) == nil && m.EqualVT(e.Sched)
			case AuthorHost:
				m := &IntentBatch{}
				want, same = m, m.UnmarshalVT(data) == nil && m.EqualVT(e.Intents)
			default:
				m := &NodeMessage{}
				want, same = m, m.UnmarshalVT(data) == nil && m.EqualVT(e.Node)
			}
			if bad := want.UnmarshalVT(data) != nil; bad != (e.Void != "") || !bad && !same {
				t.Fatalf("%s, seed %d: void %q, and the generated decoder fails: %v; or they differ\n%x", subject, seed, e.Void, bad, data)
			}
		}
	}
}

// The requests of a loop are decoded once.
func TestPackedShares(t *testing.T) {
	facts := Decode(1, 1, SubjectSched, packedSamples(t)[SubjectSched]).Sched.GetCycle().GetFacts()
	spec := func(i int) *JobSpec { return facts[i].GetAdmitted().GetSpec() }
	if spec(0) != spec(1) || spec(1) == spec(2) || spec(2) == spec(3) || spec(4) != nil {
		t.Errorf("%p %p %p %p %v", spec(0), spec(1), spec(2), spec(3), spec(4))
	}
}
