package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stint/cli/wire"
	"stint/events"
	"stint/events/bus"
	"stint/ledger/rows"
	"stint/projections"
)

// askTime is how long a question may take that does not itself wait for something.
const askTime = 15 * time.Second

// lacksAfter is how long nobody may have answered before people are told that there is nobody.
const lacksAfter = 2 * time.Second

// lacks tells the caller, once for all that is asked on its behalf, that nobody is there to answer.
func (c *call) lacks(text string) func() {
	told := false
	return func() {
		if !told {
			told = true
			c.send(&wire.Response{Note: text})
		}
	}
}

// ask relays a question about the cluster's state.
func (c *call) ask(q *projections.Ask) *wire.Response {
	view, wait := viewOf(q)
	if view == "" {
		return refuse(events.Code_UNSUPPORTED, "this agent does not know that question")
	}
	q.Uid = &c.peer.uid // the kernel's word, whatever stood there
	if t := q.GetTest(); t != nil {
		t.Author = c.author()
	}
	if t := q.GetCrontab(); t != nil {
		t.Asker = c.agent.names.User(c.ctx, c.peer.uid, c.peer.gid).User
	}
	q.LeastSeq = max(q.LeastSeq, c.agent.seen.Load())
	lacks := c.lacks(lacking("controller", askTime+wait))
	if view != "config" {
		data, err := c.agent.relayed(c.ctx, view, q, askTime+wait, lacks)
		if err != nil {
			return refuse(events.Code_OK, sentence(err, "controller"))
		}
		c.agent.saw(projections.SeqOf(data))
		c.relay = &wire.Relay{Answer: data}
		return nil
	}
	a, err := c.agent.askState(c.ctx, view, q, askTime+wait, lacks)
	if err != nil {
		return refuse(events.Code_OK, sentence(err, "controller"))
	}
	if told := a.GetConfig(); told != nil {
		told.ConfFile = c.agent.cfg.Conf
	}
	return &wire.Response{What: &wire.Response_Answer{Answer: a}}
}

// viewOf returns which view a question is of and how long it may wait by its own words. What executors ask is not for
// users.
func viewOf(q *projections.Ask) (view string, wait time.Duration) {
	ms := func(n uint32) time.Duration { return time.Duration(min(n, 3_600_000)) * time.Millisecond }
	switch w := q.What.(type) {
	case *projections.Ask_Jobs:
		return "jobs", 0
	case *projections.Ask_Nodes:
		return "nodes", 0
	case *projections.Ask_Config:
		return "config", 0
	case *projections.Ask_Policy:
		return "policy", 0
	case *projections.Ask_Status:
		return "status", 0
	case *projections.Ask_Why:
		return "why", 0
	case *projections.Ask_Test:
		return "test", 0
	case *projections.Ask_Crontab:
		return "crontab", 0
	case *projections.Ask_Triggers:
		return "triggers", 0
	case *projections.Ask_Verdicts:
		return "verdicts", ms(w.Verdicts.WaitMs)
	case *projections.Ask_Wait:
		return "wait", ms(w.Wait.WaitMs)
	}
	return "", 0
}

// askState puts a question to a controller. lacks, if any, is called when there is none.
func (a *Agent) askState(ctx context.Context, view string, q *projections.Ask, limit time.Duration, lacks func()) (*projections.Answer, error) {
	data, err := a.relayed(ctx, view, q, limit, lacks)
	if err != nil {
		return nil, err
	}
	answer := new(projections.Answer)
	if err := answer.UnmarshalVT(data); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	a.saw(answer.Seq)
	return answer, nil
}

// account relays a question to the ledger.
func (c *call) account(q *rows.Ask) *wire.Response {
	q.Uid = &c.peer.uid // the kernel's word, whatever stood there
	q.LeastSeq = max(q.LeastSeq, c.agent.seen.Load())
	q.User = ""
	if q.GetUsage() != nil {
		q.User = c.agent.names.User(c.ctx, c.peer.uid, c.peer.gid).User
	}
	var wait time.Duration
	if s := q.GetStory(); s != nil {
		wait = time.Duration(min(s.WaitMs, 3_600_000)) * time.Millisecond
	}
	data, err := c.agent.relayed(c.ctx, "account", q, askTime+wait, c.lacks(lacking("ledger", askTime+wait)))
	if err != nil {
		return refuse(events.Code_OK, sentence(err, "ledger"))
	}
	c.relay = &wire.Relay{Account: data}
	return nil
}

// relayed asks on ask.<view> until somebody answers or the limit is over: one who answers may be about to come back. The answer is as it came:
// who only passes it on need not read it.
func (a *Agent) relayed(ctx context.Context, view string, q interface{ MarshalVT() ([]byte, error) }, limit time.Duration, lacks func()) ([]byte, error) {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	data, err := q.MarshalVT()
	if err != nil {
		return nil, fmt.Errorf("encoding the question: %w", err)
	}
	var last error
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		got, err := a.cfg.Bus.Wire().Ask(ctx, events.SubjectAsk(view), data)
		if err == nil {
			return got, nil
		}
		var words *bus.AnswerError
		if errors.Is(last, bus.ErrNobody) && ctx.Err() != nil {
			return nil, last // the time ended in the middle of another try
		}
		if errors.As(err, &words) {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, a.away(err)
		}
		last = err
		if lacks != nil && errors.Is(err, bus.ErrNobody) && time.Since(begun) > lacksAfter {
			lacks()
		}
		select {
		case <-ctx.Done():
			return nil, a.away(err)
		case <-time.After(pause):
		}
	}
}

// errBusAway: nobody could be asked, since the bus is away.
var errBusAway = errors.New("this host's agent has no connection to the bus")

// away is the error of a question that the bus did not carry, as long as there is none.
func (a *Agent) away(err error) error {
	if a.busUp.Load() {
		return err
	}
	return fmt.Errorf("%w: %w", errBusAway, err)
}

// lacking says to a person what a question waits for when nobody is there.
func lacking(who string, limit time.Duration) string {
	return fmt.Sprintf("no %s runs, so nobody can answer; waiting for one for up to %s; `stint doctor` says what is away and how to start it", who, limit)
}

// sentence says to a person why a question was not answered.
func sentence(err error, who string) string {
	var words *bus.AnswerError
	switch {
	case errors.As(err, &words):
		return words.Text
	case errors.Is(err, errBusAway):
		return errBusAway.Error() + ", so the " + who + " could not be asked; `stint doctor` says what is wrong with it"
	case errors.Is(err, bus.ErrNobody) && who == "controller": // in the words that tools look for
		return "Unable to contact slurm controller (connect failure): no controller of the cluster runs; `stint doctor` says what is away and how to start it"
	case errors.Is(err, bus.ErrNobody):
		return "no " + who + " of the cluster runs; `stint doctor` says what is away and how to start it"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, bus.ErrBusy):
		return "the " + who + " did not answer in " + askTime.String() + ": it is stopped, cut off or overloaded; `stint doctor` says which, and what to do"
	}
	return "asking the " + who + ": " + err.Error()
}
