package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stint/cli/wire"
	"stint/events"
	"stint/events/bus"
	"stint/executor/tasks"
	"stint/projections"
)

// stepTime is how long the making of a step may take, beyond the time it may wait for what is busy.
const stepTime = 40 * time.Second

// step has the first node of an allocation make a step for the caller, whom the kernel names.
func (c *call) step(s *tasks.Create) *wire.Response {
	no := func(kind tasks.Refusal, format string, args ...any) *wire.Response {
		return &wire.Response{What: &wire.Response_Step{Step: &tasks.Reply{Refusal: kind, Text: fmt.Sprintf(format, args...)}}}
	}
	s.Uid = c.peer.uid
	ask := &projections.Ask{Uid: &c.peer.uid, LeastSeq: c.agent.seen.Load(), What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{Ids: []uint32{s.Job}, AllStates: true, Slim: true}}}
	a, err := c.agent.askState(c.ctx, "jobs", ask, askTime)
	if err != nil {
		return refuse(events.Code_OK, sentence(err, "controller"))
	}
	jobs := a.GetJobs().GetJobs()
	if len(jobs) == 0 {
		return no(tasks.Refusal_OVER, "Invalid job id specified")
	}
	job := jobs[0].GetJob()
	switch {
	case job.GetState() == events.JobState_PENDING:
		return no(tasks.Refusal_NOT_RUNNING, "Job is pending execution")
	case job.GetAllocation().FirstNode() == "" || job.Over():
		return no(tasks.Refusal_OVER, "Job/step already completing or completed")
	}
	s.Job = job.GetId()
	s.LeastSeq = max(a.Seq, job.GetPlacedSeq())
	data, err := (&tasks.Question{What: &tasks.Question_Create{Create: s}}).MarshalVT()
	if err != nil {
		return refuse(events.Code_OK, "encoding the request: "+err.Error())
	}
	limit := stepTime + time.Duration(min(s.WaitMs, 60_000))*time.Millisecond
	ctx, cancel := context.WithTimeout(c.ctx, limit)
	defer cancel()
	first := job.GetAllocation().FirstNode()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		got, err := c.agent.cfg.Bus.Wire().Ask(ctx, events.SubjectStep(first, "@"+events.Token(c.agent.cfg.Host)), data)
		if err == nil {
			reply := &tasks.Reply{}
			if err := reply.UnmarshalVT(got); err != nil {
				return refuse(events.Code_OK, "the node's answer cannot be read: "+err.Error())
			}
			return &wire.Response{What: &wire.Response_Step{Step: reply}}
		}
		var words *bus.AnswerError
		switch {
		case errors.As(err, &words):
			return no(tasks.Refusal_FAILED, "%s: %s", first, words.Text)
		case ctx.Err() != nil:
			return no(tasks.Refusal_FAILED, "node %s, which makes the job's steps, does not answer", first)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
