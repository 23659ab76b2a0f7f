package agent

import (
	"context"
	"errors"
	"fmt"

	"stint/cli/wire"
	"stint/events"
)

// crontab stores the scripts of a crontab's entries, then appends it as one act, and waits for the verdict. Whether the caller may
// write another's is for admission to say; who that other is, is the agent's to know.
func (c *call) crontab(t *wire.Crontab) *wire.Response {
	if len(t.Entries) > componentsMost {
		return refuse(events.Code_MALFORMED, fmt.Sprintf("a crontab may have %d entries, not %d; have one of them do more", componentsMost, len(t.Entries)))
	}
	limits := c.agent.limiter.limits
	for _, p := range t.Entries {
		switch {
		case p.Spec == nil:
			return refuse(events.Code_MALFORMED, "an entry of the crontab says nothing about the job")
		case len(p.Script) > limits.Script || len(p.Environment) > limits.Environment:
			return refuse(events.Code_MALFORMED, "an entry of the crontab is too long; have it call a script that holds the rest")
		}
	}
	if r := c.limited(1); r != nil {
		return r
	}
	if len(t.Entries) > 0 {
		if r := c.agent.full(); r != nil {
			return r
		}
	}
	body := &events.Crontab{Text: t.Text, Remove: t.Remove}
	author := c.author()
	owner := author
	if t.Of != "" {
		uid, ok := c.agent.names.number(c.ctx, "passwd", t.Of)
		if !ok {
			return refuse(events.Code_MALFORMED, "there is no user "+t.Of)
		}
		if uid != author.Uid {
			on := &call{agent: c.agent, ctx: c.ctx, peer: peer{uid: uid, gid: uid}}
			owner = on.author()
			body.Owner = owner
		}
	}
	pack := &packer{uid: owner.Uid}
	for _, p := range t.Entries {
		p.Spec.Script, p.Spec.Environment = pack.add(p.Script), pack.add(p.Environment)
		p.Spec.SubmitHost, p.Spec.SubmitSid = c.agent.cfg.Host, c.peer.session()
		body.Entries = append(body.Entries, p.Spec)
	}
	if err := pack.store(c.ctx, c.agent.cfg.Bus.Blobs()); errors.Is(err, context.DeadlineExceeded) {
		return refuse(events.Code_OK, fmt.Sprintf("the bus has not taken the crontab within %s, so nothing was changed; `stint status` and `stint doctor` say what is wrong", keptTime))
	} else if err != nil {
		return refuse(events.Code_OK, "the bus did not take the crontab, so nothing was changed: "+err.Error())
	}
	data, err := body.MarshalVT()
	if err != nil || len(data) > intentMost {
		pack.erase(c.agent.cfg.Bus.Blobs(), pack.subjects()...)
		return refuse(events.Code_MALFORMED, fmt.Sprintf("the crontab and the options of its entries have %d bytes, and at most %d are accepted", len(data), intentMost))
	}
	verdicts, resp := c.append([]*events.Intent{{Verb: events.Verb_CRONTAB, Nonce: nonce(), Author: author, Ids: uint32(len(body.Entries)), Body: data}}, 0)
	if resp != nil {
		return resp
	}
	pack.eraseRefused(c.agent.cfg.Bus.Blobs(), []*events.Submit{{Components: body.Entries}}, verdicts)
	return &wire.Response{What: &wire.Response_Verdicts{Verdicts: &wire.Verdicts{Verdicts: verdicts}}}
}
