package slurm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stint/events"
)

func TestParseTerms(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"alice where account=physics set MaxJobs=3 qos+=low,high", "[ alice] where[account= physics] set[maxjobs= 3] set[qos+= low,high]"},
		{"name=bob qos-=low", "[name= bob] [qos-= low]"},
		{`x description="A b" Org='c'`, "[ x] [description= A b] [org= c]"},
		{"grptres=cpu=10,gres/gpu=2", "[grptres= cpu=10,gres/gpu=2]"},
		{"'a=b'", "[ a=b]"},
		{"where set", ""},
	} {
		var out []string
		for _, w := range ParseTerms(SplitLine(c.line)) {
			at := map[bool]string{true: "set"}[w.Set] + map[bool]string{true: "where"}[w.Where]
			out = append(out, fmt.Sprintf("%s[%s%s %s]", at, w.Key, strings.TrimSuffix(w.Op, "=")+map[bool]string{true: "="}[w.Op != ""], w.Value))
		}
		if got := strings.Join(out, " "); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.line, got, c.want)
		}
	}
}

var countedHere = []string{"cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages", "gres/gpu", "gres/gpu:a100"}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		key, value string
		qos        bool
		want       string
	}{
		{"fairshare", "parent", false, "limit:SHARES value:2147483647"},
		{"share", "5", false, "limit:SHARES value:5"},
		{"maxjobs", "-1", false, "limit:MAX_JOBS clear:true"},
		{"maxjobs", "x", false, `Bad MaxJobs value: "x"; write a whole number, or -1 for none`},
		{"maxsubmit", "8", false, "limit:MAX_SUBMIT value:8"},
		{"maxwall", "1-0", false, "limit:MAX_WALL value:1440"},
		{"maxwall", "10", true, "limit:MAX_WALL value:10"},
		{"grpwall", "02:00:00", true, "limit:GRP_WALL value:120"},
		{"gracetime", "90", true, "limit:GRACE_TIME value:90"},
		{"preemptexempttime", "00:01:30", true, "limit:PREEMPT_EXEMPT_TIME value:90"},
		{"usagefactor", "2.5", true, "limit:USAGE_FACTOR value:2500000"},
		{"usagethreshold", "0.000001", true, "limit:USAGE_THRESHOLD value:1"},
		{"grptres", "mem=100G,cpu=10", false, "limit:GRP_TRES tres:{tres:cpu count:10} tres:{tres:mem count:102400}"},
		{"grptres", "gres/gpu=-1", false, "limit:GRP_TRES tres:{tres:gres/gpu clear:true}"},
		{"grptres", "bogus=1", false, `unknown TRES "bogus"`},
		{"grptres", "cpu=1,cpu=2", false, "cpu is given twice"},
		{"grpcpus", "4", true, "limit:GRP_TRES tres:{tres:cpu count:4}"},
		{"grpmem", "1G", true, "limit:GRP_TRES tres:{tres:mem count:1024}"},
		{"maxnodes", "2", true, "limit:MAX_TRES_PER_JOB tres:{tres:node count:2}"},
		{"maxjobsperuser", "4", true, "limit:MAX_JOBS_PER_USER value:4"},
		{"maxjobs", "4", true, "limit:MAX_JOBS_PER_USER value:4"},
		{"maxj", "4", true, "limit:MAX_JOBS_PER_USER value:4"},
		{"maxjobspa", "4", true, "limit:MAX_JOBS_PER_ACCOUNT value:4"},
		{"maxs", "4", true, "limit:MAX_SUBMIT_PER_USER value:4"},
		{"maxsubmitjobspu", "4", true, "limit:MAX_SUBMIT_PER_USER value:4"},
		{"maxsubmitjobspa", "4", true, "limit:MAX_SUBMIT_PER_ACCOUNT value:4"},
		{"grptres", "", false, "GrpTRES needs NAME=COUNT"},
		{"grptres", "-1", false, "limit:GRP_TRES clear:true"},
		{"maxsubmitjobsperuser", "3", true, "limit:MAX_SUBMIT_PER_USER value:3"},
		{"maxtresperuser", "cpu=16", true, "limit:MAX_TRES_PER_USER tres:{tres:cpu count:16}"},
		{"maxtrespu", "cpu=16", false, ""},
		{"mintres", "cpu=4", true, "limit:MIN_TRES_PER_JOB tres:{tres:cpu count:4}"},
		{"priority", "7", true, "limit:PRIORITY_VALUE value:7"},
		{"bogus", "7", true, ""},
	} {
		s := FindSetting(c.key, c.qos)
		got := ""
		if s != nil {
			change, err := s.Change(c.value, countedHere)
			if err != nil {
				got = err.Error()
			} else {
				got = strings.Join(strings.Fields(strings.ReplaceAll(change.String(), `"`, "")), " ")
			}
		}
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s=%s (QoS %v)\n got %s\nwant %s", c.key, c.value, c.qos, got, c.want)
		}
	}
}

