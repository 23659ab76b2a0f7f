package executor

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"stint/events"
	"stint/executor/supervisor"
	"stint/executor/tasks"
)

// key names one start of a step.
type key struct {
	job, run, step uint32
}

func keyOf(k *supervisor.Key) key { return key{uint32(k.GetJob()), k.GetRun(), k.GetStep()} }

func (k key) sup() *supervisor.Key {
	return &supervisor.Key{Job: uint64(k.job), Run: k.run, Step: k.step}
}

func (k key) String() string {
	return fmt.Sprintf("%d.%s (run %d)", k.job, events.StepName(k.step), k.run)
}

// step is what is known of one: from the supervisor, and of what the log has been told.
type step struct {
	key       key
	launching bool                // it is on its way to the supervisor
	started   *supervisor.Started // nil: not yet, or never
	exited    *supervisor.Exited  // nil: not yet
	own       bool                // the end is this executor's word; the supervisor knows nothing of it
	announced bool                // on the present watch
	recheck   bool                // once it has started, there is something to be done about it

	startQueued, exitQueued bool
	startSeq, exitSeq       uint64 // in the log; 0: not yet

	void      bool  // the log knows the run no more, so it is being ended
	stopping  bool  // it has been told to end
	suspended bool  // it has been told to stand still
	limitMs   int64 // of the limit it was told last
	limitSet  bool
	requeue   bool        // its job may be run again elsewhere
	signal    uint32      // number of the last order to signal that was passed on
	note      *tasks.Note // of a numbered step
	warned    bool        // the signal of --signal has been sent, by the executor
	warnAt    time.Time   // when it will be
	delayed   bool        // its start is told before long, unless it is over by then
}

// noted is what was noted of a numbered step as it was launched, be it by an executor before this one; nil: nothing. The caller holds e.mu.
func (st *step) noted() *tasks.Note {
	if st.note != nil {
		return st.note
	}
	data := st.started.GetNote()
	if len(data) == 0 {
		data = st.exited.GetNote()
	}
	if n := (&tasks.Note{}); len(data) > 0 && n.UnmarshalVT(data) == nil {
		st.note = n
	}
	return st.note
}

// stepOf returns the step of a key, made if need be. The caller holds e.mu.
func (e *executor) stepOf(k key) *step {
	st := e.steps[k]
	if st == nil {
		st = &step{key: k}
		e.steps[k] = st
	}
	return st
}

