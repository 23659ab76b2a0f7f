package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"stint/cli/site"
)

// side is one of the two clusters that are compared.
type side struct {
	name  string
	b     *bench
	env   []string
	enter []string // the words before a command that run it inside
	// daemons are the process ids of the central daemons: what answers and remembers, not what runs jobs.
	daemons    func() []int
	controller func() int // the process that has the queue
	stop       func()
}

// up is what `stint up` wrote down of its processes, nothing if it does not run.
func (s *side) up() site.Processes {
	if up, err := site.Dir(s.state()).LoadProcesses(); err == nil && up != nil {
		return *up
	}
	return site.Processes{}
}

// all are all processes of Stint.
func (s *side) all() []int {
	up := s.up()
	return append(slices.Collect(maps.Values(up.Children)), up.Pid)
}

// command is a command of Slurm's names, run inside.
func (s *side) command(words ...string) *exec.Cmd {
	words = append(append([]string(nil), s.enter...), words...)
	c := exec.Command(words[0], words[1:]...)
	c.Env, c.Dir = s.env, s.b.dir
	return c
}

// do runs a command and wants it to succeed.
func (s *side) do(words ...string) (string, error) {
	c := s.command(words...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %s: %w: %s", s.name, strings.Join(words, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// until runs a command until it answers what is wanted, for at most the time.
func (s *side) until(limit time.Duration, ok func(out string) bool, words ...string) error {
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		out, err := s.do(words...)
		if err == nil && ok(out) {
			return nil
		}
		if time.Since(begun) > limit {
			return fmt.Errorf("%s: %s did not become what it must within %v: %v %.200s", s.name, strings.Join(words, " "), limit, err, out)
		}
	}
}

// measure runs a command many times inside and measures each.
func (s *side) measure(n, parallel int, words ...string) (*measured, error) {
	c := s.command(append([]string{s.b.self, "inner", strconv.Itoa(n), strconv.Itoa(parallel)}, words...)...)
	c.Stderr = os.Stderr
	before := spent(s.daemons())
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: measuring %s: %w", s.name, strings.Join(words, " "), err)
	}
	m := new(measured)
	if err := json.Unmarshal(out, m); err != nil {
		return nil, fmt.Errorf("%s: measuring %s: %w", s.name, strings.Join(words, " "), err)
	}
	m.Daemons = (spent(s.daemons()) - before) / float64(n)
	return m, nil
}

func environ(extra ...string) (env []string) {
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); name != "PATH" && name != "STINT_DIR" && !strings.HasPrefix(name, "SLURM_") && !strings.HasPrefix(name, "SBATCH_") {
			env = append(env, e)
		}
	}
	return append(env, extra...)
}

// start brings both sides up: the real one with a profile of its script (none: ""), and Stint with a slurm.conf.
func (b *bench) start(profile string, nodes int, conf string, up ...string) (real, own *side, err error) {
	if b.oracle != "" && profile != "" {
		if real, err = b.startReal(profile, nodes, 8); err != nil {
			return nil, nil, err
		}
	}
	own, err = b.startOwn(conf, up...)
	return real, own, err
}

// realName is what the real cluster is called.
const realName = "figures"

// realDir is the folder that its script keeps it in.
func realDir() string {
	base := os.Getenv("ORACLE_RUN")
	if base == "" {
		base = "/var/tmp/slurm-oracle"
	}
	return filepath.Join(base, realName)
}

func (b *bench) startReal(profile string, nodes, cpus int) (*side, error) {
	folder, err := b.profiles(cpus)
	if err != nil {
		return nil, err
	}
	script := filepath.Join(folder, "oracle")
	dir := realDir()
	s := &side{name: "Slurm", b: b, env: environ("PATH=/usr/sbin:/usr/bin:/sbin:/bin")}
	s.stop = func() {
		exec.Command(script, realName, "down").Run()
		os.RemoveAll(dir)
		for _, d := range []string{"/dev/shm/stint-oracle-state-acct", "/dev/shm/stint-oracle-state-noacct"} {
			os.RemoveAll(d)
		}
	}
	s.stop()
	if out, err := exec.Command(script, realName, "up", profile, strconv.Itoa(nodes)).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("starting the real one: %w: %s", err, out)
	}
	b.sides = append(b.sides, s)
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		return nil, fmt.Errorf("starting the real one: %w", err)
	}
	s.enter = []string{"nsenter", "-t", strings.TrimSpace(string(pid)), "-n", "-m", "--wd=" + b.dir}
	read := func(file string) int {
		text, _ := os.ReadFile(filepath.Join(dir, "run", file))
		p, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		return p
	}
	s.controller = func() int { return read("slurmctld.pid") }
	s.daemons = func() (pids []int) {
		for _, f := range []string{"slurmctld.pid", "slurmdbd.pid", "mysqld.pid"} {
			if p := read(f); p != 0 {
				pids = append(pids, p)
			}
		}
		return pids
	}
	return s, nil
}

func (b *bench) startOwn(conf string, up ...string) (*side, error) {
	dir, err := os.MkdirTemp(b.dir, "stint-")
	if err != nil {
		return nil, err
	}
	os.Chmod(dir, 0o755)
	state := filepath.Join(dir, "d")
	s := &side{name: "Stint", b: b, enter: []string{"/usr/bin/env"}, env: environ("PATH="+filepath.Join(state, "bin")+":"+b.bin+":/usr/sbin:/usr/bin:/sbin:/bin", "STINT_DIR="+state)}
	file := filepath.Join(dir, "slurm.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		return nil, err
	}
	s.stop = func() {
		c := exec.Command(filepath.Join(b.bin, "stint"), "down", "--dir", state, "--kill")
		c.Env = s.env
		c.Run()
		os.RemoveAll(dir)
	}
	s.daemons = func() (pids []int) {
		up := s.up()
		for name, p := range up.Children {
			if !strings.HasPrefix(name, "executor") && !strings.HasPrefix(name, "supervisor") {
				pids = append(pids, p)
			}
		}
		if up.Pid != 0 {
			pids = append(pids, up.Pid)
		}
		return pids
	}
	s.controller = func() int {
		up := s.up()
		if p := up.Children["controller"]; p != 0 {
			return p
		}
		return up.Pid
	}
	b.sides = append(b.sides, s)
	return s, b.upOwn(s, append([]string{"--config", file}, up...)...)
}

func (b *bench) upOwn(s *side, words ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(b.bin, "stint"), append([]string{"up", "--detach"}, words...)...)
	c.Env, c.Dir = s.env, b.dir
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("starting Stint: %w: %s", err, out)
	}
	return nil
}

// down ends what is up.
func (b *bench) down() {
	for _, s := range b.sides {
		s.stop()
	}
	b.sides = nil
}
