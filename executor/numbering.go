package executor

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"stint/events"
	"stint/executor/tasks"
	"stint/projections"
)

// The components of a heterogeneous job count their steps together: the first node of the first component gives numbers to the others.
// A step in several of them is made by each for itself, and has one number because it has one nonce.

// given is a number that was given to a step.
type given struct {
	nonce []byte
	step  uint32
}

// maxGiven is how many of them are remembered: the parts of a step are made one right after the other.
const maxGiven = 1024

// nextFor is the number for a step: the one that it was given, or that it has in another component, or the next. The caller holds b.mu.
func (b *board) nextFor(nonce []byte, number *uint32) uint32 {
	if number != nil {
		return *number
	}
	if at := slices.IndexFunc(b.given, func(g given) bool { return bytes.Equal(g.nonce, nonce) }); at >= 0 {
		return b.given[at].step
	}
	return b.next
}

// give remembers the number of a step. The caller holds b.mu.
func (b *board) give(nonce []byte, step uint32) {
	if slices.ContainsFunc(b.given, func(g given) bool { return bytes.Equal(g.nonce, nonce) }) {
		return
	}
	if len(b.given) >= maxGiven {
		b.given = slices.Delete(b.given, 0, maxGiven/2)
	}
	b.given = append(b.given, given{nonce, step})
}

// askNumber has the first component's first node number a step of another component.
func (e *executor) askNumber(ctx context.Context, r *projections.NodeRun, nonce []byte) *tasks.Reply {
	e.mu.Lock()
	seq := e.seen
	e.mu.Unlock()
	reply, err := e.askNode(ctx, r.GetLead(), &tasks.Question{What: &tasks.Question_Number{Number: &tasks.Number{Job: r.GetJob().GetHetId(), Nonce: nonce, LeastSeq: seq}}})
	if err != nil {
		return refusal(tasks.Refusal_FAILED, "node %s, which numbers the steps of job %d, does not answer: %v", r.GetLead(), r.GetJob().GetHetId(), err)
	}
	return reply
}

// numberStep gives a step of another component its number.
func (e *executor) numberStep(ctx context.Context, from string, n *tasks.Number) *tasks.Reply {
	r := e.runOf(ctx, n.Job, n.LeastSeq)
	job := r.GetJob()
	switch {
	case job == nil || !job.Leads() || job.GetAllocation().FirstNode() != e.conf.Node:
		return refusal(tasks.Refusal_OVER, "Job/step already completing or completed")
	case !slices.ContainsFunc(r.GetParts(), func(j *projections.Job) bool { return events.Token(j.GetAllocation().FirstNode()) == from }):
		return refusal(tasks.Refusal_NOT_YOURS, "this may not be asked from there")
	}
	b := e.boardOf(ctx, job)
	if b == nil {
		return refusal(tasks.Refusal_BUSY, "the node's supervisor is away")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	step := b.nextFor(n.Nonce, nil)
	if b.next = max(b.next, step+1); step+1 >= events.StepInteractive {
		return refusal(tasks.Refusal_FAILED, "the job has no number left for a step")
	}
	b.give(n.Nonce, step)
	return &tasks.Reply{Number: step}
}

// remakeNumbers learns which numbers the other components have: from the log, and from what lives there. The caller holds b.mu.
func (e *executor) remakeNumbers(ctx context.Context, b *board, job *projections.Job, seq uint64) {
	e.mu.Lock()
	parts := e.runs[job.GetId()].GetParts()
	e.mu.Unlock()
	for _, l := range b.live {
		b.give(l.Nonce, l.Step)
	}
	var replies []*tasks.Reply
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, part := range parts {
		if part.GetId() == job.GetId() {
			continue
		}
		b.next = max(b.next, part.GetNextStep())
		w := &tasks.Which{Job: part.GetId(), Run: part.GetRun(), LeastSeq: seq}
		for _, name := range part.GetAllocation().NodeNames() {
			all.Go(func() {
				if r, err := e.askNode(ctx, name, &tasks.Question{What: &tasks.Question_Which{Which: w}}); err == nil {
					mu.Lock()
					replies = append(replies, r)
					mu.Unlock()
				} else {
					e.log.Warn("a node does not say which steps live there", "node", name, "job", part.GetId(), "error", err)
				}
			})
		}
	}
	all.Wait()
	for _, r := range replies {
		for _, n := range r.GetLiving() {
			if !events.IsAside(n.Step) {
				b.next = max(b.next, n.Step+1)
				b.give(n.Nonce, n.Step)
			}
		}
	}
}
