package events

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// Messages of the log are packed: a hundred wishes, or facts, to one, many of them alike. Here they are read without a piece of memory for
// each part of each, and what follows an equal one shares it: the requests of a loop of submissions are decoded once. A shape that is not
// the usual one is left to the generated decoder; what comes out is the same (TestPackedIsAsGenerated).
//
// What is decoded is never changed afterwards, so that it may be shared.

// field takes the first field off the front of a message: its number, its content if it has a length, all of its bytes, and what is left.
// It fails on whatever it does not know.
func field(b []byte) (num uint64, content, whole, rest []byte, ok bool) {
	tag, n := binary.Uvarint(b)
	if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29-1 {
		return 0, nil, nil, nil, false
	}
	v, m := binary.Uvarint(b[n:])
	if m <= 0 {
		return 0, nil, nil, nil, false
	}
	end := n + m
	switch tag & 7 {
	case 0:
	case 2:
		if v > uint64(len(b)-end) {
			return 0, nil, nil, nil, false
		}
		content = b[end : end+int(v) : end+int(v)]
		end += int(v)
	default:
		return 0, nil, nil, nil, false
	}
	return tag >> 3, content, b[:end:end], b[end:], true
}

// sole is the content of a message's only field.
func sole(b []byte) (num uint64, content []byte, ok bool) {
	num, content, _, rest, ok := field(b)
	return num, content, ok && content != nil && len(rest) == 0
}

// slab hands out pointers into pieces of memory that hold several.
type slab[T any] struct{ free []T }

const slabSize = 32

func (s *slab[T]) next(wanted int) *T {
	if len(s.free) == 0 {
		s.free = make([]T, max(1, min(wanted, slabSize)))
	}
	x := &s.free[0]
	s.free = s.free[1:]
	return x
}

// Facts with what hangs below them, each in one piece.
type (
	admittedFact struct {
		fact   Fact
		kind   Fact_Admitted
		body   Admitted
		intent IntentRef
	}
	placedFact struct {
		fact Fact
		kind Fact_Placed
		body Placed
	}
	endedFact struct {
		fact Fact
		kind Fact_Ended
		body Ended
	}
	startedFact struct {
		fact NodeFact
		kind NodeFact_Started
		body StepStarted
	}
	exitedFact struct {
		fact NodeFact
		kind NodeFact_Exited
		body StepExited
	}
)

// packed is the reading of one message.
type packed struct {
	spare []byte // for the fields that the generated decoder reads

	specBytes, ownerBytes, authorBytes, body []byte // of the last one read, which the next may share
	spec                                     *JobSpec
	owner                                    *Owner
	author                                   *Author

	admitted slab[admittedFact]
	placed   slab[placedFact]
	ended    slab[endedFact]
	started  slab[startedFact]
	exited   slab[exitedFact]
}

// split separates the contents of the fields of one number from all other fields. It returns false on what is unusual.
func (p *packed) split(data []byte, number uint64) (list [][]byte, others []byte, ok bool) {
	list, others = make([][]byte, 0, 16), p.spare[:0]
	for len(data) > 0 {
		num, content, whole, rest, ok := field(data)
		if !ok {
			return nil, nil, false
		}
		if num == number && content != nil {
			list = append(list, content)
		} else {
			others = append(others, whole...)
		}
		data = rest
	}
	p.spare = others
	return list, others, true
}

func decodeSched(data []byte) (*SchedMessage, error) {
	p := &packed{}
	if num, content, ok := sole(data); ok && num == 2 {
		if facts, others, ok := p.split(content, 11); ok {
			c := &Cycle{}
			if err := c.UnmarshalVT(others); err != nil {
				return nil, err
			}
			if len(facts) > 0 {
				c.Facts = make([]*Fact, len(facts))
			}
			for i, b := range facts {
				var err error
				if c.Facts[i], err = p.fact(b, len(facts)-i); err != nil {
					return nil, err
				}
			}
			return &SchedMessage{Kind: &SchedMessage_Cycle{Cycle: c}}, nil
		}
	}
	m := new(SchedMessage)
	return m, m.UnmarshalVT(data)
}

func (p *packed) fact(b []byte, left int) (*Fact, error) {
	num, content, ok := sole(b)
	switch {
	case ok && num == 1:
		x := p.admitted.next(left)
		if done, err := p.admission(x, content); done || err != nil {
			x.kind.Admitted, x.fact.Kind = &x.body, &x.kind
			return &x.fact, err
		}
	case ok && num == 3:
		x := p.placed.next(left)
		x.kind.Placed, x.fact.Kind = &x.body, &x.kind
		return &x.fact, x.body.UnmarshalVT(content)
	case ok && num == 5:
		x := p.ended.next(left)
		x.kind.Ended, x.fact.Kind = &x.body, &x.kind
		return &x.fact, x.body.UnmarshalVT(content)
	}
	f := new(Fact)
	return f, f.UnmarshalVT(b)
}

