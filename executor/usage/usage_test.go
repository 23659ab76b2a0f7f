package usage

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakeProc writes processes as /proc shows them.
func fakeProc(t *testing.T, dir string, ps ...fakeProcess) string {
	if dir == "" {
		dir = t.TempDir()
	}
	for _, p := range ps {
		d := filepath.Join(dir, fmt.Sprint(p.pid))
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		state := "S"
		if p.zombie {
			state = "Z"
		}
		// pid (comm) state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime cutime cstime
		// priority nice threads itrealvalue starttime vsize rss …
		line := fmt.Sprintf("%d (%s) %s %d %d %d 0 -1 4194560 100 0 %d %d %d %d %d %d 20 0 1 0 100 %d %d 18446744073709551615 0\n",
			p.pid, p.name, state, p.parent, p.session, p.session, p.majflt, p.cmajflt, p.utime, p.stime, p.cutime, p.cstime, p.vsize, p.rss)
		io := fmt.Sprintf("rchar: %d\nwchar: %d\nsyscr: 1\nread_bytes: 5\n", p.rchar, p.wchar)
		for name, text := range map[string]string{"stat": line, "io": io, "environ": strings.Join(p.env, "\x00") + "\x00"} {
			if err := os.WriteFile(filepath.Join(d, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

type fakeProcess struct {
	pid, parent, session         int
	name                         string
	zombie                       bool
	utime, stime, cutime, cstime int // ticks
	majflt, cmajflt              int
	vsize, rss                   int // bytes, pages
	rchar, wchar                 int
	env                          []string
}

func TestSampleSumsAndPeaks(t *testing.T) {
	proc := fakeProc(t, "",
		fakeProcess{pid: 10, name: "bash", session: 10, utime: 3, stime: 1, cutime: 20, cstime: 2, vsize: 1000, rss: 5, rchar: 70, wchar: 7, majflt: 1, cmajflt: 2},
		fakeProcess{pid: 11, name: "a b) (S 1", session: 10, utime: 100, stime: 10, vsize: 5000, rss: 50, rchar: 30, wchar: 3},
	)
	var m Meter
	s := m.Sample(proc, []int{10, 11, 12}, Kernel{}) // 12 has ended
	page := uint64(os.Getpagesize())
	want := Sample{CPUUser: 1230 * time.Millisecond, CPUSystem: 130 * time.Millisecond, RSSBytes: 55 * page, VMBytes: 6000, Pages: 3,
		ReadBytes: 100, WriteBytes: 10, PIDs: 2}
	if s != want {
		t.Errorf("got  %+v\nwant %+v", s, want)
	}
	// The second process has ended and nobody in the step waited for it: sums stay, the present falls.
	s = m.Sample(proc, []int{10}, Kernel{})
	if s.RSSBytes != 5*page || s.PIDs != 1 || s.CPUUser != want.CPUUser || s.ReadBytes != 100 {
		t.Errorf("%+v", s)
	}
	if m.Totals.MaxRSSBytes != 55*page || m.Totals.MaxVMBytes != 6000 || m.Totals.MaxPIDs != 2 || m.Totals.Samples != 2 || m.Totals.SumRSSBytes != 60*page {
		t.Errorf("%+v", m.Totals)
	}
	// With a control group its processor time counts, exact and complete.
	s = m.Sample(proc, []int{10}, Kernel{HasCPU: true, CPUUser: 9 * time.Second, CPUSystem: time.Second, OOMKills: 2, PIDsPeak: 40})
	if s.CPUUser != 9*time.Second || m.Totals.OOMKills != 2 || m.Totals.MaxPIDs != 40 {
		t.Errorf("%+v %+v", s, m.Totals)
	}
	// A meter taken up after a restart goes on.
	again := Meter{Totals: m.Totals}
	again.Ended(syscall.Rusage{Maxrss: 1 << 20, Utime: syscall.Timeval{Sec: 1}})
	end := again.Finish(Kernel{HasCPU: true, CPUUser: 10 * time.Second})
	if end.CPUUser != 10*time.Second || end.MaxRSSBytes != 1<<30 || end.Samples != 3 {
		t.Errorf("%+v", end)
	}
}

func TestNothingSampled(t *testing.T) {
	var m Meter
	if s := m.Sample(t.TempDir(), []int{1}, Kernel{}); s != (Sample{}) || m.Totals.Samples != 0 {
		t.Errorf("%+v %+v", s, m.Totals)
	}
	m.Ended(syscall.Rusage{Utime: syscall.Timeval{Usec: 1500}, Maxrss: 2048, Inblock: 8})
	end := m.Finish(Kernel{})
	if end.CPUUser != 1500*time.Microsecond || end.MaxRSSBytes != 2<<20 || end.ReadBytes != 4096 || end.MaxPIDs != 1 {
		t.Errorf("%+v", end)
	}
}

// Two tasks of a step without a control group: what the first had used stays in the sum when it is gone from /proc.
func TestTasksAddUp(t *testing.T) {
	var m Meter
	proc := fakeProc(t, "", fakeProcess{pid: 1, name: "a", utime: 100}, fakeProcess{pid: 2, name: "b", utime: 50})
	m.Sample(proc, []int{1, 2}, Kernel{})
	m.Ended(syscall.Rusage{Utime: syscall.Timeval{Sec: 1, Usec: 2000}})
	fakeProc(t, proc, fakeProcess{pid: 2, name: "b", utime: 70})
	if s := m.Sample(proc, []int{2}, Kernel{}); s.CPUUser != 1702*time.Millisecond {
		t.Errorf("%v", s.CPUUser)
	}
	m.Ended(syscall.Rusage{Utime: syscall.Timeval{Usec: 800000}})
	if end := m.Finish(Kernel{}); end.CPUUser != 1802*time.Millisecond {
		t.Errorf("%v", end.CPUUser)
	}
}

func TestProcessesOfAStep(t *testing.T) {
	proc := fakeProc(t, "",
		fakeProcess{pid: 1, name: "init", session: 1},
		fakeProcess{pid: 20, parent: 1, name: "leader", session: 20},
		fakeProcess{pid: 21, parent: 20, name: "child", session: 20},
		fakeProcess{pid: 22, parent: 21, name: "own session", session: 22},
		fakeProcess{pid: 23, parent: 1, name: "orphan in session", session: 20},
		fakeProcess{pid: 24, parent: 1, name: "daemon", session: 24, env: []string{"A=1", "STEP=5.0"}},
		fakeProcess{pid: 25, parent: 24, name: "its child", session: 24},
		fakeProcess{pid: 26, parent: 1, name: "stranger", session: 26, env: []string{"STEP=5.01", "X=STEP=5.0"}},
		fakeProcess{pid: 27, parent: 20, name: "ended", session: 20, zombie: true},
	)
	if err := os.Mkdir(filepath.Join(proc, "self"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		leader int
		mark   string
		want   []int
	}{
		{20, "STEP=5.0", []int{20, 21, 22, 23, 24, 25}},
		{20, "", []int{20, 21, 22, 23}},
		{0, "STEP=5.0", []int{24, 25}},
		{99, "", nil},
	} {
		got, err := Processes(proc, tt.leader, tt.mark)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%d %q: got %v, %v; want %v", tt.leader, tt.mark, got, err, tt.want)
		}
	}
}

func TestRealProcesses(t *testing.T) {
	// A shell that starts a child in the background and waits; the child is found and measured.
	c := exec.Command("/bin/sh", "-c", "head -c 3000000 /dev/zero > /dev/null; read line")
	c.Env = append(os.Environ(), "STINT_USAGE_TEST=yes")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var m Meter
	for end := time.Now().Add(10 * time.Second); m.Totals.ReadBytes < 3000000; time.Sleep(5 * time.Millisecond) {
		pids, err := Processes("/proc", c.Process.Pid, "STINT_USAGE_TEST=yes")
		if err != nil || !slices.Contains(pids, c.Process.Pid) {
			t.Fatalf("%v, %v", pids, err)
		}
		m.Sample("/proc", pids, Kernel{})
		if time.Now().After(end) {
			t.Fatalf("the reading of its child is not seen: %+v", m.Totals)
		}
	}
	in.Close()
	_ = c.Wait()
	m.Ended(*c.ProcessState.SysUsage().(*syscall.Rusage))
	total := m.Finish(Kernel{})
	if total.MaxRSSBytes < 100<<10 || total.MaxVMBytes == 0 || total.WriteBytes < 3000000 {
		t.Errorf("%+v", total)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("1 (init) S 0 1 1 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 1 1 1 18446744073709551615")
	f.Add("12 (a) b) R 0 1 1")
	f.Add(")(")
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := parseStat(s); err == nil && p.pid < -1<<62 {
			t.Fatal(p)
		}
	})
}
