package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"stint/events"
	"stint/events/bus"
	"stint/executor/gpu"
	"stint/executor/layout"
	"stint/executor/supervisor"
	"stint/executor/tasks"
	"stint/projections"
)

// Numbered steps. The executor of a run's first node gives them numbers and CPUs; every node of a step starts its own part.

// stepping is the part of an executor that numbered steps are dealt with in.
type stepping struct {
	boardsMu sync.Mutex
	boards   map[[2]uint32]*board
	runs     map[uint32]*projections.NodeRun // what should run here, as of the last answer; guarded by executor.mu
	answered chan struct{}                   // closed with every answer; guarded by executor.mu
}

func (s *stepping) init() {
	s.boards, s.runs, s.answered = map[[2]uint32]*board{}, map[uint32]*projections.NodeRun{}, make(chan struct{})
}

// answerStep answers a question about steps.
func (e *executor) answerStep(ctx context.Context, q bus.Nudge) ([]byte, error) {
	from := q.Subject[strings.LastIndexByte(q.Subject, '.')+1:]
	m := &tasks.Question{}
	if err := m.UnmarshalVT(q.Data); err != nil {
		return nil, fmt.Errorf("the question cannot be read: %w", err)
	}
	reply := &tasks.Reply{Refusal: tasks.Refusal_NOT_YOURS, Text: "this may not be asked from there"}
	agent := strings.HasPrefix(from, "@")
	switch w := m.What.(type) {
	case *tasks.Question_Create:
		if agent {
			reply = e.createStep(ctx, m.Uid, w.Create)
		}
	case *tasks.Question_Find:
		if agent {
			reply = e.findStep(ctx, m.Uid, w.Find)
		}
	case *tasks.Question_Look:
		if agent {
			reply = e.lookAt(ctx, m.Uid, w.Look)
		}
	case *tasks.Question_Launch:
		if !agent {
			reply = e.launchPart(ctx, from, w.Launch)
		}
	case *tasks.Question_Ended:
		if node, err := events.Untoken(from); err == nil && !agent {
			e.partEnded(key{w.Ended.Job, w.Ended.Run, w.Ended.Step}, node)
			reply = &tasks.Reply{}
		}
	case *tasks.Question_Which:
		if !agent {
			if w.Which.LeastSeq > 0 { // as who asks knows it: then no other node is the first here any more
				e.runOf(ctx, w.Which.Job, w.Which.LeastSeq)
			}
			reply = e.whichSteps(w.Which)
		}
	case *tasks.Question_Number:
		if !agent {
			reply = e.numberStep(ctx, from, w.Number)
		}
	case *tasks.Question_End:
		if !agent && e.isFirst(from, w.End.Job, w.End.Run) {
			e.endPart(key{w.End.Job, w.End.Run, w.End.Step})
			reply = &tasks.Reply{}
		}
	}
	return reply.MarshalVT()
}

func refusal(kind tasks.Refusal, format string, args ...any) *tasks.Reply {
	return &tasks.Reply{Refusal: kind, Text: fmt.Sprintf(format, args...)}
}

// beingEnded is the answer where the room that the log takes for free is not, so that a step does not begin beside what the log has given up.
func beingEnded() *tasks.Reply {
	return refusal(tasks.Refusal_BUSY, "what ran here when the node was taken for lost is being ended")
}

// runOf finds a run that should be here, if need be by asking the cluster first.
func (e *executor) runOf(ctx context.Context, job uint32, least uint64) *projections.NodeRun {
	e.atLeast(least)
	for asked := false; ; asked = true {
		e.mu.Lock()
		r, seen, answered := e.runs[job], e.seen, e.answered
		e.mu.Unlock()
		if r != nil && (seen >= least || r.GetJob().GetState() == events.JobState_RUNNING) || r == nil && asked && seen >= least {
			return r
		}
		e.poke()
		select {
		case <-answered:
		case <-ctx.Done():
			return r
		}
	}
}

