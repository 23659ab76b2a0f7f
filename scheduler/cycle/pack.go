package cycle

import "stint/events"

// MaxMessage is how many bytes of facts one message of a cycle holds at most, unless a single fact is larger.
const MaxMessage = 512 << 10

// Pack cuts facts into messages of at most MaxMessage bytes, each of whole facts, in order. What must not be parted from
// the fact before it (the losses told before a node is lost) stays in order, and each message stands for itself.
func Pack(facts []*events.Fact) [][]*events.Fact {
	var out [][]*events.Fact
	size, from := 0, 0
	for i, f := range facts {
		n := f.SizeVT() + 8 // tag and length
		if i > from && size+n > MaxMessage {
			out = append(out, facts[from:i:i])
			size, from = 0, i
		}
		size += n
	}
	if from < len(facts) {
		out = append(out, facts[from:len(facts):len(facts)])
	}
	return out
}
