package slurm

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write what the code does into the expected output")

var testNow = time.Date(2026, 11, 30, 19, 31, 55, 0, time.UTC)

func testInput(args ...string) SbatchInput {
	return SbatchInput{Args: args, Dir: "/home/alice", Now: testNow, Release: Release2605, Read: func(p string) ([]byte, string, error) {
		return nil, "", fmt.Errorf("can not read %s: no such file", p)
	}}
}

func TestSbatchExitCodes(t *testing.T) {
	text, err := os.ReadFile("testdata/sbatch_exit.txt")
	if err != nil {
		t.Fatal(err)
	}
	for n, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		code, args, _ := strings.Cut(line, "\t")
		words, err := splitDirective(args)
		if err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
		in := testInput(append(words, "--wrap", "hostname")...)
		in.Release = Release2205
		got := "0"
		_, err = Sbatch(in)
		if f := (*Failure)(nil); errors.As(err, &f) {
			got = fmt.Sprint(f.Exit)
		}
		if got != code {
			t.Errorf("sbatch %s --wrap hostname: exit %s (%v), want %s", args, got, err, code)
		}
	}
}

// TestSbatch runs testdata/sbatch.txt: after `=== `, lines `args`, `env`, `script` (to the end of the case), `----` and
// what comes out. go test -rewrite writes the outputs anew.
func TestSbatch(t *testing.T) {
	const file = "testdata/sbatch.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cases := strings.Split(string(text), "=== ")
	out.WriteString(cases[0])
	for _, c := range cases[1:] {
		head, want, ok := strings.Cut(c, "\n----\n")
		if !ok {
			t.Fatalf("case without ----: %s", c)
		}
		got := runSbatchCase(t, head)
		if strings.TrimSpace(got) != strings.TrimSpace(want) && !*rewrite {
			t.Errorf("%s\ngot:\n%s\nwant:\n%s", head, got, want)
		}
		fmt.Fprintf(&out, "=== %s\n----\n%s\n", head, got)
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func runSbatchCase(t *testing.T, head string) string {
	in := testInput()
	head, script, hasScript := strings.Cut(head, "\nscript\n")
	for i, line := range strings.Split(head, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case i == 0: // the title
		case word == "args":
			args, err := splitDirective(rest)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			in.Args = args
		case word == "env":
			in.Environ = append(in.Environ, rest)
		case word == "release":
			in.Release, _ = ParseRelease(rest)
		default:
			t.Fatalf("not understood: %s", line)
		}
	}
	if hasScript {
		script = strings.NewReplacer(`<CR>`, "\r", `<NUL>`, "\x00").Replace(script)
		in.Read = func(p string) ([]byte, string, error) { return []byte(script), "/home/alice/" + p, nil }
	}
	sub, err := Sbatch(in)
	if f := (*Failure)(nil); errors.As(err, &f) {
		return fmt.Sprintf("%sexit %d\n", f.Message("sbatch"), f.Exit)
	}
	if sub.Print != "" {
		return sub.Print
	}
	var b strings.Builder
	for _, part := range sub.Components() {
		part.Spec.SubmitLine = ""
		spec, err := json.Marshal(part.Spec)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(part.Script, sub.Script) {
			t.Errorf("%s: a component has another script", head)
		}
		fmt.Fprintf(&b, "%s\n", spec)
	}
	for _, n := range sub.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	if len(in.Environ) > 0 {
		fmt.Fprintf(&b, "environ: %s\n", strings.Join(sub.Environ, " "))
	}
	if sub.Parsable || sub.Quiet || sub.Wait || sub.Verbose > 0 || sub.Clusters != "" || sub.Propagate != "" {
		fmt.Fprintf(&b, "parsable %t quiet %t wait %t verbose %d clusters %q propagate %q\n", sub.Parsable, sub.Quiet, sub.Wait, sub.Verbose, sub.Clusters, sub.Propagate)
	}
	return b.String()
}

// Every effect of the table is implemented, and every implemented effect is in the table.
func TestSbatchTable(t *testing.T) {
	used := map[string]bool{}
	for _, o := range SbatchTable.Options {
		if o.Effect == "" {
			continue
		}
		used[o.Effect] = true
		if sbatchEffects.Get()[o.Effect] == nil {
			t.Errorf("--%s: nothing implements the effect %q", o.Name, o.Effect)
		}
		if o.Name != "" && o.Help == "" {
			t.Errorf("--%s has no help", o.Name)
		}
	}
	for e := range sbatchEffects.Get() {
		if !used[e] {
			t.Errorf("the effect %q belongs to no option", e)
		}
	}
}

// Options that are known and not supported are refused by their name, wherever they stand.
func TestSbatchRefusesByName(t *testing.T) {
	for _, o := range SbatchTable.Options {
		if o.Effect != "" || o.Name == "" || !o.in(Release2605) {
			continue
		}
		arg := "--" + o.Name
		if o.Arg == Required {
			arg += "=1"
		}
		for _, in := range []SbatchInput{testInput(arg, "--wrap", "true"), testInput("x.sh")} {
			if in.Args[0] == "x.sh" {
				in.Read = func(string) ([]byte, string, error) { return []byte("#!/bin/sh\n#SBATCH " + arg + "\n"), "/x.sh", nil }
			}
			if _, err := Sbatch(in); err == nil || !strings.Contains(err.Error(), "--"+o.Name) {
				t.Errorf("%v: %v; want a refusal that names --%s", in.Args, err, o.Name)
			}
		}
	}
}

func FuzzSbatch(f *testing.F) {
	f.Add("-N2\n-n4\n--time=1-2:3\nx.sh", "#!/bin/sh\n#SBATCH --job-name=\"a b\" # c\n#SBATCH -a 1-5%2\necho\n")
	f.Add("--wrap\nx\n--gres=gpu:a100:2\n-d\nafterok:1:2?after:3+4", "")
	f.Add("--begin=16:00\n--signal=B:USR1@30\n--export=A,B='c,d'\n-\nq", "#!x\n#SBATCH -")
	f.Fuzz(func(t *testing.T, args, script string) {
		if len(args) > 10000 || len(script) > 10000 {
			return
		}
		in := testInput(strings.Split(args, "\n")...)
		in.Environ = []string{"A=1", "SLURM_X=2", "SBATCH_TIMELIMIT=5"}
		in.Read = func(p string) ([]byte, string, error) { return []byte(script), p, nil }
		sub, err := Sbatch(in)
		if err != nil {
			if f := (*Failure)(nil); !errors.As(err, &f) || f.Exit != 1 && f.Exit != 255 || f.Text == "" {
				t.Fatalf("not a failure with a sentence and a code: %#v", err)
			}
		} else if sub.Print == "" && sub.Spec == nil {
			t.Fatal("neither a job nor a text")
		}
	})
}
