package executor

import (
	"os"
	"path/filepath"
	"testing"
)

// Only the folder of a node that is gone is removed: not one whose node is there, nor one that does not say whose it is.
func TestRemoveStaleDevices(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "gpu-")
	for name, of := range map[string]string{"gone": filepath.Join(dir, "no", "such", "node"), "here": dir, "whose": ""} {
		if err := os.MkdirAll(filepath.Join(root+name, "0"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root+name, "0", "gpu0"), nil, 0o444); err != nil {
			t.Fatal(err)
		}
		if of == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(root+name, claimFile), []byte(of), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := removeStaleDevices(root)
	if err != nil || len(removed) != 1 || removed[0] != root+"gone" {
		t.Errorf("removed %v, %v", removed, err)
	}
	for name, want := range map[string]bool{"gone": false, "here": true, "whose": true} {
		if _, err := os.Stat(filepath.Join(root+name, "0", "gpu0")); (err == nil) != want {
			t.Errorf("%s is there: %v", name, err == nil)
		}
	}
	if removed, err := removeStaleDevices(root); err != nil || len(removed) != 0 {
		t.Errorf("a second time: %v, %v", removed, err)
	}
}
