package commands

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"stint/cli/wire"
	"stint/events"
	"stint/ledger"
	"stint/projections"
	"stint/scheduler/cycle"
	"stint/scheduler/sim"
)

var rewrite = flag.Bool("rewrite", false, "write what the commands print into the scripts, to be looked at as a diff")

// host is a login host of a cluster on virtual time: in place of the agent somebody who has the whole cluster in memory, the
// real fold, admission, passes and ledger included, and whom the commands reach through the real socket.
type host struct {
	stale  time.Duration // for so long whoever answers lags
	t      *testing.T
	dir    string
	script *sim.Script
	book   *ledger.Ledger

	mu     sync.Mutex
	caller uint32
	booked int
	blobs  map[string][]byte
	alike  projections.Alike
	silent bool // nobody judges
}

// people are the users of the host.
var people = map[string]uint32{"root": 0, "u1000": 1000, "u1001": 1001, "u1002": 1002}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir(), script: sim.NewScript(sim.Options{Seed: 1}), blobs: map[string][]byte{}}
	var err error
	h.book, err = ledger.Open(filepath.Join(h.dir, "ledger"), ledger.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(h.dir, wire.Socket))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { h.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
		if err := h.book.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *host) serve(c net.Conn) {
	defer c.Close()
	for {
		req := new(wire.Request)
		if err := wire.Read(c, req, wire.MaxFrame); err != nil {
			return
		}
		h.mu.Lock()
		resp := h.answer(req)
		h.mu.Unlock()
		if err := wire.Write(c, resp); err != nil {
			return
		}
	}
}

func (h *host) answer(req *wire.Request) *wire.Response {
	w := h.script.World
	switch q := req.What.(type) {
	case *wire.Request_Hello:
		return &wire.Response{What: &wire.Response_Welcome{Welcome: &wire.Welcome{Uid: h.caller, User: h.author().User, Host: "login"}}}
	case *wire.Request_Ask:
		q.Ask.Uid = &h.caller
		if t := q.Ask.GetCrontab(); t != nil {
			t.Asker = h.author().User
		}
		if t := q.Ask.GetTest(); t != nil {
			return &wire.Response{What: &wire.Response_Answer{Answer: &projections.Answer{What: &projections.Answer_Test{
				Test: cycle.Test(w.Fold, h.author(), t.GetSpec(), w.Now()),
			}}}}
		}
		a, err := h.reply(q.Ask)
		if err != nil {
			return &wire.Response{Error: err.Error()}
		}
		a.StaleUs = h.stale.Microseconds()
		return &wire.Response{What: &wire.Response_Answer{Answer: a}}
	case *wire.Request_Control:
		seq, _ := w.Intent(h.author(), q.Control.Verb, raw(q.Control.Body))
		return h.verdict(seq, 0)
	case *wire.Request_Crontab:
		body := &events.Crontab{Text: q.Crontab.Text, Remove: q.Crontab.Remove}
		for name, uid := range people {
			if q.Crontab.Of == name || q.Crontab.Of == strconv.Itoa(int(uid)) {
				body.Owner = &events.Author{Uid: uid, Gid: uid, User: name, Group: name}
			}
		}
		for _, e := range q.Crontab.Entries {
			e.Spec.Script, e.Spec.Environment = h.keep(e.Script), h.keep(e.Environment)
			body.Entries = append(body.Entries, e.Spec)
		}
		seq, id := w.Intent(h.author(), events.Verb_CRONTAB, body)
		return h.verdict(seq, id)
	case *wire.Request_Submit:
		spec := q.Submit.Jobs[0].Components[0].Spec
		spec.Script = h.keep(q.Submit.Jobs[0].Components[0].Script)
		spec.Environment = h.keep(q.Submit.Jobs[0].Components[0].Environment)
		seq, id := w.Intent(h.author(), events.Verb_SUBMIT, &events.Submit{Components: []*events.JobSpec{spec}})
		return h.verdict(seq, id)
	case *wire.Request_Blob:
		if data, ok := h.blobs[q.Blob.Subject]; ok && (h.caller == 0 || events.BlobOf(q.Blob.Subject, h.caller)) {
			return &wire.Response{What: &wire.Response_Blob{Blob: data}}
		}
		return &wire.Response{Error: "that script is another user's", Code: events.Code_ACCESS_DENIED}
	case *wire.Request_Account:
		for _, m := range w.Log()[h.booked:] {
			if err := h.book.Apply(events.Decode(m.Seq, m.At, m.Subject, m.Data)); err != nil {
				return &wire.Response{Error: err.Error()}
			}
		}
		h.booked = len(w.Log())
		if err := h.book.Commit(false); err != nil {
			return &wire.Response{Error: err.Error()}
		}
		q.Account.Uid = &h.caller
		return &wire.Response{What: &wire.Response_Account{Account: h.book.Answer(context.Background(), q.Account)}}
	}
	return &wire.Response{Error: "not known here"}
}

// reply answers as a controller does, lists of jobs and of nodes as it encodes them.
func (h *host) reply(ask *projections.Ask) (*projections.Answer, error) {
	fold := h.script.World.Fold
	var data []byte
	var err error
	switch {
	case ask.GetJobs() != nil:
		data, err = projections.Encode(fold, h, ask)
	case ask.GetNodes().GetAlike():
		data, err = h.alike.Encode(fold.View(), ask)
	default:
		return projections.Reply(fold, h, ask), nil
	}
	if err != nil {
		return nil, err
	}
	a := new(projections.Answer)
	return a, a.UnmarshalVT(data)
}

// keep stores bytes as the agent does.
func (h *host) keep(data []byte) *events.BlobRef {
	subject := events.SubjectBlob(h.caller, strconv.Itoa(len(h.blobs)))
	h.blobs[subject] = data
	return &events.BlobRef{Subject: subject, Length: uint64(len(data))}
}

