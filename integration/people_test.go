package integration

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"stint/cli/wire"
	"stint/events"
)

// person is an ordinary user made for a test.
type person struct {
	name, home string
	uid, gid   uint32
	groups     []uint32
}

// people makes two users, the first of them in a group of its own name and one more, and removes them when the test ends.
func people(t *testing.T) (alice, bob person, club string) {
	t.Helper()
	needRoot(t)
	for _, tool := range []string{"useradd", "userdel", "groupadd", "groupdel"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s, of Debian's package passwd", tool)
		}
	}
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	homes, err := os.MkdirTemp("", "stint-test-homes-")
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(homes, 0o755)
	t.Cleanup(func() { os.RemoveAll(homes) })
	number := os.Getpid() % 100_000
	club = fmt.Sprintf("stclub%d", number)
	run("groupadd", club)
	t.Cleanup(func() { run("groupdel", club) })
	add := func(name string, options ...string) person {
		name = fmt.Sprintf("%s%d", name, number)
		home := filepath.Join(homes, name)
		run("useradd", append(options, "-m", "-d", home, "-s", "/bin/sh", "-U", name)...)
		t.Cleanup(func() { run("userdel", name) })
		u, err := user.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		p := person{name: name, home: home, uid: parse(t, u.Uid), gid: parse(t, u.Gid)}
		list, err := u.GroupIds()
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range list {
			p.groups = append(p.groups, parse(t, g))
		}
		slices.Sort(p.groups)
		return p
	}
	return add("stalice", "-G", club), add("stbob"), club
}

func parse(t *testing.T, s string) uint32 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

// as runs a program as somebody, in their home and with their environment; a name without a slash is one of Stint's.
func (c *cluster) as(p person, name string, args ...string) result {
	c.t.Helper()
	return c.asFor(2*patience, p, name, args...)
}

// asFor is as for what may take another time.
func (c *cluster) asFor(limit time.Duration, p person, name string, args ...string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	path := name
	if !strings.Contains(name, "/") {
		path = filepath.Join(bin, name)
		if name != "stint" {
			path, args = filepath.Join(bin, "stint-cli"), append([]string{name}, args...)
		}
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = p.home
	cmd.Env = append(slices.Clone(c.env), "HOME="+p.home, "USER="+p.name, "LOGNAME="+p.name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.uid, Gid: p.gid, Groups: p.groups}}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	r := result{out: out.String(), err: errs.String()}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		r.code = exit.ExitCode()
	} else if err != nil {
		r.code, r.err = -1, r.err+err.Error()
	}
	return r
}

// submitAs submits a job of somebody.
func (c *cluster) submitAs(p person, args ...string) string {
	c.t.Helper()
	r := c.as(p, "sbatch", append([]string{"--parsable"}, args...)...)
	if r.code != 0 {
		c.t.Fatalf("sbatch %v by %s: exit %d, %q", args, p.name, r.code, r.err)
	}
	return strings.TrimSpace(r.out)
}

