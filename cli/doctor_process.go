package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	dir    string // of its cluster
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
func processesOf(dir site.Dir) []process { return daemonsHere(dir, false) }

// daemonsHere finds the daemons of the cluster in dir among the processes of this host, or those of all clusters.
func daemonsHere(dir site.Dir, all bool) (found []process) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		data, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || len(data) == 0 {
			continue
		}
		p, at, ok := daemonOfLine(strings.Split(string(bytes.TrimRight(data, "\x00")), "\x00"))
		if !ok || !all && at != filepath.Clean(string(dir)) {
			continue
		}
		p.pid, p.dir = pid, at
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
		found = append(found, p)
	}
	return found
}

var daemonNames = []string{"up", "bus", "controller", "agent", "ledger", "executor", "supervisor"}

// daemonOfLine reads the command line of a process: which daemon it is, if any, and of the cluster in which folder.
func daemonOfLine(argv []string) (p process, at string, ok bool) {
	if len(argv) < 2 || !strings.HasPrefix(filepath.Base(argv[0]), "stint") || !slices.Contains(daemonNames, argv[1]) {
		return p, "", false
	}
	p.role = argv[1]
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
			return p, "", false // it only waits for the one that stays
		}
	}
	if at == "" {
		at = "/var/lib/stint"
	}
	return p, filepath.Clean(at), true
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

// checkLogs tells of what each daemon's log complains.
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

// mostComplaints is how many kinds of complaints of one log are told.
const mostComplaints = 5

// complaint is one kind of what a log complains of: lines that differ in nothing but figures, names and causes.
type complaint struct {
	what  string // the message
	line  string // the last of its kind
	level string
	times int
	last  time.Time
}

// judgeLog tells of what the end of a log complains, if it is recent: each kind once, faults first, with its last line, how often it was
// made, and what mends it. A line that is not of the form of the others is a program's last word.
func judgeLog(r *report, name, text string, written, now time.Time) bool {
	var all []*complaint
	add := func(what, line, level string, at time.Time) {
		i := slices.IndexFunc(all, func(c *complaint) bool { return c.what == what && c.level == level })
		if i < 0 {
			i = len(all)
			all = append(all, &complaint{what: what, level: level})
		}
		all[i].line, all[i].last = line, at
		all[i].times++
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		at, level, what, rest, err := readLogLine(line)
		switch {
		case err != nil:
			if now.Sub(written) < lately && (strings.HasPrefix(line, "stint: ") || strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")) {
				add(line, line, warning, written) // whether it runs by now, others say
			}
		case now.Sub(at) > lately:
		case level == slog.LevelError:
			add(what, rest, warning, at)
		case level == slog.LevelWarn:
			add(what, rest, note, at)
		}
	}
	slices.SortStableFunc(all, func(a, b *complaint) int {
		return cmp.Or(strings.Compare(b.level, a.level), b.last.Compare(a.last)) // "warning" lies behind "note"
	})
	for i, c := range all {
		if i == mostComplaints {
			r.add(note, "logs", "", "%s: and %s more", name, count(len(all)-i, "kind"))
			break
		}
		times := ""
		if c.times > 1 {
			times = fmt.Sprintf(" (%d times)", c.times)
		}
		line := c.line
		if len(line) > 400 {
			line = line[:400] + "…"
		}
		r.add(c.level, "logs", logRemedy(c.what+" "+c.line), "%s: %s%s", name, line, times)
	}
	return len(all) > 0
}

// readLogLine reads a line of a daemon's log, of key=value or of JSON: when it was written, its level, its message, and all but time and level.
func readLogLine(line string) (at time.Time, level slog.Level, what, rest string, err error) {
	if strings.HasPrefix(line, "{") {
		var l struct {
			Time  time.Time
			Level slog.Level
			Msg   string
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			return at, level, "", "", err
		}
		return l.Time, l.Level, l.Msg, line, nil
	}
	rest, ok := strings.CutPrefix(line, "time=")
	if !ok {
		return at, level, "", "", errors.New("no line of a log")
	}
	stamp, rest, _ := strings.Cut(rest, " ")
	if at, err = time.Parse(time.RFC3339Nano, stamp); err != nil {
		return at, level, "", "", err
	}
	word, rest, _ := strings.Cut(rest, " ")
	if err := level.UnmarshalText([]byte(strings.TrimPrefix(word, "level="))); err != nil {
		return at, level, "", "", err
	}
	what, _ = strings.CutPrefix(rest, "msg=")
	if quoted, err := strconv.QuotedPrefix(what); err == nil {
		what, _ = strconv.Unquote(quoted)
	} else {
		what, _, _ = strings.Cut(what, " ")
	}
	return at, level, what, rest, nil
}

// logRemedies are what to do about complaints, by words of theirs; the first that fits counts.
var logRemedies = []struct{ words, do string }{
	{"no space left on device", "make room on that disk: df -h, df -i, quota"},
	{"too many open files", "raise LimitNOFILE= of its unit, or ulimit -n before `stint up`"},
	{"moved, emptied or replaced", "put the bus's folder back, and start again"},
	{"cannot allocate memory", "the host is out of memory: free, and what takes it"},
	{"the bus cannot write", "look at the disk of the bus's folder: room, mount, faults (dmesg)"},
	{"the bus could not start again", "look at the disk of the bus's folder: room, mount, faults (dmesg)"},
	{"the bus cannot listen where it did", "nothing: it took another port, and all find it; firewalls may have to know"},
	{"the bus does not wait for the disk", "set sync_interval: always, or take a disk that keeps what it acknowledges"},
	{"does not permit what this role tried", "the key is of another role: look into the keys folder, and restart the bus"},
	{"lost the bus; connecting again", "see the findings on the bus; if it is well now, nothing"},
	{"waiting for the bus; trying on", "see the findings on the bus; if it is well now, nothing"},
	{"nobody says what should run here", "see the findings on the controller"},
	{"a daemon ended", "`stint up` starts it again; what it last said in its log is why"},
	{"could not be upgraded in place", "drain the node, let its jobs end, and start its supervisor anew"},
	{"supervisor stays of another version", "drain the node, let its jobs end, and start its supervisor anew"},
	{"the supervisor of this node cannot be reached", "start it: `stint up`, or its service stint-supervisor@NODE"},
	{"this node could not start a job", "`scontrol show node` says why it is out of service; mend that and resume it"},
	{"not everything can be enforced here", "see the findings on control groups and limits"},
	{"cannot be removed", "see the finding on what jobs have left behind"},
	{"processes do not go away", "they wait in the kernel, for a disk or a network file system: cat /proc/PID/stack"},
	{"a pass failed", "the job is held; report the stack in the log"},
	{"set MailProg", "set MailProg in slurm.conf, and scontrol reconfigure"},
	{"a letter is", "MailProg does not work: run it by hand"},
	{"sending a letter", "MailProg does not work: run it by hand"},
	{"snapshot", "nothing is lost: the next start folds more; look at the disk of the controller's folder"},
	{"the lease is lost", "the bus was slow to answer, or this host stood still: see the findings on the bus, its disk and the load"},
	{"the loop is stuck", "restart that controller; report what its log says"},
	{"asks more than one may", "talk to that user, or set SlurmctldParameters=rl_…"},
	{"too many files are open", "raise LimitNOFILE= of its unit, or ulimit -n before `stint up`"},
}

func logRemedy(text string) string {
	for _, m := range logRemedies {
		if strings.Contains(text, m.words) {
			return m.do
		}
	}
	return ""
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
