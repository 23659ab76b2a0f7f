package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// Each line of the list names rows that were recorded, and none is named twice.
func TestLater(t *testing.T) {
	list, err := readLater(laterText)
	if err != nil {
		t.Fatal(err)
	}
	path := envOr("GOLDENS", filepath.Join("..", "..", "..", "shared", "slurm", "goldens.jsonl"))
	real, err := load(path)
	if err != nil {
		t.Skipf("the recordings are not there: %v", err)
	}
	for i := range list {
		found := 0
		for _, r := range real[list[i].group] {
			if list[i].like.MatchString(r.Name) {
				found++
				if first := list.of(r); first != &list[i] {
					t.Errorf("line %d names %s/%s, and so does line %d", list[i].number, r.Group, r.Name, first.number)
				}
			}
		}
		if found == 0 {
			t.Errorf("line %d: there is no such row in %s", list[i].number, list[i].group)
		}
	}
}

func TestLaterLines(t *testing.T) {
	for text, want := range map[string]string{
		"squeue/a  placement # why\n\n# all\n": "",
		"squeue/a":                             "want GROUP/NAME and a feature",
		"squeue  limits":                       "want GROUP/NAME",
		"squeue/a  wishes":                     "there are the features",
		"squeue/(  limits":                     "missing closing",
	} {
		if _, err := readLater(text); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
