// Package wire is the talk between a command and its host's agent: the messages (wire.proto), their frames, and the
// side of it that commands use. It is linked into the light client, so it imports nothing of the bus.
package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"stint/events"
	"stint/executor/tasks"
	"stint/ledger/rows"
	"stint/projections"
)

// MaxFrame is the most bytes one frame may hold: the biggest script and environment that are accepted, with room.
const MaxFrame = 64 << 20

// Socket is the name of the agent's socket in its directory.
const Socket = "agent.sock"

// CompatFile is the name of the file beside the socket that says which release of Slurm the cluster emulates.
const CompatFile = "compat"

// ErrNoAgent: no agent listens on the socket.
var ErrNoAgent = errors.New("no agent answers")

type message interface {
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
}

// Write sends one message as one frame in one write.
func Write(w io.Writer, m message) error {
	size := m.SizeVT()
	if size > MaxFrame {
		return fmt.Errorf("a message of %d bytes is larger than the %d that the agent takes", size, MaxFrame)
	}
	frame := make([]byte, 4+size)
	binary.BigEndian.PutUint32(frame, uint32(size))
	if _, err := m.MarshalToSizedBufferVT(frame[4:]); err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	_, err := w.Write(frame)
	return err
}

// Read reads one frame of at most limit bytes into m. io.EOF means that the other side closed between frames.
func Read(r io.Reader, m interface{ UnmarshalVT([]byte) error }, limit int) error {
	size, err := ReadSize(r, limit)
	if err != nil {
		return err
	}
	return ReadBody(r, m, size)
}

// ReadSize reads how many bytes the next frame has, at most limit. io.EOF means that there is none.
func ReadSize(r io.Reader, limit int) (int, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if int64(size) > int64(limit) {
		return 0, fmt.Errorf("a frame of %d bytes is larger than the %d that are taken here", size, limit)
	}
	return int(size), nil
}

// ReadBody reads the rest of a frame into m. It takes memory as bytes arrive, not as they are announced.
func ReadBody(r io.Reader, m interface{ UnmarshalVT([]byte) error }, size int) error {
	frame := make([]byte, 0, min(size, 64<<10))
	for len(frame) < size {
		have := len(frame)
		more := min(size-have, max(have, 64<<10))
		frame = slices.Grow(frame, more)[:have+more]
		if _, err := io.ReadFull(r, frame[have:]); err != nil {
			return fmt.Errorf("reading a frame: %w", err)
		}
	}
	return m.UnmarshalVT(frame)
}

// Dir returns the directory of the cluster that commands speak to: STINT_DIR, else the directory `stint up` uses for
// this user if an agent was ever there, else that of root.
func Dir() string {
	if dir := os.Getenv("STINT_DIR"); dir != "" {
		return dir
	}
	own := HomeDir()
	if os.Geteuid() != 0 {
		if _, err := os.Lstat(filepath.Join(own, Socket)); err != nil {
			return rootDir
		}
	}
	return own
}

const rootDir = "/var/lib/stint"

// HomeDir returns where `stint up` keeps its state for this user: /var/lib/stint for root, $XDG_STATE_HOME/stint
// (~/.local/state/stint) for others.
func HomeDir() string {
	if os.Geteuid() == 0 {
		return rootDir
	}
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		state = filepath.Join(os.Getenv("HOME"), ".local", "state")
	}
	return filepath.Join(state, "stint")
}

// Address returns a path to the socket in dir that the kernel takes however long dir is: a socket's own path may have
// 107 bytes only, so a longer one is reached through a descriptor of the directory. done releases that.
func Address(dir, name string) (path string, done func(), err error) {
	path = filepath.Join(dir, name)
	if len(path) < 104 {
		return path, func() {}, nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return "/proc/self/fd/" + strconv.Itoa(int(d.Fd())) + "/" + name, func() { d.Close() }, nil
}

// Conn is one connection to an agent. Its methods may not be called at the same time.
type Conn struct {
	c net.Conn
	r *bufio.Reader

	// Note is called with what people should know while a request is under way: the agent's notes, and that an answer is slow
	// to come. It may be called from another goroutine, but only while a method runs, and never twice at once.
	Note func(text string)

	// Patience is how long an answer may take, beyond the time that a request itself asks to wait; 0: as long as one can that
	// still comes.
	Patience time.Duration
}

// Dial connects to the agent whose socket is in dir. The error is ErrNoAgent if nobody listens there.
func Dial(dir string) (*Conn, error) {
	path, done, err := Address(dir, Socket)
	if err != nil {
		return nil, fmt.Errorf("%w on %s: %w", ErrNoAgent, filepath.Join(dir, Socket), err)
	}
	defer done()
	c, err := net.DialTimeout("unix", path, 10*time.Second)
	if err != nil {
		return nil, fmt.Errorf("%w on %s: %w", ErrNoAgent, filepath.Join(dir, Socket), err)
	}
	return &Conn{c: c, r: bufio.NewReaderSize(c, 32<<10), Note: func(string) {}}, nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.c.Close() }

// Call sends one request and returns its answer, which is never an error of the agent's: those are *Refused. Who asks more than one
// user may waits and asks again, as long as an answer may take.
func (c *Conn) Call(req *Request) (*Response, error) {
	w := c.watch(req)
	defer w.end()
	var held error
	for {
		resp, err := c.once(req, w)
		var no *Refused
		if err != nil && held != nil && !errors.As(err, &no) {
			return nil, held // it closed the connection as well
		}
		if !errors.As(err, &no) || no.Code != events.Code_RATE_LIMITED || !waits(req) || time.Since(w.begun) > w.heldMost() {
			return resp, err
		}
		held = err
		w.hold(no.Text)
		time.Sleep(again)
	}
}

// again is how long who asks too much waits before the next try, as Slurm's commands do.
const again = time.Second

// waits says whether a request may be made again when the agent has no room for it. Many jobs at once are the business of who sends
// them.
func waits(req *Request) bool {
	switch r := req.GetWhat().(type) {
	case *Request_Hello: // the first of a connection, of which there are too many
		return false
	case *Request_Submit:
		return len(r.Submit.GetJobs()) == 1
	}
	return true
}

// once sends one request and returns its answer.
func (c *Conn) once(req *Request, w *watch) (*Response, error) {
	c.c.SetDeadline(time.Now().Add(w.most))
	err := Write(c.c, req)
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		return nil, w.explain(fmt.Errorf("asking the agent: %w", err))
	}
	resp, rerr := c.next(w) // an agent that would not hear us may have said why
	rerr = w.explain(rerr)
	var no *Refused
	if err != nil && !errors.As(rerr, &no) {
		return nil, fmt.Errorf("asking the agent: %w", err)
	}
	return resp, rerr
}

