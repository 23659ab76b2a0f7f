package bus

import (
	"context"
	"sync"
)

// Near is who answers questions in the process that the bus's server runs in. Whoever asks there puts the question to them
// directly: on its way through the server it would wake a dozen goroutines, and say the same. A nil Near knows nobody.
type Near struct {
	mu   sync.RWMutex
	list []*Answerer
}

// Answerer is one call of Wire.Answer.
type Answerer struct {
	Pattern string                                       // of the subjects it answers
	Alive   context.Context                              // ends when it answers no more
	Open    chan struct{}                                // holds a token for each question that is being worked on
	Answer  func(context.Context, Nudge) ([]byte, error) // what was given to Wire.Answer
}

// Add makes an answerer known until remove is called.
func (n *Near) Add(a *Answerer) (remove func()) {
	if n == nil {
		return func() {}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, a)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		for i := range n.list {
			if n.list[i] == a {
				n.list = append(n.list[:i:i], n.list[i+1:]...)
				return
			}
		}
	}
}

// Find returns who answers a subject, nil if nobody here does.
func (n *Near) Find(subject string) *Answerer {
	if n == nil {
		return nil
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, a := range n.list {
		if a.Alive.Err() == nil && Matches(a.Pattern, subject) {
			return a
		}
	}
	return nil
}
