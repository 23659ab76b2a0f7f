package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"stint/cli/site"
	"stint/cli/wire"
	"stint/executor/cgroup"
	"stint/executor/gpu"
	"stint/executor/machine"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "look for what is wrong on this machine, and say what to do about it", Category: running,
		Description: "It looks at the machine (hardware, control groups, disks, limits), at the cluster's files and versions, at what of the\n" +
			"configuration has no effect, and at daemons, clocks and nodes, and says what to do. It ends with 1 if anything is broken;\n" +
			"warnings do not count.\n\nExample: stint doctor --json",
		Flags: []cli.Flag{dirFlag(), &cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action: func(c *cli.Context) error {
			dir, err := dirOf(c)
			if err != nil {
				return err
			}
			d := examine(dir)
			if c.Bool("json") {
				e := json.NewEncoder(c.App.Writer)
				e.SetIndent("", "  ")
				if err := e.Encode(d); err != nil {
					return err
				}
			} else {
				for _, f := range d.Findings {
					fmt.Fprintf(c.App.Writer, "%-7s  %-14s %s\n", f.Level, f.Check, f.Text)
					if f.Do != "" {
						fmt.Fprintf(c.App.Writer, "%24s %s\n", "→", f.Do)
					}
				}
			}
			if !d.OK {
				return exitError{code: 1}
			}
			return nil
		},
	}
}

// diagnosis is what the doctor found.
type diagnosis struct {
	OK       bool      `json:"ok"`
	Dir      string    `json:"dir"`
	Version  string    `json:"version"`
	Findings []finding `json:"findings"`
}

// finding is one thing looked at.
type finding struct {
	Check string `json:"check"`
	Level string `json:"level"` // ok, note (nothing to do), warning, broken
	Text  string `json:"text"`
	Do    string `json:"do,omitempty"` // what to do about it
}

func examine(dir site.Dir) *diagnosis {
	d := &diagnosis{OK: true, Dir: string(dir), Version: Build()}
	for _, check := range []func(*diagnosis, site.Dir){
		checkMachine, checkGroups, checkGPUs, checkNames, checkLimits, checkDisk, checkKeys, checkConf, checkBuilds, checkCluster, checkPolicy,
	} {
		check(d, dir)
	}
	return d
}

func (d *diagnosis) add(level, check, do, format string, args ...any) {
	d.Findings = append(d.Findings, finding{check, level, fmt.Sprintf(format, args...), do})
	d.OK = d.OK && level != "broken"
}

func checkMachine(d *diagnosis, _ site.Dir) {
	m, err := machine.Read("/", os.TempDir())
	if err != nil {
		d.add("broken", "machine", "", "%v", err)
		return
	}
	d.add("ok", "machine", "", "%s: %s, %s and %s each, %d MiB of memory (%s, %s)", m.Hostname, count(int(m.Sockets), "socket"), count(int(m.CoresPerSocket), "core"), count(int(m.ThreadsPerCore), "thread"), m.MemoryMiB, m.OS, runtime.Version())
	if cpus, err := machine.Allowed(); err == nil && len(cpus) < m.CPUs() {
		d.add("note", "machine", "", "this process may use %d of the %d CPUs", len(cpus), m.CPUs())
	}
	if addrs, err := net.LookupHost(m.Hostname); err != nil || len(addrs) == 0 {
		d.add("warning", "host name", "add it to /etc/hosts", "the host's own name %s has no address: %v", m.Hostname, err)
	} else {
		d.add("ok", "host name", "", "%s is %s", m.Hostname, strings.Join(addrs, " "))
	}
}

func checkGroups(d *diagnosis, _ site.Dir) {
	if os.Geteuid() != 0 {
		d.add("note", "control groups", "run it as root to hold jobs to what they got", "an ordinary user's jobs are not held to their CPUs, memory and devices")
		return
	}
	h, err := cgroup.Detect()
	if err != nil {
		d.add("broken", "control groups", "", "%v", err)
		return
	}
	if h.Mode == cgroup.None {
		d.add("warning", "control groups", "mount them: see cgroups(7)", "%v", h.Gaps)
		return
	}
	d.add("ok", "control groups", "", "%s: %s", h.Mode, strings.Join(h.Controllers, " "))
	for _, g := range h.Gaps {
		d.add("warning", "control groups", "", "%s", g)
	}
}

