package cgroup

import (
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
)

// BenchmarkJob is what control groups cost a job: its group and its step's with limits on cores, memory and processes,
// one process born inside, the counters read, everything removed. "bare" is the process alone.
//
// Measured on two busy cores, processor time for a job: bare 0.65 ms, hybrid 1.4 ms, of which making and removing are
// 0.4 ms. Version 1 groups are not kept for the next job, which would save 0.3 ms of that: their counters of processor
// time and of kills cannot be set back, nor told apart by a supervisor that comes after, and the page cache of one job
// would count for the next.
func BenchmarkJob(b *testing.B) {
	limits := Limits{CPUs: []int{0}, MemoryBytes: 256 << 20}
	path, err := exec.LookPath("true")
	if err != nil {
		b.Skip("needs the program true: ", err)
	}
	fork := func(attr *syscall.SysProcAttr) error {
		pid, err := syscall.ForkExec(path, []string{"true"}, &syscall.ProcAttr{Sys: attr})
		if err == nil {
			_, err = syscall.Wait4(pid, nil, 0, nil)
		}
		return err
	}
	b.Run("bare", func(b *testing.B) {
		defer perCPU(b)()
		for b.Loop() {
			if err := fork(&syscall.SysProcAttr{Setsid: true}); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, h := range hosts(b) {
		tree := newTree(b, h, Config{})
		b.Run(name, func(b *testing.B) {
			defer perCPU(b)()
			for b.Loop() {
				oneJob(b, tree, limits, fork)
			}
		})
		b.Run(name+"/no process", func(b *testing.B) {
			defer perCPU(b)()
			for b.Loop() {
				oneJob(b, tree, limits, nil)
			}
		})
		b.Run(name+"/with devices", func(b *testing.B) {
			defer perCPU(b)()
			l := limits
			l.DenyDevices = []Device{{'c', 195, 0}, {'c', 195, 1}}
			for b.Loop() {
				oneJob(b, tree, l, nil)
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			defer perCPU(b)()
			b.SetParallelism(2)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					oneJob(b, tree, limits, fork)
				}
			})
		})
	}
}

var lastJob atomic.Uint64

func oneJob(b *testing.B, tree *Tree, l Limits, fork func(*syscall.SysProcAttr) error) {
	job, err := tree.CreateJob(lastJob.Add(1), 0, l)
	if err != nil {
		b.Error(err)
		return
	}
	g, err := job.CreateStep("batch", Limits{})
	if err != nil {
		b.Error(err)
		return
	}
	if fork != nil {
		attr := &syscall.SysProcAttr{Setsid: true}
		if err := g.Launch(attr, func() error { return fork(attr) }); err != nil {
			b.Error(err)
		}
		if _, err := g.Stats(); err != nil {
			b.Error(err)
		}
	}
	if err := g.Remove(); err != nil {
		b.Error(err)
	}
	if err := job.Remove(); err != nil {
		b.Error(err)
	}
}

// perCPU reports the processor time of an operation, children included, which a busy machine does not change.
func perCPU(b *testing.B) func() {
	used := func() (ns int64) {
		for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
			var u syscall.Rusage
			_ = syscall.Getrusage(who, &u)
			ns += u.Utime.Nano() + u.Stime.Nano()
		}
		return ns
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}
