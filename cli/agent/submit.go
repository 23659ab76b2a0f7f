package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"stint/cli/wire"
	"stint/events"
	"stint/events/bus"
	"stint/projections"
)

const (
	componentsMost = 128             // of a heterogeneous job
	jobsMost       = 10_000          // of one request
	blobMost       = 8 << 20         // bytes packed into one blob
	intentMost     = 200 << 10       // bytes of one intent: what a message must be able to hold
	keptTime       = 2 * time.Minute // how long to wait for the bus's word that an intent is kept
	fullTime       = 5 * time.Second // … when its disk is known to be full
	verdictTime    = 10 * time.Second
	idTime         = 30 * time.Second // how long to wait for somebody who knows the id: a controller that is slow, or stopped …
	noneTime       = askTime          // … while there is no controller at all: as long as a question waits for one
	together       = 4                // so many further jobs of one request take of a user's allowance what one by itself does
)

// submit stores scripts and environments, then appends the intents, then waits for verdicts.
func (c *call) submit(s *wire.Submit) *wire.Response {
	if len(s.Jobs) == 0 || len(s.Jobs) > jobsMost {
		return refuse(events.Code_MALFORMED, fmt.Sprintf("a request may hold 1 to %d jobs, not %d", jobsMost, len(s.Jobs)))
	}
	limits := c.agent.limiter.limits
	if site, _ := c.agent.rules.now(c.agent.lookUp); site.Script > 0 {
		limits.Script = min(limits.Script, site.Script)
	}
	texts := func(i uint32, own []byte) ([]byte, bool) {
		if i == 0 {
			return own, true
		}
		if int64(i) > int64(len(s.Texts)) || len(own) > 0 {
			return nil, false
		}
		return s.Texts[i-1], true
	}
	for _, j := range s.Jobs {
		if n := len(j.Components); n == 0 || n > componentsMost {
			return refuse(events.Code_MALFORMED, fmt.Sprintf("a job may have 1 to %d components, not %d", componentsMost, n))
		}
		for _, p := range j.Components {
			script, known := texts(p.ScriptText, p.Script)
			environment, also := texts(p.EnvironmentText, p.Environment)
			switch {
			case p.Spec == nil:
				return refuse(events.Code_MALFORMED, "a component of a job says nothing about the job")
			case !known || !also:
				return refuse(events.Code_MALFORMED, "a component of a job names a text that the request has not")
			case len(script) > limits.Script:
				return refuse(events.Code_MALFORMED, fmt.Sprintf("the script has %d bytes, and at most %d are accepted; have it call a file that holds the rest", len(script), limits.Script))
			case len(environment) > limits.Environment:
				return refuse(events.Code_MALFORMED, fmt.Sprintf("the environment has %d bytes, and at most %d are accepted; submit with --export=NONE or name the variables that are needed", len(environment), limits.Environment))
			}
		}
	}
	if r := c.limited(1 + (len(s.Jobs)-1)/together); r != nil {
		return r
	}
	if r := c.agent.full(); r != nil {
		return r
	}
	author, no := c.authorOf(s)
	if no != nil {
		return no
	}
	pack := &packer{uid: author.Uid}
	shared := make([]*events.BlobRef, len(s.Texts))
	ref := func(i uint32, own []byte) *events.BlobRef {
		if i == 0 {
			return pack.add(own)
		}
		if shared[i-1] == nil {
			shared[i-1] = pack.add(s.Texts[i-1])
		}
		return shared[i-1]
	}
	intents := make([]*events.Intent, len(s.Jobs))
	bodies := make([]*events.Submit, len(s.Jobs))
	for i, j := range s.Jobs {
		body := &events.Submit{}
		for _, p := range j.Components {
			p.Spec.Script, p.Spec.Environment = ref(p.ScriptText, p.Script), ref(p.EnvironmentText, p.Environment)
			p.Spec.SubmitHost, p.Spec.SubmitSid = c.agent.cfg.Host, c.peer.session()
			body.Components = append(body.Components, p.Spec)
		}
		bodies[i] = body
		intents[i] = &events.Intent{Verb: events.Verb_SUBMIT, Nonce: nonce(), Author: author, Ids: uint32(len(j.Components))}
	}
	if err := pack.store(c.ctx, c.agent.cfg.Bus.Blobs()); errors.Is(err, context.DeadlineExceeded) {
		return refuse(events.Code_OK, fmt.Sprintf("the bus has not taken the script within %s, so nothing was submitted%s", keptTime, c.agent.short()))
	} else if err != nil {
		return refuse(events.Code_OK, "the bus did not take the script, so nothing was submitted: "+err.Error())
	}
	for i := range intents {
		data, err := bodies[i].MarshalVT()
		if err != nil {
			return refuse(events.Code_MALFORMED, "the job could not be encoded: "+err.Error())
		}
		if len(data) > intentMost {
			pack.erase(c.agent.cfg.Bus.Blobs(), pack.subjects()...)
			return refuse(events.Code_MALFORMED, fmt.Sprintf("the job's options have %d bytes, and at most %d are accepted", len(data), intentMost))
		}
		intents[i].Body = data
	}
	verdicts, resp := c.append(intents, s.WaitMs)
	if resp != nil {
		return resp
	}
	pack.eraseRefused(c.agent.cfg.Bus.Blobs(), bodies, verdicts)
	return &wire.Response{What: &wire.Response_Verdicts{Verdicts: &wire.Verdicts{Verdicts: verdicts}}}
}

