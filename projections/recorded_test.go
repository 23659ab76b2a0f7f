package projections

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stint/events"
)

// Recorded logs: testdata/recorded/*.log are folded for ever, and come to what the .state file beside says. Logs are never
// written anew; a release adds one of its own (`go test -run Recorded -record NAME`). A state file changes (-rewrite) when state is kept
// in another way; when what is said of jobs or nodes changes, the meaning of old logs has changed, and that is a new
// version of the rules.
//
// The format: a line "stint log 1", then frames of sequence (8 bytes), time (8), length of the subject (2), length of the
// data (4), all big-endian, subject, data.
var record = flag.String("record", "", "record a log under this name")

const logHeader = "stint log 1\n"

func writeLog(w io.Writer, log []logged) error {
	b := bytes.NewBufferString(logHeader)
	for _, m := range log {
		b.Write(binary.BigEndian.AppendUint64(nil, m.seq))
		b.Write(binary.BigEndian.AppendUint64(nil, uint64(m.at)))
		b.Write(binary.BigEndian.AppendUint16(nil, uint16(len(m.subject))))
		b.Write(binary.BigEndian.AppendUint32(nil, uint32(len(m.data))))
		b.WriteString(m.subject)
		b.Write(m.data)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func readLog(data []byte) ([]logged, error) {
	rest, ok := bytes.CutPrefix(data, []byte(logHeader))
	if !ok {
		return nil, fmt.Errorf("no recorded log of version 1")
	}
	var log []logged
	for len(rest) > 0 {
		if len(rest) < 22 {
			return nil, fmt.Errorf("frame %d is cut short", len(log))
		}
		m := logged{seq: binary.BigEndian.Uint64(rest), at: int64(binary.BigEndian.Uint64(rest[8:]))}
		subject, size := int(binary.BigEndian.Uint16(rest[16:])), int(binary.BigEndian.Uint32(rest[18:]))
		if rest = rest[22:]; len(rest) < subject+size {
			return nil, fmt.Errorf("frame %d is cut short", len(log))
		}
		m.subject, m.data = string(rest[:subject]), rest[subject:subject+size]
		rest = rest[subject+size:]
		log = append(log, m)
	}
	return log, nil
}

func TestRecordedLogs(t *testing.T) {
	dir := filepath.Join("testdata", "recorded")
	if *record != "" {
		h := newChance(newHistory(t), 20)
		h.open()
		for range 400 {
			h.step()
		}
		f, err := os.OpenFile(filepath.Join(dir, *record+".log"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if err := writeLog(f, h.log); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded logs: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		log, err := readLog(data)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var again bytes.Buffer
		if err := writeLog(&again, log); err != nil || !bytes.Equal(again.Bytes(), data) {
			t.Fatalf("%s is not how a log is written (%v)", file, err)
		}
		c := New()
		var b strings.Builder
		s := &script{history: &history{t: t, c: c}, start: log[0].at}
		published := 0
		for _, m := range log {
			c.Apply(events.Decode(m.seq, m.at, m.subject, m.data))
			s.at = m.at
			for _, e := range JobEvents("test", c.Changes()) {
				fmt.Fprintf(&b, "%s\n", e.Data)
				published++
			}
		}
		fmt.Fprintf(&b, "%d messages, %d job events, state %x\n", len(log), published, c.Hash())
		c.EachJob(func(j *Job) bool { fmt.Fprintln(&b, s.line(j)); return true })
		c.nodes.each(func(_ uint32, n *Node) bool { fmt.Fprintln(&b, nodeLine(n)); return true })
		for _, v := range c.Voids() {
			fmt.Fprintf(&b, "%d × %s\n", v.Count, v.Why)
		}
		expected := strings.TrimSuffix(file, ".log") + ".state"
		if *rewrite || *record != "" {
			if err := os.WriteFile(expected, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(expected)
		if err != nil {
			t.Fatal(err)
		}
		if b.String() != string(want) {
			t.Errorf("%s comes to another state:\n%s", file, firstDifference(string(want), b.String()))
		}
	}
}
