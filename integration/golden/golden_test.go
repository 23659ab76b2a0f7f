package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a comparison must let pass, and what it must see.
func TestDiffer(t *testing.T) {
	for name, c := range map[string]struct {
		row        string
		real, ours string
		same       bool
	}{
		"equal":                       {"x", "a\nb\n", "a\nb\n", true},
		"another word":                {"x", "a b\n", "a c\n", false},
		"another number":              {"x", "cpus 4\n", "cpus 8\n", false},
		"a line less":                 {"x", "a\nb\n", "a\n", false},
		"a line more":                 {"x", "a\n", "a\nb\n", false},
		"nothing":                     {"x", "a\n", "", false},
		"blanks":                      {"x", "a  b\n", "a b\n", false},
		"times":                       {"x", "Start=2026-11-30T14:08:53\n", "Start=2027-01-01T00:00:00\n", true},
		"a time and none":             {"x", "Start=2026-11-30T14:08:53\n", "Start=Unknown\n", false},
		"ids":                         {"x", "Submitted batch job 81\n", "Submitted batch job 3090\n", true},
		"ids, wider":                  {"x", "     81 R\n", "   3090 R\n", true},
		"one id, then another":        {"x", "81 81\n", "3090 3091\n", false},
		"an id where none was":        {"x", "none\n", "3090\n", false},
		"an id far off":               {"x", "1600\n", "3090\n", false},
		"array tasks":                 {"x", "81_[1-3%2]\n", "3090_[1-3%2]\n", true},
		"steps":                       {"x", "9.0      true\n", "3009.0   true\n", true},
		"steps, others":               {"x", "9.0      true\n", "3009.1   true\n", false},
		"steps, of another job":       {"x", "9        9.0\n", "3009   3010.0\n", false},
		"array tasks, others":         {"x", "81_[1-3]\n", "3090_[1-4]\n", false},
		"a little later":              {"x", "R  0:04 1\n", "R  0:21 1\n", true},
		"a limit":                     {"x", "5:00\n", "10:00\n", false},
		"versions":                    {"x", "slurm-wlm 22.05.8\n", "slurm 26.05.0\n", true},
		"priorities":                  {"x", "Priority=1972 Nice=0\n", "Priority=4294901751 Nice=0\n", true},
		"held or not":                 {"x", "Priority=0 Nice=0\n", "Priority=4294901751 Nice=0\n", false},
		"a figure of the moment":      {"fmt-O", "0.14\n", "1.25\n", true},
		"a figure of the moment, not": {"fmt-O", "0.14\n", "N/A\n", false},
	} {
		got := differ(&row{Group: "squeue", Name: "000-" + c.row}, c.real, c.ours)
		if (got == "") != c.same {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := differ(&row{Name: "000-x", Truncated: true}, "a\nb\ncut of", "a\nb\ncut off here\nmore\n"); got != "" {
		t.Errorf("a truncated row is a prefix: %q", got)
	}
	if got := differ(&row{Name: "000-x", Truncated: true}, "a\nb\ncut of", "a\n"); got == "" {
		t.Error("a truncated row that is too short passed")
	}
}

// Every line that differs is told, not only the first, and a line too many does not make the rest differ.
func TestDiffering(t *testing.T) {
	got := strings.Join(differing(&row{Group: "env", Name: "000-x"}, "a\nSLURM_JOB_ID=7\nb\nc\nd\n", "a\nSLURM_JOB_ID=3007\nx\nb\ne\nd\n"), "|")
	if got != "+ x|- c|+ e" {
		t.Errorf("%s", got)
	}
}

func TestAlign(t *testing.T) {
	var real []*row
	for _, n := range []string{"000-a", "001-b", "002-a", "003-c", "004-d"} {
		real = append(real, &row{Name: n})
	}
	for want, names := range map[int][]string{0: {"a", "b"}, 2: {"a", "c", "d"}, 4: {"d"}} {
		if got := align(real, names); got != want {
			t.Errorf("%v begin at %d, want %d", names, got, want)
		}
	}
}

// Rows that the recording left out have no partner, and those behind them theirs.
func TestPair(t *testing.T) {
	var real []*row
	for _, n := range []string{"000-a", "001-b", "002-a", "003-c", "004-d"} {
		real = append(real, &row{Name: n})
	}
	text := ""
	for _, r := range pair(real, []string{"a", "x", "c", "d", "e"}) {
		if r == nil {
			text += "- "
			continue
		}
		text += r.Name + " "
	}
	if text != "002-a - 003-c 004-d - " {
		t.Errorf("%s", text)
	}
}

// The table goes between the marks, and nothing else of the file changes.
func TestTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.md")
	if err := os.WriteFile(path, []byte("before\n"+beginMark+"what was there\n"+endMark+"after\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tab := &table{groups: map[string]*counts{"squeue": {shown: 4, shownSame: 3, mute: 2, muteSame: 2, later: 5, left: 1}}}
	if err := tab.write(path); err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(path)
	text := string(data)
	if !strings.HasPrefix(text, "before\n"+beginMark) || !strings.HasSuffix(text, endMark+"after\n") || strings.Contains(text, "what was") ||
		!strings.Contains(text, "| squeue | 4 | 3 | 75.0 % | 2 | 2 | 100.0 % | 5 | 1 |\n| **total** | 4 | 3 |") {
		t.Errorf("%s", text)
	}
}
