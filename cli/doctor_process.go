package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"stint/cli/site"
	"stint/events/hostlist"
	"stint/executor/supervisor"
)

// process is one of the cluster's daemons as the kernel sees it.
type process struct {
	pid    int
	role   string // up, bus, controller, agent, ledger, executor, supervisor
	node   string // of executors and supervisors
	state  byte   // R S D T Z …, as in proc(5)
	files  int    // that are open; 0: not ours to see
	most   uint64 // that may be
	gone   bool   // its program was replaced on disk
	parent int
}

func (p process) String() string {
	if p.node != "" {
		return p.role + " of " + p.node
	}
	return p.role
}

// processesOf finds the daemons of the cluster in dir among the processes of this host.
func processesOf(dir site.Dir) []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		data, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || len(data) == 0 {
			continue
		}
		p, ok := daemonOfLine(strings.Split(string(bytes.TrimRight(data, "\x00")), "\x00"), string(dir))
		if !ok {
			continue
		}
		p.pid = pid
		if stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat")); err == nil {
			if i := bytes.LastIndexByte(stat, ')'); i >= 0 {
				fmt.Sscanf(string(stat[i+1:]), " %c %d", &p.state, &p.parent)
			}
		}
		if fds, err := os.ReadDir(filepath.Join("/proc", e.Name(), "fd")); err == nil {
			p.files = len(fds)
		}
		if limits, err := os.ReadFile(filepath.Join("/proc", e.Name(), "limits")); err == nil {
			if _, rest, ok := strings.Cut(string(limits), "Max open files"); ok {
				fmt.Sscan(rest, &p.most)
			}
		}
		if exe, err := os.Readlink(filepath.Join("/proc", e.Name(), "exe")); err == nil {
			p.gone = strings.HasSuffix(exe, " (deleted)")
		}
		all = append(all, p)
	}
	return all
}

var daemonNames = []string{"up", "bus", "controller", "agent", "ledger", "executor", "supervisor"}

// daemonOfLine reads the command line of a process: which daemon of the cluster in dir it is, if any.
func daemonOfLine(argv []string, dir string) (p process, ok bool) {
	if len(argv) < 2 || !strings.HasPrefix(filepath.Base(argv[0]), "stint") || !slices.Contains(daemonNames, argv[1]) {
		return p, false
	}
	p.role = argv[1]
	at := ""
	for i, a := range argv[2:] {
		value := func(name string) (string, bool) {
			if v, ok := strings.CutPrefix(a, name+"="); ok {
				return v, true
			}
			if a == name && i+3 < len(argv) {
				return argv[i+3], true
			}
			return "", false
		}
		if v, ok := value("--dir"); ok {
			at = v
		}
		if v, ok := value("--node"); ok {
			p.node = v
		}
		if a == "--detach" || a == "-d" || a == "--help" {
			return p, false // it only waits for the one that stays
		}
	}
	if at == "" {
		at = "/var/lib/stint"
	}
	return p, filepath.Clean(at) == filepath.Clean(dir)
}

// checkProcesses looks at whether the daemons that this host ought to have are there and can work.
func checkProcesses(r *report, s *scene) {
	c, err := s.dir.Load()
	if err != nil {
		return // no cluster, or not ours to look at
	}
	up, err := s.dir.LoadProcesses()
	if err != nil {
		r.add(warning, "processes", "", "%v", err)
	}
	there := s.processes()
	judgeProcesses(r, string(s.dir), c, up, there)
}

// judgeProcesses says which daemons are missing, stopped or short of something. up is nil if no `stint up` runs.
func judgeProcesses(r *report, dir string, c *site.Cluster, up *site.Processes, there []process) {
	if up == nil && len(there) == 0 {
		r.add(fault, "processes", "stint up --detach --dir "+quote(dir), "the cluster %s was made in %s, and none of its daemons runs on this host", c.Name, dir)
		return
	}
	running := map[string]int{}
	for _, p := range there {
		running[p.role+" "+p.node]++
		switch p.state {
		case 'T', 't':
			r.add(fault, "processes", fmt.Sprintf("kill -CONT %d", p.pid), "the %s (process %d) is stopped by a signal: it answers nobody", p, p.pid)
		case 'D':
			r.add(warning, "processes", fmt.Sprintf("cat /proc/%d/stack says where; look at its disk", p.pid), "the %s (process %d) waits for a disk", p, p.pid)
		case 'Z':
			r.add(fault, "processes", "", "the %s (process %d) is dead, and its parent %d has not noticed", p, p.pid, p.parent)
		}
		if p.most > 0 && uint64(p.files)*10 > p.most*9 {
			r.add(fault, "processes", fmt.Sprintf("prlimit --pid %d --nofile=65536, and LimitNOFILE= for the next start", p.pid), "the %s (process %d) has %d of %d files open", p, p.pid, p.files, p.most)
		}
		if p.gone {
			r.add(note, "processes", "its restart runs the new program; jobs go on", "the program of the %s (process %d) was replaced on disk since it began", p, p.pid)
		}
	}
	split := up == nil
	for name := range orNone(up).Children {
		split = split || name == "bus"
	}
	missing := func(role, node, do string) {
		if running[role+" "+node] == 0 {
			what := role
			if node != "" {
				what += " of " + node
			}
			r.add(fault, "processes", do, "no %s runs here", what)
		}
	}
	if split && c.Embedded {
		again := "`stint up` starts it again by itself within seconds; " + filepath.Join(dir, "log") + " says why it ends"
		if up == nil {
			again = "stint up --detach --dir " + quote(dir) + ", or start its service"
		}
		for _, role := range []string{"bus", "controller", "ledger"} {
			missing(role, "", again)
		}
	}
	if split {
		missing("agent", "", "start it: no command of this host is answered without")
	}
	for _, n := range c.Nodes {
		missing("executor", n, "`stint up`, or its service stint-executor@"+n+": what runs goes on, nothing new starts there")
		missing("supervisor", n, "`stint up`, or its service stint-supervisor@"+n+": nothing can start there")
	}
	if running["up "] > 1 {
		r.add(warning, "processes", "", "%d `stint up` run from %s", running["up "], dir)
	}
	r.add(well, "processes", "", "%s of this cluster here", count(len(there), "daemon"))
}

