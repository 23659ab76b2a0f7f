package sim

import (
	"fmt"

	"stint/events"
	"stint/projections"
)

// agent is the agent of a host: it packs what users wish into messages, sends each until it is acknowledged, and asks the
// controllers what became of it.
type agent struct {
	process
	host   string
	starts int
	sent   int
	queue  []*wish
	out    int
}

// wish is an intent, and who waits for the word that it is kept, and for its verdict.
type wish struct {
	intent *events.Intent
	told   func(v *projections.IntentVerdict)
}

const outstandingMost = 2

func newAgent(w *World, host string) *agent {
	a := &agent{process: process{w: w, kind: "agent", alive: true}, host: host}
	a.died = func() {
		w.tell("the agent of %s is gone", host)
		queue := a.queue
		a.queue, a.out = nil, 0
		w.after(Second+w.rng.Int64N(20*Second), func() {
			a.alive = true
			a.starts++
			for _, i := range queue { // some ask again, with the same nonce
				if w.rng.IntN(2) == 0 {
					a.put(i)
				}
			}
		})
	}
	return a
}

// Wish has an agent keep an intent. told hears the verdict, if the agent lives to hear it.
func (w *World) Wish(author *events.Author, verb events.Verb, body interface{ MarshalVT() ([]byte, error) }, told func(*projections.IntentVerdict)) {
	w.nonce++
	i := &events.Intent{Verb: verb, Nonce: fmt.Appendf(nil, "%08d%08d", w.opts.Seed%100_000_000, w.nonce), Author: author, Body: encode(body)}
	switch b := body.(type) {
	case *events.Submit:
		i.Ids = uint32(len(b.Components))
	case *events.Crontab:
		i.Ids = uint32(len(b.Entries))
	}
	a := w.agents[w.rng.IntN(len(w.agents))]
	author.Host = a.host
	a.put(&wish{i, told})
}

func (a *agent) put(i *wish) {
	if !a.alive {
		return // its author is told that nothing was kept
	}
	a.queue = append(a.queue, i)
	a.later(a.w.rng.Int64N(3*Millisecond), a.pump)
}

// pump sends what waits, while not too much is on its way.
func (a *agent) pump() {
	if len(a.queue) == 0 || a.out >= outstandingMost {
		return
	}
	n := min(len(a.queue), 1+a.w.rng.IntN(8))
	batch := a.queue[:n:n]
	m := &events.IntentBatch{}
	for _, i := range batch {
		m.Intents = append(m.Intents, i.intent)
	}
	if a.w.flaw == flawEarly {
		for _, i := range batch {
			a.w.watch.kept(i.intent)
		}
	}
	if !a.passes("packed intents") {
		return
	}
	a.queue = a.queue[n:]
	a.out++
	a.sent++
	a.publish(events.SubjectIntentHost(a.host), fmt.Sprintf("%s-%d-%d", a.host, a.starts, a.sent), encode(m), func(seq uint64) {
		a.out--
		for i, one := range batch {
			if a.w.watch != nil {
				a.w.watch.kept(one.intent)
			}
			a.await(one, seq, uint32(i))
		}
		if a.passes("heard that intents are kept") {
			a.pump()
		}
	})
}

// await asks until there is a verdict.
func (a *agent) await(i *wish, seq uint64, index uint32) {
	a.later(200*Millisecond+a.w.transit(), func() {
		c := a.w.controllers[a.w.rng.IntN(len(a.w.controllers))]
		if !c.alive || !c.tip || a.w.now < c.pause || c.fold.Seq() < seq {
			a.await(i, seq, index)
			return
		}
		v := c.fold.VerdictOf(seq, index)
		switch {
		case v != nil:
			if a.w.flaw == flawAnswer {
				v = v.CloneVT()
				v.FirstId++
			}
			if a.w.watch != nil {
				a.w.watch.answered(i.intent, v)
			}
			if i.told != nil {
				i.told(v)
			}
		default:
			a.await(i, seq, index)
		}
	})
}