// Two users share a cluster: each job is its owner's in every respect, and neither sees nor touches what is the other's alone.
func TestPeople(t *testing.T) {
	alice, bob, club := people(t)
	c := withConf(t, siteConf+"PartitionName=club Nodes=ALL AllowGroups="+club+"\n")
	const secret = "hunter2-and-no-other"

	write := func(p person, name, text string) {
		t.Helper()
		path := filepath.Join(p.home, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		os.Chown(path, int(p.uid), int(p.gid))
	}
	numbers := func(list []uint32) string {
		return strings.Trim(fmt.Sprint(list), "[]")
	}
	for _, p := range []person{alice, bob} {
		write(p, "who.sh", "#!/bin/sh\nid -u; id -g; id -G | tr ' ' '\\n' | sort -n | tr '\\n' ' '; echo; umask; echo $HOME $SLURM_JOB_USER; pwd\ngrep -E '^Cap(Eff|Prm|Bnd)' /proc/self/status | head -2\ntouch made\n")
		r := c.as(p, "/bin/sh", "-c", "umask 0037; exec "+filepath.Join(bin, "stint-cli")+" sbatch --parsable -o who.out who.sh")
		if r.code != 0 {
			t.Fatalf("sbatch by %s: exit %d, %q", p.name, r.code, r.err)
		}
		c.ended(strings.TrimSpace(r.out), "COMPLETED|0:0")
		data, _ := os.ReadFile(filepath.Join(p.home, "who.out"))
		want := fmt.Sprintf("%d\n%d\n%s \n0037\n%s %s\n%s\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n", p.uid, p.gid, numbers(p.groups), p.home, p.name, p.home)
		if string(data) != want {
			t.Errorf("a job of %s wrote\n%s\nand should have written\n%s", p.name, data, want)
		}
		for _, name := range []string{"who.out", "made"} {
			info, err := os.Stat(filepath.Join(p.home, name))
			if err != nil {
				t.Fatal(err)
			}
			s := info.Sys().(*syscall.Stat_t)
			if s.Uid != p.uid || s.Gid != p.gid || info.Mode().Perm()&0o037 != 0 {
				t.Errorf("%s of %s belongs to %d:%d with mode %v", name, p.name, s.Uid, s.Gid, info.Mode())
			}
		}
	}

	// One that runs, with what nobody else may read in its script, its environment and its arguments.
	write(alice, "secret.sh", "#!/bin/sh\n# "+secret+"\nexport TOLD="+secret+"\nuntil [ -e go ]; do sleep 0.1; done\nexit 6\n")
	os.Chmod(filepath.Join(alice.home, "secret.sh"), 0o600)
	c.env = append(c.env, "PASSWORD="+secret)
	id := c.submitAs(alice, "-o", "/dev/null", "-J", "mine", "--export=ALL,TOKEN="+secret, "secret.sh")
	c.env = c.env[:len(c.env)-1]
	c.await(id, "RUNNING")
	for _, args := range [][]string{
		{"scancel", id}, {"scancel", "-s", "USR1", id}, {"scontrol", "hold", id}, {"scontrol", "requeue", id}, {"scontrol", "suspend", id},
		{"scontrol", "update", "jobid=" + id, "timelimit=1"}, {"scontrol", "update", "jobid=" + id, "name=yours"},
		{"scontrol", "update", "nodename=n1", "state=drain", "reason=spite"},
	} {
		if r := c.as(bob, args[0], args[1:]...); r.code == 0 || !strings.Contains(r.err, "Access/permission denied") && !strings.Contains(r.err, "Invalid user id") {
			t.Errorf("%v by somebody else: exit %d, %q %q", args, r.code, r.out, r.err)
		}
	}
	for _, args := range [][]string{
		{"squeue", "-o", "%all"}, {"squeue", "-l"}, {"scontrol", "show", "job", id}, {"scontrol", "show", "-d", "job", id}, {"sacct", "-a", "-l"}, {"sacct", "-a", "-X", "-o", "ALL"},
		{"scontrol", "write", "batch_script", id, "-"}, {"scontrol", "show", "job", id, "--json"}, {"squeue", "--json"}, {"sacct", "-a", "--json"}, {"sacct", "-B", "-j", id},
		{"sacct", "--env-vars", "-j", id}, {"stint", "why", id}, {"stint", "events", id}, {"stint", "events", "--json"}, {"stint", "events", "--json", "--void"},
		{"stint", "replay", "--json"}, {"stint", "status", "--json"},
	} {
		if r := c.as(bob, args[0], args[1:]...); strings.Contains(r.out+r.err, secret) {
			t.Errorf("%v shows somebody else what is in the script or its environment:\n%s", args, r.out)
		}
	}
	if r := c.as(bob, "stint", "events", "--json", id); strings.Contains(r.out+r.err, secret) || !strings.Contains(r.out, `"admitted"`) {
		t.Errorf("the story of the job shows somebody else what is in its script or environment, or nothing:\n%s", r.out)
	}
	if r := c.as(alice, "stint", "events", "--json", id); !strings.Contains(r.out, "TOKEN="+secret) {
		t.Errorf("the owner is not told what she submitted:\n%s", r.out)
	}
	if r := c.as(bob, "/bin/grep", "-rl", secret, c.dir); r.out != "" {
		t.Errorf("somebody else finds it in %s", r.out)
	}
	if got, err := exec.Command("grep", "-rl", secret, c.dir).Output(); err != nil || len(got) == 0 {
		t.Errorf("root does not find it at all, so nobody else could have: %v", err)
	}
	if r := c.as(bob, "scontrol", "write", "batch_script", id, "-"); r.out != "" || !strings.Contains(r.err, "Access/permission denied") { // exit 0, as Slurm's
		t.Errorf("somebody else asks for the script: exit %d, %q %q", r.code, r.out, r.err)
	}
	if r := c.as(alice, "scontrol", "write", "batch_script", id, "-"); r.code != 0 || !strings.Contains(r.out, secret) {
		t.Errorf("the owner does not get the script back: exit %d, %q %q", r.code, r.out, r.err)
	}
	for _, key := range glob(filepath.Join(c.dir, "keys", "*")) {
		if r := c.as(bob, "/bin/cat", key); r.code == 0 {
			t.Errorf("somebody reads %s", key)
		}
	}
	if nc, err := nats.Connect(c.url(), nats.Timeout(5*time.Second)); err == nil {
		nc.Close()
		t.Error("the bus lets in whoever comes without a key")
	}
	if got := strings.TrimSpace(c.as(bob, "squeue", "-h", "-o", "%i %u %T %j").out); got != id+" "+alice.name+" RUNNING mine" {
		t.Errorf("after all that the queue is %q", got)
	}

	// Partitions are for some groups only.
	for _, name := range []string{"sbatch", "salloc"} {
		for _, o := range []string{"--uid=no-such", "--gid=no-such"} {
			args := []string{o, "true"}
			if name == "sbatch" {
				args = []string{o, "--wrap", "true"}
			}
			if r := c.try(name, args...); r.code != 255 || !strings.Contains(r.err, "Invalid "+o[:5]+" specification") {
				t.Errorf("%s %s: exit %d, %q", name, o, r.code, r.err)
			}
		}
	}
	if r := c.as(bob, "sbatch", "-p", "club", "--wrap", "true"); r.code != 1 || !strings.Contains(r.err, "User's group not permitted to use this partition") {
		t.Errorf("a partition for others: exit %d, %q", r.code, r.err)
	}
	c.ended(c.submitAs(alice, "-p", "club", "-o", "/dev/null", "--wrap", "true"), "COMPLETED|0:0")

	// What is too large is refused in a sentence.
	write(bob, "big.sh", "#!/bin/sh\n"+strings.Repeat("# and so on and so on and so on and so on and so on\n", 100_000))
	if r := c.as(bob, "sbatch", "big.sh"); r.code != 1 || strings.Count(r.err, "\n") > 2 || !strings.Contains(r.err, "script") {
		t.Errorf("a script of 5 MB: exit %d, %q", r.code, r.err)
	}

	t.Run("garbage", func(t *testing.T) { garbage(t, c) })

	// Root may.
	if r := c.try("scancel", id); r.code != 0 {
		t.Errorf("root ends a job: exit %d, %q", r.code, r.err)
	}
	if got := exitCode(c, id); !strings.HasPrefix(got, "CANCELLED by 0|") {
		t.Errorf("the job that root ended is %s", got)
	}
	if out := c.do("stint", "replay", "--verify"); !strings.Contains(out, "the live state is the same") {
		t.Errorf("the log does not hold after all that:\n%s", out)
	}
}

func (c *cluster) url() string {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.dir, "cluster.json"))
	if err != nil {
		c.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), `"url": "`)
	url, _, _ := strings.Cut(rest, `"`)
	return url
}

