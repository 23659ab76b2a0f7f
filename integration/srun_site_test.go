package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a site's slurm.conf says about steps: srun keeps to it unless it is told otherwise.
func TestSrunOfASite(t *testing.T) {
	dir := t.TempDir()
	os.Chmod(filepath.Dir(dir), 0o755)
	os.Chmod(dir, 0o755)
	for name, text := range map[string]string{
		"pro":  "echo export COLOUR=$COLOUR-blue\necho unset GONE\necho print hello $SLURM_PROCID\necho noise",
		"epi":  "echo nobody sees this\necho after $SLURM_PROCID >&2",
		"pro2": "echo export COLOUR=$COLOUR-red",
		"spro": "echo before $SLURM_STEP_ID $SLURM_SCRIPT_CONTEXT $*",
		"sepi": "echo behind $SLURM_STEP_ID $SLURM_SCRIPT_CONTEXT $*",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "slurm.conf")
	write := func(keys string) {
		t.Helper()
		text := "ClusterName=site\nSlurmctldHost=head\nKillWait=1\n" + keys + "\nNodeName=n1 CPUs=8 RealMemory=2000\nPartitionName=main Nodes=ALL Default=YES MaxTime=60\n"
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const some = "WaitTime=1\nKillOnBadExit=1\nMaxTasksPerNode=6\nMaxStepCount=3\nSrunPortRange=47001-47020"
	write(some)
	c := start(t, "--config", file, "--virtual")
	c.env = append(c.env, "PATH="+filepath.Join(c.dir, "bin")+":/usr/bin:/bin")
	type call struct {
		args []string
		code int
		out  string
		says []string
	}
	play := func(calls []call) {
		t.Helper()
		for _, x := range calls {
			r := c.try("srun", x.args...)
			if got := sortedLines(r.out); r.code != x.code || got != x.out {
				t.Errorf("srun %q: exit %d, want %d; prints %q, want %q; stderr %q", x.args, r.code, x.code, got, x.out, r.err)
			}
			for _, want := range x.says {
				if !strings.Contains(r.err, want) {
					t.Errorf("srun %q says %q, which lacks %q", x.args, r.err, want)
				}
			}
		}
	}
	const bad, long, short = "[ $SLURM_PROCID = 1 ] || exit 3; exec sleep 60", "[ $SLURM_PROCID = 1 ] || exit 0; exec sleep 60", "[ $SLURM_PROCID = 1 ] || exit 0; sleep 2"
	play([]call{
		{[]string{"-n2", "sh", "-c", bad}, 143, "", []string{"task 0: Exited with exit code 3\n", "Terminating StepId="}},
		{[]string{"-n2", "-K0", "sh", "-c", bad}, 137, "", []string{"First task exited 1s ago\n"}},
		{[]string{"-n2", "sh", "-c", long}, 137, "", []string{"First task exited 1s ago\n", "task 1: Killed\n"}},
		{[]string{"-n2", "-W0", "sh", "-c", short}, 0, "", nil},
		{[]string{"-n7", "true"}, 1, "", []string{"Unable to create step for job ", ": Task count specification invalid\n"}},
		{[]string{"-n6", "true"}, 0, "", nil},
		{[]string{"sh", "-c", "[ $SLURM_SRUN_COMM_PORT -ge 47001 ] && [ $SLURM_STEP_LAUNCHER_PORT -le 47020 ] && echo within"}, 0, "within", nil},
	})
	out := c.do("salloc", "-Q", "sh", "-c", "for i in 1 2 3; do srun sh -c 'echo $SLURM_STEP_ID'; done; srun true 2>&1; true")
	if !strings.HasPrefix(out, "0\n1\n2\n") || !strings.Contains(out, "Step limit reached for this job\n") {
		t.Errorf("four steps where three are allowed: %q", out)
	}
	write(fmt.Sprintf("SrunProlog=%s/spro\nSrunEpilog=%s/sepi", dir, dir))
	c.do("scontrol", "reconfigure")
	play([]call{
		{[]string{"echo", "x"}, 0, "before 0 prolog_srun echo x|behind 0 epilog_srun echo x|x", nil},
		{[]string{"--prolog=none", "--epilog=none", "echo", "x"}, 0, "x", nil},
		{[]string{"--prolog=" + dir + "/sepi", "echo", "x"}, 0, "behind 0 epilog_srun echo x|behind 0 prolog_srun echo x|x", nil},
		{[]string{"--epilog=none", "--prolog=/nosuch", "echo", "x"}, 0, "x", []string{"/nosuch"}},
	})
	write(fmt.Sprintf("TaskProlog=%s/pro", dir))
	c.do("scontrol", "reconfigure")
	c.env = append(c.env, "COLOUR=dark", "GONE=1")
	play([]call{
		{[]string{"sh", "-c", "echo $COLOUR,$GONE"}, 0, "dark-blue,|hello 0", nil},
		{[]string{"--task-prolog=" + dir + "/pro2", "sh", "-c", "echo $COLOUR,$GONE"}, 0, "dark-blue-red,|hello 0", nil},
	})
	batch := func(script, state, want string) {
		t.Helper()
		id := c.submit("-o", "out-%j", "--wrap", script)
		c.await(id, state)
		if got, _ := os.ReadFile(filepath.Join(c.work, "out-"+id)); string(got) != want {
			t.Errorf("%s prints %q, want %q", script, got, want)
		}
	}
	batch("echo $COLOUR,$GONE; test $SLURM_TASK_PID = $$ && echo same; exit 3", "FAILED", "hello 0\ndark-blue,\nsame\n")
	write(fmt.Sprintf("TaskProlog=%s/pro\nTaskEpilog=%s/epi", dir, dir))
	c.do("scontrol", "reconfigure")
	play([]call{{[]string{"sh", "-c", "echo $COLOUR,$GONE; exit 4"}, 4, "dark-blue,|hello 0", []string{"after 0\n"}}})
	batch("echo $COLOUR,$GONE; exit 3", "FAILED", "hello 0\ndark-blue,\nafter 0\n")
	batch("kill -USR1 $$", "FAILED", "hello 0\nafter 0\n")
}
