package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// siteConf is the configuration of a site that gives jobs little time after SIGTERM.
const siteConf = `ClusterName=small
SlurmctldHost=localhost
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
KillWait=2
DefMemPerCPU=500
MaxArraySize=100
NodeName=n[1-2] CPUs=4 RealMemory=4000 Gres=gpu:a100:2
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE
PartitionName=short Nodes=n1 MaxTime=10
`

// withConf starts a cluster of the nodes of a slurm.conf, played on this machine.
func withConf(t *testing.T, conf string, options ...string) *cluster {
	t.Helper()
	file := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	return start(t, append(options, "--config", file, "--virtual")...)
}

// shell runs lines of bash that find Slurm's commands by their names, as a user's shell does after eval "$(stint env)".
func (c *cluster) shell(text string) string {
	c.t.Helper()
	links := filepath.Join(filepath.Dir(c.dir), "links")
	if _, err := os.Stat(links); err != nil {
		c.do("stint", "links", links)
	}
	cmd := exec.Command("bash", "-ec", text)
	cmd.Dir = c.work
	for _, nv := range c.env {
		if !strings.HasPrefix(nv, "PATH=") {
			cmd.Env = append(cmd.Env, nv)
		}
	}
	cmd.Env = append(cmd.Env, "PATH="+links+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", text, err, out)
	}
	return strings.TrimSpace(string(out))
}

// ended waits until accounting has the end of a job, which is to be "STATE|CODE:SIGNAL".
func (c *cluster) ended(id, want string) {
	c.t.Helper()
	if got := exitCode(c, id); got != want {
		c.t.Errorf("job %s ended %s, not %s\n%s", id, got, want, c.try("stint", "events", id).out)
	}
}

// What jobs get and what becomes of them, by the commands that people type.
func TestJobs(t *testing.T) {
	c := withConf(t, siteConf)
	test := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			defer func(outer *testing.T) { c.t = outer }(c.t)
			c.t = t
			f(t)
		})
	}
	// Limits are minutes: these two run beside the others, and are looked at when those are over.
	c.script("stubborn.sh", "#!/bin/sh\n#SBATCH -t 1 -o stubborn.out\ntrap 'echo asked to end' TERM\nsleep 1000 & echo $! > child\nwhile :; do sleep 0.2; done\n")
	c.script("warned.sh", "#!/bin/bash\n#SBATCH -t 2 --signal=B:USR1@60 -o warned.out\ntrap 'echo warned; exit 4' USR1\nwhile :; do sleep 0.2; done\n")
	begun := time.Now()
	stubborn, warned := c.submit("stubborn.sh"), c.submit("warned.sh")

	test("exit codes and signals", func(t *testing.T) {
		for script, want := range map[string]string{
			"exit 0": "COMPLETED|0:0", "exit 255": "FAILED|255:0", "kill -KILL $$": "FAILED|0:9", "kill -SEGV $$": "FAILED|0:11", "kill -TERM $$": "FAILED|0:15",
			"no-such-command-of-anybody": "FAILED|127:0",
		} {
			c.ended(c.submit("-o", "/dev/null", "--wrap", script), want)
		}
	})
	test("the environment is the submitter's", func(t *testing.T) {
		c.script("env.sh", "#!/bin/bash\nprintf '<%s>\\n' \"$POEM\"\ngreet world\n")
		id := c.shell("export POEM=$'one\\ntwo = 2\\n'; greet() { echo \"hello $1\"; }; export -f greet; sbatch --parsable -o env.out env.sh")
		c.ended(id, "COMPLETED|0:0")
		if got, want := c.read("env.out"), "<one\ntwo = 2\n>\nhello world\n"; got != want {
			t.Errorf("the job wrote %q, want %q", got, want)
		}
		id = c.shell("export POEM=rose OTHER=daisy; sbatch --parsable --export=POEM,COLOUR=red -o env2.out --wrap 'echo $POEM $OTHER $COLOUR'")
		c.ended(id, "COMPLETED|0:0")
		if got, want := c.read("env2.out"), "rose red\n"; got != want {
			t.Errorf("with --export the job wrote %q, want %q", got, want)
		}
	})
	test("umask, resource limits and directory are the submitter's", func(t *testing.T) {
		c.script("limits.sh", "#!/bin/bash\numask; ulimit -Sn; ulimit -Sc; pwd\ntouch made\n")
		id := c.shell("mkdir -p sub; cd sub; umask 0027; ulimit -Sn 321; ulimit -Sc 0; sbatch --parsable -o ../limits.out ../limits.sh")
		c.ended(id, "COMPLETED|0:0")
		if got, want := c.read("limits.out"), "0027\n321\n0\n"+filepath.Join(c.work, "sub")+"\n"; got != want {
			t.Errorf("the job wrote %q, want %q", got, want)
		}
		if info, err := os.Stat(filepath.Join(c.work, "sub", "made")); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("a file of the job: %v %v", info.Mode(), err)
		}
	})
	test("files of input and output", func(t *testing.T) {
		os.WriteFile(filepath.Join(c.work, "in"), []byte("what is read\n"), 0o644)
		c.script("streams.sh", "#!/bin/sh\ncat\necho said\necho complained >&2\n")
		id := c.submit("-J", "talk", "-i", "in", "-o", "o.%x.%j.%N.%u.%%", "-e", "e.%5j", "streams.sh")
		c.ended(id, "COMPLETED|0:0")
		out, errs := "o.talk."+id+".n1."+userName(t)+".%", fmt.Sprintf("e.%05s", id)
		if got := c.read(out); got != "what is read\nsaid\n" {
			t.Errorf("%s holds %q", out, got)
		}
		if got := c.read(errs); got != "complained\n" {
			t.Errorf("%s holds %q", errs, got)
		}
		for mode, want := range map[string]string{"append": "before\nafter\n", "truncate": "after\n"} {
			os.WriteFile(filepath.Join(c.work, mode), []byte("before\n"), 0o644)
			c.ended(c.submit("--open-mode="+mode, "-o", mode, "--wrap", "echo after"), "COMPLETED|0:0")
			if got := c.read(mode); got != want {
				t.Errorf("--open-mode=%s leaves %q", mode, got)
			}
		}
		c.ended(c.submit("-o", "no/such/folder/out", "--wrap", "true"), "FAILED|0:53")
	})
	test("a job of two nodes", func(t *testing.T) {
		id := c.submit("-N2", "--ntasks-per-node=2", "-o", "two.out", "--wrap", "echo $SLURM_JOB_NODELIST $SLURM_JOB_NUM_NODES $SLURM_NTASKS $SLURM_TASKS_PER_NODE $(hostname)")
		c.ended(id, "COMPLETED|0:0")
		if got, want := c.read("two.out"), "n[1-2] 2 4 2(x2) "+hostOf(t, "n1")+"\n"; got != want {
			t.Errorf("the job wrote %q, want %q", got, want)
		}
	})
	test("requests that cannot be met are refused", func(t *testing.T) {
		for _, bad := range []struct{ args, says string }{
			{"-c 5", "Requested node configuration is not available"},
			{"--mem=5000", "Requested node configuration is not available|Memory required by task is not available"},
			{"--gres=gpu:3", "Requested node configuration is not available"},
			{"-p nowhere", "Invalid partition name specified"},
			{"--array=0-200", "Invalid job array specification"},
		} {
			r := c.try("sbatch", append(strings.Fields(bad.args), "--wrap", "true")...)
			if r.code == 0 || !regexp.MustCompile(bad.says).MatchString(r.err) {
				t.Errorf("sbatch %s: exit %d, %q", bad.args, r.code, r.err)
			}
		}
	})

	if testing.Short() {
		return // the limits are a minute away
	}
	test("a time limit", func(t *testing.T) {
		c.ended(stubborn, "TIMEOUT|0:0")
		took := time.Since(begun)
		if took < 60*time.Second {
			t.Errorf("a job with a limit of a minute was ended after %s", took)
		}
		out := c.read("stubborn.out")
		if !strings.Contains(out, "asked to end") || !strings.Contains(out, "DUE TO TIME LIMIT") {
			t.Errorf("it was not asked to end before it was made to: %q", out)
		}
		elapsed := strings.TrimSpace(c.do("sacct", "-X", "-n", "-P", "-j", stubborn, "-o", "ElapsedRaw"))
		if n := number(t, elapsed); n < 62 {
			t.Errorf("it had %d s, where it should have 60 and KillWait's 2 after them", n)
		}
		if pid := number(t, c.read("child")); syscall.Kill(pid, 0) == nil && os.Geteuid() == 0 {
			t.Errorf("its child, process %d, lives on", pid)
		}
	})
	test("a warning before the time limit", func(t *testing.T) {
		c.ended(warned, "FAILED|4:0")
		if got := c.read("warned.out"); got != "warned\n" {
			t.Errorf("the job wrote %q", got)
		}
	})
}

