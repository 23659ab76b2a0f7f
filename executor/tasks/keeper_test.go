package tasks

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stint/events"
)

var rewrite = flag.Bool("rewrite", false, "write the expected output of the scripts anew")

// The test program is a keeper too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Command {
		os.Exit(Main())
	}
	os.Exit(m.Run())
}

// patience is how long anything may take here.
const patience = 60 * time.Second

// rig is a launcher with keepers of its own, on one machine.
type rig struct {
	t       *testing.T
	dir     string
	token   []byte
	l       net.Listener
	come    chan int
	nodes   []*end
	begin   *Begin
	order   Order
	closing bool
}

// end is the talk with one keeper, and what came of it.
type end struct {
	peer  *Peer
	cmd   *exec.Cmd
	out   bytes.Buffer // what the keeper itself says
	mu    sync.Mutex
	cond  *sync.Cond
	by    map[string][]byte // "out 0", "err 1", …
	ends  map[uint32]string
	pids  map[uint32]uint32
	says  []string
	taken int
	over  bool
}

func newRig(t *testing.T, nodes [][]uint32, begin *Begin) *rig {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: t.TempDir(), token: bytes.Repeat([]byte{7}, 32), l: l, begin: begin}
	t.Cleanup(func() { l.Close() })
	begin.Dir = []byte(r.dir)
	if begin.Environ == nil {
		begin.Environ = [][]byte{[]byte("PATH=/bin:/usr/bin")}
	}
	for _, ranks := range nodes {
		n := &end{by: map[string][]byte{}, ends: map[uint32]string{}, pids: map[uint32]uint32{}}
		n.cond = sync.NewCond(&n.mu)
		r.nodes = append(r.nodes, n)
		o := &Order{Launcher: &Launcher{Addresses: []string{"127.0.0.1"}, Port: uint32(l.Addr().(*net.TCPAddr).Port), Token: r.token, Boot: Boot()},
			Node: uint32(len(r.nodes) - 1), Name: fmt.Sprintf("n%d.cluster", len(r.nodes)), Tasks: ranks, KillWaitS: 30, Step: "7.0"}
		env, err := OrderEnviron(o)
		if err != nil {
			t.Fatal(err)
		}
		n.cmd = exec.Command("/proc/self/exe", Command)
		n.cmd.Env, n.cmd.Stdout, n.cmd.Stderr = env, &n.out, &n.out
		if err := n.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			n.cmd.Process.Kill()
			n.cmd.Wait()
			n.mu.Lock()
			defer n.mu.Unlock()
			for _, pid := range n.pids { // what a task has left behind is of its group
				syscall.Kill(-int(pid), syscall.SIGKILL)
			}
		})
	}
	for range nodes {
		l.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		p, node, err := Meet(c, r.token)
		if err != nil {
			t.Fatal(err)
		}
		r.nodes[node].peer = p
	}
	for _, n := range r.nodes {
		if err := n.peer.Tell(KindBegin, 0, begin); err != nil {
			t.Fatal(err)
		}
		go n.hear()
	}
	return r
}

func (n *end) hear() {
	for {
		f, err := n.peer.Next()
		n.mu.Lock()
		if err != nil {
			n.over = true
			n.mu.Unlock()
			n.cond.Broadcast()
			return
		}
		m := &Told{}
		switch f.Kind {
		case KindStdout:
			n.by[fmt.Sprint("out ", f.Number)] = append(n.by[fmt.Sprint("out ", f.Number)], f.Data...)
		case KindStderr:
			n.by[fmt.Sprint("err ", f.Number)] = append(n.by[fmt.Sprint("err ", f.Number)], f.Data...)
		case KindSay, KindAborted:
			n.says = append(n.says, string(f.Data))
		case KindTaken:
			n.taken += int(f.Number)
		case KindStarted:
			m.UnmarshalVT(f.Data)
			for i, t := range m.Tasks {
				n.pids[t] = m.Pids[i]
			}
		case KindExited:
			m.UnmarshalVT(f.Data)
			for _, t := range m.Tasks {
				n.ends[t] = fmt.Sprintf("%d:%d", m.Code, m.Signal)
			}
		case KindFailed:
			m.UnmarshalVT(f.Data)
			for _, t := range m.Tasks {
				n.ends[t] = fmt.Sprintf("not started: %s", m.Text)
			}
		case KindOver:
			n.peer.Close()
		}
		n.mu.Unlock()
		n.cond.Broadcast()
	}
}

