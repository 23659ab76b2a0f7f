package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/cli/site"
)

// scontrol reconfigure reads the site's file again and has it taken over; who is no administrator, and a file with a mistake,
// change nothing.
func TestReconfigure(t *testing.T) {
	h := newHost(t)
	file := filepath.Join(h.dir, "slurm.conf")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("ClusterName=site\nSlurmctldHost=head\nNodeName=a[1-2] CPUs=4 RealMemory=4000 State=UNKNOWN\nPartitionName=main Nodes=ALL Default=YES MaxTime=60\n")
	if err := site.Dir(h.dir).Save(&site.Cluster{Name: "site", ConfFile: file}); err != nil {
		t.Fatal(err)
	}
	step := func(uid uint32, want string, name string, args ...string) {
		t.Helper()
		if got := h.run(uid, nil, "", name, args...); got != want {
			t.Errorf("%s %s as %d prints\n%swant\n%s", name, strings.Join(args, " "), uid, got, want)
		}
	}
	step(0, "", "scontrol", "reconfigure")
	step(1000, "a[1-2] main* 1:00:00\n", "sinfo", "-h", "-o", "%N %P %l")
	step(1000, "Slurmctld(primary) at head is UP\n", "scontrol", "ping")
	write("ClusterName=site\nSlurmctldHost=head\nNodeName=a[1-3] CPUs=4 RealMemory=4000 State=UNKNOWN\nPartitionName=main Nodes=ALL Default=YES MaxTime=120\n")
	step(1000, "! slurm_reconfigure error: only an administrator may change the configuration\n! Access/permission denied\nexit 1\n", "scontrol", "reconfigure")
	step(1000, "a[1-2] main* 1:00:00\n", "sinfo", "-h", "-o", "%N %P %l")
	step(0, "", "scontrol", "reconfigure")
	step(1000, "a[1-3] main* 2:00:00\n", "sinfo", "-h", "-o", "%N %P %l")
	write("ClusterName=site\nNoSuchKey=1\n")
	if got := h.run(0, nil, "", "scontrol", "reconfigure"); !strings.Contains(got, "NoSuchKey") || !strings.HasSuffix(got, "exit 1\n") {
		t.Errorf("a file with a mistake: %s", got)
	}
	step(1000, "a[1-3] main* 2:00:00\n", "sinfo", "-h", "-o", "%N %P %l")
	if got := h.run(1000, nil, "", "scontrol", "show", "config"); !strings.Contains(got, "ClusterName             = site\n") ||
		!strings.Contains(got, "SLURM_CONF              = "+strings.ReplaceAll(file, h.dir, "DIR")) && !strings.Contains(got, "SLURM_CONF              = "+file) ||
		!strings.HasSuffix(got, "\nSlurmctld(primary) at head is UP\n") {
		t.Errorf("show config:\n%s", got)
	}
	script := filepath.Join(h.dir, "slurm-1.sh")
	h.run(1000, nil, "", "sbatch", "--wrap", "true")
	step(1000, "batch script for job 1 written to slurm-1.sh\n", "scontrol", "write", "batch_script", "1")
	if text, err := os.ReadFile(script); err != nil || !strings.HasSuffix(string(text), "\ntrue\n") {
		t.Errorf("the script written: %q, %v", text, err)
	}
	step(1000, "", "scontrol", "-Q", "write", "batch_script", "1", script)
}

// Nobody answers: every command says so in one sentence that tools know, and with the exit code of its failures.
func TestNobodyAnswers(t *testing.T) {
	for call, want := range map[string]int{"squeue": 1, "sinfo": 1, "scancel 1": 8, "scancel -n x": 1, "scancel -s USR1 1": 1, "sacct": 1, "scontrol show job 1": 1} {
		command, args, _ := strings.Cut(call, " ")
		var out, errs strings.Builder
		w := &World{Stdout: &out, Stderr: &errs, State: t.TempDir(), Users: Users{Name: func(uint32) string { return "somebody" }}}
		if code := Run(command, strings.Fields(args), w); code != want || out.Len() > 0 || !strings.Contains(errs.String(), "Unable to contact slurm controller (connect failure)") {
			t.Errorf("%s: exit %d, %q, %q", call, code, out.String(), errs.String())
		}
	}
	var out, errs strings.Builder
	w := &World{Host: "here", Stdout: &out, Stderr: &errs, State: t.TempDir(), Users: Users{Name: func(uint32) string { return "somebody" }}}
	if code := Run("scontrol", []string{"ping"}, w); code != 1 || out.String() != "Slurmctld(primary) at here is DOWN\n" {
		t.Errorf("ping: exit %d, %q", code, out.String())
	}
	out.Reset()
	if code := Run("scontrol", []string{"show", "hostnames", "n[1-2]"}, w); code != 0 || out.String() != "n1\nn2\n" {
		t.Errorf("host names need nobody: exit %d, %q", code, out.String())
	}
}

func FuzzSplitLine(f *testing.F) {
	for _, s := range []string{"show job 1", `update jobid=1 comment="a b"`, `x 'y "z`, "\t \n", `""`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		words, err := splitLine(s)
		if err != nil {
			return
		}
		if n := len(strings.Join(words, "")); n > len(s) {
			t.Fatalf("%q: more came out (%d bytes) than went in", s, n)
		}
		if strings.ContainsAny(s, `"'`) {
			return
		}
		if got, want := strings.Join(words, " "), strings.Join(strings.FieldsFunc(s, func(c rune) bool { return strings.ContainsRune(" \t\r\n", c) }), " "); got != want {
			t.Fatalf("%q: %q, want %q", s, got, want)
		}
	})
}

// What a controller answers that lags is told to be old: in one line, where errors go, and once however much is asked.
func TestOldAnswers(t *testing.T) {
	for _, stale := range []time.Duration{0, 7400 * time.Millisecond} {
		h := newHost(t)
		h.stale = stale
		for _, call := range []string{"squeue", "sinfo", "sinfo -N -l", "scontrol show nodes", "scontrol show partition", "scontrol show config"} {
			command, args, _ := strings.Cut(call, " ")
			got := h.run(0, nil, "", command, strings.Fields(args)...)
			want := 0
			if stale > 0 {
				want = 1
			}
			line := "! " + command + ": this is how it was 7s ago or earlier: the controller that answered has not read the log to its end (`stint doctor` says more)\n"
			if strings.Count(got, line) != want || strings.Count(got, "7s ago") != want || strings.Contains(got, "exit ") || strings.Count(got, "! ") != want {
				t.Errorf("%s:\n%s", call, got)
			}
		}
	}
}
