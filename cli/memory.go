package cli

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	gcPercent    = 50 // what a queue takes counts more than what collecting takes: half as much garbage as Go would let lie
	quietBytes   = 4 << 20
	releaseBytes = 16 << 20
	releaseEvery = 15 * time.Second
)

// frugal has this process, which lives long and is busy seldom, keep little memory that it does not need: garbage is collected early, and when
// a burst of work is over, what it took goes back to the machine, which Go by itself does within minutes. GOGC in the environment holds.
func frugal(ctx context.Context) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	go func() {
		const taken, live, objects, free, unused = 0, 1, 2, 3, 4
		read := []metrics.Sample{taken: {Name: "/gc/heap/allocs:bytes"}, live: {Name: "/gc/heap/live:bytes"}, objects: {Name: "/memory/classes/heap/objects:bytes"},
			free: {Name: "/memory/classes/heap/free:bytes"}, unused: {Name: "/memory/classes/heap/unused:bytes"}}
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		var before uint64
		var released time.Time
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			metrics.Read(read)
			value := func(i int) uint64 { return read[i].Value.Uint64() }
			quiet := value(taken)-before < quietBytes
			before = value(taken)
			held := value(objects) + value(free) + value(unused)
			if quiet && held > value(live)+max(releaseBytes, value(live)/4) && time.Since(released) > releaseEvery {
				debug.FreeOSMemory()
				released = time.Now()
			}
		}
	}()
}