// createStep makes a step of a run whose first node this is.
func (e *executor) createStep(ctx context.Context, uid uint32, c *tasks.Create) *tasks.Reply {
	r := e.runOf(ctx, c.Job, c.LeastSeq)
	job := r.GetJob()
	switch {
	case r == nil || job.GetAllocation().FirstNode() != e.conf.Node:
		return refusal(tasks.Refusal_OVER, "Job/step already completing or completed")
	case uid != 0 && uid != job.GetOwner().GetUid():
		return refusal(tasks.Refusal_NOT_YOURS, "Access/permission denied")
	case job.GetStop() != nil || job.FirstRun().GetExitedUs() != 0:
		return refusal(tasks.Refusal_OVER, "Job/step already completing or completed")
	case job.GetState() != events.JobState_RUNNING:
		return refusal(tasks.Refusal_NOT_RUNNING, "Job is pending execution")
	case c.Want == nil || c.Launcher == nil || len(c.Nonce) == 0:
		return refusal(tasks.Refusal_NODE_CONFIG, "the request is not complete")
	}
	e.mu.Lock()
	config, occupied := e.config, e.occupied()
	e.mu.Unlock()
	if occupied {
		return beingEnded()
	}
	if no := portRefused(config, c.Launcher); no != nil {
		return no
	}
	b := e.boardOf(ctx, job)
	if b == nil {
		return refusal(tasks.Refusal_BUSY, "the node's supervisor is away")
	}
	until := time.Now().Add(time.Duration(min(c.WaitMs, 60_000)) * time.Millisecond)
	var parts []*tasks.Part
	var m *making
	var live *tasks.Live
	var number *uint32 // that the first component has given the step
	for live == nil {
		b.mu.Lock()
		if m = b.made[string(c.Nonce)]; m != nil {
			b.mu.Unlock()
			select {
			case <-m.done:
				return m.reply
			case <-ctx.Done():
				return refusal(tasks.Refusal_BUSY, "the step is being started")
			}
		}
		if at := slices.IndexFunc(b.live, func(l *tasks.Live) bool { return bytes.Equal(l.Nonce, c.Nonce) }); at >= 0 {
			defer b.mu.Unlock()
			return e.created(job, b.live[at]) // an executor before this one has made it
		}
		var no *layout.Refused
		if c.Want.Aside {
			parts, no = layout.Everywhere(job.GetAllocation(), c.Want)
		} else {
			parts, no = layout.Lay(job.GetAllocation(), c.Want, b.live)
		}
		if no == nil && !c.Want.Aside {
			if reply := tooMany(config, b.next, parts); reply != nil {
				b.mu.Unlock()
				return reply
			}
		}
		if no == nil && number == nil && !c.Want.Aside && r.GetLead() != "" {
			b.mu.Unlock()
			reply := e.askNumber(ctx, r, c.Nonce)
			if reply.Refusal != tasks.Refusal_NOT_REFUSED {
				return reply
			}
			number = &reply.Number
			continue // what was free may be so no more
		}
		if no == nil {
			live = &tasks.Live{Step: b.nextFor(c.Nonce, number), Nonce: c.Nonce, Parts: parts, Overlap: c.Want.Overlap || c.Want.Aside, Launcher: c.Launcher}
			for _, p := range parts {
				live.Open = append(live.Open, p.Node)
			}
			if c.Want.Aside {
				live.Step = events.StepAside + b.aside
				b.aside++
			} else if b.next = max(b.next, live.Step+1); job.Leads() {
				b.give(c.Nonce, live.Step)
			}
			b.live = append(b.live, live)
			m = &making{done: make(chan struct{})}
			b.made[string(c.Nonce)] = m
			b.mu.Unlock()
			break
		}
		changed := b.changed
		b.mu.Unlock()
		left := time.Until(until)
		if no.Refusal != tasks.Refusal_BUSY || left <= 0 {
			return refusal(no.Refusal, "%s", no.Text)
		}
		wait := time.NewTimer(left)
		select {
		case <-changed:
		case <-wait.C:
		case <-ctx.Done():
		}
		wait.Stop()
		if ctx.Err() != nil {
			return refusal(no.Refusal, "%s", no.Text)
		}
		if r = e.runOf(ctx, c.Job, 0); r.GetJob().GetStop() != nil || r.GetJob().GetRun() != job.GetRun() {
			return refusal(tasks.Refusal_OVER, "Job/step already completing or completed")
		}
	}
	m.reply = e.launchAll(ctx, job, live, c)
	b.mu.Lock()
	if m.reply.Refusal != tasks.Refusal_NOT_REFUSED {
		delete(b.made, string(c.Nonce))
	}
	b.mu.Unlock()
	close(m.done)
	return m.reply
}

