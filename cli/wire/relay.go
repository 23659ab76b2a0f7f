package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// Relay is a Response with an answer that is encoded already: one of a controller, or of the ledger.
type Relay struct {
	Answer  []byte
	Account []byte
}

// The numbers of the fields of Response that hold them.
const (
	answerField  = 5
	accountField = 6
)

// bytesType says of a field that its length and as many bytes follow.
const bytesType = 2

// Write sends it as one frame, without a copy of what may be megabytes.
func (r *Relay) Write(w io.Writer) error {
	field, data := uint64(answerField), r.Answer
	if r.Account != nil {
		field, data = accountField, r.Account
	}
	var room [4 + 16]byte
	head := binary.AppendUvarint(binary.AppendUvarint(room[:4], field<<3|bytesType), uint64(len(data)))
	size := len(head) - 4 + len(data)
	if size > MaxFrame {
		return fmt.Errorf("a message of %d bytes is larger than the %d that the agent takes", size, MaxFrame)
	}
	binary.BigEndian.PutUint32(head, uint32(size))
	_, err := (&net.Buffers{head, data}).WriteTo(w)
	return err
}
