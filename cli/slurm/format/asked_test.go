package format

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"stint/cli/slurm"
)

// Lines that a comparison with the real one found.
func TestAsked(t *testing.T) {
	data, err := os.ReadFile("testdata/asked.txt")
	if err != nil {
		t.Fatal(err)
	}
	jobs := Jobs(testQueue(), testContext(slurm.Release2205), false)
	for i, line := range strings.Split(string(data), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		words := strings.Split(line, "\t")
		if len(words) != 4 {
			t.Fatalf("line %d: %d words", i+1, len(words))
		}
		command, format, what, want := words[0], words[1], words[2], strings.ReplaceAll(words[3], "·", " ")
		got := ""
		switch command {
		case "squeue -o", "squeue -O":
			l, _ := SqueueFieldsOf(slurm.Release2205).ByLetter(format)
			if command == "squeue -O" {
				l, _ = SqueueFieldsOf(slurm.Release2205).ByName(format)
			}
			if got = l.Head(); what != "0" {
				id, _ := strconv.Atoi(what)
				got = l.Row(row(t, jobs, uint32(id)))
			}
		case "sinfo -o", "sinfo -O":
			got = strings.ReplaceAll(strings.TrimSuffix(sinfo(t, append(strings.Fields(what), command[6:], format)...), "\n"), "\n", " ")
		default:
			t.Fatalf("line %d: %s", i+1, command)
		}
		if got != want {
			t.Errorf("line %d: %s %q of %s:\n\t%q, want\n\t%q", i+1, command, format, what, got, want)
		}
	}
}

// Widths are bytes, as C counts them.
func TestPlace(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		right bool
		want  string
	}{{"é", 4, false, "é  "}, {"é", 4, true, "  é"}, {"été", 5, false, "été"}, {"été", 2, false, "é"}, {"a", 0, false, "a"}} {
		if got := string(place(nil, c.text, c.width, c.right)); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}