// until waits until something holds of a node.
func (r *rig) until(n *end, what string, holds func() bool) {
	r.t.Helper()
	late := time.AfterFunc(patience, func() { n.mu.Lock(); r.closing = true; n.mu.Unlock(); n.cond.Broadcast() })
	defer late.Stop()
	n.mu.Lock()
	defer n.mu.Unlock()
	for !holds() {
		if r.closing {
			r.t.Fatalf("waited too long until %s; heard %q, ends %v, said %q; the keeper: %s", what, n.by, n.ends, n.says, &n.out)
		}
		n.cond.Wait()
	}
}

func (r *rig) send(kind Kind, number uint32, data string) {
	for _, n := range r.nodes {
		n.peer.Send(kind, number, []byte(data))
	}
}

// report waits for the end of all, and tells what came of it.
func (r *rig) report() string {
	var b strings.Builder
	for i, n := range r.nodes {
		r.until(n, "the keeper is over", func() bool { return n.over })
		err := n.cmd.Wait()
		for _, key := range []string{"out", "err"} {
			for t := range uint32(16) {
				if text := n.by[fmt.Sprint(key, " ", t)]; len(text) > 0 {
					fmt.Fprintf(&b, "%s %d: %q\n", key, t, clip(text))
				}
			}
		}
		for _, s := range n.says {
			fmt.Fprintf(&b, "says: %s\n", s)
		}
		for t := range uint32(16) {
			if how, ok := n.ends[t]; ok {
				fmt.Fprintf(&b, "task %d: %s\n", t, how)
			}
		}
		how := "0"
		if x, ok := err.(*exec.ExitError); ok {
			how = x.ProcessState.String()
		}
		fmt.Fprintf(&b, "keeper %d: %s\n", i, how)
	}
	names, _ := filepath.Glob(filepath.Join(r.dir, "*"))
	slices.Sort(names)
	for _, name := range names {
		text, _ := os.ReadFile(name)
		fmt.Fprintf(&b, "file %s: %q\n", filepath.Base(name), clip(text))
	}
	return strings.ReplaceAll(b.String(), r.dir, "DIR")
}

func clip(b []byte) string {
	if len(b) > 200 {
		return fmt.Sprintf("%s… (%d bytes)", b[:20], len(b))
	}
	return string(b)
}

