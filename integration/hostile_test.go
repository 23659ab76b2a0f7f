package integration

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"stint/cli/wire"
)

// hostile are jobs that do what jobs should not, each with what must come of it. Those without an exit code of theirs are cancelled once they
// have written "ready" into their output.
var hostile = []struct {
	title, script string
	options       []string
	state, code   string
	output        string // what their output must hold
}{
	{title: "leaves children behind", script: `sleep 1000 & sleep 1000 & exit 0`, state: "COMPLETED", code: "0:0"},
	{title: "daemonizes twice, in a session of its own", script: `setsid sh -c '(setsid sleep 1000 &) &' & wait; exit 4`, state: "FAILED", code: "4:0"},
	{title: "ignores all that can be ignored", script: `trap '' TERM INT HUP QUIT CONT USR1 USR2; echo ready; while :; do sleep 1; done`, state: "CANCELLED"},
	{title: "stops itself", script: `echo ready; kill -STOP $$; sleep 1000`, state: "CANCELLED"},
	{title: "has children faster than they are killed", script: `ulimit -u 60; echo ready; while :; do sleep 1000 & done 2>/dev/null`, state: "CANCELLED"},
	{title: "fills its output", script: `head -c 30000000 /dev/zero; exit 5`, state: "FAILED", code: "5:0"},
	{title: "closes its descriptors", script: `exec 0<&- 1>&- 2>&-; exit 6`, state: "FAILED", code: "6:0"},
	{title: "eats its memory", script: `tail /dev/zero; exit 7`, options: []string{"--mem=30"}, state: "OUT_OF_MEMORY", code: "0:125"},
	{title: "removes its folder", script: `mkdir gone; cd gone; rmdir ../gone; (sleep 1000 &); exit 8`, state: "FAILED", code: "8:0"},
	{title: "removes its output", script: `rm -f $OUT; echo nobody reads this; exit 9`, state: "FAILED", code: "9:0"},
	{title: "puts a link in the place of its output's folder", script: `mkdir -p d; mv d away; ln -s /etc d; echo still here; exit 10`, options: []string{"-o", "d/x"}, state: "FAILED", code: "10:0"},
	{title: "kills who started it", script: `kill -9 $PPID 2>&1; kill -STOP $PPID 2>&1; exit 11`, state: "FAILED", code: "11:0", output: "not permitted"},
	{title: "changes its limits", script: `for f in $(find /sys/fs/cgroup -name '*'$SLURM_JOB_ID'*' 2>/dev/null); do for l in memory.limit_in_bytes memory.max cgroup.procs tasks cpuset.cpus; do
  (echo 1 > $f/$l) 2>/dev/null && echo broke out of $f/$l; done; done; (echo -1000 > /proc/self/oom_score_adj) 2>/dev/null && echo cannot be killed; exit 12`, state: "FAILED", code: "12:0"},
	{title: "maps more than there is", script: `exec 2>&1; ulimit -v unlimited; dd if=/dev/zero of=/dev/null bs=400M count=1 2>/dev/null; exit 13`, options: []string{"--mem=60"}, state: "OUT_OF_MEMORY", code: "0:125"},
	{title: "kills all that is its own", script: `sleep 1000 & kill -9 -1; exit 14`, state: "FAILED", code: "14:0"},
}