// control appends one act.
func (c *call) control(ctl *wire.Control) *wire.Response {
	if ctl.Verb == events.Verb_SUBMIT || ctl.Verb == events.Verb_CRONTAB || ctl.Verb == events.Verb_VERB_UNKNOWN {
		return refuse(events.Code_MALFORMED, "that is not an act of control")
	}
	if len(ctl.Body) > intentMost && ctl.Verb != events.Verb_CONFIGURE || len(ctl.Body) > bus.MaxData-1024 {
		return refuse(events.Code_MALFORMED, fmt.Sprintf("the request has %d bytes, and at most %d are accepted; name fewer jobs at a time", len(ctl.Body), intentMost))
	}
	if r := c.limited(1); r != nil {
		return r
	}
	verdicts, resp := c.append([]*events.Intent{{Verb: ctl.Verb, Nonce: nonce(), Author: c.author(), Body: ctl.Body}}, ctl.WaitMs)
	if resp != nil {
		return resp
	}
	return &wire.Response{What: &wire.Response_Verdicts{Verdicts: &wire.Verdicts{Verdicts: verdicts}}}
}

// limited takes n intents from the caller's allowance, or says that they must wait. A little is waited for here.
func (c *call) limited(n int) *wire.Response {
	wait, ok := c.agent.limiter.take(c.peer.uid, n)
	if ok {
		return nil
	}
	if wait <= 2*time.Second {
		select {
		case <-c.ctx.Done():
		case <-time.After(wait):
		}
		if _, ok = c.agent.limiter.take(c.peer.uid, n); ok {
			return nil
		}
	}
	return refuse(events.Code_RATE_LIMITED, fmt.Sprintf("you have sent more requests than the agent takes from one user (%.0f a second); try again in %s, or send many jobs at once with `stint submit`",
		c.agent.limiter.limits.Rate, max(wait, time.Second).Round(time.Second)))
}

// append puts intents into the log and waits for what becomes of them. Once the bus has them they will be judged, whether
// or not anybody waits: so what is not known in time is told as undecided, never as failed.
func (c *call) append(all []*events.Intent, waitMs uint32) ([]*wire.Verdict, *wire.Response) {
	waits, err := c.agent.intents.put(c.ctx, all)
	if err != nil {
		return nil, refuse(events.Code_OK, "the agent is stopping")
	}
	out := make([]*wire.Verdict, len(all))
	bySeq := map[uint64][]int{}
	var seqs []uint64
	counts := map[uint64]uint32{}
	given := keptTime
	if free(c.agent.cfg.LogDir) < roomForActs {
		given = fullTime
	}
	patience := time.NewTimer(given)
	defer patience.Stop()
	for i, w := range waits {
		var p place
	waiting:
		for {
			select {
			case p = <-w.kept:
				break waiting
			case <-patience.C:
				return nil, refuse(events.Code_OK, fmt.Sprintf("the bus has not taken the request within %s, and may yet take it; look with squeue before you try again%s", given, c.agent.short()))
			case <-c.ctx.Done():
				return nil, refuse(events.Code_OK, "the agent is stopping: the request is not known to be kept, and may yet be")
			}
		}
		if p.err != nil {
			return nil, refuse(events.Code_OK, "the bus did not take the request: "+p.err.Error())
		}
		out[i] = &wire.Verdict{Seq: p.seq, Index: p.index, Undecided: true}
		if bySeq[p.seq] == nil {
			seqs = append(seqs, p.seq)
		}
		bySeq[p.seq] = append(bySeq[p.seq], i)
		counts[p.seq] = p.count
	}
	limit := verdictTime
	if waitMs > 0 {
		limit = time.Duration(min(waitMs, 600_000)) * time.Millisecond
	}
	deadline := time.Now().Add(limit)
	lacks := c.lacks(fmt.Sprintf("no controller runs; the request is in the log and is judged as soon as one does: waiting for that for up to %s; press Ctrl-C to wait no more", noneTime))
	for _, seq := range seqs {
		c.judge(seq, counts[seq], out, bySeq[seq], deadline, lacks)
	}
	return out, nil
}