// launchAll has all nodes of a step start their parts. If one cannot, the others are ended.
func (e *executor) launchAll(ctx context.Context, job *projections.Job, live *tasks.Live, c *tasks.Create) *tasks.Reply {
	e.mu.Lock()
	seq := e.seen
	e.mu.Unlock()
	l := &tasks.Launch{Job: job.GetId(), Run: job.GetRun(), Step: live.Step, Want: c.Want, Launcher: c.Launcher, Parts: live.Parts, LeastSeq: seq, Nonce: c.Nonce}
	k := key{l.Job, l.Run, l.Step}
	replies := make([]*tasks.Reply, len(live.Parts))
	var all sync.WaitGroup
	for i, p := range live.Parts {
		all.Go(func() {
			if p.Node == e.conf.Node {
				replies[i] = e.launchHere(ctx, job, i, l)
				return
			}
			reply, err := e.askNode(ctx, p.Node, &tasks.Question{What: &tasks.Question_Launch{Launch: l}})
			if err != nil {
				reply = refusal(tasks.Refusal_FAILED, "node %s does not answer: %v", p.Node, err)
			}
			replies[i] = reply
		})
	}
	all.Wait()
	for i, r := range replies {
		if r.Refusal == tasks.Refusal_NOT_REFUSED {
			continue
		}
		for j, p := range live.Parts {
			if j == i || replies[j].Refusal != tasks.Refusal_NOT_REFUSED {
				e.partEnded(k, p.Node)
			} else if p.Node == e.conf.Node {
				e.endPart(k)
			} else {
				go e.askNode(context.WithoutCancel(ctx), p.Node, &tasks.Question{What: &tasks.Question_End{End: &tasks.End{Job: k.job, Run: k.run, Step: k.step}}})
			}
		}
		kind := tasks.Refusal_FAILED
		// BUSY: nothing is wrong with the step, and it is asked for again (in a heterogeneous job its number may stand in other components). BAD_BIND is
		// not the node's fault.
		if r.Refusal == tasks.Refusal_BUSY && job.GetHetId() == 0 || r.Refusal == tasks.Refusal_BAD_BIND {
			kind = r.Refusal
		}
		no := refusal(kind, "%s: %s", live.Parts[i].Node, r.Text)
		no.Created = &tasks.Created{Run: job.GetRun(), Step: live.Step}
		return no
	}
	return e.created(job, live)
}

func (e *executor) created(job *projections.Job, live *tasks.Live) *tasks.Reply {
	e.mu.Lock()
	defer e.mu.Unlock()
	created := &tasks.Created{Run: job.GetRun(), Step: live.Step, Parts: live.Parts, KillWaitS: e.config.GetKillWaitS(), Site: siteOf(e.config)}
	if e.config.GetCompat() == "22.05" {
		created.CompatOld = 1
	}
	return &tasks.Reply{Created: created}
}

// askNode asks the executor of another node.
func (e *executor) askNode(ctx context.Context, node string, q *tasks.Question) (*tasks.Reply, error) {
	data, err := q.MarshalVT()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	b, err := e.conf.Bus.Wire().Ask(ctx, events.SubjectStep(node, events.Token(e.conf.Node)), data)
	if err != nil {
		return nil, err
	}
	reply := &tasks.Reply{}
	return reply, reply.UnmarshalVT(b)
}

// isFirst says whether a subject token is that of the first node of a run that should be here.
func (e *executor) isFirst(from string, job, run uint32) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.runs[job].GetJob()
	return j != nil && j.GetRun() == run && events.Token(j.GetAllocation().FirstNode()) == from
}