// Whatever a job does, it ends as it should, nothing of it is left alive, its node is free again, and another's jobs notice nothing.
func TestHostileJobs(t *testing.T) {
	alice, bob, _ := people(t)
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	os.WriteFile(conf, []byte("ClusterName=site\nSlurmctldHost=h\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU_Memory\nProctrackType=proctrack/cgroup\nTaskPlugin=task/cgroup\nKillWait=1\n"+
		"NodeName=n1 CPUs=24 RealMemory=4000\nPartitionName=main Nodes=ALL Default=YES DefMemPerCPU=50\n"), 0o644)
	c := planned(t)
	c.up("--config", conf, "--virtual")
	mark := fmt.Sprintf("HOSTILE_MARK=%d.%d", os.Getpid(), time.Now().UnixNano())
	home := func(name string) string { return filepath.Join(bob.home, name) }
	before := c.processes()
	size := diskUse(t, c.dir)
	ids := make([]string, len(hostile))
	for i, h := range hostile {
		if strings.HasPrefix(h.title, "kills all") {
			continue // the others are its user's as well
		}
		ids[i] = c.hostile(bob, i, mark)
	}
	// Another user, meanwhile.
	for range 3 {
		c.ended(c.submitAs(alice, "-o", "/dev/null", "--wrap", "exit 3"), "FAILED|3:0")
	}
	for i, h := range hostile {
		if h.code == "" {
			c.eventually(h.title+": it is ready", func() bool {
				data, _ := os.ReadFile(home(fmt.Sprintf("out.%d", i)))
				return string(data) == "ready\n"
			})
			if r := c.as(bob, "scancel", ids[i]); r.code != 0 {
				t.Errorf("%s: scancel: %d %q", h.title, r.code, r.err)
			}
		}
	}
	told := func(i int) {
		t.Helper()
		h, id := hostile[i], ids[i]
		want := h.state + "|" + h.code
		got := ""
		c.eventually(fmt.Sprintf("%s (job %s): it ends", h.title, id), func() bool {
			got = strings.TrimSpace(c.try("sacct", "-X", "-n", "-P", "-j", id, "-o", "state,exitcode").out)
			return got != "" && !strings.HasPrefix(got, "RUNNING") && !strings.HasPrefix(got, "PENDING")
		})
		if !strings.HasPrefix(got, h.state) || h.code != "" && got != want {
			t.Errorf("a job that %s ended %q, want %q\n%s", h.title, got, want, c.try("stint", "events", id).out)
		}
		data, _ := os.ReadFile(home(fmt.Sprintf("out.%d", i)))
		if h.output != "" && !bytes.Contains(data, []byte(h.output)) || bytes.Contains(data, []byte("broke out")) || bytes.Contains(data, []byte("cannot be killed")) {
			t.Errorf("a job that %s wrote %q", h.title, data[:min(len(data), 500)])
		}
	}
	for i := range hostile {
		if ids[i] != "" {
			told(i)
		}
	}
	last := len(hostile) - 1
	ids[last] = c.hostile(bob, last, mark)
	told(last)
	if _, err := os.Lstat("/etc/x"); err == nil {
		t.Error("a job's output is in /etc")
	}
	c.eventually("nothing of them is alive", func() bool { return len(marked(mark)) == 0 })
	c.eventually("the node is idle", func() bool { return c.do("sinfo", "-h", "-N", "-o", "%N %T") == "n1 idle\n" })
	for name, pid := range c.processes() {
		if before[name] != pid {
			t.Errorf("%s was process %d and is %d", name, before[name], pid)
		}
	}
	if grown := diskUse(t, c.dir) - size; grown > 16<<20 {
		t.Errorf("the cluster's folder has grown by %d MiB", grown>>20)
	}

	// Scripts and environments of the most that is taken, and of more.
	big := strings.Repeat("# filler\n", 1<<20)
	script := func(n int) string {
		os.WriteFile(home("big.sh"), []byte("#!/bin/sh\nexit 15\n"+big[:n-18]), 0o755)
		return home("big.sh")
	}
	c.ended(c.submitAs(bob, "-o", "/dev/null", script(4<<20)), "FAILED|15:0")
	if r := c.as(bob, "sbatch", script(4<<20+1)); r.code == 0 || !strings.Contains(r.err, "at most 4194304 are allowed") {
		t.Errorf("a script of more than that: %d %q", r.code, r.err)
	}
	env := c.env
	for i := range 10 {
		c.env = append(c.env, fmt.Sprintf("BIG%d=%s", i, big[:100_000]))
	}
	id := c.submitAs(bob, "-o", home("env"), "--wrap", "echo ${#BIG0} ${#BIG9}; exit 16")
	c.env = env
	c.ended(id, "FAILED|16:0")
	if data, _ := os.ReadFile(home("env")); string(data) != "100000 100000\n" {
		t.Errorf("of an environment of a million bytes arrived %q", data)
	}

	// A name that would write on others' terminals.
	odd := c.submitAs(bob, "-H", "-J", "a\x1b[31mb\x07", "--wrap", "true")
	for _, ask := range [][]string{{"stint", "events", odd}, {"stint", "why", odd}, {"stint", "status"}} {
		if r := c.try(ask[0], ask[1:]...); strings.ContainsAny(r.out+r.err, "\x1b\x07") {
			t.Errorf("%v writes on the terminal: %q", ask, r.out)
		}
	}
	c.do("scancel", odd)
	c.do("stint", "replay", "--verify")
}