func orNone(p *site.Processes) *site.Processes {
	if p == nil {
		return &site.Processes{}
	}
	return p
}

// checkSupervisors asks the supervisor of each node of this host how it is.
func checkSupervisors(r *report, s *scene) {
	nodes := nodesOf(s.dir)
	if len(nodes) == 0 || len(s.processes()) == 0 {
		return
	}
	var mu sync.Mutex
	others, mute := map[string][]string{}, map[string][]string{}
	running := 0
	ask := func(n string) {
		ctx, cancel := context.WithTimeout(context.Background(), checkTime)
		defer cancel()
		c, err := supervisor.Dial(ctx, supervisor.SocketPath(s.dir.Node(n)))
		var l *supervisor.Listed
		if err == nil {
			defer c.Close()
			l, err = c.List(ctx)
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			mute["has not answered in "+checkTime.String()] = append(mute["has not answered in "+checkTime.String()], n)
		case err != nil:
			text := strings.ReplaceAll(err.Error(), s.dir.Node(n), "…")
			mute[text] = append(mute[text], n)
		default:
			running += len(l.Running)
			if l.Version != Build() {
				others[l.Version] = append(others[l.Version], n)
			}
		}
	}
	var wait sync.WaitGroup
	for _, n := range nodes {
		wait.Go(func() { ask(n) })
	}
	r.on("asking the supervisors of %s", hostlist.Compress(nodes))
	wait.Wait()
	for _, why := range slices.Sorted(maps.Keys(mute)) {
		names := hostlist.Compress(mute[why])
		r.add(fault, "supervisors", "its log is "+s.dir.Log("supervisor-"+mute[why][0]), "the supervisor of %s: %s: nothing starts there, and what runs there cannot be ended", names, why)
	}
	for _, version := range slices.Sorted(maps.Keys(others)) {
		r.add(warning, "versions", "the next start of the executor upgrades it in place, its jobs go on; the log of `up` says why not if it does not",
			"the supervisor of %s is of version %s, this program is %s", hostlist.Compress(others[version]), version, Build())
	}
	if len(mute) == 0 {
		r.add(well, "supervisors", "", "%s, with %s", is(len(nodes), "answers", "answer"), count(running, "step"))
	}
}

// lately is how old a complaint of a log may be to be told.
const lately = 10 * time.Minute

// checkLogs tells the last complaint of each daemon's log.
func checkLogs(r *report, s *scene) {
	files, err := filepath.Glob(filepath.Join(s.dir.Logs(), "*.log"))
	if err != nil {
		return
	}
	quiet := 0
	for _, f := range files {
		r.on("reading %s", f)
		text := end(f, 64<<10)
		info, err := os.Stat(f)
		if err != nil {
			continue
		}
		if !judgeLog(r, filepath.Base(f), text, info.ModTime(), time.Now()) {
			quiet++
		}
	}
	if quiet > 0 {
		r.add(well, "logs", "", "%s in %s without a complaint of the last %s", count(quiet, "log"), s.dir.Logs(), lately)
	}
}

// judgeLog tells the last complaint in the end of a log, if it is recent, and how often it was made. A line that is not of the
// form of the others is a program's last word.
func judgeLog(r *report, name, text string, written, now time.Time) bool {
	type complaint struct {
		line  string
		level string
		times int
	}
	var last *complaint
	count := map[string]int{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		rest, structured := strings.CutPrefix(line, "time=")
		stamp, rest, _ := strings.Cut(rest, " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if !structured || err != nil {
			if now.Sub(written) < lately && (strings.HasPrefix(line, "stint: ") || strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")) {
				last = &complaint{line: line, level: fault}
				count[line]++
			}
			continue
		}
		level, rest, _ := strings.Cut(rest, " ")
		if now.Sub(at) > lately {
			last = nil
			continue
		}
		what, _, _ := strings.Cut(rest, " error=")
		switch level {
		case "level=ERROR":
			last = &complaint{line: rest, level: warning}
			count[what]++
		case "level=WARN":
			if last == nil || last.level == note {
				last = &complaint{line: rest, level: note}
			}
			count[what]++
		}
		if last != nil {
			what, _, _ := strings.Cut(last.line, " error=")
			last.times = count[what]
		}
	}
	if last == nil {
		return false
	}
	times := ""
	if last.times > 1 {
		times = fmt.Sprintf(" (%d times)", last.times)
	}
	level := last.level
	if level == fault {
		level = warning // whether it runs by now, others say
	}
	line := last.line
	if len(line) > 400 {
		line = line[:400] + "…"
	}
	r.add(level, "logs", "", "%s: %s%s", name, line, times)
	return true
}

// end returns the last bytes of a file, from the beginning of a line on.
func end(name string, most int64) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	size, _ := f.Seek(0, io.SeekEnd)
	f.Seek(max(0, size-most), io.SeekStart)
	data, _ := io.ReadAll(io.LimitReader(f, most))
	if size > most {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	return string(data)
}
