package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"stint/cli/site"
	"stint/events"
	"stint/events/hostlist"
	"stint/executor/cgroup"
	"stint/executor/gpu"
	"stint/executor/machine"
)

func checkMachine(r *report, _ *scene) {
	m, err := machine.Read("/", os.TempDir())
	if err != nil {
		r.add(fault, "machine", "", "%v", err)
		return
	}
	r.add(well, "machine", "", "%s: %s, %s and %s each, %d MiB of memory (%s, %s)", m.Hostname, count(int(m.Sockets), "socket"), count(int(m.CoresPerSocket), "core"), count(int(m.ThreadsPerCore), "thread"), m.MemoryMiB, m.OS, runtime.Version())
	if cpus, err := machine.Allowed(); err == nil && len(cpus) < m.CPUs() {
		r.add(note, "machine", "", "this process may use %d of the %d CPUs", len(cpus), m.CPUs())
	}
	load, free, err := machine.Now("/")
	if err != nil {
		return
	}
	if m.MemoryMiB > 0 && free < m.MemoryMiB/50 {
		r.add(warning, "memory", "end what takes it: ps -e --sort=-rss -o pid,user,rss,args | head", "%d of %d MiB are free: processes may be ended for want of memory, the cluster's own among them", free, m.MemoryMiB)
	}
	if cpus := m.CPUs(); cpus > 0 && int(load) > cpus*100*8 {
		r.add(note, "machine", "", "the load is %.1f on %d CPUs: answers are slow to come", float64(load)/100, cpus)
	}
}

func checkHostName(r *report, _ *scene) {
	name := site.HostName()
	r.on("looking up the host's own name %s", name)
	addrs, err := net.LookupHost(name)
	own, _ := net.InterfaceAddrs()
	judgeHostName(r, name, addrs, err, own)
}

// judgeHostName says to which addresses the host's own name leads, and whether one of its interfaces (own; none: not known) has one of them.
func judgeHostName(r *report, name string, addrs []string, err error, own []net.Addr) {
	here := func(addr string) bool {
		ip := net.ParseIP(addr)
		return ip == nil || ip.IsLoopback() || slices.ContainsFunc(own, func(a net.Addr) bool { n, ok := a.(*net.IPNet); return ok && n.IP.Equal(ip) })
	}
	switch {
	case err != nil || len(addrs) == 0:
		r.add(warning, "host name", "add it to /etc/hosts", "the host's own name %s has no address: %v", name, err)
	case len(own) > 0 && !slices.ContainsFunc(addrs, here):
		r.add(warning, "host name", "correct it: getent hosts "+name+", /etc/hosts", "%s is %s, which no interface of this host has: programs of jobs that call each other by the names of hosts do not find it", name, strings.Join(addrs, " "))
	default:
		r.add(well, "host name", "", "%s is %s", name, strings.Join(addrs, " "))
	}
}

func checkGroups(r *report, _ *scene) {
	if os.Geteuid() != 0 {
		r.add(note, "control groups", "run the cluster as root to hold jobs to what they got", "an ordinary user's jobs are not held to their CPUs, memory and devices")
		return
	}
	h, err := cgroup.Detect()
	if err != nil {
		r.add(fault, "control groups", "", "%v", err)
		return
	}
	if h.Mode == cgroup.None {
		r.add(warning, "control groups", "mount them: see cgroups(7)", "jobs are not held to anything: %v", h.Gaps)
		return
	}
	r.add(well, "control groups", "", "%s: %s", h.Mode, strings.Join(h.Controllers, " "))
	for _, g := range h.Gaps {
		r.add(warning, "control groups", "", "%s", g)
	}
	for _, err := range h.Try() {
		r.add(fault, "control groups", "root must be able to make groups there: look at how it is mounted, and with version 2 at Delegate= of the service", "no group can be made: %v", err)
	}
}

