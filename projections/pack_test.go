package projections

import (
	"bytes"
	"testing"
)

// A packed snapshot is read back as it was, with what jobs have in common once; what is cut or changed is refused or is another
// snapshot, never a panic.
func TestPackedSnapshot(t *testing.T) {
	l := newLife(t, 4, 200)
	first := l.submit()
	l.run(first)
	l.submit()
	want, err := l.c.Snapshot().MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	data, err := l.c.Snapshot().Pack()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Unpack(data)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := s.MarshalVT(); !bytes.Equal(got, want) {
		t.Error("the state that was read is another one")
	}
	if n := len(s.Jobs); n < 400 || s.Jobs[0].Spec != s.Jobs[n-1].Spec || len(data) > len(want)/2 {
		t.Errorf("%d jobs in %d bytes, %d unpacked, the first and the last with the request of %p and %p", n, len(data), len(want), s.Jobs[0].Spec, s.Jobs[n-1].Spec)
	}
	if _, err := Load(s); err != nil {
		t.Error(err)
	}
	for n := 0; n < len(data); n += 1 + n/16 {
		if _, err := Unpack(data[:n]); err == nil {
			t.Fatalf("%d of %d bytes are taken for a snapshot", n, len(data))
		}
		data[n] ^= 0x55
		Unpack(data)
		data[n] ^= 0x55
	}
}
