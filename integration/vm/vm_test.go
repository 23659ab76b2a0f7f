package vm

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestVersion2 runs the tests of the control groups where there is nothing but version 2.
func TestVersion2(t *testing.T) {
	console := boot(t, machine(t), "stint/executor/cgroup", "-test.v", "-test.timeout=8m", "-test.skip=TestScopeOfSystemd")
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
	m := machine(t)
	m.Systemd = true
	console := boot(t, m, "stint/executor/cgroup", "-test.v", "-test.timeout=3m", "-test.run=TestScopeOfSystemd")
	if !strings.Contains(console, "--- PASS: TestScopeOfSystemd") {
		t.Errorf("the test did not run:\n%s", tail(console, 5000))
	}
}

// TestCluster runs a whole cluster there: its hardware found, a job held to its CPU and memory, devices kept from jobs, and the clock set,
// which no test may do to the machine it runs on.
func TestCluster(t *testing.T) {
	if os.Getenv("STINT_SOAK") == "" {
		t.Skip("takes minutes, emulated; STINT_SOAK=1 runs it")
	}
	m := machine(t)
	m.MemoryMiB = 2048
	dir := t.TempDir()
	m.Files = map[string]string{}
	for name, pkg := range map[string]string{"stint": "stint", "stint-cli": "stint/cli/light", "stint-sbatch": "stint/cli/light/sbatch"} {
		m.Files["/stint/"+name] = filepath.Join(dir, name)
		build(t, "build", filepath.Join(dir, name), pkg)
	}
	var tools []string
	for _, name := range []string{"sh", "cat", "echo", "grep", "head", "mkdir", "sed", "sleep", "sort", "tail", "touch"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, path)
	}
	files, err := WithLibraries(t.Context(), tools...)
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range files {
		if i := slices.Index(tools, name); i >= 0 {
			name = "/bin/" + filepath.Base(name)
		}
		m.Files[name] = path
	}
	users := filepath.Join(dir, "passwd")
	if err := os.WriteFile(users, []byte("root:x:0:0:root:/tmp:/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m.Files["/etc/passwd"] = users
	m.Env = []string{"STINT_TEST_BIN=/stint", "STINT_TEST_PATIENCE=4m", "STINT_TEST_CLOCK=may be set", "USER=root"}
	console := boot(t, m, "stint/integration", "-test.v", "-test.timeout=9m", "-test.run=^(TestCage|TestGPUDevices|TestClock)$")
	for _, want := range []string{"--- PASS: TestCage", "--- PASS: TestGPUDevices", "--- PASS: TestClock"} {
		if !strings.Contains(console, want) {
			t.Errorf("the console has no %q:\n%s", want, tail(console, 20000))
		}
	}
}

// machine is the virtual machine that can be had here, or the test is skipped.
func machine(t *testing.T) Machine {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a virtual machine, which takes half a minute")
	}
	m, err := Find()
	if err != nil {
		t.Skip("needs a virtual machine: ", err)
	}
	return m
}

// build has go make a static program.
func build(t *testing.T, how, out, pkg string) {
	t.Helper()
	args := append(strings.Fields(how), "-o", out, pkg)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", pkg, err, text)
	}
}

// boot runs the tests of a package there with these arguments and gives the console's text.
func boot(t *testing.T, m Machine, pkg string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	dir := t.TempDir()
	program := filepath.Join(dir, filepath.Base(pkg)+".test")
	build(t, "test -c", program, pkg)
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
