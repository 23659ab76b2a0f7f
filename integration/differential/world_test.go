// Package differential asks a real Slurm and Stint the same questions on equal clusters and compares what they answer.
//
// The real one is Debian's slurm-wlm, started by a script that makes a private cluster: STINT_ORACLE names the folder of that
// script (files oracle and start). Without it the tests of this package that need it are passed over.
package differential

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	seed   = flag.Uint64("seed", 20261130, "seed of the generated mixtures")
	per    = flag.Int("mixtures", 40, "mixtures asked of each profile")
	only   = flag.String("profiles", "", "profiles to run, joined by commas; all if empty")
	cache  = flag.String("answers", "", "folder in which the answers of the real Slurm are kept from run to run")
	built  = flag.String("programs", "", "folder with stint and stint-cli; built if empty, none to ask the real Slurm only")
	single = flag.String("line", "", "ask only these lines of options, joined by semicolons")
)

//go:embed drive.sh
var driveScript string

//go:embed world.sh
var worldScript string

// least is how many mixtures in a hundred have to come out the same. What is left are corners of GPUs and of memory per CPU
// (docs/compatibility.md).
const least = 94

// short says that the real one gave fewer CPUs than the tasks asked for: it lays out some tasks of several CPUs over nodes
// where they do not fit. Stint gives each task its CPUs.
func (a answer) short() bool {
	number := func(name string) int { n, _ := strconv.Atoi(a.Show[name]); return n }
	return a.Ran && a.Env["SLURM_OVERCOMMIT"] == "" && number("NumCPUs") < number("NumTasks")*number("CPUs/Task")
}

// answer is what became of one line.
type answer struct {
	Line string
	Exit int
	Err  string
	Show map[string]string // fields of scontrol show job -d
	Env  map[string]string
	Ran  bool
}

func TestWorld(t *testing.T) {
	home := os.Getenv("STINT_ORACLE")
	if home == "" {
		t.Skip("STINT_ORACLE names no folder with a real Slurm")
	}
	if os.Getuid() != 0 {
		t.Skip("a real Slurm is started by root only")
	}
	tools := *built
	if tools == "" {
		tools = build(t)
	}
	total, same := 0, 0
	for i, p := range profiles {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), p.name) {
			continue
		}
		r := rand.New(rand.NewPCG(*seed, uint64(i)))
		lines := []string{""}
		for len(lines) < *per {
			if l := mixture(r); !slices.Contains(lines, l) {
				lines = append(lines, l)
			}
		}
		if *single != "" {
			lines = strings.Split(*single, ";")
		}
		t.Run(p.name, func(t *testing.T) {
			want := real(t, home, p, lines)
			if tools == "none" {
				return
			}
			got := ours(t, tools, p, lines)
			for i := range lines {
				if want[i].short() {
					continue
				}
				total++
				if d := differences(want[i], got[i]); len(d) > 0 {
					t.Logf("sbatch %s\n\t%s", lines[i], strings.Join(d, "\n\t"))
				} else {
					same++
				}
			}
		})
	}
	t.Logf("seed %d: %d of %d mixtures are as the real Slurm has them", *seed, same, total)
	if *built != "none" && *single == "" && same*100 < total*least {
		t.Errorf("fewer than %d in a hundred", least)
	}
}

func build(t *testing.T) string {
	dir := t.TempDir()
	os.Chmod(dir, 0o755)
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if s, err := os.Stat(d); err == nil && s.Mode().Perm()&0o5 != 0o5 {
			os.Chmod(d, s.Mode().Perm()|0o5)
		}
	}
	for name, pkg := range map[string]string{"stint": "stint", "stint-cli": "stint/cli/light", "stint-sbatch": "stint/cli/light/sbatch"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", pkg, err, out)
		}
	}
	return dir
}

