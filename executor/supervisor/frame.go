package supervisor

import (
	"encoding/binary"
	"fmt"
	"io"
)

// maxFrame bounds one message on the socket, in bytes: a script of 4 MiB and a large environment fit many times.
const maxFrame = 64 << 20

type message interface {
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
	UnmarshalVT([]byte) error
}

// appendMessage appends m with its length in front.
func appendMessage(b []byte, m message) ([]byte, error) {
	n, at := m.SizeVT(), len(b)
	if n > maxFrame {
		return b, fmt.Errorf("a message of %d bytes is larger than the %d that fit", n, maxFrame)
	}
	b = append(b, make([]byte, 4+n)...)
	binary.BigEndian.PutUint32(b[at:], uint32(n))
	if _, err := m.MarshalToSizedBufferVT(b[at+4:]); err != nil {
		return b[:at], err
	}
	return b, nil
}

// readMessage reads one message. io.EOF: the other side is gone, between messages.
func readMessage(r io.Reader, m message) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return fmt.Errorf("a message of %d bytes was announced, %d are the most", n, maxFrame)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return m.UnmarshalVT(b)
}
