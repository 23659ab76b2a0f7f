package filename

import (
	"strings"
	"testing"
)

var (
	batch = Names{Job: 137, Step: "batch", Node: "n1.cluster.example", User: "alice", JobName: "my job"}
	task  = Names{Job: 140, Array: 139, Task: 12, Step: "3", Node: "n2", NodeRank: 1, TaskRank: 7, User: "bob", JobName: "50%t"}
)

// sbatch(1), srun(1): filename pattern.
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, batch, task string
		perTask              bool
	}{
		{"slurm-%j.out", "slurm-137.out", "slurm-140.out", false},
		{"o.%A_%a", "o.137_4294967294", "o.139_12", false},
		{"%x.%u.%N.%n.%t", "my job.alice.n1.0.0", "50%t.bob.n2.1.7", true},
		{"a%%b.%j", "a%b.137", "a%b.140", false},
		{"a%%t.%4t", "a%t.0000", "a%t.0007", true},
		{"o.%5j.%04a", "o.00137.4294967294", "o.00140.0012", false},
		{"o.%99j", "o.0000000137", "o.0000000140", false},
		{"o.%99999999999999999999j", "o.0000000137", "o.0000000140", false},
		{"o.%s.%J", "o.batch.137", "o.3.140.3", false},
		{"o.%3s", "o.batch", "o.003", false},
		{"o.%b", "o.4", "o.2", false},
		{"o.%q.%z", "o.%q.%z", "o.%q.%z", false},
		{`o\%t`, "o%t", "o%t", false},
		{`\\%j%%`, "%j%%", "%j%%", false},
		{"100%", "100%", "100%", false},
		{"%4", "%4", "%4", false},
		{"", "", "", false},
		{"plain", "plain", "plain", false},
	} {
		if got := Expand(c.pattern, batch); got != c.batch {
			t.Errorf("%q: %q, want %q", c.pattern, got, c.batch)
		}
		if got := Expand(c.pattern, task); got != c.task {
			t.Errorf("%q of a task: %q, want %q", c.pattern, got, c.task)
		}
		if got := PerTask(c.pattern); got != c.perTask {
			t.Errorf("%q: another for each task: %v, want %v", c.pattern, got, c.perTask)
		}
		if !strings.Contains(c.pattern, `\`) { // in two steps it is the same
			if got := AtNode(BeforeNode(c.pattern, task), task); got != c.task {
				t.Errorf("%q in two steps: %q, want %q", c.pattern, got, c.task)
			}
		}
	}
	if got := Expand("%x-%4j.%A", Names{Job: 7, JobName: "x", AsShown: true}); got != "x-%4j.7" {
		t.Errorf("as shown: %s", got)
	}
	if got := Expand("o.%b", Names{Array: 1, Task: 12, NoModulo: true}); got != "o.%b" {
		t.Errorf("before 24.05: %q", got)
	}
}

func FuzzPatterns(f *testing.F) {
	for _, s := range []string{"%j", "%%%", "%99x", `\%`, "%t%4n%N"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		got := Expand(pattern, task)
		if strings.Contains(pattern, `\`) {
			return
		}
		if two := AtNode(BeforeNode(pattern, task), task); two != got {
			t.Errorf("%q: %q at once, %q in two steps", pattern, got, two)
		}
	})
}
