package tasks

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// killings is the file of the control group of this process in which the kernel counts what it has killed for memory; empty: nobody counts.
func killings() string {
	groups, gerr := os.ReadFile("/proc/self/cgroup")
	mounts, merr := os.ReadFile("/proc/self/mountinfo")
	if gerr != nil || merr != nil {
		return ""
	}
	for _, path := range counters(string(groups), string(mounts)) {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// counters are where that file may be, for what proc(5) has of a process's groups and of what is mounted.
func counters(groups, mounts string) (out []string) {
	for line := range strings.Lines(mounts) {
		mount, system, ok := strings.Cut(strings.TrimSpace(line), " - ")
		m, s := strings.Fields(mount), strings.Fields(system)
		if !ok || len(m) < 5 || len(s) < 3 {
			continue
		}
		file := "memory.oom_control"
		switch {
		case s[0] == "cgroup2":
			file = "memory.events"
		case s[0] != "cgroup" || !has(s[2], "memory"):
			continue
		}
		for line := range strings.Lines(groups) {
			part := strings.SplitN(strings.TrimSpace(line), ":", 3)
			if len(part) < 3 || s[0] == "cgroup2" && part[0] != "0" || s[0] == "cgroup" && !has(part[1], "memory") {
				continue
			}
			if below, inside := strings.CutPrefix(part[2], strings.TrimSuffix(m[3], "/")); inside {
				out = append(out, filepath.Join(m[4], below, file))
			}
		}
	}
	return out
}

func has(list, word string) bool { return strings.Contains(","+list+",", ","+word+",") }

// killed reads how many processes the kernel has killed for memory.
func killed(file string) int {
	if file == "" {
		return 0
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			count, _ := strconv.Atoi(strings.TrimSpace(n))
			return count
		}
	}
	return 0
}