// launchPart starts this node's part of a step that the run's first node has made.
func (e *executor) launchPart(ctx context.Context, from string, l *tasks.Launch) *tasks.Reply {
	r := e.runOf(ctx, l.Job, l.LeastSeq)
	if r.GetJob().GetRun() != l.Run || !e.isFirst(from, l.Job, l.Run) {
		return refusal(tasks.Refusal_OVER, "the job is not here")
	}
	at := slices.IndexFunc(l.Parts, func(p *tasks.Part) bool { return p.Node == e.conf.Node })
	if at < 0 {
		return refusal(tasks.Refusal_NODE_CONFIG, "the step has no part here")
	}
	return e.launchHere(ctx, r.GetJob(), at, l)
}

// launchHere has the supervisor start the keeper of a step. Put twice, it starts once.
func (e *executor) launchHere(ctx context.Context, job *projections.Job, at int, l *tasks.Launch) *tasks.Reply {
	k := key{l.Job, l.Run, l.Step}
	e.mu.Lock()
	c := e.client
	if st := e.steps[k]; st != nil && (st.launching || st.started != nil) {
		e.mu.Unlock()
		return &tasks.Reply{}
	}
	if e.occupied() { // for the log the room is free, and it is not
		e.mu.Unlock()
		return beingEnded()
	}
	if c == nil {
		e.mu.Unlock()
		return refusal(tasks.Refusal_FAILED, "its supervisor is away")
	}
	launch, err := e.keeperLaunch(job, at, l)
	if err != nil {
		e.mu.Unlock()
		var no *layout.Refused
		if errors.As(err, &no) {
			return refusal(no.Refusal, "%s", no.Text)
		}
		return refusal(tasks.Refusal_FAILED, "%v", err)
	}
	st := e.stepOf(k)
	st.launching, st.note = true, &tasks.Note{Step: l.Step, Part: l.Parts[at], Nonce: l.Nonce, Overlap: l.Want.GetOverlap(), Launcher: l.Launcher, Fact: partFact(l, at)}
	launch.Keeper = true
	launch.Note, err = st.note.MarshalVT()
	e.mu.Unlock()
	if err != nil {
		return refusal(tasks.Refusal_FAILED, "%v", err)
	}
	a, err := c.Launch(ctx, launch)
	if err == nil && a.GetFailure() != supervisor.Failure_NO_FAILURE && a.GetFailure() != supervisor.Failure_ALREADY {
		err = errors.New(a.GetDetail())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	st.launching = false
	if err != nil {
		if st.started == nil && st.exited == nil && e.client == nil {
			delete(e.steps, k) // should it have been started, the next watch tells
		}
		return refusal(tasks.Refusal_FAILED, "%v", err)
	}
	return &tasks.Reply{}
}

// partFact is what the log is told of this node's part.
func partFact(l *tasks.Launch, at int) *events.StepPart {
	p := l.Parts[at]
	w := l.Want
	f := &events.StepPart{Name: w.GetName(), Tasks: uint32(len(p.Tasks)), FirstTask: p.Tasks[0], Cpus: p.Cpus, MemoryMib: p.MemoryMib, Gres: p.Gres,
		LimitS: w.GetLimitS(), Host: l.Launcher.GetHost(), Pid: l.Launcher.GetPid(), StdIn: w.GetStdIn(), StdOut: w.GetStdOut(), StdErr: w.GetStdErr(), Asked: w.GetGres(), SubmitLine: w.GetSubmitLine()}
	f.Layout = map[tasks.Spread]string{tasks.Spread_BLOCK: "Block", tasks.Spread_CYCLIC: "Cyclic", tasks.Spread_PLANE: "Plane", tasks.Spread_ARBITRARY: "Arbitrary"}[w.GetSpread()]
	if !w.GetSpreadGiven() && taskCount(l.Parts) <= len(l.Parts) {
		f.Layout = "Cyclic" // which is the same then, and what Slurm calls it
	}
	return f
}

func taskCount(parts []*tasks.Part) (n int) {
	for _, p := range parts {
		n += len(p.Tasks)
	}
	return n
}

// keeperLaunch is the launch of a step's keeper on this node. The caller holds e.mu.
func (e *executor) keeperLaunch(job *projections.Job, at int, l *tasks.Launch) (*supervisor.Launch, error) {
	part, h, def := l.Parts[at], e.hardware, e.hardFor
	share, place := job.GetAllocation().ForNode(e.conf.Node)
	if h == nil || share == nil {
		return nil, errors.New("the node does not know itself yet")
	}
	own := share.CloneVT()
	own.Cpus, own.Gres = part.Cpus, part.Gres
	if part.MemoryMib > 0 && share.GetMemoryMib() > 0 {
		own.MemoryMib = min(part.MemoryMib, share.GetMemoryMib())
	}
	granted, err := h.granted(own)
	if err != nil {
		return nil, err
	}
	cage, err := e.cage(own, def, e.config, h, granted)
	if err != nil {
		return nil, err
	}
	jobCage, err := e.jobCage(share, def, h)
	if err != nil {
		return nil, err
	}
	order := &tasks.Order{Launcher: l.Launcher, Node: uint32(at), Name: e.conf.Node, Tasks: part.Tasks, KillWaitS: e.config.GetKillWaitS()}
	if !l.Want.GetAside() {
		order.TaskProlog, order.TaskEpilog = program(e.config.Setting("TaskProlog")), program(e.config.Setting("TaskEpilog"))
	}
	order.Step = fmt.Sprintf("%d.%d", l.Job, l.Step)
	if e.config.GetCompat() == "22.05" {
		order.CompatOld = 1
	}
	hidden := len(cage.DenyDevices) > 0 && !h.virtual
	e.stepEnviron(order, job, own, place, granted, hidden, l, at)
	if err := e.bind(order, h, def, part, l.Want); err != nil {
		return nil, err
	}
	env, err := tasks.OrderEnviron(order)
	if err != nil {
		return nil, err
	}
	program, err := keeperProgram()
	if err != nil {
		return nil, err
	}
	owner := job.GetOwner()
	out := &supervisor.Launch{
		Key: key{l.Job, l.Run, l.Step}.sup(), Node: e.conf.Node, Argv: [][]byte{[]byte(program), []byte(tasks.Command)}, Cwd: []byte("/"),
		Uid: owner.GetUid(), Gid: owner.GetGid(), Groups: owner.GetGroups(), Umask: l.Want.GetUmask(), Cage: cage, JobCage: jobCage,
		KillWaitMs: int64(e.config.GetKillWaitS()) * 1000, TimeLimitMs: int64(l.Want.GetLimitS()) * 1000,
		Watching: watching(job, own, e.config),
	}
	env = append(env, fmt.Sprintf("SLURM_JOB_ID=%d", l.Job), "GOMAXPROCS=2")
	for _, v := range env {
		out.Env = append(out.Env, []byte(v))
	}
	for _, r := range l.Want.GetRlimits() {
		if !e.config.GetPropagateNone() {
			out.Rlimits = append(out.Rlimits, &supervisor.Rlimit{Resource: r.GetResource(), Soft: r.GetSoft(), Hard: r.GetHard()})
		}
	}
	memory := part.MemoryMib
	if memory == 0 {
		share, _ := job.GetAllocation().ForNode(e.conf.Node)
		memory = share.GetMemoryMib()
	}
	out.Rlimits = residentLimit(out.Rlimits, memory)
	return out, nil
}

// jobCage is what all of a job is held to on this node, of which a step has its part. The caller holds e.mu.
func (e *executor) jobCage(share *events.NodeShare, def *events.NodeDef, h *hardware) (*supervisor.Cage, error) {
	granted, err := h.granted(share)
	if err != nil {
		return nil, err
	}
	return e.cage(share, def, e.config, h, granted)
}

// keeperProgram is what becomes a keeper: the light client beside this program, which starts fastest, or this program.
func keeperProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	light := filepath.Join(filepath.Dir(self), "stint-cli")
	if st, err := os.Stat(light); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
		return light, nil
	}
	return self, nil
}