// admission reads an admission, whose request and owner may be those of the one before. It returns false, and has touched nothing, if one
// of them is there twice.
func (p *packed) admission(x *admittedFact, data []byte) (bool, error) {
	var spec, owner []byte
	others, ref := p.spare[:0], false
	for len(data) > 0 {
		num, content, whole, rest, ok := field(data)
		switch {
		case !ok, num == 3 && spec != nil, num == 4 && owner != nil:
			return false, nil
		case num == 3 && content != nil:
			spec = content
		case num == 4 && content != nil:
			owner = content
		default:
			others, ref = append(others, whole...), ref || num == 1
		}
		data = rest
	}
	p.spare = others
	if ref {
		x.body.Intent = &x.intent
	}
	if err := x.body.UnmarshalVT(others); err != nil {
		return false, err
	}
	if spec != nil {
		if p.spec == nil || !bytes.Equal(spec, p.specBytes) {
			p.spec, p.specBytes = &JobSpec{}, spec
			if err := p.spec.UnmarshalVT(spec); err != nil {
				return false, err
			}
		}
		x.body.Spec = p.spec
	}
	if owner != nil {
		if p.owner == nil || !bytes.Equal(owner, p.ownerBytes) {
			p.owner, p.ownerBytes = &Owner{}, owner
			if err := p.owner.UnmarshalVT(owner); err != nil {
				return false, err
			}
		}
		x.body.Owner = p.owner
	}
	return true, nil
}

func decodeIntents(data []byte) (*IntentBatch, error) {
	p := &packed{}
	list, others, ok := p.split(data, 1)
	if !ok {
		m := new(IntentBatch)
		return m, m.UnmarshalVT(data)
	}
	m := &IntentBatch{}
	if err := m.UnmarshalVT(others); err != nil {
		return nil, err
	}
	if len(list) > 0 {
		m.Intents = make([]*Intent, len(list))
	}
	var intents slab[Intent]
	nonces := make([]byte, 0, 16*len(list))
	for i, b := range list {
		x := intents.next(len(list) - i)
		m.Intents[i] = x
		done, err := p.intent(x, &nonces, b)
		if err == nil && !done {
			err = x.UnmarshalVT(b)
		}
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// intent reads an intent, whose author and body may be those of the one before. It returns false, and has touched nothing, if one of its
// parts is there twice.
func (p *packed) intent(x *Intent, nonces *[]byte, data []byte) (bool, error) {
	var nonce, author, body []byte
	others := p.spare[:0]
	for len(data) > 0 {
		num, content, whole, rest, ok := field(data)
		switch {
		case !ok, num == 2 && nonce != nil, num == 3 && author != nil, num == 5 && body != nil:
			return false, nil
		case num == 2 && content != nil:
			nonce = content
		case num == 3 && content != nil:
			author = content
		case num == 5 && content != nil:
			body = content
		default:
			others = append(others, whole...)
		}
		data = rest
	}
	p.spare = others
	if err := x.UnmarshalVT(others); err != nil {
		return false, err
	}
	if nonce != nil {
		from := len(*nonces)
		*nonces = append(*nonces, nonce...)
		x.Nonce = slices.Clip((*nonces)[from:])
	}
	if author != nil {
		if p.author == nil || !bytes.Equal(author, p.authorBytes) {
			p.author, p.authorBytes = &Author{}, author
			if err := p.author.UnmarshalVT(author); err != nil {
				return false, err
			}
		}
		x.Author = p.author
	}
	if body != nil {
		if p.body == nil || !bytes.Equal(body, p.body) {
			p.body = append([]byte{}, body...)
		}
		x.Body = p.body
	}
	return true, nil
}

func decodeNode(data []byte) (*NodeMessage, error) {
	p := &packed{}
	facts, others, ok := p.split(data, 5)
	m := new(NodeMessage)
	if !ok {
		return m, m.UnmarshalVT(data)
	}
	if err := m.UnmarshalVT(others); err != nil {
		return nil, err
	}
	if len(facts) > 0 {
		m.Facts = make([]*NodeFact, len(facts))
	}
	for i, b := range facts {
		var err error
		if m.Facts[i], err = p.nodeFact(b, len(facts)-i); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (p *packed) nodeFact(b []byte, left int) (*NodeFact, error) {
	num, content, ok := sole(b)
	switch {
	case ok && num == 2:
		x := p.started.next(left)
		x.kind.Started, x.fact.Kind = &x.body, &x.kind
		return &x.fact, x.body.UnmarshalVT(content)
	case ok && num == 3:
		x := p.exited.next(left)
		x.kind.Exited, x.fact.Kind = &x.body, &x.kind
		return &x.fact, x.body.UnmarshalVT(content)
	}
	f := new(NodeFact)
	return f, f.UnmarshalVT(b)
}