// hostile submits one of the hostile jobs.
func (c *cluster) hostile(p person, i int, mark string) string {
	c.t.Helper()
	h, out := hostile[i], fmt.Sprintf("out.%d", i)
	os.MkdirAll(filepath.Join(p.home, "d"), 0o777)
	os.Lchown(filepath.Join(p.home, "d"), int(p.uid), int(p.gid))
	name := filepath.Join(p.home, fmt.Sprintf("job%d.sh", i))
	if err := os.WriteFile(name, []byte("#!/bin/bash\n"+h.script+"\n"), 0o755); err != nil {
		c.t.Fatal(err)
	}
	return c.submitAs(p, append(append([]string{"-o", out, "--export=ALL,OUT=" + out + "," + mark}, h.options...), name)...)
}

// marked are the processes that have a word in their environment.
func marked(mark string) (pids []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		if data, err := os.ReadFile(name); err == nil && bytes.Contains(data, []byte(mark)) {
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	return pids
}

// diskUse is the size of all files below a folder.
func diskUse(t *testing.T, dir string) (total int64) {
	t.Helper()
	filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil
	})
	return total
}

// One user is rude to the agent's socket: connections that say nothing, that say half of something, that say what is nothing, and more
// of them than anybody may have. Each is told so or cut off, and another user notices nothing.
func TestRudeCallers(t *testing.T) {
	alice, bob, _ := people(t)
	c := start(t, "--nodes", "n1", "--cpus", "4", "--memory", "4000")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	rude := filepath.Join(filepath.Dir(c.dir), "rude")
	if err := os.WriteFile(rude, self, 0o755); err != nil {
		t.Fatal(err)
	}
	before := c.processes()
	env := c.env
	c.env = append(c.env, "STINT_TEST_GREEDY="+c.dir)
	told := make(chan result, 1)
	go func() { told <- c.as(bob, rude, "-test.run=TestRude$", "-test.v") }()
	for done := false; !done; {
		select {
		case r := <-told:
			done = true
			if r.code != 0 {
				t.Errorf("the rude one: %d\n%s%s", r.code, r.out, r.err)
			}
		default:
		}
		c.ended(c.submitAs(alice, "-o", "/dev/null", "--wrap", "exit 3"), "FAILED|3:0")
	}
	c.env = env
	c.eventually("the rude one is served again", func() bool { return c.as(bob, "squeue").code == 0 })
	for name, pid := range c.processes() {
		if before[name] != pid {
			t.Errorf("%s was process %d and is %d", name, before[name], pid)
		}
	}
}

