package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The next version is started over the jobs of the last: the supervisor becomes it in place, the same process, and the
// job that runs in it ends with its own exit code.
func TestUpgradeInPlace(t *testing.T) {
	next := t.TempDir()
	cmd := exec.Command("go", "build", "-ldflags", "-X stint/cli.Version=0.1.1", "-o", filepath.Join(next, "stint"), "stint")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the next version: %v\n%s", err, out)
	}
	c := start(t, "--nodes", "n1", "--cpus", "2", "--memory", "2000")
	c.script("job.sh", "#!/bin/sh\ntouch started\nuntil [ -e go ]; do sleep 0.1; done\nexit 9\n")
	id := c.submit("job.sh")
	c.await(id, "RUNNING") // placed, that is; its step is started a moment later
	c.eventually("the step has started", func() bool { return len(glob(filepath.Join(c.work, "started"))) == 1 })
	before := c.processes()["supervisor:n1"]
	c.do("stint", "down", "--keep")

	old := bin
	bin = next
	defer func() { bin = old }()
	if err := os.Symlink(filepath.Join(old, "stint-cli"), filepath.Join(next, "stint-cli")); err != nil {
		t.Fatal(err)
	}
	c.up()
	c.eventually("the supervisor is the next version", func() bool {
		exe, _ := os.Readlink("/proc/" + itoa(before) + "/exe")
		return exe == filepath.Join(next, "stint")
	})
	c.eventually("the supervisor is the same process", func() bool { return c.processes()["supervisor:n1"] == before })
	if got := c.do("stint", "--version"); !strings.HasPrefix(got, "stint 0.1.1") {
		t.Errorf("the next version says it is %q", got)
	}
	os.WriteFile(filepath.Join(c.work, "go"), nil, 0o644)
	c.await(id, "FAILED")
	if story := c.do("stint", "events", id); !strings.Contains(story, "9:0") {
		t.Errorf("the exit code was lost:\n%s", story)
	}
	c.do("stint", "down")
}
