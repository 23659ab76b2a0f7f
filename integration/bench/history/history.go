package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"stint/cli/site"
	"stint/events"
	"stint/events/bus"
	"stint/events/bus/jet"
	"stint/events/bus/server"
	"stint/projections"
	"stint/scheduler/cycle"
)

// Options of a history.
type Options struct {
	Dir      string // of the cluster
	Jobs     int    // how many ran
	Seed     uint64 // of what they are; their times are those at which the history is made
	Progress func(jobs int)
}

// Made is what was written.
type Made struct {
	Messages uint64 // of EVENTS
	States   uint64 // of JOBS
}

// The cluster on which the jobs of a history ran: a configuration of its own, which the next `stint up` replaces.
const (
	nodes   = 4
	cpus    = 256
	memory  = 1_000_000 // MiB
	packed  = 250       // intents of one message, as a busy agent packs them
	users   = 100
	scripts = 8 // different ones in a message
)

// maker plays everybody: the agent, the leader and the nodes. Decisions are made by the passes of the real leader, on the fold of what
// has come back from the log, and every message goes through a real bus: so what is there afterwards is what a cluster would have left,
// and a replay makes every decision again.
type maker struct {
	bus    bus.Bus
	rng    *rand.Rand
	state  *projections.Cluster
	memory *cycle.Memory
	read   <-chan bus.Batch
	failed func() error // why nothing more is read

	nonce    []byte // of the term
	n, cycle uint64 // of its messages
	nodes    []*node
	live     map[uint32]int64 // jobs that were placed and have not been told to have ended; when they began

	feed    []bus.Entry // job states to be written
	feeding bool
	last    uint64 // of JOBS
	made    Made
	ended   int
}

type node struct {
	name string
	n    uint64
	seq  uint64 // of its last message
}

// Make fills the streams of a cluster.
func Make(ctx context.Context, o Options) (made Made, err error) {
	dir := site.Dir(o.Dir)
	if err := dir.Make(0o755); err != nil {
		return made, err
	}
	lock, err := dir.Lock()
	if err != nil {
		return made, err
	}
	defer lock.Close()
	keys, err := server.OpenKeys(dir.Keys())
	if err != nil {
		return made, err
	}
	role := bus.Role{Kind: bus.Admin}
	seed, err := keys.Seed(role)
	if err != nil {
		return made, err
	}
	quiet := slog.New(slog.DiscardHandler)
	s, err := server.Start(server.Options{Dir: dir.Bus(), Keys: keys, Unsynced: true, Log: quiet}) // nothing here is anybody's
	if err != nil {
		return made, err
	}
	defer s.Stop()
	b, err := jet.Connect(ctx, jet.Options{URL: s.URL(), Server: s, Role: role, Seed: seed, Log: quiet})
	if err != nil {
		return made, err
	}
	defer b.Close()
	if _, err := b.Provision(ctx, jet.Layout{Replicas: 1}); err != nil {
		return made, err
	}
	if _, last, err := b.Events().Bounds(ctx); err != nil || last > 0 {
		return made, errors.Join(err, errors.New("the folder has a history already: give one without"))
	}
	return run(ctx, b, o)
}

