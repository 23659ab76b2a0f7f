package executor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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

// What a listing finds is what is there, whenever it is asked; and the files are read again only when something has changed.
func TestListingOfDevices(t *testing.T) {
	root := filepath.Join(t.TempDir(), "gpu-")
	var l listing
	expect := func(reads int, want ...string) {
		t.Helper()
		if got := l.list(root); !slices.Equal(got, want) {
			t.Errorf("found %q, want %q", got, want)
		}
		if l.read != reads && reads > 0 {
			t.Errorf("the files were read %d times, want %d", l.read, reads)
		}
	}
	device := func(node, kind string, minor uint32) {
		t.Helper()
		dir := filepath.Join(root+node, kind)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, fmt.Sprintf("gpu%d", minor))
		if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, minor))); err != nil {
			t.Skip("needs to make device files: ", err)
		}
	}
	settle := func() { // all folders are of long ago
		t.Helper()
		at := time.Now().Add(-time.Hour)
		dirs, _ := filepath.Glob(root + "*/*")
		more, _ := filepath.Glob(root + "*")
		for _, dir := range append(append(dirs, more...), filepath.Dir(root)) {
			if err := os.Chtimes(dir, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect(0)
	device("a", "0", 3)
	expect(0, "c 1:3") // however soon it is asked after a change
	device("a", "0", 5)
	expect(0, "c 1:3", "c 1:5")
	settle()
	expect(0, "c 1:3", "c 1:5")
	reads := l.read
	for range 100 {
		expect(reads, "c 1:3", "c 1:5")
	}
	device("a", "1", 7) // in a folder that is new
	expect(reads+1, "c 1:3", "c 1:5", "c 1:7")
	settle()
	expect(reads+2, "c 1:3", "c 1:5", "c 1:7")
	device("b", "0", 3) // of another node, the same device
	device("b", "0", 9)
	expect(reads+3, "c 1:3", "c 1:5", "c 1:7", "c 1:9")
	settle()
	expect(reads+4, "c 1:3", "c 1:5", "c 1:7", "c 1:9")
	if err := os.RemoveAll(root + "b"); err != nil {
		t.Fatal(err)
	}
	expect(reads+5, "c 1:3", "c 1:5", "c 1:7")
}