func checkGPUs(r *report, s *scene) {
	helper := besides("stint-nvml")
	r.on("asking the driver for GPUs (%s)", helper)
	found, err := gpu.Detect("/", helper)
	switch {
	case err != nil:
		r.add(warning, "GPUs", "", "%v", err)
	case len(found.GPUs) == 0:
		r.add(well, "GPUs", "", "there are none here")
	default:
		r.add(well, "GPUs", "", "%d found", len(found.GPUs))
	}
	for _, n := range found.Notes {
		r.add(note, "GPUs", "", "%s", n)
	}
	if helper == "" {
		r.add(note, "GPU helper", "build it where there is a C compiler: go build -tags cgo ./executor/gpu/nvml", "stint-nvml is not beside this program, so what only NVIDIA's library knows of a GPU is not known")
	}
	c, err := s.dir.Load()
	if err != nil || c.ConfFile == "" || c.Virtual {
		return
	}
	config, _, err := site.ReadConf(c.ConfFile, uint32(os.Geteuid()))
	if err != nil {
		return // checkConf says so
	}
	judgeGPUs(r, config, c.Nodes, len(found.GPUs))
}

// judgeGPUs compares how many GPUs the configuration gives the nodes of this host with how many it has.
func judgeGPUs(r *report, config *events.Config, nodes []string, has int) {
	wanted := uint64(0)
	for _, def := range config.GetNodes() {
		names, err := hostlist.Expand(def.Names, hostlist.MaxHosts)
		if err != nil {
			continue
		}
		for _, g := range def.Gres {
			if g.Name == "gpu" && g.Files == "" {
				wanted += g.Count * uint64(common(names, nodes))
			}
		}
	}
	switch {
	case wanted > uint64(has):
		r.add(warning, "GPUs", "correct Gres= in slurm.conf and gres.conf, or look at why the driver shows fewer (nvidia-smi), then: scontrol reconfigure", "the configuration gives this host %d GPUs, and %d are found", wanted, has)
	case wanted < uint64(has) && wanted > 0:
		r.add(note, "GPUs", "", "the configuration gives this host %d GPUs, and %d are found: the others are nobody's", wanted, has)
	}
}

// common is how many of some names are also among others.
func common(names, others []string) (n int) {
	for _, a := range names {
		for _, b := range others {
			if a == b {
				n++
			}
		}
	}
	return n
}

// besides returns the path of a helper program that lies beside this one, "" if it does not.
func besides(name string) string {
	self, err := self()
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(self), name)
	if info, err := os.Stat(path); err != nil || info.Mode()&0o111 == 0 {
		return ""
	}
	return path
}

func checkNames(r *report, _ *scene) {
	var missing []string
	for _, p := range []string{"getent", "id"} {
		if _, err := exec.LookPath(p); err != nil {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		r.add(warning, "user names", "install libc-bin and coreutils", "%s is not there: users that are not in /etc/passwd go by their numbers", strings.Join(missing, ", "))
		return
	}
	// A directory of users that does not answer makes every submission wait.
	r.on("asking for a user that is not there (getent passwd): the directory of users that /etc/nsswitch.conf names does not answer")
	exec.Command("getent", "passwd", "stint-doctor-asks").Run()
	r.add(well, "user names", "", "the host's files, then getent and id")
}

// The kernel's word on its clock: bits of the status of adjtimex(2).
const (
	clockUnsynchronised = 0x40
	clockError          = 5
)

func checkClock(r *report, _ *scene) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		r.add(note, "clock", "", "the kernel does not say how right its clock is: %v", err)
		return
	}
	judgeClock(r, time.Now(), state == clockError || t.Status&clockUnsynchronised != 0, time.Duration(t.Maxerror)*time.Microsecond)
}

// judgeClock says how right this host's clock is, by the kernel's word.
func judgeClock(r *report, now time.Time, adrift bool, most time.Duration) {
	const keep = "keep it right: install chrony or systemd-timesyncd"
	switch {
	case now.Year() < 2024:
		r.add(fault, "clock", keep, "it is said to be %s", now.Format(time.DateTime))
	case adrift:
		r.add(note, "clock", keep, "nothing keeps this host's clock right; that matters where a cluster has several hosts")
	case most > time.Second:
		r.add(warning, "clock", keep, "this host's clock may be wrong by %s", most.Round(100*time.Millisecond))
	default:
		r.add(well, "clock", "", "right within %s", most.Round(time.Millisecond))
	}
}

