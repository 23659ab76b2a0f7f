package executor

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"stint/events"
	"stint/events/bus"
	"stint/events/bus/mem"
	"stint/executor/supervisor"
	"stint/projections"
	"stint/scheduler/cycle"
)

// The tests run executors in this process, on a log in memory, with real supervisors in processes of their own, and a leader
// that is a loop around the fold and the pass.

const supervisorVariable = "STINT_TEST_SUPERVISOR"

func TestMain(m *testing.M) {
	v, ok := os.LookupEnv(supervisorVariable)
	if !ok {
		os.Exit(m.Run())
	}
	var c struct{ Node, HostName, StateDir, Under, Version string }
	if err := json.Unmarshal([]byte(v), &c); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	conf := supervisor.Config{Node: c.Node, HostName: c.HostName, StateDir: c.StateDir, Under: c.Under, Unconfined: c.Under == "", Version: c.Version,
		SampleEvery: 50 * time.Millisecond, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if err := supervisor.Main(ctx, conf); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// cluster is a log, a leader and some nodes.
type cluster struct {
	t     testing.TB
	hub   *mem.Hub
	admin bus.Bus
	dir   string // for files of jobs
	faults
	config *events.Config

	mu     sync.Mutex
	moved  *sync.Cond
	state  *projections.Cluster
	n      uint64
	intent uint64
	nodes  map[string]*node
	deaf   atomic.Bool // nobody answers questions
}

// faults makes the log fail at will.
type faults struct {
	away atomic.Bool // nothing arrives
}

// node is one node's executor and supervisor.
type node struct {
	c     *cluster
	name  string
	state string
	under string
	sup   *exec.Cmd
	stop  context.CancelFunc
	done  chan error
	conf  Config
}

func newCluster(t testing.TB, names ...string) *cluster {
	t.Helper()
	top, err := os.MkdirTemp("", "stint-exec-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	c := &cluster{t: t, dir: filepath.Join(top, "work"), state: projections.New(), nodes: map[string]*node{}}
	c.moved = sync.NewCond(&c.mu)
	if err := os.Chmod(top, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(c.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	c.hub = mem.New(mem.Options{Faults: func(mem.Op) mem.Fault { return mem.Fault{LoseRequest: c.away.Load()} },
		Wait: func(ctx context.Context, d time.Duration) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(d):
				return nil
			}
		}})
	c.admin = c.hub.Connect("leader")
	c.config = &events.Config{Cluster: "test", KillWaitS: 2, SelectCore: true, SelectMemory: true, DefMemPerCpuMib: 100, Backfill: true, JobRequeue: true,
		Controllers: []string{"ctl"}, NodeTimeoutS: 300,
		Partitions: []*events.PartitionDef{{Name: "batch", Nodes: "ALL", Default: true, MaxTimeS: 24 * 3600, DefaultTimeS: 3600, MaxNodes: events.Unlimited, PriorityTier: 1}}}
	for _, n := range names {
		c.config.Nodes = append(c.config.Nodes, &events.NodeDef{Names: n, Cpus: 8, Sockets: 1, CoresPerSocket: 8, ThreadsPerCore: 1, MemoryMib: 16000, Weight: 1, Virtual: true,
			Gres: []*events.GresDef{{Name: "gpu", Type: "a100", Count: 4}}})
	}
	ctx, cancel := context.WithCancel(context.Background())
	followed := make(chan struct{})
	stop, err := c.admin.Wire().Answer("ask.node.*", "", c.answer)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(followed)
		_ = c.admin.Events().Follow(ctx, 0, c.fold)
	}()
	t.Cleanup(func() { stop(); cancel(); <-followed })
	c.append(events.SubjectSched, &events.SchedMessage{Kind: &events.SchedMessage_Term{Term: &events.Term{Nonce: []byte("term"), Rules: cycle.Rules, Decider: cycle.Decider}}})
	go c.lead(ctx)
	c.wish(0, events.Verb_CONFIGURE, c.config)
	for _, name := range names {
		c.start(name, top)
	}
	return c
}

// fold takes messages in.
func (c *cluster) fold(b bus.Batch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range b.Messages {
		c.state.Apply(events.Decode(m.Seq, m.Time.UnixMicro(), m.Subject, m.Data))
	}
	c.moved.Broadcast()
	return nil
}

// lead passes over the state whenever it has moved, and now and then.
func (c *cluster) lead(ctx context.Context) {
	seen := uint64(0)
	for ctx.Err() == nil {
		c.mu.Lock()
		if c.state.Seq() == seen || c.away.Load() {
			c.mu.Unlock()
			time.Sleep(5 * time.Millisecond)
			c.mu.Lock()
		}
		facts, _, _ := cycle.Run(c.state, cycle.Input{Now: time.Now().UnixMicro()})
		seen = c.state.Seq()
		c.mu.Unlock()
		if len(facts) == 0 || c.away.Load() {
			continue
		}
		var seq uint64
		for i, part := range cycle.Pack(facts) {
			c.n++
			seq = c.append(events.SubjectSched, &events.SchedMessage{Kind: &events.SchedMessage_Cycle{Cycle: &events.Cycle{Term: []byte("term"), N: c.n, Cycle: c.n, Part: uint32(i + 1), Parts: 1,
				Basis: seen, NowUs: time.Now().UnixMicro(), Decider: cycle.Decider, Facts: part}}})
		}
		c.reach(seq)
		c.nudge(seq)
	}
}

func (c *cluster) nudge(seq uint64) {
	for _, d := range c.config.Nodes {
		if err := c.admin.Wire().Nudge(events.SubjectRun(d.Names), binary.BigEndian.AppendUint64(nil, seq)); err != nil {
			c.t.Error(err)
		}
	}
}

// answer is a follower's.
func (c *cluster) answer(ctx context.Context, q bus.Nudge) ([]byte, error) {
	if c.deaf.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ask := &projections.Ask{}
	if err := ask.UnmarshalVT(q.Data); err != nil {
		return nil, err
	}
	c.reach(ask.GetLeastSeq())
	c.mu.Lock()
	defer c.mu.Unlock()
	return projections.Reply(c.state, nil, ask).MarshalVT()
}

// reach waits until the fold has reached a sequence.
func (c *cluster) reach(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.state.Seq() < seq {
		c.moved.Wait()
	}
}

type marshaler interface{ MarshalVT() ([]byte, error) }

func (c *cluster) append(subject string, m marshaler) uint64 {
	data, err := m.MarshalVT()
	if err != nil {
		c.t.Fatal(err)
	}
	ctx := context.Background()
	last, err := c.admin.Events().Last(ctx, subject)
	if err != nil {
		last.Seq = 0
	}
	seq, err := c.admin.Events().Append(ctx, subject, last.Seq, data)
	if err != nil {
		c.t.Errorf("appending on %s: %v", subject, err)
	}
	return seq
}

// wish appends an intent, and returns the id that it took, and waits until it is judged.
func (c *cluster) wish(uid uint32, verb events.Verb, body marshaler) uint32 {
	c.t.Helper()
	data, err := body.MarshalVT()
	if err != nil {
		c.t.Fatal(err)
	}
	c.intent++
	user := fmt.Sprintf("u%d", uid)
	i := &events.Intent{Verb: verb, Nonce: fmt.Appendf(nil, "%016d", c.intent), Body: data, Author: &events.Author{Uid: uid, Gid: uid, User: user, Group: user}}
	if verb == events.Verb_SUBMIT {
		i.Ids = 1
	}
	seq := c.append(events.SubjectIntentHost("login"), &events.IntentBatch{Intents: []*events.Intent{i}})
	var v *projections.IntentVerdict
	c.await("the intent is judged", func() bool {
		v = c.state.VerdictOf(seq, 0)
		return v != nil
	})
	if v.GetCode() != events.Code_OK {
		c.t.Fatalf("%s: %s %s", verb, v.GetCode(), v.GetText())
	}
	return v.GetFirstId()
}

// submit submits a script of the user who runs the test.
func (c *cluster) submit(script string, change ...func(*events.JobSpec)) uint32 {
	c.t.Helper()
	ctx := context.Background()
	uid := uint32(os.Geteuid())
	put := func(data []byte) *events.BlobRef {
		ref, err := c.admin.Blobs().Put(ctx, events.SubjectBlob(uid, fmt.Sprintf("x%d", time.Now().UnixNano())), data)
		if err != nil {
			c.t.Fatal(err)
		}
		return &events.BlobRef{Subject: ref.Subject, Offset: ref.Offset, Length: ref.Length, Sha256: ref.SHA256[:]}
	}
	s := &events.JobSpec{Name: "test", WorkDir: c.dir, SubmitHost: "login", Umask: 0o022,
		Script: put([]byte("#!/bin/bash\n" + script)), Environment: put([]byte("PATH=/usr/bin:/bin\x00SLURM_JOB_ID=old\x00MULTI=a\nb\x00"))}
	for _, f := range change {
		f(s)
	}
	return c.wish(uid, events.Verb_SUBMIT, &events.Submit{Components: []*events.JobSpec{s}})
}

// await polls the state for a condition.
func (c *cluster) await(what string, ok func() bool) {
	c.t.Helper()
	until := time.Now().Add(30 * time.Second)
	for {
		c.mu.Lock()
		is := ok()
		c.mu.Unlock()
		if is {
			return
		}
		if time.Now().After(until) {
			c.mu.Lock()
			defer c.mu.Unlock()
			var jobs []string
			c.state.EachJob(func(j *projections.Job) bool {
				jobs = append(jobs, fmt.Sprintf("%d %s completing %v nodes %v", j.Id, j.State, j.Completing, j.Nodes))
				return true
			})
			c.t.Fatalf("in 30 s it did not come to be that %s; jobs %s; voids %v", what, strings.Join(jobs, "; "), c.state.Voids())
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// ended waits for the end of a job, on all nodes.
func (c *cluster) ended(id uint32) *projections.Job {
	c.t.Helper()
	var j *projections.Job
	c.await(fmt.Sprintf("job %d is over", id), func() bool {
		j = c.state.Job(id)
		return j != nil && j.Over() && !j.Completing
	})
	return j
}

func (c *cluster) running(id uint32) *projections.Job {
	c.t.Helper()
	var j *projections.Job
	c.await(fmt.Sprintf("job %d runs", id), func() bool {
		j = c.state.Job(id)
		return j != nil && j.Live() && len(j.Nodes) > 0 && j.Nodes[0].StartedUs != 0
	})
	return j
}

func (c *cluster) output(name string) string {
	c.t.Helper()
	b, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(b)
}

// line waits for the first line of a file.
func (c *cluster) line(name string) string {
	c.t.Helper()
	var line string
	c.await(name+" has a line", func() bool {
		b, err := os.ReadFile(filepath.Join(c.dir, name))
		l, _, ok := strings.Cut(string(b), "\n")
		line = l
		return err == nil && ok
	})
	return line
}

// voids is how many facts of nodes were void, by why.
func (c *cluster) voids() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, v := range c.state.Voids() {
		out = append(out, fmt.Sprintf("%d %s", v.Count, v.Why))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

func (c *cluster) start(name, top string) {
	c.t.Helper()
	n := &node{c: c, name: name, state: filepath.Join(top, name)}
	if os.Geteuid() == 0 {
		n.under = fmt.Sprintf("stint-test-exec-%d-%s", os.Getpid(), name)
	}
	n.conf = Config{Node: name, Bus: c.hub.Connect(name), StateDir: n.state, Virtual: true, Version: "test", Beat: 100 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))}
	c.nodes[name] = n
	n.startSupervisor()
	n.startExecutor()
	c.t.Cleanup(n.end)
	c.await("node "+name+" is up", func() bool { x := c.state.Node(name); return x != nil && x.Up })
}

func (n *node) startSupervisor() {
	n.c.t.Helper()
	b, err := json.Marshal(map[string]string{"Node": n.name, "HostName": n.name, "StateDir": n.state, "Under": n.under, "Version": "test"})
	if err != nil {
		n.c.t.Fatal(err)
	}
	n.sup = exec.Command("/proc/self/exe")
	n.sup.Env = append(os.Environ(), supervisorVariable+"="+string(b))
	n.sup.Stderr, n.sup.Dir = os.Stderr, "/"
	if err := n.sup.Start(); err != nil {
		n.c.t.Fatal(err)
	}
}

func (n *node) startExecutor() {
	ctx, stop := context.WithCancel(context.Background())
	n.stop, n.done = stop, make(chan error, 1)
	go func() { n.done <- Run(ctx, n.conf) }()
}

// stopExecutor ends it as a kill would, as far as the node and the log are concerned: nothing is said or written any more.
func (n *node) stopExecutor() {
	n.stop()
	<-n.done
}

func (n *node) killSupervisor() {
	_ = n.sup.Process.Kill()
	_ = n.sup.Wait()
}

func (n *node) end() {
	n.stopExecutor()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := supervisor.Dial(ctx, supervisor.SocketPath(n.state))
	if err != nil {
		n.c.t.Error(err)
		return
	}
	if l, err := c.List(ctx); err == nil {
		for _, r := range l.Running {
			_, _ = c.Terminate(ctx, &supervisor.Terminate{Job: r.Started.Key.Job, Run: r.Started.Key.Run, Cause: supervisor.Cause_DOWN})
		}
	}
	if err := c.Stop(ctx, supervisor.StopMode_KILL_STEPS); err != nil {
		n.c.t.Error(err)
		_ = n.sup.Process.Kill()
	}
	_ = n.sup.Wait()
	c.Close()
	if err := RemoveDevices(n.state); err != nil {
		n.c.t.Error(err)
	}
	if n.under != "" {
		dirs, _ := filepath.Glob("/sys/fs/cgroup/*/" + n.under)
		more, _ := filepath.Glob("/sys/fs/cgroup/memory/*/*/" + n.under)
		for _, d := range append(dirs, more...) {
			os.Remove(d)
		}
	}
}
