package wire

import (
	"bytes"
	"testing"

	"stint/ledger/rows"
	"stint/projections"
)

// What is passed on as it came reads like a response that was made of it.
func TestRelayIsAResponse(t *testing.T) {
	answer := &projections.Answer{Seq: 7, Error: "no"}
	account := &rows.Answer{Seq: 8, More: []byte("x")}
	for _, want := range []*Response{{What: &Response_Answer{Answer: answer}}, {What: &Response_Account{Account: account}}} {
		relay := &Relay{}
		if a := want.GetAnswer(); a != nil {
			relay.Answer, _ = a.MarshalVT()
		} else {
			relay.Account, _ = want.GetAccount().MarshalVT()
		}
		var frame bytes.Buffer
		if err := relay.Write(&frame); err != nil {
			t.Fatal(err)
		}
		got := new(Response)
		if err := Read(&frame, got, MaxFrame); err != nil {
			t.Fatal(err)
		}
		if !got.EqualVT(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
