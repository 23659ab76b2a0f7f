package supervisor

// tally gathers what the processes of a step were seen to use. It remembers the last reading of each process, so that
// what ended between two samples is not lost from the sums.
type tally struct {
	last    map[int]reading
	samples uint32
	rssSum  uint64
	vmSum   uint64
	now     *Usage // of the last sample
	peak    peaks
}

type peaks struct {
	RssPeakBytes, VmPeakBytes uint64
	ProcessesPeak             uint32
}

type reading struct {
	startTicks         uint64
	userNs, systemNs   uint64
	readBytes, written uint64
	majorFaults        uint64
}

// take adds one sample: the processes there are now.
func (t *tally) take(procs []stat, io func(pid int) (read, written uint64)) *Usage {
	if t.last == nil {
		t.last = map[int]reading{}
	}
	u := &Usage{}
	for _, p := range procs {
		u.RssBytes += p.rssBytes
		u.VmBytes += p.vmBytes
		u.ProcessesPeak++
		r := reading{startTicks: p.startTicks, userNs: p.userTicks * tickNs, systemNs: p.systemTicks * tickNs, majorFaults: p.majorFaults}
		r.readBytes, r.written = io(p.pid)
		if old, ok := t.last[p.pid]; ok && old.startTicks != p.startTicks {
			t.last[-len(t.last)-1] = old // the number was given out again: keep what the former had used
		}
		t.last[p.pid] = r
	}
	for _, r := range t.last {
		u.UserNs += r.userNs
		u.SystemNs += r.systemNs
		u.ReadBytes += r.readBytes
		u.WriteBytes += r.written
		u.MajorFaults += r.majorFaults
	}
	t.samples++
	t.rssSum += u.RssBytes
	t.vmSum += u.VmBytes
	t.peak.RssPeakBytes = max(t.peak.RssPeakBytes, u.RssBytes)
	t.peak.VmPeakBytes = max(t.peak.VmPeakBytes, u.VmBytes)
	t.peak.ProcessesPeak = max(t.peak.ProcessesPeak, u.ProcessesPeak)
	u.RssPeakBytes, u.VmPeakBytes, u.ProcessesPeak, u.Samples = t.peak.RssPeakBytes, t.peak.VmPeakBytes, t.peak.ProcessesPeak, t.samples
	t.now = u
	return u
}

// into merges what was seen into u, which holds what the kernel told at the end: the larger of both is true, since each
// can only miss something.
func (t *tally) into(u *Usage) {
	u.UserNs = max(u.UserNs, t.now.GetUserNs())
	u.SystemNs = max(u.SystemNs, t.now.GetSystemNs())
	u.ReadBytes = max(u.ReadBytes, t.now.GetReadBytes())
	u.WriteBytes = max(u.WriteBytes, t.now.GetWriteBytes())
	u.MajorFaults = max(u.MajorFaults, t.now.GetMajorFaults())
	u.RssPeakBytes = max(u.RssPeakBytes, t.peak.RssPeakBytes)
	u.VmPeakBytes = max(u.VmPeakBytes, t.peak.VmPeakBytes)
	u.ProcessesPeak = max(u.ProcessesPeak, t.peak.ProcessesPeak)
	u.Samples = t.samples
	if t.samples > 0 {
		u.RssBytes, u.VmBytes = t.rssSum/uint64(t.samples), t.vmSum/uint64(t.samples)
	}
}