func userName(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("id", "-un").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// hostOf is the host name that a job on a played node sees: the node's, where root can make it so.
func hostOf(t *testing.T, node string) string {
	t.Helper()
	if os.Geteuid() == 0 {
		return node
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// On this machine as it is, without any option: a job sees the CPUs and the memory it was given and no more, and the kernel
// ends one that takes more.
func TestCage(t *testing.T) {
	needRoot(t)
	c := start(t)
	cpus := number(t, c.do("sinfo", "-h", "-o", "%c"))
	if cpus > runtime.NumCPU() {
		t.Errorf("the machine has %d CPUs, and the node %d", runtime.NumCPU(), cpus)
	}
	c.script("see.sh", `#!/bin/sh
grep Cpus_allowed_list /proc/self/status
g=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
if [ -n "$g" ]; then
  d=/sys/fs/cgroup/memory$g; [ -d "$d" ] || d=/sys/fs/cgroup/memory/$(echo "$g" | grep -o '[^/]*/[^/]*/[^/]*/[^/]*/[^/]*$')
  cat "$d/memory.limit_in_bytes" "${d%/*}/memory.limit_in_bytes" 2>/dev/null | sort -n | head -1
else
  d=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
  cat "$d/memory.max" "${d%/*}/memory.max" 2>/dev/null | sort -n | grep -v max | head -1
fi
`)
	id := c.submit("-c1", "--mem=64", "-o", "see.out", "see.sh")
	c.ended(id, "COMPLETED|0:0")
	if got, want := c.read("see.out"), regexp.MustCompile(`^Cpus_allowed_list:\t\d+\n67108864\n$`); !want.MatchString(got) {
		t.Errorf("a job of one CPU and 64 MiB sees %q", got)
	}
	id = c.submit("-c1", "--mem=64", "-o", "/dev/null", "--wrap", "head -c 300000000 /dev/zero | tail")
	if got := exitCode(c, id); !strings.HasPrefix(got, "OUT_OF_MEMORY|") {
		t.Errorf("a job that takes 300 MB of 64 MiB ended %s\n%s", got, c.do("stint", "events", id))
	}
	if got := c.do("sacct", "-n", "-P", "-j", id, "-o", "State"); !strings.HasPrefix(got, "OUT_OF_MEMORY\nOUT_OF_MEMORY\n") {
		t.Errorf("job and step are %q", got)
	}
}
