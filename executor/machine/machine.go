// Package machine takes stock of the hardware and the system a node runs on: processors and their order, memory,
// temporary disk, boot and names. Everything is read below a root directory, so that a test can hand it any machine.
package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"stint/events/idset"
)

// Machine is what a node has, as `slurmd -C` would tell it.
type Machine struct {
	Hostname string // short: up to the first dot
	Kernel   string // release: "6.1.0-57-amd64"
	Arch     string // "x86_64", "aarch64"
	OS       string // as in `scontrol show node`: "Linux 6.1.0-57-amd64 #1 SMP …"
	BootID   string // changes with every boot
	Uptime   time.Duration

	Sockets        int
	CoresPerSocket int
	ThreadsPerCore int
	// Cores are in the order in which allocations number them: by socket, then by core. Their count is Sockets times
	// CoresPerSocket. Where sockets differ in their cores, or cores in their threads, the machine is described as one
	// socket with one thread a core, every CPU a core of its own.
	Cores []Core

	MemoryMiB  uint64
	TmpDiskMiB uint64 // of the file system at TmpDir
	TmpDir     string
}

// Core is a physical core.
type Core struct {
	Socket int   // counted from 0 without gaps
	CPUs   []int // the kernel's numbers of its threads, ascending
	Node   int   // NUMA node
}

// maxCPU is above what the kernel can be built for (8192).
const maxCPU = 1 << 16

// CPUs is the number of logical CPUs.
func (m *Machine) CPUs() int {
	n := 0
	for _, c := range m.Cores {
		n += len(c.CPUs)
	}
	return n
}

// Read takes stock of the machine whose /proc and /sys are below root ("/" for this one). tmpDir, below root too, is the
// directory whose disk counts as temporary ("/tmp").
func Read(root, tmpDir string) (Machine, error) {
	m := Machine{TmpDir: tmpDir}
	for _, step := range []func(string, *Machine) error{readNames, readCPUs, readMemory, readTmp} {
		if err := step(root, &m); err != nil {
			return Machine{}, fmt.Errorf("taking stock of this machine: %w", err)
		}
	}
	return m, nil
}

func readText(path ...string) (string, error) {
	b, err := os.ReadFile(filepath.Join(path...))
	return strings.TrimSpace(string(b)), err
}

func readNames(root string, m *Machine) error {
	kernel := filepath.Join(root, "proc/sys/kernel")
	var version string
	for _, f := range []struct {
		name string
		to   *string
	}{{"hostname", &m.Hostname}, {"osrelease", &m.Kernel}, {"version", &version}, {"random/boot_id", &m.BootID}} {
		var err error
		if *f.to, err = readText(kernel, f.name); err != nil {
			return err
		}
	}
	m.Hostname, _, _ = strings.Cut(m.Hostname, ".")
	m.OS = "Linux " + m.Kernel + " " + version
	arch, err := readText(kernel, "arch")
	if err != nil { // kernels before 6.1 do not say; this program was built for it
		arch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
		if arch == "" {
			arch = runtime.GOARCH
		}
	}
	m.Arch = arch
	up, err := readText(root, "proc/uptime")
	if err != nil {
		return err
	}
	up, _, _ = strings.Cut(up, " ")
	seconds, err := strconv.ParseFloat(up, 64)
	if err != nil {
		return fmt.Errorf("reading the time since boot: %w", err)
	}
	m.Uptime = time.Duration(seconds * float64(time.Second))
	return nil
}

// readCPUs builds the order of cores from what the kernel says of each CPU that is online.
func readCPUs(root string, m *Machine) error {
	dir := filepath.Join(root, "sys/devices/system/cpu")
	text, err := readText(dir, "online")
	if err != nil {
		return err
	}
	online, err := idset.Parse(text, maxCPU)
	if err != nil {
		return fmt.Errorf("reading which CPUs are online: %w", err)
	}
	nodes, err := readNodes(root)
	if err != nil {
		return err
	}
	type place struct{ socket, core int }
	byPlace := map[place]*Core{}
	var places []place
	for cpu := range online.All() {
		// A machine without a topology (some virtual and ARM ones have -1, or no files) has each CPU as a core.
		p := place{0, cpu}
		topology := filepath.Join(dir, "cpu"+strconv.Itoa(cpu), "topology")
		if socket, err := readInt(topology, "physical_package_id"); err == nil && socket >= 0 {
			p.socket = socket
		}
		if siblings, err := readText(topology, "thread_siblings_list"); err == nil {
			if set, err := idset.Parse(siblings, maxCPU); err == nil && set.Has(cpu) {
				p.core = set.Min() // core_id repeats between dies and sockets; the first sibling does not
			}
		}
		c := byPlace[p]
		if c == nil {
			c = &Core{Node: nodes[cpu]}
			byPlace[p] = c
			places = append(places, p)
		}
		c.CPUs = append(c.CPUs, cpu)
	}
	if len(places) == 0 {
		return fmt.Errorf("no CPU is online by %s", filepath.Join(dir, "online"))
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.socket != b.socket {
			return a.socket - b.socket
		}
		return a.core - b.core
	})
	perSocket := map[int]int{}
	threads, uneven := len(byPlace[places[0]].CPUs), false
	for i, p := range places {
		c := byPlace[p]
		if i > 0 && p.socket != places[i-1].socket {
			m.Sockets++
		}
		c.Socket = m.Sockets
		perSocket[c.Socket]++
		uneven = uneven || len(c.CPUs) != threads
		m.Cores = append(m.Cores, *c)
	}
	m.Sockets++
	m.ThreadsPerCore = threads
	m.CoresPerSocket = perSocket[0]
	for _, n := range perSocket {
		uneven = uneven || n != m.CoresPerSocket
	}
	if uneven {
		m.flatten()
	}
	return nil
}

