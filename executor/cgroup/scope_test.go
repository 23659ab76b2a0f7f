package cgroup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
)

const vmNode = "vmtest"

// succeed is the role of a supervisor that comes after another: it says what it finds.
func succeed() {
	tree, err := Open(Config{Node: vmNode})
	if err != nil {
		fmt.Println(err)
		return
	}
	entries, err := tree.List()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range entries {
		fmt.Println("found", e.Job, e.Step, len(e.PIDs))
	}
	own, _ := os.ReadFile("/proc/self/cgroup")
	fmt.Print(string(own))
}

// TestScopeOfSystemd runs in the virtual machine that has systemd (package integration/vm), as the service vm.service:
// it makes a unit and moves its own process, which is not for other machines.
func TestScopeOfSystemd(t *testing.T) {
	if os.Getenv("STINT_VM_SYSTEMD") == "" {
		t.Skip("needs a virtual machine with systemd: run the tests of integration/vm")
	}
	tree, err := Open(Config{Node: vmNode})
	if err != nil {
		t.Fatal(err)
	}
	const scope = "/system.slice/vmtest_slurmstepd.scope"
	if dir := tree.Dirs()["unified"]; dir != "/sys/fs/cgroup"+scope {
		t.Errorf("the tree is in %s", dir)
	}
	if len(tree.Gaps()) > 0 {
		t.Errorf("%v", tree.Gaps())
	}
	if own, err := os.ReadFile("/proc/self/cgroup"); err != nil || string(own) != "0::"+scope+"/system\n" {
		t.Errorf("this process is in %s, %v", own, err)
	}
	g := mustCreate(t, tree, 5, "batch", Limits{CPUs: []int{1}, MemoryBytes: 256 << 20, PIDs: 100})
	c, _ := start(t, g, "sleep")

	// A new unit file makes the administrator reload systemd, which goes over all groups it knows.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := dbus.NewSystemdConnectionContext(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.ReloadContext(ctx); err != nil {
		t.Fatal(err)
	}
	if out := output(t, g, "where"); !strings.Contains(out, "cpu 1\n") || strings.Contains(out, "cpu 0\n") || !strings.Contains(out, scope+"/job_5/step_batch") {
		t.Errorf("after a reload:\n%s", out)
	}
	for _, f := range []string{"memory.max", "pids.max", "cpuset.cpus"} {
		if s, err := readFile(filepath.Join(tree.Dirs()["unified"], "job_5", f)); err != nil || s == "max" || s == "" {
			t.Errorf("after a reload %s is %q, %v", f, s, err)
		}
	}
	// The service goes on although its process is elsewhere.
	if p, err := conn.GetUnitPropertyContext(ctx, "vm.service", "ActiveState"); err != nil || p.Value.Value() != "active" {
		t.Errorf("the service is %v, %v", p, err)
	}

	// A successor starts outside the scope, as a service does, and finds it.
	outside := "/sys/fs/cgroup/stint-test-outside"
	if err := makeDir(outside); err != nil {
		t.Fatal(err)
	}
	defer removeDir(outside, time.Second)
	d, err := os.Open(outside)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	next := self("successor")
	next.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(d.Fd())}
	if out, err := next.Output(); err != nil || string(out) != "found 5  1\nfound 5 batch 1\n0::"+scope+"/system\n" {
		t.Errorf("the successor says %q, %v", out, err)
	}
	job, err := tree.Find(5, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := job.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	if err := job.Remove(); err != nil {
		t.Fatal(err)
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
}
