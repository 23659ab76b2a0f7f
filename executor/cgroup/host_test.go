package cgroup

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fakeHost writes the two files that a host is known by, with MNT for a directory that exists.
func fakeHost(t *testing.T, mountinfo, own string, files map[string]string) (string, string) {
	proc, mnt := t.TempDir(), t.TempDir()
	for name, text := range files {
		p := filepath.Join(mnt, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(proc, "self"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"mountinfo": mountinfo, "cgroup": own} {
		text = strings.ReplaceAll(strings.TrimSpace(text), "MNT", mnt) + "\n"
		if err := os.WriteFile(filepath.Join(proc, "self", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return proc, mnt
}

func TestDetect(t *testing.T) {
	for _, tt := range []struct {
		name, mounts, own string
		files             map[string]string
		mode              Mode
		controllers       string
		gaps              string
		ownDirs           map[string]string // below MNT
	}{
		{
			name: "version 2 alone, in a session",
			mounts: `25 30 0:23 / /proc rw,nosuid - proc proc rw
35 24 0:30 / MNT/v2 rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate`,
			own:   "0::/user.slice/user-0.slice/session-1.scope",
			files: map[string]string{"v2/cgroup.controllers": "cpuset cpu io memory hugetlb pids rdma misc"},
			mode:  V2, controllers: "cpu cpuset hugetlb io memory misc pids rdma",
			ownDirs: map[string]string{"unified": "v2/user.slice/user-0.slice/session-1.scope"},
		},
		{
			name: "hybrid with co-mounted controllers, as systemd made it",
			mounts: `31 24 0:26 / MNT rw - tmpfs tmpfs ro,mode=755
32 31 0:27 / MNT/unified rw shared:9 - cgroup2 cgroup2 rw,nsdelegate
33 31 0:28 / MNT/systemd rw shared:10 - cgroup cgroup rw,xattr,name=systemd
34 31 0:29 / MNT/cpu,cpuacct rw shared:14 - cgroup cgroup rw,cpu,cpuacct
35 31 0:30 / MNT/memory rw shared:15 - cgroup cgroup rw,memory
36 31 0:31 / MNT/cpuset rw shared:16 - cgroup cgroup rw,cpuset
37 31 0:32 / MNT/freezer rw - cgroup cgroup rw,freezer
38 31 0:33 / MNT/cpuset2 rw - cgroup cgroup rw,cpuset`,
			own: `12:memory:/system.slice/stint.service
5:cpu,cpuacct:/system.slice/stint.service
3:cpuset:/
2:freezer:/
1:name=systemd:/system.slice/stint.service
0::/system.slice/stint.service`,
			files: map[string]string{"unified/cgroup.controllers": "", "cpu,cpuacct/tasks": "", "memory/tasks": "", "cpuset/tasks": "", "freezer/tasks": ""},
			mode:  Hybrid, controllers: "cpu cpuacct cpuset freezer memory",
			gaps:    "limits on the number of processes are not enforced: this kernel has no pids controller that is mounted",
			ownDirs: map[string]string{"cpu,cpuacct": "cpu,cpuacct/system.slice/stint.service", "cpuset": "cpuset", "unified": "unified/system.slice/stint.service"},
		},
		{
			name: "version 1 in a container that sees its own group as the root",
			mounts: `41 24 0:30 /docker/abc MNT/memory rw - cgroup cgroup rw,memory
42 24 0:31 /docker/abc MNT/cpuset rw - cgroup cgroup rw,cpuset
43 24 0:32 /docker/abc MNT/with\040blank rw - cgroup cgroup rw,pids`,
			own:   "4:memory:/docker/abc/inner\n3:cpuset:/docker/abc\n2:pids:/elsewhere",
			files: map[string]string{"memory/tasks": "", "cpuset/tasks": "", "with blank/tasks": ""},
			mode:  V1, controllers: "cpuset memory pids",
			ownDirs: map[string]string{"memory": "memory/inner", "cpuset": "cpuset", "pids": "with blank"},
		},
		{
			name:   "nothing mounted",
			mounts: "25 30 0:23 / /proc rw - proc proc rw", own: "0::/",
			mode: None, gaps: "groups are not enforced: no control group hierarchy is mounted",
		},
		{
			name:   "only systemd's named hierarchy",
			mounts: "33 31 0:28 / MNT/systemd rw - cgroup cgroup rw,name=systemd", own: "1:name=systemd:/",
			files: map[string]string{"systemd/tasks": ""},
			mode:  None, gaps: "no control group hierarchy is mounted",
		},
		{
			name:   "a mount that is not there",
			mounts: "35 24 0:30 / MNT/v2 rw - cgroup2 cgroup2 rw", own: "0::/",
			mode: None, gaps: "no such file",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			proc, mnt := fakeHost(t, tt.mounts, tt.own, tt.files)
			h, err := detect(proc, 0)
			if err != nil {
				t.Fatal(err)
			}
			if h.Mode != tt.mode || strings.Join(h.Controllers, " ") != tt.controllers {
				t.Errorf("%v with %v, want %v with %s", h.Mode, h.Controllers, tt.mode, tt.controllers)
			}
			var gaps []string
			for _, g := range h.Gaps {
				gaps = append(gaps, g.String())
			}
			if s := strings.Join(gaps, "; "); !strings.Contains(s, tt.gaps) || tt.gaps == "" && s != "" {
				t.Errorf("gaps %q, want %q", s, tt.gaps)
			}
			for key, want := range tt.ownDirs {
				i := slices.IndexFunc(h.hierarchies, func(x hierarchy) bool { return x.key() == key })
				if i < 0 || h.hierarchies[i].own != filepath.Join(mnt, want) {
					t.Errorf("%s: %+v, want own group %s", key, h.hierarchies, want)
				}
			}
		})
	}
}

func TestKernelWithoutGroups(t *testing.T) {
	proc, _ := fakeHost(t, "", "", nil)
	if err := os.Remove(filepath.Join(proc, "self/cgroup")); err != nil {
		t.Fatal(err)
	}
	h, err := detect(proc, 0)
	if err != nil || h.Mode != None || len(h.Gaps) != 1 || !strings.Contains(h.Gaps[0].Why, "no control groups") {
		t.Errorf("%+v, %v", h, err)
	}
	if _, err := detect(filepath.Join(proc, "nowhere"), 0); err == nil {
		t.Error("a host without /proc")
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []Config{{Node: "a/b"}, {Node: ".."}, {Node: "n 1"}, {Under: "/abs"}, {Under: "../up"}} {
		if _, err := open(Host{}, cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

func TestFormats(t *testing.T) {
	for _, tt := range []struct {
		in   []int
		want string
	}{{nil, ""}, {[]int{3}, "3"}, {[]int{2, 1, 0, 7, 7, 9, 8}, "0-2,7-9"}, {[]int{0, 2, 4}, "0,2,4"}} {
		if got := formatList(tt.in); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.in, got, tt.want)
		}
	}
	l := Limits{DenyDevices: []Device{{'c', 195, 1}, {'c', 195, 0}, {'c', 195, 1}, {'b', 7, 0}}, AllowDevices: []Device{{'c', 195, 0}, {'c', 1, 3}}}
	if got, want := l.denied(), []Device{{'b', 7, 0}, {'c', 195, 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("denied %v, want %v", got, want)
	}
	if r, w := parseIO("8:0 rbytes=10 wbytes=3 rios=1\n8:16 rbytes=5 wbytes=4 dios=0\n\n9:0"); r != 15 || w != 7 {
		t.Errorf("read %d, written %d", r, w)
	}
	for _, tt := range []struct{ ns, user, system, wantUser uint64 }{{1000, 3, 1, 750}, {1000, 0, 0, 1000}, {0, 5, 5, 0}, {1000, 0, 7, 0}} {
		if u, s := splitCPU(tt.ns, tt.user, tt.system); uint64(u) != tt.wantUser || uint64(u+s) != tt.ns {
			t.Errorf("%+v: %d and %d", tt, u, s)
		}
	}
}

// A crash may leave a group in some hierarchies only: what is left is found, and killing it spares the job's other steps.
func TestHalfRemovedStep(t *testing.T) {
	each(t, func(t *testing.T, tree *Tree) {
		if tree.Mode() == V2 {
			return // one directory is there or is not
		}
		half := mustCreate(t, tree, 1, "0", Limits{CPUs: []int{0}})
		job, err := tree.Find(1, "")
		if err != nil {
			t.Fatal(err)
		}
		other, err := job.CreateStep("1", Limits{})
		if err != nil {
			t.Fatal(err)
		}
		c, _ := start(t, other, "sleep")
		if err := os.Remove(half.dirs[0].path); err != nil {
			t.Fatal(err)
		}
		g, err := tree.Find(1, "0")
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Kill(t.Context()); err != nil {
			t.Error(err)
		}
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
		if pids, err := other.Procs(); err != nil || len(pids) != 1 {
			t.Errorf("the other step has %v, %v", pids, err)
		}
		for _, e := range must(tree.List())(t) {
			if e.Step == "0" {
				t.Errorf("left: %+v", e)
			}
		}
		if err := job.Kill(t.Context()); err != nil {
			t.Error(err)
		}
		_ = c.Wait()
	})
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A supervisor that is started again from somewhere else nests its memory groups elsewhere, and still finds the old ones.
func TestFoundFromElsewhere(t *testing.T) {
	each(t, func(t *testing.T, tree *Tree) {
		memory := tree.host.find("memory")
		if tree.Mode() == V2 {
			return // there is one place, wherever this process is
		}
		g := mustCreate(t, tree, 1, "batch", Limits{MemoryBytes: 100 << 20})
		c, _ := start(t, g, "sleep")
		moved := tree.host
		moved.hierarchies = slices.Clone(moved.hierarchies)
		for i := range moved.hierarchies {
			if h := &moved.hierarchies[i]; h.has("memory") {
				h.own = filepath.Join(memory.own, tree.cfg.Under+"-elsewhere")
				if err := makeDir(h.own); err != nil {
					t.Fatal(err)
				}
			}
		}
		other, err := open(moved, tree.cfg)
		if err != nil {
			t.Fatal(err)
		}
		again, err := other.Find(1, "batch")
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again.Paths(), g.Paths()) {
			t.Errorf("found %v, made %v", again.Paths(), g.Paths())
		}
		if s, err := again.Stats(); err != nil || s.Has&HasMemory == 0 {
			t.Errorf("%+v, %v", s, err)
		}
		job, err := other.Find(1, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := job.Kill(t.Context()); err != nil {
			t.Error(err)
		}
		_ = c.Wait()
		if err := job.Remove(); err != nil {
			t.Error(err)
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
		if err := removeDir(filepath.Join(memory.own, tree.cfg.Under+"-elsewhere"), removePatience); err != nil {
			t.Error(err)
		}
	})
}
