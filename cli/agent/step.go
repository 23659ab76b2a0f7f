package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"stint/cli/wire"
	"stint/events"
	"stint/events/bus"
	"stint/executor/tasks"
	"stint/projections"
)

// stepTime is how long the making of a step may take, beyond the time it may wait for what is busy.
const stepTime = 40 * time.Second

// stepPlaces remembers for a moment which node makes the steps of a job: an srun is seldom the only one. The node itself knows better, so
// what is not so any more is noticed.
type stepPlaces struct {
	mu   sync.Mutex
	jobs map[uint32]stepPlace
}

type stepPlace struct {
	first string
	id    uint32
	seq   uint64
	until time.Time
}

const (
	placeTime = 2 * time.Second
	placesMax = 4096
)

func (p *stepPlaces) get(job uint32) (stepPlace, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.jobs[job]
	return at, ok && time.Now().Before(at.until)
}

func (p *stepPlaces) put(job uint32, at stepPlace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.jobs == nil || len(p.jobs) >= placesMax {
		p.jobs = map[uint32]stepPlace{}
	}
	at.until = time.Now().Add(placeTime)
	p.jobs[job] = at
}

func (p *stepPlaces) drop(job uint32) {
	p.mu.Lock()
	delete(p.jobs, job)
	p.mu.Unlock()
}

func noStep(kind tasks.Refusal, format string, args ...any) *wire.Response {
	return &wire.Response{What: &wire.Response_Step{Step: &tasks.Reply{Refusal: kind, Text: fmt.Sprintf(format, args...)}}}
}

// step answers a question about steps for the caller, whom the kernel names.
func (c *call) step(q *tasks.Question) *wire.Response {
	q.Uid = c.peer.uid
	switch w := q.What.(type) {
	case *tasks.Question_Create:
		limit := stepTime + time.Duration(min(w.Create.WaitMs, 60_000))*time.Millisecond
		return c.askFirst(q, w.Create.Job, limit, func(at stepPlace) { w.Create.Job, w.Create.LeastSeq = at.id, at.seq })
	case *tasks.Question_Find:
		return c.askFirst(q, w.Find.Job, stepTime, func(at stepPlace) { w.Find.Job = at.id })
	case *tasks.Question_Look:
		return c.look(q, w.Look)
	}
	return refuse(events.Code_MALFORMED, "of steps an agent can be asked for other things only")
}

// askFirst asks the first node of a job's allocation.
func (c *call) askFirst(q *tasks.Question, job uint32, limit time.Duration, set func(stepPlace)) *wire.Response {
	at, known := c.agent.places.get(job)
	for {
		if !known {
			var no *wire.Response
			if at, no = c.firstOf(job); no != nil {
				return no
			}
			c.agent.places.put(job, at)
		}
		set(at)
		r := c.askStep(q, at.first, limit)
		refusal := r.GetStep().GetRefusal()
		if !known || r.GetStep() != nil && refusal != tasks.Refusal_OVER && refusal != tasks.Refusal_FAILED && refusal != tasks.Refusal_NOT_RUNNING {
			return r
		}
		c.agent.places.drop(job)
		known = false
	}
}

// firstOf finds the first node of a job that runs.
func (c *call) firstOf(id uint32) (stepPlace, *wire.Response) {
	ask := &projections.Ask{Uid: &c.peer.uid, LeastSeq: c.agent.seen.Load(), What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{Ids: []uint32{id}, AllStates: true, Slim: true}}}
	a, err := c.agent.askState(c.ctx, "jobs", ask, askTime, c.lacks(lacking("controller", askTime)))
	if err != nil {
		return stepPlace{}, refuse(events.Code_OK, sentence(err, "controller"))
	}
	jobs := a.GetJobs().GetJobs()
	if len(jobs) == 0 {
		return stepPlace{}, noStep(tasks.Refusal_OVER, "Invalid job id specified")
	}
	job := jobs[0].GetJob()
	switch {
	case job.GetState() == events.JobState_PENDING:
		return stepPlace{}, noStep(tasks.Refusal_NOT_RUNNING, "Job is pending execution")
	case job.GetAllocation().FirstNode() == "" || job.Over():
		return stepPlace{}, noStep(tasks.Refusal_OVER, "Job/step already completing or completed")
	}
	return stepPlace{first: job.GetAllocation().FirstNode(), id: job.GetId(), seq: max(a.Seq, job.GetPlacedSeq())}, nil
}

// askStep puts a question about steps to a node, until it answers or the time is over.
func (c *call) askStep(q *tasks.Question, node string, limit time.Duration) *wire.Response {
	data, err := q.MarshalVT()
	if err != nil {
		return refuse(events.Code_OK, "encoding the request: "+err.Error())
	}
	ctx, cancel := context.WithTimeout(c.ctx, limit)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		got, err := c.agent.cfg.Bus.Wire().Ask(ctx, events.SubjectStep(node, "@"+events.Token(c.agent.cfg.Host)), data)
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
			return noStep(tasks.Refusal_FAILED, "%s: %s", node, words.Text)
		case ctx.Err() != nil:
			return noStep(tasks.Refusal_FAILED, "node %s, which makes the job's steps, does not answer", node)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

const (
	lookTime    = 5 * time.Second // for a node to answer
	looksAtOnce = 64
	lookNodes   = 100_000
)

// look asks nodes what steps use there. Nodes that do not answer are named in the text.
func (c *call) look(q *tasks.Question, l *tasks.Look) *wire.Response {
	nodes := l.Nodes
	if len(nodes) > lookNodes {
		return refuse(events.Code_MALFORMED, fmt.Sprintf("%d nodes are asked for at once, at most %d are", len(nodes), lookNodes))
	}
	l.Nodes = nil
	all := &tasks.Reply{}
	var mu sync.Mutex
	var done sync.WaitGroup
	slots := make(chan struct{}, looksAtOnce)
	var silent []string
	for _, node := range nodes {
		slots <- struct{}{}
		done.Go(func() {
			defer func() { <-slots }()
			r := c.askStep(q, node, lookTime).GetStep()
			mu.Lock()
			defer mu.Unlock()
			switch {
			case r == nil || r.Refusal == tasks.Refusal_FAILED:
				silent = append(silent, node)
			case r.Refusal != tasks.Refusal_NOT_REFUSED:
				all.Refusal, all.Text = r.Refusal, r.Text
			default:
				all.Seen = append(all.Seen, r.Seen...)
			}
		})
	}
	done.Wait()
	if len(silent) > 0 && all.Refusal == tasks.Refusal_NOT_REFUSED {
		slices.Sort(silent)
		all.Text = fmt.Sprintf("no word from %v", silent)
	}
	return &wire.Response{What: &wire.Response_Step{Step: all}}
}
