package supervisor

import (
	"bytes"
	"testing"
)

// Whatever arrives on the socket is a request or an error, and what is read is written again the same.
func FuzzReadMessage(f *testing.F) {
	for _, r := range []*Request{
		{Id: 1, Verb: &Request_Launch{&Launch{Key: &Key{Job: 1}, Script: []byte("#!/bin/sh\n"), Env: [][]byte{[]byte("A=b")}, Cage: &Cage{Cpus: []uint32{1}}}}},
		{Id: 2, Verb: &Request_Signal{&Signal{Job: 3, Signal: 9}}},
		{Id: 3, Verb: &Request_Watch{&Watch{}}},
		{},
	} {
		b, err := appendMessage(nil, r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= 4 && b[0] != 0 {
			return // not to spend the time on making room for megabytes that do not come
		}
		req := &Request{}
		if readMessage(bytes.NewReader(b), req) != nil {
			return
		}
		again, err := appendMessage(nil, req)
		if err != nil {
			t.Fatal(err)
		}
		back := &Request{}
		if err := readMessage(bytes.NewReader(again), back); err != nil || !back.EqualVT(req) {
			t.Fatalf("%v became %v, %v", req, back, err)
		}
		if l := req.GetLaunch(); l != nil {
			_ = check(l) // which must not panic
		}
	})
}
