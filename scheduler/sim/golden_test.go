package sim

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"testing"

	"stint/scheduler/cycle"
	"stint/scheduler/replay"
)

var golden = flag.Bool("golden", false, "record golden logs of the present decider version")

// TestGolden records logs that replay's tests hold later versions to. It never overwrites one.
func TestGolden(t *testing.T) {
	if !*golden {
		t.Skip("records only when told to by -golden")
	}
	for seed := uint64(1); seed <= 4; seed++ {
		a, err := history(seed)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var file bytes.Buffer
		out, _ := gzip.NewWriterLevel(&file, gzip.BestCompression)
		for _, m := range a.w.log {
			if err := replay.Record(out, replay.Message(m)); err != nil {
				t.Fatal(err)
			}
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("../replay/testdata/golden-%d-%d.log.gz", cycle.Decider, seed)
		if _, err := os.Stat(name); err == nil {
			t.Fatalf("%s is there: a recorded log stays as it is", name)
		}
		if err := os.WriteFile(name, file.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
