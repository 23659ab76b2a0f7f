package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// fake builds a root directory from file contents.
func fake(t *testing.T, files map[string]string) string {
	root := t.TempDir()
	base := map[string]string{
		"proc/sys/kernel/hostname":       "gpu07.cluster.example",
		"proc/sys/kernel/osrelease":      "6.1.0-57-amd64",
		"proc/sys/kernel/version":        "#1 SMP Debian 6.1.999-1",
		"proc/sys/kernel/arch":           "x86_64",
		"proc/sys/kernel/random/boot_id": "2f2fb1a5-0000-4000-8000-000000000001",
		"proc/uptime":                    "93784.25 1234.00",
		"proc/meminfo":                   "MemTotal:       24689664 kB\nMemFree: 1 kB",
		"tmp/x":                          "",
	}
	for k, v := range files {
		base[k] = v
	}
	for k, v := range base {
		p := filepath.Join(root, k)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(v+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// topology gives the files of CPUs: socket and siblings of each, in order of the CPU's number ("" siblings: no files).
func topology(cpus ...[2]string) map[string]string {
	files := map[string]string{"sys/devices/system/cpu/online": fmt.Sprintf("0-%d", len(cpus)-1)}
	if len(cpus) == 1 {
		files["sys/devices/system/cpu/online"] = "0"
	}
	for i, c := range cpus {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", i)
		if c[1] != "" {
			files[dir+"physical_package_id"] = c[0]
			files[dir+"thread_siblings_list"] = c[1]
			files[dir+"core_id"] = "0"
		}
	}
	return files
}

func TestProcessors(t *testing.T) {
	for _, tt := range []struct {
		name                    string
		files                   map[string]string
		sockets, cores, threads int
		want                    []Core
	}{
		{"two sockets with siblings far apart",
			merge(topology([2]string{"0", "0,4"}, [2]string{"0", "1,5"}, [2]string{"1", "2,6"}, [2]string{"1", "3,7"},
				[2]string{"0", "0,4"}, [2]string{"0", "1,5"}, [2]string{"1", "2,6"}, [2]string{"1", "3,7"}),
				map[string]string{"sys/devices/system/node/node0/cpulist": "0-1,4-5", "sys/devices/system/node/node1/cpulist": "2-3,6-7"}),
			2, 2, 2, []Core{{0, []int{0, 4}, 0}, {0, []int{1, 5}, 0}, {1, []int{2, 6}, 1}, {1, []int{3, 7}, 1}}},
		{"siblings side by side, sockets interleaved, package ids with a gap",
			topology([2]string{"3", "0-1"}, [2]string{"3", "0-1"}, [2]string{"0", "2-3"}, [2]string{"0", "2-3"}),
			2, 1, 2, []Core{{0, []int{2, 3}, 0}, {1, []int{0, 1}, 0}}},
		{"threads switched off",
			map[string]string{"sys/devices/system/cpu/online": "0-1",
				"sys/devices/system/cpu/cpu0/topology/physical_package_id":  "0",
				"sys/devices/system/cpu/cpu0/topology/thread_siblings_list": "0",
				"sys/devices/system/cpu/cpu1/topology/physical_package_id":  "0",
				"sys/devices/system/cpu/cpu1/topology/thread_siblings_list": "1"},
			1, 2, 1, []Core{{0, []int{0}, 0}, {0, []int{1}, 0}}},
		{"no topology at all", topology([2]string{}, [2]string{}, [2]string{}),
			1, 3, 1, []Core{{0, []int{0}, 0}, {0, []int{1}, 0}, {0, []int{2}, 0}}},
		{"package id -1", topology([2]string{"-1", "0"}, [2]string{"-1", "1"}),
			1, 2, 1, []Core{{0, []int{0}, 0}, {0, []int{1}, 0}}},
		{"fast cores with two threads, slow ones with one",
			topology([2]string{"0", "0-1"}, [2]string{"0", "0-1"}, [2]string{"0", "2"}),
			1, 3, 1, []Core{{0, []int{0}, 0}, {0, []int{1}, 0}, {0, []int{2}, 0}}},
		{"sockets of unequal size",
			topology([2]string{"0", "0"}, [2]string{"0", "1"}, [2]string{"1", "2"}),
			1, 3, 1, []Core{{0, []int{0}, 0}, {0, []int{1}, 0}, {0, []int{2}, 0}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Read(fake(t, tt.files), "tmp")
			if err != nil {
				t.Fatal(err)
			}
			if m.Sockets != tt.sockets || m.CoresPerSocket != tt.cores || m.ThreadsPerCore != tt.threads {
				t.Errorf("%d×%d×%d, want %d×%d×%d", m.Sockets, m.CoresPerSocket, m.ThreadsPerCore, tt.sockets, tt.cores, tt.threads)
			}
			if !reflect.DeepEqual(m.Cores, tt.want) {
				t.Errorf("cores %v\nwant  %v", m.Cores, tt.want)
			}
			if m.CPUs() != m.Sockets*m.CoresPerSocket*m.ThreadsPerCore {
				t.Errorf("%d CPUs do not make up the product", m.CPUs())
			}
		})
	}
}

func merge(maps ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range maps {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

func TestNamesAndSizes(t *testing.T) {
	m, err := Read(fake(t, topology([2]string{"0", "0-1"}, [2]string{"0", "0-1"})), "tmp")
	if err != nil {
		t.Fatal(err)
	}
	want := "NodeName=gpu07 CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=1 ThreadsPerCore=2 RealMemory=24111\nUpTime=1-02:03:04\n"
	if got := m.Describe(); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	if m.OS != "Linux 6.1.0-57-amd64 #1 SMP Debian 6.1.999-1" || m.Arch != "x86_64" || m.BootID != "2f2fb1a5-0000-4000-8000-000000000001" {
		t.Errorf("%+v", m)
	}
	if m.TmpDiskMiB == 0 || m.CoreOf(1) != 0 || m.CoreOf(2) != -1 {
		t.Errorf("%+v", m)
	}
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"no CPU", map[string]string{"sys/devices/system/cpu/online": ""}, "no CPU is online"},
		{"nonsense", map[string]string{"sys/devices/system/cpu/online": "zero"}, "which CPUs are online"},
		{"no memory", merge(topology([2]string{"0", "0"}), map[string]string{"proc/meminfo": "MemFree: 3 kB"}), "MemTotal"},
		{"no uptime", merge(topology([2]string{"0", "0"}), map[string]string{"proc/uptime": "long"}), "since boot"},
	} {
		if _, err := Read(fake(t, tt.files), "tmp"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want something on %q", tt.name, err, tt.want)
		}
	}
}

func TestThisMachine(t *testing.T) {
	m, err := Read("/", "/tmp")
	if err != nil {
		t.Fatal(err)
	}
	if m.CPUs() < runtime.NumCPU() || m.MemoryMiB == 0 || m.Hostname == "" || m.Uptime < time.Second || len(m.BootID) != 36 {
		t.Errorf("%+v", m)
	}
	t.Log(m.Describe())
}

func TestNumbering(t *testing.T) {
	m := Machine{Cores: []Core{{0, []int{0, 4}, 0}, {0, []int{1, 5}, 0}, {1, []int{2, 6}, 1}, {1, []int{3, 7}, 1}}}
	for _, tt := range []struct{ allocated, logical, back []int }{
		{[]int{0, 1}, []int{0, 4}, []int{0, 1}},
		{[]int{7, 2, 3}, []int{1, 5, 7}, []int{2, 3, 7}},
		{[]int{8, 9, 16}, []int{0, 4}, []int{0, 1}}, // of a virtual node
		{nil, nil, nil},
	} {
		got := m.Logical(tt.allocated)
		if !slices.Equal(got, tt.logical) || !slices.Equal(m.Allocated(got), tt.back) {
			t.Errorf("%v: %v, back %v; want %v, back %v", tt.allocated, got, m.Allocated(got), tt.logical, tt.back)
		}
	}
	if got := m.Allocated([]int{99, 6}); !slices.Equal(got, []int{5}) {
		t.Errorf("%v", got)
	}
	if got := (&Machine{}).Logical([]int{1}); got != nil {
		t.Errorf("%v", got)
	}
}

func TestRestrict(t *testing.T) {
	files := topology([2]string{"0", "0,4"}, [2]string{"0", "1,5"}, [2]string{"1", "2,6"}, [2]string{"1", "3,7"},
		[2]string{"0", "0,4"}, [2]string{"0", "1,5"}, [2]string{"1", "2,6"}, [2]string{"1", "3,7"})
	for _, tt := range []struct {
		cpus []int
		want string
		core []Core
	}{
		{[]int{0, 1, 2, 3, 4, 5, 6, 7}, "2×2×2", nil},
		{[]int{2, 3, 6, 7}, "1×2×2", []Core{{0, []int{2, 6}, 0}, {0, []int{3, 7}, 0}}},
		{[]int{0, 1, 2, 3}, "2×2×1", nil},
		{[]int{0, 4, 1}, "1×3×1", []Core{{0, []int{0}, 0}, {0, []int{4}, 0}, {0, []int{1}, 0}}},
		{[]int{3, 1}, "2×1×1", []Core{{0, []int{1}, 0}, {1, []int{3}, 0}}},
		{nil, "2×2×2", nil},
	} {
		m, err := Read(fake(t, files), "tmp")
		if err != nil {
			t.Fatal(err)
		}
		m.Restrict(tt.cpus)
		if got := fmt.Sprintf("%d×%d×%d", m.Sockets, m.CoresPerSocket, m.ThreadsPerCore); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.cpus, got, tt.want)
		}
		if tt.core != nil && !reflect.DeepEqual(m.Cores, tt.core) {
			t.Errorf("%v: %v, want %v", tt.cpus, m.Cores, tt.core)
		}
	}
	if cpus, err := Allowed(); err != nil || len(cpus) != runtime.NumCPU() {
		t.Errorf("%v, %v: the runtime sees %d", cpus, err, runtime.NumCPU())
	}
}

// The load and the free memory of the moment.
func TestNow(t *testing.T) {
	root := fake(t, map[string]string{"proc/loadavg": "1.57 0.31 0.28 2/123 4567", "proc/meminfo": "MemTotal: 24689664 kB\nMemFree: 2049 kB"})
	if load, free, err := Now(root); load != 157 || free != 2 || err != nil {
		t.Errorf("%d, %d, %v", load, free, err)
	}
	for name, files := range map[string]map[string]string{"no load": {"proc/loadavg": ""}, "words": {"proc/loadavg": "much more"}, "negative": {"proc/loadavg": "-1 0"},
		"no memory": {"proc/loadavg": "0.1 0.1", "proc/meminfo": "MemTotal: 5 kB"}} {
		if _, _, err := Now(fake(t, files)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
