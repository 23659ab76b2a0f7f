package pmi

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Version 2: after the first line, which is as in version 1, messages of six digits, padded with blanks, that say how long the rest
// is, and `name=value;` so often; a semicolon in a value stands twice. What a thread asks with a thrid is answered with it.

// field is one name and its value.
type field struct{ name, value string }

// message is the fields of one message; get finds the first of a name.
type message []field

func (m message) get(name string) string {
	for _, f := range m {
		if f.name == name {
			return f.value
		}
	}
	return ""
}

// messageOf reads the fields of a message.
func messageOf(text string) (message, error) {
	var m message
	for text != "" {
		name, rest, ok := strings.Cut(text, "=")
		if !ok {
			return nil, errors.New("a name has no value")
		}
		var value strings.Builder
		for {
			at := strings.IndexByte(rest, ';')
			if at < 0 {
				return nil, errors.New("a value has no end")
			}
			value.WriteString(rest[:at])
			if rest = rest[at+1:]; !strings.HasPrefix(rest, ";") {
				break
			}
			value.WriteByte(';')
			rest = rest[1:]
		}
		m = append(m, field{name, value.String()})
		text = rest
	}
	return m, nil
}

// textOf is a message on the wire.
func textOf(m message) string {
	var b strings.Builder
	for _, f := range m {
		b.WriteString(f.name)
		b.WriteByte('=')
		b.WriteString(strings.ReplaceAll(f.value, ";", ";;"))
		b.WriteByte(';')
	}
	return fmt.Sprintf("%6d", b.Len()) + b.String()
}

// hear reads one message.
func (t *talk) hear() (message, error) {
	var head [6]byte
	if _, err := io.ReadFull(t.r, head[:]); err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(head[:])))
	if err != nil || n < 0 || n > maxLine {
		return nil, fmt.Errorf("task %d: what it says by PMI has the length %s, which is no number up to %d", t.rank, clip(string(head[:])), maxLine)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(t.r, body); err != nil {
		return nil, err
	}
	m, err := messageOf(string(body))
	if err != nil {
		return nil, fmt.Errorf("task %d: what it says by PMI cannot be read: %w: %s", t.rank, err, clip(string(body)))
	}
	return m, nil
}

// two speaks with a client of version 2 until it is done.
func (t *talk) two() error {
	for {
		m, err := t.hear()
		if err != nil {
			return err
		}
		answer := func(fields ...field) {
			out := message{{"cmd", m.get("cmd") + "-response"}}
			if id := m.get("thrid"); id != "" {
				out = append(out, field{"thrid", id})
			}
			t.reply(textOf(append(out, fields...)))
		}
		if err := t.answer(m, answer); err != nil {
			return err
		}
	}
}

// done and refused are the ends of an answer.
var done = field{"rc", "0"}

func refused(err error) []field { return []field{{"rc", "1"}, {"errmsg", err.Error()}} }

func found(v string, ok bool) []field {
	if !ok {
		return []field{{"found", "FALSE"}, done}
	}
	return []field{{"found", "TRUE"}, {"value", v}, done}
}

// answer answers one message. The error ends the talk.
func (t *talk) answer(m message, answer func(...field)) error {
	s := t.s
	switch m.get("cmd") {
	case "fullinit":
		answer(field{"pmi-version", "2"}, field{"pmi-subversion", "0"}, field{"rank", strconv.FormatUint(uint64(t.rank), 10)},
			field{"size", strconv.Itoa(s.job.Size)}, field{"appnum", "0"}, field{"pmiverbose", "FALSE"}, field{"debugged", "FALSE"},
			field{"spawner-jobid", ""}, done)
	case "job-getid":
		answer(field{"jobid", s.job.ID}, done)
	case "kvs-put":
		if err := s.putPair(m.get("key"), m.get("value")); err != nil {
			answer(refused(err)...)
			return nil
		}
		answer(done)
	case "kvs-get":
		answer(found(s.get(m.get("key")))...)
	case "kvs-fence":
		s.fence(t.rank, func(err error) {
			if err != nil {
				answer(refused(err)...)
				return
			}
			answer(done)
		})
	case "info-getjobattr":
		answer(found(s.attribute(m.get("key")))...)
	case "info-putnodeattr":
		if err := s.setAttribute(m.get("key"), m.get("value")); err != nil {
			answer(refused(err)...)
			return nil
		}
		answer(done)
	case "info-getnodeattr":
		v, ok, later := s.nodeAttribute(m.get("key"), strings.EqualFold(m.get("wait"), "TRUE"), func(v string) { answer(found(v, true)...) })
		if !later {
			answer(found(v, ok)...)
		}
	case "job-connect", "job-disconnect", "spawn", "name-publish", "name-unpublish", "name-lookup":
		answer(refused(fmt.Errorf("%s is not supported by Stint yet", m.get("cmd")))...)
	case "finalize":
		answer(done)
		return errFinalized
	case "abort":
		s.Abort(t.rank, 1, m.get("msg"))
	default:
		return fmt.Errorf("task %d: what it asks by PMI is not known: %s", t.rank, clip(m.get("cmd")))
	}
	return nil
}