func checkGPUs(d *diagnosis, _ site.Dir) {
	helper := besides("stint-nvml")
	found, err := gpu.Detect("/", helper)
	switch {
	case err != nil:
		d.add("warning", "GPUs", "", "%v", err)
	case len(found.GPUs) == 0:
		d.add("ok", "GPUs", "", "there are none here")
	default:
		d.add("ok", "GPUs", "", "%d found", len(found.GPUs))
	}
	if helper == "" {
		d.add("note", "GPU helper", "build it where there is a C compiler: go build -tags cgo ./executor/gpu/nvml", "stint-nvml is not beside this program, so what only NVIDIA's library knows of a GPU is not known")
	}
}

// besides returns the path of a helper program that lies beside this one, "" if it does not.
func besides(name string) string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	if resolved, err := filepath.EvalSymlinks(self); err == nil {
		self = resolved
	}
	path := filepath.Join(filepath.Dir(self), name)
	if info, err := os.Stat(path); err != nil || info.Mode()&0o111 == 0 {
		return ""
	}
	return path
}

func checkNames(d *diagnosis, _ site.Dir) {
	var missing []string
	for _, p := range []string{"getent", "id"} {
		if _, err := exec.LookPath(p); err != nil {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		d.add("warning", "user names", "install libc-bin and coreutils", "%s is not there: users that are not in /etc/passwd go by their numbers", strings.Join(missing, ", "))
		return
	}
	d.add("ok", "user names", "", "the host's files, then getent and id")
}

func checkLimits(d *diagnosis, _ site.Dir) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err == nil && l.Max < 4096 {
		d.add("warning", "open files", "raise it with ulimit -n or LimitNOFILE=", "a process may have %d files open; a busy node needs 4096", l.Max)
	} else {
		d.add("ok", "open files", "", "%d", l.Max)
	}
	if os.Geteuid() != 0 {
		return
	}
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "CapEff:"); ok {
			var caps uint64
			fmt.Sscanf(strings.TrimSpace(rest), "%x", &caps)
			if caps&(1<<unix.CAP_SYS_RESOURCE) == 0 {
				d.add("warning", "rights", "", "root may not raise hard limits here: a job whose submitter had higher ones gets this host's")
			}
		}
	}
}

func checkConf(d *diagnosis, dir site.Dir) {
	c, err := dir.Load()
	if err != nil || c.ConfFile == "" {
		return
	}
	notes, warnings, err := site.Remarks(c.ConfFile)
	if err != nil {
		d.add("broken", "configuration", "", "%v", err)
		return
	}
	d.add("ok", "configuration", "", "%s", c.ConfFile)
	for _, w := range warnings {
		d.add("warning", "configuration", "", "%s", w)
	}
	for _, n := range notes {
		d.add("note", "configuration", "", "%s", n)
	}
}

func checkCluster(d *diagnosis, dir site.Dir) {
	s := lookAt(dir)
	if s.Agent == nil {
		level := "note"
		if s.Processes != nil {
			level = "broken"
		}
		d.add(level, "cluster", "`stint up` starts one", "%s", strings.Join(s.Trouble, "; "))
		return
	}
	info, err := os.Stat(filepath.Join(string(dir), wire.Socket))
	if err == nil && info.Mode().Type() != os.ModeSocket {
		err = errors.New("it is no socket")
	}
	if err != nil {
		d.add("broken", "agent", "", "%v", err)
	}
	if s.Healthy {
		d.add("ok", "cluster", "", "%d of %s up, %s running, %d pending; the ledger is %d behind", s.State.NodesUp, count(int(s.State.Nodes), "node"), count(int(s.State.Running), "job"), s.State.Pending, s.Ledger.Behind)
	}
	for _, t := range s.Trouble {
		d.add("broken", "cluster", "the logs are in "+dir.Logs(), "%s", t)
	}
	checkNodes(d, dir)
	if s.State != nil && len(s.State.Voids) > 0 {
		for _, why := range slices.Sorted(maps.Keys(s.State.Voids)) {
			d.add("note", "voids", "`stint events --void` lists them", "%d: %s", s.State.Voids[why], why)
		}
	}
}
