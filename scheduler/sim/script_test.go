package sim

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the expected output of the scripts anew")

// TestScripts runs testdata/*.txt. A file is blocks of commands, a line of four dashes, what they write, and an empty line.
// One world lasts for a file.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := NewScript(Options{MinDelay: Millisecond, Controllers: 2})
			var out strings.Builder
			for _, block := range strings.Split(strings.TrimRight(string(data), "\n"), "\n\n") {
				commands, want, found := strings.Cut(block, "\n----")
				if !found && allComments(block) {
					out.WriteString(block + "\n\n")
					continue
				}
				want = strings.TrimPrefix(want, "\n")
				got := strings.TrimRight(s.Run(commands), "\n")
				if got != strings.TrimRight(want, "\n") && !*rewrite {
					t.Errorf("%s: after\n%s\n---- got\n%s\n---- want\n%s", file, commands, got, want)
				}
				out.WriteString(commands + "\n----\n")
				if got != "" {
					out.WriteString(got + "\n")
				}
				out.WriteString("\n")
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(strings.TrimRight(out.String(), "\n")+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func allComments(block string) bool {
	for line := range strings.SplitSeq(block, "\n") {
		if !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}
