package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Mode says which generation of control groups a host runs.
type Mode int

const (
	// None: nothing can be enforced here; Host.Gaps says why.
	None Mode = iota
	// V1: each controller has a hierarchy of its own, and no version 2 hierarchy can kill or freeze a group.
	V1
	// Hybrid: the controllers are version 1; a version 2 hierarchy beside them gives birth inside a group,
	// killing, freezing and device filters.
	Hybrid
	// V2: one hierarchy holds everything.
	V2
)

func (m Mode) String() string {
	switch m {
	case V1:
		return "v1"
	case Hybrid:
		return "hybrid"
	case V2:
		return "v2"
	}
	return "none"
}

// Gap is something a caller may have asked for that is not enforced here, and the reason in one clause.
type Gap struct {
	What string
	Why  string
}

func (g Gap) String() string {
	if g.What == gapLayout {
		return g.What + " are not used: " + g.Why
	}
	return g.What + " are not enforced: " + g.Why
}

// The names under which gaps are reported.
const (
	gapGroups    = "groups"
	gapCores     = "cores"
	gapMemory    = "memory limits"
	gapSwap      = "swap limits"
	gapProcesses = "limits on the number of processes"
	gapDevices   = "limits on devices"
	gapLayout    = "the places where exporters look for jobs"
)

// Host is what a machine offers before anything is made on it.
type Host struct {
	Mode        Mode
	Controllers []string // usable ones by their kernel names, sorted: "cpuset", "memory", "pids", …
	Gaps        []Gap    // what is not enforced and why; with Mode None it is a single entry

	hierarchies []hierarchy
	systemd     bool // systemd owns the top of the tree
}

// hierarchy is one mounted tree of groups.
type hierarchy struct {
	controllers []string // version 1: as co-mounted; version 2: those of the mount's root
	mount       string   // directory the tree is mounted at
	own         string   // directory of the group this process is in
	v2          bool
}

// key names the hierarchy in messages and listings.
func (h *hierarchy) key() string {
	if h.v2 {
		return "unified"
	}
	return strings.Join(h.controllers, ",")
}

func (h *hierarchy) has(controller string) bool { return slices.Contains(h.controllers, controller) }

// Detect looks at the machine this process runs on. It changes nothing. The error is for a machine whose /proc cannot be
// read; a machine where nothing can be enforced is a Host with Mode None and one Gap.
func Detect() (Host, error) {
	return detect("/proc", os.Geteuid())
}

func detect(proc string, euid int) (Host, error) {
	mounts, err := os.ReadFile(filepath.Join(proc, "self/mountinfo"))
	if err != nil {
		return Host{}, fmt.Errorf("looking for control groups: %w", err)
	}
	own, err := os.ReadFile(filepath.Join(proc, "self/cgroup"))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Host{Gaps: []Gap{{gapGroups, "this kernel has no control groups"}}}, nil
		}
		return Host{}, fmt.Errorf("looking for this process's control groups: %w", err)
	}
	h := Host{hierarchies: parseMounts(string(mounts))}
	attachOwn(h.hierarchies, string(own))
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		h.systemd = true
	}
	if euid != 0 {
		h.hierarchies = nil
		h.Gaps = []Gap{{gapGroups, fmt.Sprintf("user %d is not root, so jobs run without limits on cores, memory and devices", euid)}}
		return h, nil
	}
	h.judge()
	return h, nil
}

// judge keeps the hierarchies that can be written and decides the mode from them.
func (h *Host) judge() {
	var kept []hierarchy
	refused := map[string]string{}
	var v1, v2 int
	for _, x := range h.hierarchies {
		if x.v2 {
			b, err := readFile(filepath.Join(x.mount, "cgroup.controllers"))
			if err != nil {
				refused["unified"] = err.Error()
				continue
			}
			x.controllers = strings.Fields(b)
		}
		if err := unix.Access(x.mount, unix.W_OK); err != nil {
			for _, c := range x.controllers {
				refused[c] = x.mount + " cannot be written: " + err.Error()
			}
			continue
		}
		if x.v2 {
			v2++
		} else if len(x.controllers) > 0 {
			v1++
		} else {
			continue // a named hierarchy (systemd's own): not ours to use
		}
		kept = append(kept, x)
	}
	switch {
	case v1 > 0:
		h.Mode = V1
		// A version 2 mount without controllers earns its place beside version 1 only if it can kill a group.
		for i := range kept {
			if kept[i].v2 && kernelAtLeast(5, 14) {
				h.Mode = Hybrid
			}
		}
		if h.Mode == V1 {
			kept = slices.DeleteFunc(kept, func(x hierarchy) bool { return x.v2 })
		}
	case v2 > 0:
		h.Mode = V2
	default:
		why := "no control group hierarchy is mounted"
		for _, r := range refused {
			why = r
		}
		h.Mode, h.hierarchies = None, nil
		h.Gaps = []Gap{{gapGroups, why}}
		return
	}
	h.hierarchies = kept
	for _, x := range kept {
		if !x.v2 || h.Mode == V2 {
			h.Controllers = append(h.Controllers, x.controllers...)
		}
	}
	slices.Sort(h.Controllers)
	for _, need := range []struct{ controller, what string }{
		{"cpuset", gapCores}, {"memory", gapMemory}, {"pids", gapProcesses},
	} {
		if slices.Contains(h.Controllers, need.controller) {
			continue
		}
		why := "this kernel has no " + need.controller + " controller that is mounted"
		if r, ok := refused[need.controller]; ok {
			why = r
		}
		h.Gaps = append(h.Gaps, Gap{need.what, why})
	}
}