// run writes a history into the streams of a bus that has none.
func run(ctx context.Context, b bus.Bus, o Options) (Made, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	read := make(chan bus.Batch, 8)
	go func() {
		cancel(b.Events().Follow(ctx, 1, func(batch bus.Batch) error {
			select {
			case read <- batch:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}))
	}()
	m := &maker{
		bus: b, rng: rand.New(rand.NewPCG(o.Seed, 0)), state: projections.New(), memory: cycle.NewMemory(), read: read,
		failed: func() error { return context.Cause(ctx) }, live: map[uint32]int64{},
	}
	if err := m.begin(ctx); err != nil {
		return m.made, fmt.Errorf("beginning a history: %w", err)
	}
	submitted := 0
	for m.ended < o.Jobs {
		// JOBS keeps the last half million: what it would have dropped by the end is not written. A job has four states.
		m.feeding = o.Jobs-m.ended <= bus.MaxJobs/4+2*nodes*cpus
		for n := nodes*cpus - len(m.live); n > 0 && submitted < o.Jobs; n -= packed {
			k := min(packed, o.Jobs-submitted)
			if err := m.submit(ctx, k); err != nil {
				return m.made, fmt.Errorf("after %d jobs: %w", submitted, err)
			}
			submitted += k
		}
		err := m.decide(ctx) // what was over ends, what was submitted is judged and starts
		if err == nil {
			err = m.work(ctx)
		}
		if err != nil {
			return m.made, fmt.Errorf("after %d jobs: %w", m.ended, err)
		}
		if o.Progress != nil {
			o.Progress(m.ended)
		}
	}
	if err := m.decide(ctx); err != nil {
		return m.made, err
	}
	if err := m.publish(ctx, 1); err != nil {
		return m.made, err
	}
	m.made.Messages = m.state.Seq()
	if v := m.state.Voids(); len(v) > 0 {
		return m.made, fmt.Errorf("the history does not hold: %s, %d times, last in message %d", v[0].Why, v[0].Count, v[0].LastSeq)
	}
	return m.made, nil
}

// fold waits until the message with that sequence has come back, and folds up to it and what has come with it.
func (m *maker) fold(ctx context.Context, seq uint64) error {
	for m.state.Seq() < seq {
		select {
		case batch := <-m.read:
			for _, msg := range batch.Messages {
				m.state.Apply(events.Decode(msg.Seq, msg.Time.UnixMicro(), msg.Subject, msg.Data))
				for _, c := range m.state.Changes() {
					m.noted(c)
				}
				if m.feeding {
					for _, e := range projections.JobEvents(m.state.Config().GetCluster(), m.state.Changes()) {
						m.feed = append(m.feed, bus.Entry{Subject: e.Subject, Data: e.Data})
					}
				}
			}
		case <-ctx.Done():
			return m.failed()
		}
	}
	return m.publish(ctx, 2000)
}

func (m *maker) noted(c projections.Change) {
	switch j := c.After; {
	case j == nil || c.Before == nil:
	case j.Live() && !c.Before.Live():
		m.live[j.Id] = j.StartUs
	case j.Over() && !c.Before.Over():
		m.ended++
	}
}

// publish writes job states, if there are so many.
func (m *maker) publish(ctx context.Context, least int) (err error) {
	if len(m.feed) < least {
		return nil
	}
	m.made.States += uint64(len(m.feed))
	m.last, err = m.bus.Jobs().Append(ctx, m.last, m.feed)
	m.feed = m.feed[:0]
	return err
}

func (m *maker) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(m.rng.Uint32())
	}
	return b
}

// begin takes the lead, gives the cluster its configuration, and has its nodes come up.
func (m *maker) begin(ctx context.Context) error {
	m.nonce = m.bytes(16)
	term := &events.Term{Nonce: m.nonce, Controller: "history", Build: "history", Rules: cycle.Rules, Decider: cycle.Decider, Derivation: projections.Derivation, NowUs: time.Now().UnixMicro()}
	if err := m.sched(ctx, &events.SchedMessage{Kind: &events.SchedMessage_Term{Term: term}}); err != nil {
		return err
	}
	names := fmt.Sprintf("n[1-%d]", nodes)
	config := &events.Config{
		Cluster: "history", MinJobAgeS: 1, FirstJobId: 1, // what has ended leaves at once: hot state is small throughout
		Nodes:      []*events.NodeDef{{Names: names, Cpus: cpus, Sockets: 1, CoresPerSocket: cpus, ThreadsPerCore: 1, MemoryMib: memory, Virtual: true}},
		Partitions: []*events.PartitionDef{{Name: "compute", Nodes: names, Default: true, MaxTimeS: events.Unlimited, MaxNodes: events.Unlimited}},
	}
	body, err := config.MarshalVT()
	if err != nil {
		return err
	}
	err = m.intents(ctx, []*events.Intent{{Verb: events.Verb_CONFIGURE, Nonce: m.bytes(16), Author: &events.Author{User: "root", Group: "root", Host: "login"}, Body: body}})
	if err == nil {
		err = m.decide(ctx)
	}
	for i := 0; i < nodes && err == nil; i++ {
		n := &node{name: fmt.Sprintf("n%d", i+1)}
		m.nodes = append(m.nodes, n)
		err = m.says(ctx, n, []*events.NodeFact{{Kind: &events.NodeFact_Up{Up: &events.NodeUp{
			Inventory: &events.Inventory{Boards: 1, Sockets: 1, CoresPerSocket: cpus, ThreadsPerCore: 1, Cpus: cpus, MemoryMib: memory, Arch: "x86_64", Os: "Linux", Host: "login"}, Version: "history"}}}})
	}
	return err
}