// TestRude is what the rude user of TestRudeCallers runs.
func TestRude(t *testing.T) {
	dir := os.Getenv("STINT_TEST_GREEDY")
	if dir == "" {
		t.Skip("runs as another user, as part of TestRudeCallers")
	}
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("unix", filepath.Join(dir, wire.Socket))
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(patience))
		return c
	}
	answer := func(c net.Conn) string {
		resp := new(wire.Response)
		if err := wire.Read(c, resp, wire.MaxFrame); err != nil {
			return "cut off: " + err.Error()
		}
		return resp.Error
	}
	frame := func(size uint32, body string) []byte {
		return append(binary.BigEndian.AppendUint32(nil, size), body...)
	}
	for _, m := range []struct {
		what string
		data []byte
		want string
	}{
		{"a page of another protocol", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "larger than the"},
		{"a frame of four gigabytes", frame(1<<32-1, "x"), "larger than the"},
		{"a frame of noise", frame(64, strings.Repeat("\xff\x01\x7e", 30)[:64]), "could not be read"},
		{"a frame of nothing", frame(0, ""), "does not know that request"},
	} {
		c := dial()
		c.Write(m.data)
		if got := answer(c); !strings.Contains(got, m.want) {
			t.Errorf("%s: %q, want %q", m.what, got, m.want)
		}
		c.Close()
	}
	// Half a header, a header without its body, a body that trickles, and nothing at all.
	var open []net.Conn
	for i := range 300 {
		c := dial()
		switch i % 4 {
		case 0:
			c.Write([]byte{0, 0})
		case 1:
			c.Write(frame(1<<20, ""))
		case 2:
			c.Write(frame(1<<20, "x"))
		}
		open = append(open, c)
	}
	turnedAway(t, open, 300-256, "you have 256 connections to the agent open, which is the most it allows")
	// Thousands, each for a moment.
	for range 3000 {
		c := dial()
		c.Close()
	}
	io.WriteString(os.Stdout, "done\n")
}

// With few file descriptors for all of it, who takes many connections gets only a part of them, and the log, accounting and others go on.
func TestFewDescriptors(t *testing.T) {
	alice, bob, _ := people(t)
	c := planned(t)
	const files = 160
	r := c.as(person{home: c.work}, "/bin/sh", "-c", "ulimit -n "+strconv.Itoa(files)+" && exec "+filepath.Join(bin, "stint")+" up --detach --nodes n1 --cpus 4 --memory 4000 --cgroup-under stint-test-"+filepath.Base(filepath.Dir(c.dir)))
	if r.code != 0 {
		t.Fatalf("up with %d descriptors: %d %s%s", files, r.code, r.out, r.err)
	}
	before := c.processes()
	var open []net.Conn
	hold := func(n int) {
		for range n {
			conn, err := net.Dial("unix", filepath.Join(c.dir, wire.Socket))
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, conn)
		}
	}
	self, _ := os.ReadFile("/proc/self/exe")
	held := filepath.Join(filepath.Dir(c.dir), "holds")
	os.WriteFile(held, self, 0o755)
	env := c.env
	c.env = append(c.env, "STINT_TEST_GREEDY="+c.dir)
	told := make(chan result, 1)
	go func() { told <- c.as(bob, held, "-test.run=TestHolds$", "-test.v") }()
	for done := false; !done; {
		select {
		case r := <-told:
			done = true
			if r.code != 0 || !strings.Contains(r.out, fmt.Sprintf("you have %d connections to the agent open", files/8)) {
				t.Errorf("who holds connections: %d %s%s", r.code, r.out, r.err)
			}
		default:
		}
		c.ended(c.submitAs(alice, "-o", "/dev/null", "--wrap", "exit 3"), "FAILED|3:0")
	}
	c.env = env
	// Root is held to its part as well; what is beyond is told so, and all goes on afterwards.
	hold(2 * files)
	c.eventually("root is told", func() bool { return strings.Contains(c.try("squeue").err, "connections to the agent open") })
	for _, o := range open {
		o.Close()
	}
	c.eventually("all goes on", func() bool { return c.try("squeue").code == 0 })
	c.ended(c.submitAs(alice, "-o", "/dev/null", "--wrap", "exit 3"), "FAILED|3:0")
	for name, pid := range c.processes() {
		if before[name] != pid {
			t.Errorf("%s was process %d and is %d", name, before[name], pid)
		}
	}
	c.do("stint", "replay", "--verify")
}

