package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The tests run real supervisors: this test program, started again with its configuration in a variable.

const (
	configVariable = "STINT_TEST_SUPERVISOR"
	ignoreVariable = "STINT_TEST_IGNORE_SIGINT"
)

type testConfig struct {
	Node, HostName, StateDir, Spool string
	SampleEvery, TombstoneAge       time.Duration
	Version                         string
	CompactFrom                     int64
	Files, Processes                uint64 // limits of the supervisor itself; 0: as they are
	Under                           string // where the control groups of the node go; empty: none are used
}

func TestMain(m *testing.M) {
	v, ok := os.LookupEnv(configVariable)
	if !ok {
		os.Exit(m.Run())
	}
	if os.Getenv(ignoreVariable) != "" {
		signal.Ignore(syscall.SIGINT, syscall.SIGQUIT)
		os.Unsetenv(ignoreVariable)
		if err := syscall.Exec("/proc/self/exe", os.Args, os.Environ()); err != nil {
			panic(err)
		}
	}
	var c testConfig
	if err := json.Unmarshal([]byte(v), &c); err != nil {
		panic(err)
	}
	if c.Files > 0 {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: c.Files, Max: c.Files}); err != nil {
			panic(err)
		}
	}
	if c.Processes > 0 {
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: c.Processes, Max: c.Processes}); err != nil {
			panic(err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := Main(ctx, Config{Node: c.Node, HostName: c.HostName, StateDir: c.StateDir, Spool: c.Spool, SampleEvery: c.SampleEvery,
		TombstoneAge: c.TombstoneAge, CompactFrom: c.CompactFrom, Unconfined: c.Under == "", Under: c.Under, Version: c.Version,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// rig is a supervisor in a process of its own, and a client of it.
type rig struct {
	t      testing.TB
	conf   testConfig
	dir    string // for files of steps, open to all
	cmd    *exec.Cmd
	client *Client
	events <-chan Event
	env    []string
	as     *syscall.Credential
	exits  map[id]*Exited // seen while something else was waited for
}

var jobs atomic.Uint64

// nextJob is a number that no other step of this test run, or of one that runs beside it, has.
func nextJob() uint64 { return uint64(os.Getpid())<<20 + jobs.Add(1) }

func newRig(t testing.TB, change ...func(*rig)) *rig {
	t.Helper()
	top, err := os.MkdirTemp("", "stint-sup-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(top, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	r := &rig{t: t, dir: filepath.Join(top, "work")}
	r.conf = testConfig{Node: "n1", StateDir: filepath.Join(top, "state"), SampleEvery: time.Minute, Version: "first"}
	if err := os.Mkdir(r.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(r.dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(r)
	}
	if r.as != nil {
		if err := os.Chown(top, int(r.as.Uid), int(r.as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	t.Cleanup(r.end)
	return r
}

// start starts the supervisor and connects.
func (r *rig) start() {
	r.t.Helper()
	b, err := json.Marshal(r.conf)
	if err != nil {
		r.t.Fatal(err)
	}
	r.cmd = exec.Command("/proc/self/exe")
	r.cmd.Env = append(append(os.Environ(), configVariable+"="+string(b)), r.env...)
	r.cmd.Stdout, r.cmd.Stderr = os.Stderr, os.Stderr
	r.cmd.Dir = "/"
	if r.as != nil {
		r.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: r.as}
	}
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.connect()
}

// connect dials and watches; the supervisor may not listen yet.
func (r *rig) connect() {
	r.t.Helper()
	until := time.Now().Add(20 * time.Second)
	for {
		c, err := Dial(context.Background(), SocketPath(r.conf.StateDir))
		if err == nil {
			// The socket of one that was killed may be reached for an instant, by a child that had not come to its exec.
			if _, err = c.List(context.Background()); err != nil {
				c.Close()
			}
		}
		if err == nil {
			r.client, r.exits = c, map[id]*Exited{}
			if r.events, err = c.Watch(context.Background()); err != nil {
				r.t.Fatal(err)
			}
			return
		}
		if time.Now().After(until) {
			r.t.Fatalf("no supervisor: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// kill kills the supervisor as nothing can prepare for.
func (r *rig) kill() {
	r.t.Helper()
	if err := r.cmd.Process.Kill(); err != nil {
		r.t.Fatal(err)
	}
	_ = r.cmd.Wait()
	r.client.Close()
}

func (r *rig) end() {
	if r.cmd.ProcessState != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if l, err := r.client.List(ctx); err == nil {
		for _, x := range l.Running {
			k := x.Started.Key
			_, _ = r.client.Terminate(ctx, &Terminate{Job: k.Job, Run: k.Run, Cause: Cause_DOWN})
		}
	}
	if err := r.client.Stop(ctx, StopMode_KILL_STEPS); err != nil {
		r.t.Errorf("stopping: %v", err)
		_ = r.cmd.Process.Kill()
	}
	if err := r.cmd.Wait(); err != nil {
		r.t.Errorf("the supervisor ended with %v", err)
	}
	r.client.Close()
}

// script is a launch of a bash script as the user the supervisor runs as.
func (r *rig) script(body string, change ...func(*Launch)) *Launch {
	job := nextJob()
	l := &Launch{
		Key: &Key{Job: job, Step: StepBatch}, Node: r.conf.Node, Script: []byte("#!/bin/bash\n" + body),
		Env:    [][]byte{[]byte("PATH=/usr/local/bin:/usr/bin:/bin"), fmt.Appendf(nil, "SLURM_JOB_ID=%d", job), []byte("SLURMD_NODENAME=" + r.conf.Node)},
		Cwd:    []byte(r.dir),
		Umask:  0o022,
		Stdout: &Stream{Path: fmt.Appendf(nil, "out-%d", job)},
	}
	if r.as != nil {
		l.Uid, l.Gid = r.as.Uid, r.as.Gid
	}
	for _, f := range change {
		f(l)
	}
	return l
}

// launch launches, and fails the test if that fails.
func (r *rig) launch(l *Launch) *Started {
	r.t.Helper()
	a := r.try(l)
	if a.Failure != Failure_NO_FAILURE {
		r.t.Fatalf("launch failed: %v: %s", a.Failure, a.Detail)
	}
	return a.Started
}

func (r *rig) try(l *Launch) *Launched {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	a, err := r.client.Launch(ctx, l)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// next waits for an event that is wanted.
func (r *rig) next(what string, want func(Event) bool) Event {
	r.t.Helper()
	patience := time.After(30 * time.Second)
	for {
		select {
		case e, ok := <-r.events:
			if !ok {
				r.t.Fatalf("the watch ended while waiting for %s", what)
			}
			if want(e) {
				return e
			}
			if e.Exited != nil {
				r.exits[idOf(e.Exited.Key)] = e.Exited
			}
		case <-patience:
			r.t.Fatalf("no %s in 30 s", what)
		}
	}
}

// exit waits for the end of a step.
func (r *rig) exit(k *Key) *Exited {
	r.t.Helper()
	if x := r.exits[idOf(k)]; x != nil {
		delete(r.exits, idOf(k))
		return x
	}
	return r.next(fmt.Sprintf("end of %s", idOf(k)), func(e Event) bool { return e.Exited != nil && idOf(e.Exited.Key) == idOf(k) }).Exited
}

// run launches a step, waits for its end, and returns that and its output.
func (r *rig) run(l *Launch) (*Exited, string) {
	r.t.Helper()
	r.launch(l)
	x := r.exit(l.Key)
	return x, r.output(l)
}

func (r *rig) output(l *Launch) string {
	r.t.Helper()
	p := string(l.Stdout.Path)
	if p == "" {
		return ""
	}
	if !filepath.IsAbs(p) {
		p = filepath.Join(r.dir, p)
	}
	b, err := os.ReadFile(p)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

// await polls for a condition.
func (r *rig) await(what string, ok func() bool) {
	r.t.Helper()
	until := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(until) {
			r.t.Fatalf("in 20 s it did not come to be that %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// lineOf waits for the first line in a file of the working directory.
func (r *rig) lineOf(name string) string {
	r.t.Helper()
	var line string
	r.await(name+" has a line", func() bool {
		b, err := os.ReadFile(filepath.Join(r.dir, name))
		if err != nil {
			return false
		}
		l, _, ok := strings.Cut(string(b), "\n")
		line = l
		return ok
	})
	return line
}

// lives tells whether a process is there and not a zombie.
func lives(pid int) bool {
	s, err := readStat(pid)
	return err == nil && s.state != 'Z'
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it starts steps of other users")
	}
}

func asNobody(r *rig) { r.as = &syscall.Credential{Uid: 65534, Gid: 65534} }