// followSupervisor keeps a connection to the supervisor, and takes in what it tells.
func (e *executor) followSupervisor(ctx context.Context) error {
	quiet := false
	for pause := 20 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, time.Second) {
		c, err := supervisor.Dial(ctx, e.conf.SupervisorSocket)
		if err == nil {
			var told <-chan supervisor.Event
			if told, err = c.Watch(ctx); err == nil {
				caught := e.take(ctx, c, told)
				if caught {
					pause, quiet = 20*time.Millisecond, false
				}
			}
			c.Close()
		}
		if err != nil && ctx.Err() == nil && !quiet {
			quiet = true
			e.log.Warn("the supervisor of this node cannot be reached; nothing new starts meanwhile", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// take takes in what one connection tells, until it is lost.
func (e *executor) take(ctx context.Context, c *supervisor.Client, told <-chan supervisor.Event) (caught bool) {
	e.mu.Lock()
	for _, st := range e.steps {
		st.announced = false
	}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.client = nil
		e.mu.Unlock()
	}()
	for ev := range told {
		switch {
		case ev.Sample != nil:
			e.samples.add(ev.Sample)
			continue
		case ev.Caught:
			caught = true
			e.caughtUp(ctx, c)
		case ev.Started != nil:
			e.mu.Lock()
			st := e.stepOf(keyOf(ev.Started.Key))
			st.started, st.announced, st.launching = ev.Started, true, false
			e.tell(st)
			again := st.recheck
			st.recheck = false
			e.mu.Unlock()
			if !again {
				continue // nothing else follows from it
			}
		case ev.Exited != nil:
			e.mu.Lock()
			st := e.stepOf(keyOf(ev.Exited.Key))
			st.exited, st.announced, st.launching = ev.Exited, true, false
			e.tell(st)
			e.mu.Unlock()
			if !events.IsMainStep(st.key.step) {
				e.stepOver(st.key)
				if !e.waitedFor(st.key) {
					continue
				}
			}
		}
		e.poke()
	}
	return caught
}

// caughtUp is called when the supervisor has told all it knows. A step that it was known to run and does not know any more
// has lost its status.
func (e *executor) caughtUp(ctx context.Context, c *supervisor.Client) {
	list, err := c.List(ctx)
	if err != nil {
		return // the connection is gone; the next one tells
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, k := range list.GetLaunching() {
		e.stepOf(keyOf(k)).announced = true
	}
	for _, r := range list.GetRunning() {
		st := e.stepOf(keyOf(r.GetStarted().GetKey()))
		st.suspended = r.GetSuspended()
		st.announced = true
	}
	for _, st := range e.steps {
		if !st.announced && !st.own && st.started != nil && st.exited == nil {
			e.synthesize(st, supervisor.End_LOST_STATUS, supervisor.Failure_NO_FAILURE, "the supervisor of this node does not know it any more")
		}
	}
	e.client = c
	if v := list.GetVersion(); v != e.conf.Version && !e.upgraded {
		// Once: should it still be another one afterwards, there is a reason for it.
		e.upgraded = true
		e.log.Info("the supervisor is of another version, and is to become this one", "it", v, "this", e.conf.Version)
		go func() {
			path, err := os.Executable()
			if err == nil {
				err = c.Upgrade(ctx, path)
			}
			if err != nil {
				e.log.Warn("the supervisor stays of another version", "error", err)
			}
		}()
	}
}

// synthesize gives a step an end that the supervisor knows nothing of. The caller holds e.mu.
func (e *executor) synthesize(st *step, end supervisor.End, failure supervisor.Failure, detail string) {
	x := &supervisor.Exited{Key: st.key.sup(), Node: e.conf.Node, End: end, Failure: failure, Detail: detail, EndedUnixNs: time.Now().UnixNano()}
	if st.started != nil {
		x.StartedUnixNs = st.started.StartedUnixNs
	}
	st.exited, st.own, st.launching = x, true, false
	e.tell(st)
}

// tell puts what has just happened to a step in line for the log. What a supervisor tells of the past is left to the
// comparison with an answer, which knows what the log has. The caller holds e.mu.
func (e *executor) tell(st *step) {
	if !e.report.folded(e.seen) || e.client == nil && !st.own {
		return
	}
	switch {
	case events.IsAside(st.key.step):
		if st.exited != nil {
			st.exitSeq = max(1, e.seen) // the log is not told; the supervisor may forget it
			e.unacknowledged++
		}
	case st.exited != nil:
		if !st.exitQueued && st.exitSeq == 0 && (!events.IsMainStep(st.key.step) || len(e.others(st.key)) == 0) {
			e.sayExited(st)
		}
	case st.started == nil || st.startQueued || st.startSeq != 0:
	case events.IsMainStep(st.key.step):
		e.sayStarted(st)
	case !st.delayed:
		st.delayed = true
		time.AfterFunc(startDelay, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			if st.exited == nil && !st.startQueued && st.startSeq == 0 && e.steps[st.key] == st {
				e.sayStarted(st)
			}
		})
	}
}

// startDelay is how long the log waits for the start of a numbered step: many are over by then, and one word tells all of it.
const startDelay = 25 * time.Millisecond

// waitedFor says whether something waits for a numbered step to be over, beside what it has of the node.
func (e *executor) waitedFor(k key) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	job := e.runs[k.job].GetJob()
	if job.GetRun() != k.run || job.GetStop() != nil || job.GetCompleting() {
		return true
	}
	for _, main := range []uint32{events.StepBatch, events.StepInteractive} {
		if st := e.steps[key{k.job, k.run, main}]; st != nil && st.exited != nil {
			return true
		}
	}
	return false
}

func (e *executor) sayStarted(st *step) {
	st.startQueued = true
	f := &events.StepStarted{Job: st.key.job, Run: st.key.run, Step: st.key.step, AtUs: st.started.GetStartedUnixNs() / 1e3, Part: st.noted().GetFact()}
	e.report.say(&events.NodeFact{Kind: &events.NodeFact_Started{Started: f}}, func(seq uint64) {
		e.mu.Lock()
		st.startQueued, st.startSeq = false, seq
		e.least = max(e.least, seq)
		e.mu.Unlock()
	})
}

func (e *executor) sayExited(st *step) {
	st.exitQueued = true
	f := exitFact(st, e.conf.Node)
	if !st.startQueued && st.startSeq == 0 || e.runs[st.key.job].GetJob().GetResizedUs() != 0 { // accounting has begun a new row of the job since
		f.Part = st.noted().GetFact()
	}
	e.report.say(&events.NodeFact{Kind: &events.NodeFact_Exited{Exited: f}}, func(seq uint64) {
		e.mu.Lock()
		st.exitQueued, st.exitSeq = false, seq
		if events.IsMainStep(st.key.step) {
			e.least = max(e.least, seq)
		} else {
			e.unacknowledged++
		}
		ask := events.IsMainStep(st.key.step) || e.unacknowledged%acknowledgedTogether == 0
		e.mu.Unlock()
		if ask {
			e.poke() // the answer will say whether it may be acknowledged
		}
	})
}

// acknowledgedTogether is how many ends of numbered steps at most wait to be acknowledged; a beat acknowledges them too.
const acknowledgedTogether = 64

// launchFailedSignal is the signal number by which Slurm's tools know a job that could not be launched.
const launchFailedSignal = 53

// exitFact is the end of a step as the log is told.
func exitFact(st *step, node string) *events.StepExited {
	x := st.exited
	f := &events.StepExited{Job: st.key.job, Run: st.key.run, Step: st.key.step, AtUs: x.GetEndedUnixNs() / 1e3, ExitCode: uint32(x.GetCode()),
		ExitSignal: uint32(x.GetSignal()), CoreDumped: x.GetCore(), Text: x.GetDetail(), StartedUs: x.GetStartedUnixNs() / 1e3, ElapsedUs: x.GetElapsedNs() / 1e3}
	if f.AtUs == 0 {
		f.AtUs = time.Now().UnixMicro()
	}
	switch {
	case x.GetEnd() == supervisor.End_NOT_LAUNCHED && x.GetFailure() == supervisor.Failure_NO_FAILURE:
		f.Cause = events.EndCause_STOPPED // told to end before it had begun
	case x.GetEnd() == supervisor.End_NOT_LAUNCHED && x.GetFailure().OfNode():
		f.Cause, f.ExitSignal = events.EndCause_NODE_UNFIT, launchFailedSignal
	case x.GetEnd() == supervisor.End_NOT_LAUNCHED && x.GetFailure() == supervisor.Failure_EXEC && x.GetCode() != 0: // as if it had run and said so
	case x.GetEnd() == supervisor.End_NOT_LAUNCHED:
		f.Cause, f.ExitSignal = events.EndCause_LAUNCH_FAILED, launchFailedSignal
	case x.GetEnd() == supervisor.End_BOOT_ENDED:
		f.Cause = events.EndCause_NODE_REBOOTED
	case st.void:
		f.Cause = events.EndCause_RUN_VOID
	case x.GetEnd() == supervisor.End_LOST_STATUS:
		f.Cause = events.EndCause_STATUS_UNSEEN
	case x.GetOom():
		f.Cause = events.EndCause_OOM_KILLED
	case x.GetCause() == supervisor.Cause_TIME_LIMIT:
		f.Cause = events.EndCause_LIMIT_PASSED
	case x.GetCause() == supervisor.Cause_MEMORY:
		f.Cause = events.EndCause_MEMORY_PASSED
	case x.GetCause() != supervisor.Cause_NOBODY:
		f.Cause = events.EndCause_STOPPED
	}
	if x.GetUsage() != nil {
		f.Usage = usageOf(x.GetUsage(), node)
		if x.GetOom() {
			f.Usage.OomKills = 1
		}
	}
	return f
}

func usageOf(u *supervisor.Usage, node string) *events.Usage {
	out := &events.Usage{UserUs: u.GetUserNs() / 1e3, SystemUs: u.GetSystemNs() / 1e3, MaxRssKib: u.GetRssPeakBytes() >> 10, MaxVmKib: u.GetVmPeakBytes() >> 10,
		ReadBytes: u.GetReadBytes(), WriteBytes: u.GetWriteBytes(), MaxPages: u.GetMajorFaults(), Samples: u.GetSamples(),
		SumRssKib: (u.GetRssBytes() >> 10) * uint64(u.GetSamples()), MaxPids: uint64(u.GetProcessesPeak()), Node: node, MinCpuUs: (u.GetUserNs() + u.GetSystemNs()) / 1e3}
	if out.Samples == 0 && out.MaxRssKib > 0 {
		// It was over before it was looked at: what the kernel told is the one reading there is.
		out.Samples, out.SumRssKib = 1, out.MaxRssKib
	}
	taskPeaks(out, u.GetTasks())
	return out
}

// samples gathers what steps use until it is published.
type samples struct {
	sampleMu sync.Mutex
	gathered map[key]*supervisor.Sample
	sampled  chan struct{}
}

func (s *samples) init() {
	s.gathered, s.sampled = map[key]*supervisor.Sample{}, make(chan struct{}, 1)
}

func (s *samples) add(x *supervisor.Sample) {
	s.sampleMu.Lock()
	s.gathered[keyOf(x.GetKey())] = x
	s.sampleMu.Unlock()
	select {
	case s.sampled <- struct{}{}:
	default:
	}
}

// publishSamples publishes samples, those of one round together. What cannot be published in time is dropped: no decision
// and no account depends on it.
func (e *executor) publishSamples(ctx context.Context) error {
	n := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.sampled:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond): // the rest of the round
		}
		e.sampleMu.Lock()
		round := e.gathered
		e.gathered = map[key]*supervisor.Sample{}
		e.sampleMu.Unlock()
		m := &events.UsageSample{Node: e.conf.Node, AtUs: time.Now().UnixMicro()}
		for k, x := range round {
			m.Steps = append(m.Steps, &events.StepUsage{Job: k.job, Run: k.run, Step: k.step, Usage: usageOf(x.GetUsage(), e.conf.Node), RssKib: x.GetUsage().GetRssBytes() >> 10})
		}
		data, err := m.MarshalVT()
		if err != nil {
			return fmt.Errorf("encoding samples: %w", err)
		}
		n++
		pctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		if err := e.conf.Bus.Usage().Publish(pctx, events.SubjectUsage(e.conf.Node), fmt.Sprintf("%s-%d-%d", e.conf.Node, e.start.UnixNano(), n), data); err != nil {
			e.log.Debug("samples were not published", "error", err)
		}
		cancel()
	}
}
