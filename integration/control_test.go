package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What scontrol changes of partitions and nodes holds, as it does without a restart, until the site's file is read again: it
// survives a cluster that is taken down, with its jobs alive or not.
func TestChangesSurvive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "slurm.conf")
	text := "ClusterName=site\nSlurmctldHost=head\nNodeName=n[1-3] CPUs=2 RealMemory=2000 Feature=old Weight=1\nPartitionName=main Nodes=ALL Default=YES MaxTime=60\nPartitionName=gone Nodes=n1\n"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	c := start(t, "--config", file, "--virtual")
	c.do("scontrol", "create", "partition=night", "nodes=n[2-3]", "maxtime=5", "state=up")
	c.do("scontrol", "update", "partition=main", "maxtime=30", "prioritytier=7")
	c.do("scontrol", "delete", "partition=gone")
	c.do("scontrol", "update", "nodename=n2", "state=drain", "reason=fan")
	c.do("scontrol", "update", "nodename=n3", "features=new,fast", "activefeatures=new", "weight=9", "comment=mind the gap")
	said := func(when, want string) {
		t.Helper()
		lines := strings.Split(strings.TrimSpace(c.do("sinfo", "-h", "-N", "-p", "main", "-o", "%N %t %E %f %b %w %l")), "\n")
		lines = append(lines, strings.Split(strings.TrimSpace(c.do("sinfo", "-h", "-s", "-o", "%P %l %p %N")), "\n")...)
		for _, l := range strings.Split(c.do("scontrol", "show", "node", "n3"), "\n") {
			if l = strings.TrimSpace(l); strings.HasPrefix(l, "Comment=") {
				lines = append(lines, l)
			}
		}
		if got := strings.Join(lines, "\n"); got != want {
			t.Errorf("%s the cluster is\n%s\nwant\n%s", when, got, want)
		}
	}
	changed := "n1 idle none old old 1 30:00\nn2 drain fan old old 1 30:00\nn3 idle none new,fast new 9 30:00\nmain* 30:00 7 n[1-3]\nnight 5:00 1 n[2-3]\nComment=mind the gap"
	said("changed,", changed)
	job := c.submit("-w", "n1", "-t", "10", "--wrap", "sleep 600")
	c.await(job, "RUNNING")
	c.do("stint", "down", "--keep")
	c.up()
	said("taken down and up again,", strings.Replace(changed, "n1 idle", "n1 mix", 1))
	if got := c.state(job); got != "RUNNING" {
		t.Errorf("the job is %s after it", got)
	}
	c.do("stint", "down", "--kill")
	c.up("--config", file, "--virtual")
	said("ended and begun again,", changed)
	c.do("scontrol", "reconfigure")
	said("read again from its file,", "n1 idle none old old 1 1:00:00\nn2 drain fan old old 1 1:00:00\nn3 idle none old old 1 1:00:00\nmain* 1:00:00 1 n[1-3]\ngone infinite 1 n1\nComment=mind the gap")
	c.do("scontrol", "update", "partition=main", "maxtime=20")
	c.do("stint", "down", "--keep")
	write(strings.Replace(text, "MaxTime=60", "MaxTime=50", 1))
	c.up()
	said("started with another file,", "n1 idle none old old 1 50:00\nn2 drain fan old old 1 50:00\nn3 idle none old old 1 50:00\nmain* 50:00 1 n[1-3]\ngone infinite 1 n1\nComment=mind the gap")
}

// cpuTicks is the CPU time of a process and those it has waited for, in the kernel's ticks.
func cpuTicks(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	sum := 0
	for _, s := range f[11:15] {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// A suspended job stands still, and so do its clocks; its CPUs are others' meanwhile, its memory is not.
func TestSuspend(t *testing.T) {
	c := start(t, "--nodes", "n1", "--cpus", "2", "--memory", "1000")
	c.script("busy.sh", "#!/bin/bash\necho $$ > pid.new; mv pid.new pid\nwhile :; do :; done\n")
	job := c.submit("-n2", "--mem=600", "-t", "5", "busy.sh")
	c.await(job, "RUNNING")
	c.eventually("the script says its number", func() bool { _, err := os.Stat(filepath.Join(c.work, "pid")); return err == nil })
	pid := number(t, c.read("pid"))
	begun := cpuTicks(t, pid)
	c.eventually("the script computes", func() bool { return cpuTicks(t, pid) > begun+5 })
	c.do("scontrol", "suspend", job)
	if got := c.do("squeue", "-h", "-j", job, "-o", "%t %T"); got != "S SUSPENDED\n" {
		t.Errorf("suspended, the job is %q", got)
	}
	// The node hears of it a moment later. From then on nothing moves, however long one looks.
	still := func() bool {
		was := cpuTicks(t, pid)
		for until := time.Now().Add(1200 * time.Millisecond); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
			if cpuTicks(t, pid) != was {
				return false
			}
		}
		return true
	}
	c.eventually("the script stands still", still)
	left := c.do("squeue", "-h", "-j", job, "-o", "%L %M")
	if !still() {
		t.Error("the script moves again, suspended as it is")
	}
	if now := c.do("squeue", "-h", "-j", job, "-o", "%L %M"); now != left {
		t.Errorf("its time runs on: %q, then %q", left, now)
	}
	if got := c.do("sinfo", "-h", "-o", "%t %C"); got != "idle 0/2/0/2\n" {
		t.Errorf("its node is %q", got)
	}
	big := c.submit("-n1", "--mem=500", "-t", "5", "--wrap", "sleep 600")
	c.eventually("its memory is its own", func() bool { return c.do("squeue", "-h", "-j", big, "-o", "%T %r") == "PENDING Resources\n" })
	c.do("scancel", big)
	other := c.submit("-n2", "--mem=300", "-t", "5", "--wrap", "sleep 600")
	c.await(other, "RUNNING")
	was := cpuTicks(t, pid)
	c.do("scontrol", "resume", job)
	c.await(job, "RUNNING")
	c.eventually("the script computes again", func() bool { return cpuTicks(t, pid) > was+5 })
	third := c.submit("-n1", "--mem=50", "-t", "5", "--wrap", "sleep 600")
	c.do("scancel", other)
	c.await(other, "CANCELLED")
	c.eventually("the CPUs are the resumed job's", func() bool { return c.do("squeue", "-h", "-j", third, "-o", "%T %r") == "PENDING Resources\n" })
	c.do("scancel", job)
	c.await(third, "RUNNING")
	want := "CANCELLED by 0"
	if uid := os.Geteuid(); uid != 0 {
		want = "CANCELLED by " + itoa(uid)
	}
	c.eventually("accounting tells of it", func() bool {
		f := strings.Split(strings.TrimSpace(c.do("sacct", "-X", "-n", "-P", "-j", job, "-o", "State,Suspended,Elapsed")), "|")
		return len(f) == 3 && f[0] == want && f[1] >= "00:00:02" && f[1] < "00:01:00"
	})
}
