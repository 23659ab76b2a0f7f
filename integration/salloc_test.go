package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Where the site says so, salloc without a command runs the interactive step on the first node of the allocation: a step that has no
// number, takes nothing from the others, and has a row of its own.
func TestInteractiveStep(t *testing.T) {
	file := filepath.Join(t.TempDir(), "slurm.conf")
	os.Chmod(filepath.Dir(file), 0o755)
	os.Chmod(filepath.Dir(filepath.Dir(file)), 0o755)
	text := "ClusterName=site\nSlurmctldHost=head\nLaunchParameters=send_gids,use_interactive_step\nInteractiveStepOptions=\"--interactive --preserve-env $SHELL\"\n" +
		"NodeName=n[1-2] CPUs=4 RealMemory=2000\nPartitionName=main Nodes=ALL Default=YES MaxTime=60\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c := start(t, "--config", file, "--virtual")
	c.env = append(c.env, "PATH="+filepath.Join(c.dir, "bin")+":/usr/bin:/bin", "SHELL=/bin/sh")
	cmd := exec.Command(filepath.Join(bin, "stint-cli"), "salloc", "-Q", "-N2", "-n8")
	cmd.Dir, cmd.Env = c.work, c.env
	cmd.Stdin = strings.NewReader(`echo $SLURM_STEP_ID $SLURMD_NODENAME $SLURM_NTASKS $SLURM_NNODES
squeue -s -h -o %i
srun -n8 sh -c 'exit 2' 2>/dev/null
echo $?
srun --interactive true
exit 3
`)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Run()
	if want := "4294967290 n1 8 2\n1.interactive\n2\n"; out.String() != want || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("it prints %q, want %q; %v; %q", out.String(), want, cmd.ProcessState, errs.String())
	}
	if want := "interactive step already"; !strings.Contains(errs.String(), want) {
		t.Errorf("a second one: %q lacks %q", errs.String(), want)
	}
	// Tasks that name their nodes have these, in an allocation of their own that has no CPU more.
	hosts := filepath.Join(c.work, "hosts")
	os.WriteFile(hosts, []byte("n2\nn1\nn2\n"), 0o644)
	c.env = append(c.env, "SLURM_HOSTFILE="+hosts)
	if got := sortedLines(c.do("srun", "-m", "arbitrary", "-l", "sh", "-c", "echo $SLURMD_NODENAME $SLURM_JOB_CPUS_PER_NODE")); got != "0: n2 1,2|1: n1 1,2|2: n2 1,2" {
		t.Errorf("an arbitrary distribution: %q", got)
	}
	c.eventually("accounting has its rows", func() bool {
		return c.do("sacct", "-j1", "-n", "-P", "-o", "JobID,JobName,State,ExitCode,NTasks,NNodes") ==
			"1|interactive|FAILED|3:0||2\n1.interactive|interactive|FAILED|3:0|1|1\n1.0|sh|FAILED|2:0|8|2\n"
	})
}

// salloc holds nodes while a command runs, ends with its exit code, and gives the nodes back; what takes the allocation away,
// or never grants it, is told.
func TestSalloc(t *testing.T) {
	c := start(t, "--nodes", "n[1-2]", "--cpus", "4", "--memory", "4000")
	c.env = append(c.env, "PATH="+filepath.Join(c.dir, "bin")+":/usr/bin:/bin")
	type call struct {
		args []string
		code int
		out  string
		err  []string // contained, in this order
	}
	for _, x := range []call{
		{[]string{"-n1", "true"}, 0, "", []string{"salloc: Granted job allocation ", "\nsalloc: Relinquishing job allocation "}},
		{[]string{"sh", "-c", "exit 7"}, 7, "", []string{"Granted"}},
		{[]string{"-Q", "sh", "-c", "kill -9 $$"}, 0, "", nil},
		{[]string{"-Q", "-N2", "--ntasks-per-node=3", "-J", "held", "sh", "-c", "echo $SLURM_JOB_NAME $SLURM_NNODES $SLURM_JOB_NODELIST $SLURM_NTASKS $SLURM_TASKS_PER_NODE; squeue -h -j $SLURM_JOB_ID -o '%j %T %N %C'"}, 0,
			"held 2 n[1-2] 6 3(x2)\nheld RUNNING n[1-2] 6\n", nil},
		{[]string{"-p", "nosuch", "true"}, 1, "", []string{"salloc: error: Job submit/allocate failed: Invalid partition name specified"}},
		{[]string{"-n1", "no-such-program"}, 1, "", []string{"Granted", "Unable to find no-such-program", "Relinquishing"}},
		{[]string{"-a", "1-2", "true"}, 255, "", []string{"-- 'a'"}},
		{[]string{"--no-shell", "true"}, 255, "", []string{"--no-shell"}},
		{[]string{"-t", "xx", "true"}, 255, "", []string{"--time"}},
		{[]string{"-KUSR1", "sh", "-c", "trap 'exit 3' USR1; scancel $SLURM_JOB_ID; while :; do sleep 0.05; done"}, 3, "", []string{"Granted", "has been revoked."}},
	} {
		r := c.try("salloc", x.args...)
		if r.code != x.code || r.out != x.out {
			t.Errorf("salloc %q: exit %d, want %d; prints %q, want %q; stderr %q", x.args, r.code, x.code, r.out, x.out, r.err)
		}
		rest := r.err
		for _, want := range x.err {
			_, after, ok := strings.Cut(rest, want)
			if !ok {
				t.Errorf("salloc %q says %q, which lacks %q", x.args, r.err, want)
			}
			rest = after
		}
		if x.err == nil && r.err != "" {
			t.Errorf("salloc %q says %q", x.args, r.err)
		}
	}
	// One that has to wait says so, gives up when told to, and leaves nothing behind.
	c.do("salloc", "-N2", "--exclusive", "--no-shell")
	if r := c.try("salloc", "-I1", "-n1", "true"); r.code != 1 || !strings.Contains(r.err, "--immediate") {
		t.Errorf("an immediate request: %d %q", r.code, r.err)
	}
	cmd := exec.Command(filepath.Join(bin, "stint-cli"), "salloc", "-n1", "true")
	cmd.Dir, cmd.Env = c.work, c.env
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.eventually("it waits", func() bool { return c.do("squeue", "-h", "-t", "PD", "-o", "%T") == "PENDING\n" })
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	if cmd.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) || !strings.Contains(errs.String(), "has been revoked") {
		t.Errorf("told to end while it waits: %v %q", cmd.ProcessState, errs.String())
	}
	c.eventually("nothing waits", func() bool { return c.do("squeue", "-h", "-t", "PD") == "" })
	c.do("scancel", "-n", "no-shell")
	c.eventually("nothing runs", func() bool { return c.do("squeue", "-h") == "" })
	if got := c.do("sacct", "-X", "-n", "-P", "-S", "now-1hour", "-E", "now", "-s", "F", "-o", "JobName,State,ExitCode"); got != "interactive|FAILED|7:0\ninteractive|FAILED|1:0\n" {
		t.Errorf("accounting shows %q", got)
	}
}
