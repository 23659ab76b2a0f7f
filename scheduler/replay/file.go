package replay

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A recorded log is one stream of messages, each as uvarint sequence, varint time stamp, and the subject and the data, each
// after its length as uvarint.

// maxRecorded is the longest subject or data that is read from a recorded log.
const maxRecorded = 1 << 21

// Record writes one message of a recorded log.
func Record(w io.Writer, m Message) error {
	b := binary.AppendUvarint(nil, m.Seq)
	b = binary.AppendVarint(b, m.At)
	b = binary.AppendUvarint(b, uint64(len(m.Subject)))
	b = append(b, m.Subject...)
	b = binary.AppendUvarint(b, uint64(len(m.Data)))
	b = append(b, m.Data...)
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("recording message %d: %w", m.Seq, err)
	}
	return nil
}

// Recorded reads a recorded log.
func Recorded(r io.Reader) Source {
	return func(ctx context.Context, fn func(Message) error) error {
		in := bufio.NewReader(r)
		for {
			m, err := readRecorded(in)
			switch {
			case errors.Is(err, io.EOF) && m.Seq == 0:
				return nil
			case err != nil:
				return fmt.Errorf("recorded message %d: %w", m.Seq, err)
			}
			if err := fn(m); err != nil {
				return err
			}
		}
	}
}

func readRecorded(in *bufio.Reader) (m Message, err error) {
	if m.Seq, err = binary.ReadUvarint(in); err != nil {
		return m, err
	}
	if m.At, err = binary.ReadVarint(in); err != nil {
		return m, fmt.Errorf("time stamp: %w", err)
	}
	subject, err := readBytes(in)
	if err != nil {
		return m, fmt.Errorf("subject: %w", err)
	}
	m.Subject = string(subject)
	if m.Data, err = readBytes(in); err != nil {
		return m, fmt.Errorf("data: %w", err)
	}
	return m, nil
}

func readBytes(in *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, err
	}
	if n > maxRecorded {
		return nil, fmt.Errorf("%d bytes are more than any message has", n)
	}
	b := make([]byte, n)
	_, err = io.ReadFull(in, b)
	return b, err
}