func (c *Conn) next(w *watch) (*Response, error) {
	for {
		resp := new(Response)
		if err := Read(c.r, resp, MaxFrame); err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the agent closed the connection before it answered")
			}
			return nil, err
		}
		switch {
		case resp.Error != "":
			return nil, &Refused{Code: resp.Code, Text: resp.Error}
		case resp.Note != "":
			w.note(resp.Note)
		case resp.Kept:
			w.keep()
		default:
			return resp, nil
		}
	}
}

// Ask puts a question about the cluster's state.
func (c *Conn) Ask(q *projections.Ask) (*projections.Answer, error) {
	resp, err := c.Call(&Request{What: &Request_Ask{Ask: q}})
	if err != nil {
		return nil, err
	}
	a := resp.GetAnswer()
	if a == nil {
		return nil, errors.New("the agent answered something else than was asked")
	}
	if a.Error != "" {
		return nil, &Refused{Text: a.Error}
	}
	return a, nil
}

// Control sends one act and returns its verdict.
func (c *Conn) Control(ctl *Control) (*Verdict, error) {
	resp, err := c.Call(&Request{What: &Request_Control{Control: ctl}})
	if err != nil {
		return nil, err
	}
	v := resp.GetVerdicts().GetVerdicts()
	if len(v) != 1 {
		return nil, errors.New("the agent answered something else than was asked")
	}
	return v[0], nil
}

// Submit sends jobs and returns a verdict for each, in order.
func (c *Conn) Submit(s *Submit) ([]*Verdict, error) {
	resp, err := c.Call(&Request{What: &Request_Submit{Submit: s}})
	if err != nil {
		return nil, err
	}
	v := resp.GetVerdicts().GetVerdicts()
	if len(v) != len(s.Jobs) {
		return nil, errors.New("the agent answered something else than was asked")
	}
	return v, nil
}

// Account puts a question to the ledger.
func (c *Conn) Account(q *rows.Ask) (*rows.Answer, error) {
	resp, err := c.Call(&Request{What: &Request_Account{Account: q}})
	if err != nil {
		return nil, err
	}
	a := resp.GetAccount()
	if a == nil {
		return nil, errors.New("the agent answered something else than was asked")
	}
	if a.Error != "" {
		return nil, &Refused{Text: a.Error}
	}
	return a, nil
}

// Stats asks for what the agent and the leader counted, and with reset has them begin anew.
func (c *Conn) Stats(reset bool) (*Counted, error) {
	resp, err := c.Call(&Request{What: &Request_Stats{Stats: &Stats{Reset_: reset}}})
	if err != nil {
		return nil, err
	}
	a := resp.GetCounted()
	if a.GetAnswer().GetStats() == nil {
		return nil, errors.New("the agent answered something else than was asked")
	}
	return a, nil
}

// Step asks about steps in an allocation of the caller's.
func (c *Conn) Step(q *tasks.Question) (*tasks.Reply, error) {
	resp, err := c.Call(&Request{What: &Request_Step{Step: q}})
	if err != nil {
		return nil, err
	}
	r := resp.GetStep()
	if r == nil {
		return nil, errors.New("the agent answered something else than was asked")
	}
	return r, nil
}

// Blob fetches a script or an environment. The agent hands it only to who submitted it, and to root.
func (c *Conn) Blob(ref *events.BlobRef) ([]byte, error) {
	resp, err := c.Call(&Request{What: &Request_Blob{Blob: ref}})
	if err != nil {
		return nil, err
	}
	if _, ok := resp.What.(*Response_Blob); !ok {
		return nil, errors.New("the agent answered something else than was asked")
	}
	return resp.GetBlob(), nil
}