// judge fills in the verdicts on the intents of one message: until all are known, or the deadline is over and at least
// their ids are.
func (c *call) judge(seq uint64, count uint32, out []*wire.Verdict, mine []int, deadline time.Time, lacks func()) {
	giveUp := time.Now().Add(idTime)
	none := time.Now().Add(noneTime) // moves on with each sign of a controller
	told := false
	for {
		wait := max(time.Until(deadline), 0)
		if !told && wait > 2*time.Second {
			wait = 2 * time.Second
		}
		q := &projections.Ask{LeastSeq: seq, What: &projections.Ask_Verdicts{Verdicts: &projections.AskVerdicts{Seq: seq, WaitMs: uint32(wait / time.Millisecond), Count: count}}}
		a, err := c.agent.askState(c.ctx, "verdicts", q, wait+3*time.Second, lacks)
		if !errors.Is(err, bus.ErrNobody) {
			none = time.Now().Add(noneTime)
		}
		if err == nil && a.Error == "" {
			v := a.GetVerdicts()
			fill(v, out, mine)
			if !open(out, mine) || time.Now().After(deadline) {
				return
			}
		} else if c.ctx.Err() != nil || time.Now().After(giveUp) || time.Now().After(none) {
			return
		} else if !errors.Is(err, context.DeadlineExceeded) {
			select {
			case <-c.ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
		if !told {
			told = true
			c.send(&wire.Response{Kept: true}) // the command tells it if the verdict is slow to come
		}
	}
}

// fill takes verdicts that are known over to those of this caller.
func fill(v *projections.AnswerVerdicts, out []*wire.Verdict, mine []int) {
	known := map[uint32]*projections.IntentVerdict{}
	for _, k := range v.GetVerdicts() {
		known[k.Index] = k
	}
	for _, i := range mine {
		o := out[i]
		if ids := v.GetIds(); int(o.Index) < len(ids) {
			o.Job = ids[o.Index]
		}
		if k := known[o.Index]; k != nil {
			o.Undecided, o.Code, o.Text, o.Targets, o.Touched = false, k.Code, k.Text, k.Verdicts, k.Touched
			if k.Job != 0 {
				o.Job = k.Job
			}
		}
	}
}

func open(out []*wire.Verdict, mine []int) bool {
	for _, i := range mine {
		if out[i].Undecided {
			return true
		}
	}
	return false
}

// packer gathers scripts and environments into few blobs. Equal ones are stored once: the jobs of one request mostly
// share their environment.
type packer struct {
	uid   uint32
	blobs []*blob
	parts map[[sha256.Size]byte]*events.BlobRef
}

type blob struct {
	subject string
	data    []byte
}

// add returns the reference that data will have, nil for none.
func (p *packer) add(data []byte) *events.BlobRef {
	if len(data) == 0 {
		return nil
	}
	sum := sha256.Sum256(data)
	if ref := p.parts[sum]; ref != nil {
		return ref.CloneVT()
	}
	if n := len(p.blobs); n == 0 || len(p.blobs[n-1].data)+len(data) > blobMost {
		p.blobs = append(p.blobs, &blob{subject: events.SubjectBlob(p.uid, hex.EncodeToString(nonce()))})
	}
	b := p.blobs[len(p.blobs)-1]
	ref := &events.BlobRef{Subject: b.subject, Offset: uint64(len(b.data)), Length: uint64(len(data)), Sha256: sum[:]}
	b.data = append(b.data, data...)
	if p.parts == nil {
		p.parts = map[[sha256.Size]byte]*events.BlobRef{}
	}
	p.parts[sum] = ref
	return ref.CloneVT()
}

// store keeps the blobs, or none.
func (p *packer) store(ctx context.Context, blobs bus.Blobs) error {
	ctx, cancel := context.WithTimeout(ctx, keptTime)
	defer cancel()
	for _, b := range p.blobs {
		if _, err := blobs.Put(ctx, b.subject, b.data); err != nil {
			p.erase(blobs, p.subjects()...)
			return err
		}
	}
	return nil
}

func (p *packer) subjects() []string {
	out := make([]string, len(p.blobs))
	for i, b := range p.blobs {
		out[i] = b.subject
	}
	return out
}

// erase empties blobs, in its own time: one that stays behind costs space, nothing else. It stores nothing in their
// place rather than remove them, since whoever may remove from the stream may remove all.
func (p *packer) erase(blobs bus.Blobs, subjects ...string) {
	if len(subjects) == 0 {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, s := range subjects {
			blobs.Put(ctx, s, nil)
		}
	}()
}

// eraseRefused removes the blobs that no accepted or undecided job refers to.
func (p *packer) eraseRefused(blobs bus.Blobs, bodies []*events.Submit, verdicts []*wire.Verdict) {
	used := map[string]bool{}
	for i, v := range verdicts {
		if v.Undecided || v.Code == events.Code_OK {
			for _, s := range bodies[i].Components {
				used[s.GetScript().GetSubject()], used[s.GetEnvironment().GetSubject()] = true, true
			}
		}
	}
	var gone []string
	for _, s := range p.subjects() {
		if !used[s] {
			gone = append(gone, s)
		}
	}
	p.erase(blobs, gone...)
}
