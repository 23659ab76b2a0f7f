package pmi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long the other side may take to say something, and quiet how long nothing is listened for.
const (
	patience = 20 * time.Second
	quiet    = 20 * time.Millisecond
)

// stage plays one script.
type stage struct {
	t       *testing.T
	server  *Server
	tasks   map[uint32]*actor
	other   []Pair
	fails   error
	gave    chan string
	aborted chan string
	forgone chan string
}

type actor struct {
	c    net.Conn
	r    *bufio.Reader
	two  bool
	ends chan error
}

func (s *stage) actor(rank uint32) *actor {
	if a := s.tasks[rank]; a != nil {
		return a
	}
	ours, theirs := pair(s.t)
	a := &actor{c: ours, r: bufio.NewReader(ours), ends: make(chan error, 1)}
	s.tasks[rank] = a
	go func() { a.ends <- s.server.Serve(rank, theirs); theirs.Close() }()
	s.t.Cleanup(func() { ours.Close() })
	return a
}

// pair is what a keeper makes for a task: two sockets that hold a little of what is said.
func pair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out [2]net.Conn
	for i, fd := range ends {
		file := os.NewFile(uintptr(fd), "pair")
		if out[i], err = net.FileConn(file); err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
	return out[0], out[1]
}

func (a *actor) say(text string) error {
	a.c.SetDeadline(time.Now().Add(patience))
	if a.two {
		_, err := fmt.Fprintf(a.c, "%6d%s", len(text), text)
		return err
	}
	_, err := io.WriteString(a.c, text+"\n")
	return err
}

func (a *actor) hear() (string, error) {
	a.c.SetDeadline(time.Now().Add(patience))
	if !a.two {
		text, err := a.r.ReadString('\n')
		a.two = strings.HasPrefix(text, "cmd=response_to_init pmi_version=2")
		return strings.TrimSuffix(text, "\n"), err
	}
	head := make([]byte, 6)
	if _, err := io.ReadFull(a.r, head); err != nil {
		return "", err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(head)))
	if err != nil {
		return "", err
	}
	body := make([]byte, n)
	_, err = io.ReadFull(a.r, body)
	return string(body), err
}

func listed(pairs []Pair) string {
	var out strings.Builder
	for _, p := range pairs {
		fmt.Fprintf(&out, " %s=%s", p.Key, p.Value)
	}
	return out.String()
}

// TestScripts plays conversations: `RANK> text` is said by a task, `RANK< text` is what it hears, `RANK waits` that it hears nothing, `RANK
// ends[: why]` that the talk with it is over; other, gave and fails are about fences, aborted and forgone what the server calls for.
func TestScripts(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	if len(files) == 0 {
		t.Fatal("there are no scripts")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &stage{t: t, tasks: map[uint32]*actor{}, gave: make(chan string, 8), aborted: make(chan string, 8), forgone: make(chan string, 8)}
			s.server = New(Job{ID: "7.0", Size: 4, Ranks: []uint32{2, 3}, Universe: 4, Mapping: Mapping([][]uint32{{0, 1}, {2, 3}})})
			s.server.Fence = func(n int, puts []Pair) ([]Pair, error) {
				if err := s.fails; err != nil {
					return nil, err
				}
				s.gave <- fmt.Sprintf("%d:%s", n, listed(puts))
				mine, err := Decode(Encode(nil, puts))
				return append(mine, s.other...), err
			}
			s.server.Abort = func(rank uint32, code int, text string) {
				s.aborted <- strings.TrimRight(fmt.Sprintf("%d with %d: %s", rank, code, text), " ")
			}
			s.server.Forgo = func(n int) { s.forgone <- strconv.Itoa(n) }
			for i, line := range strings.Split(string(text), "\n") {
				if line == "" || line[0] == '#' {
					continue
				}
				if err := s.play(line); err != nil {
					t.Fatalf("line %d: %s: %v", i+1, line, err)
				}
			}
		})
	}
}