// flatten makes every CPU a core of one socket.
func (m *Machine) flatten() {
	var flat []Core
	for _, c := range m.Cores {
		for _, cpu := range c.CPUs {
			flat = append(flat, Core{CPUs: []int{cpu}, Node: c.Node})
		}
	}
	m.Cores, m.Sockets, m.CoresPerSocket, m.ThreadsPerCore = flat, 1, len(flat), 1
}

// readNodes gives the NUMA node of each CPU; a machine without nodes has none listed, which reads as node 0.
func readNodes(root string) (map[int]int, error) {
	out := map[int]int{}
	dirs, err := filepath.Glob(filepath.Join(root, "sys/devices/system/node/node[0-9]*"))
	if err != nil {
		return nil, err
	}
	for _, d := range dirs {
		node, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(d), "node"))
		if err != nil {
			continue
		}
		text, err := readText(d, "cpulist")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		set, err := idset.Parse(text, maxCPU)
		if err != nil {
			return nil, fmt.Errorf("reading the CPUs of NUMA node %d: %w", node, err)
		}
		for cpu := range set.All() {
			out[cpu] = node
		}
	}
	return out, nil
}

func readInt(path ...string) (int, error) {
	s, err := readText(path...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(s)
}

func readMemory(root string, m *Machine) error {
	kib, err := memoryOf(root, "MemTotal:")
	m.MemoryMiB = kib / 1024
	return err
}

// memoryOf returns one of the figures of /proc/meminfo, in KiB.
func memoryOf(root, name string) (kib uint64, err error) {
	text, err := readText(root, "proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == name {
			if kib, err = strconv.ParseUint(f[1], 10, 64); err != nil {
				return 0, fmt.Errorf("reading the size of memory: %w", err)
			}
			return kib, nil
		}
	}
	return 0, fmt.Errorf("%s says no %s", filepath.Join(root, "proc/meminfo"), strings.TrimSuffix(name, ":"))
}

func readTmp(root string, m *Machine) error {
	if m.TmpDir == "" {
		return nil
	}
	var st unix.Statfs_t
	dir := filepath.Join(root, m.TmpDir)
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("looking at the disk of %s: %w", dir, err)
	}
	m.TmpDiskMiB = st.Blocks * uint64(st.Bsize) >> 20
	return nil
}

// Describe writes the machine as a NodeName line of slurm.conf and the time since boot, as `slurmd -C` does.
func (m *Machine) Describe() string {
	up := int64(m.Uptime / time.Second)
	return fmt.Sprintf("NodeName=%s CPUs=%d Boards=1 SocketsPerBoard=%d CoresPerSocket=%d ThreadsPerCore=%d RealMemory=%d\nUpTime=%d-%02d:%02d:%02d\n",
		m.Hostname, m.CPUs(), m.Sockets, m.CoresPerSocket, m.ThreadsPerCore, m.MemoryMiB,
		up/86400, up/3600%24, up/60%60, up%60)
}

// Logical gives the kernel's numbers of CPUs that are numbered as in allocations: from 0 on, in the order of Cores, the
// threads of a core one after another. A virtual node may have more CPUs than the machine; their numbers start again from
// the first. Sorted, each once.
func (m *Machine) Logical(allocated []int) []int {
	order := m.order()
	if len(order) == 0 {
		return nil
	}
	var out []int
	for _, i := range allocated {
		out = append(out, order[i%len(order)])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Allocated is the way back: the numbers in allocations of CPUs given by the kernel's numbers. CPUs that the machine has
// not are left out. Sorted.
func (m *Machine) Allocated(logical []int) []int {
	var out []int
	for i, cpu := range m.order() {
		if slices.Contains(logical, cpu) {
			out = append(out, i)
		}
	}
	return out
}

func (m *Machine) order() []int {
	var out []int
	for _, c := range m.Cores {
		out = append(out, c.CPUs...)
	}
	return out
}

// CoreOf gives the index in Cores of the core that a CPU is a thread of; -1 if there is none.
func (m *Machine) CoreOf(cpu int) int {
	return slices.IndexFunc(m.Cores, func(c Core) bool { return slices.Contains(c.CPUs, cpu) })
}

// Allowed gives the CPUs that this process may run on, which inside a container or a batch job are fewer than the
// machine has.
func Allowed() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("asking which CPUs this process may use: %w", err)
	}
	var out []int
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			out = append(out, cpu)
		}
	}
	return out, nil
}

// Restrict leaves only the given CPUs, renumbering cores and sockets, as if the machine had no others.
func (m *Machine) Restrict(cpus []int) {
	var kept []Core
	perSocket := map[int]int{}
	for _, c := range m.Cores {
		c.CPUs = slices.DeleteFunc(slices.Clone(c.CPUs), func(cpu int) bool { return !slices.Contains(cpus, cpu) })
		if len(c.CPUs) == 0 {
			continue
		}
		perSocket[c.Socket]++
		kept = append(kept, c)
	}
	if len(kept) == 0 {
		return
	}
	m.Cores, m.Sockets, m.ThreadsPerCore = kept, len(perSocket), len(kept[0].CPUs)
	m.CoresPerSocket = perSocket[kept[0].Socket]
	uneven, socket, at := false, -1, -1
	for i := range kept {
		c := &kept[i]
		uneven = uneven || len(c.CPUs) != m.ThreadsPerCore || perSocket[c.Socket] != m.CoresPerSocket
		if c.Socket != at {
			at, socket = c.Socket, socket+1
		}
		c.Socket = socket
	}
	if uneven {
		m.flatten()
	}
}
