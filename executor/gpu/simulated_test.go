package gpu

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"stint/executor/cgroup"
)

func TestMain(m *testing.M) {
	if os.Getenv("STINT_GPU_OPEN") != "" { // a job that tries to open what it is given
		for _, p := range os.Args[1:] {
			f, err := os.Open(p)
			if err == nil {
				f.Close()
				fmt.Println("ok")
			} else if pe, ok := err.(*os.PathError); ok && pe.Err == syscall.EPERM {
				fmt.Println("EPERM")
			} else {
				fmt.Println(err)
			}
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestSimulated(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root makes device files")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("needs loop devices: ", err)
	}
	n1, n2 := filepath.Join(t.TempDir(), "n1"), filepath.Join(t.TempDir(), "n2")
	t.Cleanup(func() {
		for _, d := range []string{n1, n2} {
			if err := EndSimulation(d); err != nil {
				t.Error(err)
			}
			if exists(d) {
				t.Errorf("%s is left", d)
			}
		}
	})
	a, err := Simulate(n1, "a100", 3)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Simulate(n2, "a100", 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Notes)+len(b.Notes) > 0 {
		t.Errorf("%v %v", a.Notes, b.Notes)
	}
	all := append(Devices(a.GPUs), Devices(b.GPUs)...)
	for i, d := range all {
		if slices.Contains(all[:i], d) || d.Type != 'b' {
			t.Errorf("numbers are not distinct: %v", all)
		}
	}
	// After a restart the files are the same, so that what runs keeps its own; one that vanished comes back.
	if err := os.Remove(a.GPUs[2].Files[0]); err != nil {
		t.Fatal(err)
	}
	old := a.GPUs[2].Devices[0]
	again, err := Simulate(n1, "a100", 3)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(Devices(again.GPUs[:2]), Devices(a.GPUs[:2])) || again.GPUs[2].Devices[0] == old {
		t.Errorf("before %v, after %v", Devices(a.GPUs), Devices(again.GPUs))
	}
	if err := removeLoop(old); err != nil {
		t.Error(err)
	}

	tree, err := cgroup.Open(cgroup.Config{Under: fmt.Sprintf("stint-test-gpu-%d", os.Getpid())})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	for _, g := range tree.Gaps() {
		if strings.Contains(g.What, "devices") || strings.Contains(g.What, "groups") {
			t.Skip("needs control groups that deny devices: ", g)
		}
	}
	numbers := func(gs []GPU) (out []cgroup.Device) {
		for _, d := range Devices(gs) {
			out = append(out, cgroup.Device(d))
		}
		return out
	}
	for i, granted := range [][]int{{1}, nil, {2, 0}} {
		mine, err := Pick(again.GPUs, granted)
		if err != nil {
			t.Fatal(err)
		}
		g, err := tree.Create(uint64(i+1), "batch", 0, cgroup.Limits{DenyDevices: numbers(again.GPUs), AllowDevices: numbers(mine)}, cgroup.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command("/proc/self/exe", again.GPUs[0].Files[0], again.GPUs[1].Files[0], again.GPUs[2].Files[0], "/dev/null")
		c.Env = append(os.Environ(), "STINT_GPU_OPEN=1")
		c.SysProcAttr = &syscall.SysProcAttr{}
		var out strings.Builder
		c.Stdout = &out
		if err := g.Launch(c.SysProcAttr, c.Start); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
		want := ""
		for n := range 3 {
			if slices.Contains(granted, n) {
				want += "ok\n"
			} else {
				want += "EPERM\n"
			}
		}
		if out.String() != want+"ok\n" {
			t.Errorf("granted %v: %q, want %q", granted, out.String(), want+"ok\n")
		}
		job, err := tree.Find(uint64(i+1), "")
		if err != nil {
			t.Fatal(err)
		}
		if err := job.Remove(); err != nil {
			t.Error(err)
		}
	}
}

func TestSimulatedByAnOrdinaryUser(t *testing.T) {
	dir := t.TempDir()
	if err := makePlainFile(filepath.Join(dir, "gpu0")); err != nil {
		t.Fatal(err)
	}
	if err := makePlainFile(filepath.Join(dir, "gpu0")); err != nil {
		t.Errorf("a second time: %v", err)
	}
	var g GPU
	if err := g.addFiles(filepath.Join(dir, "gpu0")); err != nil || len(g.Devices) != 0 || len(g.Files) != 1 {
		t.Errorf("%+v, %v", g, err)
	}
	if os.Geteuid() != 0 {
		f, err := Simulate(dir, "t4", 2)
		if err != nil || len(f.GPUs) != 2 || len(f.Notes) != 1 || len(f.GPUs[1].Devices) != 0 {
			t.Errorf("%+v, %v", f, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "gpuX"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := EndSimulation(dir); err != nil {
		t.Error(err)
	}
	if exists(filepath.Join(dir, "gpu0")) || !exists(filepath.Join(dir, "gpuX")) {
		t.Error("not exactly the simulated files were removed")
	}
	if err := EndSimulation(filepath.Join(dir, "never")); err != nil {
		t.Error(err)
	}
}
