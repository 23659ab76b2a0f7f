package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"stint/cli/slurm/conf"
	"stint/cli/wire"
	"stint/events"
	"stint/projections"
)

// rulesAge is how old what the agent knows of the site's configuration may be; a change of it holds here after that at the latest.
const rulesAge = 5 * time.Second

// rules is what the site says of requests, as the configuration in force has it. A controller is asked for it while requests come,
// and none of them waits for that.
type rules struct {
	mu       sync.Mutex
	requests conf.Requests
	exempt   []uint32
	at       time.Time
	asking   bool
}

// now returns the rules, and has them looked up again if they are old.
func (r *rules) now(look func()) (requests conf.Requests, exempt []uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asking && time.Since(r.at) > rulesAge {
		r.asking = true
		go look()
	}
	return r.requests, r.exempt
}

// lookUp asks a controller for the configuration in force.
func (a *Agent) lookUp() {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	root := uint32(0)
	answer, err := a.askState(ctx, "config", &projections.Ask{Uid: &root, What: &projections.Ask_Config{Config: &projections.AskConfig{}}}, askTime, nil)
	a.rules.mu.Lock()
	defer a.rules.mu.Unlock()
	a.rules.asking, a.rules.at = false, time.Now()
	if c := answer.GetConfig().GetConfig(); err == nil && c != nil {
		a.rules.requests, a.rules.exempt = conf.RequestsOf(c.GetSettings()), c.GetAdminUids()
	}
}

// allowed takes one request from the caller's allowance, or says that it has to wait. Root and administrators may ask as much as
// they like, and so may the only user of a cluster: nobody else would notice.
func (c *call) allowed(req *wire.Request) *wire.Response {
	if c.peer.uid == 0 || c.agent.cfg.Only != nil {
		return nil
	}
	r, exempt := c.agent.rules.now(c.agent.lookUp)
	if slices.Contains(exempt, c.peer.uid) || !takesToken(req, r.All) {
		return nil
	}
	ok, log := c.agent.limiter.request(c.peer.uid, r)
	if log {
		c.agent.log.Warn("a user asks more than one may, and is told to wait", "uid", c.peer.uid, "request", kindOf(req).name, "a second", r.PerSecond())
	}
	if ok {
		return nil
	}
	return refuse(events.Code_RATE_LIMITED, fmt.Sprintf("you ask more than the cluster answers one user, %d requests at once and %.3g a second after that; ask for many jobs at once, less often, or follow what happens with `stint events --follow`",
		r.Bucket, r.PerSecond()))
}

// takesToken says whether a request is one of those that are limited by how often they come. What submits and changes has a limit
// of its own, and where the site limits requests, both.
func takesToken(req *wire.Request, all bool) bool {
	switch req.What.(type) {
	case *wire.Request_Ask, *wire.Request_Account, *wire.Request_Blob, *wire.Request_Stats:
		return true
	case *wire.Request_Submit, *wire.Request_Control, *wire.Request_Step:
		return all
	}
	return false
}
