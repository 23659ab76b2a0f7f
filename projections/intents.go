package projections

import (
	"fmt"

	"stint/events"
)

// How much of what was told is remembered: a nonce for as long as a client may repeat itself, a verdict for as long as
// somebody may wait for it. Both are bounded in number, whatever happens.
const (
	keepNonces   = 65536
	keepNoncesUs = 10 * 60 * 1000000
	passMost     = 60 * 1000000 // of the time between two messages; nobody can tell a quiet hour from a clock that was set
	keepVerdicts = 16384
	maxIDs       = 128        // of one intent
	lastID       = 0xfffffff0 // job ids end here
	nonceLength  = 16
)

// intents takes over the wishes of one message: numbers them, remembers them, and leaves them for admission. Only the frame
// is read.
func (c *Cluster) intents(e *events.Event) {
	c.forgetNonces()
	if len(e.Intents.GetIntents()) == 0 {
		c.void(-1, voidEmpty)
		return
	}
	for i, intent := range e.Intents.GetIntents() {
		c.index = i
		if why := frame(e, intent); why != "" {
			c.void(i, why)
			code := events.Code_MALFORMED
			if why == voidUnvouched || why == voidAuthor {
				code = events.Code_ACCESS_DENIED
			}
			c.judge(&IntentVerdict{Seq: c.seq, Index: uint32(i), Code: code, Text: why})
			continue
		}
		if n, known := c.told[nonce(intent.GetNonce())]; known {
			first := &c.tellings[n-c.forgotten]
			c.void(i, voidTold)
			c.judge(&IntentVerdict{Seq: c.seq, Index: uint32(i), Code: events.Code_BAD_STATE, Job: first.first, FirstId: first.first,
				Text: fmt.Sprintf("this was told before, as intent %d of message %d", first.index, first.seq)})
			continue
		}
		if uint64(c.nextID)+uint64(intent.GetIds()) > lastID {
			c.void(i, voidNoIDs)
			c.judge(&IntentVerdict{Seq: c.seq, Index: uint32(i), Code: events.Code_QUEUE_FULL, Text: voidNoIDs})
			continue
		}
		item := &InboxItem{Seq: c.seq, Index: uint32(i), AtUs: c.at, Intent: intent, Subject: e.Subject}
		if intent.GetIds() > 0 {
			item.FirstId = c.nextID
			c.nextID += intent.GetIds()
		}
		c.tell(telling{nonce: nonce(intent.GetNonce()), at: c.passed, seq: c.seq, index: uint32(i), first: item.FirstId})
		c.inbox = append(c.inbox, item)
		c.waiting[intentKey{c.seq, uint32(i)}] = item
		c.verdict.Changed = true
	}
	c.forgetNonces()
}

// frame is why the outer frame of an intent does not hold, if it does not.
func frame(e *events.Event, intent *events.Intent) string {
	_, known := events.Verb_name[int32(intent.GetVerb())]
	submits, crontab := intent.GetVerb() == events.Verb_SUBMIT, intent.GetVerb() == events.Verb_CRONTAB
	switch {
	case len(intent.GetNonce()) != nonceLength:
		return voidNonce
	case !known || intent.GetVerb() == events.Verb_VERB_UNKNOWN:
		return voidVerb
	case submits != (intent.GetIds() > 0) && !crontab || intent.GetIds() > maxIDs:
		return voidIDs
	case intent.GetAuthor() == nil, e.Author == events.AuthorUser && intent.GetAuthor().GetUser() != e.Name:
		return voidAuthor
	case e.Author == events.AuthorUser:
		// The subject vouches for the name, but for the numbers nobody does: whoever holds a credential for it could write
		// another's user id, or root's. Until an authority says which numbers belong to the name, this door is shut.
		return voidUnvouched
	}
	return ""
}

// nonce is what an intent is known by when it is told again, telling where it was told first.
type nonce [nonceLength]byte

type telling struct {
	nonce nonce
	at    int64 // of what had passed
	seq   uint64
	index uint32
	first uint32 // the first id that it took
}

