package agent

import (
	"context"
	"errors"
	"fmt"

	"stint/cli/wire"
	"stint/events"
	"stint/events/bus"
	"stint/projections"
)

// blob hands out a script or an environment to who submitted it: its subject says whose it is. Administrators may have all.
func (c *call) blob(ref *events.BlobRef) *wire.Response {
	if !events.BlobOf(ref.GetSubject(), c.peer.uid) {
		switch may, err := c.administers(); {
		case err != nil:
			return refuse(events.Code_OK, "whether you may read that script could not be found out: "+sentence(err, "controller"))
		case !may:
			return refuse(events.Code_ACCESS_DENIED, "that script is another user's")
		}
	}
	if limits := c.agent.limiter.limits; ref.GetLength() > uint64(max(limits.Script, limits.Environment)) || len(ref.GetSha256()) != len(bus.BlobRef{}.SHA256) {
		return refuse(events.Code_MALFORMED, "that is not a reference to a script")
	}
	ctx, cancel := context.WithTimeout(c.ctx, askTime)
	defer cancel()
	data, err := c.agent.cfg.Bus.Blobs().Get(ctx, bus.BlobRef{
		Subject: ref.GetSubject(), Offset: ref.GetOffset(), Length: ref.GetLength(), SHA256: [len(bus.BlobRef{}.SHA256)]byte(ref.GetSha256()),
	})
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return refuse(events.Code_OK, "the script is not kept any more")
	case err != nil:
		return refuse(events.Code_OK, fmt.Sprintf("the script could not be read: %v", err))
	}
	return &wire.Response{What: &wire.Response_Blob{Blob: data}}
}

// administers says whether who calls is an administrator under the configuration in force, as everywhere.
func (c *call) administers() (bool, error) {
	if projections.IsAdmin(nil, c.peer.uid, "") {
		return true, nil
	}
	q := &projections.Ask{Uid: &c.peer.uid, LeastSeq: c.agent.seen.Load(), What: &projections.Ask_Config{Config: &projections.AskConfig{}}}
	a, err := c.agent.askState(c.ctx, "config", q, askTime, c.lacks(lacking("controller", askTime)))
	if err != nil {
		return false, err
	}
	return projections.IsAdmin(a.GetConfig().GetConfig(), c.peer.uid, c.agent.names.User(c.ctx, c.peer.uid, c.peer.gid).User), nil
}
