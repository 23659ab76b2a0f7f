package agent

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"stint/cli/wire"
	"stint/events"
	"stint/executor/tasks"
	"stint/projections"
)

// kind is a sort of request by the name and the number of Slurm's call that asks for the same, which is how sdiag lists them.
type kind struct {
	name   string
	number uint32
}

var verbKinds = map[events.Verb]kind{
	events.Verb_CANCEL: {"REQUEST_KILL_JOB", 5032}, events.Verb_HOLD: {"REQUEST_UPDATE_JOB", 3001}, events.Verb_RELEASE: {"REQUEST_UPDATE_JOB", 3001},
	events.Verb_REQUEUE: {"REQUEST_JOB_REQUEUE", 5023}, events.Verb_UPDATE_JOB: {"REQUEST_UPDATE_JOB", 3001}, events.Verb_UPDATE_STEP: {"REQUEST_UPDATE_JOB_STEP", 5019}, events.Verb_UPDATE_NODE: {"REQUEST_UPDATE_NODE", 3002},
	events.Verb_CONFIGURE: {"REQUEST_RECONFIGURE", 1003}, events.Verb_SUSPEND: {"REQUEST_SUSPEND", 5014}, events.Verb_RESUME: {"REQUEST_SUSPEND", 5014},
}

// kindOf says of which kind a request is.
func kindOf(req *wire.Request) kind {
	switch w := req.What.(type) {
	case *wire.Request_Submit:
		return kind{"REQUEST_SUBMIT_BATCH_JOB", 4003}
	case *wire.Request_Crontab:
		return kind{"REQUEST_UPDATE_CRONTAB", 2202}
	case *wire.Request_Control:
		if k, ok := verbKinds[w.Control.GetVerb()]; ok {
			return k
		}
		return kind{"STINT_" + w.Control.GetVerb().String(), 0}
	case *wire.Request_Ask:
		switch q := w.Ask.GetWhat().(type) {
		case *projections.Ask_Jobs:
			switch {
			case len(q.Jobs.GetIds()) == 1:
				return kind{"REQUEST_JOB_INFO_SINGLE", 2021}
			case len(q.Jobs.GetUsers()) == 1:
				return kind{"REQUEST_JOB_USER_INFO", 2039}
			}
			return kind{"REQUEST_JOB_INFO", 2003}
		case *projections.Ask_Nodes:
			return kind{"REQUEST_NODE_INFO", 2007}
		case *projections.Ask_Config:
			return kind{"REQUEST_BUILD_INFO", 2001}
		case *projections.Ask_Status:
			return kind{"REQUEST_PING", 1008}
		case *projections.Ask_Wait:
			return kind{"REQUEST_JOB_READY", 4019}
		}
		return kind{"STINT_ASK", 0}
	case *wire.Request_Account:
		return kind{"DBD_GET_JOBS_COND", 1444}
	case *wire.Request_Step:
		switch w.Step.GetWhat().(type) {
		case *tasks.Question_Look:
			return kind{"REQUEST_JOB_STEP_STAT", 6013}
		case *tasks.Question_Find:
			return kind{"REQUEST_STEP_LAYOUT", 5003}
		}
		return kind{"REQUEST_JOB_STEP_CREATE", 5001}
	case *wire.Request_Blob:
		return kind{"REQUEST_BATCH_SCRIPT", 2051}
	case *wire.Request_Stats:
		return kind{"REQUEST_STATS_INFO", 2035}
	}
	return kind{"STINT_HELLO", 0}
}

// calls counts the requests of this host by kind and by user.
type calls struct {
	mu    sync.Mutex
	since time.Time
	kinds map[kind]*wire.Calls
	users map[uint32]*wire.Calls
}

func newCalls() *calls {
	c := &calls{}
	c.reset()
	return c
}

func (c *calls) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.kinds, c.users = time.Now(), map[kind]*wire.Calls{}, map[uint32]*wire.Calls{}
}

// count counts one request that was answered.
func (c *calls) count(k kind, uid uint32, took time.Duration, refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds[k] == nil {
		c.kinds[k] = &wire.Calls{Name: k.name, Number: k.number}
	}
	if c.users[uid] == nil {
		c.users[uid] = &wire.Calls{Number: uid}
	}
	for _, n := range []*wire.Calls{c.kinds[k], c.users[uid]} {
		n.Count++
		n.TotalUs += uint64(max(took.Microseconds(), 1))
		if refused {
			n.Refused++
		}
	}
}

// list returns copies, the most frequent first.
func (c *calls) list() (kinds, users []*wire.Calls, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.kinds {
		kinds = append(kinds, n.CloneVT())
	}
	for _, n := range c.users {
		users = append(users, n.CloneVT())
	}
	for _, l := range [][]*wire.Calls{kinds, users} {
		slices.SortFunc(l, func(a, b *wire.Calls) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Number, b.Number), cmp.Compare(a.Name, b.Name))
		})
	}
	return kinds, users, c.since
}

// stats answers with what was counted here and by the leader; anew first, if an administrator asks for it.
func (c *call) stats(q *wire.Stats) *wire.Response {
	a := c.agent
	if q.GetReset_() {
		switch may, err := c.administers(); {
		case err != nil:
			return refuse(events.Code_OK, sentence(err, "controller"))
		case !may:
			return refuse(events.Code_ACCESS_DENIED, "only an administrator may reset the statistics")
		}
	}
	ask := &projections.Ask{Uid: &c.peer.uid, What: &projections.Ask_Stats{Stats: &projections.AskStats{Reset_: q.GetReset_()}}}
	answer, err := a.askState(c.ctx, "stats", ask, askTime, nil)
	if err != nil {
		return refuse(events.Code_OK, sentence(err, "controller"))
	}
	if answer.Error != "" {
		return refuse(events.Code_OK, answer.Error)
	}
	if q.GetReset_() {
		a.calls.reset()
	}
	out := &wire.Counted{Answer: answer, Serving: uint32(a.serving.Load()), Waiting: uint32(a.intents.waiting())}
	var since time.Time
	out.Kinds, out.Users, since = a.calls.list()
	out.SinceUs = since.UnixMicro()
	for _, u := range out.Users {
		if u.Name = a.names.User(c.ctx, u.Number, u.Number).User; u.Name == "" {
			u.Name = fmt.Sprint(u.Number)
		}
	}
	begin := time.Now()
	for range 999 {
		time.Now()
	}
	out.ClockUs = uint32(time.Since(begin).Microseconds())
	return &wire.Response{What: &wire.Response_Counted{Counted: out}}
}
