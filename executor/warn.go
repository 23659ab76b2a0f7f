package executor

import (
	"context"
	"time"

	"stint/events"
	"stint/executor/supervisor"
	"stint/projections"
)

// warn sends the signal of --signal to what runs here of a job without a script here, some time before its time limit: where the script
// is, the supervisor does it, without the bus. It is sent once; what begins later does not hear it. The caller holds e.mu.
func (e *executor) warn(job *projections.Job, st *step, now time.Time) []func(context.Context) {
	w, c := job.GetSpec().GetWarn(), e.client
	if w.GetSignal() == 0 || w.GetBatch() || st.warned || c == nil || job.GetState() != events.JobState_RUNNING {
		return nil
	}
	left := e.leftMs(job, e.config, now.Sub(time.UnixMicro(job.GetStartUs()+job.GetLeaptUs())))
	if left == 0 {
		return nil // no limit
	}
	due := now.Add(time.Duration(left-int64(w.GetBeforeS())*1000) * time.Millisecond)
	if due.After(now) {
		if due.Sub(st.warnAt).Abs() > time.Second/10 { // the limit is another now
			st.warnAt = due
			time.AfterFunc(due.Sub(now)+time.Millisecond, e.poke)
		}
		return nil
	}
	if st.warned = true; due.Before(e.start) {
		return nil // the executor before this one has sent it
	}
	run := st.key
	return []func(context.Context){func(ctx context.Context) {
		v := &supervisor.Signal{Job: uint64(run.job), Run: run.run, Signal: w.GetSignal(), Which: supervisor.Which_STEPS_ONLY}
		if _, err := c.Signal(ctx, v); err != nil {
			e.log.Warn("the steps of a job were not warned of its time limit", "job", run.job, "error", err)
		}
	}}
}
