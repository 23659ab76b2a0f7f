package slurm

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"stint/projections"
)

func cronInput() SbatchInput {
	return SbatchInput{Dir: "/home/alice", Now: time.Unix(1796000000, 0).UTC(), Release: Release2605, Args: []string{"--hold"}, Environ: []string{"SECRET=1"}}
}

// crontabText is what a crontab comes to, entry by entry, or what is wrong with it.
func crontabText(text string) string {
	entries, err := ReadCrontab(text, cronInput())
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	for _, e := range entries {
		c := e.Spec.Cron
		fmt.Fprintf(&b, "%d-%d: %s | %s | %s", c.FirstLine, c.LastLine, c.Text(), e.Spec.Name, e.Spec.Command)
		for _, f := range []struct {
			name  string
			value any
			is    bool
		}{{"every", c.Every, c.Every != c.Starred}, {"starred", c.Starred, c.Every != c.Starred}, {"limit", e.Spec.TimeLimitS, e.Spec.TimeLimitS != 0}, {"partition", e.Spec.Partition, e.Spec.Partition != ""},
			{"out", e.Spec.StdOut, e.Spec.StdOut != ""}, {"in", e.Spec.WorkDir, e.Spec.WorkDir != "/home/alice"}, {"comment", e.Spec.Comment, e.Spec.Comment != ""}, {"environment", e.Environ, len(e.Environ) != 3}} {
			if f.is {
				fmt.Fprintf(&b, " %s=%v", f.name, f.value)
			}
		}
		b.WriteByte('\n')
		if e.Spec.Hold || !e.Spec.GetUserEnv || !slices.Contains(e.Environ, "SLURM_GET_USER_ENV=1") || e.Spec.SubmitLine != "scrontab" {
			b.WriteString("it depends on how scrontab was called\n")
		}
	}
	return b.String()
}

// TestReadCrontab goes through testdata/crontab.txt: a crontab, a line of four dashes, what it comes to, and a line of four equal signs.
// REWRITE=1 writes the answers again.
func TestReadCrontab(t *testing.T) {
	const file = "testdata/crontab.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, block := range strings.Split(strings.TrimSuffix(string(data), "====\n"), "====\n") {
		text, want, _ := strings.Cut(block, "----\n")
		got := crontabText(text)
		if got != want && os.Getenv("REWRITE") == "" {
			t.Errorf("%s---- got\n%s---- want\n%s", text, got, want)
		}
		out.WriteString(text + "----\n" + got + "====\n")
	}
	if os.Getenv("REWRITE") != "" {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCrontabScript(t *testing.T) {
	entries, err := ReadCrontab("A=1\n#SCRON -t 5\n  #SCRON -J x\n0 5 * * mon-fri do $A\n", cronInput())
	if err != nil {
		t.Fatal(err)
	}
	want := "#!/bin/sh\n# This script is of an entry of a crontab.\n#SCRON -t 5\n#SCRON -J x\n# It runs at: 0 5 * * 1-5\ndo 1\n"
	if got := string(entries[0].Script); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestMarkLines(t *testing.T) {
	text := "a\nb\nc"
	if got := MarkLines(text, MarkBad, nil); got != text {
		t.Errorf("without marks %q", got)
	}
	got := MarkLines(text, MarkDisabled, []*projections.LineRange{{First: 1, Last: 1}, {First: 1, Last: 2}, {First: 9, Last: 12}})
	if want := "a\n#DISABLED: b\n#DISABLED: c\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if again, err := ReadCrontab(MarkLines("#SCRON --bad\n0 0 * * * a", MarkBad, []*projections.LineRange{{First: 0, Last: 1}}), cronInput()); err != nil || len(again) != 0 {
		t.Errorf("marked lines are read: %v %v", again, err)
	}
	if entries, err := ReadCrontab(NewCrontab, cronInput()); err != nil || len(entries) != 0 {
		t.Errorf("the crontab to begin with has %d entries, %v", len(entries), err)
	}
}

func TestReadScrontab(t *testing.T) {
	for line, want := range map[string]*Scrontab{
		"":                {},
		"-":               {File: "-"},
		"tab":             {File: "tab"},
		"-e":              {Edit: true},
		"-lv":             {List: true, Verbose: 1},
		"-r -u bob":       {Remove: true, User: "bob"},
		"--user=bob --li": {List: true, User: "bob"},
		"-ubob tab":       {User: "bob", File: "tab"},
		"-l tab":          nil, "-e -l": nil, "a b": nil, "-x": nil, "-u": nil,
	} {
		got, err := ReadScrontab(Input{Args: strings.Fields(line), Release: Release2205})
		if want == nil {
			if f, ok := err.(*Failure); !ok || f.Exit != 1 {
				t.Errorf("scrontab %s: %v, %v", line, got, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("scrontab %s: %+v, %v; want %+v", line, got, err, want)
		}
	}
	for _, word := range []string{"--help", "--usage", "-V"} {
		if got, err := ReadScrontab(Input{Args: []string{word}, Release: Release2605}); err != nil || got.Print == "" {
			t.Errorf("scrontab %s: %v %v", word, got, err)
		}
	}
	if help := ScrontabTable.Help(Release2605); !strings.Contains(help, "Example:\n") {
		t.Errorf("the help has no example: %s", help)
	}
}

// FuzzReadCrontab: whatever stands in a crontab is an entry that recurs, or is at fault on a line there is.
func FuzzReadCrontab(f *testing.F) {
	for _, s := range []string{"* * * * * a", "#SCRON -t 5 'x\n@daily b", "A = \"b c\"\n*/5 1-3 1,2 jan sun $A ${A}", "0 0 31 2 *  x", "5-60/7 24 */31 dec sat-7 c\r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n")
		entries, err := ReadCrontab(text, cronInput())
		if err != nil {
			fault, ok := err.(*CrontabFault)
			if !ok || fault.First < 0 || fault.First > fault.Last || fault.Last > lines {
				t.Fatalf("%q: %v", text, err)
			}
			if marked := MarkLines(text, MarkBad, []*projections.LineRange{{First: uint32(fault.First), Last: uint32(fault.Last)}}); strings.Count(marked, MarkBad) == 0 {
				t.Fatalf("%q: nothing is marked", text)
			}
			return
		}
		last := -1
		for _, e := range entries {
			c := e.Spec.Cron
			if c.Check() != nil || int(c.FirstLine) <= last || c.FirstLine > c.LastLine || int(c.LastLine) > lines || e.Spec.Command == "" || e.Spec.Name == "" {
				t.Fatalf("%q: %v %q", text, c, e.Spec.Command)
			}
			last = int(c.LastLine)
			if c.Next(1796000000_000000, nil) <= 1796000000_000000 {
				t.Fatalf("%q: %s never comes", text, c.Text())
			}
			again, err := ReadCrontab(c.Text()+" x", cronInput())
			if err != nil || again[0].Spec.Cron.Text() != c.Text() || again[0].Spec.Cron.Minutes != c.Minutes || again[0].Spec.Cron.Weekdays != c.Weekdays {
				t.Fatalf("%q is written %q, which is %v %v", text, c.Text(), again, err)
			}
		}
	})
}
