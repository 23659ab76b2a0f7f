package bus

import "testing"

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, subject string
		want             bool
	}{
		{"ev.>", "ev.sched", true},
		{"ev.>", "ev.node.n1", true},
		{"ev.>", "ev", false},
		{"ev.>", "evil.x", false},
		{">", "a", true},
		{"job.*.*.user.>", "job.DONE.gpu.user.7", true},
		{"job.*.*.user.>", "job.DONE.gpu.user", false},
		{"job.*", "job.a.b", false},
		{"job.*.b", "job.a.b", true},
		{"job.a", "job.a", true},
		{"job.a", "job.a.b", false},
		{"job.a.b", "job.a", false},
	} {
		if got := Matches(c.pattern, c.subject); got != c.want {
			t.Errorf("Matches(%q, %q) is %v", c.pattern, c.subject, got)
		}
	}
}

func TestExact(t *testing.T) {
	for subject, exact := range map[string]bool{
		"ev.sched": true, "ev.intent.@login1": true, "ev": false, "ev.*": false, "ev.>": false, "ev.a b": false,
		"ev.": false, ".ev": false, "ev..x": false, "ev.x\n": false, "job.x": false, "ev.x*y": false,
	} {
		if err := Exact(subject, EventsSubjects); (err == nil) != exact {
			t.Errorf("Exact(%q) is %v", subject, err)
		}
	}
}
