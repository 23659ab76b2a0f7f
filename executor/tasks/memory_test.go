package tasks

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Where the kernel counts a process's kills for memory, by what proc(5) has of its groups and mounts.
func TestCounters(t *testing.T) {
	const (
		v1     = "30 20 0:26 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n31 20 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
		v2     = "29 20 0:25 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
		inside = "29 20 0:25 /pod/7 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
	)
	for name, c := range map[string]struct {
		groups, mounts string
		want           []string
	}{
		"version 1":               {"4:memory:/slurm/uid_0/job_1/step_0\n1:cpu,cpuacct:/\n0::/\n", v1, []string{"/sys/fs/cgroup/memory/slurm/uid_0/job_1/step_0/memory.oom_control"}},
		"version 2":               {"0::/system.slice/slurmstepd.scope/job_1/step_0\n", v2, []string{"/sys/fs/cgroup/system.slice/slurmstepd.scope/job_1/step_0/memory.events"}},
		"both":                    {"4:memory:/a\n0::/b\n", v1 + v2, []string{"/sys/fs/cgroup/memory/a/memory.oom_control", "/sys/fs/cgroup/b/memory.events"}},
		"below a mounted part":    {"4:memory:/pod/7/slurm/job_1\n", inside, []string{"/sys/fs/cgroup/memory/slurm/job_1/memory.oom_control"}},
		"outside what is mounted": {"4:memory:/other/job_1\n", inside, nil},
		"no memory controller":    {"1:cpu,cpuacct:/x\n", v1, nil},
		"nothing to be read":      {"4:memory\n::\n", "30 20 - \n - cgroup\n", nil},
	} {
		if got := counters(c.groups, c.mounts); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

func TestKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory.events")
	for text, want := range map[string]int{"low 0\noom 3\noom_kill 2\noom_group_kill 0\n": 2, "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n": 1, "": 0, "oom_kill x\n": 0} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := killed(file); got != want {
			t.Errorf("%q: %d, not %d", text, got, want)
		}
	}
	if killed("") != 0 || killed(file+"x") != 0 {
		t.Error("what is not there counts something")
	}
}