// leastFiles is how many files a process of a busy node may have open at once.
const leastFiles = 4096

func checkLimits(r *report, _ *scene) {
	text := func(n uint64) string {
		if n == unix.RLIM_INFINITY {
			return "any number"
		}
		return strconv.FormatUint(n, 10)
	}
	var parts []string
	for _, k := range []struct {
		which int
		least uint64
		what  string
		do    string
	}{
		{unix.RLIMIT_NOFILE, leastFiles, "open files", "raise it with ulimit -n or LimitNOFILE="},
		{unix.RLIMIT_NPROC, 4096, "processes", "raise it with ulimit -u or LimitNPROC="},
	} {
		var l unix.Rlimit
		if unix.Getrlimit(k.which, &l) != nil {
			continue
		}
		if l.Max < k.least {
			r.add(warning, "limits", k.do, "a process here may have %d %s; a busy node needs %d", l.Max, k.what, k.least)
		} else {
			parts = append(parts, text(l.Max)+" "+k.what)
		}
	}
	var lock, core unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lock) == nil && unix.Getrlimit(unix.RLIMIT_CORE, &core) == nil {
		size := func(n uint64) string {
			if n == unix.RLIM_INFINITY {
				return "any number of"
			}
			return strconv.FormatUint(n>>10, 10)
		}
		parts = append(parts, size(lock.Max)+" KiB locked in memory", size(core.Max)+" KiB of core")
	}
	if used, most, ok := tasksOfKernel(); ok {
		if used*10 > most*9 {
			r.add(fault, "limits", "end what has so many, or raise it: sysctl kernel.pid_max kernel.threads-max", "%d of %d processes and threads that the kernel allows are there: soon none can be started", used, most)
		} else {
			parts = append(parts, fmt.Sprintf("%d of %d tasks of the kernel's", used, most))
		}
	}
	if used, most, ok := openOfKernel(); ok && used*10 > most*9 {
		r.add(fault, "limits", "end what has so many, or raise it: sysctl fs.file-max", "%d of %d files that the kernel allows are open", used, most)
	}
	if n, ok := numberIn("/proc/sys/fs/inotify/max_user_instances"); ok && n < 128 {
		r.add(note, "limits", "sysctl fs.inotify.max_user_instances=512", "a user may have %d watchers of files (inotify); programs of jobs may want more", n)
	}
	r.add(well, "limits", "", "%s", strings.Join(parts, ", "))
	if os.Geteuid() == 0 && !mayRaise() {
		r.add(note, "rights", "start it with CAP_SYS_RESOURCE", "root may not raise hard limits here: a job whose submitter had higher ones gets this host's")
	}
}

// mayRaise says whether this process may raise its hard limits.
func mayRaise() bool {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "CapEff:"); ok {
			var caps uint64
			fmt.Sscanf(strings.TrimSpace(rest), "%x", &caps)
			return caps&(1<<unix.CAP_SYS_RESOURCE) != 0
		}
	}
	return true
}

func numberIn(path string) (uint64, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil
}

// tasksOfKernel is how many processes and threads there are, and how many there can be.
func tasksOfKernel() (used, most uint64, ok bool) {
	most, ok = numberIn("/proc/sys/kernel/pid_max")
	if n, there := numberIn("/proc/sys/kernel/threads-max"); there && n < most {
		most = n
	}
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil || !ok {
		return 0, 0, false
	}
	fields := strings.Fields(string(data))
	if len(fields) < 4 {
		return 0, 0, false
	}
	_, all, _ := strings.Cut(fields[3], "/")
	used, err = strconv.ParseUint(all, 10, 64)
	return used, most, err == nil
}

// openOfKernel is how many files are open, and how many can be.
func openOfKernel() (used, most uint64, ok bool) {
	data, err := os.ReadFile("/proc/sys/fs/file-nr")
	if err != nil {
		return 0, 0, false
	}
	var free uint64
	n, err := fmt.Sscan(string(data), &used, &free, &most)
	return used, most, err == nil && n == 3
}

// plainErr is an error without the name of the call, which says nothing to people.
func plainErr(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