// stepEnviron puts into an order what the node knows and the launcher does not.
func (e *executor) stepEnviron(o *tasks.Order, job *projections.Job, share *events.NodeShare, place int, granted []gpu.GPU, hidden bool, l *tasks.Launch, at int) {
	part := l.Parts[at]
	set := func(name string, value any) { o.Environ = append(o.Environ, []byte(fmt.Sprintf("%s=%v", name, value))) }
	ranks := make([]string, len(part.Tasks))
	for i, t := range part.Tasks {
		ranks[i] = fmt.Sprint(t)
	}
	cpus := share.UsableCPUs()
	if n := events.Words(part.Cpus).Count(); share.GetUsable() == 0 || n < cpus {
		cpus = n
	}
	set("SLURM_CPUS_ON_NODE", cpus)
	set("SLURM_GTIDS", strings.Join(ranks, ","))
	set("SLURM_NODEID", at)
	set("SLURMD_NODENAME", e.conf.Node)
	set("SLURM_TOPOLOGY_ADDR", e.conf.Node)
	set("SLURM_TOPOLOGY_ADDR_PATTERN", "node")
	set("SLURM_JOB_UID", job.GetOwner().GetUid())
	set("SLURM_JOB_GID", job.GetOwner().GetGid())
	set("SLURM_JOB_USER", job.GetOwner().GetUser())
	if e.config.GetCompat() == "22.05" {
		set("SLURM_WORKING_CLUSTER", workingCluster(e.config))
	}
	if e.conf.SlurmConf != "" {
		set("SLURM_CONF", e.conf.SlurmConf)
	}
	if len(granted) == 0 {
		return
	}
	bind := l.Want.GetGpuBind()
	if n := int(part.GpusPerTask); bind == "" && n > 0 && n*len(part.Tasks) <= len(granted) {
		bind = fmt.Sprintf("per_task:%d", n)
	}
	bound := bindGPUs(bind, len(part.Tasks), granted, hidden)
	if bind != "" {
		set("SLURMD_TRES_BIND", "gpu:"+bind)
	}
	if bound.none {
		return
	}
	var indices []string
	for _, g := range granted {
		indices = append(indices, fmt.Sprint(g.Index))
	}
	set("SLURM_GPUS_ON_NODE", len(granted))
	set("SLURM_STEP_GPUS", strings.Join(indices, ","))
	seen := granted // as the tasks number them
	if hidden {
		seen = slices.Clone(granted)
		for i := range seen {
			seen[i].Index = i
		}
	}
	for _, nv := range gpu.Environment(seen, 0, false) {
		o.Environ = append(o.Environ, []byte(nv))
	}
	for i, said := range bound.said {
		te := &tasks.TaskEnviron{Said: said}
		if bound.tasks != nil {
			var mine []gpu.GPU
			var names []string
			for _, at := range bound.tasks[i] {
				mine, names = append(mine, seen[at]), append(names, indices[at])
			}
			te.Environ = append(te.Environ, []byte("SLURM_STEP_GPUS="+strings.Join(names, ",")))
			for _, nv := range gpu.Environment(mine, 0, false) {
				te.Environ = append(te.Environ, []byte(nv))
			}
		}
		o.TaskEnviron = append(o.TaskEnviron, te)
	}
}

