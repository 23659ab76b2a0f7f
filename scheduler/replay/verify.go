// Package replay holds a log to its word: it folds it from nothing, and makes every recorded decision again.
//
// A cycle in the log says at which state it was decided (basis), when, with what budget and what the leader saw of nodes.
// Those are all that a pass depends on, so a pass over the folded state at that sequence has to come to the same facts,
// byte by byte. Cycles of another version of the deciding code are not made again: their placements are held to the
// definition of feasible. At the end the folded state is compared with a live one, if its hash is known.
package replay

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"stint/events"
	"stint/events/bus"
	"stint/projections"
	"stint/scheduler/cycle"
)

// Message is one message of the log, as stored.
type Message struct {
	Seq     uint64
	At      int64 // the server's stamp, microseconds since 1970
	Subject string
	Data    []byte
}

// Source hands every message of a log to fn, from the first, in order, and returns at the end of the log, when ctx ends, or
// with fn's error.
type Source func(ctx context.Context, fn func(Message) error) error

var errEnd = errors.New("end of the log")

// From reads a log up to the end it has when it is reached.
func From(log bus.Log) Source {
	return func(ctx context.Context, fn func(Message) error) error {
		err := log.Follow(ctx, 1, func(b bus.Batch) error {
			for _, m := range b.Messages {
				if err := fn(Message{Seq: m.Seq, At: m.Time.UnixMicro(), Subject: m.Subject, Data: m.Data}); err != nil {
					return err
				}
			}
			if b.Tip {
				return errEnd
			}
			return nil
		})
		if errors.Is(err, errEnd) {
			return nil
		}
		return err
	}
}

// Options say what to compare with.
type Options struct {
	LiveSeq  uint64   // with LiveHash: the sequence that a live state is current to; 0: nothing to compare
	LiveHash [32]byte // its hash
	Until    uint64   // stop after this sequence; 0: at the end
	Progress func(seq uint64)
}

// Difference is a decision that comes out differently.
type Difference struct {
	Seq      uint64 // of the message
	Term     string // nonce, in hexadecimal
	Cycle    uint64
	Part     uint32
	Fact     int // in the message, from 0; -1: the message as such
	Recorded string
	Derived  string
}

// String names the decision, and what was and should have been decided.
func (d *Difference) String() string {
	return fmt.Sprintf("message %d, cycle %d of term %s, part %d, fact %d: recorded %q, decided again %q", d.Seq, d.Cycle, d.Term, d.Part, d.Fact+1, d.Recorded, d.Derived)
}

// Report is what came of a verification.
type Report struct {
	Messages uint64
	Seq      uint64
	Terms    uint64
	Cycles   uint64 // messages of cycles that count
	Derived  uint64 // of these, made again and the same
	Others   uint64 // decided by another version: only their placements were checked
	Placed   uint64 // placements of others that the state accepts
	Refused  uint64 // placements of others that met a changed state and are void
	Void     uint64 // facts, intents and messages without effect
	Hash     [32]byte
	Compared bool        // the live hash was reached
	Same     bool        // and it is this log's
	First    *Difference // the first decision that comes out differently; nil: none
	More     uint64      // further messages that differ
}

// OK says whether the log holds: no decision differs, and the live state, if one was given, is the one of the log.
func (r *Report) OK(o Options) bool {
	return r.First == nil && (o.LiveSeq == 0 || r.Compared && r.Same)
}

// verifier folds a log twice: at its end, and at the bases of cycles, which lie a little behind.
type verifier struct {
	opts   Options
	now    *projections.Cluster
	past   *projections.Cluster
	behind []events.Event // folded by now, not yet by past
	memory *cycle.Memory
	report *Report

	// Of the cycle whose parts are being read.
	term    []byte
	cycle   uint64
	derived [][]*events.Fact
	bad     bool // it could not be derived
}

// Verify reads a whole log and makes every decision again. An error says that the log could not be read, not that it does
// not hold: that is in the report.
func Verify(ctx context.Context, log Source, o Options) (*Report, error) {
	v := &verifier{opts: o, now: projections.New(), past: projections.New(), memory: cycle.NewMemory(), report: &Report{}}
	err := log(ctx, func(m Message) error {
		if o.Until != 0 && m.Seq > o.Until {
			return errEnd
		}
		v.message(m)
		if o.Progress != nil && m.Seq%4096 == 0 {
			o.Progress(m.Seq)
		}
		return ctx.Err()
	})
	if err != nil && !errors.Is(err, errEnd) {
		return v.report, fmt.Errorf("reading the log behind message %d: %w", v.report.Seq, err)
	}
	v.report.Hash = v.now.Hash()
	return v.report, nil
}

func (v *verifier) message(m Message) {
	e := events.Decode(m.Seq, m.At, m.Subject, m.Data)
	counts := false
	if c := e.Sched.GetCycle(); c != nil && v.follows(c) {
		counts = true
		v.check(&e, c)
	}
	if e.Sched.GetTerm() != nil {
		v.report.Terms++
	}
	verdict := v.now.Apply(e)
	v.report.Void += uint64(len(verdict.Void))
	if counts && e.Sched.GetCycle().GetDecider() != cycle.Decider {
		v.placements(e.Sched.GetCycle(), verdict)
	}
	v.behind = append(v.behind, e)
	v.report.Messages++
	v.report.Seq = m.Seq
	if v.opts.LiveSeq == m.Seq {
		v.report.Compared = true
		v.report.Same = v.now.Hash() == v.opts.LiveHash
	}
}

