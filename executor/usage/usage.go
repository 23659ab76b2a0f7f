// Package usage measures what a step uses: processor time, memory, input and output, now and at its peak. It reads the
// step's processes in /proc, which an ordinary user can do too, and takes from the step's control group, where there is
// one, what /proc forgets when a process ends.
package usage

import (
	"syscall"
	"time"
)

// Sample is the state of a step at one moment.
type Sample struct {
	CPUUser   time.Duration // so far, ended processes included as far as they are known
	CPUSystem time.Duration
	RSSBytes  uint64 // resident memory, summed over processes; shared pages count in each
	VMBytes   uint64 // address space, summed
	Pages     uint64 // page faults that needed the disk, so far
	// ReadBytes and WriteBytes are what was asked of read and write calls, so far, pipes and caches included: the same
	// as Slurm accounts.
	ReadBytes  uint64
	WriteBytes uint64
	PIDs       int
}

// Kernel is what the step's control group has counted. The zero value is for a step without one.
type Kernel struct {
	HasCPU    bool
	CPUUser   time.Duration
	CPUSystem time.Duration
	OOMKills  uint64
	PIDsPeak  uint64
}

// Totals are the sums and peaks of a step so far, for its end. They are plain values, to be kept over a restart.
type Totals struct {
	CPUUser     time.Duration
	CPUSystem   time.Duration
	MaxRSSBytes uint64
	MaxVMBytes  uint64
	MaxPages    uint64
	ReadBytes   uint64
	WriteBytes  uint64
	MaxPIDs     uint64
	OOMKills    uint64
	SumRSSBytes uint64 // over all samples: divided by Samples it is the average
	Samples     uint32

	// EndedUser and EndedSystem are what the tasks had used that have been waited for, and all below them.
	EndedUser   time.Duration
	EndedSystem time.Duration
}

// Meter follows one step from sample to sample. It is not safe for use by several goroutines at once. The zero Meter is
// that of a step that has just begun; Meter{Totals: t} goes on where another left off.
type Meter struct {
	Totals Totals
}

// Sample reads the given processes below proc ("/proc") and takes over the peaks. Processes that end meanwhile are left
// out. It is cheap enough for every few seconds: two small files a process.
func (m *Meter) Sample(proc string, pids []int, k Kernel) Sample {
	var s Sample
	for _, pid := range pids {
		p, err := readProcess(proc, pid)
		if err != nil {
			continue
		}
		s.PIDs++
		s.CPUUser += p.user
		s.CPUSystem += p.system
		s.RSSBytes += p.rss
		s.VMBytes += p.vm
		s.Pages += p.pages
		s.ReadBytes += p.read
		s.WriteBytes += p.written
	}
	t := &m.Totals
	s.CPUUser, s.CPUSystem = s.CPUUser+t.EndedUser, s.CPUSystem+t.EndedSystem
	if k.HasCPU {
		s.CPUUser, s.CPUSystem = k.CPUUser, k.CPUSystem
	}
	// What a process had used is lost from /proc when it ends without a parent in the step that waits for it, so sums
	// are kept from falling.
	t.CPUUser, t.CPUSystem = max(t.CPUUser, s.CPUUser), max(t.CPUSystem, s.CPUSystem)
	t.ReadBytes, t.WriteBytes = max(t.ReadBytes, s.ReadBytes), max(t.WriteBytes, s.WriteBytes)
	t.MaxPages = max(t.MaxPages, s.Pages)
	s.CPUUser, s.CPUSystem, s.ReadBytes, s.WriteBytes, s.Pages = t.CPUUser, t.CPUSystem, t.ReadBytes, t.WriteBytes, t.MaxPages
	t.MaxRSSBytes, t.MaxVMBytes = max(t.MaxRSSBytes, s.RSSBytes), max(t.MaxVMBytes, s.VMBytes)
	t.MaxPIDs = max(t.MaxPIDs, uint64(s.PIDs))
	if s.PIDs > 0 {
		t.SumRSSBytes += s.RSSBytes
		t.Samples++
	}
	m.kernel(k)
	return s
}

func (m *Meter) kernel(k Kernel) {
	if k.HasCPU {
		m.Totals.CPUUser, m.Totals.CPUSystem = max(m.Totals.CPUUser, k.CPUUser), max(m.Totals.CPUSystem, k.CPUSystem)
	}
	m.Totals.OOMKills = max(m.Totals.OOMKills, k.OOMKills)
	m.Totals.MaxPIDs = max(m.Totals.MaxPIDs, k.PIDsPeak)
}

// Ended takes over what waiting for one task of the step told, which covers all processes that were waited for below it.
// A task too short for a sample has its peaks from here.
func (m *Meter) Ended(r syscall.Rusage) {
	t := &m.Totals
	t.EndedUser += time.Duration(r.Utime.Nano())
	t.EndedSystem += time.Duration(r.Stime.Nano())
	t.CPUUser, t.CPUSystem = max(t.CPUUser, t.EndedUser), max(t.CPUSystem, t.EndedSystem)
	t.MaxRSSBytes = max(t.MaxRSSBytes, uint64(r.Maxrss)<<10)
	t.MaxPages = max(t.MaxPages, uint64(r.Majflt))
	t.ReadBytes = max(t.ReadBytes, uint64(r.Inblock)*512)
	t.WriteBytes = max(t.WriteBytes, uint64(r.Oublock)*512)
	t.MaxPIDs = max(t.MaxPIDs, 1)
}

// Finish takes over what the control group counted last, just before it is removed, and gives the totals.
func (m *Meter) Finish(k Kernel) Totals {
	m.kernel(k)
	return m.Totals
}