// real gives the answers of the real Slurm, from the cache as far as it has them.
func real(t *testing.T, home string, p profile, lines []string) []answer {
	known := map[string]answer{}
	file := filepath.Join(*cache, p.name+".json")
	key := p.params + p.shape + p.more
	var kept struct {
		Key     string
		Answers map[string]answer
	}
	if *cache != "" {
		if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &kept) == nil && kept.Key == key {
			known = kept.Answers
		}
	}
	var ask []string
	for _, l := range lines {
		if _, ok := known[l]; !ok {
			ask = append(ask, l)
		}
	}
	if len(ask) > 0 {
		base := t.TempDir()
		dir := filepath.Join(base, "oracle")
		for _, f := range []string{"oracle", "start"} {
			data, err := os.ReadFile(filepath.Join(home, f))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, f), string(data), 0o755)
		}
		write(t, filepath.Join(dir, "etc", "world", "slurm.conf"), p.conf("@RUN@", false), 0o644)
		write(t, filepath.Join(dir, "etc", "world", "gres.conf"), gresConf("@RUN@/dev"), 0o644)
		write(t, filepath.Join(dir, "etc", "world", "cgroup.conf"), "CgroupAutomount=no\nConstrainCores=no\nConstrainRAMSpace=no\n", 0o644)
		open(base)
		call := func(args ...string) {
			cmd := exec.Command(filepath.Join(dir, "oracle"), append([]string{"world"}, args...)...)
			cmd.Env = append(clean(os.Environ()), "ORACLE_RUN="+filepath.Join(base, "run"), "USER=alice")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("oracle %v: %v\n%s", args, err, out)
			}
		}
		call("up", "world", "4")
		defer call("down")
		list, out := prepare(t, base, ask)
		call("as", "bash", filepath.Join(out, "drive.sh"), list, out)
		for i, a := range collect(t, out, ask) {
			known[ask[i]] = a
		}
		if *cache != "" {
			kept.Key, kept.Answers = key, known
			data, _ := json.Marshal(kept)
			write(t, file, string(data), 0o644)
		}
	}
	answers := make([]answer, len(lines))
	for i, l := range lines {
		answers[i] = known[l]
	}
	return answers
}

// ours gives Stint's answers.
func ours(t *testing.T, tools string, p profile, lines []string) []answer {
	base := t.TempDir()
	open(base)
	conf := filepath.Join(base, "etc", "slurm.conf")
	write(t, conf, p.conf(base, true), 0o644)
	dev := filepath.Join(base, "dev")
	for i := range 4 {
		write(t, filepath.Join(dev, "nvidia"+strconv.Itoa(i)), "", 0o644)
	}
	write(t, filepath.Join(base, "etc", "gres.conf"), gresConf(dev), 0o644)
	write(t, filepath.Join(base, "etc", "cgroup.conf"), "ConstrainCores=no\nConstrainRAMSpace=no\n", 0o644)
	dir := filepath.Join(base, "c")
	env := append(clean(os.Environ()), "STINT_DIR="+dir, "PATH="+filepath.Join(dir, "bin")+":"+tools+":"+os.Getenv("PATH"))
	call := func(name string, args ...string) {
		cmd := exec.Command(name, args...)
		cmd.Env, cmd.Dir = env, base
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	stint := filepath.Join(tools, "stint")
	call(stint, "up", "--detach", "--config", conf, "--virtual")
	defer call(stint, "down", "--kill")
	list, out := prepare(t, base, lines)
	drive := []string{"bash", filepath.Join(out, "drive.sh"), list, out}
	if _, err := user.Lookup("alice"); err == nil && os.Getuid() == 0 { // as the real one is asked
		drive = append([]string{"setpriv", "--reuid=alice", "--regid=alice", "--init-groups", "env", "HOME=/home/alice", "USER=alice", "LOGNAME=alice"}, drive...)
	}
	call(drive[0], drive[1:]...)
	return collect(t, out, lines)
}

func prepare(t *testing.T, base string, lines []string) (list, out string) {
	out = filepath.Join(base, "out")
	os.Mkdir(out, 0o777)
	os.Chmod(out, 0o777)
	write(t, filepath.Join(out, "drive.sh"), driveScript, 0o755)
	write(t, filepath.Join(out, "world.sh"), worldScript, 0o755)
	list = filepath.Join(base, "list")
	write(t, list, strings.Join(lines, "\n")+"\n", 0o644)
	return list, out
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// open lets other users through to a test's folder.
func open(dir string) {
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		os.Chmod(d, 0o755)
	}
}

// clean leaves out what an enclosing job or cluster would have commands do otherwise.
func clean(environ []string) (out []string) {
	for _, nv := range environ {
		if !strings.HasPrefix(nv, "SLURM") && !strings.HasPrefix(nv, "SBATCH_") && !strings.HasPrefix(nv, "STINT_") {
			out = append(out, nv)
		}
	}
	return out
}

func collect(t *testing.T, out string, lines []string) []answer {
	answers := make([]answer, len(lines))
	for i, l := range lines {
		a := answer{Line: l, Show: map[string]string{}, Env: map[string]string{}}
		f := filepath.Join(out, strconv.Itoa(i+1))
		rc, err := os.ReadFile(f + ".rc")
		if err != nil {
			t.Fatal(err)
		}
		a.Exit, _ = strconv.Atoi(strings.TrimSpace(string(rc)))
		said, _ := os.ReadFile(f + ".err")
		a.Err = strings.TrimSpace(string(said))
		_, err = os.Stat(f + ".done")
		a.Ran = err == nil
		data, _ := os.ReadFile(f + ".job")
		part := ""
		for line := range bytes.Lines(data) {
			text := strings.TrimRight(string(line), "\n")
			switch {
			case strings.HasPrefix(text, "## "):
				part = text[3:]
			case part == "show":
				a.show(text)
				a.Show["TRES"] = withoutDevices(a.Show["TRES"])
			case part == "env":
				name, value, _ := strings.Cut(text, "=")
				a.Env[name] = value
			}
		}
		answers[i] = a
	}
	return answers
}

// show reads the record of a job on one line. Fields that come for each node are joined.
func (a *answer) show(record string) {
	for _, w := range strings.Fields(record) {
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			continue
		}
		if have, twice := a.Show[name]; twice {
			value = have + " " + value
		}
		a.Show[name] = value
	}
}

