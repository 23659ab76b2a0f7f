package wire

import "stint/events"

// Refused is an agent's no: the sentence for the person who asked, and its kind.
type Refused struct {
	Code events.Code
	Text string
}

func (r *Refused) Error() string { return r.Text }
