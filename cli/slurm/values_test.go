package slurm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stint/events"
)

func TestParseLimit(t *testing.T) {
	for in, want := range map[string]uint32{ // minutes
		"0": 0, "0:30": 1, "1:30": 2, "-1": Unlimited, "-5": Unlimited, "1-2": 26 * 60, "1-2:3": 26*60 + 3, "90:00": 90, "00:61:00": 61, "1:2:3": 63,
		"0:0:1": 1, "1-0": 1440, "00:00": 0, "5-1:60": 5*1440 + 120, "infinite": Unlimited, "Unlimited": Unlimited, "1-2:3:4": 26*60 + 4,
		"2:0": 2, "59:59": 60, "0-0:0:59": 1, "10": 10, "7-00:00:00": 7 * 1440,
	} {
		if want != Unlimited {
			want *= 60
		}
		if got, err := ParseLimit(in); err != nil || got != want {
			t.Errorf("ParseLimit(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "bogus", "+5", " 5", "1:", ":5", "0x10", "unlim", "1:2:3:4", "1-2-3", "10m", "1h", "1.5", "--5", "-5:00", "99999999", "9999999999999999"} {
		if got, err := ParseLimit(bad); err == nil {
			t.Errorf("ParseLimit(%q) = %d; want an error", bad, got)
		}
	}
}

// What the real sbatch made of these at 2026-11-30T19:31:55; the empty result is a refusal.
func TestParseWhen(t *testing.T) {
	for in, want := range map[string]string{
		"now": "2026-11-30T19:31:55", "now+60": "2026-11-30T19:32:55", "now+1hour": "2026-11-30T20:31:55", "now+2minutes": "2026-11-30T19:33:55",
		"now+90seconds": "2026-11-30T19:33:25", "now+1week": "2026-12-07T19:31:55", "now+1day": "2026-12-01T19:31:55", "now-5": "2026-11-30T19:31:50",
		"now + 5": "2026-11-30T19:32:00", "16:00": "2026-12-01T16:00:00", "16:00:30": "2026-12-01T16:00:30", "3:30pm": "2026-12-01T15:30:00",
		"23:00": "2026-11-30T23:00:00", "010130": "2030-01-01T00:00:00", "0101": "2027-01-01T00:00:00", "01/02": "2027-01-02T00:00:00",
		"01/02/30": "2030-01-02T00:00:00", "01.02.30": "2030-01-02T00:00:00", "2030-01-01T12:34": "2030-01-01T12:34:00",
		"2030-01-01T12:34:56": "2030-01-01T12:34:56", "2030-01-01": "2030-01-01T00:00:00", "today": "2026-11-30T00:00:00",
		"tomorrow": "2026-12-01T00:00:00", "midnight": "2026-12-01T00:00:00", "noon": "2026-12-01T12:00:00", "fika": "2026-12-01T15:00:00",
		"teatime": "2026-12-01T16:00:00", "uts1893456000": "2030-01-01T00:00:00", "16:00 tomorrow": "2026-12-01T16:00:00",
		"tomorrow 16:00": "2026-12-01T16:00:00", "16:00 01/02/30": "2030-01-02T16:00:00", "noon tomorrow": "2026-12-01T12:00:00",
		"2030-02-30": "2030-03-02T00:00:00", "01/02/30-16:00": "2030-01-02T16:00:00", "010130T12:00": "2030-01-01T12:00:00",
		"1231": "2026-12-31T00:00:00", "12:05am": "2026-12-01T00:05:00", "12:05 pm": "2026-12-01T12:05:00",
		"now+2min": "", "now+1h": "", "now+5m": "", "2pm": "", "12am": "", "12pm": "", "2030-01-01T12": "", "elevenses": "", "1893456000": "",
		"2030-13-01": "", "25:00": "", "20300101": "", "2030-01-01T12:34:56Z": "", "TOMORROW": "", "": "", "12:60": "", "4am": "", "13pm": "",
		"bogus": "", "now+": "", "16:00 17:00": "", "tomorrow today": "", "NOON": "2026-12-01T12:00:00", "Now": "2026-11-30T19:31:55", "Uts1893456000": "2030-01-01T00:00:00", "TODAY": "", "TEATIME": "",
		"16:1": "", "16:01:1": "", "6:01": "2026-12-01T06:01:00", "2030-1-1": "", "2030-01-1": "", "2030-01-01T1:1": "", "no": "", "16:00 ": "2026-12-01T16:00:00", "uts": "", "uts-1": "", "noon+1hour": "",
	} {
		got := ""
		at, err := ParseWhen(in, testNow, false)
		if err == nil {
			got = at.Format("2006-01-02T15:04:05")
		}
		if got != want {
			t.Errorf("ParseWhen(%q) = %s, %v; want %s", in, got, err, want)
		}
	}
	for in, want := range map[string]string{"16:00": "2026-11-30T16:00:00", "23:00": "2026-11-29T23:00:00", "1231": "2025-12-31T00:00:00", "now-7days": "2026-11-23T19:31:55"} {
		if at, err := ParseWhen(in, testNow, true); err != nil || at.Format("2006-01-02T15:04:05") != want {
			t.Errorf("in the past, ParseWhen(%q) = %s, %v; want %s", in, at, err, want)
		}
	}
	zone := time.FixedZone("X", 3600)
	if at, err := ParseWhen("noon", testNow.In(zone), false); err != nil || at.Format(time.RFC3339) != "2026-12-01T12:00:00+01:00" {
		t.Errorf("noon in another zone: %s, %v", at, err)
	}
}

func TestFileName(t *testing.T) {
	n := Names{Job: 42, Array: 40, Task: 13, Step: "batch", Node: "n1.site.org", NodeRank: 1, TaskRank: 2, User: "alice", JobName: "a b"}
	plain := n
	plain.Array, plain.Task = 0, 0
	step := n
	step.Step = "3"
	for _, c := range []struct {
		pattern string
		names   Names
		release Release
		want    string
	}{
		{"slurm-%j.out", n, Release2605, "slurm-42.out"}, {"slurm-%A_%a.out", n, Release2605, "slurm-40_13.out"},
		{"o.%A.%a", plain, Release2605, "o.42.4294967294"}, {"o.%5j.%04a", n, Release2605, "o.00042.0013"}, {"a%%b.%j", n, Release2605, "a%b.42"},
		{"%x.%u.%N.%n.%t", n, Release2605, "a b.alice.n1.1.2"}, {"o.%s.%t", n, Release2605, "o.batch.2"}, {"o.%J", n, Release2605, "o.42"},
		{"o.%J", step, Release2605, "o.42.3"}, {"o.%b", n, Release2205, "o.%b"}, {"o.%b", n, Release2605, "o.3"}, {"o.%q.%z", n, Release2605, "o.%q.%z"},
		{`o\%j`, n, Release2605, "o%j"}, {"a b.%j", n, Release2605, "a b.42"}, {"%", n, Release2605, "%"}, {"%12", n, Release2605, "%12"},
		{"%99999999999j", n, Release2605, "0000000042"},
	} {
		if got := FileName(c.pattern, c.names, c.release); got != c.want {
			t.Errorf("FileName(%q) = %q; want %q", c.pattern, got, c.want)
		}
	}
}

// The rules of getopt_long, on a table of their own.
func TestGetopt(t *testing.T) {
	table := Table{Command: "x", Options: []Option{
		{Name: "jobs", Short: 'j', Arg: Optional, Effect: "jobs", Env: "X_JOBS X_OLD"}, {Name: "job", Short: 0, Arg: Optional, Effect: "jobs"},
		{Name: "node", Short: 'N', Arg: Required, Effect: "node"}, {Name: "noheader", Short: 'h', Effect: "noheader"},
		{Name: "all", Short: 'a', Effect: "all"}, {Name: "late", Since: 2405, Effect: "late"}, {Short: 'z', Effect: "z"},
	}}
	for _, c := range []struct {
		args, want string
		submits    bool
	}{
		{"-ah", "all noheader |", false}, {"-aN3 w", "all node=3 | w", false}, {"-aN 3 w", "all node=3 | w", false}, {"w -a v", "all | w v", false},
		{"w -a v", "| w -a v", true}, {"-a w -h", "all | w -h", true}, {"-- -a", "| -a", false}, {"-j5", "jobs=5 |", false}, {"-j 5", "jobs | 5", false},
		{"--jobs=5", "jobs=5 |", false}, {"--jobs 5", "jobs | 5", false}, {"--jo=5", "jobs=5 |", false}, {"--nod 4", "node=4 |", false},
		{"--node=", "node= |", false}, {"--no 4", "option '--no' is ambiguous; possibilities: --node --noheader", false}, {"-", "| -", false},
		{"--all=1", "option '--all' doesn't allow an argument", false}, {"--node", "option '--node' requires an argument", false},
		{"-N", "option requires an argument -- 'N'", false}, {"-aZ", "invalid option -- 'Z'", false}, {"-a=1", "invalid option -- '='", false},
		{"--late", "unrecognized option '--late': Slurm has it since 24.05, and 22.05 is emulated", false},
		{"--nose", "unrecognized option '--nose'; did you mean '--node'?", false}, {"--=x", "option '--' is ambiguous; possibilities: --jobs --node --noheader --all", false}, {"-zz", "z z |", false},
	} {
		table.Submits = c.submits
		given, words, err := table.Parse(strings.Fields(c.args), Release2205)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			for _, g := range given {
				got += g.Option.Effect
				if g.Has {
					got += "=" + g.Value
				}
				got += " "
			}
			got = strings.TrimSpace(got + "| " + strings.Join(words, " "))
		}
		if got != c.want {
			t.Errorf("%q: %s; want %s", c.args, got, c.want)
		}
	}
	given := table.FromEnv(Lookup([]string{"X_OLD=1", "X_JOBS=2"}), Release2205)
	if len(given) != 1 || given[0].Value != "2" || given[0].Where != "X_JOBS" {
		t.Errorf("from the environment: %+v", given)
	}
	if help := table.Help(Release2205); help != "Usage: x \n\n" {
		t.Errorf("options without help are shown:\n%s", help)
	}
	if got := fmt.Sprint(SbatchTable.Complete("--mem", Release2605)); !strings.Contains(got, "--mem=") || strings.Contains(got, "--mem-update") {
		t.Errorf("completion of --mem: %s", got)
	}
	for _, line := range strings.Split(SbatchTable.Help(Release2605), "\n") {
		if len(line) > 110 {
			t.Errorf("a line of the help is %d wide: %s", len(line), line)
		}
	}
}

func TestMailRoundTrip(t *testing.T) {
	for in, want := range map[string]string{"BEGIN,END": "BEGIN,END", "NONE": "", "begin": "BEGIN", "TIME_LIMIT_90": "TIME_LIMIT_90",
		"ARRAY_TASKS,ALL": "ARRAY_TASKS,INVALID_DEPEND,BEGIN,END,FAIL,REQUEUE,STAGE_OUT", "REQUEUE,STAGE_OUT": "REQUEUE,STAGE_OUT"} {
		if bits, err := ParseMail(in); err != nil || FormatMail(bits) != want {
			t.Errorf("ParseMail(%q) prints %s, %v; want %s", in, FormatMail(bits), err, want)
		}
	}
}

func TestDependencies(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "0": "", "256": "afterany:256", "AFTEROK:1": "afterok:1", "afterok:1,afterok:1": "afterok:1", "afterok:1+5": "afterok:1+5", "SINGLETON": "singleton",
		"after:1+5:2": "after:1+5 after:2", "singleton?afterok:1": "any singleton afterok:1", "afterok:1?afterany:2,after:3": "any afterok:1 afterany:2 after:3",
		"afterok:1_3": "afterok:1_3", "aftercorr:7": "aftercorr:7", "afterburstbuffer:1": "afterburstbuffer:1", "afterok: 256": "afterok:256",
	} {
		list, any, err := ParseDependencies(in)
		var got []string
		if any {
			got = append(got, "any")
		}
		for _, d := range list {
			s := DependencyWord(d.Kind)
			if d.Kind != events.DependencyKind_SINGLETON {
				s += fmt.Sprintf(":%d", d.Job)
			}
			if d.HasTask {
				s += fmt.Sprintf("_%d", d.Task)
			}
			if d.DelayMin > 0 {
				s += fmt.Sprintf("+%d", d.DelayMin)
			}
			got = append(got, s)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("ParseDependencies(%q) = %v, %v; want %s", in, got, err, want)
		}
	}
	for _, bad := range []string{"afterok", "afterok:", ":1", "afterok:1,,", ",afterok:1", "afterok:1?", "after:1+x", "after:1+0", "after:1+-5", "expand:1", "afterok:0", "none", "afterok:abc", "bogus:1", "afterok:1:", "afterany:1:afterok:2", "singleton:1", ",", "?", "afterok:1,?afterok:2"} {
		if list, _, err := ParseDependencies(bad); err == nil {
			t.Errorf("ParseDependencies(%q) = %v; want an error", bad, list)
		}
	}
}

func FuzzValues(f *testing.F) {
	for _, s := range []string{"1-2:3", "now+1hour", "16:00 01/02/30", "afterok:1?after:2+3", "gpu:a100:2", "RB:USR1@5", "2-4k", "[a*1&b]", "%5j", "a='x,y'", "plane=4:block", "0101-12:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ParseLimit(s)
		ParseWhen(s, testNow, false)
		ParseWhen(s, testNow, true)
		ParseDependencies(s)
		ParseGres(s, events.Scope_PER_NODE)
		ParseGPUs(s, events.Scope_PER_JOB)
		ParseWarn(s)
		ParseNodeCount(s)
		ParseConstraint(s)
		ParseMail(s)
		checkDistribution(s)
		events.ParseLicenses(s)
		Export([]string{"A=1"}, s, true)
		FileName(s, Names{Job: 1}, Release2605)
		Directives([]byte(s), "x", 1000)
		splitDirective(s)
	})
}
