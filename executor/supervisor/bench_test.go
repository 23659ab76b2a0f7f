package supervisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// BenchmarkLaunch runs batch scripts end to end through a supervisor: launch on the socket, journal on the disk, process,
// exit told and acknowledged. Compare with BenchmarkBareForkExec, the same script with nothing around it.
func BenchmarkLaunch(b *testing.B) {
	b.Run("uncaged", func(b *testing.B) { benchLaunch(b) })
	b.Run("caged", func(b *testing.B) { benchLaunch(b, caged(b)) })
}

func benchLaunch(b *testing.B, change ...func(*rig)) {
	r := newRig(b, change...)
	ctx := context.Background()
	const inFlight = 8
	slots := make(chan struct{}, inFlight)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var keys []*Key
		for n := 0; n < b.N; {
			e := <-r.events
			if e.Exited == nil {
				continue
			}
			if e.Exited.End != End_EXITED {
				b.Errorf("%v", e.Exited)
			}
			n++
			<-slots
			if keys = append(keys, e.Exited.Key); len(keys) >= 32 || n == b.N {
				if err := r.client.Acknowledge(ctx, keys...); err != nil {
					b.Error(err)
				}
				keys = nil
			}
		}
	}()
	b.ResetTimer()
	for range b.N {
		slots <- struct{}{}
		go func() {
			l := r.script("exit 0", func(l *Launch) { l.Cage = &Cage{Cpus: []uint32{0, 1}, MemoryBytes: 256 << 20} })
			if a, err := r.client.Launch(ctx, l); err != nil || a.Failure != Failure_NO_FAILURE {
				b.Errorf("%v %v", a, err)
			}
		}()
	}
	<-done
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

func BenchmarkBareForkExec(b *testing.B) {
	script := filepath.Join(b.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/bash\nexit 0\n"), 0o700); err != nil {
		b.Fatal(err)
	}
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	var wg sync.WaitGroup
	work := make(chan int)
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range work {
				pid, err := syscall.ForkExec(script, []string{script}, &syscall.ProcAttr{Files: []uintptr{null.Fd(), null.Fd(), null.Fd()}})
				if err != nil {
					b.Error(err)
					return
				}
				var ws syscall.WaitStatus
				if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil {
					b.Error(fmt.Errorf("waiting: %w", err))
				}
			}
		}()
	}
	b.ResetTimer()
	for range b.N {
		work <- 1
	}
	close(work)
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
