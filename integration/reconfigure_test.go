package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A configuration is planned, taken over without a restart, and undone by another: a node comes and its executor with it, jobs
// start there, and when the node goes again what runs there runs to its end.
func TestReconfigure(t *testing.T) {
	for _, how := range []string{"one process", "split"} {
		t.Run(how, func(t *testing.T) {
			const old = "ClusterName=site\nSlurmctldHost=head\nNodeName=n1 CPUs=2 RealMemory=2000\nPartitionName=main Nodes=ALL Default=YES MaxTime=60\n"
			next := strings.NewReplacer("n1", "n[1-2]", "MaxTime=60", "MaxTime=30").Replace(old)
			file := filepath.Join(t.TempDir(), "slurm.conf")
			write := func(name, text string) {
				t.Helper()
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write(file, old)
			write(file+".next", next)
			args := []string{"--config", file, "--virtual"}
			if how == "split" {
				args = append(args, "--split")
			}
			c := start(t, args...)
			first := c.submit("-n2", "-t10", "--wrap", "sleep 600")
			c.await(first, "RUNNING")
			second := c.submit("-n2", "-t10", "--wrap", "sleep 600")
			long := c.submit("-n2", "-t40", "--wrap", "sleep 600")
			r := c.try("stint", "plan", "--dir", c.dir, file+".next")
			for _, want := range []string{"+ n2: ", "~ main: MaxTime 01:00:00 -> 00:30:00", "\n  " + second + " of ", "then it starts on n2\n", "\n  " + long + " of ", "(PartitionTimeLimit)", "2 jobs would fare otherwise. Now 2 wait and 1 run."} {
				if !strings.Contains(r.out, want) {
					t.Errorf("the plan lacks %q: %d\n%s%s", want, r.code, r.out, r.err)
				}
			}
			if got := c.do("sinfo", "-h", "-o", "%N %l"); got != "n1 1:00:00\n" {
				t.Errorf("planning changed the cluster: %q", got)
			}
			write(file, next)
			c.do("scontrol", "reconfigure")
			c.await(second, "RUNNING")
			if got := c.do("squeue", "-h", "-j", second+","+long, "-S", "i", "-o", "%i %N%r"); got != second+" n2None\n"+long+" PartitionTimeLimit\n" {
				t.Errorf("after it the queue is %q", got)
			}
			write(file, old)
			c.do("scontrol", "reconfigure")
			if got := c.do("sinfo", "-h", "-o", "%N %l"); got != "n1 1:00:00\n" {
				t.Errorf("undone, the cluster is %q", got)
			}
			if got := c.do("squeue", "-h", "-j", second, "-o", "%T %N"); got != "RUNNING n2\n" {
				t.Errorf("what ran on the node that went is %q", got)
			}
			c.do("scancel", first, second, long)
			c.await(second, "CANCELLED")
			if r := c.try("stint", "plan", "--dir", c.dir, file+".next"); !strings.Contains(r.out, "0 jobs would fare otherwise") {
				t.Errorf("with nothing in the queue the plan says %d\n%s%s", r.code, r.out, r.err)
			}
			write(file+".bad", strings.Replace(old, "CPUs=2", "CPUs=x", 1))
			if r := c.try("stint", "plan", "--dir", c.dir, file+".bad"); r.code == 0 || !strings.Contains(r.err, "CPUs") {
				t.Errorf("the plan of a file with a mistake: %d %q", r.code, r.err)
			}
		})
	}
}
