package vm

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestVersion2 runs the tests of the control groups where there is nothing but version 2.
func TestVersion2(t *testing.T) {
	console := boot(t, false, "-test.v", "-test.timeout=8m", "-test.skip=TestScopeOfSystemd")
	for _, want := range []string{"--- PASS: TestBornInsideWithItsCPUs/v2", "--- PASS: TestDevices/v2", "--- PASS: TestMemoryLimitKillsAndIsCounted/v2",
		"--- PASS: TestKillForkBomb/v2", "--- PASS: TestFreeze/v2", "--- PASS: TestStrayGrandchildIsFoundAndKilled/v2"} {
		if !strings.Contains(console, want) {
			t.Errorf("the console has no %q", want)
		}
	}
	if strings.Contains(console, "--- SKIP") {
		t.Errorf("something was skipped:\n%s", tail(console, 20000))
	}
}

// TestSystemd runs the test of what is asked of systemd as a service of it.
func TestSystemd(t *testing.T) {
	if _, err := os.Stat(systemd); err != nil {
		t.Skip("needs the host's systemd to run in the virtual machine: ", err)
	}
	console := boot(t, true, "-test.v", "-test.timeout=3m", "-test.run=TestScopeOfSystemd")
	if !strings.Contains(console, "--- PASS: TestScopeOfSystemd") {
		t.Errorf("the test did not run:\n%s", tail(console, 5000))
	}
}

// boot runs the tests of the control groups with these arguments and gives the console's text.
func boot(t *testing.T, withSystemd bool, args ...string) string {
	if testing.Short() {
		t.Skip("boots a virtual machine, which takes half a minute")
	}
	m, err := Find()
	if err != nil {
		t.Skip("needs a virtual machine: ", err)
	}
	m.Systemd = withSystemd
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	dir := t.TempDir()
	program := filepath.Join(dir, "cgroup.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "stint/executor/cgroup")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the tests: %v\n%s", err, out)
	}
	var console bytes.Buffer
	out := io.Writer(&console)
	if testing.Verbose() {
		out = io.MultiWriter(&console, os.Stdout)
	}
	rc, err := m.Run(ctx, dir, program, args, out)
	if err != nil {
		t.Fatal(err)
	}
	if rc != 0 {
		t.Fatalf("exit status %d:\n%s", rc, tail(console.String(), 20000))
	}
	return console.String()
}
