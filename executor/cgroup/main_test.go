package cgroup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary plays the jobs itself, so that the same suite runs where nothing else is installed.
func TestMain(m *testing.M) {
	if role := os.Getenv("STINT_CGROUP_ROLE"); role != "" {
		play(role, os.Args[1:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func play(role string, args []string) {
	switch role {
	case "where": // which CPUs, and which groups
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(0, &set); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		for i := 0; i < 1024; i++ {
			if set.IsSet(i) {
				fmt.Println("cpu", i)
			}
		}
		b, _ := os.ReadFile("/proc/self/cgroup")
		fmt.Print(string(b))
	case "take": // MiB of memory
		n, _ := strconv.Atoi(args[0])
		b, err := unix.Mmap(-1, 0, n<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		fmt.Println("taken")
		if len(args) > 1 {
			time.Sleep(time.Minute)
		}
	case "open": // each path, for reading and writing
		for _, p := range args {
			fd, err := unix.Open(p, unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err == nil {
				unix.Close(fd)
			}
			fmt.Println(p, errName(err))
		}
	case "spin": // for so many milliseconds of CPU time
		n, _ := strconv.Atoi(args[0])
		var u unix.Rusage
		for u.Utime.Nano()+u.Stime.Nano() < int64(n)*int64(time.Millisecond) {
			for i := 0; i < 1e6; i++ {
				_ = i
			}
			_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
		}
	case "sleep":
		fmt.Println("asleep")
		time.Sleep(time.Minute)
	case "bomb": // forks for ever, each child in a session of its own
		fmt.Println("lit")
		for {
			c := self("bomb")
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if c.Start() != nil {
				time.Sleep(time.Millisecond)
			}
		}
	case "stray": // leaves a grandchild in another session behind
		c := self("sleep")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("left", c.Process.Pid)
	case "successor":
		succeed()
	case "fork": // so many children that wait; says how many it got
		n, _ := strconv.Atoi(args[0])
		got := 0
		for range n {
			if self("sleep").Start() == nil {
				got++
			}
		}
		fmt.Println("forked", got)
		time.Sleep(time.Minute)
	}
}

func errName(err error) string {
	if err == nil {
		return "ok"
	}
	return unix.ErrnoName(err.(syscall.Errno))
}

func self(role string, args ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", args...)
	c.Env = append(os.Environ(), "STINT_CGROUP_ROLE="+role, "GOMAXPROCS=1")
	return c
}

// hosts are the kinds of host that this machine can be taken for: what it is, and on a hybrid one also version 1 alone.
func hosts(t testing.TB) map[string]Host {
	if os.Geteuid() != 0 {
		t.Skip("needs root: an ordinary user can make no control groups")
	}
	h, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	if h.Mode == None {
		t.Skip("needs control groups that can be written: ", h.Gaps)
	}
	out := map[string]Host{h.Mode.String(): h}
	if h.Mode == Hybrid {
		v1, err := Detect()
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range v1.hierarchies {
			if x.v2 {
				v1.hierarchies = append(v1.hierarchies[:i:i], v1.hierarchies[i+1:]...)
				break
			}
		}
		v1.Mode = V1
		out["v1"] = v1
	}
	return out
}

// each runs a test on a tree of its own on every kind of host.
func each(t *testing.T, f func(t *testing.T, tree *Tree)) {
	for name, h := range hosts(t) {
		t.Run(name, func(t *testing.T) { f(t, newTree(t, h, Config{})) })
	}
}

var trees atomic.Int64

func newTree(t testing.TB, h Host, cfg Config) *Tree {
	if cfg.Under == "" {
		cfg.Under = fmt.Sprintf("stint-test-%d-%d", os.Getpid(), trees.Add(1))
	}
	tree, err := open(h, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		entries, err := tree.List()
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			g, err := tree.Find(e.Job, e.Step)
			if err != nil {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
			if err := g.Kill(ctx); err != nil {
				t.Error(err)
			}
			cancel()
			if err := g.Remove(); err != nil {
				t.Error(err)
			}
		}
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
		for _, dir := range tree.Dirs() {
			if exists(dir) {
				t.Errorf("%s is left behind", dir)
			}
		}
	})
	return tree
}

// mustCreate makes a step with all that its job has, if it's the first; or with a part.
func mustCreate(t testing.TB, tree *Tree, job uint64, step string, l Limits) *Group {
	t.Helper()
	own := l
	if _, err := tree.Find(job, ""); err != nil {
		own = Limits{}
	}
	g, err := tree.Create(job, step, os.Getuid(), l, own)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// start launches a role in a group; the process is waited for at the end of the test.
func start(t testing.TB, g *Group, role string, args ...string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	var out strings.Builder
	c := self(role, args...)
	c.Stdout = &out
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := g.Launch(c.SysProcAttr, c.Start); err != nil {
		t.Fatal(err)
	}
	return c, &out
}

// output runs a role to its end.
func output(t testing.TB, g *Group, role string, args ...string) string {
	t.Helper()
	c, out := start(t, g, role, args...)
	if err := c.Wait(); err != nil {
		t.Fatalf("%s %v: %v\n%s", role, args, err, out)
	}
	return out.String()
}

// within polls until a condition holds.
func within(t testing.TB, d time.Duration, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}