type raw []byte

func (r raw) MarshalVT() ([]byte, error) { return r, nil }

func (h *host) verdict(seq uint64, id uint32) *wire.Response {
	v := &wire.Verdict{Seq: seq, Job: id, Undecided: true}
	if !h.silent {
		h.script.World.Advance(sim.Millisecond)
		if got := h.script.World.Fold.VerdictOf(seq, 0); got != nil {
			v.Undecided, v.Code, v.Text, v.Targets, v.Touched = false, got.Code, got.Text, got.Verdicts, got.Touched
		}
	}
	return &wire.Response{What: &wire.Response_Verdicts{Verdicts: &wire.Verdicts{Verdicts: []*wire.Verdict{v}}}}
}

func (h *host) author() *events.Author {
	for name, uid := range people {
		if uid == h.caller {
			return &events.Author{Uid: uid, Gid: uid, User: name, Group: name, GroupNames: []string{name}, Host: "login"}
		}
	}
	return nil
}

// Outcome is what the last pass thought of a job.
func (h *host) Outcome(job uint32) *projections.Outcome {
	for _, o := range h.script.World.Outcomes() {
		if o.GetJob() == job {
			return o
		}
	}
	return nil
}

// run runs a command as a user and returns what it printed: on stderr too, after marks, and its exit code if it is not 0.
func (h *host) run(uid uint32, environ []string, stdin, name string, args ...string) string {
	h.mu.Lock()
	h.caller = uid
	now := time.UnixMicro(h.script.World.Now()).UTC()
	h.mu.Unlock()
	var stdout, stderr strings.Builder
	waits := 0
	w := &World{
		Host:  "login",
		Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Environ: environ, Dir: h.dir, Now: now, State: h.dir, Uid: uid,
		Users: Users{All: func() bool { return true }, Uid: func(name string) (uint32, bool) { n, ok := people[name]; return n, ok }, Name: func(uid uint32) string {
			for name, n := range people {
				if n == uid {
					return name
				}
			}
			return ""
		}, In: func(group string) bool { return people[group] == uid }},
		Wait: func(d time.Duration) time.Time {
			h.mu.Lock()
			defer h.mu.Unlock()
			if waits++; waits > 1000 {
				panic(errEnough) // a command that never ends
			}
			h.script.World.Advance(d.Microseconds())
			return time.UnixMicro(h.script.World.Now()).UTC()
		},
	}
	if w.Getenv("TERMINAL") != "" {
		w.Terminal = func() bool { return true }
	}
	if text := w.Getenv("TURNS"); text != "" { // how often a command may wait before the test ends it
		n, _ := strconv.Atoi(text)
		waits = 1000 - n
	}
	code := func() (code int) {
		defer func() {
			if r := recover(); r != nil {
				if err, ok := r.(error); !ok || !errors.Is(err, errEnough) {
					panic(r)
				}
				code = 999
			}
			if w.conn != nil {
				w.conn.Close()
			}
		}()
		return Run(name, args, w)
	}()
	out := marked("", strings.ReplaceAll(stdout.String(), h.dir, "DIR")) + marked("! ", strings.ReplaceAll(stderr.String(), h.dir, "DIR"))
	switch code {
	case 0:
	case 999:
		out += "still running\n"
	default:
		out += fmt.Sprintf("exit %d\n", code)
	}
	return out
}

var errEnough = errors.New("it waited often enough")

// marked puts a mark before each line, and one behind blanks at its end so that they are seen.
func marked(mark, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, ended := strings.CutSuffix(line, "\n")
		b.WriteString(mark + line)
		if strings.HasSuffix(line, " ") {
			b.WriteString("⏎")
		}
		if !ended {
			b.WriteString("∎") // no newline
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestScripts runs testdata/*.txt: `> ` before what happens to the cluster (the language of scheduler/sim), `$ USER ` before
// command lines, and what is printed indented below.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			h := newHost(t)
			var out strings.Builder
			lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
			for i := 0; i < len(lines); i++ {
				line := lines[i]
				fmt.Fprintln(&out, line)
				var got string
				switch {
				case strings.HasPrefix(line, "> "):
					h.mu.Lock()
					got = marked("", h.script.Run(line[2:]))
					h.mu.Unlock()
				case strings.HasPrefix(line, "$ "):
					got = h.line(line[2:])
				case line == "" || line[0] == '#':
					continue
				default:
					t.Fatalf("%s:%d: neither a command nor what it prints: %s", file, i+1, line)
				}
				var want strings.Builder
				at := i + 1
				for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "\t") {
					i++
					fmt.Fprintln(&want, lines[i][1:])
				}
				if got != want.String() && !*rewrite {
					t.Errorf("%s:%d: %s\nprints\n%s\nwant\n%s", file, at, line, got, want.String())
				}
				for l := range strings.Lines(got) {
					fmt.Fprint(&out, "\t", l)
				}
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// line runs `USER [NAME=VALUE…] COMMAND ARGUMENTS… [ < INPUT]`.
func (h *host) line(text string) string {
	text, stdin, _ := strings.Cut(text, " < ")
	stdin = strings.ReplaceAll(stdin, `\n`, "\n")
	words, err := splitLine(text)
	if err != nil {
		h.t.Fatal(err)
	}
	uid, ok := people[words[0]]
	if !ok {
		h.t.Fatalf("no user %s", words[0])
	}
	words = words[1:]
	var environ []string
	for strings.Contains(words[0], "=") {
		environ, words = append(environ, words[0]), words[1:]
	}
	return h.run(uid, environ, stdin, words[0], words[1:]...)
}
