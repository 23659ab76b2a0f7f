package executor

import (
	"bytes"
	"context"
	"errors"
	"time"

	"stint/events"
	"stint/executor/supervisor"
	"stint/projections"
)

// reconcile makes the node follow an answer of the cluster as of a sequence.
func (e *executor) reconcile(ctx context.Context, seq uint64, a *projections.AnswerNode) {
	e.mu.Lock()
	e.seen = max(e.seen, seq)
	if a.GetConfig() != nil {
		e.config, e.configSeq = a.GetConfig(), a.GetConfigSeq()
	}
	e.mu.Unlock()
	if a.GetUnknown() || a.GetNode() == nil || e.config == nil {
		// Another cluster, or not configured yet. What runs here goes on until somebody knows of it.
		e.log.Debug("the cluster does not know this node")
		return
	}
	if err := e.knowOneself(a.GetNode()); err != nil {
		e.log.Error("the node cannot take stock of itself", "error", err)
		return
	}
	e.comeUp(seq, a.GetNode())

	e.mu.Lock()
	up := e.report.folded(seq)
	e.hearRuns(a.GetRuns())
	var acts []func(context.Context)
	listed := map[[2]uint32]bool{}
	for _, r := range a.GetRuns() {
		job := r.GetJob()
		rn := job.RunNode(e.conf.Node)
		if rn == nil || rn.GetExitedUs() != 0 {
			continue // this node's part of the run is over: the same as not being named
		}
		listed[[2]uint32{job.GetId(), job.GetRun()}] = true
	}
	if up {
		// First what should not be here: what should be has its room.
		for _, st := range e.steps {
			if !listed[[2]uint32{st.key.job, st.key.run}] {
				acts = append(acts, e.unlisted(seq, st)...)
			}
		}
		for _, r := range a.GetRuns() {
			if job := r.GetJob(); listed[[2]uint32{job.GetId(), job.GetRun()}] {
				acts = append(acts, e.follow(seq, r, job.RunNode(e.conf.Node))...)
				acts = append(acts, e.limitSteps(job)...)
				e.sayAgain(job)
			}
		}
	}
	acts = append(acts, e.acknowledge(seq, listed)...)
	e.mu.Unlock()
	for _, act := range acts {
		actx, cancel := context.WithTimeout(ctx, askPatience)
		act(actx)
		cancel()
	}
}

