package usage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// process is one line of /proc/PID/stat, with what its children had used that it waited for, and /proc/PID/io.
type process struct {
	pid, parent, session int
	zombie               bool
	user, system         time.Duration
	rss, vm, pages       uint64
	read, written        uint64
}

// tick is the unit of times in /proc, the same on every architecture that Linux runs on for these purposes (USER_HZ).
const tick = 10 * time.Millisecond

var pageSize = uint64(os.Getpagesize())

var errStat = errors.New("not the line of a process")

func readProcess(proc string, pid int) (process, error) {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return process{}, err
	}
	p, err := parseStat(string(text))
	if err != nil {
		return process{}, fmt.Errorf("reading process %d: %w", pid, err)
	}
	// Another user's io file is closed to an ordinary user; its reads and writes are then not known.
	if text, err := os.ReadFile(filepath.Join(dir, "io")); err == nil {
		p.read, p.written = parseIO(string(text))
	}
	return p, nil
}

// parseStat takes care that the name in parentheses may hold blanks and parentheses itself.
func parseStat(line string) (process, error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return process{}, errStat
	}
	f := strings.Fields(line[end+1:])
	if len(f) < 22 {
		return process{}, errStat
	}
	var p process
	var err error
	if p.pid, err = strconv.Atoi(strings.TrimSpace(line[:open])); err != nil {
		return process{}, errStat
	}
	num := func(i int) uint64 { // i is the field's number in proc(5), which counts from 1 and has the state third
		n, e := strconv.ParseInt(f[i-3], 10, 64)
		if e != nil {
			// Address space sizes may not fit the signed range.
			u, ue := strconv.ParseUint(f[i-3], 10, 64)
			if ue != nil {
				err = errStat
			}
			return u
		}
		return uint64(max(n, 0))
	}
	p.zombie = f[0] == "Z" || f[0] == "X"
	p.parent, p.session = int(num(4)), int(num(6))
	p.pages = num(12) + num(13)
	p.user = time.Duration(num(14)+num(16)) * tick
	p.system = time.Duration(num(15)+num(17)) * tick
	p.vm, p.rss = num(23), num(24)*pageSize
	return p, err
}

func parseIO(text string) (read, written uint64) {
	for line := range strings.Lines(text) {
		k, v, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(v), 10, 64)
		if err != nil {
			continue
		}
		switch k {
		case "rchar":
			read = n
		case "wchar":
			written = n
		}
	}
	return read, written
}

// Processes finds the processes of a step that has no control group: the leader's session, everything that descends from
// it, and every process that carries the environment entry mark ("NAME=value"; empty: none is looked for), with its own
// descendants. Only marks of processes this user may look at are seen. Processes that have ended are left out. Sorted.
//
// A process that leaves the session, whose parents have all ended, and that drops the mark from its environment is not
// found: that is what control groups are for.
func Processes(proc string, leader int, mark string) ([]int, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var all []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(proc, e.Name(), "stat"))
		if err != nil {
			continue // ended meanwhile
		}
		p, err := parseStat(string(text))
		if err != nil || p.pid != pid {
			continue
		}
		all = append(all, p)
	}
	ours := map[int]bool{}
	for _, p := range all {
		if p.pid == leader || leader > 0 && p.session == leader || hasMark(proc, p.pid, mark) {
			ours[p.pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !ours[p.pid] && ours[p.parent] {
				ours[p.pid], grown = true, true
			}
		}
	}
	var out []int
	for _, p := range all {
		if ours[p.pid] && !p.zombie {
			out = append(out, p.pid)
		}
	}
	slices.Sort(out)
	return out, nil
}

func hasMark(proc string, pid int, mark string) bool {
	if mark == "" {
		return false
	}
	env, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	for _, entry := range bytes.Split(env, []byte{0}) {
		if string(entry) == mark {
			return true
		}
	}
	return false
}
