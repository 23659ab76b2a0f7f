package slurm

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"stint/events"
	"stint/events/hostlist"
	"stint/events/idset"
)

// TestScriptsThatPeopleWrite reads testdata/scripts.txt: after `=== ` what the real one made of a script, then its lines. What
// the cluster and not the command decided is not looked at here.
func TestScriptsThatPeopleWrite(t *testing.T) {
	text, err := os.ReadFile("testdata/scripts.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases := strings.Split(string(text), "\n=== ")[1:]
	if len(cases) < 200 {
		t.Fatalf("%d scripts", len(cases))
	}
	refused := 0
	for _, c := range cases {
		want, lines, _ := strings.Cut(strings.TrimSuffix(c, "\n"), "\n")
		script := strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(lines, "\t"), "\n\t", "\n"), `\r`, "\r")
		s, err := Sbatch(SbatchInput{Args: []string{"--parsable", "-H", "job.sh"}, Dir: "/home/alice", Now: testNow, Release: Release2205, Read: func(string) ([]byte, string, error) {
			return []byte(script), "/home/alice/job.sh", nil
		}})
		got := ""
		var f *Failure
		switch {
		case errors.As(err, &f):
			got = fmt.Sprintf("exit %d", f.Exit)
			refused++
		case err != nil:
			t.Fatal(err)
		default:
			got = asked(s.Spec)
		}
		if strings.HasSuffix(want, "by the cluster") {
			continue
		}
		if mask := onlySaid(want, s); got != mask {
			t.Errorf("got  %s\nwant %s (%v) for\n%s", got, mask, err, script)
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// onlySaid leaves out of what the real one shows what its cluster filled in.
func onlySaid(want string, s *Submission) string {
	var out []string
	for _, w := range strings.Fields(want) {
		key, value, _ := strings.Cut(w, "=")
		switch {
		case key == "part" && s != nil && s.Spec.Partition == "" && value == "compute",
			key == "time" && s != nil && s.Spec.TimeLimitS == 0,
			key == "mincpus" && s != nil && s.Spec.MinCpusPerNode == 0,
			key == "wckey" && value == "*":
			continue
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

// asked writes what a job asks for as the file has it.
func asked(s *events.JobSpec) string {
	var out []string
	add := func(key string, is bool, value any) {
		if is {
			out = append(out, key+"="+strings.ReplaceAll(fmt.Sprint(value), " ", "·"))
		}
	}
	add("name", s.Name != "", s.Name)
	add("part", s.Partition != "", s.Partition)
	switch {
	case s.TimeLimitS == Unlimited:
		add("time", true, "UNLIMITED")
	default:
		standard := map[string]uint32{"": 3600, "compute": 3600, "gpu": 1800}[s.Partition]
		add("time", s.TimeLimitS != 0 && s.TimeLimitS != standard, since(int64(s.TimeLimitS)*1_000_000))
	}
	add("count", s.MinNodes > 0 && s.MaxNodes > 0, fmt.Sprintf("%d-%d", s.MinNodes, s.MaxNodes))
	add("tmin", s.TimeMinS > 0, since(int64(s.TimeMinS)*1_000_000))
	add("cpt", s.CpusPerTask > 1, s.CpusPerTask)
	mib := func(n uint64) string {
		for _, u := range []string{"M", "G"} {
			if n == 0 || n%1024 != 0 {
				return fmt.Sprintf("%d%s", n, u)
			}
			n /= 1024
		}
		return fmt.Sprintf("%dT", n)
	}
	add("memnode", s.MemPerNodeMib > 0, mib(s.MemPerNodeMib))
	add("memnode", s.MemAll, 0)
	add("memcpu", s.MemPerCpuMib > 0 && s.MemPerCpuMib != 100, mib(s.MemPerCpuMib))
	add("feat", s.Constraint != "", s.Constraint)
	add("lic", s.Licenses != "", s.Licenses)
	add("nice", s.Nice != 0, s.Nice)
	add("nodes", s.NodeList != "", s.NodeList)
	excluded, _ := hostlist.Expand(s.Exclude, 100)
	add("excl", s.Exclude != "", hostlist.Compress(excluded))
	add("comment", s.Comment != "", s.Comment)
	for _, scope := range []events.Scope{events.Scope_PER_NODE, events.Scope_PER_JOB, events.Scope_PER_TASK} {
		var list []string
		for _, g := range s.Gres {
			if g.Scope == scope {
				text := "gres:" + g.Name
				if g.Type != "" {
					text += ":" + g.Type
				}
				if scope != events.Scope_PER_NODE || g.Type == "" || g.Count > 1 {
					text = fmt.Sprintf("%s:%d", text, g.Count)
				}
				list = append(list, text)
			}
		}
		add(map[events.Scope]string{events.Scope_PER_NODE: "tresnode", events.Scope_PER_JOB: "tresjob", events.Scope_PER_TASK: "trestask"}[scope], len(list) > 0, strings.Join(list, ","))
	}
	add("requeue", s.Requeue == events.Choice_CHOICE_NO, 0)
	if s.Array != nil {
		var set idset.Set
		events.Words(s.Array.Tasks).Each(func(i uint32) bool { set.Add(int(i)); return true })
		text := set.String()
		if s.Array.MaxRunning > 0 {
			text += fmt.Sprintf("%%%d", s.Array.MaxRunning)
		}
		add("array", true, text)
	}
	add("mail", s.MailTypes != 0, FormatMail(s.MailTypes))
	add("user", s.MailUser != "", s.MailUser)
	add("mincpus", s.MinCpusPerNode > 1, s.MinCpusPerNode)
	add("ntpn", s.TasksPerNode > 0, s.TasksPerNode)
	return strings.Join(out, " ")
}
