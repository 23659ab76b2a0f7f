package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The demo shows what it says, in its time, and leaves nothing behind.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a minute: -short")
	}
	before := glob("/run/stint-gpu-*")
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
	if after := glob("/run/stint-gpu-*"); len(after) > len(before) {
		t.Errorf("devices are left behind: %v", after)
	}
}
