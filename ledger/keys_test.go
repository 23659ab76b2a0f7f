package ledger

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"testing"

	"stint/ledger/rows"
	"stint/projections"
)

// Keys sort as what they are made of, and no name's keys are found under another name's prefix.
func TestKeysSort(t *testing.T) {
	r := rand.New(rand.NewPCG(seedOf(t), 8))
	word := func() string {
		b := make([]byte, r.IntN(4))
		for i := range b {
			b[i] = []byte{0, 1, 2, 'a', 'b', 0xff}[r.IntN(6)]
		}
		return string(b)
	}
	record := func() recordKey {
		return recordKey{r.Uint32N(3) * (1<<32 - 1) / 2, r.Uint32N(3) * (1<<32 - 1) / 2, r.Uint32N(3)}
	}
	for range 20000 {
		u, v := word(), word()
		e, f := r.Int64N(3)<<40, r.Int64N(3)<<40
		k, l := record(), record()
		want := cmp.Or(cmp.Compare(u, v), cmp.Compare(e, f), k.compare(l))
		if got := bytes.Compare(userKey(nil, u, e, k), userKey(nil, v, f, l)); got != want {
			t.Fatalf("%q %d %v against %q %d %v: %d, want %d", u, e, k, v, f, l, got, want)
		}
		if bytes.HasPrefix(userKey(nil, u, e, k), userPrefix(nil, v)) != (u == v) {
			t.Fatalf("%q is found under %q, or not under itself", u, v)
		}
		if got := bytes.Compare(jobKey(nil, k), jobKey(nil, l)); got != k.compare(l) {
			t.Fatalf("%v against %v: %d", k, l, got)
		}
		at := position{turn{uint32(e >> 32), r.IntN(2) == 0, k.place}, k}
		if back, err := tailRecord(stateKey(nil, 3, e, k), at.turn.append(nil)); err != nil || back != at {
			t.Fatalf("%v comes back as %v, %v", at, back, err)
		}
		if back, err := parsePosition(at.append(nil), at.append(nil)[turnLen:]); err != nil || back != at {
			t.Fatalf("%v comes back as %v, %v", at, back, err)
		}
		if p := userPrefix(nil, u); bytes.Compare(userKey(nil, u, e, k), after(p)) >= 0 || bytes.Compare(p, after(p)) >= 0 {
			t.Fatalf("the end of prefix %x is %x", p, after(p))
		}
	}
}

func TestKeyOfRowIsKeyOfJob(t *testing.T) {
	h := sample(t)
	h.c.EachJob(func(j *projections.Job) bool {
		r := &rows.JobRow{Instance: j.Restarts}
		describe(r, j)
		if keyOf(j) != keyOfRow(r) {
			t.Errorf("job %d: %v and %v", j.Id, keyOf(j), keyOfRow(r))
		}
		return true
	})
}

// A damaged story is an error, never a panic, and what is whole comes back.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte{2, 0, 1, 5})
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, data []byte) {
		places, err := unpack(nil, data)
		if err != nil {
			return
		}
		c := &tables{stories: map[uint32]*chapter{}}
		for _, p := range places {
			if err := c.tell(1, p.seq, p.index); err != nil {
				t.Fatal(err)
			}
		}
	})
}