func (c *Cluster) tell(t telling) {
	c.told[t.nonce] = c.forgotten + uint64(len(c.tellings))
	c.tellings = append(c.tellings, t)
}

func (c *Cluster) forgetNonces() {
	n := 0
	for n < len(c.tellings) && (len(c.tellings)-n > keepNonces || c.tellings[n].at+keepNoncesUs <= c.passed) {
		delete(c.told, c.tellings[n].nonce)
		n++
	}
	c.tellings = c.tellings[n:]
	c.forgotten += uint64(n)
}

// nonces are the tellings as a snapshot has them.
func (c *Cluster) nonces() []*NonceRef {
	refs := make([]NonceRef, len(c.tellings))
	list := make([]*NonceRef, len(c.tellings))
	for i := range c.tellings {
		t := &c.tellings[i]
		refs[i].Nonce, refs[i].AtUs, refs[i].Seq, refs[i].Index, refs[i].FirstId = t.nonce[:], t.at, t.seq, t.index, t.first
		list[i] = &refs[i]
	}
	return list
}

// verdictList are the verdicts on the intents of one message, in the order in which they were given. A list of the current
// epoch has been shown to nobody and may grow in place.
type verdictList struct {
	epoch uint64
	list  []*IntentVerdict
}

// judge gives a verdict to those who wait for it, and forgets the oldest ones, by whole messages.
func (c *Cluster) judge(v *IntentVerdict) {
	l, known := c.verdicts.get(v.Seq)
	switch {
	case !known:
		l = &verdictList{epoch: c.epoch}
		c.judged = append(c.judged, v.Seq)
		c.verdicts.set(c.epoch, v.Seq, l)
	case l.epoch < c.epoch:
		l = &verdictList{c.epoch, append(make([]*IntentVerdict, 0, len(l.list)+8), l.list...)}
		c.verdicts.set(c.epoch, v.Seq, l)
	}
	l.list = append(l.list, v)
	c.kept++
	c.verdict.Changed = true
	for c.kept > keepVerdicts && len(c.judged) > 1 {
		old, _ := c.verdicts.get(c.judged[0])
		c.kept -= len(old.list)
		c.verdicts.del(c.epoch, c.judged[0])
		c.judged = c.judged[1:]
	}
}

// waits is the intent that a fact speaks of, if it still waits for a verdict.
func (c *Cluster) waits(ref *events.IntentRef) *InboxItem {
	key := intentKey{ref.GetSeq(), ref.GetIndex()}
	item, known := c.waiting[key]
	if !known && c.parent != nil {
		return c.parent.waiting[key]
	}
	return item
}

// settle takes an intent out of the inbox and gives its verdict.
func (c *Cluster) settle(item *InboxItem, v *IntentVerdict) {
	v.Seq, v.Index, v.FirstId = item.Seq, item.Index, item.FirstId
	if c.parent != nil {
		c.waiting[intentKey{item.Seq, item.Index}] = nil
	} else {
		delete(c.waiting, intentKey{item.Seq, item.Index})
		c.inboxGone++
	}
	c.judge(v)
}

// sweepInbox drops settled intents: once a message, so that settling thousands costs one pass. Readers keep the list they
// have.
func (c *Cluster) sweepInbox() {
	if c.inboxGone == 0 {
		return
	}
	head := 0
	for head < len(c.inbox) && !c.stillWaits(c.inbox[head]) {
		head++
	}
	rest := c.inbox[head:]
	if head < c.inboxGone {
		kept := make([]*InboxItem, 0, len(c.waiting))
		for _, item := range rest {
			if c.stillWaits(item) {
				kept = append(kept, item)
			}
		}
		rest = kept
	}
	if len(rest) == 0 {
		rest = nil
	}
	c.inbox, c.inboxGone = rest, 0
}

func (c *Cluster) stillWaits(item *InboxItem) bool {
	return c.waiting[intentKey{item.Seq, item.Index}] != nil
}