// Every limit of the schema can be set, under its own name, for what it is a limit of.
func TestEveryLimitHasASetting(t *testing.T) {
	for n, name := range events.Limit_name {
		l := events.Limit(n)
		if l == events.Limit_LIMIT_NONE {
			continue
		}
		found := false
		for i := range Settings {
			s := &Settings[i]
			if s.Limit != l {
				continue
			}
			found = true
			for _, key := range strings.Fields(s.Keys) {
				for _, qos := range []bool{false, true} {
					of := ofAssociation
					if qos {
						of = ofQos
					}
					if got := FindSetting(key, qos); s.Of&of != 0 && (got == nil || got.Limit != l) {
						t.Errorf("%s of a QoS (%v) means %v", key, qos, got)
					}
				}
			}
		}
		if !found {
			t.Errorf("%s can be set by nothing", name)
		}
	}
}

func TestListChanges(t *testing.T) {
	for _, c := range []struct{ op, value, want string }{
		{"=", "a,b", "replace:true names:a names:b"},
		{"=", "+a,-b", "add:a remove:b"},
		{"+=", "a", "add:a"},
		{"-=", "a,A", "remove:a"},
		{"=", "", "replace:true"},
		{"=", "a,+b", "a list is either"},
	} {
		l, err := ParseListChange(nil, c.op, c.value, false)
		got := strings.Join(strings.Fields(strings.ReplaceAll(l.String(), `"`, "")), " ")
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s%s\n got %s\nwant %s", c.op, c.value, got, c.want)
		}
	}
}

func TestReadFile(t *testing.T) {
	lines, err := ReadFile("# a comment\nCluster - 'hpc':Fairshare=2:QOS='a,b'\n\nParent - 'root'\nAccount - 'cs':Description='Computer: Science':GrpTRES=gres/gpu:a100=4,cpu=2:MaxJobs=4\nUser - 'ann':QOS='+x'\n")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range lines {
		s := fmt.Sprintf("%d %s %s", l.Number, l.Kind, l.Name)
		for _, w := range l.Terms {
			s += " " + w.Key + w.Op + w.Value
		}
		out = append(out, s)
	}
	want := "2 cluster hpc fairshare=2 qos=a,b\n4 parent root\n5 account cs description=Computer: Science grptres=gres/gpu:a100=4,cpu=2 maxjobs=4\n6 user ann qos=+x"
	if got := strings.Join(out, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, c := range []struct{ text, why string }{
		{"nonsense", "line 1"}, {"\nBogus - 'x'", `line 2: "Bogus"`}, {"User - ''", "has no name"}, {"User - 'x':y", "KEY=VALUE"},
	} {
		if _, err := ReadFile(c.text); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
}

// No line, whatever it holds, fails or takes long.
func FuzzSacctmgr(f *testing.F) {
	for _, s := range []string{"-i add user x account=y qos=+a,-b", "modify qos q set grptres=cpu=1,mem=2G flags+=NoDecay maxwall=1-2:3:4", `show assoc format=user%-30,"x" where user='a,b'`, "-nP -sQ load file=x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		begin := time.Now()
		s, err := ReadSacctmgr(Input{Args: SplitLine(line), Release: Release2605})
		if err == nil {
			for _, w := range ParseTerms(s.Words) {
				for _, qos := range []bool{false, true} {
					if set := FindSetting(w.Key, qos); set != nil {
						if c, err := set.Change(w.Value, countedHere); err == nil && c.Limit != set.Limit {
							t.Errorf("%s=%s changes %s", w.Key, w.Value, c.Limit)
						}
					}
				}
				l, err := ParseListChange(nil, w.Op, w.Value, false)
				if err == nil && l.Replace && len(l.Add)+len(l.Remove) > 0 {
					t.Errorf("%s%s both replaces and changes", w.Op, w.Value)
				}
			}
		}
		if d := time.Since(begin); d > time.Second {
			t.Errorf("it took %s", d)
		}
	})
}

// What is read of a file is what is written of it again.
func FuzzReadFile(f *testing.F) {
	f.Add("Cluster - 'hpc':Fairshare=2:QOS='a,b'\nParent - 'root'\nAccount - 'cs':GrpTRES=gres/gpu:a100=4:MaxJobs=4\nUser - 'ann':QOS='+x'\n")
	f.Fuzz(func(t *testing.T, text string) {
		begin := time.Now()
		lines, err := ReadFile(text)
		if err == nil {
			for _, l := range lines {
				if l.Name == "" || l.Kind == "" || l.Number == 0 {
					t.Errorf("a line is read as %+v", l)
				}
			}
		}
		if d := time.Since(begin); d > time.Second {
			t.Errorf("it took %s", d)
		}
	})
}
