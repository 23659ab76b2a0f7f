// Package deployments holds what a site installs: units for systemd, configuration of the bus, an example site. Its tests
// hold these files to the tools that read them.
package deployments

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestUnits: systemd reads every unit without a complaint. The program need not be installed: /bin/true stands in for it.
func TestUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed (Debian: apt-get install systemd)")
	}
	units, err := filepath.Glob("systemd/*.*")
	if err != nil || len(units) < 10 {
		t.Fatalf("found %d units in systemd/: %v", len(units), err)
	}
	units = append(units, "nats/stint-nats.service")
	dir := t.TempDir()
	args := []string{"verify"}
	for _, u := range units {
		text, err := os.ReadFile(u)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.Base(u))
		for _, program := range []string{"/usr/bin/stint", "/usr/bin/nats-server"} {
			text = bytes.ReplaceAll(text, []byte(program), []byte("/bin/true"))
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, to)
	}
	if out, err := exec.Command(analyze, args...).CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// A unit that is wrong must be told from one that is right.
	bad := filepath.Join(dir, "bad.service")
	if err := os.WriteFile(bad, []byte("[Service]\nExecStart=/nonexistent/stint\nKillMode=sometimes\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", bad).CombinedOutput(); err == nil && len(bytes.TrimSpace(out)) == 0 {
		t.Error("systemd-analyze verify finds nothing wrong with a unit that is")
	}
}