// follows says whether a cycle message is of the term in force, and the next of it.
func (v *verifier) follows(c *events.Cycle) bool {
	t := v.now.Term()
	return len(t.Nonce) > 0 && bytes.Equal(c.Term, t.Nonce) && c.N == t.N+1
}

// check makes the decision of a cycle again and compares this part of it.
func (v *verifier) check(e *events.Event, c *events.Cycle) {
	v.report.Cycles++
	if c.Decider != cycle.Decider {
		v.report.Others++
		return
	}
	if c.Part <= 1 || !bytes.Equal(v.term, c.Term) || v.cycle != c.Cycle {
		if c.Part > 1 {
			v.differs(e, c, -1, fmt.Sprintf("part %d of %d", c.Part, c.Parts), "part 1 first")
			return
		}
		v.derive(e, c)
	}
	if v.bad {
		return
	}
	if int(c.Parts) != len(v.derived) {
		v.differs(e, c, -1, fmt.Sprintf("%d parts", c.Parts), fmt.Sprintf("%d parts", len(v.derived)))
	}
	var want []*events.Fact
	if int(c.Part) <= len(v.derived) {
		want = v.derived[c.Part-1]
	}
	for i := range max(len(want), len(c.Facts)) {
		recorded, derived := "nothing", "nothing"
		var a, b []byte
		if i < len(c.Facts) {
			a, recorded = encode(c.Facts[i]), describe(c.Facts[i])
		}
		if i < len(want) {
			b, derived = encode(want[i]), describe(want[i])
		}
		if !bytes.Equal(a, b) || (i < len(c.Facts)) != (i < len(want)) {
			if recorded == derived {
				recorded, derived = fmt.Sprint(c.Facts[i]), fmt.Sprint(want[i])
			}
			v.differs(e, c, i, recorded, derived)
			return
		}
	}
	v.report.Derived++
}

// derive runs the pass of a cycle on the state at its basis.
func (v *verifier) derive(e *events.Event, c *events.Cycle) {
	v.term, v.cycle, v.derived, v.bad = c.Term, c.Cycle, nil, false
	if c.Basis < v.past.Seq() || c.Basis > v.now.Seq() {
		v.bad = true
		v.differs(e, c, -1, fmt.Sprintf("basis %d", c.Basis), fmt.Sprintf("a basis from %d to %d", v.past.Seq(), v.now.Seq()))
		return
	}
	n := 0
	for n < len(v.behind) && v.behind[n].Seq <= c.Basis {
		v.past.Apply(v.behind[n])
		n++
	}
	v.behind = append(v.behind[:0], v.behind[n:]...)
	facts, _, _ := cycle.Run(v.past, cycle.Input{Now: c.NowUs, Budget: c.Budget, Observed: c.Observed, Memory: v.memory})
	v.derived = cycle.Pack(facts)
}

// placements counts what became of the placements of a cycle that another version decided: the fold has asked Refuse.
func (v *verifier) placements(c *events.Cycle, verdict projections.Verdict) {
	void := map[int]bool{}
	for _, x := range verdict.Void {
		void[x.Index] = true
	}
	for i, f := range c.Facts {
		switch {
		case void[i]:
			v.report.Refused += uint64(len(events.Placements(f)))
		default:
			v.report.Placed += uint64(len(events.Placements(f)))
		}
	}
}

func (v *verifier) differs(e *events.Event, c *events.Cycle, fact int, recorded, derived string) {
	if v.report.First != nil {
		v.report.More++
		return
	}
	v.report.First = &Difference{Seq: e.Seq, Term: hex.EncodeToString(c.Term), Cycle: c.Cycle, Part: c.Part, Fact: fact, Recorded: recorded, Derived: derived}
}

func encode(f *events.Fact) []byte {
	data, err := f.MarshalVT()
	if err != nil {
		panic(fmt.Sprintf("encode a fact: %v", err)) // generated codecs fail only on nil records
	}
	return data
}

func describe(f *events.Fact) string {
	if text := cycle.Describe(f, 0); text != "" {
		return text
	}
	return fmt.Sprint(f)
}

// Fold folds a log from nothing and returns the state at its end, or at until, if that is not 0.
func Fold(ctx context.Context, log Source, until uint64, progress func(seq uint64)) (*projections.Cluster, error) {
	c := projections.New()
	err := log(ctx, func(m Message) error {
		if until != 0 && m.Seq > until {
			return errEnd
		}
		c.Apply(events.Decode(m.Seq, m.At, m.Subject, m.Data))
		if progress != nil && m.Seq%4096 == 0 {
			progress(m.Seq)
		}
		return ctx.Err()
	})
	if err != nil && !errors.Is(err, errEnd) {
		return nil, fmt.Errorf("reading the log behind message %d: %w", c.Seq(), err)
	}
	return c, nil
}
