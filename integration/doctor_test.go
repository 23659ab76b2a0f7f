package integration

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What is wrong with a cluster, `stint doctor` finds in seconds, whatever hangs; it says what mends it, and when that is done it is well
// again. sdiag tells who follows the log, behind all that Slurm's prints.
func TestDoctor(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	write := func(more string) {
		os.WriteFile(conf, []byte("ClusterName=site\nSlurmctldHost=h\nNodeName=n[1-2] CPUs=2 RealMemory=500\nPartitionName=main Nodes=n[1-2] Default=YES\n"+more), 0o644)
	}
	write("")
	c := start(t, "--split", "--config", conf, "--virtual")
	type diagnosis struct {
		OK       bool
		Faults   int
		Findings []struct{ Check, Level, Text, Do string }
	}
	look := func() (d diagnosis, all string) {
		t.Helper()
		begun := time.Now()
		r := c.try("stint", "doctor", "--json")
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("it took %s", took)
		}
		if err := json.Unmarshal([]byte(r.out), &d); err != nil || d.OK != (r.code == 0) || d.OK != (d.Faults == 0) {
			t.Fatalf("%v: exit %d\n%s%s", err, r.code, r.out, r.err)
		}
		for _, f := range d.Findings {
			if f.Level == "fault" || f.Level == "warning" || f.Check == "left behind" && f.Level == "note" {
				all += f.Level + " " + f.Check + ": " + f.Text + " -> " + f.Do + "\n"
			}
		}
		return d, all
	}
	well := func() {
		t.Helper()
		var all string
		c.eventually("nothing is wrong", func() bool {
			d, said := look()
			all = said
			return d.OK
		})
		if strings.Contains(all, "partition") {
			t.Errorf("of a cluster that is well it says\n%s", all)
		}
	}
	well()
	for _, want := range []string{`(?m)^\tNo pending RPCs\n\nStint statistics\n\tLeader: \S+\n`, `(?m)^\tcontroller +\S+ +at \d+, 0 behind$`, `(?m)^\tledger +\S+ +at \d+, `, `(?m)^\texecutor +n\d \(the last of 2\) +at \d+, `, `(?m)^\tagent +\S+ +at \d+`, `\n\tPasses \(microseconds\): last \d+, mean \d+, 99% within \d+, most \d+\n`} {
		c.eventually("sdiag tells "+want, func() bool { return regexp.MustCompile(want).MatchString(c.do("sdiag")) })
	}
	expect := func(wants ...string) {
		t.Helper()
		_, all := look()
		for _, want := range wants {
			if !regexp.MustCompile(want).MatchString(all) {
				t.Errorf("it does not say %s:\n%s", want, all)
			}
		}
	}
	controller := c.processes()["controller"]
	syscall.Kill(controller, syscall.SIGSTOP)
	expect(`fault processes: the controller \(process `+itoa(controller)+`\) is stopped by a signal: .* -> kill -CONT `+itoa(controller), `fault controller: no answer in 2s`)
	syscall.Kill(controller, syscall.SIGCONT)

	ledger := filepath.Join(c.dir, "ledger")
	os.Chmod(ledger, 0o755)
	write("PartitionName=more Nodes=n1\n")
	c.eventually("the controller answers again", func() bool { return c.try("squeue").code == 0 })
	c.do("scontrol", "update", "partitionname=main", "state=down")
	c.do("scontrol", "update", "nodename=n2", "state=drain", "reason=bad fan")
	job := c.submit("-o", "/dev/null", "--wrap", "true")
	c.eventually("the job waits for its partition", func() bool {
		return strings.Contains(c.try("squeue", "-h", "-j", job, "-o", "%r").out, "PartitionDown")
	})
	expect(`fault folders: others may look into `+ledger+` .*-> chmod 700 `+ledger, `warning in force: the file was changed .*partition more added.*scontrol reconfigure`,
		`warning partitions: partition main is down: .*-> scontrol update partitionname=main state=up`, `warning nodes: n2 is drained: bad fan -> .*scontrol update nodename=n2 state=resume`,
		`warning queue: 1 job waits: PartitionDown.*-> stint why `+job)
	os.Chmod(ledger, 0o700)
	leftBehind(t, c, expect)
	c.do("scontrol", "reconfigure")
	c.do("scontrol", "update", "partitionname=main", "state=up")
	c.do("scontrol", "update", "nodename=n2", "state=resume")
	c.await(job, "COMPLETED")
	well()
	if r := c.try("stint", "doctor", "away"); r.code != 2 {
		t.Errorf("called wrongly it ends with %d", r.code)
	}
}

// leftBehind leaves behind what jobs do not: a process in a control group that no supervisor knows, and simulated GPUs of a cluster that does not run. Both are
// told with what mends it, and no more when that is done.
func leftBehind(t *testing.T, c *cluster, expect func(...string)) {
	t.Helper()
	devices := "/run/stint-gpu-" + filepath.Base(filepath.Dir(c.dir))
	os.MkdirAll(devices, 0o755)
	defer os.RemoveAll(devices)
	still := filepath.Join(filepath.Dir(c.dir), "still") // a cluster that does not run
	os.MkdirAll(filepath.Join(still, "node", "n1"), 0o700)
	os.WriteFile(filepath.Join(devices, "of"), []byte(filepath.Join(still, "node", "n1")), 0o644)
	wants := []string{`note left behind: simulated GPUs in ` + devices + ` of a cluster that does not run \(` + still + `\) -> stint down --dir ` + still}

	tree := ""
	for _, root := range []string{"/sys/fs/cgroup/unified/", "/sys/fs/cgroup/", "/sys/fs/cgroup/freezer/"} {
		if list := glob(root + "stint-test-" + filepath.Base(filepath.Dir(c.dir)) + "/slurm_n1"); len(list) > 0 && tree == "" {
			tree = list[0]
		}
	}
	if tree == "" {
		t.Log("the control groups of n1 are elsewhere on this machine: left out")
		expect(wants...)
		return
	}
	group := filepath.Join(tree, "uid_0", "job_4711")
	sleeper := exec.Command("sleep", "600")
	if err := errors.Join(os.MkdirAll(filepath.Join(group, "step_0"), 0o755), sleeper.Start()); err != nil {
		t.Fatal(err)
	}
	end := func() {
		sleeper.Process.Kill()
		sleeper.Wait()
		c.eventually("the kernel lets go of the group", func() bool {
			os.Remove(filepath.Join(group, "step_0"))
			err := os.Remove(group)
			return err == nil || errors.Is(err, os.ErrNotExist)
		})
	}
	defer end()
	if err := os.WriteFile(filepath.Join(group, "step_0", "cgroup.procs"), []byte(itoa(sleeper.Process.Pid)), 0o644); err != nil {
		t.Fatal(err)
	}
	expect(append(wants, `warning left behind: 1 process runs of job 4711, of the node n1, which no supervisor knows to run -> .*kill -9 `+itoa(sleeper.Process.Pid)+`; then rmdir them: find \S*`+group)...)
	end()
	if r := c.try("stint", "doctor", "--quiet"); strings.Contains(r.out, "4711") {
		t.Errorf("of what is gone it says\n%s", r.out)
	}
}