// intents appends what users want.
func (m *maker) intents(ctx context.Context, list []*events.Intent) error {
	data, err := (&events.IntentBatch{Intents: list}).MarshalVT()
	if err != nil {
		return err
	}
	seq, err := m.bus.Events().Publish(ctx, events.SubjectIntentHost("login"), hex.EncodeToString(m.bytes(16)), data)
	if err != nil {
		return err
	}
	return m.fold(ctx, seq)
}

// submit submits jobs, their scripts and environments in one blob.
func (m *maker) submit(ctx context.Context, n int) error {
	user := m.rng.IntN(users)
	author := &events.Author{Uid: uint32(10_000 + user), Gid: uint32(10_000 + user%10), User: fmt.Sprintf("user%d", user), Group: fmt.Sprintf("group%d", user%10),
		Groups: []uint32{uint32(10_000 + user%10), 100}, GroupNames: []string{fmt.Sprintf("group%d", user%10), "users"}, Host: "login"}
	subject := events.SubjectBlob(author.Uid, hex.EncodeToString(m.bytes(16)))
	var blob []byte
	add := func(text string) *events.BlobRef {
		sum := sha256.Sum256([]byte(text))
		ref := &events.BlobRef{Subject: subject, Offset: uint64(len(blob)), Length: uint64(len(text)), Sha256: sum[:]}
		blob = append(blob, text...)
		return ref
	}
	environment := add(fmt.Sprintf("HOME=/home/user%d\x00USER=user%d\x00PATH=/usr/local/bin:/usr/bin:/bin\x00LANG=C.UTF-8\x00SHELL=/bin/bash\x00PROJECT=%x\x00", user, user, m.bytes(400)))
	programs := make([]*events.BlobRef, scripts)
	for i := range programs {
		programs[i] = add(fmt.Sprintf("#!/bin/bash\n#SBATCH --cpus-per-task=1\nmodule load project\n./step --input data.%x\n", m.bytes(40)))
	}
	if _, err := m.bus.Blobs().Put(ctx, subject, blob); err != nil {
		return err
	}
	var list []*events.Intent
	for range n {
		project := m.rng.IntN(20)
		spec := &events.JobSpec{
			Name: fmt.Sprintf("job%d", m.rng.IntN(50)), Account: fmt.Sprintf("project%d", project%7), WorkDir: fmt.Sprintf("/home/user%d/project%d", user, project),
			StdOut: "slurm-%j.out", Command: fmt.Sprintf("/home/user%d/project%d/step.sh", user, project), SubmitLine: fmt.Sprintf("sbatch --mem=100 step.sh %d", m.rng.IntN(1000)),
			SubmitHost: "login", SubmitSid: uint32(1000 + user), Tasks: 1, MinNodes: 1, MemPerNodeMib: 100, TimeLimitS: uint32(60 * (1 + m.rng.IntN(600))), Umask: 0o22,
			Script: programs[m.rng.IntN(scripts)], Environment: environment, Args: [][]byte{fmt.Append(nil, m.rng.IntN(1000))},
		}
		body, err := (&events.Submit{Components: []*events.JobSpec{spec}}).MarshalVT()
		if err != nil {
			return err
		}
		list = append(list, &events.Intent{Verb: events.Verb_SUBMIT, Ids: 1, Nonce: m.bytes(16), Author: author, Body: body})
	}
	return m.intents(ctx, list)
}

