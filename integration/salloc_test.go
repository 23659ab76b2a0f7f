package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

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