// Scripts: testdata/keeper.txt has a case in each paragraph: a line "case NAME", lines that say what the launcher tells and does, and
// below "----" what came of it.
//
//	nodes 0,1 2        ranks on each node
//	run SCRIPT         what the tasks run, by bash; or argv WORD … for a program
//	stdin|stdout|stderr nothing|one N|files PATTERN [append]|same
//	pty · prolog SCRIPT · epilog SCRIPT
//	feed [RANK] TEXT   standard input, all if no rank is given; \n is a line end · close [RANK]
//	wait out RANK TEXT until a task has written that
//	signal NAME · kill (KILL at once) · end (TERM, later KILL) · leave (the launcher is gone)
func TestKeepers(t *testing.T) {
	const file = "testdata/keeper.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, paragraph := range strings.Split(strings.TrimSpace(string(data)), "\n\n") {
		script, want, _ := strings.Cut(paragraph+"\n", "\n----\n")
		name, _, _ := strings.Cut(strings.TrimPrefix(script, "case "), "\n")
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			got := strings.TrimRight(play(t, script), "\n")
			if got != strings.TrimRight(want, "\n") && !*rewrite {
				t.Errorf("%s\ngot:\n%s\nwant:\n%s", script, got, want)
			}
			all = append(all, strings.TrimSuffix(script, "\n----")+"\n----\n"+got)
		})
	}
	if *rewrite && !t.Failed() {
		if err := os.WriteFile(file, []byte(strings.Join(all, "\n\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func play(t *testing.T, script string) string {
	begin := &Begin{Stdin: &Stream{}, Stdout: &Stream{}, Stderr: &Stream{}}
	nodes := [][]uint32{{0}}
	var acts [][]string
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "case", "#":
		case "nodes":
			nodes = nil
			for _, list := range strings.Fields(rest) {
				var ranks []uint32
				for _, r := range strings.Split(list, ",") {
					n, _ := strconv.Atoi(r)
					ranks = append(ranks, uint32(n))
				}
				nodes = append(nodes, ranks)
			}
		case "run":
			begin.Programs = append(begin.Programs, &Program{Argv: [][]byte{[]byte("bash"), []byte("-c"), []byte(rest)}})
		case "argv":
			p := &Program{}
			for _, w := range strings.Fields(rest) {
				p.Argv = append(p.Argv, []byte(w))
			}
			begin.Programs = append(begin.Programs, p)
		case "only": // the program before is for these ranks
			n, _ := strconv.Atoi(rest)
			begin.Programs[len(begin.Programs)-1].Tasks = events.WordsOf(uint32(n))
		case "stdin", "stdout", "stderr":
			s := map[string]*Stream{"stdin": begin.Stdin, "stdout": begin.Stdout, "stderr": begin.Stderr}[word]
			f := strings.Fields(rest)
			switch f[0] {
			case "nothing":
				s.Way = Way_NOTHING
			case "same":
				s.Way = Way_SAME
			case "one":
				n, _ := strconv.Atoi(f[1])
				s.Way, s.Only = Way_ONE, uint32(n)
			case "files":
				s.Way, s.Path, s.Append = Way_FILES, []byte(f[1]), len(f) > 2
			}
		case "pty":
			begin.Pty, begin.Rows, begin.Columns = true, 24, 80
			begin.Stdout, begin.Stderr = &Stream{Way: Way_ONE}, &Stream{Way: Way_ONE}
		case "prolog", "epilog":
			name := filepath.Join(t.TempDir(), word)
			if err := os.WriteFile(name, []byte("#!/bin/bash\n"+rest+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			if word == "prolog" {
				begin.TaskProlog = []byte(name)
			} else {
				begin.TaskEpilog = []byte(name)
			}
		default:
			acts = append(acts, []string{word, rest})
		}
	}
	r := newRig(t, nodes, begin)
	for _, a := range acts {
		r.act(a[0], a[1])
	}
	return r.report()
}

func (r *rig) act(word, rest string) {
	rank := func() uint32 {
		first, left, _ := strings.Cut(rest, " ")
		if n, err := strconv.ParseUint(first, 10, 32); err == nil {
			rest = left
			return uint32(n)
		}
		return AllTasks
	}
	switch word {
	case "feed":
		to := rank()
		r.send(KindStdin, to, strings.ReplaceAll(rest, `\n`, "\n"))
	case "close":
		r.send(KindStdin, rank(), "")
	case "wait":
		f := strings.SplitN(rest, " ", 3)
		n, _ := strconv.Atoi(f[1])
		for _, e := range r.nodes {
			if e.has(r.nodes, uint32(n)) {
				r.until(e, rest, func() bool { return strings.Contains(string(e.by[f[0]+" "+f[1]]), f[2]) })
			}
		}
	case "signal":
		r.send(KindSignal, map[string]uint32{"USR1": uint32(syscall.SIGUSR1), "TERM": uint32(syscall.SIGTERM), "KILL": uint32(syscall.SIGKILL)}[rest], "")
	case "kill":
		r.send(KindEnd, 1, "")
	case "end":
		r.send(KindEnd, 0, "")
	case "leave":
		for _, n := range r.nodes {
			n.peer.Close()
		}
	default:
		r.t.Fatalf("%s: no such act", word)
	}
}

// has says whether a task is on this node: it has a process there.
func (n *end) has(all []*end, rank uint32) bool {
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(time.Millisecond) {
		for _, e := range all {
			e.mu.Lock()
			_, ok := e.pids[rank]
			e.mu.Unlock()
			if ok {
				return e == n
			}
		}
	}
	return false
}

// What a task never reads is taken up to the window and no further, and does not keep the step from ending.
func TestStdinIsTakenAsItIsRead(t *testing.T) {
	r := newRig(t, [][]uint32{{0}}, &Begin{Stdin: &Stream{}, Stdout: &Stream{}, Stderr: &Stream{}, Programs: []*Program{{Argv: [][]byte{[]byte("bash"), []byte("-c"), []byte("read -N 100000 x; echo ${#x}; sleep 1000")}}}})
	n := r.nodes[0]
	chunk := strings.Repeat("x", 50_000)
	for range 8 {
		n.peer.Send(KindStdin, AllTasks, []byte(chunk))
	}
	r.until(n, "two pieces are taken", func() bool { return n.taken >= 100_000 && len(n.by["out 0"]) > 0 })
	n.mu.Lock()
	if n.taken > 250_000 { // what was read, and what the pipe holds
		t.Errorf("%d bytes are taken of 400000, and 100000 read", n.taken)
	}
	n.mu.Unlock()
	r.act("kill", "")
	if got := r.report(); !strings.Contains(got, "task 0: 0:9") || !strings.Contains(got, `out 0: "100000\n"`) {
		t.Error(got)
	}
}

// Whoever does not know the token is no launcher, and no keeper.
func TestStrangers(t *testing.T) {
	for _, c := range []struct{ launcher, keeper string }{{"right", "right"}, {"right", "wrong"}, {"wrong", "right"}} {
		a, b := net.Pipe()
		met := make(chan error, 1)
		go func() {
			_, node, err := Meet(a, []byte(c.launcher))
			if err == nil && node != 5 {
				err = fmt.Errorf("node %d has come, not 5", node)
			}
			a.Close()
			met <- err
		}()
		_, err := Greet(b, []byte(c.keeper), 5)
		b.Close()
		if same := c.launcher == c.keeper; same != (err == nil) || same != (<-met == nil) {
			t.Errorf("launcher knows %q, keeper %q: %v", c.launcher, c.keeper, err)
		}
	}
}

// Whatever comes as a frame is one or an error.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{6, 0, 0, 0, 1, 0, 0, 0, 2, 'h', 'i'})
	f.Add([]byte{6, 0, 0, 0, 1, 255, 255, 255, 255, 'h', 'i'})
	f.Fuzz(func(t *testing.T, data []byte) {
		a, b := net.Pipe()
		go func() {
			b.Write(data)
			b.Close()
		}()
		p := &Peer{c: a}
		for {
			if _, err := p.Next(); err != nil {
				a.Close()
				return
			}
		}
	})
}

// A file that is sent is there when its sum is right, and not before; a tree of nodes passes it on.
func TestReceive(t *testing.T) {
	content := []byte(strings.Repeat("some text\n", 1000))
	for _, c := range []struct {
		name    string
		there   string // before
		force   bool
		sum     []byte
		want    string
		content string
	}{
		{name: "new", want: "0", content: string(content)},
		{name: "there", there: "old", want: "17 File exists", content: "old"},
		{name: "forced", there: "old", force: true, want: "0", content: string(content)},
		{name: "another sum", sum: make([]byte, 32), want: "5 what came is not what was sent: its sum is another"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if c.there != "" {
				os.WriteFile(path, []byte(c.there), 0o600)
			}
			a, b := net.Pipe()
			result := make(chan error, 1)
			go func() {
				result <- takeFile(&Peer{c: b}, &Receive{Path: []byte(path), Mode: 0o640, Force: c.force, ChangeNs: 1_700_000_000_123_456_789, AccessNs: 1}, nil)
			}()
			p := &Peer{c: a}
			for part := range slices.Chunk(content, 999) {
				if err := p.Send(KindData, 0, part); err != nil {
					t.Fatal(err)
				}
				if st, err := os.Stat(path); err == nil && st.Size() != int64(len(c.there)) {
					t.Fatal("the file is there before it is complete")
				}
			}
			sum := sha256.Sum256(content)
			if c.sum == nil {
				c.sum = sum[:]
			}
			p.Send(KindSum, 0, c.sum)
			err, got := <-result, "0"
			if errno, ok := err.(syscall.Errno); ok {
				got = fmt.Sprintf("%d %s", errno, capital(errno.Error()))
			} else if err != nil {
				got = "5 " + err.Error()
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			text, _ := os.ReadFile(path)
			if string(text) != c.content {
				t.Errorf("the file has %d bytes, want %d", len(text), len(c.content))
			}
			if st, err := os.Stat(path); c.want == "0" && (err != nil || st.Mode().Perm() != 0o640 || st.ModTime().UnixNano() != 1_700_000_000_123_456_789) {
				t.Errorf("%v %v %v", err, st.Mode(), st.ModTime())
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".sbcast*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
