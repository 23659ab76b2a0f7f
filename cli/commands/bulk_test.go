package commands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stint/cli/slurm"
	"stint/cli/wire"
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

// What lines have in common goes to the agent once a request, thousands of lines are few requests, and each line gets its
// answer, in order: its job's number, or what is wrong with it.
func TestBulkRequests(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, wire.Socket))
	if err != nil {
		t.Fatal(err)
	}
	var requests []*wire.Submit
	var serving sync.WaitGroup
	serving.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		id := uint32(0)
		for {
			req := &wire.Request{}
			if wire.Read(c, req, wire.MaxFrame) != nil {
				return
			}
			requests = append(requests, req.GetSubmit())
			v := &wire.Verdicts{}
			for range req.GetSubmit().GetJobs() {
				if id++; id%1000 == 3 {
					v.Verdicts = append(v.Verdicts, &wire.Verdict{Job: id, Code: events.Code_INVALID_PARTITION, Text: "there is no partition x"})
					continue
				}
				v.Verdicts = append(v.Verdicts, &wire.Verdict{Job: id})
			}
			if wire.Write(c, &wire.Response{What: &wire.Response_Verdicts{Verdicts: v}}) != nil {
				return
			}
		}
	})
	os.WriteFile(filepath.Join(dir, "job.sh"), []byte("#!/bin/sh\n"), 0o644)
	var in, out bytes.Buffer
	const n = 3500
	for i := range n {
		switch {
		case i%1000 == 500:
			fmt.Fprintln(&in, `{"wrap":"true","time":"soon"}`)
		case i%2 == 0:
			fmt.Fprintf(&in, `{"file":"job.sh","job-name":"j%d"}`+"\n", i)
		default:
			fmt.Fprintf(&in, `{"wrap":"true","job-name":"j%d","env":{"A":"2"}}`+"\n", i)
		}
	}
	b := &Bulk{World: &World{Dir: dir, State: dir, Environ: []string{"A=1"}, Now: time.Unix(0, 0), Stdout: &out}, In: &in}
	bad, err := b.Run()
	l.Close()
	serving.Wait()
	if err != nil || bad != 3+4 {
		t.Errorf("%d refused, %v", bad, err)
	}
	if len(requests) != 4 {
		t.Errorf("%d requests for %d lines", len(requests), n)
	}
	for _, r := range requests {
		if len(r.Texts) != 4 {
			t.Errorf("%d texts in a request, and there are two scripts and two environments: %q", len(r.Texts), r.Texts)
		}
	}
	id := uint32(0)
	d := json.NewDecoder(&out)
	for i := range n {
		var r BulkResult
		if err := d.Decode(&r); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		want, says := uint32(0), "soon"
		if i%1000 != 500 {
			if id++; id%1000 == 3 {
				says = "there is no partition x"
			} else {
				want, says = id, ""
			}
		}
		if r.Line != i+1 || r.Job != want || !strings.Contains(r.Error, says) || says == "" && r.Error != "" {
			t.Fatalf("the answer to line %d is %+v", i+1, r)
		}
	}
}

// A script that is written anew meanwhile is read anew.
func TestBulkScriptChanges(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "job.sh")
	now := time.Now()
	b := &Bulk{World: &World{Dir: dir, State: dir, Now: now}, release: slurm.Release2605}
	for i, text := range []string{"#!/bin/sh\ntrue 1\n", "#!/bin/sh\ntrue 2\n", "#!/bin/sh\n", "#!/bin/sh\ntrue 3\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		at := now.Add(time.Duration(i-100) * time.Second)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			job, _, err := b.parse([]byte(`{"file":"job.sh"}`))
			if err != nil || string(job.Components[0].Script) != text {
				t.Errorf("%q: %v, %v", text, job, err)
			}
		}
	}
}

// BenchmarkBulkLine is what one line costs the program that reads it.
func BenchmarkBulkLine(b *testing.B) {
	dir := b.TempDir()
	os.WriteFile(filepath.Join(dir, "job.sh"), []byte("#!/bin/bash\ntrue\n"), 0o644)
	var environ []string
	for i := range 40 {
		environ = append(environ, fmt.Sprintf("VARIABLE_%d=%s", i, strings.Repeat("x", 30)))
	}
	line := []byte(`{"ntasks":1,"mem":"10","time":"60","output":"/dev/null","job-name":"sub","file":"job.sh"}`)
	k := &Bulk{World: &World{Dir: dir, Environ: environ, Now: time.Now().Add(time.Minute)}, release: slurm.Release2605}
	b.ReportAllocs()
	p := &bulkPart{}
	for b.Loop() {
		if k.add(p, 1, line); p.lines[len(p.lines)-1].job == nil {
			b.Fatal(p.lines[len(p.lines)-1].result)
		}
		if len(p.lines) == bulkLines {
			p = &bulkPart{}
		}
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