// withoutDevices leaves out the devices of a TRES list: a Slurm without accounting does not count them there.
func withoutDevices(list string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(list, ","), func(t string) bool { return strings.HasPrefix(t, "gres/") }), ",")
}

// memoryOf is the memory of a TRES list.
func memoryOf(list string) string {
	for term := range strings.SplitSeq(list, ",") {
		if m, ok := strings.CutPrefix(term, "mem="); ok {
			return m
		}
	}
	return ""
}

// apart are fields and variables that name the run and not the world: numbers, times, names of hosts.
var apart = []string{"JobId", "SubmitTime", "EligibleTime", "AccrueTime", "StartTime", "EndTime", "PreemptEligibleTime", "LastSchedEval", "Scheduler", "AllocNode:Sid",
	"WorkDir", "Command", "Priority", "RunTime", "QOS", "Account", "Deadline", "JobState", "StdErr", "StdIn", "StdOut", "Power", "SuspendTime", "SecsPreSuspend", "Reason",
	"ReqNodeList", "ExcNodeList", "PreemptTime", "SLURM_JOBID", "SLURM_JOB_ID", "SLURM_TASK_PID", "SLURM_SUBMIT_DIR", "SLURM_SUBMIT_HOST", "SLURM_CONF", "SLURM_WORKING_CLUSTER", "SLURM_JOB_QOS",
	"SLURM_JOB_ACCOUNT"}

// amount counts CPUs of lists such as `0-3,8 0-1`: which cores of a node a job gets may differ, not how many.
func amount(lists string) (n int) {
	for _, r := range strings.FieldsFunc(lists, func(r rune) bool { return r == ' ' || r == ',' }) {
		first, last, ranged := strings.Cut(r, "-")
		a, _ := strconv.Atoi(first)
		b, _ := strconv.Atoi(last)
		if !ranged {
			b = a
		}
		n += b - a + 1
	}
	return n
}

// differences are sentences about what is not the same.
func differences(want, got answer) []string {
	if !want.Ran && !got.Ran {
		return nil // refused, or waiting for what never comes: which of the two is another matter
	}
	if want.Exit != got.Exit || want.Ran != got.Ran {
		return []string{fmt.Sprintf("exit %d, ran %v: %.160q\n\twant %d, ran %v: %.160q %s", got.Exit, got.Ran, got.Err+got.Show["Reason"], want.Exit, want.Ran, want.Err+want.Show["Reason"], want.brief())}
	}
	var out []string
	for _, m := range []struct{ want, got map[string]string }{{want.Show, got.Show}, {want.Env, got.Env}} {
		names := map[string]bool{}
		for n := range m.want {
			names[n] = true
		}
		for n := range m.got {
			names[n] = true
		}
		list := make([]string, 0, len(names))
		for n := range names {
			list = append(list, n)
		}
		slices.Sort(list)
		for _, n := range list {
			w, inWant := m.want[n]
			g, inGot := m.got[n]
			if slices.Contains(apart, n) || w == g && inWant == inGot || n == "CPU_IDs" && amount(w) == amount(g) {
				continue
			}
			out = append(out, fmt.Sprintf("%s: %s, want %s", n, orAbsent(g, inGot), orAbsent(w, inWant)))
		}
	}
	return out
}

func orAbsent(s string, is bool) string {
	if !is {
		return "(absent)"
	}
	return strconv.Quote(s)
}

func (a answer) brief() string {
	if !a.Ran {
		return ""
	}
	return fmt.Sprintf("\n\t%s cpus %s tasks %s tres %s", a.Show["NodeList"], a.Env["SLURM_JOB_CPUS_PER_NODE"], a.Env["SLURM_TASKS_PER_NODE"], a.Show["TRES"])
}
