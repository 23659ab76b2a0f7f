package executor

import (
	"testing"

	"stint/events"
	"stint/projections"
)

func TestFileName(t *testing.T) {
	plain := &projections.Job{Id: 137, Spec: &events.JobSpec{Name: "my job"}, Owner: &events.Owner{User: "alice"}}
	task := &projections.Job{Id: 140, ArrayId: 139, ArrayTask: 12, HasTask: true, Spec: &events.JobSpec{Name: "nm"}, Owner: &events.Owner{User: "bob"}}
	for _, c := range []struct{ pattern, plain, task string }{
		{"slurm-%j.out", "slurm-137.out", "slurm-140.out"},
		{"o.%A_%a", "o.137_4294967294", "o.139_12"},
		{"%x.%u.%N.%n.%t", "my job.alice.n1.0.0", "nm.bob.n1.0.0"},
		{"a%%b.%j", "a%b.137", "a%b.140"},
		{"o.%5j.%04a", "o.00137.4294967294", "o.00140.0012"},
		{"o.%99j", "o.0000000137", "o.0000000140"},
		{"o.%s.%J", "o.batch.137", "o.batch.140"},
		{"o.%b", "o.4", "o.2"},
		{"o.%q.%z", "o.%q.%z", "o.%q.%z"},
		{`o\%j`, "o%j", "o%j"},
		{`\\%j%%`, "%j%%", "%j%%"},
		{"100%", "100%", "100%"},
		{"%4", "%4", "%4"},
		{"plain", "plain", "plain"},
	} {
		if got := FileName(c.pattern, plain, "n1.cluster.example", ""); got != c.plain {
			t.Errorf("%q: %q, want %q", c.pattern, got, c.plain)
		}
		if got := FileName(c.pattern, task, "n1", ""); got != c.task {
			t.Errorf("%q of a task: %q, want %q", c.pattern, got, c.task)
		}
	}
	if got := FileName("o.%b", task, "n1", "22.05"); got != "o.%b" {
		t.Errorf("before 24.05: %q", got)
	}
	if got := FileName(outputName(plain), plain, "n1", ""); got != "slurm-137.out" {
		t.Errorf("default: %q", got)
	}
	if got := FileName(outputName(task), task, "n1", ""); got != "slurm-139_12.out" {
		t.Errorf("default of a task: %q", got)
	}
}

func FuzzFileName(f *testing.F) {
	for _, s := range []string{"slurm-%j.out", "%", "%%", "%9999999999999999999999j", `\`, "%4", "a%04ab"} {
		f.Add(s)
	}
	job := &projections.Job{Id: 1, Spec: &events.JobSpec{Name: "n"}, Owner: &events.Owner{User: "u"}}
	f.Fuzz(func(t *testing.T, pattern string) {
		if got := FileName(pattern, job, "n1", ""); len(got) > 11*len(pattern)+11 {
			t.Errorf("%q grew to %d bytes", pattern, len(got))
		}
	})
}
