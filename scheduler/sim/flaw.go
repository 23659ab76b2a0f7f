package sim

import "stint/events"

// flaw is one thing that a world does wrong deliberately, so that a test sees its auditor complain. The zero flaw is none.
// Histories of worlds with one are short, and have many faults; so are those of flawNone.
type flaw string

const (
	flawNone     flaw = "nothing is wrong"
	flawFence    flaw = "the bus stores an append whatever came before it"
	flawLostAck  flaw = "the bus acknowledges what it has not stored"
	flawNonce    flaw = "an intent that comes again counts again"
	flawEarly    flaw = "an agent says that intents are kept before it has sent them"
	flawAnswer   flaw = "an agent tells another id"
	flawBegun    flaw = "a node begins a run again when it is asked again"
	flawForgets  flaw = "an executor that starts anew does not ask what lives on its node"
	flawCode     flaw = "a node tells another exit code"
	flawEnd      flaw = "a supervisor loses ends"
	flawOccupied flaw = "a node begins new jobs beside what the log has given up"
	flawOff      flaw = "what ran on a machine that went off lives on"
	flawSkips    flaw = "a follower leaves out messages"
	flawSnapshot flaw = "a snapshot leaves out which intents came"
	flawTwice    flaw = "a leader decides a thing twice"
	flawMemory   flaw = "a pass with memory forgets a decision"
	flawFeed     flaw = "the feed repeats states"
	flawFeedLost flaw = "the feed loses states"
	flawRows     flaw = "the ledger leaves out messages"
	flawUsage    flaw = "the ledger counts CPU time twice"
)

// has says whether the world has a flaw, and, if it shows only now and then, whether it does now: one time in oneIn.
func (w *World) has(f flaw, oneIn int) bool { return w.flaw == f && w.rng.IntN(oneIn) == 0 }

// read is a message as the fold is given it.
func (w *World) read(m *Message) events.Event {
	e := events.Decode(m.Seq, m.At, m.Subject, m.Data)
	if w.flaw == flawNonce {
		for k, i := range e.Intents.GetIntents() {
			copy(i.Nonce, encodeNonce(m.Seq, k))
		}
	}
	return e
}

// encodeNonce is a nonce that no other intent has.
func encodeNonce(seq uint64, index int) []byte {
	n := make([]byte, 16)
	for i := range 8 {
		n[i], n[8+i] = byte(seq>>(8*i)), byte(index>>(8*i))
	}
	return n
}
