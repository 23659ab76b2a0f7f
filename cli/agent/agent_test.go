package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stint/cli/wire"
	"stint/events"
	"stint/events/bus"
	"stint/events/bus/mem"
	"stint/projections"
)

// cluster is an agent on a bus in memory, and in place of a controller somebody who gives every intent the next ids and
// a verdict.
type cluster struct {
	t     *testing.T
	dir   string
	bus   bus.Bus
	agent *Agent

	mu      sync.Mutex
	next    uint32
	batches map[uint64]*events.IntentBatch
	ids     map[uint64][]uint32
	judge   func(*events.Intent) (events.Code, string)
	silent  bool
}

// testAdmin is an administrator of the clusters that tests start.
const testAdmin = 4_242

func start(t *testing.T, limits Limits) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), bus: mem.New(mem.Options{}).Connect("agent"), next: 1, batches: map[uint64]*events.IntentBatch{}, ids: map[uint64][]uint32{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() {
		c.bus.Events().Follow(ctx, 1, func(b bus.Batch) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, m := range b.Messages {
				e := events.Decode(m.Seq, m.Time.UnixMicro(), m.Subject, m.Data)
				c.batches[m.Seq] = e.Intents
				for _, in := range e.Intents.GetIntents() {
					c.ids[m.Seq] = append(c.ids[m.Seq], c.next)
					c.next += in.Ids
				}
			}
			return nil
		})
	})
	stop, err := c.bus.Wire().Answer(events.SubjectAsk("verdicts"), "q", func(ctx context.Context, q bus.Nudge) ([]byte, error) {
		ask := new(projections.Ask)
		if err := ask.UnmarshalVT(q.Data); err != nil {
			return nil, err
		}
		v := &projections.AnswerVerdicts{}
		for {
			c.mu.Lock()
			b := c.batches[ask.GetVerdicts().Seq]
			c.mu.Unlock()
			if b != nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		v.Ids = c.ids[ask.GetVerdicts().Seq]
		v.Undecided = c.silent
		for i, in := range c.batches[ask.GetVerdicts().Seq].Intents {
			if c.silent {
				break
			}
			k := &projections.IntentVerdict{Seq: ask.GetVerdicts().Seq, Index: uint32(i), Job: v.Ids[i]}
			if c.judge != nil {
				k.Code, k.Text = c.judge(in)
			}
			v.Verdicts = append(v.Verdicts, k)
		}
		return (&projections.Answer{Seq: ask.LeastSeq, What: &projections.Answer_Verdicts{Verdicts: v}}).MarshalVT()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	stop, err = c.bus.Wire().Answer(events.SubjectAsk("config"), "q", func(context.Context, bus.Nudge) ([]byte, error) {
		return (&projections.Answer{What: &projections.Answer_Config{Config: &projections.AnswerConfig{Config: &events.Config{AdminUids: []uint32{testAdmin}}}}}).MarshalVT()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	c.agent, err = New(Config{Bus: c.bus, Host: "h.1", Dir: c.dir, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.agent.Listen()
	if err != nil {
		t.Fatal(err)
	}
	running.Go(func() { c.agent.Serve(ctx, l) })
	return c
}

func (c *cluster) dial() *wire.Conn {
	c.t.Helper()
	conn, err := wire.Dial(c.dir)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	return conn
}

func job(name, script string) *wire.Job {
	return &wire.Job{Components: []*wire.Component{{Spec: &events.JobSpec{Name: name}, Script: []byte(script), Environment: []byte("A=1\x00")}}}
}

// What is submitted is in the log under the caller's own name, and its script and environment are where it says.
func TestSubmit(t *testing.T) {
	c := start(t, Limits{})
	v, err := c.dial().Submit(&wire.Submit{Jobs: []*wire.Job{job("a", "#!/bin/sh\n"), job("b", "#!/bin/sh\nexit 1\n")}})
	if err != nil {
		t.Fatal(err)
	}
	if v[0].Job != 1 || v[1].Job != 2 || v[0].Undecided || v[1].Undecided {
		t.Fatalf("verdicts: %v", v)
	}
	for i, script := range []string{"#!/bin/sh\n", "#!/bin/sh\nexit 1\n"} {
		c.mu.Lock()
		in := c.batches[v[i].Seq].Intents[v[i].Index]
		c.mu.Unlock()
		if in.Author.Uid != uint32(os.Getuid()) || in.Author.Host != "h.1" || len(in.Nonce) != 16 {
			t.Errorf("intent %d: author %v, nonce %x", i, in.Author, in.Nonce)
		}
		s := new(events.Submit)
		if err := s.UnmarshalVT(in.Body); err != nil {
			t.Fatal(err)
		}
		for _, want := range []struct {
			ref  *events.BlobRef
			text string
		}{{s.Components[0].Script, script}, {s.Components[0].Environment, "A=1\x00"}} {
			ref := bus.BlobRef{Subject: want.ref.Subject, Offset: want.ref.Offset, Length: want.ref.Length, SHA256: [32]byte(want.ref.Sha256)}
			got, err := c.bus.Blobs().Get(context.Background(), ref)
			if err != nil || string(got) != want.text {
				t.Errorf("blob %v: %q, %v; want %q", ref, got, err, want.text)
			}
		}
	}
}

// A thousand jobs that have their scripts and environments in common are few messages in the log and one blob, and each is
// told its own verdict.
func TestManyAtOnce(t *testing.T) {
	c := start(t, Limits{Burst: 300, Rate: 0.001}) // further jobs of a request take a quarter of what one by itself does
	c.judge = func(in *events.Intent) (events.Code, string) {
		s := new(events.Submit)
		if s.UnmarshalVT(in.Body); strings.HasSuffix(s.Components[0].Name, "7") {
			return events.Code_INVALID_PARTITION, s.Components[0].Name
		}
		return events.Code_OK, ""
	}
	const n = 1000
	req := &wire.Submit{Texts: [][]byte{[]byte("#!/bin/sh\n"), []byte("A=1\x00"), []byte("A=2\x00")}}
	for i := range n {
		req.Jobs = append(req.Jobs, &wire.Job{Components: []*wire.Component{{Spec: &events.JobSpec{Name: fmt.Sprint("j", i)}, ScriptText: 1, EnvironmentText: uint32(2 + i%2)}}})
	}
	v, err := c.dial().Submit(req)
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	refs := map[string]int{}
	for i := range n {
		name := fmt.Sprint("j", i)
		s := new(events.Submit)
		if err := s.UnmarshalVT(c.batches[v[i].Seq].Intents[v[i].Index].Body); err != nil {
			t.Fatal(err)
		}
		p := s.Components[0]
		if p.Name != name || v[i].Job != uint32(i+1) {
			t.Fatalf("the verdict on %s is on job %d, %s", name, v[i].Job, p.Name)
		}
		if bad := i%10 == 7; bad != (v[i].Code != events.Code_OK) || bad && v[i].Text != name {
			t.Errorf("%s: %v", name, v[i])
		}
		for what, ref := range map[string]*events.BlobRef{"#!/bin/sh\n": p.Script, fmt.Sprintf("A=%d\x00", 1+i%2): p.Environment} {
			if refs[what+ref.String()]++; refs[what+ref.String()] > 1 {
				continue
			}
			got, err := c.bus.Blobs().Get(context.Background(), bus.BlobRef{Subject: ref.Subject, Offset: ref.Offset, Length: ref.Length, SHA256: [32]byte(ref.Sha256)})
			if err != nil || string(got) != what {
				t.Errorf("%s: %q, %v; want %q", name, got, err, what)
			}
		}
	}
	if len(refs) != 3 {
		t.Errorf("%d texts are stored for 3", len(refs))
	}
	if len(c.batches) > 3 {
		t.Errorf("%d messages for %d jobs", len(c.batches), n)
	}
}

// Requests that come while messages are on their way share one; each gets its own verdict.
func TestPacking(t *testing.T) {
	c := start(t, Limits{})
	const n = 40
	var all sync.WaitGroup
	var mu sync.Mutex
	ids := map[uint32]string{}
	for i := range n {
		conn := c.dial()
		all.Go(func() {
			name := fmt.Sprint("j", i)
			v, err := conn.Submit(&wire.Submit{Jobs: []*wire.Job{job(name, "#!/bin/sh\n")}})
			mu.Lock()
			defer mu.Unlock()
			if err != nil || v[0].Undecided {
				t.Errorf("%s: %v %v", name, v, err)
				return
			}
			ids[v[0].Job] = name
		})
	}
	all.Wait()
	if len(ids) != n {
		t.Fatalf("%d different ids for %d jobs", len(ids), n)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for seq, b := range c.batches {
		for i, in := range b.Intents {
			s := new(events.Submit)
			s.UnmarshalVT(in.Body)
			if got := ids[c.ids[seq][i]]; got != s.Components[0].Name {
				t.Errorf("job %d was told to the author of %s and is %s", c.ids[seq][i], got, s.Components[0].Name)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	c := start(t, Limits{Burst: 3, Rate: 0.001, Script: 100, Connections: 2})
	c.judge = func(in *events.Intent) (events.Code, string) {
		return events.Code_INVALID_PARTITION, "no such partition"
	}
	conn := c.dial()
	v, err := conn.Submit(&wire.Submit{Jobs: []*wire.Job{job("a", "#!/bin/sh\n")}})
	if err != nil || v[0].Code != events.Code_INVALID_PARTITION || v[0].Text != "no such partition" {
		t.Errorf("refused by admission: %v %v", v, err)
	}
	for _, test := range []struct {
		name string
		req  *wire.Submit
		code events.Code
		text string
	}{
		{"nothing", &wire.Submit{}, events.Code_MALFORMED, "1 to 10000 jobs"},
		{"a long script", &wire.Submit{Jobs: []*wire.Job{job("a", "#!"+strings.Repeat("x", 200))}}, events.Code_MALFORMED, "the script has 202 bytes"},
		{"too many at once", &wire.Submit{Jobs: slices.Repeat([]*wire.Job{job("a", "")}, 2*together+1)}, events.Code_RATE_LIMITED, "more requests than the agent takes"},
		{"a text that is not there", &wire.Submit{Texts: [][]byte{[]byte("#!/bin/sh\n")}, Jobs: []*wire.Job{{Components: []*wire.Component{{Spec: &events.JobSpec{}, ScriptText: 2}}}}}, events.Code_MALFORMED, "names a text that the request has not"},
		{"a script twice over", &wire.Submit{Texts: [][]byte{[]byte("#!/bin/sh\n")}, Jobs: []*wire.Job{{Components: []*wire.Component{{Spec: &events.JobSpec{}, ScriptText: 1, Script: []byte("#!/bin/sh\n")}}}}}, events.Code_MALFORMED, "names a text that the request has not"},
		{"a long text", &wire.Submit{Texts: [][]byte{[]byte("#!" + strings.Repeat("x", 200))}, Jobs: []*wire.Job{{Components: []*wire.Component{{Spec: &events.JobSpec{}, ScriptText: 1}}}}}, events.Code_MALFORMED, "the script has 202 bytes"},
	} {
		_, err := conn.Submit(test.req)
		var no *wire.Refused
		if r, ok := err.(*wire.Refused); ok {
			no = r
		}
		if no == nil || no.Code != test.code || !strings.Contains(no.Text, test.text) {
			t.Errorf("%s: %v, want %v %q", test.name, err, test.code, test.text)
		}
	}
	second := c.dial()
	if _, err := second.Call(&wire.Request{What: &wire.Request_Hello{Hello: &wire.Hello{}}}); err != nil {
		t.Errorf("the second connection: %v", err)
	}
	if _, err := c.dial().Call(&wire.Request{What: &wire.Request_Hello{Hello: &wire.Hello{}}}); err == nil || !strings.Contains(err.Error(), "connections") {
		t.Errorf("the third connection of two: %v", err)
	}
}

// Without a leader the id is known and the job is told to wait.
func TestUndecided(t *testing.T) {
	c := start(t, Limits{})
	c.silent = true
	v, err := c.dial().Submit(&wire.Submit{Jobs: []*wire.Job{job("a", "#!/bin/sh\n")}, WaitMs: 50})
	if err != nil || !v[0].Undecided || v[0].Job != 1 {
		t.Fatalf("%v %v", v, err)
	}
}

// A second agent on the same socket is refused, a socket without an agent is replaced, and a long path will do.
func TestSocket(t *testing.T) {
	c := start(t, Limits{})
	other, _ := New(Config{Bus: c.bus, Host: "h", Dir: c.dir})
	if l, err := other.Listen(); err == nil || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("two agents on one socket: %v", err)
		l.Close()
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	os.Mkdir(long, 0o755)
	for range 2 {
		a, _ := New(Config{Bus: c.bus, Host: "h", Dir: long})
		l, err := a.Listen()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if conn, err := l.Accept(); err == nil {
				conn.Close()
			}
		}()
		conn, err := wire.Dial(long)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		l.(*net.UnixListener).Close() // as a killed agent does: the socket stays
	}
	info, err := os.Stat(filepath.Join(long, wire.Socket))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v %v", info, err)
	}
}

// The name service is asked once for many, and what it said holds while it fails.
func TestNames(t *testing.T) {
	now := time.Unix(0, 0)
	asked, fails := 0, false
	n := NewNames()
	n.now = func() time.Time { return now }
	n.lookup = func(_ context.Context, uid, gid uint32) (Identity, bool) {
		asked++
		return Identity{User: fmt.Sprint("u", asked), Uid: uid}, !fails
	}
	now = now.Add(time.Hour)
	steps := []struct {
		after time.Duration
		fails bool
		user  string
		asked int
	}{
		{0, false, "u1", 1}, {time.Second, false, "u1", 1}, {2 * time.Minute, false, "u2", 2}, {2 * time.Minute, true, "u2", 3}, {time.Second, false, "u2", 3},
	}
	for i, s := range steps {
		now, fails = now.Add(s.after), s.fails
		if got := n.User(context.Background(), 7, 7).User; got != s.user || asked != s.asked {
			t.Errorf("step %d: %s after asking %d times, want %s after %d", i, got, asked, s.user, s.asked)
		}
	}
	fails = true
	if got := n.User(context.Background(), 4242, 17); got.User != "4242" || got.Gid != 17 {
		t.Errorf("nobody knows 4242: %+v", got)
	}
}

func TestLocalNames(t *testing.T) {
	got := NewNames().User(context.Background(), 0, 0)
	if got.User != "root" || got.Group != "root" || len(got.Groups) == 0 {
		t.Errorf("root is %+v", got)
	}
}

// A user who announces much and sends little takes no memory for it, and keeps only their own further requests waiting.
func TestBytesOnTheirWay(t *testing.T) {
	c := start(t, Limits{Bytes: 1 << 20})
	path, done, err := wire.Address(c.dir, wire.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	hog, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer hog.Close()
	hog.Write([]byte{0, 0x10, 0, 0, 1}) // a MiB, of which one byte comes
	l, uid := c.agent.limiter, uint32(os.Geteuid())
	state := func() (bytes int, waited bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.user(uid).bytes, l.user(uid).freed != nil
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("it did not come about: %s", what)
			}
		}
	}
	until("the announcement is taken in", func() bool { bytes, _ := state(); return bytes == 1<<20 })
	answered := make(chan error, 1)
	conn := c.dial()
	go func() {
		_, err := conn.Call(&wire.Request{What: &wire.Request_Hello{Hello: &wire.Hello{}}})
		answered <- err
	}()
	until("the next request waits", func() bool { _, waited := state(); return waited })
	release, ok := l.hold(context.Background(), uid+1, 1<<20)
	if !ok {
		t.Fatal("another user waits too")
	}
	release()
	hog.Close()
	if err := <-answered; err != nil {
		t.Errorf("the request that waited: %v", err)
	}
	until("nothing is held any more", func() bool { bytes, waited := state(); return bytes == 0 && !waited })
}
