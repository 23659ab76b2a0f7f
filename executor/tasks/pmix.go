package tasks

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// PMIxProgram is the program beside this one that speaks with PMIx's library, which is reached through C: a fault of the library is
// not one of the keeper's.
const PMIxProgram = "stint-pmix"

// pmixWiring is such a program, running as the step's user on one node, and the talk with it.
type pmixWiring struct {
	k    *keeper
	cmd  *exec.Cmd
	peer *Peer
	dir  string
	envs [][]string
	said *lastWords

	mu     sync.Mutex
	closed bool
}

// pmixStart is how long the library may take to be ready for the tasks of a node.
const pmixStart = 30 * time.Second

func newPMIx(k *keeper, m *Mpi) (*pmixWiring, error) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	program := filepath.Join(filepath.Dir(strings.TrimSuffix(exe, " (deleted)")), PMIxProgram)
	if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
		return nil, notBeside(fmt.Sprintf("%s is not beside %s on node %s: build it where PMIx's library is (docs/mpi.md), or start the program with mpirun", PMIxProgram, exe, k.order.Name))
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "pmix"), os.NewFile(uintptr(ends[1]), "pmix")
	defer ours.Close()
	defer theirs.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	w := &pmixWiring{k: k, peer: PeerOf(c), said: &lastWords{}}
	if w.dir, err = os.MkdirTemp("", "stint-pmix-"+k.order.Step+"-"+k.order.Name+"-"); err != nil {
		c.Close()
		return nil, err
	}
	w.cmd = exec.Command(program)
	w.cmd.ExtraFiles = []*os.File{theirs}
	w.cmd.Stderr = w.said
	w.cmd.Dir = "/"
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := w.cmd.Start(); err != nil {
		c.Close()
		os.RemoveAll(w.dir)
		return nil, err
	}
	if err := w.begin(c, m); err != nil {
		w.close()
		return nil, err
	}
	go w.hear()
	return w, nil
}

// notBeside says that the program is not there.
type notBeside string

func (n notBeside) Error() string { return string(n) }

func (notBeside) Is(target error) bool { return target == fs.ErrNotExist }

// begin has the library made ready, and learns what tasks are told.
func (w *pmixWiring) begin(c net.Conn, m *Mpi) error {
	c.SetDeadline(time.Now().Add(pmixStart))
	order := &PmixOrder{Space: "stint." + m.Id, Mpi: m, Node: w.k.order.Node + w.k.within.GetNodes(), Dir: w.dir}
	if err := w.peer.Tell(KindBegin, 0, order); err != nil {
		return w.failed(err)
	}
	f, err := w.peer.Next()
	if err != nil {
		return w.failed(err)
	}
	ready := &PmixReady{}
	if err := ready.UnmarshalVT(f.Data); err != nil {
		return w.failed(err)
	}
	if ready.Failed != "" {
		return errors.New(ready.Failed)
	}
	if len(ready.Tasks) != len(w.k.order.Tasks) {
		return fmt.Errorf("%s names %d tasks of the node's %d", PMIxProgram, len(ready.Tasks), len(w.k.order.Tasks))
	}
	for _, t := range ready.Tasks {
		var env []string
		for _, nv := range t.Environ {
			env = append(env, string(nv))
		}
		w.envs = append(w.envs, env)
	}
	return c.SetDeadline(time.Time{})
}

func (w *pmixWiring) failed(err error) error {
	w.cmd.Process.Kill()
	w.cmd.Wait()
	if words := w.said.String(); words != "" {
		return fmt.Errorf("%s on node %s: %s", PMIxProgram, w.k.order.Name, words)
	}
	return fmt.Errorf("%s on node %s: %w", PMIxProgram, w.k.order.Name, err)
}

// hear does what the library wants of other nodes, until it is over.
func (w *pmixWiring) hear() {
	for {
		f, err := w.peer.Next()
		if err != nil {
			break
		}
		switch f.Kind {
		case KindGather:
			m := &Gather{}
			if m.UnmarshalVT(f.Data) == nil {
				go w.gather(m)
			}
		case KindFetch:
			w.k.peer.Send(KindFetch, 0, f.Data)
		case KindQuit:
			w.k.quit(f.Number, string(f.Data))
		}
	}
	w.mu.Lock()
	over := w.closed
	w.mu.Unlock()
	if !over { // the tasks would wait for it for ever
		w.k.say("slurmstepd: error: mpi/pmix: %s on node %s is over before its tasks: %s", PMIxProgram, w.k.order.Name, w.said)
		w.k.quit(w.k.order.Tasks[0], "")
	}
}

func (w *pmixWiring) gather(m *Gather) {
	data, err := w.k.meet(m.Key, m.Nodes, m.Data)
	answer := &Gather{Key: m.Key, Data: data}
	if err != nil {
		answer.Failed = err.Error()
	}
	TellGather(w.peer, answer)
}

func (w *pmixWiring) environ(_ uint32, i int) []string { return w.envs[i] }

func (w *pmixWiring) connect(uint32, int, *os.ProcAttr, *[]*os.File) error { return nil }

func (w *pmixWiring) gone(uint32) {}

// close ends the program and takes its files away.
func (w *pmixWiring) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.peer.Close()
	late := time.AfterFunc(3*time.Second, func() { w.cmd.Process.Kill() })
	w.cmd.Wait()
	late.Stop()
	os.RemoveAll(w.dir)
}

// lastWords keeps the end of what a program has said.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

func (l *lastWords) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	if len(l.text) > 4096 {
		l.text = append([]byte(nil), l.text[len(l.text)-4096:]...)
	}
	return len(b), nil
}

func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(bytes.TrimSpace(l.text))
}
