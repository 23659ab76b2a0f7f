package replay

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"stint/scheduler/cycle"
)

// TestGoldenLogs: logs that were recorded once (by go test ./scheduler/sim -run Golden -golden) hold for ever. Those that
// this version of the deciding code recorded come out the same, fact by fact; those of earlier versions pass the definition
// of feasible.
func TestGoldenLogs(t *testing.T) {
	files, err := filepath.Glob("testdata/golden-*.log.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden logs: %v", err)
	}
	derived := uint64(0)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		in, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		r, err := Verify(t.Context(), Recorded(in), Options{})
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		derived += r.Derived
		if r.First != nil {
			t.Errorf("%s: decisions come out differently under decider version %d: if that is meant, raise cycle.Decider and record another log beside this one.\n%v", file, cycle.Decider, r.First)
		}
		if r.Cycles == 0 || r.Derived+r.Others != r.Cycles {
			t.Errorf("%s: %+v", file, r)
		}
	}
	if derived == 0 {
		t.Errorf("no golden log is of decider version %d: record one", cycle.Decider)
	}
}

func TestRecordedLogsAreReadAsWritten(t *testing.T) {
	log := scripted(t, "../sim/testdata/first.txt")
	var file bytes.Buffer
	for _, m := range log {
		if err := Record(&file, Message(m)); err != nil {
			t.Fatal(err)
		}
	}
	whole := bytes.Clone(file.Bytes())
	n := 0
	err := Recorded(&file)(t.Context(), func(m Message) error {
		if want := Message(log[n]); m.Seq != want.Seq || m.At != want.At || m.Subject != want.Subject || !bytes.Equal(m.Data, want.Data) {
			t.Fatalf("message %d is read as %v", n, m)
		}
		n++
		return nil
	})
	if err != nil || n != len(log) {
		t.Fatalf("%d of %d messages: %v", n, len(log), err)
	}
	// Cut anywhere inside a message it is an error, not a shorter log.
	if err := Recorded(bytes.NewReader(whole[:len(whole)-3]))(t.Context(), func(Message) error { return nil }); err == nil {
		t.Error("a log that was cut off is read without an error")
	}
}

func FuzzRecorded(f *testing.F) {
	var file bytes.Buffer
	for seq := range uint64(3) {
		if err := Record(&file, Message{Seq: seq + 1, At: 5, Subject: "ev.sched", Data: []byte("data")}); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		n := 0
		err := Recorded(bytes.NewReader(data))(t.Context(), func(m Message) error {
			n += len(m.Subject) + len(m.Data)
			return nil
		})
		if n > len(data) {
			t.Fatalf("%d bytes read from %d (%v)", n, len(data), err)
		}
	})
}
