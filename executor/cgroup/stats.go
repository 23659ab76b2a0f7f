package cgroup

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Stats is what the kernel counted for a group and the groups below it. A field whose Has bit is missing could not be
// read on this host, and is zero.
type Stats struct {
	Has Field

	CPUUser   time.Duration // summed over all processes, ended ones included
	CPUSystem time.Duration

	MemoryBytes     uint64 // in use now, page cache included
	MemoryPeakBytes uint64 // most ever in use, page cache included
	OOMKills        uint64 // processes that the kernel killed for want of memory

	PIDs     uint64 // processes and threads now
	PIDsPeak uint64

	ReadBytes  uint64 // from block devices
	WriteBytes uint64
}

// Field is a set of fields of Stats.
type Field uint

const (
	HasCPU Field = 1 << iota
	HasMemory
	HasMemoryPeak
	HasOOMKills
	HasPIDs
	HasPIDsPeak
	HasIO
)

// Stats reads the counters. A group that is gone has none of them, which is no error.
func (g *Group) Stats() (Stats, error) {
	var s Stats
	if !g.Active() {
		return s, ErrNoGroups
	}
	s.readCPU(g)
	s.readMemory(g)
	if n, err := g.OOMKills(); err == nil {
		s.OOMKills, s.Has = n, s.Has|HasOOMKills
	}
	if d, ok := g.dir("pids"); ok {
		if n, err := readUint(filepath.Join(d.path, "pids.current")); err == nil {
			s.PIDs, s.Has = n, s.Has|HasPIDs
		}
		if n, err := readUint(filepath.Join(d.path, "pids.peak")); err == nil {
			s.PIDsPeak, s.Has = n, s.Has|HasPIDsPeak
		}
	}
	if d, ok := g.dir("io"); ok {
		if text, err := readFile(filepath.Join(d.path, "io.stat")); err == nil {
			s.ReadBytes, s.WriteBytes = parseIO(text)
			s.Has |= HasIO
		}
	}
	return s, nil
}

// readCPU takes the version 2 counter where there is one (its user and system parts are scaled to the exact sum), else
// cpuacct's exact sum split by its coarser parts.
func (s *Stats) readCPU(g *Group) {
	if m, err := g.main(); err == nil && m.v2 {
		if k, err := readKeys(filepath.Join(m.path, "cpu.stat")); err == nil {
			if _, ok := k["user_usec"]; ok {
				s.CPUUser = time.Duration(k["user_usec"]) * time.Microsecond
				s.CPUSystem = time.Duration(k["system_usec"]) * time.Microsecond
				s.Has |= HasCPU
				return
			}
		}
	}
	d, ok := g.dir("cpuacct")
	if !ok {
		return
	}
	sum, err := readUint(filepath.Join(d.path, "cpuacct.usage"))
	if err != nil {
		return
	}
	parts, err := readKeys(filepath.Join(d.path, "cpuacct.stat"))
	if err != nil {
		return
	}
	s.CPUUser, s.CPUSystem = splitCPU(sum, parts["user"], parts["system"])
	s.Has |= HasCPU
}

// splitCPU divides an exact sum in the proportion of two coarse counters; with neither, it was user time.
func splitCPU(ns, user, system uint64) (time.Duration, time.Duration) {
	if user+system == 0 {
		return time.Duration(ns), 0
	}
	u := time.Duration(float64(ns) * float64(user) / float64(user+system))
	return u, time.Duration(ns) - u
}

func (s *Stats) readMemory(g *Group) {
	d, ok := g.dir("memory")
	if !ok {
		return
	}
	current, peak := "memory.usage_in_bytes", "memory.max_usage_in_bytes"
	if d.v2 {
		current, peak = "memory.current", "memory.peak"
	}
	if n, err := readUint(filepath.Join(d.path, current)); err == nil {
		s.MemoryBytes, s.Has = n, s.Has|HasMemory
	}
	if n, err := readUint(filepath.Join(d.path, peak)); err == nil {
		s.MemoryPeakBytes, s.Has = n, s.Has|HasMemoryPeak
	}
}

// OOMKills counts the processes of the group, and of groups below it, that the kernel killed for want of memory. Read it
// before Remove.
func (g *Group) OOMKills() (uint64, error) {
	d, ok := g.dir("memory")
	if !ok {
		return 0, fmt.Errorf("counting out-of-memory kills of control group %s: no memory controller: %w", g.Name(), ErrNoGroups)
	}
	if d.v2 {
		k, err := readKeys(filepath.Join(d.path, "memory.events"))
		return k["oom_kill"], err
	}
	// Version 1 counts a kill only in the group that the victim was in.
	k, err := readKeys(filepath.Join(d.path, "memory.oom_control"))
	if err != nil {
		return 0, err
	}
	n := k["oom_kill"]
	if g.Step == "" {
		err = eachStep(d.path, func(step string) {
			if k, err := readKeys(filepath.Join(d.path, "step_"+step, "memory.oom_control")); err == nil {
				n += k["oom_kill"]
			}
		})
	}
	return n, err
}

// parseIO sums io.stat over devices.
func parseIO(text string) (read, written uint64) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		for _, f := range fields[1:] {
			k, v, _ := strings.Cut(f, "=")
			n := parseKeys(k + " " + v)[k]
			switch k {
			case "rbytes":
				read += n
			case "wbytes":
				written += n
			}
		}
	}
	return read, written
}
