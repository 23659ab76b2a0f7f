package supervisor

import (
	"path/filepath"
	"testing"
)

// A step that was written down and killed before its folder was made still has its number.
func TestSpoolNumberOfAFolderNotMade(t *testing.T) {
	dir := t.TempDir()
	made, unmade := filepath.Join(dir, "1"), filepath.Join(dir, "2")
	if _, err := writeScript(made, []byte("#!/bin/sh\n"), identity{}); err != nil {
		t.Fatal(err)
	}
	p := &spool{dir: dir}
	if err := p.open(map[string]bool{made: true, unmade: true}); err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{made: true, unmade: true}
	take := func() {
		t.Helper()
		d := p.take()
		if has[d] {
			t.Fatalf("%s was given out while another step has it", d)
		}
		has[d] = true
	}
	take()
	if err := p.give(unmade); err != nil {
		t.Fatal(err)
	}
	delete(has, unmade)
	for range 3 {
		take()
	}
}
