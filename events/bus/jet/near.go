package jet

import (
	"bytes"
	"context"
	"fmt"

	"stint/events/bus"
)

// near is who answers in this process, if the server of the bus runs in it and is reached without a socket.
func near(o Options) *bus.Near {
	if s, ok := o.Server.(interface{ Near() *bus.Near }); ok {
		return s.Near()
	}
	return nil
}

// askNear puts a question to one who answers in this process. known is false if there is none, or none that has time, or if this role
// may not ask that: then the server of the bus is to say what comes of it.
func (w wire) askNear(ctx context.Context, subject string, question []byte) (data []byte, known bool, err error) {
	for {
		a := w.b.near.Find(subject)
		if a == nil || !w.mayAsk(subject) || w.b.alive.Err() != nil || ctx.Err() != nil {
			return nil, false, nil
		}
		select {
		case a.Open <- struct{}{}:
		default:
			return nil, false, nil
		}
		data, lost, err := w.askOf(ctx, a, bus.Nudge{Subject: subject, Data: bytes.Clone(question)})
		if !lost {
			return data, true, err
		}
	}
}

// askOf has a question worked on by an answerer. lost says that it stopped answering over it.
func (w wire) askOf(ctx context.Context, a *bus.Answerer, q bus.Nudge) (data []byte, lost bool, err error) {
	type answer struct {
		data []byte
		err  error
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.Alive, cancel)()
	done := make(chan answer, 1)
	go func() { // of its own: who asks leaves when its time is over, whatever the other does
		defer func() { <-a.Open }()
		data, err := a.Answer(inner, q)
		done <- answer{data, err}
	}()
	select {
	case got := <-done:
		switch {
		case got.err == nil:
			return got.data, false, nil
		case ctx.Err() != nil:
			return nil, false, fmt.Errorf("asking %s: %w", q.Subject, ctx.Err())
		case a.Alive.Err() != nil:
			return nil, true, nil
		}
		return nil, false, &bus.AnswerError{Text: oneLine(got.err.Error())}
	case <-ctx.Done():
		return nil, false, fmt.Errorf("asking %s: %w", q.Subject, ctx.Err())
	case <-a.Alive.Done():
		return nil, true, nil
	case <-w.b.closed:
		return nil, false, fmt.Errorf("asking %s: %w", q.Subject, bus.ErrClosed)
	}
}

// mayAsk says whether the role may ask that, as the server would.
func (w wire) mayAsk(subject string) bool {
	for _, p := range w.b.mayPublish {
		if bus.Matches(p, subject) {
			return true
		}
	}
	return false
}
