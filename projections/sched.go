package projections

import (
	"bytes"

	"stint/events"
)

// sched folds one message of the leader.
func (c *Cluster) sched(e *events.Event) {
	term := c.term.copy()
	term.LastSchedSeq = c.seq // void or not: the stream counts it
	c.term = term
	switch {
	case e.Void != "":
		c.void(-1, e.Void)
	case e.Sched.GetTerm() != nil:
		c.beginTerm(e.Sched.GetTerm())
	case e.Sched.GetCycle() != nil:
		c.cycle(e.Sched.GetCycle())
	default:
		c.void(-1, voidKind)
	}
}

func (c *Cluster) beginTerm(t *events.Term) {
	switch {
	case len(t.GetNonce()) == 0:
		c.void(-1, voidTermEmpty)
	case bytes.Equal(t.GetNonce(), c.term.Nonce):
		c.void(-1, voidTermAgain)
	default:
		before := c.term.Controller
		c.term = &TermState{
			Nonce: t.GetNonce(), Controller: t.GetController(), Build: t.GetBuild(), Rules: t.GetRules(), Decider: t.GetDecider(),
			Derivation: t.GetDerivation(), Seq: c.seq, NowUs: t.GetNowUs(), LastSchedSeq: c.seq, BegunUs: t.GetNowUs(),
		}
		c.controllerChanged(before, t.GetController())
		c.verdict.Changed = true
	}
}

func (c *Cluster) cycle(m *events.Cycle) {
	switch {
	case len(m.GetTerm()) == 0 || !bytes.Equal(m.GetTerm(), c.term.Nonce):
		c.void(-1, voidCycleTerm)
		return
	case m.GetN() != c.term.N+1:
		c.void(-1, voidCycleNumber)
		return
	}
	c.term.N, c.term.Cycle, c.term.NowUs = m.GetN(), m.GetCycle(), m.GetNowUs() // a copy made for this message
	c.verdict.Changed = true
	c.now = m.GetNowUs()
	for i, f := range m.GetFacts() {
		c.index, c.fact = i, f
		if why := c.schedFact(f); why != "" {
			c.void(i, why)
		}
	}
}

// schedFact gives one decision of the leader its effect, or says why it has none.
func (c *Cluster) schedFact(f *events.Fact) (void string) {
	switch k := f.GetKind().(type) {
	case *events.Fact_Admitted:
		return c.admitted(k.Admitted)
	case *events.Fact_Judged:
		return c.judgedFact(k.Judged)
	case *events.Fact_Placed:
		return c.placed(k.Placed)
	case *events.Fact_PlacedTogether:
		return c.placedTogether(k.PlacedTogether)
	case *events.Fact_Stopping:
		return c.stopping(k.Stopping)
	case *events.Fact_Ended:
		return c.ended(k.Ended)
	case *events.Fact_Held:
		return c.held(k.Held)
	case *events.Fact_Released:
		return c.released(k.Released)
	case *events.Fact_Updated:
		return c.updated(k.Updated)
	case *events.Fact_Requeued:
		return c.requeued(k.Requeued)
	case *events.Fact_NodeChanged:
		return c.nodeChanged(k.NodeChanged)
	case *events.Fact_Configured:
		return c.configured(k.Configured)
	case *events.Fact_Signalled:
		return c.signalled(k.Signalled)
	case *events.Fact_NodeLost:
		return c.nodeLost(k.NodeLost)
	case *events.Fact_Suspended:
		return c.suspended(k.Suspended)
	case *events.Fact_Resumed:
		return c.resumed(k.Resumed)
	case *events.Fact_NodeReturned:
		return c.nodeReturned(k.NodeReturned)
	case *events.Fact_PartitionChanged:
		return c.partitionChanged(k.PartitionChanged)
	case *events.Fact_Notified:
		return c.notified(k.Notified)
	case *events.Fact_StepLimited:
		return c.stepLimited(k.StepLimited)
	case *events.Fact_ConfigSet:
		return c.configSet(k.ConfigSet)
	case *events.Fact_Administered:
		return c.administered(k.Administered)
	case *events.Fact_CrontabSet:
		return c.crontabSet(k.CrontabSet)
	case *events.Fact_ZoneSet:
		return c.zoneSet(k.ZoneSet)
	case *events.Fact_ClockSet:
		return c.clockSet(k.ClockSet)
	case *events.Fact_TriggerSet:
		return c.triggerSet(k.TriggerSet)
	case *events.Fact_TriggersCleared:
		return c.triggersCleared(k.TriggersCleared)
	case *events.Fact_TriggerPulled:
		return c.triggerPulled(k.TriggerPulled)
	}
	return voidKind
}

// judgedFact: the verdict on an intent that did not become a job.
func (c *Cluster) judgedFact(f *events.Judged) string {
	item := c.waits(f.GetIntent())
	if item == nil {
		return voidNoIntent
	}
	c.settle(item, &IntentVerdict{Code: f.GetCode(), Text: f.GetText(), Verdicts: f.GetVerdicts(), Touched: f.GetTouched()})
	return ""
}

// administered: acts on accounts, users, QoS and limits, all of them or none.
func (c *Cluster) administered(f *events.Administered) string {
	item := c.waits(f.GetIntent())
	if item == nil || item.GetIntent().GetVerb() != events.Verb_ADMINISTER {
		return voidNoIntent
	}
	next, err := c.policy.After(f.GetPolicy(), c.config.GetCluster(), f.GetBy(), c.now, c.seq)
	if err != nil {
		c.voidMore(c.index, voidPolicy, err.Error())
		return ""
	}
	c.policy = next
	c.settle(item, &IntentVerdict{Touched: uint32(len(f.GetPolicy().GetActs()))})
	c.verdict.Changed = true
	return ""
}
