// Package integration tests Stint as it is used: real processes, real sockets, a real disk, and the commands that people
// type. The programs are built once for a run of the tests.
package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var bin string // directory of the programs

func TestMain(m *testing.M) {
	if conf := os.Getenv(serveEnv); conf != "" {
		if err := serve(conf); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv("STINT_TEST_GREEDY") != "" {
		os.Exit(m.Run()) // as another user: see TestGreed
	}
	if bin = os.Getenv("STINT_TEST_BIN"); bin != "" {
		os.Exit(m.Run()) // built already: in a virtual machine nothing else will do
	}
	os.Exit(func() int {
		if bin = os.Getenv("STINT_BIN"); bin != "" { // they are built, for a campaign that goes on while the tree changes
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "stint-test-bin-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		os.Chmod(dir, 0o755)
		bin = dir
		for name, pkg := range map[string]string{"stint": "stint", "stint-cli": "stint/cli/light", "stint-sbatch": "stint/cli/light/sbatch"} {
			cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), pkg)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "building %s: %v\n%s", pkg, err, out)
				return 1
			}
		}
		return m.Run()
	}())
}

// cluster is one that runs from a directory of its own.
type cluster struct {
	t    *testing.T
	dir  string // of the cluster
	work string // where jobs are submitted; every user may write there
	env  []string
	last []func() // to be done when the cluster is down
}

// patience is how long anything may take that must come about; longer where machines are emulated.
var patience = func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("STINT_TEST_PATIENCE")); err == nil {
		return d
	}
	return 60 * time.Second
}()

// start runs `stint up --detach` with options, and takes the cluster down when the test ends.
func start(t *testing.T, options ...string) *cluster {
	t.Helper()
	c := planned(t)
	c.up(options...)
	return c
}

// planned is a cluster that has folders and has not been started; it is taken down when the test ends.
func planned(t *testing.T) *cluster {
	t.Helper()
	base, err := os.MkdirTemp("", "stint-test-")
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(base, 0o755)
	c := &cluster{t: t, dir: filepath.Join(base, "c"), work: filepath.Join(base, "work")}
	os.Mkdir(c.work, 0o777)
	os.Chmod(c.work, 0o777)
	c.env = clean(append(os.Environ(), "STINT_DIR="+c.dir, "PATH="+bin+":"+os.Getenv("PATH")))
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := filepath.Glob(filepath.Join(c.dir, "log", "*.log"))
			for _, l := range logs {
				data, _ := os.ReadFile(l)
				t.Logf("%s:\n%s", filepath.Base(l), data[max(0, len(data)-3000):])
			}
		}
		c.try("stint", "down", "--kill")
		for _, fn := range c.last {
			fn()
		}
		os.RemoveAll(base)
	})
	return c
}

// clean leaves out what an enclosing job or cluster would have commands do otherwise.
func clean(environ []string) (out []string) {
	for _, nv := range environ {
		if strings.HasPrefix(nv, "SLURM_") || strings.HasPrefix(nv, "SBATCH_") || strings.HasPrefix(nv, "SQUEUE_") || strings.HasPrefix(nv, "SACCT_") || strings.HasPrefix(nv, "STINT_COMPAT") {
			continue
		}
		out = append(out, nv)
	}
	return out
}

func (c *cluster) up(options ...string) {
	c.t.Helper()
	c.do("stint", append([]string{"up", "--detach", "--wait", patience.String(), "--cgroup-under", "stint-test-" + filepath.Base(filepath.Dir(c.dir))}, options...)...)
}

// result is what a command left.
type result struct {
	out, err string
	code     int
}

// try runs a command in the work directory and returns what came of it.
func (c *cluster) try(name string, args ...string) result {
	return c.tryAs(-1, name, args...)
}

// tryAs is try as another user; -1: as this one.
func (c *cluster) tryAs(uid int, name string, args ...string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path := filepath.Join(bin, name)
	if name != "stint" {
		args = append([]string{name}, args...)
		path = filepath.Join(bin, "stint-cli")
	}
	if name == "sbatch" {
		path, args = filepath.Join(bin, "stint-sbatch"), args[1:]
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env = c.work, c.env
	if uid >= 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	r := result{out: out.String(), err: errs.String()}
	if exit, ok := err.(*exec.ExitError); ok {
		r.code = exit.ExitCode()
	} else if err != nil {
		r.code, r.err = -1, r.err+err.Error()
	}
	return r
}

// do runs a command that must succeed and returns what it printed.
func (c *cluster) do(name string, args ...string) string {
	c.t.Helper()
	r := c.try(name, args...)
	if r.code != 0 {
		c.t.Fatalf("%s %s: exit %d\n%s%s", name, strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

// script writes a batch script into the work directory and returns its name.
func (c *cluster) script(name, text string) string {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.work, name), []byte(text), 0o755); err != nil {
		c.t.Fatal(err)
	}
	return name
}

// submit submits a job and returns its id.
func (c *cluster) submit(args ...string) string {
	c.t.Helper()
	return strings.TrimSpace(c.do("sbatch", append([]string{"--parsable"}, args...)...))
}

// read returns a file of the work directory.
func (c *cluster) read(name string) string {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.work, name))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(data)
}

// eventually waits until ok.
func (c *cluster) eventually(what string, ok func() bool) {
	c.t.Helper()
	c.within(patience, what, ok)
}

func (c *cluster) within(limit time.Duration, what string, ok func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("it did not come about: %s\n%s", what, c.try("squeue", "-t", "all").out)
		}
	}
}

// state is a job's, by squeue.
func (c *cluster) state(id string) string {
	return strings.TrimSpace(c.try("squeue", "-h", "-t", "all", "-j", id, "-o", "%T").out)
}

// await waits until a job is in a state.
func (c *cluster) await(id, state string) {
	c.t.Helper()
	c.eventually("job "+id+" is "+state, func() bool { return c.state(id) == state })
}

// processes are those that `stint status` tells of, by daemon; "up" is `stint up` itself.
func (c *cluster) processes() map[string]int {
	c.t.Helper()
	var s struct {
		Processes *struct {
			Pid      int            `json:"pid"`
			Children map[string]int `json:"children"`
		} `json:"processes"`
	}
	if err := json.Unmarshal([]byte(c.try("stint", "status", "--json").out), &s); err != nil || s.Processes == nil {
		c.t.Fatalf("stint status tells of no processes: %v", err)
	}
	s.Processes.Children["up"] = s.Processes.Pid
	return s.Processes.Children
}

func itoa(n int) string { return strconv.Itoa(n) }

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// needRoot skips a test that only root can make.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: jobs of several users, control groups")
	}
}