// endPart ends what a step has here.
func (e *executor) endPart(k key) {
	e.mu.Lock()
	st, config := e.steps[k], e.config
	var acts []func(context.Context)
	if st != nil && st.exited == nil {
		acts = e.end(st, supervisor.Cause_CANCELLED, int64(config.GetKillWaitS())*1000)
	}
	e.mu.Unlock()
	for _, act := range acts {
		ctx, cancel := context.WithTimeout(context.Background(), askPatience)
		act(ctx)
		cancel()
	}
}

// stepOver is called when a numbered step is over here: the run's first node is told, until it has heard.
func (e *executor) stepOver(k key) {
	e.mu.Lock()
	first := e.runs[k.job].GetJob().GetAllocation().FirstNode()
	e.mu.Unlock()
	switch first {
	case e.conf.Node:
		e.partEnded(k, e.conf.Node)
	case "":
	default:
		// Should it not hear, it asks itself before long.
		go e.askNode(context.Background(), first, &tasks.Question{What: &tasks.Question_Ended{Ended: &tasks.Ended{Job: k.job, Run: k.run, Step: k.step}}})
	}
}

// others are the living steps of a main step's run here. The caller holds e.mu.
func (e *executor) others(k key) (out []*step) {
	for o, st := range e.steps {
		if o.job == k.job && o.run == k.run && o != k && (st.launching || st.started != nil) && st.exited == nil {
			out = append(out, st)
		}
	}
	return out
}