func (s *stage) play(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	told := func(c chan string) error {
		select {
		case got := <-c:
			if got != rest {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		case <-time.After(patience):
			return errors.New("nothing comes")
		}
	}
	switch word {
	case "other":
		s.other = nil
		for _, p := range strings.Fields(rest) {
			k, v, _ := strings.Cut(p, "=")
			s.other = append(s.other, Pair{k, v})
		}
		return nil
	case "fails":
		s.fails = errors.New(rest)
		return nil
	case "gave":
		return told(s.gave)
	case "aborted":
		return told(s.aborted)
	case "forgone":
		return told(s.forgone)
	case "gone":
		n, err := strconv.Atoi(rest)
		go s.server.Gone(uint32(n))
		return err
	}
	n, err := strconv.Atoi(strings.TrimRight(word, "<>"))
	if err != nil {
		return err
	}
	a := s.actor(uint32(n))
	switch {
	case strings.HasSuffix(word, ">"):
		return a.say(rest)
	case strings.HasSuffix(word, "<"):
		got, err := a.hear()
		if err == nil && got != rest {
			err = fmt.Errorf("it heard %q", got)
		}
		return err
	case rest == "waits":
		a.c.SetReadDeadline(time.Now().Add(quiet))
		if b, err := a.r.Peek(1); err == nil {
			return fmt.Errorf("it hears something: %q", b)
		}
		return nil
	case strings.HasPrefix(rest, "ends"):
		want := strings.TrimPrefix(strings.TrimPrefix(rest, "ends"), ": ")
		select {
		case err := <-a.ends:
			if got := fmt.Sprint(err); err != nil && got != want || err == nil && want != "" {
				return fmt.Errorf("with %v", err)
			}
			return nil
		case <-time.After(patience):
			return errors.New("it goes on")
		}
	}
	return errors.New("no such line")
}

func TestMapping(t *testing.T) {
	for _, c := range []struct {
		nodes [][]uint32
		want  string
	}{
		{[][]uint32{{0}}, "(vector,(0,1,1))"},
		{[][]uint32{{0, 1, 2, 3}, {4, 5, 6, 7}}, "(vector,(0,2,4))"},
		{[][]uint32{{0, 1, 2}, {3}}, "(vector,(0,1,3),(1,1,1))"},
		{[][]uint32{{0, 2}, {1, 3}}, "(vector,(0,2,1),(0,2,1))"},
		{[][]uint32{{0, 1, 4, 5}, {2, 3, 6, 7}}, "(vector,(0,2,2),(0,2,2))"},
		{[][]uint32{{2}, {0}, {1}}, "(vector,(1,2,1),(0,1,1))"},
		{nil, "(vector)"},
	} {
		if got := Mapping(c.nodes); got != c.want {
			t.Errorf("%v: %s, want %s", c.nodes, got, c.want)
		}
	}
}

// Tasks may put only so much between two fences, and a fence makes room.
func TestPutsAreLimited(t *testing.T) {
	s := New(Job{ID: "1.0", Size: 1, Ranks: []uint32{0}})
	s.Fence = func(n int, puts []Pair) ([]Pair, error) { return puts, nil }
	value := strings.Repeat("v", maxValue)
	put := func() (n int, err error) {
		for ; err == nil; n++ {
			err = s.putPair(fmt.Sprintf("%09d", n), value)
		}
		return n, err
	}
	n, err := put()
	if !errors.Is(err, errMuch) || n < maxPut/(maxValue+9) || n > maxPut/(maxValue+9)+2 {
		t.Fatalf("after %d puts: %v", n, err)
	}
	done := make(chan error)
	s.fence(0, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if s.size != 0 || len(s.put) != 0 {
		t.Errorf("after a fence %d bytes of %d pairs are left", s.size, len(s.put))
	}
	if v, ok := s.get("000000007"); !ok || v != value {
		t.Error("what was put is not there")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Encode(nil, []Pair{{"a", "b"}, {"", ""}}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		pairs, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(Encode(nil, pairs))
		if err != nil || listed(again) != listed(pairs) {
			t.Fatalf("%q: %v, %v", pairs, again, err)
		}
	})
}

// FuzzServe lets a task say anything: nothing but its own talk may end by that.
func FuzzServe(f *testing.F) {
	f.Add([]byte("cmd=init pmi_version=1 pmi_subversion=1\ncmd=put key=a value=b\ncmd=barrier_in\ncmd=get key=a\nmcmd=spawn\nendcmd\ncmd=abort exitcode=x\ncmd=finalize\n"))
	f.Add([]byte("cmd=init pmi_version=2 pmi_subversion=0\n    13cmd=fullinit;    29cmd=kvs-put;key=a;value=;;;;b;    14cmd=kvs-fence;999999"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := New(Job{ID: "1.0", Size: 1, Ranks: []uint32{0}})
		s.Fence = func(n int, puts []Pair) ([]Pair, error) { return puts, nil }
		s.Abort = func(uint32, int, string) {}
		s.Forgo = func(int) {}
		_ = s.Serve(0, struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(b), io.Discard})
		s.Gone(0)
	})
}
