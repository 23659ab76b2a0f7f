package slurm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// readCommand runs the reader of a command and shows what it made of the call.
func readCommand(command string, in Input) (any, string, error) {
	switch command {
	case "squeue":
		q, err := ReadSqueue(in)
		if err != nil {
			return nil, "", err
		}
		return q, q.Print, nil
	case "scancel":
		s, err := ReadScancel(in)
		if err != nil {
			return nil, "", err
		}
		return s, s.Print, nil
	case "sinfo":
		s, err := ReadSinfo(in)
		if err != nil {
			return nil, "", err
		}
		return s, s.Print, nil
	case "sacct":
		s, err := ReadSacct(in)
		if err != nil {
			return nil, "", err
		}
		return s, s.Print, nil
	case "sdiag":
		s, err := ReadSdiag(in)
		if err != nil {
			return nil, "", err
		}
		return s, s.Print, nil
	case "slurmctld", "slurmd", "slurmdbd":
		d, err := ReadDaemon(command, in)
		if err != nil {
			return nil, "", err
		}
		return d, d.Print, nil
	case "scontrol":
		s, err := ReadScontrol(in)
		if err != nil {
			return nil, "", err
		}
		return s, s.Print, nil
	}
	return nil, "", fmt.Errorf("no command %s", command)
}

// slimJSON is v without what is empty.
func slimJSON(v any) string {
	text, _ := json.Marshal(v)
	var m any
	json.Unmarshal(text, &m)
	var prune func(any) any
	prune = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				x = prune(x)
				if x == nil || x == "" || x == false || x == 0.0 || k == "Delimiter" && x == "|" {
					delete(v, k)
				} else {
					v[k] = x
				}
			}
			if len(v) == 0 {
				return nil
			}
		case []any:
			for i := range v {
				v[i] = prune(v[i])
			}
			if len(v) == 0 {
				return nil
			}
		}
		return v
	}
	text, _ = json.Marshal(prune(m))
	return string(text)
}

// TestCommands runs testdata/commands.txt: a call, an indented answer. Words VAR=value before the command are its environment.
func TestCommands(t *testing.T) {
	const file = "testdata/commands.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		call := lines[i]
		fmt.Fprintln(&out, call)
		if call == "" || strings.HasPrefix(call, "#") {
			continue
		}
		var want []string
		for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "\t") {
			i++
			want = append(want, lines[i])
		}
		words, err := splitDirective(call)
		if err != nil {
			t.Fatal(err)
		}
		in := Input{Now: testNow, Release: Release2605, User: "alice"}
		for strings.Contains(words[0], "=") {
			in.Environ = append(in.Environ, words[0])
			words = words[1:]
		}
		in.Args = words[1:]
		v, print, err := readCommand(words[0], in)
		var got string
		if f := (*Failure)(nil); errors.As(err, &f) {
			got = fmt.Sprintf("%sexit %d", f.Message(words[0]), f.Exit)
		} else if print != "" {
			got = "prints: " + strings.SplitN(print, "\n", 2)[0]
		} else {
			got = slimJSON(v)
		}
		got = "\t" + strings.ReplaceAll(got, "\n", "\n\t")
		if got != strings.Join(want, "\n") && !*rewrite {
			t.Errorf("%s\ngot:\n%s\nwant:\n%s", call, got, strings.Join(want, "\n"))
		}
		fmt.Fprintln(&out, got)
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Every effect is implemented and belongs to an option; options that are not supported are refused by name.
func TestCommandTables(t *testing.T) {
	check := func(table *Table, effects []string) {
		has := map[string]bool{}
		for _, e := range effects {
			has[e] = true
		}
		used := map[string]bool{}
		for _, o := range table.Options {
			used[o.Effect] = true
			if o.Effect != "" && !has[o.Effect] {
				t.Errorf("%s --%s: nothing implements the effect %q", table.Command, o.Name, o.Effect)
			}
			if o.Effect == "" && o.in(Release2605) {
				arg := "--" + o.Name
				if o.Arg == Required {
					arg += "=1"
				}
				_, _, err := readCommand(table.Command, Input{Args: []string{arg, "show", "config"}, Now: testNow, Release: Release2605, User: "alice"})
				if err == nil || !strings.Contains(err.Error(), "--"+o.Name) {
					t.Errorf("%s %s: %v; want a refusal by name", table.Command, arg, err)
				}
			}
		}
		for _, e := range effects {
			if !used[e] {
				t.Errorf("%s: the effect %q belongs to no option", table.Command, e)
			}
		}
	}
	check(&SqueueTable, sortedKeys(squeueEffects.Get()))
	check(&ScancelTable, sortedKeys(scancelEffects.Get()))
	check(&SinfoTable, sortedKeys(sinfoEffects.Get()))
	check(&SacctTable, sortedKeys(sacctEffects.Get()))
	check(&ScontrolTable, sortedKeys(scontrolEffects.Get()))
}

func FuzzCommands(f *testing.F) {
	for _, s := range []string{"squeue\n-j\n8_[1-4],9\n-t\nPD,R", "scancel\n8.batch\n-s\nUSR1", "sinfo\n-Nl\n-t\nidle", "sacct\n-j\n8_3.0\n-S\nnow-1hour\n-o\nJobID%20", "scontrol\nupdate\njobid=8\ntimelimit+=5", "scontrol\nshow\nhostnames\nn[1-3]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 10000 {
			return
		}
		words := strings.Split(s, "\n")
		_, _, err := readCommand(words[0], Input{Args: words[1:], Environ: []string{"SQUEUE_STATES=all"}, Now: testNow, Release: Release2605, User: "alice"})
		if f := (*Failure)(nil); err != nil && errors.As(err, &f) && f.Text == "" {
			t.Fatal("a failure without a sentence")
		}
	})
}