// TestHolds is who holds connections in TestFewDescriptors.
func TestHolds(t *testing.T) {
	dir := os.Getenv("STINT_TEST_GREEDY")
	if dir == "" {
		t.Skip("runs as another user, as part of TestFewDescriptors")
	}
	var open []net.Conn
	for range 200 {
		c, err := net.Dial("unix", filepath.Join(dir, wire.Socket))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	fmt.Println(turnedAway(t, open, 200-20, "you have 20 connections to the agent open"))
}

// turnedAway waits until so many of the connections, whichever, have been told why they are too many, and closes all.
func turnedAway(t *testing.T, open []net.Conn, n int, want string) (told string) {
	t.Helper()
	words := make(chan string, len(open))
	for _, c := range open {
		go func() {
			resp := new(wire.Response)
			c.SetDeadline(time.Now().Add(patience))
			if err := wire.Read(c, resp, wire.MaxFrame); err == nil {
				words <- resp.Error
			}
		}()
	}
	for i := range n {
		select {
		case told = <-words:
			if !strings.Contains(told, want) {
				t.Errorf("one that was too many is told %q", told)
			}
		case <-time.After(patience):
			t.Fatalf("%d of %d connections were turned away", i, n)
		}
	}
	for _, c := range open {
		c.Close()
	}
	return told
}

// A node that can make no more processes is out of service, with that reason; its jobs run elsewhere, once; when it can again, it is as before.
func TestOutOfPids(t *testing.T) {
	needRoot(t)
	group := filepath.Join("/sys/fs/cgroup/pids", fmt.Sprintf("stint-test-pids-%d", os.Getpid()))
	if _, err := os.Stat("/sys/fs/cgroup/pids/cgroup.procs"); err != nil {
		t.Skip("needs a hierarchy of control groups with pids: ", err)
	}
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	c := start(t, "--nodes", "n[1-2]", "--cpus", "4", "--memory", "4000")
	t.Cleanup(func() {
		data, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		for _, pid := range strings.Fields(string(data)) {
			os.WriteFile("/sys/fs/cgroup/pids/cgroup.procs", []byte(pid), 0)
		}
		os.Remove(group)
	})
	c.script("job.sh", "#!/bin/sh\necho $SLURMD_NODENAME >> ran.$SLURM_JOB_ID\n")
	warm := c.submit("-w", "n1", "job.sh")
	c.await(warm, "COMPLETED")
	supervisor := c.processes()["supervisor:n1"]
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(supervisor)), 0); err != nil {
		t.Fatal(err)
	}
	now, err := os.ReadFile(filepath.Join(group, "pids.current"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(group, "pids.max"), now, 0); err != nil {
		t.Fatal(err)
	}
	var jobs []string
	for range 8 {
		jobs = append(jobs, c.submit("job.sh"))
	}
	for _, id := range jobs {
		c.await(id, "COMPLETED")
		if got := c.read("ran." + id); strings.Count(got, "\n") != 1 {
			t.Errorf("job %s ran on %q", id, got)
		}
	}
	reason := c.do("sinfo", "-h", "-n", "n1", "-o", "%T %E")
	t.Logf("the node without processes: %q", reason)
	if !strings.HasPrefix(reason, "drained ") || !strings.Contains(reason, "the limit on processes of this node is reached") {
		t.Errorf("the node without processes is %q", reason)
	}
	os.WriteFile(filepath.Join(group, "pids.max"), []byte("max"), 0)
	c.do("scontrol", "update", "nodename=n1", "state=resume")
	again := c.submit("-w", "n1", "job.sh")
	c.await(again, "COMPLETED")
	c.do("stint", "replay", "--verify")
}
