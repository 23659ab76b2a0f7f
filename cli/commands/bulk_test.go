package commands

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stint/cli/slurm"
	"stint/events"
)

// Each line of `stint submit` is a job as sbatch would make it.
func TestBulkLines(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "job.sh"), []byte("#!/bin/sh\n#SBATCH -n 3\ntrue\n"), 0o644)
	w := &World{Dir: dir, Environ: []string{"A=1", "B=2"}, Now: time.Unix(0, 0), State: dir}
	b := &Bulk{World: w, release: slurm.Release2605}
	for _, test := range []struct {
		line   string
		says   string // of the refusal; empty: it is a job
		script string
		holds  func(*events.JobSpec) bool
	}{
		{line: `{"wrap":"hostname","cpus-per-task":2,"time":"10"}`, script: "hostname", holds: func(s *events.JobSpec) bool { return s.CpusPerTask == 2 && s.TimeLimitS == 600 && s.Name == "wrap" }},
		{line: `{"script":"#!/bin/sh\necho $1\n","args":["x",3],"job-name":"j","hold":true}`, script: "echo $1", holds: func(s *events.JobSpec) bool {
			return s.Name == "j" && s.Hold && len(s.Args) == 2 && string(s.Args[1]) == "3"
		}},
		{line: `{"file":"job.sh"}`, script: "true", holds: func(s *events.JobSpec) bool { return s.Tasks == 3 && s.Name == "job.sh" }},
		{line: `{"file":"job.sh","ntasks":5}`, script: "true", holds: func(s *events.JobSpec) bool { return s.Tasks == 5 }},
		{line: `{"wrap":"true","array":"1-10%2"}`, script: "true", holds: func(s *events.JobSpec) bool { return s.Array.GetMaxRunning() == 2 }},
		{line: `{"wrap":"true"`, says: "not a JSON object"},
		{line: `[1]`, says: "not a JSON object"},
		{line: `{}`, says: "there is no script"},
		{line: `{"wrap":"true","script":"#!/bin/sh\n"}`, says: "one of script, file and wrap"},
		{line: `{"wrap":"true","nonsense":1}`, says: "unrecognized option"},
		{line: `{"wrap":"true","time":"soon"}`, says: "soon"},
		{line: `{"wrap":"true","args":"x"}`, says: "args must be a list"},
		{line: `{"wrap":"true","env":[1]}`, says: "env must be an object"},
		{line: `{"wrap":true}`, says: "requires an argument"},
		{line: `{"wrap":{"a":1}}`, says: "must be a string"},
		{line: `{"file":"none.sh"}`, says: "none.sh"},
		{line: `{"wrap":"true","help":true}`, says: "asks for help"},
	} {
		job, _, err := b.parse([]byte(test.line))
		if test.says != "" {
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: %v, want a sentence with %q", test.line, err, test.says)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.line, err)
			continue
		}
		c := job.Components[0]
		if !strings.Contains(string(c.Script), test.script) || !test.holds(c.Spec) {
			t.Errorf("%s: script %q, %v", test.line, c.Script, c.Spec)
		}
	}
	job, _, err := b.parse([]byte(`{"wrap":"true","env":{"B":"3","C":"4"}}`))
	if err != nil {
		t.Fatal(err)
	}
	env := strings.Split(strings.TrimRight(string(job.Components[0].Environment), "\x00"), "\x00")
	if !slices.Contains(env, "A=1") || !slices.Contains(env, "B=3") || !slices.Contains(env, "C=4") || slices.Contains(env, "B=2") {
		t.Errorf("the environment is %q", env)
	}
}

func FuzzBulkLine(f *testing.F) {
	f.Add(`{"wrap":"true","array":"1-3"}`)
	f.Add(`{"script":"#!/bin/sh\n#SBATCH -n2\n","args":[1],"env":{"A":null}}`)
	b := &Bulk{World: &World{Dir: "/nowhere", Now: time.Unix(0, 0)}, release: slurm.Release2605}
	f.Fuzz(func(t *testing.T, line string) {
		job, _, err := b.parse([]byte(line))
		if err == nil && (len(job.Components) != 1 || job.Components[0].Spec == nil || len(job.Components[0].Script) == 0) {
			t.Errorf("%q is a job without content", line)
		}
	})
}

// What is refused says first what is wrong precisely, and on its last line the sentence that tools look for.
func TestRefused(t *testing.T) {
	for _, test := range []struct {
		code events.Code
		text string
		want string
	}{
		{events.Code_INVALID_PARTITION, "there is no partition x", "there is no partition x\nInvalid partition name specified"},
		{events.Code_INVALID_PARTITION, "", "Invalid partition name specified"},
		{events.Code_INTERNAL, "it broke", "it broke"},
		{events.Code_INTERNAL, "", "refused (INTERNAL)"},
	} {
		if got := refused(test.code, test.text); got != test.want {
			t.Errorf("%s %q: %q, want %q", test.code, test.text, got, test.want)
		}
	}
}