// find gives the hierarchy that holds a controller, or nil.
func (h *Host) find(controller string) *hierarchy {
	for i := range h.hierarchies {
		if x := &h.hierarchies[i]; x.has(controller) && (!x.v2 || h.Mode == V2) {
			return x
		}
	}
	return nil
}

// unified gives the version 2 hierarchy in use, or nil.
func (h *Host) unified() *hierarchy {
	for i := range h.hierarchies {
		if h.hierarchies[i].v2 {
			return &h.hierarchies[i]
		}
	}
	return nil
}

// parseMounts reads mountinfo. Where a hierarchy is mounted more than once, the first mount counts.
func parseMounts(text string) []hierarchy {
	var out []hierarchy
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		head, tail, ok := strings.Cut(line, " - ")
		f, t := strings.Fields(head), strings.Fields(tail)
		if !ok || len(f) < 5 || len(t) < 3 {
			continue
		}
		// f[3] is the group that the mount shows as its root: paths in /proc/self/cgroup are cut by it later.
		h := hierarchy{mount: unescapeMount(f[4]), own: unescapeMount(f[3])}
		switch t[0] {
		case "cgroup2":
			h.v2 = true
		case "cgroup":
			for _, o := range strings.Split(t[2], ",") {
				if v1Controllers[o] {
					h.controllers = append(h.controllers, o)
				}
			}
		default:
			continue
		}
		if k := h.key(); !seen[k] && k != "" {
			seen[k] = true
			out = append(out, h)
		}
	}
	return out
}

// v1Controllers tells a controller from the other mount options.
var v1Controllers = map[string]bool{
	"blkio": true, "cpu": true, "cpuacct": true, "cpuset": true, "devices": true, "freezer": true, "hugetlb": true,
	"memory": true, "misc": true, "net_cls": true, "net_prio": true, "perf_event": true, "pids": true, "rdma": true,
}

// unescapeMount undoes the octal escapes of mountinfo.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// attachOwn fills in the directory of the group this process is in, from the text of /proc/self/cgroup.
func attachOwn(hs []hierarchy, text string) {
	paths := parseOwn(text)
	for i := range hs {
		h := &hs[i]
		root := h.own
		path, ok := paths[h.key()]
		if !ok {
			for _, c := range h.controllers {
				if p, found := paths[c]; found {
					path = p
				}
			}
		}
		h.own = h.mount
		if rel, err := filepath.Rel(root, path); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") && path != "" {
			h.own = filepath.Join(h.mount, rel)
		}
	}
}

// parseOwn reads /proc/PID/cgroup: path by controller, with "unified" for version 2.
func parseOwn(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		if f[1] == "" {
			out["unified"] = f[2]
			continue
		}
		for _, c := range strings.Split(f[1], ",") {
			out[c] = f[2]
		}
	}
	return out
}

func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var a, b int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b); err != nil {
		return false
	}
	return a > major || a == major && b >= minor
}

// Try makes a group in every hierarchy where those of jobs would be, and removes it again. It returns why it could not where it
// could not; nil if all is well.
func (h Host) Try() (errs []error) {
	for i := range h.hierarchies {
		x := &h.hierarchies[i]
		base := x.mount
		if !h.systemd && !x.v2 {
			base = x.own
		}
		dir := filepath.Join(base, fmt.Sprintf("stint-doctor-%d", os.Getpid()))
		if err := unix.Mkdir(dir, 0o755); err != nil {
			errs = append(errs, fmt.Errorf("in %s (%s): %w", base, x.key(), err))
			continue
		}
		if err := unix.Rmdir(dir); err != nil {
			errs = append(errs, fmt.Errorf("%s cannot be removed again: %w", dir, err))
		}
	}
	return errs
}
