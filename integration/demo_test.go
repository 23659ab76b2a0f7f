package integration

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"stint/cli/site"
	"stint/executor"
)

// The demo shows what it says, in its time, and leaves nothing behind.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a minute: -short")
	}
	cmd := exec.Command(filepath.Join(bin, "stint"), "demo")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"CUDA_VISIBLE_DEVICES=0,1", "the answer is 42", "TIMEOUT", "stint supervisor --node n1", "the live state is the same", "Nothing is left behind"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the demo does not show %q:\n%s", want, out)
		}
	}
	// Other clusters of this machine have their devices in /run too: only the demo's own are looked at.
	base := regexp.MustCompile(`in (\S+/stint-demo-\S+):`).FindStringSubmatch(string(out))
	if base == nil {
		t.Fatalf("the demo does not say where it is:\n%s", out)
	}
	for _, node := range []string{"n1", "n2"} {
		dir := executor.DevicesDir(site.Dir(filepath.Join(base[1], "cluster")).Node(node))
		if !strings.Contains(string(out), "simulated GPUs") || filepath.Dir(dir) != "/run" {
			t.Fatalf("the devices of %s were in %s?", node, dir)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("devices are left behind: %s, %v", dir, err)
		}
	}
}
