package integration

import (
	"strings"
	"testing"
)

// TestPrivateData: a site that keeps jobs and nodes from others. Whoever asks is known from the kernel, so no command, by
// whatever option, shows them; owner and root see all.
func TestPrivateData(t *testing.T) {
	needRoot(t)
	c := withConf(t, siteConf+"PrivateData=jobs,nodes,events\n")
	r := c.tryAs(daemonUID, "sbatch", "--parsable", "-o", "/dev/null", "-J", "mine", "--wrap", "sleep 100")
	id := strings.TrimSpace(r.out)
	if r.code != 0 || id == "" {
		t.Fatalf("sbatch: %d %q", r.code, r.err)
	}
	c.await(id, "RUNNING") // by root
	for _, args := range [][]string{
		{"squeue"}, {"squeue", "-a", "-j", id}, {"squeue", "--json"}, {"squeue", "-u", "daemon"}, {"squeue", "-s"}, {"scontrol", "show", "job", id}, {"scontrol", "show", "job"},
		{"scontrol", "show", "job", "--json"}, {"scontrol", "show", "step"}, {"sacct", "-a"}, {"sacct", "-u", "daemon"}, {"sacct", "-j", id, "-o", "ALL"}, {"sacct", "-a", "--json"},
		{"stint", "why", id}, {"stint", "events", id}, {"stint", "events"}, {"stint", "events", "--json"}, {"stint", "events", "--void"},
		{"sinfo"}, {"sinfo", "-N"}, {"scontrol", "show", "node"},
	} {
		r := c.tryAs(binUID, args[0], args[1:]...)
		if text := r.out + r.err; strings.Contains(text, "mine") || strings.Contains(text, "daemon") && args[len(args)-1] != "daemon" || strings.Contains(text, "alloc") {
			t.Errorf("%v shows another's job, or what nodes do:\n%s", args, text)
		}
	}
	for _, args := range [][]string{{"sinfo"}, {"scontrol", "show", "node", "n1"}} {
		if r := c.tryAs(binUID, args[0], args[1:]...); r.code != 1 || !strings.Contains(r.err, "Access/permission denied: PrivateData") || r.out != "" {
			t.Errorf("%v: exit %d, %q %q", args, r.code, r.out, r.err)
		}
		if r := c.try(args[0], args[1:]...); r.code != 0 || !strings.Contains(r.out, "n1") && !strings.Contains(r.out, "n[1") {
			t.Errorf("%v by root: exit %d, %q %q", args, r.code, r.out, r.err)
		}
	}
	if r := c.tryAs(binUID, "scontrol", "show", "partition", "debug"); r.code != 0 || !strings.Contains(r.out, "TotalCPUs=8") {
		t.Errorf("partitions are nobody's secret: exit %d, %q %q", r.code, r.out, r.err)
	}
	for _, uid := range []int{daemonUID, -1} {
		for _, args := range [][]string{{"squeue", "-h", "-o", "%i %j"}, {"sacct", "-a", "-X", "-n", "-P", "-o", "JobID,JobName"}, {"scontrol", "show", "job", id}, {"stint", "events", id}, {"stint", "why", id}} {
			if r := c.tryAs(uid, args[0], args[1:]...); r.code != 0 || !strings.Contains(r.out, "mine") {
				t.Errorf("%v by %d: exit %d, %q %q", args, uid, r.code, r.out, r.err)
			}
		}
	}
}
