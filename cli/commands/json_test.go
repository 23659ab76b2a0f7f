package commands

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestJSON runs testdata/json/calls: command lines, and below each the places of its answer with what is there.
func TestJSON(t *testing.T) {
	const file = "testdata/json/calls"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t)
	var out strings.Builder
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	var answer any
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "> "):
			h.mu.Lock()
			got := h.script.Run(line[2:])
			h.mu.Unlock()
			if got != "" {
				t.Fatalf("%s:%d: %s", file, i+1, got)
			}
		case strings.HasPrefix(line, "$ "):
			got := h.line(line[2:])
			answer = nil
			if err := json.Unmarshal([]byte(strings.ReplaceAll(got, "⏎", "")), &answer); err != nil {
				t.Fatalf("%s:%d: %v in\n%s", file, i+1, err, got)
			}
		case strings.HasPrefix(line, "\t"):
			place, want, _ := strings.Cut(line[1:], " = ")
			text, _ := json.Marshal(at(answer, place))
			if string(text) != want && !*rewrite {
				t.Errorf("%s:%d: %s is %s, want %s", file, i+1, place, text, want)
			}
			line = fmt.Sprintf("\t%s = %s", place, text)
		}
		fmt.Fprintln(&out, line)
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// at is what lies at a place such as jobs.0.time.start of a decoded answer; # is how many there are.
func at(v any, place string) any {
	for _, step := range strings.Split(place, ".") {
		switch x := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = x[step]; !ok {
				return "there is no " + step
			}
		case []any:
			n := 0
			if step == "#" {
				v = len(x)
				continue
			}
			if _, err := fmt.Sscan(step, &n); err != nil || n >= len(x) {
				return "there is no " + step
			}
			v = x[n]
		default:
			return "nothing lies below"
		}
	}
	return v
}
