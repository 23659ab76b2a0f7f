package server_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"stint/events/bus/jet"
	"stint/events/bus/server"
)

// What was written behind the last sync may be anything after the power went, with whole entries behind it. Whatever bit of an entry is wrong, the log
// that a server starts with is a prefix of what was written, each entry as it was, and the next comes right behind. What
// the NATS server does not see by an entry's sum, Stint cuts off, and keeps.
func TestTheLogIsAPrefix(t *testing.T) {
	dir, keys, ctx := filepath.Join(t.TempDir(), "bus"), openKeys(t), within(t)
	const entries, wrong = 5, 3
	msgs := filepath.Join(dir, "jetstream", "$G", "streams", "EVENTS", "msgs")
	block, index := filepath.Join(msgs, "1.blk"), filepath.Join(msgs, "index.db")
	var summary []byte // of what is whole, as a server that was stopped leaves it beside the block
	for _, part := range [][2]uint64{{1, wrong}, {wrong, entries + 1}} {
		s := start(t, dir, keys, 0)
		b := connect(t, s.URL(), keys, admin)
		if _, err := b.Provision(ctx, jet.Layout{Replicas: 1, Synced: true}); err != nil {
			t.Fatal(err)
		}
		for seq := part[0]; seq < part[1]; seq++ {
			if _, err := b.Events().Append(ctx, "ev.sched", seq-1, fmt.Appendf(nil, "entry %d", seq)); err != nil {
				t.Fatal(err)
			}
		}
		b.Close()
		s.Stop()
		if data, err := os.ReadFile(index); err != nil {
			t.Fatal(err)
		} else if summary == nil {
			summary = data
		}
	}
	whole, err := os.ReadFile(block)
	if err != nil {
		t.Fatal(err)
	}
	from, to := 0, 0 // of the entry that is spoiled
	for range wrong {
		from, to = to, to+int(binary.LittleEndian.Uint32(whole[to:])&^(1<<31))
	}
	headers := from + 22 + int(binary.LittleEndian.Uint16(whole[from+20:])) // where their length is, which no sum covers
	var bits []int
	for bit := range 32 {
		bits = append(bits, 8*headers+bit)
	}
	for _, at := range []int{from, from + 3, from + 4, from + 12, from + 20, from + 22, headers + 4, to - 9, to - 1} {
		bits = append(bits, 8*at, 8*at+7)
	}
	for n, bit := range bits {
		spoiled := bytes.Clone(whole)
		spoiled[bit/8] ^= 1 << (bit % 8)
		os.WriteFile(block, spoiled, 0o600)
		os.Remove(index)
		if n%2 == 0 {
			os.WriteFile(index, summary, 0o600)
		}
		func() {
			s := start(t, dir, keys, 0)
			defer s.Stop()
			b := connect(t, s.URL(), keys, admin)
			defer b.Close()
			what := fmt.Sprintf("bit %d of byte %d", bit%8, bit/8-from)
			_, last, err := b.Events().Bounds(ctx)
			if err != nil || last != wrong-1 {
				t.Fatalf("%s: the log ends at %d (%v)", what, last, err)
			}
			for seq := uint64(1); seq <= last; seq++ {
				if m, err := b.Events().Get(ctx, seq); err != nil || string(m.Data) != fmt.Sprintf("entry %d", seq) || m.Subject != "ev.sched" {
					t.Errorf("%s: entry %d of %d is %q on %s: %v", what, seq, last, m.Data, m.Subject, err)
				}
			}
			if seq, err := b.Events().Append(ctx, "ev.sched", last, []byte("next")); err != nil || seq != last+1 {
				t.Errorf("%s: behind %d the next entry is %d: %v", what, last, seq, err)
			}
			cut := server.CutOff(dir)
			if is := bit/8 >= headers && bit/8 < headers+4; is && len(cut) != 1 || len(cut) > 1 {
				t.Errorf("%s: cut off and kept are %v", what, cut)
			} else if len(cut) == 1 {
				if got, err := os.ReadFile(cut[0]); err != nil || !bytes.Equal(got, spoiled[from:]) {
					t.Errorf("%s: %s has %d bytes and not what was cut off: %v", what, cut[0], len(got), err)
				}
				os.Remove(cut[0])
			}
		}()
	}
}