// decide makes passes until there is nothing to decide.
func (m *maker) decide(ctx context.Context) error {
	for {
		now := max(time.Now().UnixMicro(), m.state.At(), m.state.Term().NowUs)
		basis := m.state.Seq()
		facts, _, _ := cycle.Run(m.state, cycle.Input{Now: now, Memory: m.memory})
		if len(facts) == 0 {
			return nil
		}
		m.cycle++
		packs := cycle.Pack(facts)
		for i, pack := range packs {
			m.n++
			c := &events.Cycle{Term: m.nonce, N: m.n, Cycle: m.cycle, Part: uint32(i + 1), Parts: uint32(len(packs)), Basis: basis, NowUs: now, Decider: cycle.Decider, Facts: pack}
			if err := m.sched(ctx, &events.SchedMessage{Kind: &events.SchedMessage_Cycle{Cycle: c}}); err != nil {
				return err
			}
		}
	}
}

func (m *maker) sched(ctx context.Context, msg *events.SchedMessage) error {
	data, err := msg.MarshalVT()
	if err != nil {
		return err
	}
	seq, err := m.bus.Events().Append(ctx, events.SubjectSched, m.state.Term().LastSchedSeq, data)
	if err != nil {
		return err
	}
	return m.fold(ctx, seq)
}

// work has every job that runs begin and end on its node, and measured in between now and then.
func (m *maker) work(ctx context.Context) error {
	ids := make([]uint32, 0, len(m.live))
	for id := range m.live {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	began, over := map[string][]*events.NodeFact{}, map[string][]*events.NodeFact{}
	samples := map[string]*events.UsageSample{}
	for _, id := range ids {
		j := m.state.Job(id)
		name, at := j.GetAllocation().NodeNames()[0], m.live[id]
		began[name] = append(began[name], &events.NodeFact{Kind: &events.NodeFact_Started{Started: &events.StepStarted{Job: id, Run: j.GetRun(), Step: events.StepBatch, AtUs: at + 1}}})
		use := &events.Usage{UserUs: m.rng.Uint64N(1e6), SystemUs: m.rng.Uint64N(1e5), MaxRssKib: 1000 + m.rng.Uint64N(90_000), MaxVmKib: 200_000, Samples: 1, SumRssKib: 20_000, Node: name, MaxPids: 2}
		code := uint32(0)
		if m.rng.IntN(30) == 0 {
			code = 1
		}
		over[name] = append(over[name], &events.NodeFact{Kind: &events.NodeFact_Exited{Exited: &events.StepExited{
			Job: id, Run: j.GetRun(), Step: events.StepBatch, AtUs: at + 2, StartedUs: at + 1, ElapsedUs: 1, ExitCode: code, Usage: use}}})
		if s := samples[name]; s == nil {
			samples[name] = &events.UsageSample{Node: name, AtUs: at}
		}
		if s := samples[name]; len(s.Steps) < 16 {
			s.Steps = append(s.Steps, &events.StepUsage{Job: id, Run: j.GetRun(), Step: events.StepBatch, Usage: use, RssKib: use.MaxRssKib})
		}
	}
	clear(m.live)
	for _, n := range m.nodes {
		for _, facts := range [][]*events.NodeFact{began[n.name], over[n.name]} {
			if len(facts) == 0 {
				continue
			}
			if err := m.says(ctx, n, facts); err != nil {
				return err
			}
		}
		if s := samples[n.name]; s != nil {
			data, err := s.MarshalVT()
			if err == nil {
				err = m.bus.Usage().Publish(ctx, events.SubjectUsage(n.name), fmt.Sprintf("%s-%d", n.name, n.n), data)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// says appends what a node tells.
func (m *maker) says(ctx context.Context, n *node, facts []*events.NodeFact) error {
	n.n++
	data, err := (&events.NodeMessage{Boot: "boot-" + n.name, Executor: []byte("executor-" + n.name), N: n.n, NowUs: max(m.state.At(), 1), Facts: facts}).MarshalVT()
	if err != nil {
		return err
	}
	if n.seq, err = m.bus.Events().Append(ctx, events.SubjectNode(n.name), n.seq, data); err != nil {
		return err
	}
	return m.fold(ctx, n.seq)
}