// knowOneself takes stock of the hardware when it is first asked for, or the configuration of the node has changed.
func (e *executor) knowOneself(n *projections.Node) error {
	e.mu.Lock()
	same := e.hardware != nil && e.hardFor.EqualVT(n.GetDef())
	e.mu.Unlock()
	if same {
		return nil
	}
	h, err := takeStock(n.GetDef(), e.conf.Virtual, e.conf.StateDir, e.conf.GPUHelper)
	if err != nil {
		return err
	}
	for _, note := range h.notes {
		e.log.Info(note)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	again := e.hardware != nil
	e.hardware, e.hardFor = h, n.GetDef()
	e.changed = e.changed || again // what the cluster knows of this node is not so any more
	return nil
}

// comeUp says that the node is here, unless the state at seq already knows it by the word of this executor.
func (e *executor) comeUp(seq uint64, n *projections.Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	nonce, count, last := e.report.name()
	switch {
	case e.report.unheard(seq):
		return // it has been said, and this answer is too old to know
	case nonce == nil, e.changed, !bytes.Equal(n.GetExecutor(), nonce), n.GetBoot() != e.boot, seq >= last && n.GetExecutorN() < count:
		// Never said, or not so any more, or not heard: the node was not configured then.
	default:
		return
	}
	if e.client == nil && nonce == nil {
		return // first hear from the supervisor what lives here
	}
	e.changed = false
	up := &events.NodeUp{Inventory: e.hardware.inventory, Version: e.conf.Version, ExecutorStartUs: e.start.UnixMicro()}
	for k, st := range e.steps {
		if st.started != nil && st.exited == nil {
			up.Runs = append(up.Runs, &events.RunRef{Job: k.job, Run: k.run, Step: k.step})
		}
		// Whatever was said under another name may not have been heard.
		if !st.exitQueued {
			st.exitSeq = 0
		}
		if !st.startQueued {
			st.startSeq = 0
		}
	}
	e.report.comeUp(up, func(seq uint64) {
		e.atLeast(seq)
		e.poke()
	})
}

// follow makes one run that should be here be so. The caller holds e.mu, and carries out what is returned after it.
func (e *executor) follow(seq uint64, r *projections.NodeRun, rn *projections.RunNode) []func(context.Context) {
	job := r.GetJob()
	k := key{job.GetId(), job.GetRun(), events.StepBatch}
	if job.Scriptless() {
		k.step = events.StepInteractive
	}
	st := e.stepOf(k)
	st.requeue = job.GetSpec().GetRequeue() == events.Choice_CHOICE_YES
	if job.Scriptless() || job.GetAllocation().FirstNode() != e.conf.Node {
		return e.followOthers(seq, job, rn, st)
	}
	switch {
	case st.exited != nil:
		if others := e.others(st.key); len(others) > 0 && st.exitSeq == 0 { // the node is not free before they are gone
			var acts []func(context.Context)
			for _, o := range others {
				acts = append(acts, e.end(o, supervisor.Cause_CANCELLED, int64(e.config.GetKillWaitS())*1000)...)
			}
			return acts
		}
		if !st.exitQueued && (st.exitSeq == 0 || st.exitSeq <= seq) {
			e.sayExited(st) // not said yet, or it was not heard
		}
		return nil
	case st.started != nil:
		if rn.GetStartedUs() == 0 && !st.startQueued && (st.startSeq == 0 || st.startSeq <= seq) {
			e.sayStarted(st)
		}
		return e.steer(job, st)
	case st.launching, st.announced, e.client == nil:
		st.recheck = st.recheck || job.GetStop() != nil
		return nil
	case job.GetStop() != nil:
		e.synthesize(st, supervisor.End_NOT_LAUNCHED, supervisor.Failure_NO_FAILURE, "it was told to end before it had begun")
		return nil
	case job.GetState() != events.JobState_RUNNING:
		return nil // suspended before it began
	case e.occupied():
		return nil // for the log the room is free, and it is not: the node was taken for lost, and what ran there is being ended
	}
	st.launching = true
	st.limitMs, st.limitSet = e.limitMs(job, e.config), true
	w := wanted{job, r.GetArray(), r.GetParts(), e.config, e.hardware, e.hardFor}
	return []func(context.Context){func(context.Context) { e.launch(st, w) }}
}

// occupied says whether something lives here that the log has given up, as on a node that was cut off. It may have the CPUs, the GPUs
// and the memory that the log has given to another job since; when it is over, its supervisor says so, and that is looked at
// again. The caller holds e.mu.
func (e *executor) occupied() bool {
	for _, st := range e.steps {
		if st.void && st.started != nil && st.exited == nil {
			return true
		}
	}
	return false
}

// limitSteps holds a run's numbered steps to the time limits that the state has of them. The caller holds e.mu.
func (e *executor) limitSteps(job *projections.Job) []func(context.Context) {
	c := e.client
	if c == nil || job.GetStop() != nil {
		return nil
	}
	var acts []func(context.Context)
	for _, s := range job.GetSteps() {
		st := e.steps[key{job.GetId(), job.GetRun(), s.GetStep()}]
		if st == nil || st.started == nil || st.exited != nil {
			continue
		}
		if !st.limitSet {
			st.limitMs, st.limitSet = int64(st.noted().GetFact().GetLimitS())*1000, true
		}
		limit := int64(s.GetLimitS()) * 1000
		if limit == st.limitMs {
			continue
		}
		left := int64(0)
		if limit > 0 {
			if left = limit - st.started.Ran().Milliseconds(); left <= 0 {
				left = -1
			}
		}
		acts = append(acts, func(ctx context.Context) {
			if _, err := c.SetLimit(ctx, &supervisor.SetLimit{Job: uint64(st.key.job), Run: st.key.run, Step: &st.key.step, LeftMs: left}); err != nil {
				e.log.Warn("a time limit was not passed on", "step", st.key.String(), "error", err)
				return
			}
			e.mu.Lock()
			st.limitMs = limit
			e.mu.Unlock()
		})
	}
	return acts
}

// sayAgain says what the log may not have heard of a run's numbered steps. Said twice, it counts once. The caller holds e.mu.
func (e *executor) sayAgain(job *projections.Job) {
	for k, st := range e.steps {
		switch {
		case k.job != job.GetId() || k.run != job.GetRun() || events.IsMainStep(k.step) || events.IsAside(k.step):
		case st.exited != nil && !st.exitQueued && st.exitSeq == 0:
			e.sayExited(st)
		case st.started != nil && st.exited == nil && !st.startQueued && st.startSeq == 0 && !st.delayed:
			e.tell(st)
		}
	}
}

// followOthers is follow on a node where the run has no batch script: it is there as long as the first node's part is, or, if
// no node has one, until it is told to end.
func (e *executor) followOthers(seq uint64, job *projections.Job, rn *projections.RunNode, st *step) []func(context.Context) {
	if st.started == nil {
		st.started = &supervisor.Started{Key: st.key.sup(), Node: e.conf.Node, StartedUnixNs: time.Now().UnixNano()}
		st.announced = true
	}
	st.own = true
	if rn.GetStartedUs() == 0 && !st.startQueued && (st.startSeq == 0 || st.startSeq <= seq) {
		e.sayStarted(st)
	}
	first := job.GetAllocation().FirstNode() == e.conf.Node
	over := job.GetStop() != nil || !first && job.FirstRun().GetExitedUs() != 0
	others := e.others(st.key)
	if !over {
		if len(others) == 0 {
			return e.warn(job, st, time.Now())
		}
		return append(e.obey(job, st), e.warn(job, st, time.Now())...)
	}
	var acts []func(context.Context)
	for _, other := range others {
		acts = append(acts, e.end(other, causeOf(job.GetStop()), int64(e.config.GetKillWaitS())*1000)...)
	}
	if len(others) > 0 {
		return acts // the node is not free before they are gone
	}
	if st.exited == nil {
		st.exited = &supervisor.Exited{Key: st.key.sup(), Node: e.conf.Node, StartedUnixNs: st.started.GetStartedUnixNs(), EndedUnixNs: time.Now().UnixNano(), Cause: causeOf(job.GetStop())}
	}
	if !st.exitQueued && (st.exitSeq == 0 || st.exitSeq <= seq) {
		e.sayExited(st)
	}
	return nil
}

// causeOf is why the supervisor ends a step, in its words.
func causeOf(s *projections.Stop) supervisor.Cause {
	if s == nil {
		return supervisor.Cause_NOBODY
	}
	switch s.GetCause() {
	case events.StopCause_STOP_TIME_LIMIT:
		return supervisor.Cause_TIME_LIMIT
	case events.StopCause_STOP_NODE_LOST:
		return supervisor.Cause_NODE_FAILED
	case events.StopCause_STOP_PREEMPT:
		return supervisor.Cause_PREEMPTED
	case events.StopCause_STOP_REQUEUE:
		return supervisor.Cause_REQUEUED
	}
	return supervisor.Cause_CANCELLED
}

// steer makes a step that runs follow its job's orders.
func (e *executor) steer(job *projections.Job, st *step) []func(context.Context) {
	if s := job.GetStop(); s != nil {
		return e.end(st, causeOf(s), int64(s.GetKillAfterS())*1000)
	}
	c := e.client
	if c == nil {
		return nil
	}
	var acts []func(context.Context)
	run := st.key
	if limit := e.limitMs(job, e.config); !st.limitSet || limit != st.limitMs {
		left := e.leftMs(job, e.config, st.started.Ran())
		acts = append(acts, func(ctx context.Context) {
			if _, err := c.SetLimit(ctx, &supervisor.SetLimit{Job: uint64(run.job), Run: run.run, Step: &run.step, LeftMs: left}); err != nil {
				e.log.Warn("a time limit was not passed on", "step", run.String(), "error", err)
				return
			}
			e.mu.Lock()
			st.limitMs, st.limitSet = limit, true
			e.mu.Unlock()
		})
	}
	return append(acts, e.obey(job, st)...)
}

// obey passes on what a run's steps here are told: to stand still or go on, and signals.
func (e *executor) obey(job *projections.Job, st *step) []func(context.Context) {
	c, run := e.client, st.key
	if c == nil {
		return nil
	}
	var acts []func(context.Context)
	if suspend := job.GetState() == events.JobState_SUSPENDED; suspend != st.suspended {
		acts = append(acts, func(ctx context.Context) {
			if _, err := c.Suspend(ctx, &supervisor.Suspend{Job: uint64(run.job), Run: run.run, Resume: !suspend}); err != nil {
				e.log.Warn("a job was not suspended or resumed", "step", run.String(), "error", err)
				return
			}
			e.mu.Lock()
			st.suspended = suspend
			e.mu.Unlock()
		})
	}
	for _, o := range job.GetSignals() {
		if o.GetNumber() <= st.signal {
			continue
		}
		v := &supervisor.Signal{Job: uint64(run.job), Run: run.run, Signal: o.GetSignal(), Which: supervisor.Which_STEPS_ONLY, Number: o.GetNumber(), Text: o.GetText()}
		switch {
		case o.GetHasStep():
			n := o.GetStep()
			v.Step, v.Which = &n, supervisor.Which_ALL_PROCESSES
		case o.GetBatchOnly():
			v.Which = supervisor.Which_BATCH_SHELL
		case o.GetFull():
			v.Which = supervisor.Which_ALL_PROCESSES
		}
		acts = append(acts, func(ctx context.Context) {
			if _, err := c.Signal(ctx, v); err != nil {
				e.log.Warn("a signal was not passed on", "step", run.String(), "signal", v.Signal, "error", err)
				return
			}
			e.mu.Lock()
			st.signal = max(st.signal, v.Number)
			e.mu.Unlock()
		})
	}
	return acts
}

// end tells a step to end, once. The caller holds e.mu.
func (e *executor) end(st *step, cause supervisor.Cause, killWaitMs int64) []func(context.Context) {
	c, k := e.client, st.key
	if st.stopping || c == nil {
		return nil
	}
	return []func(context.Context){func(ctx context.Context) {
		if _, err := c.Terminate(ctx, &supervisor.Terminate{Job: uint64(k.job), Run: k.run, Step: stepOnly(k), Cause: cause, KillWaitMs: killWaitMs}); err != nil {
			e.log.Warn("a step was not told to end", "step", k.String(), "error", err)
			return
		}
		e.mu.Lock()
		st.stopping = true
		e.mu.Unlock()
	}}
}

// stepOnly: the end of a batch step is that of the whole run.
func stepOnly(k key) *uint32 {
	if events.IsMainStep(k.step) {
		return nil
	}
	return &k.step
}

// unlisted deals with a step whose run the cluster does not want here, or that is over here. The caller holds e.mu.
func (e *executor) unlisted(seq uint64, st *step) []func(context.Context) {
	switch {
	case st.exited != nil:
		switch {
		case st.exitQueued || st.exitSeq != 0:
		case events.IsAside(st.key.step):
			st.exitSeq = seq
		case st.void || st.exited.GetCause() == supervisor.Cause_NODE_FAILED || !events.IsMainStep(st.key.step):
			e.sayExited(st) // that it was here, against the log, is on record
		default:
			st.exitSeq = seq // the log has its end already, or never wanted to know
		}
		return nil
	case st.started == nil:
		if !st.launching && !st.announced {
			delete(e.steps, st.key)
		}
		st.recheck = true
		return nil
	case st.own:
		// A run's share of a node without a script of its own: it is gone with the run.
		delete(e.steps, st.key)
		return nil
	}
	if !st.void {
		e.log.Warn("a step runs here that the cluster does not know, and is ended", "step", st.key.String(), "as of", seq)
	}
	st.void = true
	return e.end(st, supervisor.Cause_NODE_FAILED, int64(e.config.GetKillWaitS())*1000)
}

// acknowledge lets the supervisor forget the ends that the log has taken in. The caller holds e.mu.
func (e *executor) acknowledge(seq uint64, listed map[[2]uint32]bool) []func(context.Context) {
	var keys []*supervisor.Key
	for k, st := range e.steps {
		if st.exited == nil || st.exitSeq == 0 || st.exitSeq > seq {
			continue
		}
		if events.IsMainStep(k.step) && listed[[2]uint32{k.job, k.run}] {
			continue // the state does not have it: follow says it again
		}
		if st.own {
			delete(e.steps, k)
			continue
		}
		keys = append(keys, k.sup())
	}
	c := e.client
	if len(keys) == 0 || c == nil {
		return nil
	}
	return []func(context.Context){func(ctx context.Context) {
		if err := c.Acknowledge(ctx, keys...); err != nil {
			e.log.Warn("ends were not acknowledged", "error", err)
			return
		}
		e.mu.Lock()
		for _, k := range keys {
			delete(e.steps, keyOf(k))
		}
		e.mu.Unlock()
	}}
}

// fence ends what may be run again elsewhere, when nobody has been heard for so long that this node is about to be taken
// for lost: then its jobs do not run twice at a time. Only where the site asks for it (SelfFence).
func (e *executor) fence(ctx context.Context, now time.Time) {
	e.mu.Lock()
	config, silence := e.config, now.Sub(e.heard)
	if !config.GetSelfFence() || config.GetNodeTimeoutS() == 0 {
		e.mu.Unlock()
		return
	}
	// Soon enough for SIGKILL to have come, and a tenth of the time for clocks and beats.
	timeout := time.Duration(config.GetNodeTimeoutS()) * time.Second
	if silence < max(timeout/2, timeout-timeout/10-time.Duration(config.GetKillWaitS())*time.Second) {
		e.mu.Unlock()
		return
	}
	var acts []func(context.Context)
	for _, st := range e.steps {
		if st.requeue && st.started != nil && st.exited == nil && !st.own && !st.stopping {
			e.log.Warn("this node is cut off; a job that may run elsewhere is ended here", "step", st.key.String(), "silence", silence)
			acts = append(acts, e.end(st, supervisor.Cause_NODE_FAILED, int64(config.GetKillWaitS())*1000)...)
		}
	}
	e.mu.Unlock()
	for _, act := range acts {
		actx, cancel := context.WithTimeout(ctx, askPatience)
		act(actx)
		cancel()
	}
}

// wanted is a run that is to be started, with what was known when that was decided.
type wanted struct {
	job      *projections.Job
	array    *projections.Array
	parts    []*projections.Job
	config   *events.Config
	hardware *hardware
	def      *events.NodeDef
}

// launch has the supervisor start a job's script, in the background. A failure that will not go away is the job's end.
func (e *executor) launch(st *step, w wanted) {
	go func() {
		e.slots <- struct{}{}
		defer func() { <-e.slots }()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		failure, err := e.tryLaunch(ctx, st, w)
		e.mu.Lock()
		defer e.mu.Unlock()
		st.launching = false
		var never hopeless
		switch {
		case err == nil && failure == supervisor.Failure_NO_FAILURE:
		case st.started != nil || st.exited != nil:
			// The supervisor has said how it went.
		case failure != supervisor.Failure_NO_FAILURE:
			e.synthesize(st, supervisor.End_NOT_LAUNCHED, failure, err.Error())
			e.poke()
		case errors.As(err, &never):
			e.synthesize(st, supervisor.End_NOT_LAUNCHED, supervisor.Failure_INVALID, err.Error())
			e.poke()
		default:
			e.log.Warn("a launch is tried again", "step", st.key.String(), "error", err)
			time.AfterFunc(200*time.Millisecond, e.poke)
		}
	}()
}

// tryLaunch returns a failure if the launch has failed for good in a way that the supervisor has no record of.
func (e *executor) tryLaunch(ctx context.Context, st *step, w wanted) (supervisor.Failure, error) {
	l, err := e.prepare(ctx, w.job, w.array, w.parts, w.config, w.hardware, w.def)
	if err != nil {
		return supervisor.Failure_NO_FAILURE, err
	}
	e.mu.Lock()
	c := e.client
	e.mu.Unlock()
	if c == nil {
		return supervisor.Failure_NO_FAILURE, errors.New("the supervisor is away")
	}
	a, err := c.Launch(ctx, l)
	if err != nil {
		return supervisor.Failure_NO_FAILURE, err // it may have been launched: the next watch tells
	}
	switch f := a.GetFailure(); f {
	case supervisor.Failure_NO_FAILURE:
		return f, nil
	case supervisor.Failure_STOPPING:
		return supervisor.Failure_NO_FAILURE, errors.New(a.GetDetail())
	case supervisor.Failure_ALREADY:
		return e.already(ctx, c, st, a.GetDetail())
	default:
		if f.OfNode() {
			e.log.Error("this node could not start a job", "step", st.key.String(), "error", a.GetDetail())
		}
		switch f {
		case supervisor.Failure_JOURNAL, supervisor.Failure_INVALID, supervisor.Failure_NOT_PERMITTED:
			return f, errors.New(a.GetDetail())
		}
	}
	return supervisor.Failure_NO_FAILURE, nil // the supervisor reports it as an end
}

// already: the supervisor says that this run was launched before. If it still knows of it, its watch tells the rest; if all
// it has is a tombstone, the log has lost the end that it once took.
func (e *executor) already(ctx context.Context, c *supervisor.Client, st *step, detail string) (supervisor.Failure, error) {
	list, err := c.List(ctx)
	if err != nil {
		return supervisor.Failure_NO_FAILURE, err
	}
	for _, r := range list.GetRunning() {
		if keyOf(r.GetStarted().GetKey()) == st.key {
			return supervisor.Failure_NO_FAILURE, nil
		}
	}
	for _, x := range list.GetExited() {
		if keyOf(x.GetKey()) == st.key {
			return supervisor.Failure_NO_FAILURE, nil
		}
	}
	for _, k := range list.GetLaunching() {
		if keyOf(k) == st.key {
			return supervisor.Failure_NO_FAILURE, nil
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if st.exited == nil {
		e.synthesize(st, supervisor.End_LOST_STATUS, supervisor.Failure_NO_FAILURE, "it ran here, and its end was told before: "+detail)
	}
	return supervisor.Failure_NO_FAILURE, nil
}