// garbage sends to the agent what is no request. It answers or hangs up, and serves others as before.
func garbage(t *testing.T, c *cluster) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, 0))
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	frame := func(body []byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	path, done, err := wire.Address(c.dir, wire.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	cases := [][]byte{nil, {0}, {0xff, 0xff, 0xff, 0xff}, {0, 0, 0, 0}, binary.BigEndian.AppendUint32(nil, wire.MaxFrame), frame([]byte("GET / HTTP/1.1\r\n\r\n"))}
	for n := range 60 {
		cases = append(cases, noise(n*n), frame(noise(n*n)))
	}
	for i, data := range cases {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatalf("seed %d, case %d: %v", seed, i, err)
		}
		conn.SetDeadline(time.Now().Add(patience))
		conn.Write(data) // it may have hung up already
		conn.(*net.UnixConn).CloseWrite()
		if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			t.Errorf("seed %d, case %d: it neither answers nor hangs up: %v", seed, i, err)
		}
		conn.Close()
	}
	if got := c.do("squeue", "-h", "-o", "%j"); got != "mine\n" {
		t.Errorf("after that the queue is %q", got)
	}
}

// One user asks for more than the agent takes from one, in jobs and in connections, and is told so. Another notices nothing.
func TestGreed(t *testing.T) {
	alice, bob, _ := people(t)
	c := start(t, "--nodes", "n1", "--cpus", "4", "--memory", "4000")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	greedy := filepath.Join(filepath.Dir(c.dir), "greedy")
	if err := os.WriteFile(greedy, self, 0o755); err != nil {
		t.Fatal(err)
	}
	c.env = append(c.env, "STINT_TEST_GREEDY="+c.dir)
	told := make(chan result, 1)
	go func() { told <- c.as(bob, greedy, "-test.run=TestGreedy$", "-test.v") }()
	n := 0
	var slowest time.Duration
	for done := false; !done; n++ {
		select {
		case r := <-told:
			done = true
			for _, want := range []string{"requests: ", "connections: you have 256 connections to the agent open"} {
				if !strings.Contains(r.out, want) {
					t.Errorf("the greedy one is not told %q:\n%s%s", want, r.out, r.err)
				}
			}
		default:
		}
		begun := time.Now()
		c.ended(c.submitAs(alice, "-o", "/dev/null", "--wrap", "exit 3"), "FAILED|3:0")
		slowest = max(slowest, time.Since(begun))
	}
	t.Logf("meanwhile %d jobs of another user came and went, each within %s", n, slowest.Round(time.Millisecond))
	if slowest > patience/2 {
		t.Errorf("a job of another user took %s", slowest)
	}
}

// TestGreedy is what the greedy user of TestGreed runs.
func TestGreedy(t *testing.T) {
	dir := os.Getenv("STINT_TEST_GREEDY")
	if dir == "" {
		t.Skip("runs as another user, as part of TestGreed")
	}
	many := &wire.Submit{WaitMs: 60_000}
	for range 10_000 {
		many.Jobs = append(many.Jobs, &wire.Job{Components: []*wire.Component{{Spec: &events.JobSpec{Partition: "nowhere"}, Script: []byte("#!/bin/sh\n")}}})
	}
	conn, err := wire.Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err = conn.Submit(many); err != nil {
			break
		}
	}
	fmt.Println("requests:", err)
	var open []*wire.Conn
	for range 300 {
		conn, err := wire.Dial(dir)
		if err == nil {
			_, err = conn.Call(&wire.Request{What: &wire.Request_Hello{Hello: &wire.Hello{}}})
		}
		if err != nil {
			fmt.Println("connections:", err)
			break
		}
		open = append(open, conn)
	}
	for _, c := range open {
		c.Close()
	}
}
